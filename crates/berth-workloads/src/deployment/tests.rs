//! The input that the plan computes from a Deployment's sets, as numbers.

use super::{DeploymentState, Found, observe::Observed, observe::observe, plan, scale::Scale};
use crate::{
    counts::{LeftBehind, PodCounts, PodsOfSet},
    plan::{Action, Plan},
    read_back::read_back,
    resources::REPLICA_SETS,
    view::{DeploymentView, ReplicaSetView, View},
};
use berth_api::FeatureGates;
use berth_identity::{Generation, Revision};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Pods that are left behind, and the counts of each set.
#[derive(Clone)]
struct Left(LeftBehind, PodCounts);

/// A Deployment of so many pods with `maxSurge` 3.
fn deployment(replicas: i64, policy: Option<&str>) -> DeploymentView {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": replicas, "selector": selector, "template": template, "strategy": strategy,
        "podReplacementPolicy": policy, "progressDeadlineSeconds": 600});
    let json = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "d"}, "spec": spec});
    DeploymentView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Deployment")
}

/// A set of the Deployment of another template, with this size and status, changed by `metadata`.
fn set(name: &str, replicas: i64, status: Value, metadata: &Value) -> ReplicaSetView {
    let owners = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
    let mut json = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": {"app": "web"}, "ownerReferences": owners, "generation": 1},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "old", "image": "old"}]}}}, "status": status,
    });
    json["metadata"].as_object_mut().expect("a map").extend(metadata.as_object().expect("a map").clone());
    ReplicaSetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a set")
}

/// A set of the Deployment's own template.
fn new_set(name: &str, replicas: i64, status: Value, metadata: &Value) -> ReplicaSetView {
    let mut set = set(name, replicas, status, metadata);
    set.annotations.insert("deployment.kubernetes.io/revision".to_owned(), "1".to_owned());
    ReplicaSetView { template: deployment(0, None).spec.template.clone().into(), ..set }
}

/// The annotations of a set that was last sized for a Deployment of so many pods with `maxSurge` 3.
fn sized_for(desired: i64, before: Option<i64>) -> Value {
    let mut annotations = json!({
        "deployment.kubernetes.io/desired-replicas": desired.to_string(), "deployment.kubernetes.io/max-replicas": (desired + 3).to_string(),
    });
    if let Some(before) = before {
        annotations["deployment.kubernetes.io/replicaset-replicas-before-scale"] = json!(before.to_string());
    }
    json!({"annotations": annotations})
}

/// A set that was last sized for a Deployment of so many pods.
fn sized(mut set: ReplicaSetView, desired: i64) -> ReplicaSetView {
    set.annotations.insert("deployment.kubernetes.io/desired-replicas".to_owned(), desired.to_string());
    set
}

/// A status of a set that has so many pods, all available.
fn has(replicas: i64) -> Value {
    json!({"replicas": replicas, "availableReplicas": replicas, "terminatingReplicas": 0, "observedGeneration": 1})
}

/// The changes of the sets: `a to 5 for 9`, `a to 5 for 9 from 3` while the growth is partial, `a for 9` if only the annotations change.
/// Then the waits, and whether the deadline runs.
fn check(deployment: &DeploymentView, sets: &[ReplicaSetView], left: LeftBehind, expected: &[&str]) {
    check_with(deployment, sets, &Left(left, PodCounts::default()), expected);
}

fn state(deployment: &DeploymentView, sets: &[ReplicaSetView], pods: &Left) -> DeploymentState {
    let of_set = PodsOfSet { counts: pods.1, ..PodsOfSet::default() };
    DeploymentState {
        deployment: Arc::new(deployment.clone()),
        sets: sets.iter().cloned().map(Arc::new).collect(),
        pods: sets.iter().map(|set| (set.meta.uid.clone(), of_set.clone())).collect(),
        left_behind: pods.0.clone(),
        found: Found::default(),
        last_error: None,
        asked: None,
        gates: FeatureGates::default(),
        now: Timestamp::UNIX_EPOCH,
    }
}

fn plan_of(deployment: &DeploymentView, sets: &[ReplicaSetView], pods: &Left, last_error: Option<&str>) -> Plan {
    let state = DeploymentState { last_error: last_error.map(str::to_owned), ..state(deployment, sets, pods) };
    read_back(plan(&state))
}

fn check_with(deployment: &DeploymentView, sets: &[ReplicaSetView], pods: &Left, expected: &[&str]) {
    let plan = plan_of(deployment, sets, pods, None);
    let line = |action: &Action| {
        let Action::Patch { target, patch, .. } = action else { return Some(format!("{action}")) };
        let book = |key: &str| patch["metadata"]["annotations"].get(format!("deployment.kubernetes.io/{key}")).cloned();
        let word = |word: &str, value: Option<Value>| value.map_or_else(String::new, |value| format!(" {word} {value}").replace('"', ""));
        let to = word("to", patch["spec"].get("replicas").cloned());
        let (desired, before) = (word("for", book("desired-replicas")), word("from", book("replicaset-replicas-before-scale")));
        (target.resource == REPLICA_SETS).then(|| format!("{}{to}{desired}{before}", target.key.name))
    };
    let actions = plan.stages.iter().flat_map(|stage| &stage.actions).filter_map(line);
    let waits = plan.waits.iter().map(ToString::to_string).chain(plan.requeue_at.map(|_| "watched".to_owned()));
    assert_eq!(actions.chain(waits).collect::<Vec<_>>(), expected);
}

