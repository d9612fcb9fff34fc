//! Plans of one ReplicaSet, as text.

use super::{BURST_PODS, ReplicaSetState, SinglePods, WantedPods, plan, wait_event, wanted_pods};
use crate::{
    counts::{PodCounts, Role, role},
    plan::{Action, Plan, Rule, Subresource, Urgency, Wait},
    read_back::read_back,
    view::{PodView, ReplicaSetView, View},
};
use berth_api::FeatureGates;
use berth_identity::Revision;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// A set `web` of one pod, changed by `change`.
fn set(change: &Value) -> ReplicaSetView {
    let mut set = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "rs", "generation": 2},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"]},
                "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            },
        },
    });
    merge(&mut set, change);
    ReplicaSetView::decode(set.to_string().as_bytes(), Revision(4)).expect("a set")
}

/// A pod of the set that is ready since 1970, changed by `change`.
fn pod(name: &str, change: &Value) -> PodView {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true, "blockOwnerDeletion": true}]);
    let mut pod = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": "web", "tier": "front"}, "ownerReferences": owner},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
    });
    merge(&mut pod, change);
    PodView::decode(pod.to_string().as_bytes(), Revision(9)).expect("a pod")
}

fn merge(value: &mut Value, change: &Value) {
    match change {
        Value::Object(change) => change.iter().for_each(|(key, change)| merge(&mut value[key], change)),
        change => *value = change.clone(),
    }
}

fn planned(set: &ReplicaSetView, pods: &[PodView], last_error: Option<&str>) -> Plan {
    let now = Timestamp::from_second(100).expect("a time");
    let (counts, next_available_at) = PodCounts::recount(set, pods, now);
    let of = |wanted: Role| pods.iter().filter(|pod| pod.is_active() && role(set, pod) == wanted).cloned().map(Arc::new).collect();
    let active: Vec<Arc<PodView>> = of(Role::Owned);
    let mut related_on_node = BTreeMap::new();
    active.iter().for_each(|pod| *related_on_node.entry(pod.node_name.clone()).or_default() += 1);
    let pods = match wanted_pods(set, &counts) {
        WantedPods::None => SinglePods::default(),
        WantedPods::Adoption => SinglePods { mismatched: of(Role::Mismatched), adoptable: of(Role::Orphan), ..SinglePods::default() },
        WantedPods::Victims { ranked } => {
            SinglePods { active, related_on_node: if ranked { related_on_node } else { BTreeMap::new() }, ..SinglePods::default() }
        }
    };
    let (set, last_error) = (Arc::new(set.clone()), last_error.map(str::to_owned));
    let state = ReplicaSetState { set, counts, next_available_at, pods, last_error, gates: FeatureGates::default(), now };
    let written = serde_json::to_string(&state).expect("JSON");
    assert_eq!(serde_json::from_str::<ReplicaSetState>(&written).expect("a state"), state);
    read_back(plan(&state))
}

/// Checks the actions, except the status, and then the waits.
fn check(set: &ReplicaSetView, pods: &[PodView], expected: &[&str]) {
    let plan = planned(set, pods, None);
    let is_status = |action: &Action| matches!(action, Action::Patch { subresource: Some(Subresource::Status), .. });
    let actions = plan.stages.iter().zip(1..).flat_map(|(stage, number)| stage.actions.iter().map(move |action| (number, action)));
    let done = actions.filter(|(_, action)| !is_status(action)).map(|(number, action)| format!("{number}. {action}"));
    assert_eq!(done.chain(plan.waits.iter().map(ToString::to_string)).collect::<Vec<_>>(), expected);
}

fn replicas(count: i64) -> ReplicaSetView {
    set(&json!({"spec": {"replicas": count}}))
}

#[test]
fn as_many_pods_as_are_wanted_come_and_go() {
    let pods = ["a", "b", "c"].map(|name| pod(name, &json!({})));
    check(&replicas(3), &pods, &[]);
    check(&replicas(5), &pods, &["1. create 2 pods of ReplicaSet shop/web: 5 wanted, 3 there"]);
    check(&replicas(0), &pods, &["1. delete 3 pods of ReplicaSet shop/web: 0 wanted, 3 there, a, b, c (scaled to 0)"]);
    check(&replicas(-2), &pods, &["1. delete 3 pods of ReplicaSet shop/web: 0 wanted, 3 there, a, b, c (scaled to 0)"]);
    let unready = pod("d", &json!({"status": {"conditions": []}}));
    let pods = [&pods[..], &[unready]].concat();
    check(&replicas(3), &pods, &["1. delete 1 pod of ReplicaSet shop/web: 3 wanted, 4 there, d (not ready)"]);
}

#[test]
fn one_plan_creates_and_deletes_five_hundred_pods_at_most() {
    assert_eq!(BURST_PODS, 500);
    check(&replicas(500), &[], &["1. create 500 pods of ReplicaSet shop/web: 500 wanted, 0 there"]);
    check(&replicas(2_147_483_647), &[], &["1. create 500 pods of ReplicaSet shop/web: 2147483647 wanted, 0 there"]);
    let pods: Vec<_> = (0..502).map(|number| pod(&format!("p{number:03}"), &json!({}))).collect();
    let plan = planned(&replicas(1), &pods, None);
    let Some(Action::DeletePods { victims, .. }) = plan.stages[0].actions.first() else { panic!("{plan}") };
    assert_eq!(victims.iter().map(|victims| victims.pods.len()).sum::<usize>(), 500);
}

