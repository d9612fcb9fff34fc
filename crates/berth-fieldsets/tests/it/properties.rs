//! What holds for any documents and any managers.

use crate::managed_object::{ManagedObject, thing};
use berth_fieldsets::{Force, Literal, Path, PathElement, Set};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A document of the kind, without empty containers; `letter` keeps the documents of different writers apart.
fn document(letter: &'static str) -> impl Strategy<Value = Value> {
    let labels = prop::collection::btree_map(0..3_u8, "[xy]", 0..3);
    let containers = prop::collection::btree_map(0..3_u8, (prop::option::of("[xy]"), prop::collection::btree_set(0..3_u16, 0..3)), 0..3);
    let finalizers = prop::collection::btree_set(0..3_u8, 0..3);
    let fields = (prop::option::of(0..3_i32), prop::option::of(any::<bool>()), prop::option::of(prop::collection::vec("[xy]", 0..2)));
    (labels, containers, finalizers, fields).prop_map(move |(labels, containers, finalizers, (replicas, paused, args))| {
        let labels: Map<_, _> = labels.into_iter().map(|(n, value)| (format!("{letter}{n}"), json!(value))).collect();
        let containers: Vec<Value> = containers.into_iter().map(|(n, (image, ports))| container(letter, n, image, ports)).collect();
        let finalizers: Vec<String> = finalizers.into_iter().map(|n| format!("{letter}{n}")).collect();
        let mut spec = json!({"containers": containers});
        for (name, value) in [("replicas", json!(replicas)), ("paused", json!(paused)), ("args", json!(args))] {
            if !value.is_null() {
                spec[name] = value;
            }
        }
        drop_bare(json!({"metadata": {"labels": labels, "finalizers": finalizers}, "spec": spec}))
    })
}

fn container(letter: &str, n: u8, image: Option<String>, ports: std::collections::BTreeSet<u16>) -> Value {
    let mut container = json!({"name": format!("{letter}{n}")});
    if let Some(image) = image {
        container["image"] = json!(image);
    }
    if !ports.is_empty() {
        container["ports"] = ports.into_iter().map(|port| json!({"containerPort": port})).collect();
    }
    container
}

/// As [`document`], without what both would have.
fn part(letter: &'static str) -> impl Strategy<Value = Value> {
    document(letter).prop_map(|mut document| {
        for name in ["replicas", "paused", "args"] {
            if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
                spec.remove(name);
            }
        }
        drop_bare(document)
    })
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-z./\"{}: é]{0,4}".prop_map(PathElement::Field),
        (0..200_u8, "[a-z\"]{0,2}")
            .prop_map(|(n, name)| PathElement::key([("port".to_owned(), json!(n)), (format!("k{name}"), json!(name))])),
        "[a-z\"\\\\]{0,3}".prop_map(|text| PathElement::Value(Literal(json!(text)))),
        any::<i32>().prop_map(|n| PathElement::Value(Literal(json!(n)))),
        (0..9_i64).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8).prop_map(|paths| Set::of(paths.into_iter().map(Path)))
}

