//! Replaces fields by annotations in an etcd before a kube-apiserver gets it back. Kubernetes 1.36 drops `podReplacementPolicy` of
//! Deployments, and rejects StatefulSets of type `Recreate`. berth's controllers honor the annotations like the fields.

use crate::foreign::{ALL, Foreign, PAGE_KEYS};
use berth_api::annotations::{BERTH_GIVEN_BACK, BERTH_POD_REPLACEMENT_POLICY, BERTH_UPDATE_STRATEGY};
use berth_etcd::Client;
use berth_store::{
    Decoded, Expected, Layout, WriteError,
    etcd::{Etcd, EtcdError, KeyValue, Outcome, Put, Query},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

const DEPLOYMENTS: &str = "/registry/deployments/";
const STATEFUL_SETS: &str = "/registry/statefulsets/";
const REPLICA_SETS: &str = "/registry/replicasets/";
/// The valid values of the field of a Deployment.
const POLICIES: [&str; 2] = ["TerminationStarted", "TerminationComplete"];
/// The maximum number of attempts for an object that changed meanwhile, or whose write has an unknown outcome.
const TRIES: usize = 100;

/// Replaces the fields that a kube-apiserver does not know by annotations, in all objects. Returns how many objects changed.
pub(crate) async fn give(client: &Client, layout: &Foreign) -> Result<usize, EtcdError> {
    let mut policies = BTreeMap::new();
    let of_deployments = rewrite(client, layout, DEPLOYMENTS, |object| {
        let changed = give_deployment(object);
        if let (Some(uid), Some(policy)) = (uid(object), given_policy(object)) {
            policies.insert(uid.to_owned(), policy.to_owned());
        }
        changed
    });
    let mut changed = of_deployments.await?;
    // A rollback on upstream replaces the Deployment's annotations with those of the ReplicaSet.
    rewrite(client, layout, REPLICA_SETS, |object| {
        let policy = owner(object).and_then(|owner| policies.get(owner));
        policy.is_some_and(|policy| replace(object, BERTH_POD_REPLACEMENT_POLICY, policy))
    })
    .await?;
    changed += rewrite(client, layout, STATEFUL_SETS, give_stateful_set).await?;
    Ok(changed)
}

/// Replaces the annotations by the fields again, in an etcd that berth took over.
pub(crate) async fn take(client: &Client, layout: &Foreign) -> Result<(), EtcdError> {
    rewrite(client, layout, DEPLOYMENTS, take_deployment).await?;
    rewrite(client, layout, REPLICA_SETS, take_replica_set).await?;
    rewrite(client, layout, STATEFUL_SETS, take_stateful_set).await?;
    Ok(())
}

/// Applies `change` to each object whose key has this prefix, and writes those for which it returns true. Returns how many it wrote.
async fn rewrite(client: &Client, layout: &Foreign, prefix: &str, mut change: impl FnMut(&mut Value) -> bool) -> Result<usize, EtcdError> {
    let mut changed = 0;
    let encrypted = encrypted(client, layout, prefix).await?;
    let mut query = Query { prefix: prefix.into(), start_after: None, at: None, limit: Some(PAGE_KEYS) };
    loop {
        let page = client.range(query.clone()).await?;
        let Some(last) = page.keys.last() else { return Ok(changed) };
        query.start_after = Some(last.key.clone());
        for found in page.keys {
            changed += usize::from(rewrite_one(client, layout, found, encrypted, &mut change).await?);
        }
    }
}

async fn rewrite_one(
    client: &Client,
    layout: &Foreign,
    found: KeyValue,
    encrypted: usize,
    change: &mut impl FnMut(&mut Value) -> bool,
) -> Result<bool, EtcdError> {
    let (key, mut current) = (found.key.clone(), Some(found));
    let (mut is_changed, mut unknown) = (false, String::new());
    for _ in 0..TRIES {
        let Some(found) = current.take() else { return Ok(is_changed) };
        let Some(value) = changed(layout, &found, change) else { return Ok(is_changed) };
        if 0 < encrypted {
            let prefix = layout.resource_prefix(key.as_str()).unwrap_or(ALL).to_owned();
            return Err(EtcdError::Refused(WriteError::Encrypted { prefix, values: encrypted }.to_string()));
        }
        is_changed = true;
        let put = Put { key: found.key, expected: Some(Expected::At(found.mod_revision)), value: Some(value.into()), lease: found.lease };
        match client.txn(Arc::new([put])).await {
            Ok(Outcome::Done(_)) => return Ok(true),
            // The next read shows the outcome and the current value.
            Ok(Outcome::Refused { .. }) => (),
            Err(EtcdError::Unknown(cause)) => unknown = cause,
            Err(error) => return Err(error),
        }
        let query = Query { prefix: key.as_str().into(), start_after: None, at: None, limit: Some(1) };
        current = client.range(query).await?.keys.into_iter().next().filter(|found| found.key == key);
    }
    Err(EtcdError::Unknown(format!("{key} could not be written: {unknown}")))
}

/// How many values with a key prefix are encrypted.
async fn encrypted(client: &Client, layout: &Foreign, prefix: &str) -> Result<usize, EtcdError> {
    let mut count = 0;
    let mut query = Query { prefix: prefix.into(), start_after: None, at: None, limit: Some(PAGE_KEYS) };
    loop {
        let page = client.range(query.clone()).await?;
        let Some(last) = page.keys.last() else { return Ok(count) };
        query.start_after = Some(last.key.clone());
        count += page.keys.iter().filter(|found| layout.decode(&found.key, &found.value) == Decoded::Encrypted).count();
    }
}

/// The new value. `None`: the value remains unchanged.
fn changed(layout: &Foreign, found: &KeyValue, change: &mut impl FnMut(&mut Value) -> bool) -> Option<Vec<u8>> {
    let value = match layout.decode(&found.key, &found.value) {
        Decoded::Unchanged => found.value.clone(),
        Decoded::Converted(value) => value,
        Decoded::Ignored | Decoded::Encrypted => return None,
    };
    let mut object: Value = serde_json::from_slice(&value).ok()?;
    if !change(&mut object) {
        return None;
    }
    let resources = layout.0.resources();
    let rules = &resources.by_key(found.key.as_str())?.rules;
    Some(rules.decode(object).ok()?.object.encode())
}

fn give_deployment(object: &mut Value) -> bool {
    let policy = object.pointer_mut("/spec").and_then(Value::as_object_mut).and_then(|spec| spec.remove("podReplacementPolicy"));
    policy.as_ref().and_then(Value::as_str).is_some_and(|policy| replace(object, BERTH_POD_REPLACEMENT_POLICY, policy))
}

fn give_stateful_set(object: &mut Value) -> bool {
    let Some(strategy) = object.pointer_mut("/spec/updateStrategy/type").filter(|strategy| *strategy == "Recreate") else { return false };
    *strategy = json!("OnDelete");
    replace(object, BERTH_UPDATE_STRATEGY, "Recreate")
}

fn take_deployment(object: &mut Value) -> bool {
    let Some(policy) = taken(object, BERTH_POD_REPLACEMENT_POLICY) else { return false };
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    match (policy, spec) {
        (Some(policy), Some(spec)) if POLICIES.iter().any(|known| policy == *known) => {
            _ = spec.insert("podReplacementPolicy".into(), policy);
        }
        // A user has written a value that the field does not accept.
        (Some(policy), _) => _ = annotate(object, BERTH_POD_REPLACEMENT_POLICY, policy),
        // A user who has removed the annotation wants no policy.
        (None, _) => (),
    }
    true
}

fn take_replica_set(object: &mut Value) -> bool {
    taken(object, BERTH_POD_REPLACEMENT_POLICY).is_some()
}

fn take_stateful_set(object: &mut Value) -> bool {
    let Some(strategy) = taken(object, BERTH_UPDATE_STRATEGY) else { return false };
    let current = object.pointer_mut("/spec/updateStrategy/type").filter(|current| *current == "OnDelete");
    if let (Some(strategy), Some(current)) = (strategy.filter(|strategy| strategy == "Recreate"), current) {
        *current = strategy;
    }
    true
}

/// Replaces a field by an annotation. Returns whether the object changed.
fn replace(object: &mut Value, annotation: &str, value: &str) -> bool {
    let (says, is_said) = (annotate(object, annotation, value.into()), annotate(object, BERTH_GIVEN_BACK, annotation.into()));
    says || is_said
}

/// Returns whether the object changed.
fn annotate(object: &mut Value, annotation: &str, value: Value) -> bool {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return false };
    let annotations = meta.entry("annotations").or_insert_with(|| Map::new().into());
    let Some(annotations) = annotations.as_object_mut() else { return false };
    annotations.insert(annotation.into(), value.clone()) != Some(value)
}

