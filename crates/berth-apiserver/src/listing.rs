//! Lists that are built item by item while they are sent. A list of any length and form therefore needs memory for one
//! piece only.

use crate::{
    limits::{CHUNK_BYTES, GZIP_ABOVE_BYTES},
    negotiate::Syntax,
};
use berth_registry::{
    ApiError, splice,
    table::{MetaVersion, PartialObjectMetadata, Printer},
};
use berth_store::Entry;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;
use serde_json::{Value, json};
use std::{io::Write as _, sync::Arc};

/// The form of an item.
pub(crate) enum Shape {
    /// The whole object without `apiVersion` and `kind`, which the list contains.
    Whole,
    /// The whole object. Items of custom resources have both members, as upstream.
    Typed,
    /// Its row in a table.
    Row(Printer),
    /// Its metadata.
    Metadata(MetaVersion),
}

impl Shape {
    /// Returns the member that contains the items. It is the last member of every list.
    fn member(&self) -> &'static str {
        match self {
            Self::Row(_) => "rows",
            Self::Whole | Self::Typed | Self::Metadata(_) => "items",
        }
    }

    fn write_json(&self, entry: &Entry, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self {
            Self::Whole => splice::write_item(entry, out),
            Self::Typed => splice::write_entry(entry, entry.mod_revision, out),
            Self::Row(printer) => write(&printer.row(entry)?, out),
            Self::Metadata(version) => write(&PartialObjectMetadata::of_entry(entry)?.in_version(*version), out),
        }
        Ok(())
    }
}

fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("what is answered has string keys only");
}

/// The encoding of a response's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Unchanged.
    Plain,
    /// Indented, for people.
    Indented,
    /// As YAML.
    Yaml,
}

impl Writing {
    pub(crate) fn of(syntax: Syntax, pretty: bool) -> Self {
        match syntax {
            Syntax::Json if pretty => Self::Indented,
            Syntax::Json => Self::Plain,
            Syntax::Yaml => Self::Yaml,
        }
    }

    /// Rewrites a whole document. It needs the document as a tree, several times its size.
    pub(crate) fn rewrite(self, json: Bytes) -> Bytes {
        match self {
            Self::Plain => json,
            Self::Indented | Self::Yaml => {
                // A stored value that is not JSON is returned unchanged.
                serde_json::from_slice(&json).map_or(json, |value| self.text(&value).into())
            }
        }
    }

    fn text(self, value: &Value) -> String {
        match self {
            Self::Plain => value.to_string(),
            Self::Indented => format!("{value:#}"),
            Self::Yaml => serde_saphyr::to_string(value).expect("JSON is YAML"),
        }
    }

    /// Returns the separator of two items.
    fn between(self) -> &'static [u8] {
        match self {
            Self::Plain => b",",
            Self::Indented => b",\n    ",
            Self::Yaml => b"",
        }
    }

    /// Returns the text around the only item of the only list of an object.
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => ("{\"items\":[", "]}"),
            Self::Indented => ("{\n  \"items\": [\n    ", "\n  ]\n}"),
            Self::Yaml => ("items:\n", ""),
        }
    }

    /// Returns the text of an item within a list.
    fn item(self, item: Value) -> String {
        let alone = self.text(&json!({"items": [item]}));
        let (before, behind) = self.around();
        let text = alone.strip_prefix(before).and_then(|text| text.strip_suffix(behind));
        text.expect("a list of one item is written in one way").to_owned()
    }
}

/// A list that is built while it is sent.
pub(crate) struct ListBody {
    /// The bytes that are built and not yet sent, beginning with the start of the list.
    made: Vec<u8>,
    items: std::vec::IntoIter<Arc<Entry>>,
    shape: Shape,
    writing: Writing,
    /// The end of the list, after the last item.
    tail: Vec<u8>,
    separate: bool,
    state: ListState,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    /// More items follow.
    Open,
    /// The list is complete.
    Made,
    /// Everything is sent.
    Sent,
}

/// The maximum number of items that are converted at a time. A row may be far smaller than its object, and the thread
/// has other connections.
const LOOKED_INTO_MAX: usize = 128;
/// The same for a list that may be short enough to be built at once.
const LOOKED_INTO_AT_ONCE_MAX: usize = 500;

/// A list in one of two forms.
pub(crate) enum Listed {
    /// Built at once, and not compressed.
    Short(Vec<u8>),
    /// Built while it is sent.
    Long(Box<ListBody>),
}

