//! An etcd that several servers share, and that fails one of them now and then; and all that changes in it, as it changes.

use crate::{
    lock,
    rng::{Purpose, SeededRng},
};
use berth_store::{
    Entry, Event, EventKind, Header, Key, Revision, Unchanged,
    env::{Clock, Timestamp},
    etcd::{Change, Etcd, EtcdError, Lease, Model, Outcome, Page, Put, Query, Status, TransactionFault, Watched, Watching},
    virtual_time::VirtualTime,
};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
};
use jiff::SignedDuration;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

/// How often no answer comes to a transaction.
const UNANSWERED_PER_MILLE: u32 = 15;
/// How often a watch breaks instead of its next item.
const BREAKS_PER_MILLE: u32 = 1;
/// How often another leader is to be found, by a transaction.
const ELECTIONS_PER_MILLE: u32 = 2;
/// How long that takes at most, with a network that is to heal first.
const ELECTION_MAX_MS: u64 = 8_000;
/// The outcome of a transaction that is not answered, or late. [`EtcdState::slow`] decides how late.
const FAULTS: [TransactionFault; 5] = [
    TransactionFault::Lost,
    TransactionFault::Done,
    TransactionFault::Late,
    TransactionFault::Unreachable,
    TransactionFault::Slow { done: SignedDuration::ZERO, answered: SignedDuration::ZERO },
];
/// How much later at most it is done, and answered then.
const SLOW_MAX_MS: u64 = 5_000;

/// An etcd as a server sees it whose connection to it fails: late and unknown outcomes, watches that break, leaders that change.
#[derive(Clone)]
pub(crate) struct FailingEtcd(Arc<EtcdState>);

struct EtcdState {
    model: Arc<Model>,
    time: VirtualTime,
    rng: SeededRng,
    /// Until when it has no leader; `None`: nothing fails any more.
    elects_until: Mutex<Option<Timestamp>>,
}

impl FailingEtcd {
    pub(crate) fn new(seed: u64, model: &Arc<Model>, time: &VirtualTime) -> Self {
        let elects_until = Mutex::new(Some(time.now()));
        Self(Arc::new(EtcdState { model: Arc::clone(model), time: time.clone(), rng: SeededRng::new(seed, Purpose::Etcd), elects_until }))
    }

    /// Nothing fails from now on.
    pub(crate) fn calm(&self) {
        *lock(&self.0.elects_until) = None;
    }

    /// Once it has a leader.
    fn with_leader<'a, T: Send + 'a>(&self, call: BoxFuture<'a, Result<T, EtcdError>>) -> BoxFuture<'a, Result<T, EtcdError>> {
        if self.0.elects() { ready(Err(EtcdError::Unknown("there is no leader".into()))).boxed() } else { call }
    }
}

impl EtcdState {
    fn elects(&self) -> bool {
        lock(&self.elects_until).is_some_and(|until| self.time.now() < until)
    }

    fn happens(&self, per_mille: u32) -> bool {
        lock(&self.elects_until).is_some() && self.rng.happens(per_mille)
    }

    /// What becomes of the next transaction.
    fn fate(&self) -> Option<TransactionFault> {
        if self.happens(ELECTIONS_PER_MILLE) {
            let took = i64::try_from(berth_store::env::Rng::below(&self.rng, ELECTION_MAX_MS)).expect("seconds");
            *lock(&self.elects_until) = Some(self.time.now() + SignedDuration::from_millis(took));
        }
        (self.elects() || self.happens(UNANSWERED_PER_MILLE)).then(|| match *self.rng.choose(&FAULTS) {
            TransactionFault::Slow { .. } => TransactionFault::Slow { done: self.slow(), answered: self.slow() },
            fate => fate,
        })
    }

    fn slow(&self) -> SignedDuration {
        SignedDuration::from_millis(i64::try_from(berth_store::env::Rng::below(&self.rng, SLOW_MAX_MS)).expect("seconds"))
    }
}

impl Etcd for FailingEtcd {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, EtcdError>> {
        self.with_leader(self.0.model.revision())
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page, EtcdError>> {
        self.with_leader(self.0.model.range(query))
    }

    fn unchanged(&self, prefix: &str, since: Revision) -> BoxFuture<'_, Result<Option<Revision>, EtcdError>> {
        self.with_leader(self.0.model.unchanged(prefix, since))
    }

    fn txn_while(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.0.model.in_time(self.txn_patiently(puts, unchanged)).boxed()
    }

    fn txn_patiently(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        let fate = self.0.fate();
        self.0.model.txn_with(puts, unchanged, fate).boxed()
    }

    fn watch(&self, prefix: &str, from: Revision) -> Watching {
        let Watching { items, ask_progress } = self.0.model.watch(prefix, from);
        let state = Arc::clone(&self.0);
        let breaks = move |item| {
            let is_broken = state.elects() || state.happens(BREAKS_PER_MILLE);
            if is_broken { Err(EtcdError::Unreachable("the watch broke".into())) } else { item }
        };
        Watching { items: items.map(breaks).boxed(), ask_progress }
    }

    fn reports_progress(&self) -> bool {
        self.0.model.reports_progress()
    }

    fn grant(&self, seconds: i64) -> BoxFuture<'_, Result<Lease, EtcdError>> {
        self.with_leader(self.0.model.grant(seconds))
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, EtcdError>> {
        self.0.model.status()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), EtcdError>> {
        self.with_leader(self.0.model.compact(revision))
    }
}

/// What changes in an etcd, at the moment when it does.
pub(crate) struct Followed {
    watching: Watching,
    /// What is there.
    entries: BTreeMap<Key, Arc<Entry>>,
}

impl Followed {
    pub(crate) fn new(model: &Model) -> Self {
        Self { watching: model.watch("/registry/", Revision(1)), entries: BTreeMap::new() }
    }

    /// What has changed since this was asked last.
    pub(crate) fn next(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(Some(item)) = self.watching.items.next().now_or_never() {
            if let Watched::Changes(changes) = item.expect("nothing breaks this watch") {
                events.extend(changes.into_iter().filter_map(|change| self.event(change)));
            }
        }
        events
    }

    fn event(&mut self, Change { key, put, revision }: Change) -> Option<Event> {
        let previous = self.entries.remove(&key);
        let (kind, value, create_revision) = match (put, &previous) {
            (Some((value, create_revision)), _) => (EventKind::Put, value, create_revision),
            (None, Some(gone)) => (EventKind::Deleted, gone.value.clone(), gone.create_revision),
            (None, None) => return None,
        };
        let entry = Arc::new(Entry { key: key.clone(), value, header: Header::default(), create_revision, mod_revision: revision });
        if kind == EventKind::Put {
            self.entries.insert(key, Arc::clone(&entry));
        }
        Some(Event { kind, entry, previous, encoded: OnceLock::new() })
    }
}
