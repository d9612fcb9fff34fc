//! The durable part of the embedded store: a log of commits, and now and then a checkpoint of what they amount to.
//!
//! Reads never come here: everything is in memory. One frame is written for each batch of commits. It is durable before the commits are visible.
//!
//! - `log-N` holds commits. A new log begins at every start, for every checkpoint, and after a failed write. Its first frame names the last valid frame
//!   of the log before. What follows that frame, torn by a crash or of unknown outcome, is void from then on.
//! - `checkpoint-N` holds every object as it was when `log-N` began, so that all earlier logs can be removed. It contains each object as it was before
//!   its kept changes, then these changes, in the format of a log. It is written while others write. Where a resource changes so fast that history
//!   forgets the old version, the checkpoint holds newer versions and no history of that resource. `log-N` and later logs repeat these versions, and
//!   the newer version of a key counts.
//! - `acknowledged` records how far writes have been acknowledged ([`acknowledged`]).
//!
//! Each file names its format. A folder with a file of another format is refused and left as it is.
//!
//! Every file is made beside its place, under a name that ends with `.new`, synced, and moved there; then the folder is synced. Nothing that a start
//! needs is changed afterwards, but for the log that is written and the note. A start reads everything ([`recover`]) before it writes anything.

mod acknowledged;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod history;
mod record;
mod recover;
mod room;

pub use recover::{Fault, FileRead};

pub(crate) use history::{Change, History};
pub(crate) use record::{FORMAT, Object, Summary, Version};
pub(crate) use recover::Found;
pub(crate) use room::DiskRoom;

use crate::{
    Entry, Event, EventKind, Key, Revision,
    env::Timestamp,
    files::{File, Files},
    mvcc::{Commit, Past, Since, Versioned},
};
use acknowledged::Acknowledged;
use record::{Begin, Kind};
use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    sync::Arc,
};

/// How far revisions go on behind the last one that is known, after writes were lost: their revisions are not given out again.
const LOST_REVISIONS_MAX: u64 = 1_000_000;
/// How much of a checkpoint is one frame, about.
const CHECKPOINT_FRAME_BYTES: usize = 256 << 10;
/// After how much of a checkpoint it is synced, so that the syncs of commits never wait for much of it.
const CHECKPOINT_SYNC_BYTES: u64 = 8 << 20;
/// The number of objects that are read together: a lock is held for that.
const CHECKPOINT_PAGE: usize = 512;
/// A checkpoint is due at the latest when so many logs are to be read at a start.
const LOGS_MAX: u64 = 32;

/// What a store does when, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A log takes space in pieces of so many bytes, so that a write finds it and need not make the file longer.
    pub log_step_bytes: u64,
    /// How much is in the logs at least before a checkpoint is made; else, as much as the objects take.
    pub checkpoint_bytes_min: u64,
    /// What must stay free behind a write that clients want stored. Half of it is for what keeps the rest going, all but a sixteenth for what makes room
    /// ([`Purpose`](crate::Purpose)).
    pub free_bytes_min: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { log_step_bytes: 1 << 20, checkpoint_bytes_min: 32 << 20, free_bytes_min: 64 << 20 }
    }
}

/// What becomes of a folder of which something cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// It is not opened, and nothing in it is changed.
    #[default]
    Refuse,
    /// What can be read is opened. The damaged files stay, under names that begin with `damaged-`, and revisions that may have been given out are not
    /// given out again.
    AcceptLoss,
}

/// Why a folder cannot be opened. Nothing in it was changed that a later start would need.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system reported an error.
    #[error("could not read or write its files")]
    Io(#[from] io::Error),
    /// What was written is not what is read.
    #[error("{}{}", .0[0], more(.0.len() - 1))]
    Damaged(Vec<Fault>),
    /// A later berth wrote it: nothing of it is damage, and nothing is left out, whatever is accepted.
    #[error("it is of format {0}, and this berth knows none later than {FORMAT}")]
    Later(u64),
    /// An earlier berth wrote it, likewise.
    #[error("it is of format {0}, and this berth reads only {FORMAT}")]
    Earlier(u64),
}

fn more(count: usize) -> String {
    if count == 0 { String::new() } else { format!("; and {count} more") }
}

