//! Reads untrusted recordings. Sizes, counts, times, names and numbers have limits, and an object with a field that no
//! recording contains is rejected.

use crate::{
    allowed::{KINDS, USAGE, WORKLOADS, kind},
    line::{Ended, Header, Item, Moment, ObjectId, Usage, VERSION},
    names::is_name,
    shape::{Fault, Shape, Sieve, shown},
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read},
    time::Duration,
};

/// The maximum size of a file.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// The maximum size of its uncompressed content.
const BYTES_MAX: u64 = 16 << 30;
/// The maximum length of a line. Every recorded object is smaller.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of lines.
const LINES_MAX: u64 = 20_000_000;
/// The maximum number of objects that exist at once.
const OBJECTS_MAX: usize = 300_000;
/// The maximum number of objects over time. Some names of each are kept to the end.
const EVER_MAX: usize = 1_000_000;
/// The maximum memory of all objects that exist at once, as JSON values.
const OBJECT_BYTES_MAX: usize = 1 << 30;
/// The memory of a JSON value without its content, in bytes.
const VALUE_BYTES: usize = 32;
/// The memory of a map node, in bytes. A node has up to 11 members. If there are several nodes, each is at least half
/// full.
const MAP_NODE_BYTES: usize = 632;
/// The maximum number of JSON values in one object.
const VALUES_MAX: usize = 20_000;
/// The maximum duration of a recording.
const LASTS_MAX: Duration = Duration::from_secs(400 * 86_400);
/// The maximum window of a frame, as a power of two. Decompression needs as much memory.
const WINDOW_LOG_MAX: u32 = 23;
/// The maximum length of a text in the header.
const TEXT_MAX: usize = 300;

/// Why a file, or the rest of a file, is unreadable.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is not a recording.
    #[error("this is not a recording; `berth record` makes one ({0})")]
    NoTrace(String),
    /// A newer version of berth wrote the file.
    #[error("it is a recording of version {0}, which this berth cannot read; it reads versions 1 to {VERSION}")]
    Version(u64),
    /// A line violates the format.
    #[error("line {line}: {field} {why}")]
    Line {
        /// The line number, from 1.
        line: u64,
        /// `put.spec.replicas`.
        field: String,
        /// `is no whole number`.
        why: String,
    },
    /// The recording exceeds a limit.
    #[error("line {line}: more than {most} {what}")]
    TooMuch {
        /// The line number, from 1.
        line: u64,
        /// `bytes`.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// The machine cannot read the file.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
}

