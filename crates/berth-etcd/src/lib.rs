//! A client of etcd's v3 API (3.4 to 3.6), with the calls that a store needs. [`berth_store::etcd::EtcdStore`] uses it.
//!
//! Start with [`Client::open`]. gRPC is tonic's, and TLS is rustls'. The messages are generated from `proto/etcd.proto`
//! and checked in. A client has two connections to a member, one for calls and one for watches, so that neither delays
//! the other. It uses one member at a time, and switches to the next on a failure. Its futures may be polled anywhere.
//! Its tasks run on the runtime that it was opened on.

mod calls;
mod failure;
mod members;
mod ownership;
#[rustfmt::skip]
#[expect(unreachable_pub, reason = "made from the proto, which describes them")]
mod messages;
mod open;
mod options;
mod rival;
mod version;
mod watch;
mod wire;

pub use open::OpenError;
pub use options::{Fault, Options, Tls, User};
pub use ownership::{Origin, OwnershipError, OwnershipRequest};
pub use version::Version;

use berth_store::{
    Revision, Unchanged,
    etcd::{Alarm, Etcd, EtcdError, Lease, Outcome, Page, Put, Query, Status, Watching},
};
use bytes::Bytes;
use calls::Repeat;
use futures::{FutureExt, future::BoxFuture};
use members::Members;
use std::sync::Arc;
use tokio::runtime::Handle;
use wire::{from_wire, revision_of, to_wire};

/// The number of keys per request if all of them exceed the size limit.
const KEYS_AT_MOST: i64 = 1000;

/// A client. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    members: Arc<Members>,
}

impl Client {
    /// Reads the release of every member. One of them must respond. The others are retried.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        let members = Members::new(options, Handle::current())?;
        members.check().await?;
        members.keep_checking();
        Ok(Self { members })
    }

    /// Returns all leases with their remaining seconds.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn leases(&self) -> Result<Vec<(Lease, i64)>, EtcdError> {
        let all: messages::LeaseListAnswer = self.members.call(calls::LEASES, messages::LeaseList {}, Repeat::Yes).await?;
        let mut leases = Vec::with_capacity(all.leases.len());
        for lease in all.leases {
            let asked = messages::LeaseTimeToLive { id: lease.id };
            let answer: messages::LeaseTimeToLiveAnswer = self.members.call(calls::TIME_TO_LIVE, asked, Repeat::Yes).await?;
            leases.push((Lease(lease.id), answer.ttl));
        }
        Ok(leases)
    }

    /// Revokes a lease, which deletes all its keys.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revoke(&self, lease: Lease) -> Result<(), EtcdError> {
        self.members.call(calls::REVOKE, messages::LeaseRevoke { id: lease.0 }, Repeat::No).await.map(|_: messages::LeaseRevokeAnswer| ())
    }
}

impl Client {
    /// Returns as many of the first keys as one answer can hold.
    async fn page(&self, mut range: messages::Range) -> Result<messages::RangeAnswer, EtcdError> {
        loop {
            match self.members.call(calls::RANGE, range.clone(), Repeat::Yes).await {
                // 0 means no limit.
                Err(EtcdError::TooLong) if range.limit != 1 => {
                    range.limit = if range.limit == 0 { KEYS_AT_MOST } else { range.limit / 2 };
                }
                answer => return answer,
            }
        }
    }
}

impl Client {
    fn txn_repeated(
        &self,
        puts: &[Put],
        unchanged: &[Unchanged],
        repeat: Repeat,
    ) -> impl Future<Output = Result<Outcome, EtcdError>> + Send + use<> {
        let key_prefix = &self.members.key_prefix;
        let written = puts.iter().filter_map(|put| Some((&put.key, put.expected?)));
        let compared = written.chain(unchanged.iter().map(|unchanged| (&unchanged.key, unchanged.expected())));
        let txn = messages::Txn {
            compare: compared.clone().map(|(key, expected)| key_prefix.compare(key, expected)).collect(),
            success: puts.iter().map(|put| key_prefix.write(put)).collect(),
            failure: compared.map(|(key, _)| key_prefix.read(key)).collect(),
        };
        let members = Arc::clone(&self.members);
        async move {
            let answer: messages::TxnAnswer = members.call(calls::TXN, txn, repeat).await?;
            let revision = revision_of(answer.header.as_ref());
            if answer.succeeded {
                return Ok(Outcome::Done(revision));
            }
            let found = answer.answers.into_iter().map(|answer| match answer.answer {
                Some(messages::operation_answer::Answer::Range(found)) => {
                    found.kvs.first().map_or(Revision(0), |found| from_wire(found.mod_revision))
                }
                None => Revision(0),
            });
            Ok(Outcome::Refused { found: found.collect(), revision })
        }
    }
}

