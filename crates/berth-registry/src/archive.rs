//! An archive: the content of a store at one revision. Other stores and other builds can read it, and users can with
//! `zcat`.
//!
//! gzip of lines, each a JSON object:
//!
//! | line | what it is |
//! |---|---|
//! | `{"berthArchive":1,"berth":"0.1.0","revision":42,"takenAt":"2026-11-23T05:00:00Z"}` | the first: the format, who wrote it, when, and as of which revision |
//! | `{"key":"/registry/pods/default/web","value":{…}}` | an object, as it is stored; in the order of keys, each once |
//! | `{"file":"ca.pem","text":"…"}` | a file of the folder of keys; behind all objects |
//! | `{"end":{"objects":1,"files":0,"sha256":"…"}}` | the last: how many there are, and the SHA-256 of all lines before |
//!
//! [`Reader`] trusts nothing: it rejects lines that exceed the size of a value, and duplicate keys. At its end it
//! checks that the archive is undamaged. [`crate::Resources::check_archived`] checks that values are objects. A restore
//! that must not be partial reads the whole archive first.

use berth_store::{Key, MAX_VALUE_BYTES, Revision, env::Timestamp};
use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    io::{self, BufRead, BufReader, Read, Write},
};

/// The format that is described above.
const FORMAT: u64 = 1;
/// The maximum length of a line: the largest value, with its key.
const LINE_BYTES_MAX: usize = MAX_VALUE_BYTES + (16 << 10);
/// The maximum revision of an archive, so that later revisions remain numbers that every client can read.
pub const REVISION_MAX: u64 = 1 << 52;
/// The maximum length of a file of the folder of keys.
const FILE_BYTES_MAX: usize = 64 << 10;

/// The first line of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    #[serde(rename = "berthArchive")]
    format: u64,
    /// The build that wrote it.
    pub berth: String,
    /// The revision of the store.
    #[serde(with = "number")]
    pub revision: Revision,
    /// The time.
    pub taken_at: Timestamp,
}

impl Header {
    /// Returns the header of an archive by this build.
    #[must_use]
    pub fn new(berth: &str, revision: Revision, taken_at: Timestamp) -> Self {
        Self { format: FORMAT, berth: berth.into(), revision, taken_at }
    }
}

mod number {
    use super::Revision;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's")]
    pub(super) fn serialize<S: Serializer>(revision: &Revision, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(revision.0)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Revision, D::Error> {
        u64::deserialize(deserializer).map(Revision)
    }
}

/// The content of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Objects.
    pub objects: u64,
    /// Files of the folder of keys.
    pub files: u64,
    /// The SHA-256 of all lines before the last, in hexadecimal digits.
    pub sha256: String,
}

/// One line between the first and the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An object.
    Object {
        /// Its key in the store.
        key: Key,
        /// Its JSON.
        value: Box<str>,
    },
    /// A file of the folder of keys.
    File {
        /// A name without folders.
        name: String,
        /// Its content.
        text: String,
    },
}

/// Why an archive is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is unreadable, or is not compressed as expected.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// The file is not an archive.
    #[error("it is not a berth archive")]
    Other,
    /// A later build wrote the archive.
    #[error("it has format {format}, and this berth reads {FORMAT}: use the berth that wrote it ({berth}) or a later one")]
    Later {
        /// Its format.
        format: u64,
        /// The build that wrote it.
        berth: String,
    },
    /// A line differs from what was written.
    #[error("line {line}: {why}")]
    Line {
        /// The line number, from 1.
        line: u64,
        /// The error.
        why: String,
    },
    /// The last line is missing.
    #[error("it is incomplete: it ends after {objects} objects")]
    Torn {
        /// The number of objects before its end.
        objects: u64,
    },
    /// All lines are readable, but differ from what was written.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// Writes an archive: first [`Writer::object`] in the order of keys, then [`Writer::file`], then [`Writer::finish`].
pub struct Writer<W: Write> {
    out: GzEncoder<W>,
    digest: Sha256,
    summary: Summary,
}

#[derive(Serialize)]
struct ObjectLine<'l> {
    key: &'l str,
    value: &'l RawValue,
}

