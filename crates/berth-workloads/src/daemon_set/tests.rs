//! Plans of one DaemonSet, as text.

use super::{DaemonSetState, FailedPods, Limits, plan, wanted_revision};
use crate::{
    plan::{Action, NewObject, Plan, Subresource},
    read_back::read_back,
    stateful_set::revision_data,
    view::{DaemonNodeView, DaemonSetView, PodView, RevisionView, View},
};
use berth_identity::{Generation, Revision};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const OLD: &str = "old";
const NEW: &str = "new";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn merge(value: &mut Value, change: &Value) {
    match change {
        Value::Object(change) => change.iter().for_each(|(key, change)| merge(&mut value[key], change)),
        change => *value = change.clone(),
    }
}

/// The set `agent`, changed by `change`.
fn set(change: &Value) -> Arc<DaemonSetView> {
    let mut set = json!({
        "metadata": {
            "namespace": "ops", "name": "agent", "uid": "ds", "generation": 3,
            "annotations": {"deprecated.daemonset.template.generation": "7"},
        },
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "main:2"}]}},
        },
        "status": {"observedGeneration": 3},
    });
    merge(&mut set, change);
    Arc::new(DaemonSetView::decode(set.to_string().as_bytes(), Revision(4)).expect("a set"))
}

fn strategy(max_unavailable: &Value, max_surge: &Value) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}}}})
}

fn node(name: &str, change: &Value) -> Arc<DaemonNodeView> {
    let mut node = json!({"metadata": {"name": name, "uid": name}});
    merge(&mut node, change);
    Arc::new(DaemonNodeView::decode(node.to_string().as_bytes(), Revision(1)).expect("a node"))
}

fn owner() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": true, "blockOwnerDeletion": true}])
}

/// A pod `HASH-NODE` that is bound and ready since 1970, changed by `change`.
fn pod(node: &str, hash: &str, change: &Value) -> Arc<PodView> {
    let name = format!("{hash}-{node}");
    let mut pod = json!({
        "metadata": {
            "namespace": "ops", "name": name, "uid": name, "ownerReferences": owner(),
            "labels": {"app": "agent", "controller-revision-hash": hash},
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(0)}]},
    });
    merge(&mut pod, change);
    Arc::new(PodView::decode(pod.to_string().as_bytes(), Revision(9)).expect("a pod"))
}

fn unready() -> Value {
    json!({"status": {"conditions": null}})
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": at(130)}})
}

/// A revision with this hash, number and data.
fn revision(hash: &str, number: i64, data: &Value) -> Arc<RevisionView> {
    let json = json!({
        "metadata": {
            "namespace": "ops", "name": format!("agent-{hash}"), "uid": hash, "ownerReferences": owner(),
            "labels": {"app": "agent", "controller-revision-hash": hash},
        },
        "revision": number, "data": data,
    });
    Arc::new(RevisionView::decode(json.to_string().as_bytes(), Revision(5)).expect("a revision"))
}

/// A state at second 100 in which both revisions are stored.
fn state(set: Arc<DaemonSetView>, nodes: &[&str], pods: &[Arc<PodView>]) -> DaemonSetState {
    let current = revision_data(&set.spec.template);
    DaemonSetState {
        nodes: nodes.iter().map(|name| node(name, &json!({}))).collect(),
        pods: pods.to_vec(),
        revisions: vec![revision(NEW, 2, &current), revision(OLD, 1, &json!({"spec": {}}))],
        found_revisions: BTreeMap::new(),
        failed_pods: FailedPods::default(),
        now: at(100),
        set,
    }
}

fn planned(state: &DaemonSetState) -> Plan {
    let plan = read_back(plan(&read_back(state.clone())));
    let mut reversed = state.clone();
    reversed.nodes.reverse();
    reversed.pods.reverse();
    reversed.revisions.reverse();
    assert_eq!(super::plan(&reversed), plan, "the order of a state's lists decides nothing");
    plan
}

