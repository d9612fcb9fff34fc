//! Until when etcd may still do what it was asked to create. A transaction without an answer may wait somewhere and be done much later. One that changes or
//! deletes a key finds it changed by then; but a key that was created meanwhile, and deleted again, is absent once more. So whatever creates a key compares
//! another key too, the turn's. Who ends a turn knows that nothing sent in it will be done any more; others learn of it by their next creation.

use super::api::{Etcd, EtcdError, Outcome, Put, Query};
use crate::{Expected, Key, Revision, Unchanged};
use futures::lock::Mutex;
use std::sync::Arc;

/// All servers of a place share it. Not there until a turn has ended.
const KEY: &str = "/registry/berth.dev/turn";
/// No write to a new etcd is on its way.
const EMPTY: Revision = Revision(1);

pub(super) struct Turn {
    etcd: Arc<dyn Etcd>,
    /// When the turn began that this process sends creations in; 0: none has ended yet. `None`: it has sent none.
    began: Mutex<Option<Revision>>,
}

impl Turn {
    pub(super) fn new(etcd: Arc<dyn Etcd>) -> Self {
        Self { etcd, began: Mutex::default() }
    }

    /// What a creation is to compare. The first one ends the turn before: what a former process has sent is done by now, or never.
    pub(super) async fn current(&self) -> Result<Unchanged, EtcdError> {
        let mut began = self.began.lock().await;
        let now = match *began {
            Some(began) => began,
            None => {
                let query = Query { prefix: KEY.into(), start_after: None, at: None, limit: Some(1) };
                let page = self.etcd.range(query).await?;
                let found = page.keys.first().map_or(Revision(0), |found| found.mod_revision);
                if page.revision == EMPTY { found } else { self.next(found).await? }
            }
        };
        *began = Some(now);
        Ok(Unchanged { key: Key::new(KEY), revision: now })
    }

    /// Ends a turn, if it has not ended. All that was sent in it is done at the revision that it gives, or never.
    pub(super) async fn end(&self, turn: &Unchanged) -> Result<Revision, EtcdError> {
        let mut began = self.began.lock().await;
        match *began {
            Some(later) if later != turn.revision => Ok(later),
            _ => {
                let next = self.next(turn.revision).await?;
                *began = Some(next);
                Ok(next)
            }
        }
    }

    /// Another has ended it.
    pub(super) async fn ended(&self, turn: &Unchanged, next: Revision) {
        let mut began = self.began.lock().await;
        if *began == Some(turn.revision) {
            *began = Some(next);
        }
    }

    /// The turn after the one that began then. The request can be repeated if it is interrupted without an answer.
    async fn next(&self, began: Revision) -> Result<Revision, EtcdError> {
        let expected = if began == Revision(0) { Expected::Absent } else { Expected::At(began) };
        let put = Put { key: Key::new(KEY), expected: Some(expected), value: Some(began.to_string().into()), lease: None };
        match self.etcd.txn([put].into()).await? {
            Outcome::Done(revision) => Ok(revision),
            // Another server was first. If a user deleted the key, creations would wait until they are given up.
            Outcome::Refused { found, .. } => Ok(found.first().copied().unwrap_or_default()),
        }
    }
}
