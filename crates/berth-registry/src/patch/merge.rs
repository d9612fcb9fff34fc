//! JSON merge patch (RFC 7386), and its computation.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Applies the merge patch to `doc`: null deletes, objects merge, other values replace. Idempotent.
#[must_use]
pub fn merge(doc: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut members = match doc {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            let old = members.remove(key).unwrap_or(Value::Null);
            members.insert(key.clone(), merge(old, value));
        }
    }
    Value::Object(members)
}

/// Returns the merge patch from `live` to `new`. It deletes only fields of `last_applied`, so fields of other managers
/// remain.
///
/// An empty object if nothing changes. Lists are replaced as a whole.
#[must_use]
pub fn three_way_merge(last_applied: &Value, new: &Value, live: &Value) -> Value {
    let mut patch = Map::new();
    for (key, wanted) in members(new) {
        let found = &live[key.as_str()];
        if wanted.is_object() && found.is_object() {
            let inner = three_way_merge(&last_applied[key.as_str()], wanted, found);
            if inner != Value::Object(Map::new()) {
                patch.insert(key.clone(), inner);
            }
        } else if wanted != found {
            patch.insert(key.clone(), wanted.clone());
        }
    }
    for (key, _) in members(last_applied) {
        if new.get(key).is_none() && live.get(key).is_some() {
            patch.insert(key.clone(), Value::Null);
        }
    }
    Value::Object(patch)
}

/// Returns `live` with the fields that differ between `last_applied` and `new`, and no others. Values of other managers
/// remain, even if `new` has another value.
///
/// Lists of named items are merged by name if all three have one. Other lists are replaced as a whole.
#[must_use]
pub fn merge_changes(last_applied: &Value, new: &Value, live: &Value) -> Value {
    changed(Some(last_applied), Some(new), Some(live)).unwrap_or(Value::Null)
}

/// `None` means that the value is absent.
fn changed(last: Option<&Value>, new: Option<&Value>, live: Option<&Value>) -> Option<Value> {
    if last == new {
        return live.cloned();
    }
    match (last, new, live) {
        (last, Some(Value::Object(new)), Some(Value::Object(live))) => {
            let was = |key: &str| last.and_then(|last| last.get(key));
            let removed = last.and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key).filter(|key| !new.contains_key(*key));
            let mut merged = live.clone();
            removed.for_each(|key| drop(merged.remove(key)));
            for (key, wanted) in new {
                match changed(was(key), Some(wanted), live.get(key)) {
                    Some(value) => drop(merged.insert(key.clone(), value)),
                    None => drop(merged.remove(key)),
                }
            }
            Some(Value::Object(merged))
        }
        (Some(Value::Array(last)), Some(Value::Array(new)), Some(Value::Array(live))) => {
            let lists = named(last).zip(named(new)).zip(named(live));
            Some(lists.map_or_else(|| Value::from(new.clone()), |((last, new), live)| changed_items(&last, &new, &live)))
        }
        (_, new, _) => new.cloned(),
    }
}

type Named<'v> = Vec<(&'v str, &'v Value)>;

/// Returns the items of the manifest in its order, then those that other managers added.
fn changed_items(last: &Named<'_>, new: &Named<'_>, live: &Named<'_>) -> Value {
    let of = |items: &Named<'_>, name: &str| items.iter().find(|(other, _)| *other == name).map(|(_, item)| (*item).clone());
    let wanted = new.iter().filter_map(|(name, item)| changed(of(last, name).as_ref(), Some(*item), of(live, name).as_ref()));
    let is_known = |name: &str| of(last, name).is_some() || of(new, name).is_some();
    let added = live.iter().filter(|(name, _)| !is_known(name)).map(|(_, item)| (*item).clone());
    wanted.chain(added).collect()
}

