//! Records: the contents of the bodies of frames. Numbers are little-endian. Keys and values follow their lengths, u32 each.
//!
//! | tag | record | fields |
//! |---|---|---|
//! | 1 | the newest version of a key | key, create revision u64, mod revision u64, value |
//! | 2 | the same, of a value that is to go | key, create revision u64, mod revision u64, second since 1970 i64, value |
//! | 3 | a deletion | key, its revision u64 |
//! | 4 | the store as a whole, behind what the frame holds before | revision u64, count u64, sum u64 |
//! | 5 | the beginning of a file, alone in its frame | format u64, kind u8, number u64, then as 4, before anything of the file |
//! | 6 | the end of a checkpoint, alone in its frame | how many versions and deletions it holds u64, revision u64 |
//! | 7 | the start of a resource's changes in a checkpoint: changes follow the first of these records, as in a log | the prefix of its keys, or nothing for all others; revision u64 |
//! | 8 | a compaction: changes up to there are forgotten | revision u64 |

use crate::{Entry, Key, Revision, env::Timestamp};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What is described above, and in [`super::frame`]. Formats 1 to 3 are older than the first release.
pub(crate) const FORMAT: u64 = 4;

const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const DELETE: u8 = 3;
const STATE: u8 = 4;
const BEGIN: u8 = 5;
const END: u8 = 6;
const SINCE: u8 = 7;
const COMPACT: u8 = 8;

/// The newest version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) value: Bytes,
    pub(crate) create_revision: Revision,
    pub(crate) mod_revision: Revision,
    pub(crate) expires_at: Option<Timestamp>,
}

/// The store as a whole. `count` and `sum` are over all objects, so that a reader detects an object that is missing, is back after its deletion, or is
/// an older version than it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) revision: Revision,
    /// Live objects.
    pub(crate) count: u64,
    /// Over the live objects' keys and mod revisions, in any order.
    pub(crate) sum: u64,
}

impl Summary {
    /// Of these objects.
    pub(crate) fn of<'o>(revision: Revision, objects: impl IntoIterator<Item = (&'o Key, &'o Object)>) -> Self {
        let mut found = Self { revision, ..Self::default() };
        objects.into_iter().for_each(|(key, object)| found.add(key, object.mod_revision));
        found
    }

    pub(crate) fn add(&mut self, key: &Key, modified: Revision) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(fingerprint(key, modified));
    }

    /// Takes away what was added before.
    pub(crate) fn remove(&mut self, key: &Key, modified: Revision) {
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(fingerprint(key, modified));
    }
}

fn fingerprint(key: &Key, modified: Revision) -> u64 {
    xxh3_64_with_seed(&modified.0.to_le_bytes(), xxh3_64(key.as_str().as_bytes()))
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Checkpoint,
    Log,
}

impl Kind {
    /// What its name begins with.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint-",
            Self::Log => "log-",
        }
    }

    pub(crate) fn name(self, number: u64) -> String {
        format!("{}{number:08}", self.prefix())
    }

    /// The number in a name of such a file.
    pub(crate) fn number(self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(self.prefix())?;
        let number = digits.parse().ok()?;
        (self.name(number) == name).then_some(number)
    }

    fn tag(self) -> u8 {
        match self {
            Self::Checkpoint => b'c',
            Self::Log => b'l',
        }
    }
}

/// How a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) format: u64,
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) state: Summary,
}

/// One record. Of a `Put` the value is still where it was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Put(Key, Version<'a>),
    Delete(Key, Revision),
    State(Summary),
    Begin(Begin),
    End { count: u64, until: Revision },
    Since(Key, Revision),
    Compact(Revision),
}

/// A version in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) create_revision: Revision,
    pub(crate) mod_revision: Revision,
    pub(crate) expires_at: Option<Timestamp>,
}

impl<'a> Version<'a> {
    pub(crate) fn of(entry: &'a Entry, expires_at: Option<Timestamp>) -> Self {
        Self { value: &entry.value, create_revision: entry.create_revision, mod_revision: entry.mod_revision, expires_at }
    }
}

impl Object {
    pub(crate) fn version(&self) -> Version<'_> {
        let Self { value, create_revision, mod_revision, expires_at } = self;
        Version { value, create_revision: *create_revision, mod_revision: *mod_revision, expires_at: *expires_at }
    }
}

impl From<Version<'_>> for Object {
    fn from(version: Version<'_>) -> Self {
        let Version { value, create_revision, mod_revision, expires_at } = version;
        Self { value: Bytes::copy_from_slice(value), create_revision, mod_revision, expires_at }
    }
}

pub(crate) fn encode_put(key: &Key, version: Version<'_>, out: &mut Vec<u8>) {
    out.push(if version.expires_at.is_some() { PUT_EXPIRING } else { PUT });
    encode_text(key.as_str().as_bytes(), out);
    out.extend_from_slice(&version.create_revision.0.to_le_bytes());
    out.extend_from_slice(&version.mod_revision.0.to_le_bytes());
    if let Some(at) = version.expires_at {
        out.extend_from_slice(&at.as_second().to_le_bytes());
    }
    encode_text(version.value, out);
}

pub(crate) fn encode_delete(key: &Key, revision: Revision, out: &mut Vec<u8>) {
    out.push(DELETE);
    encode_text(key.as_str().as_bytes(), out);
    out.extend_from_slice(&revision.0.to_le_bytes());
}

pub(crate) fn encode_state(state: &Summary, out: &mut Vec<u8>) {
    out.push(STATE);
    encode_summary(state, out);
}