fn with_observed<R>(deployment: &DeploymentView, sets: &[ReplicaSetView], left: LeftBehind, with: impl FnOnce(&Observed<'_>) -> R) -> R {
    let counts = PodCounts { terminating: 40, mismatched_terminating: 2, ..PodCounts::default() };
    let state = state(deployment, sets, &Left(left, counts));
    with(&observe(&state).unwrap_or_else(|fault| panic!("{fault}")))
}

fn none() -> Value {
    json!({})
}

/// `a` has two surplus pods, `b` lacks two, and `a` has one terminating pod.
fn two() -> [ReplicaSetView; 2] {
    let status =
        |replicas: i64, terminating: i64| json!({"replicas": replicas, "terminatingReplicas": terminating, "observedGeneration": 1});
    [set("a", 3, status(5, 1), &none()), set("b", 4, status(2, 0), &none())]
}

const LEFT: LeftBehind = LeftBehind { active: 2, terminating: 7, to_come: 0, last: None };

#[test]
fn every_pod_that_holds_a_place_counts_against_the_limit() {
    with_observed(&deployment(20, None), &two(), LEFT, |observed| {
        assert_eq!(
            [None, Some(0), Some(1)].map(|growing| observed.used(growing)),
            [Some(11), Some(9), Some(11)],
            "a set that grows keeps what it has"
        );
        assert_eq!((observed.room(), observed.terminating()), (None, 8));
    });
    with_observed(&deployment(20, Some("TerminationComplete")), &two(), LEFT, |observed| {
        assert_eq!([None, Some(0), Some(1)].map(|growing| observed.used(growing)), [Some(19); 3]);
        assert_eq!(observed.room(), Some(4));
    });
    with_observed(&deployment(10, Some("TerminationComplete")), &two(), LEFT, |observed| assert_eq!(observed.room(), Some(0)));
}

#[test]
fn terminating_pods_are_counted_by_the_status_or_else_from_the_pods() {
    let check = |status: Value, wanted: i64| {
        let sets = [set("a", 1, status, &none())];
        with_observed(&deployment(1, None), &sets, NO_PODS, |observed| assert_eq!(observed.terminating(), wanted));
    };
    check(json!({"terminatingReplicas": 3, "observedGeneration": 1}), 3);
    check(json!({"observedGeneration": 1}), 42);
    // The set was never observed.
    check(json!({}), 0);
}

#[test]
fn a_set_whose_status_is_of_another_size_holds_the_others_up() {
    let of = |generation: i64, observed: i64| {
        set("a", 3, json!({"replicas": 3, "observedGeneration": observed}), &json!({"generation": generation}))
    };
    let lags = |set: ReplicaSetView, policy: Option<&str>| {
        let sets = [set, set_that_is_seen()];
        with_observed(&deployment(9, policy), &sets, LeftBehind::default(), |observed| {
            let lagging = [None, Some(0), Some(1)].map(|growing| observed.lagging(growing).is_some_and(|set| set.meta.name == "a"));
            let is_used_known = observed.used(Some(1)).is_some();
            assert_eq!(is_used_known, !lagging[2]);
            lagging
        })
    };
    assert_eq!(lags(of(2, 1), None), [true, false, true], "it may itself grow");
    assert_eq!(lags(of(2, 1), Some("TerminationComplete")), [true, true, true]);
    assert_eq!(lags(of(2, 2), None), [false; 3]);
    assert_eq!(lags(of(1, 0), None), [false; 3], "it never had another size");
    with_observed(&deployment(9, Some("TerminationComplete")), &[of(2, 1)], LeftBehind::default(), |observed| {
        assert_eq!(observed.room(), Some(0));
    });
}

fn set_that_is_seen() -> ReplicaSetView {
    set("b", 2, json!({"replicas": 2, "observedGeneration": 4}), &json!({"generation": 4}))
}

#[test]
fn a_set_shrinks_while_its_status_has_more_pods_than_its_spec() {
    with_observed(&deployment(9, None), &two(), LEFT, |observed| {
        let shrinking = [None, Some(0), Some(1)].map(|growing| observed.shrinking(growing).map(|set| set.meta.name.to_string()));
        assert_eq!(shrinking, [Some("a".to_owned()), None, Some("a".to_owned())]);
    });
    with_observed(&deployment(9, None), &[set_that_is_seen()], LEFT, |observed| assert!(observed.shrinking(None).is_none()));
}

#[test]
fn sets_of_the_deployment_are_those_that_it_controls_and_selects_and_active_ones_want_pods() {
    let sets = [
        set("idle", 0, json!({"replicas": 1}), &none()),
        set("unselected", 1, none(), &json!({"labels": {"app": "db"}})),
        set(
            "anothers",
            1,
            none(),
            &json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "db", "uid": "o", "controller": true}]}),
        ),
        set("younger", 1, none(), &json!({"creationTimestamp": "2026-01-01T00:00:01Z"})),
        set("older", 2, none(), &json!({"creationTimestamp": "2026-01-01T00:00:00Z"})),
    ];
    with_observed(&deployment(9, None), &sets, LEFT, |observed| {
        assert_eq!(observed.sets.iter().map(|set| set.meta.name.as_str()).collect::<Vec<_>>(), ["idle", "older", "younger"]);
        assert_eq!(observed.active(), [1, 2]);
        assert_eq!((observed.new, observed.old().count()), (None, 3));
    });
}

