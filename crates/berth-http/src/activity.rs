//! Whether a connection is used: one without a request is closed after a while, as is one that never sent anything.

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
pub struct Activity {
    began: Instant,
    open: AtomicUsize,
    /// Of those, the ones that end when the server does.
    watching: AtomicUsize,
    /// When the last request ended, in milliseconds from `began`.
    last_ended: AtomicU64,
}

/// A request that is open until this is dropped.
#[derive(Debug)]
pub struct Open {
    activity: Arc<Activity>,
    is_watch: bool,
}

/// How soon it is noticed that all has been answered.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl Activity {
    /// A connection without a request.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), open: AtomicUsize::new(0), watching: AtomicUsize::new(0), last_ended: AtomicU64::new(0) })
    }

    /// A request begins.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open { activity: self.clone(), is_watch: false }
    }

    /// Resolves when nothing is open but watches.
    pub(crate) async fn answered(&self) {
        while self.watching.load(Ordering::Acquire) < self.open.load(Ordering::Acquire) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
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

impl Open {
    /// The request is a watch: a stop of the server does not wait for its end.
    #[must_use]
    pub fn into_watch(mut self) -> Self {
        self.activity.watching.fetch_add(usize::from(!self.is_watch), Ordering::Release);
        self.is_watch = true;
        self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Self { activity, is_watch } = self;
        let passed = u64::try_from(activity.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The time first: a reader that sees no open request also sees since when.
        activity.last_ended.store(passed, Ordering::Relaxed);
        activity.watching.fetch_sub(usize::from(*is_watch), Ordering::Release);
        activity.open.fetch_sub(1, Ordering::Release);
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

    #[tokio::test]
    async fn all_is_answered_where_only_watches_are_open() {
        let activity = Activity::new();
        activity.answered().await;
        let (first, watch) = (activity.begin(), activity.begin().into_watch());
        assert!(activity.answered().now_or_never().is_none());
        drop(first);
        activity.answered().await;
        drop(watch);
        let second = activity.begin();
        assert!(activity.answered().now_or_never().is_none());
        drop(second);
        activity.answered().await;
    }
}
