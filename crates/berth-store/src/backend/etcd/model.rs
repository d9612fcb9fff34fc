//! A model of etcd in virtual time, for tests and the simulation: it does at a word what a real one does too rarely to wait for. `berth-etcd`'s tests do the same
//! to it and to a real one.

use super::api::{Alarm, Change, Etcd, EtcdError, KeyValue, Lease, Outcome, PAGE_BYTES, Page, Put, Query, Status, Watched, Watching};
use crate::{
    Expected, Key, Revision, Unchanged,
    env::{Clock, Spawner, Timestamp},
    virtual_time::{Process, VirtualTime},
};
use futures::{
    FutureExt, StreamExt,
    channel::{mpsc, oneshot},
    future::{BoxFuture, Either, ready, select},
};
use jiff::SignedDuration;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
};

/// How long an answer takes.
const ANSWER: SignedDuration = SignedDuration::from_millis(1);
/// How much later a transaction is done whose answer does not come.
const LATE: SignedDuration = SignedDuration::from_millis(45);
/// How long it is listened to by who does not ask again meanwhile.
const LISTENED: SignedDuration = SignedDuration::from_secs(3);
/// How long a watch takes to come to what it has to catch up with, where progress overtakes that.
const CATCH_UP: SignedDuration = SignedDuration::from_millis(5);

/// What becomes of a transaction whose answer does not come, or late.
#[derive(Clone, Copy, Debug)]
pub enum TransactionFault {
    /// Nothing.
    Lost,
    /// It is done.
    Done,
    /// It waits somewhere, and is done later if it still can be.
    Late,
    /// The same, and its answer comes to who listens for so long.
    Slow {
        /// How much later it is done.
        done: SignedDuration,
        /// How much later than that the answer comes.
        answered: SignedDuration,
    },
    /// etcd was not reached.
    Unreachable,
}

pub(super) type WatchSender = mpsc::UnboundedSender<Result<Watched, EtcdError>>;

/// What it holds, and what is to happen to it.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) revision: u64,
    pub(super) keys: BTreeMap<Key, KeyValue>,
    pub(super) log: Vec<Change>,
    pub(super) compacted: u64,
    pub(super) watchers: Vec<(String, WatchSender)>,
    /// Of the next transactions.
    pub(super) faults: VecDeque<TransactionFault>,
    /// Nothing reaches it.
    pub(super) is_cut: bool,
    /// It has lost the other members: it reports its status, and serves nothing else.
    pub(super) is_alone: bool,
    /// It does not report its status, and serves everything else.
    pub(super) hides: bool,
    /// It reports progress before it has sent earlier changes, as old releases do.
    pub(super) overtakes: bool,
    /// Another program writes there.
    pub(super) is_shared: bool,
    pub(super) alarms: Vec<Alarm>,
    /// Those that have not ended, with their keys.
    leases: BTreeMap<i64, BTreeSet<Key>>,
    pub(super) granted: i64,
    pub(super) asked: usize,
    /// How often it was asked how far a watch is.
    pub(super) questions: usize,
    /// The time and the revision of each compaction request.
    pub(super) compactions: Vec<(Timestamp, u64)>,
    /// How many keys each page had.
    pub(super) pages: Vec<usize>,
}

/// An etcd of one member, whose answers take a millisecond. Empty at first, at revision 1 as a real one is.
pub struct Model {
    kept: Arc<Mutex<Kept>>,
    time: VirtualTime,
    process: Process,
}

impl Model {
    /// In that time, as that process.
    #[must_use]
    pub fn new(time: &VirtualTime, process: &Process) -> Self {
        let kept = Arc::new(Mutex::new(Kept { revision: 1, ..Kept::default() }));
        Self { kept, time: time.clone(), process: process.clone() }
    }

    /// What becomes of the next transactions.
    pub fn faults(&self, faults: impl IntoIterator<Item = TransactionFault>) {
        self.kept().faults.extend(faults);
    }

    /// Whether nothing reaches it from now on.
    pub fn cut(&self, is_cut: bool) {
        self.kept().is_cut = is_cut;
        if is_cut {
            self.break_watches();
        }
    }

    /// Ends all watches.
    pub fn break_watches(&self) {
        for (_, sender) in self.kept().watchers.drain(..) {
            _ = sender.unbounded_send(Err(EtcdError::Unreachable("the watch broke".into())));
        }
    }

    /// These are raised from now on, and no others.
    pub fn raise(&self, alarms: &[Alarm]) {
        self.kept().alarms = alarms.to_vec();
    }

    /// Ends a lease, and all its keys with it in one revision.
    pub fn revoke(&self, lease: Lease) {
        self.kept().end(lease);
    }