pub(crate) fn encode_begin(begin: &Begin, out: &mut Vec<u8>) {
    out.push(BEGIN);
    out.extend_from_slice(&begin.format.to_le_bytes());
    out.push(begin.kind.tag());
    out.extend_from_slice(&begin.number.to_le_bytes());
    encode_summary(&begin.state, out);
}

pub(crate) fn encode_end(count: u64, until: Revision, out: &mut Vec<u8>) {
    out.push(END);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&until.0.to_le_bytes());
}

pub(crate) fn encode_since(resource: &str, since: Revision, out: &mut Vec<u8>) {
    out.push(SINCE);
    encode_text(resource.as_bytes(), out);
    out.extend_from_slice(&since.0.to_le_bytes());
}

pub(crate) fn encode_compact(revision: Revision, out: &mut Vec<u8>) {
    out.push(COMPACT);
    out.extend_from_slice(&revision.0.to_le_bytes());
}

fn encode_summary(state: &Summary, out: &mut Vec<u8>) {
    [state.revision.0, state.count, state.sum].iter().for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
}

fn encode_text(text: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(text.len()).expect("keys and values are far smaller");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text);
}

/// The records of a body, in order; ends with `None` where no record is.
pub(crate) fn decode(body: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut rest = Some(body);
    std::iter::from_fn(move || {
        let mut input = Input(rest.take().filter(|rest| !rest.is_empty())?);
        let record = input.record();
        rest = record.is_some().then_some(input.0);
        Some(record)
    })
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn record(&mut self) -> Option<Record<'a>> {
        let [tag] = self.take()?;
        Some(match tag {
            PUT | PUT_EXPIRING => self.put(tag == PUT_EXPIRING)?,
            DELETE => Record::Delete(self.key()?, self.revision()?),
            STATE => Record::State(self.summary()?),
            BEGIN => {
                let (format, [kind]) = (self.u64()?, self.take()?);
                let kind = [Kind::Checkpoint, Kind::Log].into_iter().find(|known| known.tag() == kind)?;
                Record::Begin(Begin { format, kind, number: self.u64()?, state: self.summary()? })
            }
            END => Record::End { count: self.u64()?, until: self.revision()? },
            SINCE => Record::Since(self.key()?, self.revision()?),
            COMPACT => Record::Compact(self.revision()?),
            _ => return None,
        })
    }

    fn put(&mut self, expires: bool) -> Option<Record<'a>> {
        let key = self.key()?;
        let (create_revision, mod_revision) = (self.revision()?, self.revision()?);
        let expires_at = if expires { Some(Timestamp::from_second(self.u64()?.cast_signed()).ok()?) } else { None };
        Some(Record::Put(key, Version { value: self.text()?, create_revision, mod_revision, expires_at }))
    }

    fn summary(&mut self) -> Option<Summary> {
        Some(Summary { revision: self.revision()?, count: self.u64()?, sum: self.u64()? })
    }

    fn key(&mut self) -> Option<Key> {
        std::str::from_utf8(self.text()?).ok().map(Key::new)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn revision(&mut self) -> Option<Revision> {
        self.u64().map(Revision)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record<'static>> {
        let state = Summary { revision: Revision(9), count: 2, sum: 77 };
        let version = Version { value: b"value", create_revision: Revision(3), mod_revision: Revision(7), expires_at: None };
        let expires_at = Timestamp::from_second(1_767_225_600).ok();
        vec![
            Record::Begin(Begin { format: FORMAT, kind: Kind::Log, number: 4, state }),
            Record::Put(Key::new("/a"), version),
            Record::Put(Key::new("/b"), Version { expires_at, ..version }),
            Record::Delete(Key::new("/c"), Revision(8)),
            Record::State(state),
            Record::Since(Key::new("/pods/"), Revision(5)),
            Record::Compact(Revision(6)),
            Record::End { count: 2, until: Revision(9) },
        ]
    }

    fn encoded() -> Vec<u8> {
        let mut out = Vec::new();
        for record in records() {
            match record {
                Record::Put(key, version) => encode_put(&key, version, &mut out),
                Record::Delete(key, revision) => encode_delete(&key, revision, &mut out),
                Record::State(state) => encode_state(&state, &mut out),
                Record::Begin(begin) => encode_begin(&begin, &mut out),
                Record::End { count, until } => encode_end(count, until, &mut out),
                Record::Since(resource, since) => encode_since(resource.as_str(), since, &mut out),
                Record::Compact(revision) => encode_compact(revision, &mut out),
            }
        }
        out
    }

    #[test]
    fn records_come_back_as_written() {
        assert_eq!(decode(&encoded()).map(|record| record.expect("whole")).collect::<Vec<_>>(), records());
    }

    #[test]
    fn bytes_that_are_no_record_end_the_records() {
        let bytes = encoded();
        for end in 0..bytes.len() {
            let found: Vec<_> = decode(&bytes[..end]).collect();
            let whole = found.iter().flatten().count();
            assert!(whole < records().len() && found.len() <= whole + 1, "cut at {end}");
        }
        assert_eq!(decode(&[99]).collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn the_sum_distinguishes_an_older_version_from_the_newest() {
        let key = Key::new("/a");
        let (mut old, mut new) = (Summary::default(), Summary::default());
        old.add(&key, Revision(1));
        new.add(&key, Revision(2));
        assert_ne!(old, new);
        new.remove(&key, Revision(2));
        new.add(&key, Revision(1));
        assert_eq!(old, new);
    }

    #[test]
    fn a_file_is_known_by_its_whole_name() {
        assert_eq!(Kind::Log.number(&Kind::Log.name(12)), Some(12));
        for name in ["log-12", "log-00000012.new", "checkpoint-00000012", "log-", "log-+0000012"] {
            assert_eq!(Kind::Log.number(name), None, "{name}");
        }
    }
}