/// The actions but for the status, then the waits. Pods to create are given as `+NODE`.
fn check(state: &DaemonSetState, expected: &[&str]) -> Plan {
    let plan = planned(state);
    let actions = plan.stages.iter().flat_map(|stage| &stage.actions);
    let shown = actions.filter_map(|action| match action {
        Action::Patch { subresource: Some(Subresource::Status), .. } => None,
        Action::CreatePods { template, count: 1, .. } => Some(format!("+{}", node_of(&json!(template)))),
        Action::Delete { target, reason, .. } => Some(format!("-{}: {reason}", target.key.name)),
        other => Some(other.to_string()),
    });
    let shown: Vec<String> = shown.chain(plan.waits.iter().map(ToString::to_string)).collect();
    assert_eq!(shown, expected);
    plan
}

fn node_of(pod: &Value) -> String {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms.as_array().map(Vec::len), Some(1));
    terms[0]["matchFields"][0]["values"][0].as_str().expect("a node").to_owned()
}

fn status(plan: &Plan) -> Value {
    let mut actions = plan.stages.iter().flat_map(|stage| &stage.actions);
    let status = actions.find_map(|action| match action {
        Action::Patch { subresource: Some(Subresource::Status), patch, .. } => Some(patch["status"].clone()),
        _ => None,
    });
    status.unwrap_or_default()
}

