//! The effects of plans in a model cluster: complete rollouts and scalings, and invariants of every step.

use crate::world::{Patience, World, template};
use berth_identity::Generation;
use berth_workloads::{
    Action, Plan, Wait, deployment,
    plan::Repeat,
    view::{ContainerSymptom, ReasonMessage, Symptoms},
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn rolling(replicas: i64, surge: i64, unavailable: i64) -> Value {
    json!({
        "replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
    })
}

fn recreate(replicas: i64) -> Value {
    json!({"replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, "strategy": {"type": "Recreate"}})
}

fn with_policy(mut spec: Value, policy: &str) -> Value {
    spec["podReplacementPolicy"] = json!(policy);
    spec
}

/// Runs all controllers until none has work left. Pods become ready, and terminating pods are deleted, at once.
fn run(world: &mut World) {
    for _ in 0..200 {
        let acted = act(world);
        world.settle_sets();
        world.ready_all();
        world.gone_all();
        world.settle_sets();
        if acted == 0 && act(world) == 0 {
            return;
        }
    }
    panic!("no end: {:?}", world.plan_deployment());
}

fn act(world: &mut World) -> usize {
    let plan = world.plan_deployment();
    world.carry_out(plan, usize::MAX)
}

fn messages(plan: &Plan) -> Vec<String> {
    let events = plan.stages.iter().flat_map(|stage| &stage.actions).filter_map(|action| match action {
        Action::Create { events, .. } | Action::Patch { events, .. } | Action::Delete { events, .. } => events.success.as_ref(),
        _ => None,
    });
    events.map(|event| event.message.clone()).collect()
}

fn waits(world: &World) -> Vec<String> {
    world.plan_deployment().waits.iter().map(ToString::to_string).collect()
}

fn condition(world: &World, type_: &str) -> (String, String) {
    let status = world.deployment_view().status;
    let conditions = status.conditions.unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition.type_ == type_).expect("the condition");
    (condition.status, condition.reason.unwrap_or_default())
}

#[test]
fn a_new_deployment_gets_its_pods_and_is_complete() {
    let mut world = World::new(rolling(3, 1, 0));
    let first = world.plan_deployment();
    let name = world.carry_out(first, usize::MAX);
    assert_eq!(name, 2, "one set and the status");
    assert_eq!(world.deployment_view().status.unavailable_replicas, 3);
    run(&mut world);
    assert_eq!(world.sizes().values().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(condition(&world, "Progressing"), ("True".to_owned(), "NewReplicaSetAvailable".to_owned()));
    assert_eq!(condition(&world, "Available"), ("True".to_owned(), "MinimumReplicasAvailable".to_owned()));
    assert_eq!(world.deployment.json["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
}

#[test]
fn a_created_set_is_reported_with_its_size() {
    let world = World::new(rolling(3, 1, 0));
    let event_lines = messages(&world.plan_deployment());
    assert!(event_lines[0].starts_with("Scaled up replica set web-") && event_lines[0].ends_with(" from 0 to 3"), "{event_lines:?}");
    assert_eq!(messages(&World::new(rolling(0, 1, 0)).plan_deployment()), [""; 0], "nothing is scaled");
}

#[test]
fn a_rollout_replaces_every_pod_and_keeps_the_old_set() {
    let mut world = World::new(rolling(3, 1, 1));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    run(&mut world);
    let mut sizes: Vec<_> = world.sizes().into_values().collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 3]);
    assert_eq!(world.deployment.json["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
}

#[test]
fn termination_complete_holds_surge_until_pods_are_gone() {
    let mut world = World::new(with_policy(rolling(3, 1, 1), "TerminationComplete"));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut world);
    world.settle_sets();
    world.ready_all();
    world.settle_sets();
    act(&mut world);
    world.settle_sets();
    let waiting = waits(&world);
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let (before, after) = waiting[0].split_once(" (web-").expect("an example");
    assert_eq!(before, "waiting for 2 terminating pods");
    assert!(after.ends_with(" has 30s of its 30s grace left) before creating 2 more"), "{after}");
    assert_eq!(world.plan_deployment().waits[0].metric_label(), "pods_terminating");
    run(&mut world);
    assert_eq!(waits(&world), [""; 0]);
}

#[test]
fn termination_complete_is_not_complete_before_the_last_pod_is_gone() {
    let mut world = World::new(with_policy(rolling(1, 1, 0), "TerminationComplete"));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    for _ in 0..5 {
        act(&mut world);
        world.settle_sets();
        world.ready_all();
        world.settle_sets();
    }
    let waiting = waits(&world);
    assert!(waiting[0].starts_with("waiting for 1 terminating pod (web-"), "{waiting:?}");
    assert!(waiting[0].ends_with(") before the rollout is complete"), "{waiting:?}");
    world.gone_all();
    world.settle_sets();
    act(&mut world);
    assert_eq!(waits(&world), [""; 0]);
}

#[test]
fn recreate_creates_nothing_before_the_old_pods_are_gone() {
    let mut world = World::new(recreate(3));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut world);
    assert!(waits(&world)[0].ends_with("to be observed"), "{:?}", waits(&world));
    world.settle_sets();
    assert_eq!(world.plan_deployment().waits[0].metric_label(), "pods_terminating");
    assert_eq!(world.sets.len(), 1);
    world.gone_all();
    world.settle_sets();
    act(&mut world);
    assert_eq!(world.sets.len(), 2);
}

#[test]
fn recreate_with_termination_started_waits_for_deletion_only() {
    let mut world = World::new(with_policy(recreate(3), "TerminationStarted"));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut world);
    world.settle_sets();
    act(&mut world);
    assert_eq!(world.sets.len(), 2, "{:?}", waits(&world));
    assert_eq!(world.pods_there(), 3, "the old pods are still going");
}

#[test]
fn the_annotation_counts_where_the_field_is_unset() {
    let mut world = World::new(recreate(1));
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/pod-replacement-policy": "TerminationStarted"}}}));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut world);
    world.settle_sets();
    act(&mut world);
    assert_eq!(world.sets.len(), 2);
}

#[test]
fn an_unknown_policy_in_the_annotation_is_reported() {
    let mut world = World::new(recreate(1));
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/pod-replacement-policy": "Never"}}}));
    let events = world.plan_deployment().events;
    assert_eq!(events.iter().map(|event| &*event.reason).collect::<Vec<_>>(), ["InvalidAnnotation"]);
}

#[test]
fn a_paused_deployment_makes_no_set_but_scales() {
    let mut spec = rolling(3, 1, 0);
    spec["paused"] = json!(true);
    let mut world = World::new(spec);
    act(&mut world);
    assert_eq!((world.sets.len(), condition(&world, "Progressing").1.as_str()), (0, "DeploymentPaused"));
    world.edit(&json!({"spec": {"paused": false}}));
    run(&mut world);
    world.edit(&json!({"spec": {"paused": true, "replicas": 5}}));
    run(&mut world);
    assert_eq!(world.sizes().into_values().collect::<Vec<_>>(), [5]);
}

#[test]
fn a_rollout_without_progress_times_out_and_is_requeued_in_time() {
    let mut world = World::new(rolling(3, 1, 0));
    act(&mut world);
    world.settle_sets();
    act(&mut world);
    let look_again = world.plan_deployment().look_again.expect("a deadline to watch");
    world.now = look_again;
    act(&mut world);
    assert_eq!(condition(&world, "Progressing"), ("False".to_owned(), "ProgressDeadlineExceeded".to_owned()));
    run(&mut world);
    assert_eq!(condition(&world, "Progressing").1, "NewReplicaSetAvailable");
}

/// Upstream checks repeatedly, because its deadline has long passed.
#[test]
fn a_rollout_that_is_over_has_no_deadline_to_requeue_for() {
    let mut world = World::new(rolling(3, 1, 0));
    run(&mut world);
    world.now += jiff::SignedDuration::from_secs(10_000);
    world.pods[0].ready = false;
    world.settle_sets();
    act(&mut world);
    assert_eq!(
        (world.deployment_view().status.available_replicas, condition(&world, "Progressing").1.as_str()),
        (2, "NewReplicaSetAvailable")
    );
    assert_eq!(world.plan_deployment().look_again, None);
    world.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut world);
    world.now = world.plan_deployment().look_again.expect("a deadline to watch");
    act(&mut world);
    assert_eq!(condition(&world, "Progressing").1, "ProgressDeadlineExceeded");
    assert_eq!(world.plan_deployment().look_again, None);
}

/// A client that waits for an undo must not get the failure of the former rollout.
#[test]
fn an_undo_begins_a_new_rollout_after_a_missed_deadline() {
    // This rollback neither makes a pod ready nor deletes one at once. Either would be progress.
    let mut world = World::new(rolling(2, 2, 0));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut world);
    world.settle_sets();
    act(&mut world);
    world.now = world.plan_deployment().look_again.expect("a deadline to watch");
    act(&mut world);
    assert_eq!(condition(&world, "Progressing").1, "ProgressDeadlineExceeded");
    world.edit(&json!({"spec": {"template": template(1)}}));
    let generation = world.deployment_view().meta.generation;
    while world.deployment_view().status.observed_generation != generation {
        assert_ne!(act(&mut world), 0);
    }
    assert_eq!(condition(&world, "Progressing").0, "True");
}