/// Returns a list. `head` is the JSON of the list without items.
///
/// # Errors
/// One of the first items is not an object of its kind.
pub(crate) fn list(head: &[u8], items: Vec<Arc<Entry>>, shape: Shape, writing: Writing, takes_gzip: bool) -> Result<Listed, ApiError> {
    let (made, tail) = frame(head, &shape, writing, items.is_empty());
    let mut list = ListBody { made, items: items.into_iter(), shape, writing, tail, separate: false, state: ListState::Open, gzip: None };
    list.make(LOOKED_INTO_AT_ONCE_MAX, GZIP_ABOVE_BYTES + 1)?;
    if list.state == ListState::Made && list.made.len() <= GZIP_ABOVE_BYTES {
        return Ok(Listed::Short(list.made));
    }
    list.gzip = takes_gzip.then(|| GzEncoder::new(Vec::with_capacity(CHUNK_BYTES), Compression::fast()));
    Ok(Listed::Long(Box::new(list)))
}

/// Returns the text before the first item and after the last one.
fn frame(head: &[u8], shape: &Shape, writing: Writing, is_empty: bool) -> (Vec<u8>, Vec<u8>) {
    /// The placeholder for the items. No list contains this text after it.
    const HERE: &str = "berth-items-come-here";
    if writing == Writing::Plain {
        let head = head.strip_suffix(b"]}").expect("a list ends with its items");
        return (head.to_vec(), b"]}\n".to_vec());
    }
    let mut value: Value = serde_json::from_slice(head).expect("what is answered is JSON");
    if is_empty {
        return (writing.text(&value).into(), Vec::new());
    }
    value[shape.member()] = json!([HERE]);
    let text = writing.text(&value);
    let here = writing.item(json!(HERE));
    let (head, tail) = text.rsplit_once(&here).expect("it was put there");
    (head.into(), tail.into())
}

impl ListBody {
    /// Whether its pieces are compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.gzip.is_some()
    }

    /// Whether its pieces are copies of stored bytes.
    pub(crate) fn is_copied(&self) -> bool {
        is_copied(&self.shape, self.writing) && self.gzip.is_none()
    }

    /// Returns the next piece. It is empty if the compression has no output yet. `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Result<Bytes, ApiError>> {
        if self.state == ListState::Sent {
            return None;
        }
        let made = if self.made.is_empty() { self.make(LOOKED_INTO_MAX, CHUNK_BYTES) } else { Ok(()) };
        if let Err(error) = made {
            self.state = ListState::Sent;
            return Some(Err(error));
        }
        let plain = std::mem::take(&mut self.made);
        let is_last = self.state == ListState::Made;
        if is_last {
            self.state = ListState::Sent;
        }
        Some(Ok(match &mut self.gzip {
            Some(gzip) => compress_chunk(gzip, &plain, is_last).into(),
            None => plain.into(),
        }))
    }

    /// Builds more, up to this many bytes or converted items.
    fn make(&mut self, looked_into_max: usize, bytes: usize) -> Result<(), ApiError> {
        let mut left = if is_copied(&self.shape, self.writing) { usize::MAX } else { looked_into_max };
        // Reserves enough for most last items. Otherwise all bytes would be copied again for one of them.
        self.made.reserve((bytes + bytes / 4).min(self.items.len() * TYPICAL_ITEM_BYTES));
        while self.made.len() < bytes && 0 < left {
            let Some(entry) = self.items.next() else {
                self.made.append(&mut self.tail);
                self.state = ListState::Made;
                return Ok(());
            };
            left -= 1;
            if std::mem::replace(&mut self.separate, true) {
                self.made.extend_from_slice(self.writing.between());
            }
            self.make_item(&entry)?;
        }
        Ok(())
    }

    fn make_item(&mut self, entry: &Entry) -> Result<(), ApiError> {
        if self.writing == Writing::Plain {
            return self.shape.write_json(entry, &mut self.made);
        }
        let mut json = Vec::with_capacity(entry.value.len() + TYPICAL_ITEM_BYTES);
        self.shape.write_json(entry, &mut json)?;
        let item = serde_json::from_slice(&json)
            .map_err(|error| ApiError::Internal { message: format!("a stored object is no JSON: {error}") })?;
        self.made.extend_from_slice(self.writing.item(item).as_bytes());
        Ok(())
    }
}

/// Whether a list contains its items in their stored form.
pub(crate) fn is_copied(shape: &Shape, writing: Writing) -> bool {
    matches!(shape, Shape::Whole | Shape::Typed) && writing == Writing::Plain
}

/// The initial size of buffers that grow anyway.
const TYPICAL_ITEM_BYTES: usize = 1024;

