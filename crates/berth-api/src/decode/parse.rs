//! Parses JSON text to a tree, and records duplicate keys.

use super::Path;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{cell::RefCell, collections::BTreeSet, fmt};

/// The maximum nesting of objects and lists. No API type needs half of it. Upstream allows 10000, which would overflow
/// a small stack.
pub const DEPTH_MAX: usize = 127;

/// A JSON document.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The document. The last value of a duplicate key wins.
    pub value: Value,
    /// The paths of duplicate keys, in document order, at most 100.
    pub duplicates: Vec<String>,
}

/// Why bytes are not a JSON document: a syntax error, text after the end, invalid UTF-8, or nesting beyond
/// [`DEPTH_MAX`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(serde_json::Error);

/// Parses one JSON document without trailing text.
///
/// # Errors
/// See [`ParseError`].
pub fn parse_json(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node { path: Path::Root, duplicates: &duplicates }.deserialize(&mut deserializer).map_err(ParseError)?;
    deserializer.end().map_err(ParseError)?;
    Ok(Parsed { value, duplicates: duplicates.into_inner() })
}

/// A value to decode.
#[derive(Clone, Copy)]
struct Node<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(Node { path: Path::Element(&self.path, list.len()), ..self })? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut twice = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = Path::Member(&self.path, &key);
            if object.contains_key(&key) && twice.insert(key.clone()) {
                super::report(&mut self.duplicates.borrow_mut(), path);
            }
            let value = map.next_value_seed(Node { path, ..self })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn duplicates_are_named_and_the_last_wins() {
        let parsed = parse_json(br#"{"metadata":{"name":"a","name":"b","name":"c"},"l":[{},{"x":1,"x":2}],"l2":1}"#).expect("JSON");
        assert_eq!(parsed.duplicates, ["metadata.name", "l[1].x"]);
        assert_eq!(parsed.value, serde_json::json!({"metadata": {"name": "c"}, "l": [{}, {"x": 2}], "l2": 1}));
    }

    #[test]
    fn the_number_and_the_length_of_reported_duplicates_are_limited() {
        let deep = |inner: &str| (0..100).fold(inner.to_owned(), |inner, _| format!(r#"{{"{}":{inner}}}"#, "ä".repeat(1000)));
        let same = format!("{{{}}}", vec![r#""a":1"#; 10_000].join(","));
        let duplicates = parse_json(deep(&same).as_bytes()).expect("JSON").duplicates;
        assert_eq!(duplicates, ["ä".repeat(512)]);
        let others: Vec<String> = (0..200).map(|at| format!(r#""{at}":1,"{at}":1"#)).collect();
        let duplicates = parse_json(format!("{{{}}}", others.join(",")).as_bytes()).expect("JSON").duplicates;
        assert_eq!((duplicates.len(), duplicates[99].as_str()), (100, "99"));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for bytes in [&b"{} x"[..], b"", b"{", b"{\"a\":\"\xff\"}", b"[1,]", b"{1:2}", b"1e999"] {
            assert!(parse_json(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_json(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(parse_json(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(parse_json("[".repeat(1_000_000).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let ours = parse_json(&bytes).map(|parsed| parsed.value).ok();
            prop_assert_eq!(ours, serde_json::from_slice::<Value>(&bytes).ok());
        }
    }
}