#[test]
fn a_name_that_is_taken_leads_to_another() {
    let mut world = World::new(rolling(1, 1, 0));
    act(&mut world);
    let (name, mut stranger) = world.sets.pop_first().expect("a set");
    stranger.json["metadata"]["ownerReferences"] = json!([]);
    stranger.json["metadata"]["labels"] = json!({"app": "other"});
    world.sets.insert(name.clone(), stranger);
    act(&mut world);
    assert_eq!(world.deployment_view().status.collision_count, Some(1));
    act(&mut world);
    assert_eq!(world.sets.len(), 2);
}

#[test]
fn a_matching_orphan_is_adopted_and_a_stray_released() {
    let mut world = World::new(rolling(1, 1, 0));
    run(&mut world);
    let name = world.sets.keys().next().expect("a set").clone();
    let set = world.sets.get_mut(&name).expect("a set");
    set.json["metadata"]["labels"]["app"] = json!("other");
    assert_eq!(act(&mut world), 1);
    assert_eq!(world.sets[&name].json["metadata"]["ownerReferences"], Value::Null);
    world.sets.get_mut(&name).expect("a set").json["metadata"]["labels"]["app"] = json!("web");
    let plan = world.plan_deployment();
    assert!(matches!(plan.stages[0].actions[0], Action::ConfirmAlive { .. }));
    world.carry_out(plan, usize::MAX);
    assert_eq!(world.sets[&name].json["metadata"]["ownerReferences"][0]["uid"], "uid-web");
}

