//! The limits of a server, and the share of one user.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The approximate size of the pieces of a long response.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// The size above which a response is long.
pub(crate) const FULL_BYTES_MAX: usize = 16 << 10;
/// The size above which responses are compressed, for clients that accept it.
pub(crate) const GZIP_ABOVE_BYTES: usize = 128 << 10;

/// The configurable limits of a server. Limits that clients do not notice in ordinary use are constants elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Read-only requests in progress. 0: no limit. Requests of `system:masters` and health checks are not counted.
    pub requests_inflight: usize,
    /// Mutating requests in progress.
    pub mutating_requests_inflight: usize,
    /// The memory of responses while they are built and sent, in bytes. A user gets at most three quarters. Responses
    /// to `system:masters` are not counted. `mutating_requests_inflight` limits responses to mutating requests.
    pub answer_bytes: usize,
    /// The memory for processing users' writes, decoded and with stored objects, in bytes. A share gets at most three
    /// quarters.
    pub work_bytes: usize,
    /// The memory of request heads above 4 KiB, in bytes. A share gets at most half of what the others leave.
    pub head_bytes: usize,
    /// The memory of the selectors of open watches, in bytes. A share gets at most half of what the others leave.
    pub selector_bytes: usize,
    /// The timeout of a TLS handshake.
    pub handshake_timeout: Duration,
    /// The timeout for beginning a request on HTTP/1.1, and for sending its head.
    pub head_timeout: Duration,
    /// How long a request may wait for a seat before it is rejected with a retry interval.
    pub queue_wait: Duration,
    /// The timeout of a request other than a watch, including its body.
    pub request_timeout: Duration,
    /// How long a client may read nothing of a response that has more data.
    pub stall_timeout: Duration,
    /// How long a connection may be open without a request.
    pub idle_timeout: Duration,
    /// Connections of all clients: half for authenticated clients, half for others. Connections of `system:masters` are
    /// not counted.
    pub connections: usize,
    /// Connections of one user, or of the service accounts of a namespace. Those of `system:masters` are not counted.
    pub connections_per_user: usize,
    /// Unread responses to unauthenticated clients, on all connections together. The server buffers up to 4 KiB for
    /// each. Above the limit, a client with more than a few loses its connection.
    pub strangers_unread: usize,
    /// Watches of one user, or of the service accounts of a namespace, on all connections. Those of `system:masters`
    /// are not counted.
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

/// The maximum size of a request head, in bytes: request line and headers, or their HTTP/2 form. It includes selectors.
const HEAD_BYTES_MAX: u32 = 256 << 10;
/// How long requests may continue after the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

impl Limits {
    /// Returns the limits of connections: half of the slots for anonymous clients, half for known users.
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

/// Counts the items of each key, and limits its share.
#[derive(Debug)]
pub(crate) struct Quota<K: Ord> {
    max: usize,
    held: Mutex<BTreeMap<K, usize>>,
}

/// One item. Dropping it frees its slot.
#[derive(Debug)]
pub(crate) struct Share<K: Ord> {
    quota: Arc<Quota<K>>,
    key: K,
}

impl<K: Ord + Clone> Quota<K> {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, held: Mutex::default() })
    }

    /// Takes an item for `key`, or returns `None` at its limit.
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