#[test]
fn each_node_that_the_template_fits_gets_one_pod() {
    check(&state(set(&json!({})), &["a", "b"], &[pod("a", NEW, &json!({}))]), &["+b"]);
    let with_nodes = |change: &Value, node_change: &Value| {
        let mut state = state(set(change), &["a"], &[]);
        state.nodes.push(node("b", node_change));
        state
    };
    let of_spec = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let selected = of_spec(json!({"nodeSelector": {"disk": "ssd"}}));
    check(&with_nodes(&selected, &json!({"metadata": {"labels": {"disk": "ssd"}}})), &["+b"]);
    let term = json!({"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    check(&with_nodes(&of_spec(json!({"affinity": affinity})), &json!({"metadata": {"labels": {"disk": "ssd"}}})), &["+a"]);
    check(&with_nodes(&of_spec(json!({"nodeName": "b"})), &json!({})), &["+b"]);
    let tainted = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    check(&with_nodes(&json!({}), &tainted("gpu", "NoSchedule")), &["+a"]);
    check(&with_nodes(&json!({}), &tainted("gpu", "PreferNoSchedule")), &["+a", "+b"]);
    check(&with_nodes(&json!({}), &tainted("node.kubernetes.io/unschedulable", "NoSchedule")), &["+a", "+b"]);
    check(&with_nodes(&json!({}), &tainted("node.kubernetes.io/network-unavailable", "NoSchedule")), &["+a"]);
    let host = of_spec(json!({"hostNetwork": true}));
    check(&with_nodes(&host, &tainted("node.kubernetes.io/network-unavailable", "NoSchedule")), &["+a", "+b"]);
}

#[test]
fn a_pod_leaves_a_node_that_it_does_not_fit_unless_only_new_pods_are_kept_away() {
    let tainted = |effect: &str| {
        let mut state = state(set(&json!({})), &[], &[pod("a", NEW, &json!({}))]);
        state.nodes.push(node("a", &json!({"spec": {"taints": [{"key": "gpu", "effect": effect}]}})));
        state
    };
    let plan = check(&tainted("NoSchedule"), &[]);
    assert_eq!((&status(&plan)["numberMisscheduled"], &status(&plan)["desiredNumberScheduled"]), (&json!(1), &Value::Null));
    check(&tainted("NoExecute"), &["-new-a: its template does not fit node a"]);
    let mut elsewhere = state(set(&json!({"spec": {"template": {"spec": {"nodeSelector": {"x": "y"}}}}})), &["a"], &[]);
    elsewhere.pods = vec![pod("a", NEW, &json!({})), pod("a", OLD, &terminating())];
    check(&elsewhere, &["-new-a: its template does not fit node a"]);
}

#[test]
fn pods_of_lost_nodes_are_deleted_if_they_were_never_bound() {
    let affinity = |node: &str| {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
    };
    let unbound = pod("gone", NEW, &json!({"spec": {"nodeName": null, "affinity": affinity("gone")}, "status": {"phase": "Pending"}}));
    let waiting = pod("a", NEW, &json!({"spec": {"nodeName": null, "affinity": affinity("a")}, "status": {"phase": "Pending"}}));
    let bound = pod("lost", NEW, &json!({}));
    check(&state(set(&json!({})), &["a"], &[unbound, waiting, bound]), &["-new-gone: its node no longer exists"]);
}

#[test]
fn surplus_pods_are_deleted_bound_and_older_ones_stay() {
    let created = |name: &str, second: i64, node: &Value| {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": at(second)});
        pod("a", NEW, &json!({"metadata": metadata, "spec": {"nodeName": node, "affinity": affinity}}))
    };
    let pods = [created("unbound", 1, &json!(null)), created("second", 3, &json!("a")), created("first", 2, &json!("a"))];
    let second = "its node has another pod of the set";
    check(&state(set(&json!({})), &["a"], &pods), &[&format!("-second: {second}"), &format!("-unbound: {second}")]);
}

#[test]
fn a_terminating_pod_keeps_its_node_until_it_is_deleted_unless_the_set_surges() {
    let pods = [pod("a", NEW, &terminating())];
    check(&state(set(&json!({})), &["a"], &pods), &[]);
    check(&state(set(&strategy(&json!(0), &json!(1))), &["a"], &pods), &["+a"]);
    let finished = pod("a", NEW, &json!({"metadata": {"deletionTimestamp": at(130)}, "status": {"phase": "Failed"}}));
    check(&state(set(&json!({})), &["a"], &[finished]), &["+a"]);
}

#[test]
fn finished_pods_are_deleted_and_failed_ones_with_a_back_off() {
    let failed = json!({"status": {"phase": "Failed", "conditions": null}});
    let mut state =
        state(set(&json!({})), &["a", "b"], &[pod("a", NEW, &failed), pod("b", NEW, &json!({"status": {"phase": "Succeeded"}}))]);
    let plan = check(&state, &["-new-a: it has failed on node a", "-new-b: it has finished"]);
    let events: Vec<String> = plan.events.iter().map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message)).collect();
    assert_eq!(
        events,
        [
            "Warning FailedDaemonPod: Found failed daemon pod ops/new-a on node a, will try to kill it",
            "Normal SucceededDaemonPod: Found succeeded daemon pod ops/new-b on node b, will try to delete it",
        ]
    );
    state.pods.pop();
    state.nodes.pop();
    let mut delays = Vec::new();
    for _ in 0..12 {
        let plan = planned(&state);
        match plan.requeue_at {
            None => state.failed_pods.record(&plan, Generation(3), state.now),
            Some(until) => {
                assert!(plan.is_idle() || status(&plan).is_object(), "{plan}");
                delays.push(until.duration_since(state.now).as_secs());
                state.now = until;
                let plan = planned(&state);
                state.failed_pods.record(&plan, Generation(3), state.now);
            }
        }
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]);
    assert_eq!(planned(&state).requeue_at, Some(state.now + jiff::SignedDuration::from_secs(900)));
    state.set = set(&json!({"status": {"observedGeneration": 4}}));
    check(&state, &["-new-a: it has failed on node a"]);
}