/// Why commits are not known to be durable.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Nothing of them is there, nor ever will be.
    Refused(io::Error),
    /// Which of the two is unknown. Nothing more is written before [`Log::begin`] has made sure that the commits are void.
    Unknown(io::Error),
}

impl CommitError {
    /// The error of the disk.
    pub(crate) fn source(&self) -> &io::Error {
        let (Self::Refused(source) | Self::Unknown(source)) = self;
        source
    }
}

/// Where commits become durable.
pub(crate) struct Log {
    files: Arc<dyn Files>,
    limits: Limits,
    note: Acknowledged,
    /// As of the last commit.
    state: Summary,
    number: u64,
    file: Box<dyn File>,
    /// Where the next frame goes.
    end: u64,
    /// How long the file is.
    allocated: u64,
    /// The checksum of the last frame.
    chain: u64,
    /// Whether the bytes after the last frame are unknown.
    is_broken: bool,
    /// What the logs contain that a start reads.
    to_read: ToRead,
    /// About what a checkpoint takes.
    live_bytes: u64,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ToRead {
    logs: u64,
    bytes: u64,
}

impl Log {
    /// Opens or makes the store in `files`. Also gives what it holds, of changes as many as `history` keeps, and what was wrong if that is accepted.
    pub(crate) fn open(files: Arc<dyn Files>, limits: Limits, on_damage: OnDamage, history: History) -> Result<(Self, Found), LogError> {
        let mut found = recover::read(&*files, history)?;
        if let Some(format) = found.other_format {
            return Err(if FORMAT < format { LogError::Later(format) } else { LogError::Earlier(format) });
        }
        if !found.faults.is_empty() {
            if on_damage == OnDamage::Refuse {
                return Err(LogError::Damaged(found.faults));
            }
            put_damaged_aside(&*files, &mut found)?;
        }
        let (last, chain) = found.last.unwrap_or_default();
        if found.last.is_some() {
            // What was read is shown from now on, also what the last process wrote and never synced.
            files.open(&Kind::Log.name(last))?.sync()?;
            files.sync()?;
        }
        let log = Self::begin_behind(files, limits, &found, (last, chain))?;
        for name in &found.left_over {
            match log.files.remove(name) {
                // Its name was used again and given away.
                Err(error) if error.kind() == ErrorKind::NotFound => (),
                removed => removed?,
            }
        }
        Ok((log, found))
    }

    fn begin_behind(files: Arc<dyn Files>, limits: Limits, found: &Found, (last, chain): (u64, u64)) -> io::Result<Self> {
        let note = Acknowledged::replace(&*files, found.state.revision)?;
        let begun = Begun::make(&*files, last + 1, chain, found.state, &limits)?;
        let Begun { file, end, allocated, chain } = begun;
        let (logs, bytes) = found.logs;
        Ok(Self {
            files,
            limits,
            note,
            state: found.state,
            number: last + 1,
            file,
            end,
            allocated,
            chain,
            is_broken: false,
            to_read: ToRead { logs: logs + 1, bytes },
            live_bytes: found.objects.iter().map(|(key, object)| live_bytes(key, &object.value)).sum(),
            buffer: Vec::new(),
        })
    }

    pub(crate) fn revision(&self) -> Revision {
        self.state.revision
    }

    /// Makes the changes durable, all or none.
    pub(crate) fn commit(&mut self, commits: &[Commit]) -> Result<(), CommitError> {
        let (state, live_bytes) = self.encode(commits);
        self.append(state)?;
        self.live_bytes = live_bytes;
        Ok(())
    }

    /// Sees to it that changes up to `revision` are forgotten for good.
    pub(crate) fn compact(&mut self, revision: Revision) -> Result<(), CommitError> {
        frame::begin(&mut self.buffer);
        record::encode_compact(revision, &mut self.buffer);
        record::encode_state(&self.state, &mut self.buffer);
        self.append(self.state)
    }