    /// A transaction of which that becomes, if anything but an answer at once, for who listens however late that comes.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn txn_with(
        &self,
        puts: Arc<[Put]>,
        unchanged: Arc<[Unchanged]>,
        fate: Option<TransactionFault>,
    ) -> Result<Outcome, EtcdError> {
        self.travel().await;
        self.reached(|_| ())?;
        self.execute(puts, unchanged, fate).await
    }

    /// The same for who does not: what comes late is not heard.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn in_time(&self, txn: impl Future<Output = Result<Outcome, EtcdError>>) -> Result<Outcome, EtcdError> {
        match select(pin!(txn), self.time.sleep_until(self.time.now() + LISTENED)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(no_answer()),
        }
    }

    async fn execute(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>, fate: Option<TransactionFault>) -> Result<Outcome, EtcdError> {
        match fate {
            None => self.kept().execute(&puts, &unchanged),
            Some(TransactionFault::Lost) => Err(no_answer()),
            Some(TransactionFault::Unreachable) => Err(EtcdError::Unreachable("it is not there".into())),
            Some(TransactionFault::Done) => self.kept().execute(&puts, &unchanged).and(Err(no_answer())),
            Some(TransactionFault::Late) => {
                let fault = self.kept().fault(&puts, &unchanged);
                if fault.is_none() {
                    drop(self.execute_later(puts, unchanged, LATE));
                }
                Err(fault.unwrap_or_else(no_answer))
            }
            Some(TransactionFault::Slow { done, answered }) => {
                let answer = self.execute_later(puts, unchanged, done).await.unwrap_or_else(|_| Err(no_answer()));
                self.time.sleep_until(self.time.now() + answered).await;
                answer
            }
        }
    }

    /// Executes also where no caller waits any more.
    fn execute_later(
        &self,
        puts: Arc<[Put]>,
        unchanged: Arc<[Unchanged]>,
        later: SignedDuration,
    ) -> oneshot::Receiver<Result<Outcome, EtcdError>> {
        let (kept, later) = (Arc::clone(&self.kept), self.time.sleep_until(self.time.now() + later));
        let (send, sender) = oneshot::channel();
        let apply = later.map(move |()| _ = send.send(lock(&kept).execute(&puts, &unchanged)));
        self.process.spawn("late", apply.boxed());
        sender
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    async fn travel(&self) {
        self.time.sleep_until(self.time.now() + ANSWER).await;
    }

    fn reached<T>(&self, answer: impl FnOnce(&mut Kept) -> T) -> Result<T, EtcdError> {
        let mut kept = self.kept();
        if kept.is_cut { Err(EtcdError::Unreachable("it is cut off".into())) } else { Ok(answer(&mut kept)) }
    }
}

impl Kept {
    #[cfg(test)]
    pub(super) fn apply(&mut self, puts: &[Put]) -> Outcome {
        self.apply_while(puts, &[])
    }

    fn at(&self, key: &Key) -> Revision {
        self.keys.get(key).map_or(Revision(0), |found| found.mod_revision)
    }

    fn is_as_expected(&self, puts: &[Put], unchanged: &[Unchanged]) -> bool {
        let is_at = |key: &Key, revision: Revision| self.at(key) == revision && revision != Revision(0);
        let is_expected = |put: &Put| match put.expected {
            None => true,
            Some(Expected::Absent) => self.at(&put.key) == Revision(0),
            Some(Expected::At(revision)) => is_at(&put.key, revision),
        };
        puts.iter().all(is_expected) && unchanged.iter().all(|unchanged| self.at(&unchanged.key) == unchanged.revision)
    }

    fn execute(&mut self, puts: &[Put], unchanged: &[Unchanged]) -> Result<Outcome, EtcdError> {
        self.fault(puts, unchanged).map_or_else(|| Ok(self.apply_while(puts, unchanged)), Err)
    }

    fn apply_while(&mut self, puts: &[Put], unchanged: &[Unchanged]) -> Outcome {
        if !self.is_as_expected(puts, unchanged) {
            let compared = puts.iter().filter(|put| put.expected.is_some());
            let keys = compared.map(|put| &put.key).chain(unchanged.iter().map(|unchanged| &unchanged.key));
            return Outcome::Refused { found: keys.map(|key| self.at(key)).collect(), revision: Revision(self.revision) };
        }
        let revision = Revision(self.revision + 1);
        let changes: Vec<Change> = puts.iter().filter_map(|put| self.put(put, revision)).collect();
        if !changes.is_empty() {
            self.revision += 1;
            self.send(changes);
        }
        Outcome::Done(Revision(self.revision))
    }

    /// One revision.
    fn send(&mut self, changes: Vec<Change>) {
        self.watchers.retain(|(prefix, sender)| {
            let seen: Vec<_> = changes.iter().filter(|change| change.key.as_str().starts_with(prefix)).cloned().collect();
            seen.is_empty() || sender.unbounded_send(Ok(Watched::Changes(seen))).is_ok()
        });
        self.log.extend(changes);
    }

