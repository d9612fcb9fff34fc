//! Determines the order of errors in a document. This decodes the document again, because the tree has lost the order,
//! and because only rejected documents and those with warnings need it.

use super::{Path, REPORTED_FIELDS_MAX, text_of};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::{cell::RefCell, collections::BTreeSet, fmt};

/// An error of strict validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// The kind has no field of this path.
    Unknown(String),
    /// One object has the field more than once.
    Duplicate(String),
}

impl fmt::Display for FieldFault {
    /// In upstream's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {path:?}"),
            Self::Duplicate(path) => write!(f, "duplicate field {path:?}"),
        }
    }
}

/// Returns the errors of a JSON document in document order, each once, at most 100. It ignores the content of `unknown`
/// fields, and their duplicates.
///
/// Source: upstream's strict JSON decoder.
#[must_use]
pub fn faults_in_order(document: &[u8], unknown: &[String]) -> Vec<FieldFault> {
    let walk = Walk { unknown: unknown.iter().map(String::as_str).collect(), found: RefCell::default() };
    // An undecodable document was rejected before.
    let _ = Node { path: Path::Root, walk: &walk }.deserialize(&mut serde_json::Deserializer::from_slice(document));
    walk.found.into_inner()
}

struct Walk<'a> {
    unknown: BTreeSet<&'a str>,
    found: RefCell<Vec<FieldFault>>,
}

impl Walk<'_> {
    fn add(&self, fault: FieldFault) {
        let mut found = self.found.borrow_mut();
        if found.len() < REPORTED_FIELDS_MAX && !found.contains(&fault) {
            found.push(fault);
        }
    }
}

/// A value to decode.
#[derive(Clone, Copy)]
struct Node<'a> {
    path: Path<'a>,
    walk: &'a Walk<'a>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while seq.next_element_seed(Node { path: Path::Element(&self.path, index), ..self })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = Path::Member(&self.path, &key);
            let text = text_of(path);
            if self.walk.unknown.contains(text.as_str()) {
                self.walk.add(FieldFault::Unknown(text));
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if seen.contains(&key) {
                self.walk.add(FieldFault::Duplicate(text));
            }
            map.next_value_seed(Node { path, ..self })?;
            seen.insert(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::decode::{decode, faults_in_order, parse_json};
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    /// The expected results are those of a real 1.36.
    #[test]
    fn faults_are_in_the_order_of_the_document() {
        fn check<K: crate::Kind>(document: &str, expected: &[&str]) {
            let parsed = parse_json(document.as_bytes()).expect("JSON");
            let (_, unknown) = decode::<K>(parsed.value).expect("decodes");
            let found: Vec<String> = faults_in_order(document.as_bytes(), &unknown).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{document}");
        }
        check::<ConfigMap>(
            r#"{"bogus":1,"metadata":{"name":"x"},"zz":1,"aa":2,"data":{"a":"1","a":"2"},"data":{}}"#,
            &[
                r#"unknown field "bogus""#,
                r#"unknown field "zz""#,
                r#"unknown field "aa""#,
                r#"duplicate field "data.a""#,
                r#"duplicate field "data""#,
            ],
        );
        check::<ConfigMap>(
            r#"{"data":{"a":"1","a":"2"},"bogus":1,"metadata":{"name":"x"},"bogus":2}"#,
            &[r#"duplicate field "data.a""#, r#"unknown field "bogus""#],
        );
        check::<ConfigMap>(r#"{"metadata":{"name":"x"},"abc":{"d":1,"d":2}}"#, &[r#"unknown field "abc""#]);
        check::<ConfigMap>(
            r#"{"metadata":{"name":"x"},"abc":1,"abc":2,"metadata":{"name":"y","zz":1}}"#,
            &[r#"unknown field "abc""#, r#"duplicate field "metadata""#, r#"unknown field "metadata.zz""#],
        );
        check::<Pod>(
            r#"{"spec":{"zc":[1.5,null,-1,true],"containers":[{"name":"c","image":"i","zi":1,"env":[{"nope":1}],"image":"j"},{"zi":1}]}}"#,
            &[
                r#"unknown field "spec.zc""#,
                r#"unknown field "spec.containers[0].zi""#,
                r#"unknown field "spec.containers[0].env[0].nope""#,
                r#"duplicate field "spec.containers[0].image""#,
                r#"unknown field "spec.containers[1].zi""#,
            ],
        );
    }

    #[test]
    fn at_most_a_hundred_faults_are_returned() {
        let members: Vec<String> = (0..300).map(|at| format!(r#""m{at}":1,"m{at}":2"#)).collect();
        let document = format!(r#"{{"data":{{{}}},"bogus":1}}"#, members.join(","));
        let faults = faults_in_order(document.as_bytes(), &["bogus".to_owned()]);
        assert_eq!((faults.len(), faults[99].to_string().as_str()), (100, r#"duplicate field "data.m99""#));
    }
}