    /// Makes the frame in the buffer durable. With it, the store is as `state` describes.
    fn append(&mut self, state: Summary) -> Result<(), CommitError> {
        if self.is_broken {
            self.begin().map_err(CommitError::Refused)?;
        }
        let end = self.end + self.buffer.len() as u64;
        if self.allocated < end {
            let allocated = end.next_multiple_of(self.limits.log_step_bytes);
            self.file.allocate(allocated).map_err(CommitError::Refused)?;
            self.allocated = allocated;
        }
        let chain = frame::seal(&mut self.buffer, self.chain);
        self.is_broken = true;
        self.write(state.revision).map_err(CommitError::Unknown)?;
        self.is_broken = false;
        self.to_read.bytes += end - self.end;
        (self.state, self.end, self.chain) = (state, end, chain);
        Ok(())
    }

    /// The body of the commits' frame into the buffer. Gives what they make of the state and of the space that live objects take.
    fn encode(&mut self, commits: &[Commit]) -> (Summary, u64) {
        let (mut state, mut bytes) = (self.state, self.live_bytes);
        frame::begin(&mut self.buffer);
        for (commit, event) in commits.iter().flat_map(|commit| commit.events.iter().map(move |event| (commit, event))) {
            let Event { kind, entry, previous, .. } = &**event;
            if let Some(previous) = previous {
                state.remove(&previous.key, previous.mod_revision);
                bytes = bytes.saturating_sub(live_bytes(&previous.key, &previous.value));
            }
            match kind {
                EventKind::Put => {
                    state.add(&entry.key, entry.mod_revision);
                    bytes += live_bytes(&entry.key, &entry.value);
                    record::encode_put(&entry.key, Version::of(entry, commit.expires_at(&entry.key)), &mut self.buffer);
                }
                EventKind::Deleted => record::encode_delete(&entry.key, entry.mod_revision, &mut self.buffer),
            }
            state.revision = entry.mod_revision;
        }
        record::encode_state(&state, &mut self.buffer);
        (state, bytes)
    }

    fn write(&self, revision: Revision) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.end)?;
        self.file.sync()?;
        self.note.set(revision)
    }

    /// Whether it is unknown what the last write has left.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Continues in a new log after the last commit. What a failed log left after that is void from then on, whatever of it reaches the disk: the new
    /// log is a file of its own and names what it follows. Until this succeeds, nothing may be written.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        // The new log may get its place although this fails; then what is written to the old one would be void.
        self.is_broken = true;
        // The note may know of the commit that failed.
        self.note.set(self.state.revision)?;
        self.note.sync()?;
        let begun = Begun::make(&*self.files, self.number + 1, self.chain, self.state, &self.limits)?;
        Begun { file: self.file, end: self.end, allocated: self.allocated, chain: self.chain } = begun;
        self.number += 1;
        self.to_read.logs += 1;
        self.is_broken = false;
        Ok(())
    }

    /// The space for commits that are evaluated one behind the other.
    pub(crate) fn room(&self) -> DiskRoom {
        DiskRoom { limits: self.limits, free: self.files.free_bytes(), ahead: self.allocated - self.end, taken: 0 }
    }

    /// Whether the logs have become long enough that a checkpoint is worth its writing.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let is_long = self.limits.checkpoint_bytes_min.max(self.live_bytes) <= self.to_read.bytes || LOGS_MAX <= self.to_read.logs;
        // A smaller one makes room all the same.
        let makes_room = self.live_bytes / 4 + self.limits.log_step_bytes <= self.to_read.bytes;
        (is_long || makes_room && self.is_short()) && self.has_room_for(0)
    }

    /// Whether so little is free that not everything is written any more.
    pub(crate) fn is_short(&self) -> bool {
        is_short(&*self.files, &self.limits)
    }

    /// Whether there is space for a checkpoint with so many bytes of history.
    fn has_room_for(&self, history_bytes: u64) -> bool {
        let needed = self.live_bytes + self.live_bytes / 8 + history_bytes + 2 * self.limits.log_step_bytes;
        self.files.free_bytes().is_none_or(|free| needed <= free)
    }

    /// Begins a new log for a checkpoint of everything that is visible, with the `past` if there is space for it. All commits must be visible.
    pub(crate) fn begin_checkpoint(&mut self, past: Past) -> io::Result<Checkpoint> {
        let before = self.to_read;
        let past = if self.has_room_for(past.bytes as u64) { past } else { Past::forgotten(self.state.revision) };
        self.begin()?;
        // Also if it fails, so that the next try is not at once.
        self.to_read = ToRead { logs: 1, bytes: 0 };
        Ok(Checkpoint { files: Arc::clone(&self.files), number: self.number, begun: self.state, past, before })
    }

    /// Takes note of how a checkpoint ended.
    pub(crate) fn end_checkpoint(&mut self, ended: Result<(), NotWritten>) {
        if let Err(NotWritten { before }) = ended {
            // Half of it: the next try waits until some more is written.
            self.to_read.bytes += before.bytes / 2;
        }
    }

    /// Lets the note of what was acknowledged outlive a power loss. Everything else does so already.
    #[cfg(feature = "embedded")]
    pub(crate) fn close(self) -> io::Result<()> {
        self.note.sync()
    }
}

