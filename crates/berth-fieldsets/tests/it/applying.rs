//! Server-side apply.

use crate::managed_object::ManagedObject;
use berth_fieldsets::{
    ApplyError, Force, LAST_APPLIED_ANNOTATION,
    Operation::{Apply, Update},
};
use serde_json::{Value, json};

fn with(spec: Value) -> Value {
    json!({"spec": spec})
}

fn stored(spec: Value) -> Value {
    json!({"metadata": {}, "spec": spec, "status": {}})
}

fn containers(list: &[(&str, &str)]) -> Value {
    json!({"containers": list.iter().map(|(name, image)| json!({"name": name, "image": image})).collect::<Vec<_>>()})
}

#[test]
fn an_applier_owns_exactly_what_it_sent() {
    let mut managed = ManagedObject::new();
    managed
        .apply("a", json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "n", "labels": {"x": "y"}}, "spec": {"replicas": 1}}))
        .unwrap();
    assert_eq!(managed.owned("a", Apply), json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:replicas": {}}}));
    assert_eq!(managed.managers.0.len(), 1);
    assert_eq!(managed.object["spec"], json!({"replicas": 1}));
}

/// Kubernetes 1.36.2 was asked.
#[test]
fn maps_that_a_schema_keeps_have_an_owner_for_each_member() {
    let mut managed = ManagedObject::new();
    managed.apply("a", with(json!({"kept": {"a": {"b": 1}, "l": [1, 2]}}))).unwrap();
    managed.apply("b", with(json!({"kept": {"a": {"c": 1}}}))).unwrap();
    assert_eq!(managed.object["spec"], json!({"kept": {"a": {"b": 1, "c": 1}, "l": [1, 2]}}));
    assert_eq!(managed.owned("b", Apply), json!({"f:spec": {"f:kept": {"f:a": {".": {}, "f:c": {}}}}}));
    let error = managed.apply("b", with(json!({"kept": {"a": {"b": 2}}}))).expect_err("another owns it").to_string();
    assert!(error.contains(".spec.kept.a.b"), "{error}");
    managed.apply("a", with(json!({"kept": {"l": [1]}}))).unwrap();
    assert_eq!(managed.object["spec"], json!({"kept": {"a": {"c": 1}, "l": [1]}}));
    managed.update("u", stored(json!({"kept": "x"})));
    assert_eq!([managed.owned("a", Apply), managed.owned("b", Apply)], [Value::Null, Value::Null]);
    assert_eq!(managed.owned("u", Update), json!({"f:spec": {"f:kept": {}}}));
}

#[test]
fn what_the_applier_gives_up_goes_unless_another_owns_it() {
    let mut managed = ManagedObject::new();
    managed.apply("a", with(containers(&[("x", "1"), ("y", "1")]))).unwrap();
    managed.apply("b", with(containers(&[("y", "1")]))).unwrap();
    managed.apply("a", with(json!({"replicas": 1}))).unwrap();
    assert_eq!(managed.object["spec"], json!({"replicas": 1, "containers": [{"name": "y", "image": "1"}]}));
    managed.apply("b", json!({})).unwrap();
    assert_eq!(managed.object["spec"], json!({"replicas": 1}));
    assert_eq!(managed.owned("b", Apply), Value::Null);
}

#[test]
fn an_element_is_removed_with_its_contents_when_it_has_no_owner() {
    let mut managed = ManagedObject::new();
    managed.apply("a", with(containers(&[("x", "1")]))).unwrap();
    let env = json!([{"name": "E", "value": "1"}]);
    managed.update("u", stored(json!({"containers": [{"name": "x", "image": "1", "env": env}]})));
    managed.apply("a", with(json!({"containers": [{"name": "x"}]}))).unwrap();
    assert_eq!(managed.object["spec"]["containers"], json!([{"name": "x", "env": env}]));
    managed.apply("a", with(json!({"replicas": 1}))).unwrap();
    assert_eq!(managed.object["spec"], json!({"replicas": 1}));
    assert_eq!(managed.owned("u", Update), Value::Null);
}