impl Etcd for Client {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, EtcdError>> {
        // Any key works. This one is within the rights of a user for Kubernetes' keys.
        let range = messages::Range { key: self.members.key_prefix.there("/registry/"), count_only: true, ..messages::Range::default() };
        let asked = self.members.call(calls::RANGE, range, Repeat::Yes);
        asked.map(|answer| answer.map(|answer: messages::RangeAnswer| revision_of(answer.header.as_ref()))).boxed()
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page, EtcdError>> {
        let Query { prefix, start_after, at, limit } = query;
        let key_prefix = &self.members.key_prefix;
        let (first, range_end) = key_prefix.bounds(&prefix);
        let behind = start_after.map(|key| [&key_prefix.there(key.as_str())[..], b"\0"].concat().into());
        let range = messages::Range {
            key: behind.map_or_else(|| first.clone(), |behind: Bytes| behind.max(first.clone())),
            range_end,
            limit: limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
            revision: at.map_or(0, to_wire),
            ..messages::Range::default()
        };
        async move {
            let answer = self.page(range).await?;
            let count = usize::try_from(answer.count).unwrap_or_default();
            Ok(Page {
                revision: revision_of(answer.header.as_ref()),
                count,
                keys: answer.kvs.into_iter().filter_map(|found| key_prefix.key_value(found)).collect(),
            })
        }
        .boxed()
    }

    fn unchanged(&self, prefix: &str, since: Revision) -> BoxFuture<'_, Result<Option<Revision>, EtcdError>> {
        let (key, range_end) = self.members.key_prefix.bounds(prefix);
        let range = messages::Range { key, range_end, ..messages::Range::default() };
        // If nothing was written since, an equal number of keys means the same keys.
        let newer = messages::Range { min_mod_revision: to_wire(since.later(1)), limit: 1, keys_only: true, ..range.clone() };
        let before = messages::Range { revision: to_wire(since), count_only: true, ..range };
        async move {
            let newer: messages::RangeAnswer = self.members.call(calls::RANGE, newer, Repeat::Yes).await?;
            let before: messages::RangeAnswer = self.members.call(calls::RANGE, before, Repeat::Yes).await?;
            let is_same = newer.kvs.is_empty() && newer.count == before.count;
            Ok(is_same.then(|| revision_of(newer.header.as_ref())))
        }
        .boxed()
    }

    fn txn_while(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.txn_repeated(&puts, &unchanged, Repeat::No).boxed()
    }

    fn txn_patiently(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.txn_repeated(&puts, &unchanged, Repeat::ByTheCaller).boxed()
    }

    fn watch(&self, prefix: &str, from: Revision) -> Watching {
        watch::watch(Arc::clone(&self.members), prefix, from)
    }

    fn reports_progress(&self) -> bool {
        self.members.reports_progress()
    }

    fn barred(&self) -> Option<String> {
        self.members.rivals.get()?.cause()
    }

    fn grant(&self, seconds: i64) -> BoxFuture<'_, Result<Lease, EtcdError>> {
        let asked = self.members.call(calls::GRANT, messages::LeaseGrant { ttl: seconds, id: 0 }, Repeat::No);
        asked.map(|answer| answer.map(|answer: messages::LeaseGrantAnswer| Lease(answer.id))).boxed()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, EtcdError>> {
        async move {
            let answer: messages::StatusAnswer = self.members.call(calls::STATUS, messages::Status {}, Repeat::Yes).await?;
            let contains_any = |alarm: &str| answer.errors.iter().any(|error| error.contains(alarm));
            let alarms = [(Alarm::NoSpace, "alarm:NOSPACE"), (Alarm::Corrupt, "alarm:CORRUPT")];
            Ok(Status {
                database_bytes: answer.db_size.try_into().unwrap_or_default(),
                alarms: alarms.into_iter().filter(|(_, text)| contains_any(text)).map(|(alarm, _)| alarm).collect(),
            })
        }
        .boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), EtcdError>> {
        async move {
            let compaction = messages::Compaction { revision: to_wire(revision) };
            let done: Result<messages::CompactionAnswer, _> = self.members.call(calls::COMPACT, compaction, Repeat::Yes).await;
            match done {
                Ok(_) | Err(EtcdError::Compacted) => Ok(()),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }
}