#[test]
fn a_pod_is_made_of_the_template_and_belongs_to_the_set() {
    let plan = planned(&replicas(1), &[], None);
    let Some(Action::CreatePods { template, owner, .. }) = plan.stages[0].actions.first() else { panic!("{plan}") };
    let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true, "blockOwnerDeletion": true}]);
    let metadata = json!({
        "generateName": "web-", "namespace": "shop", "labels": {"app": "web", "tier": "front"}, "annotations": {"a": "b"},
        "finalizers": ["example.com/f"], "ownerReferences": owners,
    });
    assert_eq!(serde_json::to_value(&template.metadata).expect("JSON"), metadata);
    assert_eq!(template.spec.as_ref().map(|spec| spec.containers.len()), Some(1));
    assert_eq!((owner.uid.as_str(), owner.resource_version), ("rs", Some(Revision(4))));
}

#[test]
fn the_dash_is_left_out_where_the_name_has_no_room_for_it() {
    let generate_name = |length: usize| {
        let plan = planned(&set(&json!({"metadata": {"name": "a".repeat(length)}})), &[], None);
        let Some(Action::CreatePods { template, .. }) = plan.stages[0].actions.first() else { panic!("{plan}") };
        template.metadata.generate_name.clone().unwrap_or_default()
    };
    assert_eq!([252, 253].map(|length| generate_name(length).trim_start_matches('a').to_owned()), ["-", ""]);
}

#[test]
fn a_template_without_labels_creates_no_pods_and_the_status_states_why() {
    for labels in [None, Some(BTreeMap::new())] {
        let mut unlabelled = set(&json!({}));
        Arc::make_mut(&mut unlabelled.template).metadata.get_or_insert_default().labels = labels;
        check(&unlabelled, &[], &[]);
        let Some(Action::Patch { patch, .. }) = planned(&unlabelled, &[], None).stages[0].actions.pop() else { panic!("a status") };
        let condition = &patch["status"]["conditions"][0];
        assert_eq!((&condition["reason"], &condition["message"]), (&json!("FailedCreate"), &json!("unable to create pods, no labels")));
    }
}

#[test]
fn the_last_error_is_in_the_status() {
    let Some(Action::Patch { target, subresource, patch, .. }) = planned(&replicas(1), &[], Some("quota")).stages[0].actions.pop() else {
        panic!("a status")
    };
    assert_eq!((target.uid.as_str(), target.resource_version, subresource), ("rs", Some(Revision(4)), Some(Subresource::Status)));
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota", "lastTransitionTime": "1970-01-01T00:01:40Z"});
    assert_eq!(patch, json!({"status": {"conditions": [condition], "observedGeneration": 2, "terminatingReplicas": 0}}));
}

#[test]
fn counts_that_bind_no_controller_may_be_written_later_and_equal_ones_are_not_written() {
    let urgency =
        |set: &ReplicaSetView, pods: &[PodView]| match planned(set, pods, None).stages.pop().and_then(|mut stage| stage.actions.pop()) {
            Some(Action::Patch { urgency, .. }) => Some(urgency),
            other => other.map(|other| panic!("{other}")),
        };
    let status = |replicas: i32, available: i32, generation: i64| {
        let status = json!({"replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0, "observedGeneration": generation});
        set(&json!({"status": status}))
    };
    let pods = [pod("a", &json!({}))];
    assert_eq!(urgency(&status(1, 1, 2), &pods), None);
    assert_eq!(urgency(&status(1, 1, 1), &pods), Some(Urgency::Soon));
    assert_eq!(urgency(&status(1, 0, 2), &pods), Some(Urgency::Now));
}

#[test]
fn pods_are_adopted_and_released_before_anything_else() {
    let orphan = pod("orphan", &json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t"}]}}));
    let stray = pod("stray", &json!({"metadata": {"labels": {"app": "db"}}}));
    let pods = [orphan, stray];
    let expected = [
        "1. confirm that ReplicaSet shop/web is there: it is about to adopt an object",
        "2. patch Pod shop/orphan: it has no controller, and the selector of web matches it",
        "2. patch Pod shop/stray: its labels no longer match the selector",
    ];
    check(&replicas(5), &pods, &expected);
    check(&replicas(5), &pods[1..], &["1. patch Pod shop/stray: its labels no longer match the selector"]);
    let patches = |pods: &[PodView]| -> Vec<Value> {
        let actions = planned(&replicas(5), pods, None).stages.into_iter().flat_map(|stage| stage.actions);
        actions
            .filter_map(
                |action| if let Action::Patch { patch, .. } = action { Some(patch["metadata"]["ownerReferences"].clone()) } else { None },
            )
            .collect()
    };
    let of_set =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true, "blockOwnerDeletion": true});
    assert_eq!(patches(&pods), [json!([{"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t"}, of_set]), json!(null)]);
    let going = set(&json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}, "spec": {"replicas": 5}}));
    check(&going, &pods, &[]);
}