    fn as_of(&self, at: Revision) -> BTreeMap<Key, KeyValue> {
        let mut keys = BTreeMap::new();
        for Change { key, put, revision } in self.log.iter().filter(|change| change.revision <= at).cloned() {
            match put {
                None => _ = keys.remove(&key),
                Some((value, create_revision)) => {
                    _ = keys.insert(key.clone(), KeyValue { key, value, create_revision, mod_revision: revision, lease: None });
                }
            }
        }
        keys
    }

    /// `None`: what is to be deleted is not there.
    fn put(&mut self, put: &Put, revision: Revision) -> Option<Change> {
        let key = put.key.clone();
        self.leases.values_mut().for_each(|keys| _ = keys.remove(&key));
        let Some(value) = &put.value else {
            return self.keys.remove(&key).map(|_| Change { key, put: None, revision });
        };
        if let Some(keys) = put.lease.and_then(|lease| self.leases.get_mut(&lease.0)) {
            keys.insert(key.clone());
        }
        let create_revision = self.keys.get(&key).map_or(revision, |before| before.create_revision);
        let kept = KeyValue { key: key.clone(), value: value.clone(), create_revision, mod_revision: revision, lease: put.lease };
        self.keys.insert(key.clone(), kept);
        Some(Change { key, put: Some((value.clone(), create_revision)), revision })
    }

    fn end(&mut self, lease: Lease) {
        let keys = self.leases.remove(&lease.0).unwrap_or_default();
        if keys.is_empty() {
            return;
        }
        self.revision += 1;
        let revision = Revision(self.revision);
        keys.iter().for_each(|key| _ = self.keys.remove(key));
        self.send(keys.into_iter().map(|key| Change { key, put: None, revision }).collect());
    }

    /// Whether what was at that revision is known.
    fn check(&self, at: Option<Revision>) -> Result<(), EtcdError> {
        match at {
            Some(at) if self.revision < at.0 => Err(EtcdError::Future),
            Some(at) if at.0 < self.compacted => Err(EtcdError::Compacted),
            _ => Ok(()),
        }
    }

    fn range(&mut self, query: &Query) -> Result<Page, EtcdError> {
        self.check(query.at)?;
        let behind = |key: &Key| query.start_after.as_ref().is_none_or(|after| after < key);
        let keys = query.at.map_or_else(|| self.keys.clone(), |at| self.as_of(at));
        let found = keys.into_values().filter(|found| found.key.as_str().starts_with(&query.prefix) && behind(&found.key));
        let found: Vec<_> = found.collect();
        let (count, limit) = (found.len(), query.limit.unwrap_or(usize::MAX));
        let mut bytes = 0;
        let fits = |(number, found): &(usize, KeyValue)| {
            bytes += found.value.len();
            *number == 0 || bytes <= PAGE_BYTES
        };
        let keys: Vec<_> = found.into_iter().take(limit).enumerate().take_while(fits).map(|(_, found)| found).collect();
        self.pages.push(keys.len());
        Ok(Page { keys, revision: Revision(self.revision), count })
    }

    /// Why it does not take a transaction.
    fn fault(&self, puts: &[Put], unchanged: &[Unchanged]) -> Option<EtcdError> {
        let is_over = |put: &Put| put.lease.is_some_and(|lease| !self.leases.contains_key(&lease.0));
        if self.alarms.contains(&Alarm::Corrupt) {
            return Some(EtcdError::Refused("corrupt cluster".into()));
        }
        if self.alarms.contains(&Alarm::NoSpace) && puts.iter().any(|put| put.value.is_some()) {
            return Some(EtcdError::NoSpace);
        }
        // Where etcd writes nothing, it checks no lease.
        (self.is_as_expected(puts, unchanged) && puts.iter().any(is_over)).then_some(EtcdError::NoLease)
    }
}

impl Etcd for Model {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, EtcdError>> {
        async {
            // As old as it may be: from when it was asked.
            let revision = self.reached(|kept| {
                kept.asked += 1;
                if kept.is_alone { Err(EtcdError::Unknown("no leader".into())) } else { Ok(Revision(kept.revision)) }
            });
            self.travel().await;
            revision?
        }
        .boxed()
    }