/// Reads a recording, line by line. It ends at the end of the file, or at the start of a damaged part:
/// [`Reader::torn`].
pub struct Reader<R: Read> {
    input: Input<R>,
    header: Header,
    line: u64,
    bytes: u64,
    at: Duration,
    /// The memory of each object that exists.
    places: BTreeMap<(&'static str, String, String), usize>,
    object_bytes: usize,
    object_bytes_max: usize,
    /// The number of objects so far.
    ever: usize,
    ever_max: usize,
    torn: Option<String>,
    is_over: bool,
    has_end: bool,
}

enum Input<R: Read> {
    Plain(BufReader<io::Take<R>>),
    Frames(Box<BufReader<zstd::Decoder<'static, BufReader<io::Take<R>>>>>),
}

impl<R: Read> Input<R> {
    /// Returns a reader for compressed or uncompressed input.
    fn of(input: R) -> Result<Self, TraceError> {
        let mut input = BufReader::new(input.take(FILE_BYTES_MAX));
        match input.fill_buf().map_err(TraceError::Read)?.first() {
            None | Some(b'{') => return Ok(Self::Plain(input)),
            // The first byte of a frame, or of a skippable frame.
            Some(0x28 | 0x50..=0x5f) => (),
            Some(_) => return Err(TraceError::NoTrace("it is neither lines of JSON nor compressed with zstd".to_owned())),
        }
        let frames = || {
            let mut decoder = zstd::Decoder::with_buffer(input)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Ok(Self::Frames(Box::new(BufReader::new(decoder))))
        };
        frames().map_err(TraceError::Read)
    }

    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.take(LINE_BYTES_MAX + 1).read_until(b'\n', line),
            Self::Frames(input) => input.take(LINE_BYTES_MAX + 1).read_until(b'\n', line),
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// The first line is not the header of a recording.
    pub fn begin(input: R) -> Result<Self, TraceError> {
        let input = Input::of(input)?;
        let header = Header {
            at: jiff::Timestamp::UNIX_EPOCH,
            controllers: String::new(),
            because: String::new(),
            is_hashed: false,
            namespace: None,
            missing: Vec::new(),
        };
        let places = BTreeMap::new();
        let mut reader = Self {
            input,
            header,
            line: 0,
            bytes: 0,
            at: Duration::ZERO,
            places,
            object_bytes: 0,
            object_bytes_max: OBJECT_BYTES_MAX,
            ever: 0,
            ever_max: EVER_MAX,
            torn: None,
            is_over: false,
            has_end: false,
        };
        let first = reader.next_line()?;
        let Some(first) = first else {
            let why = reader.torn.take().unwrap_or_else(|| "it is empty".to_owned());
            return Err(TraceError::NoTrace(why));
        };
        reader.header = header_of(&first)?;
        Ok(reader)
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns why the file is incomplete, if it is. Valid after the last line.
    pub fn torn(&self) -> Option<&str> {
        self.torn.as_deref()
    }

    /// Whether the recording has a line for its end.
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, TraceError> {
        let mut line = Vec::new();
        match self.input.read_line(&mut line) {
            Ok(0) => return Ok(None),
            Ok(_) => (),
            // An incomplete or damaged frame ends the recording.
            Err(error) => {
                self.torn = Some(format!("cannot read the file after line {}: {error}", self.line));
                return Ok(None);
            }
        }
        self.line += 1;
        self.bytes += line.len() as u64;
        let too_much = |what, most| Err(TraceError::TooMuch { line: self.line, what, most });
        if line.len() as u64 > LINE_BYTES_MAX {
            return too_much("bytes in a line", LINE_BYTES_MAX);
        }
        if BYTES_MAX < self.bytes {
            return too_much("bytes", BYTES_MAX);
        }
        if LINES_MAX < self.line {
            return too_much("lines", LINES_MAX);
        }
        if line.pop() != Some(b'\n') {
            self.torn = Some(format!("line {} is incomplete", self.line));
            return Ok(None);
        }
        Ok(Some(line))
    }

    fn moment(&mut self, text: &[u8]) -> Result<Moment, TraceError> {
        let line = self.line;
        let fault = |Fault { field, why }: Fault| TraceError::Line { line, field, why };
        let members = object_of(text).map_err(|why| fault(Fault { field: "it".to_owned(), why: why.to_string() }))?;
        let (at, item) = item_of(&members).map_err(fault)?;
        if at < self.at {
            return Err(fault(wrong("ms", format!("goes back from {} to {}", self.at.as_millis(), at.as_millis()))));
        }
        if LASTS_MAX < at {
            return Err(fault(wrong("ms", format!("is beyond {} days", LASTS_MAX.as_secs() / 86_400))));
        }
        self.at = at;
        match &item {
            Item::Put(object) => {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                let kind = kind(&text("/kind")).map_or("", |kind| kind.kind);
                let values = values(object);
                if VALUES_MAX < values {
                    return Err(TraceError::TooMuch { line, what: "values in an object", most: VALUES_MAX as u64 });
                }
                let bytes = weight(object);
                let before = self.places.insert((kind, text("/metadata/namespace"), text("/metadata/name")), bytes);
                self.ever += usize::from(before.is_none());
                if self.ever_max < self.ever {
                    return Err(TraceError::TooMuch { line, what: "objects in all", most: self.ever_max as u64 });
                }
                self.object_bytes = self.object_bytes + bytes - before.unwrap_or(0);
                if OBJECTS_MAX < self.places.len() {
                    return Err(TraceError::TooMuch { line, what: "objects at once", most: OBJECTS_MAX as u64 });
                }
                if self.object_bytes_max < self.object_bytes {
                    return Err(TraceError::TooMuch { line, what: "bytes of objects at once", most: self.object_bytes_max as u64 });
                }
            }
            Item::Gone(ObjectId { kind, namespace, name }) => {
                self.object_bytes -= self.places.remove(&(*kind, namespace.clone(), name.clone())).unwrap_or(0);
            }
            Item::Ended(_) => self.has_end = true,
            Item::Gap { .. } | Item::Usage(_) | Item::Listed => (),
        }
        Ok(Moment { at, line, item })
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Moment, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = match self.next_line() {
            Ok(None) => None,
            Ok(Some(line)) => Some(self.moment(&line)),
            Err(error) => Some(Err(error)),
        };
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Returns the number of JSON values in a value.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        _ => 0,
    }
}

/// Returns the memory of a value, in bytes.
fn weight(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(elements) => elements.iter().map(weight).sum(),
            Value::Object(members) => {
                let nodes = members.len().div_ceil(6) * MAP_NODE_BYTES;
                nodes + members.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
            }
            _ => 0,
        }
}

fn wrong(field: &str, why: impl Into<String>) -> Fault {
    Fault { field: field.to_owned(), why: why.into() }
}

/// Why a line does not contain a valid object.
#[derive(Debug, thiserror::Error)]
enum NotAnObject {
    #[error("is not a JSON object")]
    OtherValue,
    #[error("is not JSON: {0}")]
    NotJson(#[source] serde_json::Error),
}

fn object_of(text: &[u8]) -> Result<Map<String, Value>, NotAnObject> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(NotAnObject::OtherValue),
        Err(error) => Err(NotAnObject::NotJson(error)),
    }
}

fn header_of(text: &[u8]) -> Result<Header, TraceError> {
    let members = object_of(text).map_err(|why| TraceError::NoTrace(format!("its first line {why}")))?;
    if members.get("trace").and_then(Value::as_str) != Some("berth") {
        return Err(TraceError::NoTrace("its first line is not a header".to_owned()));
    }
    match members.get("version").and_then(Value::as_u64) {
        Some(1..=VERSION) => (),
        other => return Err(TraceError::Version(other.unwrap_or(0))),
    }
    let fault = |Fault { field, why }: Fault| TraceError::Line { line: 1, field, why };
    let text = |name: &str| match members.get(name).and_then(Value::as_str) {
        Some(text) if text.len() <= TEXT_MAX && !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(fault(wrong(name, "is not a text of a header"))),
    };
    let at = Sieve::Check.keep(&Shape::Time, members.get("at").unwrap_or(&Value::Null), &mut vec!["at".to_owned()]).map_err(fault)?;
    let at = at.and_then(|at| at.as_str()?.parse().ok()).ok_or_else(|| fault(wrong("at", "is not a time")))?;
    let controllers = text("controllers")?;
    if !["berth", "kubernetes"].contains(&controllers.as_str()) {
        return Err(fault(wrong("controllers", "is neither berth nor kubernetes")));
    }
    let namespace = match members.get("namespace") {
        None | Some(Value::Null) => None,
        Some(_) => Some(text("namespace")?).filter(|name| is_name(name)),
    };
    let missing = members.get("missing").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let known = |name: &Value| KINDS.iter().find(|kind| name == kind.plural).map(|kind| kind.plural.to_owned());
    let missing =
        missing.iter().map(|name| known(name).ok_or_else(|| fault(wrong("missing", "names an unknown kind")))).collect::<Result<_, _>>()?;
    let is_hashed = members.get("hashed").and_then(Value::as_bool).unwrap_or(false);
    Ok(Header { at, controllers, because: text("because")?, is_hashed, namespace, missing })
}

fn item_of(members: &Map<String, Value>) -> Result<(Duration, Item), Fault> {
    let ms = members.get("ms").and_then(Value::as_u64).ok_or_else(|| wrong("ms", "is not a number of milliseconds"))?;
    let mut others = members.iter().filter(|(name, _)| *name != "ms");
    let (Some((name, value)), None) = (others.next(), others.next()) else {
        return Err(wrong("it", "does not contain exactly one event"));
    };
    let item = match name.as_str() {
        "put" => put(value)?,
        "gone" => gone(value)?,
        "gap" => {
            let plural = KINDS.iter().find(|kind| value["plural"] == kind.plural).map(|kind| kind.plural);
            let lasted = value["ms"].as_u64().ok_or_else(|| wrong("gap.ms", "is not a number of milliseconds"))?;
            Item::Gap { plural: plural.ok_or_else(|| wrong("gap.plural", "names an unknown kind"))?, lasted: Duration::from_millis(lasted) }
        }
        "usage" => usage(value)?,
        "listed" => Item::Listed,
        "ended" => {
            let ended = Ended::ALL.iter().find(|(word, _)| value == word).map(|(_, ended)| *ended);
            Item::Ended(ended.ok_or_else(|| wrong("ended", "is none of stopped, time, size"))?)
        }
        other => return Err(wrong("it", format!("has an unknown member {}", shown(other)))),
    };
    Ok((Duration::from_millis(ms), item))
}

fn put(value: &Value) -> Result<Item, Fault> {
    let name = value["kind"].as_str().unwrap_or_default();
    let kind = kind(name).ok_or_else(|| wrong("put.kind", format!("is {}, which is unknown", shown(name))))?;
    let object = Sieve::Check.keep(&kind.shape, value, &mut vec!["put".to_owned()])?.unwrap_or_default();
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/metadata/name").is_empty() || text("/metadata/uid").is_empty() {
        return Err(wrong("put.metadata", "lacks a name or a uid"));
    }
    if text("/metadata/namespace").is_empty() == kind.is_namespaced {
        return Err(wrong("put.metadata.namespace", format!("is not as that of a {}", kind.kind)));
    }
    Ok(Item::Put(object))
}

