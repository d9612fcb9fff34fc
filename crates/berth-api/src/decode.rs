//! Decodes bytes to objects: finds duplicate keys and unknown fields, and reports the path of a wrong type.

mod base64;
mod codec;
mod order;
mod parse;
mod time;
mod typed;

pub use codec::Codec;
pub use order::{FieldFault, faults_in_order};
pub use parse::{DEPTH_MAX, ParseError, Parsed, parse_json};
pub use typed::DecodeError;
pub(crate) use typed::decode as from_sent;

use crate::unset::drop_zero;
use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Error},
};
use serde_json::Value;
use std::fmt::{self, Write as _};

/// The maximum number of reported unknown or duplicate fields, as upstream.
const REPORTED_FIELDS_MAX: usize = 100;

/// The object that `value` describes, and the paths of the fields that its kind does not have (`spec.Replicas`,
/// `spec.template.spec.containers[0].foo`), sorted by path within each object, at most 100.
///
/// A null is decoded as the empty value of the field's type, as upstream: `labels: {a: null}` is `a: ""`. Missing
/// `apiVersion` and `kind` are those of `K`. Empty metadata fields count as absent.
///
/// # Errors
/// A value of the wrong type or out of range, `apiVersion` or `kind` of another kind; with the path of the field.
pub fn decode<K: Codec + Metadata<Ty = ObjectMeta>>(value: Value) -> Result<(K, Vec<String>), DecodeError> {
    let (mut object, unknown) = K::decode_sent(value)?;
    drop_empty(object.metadata_mut());
    Ok((object, unknown))
}

/// Decodes `value` with a seed. Also returns the paths of ignored fields, as [`decode`] does for a type.
///
/// # Errors
/// A value that the seed cannot read, with the path of the field.
pub fn decode_by<'de, S: DeserializeSeed<'de>>(value: Value, seed: S) -> Result<(S::Value, Vec<String>), DecodeError> {
    typed::decode_by(value, seed)
}

/// Decodes bytes that [`crate::Object::encode`] wrote. It skips the checks for input of clients: nulls, duplicates,
/// unknown fields.
///
/// # Errors
/// Bytes that are no JSON of a `K`.
pub fn decode_bytes<K: Codec>(bytes: &[u8]) -> Result<K, DecodeError> {
    K::decode_json(bytes).map_err(|error| DecodeError::new(String::new(), error.to_string()))
}

/// Does the same as [`decode_bytes`] for a JSON tree.
///
/// # Errors
/// A tree that is no `K`.
pub fn decode_tree<K: Codec>(tree: &Value) -> Result<K, DecodeError> {
    K::decode_tree(tree).map_err(|error| DecodeError::new(String::new(), error.to_string()))
}

/// Decodes parts of objects. [`Codec::decode_json`] decodes whole ones. It takes three quarters of the time of
/// `serde_json::from_slice`, because it checks UTF-8 once instead of for each string.
///
/// # Errors
/// Bytes that are no JSON of a `T`.
pub fn from_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}

/// Replaces empty metadata fields that JSON omits by absent ones, so that equivalent metadata are equal.
/// `managedFields` is an exception: an empty list resets the owners, an absent one keeps them.
pub(crate) fn drop_empty(meta: &mut ObjectMeta) {
    [&mut meta.name, &mut meta.generate_name, &mut meta.namespace, &mut meta.resource_version, &mut meta.self_link, &mut meta.uid]
        .into_iter()
        .for_each(drop_zero);
    drop_zero(&mut meta.generation);
    drop_zero(&mut meta.labels);
    drop_zero(&mut meta.annotations);
    drop_zero(&mut meta.owner_references);
    drop_zero(&mut meta.finalizers);
}

/// The maximum length of a reported path, in bytes.
const REPORTED_BYTES_MAX: usize = 1024;

/// The path of a value. A linked list to its parents, so that only an error allocates.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Element(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Adds `path` to `report`, unless it is already there or the report is full.
fn report(report: &mut Vec<String>, path: Path<'_>) {
    if REPORTED_FIELDS_MAX <= report.len() {
        return;
    }
    let path = text_of(path);
    if !report.contains(&path) {
        report.push(path);
    }
}

/// Returns the text of a path, truncated to a readable length. A document can make a path as long as itself, and repeat
/// it for every second byte.
fn text_of(path: Path<'_>) -> String {
    let mut text = Cut(String::new());
    // A full buffer is no error.
    let _ = write!(text, "{path}");
    text.0
}

/// Takes text up to [`REPORTED_BYTES_MAX`].
struct Cut(String);

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = REPORTED_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::from_json;
    use serde_json::{Value, json};

    #[test]
    fn json_is_read_where_it_is_text() {
        assert_eq!(from_json::<Value>("{\"a\":[\"ä\",1]}".as_bytes()).expect("JSON"), json!({"a": ["ä", 1]}));
        assert_eq!(from_json::<&str>(br#""borrowed""#).expect("JSON"), "borrowed");
        let broken: [&[u8]; 3] = [b"\"\xff\"", b"{", b"1 2"];
        broken.into_iter().for_each(|bytes| assert!(from_json::<Value>(bytes).is_err()));
    }
}