#[test]
fn a_field_without_an_owner_is_not_removed() {
    let mut managed = ManagedObject::new();
    managed.apply("a", with(json!({"replicas": 1}))).unwrap();
    // A default, without an owner.
    managed.object["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    managed.apply("a", with(json!({"paused": true}))).unwrap();
    assert_eq!(managed.object["spec"], json!({"paused": true, "strategy": {"type": "RollingUpdate"}}));
}

#[test]
fn another_value_for_anothers_field_is_a_conflict() {
    let mut managed = ManagedObject::new();
    managed.update("kubectl-client-side-apply", stored(json!({"replicas": 1, "args": ["x"]})));
    managed.apply("first", with(containers(&[("c", "1")]))).unwrap();
    let before = managed.clone();

    let check = |config: Value, wanted: &str, causes: &[(&str, &str)]| {
        let mut managed = before.clone();
        let error = managed.apply("other", config.clone()).expect_err(wanted);
        assert_eq!(error.to_string(), wanted);
        let ApplyError::Conflicts(conflicts) = error else { panic!("no conflicts") };
        let found: Vec<_> = conflicts.0.iter().map(|conflict| (conflict.message(), conflict.path.to_string())).collect();
        assert_eq!(found, causes.iter().map(|(message, path)| ((*message).to_owned(), (*path).to_owned())).collect::<Vec<_>>());
        assert_eq!((&managed.object, &managed.managers), (&before.object, &before.managers));
    };
    let csa = "conflict with \"kubectl-client-side-apply\" using v1";
    let replicas = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .spec.replicas";
    check(with(json!({"replicas": 2})), replicas, &[(csa, ".spec.replicas")]);
    let image = ".spec.containers[name=\"c\"].image";
    let text = format!("Apply failed with 1 conflict: conflict with \"first\": {image}");
    check(with(containers(&[("c", "2")])), &text, &[("conflict with \"first\"", image)]);
    let mut both = containers(&[("c", "2")]);
    both["replicas"] = json!(2);
    both["args"] = json!(["y"]);
    let text = format!(
        "Apply failed with 3 conflicts: conflicts with \"first\":\n- {image}\n\
         conflicts with \"kubectl-client-side-apply\" using v1:\n- .spec.args\n- .spec.replicas"
    );
    check(with(both), &text, &[("conflict with \"first\"", image), (csa, ".spec.args"), (csa, ".spec.replicas")]);
}

#[test]
fn the_same_value_is_shared_and_force_takes_the_field() {
    let mut managed = ManagedObject::new();
    managed.apply("a", with(json!({"replicas": 1, "paused": true}))).unwrap();
    managed.apply("b", with(json!({"replicas": 1}))).unwrap();
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(managed.owned("b", Apply), replicas);
    assert_eq!(managed.owned("a", Apply), json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));
    managed.apply("b", with(json!({"replicas": 2}))).expect_err("a conflict");
    managed.apply_with("b", with(json!({"replicas": 2})), Force::Yes).unwrap();
    assert_eq!(managed.owned("b", Apply), replicas);
    assert_eq!(managed.owned("a", Apply), json!({"f:spec": {"f:paused": {}}}));
}

#[test]
fn atomic_lists_and_maps_have_one_owner() {
    let mut managed = ManagedObject::new();
    managed.apply("a", with(json!({"selector": {"x": "1"}, "args": ["a"]}))).unwrap();
    for config in [json!({"selector": {"y": "1"}}), json!({"args": ["a", "b"]})] {
        let error = managed.apply("b", with(config.clone())).expect_err("a conflict");
        assert!(error.to_string().starts_with("Apply failed with 1 conflict: "), "{error}");
    }
    managed.apply_with("b", with(json!({"selector": {"y": "1"}})), Force::Yes).unwrap();
    assert_eq!(managed.object["spec"], json!({"selector": {"y": "1"}, "args": ["a"]}));
}

#[test]
fn null_is_owned_and_empty_is_kept() {
    let mut managed = ManagedObject::new();
    managed.update("u", stored(json!({"paused": true})));
    managed.apply("a", with(json!({"replicas": null, "strategy": {}, "paused": true}))).unwrap();
    assert_eq!(managed.owned("a", Apply), json!({"f:spec": {"f:replicas": {}, "f:strategy": {}, "f:paused": {}}}));
    assert_eq!(managed.object["spec"], json!({"paused": true, "strategy": {}}));
}

#[test]
fn an_object_whose_owners_are_unknown_is_recorded_first() {
    let mut managed = ManagedObject::new();
    managed.object = stored(json!({"replicas": 1, "paused": true}));
    let error = managed.apply("a", with(json!({"replicas": 2}))).expect_err("a conflict");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .spec.replicas");
    managed.apply("a", with(json!({"replicas": 1}))).unwrap();
    assert_eq!(managed.owned("before-first-apply", Update), json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));
}

#[test]
fn an_invalid_document_changes_nothing() {
    let mut managed = ManagedObject::new();
    let error = managed.apply("a", with(json!({"bogus": 1}))).expect_err("unknown field");
    assert_eq!(error.to_string(), ".spec.bogus: field not declared in schema");
    assert!(managed.managers.is_empty());
}

#[test]
fn kubectl_takes_over_what_client_side_apply_wrote() {
    let manifest = json!({"apiVersion": "v1", "kind": "Thing", "spec": {"replicas": 1, "paused": true}});
    let object =
        |spec: Value| json!({"metadata": {"annotations": {LAST_APPLIED_ANNOTATION: manifest.to_string()}}, "spec": spec, "status": {}});
    let mut managed = ManagedObject::new();
    managed.update("kubectl-client-side-apply", object(json!({"replicas": 1, "paused": true})));
    let wanted = with(json!({"replicas": 2, "paused": true}));
    managed.apply("other", wanted.clone()).expect_err("only kubectl may");
    let before = managed.clone();
    managed.apply("kubectl", wanted.clone()).unwrap();
    assert_eq!(managed.owned("kubectl", Apply), json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));

    // A field that another manager has changed since belongs to that manager.
    let mut managed = before;
    managed.update("hpa", object(json!({"replicas": 5, "paused": true})));
    let error = managed.apply("kubectl", wanted).expect_err("a conflict");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"hpa\" using v1: .spec.replicas");
}