fn usage(value: &Value) -> Result<Item, Fault> {
    let usage = Sieve::Check.keep(&USAGE, value, &mut vec!["usage".to_owned()])?.unwrap_or_default();
    let text = |name: &str| usage[name].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let kind = WORKLOADS.into_iter().find(|kind| usage["kind"] == *kind);
    let Some(kind) = kind.filter(|_| !namespace.is_empty() && !name.is_empty()) else {
        return Err(wrong("usage", "does not identify a workload"));
    };
    let number = |name: &str| usage[name].as_i64().unwrap_or_default();
    Ok(Item::Usage(Usage {
        workload: ObjectId { kind, namespace, name },
        pods: u32::try_from(number("pods")).unwrap_or(u32::MAX),
        cpu_millis: number("cpuMillis"),
        memory_bytes: number("memoryBytes"),
    }))
}

fn gone(value: &Value) -> Result<Item, Fault> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let kind = kind(&text("kind")).ok_or_else(|| wrong("gone.kind", "is unknown in recordings"))?;
    let (namespace, name) = (text("namespace"), text("name"));
    if !is_name(&name) || !is_name(&namespace) || name.is_empty() || namespace.is_empty() == kind.is_namespaced {
        return Err(wrong("gone", "does not identify an object"));
    }
    Ok(Item::Gone(ObjectId { kind: kind.kind, namespace, name }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HEAD: &str = r#"{"trace":"berth","version":1,"at":"2026-11-01T00:00:00Z","controllers":"berth","because":"x","hashed":false}"#;

    fn pod(name: &str, containers: usize) -> String {
        let containers: Vec<Value> = (0..containers).map(|number| json!({"name": format!("c{number}")})).collect();
        let metadata = json!({"name": name, "namespace": "a", "uid": name});
        json!({"ms": 1, "put": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}}).to_string()
    }

    /// Reads these lines with these limits for the memory of objects and for their number.
    fn read(lines: &[String], (object_bytes_max, ever_max): (usize, usize)) -> Result<usize, String> {
        let text = [&[HEAD.to_owned()], lines].concat().join("\n") + "\n";
        let mut reader = Reader::begin(text.as_bytes()).expect("a header");
        (reader.object_bytes_max, reader.ever_max) = (object_bytes_max, ever_max);
        reader.collect::<Result<Vec<_>, _>>().map(|moments| moments.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_recording_of_the_first_version_is_still_read_and_one_of_the_next_is_not() {
        let begin = |version: u64| {
            let head = HEAD.replace("\"version\":1", &format!("\"version\":{version}")) + "\n";
            Reader::begin(head.as_bytes()).map(|reader| reader.header().controllers.clone()).map_err(|error| error.to_string())
        };
        assert_eq!([begin(1), begin(VERSION)], [Ok("berth".to_owned()), Ok("berth".to_owned())]);
        for version in [0, VERSION + 1] {
            assert!(begin(version).is_err_and(|error| error.contains("it reads versions 1 to 2")), "{version}");
        }
    }

    #[test]
    fn usage_is_a_workloads_and_within_limits() {
        let usage = |change: Value| {
            let mut usage =
                json!({"kind": "Deployment", "namespace": "a", "name": "web", "pods": 3, "cpuMillis": 700, "memoryBytes": 4096});
            usage.as_object_mut().expect("a map").extend(change.as_object().expect("a map").clone());
            read(&[json!({"ms": 1, "usage": usage}).to_string()], (usize::MAX, 1))
        };
        assert_eq!(usage(json!({})), Ok(1));
        let refused = [
            (json!({"kind": "Pod"}), "usage.kind \"Pod\" is none of Deployment, ReplicaSet, StatefulSet"),
            (json!({"namespace": ""}), "usage does not identify a workload"),
            (json!({"cpuMillis": -1}), "usage.cpuMillis -1 is not from 0 to 1125899906842624"),
            (json!({"memoryBytes": 1_u64 << 51}), "usage.memoryBytes 2251799813685248 is not from 0 to 1125899906842624"),
            (json!({"memoryBytes": "1Gi"}), "usage.memoryBytes is not an integer"),
            (json!({"pods": 200_001}), "usage.pods 200001 is not from 0 to 200000"),
            (json!({"note": "x"}), "usage has an unknown member \"note\""),
        ];
        for (change, wanted) in refused {
            assert_eq!(usage(change), Err(format!("line 2: {wanted}")));
        }
    }

    /// Many small objects together exceed the limit.
    #[test]
    fn what_is_there_at_once_is_bounded_together() {
        let lines: Vec<String> = (0..10).map(|number| pod(&format!("p{number}"), 10)).collect();
        let read = |lines: &[String], object_bytes_max: usize| read(lines, (object_bytes_max, 100));
        // Ten containers, their list's owner, the metadata and the pod are maps.
        let one = 13 * MAP_NODE_BYTES;
        assert_eq!(read(&lines, 20 * one), Ok(10));
        assert_eq!(read(&lines, 4 * one), Err(format!("line 5: more than {} bytes of objects at once", 4 * one)));
        let gone = r#"{"ms":1,"gone":{"kind":"Pod","namespace":"a","name":"p0"}}"#;
        let coming_and_going: Vec<String> = (0..10).flat_map(|_| [lines[0].clone(), gone.to_owned()]).collect();
        assert_eq!(read(&coming_and_going, 2 * one), Ok(20), "what is gone does not count");
        assert_eq!(read(&vec![lines[0].clone(); 10], 2 * one), Ok(10), "nor what was there before");
    }

    /// The names of deleted objects remain in memory.
    #[test]
    fn what_comes_one_after_another_is_bounded() {
        let gone = |name: &str| format!(r#"{{"ms":1,"gone":{{"kind":"Pod","namespace":"a","name":"{name}"}}}}"#);
        let lines: Vec<String> = ["a", "b", "c", "d"].iter().flat_map(|name| [pod(name, 1), pod(name, 2), gone(name)]).collect();
        assert_eq!(read(&lines, (usize::MAX, 4)), Ok(12));
        assert_eq!(read(&lines, (usize::MAX, 3)), Err("line 11: more than 3 objects in all".to_owned()));
    }

    #[test]
    fn values_of_one_object_are_bounded() {
        let requests: Map<_, _> = (0..100).map(|number| (format!("r{number}"), json!("1"))).collect();
        let containers = vec![json!({"name": "c", "resources": {"requests": requests}}); 250];
        let metadata = json!({"name": "p", "namespace": "a", "uid": "p"});
        let put = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}});
        let line = json!({"ms": 1, "put": put}).to_string();
        assert_eq!(read(&[line], (usize::MAX, 1)), Err(format!("line 2: more than {VALUES_MAX} values in an object")));
    }
}
