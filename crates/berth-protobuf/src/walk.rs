//! The traversal of a message that writes its JSON.

use crate::{
    envelope::{PREFIX, document},
    error::{DecodeError, Problem},
    schema::{Field, Kind, MessageId, Schema, Shape},
    wire::{Fields, Raw, read_varint},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use std::{borrow::Cow, collections::BTreeMap};

/// The maximum nesting of messages. The deepest served kind needs a fifth of it.
pub(crate) const DEPTH_MAX: usize = 100;

/// Builds the JSON.
pub(crate) struct Writer {
    out: Vec<u8>,
    limit: usize,
}

/// Returns the last value of the field `number` in a message.
pub(crate) fn last(bytes: &[u8], number: u32) -> Result<Option<Raw<'_>>, Problem> {
    Fields::new(bytes).try_fold(None, |found, field| field.map(|(n, raw)| if n == number { Some(raw) } else { found }))
}

/// All values of one field of a message, by position.
#[derive(Clone, Copy)]
struct Values<'a> {
    message: &'a [u8],
    positions: &'a [FieldPosition],
}

/// A field's index in its message's table, and its offset in the bytes.
type FieldPosition = (u16, u32);

impl<'a> Values<'a> {
    fn iter(self) -> impl DoubleEndedIterator<Item = Result<Raw<'a>, Problem>> {
        self.positions.iter().map(move |(_, at)| {
            let rest = self.message.get(*at as usize..).unwrap_or_default();
            Fields::new(rest).next().map_or(Err(Problem::Truncated), |field| Ok(field?.1))
        })
    }

    /// Returns the single value: the last one of a scalar, or the concatenation of a message that occurs several times.
    fn one(self, kind: Kind) -> Result<Option<Cow<'a, [u8]>>, Problem> {
        let mut all = self.iter();
        let last = all.next_back().transpose()?.map(Raw::bytes).transpose()?.map(Cow::Borrowed);
        if self.positions.len() < 2 || matches!(kind, Kind::String | Kind::Bytes) {
            return Ok(last);
        }
        let parts: Vec<&[u8]> = self.iter().map(|raw| raw.and_then(Raw::bytes)).collect::<Result<_, _>>()?;
        Ok(Some(Cow::Owned(parts.concat())))
    }

    fn varint(self) -> Result<Option<Raw<'a>>, Problem> {
        self.iter().next_back().transpose()
    }
}

/// Returns the positions of the known fields of a message, grouped by field, in the order of the table.
fn positions(fields: &[Field], message: &[u8]) -> Result<Vec<FieldPosition>, DecodeError> {
    let mut positions = Vec::new();
    let mut walk = Fields::new(message);
    loop {
        let at = walk.position();
        let Some(field) = walk.next() else { break };
        let (number, _) = field?;
        if let Ok(index) = fields.binary_search_by_key(&number, |field| field.number) {
            let place = u16::try_from(index).ok().zip(u32::try_from(at).ok());
            positions.push(place.ok_or(DecodeError::TooLarge { limit: u32::MAX as usize })?);
        }
    }
    positions.sort_unstable();
    Ok(positions)
}

