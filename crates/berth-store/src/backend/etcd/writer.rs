//! Writes: one guarded transaction each, repeated while it is unknown what became of it.

use super::{
    api::{EtcdError, Lease, Outcome, Put},
    attempts::{Attempts, Next},
    condition::Condition,
    copies::Copies,
    copy::{Copy, NotShown},
    leases::Leases,
    stamp::{Stamp, Stamps},
    turn::Turn,
};
use crate::{
    Bound, Entry, Event, EventKind, Expected, Key, Revision, Unchanged, Write, WriteError,
    env::{Clock, Timestamp},
};
use futures::{
    StreamExt,
    future::{Either, pending, select},
    stream::FuturesUnordered,
};
use jiff::SignedDuration;
use std::{pin::pin, sync::Arc};

/// How long a write of unknown outcome is repeated before its writer is answered. Upstream's API server waits for etcd as long.
pub const SETTLED_WITHIN: SignedDuration = SignedDuration::from_secs(34);
/// The age of an attempt at which the next one is sent, by the number of open attempts. A hanging etcd is not asked constantly, and a lost attempt is
/// soon followed by another.
const LATE: [SignedDuration; 3] = [SignedDuration::from_secs(3), SignedDuration::from_secs(6), SignedDuration::from_secs(12)];
/// How long it waits before it goes on, at first and at most.
const REPEAT: (SignedDuration, SignedDuration) = (SignedDuration::from_millis(20), SignedDuration::from_secs(1));
/// How long a write that is done waits until this process shows it.
const SHOWN_WITHIN: SignedDuration = SignedDuration::from_secs(10);

pub(super) struct Writer {
    copies: Arc<Copies>,
    leases: Leases,
    turn: Turn,
    stamps: Stamps,
    condition: Arc<Condition>,
}

/// One key of a commit, and the copy that shows it.
struct Part {
    write: Write,
    copy: Arc<Copy>,
    /// What the copy showed of it before the write was sent, and when.
    before: Option<Arc<Entry>>,
    began: Revision,
}

type Entries = Vec<Arc<Entry>>;