/// Returns the items with their names, or `None` if a name is missing or duplicate.
fn named(items: &[Value]) -> Option<Named<'_>> {
    let named: Named<'_> = items.iter().map(|item| Some((item.get("name")?.as_str()?, item))).collect::<Option<_>>()?;
    let names: BTreeSet<&str> = named.iter().map(|(name, _)| *name).collect();
    (names.len() == named.len()).then_some(named)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Generates any small document.
    pub(in super::super) fn document() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from), "[xy]".prop_map(Value::from)];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Removes nulls, which stored values never have.
    fn stored(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                Value::Object(members.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, stored(v))).collect())
            }
            other => other,
        }
    }

    #[test]
    fn the_examples_of_the_rfc() {
        for (doc, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merge(doc, &patch), result);
        }
    }

    #[test]
    fn three_ways() {
        for (last, new, live, patch) in [
            (json!({"a": 1}), json!({"a": 1}), json!({"a": 1, "server": 2}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 1}), json!({"a": 2})),
            (json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 1, "b": 1}), json!({"b": null})),
            (json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 1}), json!({})),
            (json!({"m": {"a": 1}}), json!({"m": {}}), json!({"m": {"a": 1, "server": 2}}), json!({"m": {"a": null}})),
            (json!({}), json!({"m": {"a": 1}}), json!({}), json!({"m": {"a": 1}})),
            (json!({}), json!({"a": [1]}), json!({"a": [1, 2]}), json!({"a": [1]})),
            (json!({}), json!({"a": null}), json!({}), json!({})),
            (json!({}), json!({"a": null}), json!({"a": 1}), json!({"a": null})),
            (Value::Null, json!({"a": 1}), json!({"a": 2}), json!({"a": 1})),
        ] {
            assert_eq!(three_way_merge(&last, &new, &live), patch, "{last} {new} {live}");
        }
    }

    #[test]
    fn what_is_as_it_was_in_the_manifest_stays_as_it_is() {
        let item = |name: &str, image: &str| json!({"name": name, "image": image});
        for (last, new, live, merged) in [
            (json!({"a": 1}), json!({"a": 1}), json!({"a": 2, "server": 2}), json!({"a": 2, "server": 2})),
            (json!({"a": 1}), json!({"a": 1}), json!({}), json!({})),
            (json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}), json!({"a": 9, "b": 9}), json!({"a": 9, "b": 2})),
            (json!({"a": 1, "b": 1}), json!({"a": 1}), json!({"a": 9, "b": 9}), json!({"a": 9})),
            (json!({"m": {"a": 1, "b": 1}}), json!({"m": {"a": 1, "b": 2}}), json!({"m": {"a": 9}}), json!({"m": {"a": 9, "b": 2}})),
            (json!({"m": {"a": 1}}), json!({"m": {"a": 2}}), json!({}), json!({"m": {"a": 2}})),
            (json!({"l": [1]}), json!({"l": [1, 2]}), json!({"l": [9]}), json!({"l": [1, 2]})),
            (
                json!({"l": [item("a", "1"), item("b", "1"), item("c", "1")]}),
                json!({"l": [item("a", "1"), item("b", "2"), item("d", "1")]}),
                json!({"l": [item("a", "9"), item("b", "9"), item("c", "1"), item("x", "1")]}),
                json!({"l": [item("a", "9"), item("b", "2"), item("d", "1"), item("x", "1")]}),
            ),
            (Value::Null, json!({"a": 1}), json!({"a": 2, "server": 2}), json!({"a": 1, "server": 2})),
        ] {
            assert_eq!(merge_changes(&last, &new, &live), merged, "{last} {new} {live}");
        }
    }

    proptest! {
        #[test]
        fn an_unchanged_manifest_changes_nothing(manifest in document(), live in document()) {
            prop_assert_eq!(merge_changes(&manifest, &manifest, &live), live);
        }

        #[test]
        fn an_object_without_other_changes_becomes_as_applied_by_changes_too(last in document(), new in document()) {
            let (last, new) = (json!({"a": stored(last)}), json!({"a": stored(new)}));
            prop_assert_eq!(merge_changes(&last, &new, &last), new);
        }

        #[test]
        fn merging_twice_is_merging_once(doc in document(), patch in document()) {
            let once = merge(doc, &patch);
            prop_assert_eq!(merge(once.clone(), &patch), once);
        }

        #[test]
        fn an_object_without_other_changes_becomes_as_applied(last in document(), new in document()) {
            let (last, new) = (json!({"a": stored(last)}), json!({"a": stored(new)}));
            let patch = three_way_merge(&last, &new, &last);
            prop_assert_eq!(stored(merge(last, &patch)), stored(new));
        }

        #[test]
        fn applying_again_does_nothing(last in document(), new in document(), live in document()) {
            let (last, new, live) = (json!({"a": stored(last)}), json!({"a": stored(new)}), json!({"a": stored(live)}));
            let applied = merge(live.clone(), &three_way_merge(&last, &new, &live));
            prop_assert_eq!(three_way_merge(&new, &new, &applied), json!({}));
        }
    }
}