/// Whether so little space is free that only writes that keep the system running are accepted. On a file system that does not report its free space, a
/// write must fail first.
pub(crate) fn is_short(files: &dyn Files, limits: &Limits) -> bool {
    files.free_bytes().is_some_and(|free| free < limits.free_bytes_min + limits.log_step_bytes)
}

/// What a change takes in the log, about.
fn record_bytes(event: &Event) -> u64 {
    let value: &[u8] = if event.kind == EventKind::Put { &event.entry.value } else { &[] };
    live_bytes(&event.entry.key, value)
}

fn live_bytes(key: &Key, value: &[u8]) -> u64 {
    const RECORD_BYTES: usize = 40;
    (key.as_str().len() + value.len() + RECORD_BYTES) as u64
}

/// A log that has just been begun.
struct Begun {
    file: Box<dyn File>,
    end: u64,
    allocated: u64,
    chain: u64,
}

impl Begun {
    /// A new log at its place, durable.
    fn make(files: &dyn Files, number: u64, previous: u64, state: Summary, limits: &Limits) -> io::Result<Self> {
        let name = Kind::Log.name(number);
        let (file, end, chain) = begin_file(files, Begin { format: FORMAT, kind: Kind::Log, number, state }, previous)?;
        // The space is a promise for the first commits; without it they may be refused.
        let allocated = if file.allocate(limits.log_step_bytes).is_ok() { limits.log_step_bytes.max(end) } else { end };
        finish_file(files, &*file, &name)?;
        Ok(Self { file, end, allocated, chain })
    }
}

/// A file beside its place with its first frame. Gives where that ends, and its checksum.
fn begin_file(files: &dyn Files, begin: Begin, previous: u64) -> io::Result<(Box<dyn File>, u64, u64)> {
    let file = files.create(&new(&begin.kind.name(begin.number)))?;
    let mut bytes = Vec::new();
    frame::begin(&mut bytes);
    record::encode_begin(&begin, &mut bytes);
    let chain = frame::seal(&mut bytes, previous);
    file.write_at(&bytes, 0)?;
    Ok((file, bytes.len() as u64, chain))
}

/// Makes the file durable and moves it to its place.
fn finish_file(files: &dyn Files, file: &dyn File, name: &str) -> io::Result<()> {
    file.sync()?;
    files.rename(&new(name), name)?;
    files.sync()
}

fn new(name: &str) -> String {
    format!("{name}.new")
}

/// A checkpoint that is to be written, by whom it holds up least.
pub(crate) struct Checkpoint {
    files: Arc<dyn Files>,
    number: u64,
    /// The store where its log begins.
    begun: Summary,
    /// What is kept of what happened before.
    past: Past,
    before: ToRead,
}

/// A checkpoint that was not written. Nothing is lost: the logs stay. Commits meet the error of the disk too.
#[derive(Debug)]
pub(crate) struct NotWritten {
    before: ToRead,
}

impl Checkpoint {
    /// Writes what `as_of` returns for the revision at which the log begins. It writes page by page, each from the key after the last one, until a page
    /// is empty. Then it removes the files before it. Stops early if `stop` returns true.
    pub(crate) fn write(
        mut self,
        as_of: impl FnMut(Revision, Option<&Key>, usize) -> Versioned,
        stop: impl Fn() -> bool,
    ) -> Result<(), NotWritten> {
        let before = self.before;
        let written = self.write_all(as_of, stop).and_then(|()| self.remove_before());
        written.map_err(|_| {
            // What there is of it takes space that may be what is missing. What cannot be removed now goes at the next start.
            let _ = self.files.remove(&new(&Kind::Checkpoint.name(self.number)));
            NotWritten { before }
        })
    }

