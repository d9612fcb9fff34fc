//! The visible state, shared by readers, watchers and the one that writes.

use crate::{
    Entry, Key, Layout, Range, RangeRequest, ReadError, Revision, Watch, WatchFilter, WatchItem,
    log::CommitError,
    mvcc::{Commit, Mvcc, Next},
    notifier::{WIDE, WatcherNotifier},
};
use event_listener::{Event as Bell, EventListener};
use futures::{FutureExt, Stream};
use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

/// What is visible, and the notifier that wakes its watchers. Locks are held for a read or a batch of changes, never over IO.
pub(crate) struct Shared {
    mvcc: RwLock<Mvcc>,
    /// Its revision, for who asks often whether there is more.
    newest: AtomicU64,
    notifier: Mutex<WatcherNotifier>,
    layout: Arc<dyn Layout>,
}

impl Shared {
    pub(crate) fn new(mvcc: Mvcc) -> Arc<Self> {
        let layout = Arc::clone(mvcc.layout());
        let newest = AtomicU64::new(mvcc.revision().0);
        Arc::new(Self { mvcc: RwLock::new(mvcc), newest, notifier: Mutex::default(), layout })
    }

    pub(crate) fn layout(&self) -> &dyn Layout {
        &*self.layout
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Mvcc> {
        self.mvcc.read().expect("a broken invariant under the lock must not be read")
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Mvcc> {
        self.mvcc.write().expect("a broken invariant under the lock must not be read")
    }

    pub(crate) fn revision(&self) -> Revision {
        self.read().revision()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.read().get(key).cloned()
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> Result<Range, ReadError> {
        // Without a limit there are no keys after the page to count.
        if request.limit.is_some() {
            self.partition_by_prefix(&request.prefix);
        }
        self.read().range(request)
    }

    /// Ensures that readers of keys that begin with `prefix` do not pay for those of other resources.
    fn partition_by_prefix(&self, prefix: &str) {
        let Some(resource) = self.layout.resource_prefix(prefix) else { return };
        if self.read().can_partition(resource) {
            self.write().partition_by_prefix(resource);
        }
    }

    /// A change of what is visible that may be of another revision than before.
    fn go_on(&self, change: impl FnOnce(&mut Mvcc)) {
        let mut mvcc = self.write();
        change(&mut mvcc);
        self.newest.store(mvcc.revision().0, Ordering::Release);
    }

    /// Makes commits visible, all at once, and wakes the watchers that they concern.
    pub(crate) fn publish(&self, commits: &[Commit]) {
        self.go_on(|mvcc| commits.iter().for_each(|commit| mvcc.apply(commit)));
        let mut notifier = self.notifier();
        let mvcc = self.read();
        notifier.ring(WIDE);
        let mut rung = WIDE;
        for event in commits.iter().flat_map(|commit| &commit.events) {
            let resource = mvcc.resource_prefix(event.entry.key.as_str()).unwrap_or(WIDE);
            if resource != rung {
                notifier.ring(resource);
                rung = resource;
            }
            notifier.notify_matching(resource, event.versions(), || mvcc.kept(resource));
        }
    }

    /// Forgets changes up to `revision`, after `remember` has made that durable. Concurrent writes are not allowed.
    pub(crate) fn compact(&self, revision: Revision, remember: impl FnOnce() -> Result<(), CommitError>) -> Result<(), ReadError> {
        let newest = self.revision();
        if newest < revision {
            return Err(ReadError::Future { requested: revision, newest });
        }
        remember().map_err(|error| ReadError::Unavailable(error.source().to_string()))?;
        self.write().compact(revision);
        Ok(())
    }

    /// Nothing has changed up to `revision`: wakes all watchers if that is news.
    pub(crate) fn advance(&self, revision: Revision) {
        if self.revision() < revision {
            self.go_on(|mvcc| mvcc.advance(revision));
            self.notify_all();
        }
    }

    /// Shows other contents from now on. Watchers that are behind them receive the error that they fell behind.
    pub(crate) fn replace(&self, mvcc: Mvcc) {
        self.go_on(|shown| *shown = mvcc);
        self.notify_all();
    }

    /// Wakes all watchers, so that those of quiet resources see how far the store has come.
    pub(crate) fn notify_all(&self) {
        self.notifier().notify_all();
    }

    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, after: Revision, filter: Option<WatchFilter>) -> Result<Watch, ReadError> {
        self.partition_by_prefix(prefix);
        self.read().check_watchable(prefix, after)?;
        let bell = self.bell(prefix, filter.as_ref());
        let prefix = prefix.into();
        let watcher = Watcher { shared: Arc::clone(self), bell, prefix, filter, after, reported: None, woken: None, ended: false };
        Ok(Box::pin(watcher))
    }

    fn bell(&self, prefix: &str, filter: Option<&WatchFilter>) -> Arc<Bell> {
        let mut notifier = self.notifier();
        match self.read().resource_prefix(prefix) {
            Some(resource) => notifier.bell(resource, filter),
            None => notifier.bell(WIDE, None),
        }
    }

    fn notifier(&self) -> MutexGuard<'_, WatcherNotifier> {
        self.notifier.lock().expect("nothing panics under this lock")
    }
}

/// A reader of the log. Holds a position in it, no changes: a slow reader keeps no memory, and receives the error that it fell behind.
struct Watcher {
    shared: Arc<Shared>,
    bell: Arc<Bell>,
    prefix: Box<str>,
    /// Only changes of what has it.
    filter: Option<WatchFilter>,
    /// All up to here has been yielded.
    after: Revision,
    /// The last progress yielded.
    reported: Option<Revision>,
    /// Registered before the last look, so that what came since is not missed.
    woken: Option<Pin<Box<EventListener>>>,
    ended: bool,
}

impl Watcher {
    /// The next item, if there is one now.
    fn read_next(&mut self) -> Option<Result<WatchItem, ReadError>> {
        // Where nothing was written since, neither a change nor the loss of one can be new.
        if self.reported == Some(self.after) && self.shared.newest.load(Ordering::Acquire) == self.after.0 {
            return None;
        }
        match self.shared.read().next(&self.prefix, self.after, self.filter.as_ref()) {
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
            Ok(Next::Events(events)) => {
                self.after = events[0].entry.mod_revision;
                Some(Ok(WatchItem::Events(events)))
            }
            Ok(Next::CaughtUp(revision)) => {
                self.after = revision;
                let is_new = self.reported.replace(revision) != Some(revision);
                is_new.then_some(Ok(WatchItem::Progress(revision)))
            }
            Ok(Next::Future) => None,
        }
    }
}

impl Stream for Watcher {
    type Item = Result<WatchItem, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            if let Some(item) = self.read_next() {
                return Poll::Ready(Some(item));
            }
            match &mut self.woken {
                Some(woken) => {
                    ready!(woken.poll_unpin(cx));
                    self.woken = None;
                }
                // The next round checks again: a change before the registration did not ring for this watcher.
                None => self.woken = Some(Box::pin(self.bell.listen())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::Recovered;
    use futures::StreamExt;
    use std::{
        sync::atomic::AtomicBool,
        task::{Wake, Waker},
    };

    /// The progress that a watch reports now, if any.
    fn progress(watch: &mut Watch) -> Option<Revision> {
        match watch.next().now_or_never() {
            Some(Some(Ok(WatchItem::Progress(revision)))) => Some(revision),
            None => None,
            Some(item) => panic!("{item:?}"),
        }
    }

    #[test]
    fn a_watcher_that_is_caught_up_hears_of_each_way_to_go_on() {
        let nothing = |revision| Mvcc::recovered(Arc::new(()), Revision(revision), Recovered::default(), 1 << 20);
        let shared = Shared::new(nothing(1));
        let mut watch = shared.watch("/a/", Revision(1), None).expect("kept");
        let mut hears = |expected| assert_eq!([progress(&mut watch), progress(&mut watch)], [Some(Revision(expected)), None]);
        hears(1);
        shared.advance(Revision(2));
        hears(2);
        shared.replace(nothing(2));
        shared.advance(Revision(3));
        hears(3);
    }

    /// Whether the waker was called.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn no_watcher_is_woken_by_known_changes() {
        let shared = Shared::new(Mvcc::recovered(Arc::new(()), Revision(1), Recovered::default(), 0));
        let (mut watch, woken) = (shared.watch("/a/", Revision(1), None).expect("kept"), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        while watch.poll_next_unpin(&mut Context::from_waker(&waker)).is_ready() {}
        shared.advance(Revision(1));
        assert!(!woken.0.load(Ordering::SeqCst));
        shared.advance(Revision(2));
        assert!(woken.0.load(Ordering::SeqCst));
    }
}
