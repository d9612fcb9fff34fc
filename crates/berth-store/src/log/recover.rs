//! Reads all files of a store, changes none, and reports all faults in them.

use super::{
    acknowledged::{self, Note},
    frame::Reader,
    history::History,
    record::{Begin, FORMAT, Kind, Object, Record, Summary, decode},
};
use crate::{
    Key, Revision,
    files::{File, Files},
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    fmt, io,
};

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In which file; a missing one too.
    pub file: String,
    /// From which byte on, where it is a part of the file.
    pub offset: Option<u64>,
    /// The evidence for the fault.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.file, self.why),
            None => write!(f, "{}: {}", self.file, self.why),
        }
    }
}

/// What was read of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRead {
    /// Its name.
    pub name: String,
    /// Where what is whole in it ends, in bytes.
    pub bytes: u64,
    /// How many frames with right checksums it has: commits of a log, pieces of a checkpoint, and the beginning of each.
    pub frames: u64,
    /// Bytes of a frame that was never whole: a crash left them.
    pub torn: bool,
}

/// All contents of the files.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) objects: BTreeMap<Key, Object>,
    /// As of the last commit.
    pub(crate) state: Summary,
    /// The highest revision that is named anywhere.
    pub(crate) highest: Revision,
    pub(crate) acknowledged: Option<Revision>,
    /// The number of the last log and the checksum of its last frame; `None` if there is no log.
    pub(crate) last: Option<(u64, u64)>,
    /// The number of logs to read after the checkpoint, and their bytes.
    pub(crate) logs: (u64, u64),
    pub(crate) read: Vec<FileRead>,
    /// Files that are not needed any more, or that were never finished.
    pub(crate) left_over: Vec<String>,
    pub(crate) faults: Vec<Fault>,
    /// The format of a file that is of another one than this berth's.
    pub(crate) other_format: Option<u64>,
    /// What else happened, as far as it is kept.
    pub(crate) history: History,
    /// What the objects that were read come to.
    counted: Summary,
}

/// A file, and how far it was read.
struct Reading<'f> {
    reader: Reader<'f>,
    read: FileRead,
    /// The checksum of the frame that the next one follows, where that is known.
    chain: Option<u64>,
    /// The number of versions and deletions that the end of a checkpoint states.
    end: Option<u64>,
    /// How many there were so far.
    held: u64,
    /// Whether they are changes, each made to what was before it; else objects.
    are_changes: bool,
}

impl<'f> Reading<'f> {
    fn new(file: &'f dyn File, (kind, number): (Kind, u64), chain: Option<u64>) -> Self {
        let read = FileRead { name: kind.name(number), ..FileRead::default() };
        Self { reader: Reader::new(file, 0), read, chain, end: None, held: 0, are_changes: kind == Kind::Log }
    }
}

/// Everything in the folder; of changes, what `history` keeps.
///
/// # Errors
/// The files cannot be listed or read.
pub(crate) fn read(files: &dyn Files, history: History) -> io::Result<Found> {
    let names = files.list()?;
    let numbers = |kind: Kind| names.iter().filter_map(|name| kind.number(name)).collect::<BTreeSet<u64>>();
    let (checkpoints, logs) = (numbers(Kind::Checkpoint), numbers(Kind::Log));
    let mut found = Found { history, ..Found::default() };
    found.read_note(files, !logs.is_empty() || !checkpoints.is_empty())?;
    let from = match (checkpoints.last(), logs.first()) {
        (Some(number), _) => {
            found.read_checkpoint(files, *number)?;
            *number
        }
        (None, Some(number)) if 1 < *number => {
            found.fault(Kind::Checkpoint.name(*number), None, "it is missing");
            *number
        }
        (None, _) => 1,
    };
    if !checkpoints.is_empty() || !logs.is_empty() {
        found.read_logs(files, from, logs.range(from..))?;
    }
    found.left_over = names.into_iter().filter(|name| is_left_over(name, from)).collect();
    found.check_whole();
    Ok(found)
}

/// Whether a file was never finished, or is older than the first valid one.
fn is_left_over(name: &str, from: u64) -> bool {
    let number = |name: &str| Kind::Log.number(name).or_else(|| Kind::Checkpoint.number(name));
    match name.strip_suffix(".new") {
        Some(place) => place == acknowledged::NAME || number(place).is_some(),
        None => number(name).is_some_and(|number| number < from),
    }
}

impl Found {
    fn fault(&mut self, file: impl Into<String>, offset: Option<u64>, why: impl Into<String>) {
        self.faults.push(Fault { file: file.into(), offset, why: why.into() });
    }