#[test]
fn a_rolling_update_replaces_as_many_available_pods_as_may_be_unavailable() {
    let nodes = ["a", "b", "c", "d"];
    let olds = nodes.map(|node| pod(node, OLD, &json!({})));
    let one = set(&json!({}));
    let unavailable = |count: u32| format!("waiting for {count} of 4 pods to become available");
    check(&state(Arc::clone(&one), &nodes, &olds), &["-old-a: it does not have the update revision", &unavailable(1)]);
    let two = set(&strategy(&json!("50%"), &json!(0)));
    let outdated = ["-old-a: it does not have the update revision", "-old-b: it does not have the update revision", &unavailable(2)];
    check(&state(two, &nodes, &olds), &outdated);
    let after = |first: Arc<PodView>| [std::slice::from_ref(&first), &olds[1..]].concat();
    check(&state(Arc::clone(&one), &nodes, &after(pod("a", OLD, &terminating()))), &[&unavailable(1)]);
    check(&state(Arc::clone(&one), &nodes, &olds[1..]), &["+a"]);
    check(&state(Arc::clone(&one), &nodes, &after(pod("a", NEW, &unready()))), &[&unavailable(1)]);
    let next = ["-old-b: it does not have the update revision", &unavailable(1)];
    check(&state(Arc::clone(&one), &nodes, &after(pod("a", NEW, &json!({})))), &next);
    let broken = [pod("a", NEW, &unready()), pod("b", OLD, &unready()), pod("c", OLD, &json!({})), pod("d", OLD, &json!({}))];
    let at_once = ["-old-b: it does not have the update revision, and is not available", &unavailable(2)];
    check(&state(one, &nodes, &broken), &at_once);
}

#[test]
fn percentages_of_nodes_are_rounded_up_and_an_update_can_always_proceed() {
    let check = |change: &Value, unavailable: u32, surge: u32| {
        assert_eq!(Limits::of(&set(change), 5), Limits { unavailable, surge }, "{change}");
    };
    check(&strategy(&json!(3), &json!(0)), 3, 0);
    check(&strategy(&json!("21%"), &json!(0)), 2, 0);
    check(&strategy(&json!(0), &json!("21%")), 0, 2);
    check(&strategy(&json!(2), &json!(4)), 2, 4);
    check(&strategy(&json!("0%"), &json!("0%")), 1, 0);
    check(&json!({"spec": {"updateStrategy": {"rollingUpdate": null}}}), 1, 0);
    check(&json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}), 0, 0);
}

#[test]
fn an_update_waits_until_new_pods_have_been_ready_for_min_ready_seconds() {
    let ready = |second: i64| json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(second)}]}});
    let set = set(&json!({"spec": {"minReadySeconds": 20}}));
    let pods = |second: i64| [pod("a", NEW, &ready(second)), pod("b", OLD, &json!({}))];
    let plan = check(&state(Arc::clone(&set), &["a", "b"], &pods(90)), &["waiting for 1 pod to stay ready for 20s (minReadySeconds)"]);
    assert_eq!(plan.requeue_at, Some(at(110)));
    check(&state(set, &["a", "b"], &pods(80)), &["-old-b: it does not have the update revision"]);
}

#[test]
fn a_surging_update_creates_the_new_pod_first() {
    let nodes = ["a", "b", "c"];
    let surging = set(&strategy(&json!(0), &json!(1)));
    let olds = nodes.map(|node| pod(node, OLD, &json!({})));
    let unavailable = |count: u32| format!("waiting for {count} of 3 pods to become available");
    check(&state(Arc::clone(&surging), &nodes, &olds), &["+a", &unavailable(1)]);
    let with = |first: Arc<PodView>| [&olds[..], &[first]].concat();
    check(&state(Arc::clone(&surging), &nodes, &with(pod("a", NEW, &unready()))), &[&unavailable(1)]);
    let replaced = "-old-a: its node has an available pod of the update revision";
    check(&state(Arc::clone(&surging), &nodes, &with(pod("a", NEW, &json!({})))), &[replaced]);
    let broken = [pod("a", OLD, &unready()), pod("b", OLD, &json!({})), pod("c", OLD, &json!({}))];
    check(&state(Arc::clone(&surging), &nodes, &broken), &["+a", "+b", &unavailable(2)]);
    let both = [pod("a", OLD, &unready()), pod("a", NEW, &unready())];
    check(&state(surging, &["a"], &both), &["-old-a: it does not have the update revision, and is not available"]);
}

