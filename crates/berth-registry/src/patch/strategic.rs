//! Kubernetes' strategic merge patch: a merge patch with list keys and directives.

use super::merge_keys;
use crate::resource::merge_rules::{MergeRule, PatchStrategy};
use crate::{ApiError, Resource};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER_PREFIX: &str = "$setElementOrder/";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to `doc`, an object of `resource`.
///
/// # Errors
/// [`ApiError::BadRequest`] if the patch is not an object, misuses a directive, or has a list element without its key.
pub fn strategic(doc: &Value, patch: &Value, resource: &Resource) -> Result<Value, ApiError> {
    let (Value::Object(doc), Value::Object(patch)) = (doc, patch) else {
        return bad("a strategic merge patch is a JSON object");
    };
    merge_objects(doc.clone(), patch.clone(), resource.kind()).map(Value::Object)
}

type Object = Map<String, Value>;

fn bad<T>(message: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::BadRequest { message: message.into() })
}

/// The directive `$patch` of an object.
enum Directive {
    Merge,
    Replace,
    Delete,
}

/// Removes and returns `$patch`.
fn take_directive(patch: &mut Object) -> Result<Directive, ApiError> {
    match patch.remove(DIRECTIVE) {
        None => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "merge" => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "replace" => Ok(Directive::Replace),
        Some(Value::String(text)) if text == "delete" => Ok(Directive::Delete),
        Some(other) => bad(format!("unknown {DIRECTIVE} directive {other}")),
    }
}

fn merge_objects(mut doc: Object, mut patch: Object, of: &str) -> Result<Object, ApiError> {
    match take_directive(&mut patch)? {
        Directive::Replace => return Ok(patch),
        Directive::Delete => return Ok(Object::new()),
        Directive::Merge => (),
    }
    retain_keys(&mut doc, &mut patch)?;
    let ordered: Vec<String> = patch.keys().filter_map(|key| key.strip_prefix(ORDER_PREFIX)).map(str::to_owned).collect();
    for name in ordered {
        merge_ordered_list(&mut doc, &mut patch, &name, of)?;
    }
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE_PREFIX) {
            delete_from_primitive_list(&mut doc, name, &value)?;
            continue;
        }
        let old = doc.remove(&key);
        if !value.is_null() {
            let merged = merge_member(old, value, merge_keys::rule(of, &key))?;
            doc.insert(key, merged);
        }
    }
    Ok(doc)
}

fn merge_member(old: Option<Value>, value: Value, rule: Option<&MergeRule>) -> Result<Value, ApiError> {
    let strategy = rule.map_or(PatchStrategy::Plain, |rule| rule.strategy);
    let to = rule.map_or("", |rule| rule.to);
    match (old, value) {
        (Some(Value::Object(_)), value @ Value::Object(_)) if strategy == PatchStrategy::Replace => Ok(value),
        (Some(Value::Object(old)), Value::Object(patch)) => merge_objects(old, patch, to).map(Value::Object),
        (Some(Value::Array(old)), Value::Array(patch)) => merge_lists(old, patch, strategy, to).map(Value::Array),
        (_, value) => Ok(without_directives(value)),
    }
}

/// Removes `$retainKeys` from `patch`, and drops all other members of `doc`.
fn retain_keys(doc: &mut Object, patch: &mut Object) -> Result<(), ApiError> {
    let keys = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(keys)) => keys,
        Some(_) => return bad(format!("{RETAIN_KEYS} must be a list of strings")),
    };
    let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let retained = |key: &str| keys.contains(key);
    let stray = patch.iter().find(|(key, value)| !value.is_null() && !key.starts_with('$') && !retained(key));
    if let Some((key, _)) = stray {
        return bad(format!("{RETAIN_KEYS} must name every field of its patch, and lacks {key:?}"));
    }
    doc.retain(|key, _| retained(key));
    Ok(())
}

/// Removes `$setElementOrder/name` and the list itself from `patch`. Leaves the merged, ordered list in `doc`.
fn merge_ordered_list(doc: &mut Object, patch: &mut Object, name: &str, of: &str) -> Result<(), ApiError> {
    let Some(Value::Array(order)) = patch.remove(&format!("{ORDER_PREFIX}{name}")) else {
        return bad(format!("{ORDER_PREFIX}{name} must be a list"));
    };
    let rule = merge_keys::rule(of, name);
    let key = rule.and_then(|rule| merge_key(rule.strategy));
    let old = list_member(doc.get(name), name)?;
    let merged = match list_member(patch.get(name), name)? {
        None => old.clone(),
        Some(items) => {
            check_order(&items, &order, key, name)?;
            let merged = merge_member(old.clone().map(Value::Array), Value::Array(items), rule)?;
            list_member(Some(&merged), name)?
        }
    };
    patch.remove(name);
    if let Some(merged) = merged {
        let server_order = old.unwrap_or_default();
        doc.insert(name.to_owned(), Value::Array(sort_elements(merged, &order, &server_order, key)));
    }
    Ok(())
}

fn list_member(value: Option<&Value>, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(_) => bad(format!("{ORDER_PREFIX}{name} is for a list, and {name} is none")),
    }
}

/// Checks that the elements of the patch are in the requested order.
fn check_order(items: &[Value], order: &[Value], key: Option<&str>, name: &str) -> Result<(), ApiError> {
    let mut order = order.iter().map(|at| identity(at, key));
    let deleted = |item: &Value| item.get(DIRECTIVE).is_some();
    let mut listed = |item: &Value| {
        let wanted = identity(item, key);
        order.any(|at| at == wanted)
    };
    match items.iter().find(|item| !deleted(item) && !listed(item)) {
        None => Ok(()),
        Some(item) => bad(format!("{item} is not in the order that {ORDER_PREFIX}{name} gives")),
    }
}

