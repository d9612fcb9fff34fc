//! Writes that are no apply.

use crate::managed_object::{ManagedObject, main_ignores, writer};
use berth_fieldsets::{Operation::Update, Set};
use serde_json::{Value, json};

fn with(spec: Value) -> Value {
    json!({"metadata": {}, "spec": spec, "status": {}})
}

#[test]
fn the_creator_owns_all_but_what_names_the_object() {
    let mut managed = ManagedObject::new();
    let metadata = json!({"name": "n", "namespace": "ns", "generation": 1, "labels": {"a": "b"}});
    managed.update("m", json!({"metadata": metadata, "spec": {"replicas": 1, "selector": {"a": "b"}}, "status": {"phase": "x"}}));
    let labels = json!({".": {}, "f:a": {}});
    assert_eq!(managed.owned("m", Update), json!({"f:metadata": {"f:labels": labels}, "f:spec": {"f:replicas": {}, "f:selector": {}}}));
}

#[test]
fn a_changed_field_moves_to_who_changed_it_and_a_removed_one_is_nobodys() {
    let mut managed = ManagedObject::new();
    managed.update("a", with(json!({"replicas": 1, "paused": true, "args": ["x"]})));
    managed.update("b", with(json!({"replicas": 2, "args": ["x"]})));
    assert_eq!(managed.owned("a", Update), json!({"f:spec": {"f:args": {}}}));
    assert_eq!(managed.owned("b", Update), json!({"f:spec": {"f:replicas": {}}}));
    managed.update("b", with(json!({"replicas": 2, "args": ["y"]})));
    assert_eq!(managed.owned("a", Update), Value::Null);
    assert_eq!(managed.owned("b", Update), json!({"f:spec": {"f:replicas": {}, "f:args": {}}}));
}

#[test]
fn nothing_changed_means_nothing_owned_and_no_new_time() {
    let mut managed = ManagedObject::new();
    managed.update("a", with(json!({"replicas": 1})));
    let before = managed.managers.clone();
    managed.update("b", with(json!({"replicas": 1})));
    assert_eq!(managed.managers, before);
}

#[test]
fn subresources_have_entries_of_their_own() {
    let mut managed = ManagedObject::new();
    managed.update("m", with(json!({"replicas": 1})));
    let ignored = Set::from_value(&json!({"f:spec": {}})).unwrap();
    let new = json!({"metadata": {}, "spec": {"replicas": 2}, "status": {"phase": "Running"}});
    managed.update_as(&writer("m", "status"), new, &ignored);
    // What this subresource cannot change keeps its owner, whatever the documents contain.
    assert_eq!(managed.owned("m", Update), json!({"f:spec": {"f:replicas": {}}}));
    let entries = managed.managers.encode();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1].subresource.as_deref(), Some("status"));
    assert_eq!(entries[1].fields_v1.as_ref().unwrap().0, json!({"f:status": {"f:phase": {}}}));
}

#[test]
fn versions_that_are_gone_are_forgotten() {
    let mut managed = ManagedObject::new();
    let mut old = writer("old", "");
    old.api_version = "v1beta1".to_owned();
    managed.update_as(&old, with(json!({"replicas": 1})), &main_ignores());
    managed.update("m", with(json!({"replicas": 1, "paused": true})));
    assert_eq!(managed.managers.encode().len(), 1);
    assert_eq!(managed.owned("m", Update), json!({"f:spec": {"f:paused": {}}}));
}
