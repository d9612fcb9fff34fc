//! Elements of lists whose keys distinguish them.

use super::{ListType, Structural};
use serde_json::{Map, Value};

/// The members that distinguish an element from others.
pub(super) fn key_of(keys: &[String], element: &Value) -> Value {
    keys.iter().filter_map(|key| Some((key.clone(), element.get(key)?.clone()))).collect::<Map<_, _>>().into()
}

/// The elements of the old list by their keys, if the list has such.
pub(super) struct Counterparts<'a> {
    keys: &'a [String],
    known: Vec<(String, &'a Value)>,
}

impl<'a> Counterparts<'a> {
    pub(super) fn of(schema: &'a Structural, old: Option<&'a Value>) -> Self {
        let Some(ListType::Map(keys)) = &schema.list_type else { return Self { keys: &[], known: Vec::new() } };
        let list = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut known: Vec<(String, &Value)> = list.iter().map(|element| (key_of(keys, element).to_string(), element)).collect();
        known.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { keys, known }
    }

    pub(super) fn get(&self, element: &Value) -> Option<&'a Value> {
        if self.known.is_empty() || self.keys.iter().any(|key| element.get(key).is_none()) {
            return None;
        }
        let key = key_of(self.keys, element).to_string();
        let at = self.known.binary_search_by(|(known, _)| known.cmp(&key)).ok()?;
        Some(self.known[at].1)
    }
}