    fn read_note(&mut self, files: &dyn Files, has_files: bool) -> io::Result<()> {
        match acknowledged::read(files)? {
            Note::Revision(revision) => self.acknowledged = Some(revision),
            Note::Damaged => self.fault(acknowledged::NAME, None, "its checksum is wrong"),
            Note::Missing if has_files => self.fault(acknowledged::NAME, None, "it is missing"),
            Note::Missing => (),
        }
        self.highest = self.acknowledged.unwrap_or_default();
        Ok(())
    }

    fn read_checkpoint(&mut self, files: &dyn Files, number: u64) -> io::Result<()> {
        let of = (Kind::Checkpoint, number);
        let file = files.open(&Kind::Checkpoint.name(number))?;
        let mut reading = Reading::new(&*file, of, None);
        while reading.end.is_none() {
            if !self.read_frame(&mut reading, of, false)? {
                break;
            }
        }
        if reading.end.is_some() && !reading.reader.is_at_end()? {
            self.fault(&reading.read.name, Some(reading.reader.offset()), "there is data after its end");
        }
        let held = reading.held;
        if let Some(count) = reading.end.filter(|count| *count != held) {
            self.fault(&reading.read.name, None, format!("it contains {held} versions and deletions instead of {count}"));
        }
        self.read.push(reading.read);
        Ok(())
    }