#[test]
fn sizes_fit_where_no_more_pods_stay_than_may_or_than_do_now() {
    let same = |size: i64| json!({"replicas": size, "observedGeneration": 1});
    let sets = || [set("a", 4, same(4), &none()), set("b", 6, same(6), &none())];
    let lagging = |mut sets: [ReplicaSetView; 2], at: usize| {
        (sets[at].meta.generation, sets[at].status.observed_generation) = (Generation(2), Generation(1));
        sets
    };
    let fits = |desired: i64, sets: &[ReplicaSetView], active: u32, sizes: &[(usize, i64)]| {
        with_observed(&deployment(desired, None), sets, LeftBehind { active, ..LeftBehind::default() }, |observed| observed.fits(sizes))
    };
    assert!(fits(9, &sets(), 0, &[(0, 6), (1, 4)]), "12 for a moment, of 12");
    assert!(!fits(8, &sets(), 0, &[(0, 6), (1, 4)]), "12 for a moment, of 11");
    assert!(!fits(9, &sets(), 1, &[(0, 6), (1, 4)]), "one is left behind");
    assert!(fits(1, &sets(), 5, &[(0, 2), (1, 6)]), "as many as now, however few may be");
    assert!(fits(9, &lagging(sets(), 0), 0, &[(0, 6)]), "it alone grows, and may");
    assert!(!fits(9, &lagging(sets(), 1), 0, &[(0, 5)]), "the other has not caught up");
    assert!(!fits(20, &lagging(sets(), 0), 0, &[(0, 5), (1, 7)]), "of two that grow neither may lag");
    assert!(!fits(20, &lagging(sets(), 0), 0, &[]));
}

#[test]
fn what_scaling_reads_of_a_set_is_in_its_annotations() {
    let annotations = json!({
        "deployment.kubernetes.io/desired-replicas": "5", "deployment.kubernetes.io/max-replicas": "x",
        "deployment.kubernetes.io/replicaset-replicas-before-scale": "2",
    });
    let sets = [set("a", 3, none(), &json!({"annotations": annotations}))];
    let scale = with_observed(&deployment(9, None), &sets, LEFT, |observed| observed.scale_of(0));
    assert_eq!(scale, Scale { size: 3, desired: Some(5), max: None, before: Some(2) });
}

const COMPLETE: Option<&str> = Some("TerminationComplete");
const NO_PODS: LeftBehind = LeftBehind { active: 0, terminating: 0, to_come: 0, last: None };

#[test]
fn a_scaling_in_the_middle_of_a_rollout_is_spread_in_proportion() {
    let sets = [set("a", 8, has(8), &sized_for(10, None)), new_set("b", 5, has(5), &sized_for(10, None))];
    check(&deployment(15, None), &sets, NO_PODS, &["a to 11 for 15", "b to 7 for 15"]);
    check(&deployment(5, None), &sets, NO_PODS, &["a to 5 for 5", "b to 3 for 5"]);
    check(&deployment(0, None), &sets, NO_PODS, &["a to 0 for 0", "b to 0 for 0"]);
    let left = LeftBehind { active: 1, ..NO_PODS };
    let wait = "waiting for 1 pod of a deleted ReplicaSet to be deleted before creating 5 more";
    check(&deployment(15, None), &sets, left.clone(), &[wait, "watched"]);
    check(&deployment(5, None), &sets, left, &["a to 5 for 5", "b to 3 for 5"]);
}

#[test]
fn a_scaling_that_adds_nothing_is_noted_whatever_others_wait_for() {
    let lagging = |name: &str, replicas: i64| {
        let mut metadata = sized_for(9, None);
        metadata["generation"] = json!(2);
        set(name, replicas, has(replicas), &metadata)
    };
    check(&deployment(10, None), &[lagging("a", 8), lagging("b", 5)], NO_PODS, &["a for 10", "b for 10"]);
}

#[test]
fn a_scaling_goes_as_far_as_terminating_pods_leave_room() {
    let terminating = |count: i64| json!({"replicas": 8, "terminatingReplicas": count, "observedGeneration": 1});
    let sets = |count: i64| [set("a", 8, terminating(count), &sized_for(10, None)), new_set("b", 5, has(5), &sized_for(10, None))];
    check(&deployment(15, COMPLETE), &sets(0), NO_PODS, &["a to 11 for 15", "b to 7 for 15"]);
    let wait = "waiting for 3 terminating pods before creating 3 more";
    check(&deployment(15, COMPLETE), &sets(3), NO_PODS, &["b from 5", "a to 10 from 8", wait, "watched"]);
    check(&deployment(5, COMPLETE), &sets(3), NO_PODS, &["a to 5 for 5", "b to 3 for 5"]);
    let going_on = [set("a", 10, terminating(0), &sized_for(15, Some(8))), new_set("b", 5, has(5), &sized_for(15, Some(5)))];
    let going_on = going_on.map(|mut set| {
        set.annotations.insert("deployment.kubernetes.io/max-replicas".to_owned(), "13".to_owned());
        set
    });
    check(&deployment(15, COMPLETE), &going_on, NO_PODS, &["a to 11 from null", "b to 7 from null"]);
}