#[test]
fn with_on_delete_pods_of_older_templates_stay() {
    let set = set(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    let pods = [pod("a", OLD, &json!({})), pod("b", OLD, &unready())];
    check(&state(set, &["a", "b", "c"], &pods), &["+c"]);
    let set = self::set(&json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}));
    check(&state(set, &["a", "b"], &pods), &["waiting for 2 pods of older templates to be deleted manually (OnDelete)"]);
}

#[test]
fn a_pod_names_its_node_and_revision_and_tolerates_problems_of_the_node() {
    let toleration = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let set = set(&json!({"spec": {"template": {"spec": {"tolerations": [toleration]}}}}));
    let plan = planned(&state(set, &["a"], &[]));
    let create = plan.stages.iter().flat_map(|stage| &stage.actions).find_map(|action| match action {
        Action::CreatePods { template, .. } => Some(json!(template)),
        _ => None,
    });
    let pod = create.expect("a pod");
    let labels = json!({"app": "agent", "controller-revision-hash": NEW, "pod-template-generation": "7"});
    let metadata = json!({"generateName": "agent-", "namespace": "ops", "labels": labels, "ownerReferences": owner()});
    assert_eq!(pod["metadata"], metadata);
    let tolerations = pod["spec"]["tolerations"].as_array().expect("tolerations");
    let shown: Vec<String> = tolerations.iter().map(|one| format!("{} {}", one["key"], one["effect"]).replace('"', "")).collect();
    let expected = [
        "not-ready NoExecute",
        "unreachable NoExecute",
        "disk-pressure NoSchedule",
        "memory-pressure NoSchedule",
        "pid-pressure NoSchedule",
        "unschedulable NoSchedule",
    ];
    assert_eq!(shown, expected.map(|taint| format!("node.kubernetes.io/{taint}")));
    assert!(tolerations.iter().all(|one| one["operator"] == "Exists" && one["tolerationSeconds"].is_null()));
}

#[test]
fn the_status_counts_the_first_pod_of_each_node() {
    let pods = [pod("a", NEW, &json!({})), pod("b", OLD, &json!({})), pod("b", NEW, &unready()), pod("c", NEW, &unready())];
    let mut state = state(set(&json!({"metadata": {"generation": 4}})), &["a", "b", "c", "d"], &pods);
    state.nodes.push(node("e", &json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})));
    state.pods.push(pod("e", NEW, &json!({})));
    let counts = json!({
        "desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberMisscheduled": 1, "numberReady": 1, "updatedNumberScheduled": 3,
        "numberAvailable": 1, "numberUnavailable": 3, "observedGeneration": 4,
    });
    assert_eq!(status(&planned(&state)), counts);
}