    fn read_logs<'n>(&mut self, files: &dyn Files, from: u64, numbers: impl Iterator<Item = &'n u64>) -> io::Result<()> {
        let (mut opened, mut expected) = (Vec::new(), from);
        for number in numbers {
            if *number != expected {
                self.fault(Kind::Log.name(expected), None, "it is missing");
            }
            opened.push((*number, files.open(&Kind::Log.name(*number))?));
            expected = number + 1;
        }
        if opened.is_empty() {
            self.fault(Kind::Log.name(from), None, "it is missing");
        }
        let mut chain = None;
        for (index, (number, file)) in opened.iter().enumerate() {
            let next = opened.get(index + 1).map(|(_, next)| Reader::new(&**next, 0).next()).transpose()?.flatten();
            chain = self.read_log(&**file, *number, chain, next.map(|seal| seal.previous))?;
            self.last = Some((*number, chain.unwrap_or_default()));
        }
        self.logs.0 = opened.len() as u64;
        Ok(())
    }

    /// Reads a log that follows the frame `chain`, up to the frame `end` where the next log continues: what follows that frame was never acknowledged.
    /// Returns the checksum of the last frame.
    fn read_log(&mut self, file: &dyn File, number: u64, chain: Option<u64>, end: Option<u64>) -> io::Result<Option<u64>> {
        let of = (Kind::Log, number);
        let mut reading = Reading::new(file, of, chain);
        while reading.read.frames == 0 || end.is_none() || reading.chain != end {
            if !self.read_frame(&mut reading, of, end.is_none())? {
                break;
            }
        }
        self.logs.1 += reading.reader.offset();
        self.read.push(reading.read);
        Ok(reading.chain)
    }

    /// Reads the next frame and applies it. Unreadable bytes before the next complete frame are a fault, except for a torn end if the file `may_end`.
    /// Returns false at the end of the file.
    fn read_frame(&mut self, reading: &mut Reading<'_>, of: (Kind, u64), may_end: bool) -> io::Result<bool> {
        let offset = reading.reader.offset();
        let Some(seal) = reading.reader.next()? else { return self.go_over(reading, may_end) };
        if reading.chain.is_some_and(|chain| chain != seal.previous) {
            self.fault(&reading.read.name, Some(offset), "the part before it is missing");
        }
        reading.chain = Some(seal.checksum);
        reading.read.frames += 1;
        reading.read.bytes = reading.reader.offset();
        if reading.read.frames == 1 && !matches!(decode(reading.reader.body()).next(), Some(Some(Record::Begin(_)))) {
            self.fault(&reading.read.name, Some(offset), "its header is not valid");
        }
        for record in decode(reading.reader.body()) {
            match record {
                Some(Record::Put(key, version)) => {
                    reading.held += 1;
                    if reading.are_changes { self.put(key, version.into()) } else { self.hold(key, version.into()) }
                }
                Some(Record::Delete(key, revision)) => {
                    reading.held += 1;
                    self.delete(&key, revision);
                }
                Some(Record::Since(resource, since)) => {
                    reading.are_changes = true;
                    self.history.begin(resource.as_str(), since);
                }
                Some(Record::Compact(revision)) => self.history.compact(revision),
                Some(Record::State(state)) => self.at(state),
                Some(Record::Begin(begin)) => self.begin(&reading.read.name, of, &begin),
                Some(Record::End { count, until }) => {
                    self.highest = self.highest.max(until);
                    reading.end = Some(count);
                }
                None => self.fault(&reading.read.name, Some(offset), "it contains an invalid record"),
            }
        }
        Ok(true)
    }

    /// Goes from what is no frame to the next one. False at the end of the file.
    fn go_over(&mut self, reading: &mut Reading<'_>, may_end: bool) -> io::Result<bool> {
        let (offset, is_blank) = (reading.reader.offset(), reading.reader.is_at_end()?);
        let has_more = !is_blank && reading.reader.skip()?;
        if may_end && !has_more && 0 < reading.read.frames {
            reading.read.torn = !is_blank;
            return Ok(false);
        }
        self.fault(&reading.read.name, Some(offset), if is_blank { "it ends too early" } else { "its checksum is wrong" });
        // What the next one follows cannot be known.
        reading.chain = None;
        Ok(has_more)
    }

    fn begin(&mut self, name: &str, (kind, number): (Kind, u64), begin: &Begin) {
        if begin.format != FORMAT {
            self.other_format = self.other_format.max(Some(begin.format));
            let author = if FORMAT < begin.format { "a later" } else { "an earlier" };
            self.fault(name, None, format!("it has format {}, which {author} berth wrote: only {FORMAT} is read", begin.format));
        } else if (begin.kind, begin.number) != (kind, number) {
            self.fault(name, None, format!("it was written as {}", begin.kind.name(begin.number)));
        } else if kind == Kind::Log && begin.state != self.state {
            let why = format!("it follows revision {}, and the file before it ends with {}", begin.state.revision, self.state.revision);
            self.fault(name, None, why);
        }
        self.at(begin.state);
    }

    fn at(&mut self, state: Summary) {
        self.highest = self.highest.max(state.revision);
        self.state = state;
    }

    fn hold(&mut self, key: Key, object: Object) {
        self.highest = self.highest.max(object.mod_revision);
        self.counted.add(&key, object.mod_revision);
        if let Some(twice) = self.objects.insert(key.clone(), object) {
            self.counted.remove(&key, twice.mod_revision);
        }
    }

    /// A checkpoint is written while others write: it can hold versions that the logs repeat after it.
    fn put(&mut self, key: Key, object: Object) {
        let (revision, value) = (object.mod_revision, object.value.clone());
        self.highest = self.highest.max(revision);
        match self.objects.entry(key) {
            btree_map::Entry::Vacant(place) => {
                self.counted.add(place.key(), revision);
                self.history.add(place.key(), revision, Some(value), None);
                place.insert(object);
            }
            btree_map::Entry::Occupied(mut place) if place.get().mod_revision < revision => {
                let previous = place.insert(object);
                self.counted.remove(place.key(), previous.mod_revision);
                self.counted.add(place.key(), revision);
                self.history.add(place.key(), revision, Some(value), Some(previous));
            }
            btree_map::Entry::Occupied(_) => (),
        }
    }

    fn delete(&mut self, key: &Key, revision: Revision) {
        if let Some(object) = self.objects.get(key).filter(|object| object.mod_revision <= revision) {
            self.counted.remove(key, object.mod_revision);
            self.history.add(key, revision, None, self.objects.remove(key));
        }
    }

    /// Each frame may be right and yet not all be there.
    fn check_whole(&mut self) {
        let (last, end) = self.end();
        if let Some(acknowledged) = self.acknowledged.filter(|acknowledged| self.state.revision < *acknowledged) {
            let why =
                format!("revision {acknowledged} was acknowledged, and revision {} is the last that can be read", self.state.revision);
            self.fault(&last, end, why);
        } else if self.faults.is_empty() && self.state.revision < self.highest {
            let why = format!("revision {} was written, and revision {} is the last that can be read", self.highest, self.state.revision);
            self.fault(&last, end, why);
        }
        let (found, said) = (Summary { revision: self.state.revision, ..self.counted }, self.state);
        if self.faults.is_empty() && found != said {
            let why = format!("{} objects with sum {:x} instead of {} objects with sum {:x}", found.count, found.sum, said.count, said.sum);
            let (file, end) = self.end();
            self.fault(file, end, why);
        }
    }

    /// The last file that was read, and where it ends.
    fn end(&self) -> (String, Option<u64>) {
        let last = self.read.last();
        (last.map_or_else(|| Kind::Log.name(1), |read| read.name.clone()), last.map(|read| read.bytes))
    }
}
