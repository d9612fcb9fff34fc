//! The visible state, shared by readers, watchers and the one that writes.

use crate::{
    Entry, Key, Range, RangeRequest, ReadError, Revision, Watch, WatchItem,
    mvcc::{Commit, Mvcc, Next, resource_of},
};
use event_listener::{Event as Bell, EventListener};
use futures::{FutureExt, Stream};
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak},
    task::{Context, Poll, ready},
};

/// The name of the bell of watchers whose prefix spans resources.
const WIDE: &str = "";

/// What is visible, and the bells that wake its watchers. Locks are held for a look or a batch of changes, never over IO.
#[derive(Debug)]
pub(crate) struct Shared {
    mvcc: RwLock<Mvcc>,
    /// One for each watched resource. A bell without watchers is dropped when it would be rung.
    bells: Mutex<BTreeMap<Box<str>, Weak<Bell>>>,
}

impl Shared {
    pub(crate) fn new(mvcc: Mvcc) -> Arc<Self> {
        Arc::new(Self { mvcc: RwLock::new(mvcc), bells: Mutex::default() })
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
        self.read().range(request)
    }

    /// Makes commits visible, all at once, and wakes the watchers of their resources.
    pub(crate) fn publish(&self, commits: &[Commit]) {
        let mut mvcc = self.write();
        commits.iter().for_each(|commit| mvcc.apply(commit));
        drop(mvcc);
        let bells = self.bells();
        ring(&bells, WIDE);
        let mut rung = WIDE;
        for event in commits.iter().flat_map(|commit| &commit.events) {
            let resource = resource_of(event.entry.key.as_str()).unwrap_or(WIDE);
            if resource != rung {
                ring(&bells, resource);
                rung = resource;
            }
        }
    }

    /// Wakes all watchers, so that those of quiet resources see how far the store has come.
    pub(crate) fn ring_all(&self) {
        self.bells().retain(|_, bell| match bell.upgrade() {
            Some(bell) => {
                bell.notify(usize::MAX);
                true
            }
            None => false,
        });
    }

    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.read().check_watchable(after)?;
        let bell = self.bell(resource_of(prefix).unwrap_or(WIDE));
        let watcher = Watcher { shared: Arc::clone(self), bell, prefix: prefix.into(), after, reported: None, woken: None, ended: false };
        Ok(Box::pin(watcher))
    }

    fn bell(&self, name: &str) -> Arc<Bell> {
        let mut bells = self.bells();
        if let Some(bell) = bells.get(name).and_then(Weak::upgrade) {
            return bell;
        }
        let bell = Arc::new(Bell::new());
        bells.insert(name.into(), Arc::downgrade(&bell));
        bell
    }

    fn bells(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Weak<Bell>>> {
        self.bells.lock().expect("nothing panics under this lock")
    }
}

fn ring(bells: &BTreeMap<Box<str>, Weak<Bell>>, name: &str) {
    if let Some(bell) = bells.get(name).and_then(Weak::upgrade) {
        bell.notify(usize::MAX);
    }
}

/// A reader of the log. Holds a place in it, no changes: a slow one keeps no memory, it is told that it fell behind.
struct Watcher {
    shared: Arc<Shared>,
    bell: Arc<Bell>,
    prefix: Box<str>,
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
    fn look(&mut self) -> Option<Result<WatchItem, ReadError>> {
        match self.shared.read().next(&self.prefix, self.after) {
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
            if let Some(item) = self.look() {
                return Poll::Ready(Some(item));
            }
            match &mut self.woken {
                Some(woken) => {
                    ready!(woken.poll_unpin(cx));
                    self.woken = None;
                }
                // The next round looks again: a change before the registration did not ring for us.
                None => self.woken = Some(Box::pin(self.bell.listen())),
            }
        }
    }
}