fn compress_chunk(gzip: &mut GzEncoder<Vec<u8>>, plain: &[u8], last: bool) -> Vec<u8> {
    let written = gzip.write_all(plain).and_then(|()| if last { gzip.try_finish() } else { Ok(()) });
    written.expect("writing to memory does not fail");
    std::mem::take(gzip.get_mut())
}

/// A document that is compressed while it is sent.
pub(crate) struct Compressing {
    rest: Bytes,
    gzip: GzEncoder<Vec<u8>>,
}

impl Compressing {
    pub(crate) fn new(plain: Bytes) -> Self {
        Self { rest: plain, gzip: GzEncoder::new(Vec::with_capacity(CHUNK_BYTES), Compression::fast()) }
    }

    /// Returns the next piece. It is empty if the compression has no output yet. `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        let plain = self.rest.split_to(self.rest.len().min(CHUNK_BYTES));
        Some(compress_chunk(&mut self.gzip, &plain, self.rest.is_empty()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::GroupVersionResource;
    use berth_registry::{
        resource,
        table::{IncludeObject, PartialObjectMetadataList},
    };
    use berth_store::{Header, Key, Revision};
    use flate2::read::GzDecoder;
    use jiff::Timestamp;
    use std::io::Read as _;

    const HEAD: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#;
    const LEAD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#;

    fn entry(number: usize, data: &Value) -> Arc<Entry> {
        let value = format!(r#"{LEAD}"name":"c{number}","labels":{{"app":"web"}}}},"data":{data}}}"#);
        let header = Header { metadata_at: u32::try_from(LEAD.len()).expect("short"), ..Header::default() };
        let (create_revision, mod_revision) = (Revision(1), Revision(number as u64));
        Arc::new(Entry { key: Key::new("/registry/configmaps/a/c"), value: value.into(), header, create_revision, mod_revision })
    }

    fn entries(count: usize) -> Vec<Arc<Entry>> {
        (0..count).map(|number| entry(number, &json!({"a": "x".repeat(1024)}))).collect()
    }

    /// Returns a form, and the list without items in this form.
    fn form(name: &str) -> (Shape, Vec<u8>) {
        let resource = Arc::clone(resource::built_in().find(&GroupVersionResource::from_static("", "v1", "configmaps")).expect("served"));
        let list = berth_registry::List { items: Vec::new(), revision: Revision(9), continue_token: "more".to_owned(), remaining: Some(3) };
        match name {
            "Table" => {
                let printer = Printer { resource, include: IncludeObject::Object, version: MetaVersion::V1, now: Timestamp::UNIX_EPOCH };
                let head = serde_json::to_vec(&printer.head(&list)).expect("JSON");
                (Shape::Row(printer), head)
            }
            "Metadata" => {
                let head = PartialObjectMetadataList::head(&list, MetaVersion::V1);
                (Shape::Metadata(MetaVersion::V1), serde_json::to_vec(&head).expect("JSON"))
            }
            _ => (Shape::Whole, HEAD.into()),
        }
    }

    /// Returns the pieces of a list, and whether they are compressed.
    fn pieces(items: Vec<Arc<Entry>>, form: (Shape, Vec<u8>), writing: Writing, takes_gzip: bool) -> (Vec<Bytes>, bool) {
        match list(&form.1, items, form.0, writing, takes_gzip).expect("objects") {
            Listed::Short(bytes) => (vec![bytes.into()], false),
            Listed::Long(mut list) => {
                let compressed = list.is_compressed();
                (std::iter::from_fn(|| list.next_piece()).map(|piece| piece.expect("objects")).collect(), compressed)
            }
        }
    }

    fn collect(count: usize, takes_gzip: bool) -> (usize, bool, Vec<u8>) {
        let (pieces, compressed) = pieces(entries(count), form("Object"), Writing::Plain, takes_gzip);
        (pieces.len(), compressed, pieces.concat())
    }

    #[track_caller]
    fn check_items(json: &[u8], count: usize) {
        let list: Value = serde_json::from_slice(json).expect("JSON");
        let items = list["items"].as_array().expect("items");
        assert_eq!(items.len(), count);
        for (number, item) in items.iter().enumerate() {
            assert_eq!(item["metadata"]["name"], format!("c{number}"));
            assert_eq!(item["metadata"]["resourceVersion"], number.to_string());
            assert_eq!(item.get("kind"), None);
        }
    }

    #[test]
    fn small_lists_are_one_piece_and_large_ones_several() {
        for (count, several) in [(0, false), (1, false), (20, false), (1000, true)] {
            let (pieces, compressed, json) = collect(count, false);
            assert_eq!((1 < pieces, compressed), (several, false), "{count}");
            check_items(&json, count);
        }
    }

    #[test]
    fn only_large_lists_are_compressed() {
        assert!(!collect(20, true).1);
        let (_, compressed, bytes) = collect(1000, true);
        assert!(compressed);
        let mut json = Vec::new();
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut json).expect("gzip");
        check_items(&json, 1000);
    }

    #[test]
    fn a_document_is_compressed_piece_by_piece() {
        let plain: Vec<u8> = (0..5 * CHUNK_BYTES + 1).map(|at| u8::try_from(at * at % 251).expect("small")).collect();
        let mut compressing = Compressing::new(plain.clone().into());
        let pieces: Vec<Bytes> = std::iter::from_fn(|| compressing.next_piece()).collect();
        assert_eq!(pieces.len(), 6);
        let mut read = Vec::new();
        GzDecoder::new(pieces.concat().as_slice()).read_to_end(&mut read).expect("gzip");
        assert!(read == plain);
    }

    #[test]
    fn a_list_made_item_by_item_is_the_one_made_whole_in_every_form_and_writing() {
        let odd = json!({"lines": "a\n  b\n\nc", "colon": "a: b", "empty": "", "number": "01", "wide": "x ".repeat(100), "é": "\u{1}\"\\"});
        for name in ["Object", "Table", "Metadata"] {
            for count in [0, 1, 3, 2000] {
                let items: Vec<_> = (0..count).map(|number| entry(number, if number % 2 == 0 { &odd } else { &Value::Null })).collect();
                let (shape, head) = form(name);
                let mut whole = head[..head.len() - 2].to_vec();
                for (index, item) in items.iter().enumerate() {
                    whole.extend_from_slice(if index == 0 { b"" } else { b"," });
                    shape.write_json(item, &mut whole).expect("an object");
                }
                whole.extend_from_slice(b"]}");
                for writing in [Writing::Plain, Writing::Indented, Writing::Yaml] {
                    let made = pieces(items.clone(), form(name), writing, false).0.concat();
                    let made = if writing == Writing::Plain { made.trim_ascii_end() } else { &made[..] };
                    let expected = writing.rewrite(whole.clone().into());
                    assert!(*made == *expected, "{name} {count} {writing:?}:\n{}", String::from_utf8_lossy(&made[..made.len().min(2000)]));
                }
            }
        }
    }

    #[test]
    fn a_list_of_any_length_takes_a_piece_of_memory_in_every_form_and_writing() {
        const BYTES_MAX: u64 = 1 << 20;
        // Builds the table of kinds, which is built once per process.
        drop(form("Object"));
        for (name, writing, takes_gzip) in [
            ("Object", Writing::Plain, true),
            ("Table", Writing::Plain, false),
            ("Table", Writing::Yaml, true),
            ("Metadata", Writing::Plain, true),
            ("Object", Writing::Indented, false),
            ("Object", Writing::Yaml, false),
        ] {
            let items = vec![entry(1, &json!({"a": "x".repeat(4096)})); 4000];
            let sent = |list: &mut ListBody| list.next_piece().map(|piece| piece.expect("an object").len());
            let counted = allocation_counter::measure(|| {
                let (shape, head) = form(name);
                match list(&head, items, shape, writing, takes_gzip).expect("objects") {
                    Listed::Long(mut list) => while sent(&mut list).is_some() {},
                    Listed::Short(_) => panic!("it is long"),
                }
            });
            assert!(counted.bytes_max < BYTES_MAX, "{name} {writing:?}: {}", counted.bytes_max);
        }
    }

    #[test]
    fn an_invalid_object_is_an_error_before_the_list_begins_or_interrupts_it() {
        let broken = || {
            let Entry { key, header, create_revision, mod_revision, .. } = Arc::into_inner(entry(1, &Value::Null)).expect("one owner");
            Arc::new(Entry { key, value: "[".into(), header, create_revision, mod_revision })
        };
        let (shape, head) = form("Table");
        assert!(list(&head, vec![broken()], shape, Writing::Plain, false).is_err());
        let (shape, head) = form("Table");
        let listed = list(&head, entries(2000).into_iter().chain([broken()]).collect(), shape, Writing::Plain, false).expect("begun");
        let Listed::Long(mut listed) = listed else { panic!("it is long") };
        let ends: Vec<bool> = std::iter::from_fn(|| listed.next_piece()).map(|piece| piece.is_ok()).collect();
        assert!(1 < ends.len() && ends.iter().rev().skip(1).all(|is_made| *is_made) && ends.last() == Some(&false), "{ends:?}");
    }
}
