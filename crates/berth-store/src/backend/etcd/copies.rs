//! The copies in this process, one for each resource that a client has read or written.

use super::{
    SHOWN_WITHIN,
    api::{Etcd, EtcdError},
    copy::Copy,
};
use crate::{Layout, Revision, env::Env};
use futures::{
    FutureExt,
    future::{AbortHandle, BoxFuture, abortable, join_all},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

pub(super) struct Copies {
    pub(super) etcd: Arc<dyn Etcd>,
    pub(super) env: Env,
    pub(super) layout: Arc<dyn Layout>,
    history_bytes: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// By what their keys begin with.
    copies: BTreeMap<Box<str>, Arc<Copy>>,
    tasks: Vec<AbortHandle>,
    is_closed: bool,
}

impl Copies {
    pub(super) fn new(etcd: Arc<dyn Etcd>, env: Env, layout: Arc<dyn Layout>, history_bytes: usize) -> Arc<Self> {
        Arc::new(Self { etcd, env, layout, history_bytes, open: Mutex::default() })
    }

    /// Returns the copy of the resource that `text`, a key or the beginning of keys, belongs to. Text of no resource has a copy of its own, so a caller
    /// that reads many resources at once pays for it. Opens the copy if it is missing, as of `from` if that revision can still be read.
    pub(super) fn of(&self, text: &str, from: Option<Revision>) -> Arc<Copy> {
        let place = self.layout.resource_prefix(text).unwrap_or_else(|| folder_of(text));
        let mut open = self.lock();
        if let Some(copy) = open.copies.get(place) {
            return Arc::clone(copy);
        }
        let (etcd, layout) = (Arc::clone(&self.etcd), Arc::clone(&self.layout));
        let copy = Copy::new(etcd, self.env.clone(), layout, place, self.history_bytes, from);
        open.copies.insert(place.into(), Arc::clone(&copy));
        if !open.is_closed {
            let tasks = [("etcd-watch", Arc::clone(&copy).follow().boxed()), ("etcd-time", Arc::clone(&copy).keep_time().boxed())];
            let started = tasks.map(|(name, task)| self.start(name, task));
            open.tasks.extend(started);
        }
        copy
    }

    /// Runs a task for as long as the store is open.
    pub(super) fn run(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let started = self.start(name, task);
        self.lock().tasks.push(started);
    }

    fn start(&self, name: &'static str, task: BoxFuture<'static, ()>) -> AbortHandle {
        let (task, handle) = abortable(task);
        self.env.spawner.spawn(name, task.map(drop).boxed());
        handle
    }

    pub(super) fn all(&self) -> Vec<Arc<Copy>> {
        self.lock().copies.values().cloned().collect()
    }

    /// Forgets what was replaced at or before `revision`, in etcd and here.
    pub(super) async fn compact(&self, revision: Revision) -> Result<(), EtcdError> {
        let copies = self.all();
        // Before the compaction, while etcd can still report to an unchanged copy that nothing has changed. Otherwise the copy must relist.
        let reached = join_all(copies.iter().map(|copy| copy.reach(revision, SHOWN_WITHIN))).await;
        self.etcd.compact(revision).await?;
        // One that is not as far forgets when it has to.
        for (copy, _) in copies.iter().zip(reached).filter(|(_, reached)| reached.is_ok()) {
            copy.shared.write().compact(revision);
        }
        Ok(())
    }

    /// Ends what follows etcd.
    pub(super) fn close(&self) {
        let mut open = self.lock();
        open.is_closed = true;
        open.tasks.drain(..).for_each(|task| task.abort());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nothing panics under this lock")
    }
}

/// All up to the last `/`, with it.
fn folder_of(text: &str) -> &str {
    text.rfind('/').map_or("", |end| &text[..=end])
}