proptest! {
    #[test]
    fn a_set_is_read_back_as_it_was_written(set in set()) {
        let text: Value = serde_json::from_str(&set.encode()).unwrap();
        prop_assert_eq!(&Set::from_value(&text).unwrap(), &set);
        prop_assert_eq!(Set::from_value(&set.to_value()).unwrap(), set);
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in set(), b in set()) {
        prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.clone().difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.leaves().leaves(), a.leaves());
        prop_assert_eq!(Set::of(a.paths()), a);
    }

    #[test]
    fn applying_twice_is_applying_once(first in document("a"), second in document("a"), other in document("b")) {
        let mut managed = ManagedObject::new();
        managed.apply("m", first).unwrap();
        managed.apply_with("n", other, Force::Yes).unwrap();
        managed.apply_with("m", second.clone(), Force::Yes).unwrap();
        let once = managed.clone();
        managed.apply("m", second).unwrap();
        prop_assert_eq!(managed.object, once.object);
        prop_assert!(managed.managers.same_owners(&once.managers));
    }

    #[test]
    fn appliers_of_different_fields_do_not_see_each_other(a in part("a"), b in part("b"), later in part("a")) {
        let write = |order: &[(&str, &Value)]| {
            let mut managed = ManagedObject::new();
            for (manager, config) in order {
                managed.apply(manager, (*config).clone()).unwrap();
            }
            let mut object = managed.object;
            sort_lists(&mut object);
            (drop_bare(object), managed.managers.0.into_iter().map(|(id, owned)| (id, owned.fields)).collect::<Vec<_>>())
        };
        prop_assert_eq!(write(&[("a", &a), ("b", &b)]), write(&[("b", &b), ("a", &a)]));
        prop_assert_eq!(write(&[("a", &a), ("b", &b), ("a", &later)]), write(&[("a", &a), ("a", &later), ("b", &b)]));
    }

    #[test]
    fn what_is_applied_is_there_and_what_is_given_up_is_gone(first in document("a"), second in document("a")) {
        let mut managed = ManagedObject::new();
        managed.apply("m", first).unwrap();
        managed.apply("m", second.clone()).unwrap();
        let (there, wanted) = (thing().fields(&managed.object), thing().fields(&second));
        prop_assert!(wanted.clone().difference(&there).is_empty(), "{:?}", wanted.difference(&there));
        let mut alone = ManagedObject::new();
        alone.apply("m", second).unwrap();
        for managed in [&mut managed, &mut alone] {
            sort_lists(&mut managed.object);
        }
        prop_assert_eq!(drop_bare(managed.object), drop_bare(alone.object));
    }

    #[test]
    fn fields_without_an_owner_stay(config in document("a"), later in document("a"), strategy in "[a-z]{1,3}") {
        let mut managed = ManagedObject::new();
        let [config, later] = [config, later].map(|mut document| {
            // A struct of which the applier names nothing any more goes as a whole.
            document["spec"]["any"] = json!("x");
            document
        });
        managed.apply("m", config).unwrap();
        managed.object["spec"]["strategy"] = json!({"type": strategy});
        managed.apply("m", later).unwrap();
        prop_assert_eq!(&managed.object["spec"]["strategy"]["type"], &json!(strategy));
    }

    #[test]
    fn every_field_of_an_updated_object_has_one_owner_or_none(writes in prop::collection::vec((0..3_u8, document("a")), 1..6)) {
        let mut managed = ManagedObject::new();
        for (manager, mut object) in writes {
            for part in ["metadata", "spec", "status"] {
                object.as_object_mut().unwrap().entry(part).or_insert(json!({}));
            }
            managed.update(&format!("m{manager}"), object);
        }
        let sets: Vec<Set> = managed.managers.0.values().map(|owned| owned.fields.clone()).collect();
        for (index, set) in sets.iter().enumerate() {
            for other in &sets[index + 1..] {
                prop_assert!(set.intersection(other).is_empty());
            }
        }
        let there = thing().fields(&managed.object);
        let owned = sets.iter().fold(Set::default(), Set::union);
        let left = there.leaves().difference(&owned).paths();
        // Every object has these, so no manager put them there.
        prop_assert!(left.iter().all(|path| [".metadata", ".spec", ".status"].contains(&path.to_string().as_str())), "{left:?}");
    }

    #[test]
    fn comparing_leads_from_one_document_to_the_other(old in document("a"), new in document("a")) {
        let compared = thing().compare(&old, &new);
        let pruned = thing().remove(&old, &compared.removed);
        let mut reached = thing().merge(&pruned, &new);
        let mut wanted = new;
        for document in [&mut reached, &mut wanted] {
            sort_lists(document);
        }
        prop_assert_eq!(drop_bare(reached), drop_bare(wanted));
    }
}

/// Lists in one order, whatever way led to them.
fn sort_lists(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort_lists);
            items.sort_by_key(ToString::to_string);
        }
        Value::Object(members) => members.values_mut().for_each(sort_lists),
        _ => (),
    }
}

/// Without empty containers: whether one is absent, null or empty depends on the way.
fn drop_bare(value: Value) -> Value {
    let is_bare = |value: &Value| matches!(value, Value::Null) || *value == json!({}) || *value == json!([]);
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().map(|(name, value)| (name, drop_bare(value))).filter(|(_, value)| !is_bare(value));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(drop_bare).collect()),
        other => other,
    }
}
