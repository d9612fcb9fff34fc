//! Puts what an earlier build kept elsewhere to where it stands today.

use super::api::{Etcd, EtcdError, KeyValue, Outcome, Put, Query};
use crate::{COMMIT_WRITES_MAX, Expected, Key, Layout, Revision};
use bytes::Bytes;
use std::mem;

/// How many keys are moved at once, at most: each is written at one place and deleted at the other.
const KEYS_MAX: usize = COMMIT_WRITES_MAX / 2;
/// How long their values are together, at most: with what stands around them that is less than etcd takes by default, unless it is one that is longer alone.
const BYTES_MAX: usize = 1 << 20;

/// Moves every key below `prefix` that an earlier build put elsewhere than it stands today, with its value and its lease. Keys that stand where they do
/// today stay, so what was broken off anywhere is done to its end by doing it again. Their revisions are new. Nobody else may be writing there.
///
/// # Errors
/// [`EtcdError`]. After [`EtcdError::Unknown`], which also tells of a key that changed meanwhile, it can be done again; [`EtcdError::Refused`] if something stands
/// where a key belongs.
pub async fn move_keys(etcd: &dyn Etcd, layout: &dyn Layout, prefix: &str) -> Result<(), EtcdError> {
    let mut start_after = None;
    loop {
        let query = Query { prefix: prefix.into(), start_after, at: None, limit: Some(KEYS_MAX) };
        let page = etcd.range(query).await?;
        let Some(last) = page.keys.last() else { return Ok(()) };
        start_after = Some(last.key.clone());
        let (mut together, mut bytes) = (Vec::new(), 0);
        for (to, found) in page.keys.into_iter().filter_map(|found| Some((layout.moved(&found.key)?, found))) {
            if BYTES_MAX < bytes + found.value.len() {
                carry_out(etcd, mem::take(&mut together)).await?;
                bytes = 0;
            }
            bytes += found.value.len();
            together.push((to, found));
        }
        carry_out(etcd, together).await?;
    }
}

async fn carry_out(etcd: &dyn Etcd, moves: Vec<(Key, KeyValue)>) -> Result<(), EtcdError> {
    if moves.is_empty() {
        return Ok(());
    }
    let put = |key: &Key, expected: Expected, value: Option<Bytes>, found: &KeyValue| Put {
        key: key.clone(),
        expected,
        lease: found.lease.filter(|_| value.is_some()),
        value,
    };
    let both = |(to, found): &(Key, KeyValue)| {
        let here = put(to, Expected::Absent, Some(found.value.clone()), found);
        [here, put(&found.key, Expected::At(found.mod_revision), None, found)]
    };
    match etcd.txn(moves.iter().flat_map(both).collect()).await {
        Ok(Outcome::Done(_)) => Ok(()),
        Ok(Outcome::Refused { found, .. }) => {
            let is_there = |(_, [to, from]): &(&(Key, KeyValue), [Revision; 2])| *to != Revision(0) && *from != Revision(0);
            let pairs = found.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
            match moves.iter().zip(pairs).find(is_there) {
                Some(((to, found), _)) => Err(EtcdError::Refused(format!("{to} is there, where {} belongs today", found.key))),
                None => Err(EtcdError::Unknown("others write there at the same moment".into())),
            }
        }
        // What it was to go with is gone, and so will it be.
        Err(EtcdError::NoLease) => Err(EtcdError::Unknown("a key ended at the same moment".into())),
        Err(error) => Err(error),
    }
}
