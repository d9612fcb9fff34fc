//! Whether a connection is used: one without a request is closed after a while, one that never said anything too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    open: AtomicUsize,
    /// When the last request ended, in milliseconds from `began`.
    last_ended: AtomicU64,
}

/// A request that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), open: AtomicUsize::new(0), last_ended: AtomicU64::new(0) })
    }

    pub(crate) fn begin(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Whether no request is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Resolves when no request has been open for `timeout`.
    pub(crate) async fn idle_for(&self, timeout: Duration) {
        loop {
            let last_ended = Duration::from_millis(self.last_ended.load(Ordering::Relaxed));
            let since = if self.is_idle() { self.began + last_ended } else { Instant::now() };
            let due = since + timeout;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let passed = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The time first: whoever sees that nothing is open sees also since when.
        self.0.last_ended.store(passed, Ordering::Relaxed);
        self.0.open.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn a_connection_is_idle_only_while_nothing_is_open() {
        let activity = Activity::new();
        let open = activity.begin();
        assert!(activity.idle_for(Duration::from_millis(1)).now_or_never().is_none());
        assert!(tokio::time::timeout(Duration::from_millis(20), activity.idle_for(Duration::from_millis(1))).await.is_err());
        drop(open);
        activity.idle_for(Duration::from_millis(1)).await;
    }
}