impl Writer {
    pub(crate) fn new(limit: usize) -> Self {
        Self { out: Vec::new(), limit }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Writes an object with its `apiVersion` and `kind`.
    pub(crate) fn typed_object(
        &mut self,
        api_version: &str,
        kind: &str,
        id: MessageId,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(), DecodeError> {
        self.out.push(b'{');
        for (name, text) in [("apiVersion", api_version), ("kind", kind)] {
            self.key(name);
            self.text(text);
        }
        self.members(id, bytes, depth)?;
        self.out.push(b'}');
        Ok(())
    }

    fn object(&mut self, id: MessageId, bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
        self.out.push(b'{');
        self.members(id, bytes, depth)?;
        self.out.push(b'}');
        Ok(())
    }

    fn members(&mut self, id: MessageId, bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(Problem::Depth)?;
        let fields = &Schema::get().message(id).fields;
        let positions = positions(fields, bytes)?;
        let mut rest = positions.as_slice();
        for (index, field) in fields.iter().enumerate() {
            let (here, tail) = rest.split_at(rest.partition_point(|(found, _)| usize::from(*found) <= index));
            rest = tail;
            self.field(field, Values { message: bytes, positions: here }, depth)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, values: Values<'_>, depth: usize) -> Result<(), DecodeError> {
        let within = |error: DecodeError| error.within(field.name);
        match (field.shape, field.kind) {
            (Shape::Inline, Kind::Message(id)) => self.members(id, &values.one(field.kind)?.unwrap_or_default(), depth),
            (Shape::List | Shape::Map | Shape::Pointer, _) if values.positions.is_empty() => Ok(()),
            (Shape::List, _) => self.list(field, values, depth).map_err(within),
            (Shape::Map, _) => self.map(field, values, depth).map_err(within),
            (Shape::Pointer | Shape::NonEmpty | Shape::Always | Shape::Inline, _) => self.single(field, values, depth).map_err(within),
        }
    }

    /// Writes the value, and removes it again if its type omits this value.
    fn single(&mut self, field: &Field, values: Values<'_>, depth: usize) -> Result<(), DecodeError> {
        let before = self.out.len();
        self.key(field.name);
        let start = self.out.len();
        if matches!(field.kind, Kind::Bool | Kind::Int32 | Kind::Int64) {
            self.value(field.kind, values.varint()?.unwrap_or(Raw::Varint(0)), depth)?;
        } else {
            self.value(field.kind, Raw::Bytes(&values.one(field.kind)?.unwrap_or_default()), depth)?;
        }
        let hidden = match self.out.get(start..).unwrap_or_default() {
            b"null" => true,
            b"\"\"" | b"0" | b"false" | b"{}" | b"[]" => field.shape == Shape::NonEmpty,
            _ => false,
        };
        if hidden {
            self.out.truncate(before);
        }
        self.check_size()
    }

    fn list(&mut self, field: &Field, values: Values<'_>, depth: usize) -> Result<(), DecodeError> {
        self.key(field.name);
        self.out.push(b'[');
        for (index, raw) in values.iter().enumerate() {
            match (raw?, field.kind) {
                (Raw::Bytes(packed), Kind::Bool | Kind::Int32 | Kind::Int64) => self.packed(field.kind, packed, depth)?,
                (raw, kind) => self.element(kind, raw, depth).map_err(|error| error.within(&format!("[{index}]")))?,
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// Writes a packed list: numbers in succession in one field.
    fn packed(&mut self, kind: Kind, mut rest: &[u8], depth: usize) -> Result<(), DecodeError> {
        while !rest.is_empty() {
            self.element(kind, Raw::Varint(read_varint(&mut rest)?), depth)?;
        }
        Ok(())
    }

    fn element(&mut self, kind: Kind, raw: Raw<'_>, depth: usize) -> Result<(), DecodeError> {
        self.separate();
        self.value(kind, raw, depth)?;
        self.check_size()
    }

    /// Writes the members sorted by name. The last entry of a duplicate name wins.
    fn map(&mut self, field: &Field, values: Values<'_>, depth: usize) -> Result<(), DecodeError> {
        let mut entries = BTreeMap::new();
        for entry in values.iter() {
            let entry = entry?.bytes()?;
            let name = last(entry, 1)?.map_or(Ok(""), Raw::text)?;
            entries.insert(name, last(entry, 2)?.unwrap_or(Raw::Bytes(&[])));
        }
        self.key(field.name);
        self.out.push(b'{');
        for (name, raw) in entries {
            self.key(name);
            self.value(field.kind, raw, depth).map_err(|error| error.within(&format!("[{name}]")))?;
            self.check_size()?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn value(&mut self, kind: Kind, raw: Raw<'_>, depth: usize) -> Result<(), DecodeError> {
        match kind {
            Kind::Bool => self.word(if raw.int64()? == 0 { "false" } else { "true" }),
            Kind::Int32 => self.word(&raw.int32()?.to_string()),
            Kind::Int64 => self.word(&raw.int64()?.to_string()),
            Kind::String => self.text(raw.text()?),
            Kind::Bytes => self.text(&BASE64_STANDARD.encode(raw.bytes()?)),
            Kind::Strings => self.strings(raw.bytes()?)?,
            Kind::Quantity => self.text(last(raw.bytes()?, 1)?.map_or(Ok("0"), Raw::text)?),
            Kind::IntOrString => self.int_or_string(raw.bytes()?)?,
            Kind::Time => self.time(raw.bytes()?, "%Y-%m-%dT%H:%M:%SZ")?,
            Kind::MicroTime => self.time(raw.bytes()?, "%Y-%m-%dT%H:%M:%S%.6fZ")?,
            Kind::FieldsV1 | Kind::RawExtension => self.json(raw.bytes()?, depth)?,
            Kind::Message(id) => self.object(id, raw.bytes()?, depth)?,
        }
        Ok(())
    }

    fn strings(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        self.out.push(b'[');
        for field in Fields::new(bytes) {
            if let (1, raw) = field? {
                self.element(Kind::String, raw, 0)?;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn int_or_string(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let number = |field| last(bytes, field)?.map_or(Ok(0), Raw::int32);
        match number(1)? {
            0 => self.word(&number(2)?.to_string()),
            1 => self.text(last(bytes, 3)?.map_or(Ok(""), Raw::text)?),
            _ => return Err(Problem::IntOrString),
        }
        Ok(())
    }

    /// The zero time has no bytes.
    fn time(&mut self, bytes: &[u8], format: &str) -> Result<(), Problem> {
        if bytes.is_empty() {
            self.word("null");
            return Ok(());
        }
        let seconds = last(bytes, 1)?.map_or(Ok(0), Raw::int64)?;
        let nanoseconds = last(bytes, 2)?.map_or(Ok(0), Raw::int32)?;
        let time = Timestamp::new(seconds, nanoseconds).map_err(|_| Problem::Time)?;
        self.text(&time.strftime(format).to_string());
        Ok(())
    }

    /// Writes a field in which clients put JSON or a whole protobuf body.
    fn json(&mut self, bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
        let raw = last(bytes, 1)?.map_or(Ok(&[][..]), Raw::bytes)?;
        if raw.starts_with(PREFIX) {
            return document(self, raw, depth);
        }
        let text = std::str::from_utf8(raw).map_err(|_| Problem::Utf8)?;
        if !text.is_empty() {
            serde_json::from_str::<IgnoredAny>(text).map_err(|_| Problem::Json)?;
        }
        self.word(if text.is_empty() { "null" } else { text });
        Ok(())
    }

    /// Writes the comma between members and between elements. A complete value never ends with an opening bracket.
    fn separate(&mut self) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[')) {
            self.out.push(b',');
        }
    }

    fn key(&mut self, name: &str) {
        self.separate();
        self.text(name);
        self.out.push(b':');
    }

    fn word(&mut self, word: &str) {
        self.out.extend_from_slice(word.as_bytes());
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.out, text).expect("writing a string to memory does not fail");
    }

    fn check_size(&self) -> Result<(), DecodeError> {
        if self.limit < self.out.len() { Err(DecodeError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }
}
