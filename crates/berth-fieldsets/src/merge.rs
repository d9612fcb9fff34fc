//! An applied document on top of a stored one.

use crate::{
    PathElement, Root, fields,
    schema::{ListKind, ListType, MapKind, MapType, Type},
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Root<'_> {
    /// `document` with everything in `config`. Nothing is removed.
    #[must_use]
    pub fn merge(self, document: &Value, config: &Value) -> Value {
        merge(self, Some(document), Some(config)).unwrap_or_default()
    }
}

/// `live` with the contents of `config`. `None`: nothing is left.
fn merge(root: Root<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let leaf = || config.or(live).cloned();
    match root.resolve_for(config.filter(|config| !config.is_null()).or(live).unwrap_or(&Value::Null)) {
        Type::Map(map) if map.kind == MapKind::Granular => {
            let members = |value: Option<&Value>| value.and_then(Value::as_object).filter(|members| !members.is_empty()).is_some();
            if members(live) || members(config) { maps(root, map, live, config) } else { leaf() }
        }
        Type::List(list) if list.kind != ListKind::Atomic => {
            let items = |value: Option<&Value>| value.and_then(Value::as_array).filter(|items| !items.is_empty()).is_some();
            if items(live) || items(config) { lists(root, list, live, config) } else { leaf() }
        }
        Type::Any | Type::Deduced(_) | Type::Scalar(_) | Type::Map(_) | Type::List(_) => leaf(),
    }
}

fn maps(root: Root<'_>, map: &MapType, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let (live, config) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
    let names: BTreeSet<&String> = live.into_iter().chain(config).flat_map(Map::keys).collect();
    let mut out = Map::new();
    for name in names {
        let (live, config) = (live.and_then(|live| live.get(name)), config.and_then(|config| config.get(name)));
        let merged = match root.member(map, name) {
            Some(root) => merge(root, live, config),
            None => config.or(live).cloned(),
        };
        if let Some(value) = merged {
            out.insert(name.clone(), value);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// Elements of both keep the order of `config`. Those of `live` alone stay as near as they can to their old position.
fn lists(root: Root<'_>, list: &ListType, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let (live, config) = (keyed(root, list, live), keyed(root, list, config));
    let wanted: BTreeMap<&PathElement, &Value> = config.iter().map(|(element, value)| (element, *value)).collect();
    let stored = once_only(&live);
    // Lists may be long, so that looking through one for every element of the other would not do.
    let standing: BTreeSet<&PathElement> = live.iter().map(|(element, _)| element).collect();
    let mut shared: VecDeque<&PathElement> = config.iter().map(|(element, _)| element).filter(|e| standing.contains(e)).collect();
    let mut rest = live.iter().peekable();
    let mut out: Vec<Option<Value>> = Vec::new();
    for (element, value) in &config {
        while let Some((other, standing)) = rest.peek() {
            if !wanted.contains_key(other) {
                out.push(Some((*standing).clone()));
            } else if other != element && shared.front() == Some(&other) {
                break;
            }
            let is_found = other == element;
            rest.next();
            if is_found {
                break;
            }
        }
        if shared.front() == Some(&element) {
            shared.pop_front();
        }
        out.push(merge(root.at(list.elements), stored.get(element).copied(), Some(value)));
    }
    out.extend(rest.filter(|(other, _)| !wanted.contains_key(other)).map(|(_, standing)| Some((*standing).clone())));
    let out: Vec<Value> = out.into_iter().flatten().collect();
    (!out.is_empty()).then_some(Value::Array(out))
}

type Keyed<'v> = Vec<(PathElement, &'v Value)>;

fn keyed<'v>(root: Root<'_>, list: &ListType, value: Option<&'v Value>) -> Keyed<'v> {
    let items = value.and_then(Value::as_array).into_iter().flatten().enumerate();
    items.map(|(index, item)| (fields::element_or_index(root, list, item, index), item)).collect()
}

/// Stored elements whose key is there once: one of several cannot be merged with, it is replaced with the others.
fn once_only<'a>(live: &'a Keyed<'a>) -> BTreeMap<&'a PathElement, &'a Value> {
    let mut once = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for (element, value) in live {
        if once.insert(element, *value).is_some() {
            twice.insert(element);
        }
    }
    once.retain(|element, _| !twice.contains(element));
    once
}
