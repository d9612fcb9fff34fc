//! Fields, validation, merging, comparing and removing.

use crate::managed_object::thing;
use berth_fieldsets::Set;
use serde_json::{Value, json};

#[test]
fn the_fields_of_a_document() {
    let check = |document: Value, wanted: Value| assert_eq!(thing().fields(&document).to_value(), wanted, "{document}");
    check(json!({}), json!({}));
    check(json!({"spec": {"replicas": 1, "any": "25%"}}), json!({"f:spec": {"f:replicas": {}, "f:any": {}}}));
    // A member of a map is one by itself; a struct is not, unless it is empty or null.
    check(json!({"metadata": {"labels": {"a": "b"}}}), json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
    check(json!({"metadata": {"labels": {}}, "spec": null}), json!({"f:metadata": {"f:labels": {}}, "f:spec": {}}));
    // Atomic: one field.
    let document = json!({"spec": {"selector": {"a": "b"}, "args": ["x"], "free": {"x": {"y": 1}}}});
    check(document, json!({"f:spec": {"f:selector": {}, "f:args": {}, "f:free": {}}}));
    check(json!({"metadata": {"finalizers": ["x", "y"]}}), json!({"f:metadata": {"f:finalizers": {"v:\"x\"": {}, "v:\"y\"": {}}}}));
    // Keys with defaults count where they are absent, and are no fields then.
    let document = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}});
    let port = json!({".": {}, "f:containerPort": {}});
    let ports = json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": port});
    check(document, json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:ports": ports}}}}));
    let document = json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "web"}]}]}});
    let ports = json!({"k:{\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}});
    check(document, json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:ports": ports}}}}));
    // What is kept without a schema has owners by its values.
    let kept = json!({"spec": {"kept": {"a": {"b": [1]}, "c": 1}, "open": {"a": "x", "d": {"e": {}}}}});
    let wanted = json!({"f:kept": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}, "f:open": {"f:a": {}, "f:d": {".": {}, "f:e": {}}}});
    check(kept, json!({ "f:spec": wanted }));
    check(json!({"spec": {"kept": ["x"]}}), json!({"f:spec": {"f:kept": {}}}));
    // An empty list has no fields. A list without its keys is identified by positions.
    check(json!({"spec": {"containers": []}}), json!({}));
    check(json!({"spec": {"containers": [{"image": "i"}]}}), json!({"f:spec": {"f:containers": {"i:0": {".": {}, "f:image": {}}}}}));
    // Elements with one key are owned together.
    let twice = json!({"spec": {"containers": [{"name": "c", "image": "a"}, {"name": "c", "image": "b"}]}});
    check(twice, json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {}}}}));
}

#[test]
fn documents_that_the_schema_does_not_allow_are_refused() {
    let check = |document: Value, wanted: &str| {
        let faults = thing().validate(&document).expect_err(wanted);
        assert_eq!(faults.to_string(), wanted);
    };
    check(json!({"spec": {"bogus": 1}}), ".spec.bogus: field not declared in schema");
    check(json!({"spec": {"replicas": "3"}}), ".spec.replicas: expected numeric (int or float), got string");
    check(json!({"spec": {"paused": "yes"}}), ".spec.paused: expected boolean, got &{yes}");
    check(json!({"metadata": {"labels": {"a": 1}}}), ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}");
    check(json!({"spec": {"any": [1]}}), ".spec.any: expected any scalar, got &{[1]}");
    check(json!({"spec": 1}), ".spec: expected map, got &{1}");
    check(json!({"spec": {"containers": {}}}), ".spec.containers: expected list, got &{{}}");
    let twice = json!({"spec": {"containers": [{"name": "c"}, {"name": "c"}]}});
    check(twice, ".spec.containers: duplicate entries for key [name=\"c\"]");
    check(json!({"metadata": {"finalizers": ["a", "a"]}}), ".metadata.finalizers: duplicate entries for key [=\"a\"]");
    let keyless = "element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)";
    check(json!({"spec": {"containers": [{}]}}), &format!(".spec.containers: {keyless}"));
    check(json!({"spec": {"containers": [null]}}), ".spec.containers: element 0: associative list with keys may not have a null element");
    check(json!({"spec": {"containers": [1]}}), ".spec.containers: element 0: associative list with keys may not have non-map elements");
    let null = ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null";
    check(json!({"metadata": {"finalizers": [null]}}), null);
    check(json!({"spec": {"args": [1]}}), ".spec.args[0]: expected string, got &value.valueUnstructured{Value:1}");
    let two = "errors:\n  .spec.bogus: field not declared in schema\n  .spec.replicas: expected numeric (int or float), got bool";
    check(json!({"spec": {"bogus": 1, "replicas": true}}), two);
    thing().validate(&json!({"spec": {"replicas": null, "containers": null, "free": {"a": [1]}}})).expect("null is a value of any type");
}