    fn write_all(&mut self, mut as_of: impl FnMut(Revision, Option<&Key>, usize) -> Versioned, stop: impl Fn() -> bool) -> io::Result<()> {
        let (files, begun, since) = (&*self.files, self.begun, std::mem::take(&mut self.past.since));
        let changes = self.past.changes();
        // Of each key that changed, what was before, and when what it has now is to go.
        let mut changed: BTreeMap<&Key, (Option<&Arc<Entry>>, Option<Timestamp>)> = BTreeMap::new();
        for change in changes {
            changed.entry(&change.entry.key).or_insert((change.previous.as_ref(), None));
        }
        let mut writer = CheckpointWriter::begin(files, self.number, begun)?;
        for entry in changed.values().filter_map(|(before, _)| *before) {
            writer.put(&entry.key, Version::of(entry, None))?;
        }
        let mut last: Option<Key> = None;
        let end = loop {
            let page = as_of(begun.revision, last.as_ref(), CHECKPOINT_PAGE);
            if stop() {
                return Err(ErrorKind::Interrupted.into());
            }
            for (entry, expires_at) in &page.entries {
                match changed.get_mut(&entry.key) {
                    Some(changed) => changed.1 = *expires_at,
                    None => writer.put(&entry.key, Version::of(entry, *expires_at))?,
                }
            }
            match page.entries.last() {
                Some((entry, _)) => last = Some(entry.key.clone()),
                None => break page,
            }
        };
        for (resource, since) in still_kept(begun.revision, &since, &end) {
            writer.since(&resource, since)?;
        }
        for change in changes {
            let Event { kind, entry, .. } = &**change;
            match kind {
                EventKind::Put => writer.put(&entry.key, Version::of(entry, changed.get(&entry.key).and_then(|changed| changed.1)))?,
                EventKind::Deleted => writer.delete(&entry.key, entry.mod_revision)?,
            }
        }
        writer.finish(end.revision)
    }

    /// Removes unneeded files. A file that stays by mistake is removed at the next start.
    fn remove_before(&self) -> io::Result<()> {
        for name in self.files.list()? {
            let number = Kind::Checkpoint.number(&name).or_else(|| Kind::Log.number(&name));
            if number.is_some_and(|number| number < self.number) {
                self.files.remove(&name)?;
            }
        }
        Ok(())
    }
}

/// The revision from which a checkpoint that began at `begun` contains the changes of each resource, if they were kept from `since` on. Where history
/// has forgotten the old version, the checkpoint holds newer versions, and what they replaced is unknown.
fn still_kept(begun: Revision, since: &Since, end: &Versioned) -> Since {
    let then = |resource: &str| since.iter().find(|(name, _)| **name == *resource).map(|(_, since)| *since);
    let others = then("").unwrap_or(begun);
    let from = |resource: &str, now: Revision| if begun < now { end.revision } else { then(resource).unwrap_or(others) };
    end.since.iter().map(|(resource, now)| (resource.clone(), from(resource, *now))).collect()
}

/// Writes a checkpoint, frame by frame.
struct CheckpointWriter<'f> {
    files: &'f dyn Files,
    name: String,
    file: Box<dyn File>,
    end: u64,
    synced: u64,
    chain: u64,
    count: u64,
    buffer: Vec<u8>,
}

impl<'f> CheckpointWriter<'f> {
    fn begin(files: &'f dyn Files, number: u64, state: Summary) -> io::Result<Self> {
        let name = Kind::Checkpoint.name(number);
        let (file, end, chain) = begin_file(files, Begin { format: FORMAT, kind: Kind::Checkpoint, number, state }, 0)?;
        let mut buffer = Vec::with_capacity(2 * CHECKPOINT_FRAME_BYTES);
        frame::begin(&mut buffer);
        Ok(Self { files, name, file, end, synced: 0, chain, count: 0, buffer })
    }

    fn put(&mut self, key: &Key, version: Version<'_>) -> io::Result<()> {
        record::encode_put(key, version, &mut self.buffer);
        self.count += 1;
        self.write_if_long()
    }