/// Removes the annotation that replaces a field, and its marker. `Some(None)` if a user has removed the annotation. `None`: there was none.
fn taken(object: &mut Value, annotation: &str) -> Option<Option<Value>> {
    let meta = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = meta.get_mut("annotations")?.as_object_mut()?;
    if annotations.get(BERTH_GIVEN_BACK)? != annotation {
        return None;
    }
    annotations.remove(BERTH_GIVEN_BACK);
    let value = annotations.remove(annotation);
    if annotations.is_empty() {
        meta.remove("annotations");
    }
    Some(value)
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn given_policy(object: &Value) -> Option<&str> {
    let annotations = &object["metadata"]["annotations"];
    annotations[BERTH_POD_REPLACEMENT_POLICY].as_str().filter(|_| annotations[BERTH_GIVEN_BACK] == BERTH_POD_REPLACEMENT_POLICY)
}

/// The uid of its controller.
fn owner(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts the object, and converts it back.
    fn check(give: impl Fn(&mut Value) -> bool, take: impl Fn(&mut Value) -> bool, before: &Value, wanted: &Value) {
        let mut object = before.clone();
        assert!(give(&mut object), "{before}");
        assert_eq!(object, *wanted);
        assert!(!give(&mut object), "once is enough");
        assert_eq!(object, *wanted);
        assert!(take(&mut object));
        assert_eq!(object, *before);
        assert!(!take(&mut object));
    }

    #[test]
    fn a_given_back_object_has_annotations_and_returns_unchanged() {
        let before = json!({"metadata": {"name": "web"}, "spec": {"podReplacementPolicy": "TerminationComplete", "replicas": 1}});
        let wanted = json!({
            "metadata": {"name": "web", "annotations": {
                "berth.dev/pod-replacement-policy": "TerminationComplete",
                "berth.dev/given-back": "berth.dev/pod-replacement-policy"}},
            "spec": {"replicas": 1}});
        check(give_deployment, take_deployment, &before, &wanted);

        let before = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"updateStrategy": {"type": "Recreate"}}});
        let wanted = json!({
            "metadata": {"annotations": {
                "a": "b", "berth.dev/update-strategy": "Recreate", "berth.dev/given-back": "berth.dev/update-strategy"}},
            "spec": {"updateStrategy": {"type": "OnDelete"}}});
        check(give_stateful_set, take_stateful_set, &before, &wanted);
    }

    #[test]
    fn objects_without_unknown_fields_stay() {
        for object in [
            json!({"metadata": {}, "spec": {}}),
            json!({"metadata": {"annotations": {"berth.dev/pod-replacement-policy": "TerminationComplete"}}, "spec": {}}),
            json!({"metadata": {"annotations": {"berth.dev/update-strategy": "Recreate"}}, "spec": {"updateStrategy": {"type": "OnDelete"}}}),
            json!({}),
            json!([]),
        ] {
            let mut seen = object.clone();
            let ways: [fn(&mut Value) -> bool; 5] =
                [give_deployment, give_stateful_set, take_deployment, take_replica_set, take_stateful_set];
            assert!(!ways.iter().any(|way| way(&mut seen)));
            assert_eq!(seen, object, "also what its owner said by an annotation");
        }
    }

    #[test]
    fn what_was_changed_there_counts() {
        let given = |spec: Value, annotation: &str, value: Option<&str>| {
            let mut annotations = json!({"berth.dev/given-back": annotation});
            if let Some(value) = value {
                annotations[annotation] = value.into();
            }
            json!({"metadata": {"annotations": annotations}, "spec": spec})
        };
        let after = |take: fn(&mut Value) -> bool, mut object: Value| {
            assert!(take(&mut object));
            object
        };
        let policy = |value| after(take_deployment, given(json!({}), BERTH_POD_REPLACEMENT_POLICY, value));
        assert_eq!(policy(Some("TerminationStarted")), json!({"metadata": {}, "spec": {"podReplacementPolicy": "TerminationStarted"}}));
        assert_eq!(policy(None), json!({"metadata": {}, "spec": {}}));
        let none = json!({"metadata": {"annotations": {"berth.dev/pod-replacement-policy": "Soon"}}, "spec": {}});
        assert_eq!(policy(Some("Soon")), none, "no field may say that");
        let rolling = json!({"updateStrategy": {"type": "RollingUpdate"}});
        let strategy = after(take_stateful_set, given(rolling.clone(), BERTH_UPDATE_STRATEGY, Some("Recreate")));
        assert_eq!(strategy, json!({"metadata": {}, "spec": rolling}));
    }
}
