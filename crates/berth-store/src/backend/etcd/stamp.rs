//! Which write made a revision. Two writers can change a key from the same revision to the same value, and only one of them has done it: a count that both raised by
//! one. So each change also writes this key, whatever it was, in the same transaction: its value at a revision names the write that made that revision.

use super::api::{Etcd, EtcdError, Put, Query};
use crate::{Key, Revision, env::Rng};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// All servers of a place share it: what it was at a revision stays known until that revision is compacted.
const KEY: &str = "/registry/berth.dev/writer";

/// The stamps of one process.
pub(super) struct Stamps {
    /// No other process has it.
    process: u128,
    next: AtomicU64,
}

/// One write's stamp: no other write has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Bytes);

impl Stamps {
    pub(super) fn new(rng: &dyn Rng) -> Self {
        let mut process = [0; 16];
        rng.fill(&mut process);
        Self { process: u128::from_ne_bytes(process), next: AtomicU64::default() }
    }

    pub(super) fn next(&self) -> Stamp {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Stamp(format!("{:032x}/{number}", self.process).into())
    }
}

impl Stamp {
    /// What an attempt at the write writes besides.
    pub(super) fn put(&self) -> Put {
        Put { key: Key::new(KEY), expected: None, value: Some(self.0.clone()), lease: None }
    }

    /// Whether the write that made `revision` is this one.
    ///
    /// # Errors
    /// etcd does not answer, or has compacted that revision.
    pub(super) async fn is_of(&self, revision: Revision, etcd: &dyn Etcd) -> Result<bool, EtcdError> {
        let query = Query { prefix: KEY.into(), start_after: None, at: Some(revision), limit: Some(1) };
        let found = etcd.range(query).await?.keys.into_iter().next();
        Ok(found.is_some_and(|found| found.mod_revision == revision && found.value == self.0))
    }
}