#[test]
fn deleted_pods_are_replaced_late_where_the_annotation_requires_it() {
    let going = |name: &str| pod(name, &json!({"metadata": {"deletionTimestamp": "1970-01-01T00:03:00Z"}}));
    let pods = [going("a"), going("b"), pod("c", &json!({}))];
    let complete = |replicas: i64| {
        let annotations = json!({"berth.dev/deleted-pod-replacement-policy": "TerminationComplete"});
        set(&json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}))
    };
    check(&replicas(4), &pods, &["1. create 3 pods of ReplicaSet shop/web: 4 wanted, 1 there"]);
    let wait = |pods: i64, create: i64| format!("waiting for {pods} terminating pods before creating {create} more");
    check(&complete(4), &pods, &["1. create 1 pod of ReplicaSet shop/web: 4 wanted, 1 there", &wait(2, 2)]);
    check(&complete(3), &pods, &[&wait(2, 2)]);
    check(&complete(2), &pods, &[&wait(2, 1)]);
    check(&complete(1), &pods, &[]);
    let told = wait_event(&complete(3), &Wait::PodsTerminating { pods: 2, then_create: 2, last: None }).expect("an event");
    assert_eq!((&*told.reason, told.message, told.about.uid.as_str()), ("WaitingForTerminatingPods", wait(2, 2), "rs"));
}

#[test]
fn a_set_without_a_valid_selector_is_left_alone() {
    check(&set(&json!({"spec": {"selector": null}})), &[], &[]);
    assert!(planned(&set(&json!({"spec": {"selector": null}})), &[], None).is_idle());
}

#[test]
fn a_set_is_requeued_when_its_next_pod_becomes_available() {
    let waits = |since: &str| {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        pod(since, &json!({"status": {"conditions": conditions}}))
    };
    let set = set(&json!({"spec": {"replicas": 3, "minReadySeconds": 30}}));
    let plan = planned(&set, &[waits("1970-01-01T00:01:30Z"), waits("1970-01-01T00:01:20Z"), waits("1970-01-01T00:01:10Z")], None);
    assert_eq!(plan.requeue_at, Timestamp::from_second(110).ok(), "the first that is not available yet");
}

#[test]
fn the_ages_of_chosen_pods_are_reported_but_not_where_all_are_deleted() {
    let since = |name: &str, since: &str| {
        let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        pod(name, &json!({"status": {"conditions": conditions}}))
    };
    let pods = [since("old", "1970-01-01T00:00:00Z"), since("new", "1970-01-01T00:01:30Z")];
    let plan = planned(&replicas(1), &pods, None);
    let Some(Action::DeletePods { victims, .. }) = plan.stages[0].actions.first() else { panic!("{plan}") };
    assert_eq!(
        (victims[0].rule, victims[0].pods[0].key.name.as_str(), victims[0].pods[0].resource_version),
        (Rule::ReadyLater, "new", None)
    );
    assert_eq!(plan.deletion_age_ratios, [1], "the youngest is as old as the youngest");
    assert!(planned(&replicas(0), &pods, None).deletion_age_ratios.is_empty());
}

#[test]
fn a_replication_controller_is_planned_as_a_set_with_its_own_kind_and_status() {
    let controller = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "rc", "generation": 2},
        "spec": {"replicas": 2, "selector": {"app": "web"}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
    });
    let controller = ReplicaSetView::decode_controller(controller.to_string().as_bytes(), Revision(4)).expect("a controller");
    let owner = json!([{"apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": "rc", "controller": true, "blockOwnerDeletion": true}]);
    let orphan = pod("a", &json!({"metadata": {"ownerReferences": null}}));
    let claim = "2. patch Pod shop/a: it has no controller, and the selector of web matches it";
    let confirm = "1. confirm that ReplicationController shop/web is there: it is about to adopt an object";
    check(&controller, std::slice::from_ref(&orphan), &[confirm, claim]);
    let Action::Patch { patch, .. } = &planned(&controller, &[orphan], None).stages[1].actions[0] else { panic!("an adoption") };
    assert_eq!(patch["metadata"]["ownerReferences"], owner);
    let owned = pod("a", &json!({"metadata": {"ownerReferences": owner}}));
    let going = pod("b", &json!({"metadata": {"ownerReferences": owner, "deletionTimestamp": "1970-01-01T00:01:50Z"}}));
    let plan = planned(&controller, &[owned, going], None);
    let [Action::CreatePods { template, count: 1, owner: by, .. }, Action::Patch { patch, .. }] = &plan.stages[0].actions[..] else {
        panic!("{plan}")
    };
    assert_eq!(json!(template.metadata.owner_references), owner);
    assert_eq!(by.resource, crate::resources::REPLICATION_CONTROLLERS);
    let status = json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 2});
    assert_eq!(*patch, json!({"status": status}), "no terminatingReplicas");
}