#[test]
fn a_new_template_gets_a_revision_before_pods_name_it() {
    let mut state = state(set(&json!({})), &["a"], &[]);
    state.revisions.retain(|revision| &*revision.meta.uid == OLD);
    let name = wanted_revision(&state).expect("a name");
    let plan = planned(&state);
    let [Action::Create { object: NewObject::ControllerRevision(revision), .. }] = &plan.stages[0].actions[..] else { panic!("{plan}") };
    let hash = name.strip_prefix("agent-").expect("the set's name");
    assert_eq!((revision.revision, revision.metadata.name.as_deref()), (2, Some(&*name)));
    assert_eq!(json!(revision.metadata.labels), json!({"app": "agent", "controller-revision-hash": hash}));
    assert_eq!(json!(revision.metadata.annotations), json!({"deprecated.daemonset.template.generation": "7"}));
    assert_eq!(json!(revision.metadata.owner_references), owner());
    assert_eq!(revision.data.as_ref().map(|data| &data.0), Some(&revision_data(&state.set.spec.template)));
    assert!(plan.stages[1].actions.iter().any(|action| matches!(action, Action::CreatePods { .. })));

    // Another's revision has the name.
    state.found_revisions.insert(name.clone(), super::tests::revision(hash, 1, &json!({"other": true})));
    let next = wanted_revision(&state).expect("another name");
    assert_ne!(next, name);
    let plan = planned(&state);
    let Action::Create { object, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
    assert_eq!(object.key().name, *next);
    assert_eq!(status(&plan)["collisionCount"], 1);
    // The one that was created is found under the name, but not among the set's revisions yet.
    state.found_revisions.insert(next.clone(), super::tests::revision("any", 2, &revision_data(&state.set.spec.template)));
    assert_eq!(wanted_revision(&state), None);
    check(&state, &["+a"]);
}

#[test]
fn an_older_template_that_comes_back_gets_the_highest_number() {
    let mut state = state(set(&json!({})), &["a"], &[pod("a", NEW, &json!({}))]);
    state.revisions.push(revision("newest", 3, &json!({"spec": {"x": 1}})));
    let plan = check(&state, &["patch ControllerRevision ops/agent-new: the template is that of an older revision again"]);
    let Action::Patch { patch, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
    assert_eq!(*patch, json!({"revision": 4}));
}

#[test]
fn pods_of_a_duplicate_revision_are_relabeled_before_it_is_deleted() {
    let mut state = state(set(&json!({})), &["a", "b"], &[pod("a", "twin", &json!({})), pod("b", OLD, &json!({}))]);
    state.revisions.push(revision("twin", 1, &revision_data(&state.set.spec.template)));
    let same = "another revision has the same template";
    let plan = check(&state, &[&format!("patch Pod ops/twin-a: {same}"), &format!("-agent-twin: {same}")]);
    let Action::Patch { patch, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
    assert_eq!(*patch, json!({"metadata": {"labels": {"controller-revision-hash": NEW}}}));
}

#[test]
fn the_oldest_revisions_without_pods_are_deleted_beyond_the_limit() {
    let mut state = state(set(&json!({"spec": {"revisionHistoryLimit": 1}})), &["a"], &[pod("a", "first", &terminating())]);
    state.revisions.pop();
    state.revisions.push(revision(NEW, 9, &revision_data(&state.set.spec.template)));
    state.revisions.remove(0);
    state.revisions.extend([("first", 1), ("second", 2), ("third", 3)].map(|(hash, number)| revision(hash, number, &json!({"n": number}))));
    check(&state, &["-agent-second: revision 2 is beyond revisionHistoryLimit", "-agent-third: revision 3 is beyond revisionHistoryLimit"]);
}

#[test]
fn orphans_are_adopted_and_strays_released_before_anything_else() {
    let orphan = pod("a", NEW, &json!({"metadata": {"ownerReferences": null}}));
    let stray = pod("b", NEW, &json!({"metadata": {"labels": {"app": "other"}}}));
    check(
        &state(set(&json!({})), &["a", "b", "c"], &[orphan, stray]),
        &[
            "confirm that DaemonSet ops/agent is there: it is about to adopt an object",
            "patch Pod ops/new-a: it has no controller, and the selector of agent matches it",
            "patch Pod ops/new-b: its labels no longer match the selector",
        ],
    );
}

#[test]
fn a_set_that_is_being_deleted_is_left_alone() {
    let set = set(&json!({"metadata": {"deletionTimestamp": at(90)}}));
    assert!(check(&state(set, &["a"], &[]), &["DaemonSet agent is being deleted"]).is_idle());
}

#[test]
fn a_reconcile_creates_and_deletes_two_hundred_and_fifty_pods_at_most() {
    let names: Vec<String> = (0..300).map(|number| format!("n{number:03}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = planned(&state(set(&json!({})), &nodes, &[]));
    let creates: Vec<usize> =
        plan.stages.iter().map(|stage| stage.actions.iter().filter(|a| matches!(a, Action::CreatePods { .. })).count()).collect();
    assert_eq!(creates, [1, 2, 4, 8, 16, 32, 64, 123]);
    let pods: Vec<_> = nodes.iter().map(|node| pod(node, NEW, &json!({}))).collect();
    let elsewhere = set(&json!({"spec": {"template": {"spec": {"nodeName": "other"}}}}));
    let plan = planned(&state(elsewhere, &nodes, &pods));
    assert_eq!(plan.stages[0].actions.iter().filter(|action| matches!(action, Action::Delete { .. })).count(), 250);
}