fn delete_from_primitive_list(doc: &mut Object, name: &str, deleted: &Value) -> Result<(), ApiError> {
    let Value::Array(deleted) = deleted else { return bad(format!("{DELETE_PREFIX}{name} must be a list")) };
    let deleted = positions(deleted, None);
    if let Some(Value::Array(items)) = doc.get_mut(name) {
        items.retain(|item| !deleted.contains_key(&identity(item, None)));
    }
    Ok(())
}

/// Returns the merge key of a list of objects.
fn merge_key(strategy: PatchStrategy) -> Option<&'static str> {
    match strategy {
        PatchStrategy::Key(key) | PatchStrategy::KeyRetainKeys(key) => Some(key),
        PatchStrategy::Plain | PatchStrategy::Primitive | PatchStrategy::RetainKeys | PatchStrategy::Replace => None,
    }
}

/// Returns the identity of an element: its key, or the whole element. Empty if the key is missing.
fn identity(element: &Value, key: Option<&str>) -> String {
    match key {
        Some(key) => element.get(key).map(Value::to_string).unwrap_or_default(),
        None => element.to_string(),
    }
}

/// Returns the first position of each element. Lists may be long, so a linear search for each element would be too
/// slow.
fn positions(list: &[Value], key: Option<&str>) -> BTreeMap<String, usize> {
    let mut positions = BTreeMap::new();
    for (at, element) in list.iter().enumerate() {
        positions.entry(identity(element, key)).or_insert(at);
    }
    positions
}

fn merge_lists(old: Vec<Value>, patch: Vec<Value>, strategy: PatchStrategy, to: &str) -> Result<Vec<Value>, ApiError> {
    match (strategy, merge_key(strategy)) {
        (_, Some(key)) => merge_by_key(old, patch, key, to),
        (PatchStrategy::Primitive, None) => {
            let mut seen = BTreeSet::new();
            let all = old.iter().chain(&patch).filter(|item| seen.insert(identity(item, None))).cloned().collect();
            Ok(sort_elements(all, &patch, &old, None))
        }
        _ => Ok(patch),
    }
}

fn merge_by_key(mut old: Vec<Value>, patch: Vec<Value>, key: &str, to: &str) -> Result<Vec<Value>, ApiError> {
    let mut items = Vec::new();
    let mut deleted = BTreeSet::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(mut item) = item else { return bad(format!("{item} is no object, as elements with the key {key} are")) };
        match take_directive(&mut item)? {
            Directive::Merge => items.push(item),
            Directive::Replace => replace = true,
            Directive::Delete => drop(deleted.insert(key_of(&item, key)?.to_string())),
        }
    }
    if replace {
        return Ok(items.into_iter().map(Value::Object).collect());
    }
    old.retain(|element| !deleted.contains(&identity(element, Some(key))));
    let (server_order, mut at) = (old.clone(), positions(&old, Some(key)));
    let mut order = Vec::new();
    for item in items {
        let wanted = key_of(&item, key)?.clone();
        order.push(Value::Object(Object::from_iter([(key.to_owned(), wanted.clone())])));
        match at.get(&wanted.to_string()).and_then(|at| old[*at].as_object_mut()) {
            Some(element) => *element = merge_objects(std::mem::take(element), item, to)?,
            None => {
                at.insert(wanted.to_string(), old.len());
                old.push(without_directives(Value::Object(item)));
            }
        }
    }
    Ok(sort_elements(old, &order, &server_order, Some(key)))
}

fn key_of<'a>(item: &'a Object, key: &str) -> Result<&'a Value, ApiError> {
    match item.get(key) {
        Some(value) => Ok(value),
        None => bad(format!("map: {} does not contain declared merge key: {key}", Value::Object(item.clone()))),
    }
}

/// Sorts elements: those in `order` have that order, the others keep the server's. If the server's order does not
/// relate two elements, the one in `order` comes first.
fn sort_elements(items: Vec<Value>, order: &[Value], server_order: &[Value], key: Option<&str>) -> Vec<Value> {
    let (order, server_order) = (positions(order, key), positions(server_order, key));
    // Finds both positions of each element once, because identities may be long.
    let placed = items.into_iter().map(|item| {
        let identity = identity(&item, key);
        (order.get(&identity).copied(), server_order.get(&identity).copied(), item)
    });
    let (mut named, mut others): (Vec<_>, Vec<_>) = placed.partition(|(at, ..)| at.is_some());
    named.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(_, at, _)| *at);
    let mut sorted = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for (_, at, other) in others {
        while let Some((.., next)) = named.next_if(|(_, next, _)| next.is_none_or(|next| at.is_none_or(|at| next < at))) {
            sorted.push(next);
        }
        sorted.push(other);
    }
    sorted.extend(named.map(|(.., item)| item));
    sorted
}

/// Returns what a patch adds to an empty place: without directives, nulls and deleted elements.
fn without_directives(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(key, value)| !is_directive(key) && !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_directives(value))).collect())
        }
        Value::Array(items) => {
            let gone = |item: &Value| matches!(item.get(DIRECTIVE).and_then(Value::as_str), Some("delete" | "replace"));
            Value::Array(items.into_iter().filter(|item| !gone(item)).map(without_directives).collect())
        }
        other => other,
    }
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(ORDER_PREFIX) || key.starts_with(DELETE_PREFIX)
}

#[cfg(test)]
mod tests;
