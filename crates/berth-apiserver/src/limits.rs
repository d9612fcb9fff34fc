//! How much one server holds at a time, and how much of it one user may have.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A long answer is sent in pieces of about so many bytes.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// What is longer is a long answer.
pub(crate) const FULL_BYTES_MAX: usize = 16 << 10;
/// Answers larger than this are compressed for clients that take it.
pub(crate) const GZIP_ABOVE_BYTES: usize = 128 << 10;

/// The bounds that a server can be given. Those that no client feels in ordinary use are constants where they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that only read, answered at once; 0: no bound. Those of `system:masters`, and for health, are not counted.
    pub requests_inflight: usize,
    /// The same of requests that change something.
    pub mutating_requests_inflight: usize,
    /// What answers take while they are made and sent, in bytes; of one user no more than three quarters. Those of `system:masters` are
    /// not counted; those to requests that change something are bounded by `mutating_requests_inflight`.
    pub answer_bytes: usize,
    /// What the writes of users take while they are worked on, decoded and with what is stored, in bytes; of one share no more than three quarters.
    pub work_bytes: usize,
    /// What the heads of requests take that are longer than 4 KiB, in bytes; of one share no more than half of what the others leave.
    pub head_bytes: usize,
    /// What the selectors of open watches take, in bytes; of one share no more than half of what the others leave.
    pub selector_bytes: usize,
    /// How long a client may take to say hello in TLS.
    pub handshake_timeout: Duration,
    /// How long a client may take to send the head of a request on HTTP/1.1, or to begin one.
    pub head_timeout: Duration,
    /// How long a request may wait for its turn before it is told to come again.
    pub queue_wait: Duration,
    /// How long a request that is no watch may take, its body included.
    pub request_timeout: Duration,
    /// How long a client may take nothing of an answer that has more for it.
    pub stall_timeout: Duration,
    /// How long a connection may be open without a request.
    pub idle_timeout: Duration,
    /// Connections of all clients: half for those whom the server knows, half for those whom it does not know (yet). Those of
    /// `system:masters` are not counted.
    pub connections: usize,
    /// Connections of one user, or of the service accounts of a namespace. `system:masters` are not counted.
    pub connections_per_user: usize,
    /// Answers to clients whom the server does not know, and which they do not take, on all connections together: the server keeps up to 4 KiB for each. Beyond
    /// that who has more than a few loses the connection.
    pub strangers_unread: usize,
    /// Watches of one user, or of the service accounts of a namespace, on all connections. `system:masters` are not counted.
    pub watches_per_user: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_inflight: 400,
            mutating_requests_inflight: 200,
            answer_bytes: 256 << 20,
            work_bytes: 192 << 20,
            head_bytes: 64 << 20,
            selector_bytes: 8 << 20,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            queue_wait: Duration::from_secs(15),
            request_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(90),
            connections: 16 * 1024,
            connections_per_user: 1024,
            strangers_unread: 32 * 1024,
            watches_per_user: 10_000,
        }
    }
}

/// The largest head of a request, in bytes: request line and headers, or what HTTP/2 has in their place. Selectors stand in it.
const HEAD_BYTES_MAX: u32 = 256 << 10;
/// How long requests may go on once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

impl Limits {
    /// Those of connections. Half of the places are strangers', half known users'.
    pub(crate) fn of_connections(&self) -> berth_http::Limits {
        let half = (self.connections / 2).max(1);
        berth_http::Limits {
            strangers: half,
            known: half,
            per_owner: self.connections_per_user,
            strangers_unread: self.strangers_unread,
            head_bytes: HEAD_BYTES_MAX,
            headers: None,
            handshake_timeout: self.handshake_timeout,
            head_timeout: self.head_timeout,
            idle_timeout: self.idle_timeout,
            stall_timeout: self.stall_timeout,
            drain_timeout: DRAIN_TIMEOUT,
        }
    }
}

/// Counts what each holds, and lets none hold more than its share.
#[derive(Debug)]
pub(crate) struct Quota<K: Ord> {
    max: usize,
    held: Mutex<BTreeMap<K, usize>>,
}

/// One thing held; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Ord> {
    quota: Arc<Quota<K>>,
    key: K,
}

impl<K: Ord + Clone> Quota<K> {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, held: Mutex::default() })
    }

    /// One more for `key`; `None` if it holds all that it may.
    pub(crate) fn take(self: &Arc<Self>, key: K) -> Option<Share<K>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let count = held.get(&key).copied().unwrap_or(0);
        if self.max <= count {
            return None;
        }
        held.insert(key.clone(), count + 1);
        drop(held);
        Some(Share { quota: self.clone(), key })
    }
}

impl<K: Ord> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.quota.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.key) {
            Some(count) if 1 < *count => *count -= 1,
            _ => drop(held.remove(&self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_bounded_and_comes_back() {
        let quota = Quota::new(2);
        let first = quota.take("a").expect("free");
        let _second = quota.take("a").expect("free");
        assert!(quota.take("a").is_none());
        let other = quota.take("b").expect("its own share");
        drop((first, other));
        assert!(quota.take("a").is_some());
        assert_eq!(quota.held.lock().expect("not poisoned").keys().copied().collect::<Vec<_>>(), ["a"], "who holds nothing is forgotten");
    }
}