    fn delete(&mut self, key: &Key, revision: Revision) -> io::Result<()> {
        record::encode_delete(key, revision, &mut self.buffer);
        self.count += 1;
        self.write_if_long()
    }

    /// Writes the revision from which the changes of a resource are complete. Changes follow.
    fn since(&mut self, resource: &str, since: Revision) -> io::Result<()> {
        record::encode_since(resource, since, &mut self.buffer);
        self.write_if_long()
    }

    fn write_if_long(&mut self) -> io::Result<()> {
        if self.buffer.len() < CHECKPOINT_FRAME_BYTES { Ok(()) } else { self.write_frame() }
    }

    fn write_frame(&mut self) -> io::Result<()> {
        self.chain = frame::seal(&mut self.buffer, self.chain);
        self.file.write_at(&self.buffer, self.end)?;
        self.end += self.buffer.len() as u64;
        frame::begin(&mut self.buffer);
        if self.synced + CHECKPOINT_SYNC_BYTES <= self.end {
            self.synced = self.end;
            self.file.sync()?;
        }
        Ok(())
    }

    /// Ends the checkpoint, and records that it may hold what was written up to `until`.
    fn finish(mut self, until: Revision) -> io::Result<()> {
        self.write_frame()?;
        record::encode_end(self.count, until, &mut self.buffer);
        self.write_frame()?;
        finish_file(self.files, &*self.file, &self.name)
    }
}

/// Makes files of their own of these objects, without a history: a log and a checkpoint behind everything that is there. `state` is theirs.
pub(crate) fn rewrite(files: &dyn Files, number: u64, objects: impl IntoIterator<Item = (Key, Object)>, state: Summary) -> io::Result<()> {
    Begun::make(files, number, 0, state, &Limits::default())?;
    let mut writer = CheckpointWriter::begin(files, number, state)?;
    for (key, object) in objects {
        writer.put(&key, object.version())?;
    }
    writer.since("", state.revision)?;
    writer.finish(state.revision)
}

/// Records in a folder that [`rewrite`] wrote all that was ever acknowledged.
pub(crate) fn acknowledge(files: &dyn Files, revision: Revision) -> io::Result<()> {
    Acknowledged::replace(files, revision).map(drop)
}

/// Which logs and checkpoints there are.
#[cfg(feature = "embedded")]
pub(crate) fn names(files: &dyn Files) -> io::Result<std::collections::BTreeSet<String>> {
    Ok(files.list()?.into_iter().filter(|name| is_of_store(name) && name != acknowledged::NAME).collect())
}

/// Everything in the folder but its history, and what is wrong with it. Changes nothing.
#[cfg(feature = "embedded")]
pub(crate) fn read(files: &dyn Files, layout: Arc<dyn crate::Layout>) -> io::Result<Found> {
    recover::read(files, History::new(layout, 0))
}

/// Makes a complete store from the readable part, beside the damaged files, and gives those names that no start reads.
fn put_damaged_aside(files: &dyn Files, found: &mut Found) -> io::Result<()> {
    found.state = Summary::of(found.highest.later(LOST_REVISIONS_MAX), &found.objects);
    let damaged: Vec<String> = files.list()?.into_iter().filter(|name| is_of_store(name)).collect();
    let highest = damaged.iter().filter_map(|name| Kind::Log.number(name).max(Kind::Checkpoint.number(name))).max();
    let number = highest.unwrap_or(0) + 1;
    let objects = found.objects.iter().map(|(key, object)| (key.clone(), object.clone()));
    rewrite(files, number, objects, found.state)?;
    acknowledge(files, found.state.revision)?;
    for name in damaged.iter().filter(|name| *name != acknowledged::NAME) {
        files.rename(name, &format!("damaged-{name}"))?;
    }
    files.sync()?;
    let again = recover::read(files, History::default())?;
    found.left_over.clear();
    // What the lost revisions changed is unknown.
    found.history.compact(found.state.revision);
    (found.last, found.logs) = (again.last, again.logs);
    Ok(())
}

fn is_of_store(name: &str) -> bool {
    name == acknowledged::NAME || Kind::Log.number(name).or(Kind::Checkpoint.number(name)).is_some()
}

#[cfg(test)]
mod tests;