#[test]
fn a_single_set_gets_all_pods_that_are_wanted() {
    let one = |replicas: i64, metadata: &Value| [new_set("a", replicas, has(replicas), metadata)];
    check(&deployment(15, None), &one(10, &sized_for(10, None)), NO_PODS, &["a to 15 for 15"]);
    check(&deployment(4, None), &one(10, &sized_for(10, None)), NO_PODS, &["a to 4 for 4"]);
    check(&deployment(10, None), &one(10, &sized_for(8, None)), NO_PODS, &["a for 10"]);
    let terminating = json!({"replicas": 10, "terminatingReplicas": 6, "observedGeneration": 1});
    let going = [new_set("a", 10, terminating.clone(), &sized_for(10, None))];
    check(&deployment(15, None), &going, NO_PODS, &["a to 15 for 15"]);
    check(
        &deployment(15, COMPLETE),
        &going,
        NO_PODS,
        &["a to 12 from 10", "waiting for 6 terminating pods before creating 3 more", "watched"],
    );
    check(&deployment(4, COMPLETE), &going, NO_PODS, &["a to 4 for 4"]);
    let lagging = [new_set("a", 10, json!({"replicas": 10, "terminatingReplicas": 0, "observedGeneration": 1}), &{
        let mut metadata = sized_for(10, None);
        metadata["generation"] = json!(2);
        metadata
    })];
    check(&deployment(15, COMPLETE), &lagging, NO_PODS, &["waiting for a to be observed", "watched"]);
    check(&deployment(15, None), &lagging, NO_PODS, &["a to 15 for 15"]);
    check(&deployment(10, COMPLETE), &lagging.map(|set| sized(set, 8)), NO_PODS, &["a for 10"]);
    check(&deployment(0, COMPLETE), &one(10, &sized_for(10, None)), NO_PODS, &["a to 0 for 0"]);
    let left = LeftBehind { active: 4, ..NO_PODS };
    check(
        &deployment(15, None),
        &one(10, &sized_for(10, None)),
        left,
        &["waiting for 4 pods of a deleted ReplicaSet to be deleted before creating 5 more", "watched"],
    );
}

#[test]
fn a_scaling_that_waits_is_superseded_by_a_new_template() {
    let terminating = json!({"replicas": 10, "terminatingReplicas": 6, "observedGeneration": 1});
    let old = |status: &Value| set("a", 10, status.clone(), &sized_for(10, None));
    check(&deployment(15, COMPLETE), &[old(&terminating)], NO_PODS, &["a for 15"]);
    check(&deployment(15, COMPLETE), &[old(&terminating), new_set("b", 0, has(0), &none())], NO_PODS, &["a for 15"]);
    check(&deployment(15, COMPLETE), &[old(&has(10))], NO_PODS, &["a to 15 for 15"]);
    let with_room = json!({"replicas": 10, "terminatingReplicas": 3, "observedGeneration": 1});
    check(&deployment(15, COMPLETE), &[old(&with_room)], NO_PODS, &["a to 15 for 15"]);
    let less_room = json!({"replicas": 10, "terminatingReplicas": 4, "observedGeneration": 1});
    check(&deployment(15, COMPLETE), &[old(&less_room)], NO_PODS, &["a for 15"]);
    let several = [set("a", 8, less_room, &sized_for(10, None)), set("b", 5, has(5), &sized_for(10, None))];
    check(&deployment(15, COMPLETE), &several, NO_PODS, &["a for 15", "b for 15"]);
}

#[test]
fn a_new_set_that_is_complete_ends_the_old_ones_when_the_size_changes() {
    let sets = |available: i64, sized: i64| {
        let status = json!({"replicas": 5, "availableReplicas": available, "terminatingReplicas": 0, "observedGeneration": 1});
        [set("a", 3, has(3), &sized_for(4, None)), new_set("b", 5, status, &sized_for(sized, None))]
    };
    check(&deployment(5, None), &sets(5, 5), NO_PODS, &["a to 0 for 5"]);
    check(&deployment(5, None), &sets(4, 5), NO_PODS, &["a for 5"]);
    check(&deployment(5, None), &sets(5, 4), NO_PODS, &["a for 5", "b for 5"]);
}

#[test]
fn recreate_takes_old_sets_down_before_it_scales() {
    let recreate = |replicas: i64| {
        let mut view = deployment(replicas, None);
        view.choices.strategy = Ok(crate::view::DeploymentStrategy::Recreate);
        view
    };
    let old = || set("a", 3, has(3), &sized_for(4, None));
    check(&recreate(5), &[old()], NO_PODS, &["a to 5 for 5"]);
    check(&recreate(5), &[old(), new_set("b", 4, has(4), &sized_for(4, None))], NO_PODS, &["a to 0 for 5", "watched"]);
}

#[test]
fn a_paused_deployment_scales_the_new_set_or_else_the_latest() {
    let paused = || {
        let mut view = deployment(3, None);
        Arc::make_mut(&mut view.spec).paused = true;
        view
    };
    let idle = |name: &str| set(name, 0, has(0), &none());
    check(&paused(), &[idle("a"), new_set("b", 0, has(0), &none()), idle("c")], NO_PODS, &["b to 3 for 3"]);
    let wait = "paused: the template does not roll out until you resume it";
    check(&paused(), &[idle("a"), idle("b")], NO_PODS, &["b to 3 for 3", wait]);
    check(&paused(), &[], NO_PODS, &[wait]);
    let several = [set("a", 8, has(8), &sized_for(10, None)), set("b", 5, has(5), &sized_for(10, None))];
    check(&paused(), &several, NO_PODS, &["a to 4 for 3", "b to 2 for 3", wait]);
    let recreate = DeploymentView { choices: recreate_of(0, None).choices, ..paused() };
    check(&recreate, &several, NO_PODS, &[wait]);
}

