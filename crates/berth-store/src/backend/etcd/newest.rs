//! The newest revision, asked for once for all who wait.

use super::api::{Etcd, EtcdError};
use crate::{Revision, env::Spawner};
use futures::{FutureExt, channel::oneshot};
use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard},
};

type Answer = Result<Revision, EtcdError>;

/// A request is asked by all who came before it was sent. One that is under way already may have been answered before their question, and is none of
/// theirs.
pub(super) struct Newest {
    etcd: Arc<dyn Etcd>,
    spawner: Arc<dyn Spawner>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// A caller sends requests, and continues for those that wait.
    asks: bool,
    next: Vec<oneshot::Sender<Answer>>,
}

impl Newest {
    pub(super) fn new(etcd: Arc<dyn Etcd>, spawner: Arc<dyn Spawner>) -> Arc<Self> {
        Arc::new(Self { etcd, spawner, waiting: Mutex::default() })
    }

    pub(super) fn ask(self: &Arc<Self>) -> impl Future<Output = Answer> + Send + use<> {
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.next.push(sender);
        if !mem::replace(&mut waiting.asks, true) {
            self.spawner.spawn("etcd-revision", Arc::clone(self).answer().boxed());
        }
        answer.map(|answer| answer.unwrap_or_else(|_| Err(EtcdError::Unreachable("the store is closed".into()))))
    }

    async fn answer(self: Arc<Self>) {
        while let Some(askers) = self.next_askers() {
            let answer = self.etcd.revision().await;
            // Who no longer waits has chosen not to know.
            askers.into_iter().for_each(|asker| _ = asker.send(answer.clone()));
        }
    }

    fn next_askers(&self) -> Option<Vec<oneshot::Sender<Answer>>> {
        let mut waiting = self.waiting();
        waiting.asks = !waiting.next.is_empty();
        waiting.asks.then(|| mem::take(&mut waiting.next))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics under this lock")
    }
}