#[test]
fn a_rollback_takes_the_template_of_the_revision() {
    let mut world = World::new(rolling(1, 1, 0));
    run(&mut world);
    world.edit(&json!({"spec": {"template": template(2)}}));
    run(&mut world);
    world.edit(&json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}}));
    let plan = world.plan_deployment();
    assert_eq!(messages(&plan), ["Rolled back deployment \"web\" to revision 1"]);
    run(&mut world);
    assert_eq!(world.deployment.json["spec"]["template"], template(1));
    assert_eq!(world.deployment.json["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "3"}));
}

#[test]
fn surplus_revisions_are_deleted_when_the_rollout_is_complete() {
    let mut spec = rolling(1, 1, 0);
    spec["revisionHistoryLimit"] = json!(1);
    let mut world = World::new(spec);
    for number in 2..6 {
        run(&mut world);
        world.edit(&json!({"spec": {"template": template(number)}}));
    }
    run(&mut world);
    assert_eq!(world.sets.len(), 2);
}

/// The symptoms of a pod whose container waits.
fn waits_for(reason: &str, message: &str) -> Option<Box<Symptoms>> {
    let waiting = Some(ReasonMessage { reason: reason.to_owned(), message: message.to_owned() });
    Some(Box::new(Symptoms { containers: vec![ContainerSymptom { waiting, ..ContainerSymptom::default() }], ..Symptoms::default() }))
}

#[test]
fn failing_pods_of_the_new_template_are_reported_once_for_each_cause() {
    let mut world = World::new(rolling(2, 1, 0));
    act(&mut world);
    world.settle_sets();
    let event = |world: &World| {
        let [event] = <[_; 1]>::try_from(world.plan_deployment().events).expect("one event");
        assert_eq!(event.reason, "NewPodsFailing");
        (event.message, event.repeat)
    };
    let (set, first) = (world.sets.keys().next().expect("a set").clone(), world.pods[0].meta.name.clone());
    let once = |kind: &str| Repeat::OncePer(format!("{set}/{kind}"));
    let said = |text: &str| format!("Pods of replica set \"{set}\" are failing: {text}");
    world.pods[1].symptoms = waits_for("CrashLoopBackOff", "back-off 10s");
    let crash = said(&format!("{} keeps crashing: CrashLoopBackOff: back-off 10s", world.pods[1].meta.name));
    assert_eq!(event(&world), (crash, once("crash")));
    world.pods[1].symptoms = waits_for("CrashLoopBackOff", "back-off 20s");
    assert_eq!(event(&world).1, once("crash"), "in other words the same");
    world.pods[0].symptoms = waits_for("ImagePullBackOff", "no such image");
    let image = said(&format!("{first} cannot pull its image: ImagePullBackOff: no such image"));
    assert_eq!(event(&world), (image, once("image_pull")), "it ranks first");
}

#[test]
fn pods_that_a_quota_refuses_are_reported() {
    let mut world = World::new(rolling(2, 1, 0));
    act(&mut world);
    world.settle_sets();
    let set = world.sets.values_mut().next().expect("a set");
    set.json["status"]["replicas"] = json!(1);
    set.json["status"]["conditions"] =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}]);
    let name = world.sets.keys().next().expect("a set").clone();
    let wanted = format!("1 pod of ReplicaSet {name} is not created because of a quota: exceeded quota: q");
    assert_eq!(world.plan_deployment().events.last().map(|event| &event.message), Some(&wanted));
}