/// The room that terminating pods leave would finish the paused rollout.
#[test]
fn a_paused_deployment_under_which_terminating_pods_count_changes_sizes_for_a_new_size_alone() {
    let paused = |view: DeploymentView| {
        let mut view = view;
        Arc::make_mut(&mut view.spec).paused = true;
        view
    };
    let of = |replicas: i64| paused(deployment(replicas, COMPLETE));
    let wait = "paused: the template does not roll out until you resume it";
    let half_way = |sized_for: i64, terminating: i64| {
        let status = json!({"replicas": 1, "availableReplicas": 1, "terminatingReplicas": terminating, "observedGeneration": 1});
        [set("a", 1, status, &self::sized_for(sized_for, None)), new_set("b", 1, has(1), &self::sized_for(sized_for, None))]
    };
    for terminating in [0, 2] {
        check(&of(3), &half_way(3, terminating), NO_PODS, &[wait]);
        check(&paused(recreate_of(3, COMPLETE)), &half_way(3, terminating), NO_PODS, &[wait]);
    }
    check(&paused(deployment(3, None)), &half_way(3, 0), NO_PODS, &["b to 5", wait]);
    check(&of(5), &half_way(3, 0), NO_PODS, &["a for 5", "b to 7 for 5", wait]);
    check(&of(1), &half_way(3, 0), NO_PODS, &["a for 1", "b to 3 for 1", wait]);
    // A saturated, incomplete or manually scaled set does not change either.
    let saturated = [set("a", 2, has(2), &sized_for(3, None)), new_set("b", 3, has(3), &sized_for(3, None))];
    check(&of(3), &saturated, NO_PODS, &[wait]);
    check(&of(3), &[new_set("b", 1, has(1), &sized_for(3, None))], NO_PODS, &[wait]);
    // A pending scaling continues, also one that begins without pods.
    let pending = [new_set("b", 1, has(1), &sized_for(2, Some(1)))];
    check(&of(3), &pending, NO_PODS, &["b to 3 for 3 from null"]);
    check(&of(3), &[set("a", 0, has(0), &none()), new_set("b", 0, has(0), &sized_for(0, None))], NO_PODS, &["b to 3 for 3"]);
    check(&of(3), &[new_set("b", 0, has(0), &sized_for(3, None))], NO_PODS, &[wait]);
}

fn recreate_of(replicas: i64, policy: Option<&str>) -> DeploymentView {
    let mut view = deployment(replicas, policy);
    view.choices.strategy = Ok(crate::view::DeploymentStrategy::Recreate);
    view
}

#[test]
fn recreate_waits_for_the_last_pod_of_older_templates() {
    let old = |status: Value, generation: i64| {
        let mut metadata = sized_for(5, None);
        metadata["generation"] = json!(generation);
        [set("a", 0, status, &metadata), new_set("b", 2, has(2), &sized_for(5, None))]
    };
    let gone = || old(has(0), 1);
    let some = PodCounts::default();
    let wait = |policy: Option<&str>, sets: &[ReplicaSetView], left: LeftBehind, counts: PodCounts, expected: &[&str]| {
        check_with(&recreate_of(5, policy), sets, &Left(left, counts), expected);
    };
    wait(None, &gone(), NO_PODS, some, &["b to 5", "watched"]);
    wait(
        None,
        &old(has(3), 1),
        NO_PODS,
        some,
        &["waiting for 3 pods of older templates to stop before creating 3 of the new one", "watched"],
    );
    wait(None, &old(has(0), 2), NO_PODS, some, &["waiting for a to be observed", "watched"]);
    let behind = "waiting for 2 pods of a deleted ReplicaSet to be deleted before creating 3 more";
    wait(None, &gone(), LeftBehind { active: 2, ..NO_PODS }, some, &[behind, "watched"]);
    let terminating = "waiting for 4 terminating pods before creating 3 more";
    wait(None, &gone(), LeftBehind { terminating: 4, ..NO_PODS }, some, &[terminating, "watched"]);
    wait(Some("TerminationStarted"), &gone(), LeftBehind { terminating: 4, ..NO_PODS }, some, &["b to 5", "watched"]);
    for counts in [PodCounts { active: 1, ..some }, PodCounts { mismatched: 1, ..some }, PodCounts { terminating: 1, ..some }] {
        wait(None, &gone(), NO_PODS, counts, &["watched"]);
    }
    let complete = [set("a", 0, has(0), &sized_for(5, None)), new_set("b", 5, has(5), &sized_for(5, None))];
    wait(None, &complete, LeftBehind { active: 2, ..NO_PODS }, some, &["watched"]);
    wait(None, &complete, LeftBehind { terminating: 2, ..NO_PODS }, some, &[]);
}

#[test]
fn recreate_makes_as_many_new_pods_as_there_is_room_for() {
    let going = json!({"replicas": 4, "terminatingReplicas": 0, "observedGeneration": 1});
    check(&recreate_of(5, COMPLETE), &[new_set("b", 2, going.clone(), &sized_for(5, None))], NO_PODS, &["b to 3", "watched"]);
    check(&recreate_of(5, None), &[new_set("b", 2, going, &sized_for(5, None))], NO_PODS, &["b to 5", "watched"]);
}