#[test]
fn merging_adds_and_replaces_and_removes_nothing() {
    let check = |live: Value, config: Value, wanted: Value| {
        let merged = thing().merge(&json!({"spec": live}), &json!({"spec": config}));
        assert_eq!(merged["spec"], wanted);
    };
    check(json!({"replicas": 1, "paused": true}), json!({"replicas": 2}), json!({"replicas": 2, "paused": true}));
    check(json!({"kept": {"a": {"b": 1}, "l": [1]}}), json!({"kept": {"a": {"c": 1}}}), json!({"kept": {"a": {"b": 1, "c": 1}, "l": [1]}}));
    check(json!({"kept": {"a": 1}}), json!({"kept": ["x"]}), json!({"kept": ["x"]}));
    check(json!({"kept": 1}), json!({"kept": {"a": 1}}), json!({"kept": {"a": 1}}));
    check(
        json!({"selector": {"a": "b"}, "args": ["x"]}),
        json!({"selector": {"c": "d"}, "args": []}),
        json!({"selector": {"c": "d"}, "args": []}),
    );
    check(json!({"replicas": 1}), json!({"replicas": null}), json!({"replicas": null}));
    let container = |name: &str, image: &str| json!({"name": name, "image": image});
    let (a, b) = (container("a", "1"), container("b", "1"));
    check(
        json!({"containers": [a, b]}),
        json!({"containers": [{"name": "b", "image": "2"}]}),
        json!({"containers": [a, container("b", "2")]}),
    );
    check(json!({"containers": [a]}), json!({"containers": null}), json!({"containers": [a]}));
    check(json!({"containers": [a]}), json!({"containers": []}), json!({"containers": [a]}));
    let port = json!([{"containerPort": 80, "protocol": "TCP"}]);
    let config = json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]});
    let merged = json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]);
    check(json!({"containers": [{"name": "a", "ports": port}]}), config, json!({"containers": [{"name": "a", "ports": merged}]}));
}

/// Upstream's tests of list order, `typed/merge_test.go`, in letters of our own.
#[test]
fn elements_of_both_keep_the_order_of_the_applied_list() {
    let check = |live: &str, config: &str, wanted: &str| {
        let list = |letters: &str| json!({"metadata": {"finalizers": letters.split_whitespace().collect::<Vec<_>>()}});
        assert_eq!(thing().merge(&list(live), &list(config)), list(wanted), "{live} | {config}");
    };
    check("a b c", "", "a b c");
    check("", "a b", "a b");
    check("a b c", "a b c", "a b c");
    check("a b", "b a", "b a");
    check("a b c", "d", "a b c d");
    check("a b c", "d a", "d a b c");
    check("a b c", "c d", "a b c d");
    check("a b c", "b d", "a b c d");
    check("a b x", "b a n", "b x a n");
    check("1 2 3 4", "4 1", "2 3 4 1");
    check("a b c d", "c a e", "b c d a e");
    // What is there twice stays so unless it is named.
    check("a b a c", "d", "a b a c d");
    check("a b a c", "a d", "a b c d");
}

#[test]
fn a_comparison_shows_what_was_added_changed_and_removed() {
    let check = |old: Value, new: Value, added: Value, modified: Value, removed: Value| {
        let compared = thing().compare(&json!({"spec": old}), &json!({"spec": new}));
        let found = [compared.added, compared.modified, compared.removed].map(|set: Set| set.to_value());
        assert_eq!(found, [added, modified, removed].map(|set| if set.is_null() { json!({}) } else { json!({"f:spec": set}) }));
    };
    let none = Value::Null;
    check(json!({"replicas": 1}), json!({"replicas": 1}), none.clone(), none.clone(), none.clone());
    check(json!({"replicas": 1}), json!({"replicas": 2}), none.clone(), json!({"f:replicas": {}}), none.clone());
    check(json!({"paused": true}), json!({"replicas": 2}), json!({"f:replicas": {}}), none.clone(), json!({"f:paused": {}}));
    check(json!({"strategy": {}}), json!({}), none.clone(), none.clone(), json!({"f:strategy": {}}));
    check(json!({}), json!({"strategy": {"max": 1}}), json!({"f:strategy": {".": {}, "f:max": {}}}), none.clone(), none.clone());
    // Null is there, so only what comes into it is new.
    check(json!({"strategy": null}), json!({"strategy": {"max": 1}}), json!({"f:strategy": {"f:max": {}}}), none.clone(), none.clone());
    check(json!({"strategy": null}), json!({"strategy": {}}), none.clone(), json!({"f:strategy": {}}), none.clone());
    check(json!({"args": ["a"]}), json!({"args": ["b"]}), none.clone(), json!({"f:args": {}}), none.clone());
    let containers = |names: &[&str]| json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    let one = |name: &str| json!({"f:containers": {format!("k:{{\"name\":\"{name}\"}}"): {".": {}, "f:name": {}}}});
    check(containers(&["a", "b"]), containers(&["b", "c"]), one("c"), none.clone(), one("a"));
    let leaf = json!({"f:containers": {"k:{\"name\":\"a\"}": {}}});
    check(containers(&["a", "a"]), containers(&["a"]), none.clone(), leaf, none.clone());
    check(containers(&["a", "a"]), containers(&["a", "a"]), none.clone(), none.clone(), none);
}

#[test]
fn removing_takes_members_with_what_is_below_them() {
    let check = |set: Value, wanted: Value| {
        let document = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]},
            "spec": {"selector": {"a": "b"}, "containers": [{"name": "a", "image": "i"}, {"name": "b"}]},
        });
        assert_eq!(thing().remove(&document, &Set::from_value(&set).expect("a set")), wanted);
    };
    let (metadata, selector) = (json!({"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]}), json!({"a": "b"}));
    check(json!({"f:spec": {}}), json!({"metadata": metadata}));
    check(json!({"f:spec": {"f:containers": {}, "f:replicas": {}}}), json!({"metadata": metadata, "spec": {"selector": selector}}));
    let set = json!({"f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"x\"": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}}});
    let spec = json!({"selector": selector, "containers": [{"name": "a"}, {"name": "b"}]});
    check(set, json!({"metadata": {"labels": {"b": "2"}, "finalizers": null}, "spec": spec}));
}