#[derive(Serialize)]
struct FileLine<'l> {
    file: &'l str,
    text: &'l str,
}

#[derive(Serialize, Deserialize)]
struct EndLine {
    end: Summary,
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// The write fails.
    pub fn begin(out: W, header: &Header) -> io::Result<Self> {
        let out = GzEncoder::new(out, Compression::default());
        let mut writer = Self { out, digest: Sha256::new(), summary: Summary::default() };
        writer.line(header)?;
        Ok(writer)
    }

    /// Adds an object.
    ///
    /// # Errors
    /// The write fails. `InvalidData`: the value is not JSON, or is `null`, which means no value in a line.
    pub fn object(&mut self, key: &Key, value: &[u8]) -> io::Result<()> {
        let value: &RawValue = serde_json::from_slice(value)?;
        if value.get() == "null" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the value is null"));
        }
        // Values from berth have no line ends, but others may.
        let in_one_line = if value.get().contains(['\n', '\r']) {
            Some(RawValue::from_string(serde_json::from_str::<Value>(value.get())?.to_string())?)
        } else {
            None
        };
        self.summary.objects += 1;
        self.line(&ObjectLine { key: key.as_str(), value: in_one_line.as_deref().unwrap_or(value) })
    }

    /// Adds a file of the folder of keys.
    ///
    /// # Errors
    /// The write fails.
    pub fn file(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.summary.files += 1;
        self.line(&FileLine { file: name, text })
    }

    /// Writes the last line with the summary. Does not flush `W`.
    ///
    /// # Errors
    /// The write fails.
    pub fn finish(mut self) -> io::Result<(W, Summary)> {
        let end = Summary { sha256: hex(&self.digest), ..self.summary.clone() };
        self.line(&EndLine { end: end.clone() })?;
        Ok((self.out.finish()?, end))
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.digest.update(&bytes);
        self.out.write_all(&bytes)
    }
}

/// Reads an archive line by line, with one line in memory. Ends after the last line, or with the first error.
pub struct Reader<R: BufRead> {
    lines: BufReader<GzDecoder<R>>,
    header: Header,
    digest: Sha256,
    read: Summary,
    last: Option<Key>,
    number: u64,
    is_done: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    #[serde(borrow, default)]
    key: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    value: Option<&'l RawValue>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    end: Option<Summary>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`ArchiveError`]: the file is not an archive, or a later build wrote it.
    pub fn begin(input: R) -> Result<Self, ArchiveError> {
        let mut lines = BufReader::new(GzDecoder::new(input));
        let (mut digest, mut bytes) = (Sha256::new(), Vec::new());
        read_line(&mut lines, &mut bytes).map_err(|error| match error.kind() {
            // The decoder reports these errors for input that is not gzip.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => ArchiveError::Other,
            _ => ArchiveError::Io(error),
        })?;
        // A later build may add members.
        let first: Value = serde_json::from_slice(&bytes).map_err(|_| ArchiveError::Other)?;
        let format = first["berthArchive"].as_u64().ok_or(ArchiveError::Other)?;
        if format != FORMAT {
            let berth = first["berth"].as_str().unwrap_or("unknown").chars().take(100).collect();
            return Err(ArchiveError::Later { format, berth });
        }
        let header: Header = serde_json::from_value(first).map_err(|error| ArchiveError::Line { line: 1, why: error.to_string() })?;
        if REVISION_MAX < header.revision.0 {
            return Err(ArchiveError::Line { line: 1, why: format!("no store reaches revision {}", header.revision) });
        }
        digest.update(&bytes);
        Ok(Self { lines, header, digest, read: Summary::default(), last: None, number: 1, is_done: false })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the summary of what was read so far.
    pub fn read(&self) -> &Summary {
        &self.read
    }

    fn next_item(&mut self) -> Result<Option<Item>, ArchiveError> {
        let mut bytes = Vec::new();
        self.number += 1;
        let line = self.number;
        let fault = |why: String| ArchiveError::Line { line, why };
        let objects = self.read.objects;
        read_line(&mut self.lines, &mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ArchiveError::Torn { objects },
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => fault(error.to_string()),
            _ => ArchiveError::Io(error),
        })?;
        match serde_json::from_slice(&bytes).map_err(|error| fault(error.to_string()))? {
            Line { key: Some(key), value: Some(value), file: None, text: None, end: None } => {
                let key = Key::new(&key);
                if 0 < self.read.files || self.last.as_ref().is_some_and(|last| key <= *last) {
                    return Err(fault(format!("{key} is in the wrong place")));
                }
                self.last = Some(key.clone());
                self.read.objects += 1;
                self.digest.update(&bytes);
                Ok(Some(Item::Object { key, value: value.get().into() }))
            }
            Line { key: None, value: None, file: Some(name), text: Some(text), end: None } => {
                let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || matches!(char, '-' | '.');
                if name.starts_with('.') || !(1..=64).contains(&name.len()) || !name.chars().all(is_plain) || FILE_BYTES_MAX < text.len() {
                    return Err(fault("it is not a file of the key folder".into()));
                }
                self.read.files += 1;
                self.digest.update(&bytes);
                Ok(Some(Item::File { name, text }))
            }
            Line { key: None, value: None, file: None, text: None, end: Some(end) } => self.end(&end).map(|()| None),
            _ => Err(fault("it is neither an object nor a file nor the end".into())),
        }
    }