#[test]
fn old_sets_beyond_the_limit_go_when_nothing_of_theirs_is_left() {
    let clean_up = |policy: Option<&str>, terminating: i64| {
        let mut view = deployment(1, policy);
        Arc::make_mut(&mut view.spec).revision_history_limit = Some(0);
        let old = set("a", 0, json!({"terminatingReplicas": terminating, "observedGeneration": 1}), &none());
        with_observed(&view, &[old], NO_PODS, |observed| super::history::clean_up(observed).len())
    };
    assert_eq!([clean_up(None, 3), clean_up(COMPLETE, 0), clean_up(COMPLETE, 3)], [1, 1, 0]);
}

#[test]
fn counts_take_in_what_is_left_behind_and_what_is_wanted() {
    let status = with_observed(&deployment(20, None), &two(), LEFT, |observed| super::status::counts(observed, 7));
    assert_eq!((status.replicas, status.terminating_replicas, status.unavailable_replicas), (9, Some(8), 7));
    let available = [set("a", 3, has(3), &none())];
    let status = with_observed(&deployment(20, None), &available, NO_PODS, |observed| super::status::counts(observed, 7));
    assert_eq!((status.available_replicas, status.unavailable_replicas), (3, 4));
}

#[test]
fn a_deployment_is_available_with_as_many_pods_as_may_not_be_missing() {
    let available = |count: i64| {
        let mut view = deployment(10, None);
        let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
        Arc::make_mut(&mut view.spec).strategy = serde_json::from_value(limits).expect("a strategy");
        with_observed(&view, &[set("a", 10, has(count), &none())], NO_PODS, |observed| {
            let (mut conditions, status) = (super::status::Conditions::default(), super::status::counts(observed, 10));
            super::status::set_available(&mut conditions, observed, &status);
            conditions.reason("Available").to_owned()
        })
    };
    assert_eq!([available(8), available(7)], ["MinimumReplicasAvailable", "MinimumReplicasUnavailable"]);
}

#[test]
fn a_failure_stays_as_it_was_first_recorded_until_it_is_another() {
    let failing = |status: &str, reason: &str, second: i64| {
        let since = Timestamp::from_second(second).expect("a time");
        let failure = json!({"type": "ReplicaFailure", "status": status, "reason": reason, "message": "m", "lastTransitionTime": since});
        [set("a", 1, json!({"conditions": [failure]}), &none())]
    };
    let mut conditions = super::status::Conditions::default();
    let mut since = |sets: &[ReplicaSetView]| {
        with_observed(&deployment(1, None), sets, NO_PODS, |observed| super::status::set_replica_failure(&mut conditions, observed));
        conditions.get("ReplicaFailure").and_then(|failure| Some(failure.last_update_time.as_ref()?.0.as_second()))
    };
    assert_eq!(since(&failing("True", "FailedCreate", 5)), Some(5));
    assert_eq!(since(&failing("True", "FailedCreate", 9)), Some(5));
    assert_eq!(since(&failing("True", "FailedDelete", 9)), Some(9));
    assert_eq!(since(&failing("False", "FailedDelete", 11)), Some(11));
    assert_eq!(since(&[set("a", 1, none(), &none())]), None);
}

#[test]
fn old_pods_stay_until_new_ones_are_available_in_their_stead() {
    let available = |count: i64| json!({"replicas": 3, "availableReplicas": count, "terminatingReplicas": 0, "observedGeneration": 1});
    let sets = |old: i64, new: i64| [set("a", old, has(old), &sized_for(3, None)), new_set("b", 3, available(new), &sized_for(3, None))];
    let wait = "waiting for 1 of 3 pods to become available";
    check(&deployment(3, None), &sets(1, 2), NO_PODS, &[wait, "watched"]);
    check(&deployment(3, None), &sets(2, 2), NO_PODS, &["a to 1", "watched"]);
    check(&deployment(3, None), &sets(1, 3), NO_PODS, &["a to 0", "watched"]);
    check(&deployment(3, None), &sets(1, 2)[1..], NO_PODS, &["watched"]);
}

/// Its cost can cause the deletion of an available pod before a ready one that is not available yet.
#[test]
fn old_pods_with_costs_are_let_go_beyond_the_minimum_only_if_they_are_not_ready_to_anybodys_knowledge() {
    let sets = |ready: i64| {
        let status =
            json!({"replicas": 5, "readyReplicas": ready, "availableReplicas": 3, "terminatingReplicas": 0, "observedGeneration": 1});
        let new = json!({"replicas": 1, "availableReplicas": 0, "terminatingReplicas": 0, "observedGeneration": 1});
        [set("a", 5, status, &sized_for(3, None)), new_set("b", 1, new, &sized_for(3, None))]
    };
    let check = |told: i64, ready: u32, with_cost: u32, expected: &[&str]| {
        let pods = Left(NO_PODS, PodCounts { active: 5, ready, available: 3, with_cost, ..PodCounts::default() });
        check_with(&deployment(3, None), &sets(told), &pods, &[expected, &["watched"]].concat());
    };
    check(5, 5, 0, &["a to 3"]);
    check(3, 3, 1, &["a to 3"]);
    check(4, 3, 1, &["a to 4"]);
    check(3, 4, 1, &["a to 4"]);
    check(3, 5, 1, &["waiting for 1 of 1 pod to become available"]);
}