/// How an attempt differs from others.
#[derive(Clone, Copy)]
enum Sent<'a> {
    /// It is done in this turn, or never.
    InTurn(&'a Unchanged),
    /// The revision that it makes has this stamp.
    Stamped(&'a Stamp),
}

impl Writer {
    pub(super) fn new(copies: Arc<Copies>, condition: Arc<Condition>) -> Self {
        let (leases, turn) = (Leases::new(Arc::clone(&copies.etcd)), Turn::new(Arc::clone(&copies.etcd)));
        let stamps = Stamps::new(&*copies.env.rng);
        Self { copies, leases, turn, stamps, condition }
    }

    /// The writes are checked: each key once, none too large, at least one.
    pub(super) async fn commit(&self, writes: Vec<Write>) -> Result<Entries, WriteError> {
        let mut parts = Vec::with_capacity(writes.len());
        for write in writes {
            let copy = self.copies.of(write.key.as_str(), None);
            // A change that the copy's first list already shows could not be distinguished from one that was always there.
            copy.loaded(SHOWN_WITHIN).await.map_err(|error| WriteError::Unavailable { cause: error.to_string() })?;
            if let Some((prefix, values)) = copy.encrypted().filter(|_| write.value.is_some()) {
                return Err(WriteError::Encrypted { prefix: prefix.to_owned(), values });
            }
            let began = copy.frontier().unwrap_or_default();
            let before = copy.shared.get(&write.key);
            parts.push(Part { write, copy, before, began });
        }
        let written = self.write(&parts).await;
        match &written {
            Err(WriteError::Unavailable { cause } | WriteError::Unknown { cause, .. }) => self.condition.record(Some(cause)),
            Err(WriteError::QuotaExceeded { .. }) => self.condition.is_full(),
            _ => self.condition.record(None),
        }
        written
    }

    async fn write(&self, parts: &[Part]) -> Result<Entries, WriteError> {
        let creates = parts.iter().any(|part| part.write.expected == Expected::Absent);
        if creates { self.create(parts).await } else { self.change(parts).await }
    }

    /// Where each key is there, or is to be. Once it is done it cannot be done again: it is repeated until etcd has answered, and what is late is listened to.
    async fn change(&self, parts: &[Part]) -> Result<Entries, WriteError> {
        let mut patience = Patience::new(&self.copies);
        let stamp = self.stamps.next();
        let (mut attempts, mut under_way) = (Attempts::default(), FuturesUnordered::new());
        let mut again_at = patience.clock.now();
        loop {
            let mut wakes_at = patience.ends;
            match attempts.next() {
                Next::Done(revision) => return done(parts, revision).await,
                Next::Refused(found) => return Err(conflict(parts, &found)),
                Next::Undone(error) => return Err(refused(&parts[0].write.key, error)),
                Next::Unknown(cause) => return Err(unknown(parts, &cause)),
                Next::ReadHistories { at, found } => {
                    match select(pin!(self.find(parts, at, &stamp, patience.ends)), pin!(answer(&mut under_way))).await {
                        Either::Right((answer, _)) => attempts.answered(answer),
                        Either::Left((Err(doubt), _)) => attempts.is_in_doubt(doubt.to_string()),
                        Either::Left((Ok(None), _)) => return Err(conflict(parts, &found)),
                        Either::Left((Ok(Some(events)), _)) => return Ok(entries(events)),
                    }
                    continue;
                }
                Next::Ask | Next::Listen if patience.is_over() => {
                    attempts.give_up();
                    continue;
                }
                Next::Ask if again_at <= patience.clock.now() && under_way.len() <= LATE.len() => {
                    under_way.push(self.attempt(parts, Sent::Stamped(&stamp)));
                    attempts.sent();
                    if let Some(late) = LATE.get(under_way.len() - 1) {
                        again_at = patience.clock.now() + *late;
                        wakes_at = wakes_at.min(again_at);
                    }
                }
                Next::Ask if under_way.len() <= LATE.len() => wakes_at = wakes_at.min(again_at),
                Next::Ask | Next::Listen => (),
            }
            if let Either::Left((answer, _)) = select(pin!(answer(&mut under_way)), patience.clock.sleep_until(wakes_at)).await {
                attempts.answered(answer);
                again_at = patience.clock.now() + patience.next();
            }
        }
    }

    /// Where a key is to be made. It could be done twice, if it is deleted between: before an attempt is repeated the turn ends that it was sent in,
    /// and its outcome is in the history of the keys.
    async fn create(&self, parts: &[Part]) -> Result<Entries, WriteError> {
        let key = &parts[0].write.key;
        let mut patience = Patience::new(&self.copies);
        loop {
            // Of what is to be written nothing is sent yet.
            let turn = match self.turn.current().await {
                Ok(turn) => turn,
                Err(EtcdError::Unknown(_)) if !patience.is_over() => {
                    patience.pause().await;
                    continue;
                }
                Err(error) => return Err(refused(key, error)),
            };
            let error = match self.attempt(parts, Sent::InTurn(&turn)).await {
                Ok(Outcome::Done(revision)) => return done(parts, revision).await,
                Ok(Outcome::Refused { found, .. }) => match found.last() {
                    Some(next) if *next != turn.revision && !patience.is_over() => {
                        self.turn.ended(&turn, *next).await;
                        continue;
                    }
                    _ => return Err(conflict(parts, &found)),
                },
                Err(error) => error,
            };
            match error {
                EtcdError::Unknown(cause) => {
                    let ended = loop {
                        if patience.is_over() {
                            return Err(WriteError::Unknown { key: key.clone(), cause });
                        }
                        patience.pause().await;
                        if let Ok(ended) = self.turn.end(&turn).await {
                            break ended;
                        }
                    };
                    let found = as_written(parts, ended).await;
                    if let Some(events) = found.map_err(|why| unknown(parts, &format!("{cause}; {why}")))? {
                        return Ok(entries(events));
                    }
                }
                // The lease of this attempt went meanwhile: the next has another.
                EtcdError::NoLease if !patience.is_over() => patience.pause().await,
                error => return Err(refused(key, error)),
            }
        }
    }

    /// What this write has changed up to a revision, by the histories of the keys and the stamp; `None`: nothing. Fails with the reason where that cannot be known
    /// before `ends`.
    async fn find(&self, parts: &[Part], at: Revision, stamp: &Stamp, ends: Timestamp) -> Result<Option<Vec<Arc<Event>>>, Doubt> {
        let Some(events) = as_written(parts, at).await? else { return Ok(None) };
        // What is deleted is deleted, whichever request did it. But two may have changed a value in the same way from the same revision.
        let Some(first) = events.first().filter(|_| parts.iter().all(|part| part.write.value.is_some())) else {
            return Ok(Some(events));
        };
        let (clock, etcd) = (&self.copies.env.clock, &*self.copies.etcd);
        loop {
            match stamp.is_of(first.entry.mod_revision, etcd).await {
                Ok(is_own) => return Ok(is_own.then_some(events)),
                Err(EtcdError::Unknown(_) | EtcdError::Unreachable(_)) if clock.now() < ends => {
                    clock.sleep_until(clock.now() + REPEAT.1).await;
                }
                Err(error) => return Err(Doubt::MaybeAnothers(error)),
            }
        }
    }

    /// A turn is compared behind everything else. An attempt in a turn is not listened to for longer than it takes to end that; the others are.
    async fn attempt(&self, parts: &[Part], sent: Sent<'_>) -> Result<Outcome, EtcdError> {
        if let Some(cause) = self.copies.etcd.barred() {
            return Err(EtcdError::Refused(cause));
        }
        let mut puts = Vec::with_capacity(parts.len());
        for Part { write, .. } in parts {
            let lease = self.lease(write).await?;
            puts.push(Put { key: write.key.clone(), expected: Some(write.expected), value: write.value.clone(), lease });
        }
        let leases: Vec<Lease> = puts.iter().filter_map(|put| put.lease).collect();
        let outcome = match sent {
            Sent::InTurn(turn) => {
                let unchanged = unchanged(parts).chain([turn]).cloned().collect();
                self.copies.etcd.txn_while(puts.into(), unchanged).await
            }
            Sent::Stamped(stamp) => {
                // Nothing but a deletion is done where etcd has no space left.
                puts.extend(parts.iter().any(|part| part.write.value.is_some()).then(|| stamp.put()));
                self.copies.etcd.txn_patiently(puts.into(), unchanged(parts).cloned().collect()).await
            }
        };
        if outcome == Err(EtcdError::NoLease) {
            for lease in leases {
                self.leases.forget(lease).await;
            }
        }
        outcome
    }

    async fn lease(&self, write: &Write) -> Result<Option<Lease>, EtcdError> {
        let Some(until) = write.expires_at.filter(|_| write.value.is_some()) else { return Ok(None) };
        match self.leases.until(until, self.copies.env.clock.now()).await {
            Ok(lease) => Ok(Some(lease)),
            // An unknown lease ends by itself. Nothing of the write was sent.
            Err(EtcdError::Unknown(cause)) => Err(EtcdError::Unreachable(cause)),
            Err(error) => Err(error),
        }
    }
}

/// Nothing was done.
fn refused(key: &Key, error: EtcdError) -> WriteError {
    match error {
        EtcdError::NoSpace => WriteError::QuotaExceeded { key: key.clone(), bound: Bound::Etcd },
        error => WriteError::Unavailable { cause: error.to_string() },
    }
}

/// What is only compared, behind what is written.
fn unchanged(parts: &[Part]) -> impl Iterator<Item = &Unchanged> {
    parts.iter().filter_map(|part| part.write.only_while.as_ref())
}

/// The first key that is not as expected.
fn conflict(parts: &[Part], found: &[Revision]) -> WriteError {
    let compared = found.get(parts.len()..).unwrap_or_default();
    let is_other = |(unchanged, found): &(&Unchanged, &Revision)| unchanged.revision != **found;
    if let Some((other, found)) = unchanged(parts).zip(compared).find(is_other) {
        return WriteError::Conflict { key: other.key.clone(), found: *found };
    }
    let is_other = |(part, found): &(&Part, &Revision)| match part.write.expected {
        Expected::Absent => **found != Revision(0),
        Expected::At(revision) => **found != revision || revision == Revision(0),
    };
    let other = parts.iter().zip(found).find(is_other);
    let (part, found) = other.unwrap_or((&parts[0], &found[0]));
    WriteError::Conflict { key: part.write.key.clone(), found: *found }
}

/// Why it cannot be determined whether a write was done.
#[derive(Debug, thiserror::Error)]
enum Doubt {
    #[error("its history is forgotten")]
    Forgotten,
    #[error(transparent)]
    NotShown(#[from] NotShown),
    #[error("what was to be written is there, and may be another's write: {0}")]
    MaybeAnothers(EtcdError),
}

/// What a commit that is done as `revision` gives its writer, once it is shown here.
async fn done(parts: &[Part], revision: Revision) -> Result<Entries, WriteError> {
    let mut entries = Vec::with_capacity(parts.len());
    for part in parts {
        let shown = part.copy.come(revision, SHOWN_WITHIN).await;
        let is_it = |event: &Arc<Event>| event.entry.mod_revision == revision;
        let Some(before) = revision.0.checked_sub(1).map(Revision) else { continue };
        let event = part.changes(before).and_then(|changes| changes.into_iter().find(is_it));
        let entry = event.map(|event| Arc::clone(&event.entry)).or_else(|| part.made(revision));
        let unseen = || {
            let why = shown.err().map_or(Doubt::Forgotten, Doubt::NotShown);
            WriteError::Unknown {
                key: part.write.key.clone(),
                cause: format!("etcd has it as revision {revision}, which is not shown here: {why}"),
            }
        };
        entries.push(entry.ok_or_else(unseen)?);
    }
    Ok(entries)
}

/// The answer of the next open attempt. Never returns if there is none.
async fn answer(under_way: &mut FuturesUnordered<impl Future<Output = Result<Outcome, EtcdError>>>) -> Result<Outcome, EtcdError> {
    match under_way.next().await {
        Some(answer) => answer,
        None => pending().await,
    }
}

/// The changes that are exactly the intended ones, all in one revision up to this one, from the histories of the keys. `None` if there are none. Fails
/// with the reason where this cannot be determined. A created object names its owner or has a uid, so it is no other writer's.
async fn as_written(parts: &[Part], revision: Revision) -> Result<Option<Vec<Arc<Event>>>, Doubt> {
    let mut events: Vec<Arc<Event>> = Vec::with_capacity(parts.len());
    for part in parts {
        let shown = part.copy.reach(revision, SHOWN_WITHIN).await;
        let changes = part.changes(part.began).ok_or(Doubt::Forgotten)?;
        match (changes.into_iter().find(|event| part.is_as_written(event)), shown) {
            (Some(event), _) => events.push(event),
            (None, Ok(())) => return Ok(None),
            (None, Err(error)) => return Err(error.into()),
        }
    }
    let is_one = events.windows(2).all(|pair| pair[0].entry.mod_revision == pair[1].entry.mod_revision);
    Ok(is_one.then_some(events))
}

fn entries(events: Vec<Arc<Event>>) -> Entries {
    events.into_iter().map(|event| Arc::clone(&event.entry)).collect()
}

fn unknown(parts: &[Part], cause: &str) -> WriteError {
    WriteError::Unknown { key: parts[0].write.key.clone(), cause: cause.into() }
}

/// How long a write of unknown outcome is tried.
struct Patience<'c> {
    clock: &'c dyn Clock,
    ends: Timestamp,
    pause: SignedDuration,
}

impl<'c> Patience<'c> {
    fn new(copies: &'c Copies) -> Self {
        let clock = &*copies.env.clock;
        Self { clock, ends: clock.now() + SETTLED_WITHIN, pause: REPEAT.0 }
    }

    fn is_over(&self) -> bool {
        self.ends <= self.clock.now()
    }

    /// How long to wait, each time longer.
    fn next(&mut self) -> SignedDuration {
        let next = (self.pause * 2).min(REPEAT.1);
        std::mem::replace(&mut self.pause, next)
    }

    async fn pause(&mut self) {
        let until = self.clock.now() + self.next();
        self.clock.sleep_until(until).await;
    }
}

impl Part {
    /// What the copy knows of the key's changes behind a revision; `None`: not all.
    fn changes(&self, after: Revision) -> Option<Vec<Arc<Event>>> {
        self.copy.shared.read().changes_of(&self.write.key, after)
    }

    /// Whether a change is from what was expected to what was to be written.
    fn is_as_written(&self, event: &Event) -> bool {
        let from = event.previous.as_ref().map(|previous| previous.mod_revision);
        let was_expected = match self.write.expected {
            Expected::Absent => from.is_none(),
            Expected::At(revision) => from == Some(revision),
        };
        was_expected
            && match &self.write.value {
                Some(value) => event.kind == EventKind::Put && event.entry.value == *value,
                None => event.kind == EventKind::Deleted,
            }
    }

    /// The entry that the write makes, where what was before is known.
    fn made(&self, revision: Revision) -> Option<Arc<Entry>> {
        let before = self.before.as_ref().filter(|before| self.write.expected == Expected::At(before.mod_revision));
        let key = self.write.key.clone();
        let entry = match (&self.write.value, self.write.expected, before) {
            (Some(value), Expected::Absent, _) => {
                let header = self.copy.header(&key, value);
                Entry { key, value: value.clone(), header, create_revision: revision, mod_revision: revision }
            }
            (Some(value), Expected::At(_), Some(before)) => {
                let header = self.copy.header(&key, value);
                Entry { key, value: value.clone(), header, create_revision: before.create_revision, mod_revision: revision }
            }
            (None, _, Some(before)) => {
                let (value, header) = (before.value.clone(), before.header.clone());
                Entry { key, value, header, create_revision: before.create_revision, mod_revision: revision }
            }
            (_, _, None) => return None,
        };
        Some(Arc::new(entry))
    }
}