    fn end(&mut self, said: &Summary) -> Result<(), ArchiveError> {
        if *said != (Summary { sha256: hex(&self.digest), ..self.read.clone() }) {
            return Err(ArchiveError::Damaged("its checksum is wrong"));
        }
        // This also checks the decoder's own checksum.
        let behind = self.lines.fill_buf().map_err(|_| ArchiveError::Damaged("its end is missing"))?;
        let is_last = behind.is_empty() && self.lines.get_mut().get_mut().fill_buf()?.is_empty();
        if is_last { Ok(()) } else { Err(ArchiveError::Damaged("there is data after its end")) }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Item, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let item = self.next_item().transpose();
        self.is_done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Returns the digest so far.
fn hex(digest: &Sha256) -> String {
    digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the next line with its end. `UnexpectedEof`: there is none.
fn read_line(lines: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    lines.take(LINE_BYTES_MAX as u64).read_until(b'\n', bytes)?;
    match bytes.last() {
        Some(b'\n') => Ok(()),
        _ if LINE_BYTES_MAX <= bytes.len() => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {LINE_BYTES_MAX} bytes")))
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}"#;

    fn header() -> Header {
        Header::new("0.1.0", Revision(42), "2026-11-23T05:00:00Z".parse().expect("a time"))
    }

    fn archive(keys: &[&str], files: &[&str]) -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new(), &header()).expect("in memory");
        keys.iter().for_each(|key| writer.object(&Key::new(key), POD.as_bytes()).expect("in memory"));
        files.iter().for_each(|file| writer.file(file, "text").expect("in memory"));
        writer.finish().expect("in memory").0
    }

    fn read(bytes: &[u8]) -> Result<Vec<Item>, ArchiveError> {
        Reader::begin(bytes)?.collect()
    }

    /// Returns these lines, compressed.
    fn compressed(lines: &str) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(lines.as_bytes()).expect("in memory");
        out.finish().expect("in memory")
    }

    fn why(bytes: &[u8]) -> String {
        read(bytes).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let items = read(&archive(&["/registry/pods/a/web", "/registry/pods/b/web"], &["ca.pem"])).expect("it is whole");
        let object = |key: &str| Item::Object { key: Key::new(key), value: POD.into() };
        let file = Item::File { name: "ca.pem".into(), text: "text".into() };
        assert_eq!(items, [object("/registry/pods/a/web"), object("/registry/pods/b/web"), file]);
        let empty = archive(&[], &[]);
        let mut reader = Reader::begin(&*empty).expect("it is one");
        assert_eq!((reader.header().clone(), reader.next().is_none()), (header(), true));
    }

