//! A copy of the keys below one prefix: a list, and the changes that a watch has reported since.

use super::{
    api::{Change, Etcd, EtcdError, KeyValue, Query, Watched},
    list::{Listed, Shown, list, shown},
};
use crate::{
    Entry, Event, EventKind, Events, Header, Key, Layout, Purpose, ReadError, Revision,
    env::{Env, Timestamp},
    mvcc::{Commit, Mvcc, Recovered},
    shared::Shared,
};
use event_listener::Event as Bell;
use futures::{
    FutureExt, StreamExt,
    channel::oneshot,
    future::{Either, select},
};
use jiff::SignedDuration;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

/// How long it waits before it tries again, at first and at most.
const RETRY: (SignedDuration, SignedDuration) = (SignedDuration::from_millis(50), SignedDuration::from_secs(2));
/// The interval of progress requests while a reader waits. The answer comes only after the watch has caught up.
const ASK_AGAIN: SignedDuration = SignedDuration::from_millis(50);
/// The interval without waiting readers: a copy of unchanged keys must not fall so far behind that its revision is compacted.
const ASK_IDLE: SignedDuration = SignedDuration::from_secs(1);
/// The minimum interval of reads from etcd where etcd reports no progress. Each one costs etcd a scan of all keys.
const READ_INTERVAL: SignedDuration = SignedDuration::from_secs(2);
/// A copy that lags by more than this is reported as a fault.
const LATE: SignedDuration = SignedDuration::from_secs(5);

pub(super) struct Copy {
    etcd: Arc<dyn Etcd>,
    env: Env,
    layout: Arc<dyn Layout>,
    prefix: Box<str>,
    history_bytes: usize,
    pub(super) shared: Arc<Shared>,
    state: Mutex<CopyState>,
    /// A reader waits.
    nudge: Bell,
    /// A read from etcd is due.
    read_due: Bell,
}

struct CopyState {
    /// The revision to list at, if it can be.
    from: Option<Revision>,
    /// All up to here is in the copy; `None`: nothing has been listed, or the watch lost its place.
    frontier: Option<Revision>,
    /// The same, whether or not the place is lost.
    seen: Revision,
    /// The list or the watch has delivered everything up to here. After it, up to `seen`, etcd was read: what exists is what is shown.
    watched: Revision,
    /// The earliest time of the next read from etcd.
    read_at: Timestamp,
    /// How far it was to be when it was last asked how far the watch is.
    asked: Revision,
    readers: BTreeMap<(Revision, u64), Reader>,
    readers_ever: u64,
    /// The first awaited revision that is not shown, and since when. Stays when the first reader has given up and others wait.
    awaited: Option<(Revision, Timestamp)>,
    ask_progress: Arc<dyn Fn() + Send + Sync>,
    /// Why it does not follow at the moment.
    trouble: Option<String>,
    /// The keys whose values are encrypted.
    encrypted: BTreeSet<Key>,
}

impl CopyState {
    fn shows(&self, revision: Revision) -> bool {
        self.frontier.is_some_and(|frontier| revision <= frontier)
    }
}

/// Who waits until the copy shows a revision.
struct Reader {
    until: Timestamp,
    since: Timestamp,
    answer: oneshot::Sender<Result<(), NotShown>>,
}

/// Why a copy does not show a revision.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NotShown {
    #[error("the copy of {prefix} is at revision {seen}, behind {awaited}: {why}")]
    Behind { prefix: Box<str>, seen: Revision, awaited: Revision, why: String },
    #[error("the store is closed")]
    Closed,
}

