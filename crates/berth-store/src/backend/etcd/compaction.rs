//! Compacts etcd. Of all servers over one etcd, one compacts at a time, by upstream's protocol. Once per interval, each server tries to write a key
//! that it last saw one interval ago. One server finds the key unchanged, and compacts up to the revision of *its* last attempt. The others find the
//! key changed, and wait for their next turn. The servers do not need to know each other, and a server that stopped is missed for at most one interval.

use super::{
    api::{Etcd, EtcdError, Outcome, Put},
    copies::Copies,
};
use crate::{Expected, Key, Revision};
use jiff::SignedDuration;
use std::sync::Arc;

/// What is written: upstream's key, outside of all prefixes, since etcd forgets for all of them.
const KEY: &str = "compact_rev_key";

/// What a server saw when it last tried.
struct Turn {
    key: Expected,
    /// etcd's newest revision then.
    newest: Revision,
}

/// Tries again and again; never ends.
pub(super) async fn keep_compacting(copies: Arc<Copies>, every: SignedDuration) {
    let clock = Arc::clone(&copies.env.clock);
    let mut turn = Turn { key: Expected::Absent, newest: Revision(0) };
    loop {
        // A turn that failed is over, and the next server's.
        if let Ok(Some(revision)) = turn.take(&*copies.etcd).await {
            _ = copies.compact(revision).await;
        }
        clock.sleep_until(clock.now() + every).await;
    }
}

impl Turn {
    /// What is to be forgotten, if it is this server's turn.
    async fn take(&mut self, etcd: &dyn Etcd) -> Result<Option<Revision>, EtcdError> {
        let put = Put { key: Key::new(KEY), expected: Some(self.key), value: Some(self.newest.to_string().into()), lease: None };
        match etcd.txn([put].into()).await? {
            Outcome::Done(revision) => {
                let before = std::mem::replace(self, Self { key: Expected::At(revision), newest: revision });
                // The first time it knows of no revision that it had seen an interval before.
                Ok((Revision(0) < before.newest).then_some(before.newest))
            }
            Outcome::Refused { found, revision } => {
                let found = found.first().copied().filter(|found| Revision(0) < *found);
                *self = Self { key: found.map_or(Expected::Absent, Expected::At), newest: revision };
                Ok(None)
            }
        }
    }
}