    #[test]
    fn values_of_several_lines_come_as_one() {
        let mut writer = Writer::begin(Vec::new(), &header()).expect("in memory");
        writer.object(&Key::new("/a"), b"{\n \"a\": 1.50\n}\n").expect("JSON");
        assert!(writer.object(&Key::new("/b"), b"k8s\0").is_err(), "what is no JSON is none");
        let (bytes, _) = writer.finish().expect("in memory");
        assert!(matches!(&read(&bytes).expect("whole")[..], [Item::Object { value, .. }] if **value == *r#"{"a":1.5}"#));
    }

    /// The reader detects every truncation and every flipped bit.
    #[test]
    fn what_is_not_as_it_was_written_is_refused() {
        let whole = archive(&["/registry/pods/a/web"], &["ca.pem"]);
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        // A reader may ignore these fields of gzip's header: time, flags of the compression, system.
        for at in (0..whole.len()).filter(|at| !(4..10).contains(at)) {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let is_same = || read(&damaged).is_ok_and(|items| items == read(&whole).expect("whole"));
                assert!(read(&damaged).is_err() || is_same(), "bit {bit} of byte {at}");
            }
        }
        assert_eq!(why(&[whole.clone(), whole].concat()), "it is damaged: there is data after its end");
    }

    #[test]
    fn lines_that_no_archive_contains_are_refused() {
        let first = serde_json::to_string(&header()).expect("JSON");
        let check = |lines: &str, wanted: &str| {
            let told = why(&compressed(&format!("{first}\n{lines}")));
            assert!(told.contains(wanted), "{lines}: {told}");
        };
        check("", "it is incomplete: it ends after 0 objects");
        check("{\"key\":\"/a\",\"value\":{}}\n{\"key\":\"/a\",\"value\":{}}\n", "line 3: /a is in the wrong place");
        check("{\"key\":\"/b\",\"value\":{}}\n{\"key\":\"/a\",\"value\":{}}\n", "line 3: /a is in the wrong place");
        check("{\"key\":\"/b\",\"value\":{}}\n", "it is incomplete: it ends after 1 objects");
        check("{\"file\":\"../ca.pem\",\"text\":\"\"}\n", "line 2: it is not a file of the key folder");
        check("{\"file\":\"..\",\"text\":\"\"}\n", "line 2: it is not a file of the key folder");
        check("{\"key\":\"/b\"}\n", "line 2: it is neither an object nor a file nor the end");
        check("{\"key\":\"/b\",\"value\":{},\"more\":1}\n", "line 2: unknown field `more`");
        check("{\"end\":{\"objects\":0,\"files\":0,\"sha256\":\"\"}}\n", "it is damaged: its checksum is wrong");
        check(&format!("{{\"key\":\"/{}\"", "a".repeat(LINE_BYTES_MAX)), "line 2: it is longer than 1589248 bytes");

        assert_eq!(why(b"apiVersion: v1"), "it is not a berth archive");
        assert_eq!(why(&compressed("{}\n")), "it is not a berth archive");
        let later = "it has format 2, and this berth reads 1: use the berth that wrote it (9.0) or a later one";
        assert_eq!(why(&compressed("{\"berthArchive\":2,\"berth\":\"9.0\"}\n")), later);
        let far = first.replace("42", "9007199254740993");
        assert_eq!(why(&compressed(&format!("{far}\n"))), "line 1: no store reaches revision 9007199254740993");
    }

    proptest! {
        #[test]
        fn any_values_come_back(keys in proptest::collection::btree_set("/[a-z]{1,8}", 0..20), text in "\\PC*") {
            let value = serde_json::json!({"text": text}).to_string();
            let mut writer = Writer::begin(Vec::new(), &header()).expect("in memory");
            keys.iter().for_each(|key| writer.object(&Key::new(key), value.as_bytes()).expect("in memory"));
            let (bytes, summary) = writer.finish().expect("in memory");
            prop_assert_eq!(summary.objects, keys.len() as u64);
            let items = read(&bytes).expect("whole");
            let wanted: Vec<_> = keys.iter().map(|key| Item::Object { key: Key::new(key), value: value.as_str().into() }).collect();
            prop_assert_eq!(items, wanted);
        }
    }
}