impl From<NotShown> for ReadError {
    fn from(error: NotShown) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Copy {
    /// Of keys that begin with `prefix`, at first as they were at `from`, if that can still be read.
    pub(super) fn new(
        etcd: Arc<dyn Etcd>,
        env: Env,
        layout: Arc<dyn Layout>,
        prefix: &str,
        history_bytes: usize,
        from: Option<Revision>,
    ) -> Arc<Self> {
        let shared = Shared::new(Mvcc::new(Arc::clone(&layout), history_bytes));
        let state = CopyState {
            from,
            frontier: None,
            seen: Revision(0),
            watched: Revision(0),
            read_at: Timestamp::UNIX_EPOCH,
            asked: Revision(0),
            readers: BTreeMap::new(),
            readers_ever: 0,
            awaited: None,
            ask_progress: Arc::new(|| ()),
            trouble: None,
            encrypted: BTreeSet::new(),
        };
        let (state, nudge, read_due) = (Mutex::new(state), Bell::new(), Bell::new());
        Arc::new(Self { etcd, env, layout, prefix: prefix.into(), history_bytes, shared, state, nudge, read_due })
    }

    /// Follows etcd; never ends.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut wait = RETRY.0;
        loop {
            let before = self.frontier();
            let error = self.follow_once().await;
            if before < self.frontier() {
                wait = RETRY.0;
            }
            self.lock().trouble = Some(error.to_string());
            self.env.clock.sleep_until(self.env.clock.now() + wait).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }

    /// Repeats requests for waiting readers, and answers readers that have waited too long. Never returns.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let nudged = self.nudge.listen();
            let pause = if self.lock().readers.is_empty() { ASK_IDLE } else { ASK_AGAIN };
            let paused = self.env.clock.sleep_until(self.env.clock.now() + pause);
            match select(paused, nudged).await {
                // They have asked themselves.
                Either::Right(_) => (),
                Either::Left(_) => self.tick(),
            }
        }
    }

    fn tick(&self) {
        let now = self.env.clock.now();
        let mut state = self.lock();
        let why = state.trouble.clone().unwrap_or_else(|| "what it is to show has not come".into());
        let late: Vec<_> = state.readers.iter().filter(|(_, reader)| reader.until <= now).map(|(at, _)| *at).collect();
        for at in late {
            let Some(reader) = state.readers.remove(&at) else { continue };
            let behind = NotShown::Behind { prefix: self.prefix.clone(), seen: state.seen, awaited: at.0, why: why.clone() };
            _ = reader.answer.send(Err(behind));
        }
        drop(state);
        self.ask_progress();
    }

    /// Requests progress where the answer is reliable. Otherwise requests a read from etcd, at a limited rate.
    fn ask_progress(&self) {
        if self.etcd.reports_progress() {
            let ask = Arc::clone(&self.lock().ask_progress);
            return ask();
        }
        let (now, mut state) = (self.env.clock.now(), self.lock());
        if state.read_at <= now {
            state.read_at = now + READ_INTERVAL;
            self.read_due.notify(1);
        }
    }

    /// Resolves when the copy shows `revision`, the revision of a change that the watch delivers. Returns the reason if it does not in time.
    pub(super) fn come(&self, revision: Revision, within: SignedDuration) -> impl Future<Output = Result<(), NotShown>> + Send + use<> {
        let (answer, told) = oneshot::channel();
        let since = self.env.clock.now();
        let mut state = self.lock();
        if state.shows(revision) {
            _ = answer.send(Ok(()));
        } else {
            let (number, is_first) = (state.readers_ever, state.readers.is_empty());
            state.readers_ever += 1;
            state.awaited.get_or_insert((revision, since));
            state.readers.insert((revision, number), Reader { until: since + within, since, answer });
            drop(state);
            if is_first {
                self.nudge.notify(usize::MAX);
            }
        }
        told.map(|told| told.unwrap_or(Err(NotShown::Closed)))
    }

    /// The same of a revision that may be of anything. Of many who wait for one the first asks: what is answered is as new as the question.
    pub(super) fn reach(&self, revision: Revision, within: SignedDuration) -> impl Future<Output = Result<(), NotShown>> + Send + use<> {
        let mut state = self.lock();
        let asks = !state.shows(revision) && state.asked < revision;
        if asks {
            state.asked = revision;
        }
        drop(state);
        let told = self.come(revision, within);
        if asks {
            self.ask_progress();
        }
        told
    }

    /// Resolves when there is something to show.
    pub(super) fn loaded(&self, within: SignedDuration) -> impl Future<Output = Result<(), NotShown>> + Send + use<> {
        self.reach(Revision(0), within)
    }

    /// All up to here is shown.
    pub(super) fn frontier(&self) -> Option<Revision> {
        self.lock().frontier
    }

    /// What users are to know of it.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.lock();
        if let Some(trouble) = &state.trouble {
            return Some(format!("{}: {trouble}", self.prefix));
        }
        let (_, since) = state.awaited?;
        let is_late = LATE < self.env.clock.now().duration_since(since);
        is_late.then(|| format!("{}: the copy is at revision {} and does not come to what etcd has", self.prefix, state.seen))
    }

    /// What the keys begin with, and how many of them have encrypted values.
    pub(super) fn encrypted(&self) -> Option<(&str, usize)> {
        let count = self.lock().encrypted.len();
        (0 < count).then_some((&*self.prefix, count))
    }

    pub(super) fn header(&self, key: &Key, value: &[u8]) -> Header {
        self.layout.header(key, value)
    }

    /// Until it fails.
    async fn follow_once(&self) -> EtcdError {
        if self.frontier().is_none()
            && let Err(error) = self.list().await
        {
            return error;
        }
        let from = self.lock().watched.later(1);
        let mut watching = self.etcd.watch(&self.prefix, from);
        self.lock().ask_progress = Arc::clone(&watching.ask_progress);
        let mut asked = self.read_due.listen();
        self.ask_progress();
        loop {
            let item = match select(watching.items.next(), &mut asked).await {
                Either::Left((Some(item), _)) => item,
                Either::Left((None, _)) => return EtcdError::Unreachable("the watch ended".into()),
                Either::Right(_) => {
                    asked = self.read_due.listen();
                    match self.read_state().await {
                        Err(EtcdError::Compacted) => return self.lost(EtcdError::Compacted),
                        // Whatever else is wrong, the watch finds out by itself.
                        _ => continue,
                    }
                }
            };
            match item {
                Ok(Watched::Changes(changes)) if self.are_late(&changes) => {
                    return self.lost(EtcdError::Refused("etcd was looked at before a change came that was there".into()));
                }
                Ok(Watched::Changes(changes)) => self.take(changes),
                Ok(Watched::Progress(revision)) if self.etcd.reports_progress() => self.advance(revision),
                // Where nothing changes, no more may come for long.
                Ok(Watched::Begun) => self.lock().trouble = None,
                // What is before it may still come.
                Ok(Watched::Progress(_)) => (),
                Err(EtcdError::Compacted) => return self.lost(EtcdError::Compacted),
                Err(error) => return error,
            }
        }
    }

    /// The copy must relist.
    fn lost(&self, error: EtcdError) -> EtcdError {
        self.lock().frontier = None;
        error
    }

    /// Proves that nothing has changed, where etcd does not report the progress of the watch. The events of a key that was created and deleted can
    /// still be on their way.
    async fn read_state(&self) -> Result<(), EtcdError> {
        let seen = self.lock().seen;
        // Else what has changed comes by the watch.
        if let Some(revision) = self.etcd.unchanged(&self.prefix, seen).await? {
            self.show(revision);
        }
        Ok(())
    }

    /// Whether a change has a revision at which nothing seemed to have changed: a key was created and deleted. Watchers were informed that nothing
    /// changed, so they must relist. Watchers at the newest revision know what exists, and need not.
    fn are_late(&self, changes: &[Change]) -> bool {
        let state = self.lock();
        changes.iter().any(|change| state.watched < change.revision && change.revision <= state.seen)
    }

    /// Shows all keys as of one revision.
    async fn list(&self) -> Result<(), EtcdError> {
        let from = self.lock().from.take();
        let Listed { entries, encrypted, revision, .. } = match self.read(from).await {
            Err(EtcdError::Compacted | EtcdError::Future) if from.is_some() => self.read(None).await?,
            read => read?,
        };
        let seen = self.lock().seen;
        if revision < seen {
            return Err(EtcdError::Refused(format!(
                "etcd is at revision {revision} and was at {seen}: it has lost what was written since"
            )));
        }
        let recovered = Recovered { entries, ..Recovered::default() };
        let mut mvcc = Mvcc::recovered(Arc::clone(&self.layout), revision, recovered, self.history_bytes);
        if let Some(resource) = self.layout.resource_prefix(&self.prefix) {
            mvcc.partition_by_prefix(resource);
        }
        self.shared.replace(mvcc);
        let mut state = self.lock();
        (state.watched, state.encrypted) = (revision, encrypted.into_iter().collect());
        drop(state);
        self.moved(revision);
        Ok(())
    }

    async fn read(&self, at: Option<Revision>) -> Result<Listed, EtcdError> {
        list(&*self.etcd, &*self.layout, Query { prefix: self.prefix.to_string(), start_after: None, at, limit: None }).await
    }

    /// Shows changes, revision by revision.
    fn take(&self, changes: Vec<Change>) {
        let seen = self.lock().seen;
        let Some(last) = changes.last().map(|change| change.revision) else { return };
        let puts: Vec<_> = changes.into_iter().filter(|change| seen < change.revision).map(|change| self.change(change)).collect();
        let mut changed: BTreeMap<Key, Option<Arc<Entry>>> = BTreeMap::new();
        let visible = self.shared.read();
        let mut commits = Vec::new();
        for whole in puts.chunk_by(|one, next| one.1 == next.1) {
            let mut events = Events::new();
            for (key, revision, put) in whole {
                let previous = changed.get(key).cloned().unwrap_or_else(|| visible.get(key).cloned());
                let Some(event) = event(put.clone(), previous, *revision) else { continue };
                changed.insert(key.clone(), (event.kind == EventKind::Put).then(|| Arc::clone(&event.entry)));
                events.push(Arc::new(event));
            }
            if !events.is_empty() {
                commits.push(Commit { events, expiries: Vec::new(), purpose: Purpose::Growth });
            }
        }
        drop(visible);
        self.shared.publish(&commits);
        self.advance(last);
    }

    /// The key and the revision of a change, and its new value.
    fn change(&self, change: Change) -> (Key, Revision, Option<Arc<Entry>>) {
        let Change { key, put, revision } = change;
        let found = put.map(|(value, create_revision)| {
            shown(&*self.layout, KeyValue { key: key.clone(), value, create_revision, mod_revision: revision, lease: None })
        });
        let mut state = self.lock();
        match &found {
            Some(Shown::Encrypted(key)) => _ = state.encrypted.insert(key.clone()),
            _ if state.encrypted.is_empty() => (),
            _ => _ = state.encrypted.remove(&key),
        }
        drop(state);
        // What cannot be read is as if it were gone.
        let entry = match found {
            Some(Shown::Entry(entry)) => Some(Arc::new(entry)),
            Some(Shown::Encrypted(_) | Shown::Nothing) | None => None,
        };
        (key, revision, entry)
    }

    /// The watch has come there.
    fn advance(&self, revision: Revision) {
        let mut state = self.lock();
        state.watched = state.watched.max(revision);
        drop(state);
        self.show(revision);
    }

    fn show(&self, revision: Revision) {
        self.shared.advance(revision);
        self.moved(revision);
    }

    /// The copy shows all up to `revision`.
    fn moved(&self, revision: Revision) {
        let mut state = self.lock();
        let frontier = state.seen.max(revision);
        state.seen = frontier;
        state.frontier = Some(frontier);
        state.trouble = None;
        let behind = state.readers.split_off(&(frontier.later(1), 0));
        let reached = std::mem::replace(&mut state.readers, behind);
        if state.awaited.is_some_and(|(revision, _)| revision <= frontier) {
            state.awaited = state.readers.iter().map(|((revision, _), reader)| (*revision, reader.since)).min_by_key(|(_, since)| *since);
        }
        drop(state);
        // Who no longer waits has chosen not to know.
        reached.into_values().for_each(|reader| _ = reader.answer.send(Ok(())));
    }

    fn lock(&self) -> MutexGuard<'_, CopyState> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

/// What happened to a key; `None`: it was not there and is not.
fn event(put: Option<Arc<Entry>>, previous: Option<Arc<Entry>>, revision: Revision) -> Option<Event> {
    let kind = if put.is_some() { EventKind::Put } else { EventKind::Deleted };
    let gone = |last: &Arc<Entry>| {
        let (key, value, header) = (last.key.clone(), last.value.clone(), last.header.clone());
        Arc::new(Entry { key, value, header, create_revision: last.create_revision, mod_revision: revision })
    };
    let entry = put.or_else(|| previous.as_ref().map(gone))?;
    Some(Event { kind, entry, previous, encoded: OnceLock::new() })
}