    fn range(&self, query: Query) -> BoxFuture<'_, Result<Page, EtcdError>> {
        async move {
            self.travel().await;
            self.reached(|kept| kept.range(&query))?
        }
        .boxed()
    }

    fn unchanged(&self, prefix: &str, since: Revision) -> BoxFuture<'_, Result<Option<Revision>, EtcdError>> {
        let prefix = prefix.to_owned();
        let look = move |kept: &mut Kept| {
            kept.check(Some(since))?;
            let below = |keys: &BTreeMap<Key, KeyValue>| -> Vec<_> {
                let found = keys.values().filter(|found| found.key.as_str().starts_with(&prefix));
                found.map(|found| (found.key.clone(), found.mod_revision)).collect()
            };
            Ok((below(&kept.as_of(since)) == below(&kept.keys)).then_some(Revision(kept.revision)))
        };
        async move {
            self.travel().await;
            self.reached(look)?
        }
        .boxed()
    }

    fn txn_while(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        self.in_time(self.txn_patiently(puts, unchanged)).boxed()
    }

    fn txn_patiently(&self, puts: Arc<[Put]>, unchanged: Arc<[Unchanged]>) -> BoxFuture<'_, Result<Outcome, EtcdError>> {
        async move {
            self.travel().await;
            let fate = self.reached(|kept| kept.faults.pop_front())?;
            self.execute(puts, unchanged, fate).await
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, from: Revision) -> Watching {
        let (send, items) = mpsc::unbounded();
        let started = self.reached(|kept| {
            _ = send.unbounded_send(Ok(Watched::Begun));
            if from.0 < kept.compacted {
                return Err(EtcdError::Compacted);
            }
            let seen = kept.log.iter().filter(|change| from <= change.revision && change.key.as_str().starts_with(prefix));
            let seen: Vec<_> = seen.cloned().collect();
            let (later, behind) = (self.time.sleep_until(self.time.now() + CATCH_UP), send.clone());
            match seen.is_empty() {
                true => (),
                false if kept.overtakes => {
                    let catch_up = later.map(move |()| _ = behind.unbounded_send(Ok(Watched::Changes(seen))));
                    self.process.spawn("late", catch_up.boxed());
                }
                false => _ = send.unbounded_send(Ok(Watched::Changes(seen))),
            }
            kept.watchers.push((prefix.into(), send.clone()));
            Ok(())
        });
        if let Err(error) = started.and_then(|started| started) {
            _ = send.unbounded_send(Err(error));
        }
        let kept = Arc::downgrade(&self.kept);
        let send = Mutex::new(Some(send));
        let ask_progress = move || {
            let Some(kept) = kept.upgrade() else { return };
            let mut kept = lock(&kept);
            kept.questions += 1;
            // It reports no progress for a watch that begins at a later revision.
            if kept.revision < from.0 {
                return;
            }
            let mut send = send.lock().expect("nothing panics under it");
            let is_open = |send: &WatchSender| kept.watchers.iter().any(|(_, sender)| sender.same_receiver(send));
            match send.as_ref().filter(|_| !kept.is_cut) {
                Some(sender) if is_open(sender) => _ = sender.unbounded_send(Ok(Watched::Progress(Revision(kept.revision)))),
                _ => *send = None,
            }
        };
        Watching { items: items.boxed(), ask_progress: Arc::new(ask_progress) }
    }

    fn reports_progress(&self) -> bool {
        !self.kept().overtakes
    }

    fn barred(&self) -> Option<String> {
        self.kept().is_shared.then(|| "another program writes there".into())
    }

    fn grant(&self, seconds: i64) -> BoxFuture<'_, Result<Lease, EtcdError>> {
        let (kept, later) = (Arc::clone(&self.kept), self.time.sleep_until(self.time.now() + SignedDuration::from_secs(seconds)));
        let granted = self.reached(|kept| {
            if kept.alarms.contains(&Alarm::NoSpace) {
                return Err(EtcdError::NoSpace);
            }
            kept.granted += 1;
            kept.leases.insert(kept.granted, BTreeSet::new());
            Ok(Lease(kept.granted))
        });
        let granted = granted.and_then(|granted| granted);
        if let Ok(lease) = granted {
            self.process.spawn("lease", later.map(move |()| lock(&kept).end(lease)).boxed());
        }
        ready(granted).boxed()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, EtcdError>> {
        let status = self.reached(|kept| match kept.hides {
            true => Err(EtcdError::Unknown("no status".into())),
            false => Ok(Status { database_bytes: kept.log.len() as u64, alarms: kept.alarms.clone() }),
        });
        ready(status.and_then(|status| status)).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), EtcdError>> {
        let now = self.time.now();
        let compact = |kept: &mut Kept| {
            if kept.revision < revision.0 {
                return Err(EtcdError::Future);
            }
            kept.compactions.push((now, revision.0));
            kept.compacted = kept.compacted.max(revision.0);
            Ok(())
        };
        ready(self.reached(compact).and_then(|done| done)).boxed()
    }
}

fn no_answer() -> EtcdError {
    EtcdError::Unknown("no answer".into())
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().expect("nothing panics under it")
}
