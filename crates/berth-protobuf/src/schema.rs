//! The table of all messages, parsed once from `schema.txt`.
//!
//! The table has lines `kind <apiVersion> <kind> <message>` for each kind that a body may contain, `message <name>`,
//! and one line per field: `<number> <JSON name> <type>`. A type is a scalar (`bool`, `int32`, `int64`, `string`,
//! `bytes`), a type with its own JSON form, or a message.
//!
//! Prefixes: `*` is a pointer, which is printed if present. `[]` is a list. `[string]` is a map. The suffix `!` means
//! that the field is always printed, even if empty. Without any of these, the field is printed unless it is empty. The
//! JSON name `-` marks a message whose fields are inlined into its parent's JSON.

use std::{collections::BTreeMap, sync::OnceLock};

/// Numbers, names and types of Kubernetes 1.36, taken from the tags of its Go types. `podReplacementPolicy` of a
/// Deployment has the number of KEP-3973 and KEP-5882.
const TEXT: &str = include_str!("schema.txt");

/// All messages, and the kinds that a body may contain.
pub(crate) struct Schema {
    messages: Vec<Message>,
    kinds: BTreeMap<(&'static str, &'static str), MessageId>,
}

/// Index of a message in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageId(usize);

/// One message, its fields ordered by number.
pub(crate) struct Message {
    pub(crate) fields: Vec<Field>,
}

/// One field of a message.
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name in JSON.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
}

/// How many values a field has, and when JSON contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One value, printed if present.
    Pointer,
    /// One value, printed unless empty.
    NonEmpty,
    /// One value, always printed.
    Always,
    /// One message, whose fields are inlined into the parent's JSON.
    Inline,
    /// Any number of values, printed unless there are none.
    List,
    /// Any number of named values, printed unless there are none.
    Map,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int32,
    Int64,
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A message around a list of strings; a list in JSON.
    Strings,
    /// A message around a string; the string in JSON.
    Quantity,
    /// A number or a string in JSON.
    IntOrString,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// A message around JSON.
    FieldsV1,
    /// A message around JSON or a whole protobuf body.
    RawExtension,
    Message(MessageId),
}

impl Schema {
    /// Returns the table.
    pub(crate) fn get() -> &'static Self {
        static SCHEMA: OnceLock<Schema> = OnceLock::new();
        SCHEMA.get_or_init(|| parse(TEXT))
    }

    pub(crate) fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0]
    }

    /// Returns the message of a kind. Options belong to every group, because clients send them in the group of the
    /// object.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        self.kinds.get(&(api_version, kind)).or_else(|| self.kinds.get(&(OPTIONS, kind))).copied()
    }

    #[cfg(test)]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, MessageId)> {
        self.kinds.iter().map(|((api_version, kind), id)| (*api_version, *kind, *id))
    }
}

/// The API version of kinds without a group of their own.
const OPTIONS: &str = "meta.k8s.io/v1";

const WELL_FORMED: &str = "the table is part of the program and read whole by a test";

fn parse(text: &'static str) -> Schema {
    let names = text.lines().filter_map(|line| line.strip_prefix("message "));
    let ids: BTreeMap<&str, MessageId> = names.enumerate().map(|(index, name)| (name, MessageId(index))).collect();
    let mut schema = Schema { messages: Vec::with_capacity(ids.len()), kinds: BTreeMap::new() };
    for line in text.lines() {
        let words: Vec<&'static str> = line.split_ascii_whitespace().collect();
        match *words.as_slice() {
            ["kind", api_version, kind, message] => drop(schema.kinds.insert((api_version, kind), ids[message])),
            ["message", _] => schema.messages.push(Message { fields: Vec::new() }),
            [number, name, kind] => schema.messages.last_mut().expect(WELL_FORMED).fields.push(parse_field(&ids, number, name, kind)),
            _ => unreachable!("{WELL_FORMED}: {line:?}"),
        }
    }
    schema
}

fn parse_field(ids: &BTreeMap<&str, MessageId>, number: &str, name: &'static str, text: &str) -> Field {
    let (shape, kind) = if let Some(kind) = text.strip_prefix("[string]") {
        (Shape::Map, kind)
    } else if let Some(kind) = text.strip_prefix("[]") {
        (Shape::List, kind)
    } else if let Some(kind) = text.strip_prefix('*') {
        (Shape::Pointer, kind)
    } else if let Some(kind) = text.strip_suffix('!') {
        (Shape::Always, kind)
    } else {
        (if name == "-" { Shape::Inline } else { Shape::NonEmpty }, text)
    };
    Field { number: number.parse().expect(WELL_FORMED), name, shape, kind: parse_kind(ids, kind) }
}

fn parse_kind(ids: &BTreeMap<&str, MessageId>, text: &str) -> Kind {
    match text {
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "string" => Kind::String,
        "bytes" => Kind::Bytes,
        "strings" => Kind::Strings,
        "quantity" => Kind::Quantity,
        "intOrString" => Kind::IntOrString,
        "time" => Kind::Time,
        "microTime" => Kind::MicroTime,
        "fieldsV1" => Kind::FieldsV1,
        "rawExtension" => Kind::RawExtension,
        message => Kind::Message(*ids.get(message).expect(WELL_FORMED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_its_fields_are_sorted_by_number() {
        let schema = Schema::get();
        assert!(schema.messages.len() > 400);
        for message in &schema.messages {
            assert!(message.fields.iter().map(|field| field.number).is_sorted_by(|a, b| a < b));
            for field in &message.fields {
                assert_eq!(field.name == "-", field.shape == Shape::Inline);
                assert!(field.shape != Shape::Inline || matches!(field.kind, Kind::Message(_)));
            }
        }
    }

    #[test]
    fn kinds_are_found_in_their_group_and_options_in_all() {
        let schema = Schema::get();
        let deployment = schema.find("apps/v1", "Deployment");
        let options = schema.find("meta.k8s.io/v1", "DeleteOptions");
        assert!(deployment.is_some() && options.is_some() && deployment != options);
        assert_eq!(schema.find("apps/v1", "DeleteOptions"), options);
        assert_eq!(schema.find("v1", "DeleteOptions"), options);
        assert_eq!(schema.find("v1", "Deployment"), None);
        assert_eq!(schema.find("apps/v1", ""), None);
    }
}