#[test]
fn a_deployment_being_deleted_only_reports() {
    let mut world = World::new(rolling(3, 1, 0));
    world.deployment.json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    run(&mut world);
    assert_eq!((world.sets.len(), world.deployment_view().status.observed_generation), (0, Generation(1)));
}

#[test]
fn a_set_releases_and_replaces_a_pod_whose_labels_change() {
    let mut world = World::new(rolling(2, 1, 0));
    run(&mut world);
    world.pods[0].meta.labels = world.pods[0].meta.labels.with("app", "debug");
    world.settle_sets();
    assert_eq!((world.pods.len(), world.pods[0].meta.owners.len()), (3, 0));
    world.pods[0].meta.labels = world.pods[0].meta.labels.with("app", "web");
    world.settle_sets();
    world.gone_all();
    assert_eq!(world.pods.len(), 2);
}

/// The warnings of a plan as text.
fn event_lines(plan: &Plan) -> Vec<String> {
    plan.events.iter().map(|event| format!("{:?} {:?} {}: {}", event.severity, event.repeat, event.reason, event.message)).collect()
}

#[test]
fn a_deployment_that_selects_everything_is_left_alone_and_has_a_warning() {
    let mut world = World::new(rolling(1, 1, 0));
    world.edit(&json!({"spec": {"selector": {"matchLabels": null}}}));
    let text = "Warning Once SelectingAll: This deployment is selecting all pods. A non-empty selector is required.";
    assert_eq!(event_lines(&world.plan_deployment()), [text]);
    assert_eq!(act(&mut world), 1, "only that it was looked at");
    assert_eq!((world.sets.len(), world.deployment.json["status"].clone()), (0, json!({"observedGeneration": 2})));
    assert!(world.plan_deployment().is_idle());
}

#[test]
fn a_strategy_that_no_rollout_can_follow_has_a_warning() {
    let mut world = World::new(rolling(1, 1, 0));
    world.edit(&json!({"spec": {"strategy": {"type": "Sideways"}}}));
    assert_eq!(event_lines(&world.plan_deployment()), ["Warning Once InvalidStrategy: unexpected deployment strategy type: Sideways"]);
    world.edit(&json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "some"}}}}));
    let text = "Warning Once InvalidStrategy: limit of the rolling update: \"some\" is neither a number nor a percentage";
    assert_eq!(event_lines(&world.plan_deployment()), [text]);
    assert!(world.plan_deployment().is_idle());
}