/// The pods in its status may be deleted meanwhile: the set was scaled down, and perhaps up again.
#[test]
fn old_pods_stay_until_a_set_that_was_changed_is_heard_of() {
    let sets = |changed: [i64; 2]| {
        let mut sets = [set("a", 3, has(3), &sized_for(3, None)), new_set("b", 3, has(3), &sized_for(3, None))];
        sets.iter_mut().zip(changed).for_each(|(set, changed)| set.meta.generation = Generation(1 + changed));
        sets
    };
    check(&deployment(3, None), &sets([0, 0]), NO_PODS, &["a to 0", "watched"]);
    for changes in [1, 2] {
        check(&deployment(3, None), &sets([0, changes]), NO_PODS, &["waiting for b to be observed", "watched"]);
        check(&deployment(3, None), &sets([changes, 0]), NO_PODS, &["waiting for a to be observed", "watched"]);
        // The plan relies on none of its pods.
        let mut none = sets([changes, 0]);
        none[0].status.available_replicas = 0;
        check(&deployment(3, None), &none, NO_PODS, &["a to 0", "watched"]);
    }
}

#[test]
fn a_set_that_is_about_to_mark_pods_is_waited_for_where_its_pods_have_the_place() {
    let shrinking = |terminating: i64| {
        let status = json!({"replicas": 4, "terminatingReplicas": terminating, "observedGeneration": 1});
        [set("a", 1, status, &sized_for(3, None)), new_set("b", 0, has(0), &sized_for(3, None))]
    };
    let expected = ["b to 2", "waiting for a to be observed", "watched"];
    check(&deployment(3, None), &shrinking(2), NO_PODS, &expected);
    check(&deployment(3, COMPLETE), &shrinking(0), NO_PODS, &expected);
}

const SINCE: &str = "1969-12-31T23:59:00Z";

/// The Deployment with these counts in its status, and with `reason` and `message` in `Progressing` for a minute.
fn with_progress(mut view: DeploymentView, counts: &Value, reason: &str, message: &str) -> DeploymentView {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({"type": type_, "status": status, "reason": reason, "message": message, "lastUpdateTime": SINCE, "lastTransitionTime": SINCE});
    let mut status = counts.clone();
    let available = counts["availableReplicas"].as_i64() == Some(view.spec.replicas.unwrap_or(1).into());
    let (verdict, word) = if available { ("True", "MinimumReplicasAvailable") } else { ("False", "MinimumReplicasUnavailable") };
    status["conditions"] = json!([condition("Available", verdict, word, ""), condition("Progressing", "True", reason, message)]);
    view.status = serde_json::from_value(status).expect("a status");
    view
}

/// The reason of the condition `Progressing` after a reconcile.
fn progressing(deployment: &DeploymentView, sets: &[ReplicaSetView]) -> Option<String> {
    let plan = plan_of(deployment, sets, &Left(NO_PODS, PodCounts::default()), None);
    let written = plan.stages.iter().flat_map(|stage| &stage.actions).find_map(|action| match action {
        Action::Patch { patch, .. } => patch["status"].get("conditions").cloned(),
        _ => None,
    });
    let conditions = written.unwrap_or_else(|| json!(deployment.status.conditions));
    let progressing = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "Progressing");
    progressing.and_then(|condition| Some(condition["reason"].as_str()?.to_owned()))
}

/// A set of the Deployment's template with two of five pods available, and the matching status.
fn under_way(generation: i64) -> (ReplicaSetView, Value) {
    let status = json!({"replicas": 5, "availableReplicas": 2, "terminatingReplicas": 0, "observedGeneration": generation});
    let mut metadata = sized_for(5, None);
    metadata["generation"] = json!(generation);
    let counts = json!({"replicas": 5, "updatedReplicas": 5, "availableReplicas": 2, "unavailableReplicas": 3, "terminatingReplicas": 0});
    (new_set("b", 5, status, &metadata), counts)
}

fn recorded(mut view: DeploymentView) -> DeploymentView {
    view.annotations.insert("deployment.kubernetes.io/revision".to_owned(), "1".to_owned());
    view
}

#[test]
fn a_rollout_has_begun_where_the_status_is_about_none_or_another() {
    let check = |before: Option<(&str, &str)>, is_recorded: bool, generation: i64, wanted: &str| {
        let (set, counts) = under_way(generation);
        let view = deployment(5, None);
        let view = if is_recorded { recorded(view) } else { view };
        let view = before.map_or(view.clone(), |(reason, message)| with_progress(view, &counts, reason, message));
        let mut status = view.status.clone();
        if before.is_none() {
            status = serde_json::from_value(counts).expect("a status");
        }
        let view = DeploymentView { status, ..view };
        assert_eq!(progressing(&view, &[set]).as_deref(), Some(wanted), "{before:?} {is_recorded} {generation}");
    };
    let (it, another) = ("ReplicaSet \"b\" is", "ReplicaSet \"a\" is");
    check(None, false, 1, "NewReplicaSetCreated");
    check(None, false, 2, "FoundNewReplicaSet");
    check(None, true, 1, "FoundNewReplicaSet");
    for over in ["NewReplicaSetAvailable", "ProgressDeadlineExceeded"] {
        check(Some((over, it)), false, 1, "NewReplicaSetCreated");
        check(Some((over, it)), true, 1, over);
    }
    check(Some(("ReplicaSetUpdated", it)), false, 1, "ReplicaSetUpdated");
    check(Some(("ReplicaSetUpdated", another)), false, 1, "NewReplicaSetCreated");
    check(Some(("ReplicaSetUpdated", another)), true, 1, "ReplicaSetUpdated");
    check(Some(("ReplicaSetCreateError", another)), false, 1, "ReplicaSetCreateError");
}