#[test]
fn a_rollback_that_changes_nothing_ends_the_request_and_reports_why() {
    let mut world = World::new(rolling(1, 1, 0));
    run(&mut world);
    let mut ask = |revision: &str| {
        world.edit(&json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": revision}}}));
        let plan = world.plan_deployment();
        let before = world.deployment.json["spec"]["template"].clone();
        let Action::Patch { events, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
        let event = events.success.as_ref().expect("an event");
        let event_lines = format!("{:?} {}: {}", event.severity, event.reason, event.message);
        assert_eq!(world.carry_out(plan, usize::MAX), 1);
        assert_eq!(world.deployment.json["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "1"}));
        assert_eq!(world.deployment.json["spec"]["template"], before);
        event_lines
    };
    assert_eq!(ask("0"), "Warning DeploymentRollbackRevisionNotFound: Unable to find last revision.");
    assert_eq!(ask("7"), "Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.");
    let same =
        "Warning DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment \"web\"";
    assert_eq!(ask("1"), same);
}

#[test]
fn a_set_that_could_not_be_created_is_reported_before_its_create_is_retried() {
    let mut world = World::new(rolling(1, 1, 0));
    let failure = |plan: &Plan| match &plan.stages[0].actions[0] {
        Action::Create { events, .. } => {
            events.failure.as_ref().map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message))
        }
        other => panic!("{other}"),
    };
    let first = failure(&world.plan_deployment()).expect("an event");
    let name = first.split('"').nth(1).expect("a name").to_owned();
    assert_eq!(first, format!("Warning ReplicaSetCreateError: Failed to create new replica set \"{name}\": "));
    world.last_error = Some("exceeded quota: q".to_owned());
    let plan = world.plan_deployment();
    assert!(
        matches!(plan.stages[0].actions[..], [Action::Patch { .. }]) && matches!(plan.stages[1].actions[..], [Action::Create { .. }]),
        "{plan}"
    );
    world.carry_out(plan, usize::MAX);
    let progressing = world.deployment_view().status.conditions.unwrap_or_default().pop().expect("a condition");
    assert_eq!((progressing.status.as_str(), progressing.reason.as_deref()), ("False", Some("ReplicaSetCreateError")));
    assert_eq!(progressing.message, Some(format!("Failed to create new replica set \"{name}\": exceeded quota: q")));
    assert!(world.sets.contains_key(&name));
}

#[test]
fn a_new_set_takes_over_what_concerns_it_and_is_counted_from_its_revision() {
    let mut spec = rolling(3, 1, 0);
    spec["minReadySeconds"] = json!(7);
    let mut world = World::new(spec);
    let annotations = json!({"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}", "berth.dev/deleted-pod-replacement-policy": "TerminationComplete"});
    world.edit(&json!({"metadata": {"annotations": annotations}}));
    act(&mut world);
    let annotations = |world: &World| world.sets.values().next().expect("a set").json["metadata"]["annotations"].clone();
    let of_set = json!({
        "team": "a", "berth.dev/deleted-pod-replacement-policy": "TerminationComplete", "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
    });
    assert_eq!(annotations(&world), of_set);
    let set = world.sets.values().next().expect("a set").json.clone();
    assert_eq!((&set["spec"]["minReadySeconds"], &set["spec"]["replicas"]), (&json!(7), &json!(3)));
    assert_eq!(set["metadata"]["namespace"], "shop");
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(
        (&set["spec"]["selector"]["matchLabels"]["pod-template-hash"], &set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"]),
        (hash, hash)
    );
    assert_eq!(set["metadata"]["name"].as_str(), hash.as_str().map(|hash| format!("web-{hash}")).as_deref());
    world.edit(&json!({"metadata": {"annotations": {"team": "b", "berth.dev/deleted-pod-replacement-policy": null}}, "spec": {"minReadySeconds": 9}}));
    act(&mut world);
    assert_eq!(
        (&annotations(&world)["team"], &annotations(&world)["berth.dev/deleted-pod-replacement-policy"]),
        (&json!("b"), &json!(null))
    );
    assert_eq!(world.sets.values().next().expect("a set").json["spec"]["minReadySeconds"], 9);
}

#[test]
fn a_sets_failure_is_the_deployments_until_it_is_over() {
    let mut world = World::new(rolling(1, 1, 0));
    act(&mut world);
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q", "lastTransitionTime": "1970-01-01T00:00:05Z"});
    let set = world.sets.values_mut().next().expect("a set");
    set.json["status"] = json!({"observedGeneration": 1, "conditions": [failure]});
    act(&mut world);
    let of_deployment = |world: &World| {
        let conditions = world.deployment.json["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "ReplicaFailure")
    };
    let mut wanted = failure.clone();
    wanted["lastUpdateTime"] = failure["lastTransitionTime"].clone();
    assert_eq!(of_deployment(&world), Some(wanted));
    assert_eq!(act(&mut world), 0);
    world.sets.values_mut().next().expect("a set").json["status"]["conditions"] = json!([]);
    act(&mut world);
    assert_eq!(of_deployment(&world), None);
}

#[test]
fn lasting_waits_are_events_of_the_deployment() {
    let world = World::new(rolling(1, 1, 0));
    let event_lines = |wait: Wait| {
        let event = deployment::wait_event(&world.deployment_view(), &wait)?;
        Some(format!("{:?} {}: {}", event.severity, event.reason, event.message))
    };
    let text = "Normal WaitingForAvailablePods: waiting for 1 of 3 pods to become available";
    assert_eq!(event_lines(Wait::PodsUnavailable { pods: 1, of: 3 }).as_deref(), Some(text));
    assert_eq!(event_lines(Wait::ChildNotObserved { name: "web-1".to_owned() }), None);
}

#[test]
fn a_deployment_that_goes_adopts_nothing_and_one_that_stays_no_set_that_goes() {
    let orphaned = |deployment_goes: bool, set_goes: bool| {
        let mut world = World::new(rolling(1, 1, 0));
        act(&mut world);
        let set = world.sets.values_mut().next().expect("a set");
        set.json["metadata"]["ownerReferences"] = json!([]);
        let since = json!("2026-01-01T00:00:00Z");
        if set_goes {
            set.json["metadata"]["deletionTimestamp"] = since.clone();
        }
        if deployment_goes {
            world.deployment.json["metadata"]["deletionTimestamp"] = since;
        }
        matches!(world.plan_deployment().stages.first().map(|stage| &stage.actions[..]), Some([Action::ConfirmAlive { .. }]))
    };
    assert_eq!([orphaned(false, false), orphaned(true, false), orphaned(false, true)], [true, false, false]);
}

/// One event in a model cluster.
#[derive(Clone, Debug)]
enum Step {
    /// The Deployment controller acts, and crashes after so many writes.
    Deployment(usize),
    /// The ReplicaSet controller acts on one set.
    Set(usize),
    /// A pod becomes ready.
    Ready(usize),
    /// A terminating pod is deleted.
    Gone(usize),
    /// The user sets another size.
    Scale(i64),
    /// The user sets another template.
    Template(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0_usize..4).prop_map(|limit| Step::Deployment(if limit == 3 { usize::MAX } else { limit })),
        5 => (0_usize..5).prop_map(Step::Set),
        4 => (0_usize..30).prop_map(Step::Ready),
        4 => (0_usize..30).prop_map(Step::Gone),
        1 => (0_i64..12).prop_map(Step::Scale),
        1 => (1_u32..5).prop_map(Step::Template),
    ]
}

fn take(world: &mut World, step: &Step) {
    match step {
        Step::Deployment(limit) => {
            let plan = world.plan_deployment();
            world.carry_out(plan, *limit);
        }
        Step::Set(index) => {
            let views = world.set_views();
            if let Some(set) = views.get(index % views.len().max(1)) {
                let plan = world.plan_set(set);
                world.carry_out(plan, usize::MAX);
            }
        }
        Step::Ready(index) => {
            let now = world.now;
            let count = world.pods.len().max(1);
            if let Some(pod) = world.pods.get_mut(index % count) {
                (pod.ready, pod.ready_since) = (true, Some(now));
            }
        }
        Step::Gone(index) => {
            let terminating: Vec<_> = (0..world.pods.len()).filter(|&at| world.pods[at].meta.deleted.is_some()).collect();
            if let Some(&at) = terminating.get(index % terminating.len().max(1)) {
                world.pods.remove(at);
            }
        }
        Step::Scale(replicas) => world.edit(&json!({"spec": {"replicas": replicas}})),
        Step::Template(number) => world.edit(&json!({"spec": {"template": template(*number)}})),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any order of events, no write of the Deployment controller uses more pods than allowed, and the existing pods never exceed the
    /// limit while it does not change.
    #[test]
    fn termination_complete_never_has_too_many_pods(
        replicas in 0_i64..10, surge in 0_i64..4, unavailable in 1_i64..4, is_recreate in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..80), patience in 0_u32..4,
    ) {
        let spec = if is_recreate { recreate(replicas) } else { rolling(replicas, surge, unavailable) };
        let mut world = World::new(with_policy(spec, "TerminationComplete"));
        world.patience = Patience::of(patience);
        let surge = if is_recreate { 0 } else { surge };
        let mut highest = replicas + surge;
        for step in &steps {
            let before = world.in_use();
            take(&mut world, step);
            if let Step::Scale(replicas) = step {
                highest = highest.max(replicas + surge);
            }
            let desired = world.deployment.json["spec"]["replicas"].as_i64().expect("a size");
            if matches!(step, Step::Deployment(_)) {
                prop_assert!(world.in_use() <= before.max(desired + surge), "{step:?}: {} in use, before {before}, {desired}+{surge}", world.in_use());
            }
            prop_assert!(world.pods_there() <= highest, "{step:?}: {} pods, limit {highest}", world.pods_there());
        }
    }

    /// Without the policy, terminating pods do not count. The sizes of all sets together still respect the limit at every write, and the
    /// active pods do at every moment.
    #[test]
    fn sizes_and_pods_that_stay_never_pass_the_limit(
        replicas in 0_i64..10, surge in 0_i64..4, unavailable in 1_i64..4, is_recreate in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..80), patience in 0_u32..4,
    ) {
        let spec = if is_recreate { recreate(replicas) } else { rolling(replicas, surge, unavailable) };
        let surge = if is_recreate { 0 } else { surge };
        let (mut world, mut highest) = (World::new(spec), replicas + surge);
        world.patience = Patience::of(patience);
        for step in &steps {
            if let Step::Scale(replicas) = step {
                highest = highest.max(replicas + surge);
            }
            let stay = |world: &World| i64::try_from(world.pods.iter().filter(|pod| pod.is_active()).count()).expect("few pods");
            let stayed = stay(&world);
            let before: i64 = world.sizes().values().sum();
            take(&mut world, step);
            let after: i64 = world.sizes().values().sum();
            let desired = world.deployment.json["spec"]["replicas"].as_i64().expect("a size");
            if matches!(step, Step::Deployment(_)) {
                prop_assert!(after <= before.max(desired + surge), "{step:?}: {after}, before {before}, {desired}+{surge}");
            }
            prop_assert!(stay(&world) <= stayed.max(highest), "{step:?}: {} pods stay, limit {highest}", stay(&world));
        }
    }

    /// From any state, the controllers converge to the right number of pods of the right template.
    #[test]
    fn every_cluster_converges_to_complete_rollouts(
        replicas in 0_i64..10, surge in 0_i64..4, unavailable in 1_i64..4, is_recreate in any::<bool>(),
        policy in prop_oneof![Just(None), Just(Some("TerminationStarted")), Just(Some("TerminationComplete"))],
        steps in proptest::collection::vec(step(), 0..60), patience in 0_u32..4,
    ) {
        let mut spec = if is_recreate { recreate(replicas) } else { rolling(replicas, surge, unavailable) };
        spec["podReplacementPolicy"] = json!(policy);
        let mut world = World::new(spec);
        world.patience = Patience::of(patience);
        steps.iter().for_each(|step| take(&mut world, step));
        run(&mut world);
        let desired = world.deployment.json["spec"]["replicas"].as_i64().expect("a size");
        prop_assert_eq!(world.pods_there(), desired);
        prop_assert_eq!(world.sizes().values().sum::<i64>(), desired);
        prop_assert_eq!(world.deployment_view().status.updated_replicas, i32::try_from(desired).expect("few"));
        prop_assert_eq!(condition(&world, "Progressing").1, "NewReplicaSetAvailable");
        prop_assert!(world.sets.values().all(|set| set.json["metadata"]["annotations"]["deployment.kubernetes.io/replicaset-replicas-before-scale"].is_null()));
    }

    /// Planning is a function: the same state results in the same plan.
    #[test]
    fn planning_twice_gives_the_same(replicas in 0_i64..10, steps in proptest::collection::vec(step(), 0..40)) {
        let mut world = World::new(with_policy(rolling(replicas, 2, 1), "TerminationComplete"));
        steps.iter().for_each(|step| take(&mut world, step));
        prop_assert_eq!(format!("{:?}", world.plan_deployment()), format!("{:?}", world.plan_deployment()));
    }

    /// A scaling distributed over several sets ends at the same sizes, whatever the order of deletions and interruptions.
    #[test]
    fn a_partial_scaling_ends_the_same_whatever_happens_on_the_way(
        sizes in proptest::collection::vec(1_i64..60, 2..5), more in 1_i64..60, terminating in 0_i64..40,
        passes in proptest::collection::vec((0_i64..12, 0_usize..6), 1..40),
    ) {
        use berth_workloads::deployment::{limits::Size, partial_scale::grow, scale::Scale};
        let total: i64 = sizes.iter().sum();
        let surge = 5;
        // The sets were sized for a Deployment that is full except for the terminating pods.
        let former = Size { desired: total + terminating - surge, surge, unavailable: 0, min_available: 0 };
        prop_assume!(former.desired > 0);
        let size = Size { desired: former.desired + more, ..former };
        let start: Vec<_> = sizes.iter().map(|&size| Scale { size, desired: Some(former.desired), max: Some(former.max()), before: None }).collect();
        let room = |sets: &[Scale], terminating: i64| (size.max() - sets.iter().map(|set| set.size).sum::<i64>() - terminating).max(0);
        let direct = grow(&start, size, total, room(&start, 0));
        let (mut sets, mut left) = (start, terminating);
        for (gone, written) in passes.into_iter().chain([(terminating, usize::MAX), (0, usize::MAX), (0, usize::MAX)]) {
            left = (left - gone).max(0);
            let open = room(&sets, left);
            let next = grow(&sets, size, total, open);
            let grown: i64 = next.iter().zip(&sets).map(|(next, set)| next.size - set.size).sum();
            let lacking = size.max() - sets.iter().map(|set| set.size).sum::<i64>();
            prop_assert_eq!(grown, open.min(lacking), "room is used up");
            for (set, next) in sets.iter_mut().zip(&next).take(written) {
                *set = *next;
            }
        }
        prop_assert_eq!(sets, direct);
    }

    /// Compares percentages with a floating-point formula, which is exact for such small numbers.
    #[test]
    fn percentages_round_up_for_surge_and_down_for_unavailable(replicas in 0_i32..=200, surge in 0_i32..=100, unavailable in 0_i32..=100) {
        use berth_workloads::deployment::limits::Limits;
        use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
        let percent = |number: i32| IntOrString::String(format!("{number}%"));
        let limits = Limits::resolve(Some(&percent(surge)), Some(&percent(unavailable)), replicas).expect("percentages");
        let share = |percent: i32| f64::from(replicas * percent) / 100.0;
        let (up, down) = (share(surge).ceil(), share(unavailable).floor());
        let down = if up == 0.0 && down == 0.0 { 1.0 } else { down };
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let found = (limits.surge as f64, limits.unavailable as f64);
        prop_assert_eq!(found, (up, down));
    }
}