#[test]
fn progress_is_reported_only_with_a_deadline_and_a_pause_only_of_a_deployment_that_stays() {
    let (set, counts) = under_way(1);
    let paused = |deadline: Option<i32>, deleted: bool| {
        let mut view = with_progress(deployment(5, None), &counts, "ReplicaSetUpdated", "");
        let spec = Arc::make_mut(&mut view.spec);
        (spec.paused, spec.progress_deadline_seconds) = (true, deadline);
        view.meta.deleted = deleted.then_some(Timestamp::UNIX_EPOCH);
        progressing(&view, std::slice::from_ref(&set))
    };
    assert_eq!(paused(Some(600), false).as_deref(), Some("DeploymentPaused"));
    assert_eq!(paused(Some(600), true).as_deref(), Some("ReplicaSetUpdated"));
    assert_eq!(paused(None, false).as_deref(), Some("ReplicaSetUpdated"));
    let mut without = with_progress(deployment(5, None), &counts, "ReplicaSetUpdated", "");
    Arc::make_mut(&mut without.spec).progress_deadline_seconds = None;
    assert_eq!(progressing(&without, &[set]), None);
}

#[test]
fn pods_that_recreate_holds_back_begin_a_rollout_as_soon_as_some_are_wanted() {
    let before = |desired: i64| {
        let counts = json!({"replicas": 3, "availableReplicas": 3, "terminatingReplicas": 0});
        with_progress(recreate_of(desired, None), &counts, "NewReplicaSetAvailable", "")
    };
    let old = || [set("a", 3, has(3), &none())];
    assert_eq!(progressing(&before(3), &old()).as_deref(), Some("ReplicaSetUpdated"));
    assert_eq!(progressing(&before(0), &old()).as_deref(), Some("NewReplicaSetAvailable"), "none is to be created");
}

/// The status must not report a new rollout when a set only gets its missing pods back.
#[test]
fn recreate_holds_nothing_back_where_there_is_room_for_all() {
    let counts = json!({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "unavailableReplicas": 3, "terminatingReplicas": 0});
    let view = with_progress(recorded(recreate_of(5, COMPLETE)), &counts, "NewReplicaSetAvailable", "");
    let set = |has: i64| {
        let status = json!({"replicas": has, "availableReplicas": 2, "terminatingReplicas": 0, "observedGeneration": 1});
        [new_set("b", 2, status, &sized_for(5, None))]
    };
    assert_eq!(progressing(&view, &set(2)).as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(progressing(&view, &set(3)).as_deref(), Some("ReplicaSetUpdated"), "one place is not free");
}

#[test]
fn a_status_is_written_at_once_with_a_revision_with_news_and_when_the_rollout_is_complete() {
    let urgency = |view: &DeploymentView, available: i64| {
        let status = json!({"replicas": 5, "availableReplicas": available, "terminatingReplicas": 0, "observedGeneration": 1});
        let sets = [new_set("b", 5, status, &sized_for(5, None))];
        let plan = plan_of(view, &sets, &Left(NO_PODS, PodCounts::default()), None);
        plan.stages.iter().flat_map(|stage| &stage.actions).map(|action| !action.may_wait()).collect::<Vec<_>>()
    };
    let status = |view: DeploymentView, available: i64, reason: &str| {
        let counts = json!({"replicas": 5, "updatedReplicas": 5, "availableReplicas": available, "terminatingReplicas": 0});
        with_progress(view, &counts, reason, "ReplicaSet \"b\" is")
    };
    let known = || recorded(deployment(5, None));
    assert_eq!(urgency(&status(known(), 1, "ReplicaSetUpdated"), 2), [false], "one more");
    assert_eq!(urgency(&status(known(), 2, "ReplicaSetUpdated"), 1), [true], "one less is news");
    assert_eq!(urgency(&status(deployment(5, None), 1, "ReplicaSetUpdated"), 2), [true], "the revision");
    let mut complete = status(known(), 5, "NewReplicaSetAvailable");
    complete.status.available_replicas = 4;
    assert_eq!(urgency(&complete, 5), [true], "complete");
}

#[test]
fn a_set_whose_create_is_retried_reports_what_it_waits_for() {
    let pods = Left(LeftBehind { active: 5, ..NO_PODS }, PodCounts::default());
    for last_error in [None, Some("exceeded quota: q")] {
        let plan = plan_of(&deployment(3, None), &[], &pods, last_error);
        assert!(plan.stages.iter().flat_map(|stage| &stage.actions).any(|action| matches!(action, Action::Create { .. })));
        let waits: Vec<_> = plan.waits.iter().map(ToString::to_string).collect();
        assert_eq!(waits, ["waiting for 5 pods of a deleted ReplicaSet to be deleted before creating 2 more"], "{last_error:?}");
    }
}
