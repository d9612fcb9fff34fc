//! The effects of plans in a model cluster: complete rollouts and scalings, and invariants of every step.

use crate::cluster_model::{ClusterModel, Patience, template};
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
fn run(model: &mut ClusterModel) {
    for _ in 0..200 {
        let acted = act(model);
        model.settle_sets();
        model.ready_all();
        model.gone_all();
        model.settle_sets();
        if acted == 0 && act(model) == 0 {
            return;
        }
    }
    panic!("no end: {:?}", model.plan_deployment());
}

fn act(model: &mut ClusterModel) -> usize {
    let plan = model.plan_deployment();
    model.execute(plan, usize::MAX)
}

fn messages(plan: &Plan) -> Vec<String> {
    let events = plan.stages.iter().flat_map(|stage| &stage.actions).filter_map(|action| match action {
        Action::Create { events, .. } | Action::Patch { events, .. } | Action::Delete { events, .. } => events.success.as_ref(),
        _ => None,
    });
    events.map(|event| event.message.clone()).collect()
}

fn waits(model: &ClusterModel) -> Vec<String> {
    model.plan_deployment().waits.iter().map(ToString::to_string).collect()
}

fn condition(model: &ClusterModel, type_: &str) -> (String, String) {
    let status = model.deployment_view().status;
    let conditions = status.conditions.unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition.type_ == type_).expect("the condition");
    (condition.status, condition.reason.unwrap_or_default())
}

#[test]
fn a_new_deployment_gets_its_pods_and_is_complete() {
    let mut model = ClusterModel::new(rolling(3, 1, 0));
    let first = model.plan_deployment();
    let name = model.execute(first, usize::MAX);
    assert_eq!(name, 2, "one set and the status");
    assert_eq!(model.deployment_view().status.unavailable_replicas, 3);
    run(&mut model);
    assert_eq!(model.sizes().values().copied().collect::<Vec<_>>(), [3]);
    assert_eq!(condition(&model, "Progressing"), ("True".to_owned(), "NewReplicaSetAvailable".to_owned()));
    assert_eq!(condition(&model, "Available"), ("True".to_owned(), "MinimumReplicasAvailable".to_owned()));
    assert_eq!(model.deployment.json["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
}

#[test]
fn a_created_set_is_reported_with_its_size() {
    let model = ClusterModel::new(rolling(3, 1, 0));
    let event_lines = messages(&model.plan_deployment());
    assert!(event_lines[0].starts_with("Scaled up replica set web-") && event_lines[0].ends_with(" from 0 to 3"), "{event_lines:?}");
    assert_eq!(messages(&ClusterModel::new(rolling(0, 1, 0)).plan_deployment()), [""; 0], "nothing is scaled");
}

#[test]
fn a_rollout_replaces_every_pod_and_keeps_the_old_set() {
    let mut model = ClusterModel::new(rolling(3, 1, 1));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    run(&mut model);
    let mut sizes: Vec<_> = model.sizes().into_values().collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 3]);
    assert_eq!(model.deployment.json["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
}

#[test]
fn termination_complete_holds_surge_until_pods_are_gone() {
    let mut model = ClusterModel::new(with_policy(rolling(3, 1, 1), "TerminationComplete"));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut model);
    model.settle_sets();
    model.ready_all();
    model.settle_sets();
    act(&mut model);
    model.settle_sets();
    let waiting = waits(&model);
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let (before, after) = waiting[0].split_once(" (web-").expect("an example");
    assert_eq!(before, "waiting for 2 terminating pods");
    assert!(after.ends_with(" has 30s of its 30s grace left) before creating 2 more"), "{after}");
    assert_eq!(model.plan_deployment().waits[0].metric_label(), "pods_terminating");
    run(&mut model);
    assert_eq!(waits(&model), [""; 0]);
}

#[test]
fn termination_complete_is_not_complete_before_the_last_pod_is_gone() {
    let mut model = ClusterModel::new(with_policy(rolling(1, 1, 0), "TerminationComplete"));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    for _ in 0..5 {
        act(&mut model);
        model.settle_sets();
        model.ready_all();
        model.settle_sets();
    }
    let waiting = waits(&model);
    assert!(waiting[0].starts_with("waiting for 1 terminating pod (web-"), "{waiting:?}");
    assert!(waiting[0].ends_with(") before the rollout is complete"), "{waiting:?}");
    model.gone_all();
    model.settle_sets();
    act(&mut model);
    assert_eq!(waits(&model), [""; 0]);
}

#[test]
fn recreate_creates_nothing_before_the_old_pods_are_gone() {
    let mut model = ClusterModel::new(recreate(3));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut model);
    assert!(waits(&model)[0].ends_with("to be observed"), "{:?}", waits(&model));
    model.settle_sets();
    assert_eq!(model.plan_deployment().waits[0].metric_label(), "pods_terminating");
    assert_eq!(model.sets.len(), 1);
    model.gone_all();
    model.settle_sets();
    act(&mut model);
    assert_eq!(model.sets.len(), 2);
}

#[test]
fn recreate_with_termination_started_waits_for_deletion_only() {
    let mut model = ClusterModel::new(with_policy(recreate(3), "TerminationStarted"));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut model);
    model.settle_sets();
    act(&mut model);
    assert_eq!(model.sets.len(), 2, "{:?}", waits(&model));
    assert_eq!(model.pods_there(), 3, "the old pods are still going");
}

#[test]
fn the_annotation_counts_where_the_field_is_unset() {
    let mut model = ClusterModel::new(recreate(1));
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/pod-replacement-policy": "TerminationStarted"}}}));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut model);
    model.settle_sets();
    act(&mut model);
    assert_eq!(model.sets.len(), 2);
}

#[test]
fn an_unknown_policy_in_the_annotation_is_reported() {
    let mut model = ClusterModel::new(recreate(1));
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/pod-replacement-policy": "Never"}}}));
    let events = model.plan_deployment().events;
    assert_eq!(events.iter().map(|event| &*event.reason).collect::<Vec<_>>(), ["InvalidAnnotation"]);
}

#[test]
fn a_paused_deployment_makes_no_set_but_scales() {
    let mut spec = rolling(3, 1, 0);
    spec["paused"] = json!(true);
    let mut model = ClusterModel::new(spec);
    act(&mut model);
    assert_eq!((model.sets.len(), condition(&model, "Progressing").1.as_str()), (0, "DeploymentPaused"));
    model.edit(&json!({"spec": {"paused": false}}));
    run(&mut model);
    model.edit(&json!({"spec": {"paused": true, "replicas": 5}}));
    run(&mut model);
    assert_eq!(model.sizes().into_values().collect::<Vec<_>>(), [5]);
}

#[test]
fn a_rollout_without_progress_times_out_and_is_requeued_in_time() {
    let mut model = ClusterModel::new(rolling(3, 1, 0));
    act(&mut model);
    model.settle_sets();
    act(&mut model);
    let requeue_at = model.plan_deployment().requeue_at.expect("a deadline to watch");
    model.now = requeue_at;
    act(&mut model);
    assert_eq!(condition(&model, "Progressing"), ("False".to_owned(), "ProgressDeadlineExceeded".to_owned()));
    run(&mut model);
    assert_eq!(condition(&model, "Progressing").1, "NewReplicaSetAvailable");
}

/// Upstream checks repeatedly, because its deadline has long passed.
#[test]
fn a_rollout_that_is_over_has_no_deadline_to_requeue_for() {
    let mut model = ClusterModel::new(rolling(3, 1, 0));
    run(&mut model);
    model.now += jiff::SignedDuration::from_secs(10_000);
    model.pods[0].ready = false;
    model.settle_sets();
    act(&mut model);
    assert_eq!(
        (model.deployment_view().status.available_replicas, condition(&model, "Progressing").1.as_str()),
        (2, "NewReplicaSetAvailable")
    );
    assert_eq!(model.plan_deployment().requeue_at, None);
    model.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut model);
    model.now = model.plan_deployment().requeue_at.expect("a deadline to watch");
    act(&mut model);
    assert_eq!(condition(&model, "Progressing").1, "ProgressDeadlineExceeded");
    assert_eq!(model.plan_deployment().requeue_at, None);
}

/// A client that waits for an undo must not get the failure of the former rollout.
#[test]
fn an_undo_begins_a_new_rollout_after_a_missed_deadline() {
    // This rollback neither makes a pod ready nor deletes one at once. Either would be progress.
    let mut model = ClusterModel::new(rolling(2, 2, 0));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    act(&mut model);
    model.settle_sets();
    act(&mut model);
    model.now = model.plan_deployment().requeue_at.expect("a deadline to watch");
    act(&mut model);
    assert_eq!(condition(&model, "Progressing").1, "ProgressDeadlineExceeded");
    model.edit(&json!({"spec": {"template": template(1)}}));
    let generation = model.deployment_view().meta.generation;
    while model.deployment_view().status.observed_generation != generation {
        assert_ne!(act(&mut model), 0);
    }
    assert_eq!(condition(&model, "Progressing").0, "True");
}

#[test]
fn a_name_that_is_taken_leads_to_another() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    act(&mut model);
    let (name, mut stranger) = model.sets.pop_first().expect("a set");
    stranger.json["metadata"]["ownerReferences"] = json!([]);
    stranger.json["metadata"]["labels"] = json!({"app": "other"});
    model.sets.insert(name.clone(), stranger);
    act(&mut model);
    assert_eq!(model.deployment_view().status.collision_count, Some(1));
    act(&mut model);
    assert_eq!(model.sets.len(), 2);
}

#[test]
fn a_matching_orphan_is_adopted_and_a_stray_released() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    run(&mut model);
    let name = model.sets.keys().next().expect("a set").clone();
    let set = model.sets.get_mut(&name).expect("a set");
    set.json["metadata"]["labels"]["app"] = json!("other");
    assert_eq!(act(&mut model), 1);
    assert_eq!(model.sets[&name].json["metadata"]["ownerReferences"], Value::Null);
    model.sets.get_mut(&name).expect("a set").json["metadata"]["labels"]["app"] = json!("web");
    let plan = model.plan_deployment();
    assert!(matches!(plan.stages[0].actions[0], Action::ConfirmAlive { .. }));
    model.execute(plan, usize::MAX);
    assert_eq!(model.sets[&name].json["metadata"]["ownerReferences"][0]["uid"], "uid-web");
}

#[test]
fn a_rollback_takes_the_template_of_the_revision() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    run(&mut model);
    model.edit(&json!({"spec": {"template": template(2)}}));
    run(&mut model);
    model.edit(&json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}}));
    let plan = model.plan_deployment();
    assert_eq!(messages(&plan), ["Rolled back deployment \"web\" to revision 1"]);
    run(&mut model);
    assert_eq!(model.deployment.json["spec"]["template"], template(1));
    assert_eq!(model.deployment.json["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "3"}));
}

#[test]
fn surplus_revisions_are_deleted_when_the_rollout_is_complete() {
    let mut spec = rolling(1, 1, 0);
    spec["revisionHistoryLimit"] = json!(1);
    let mut model = ClusterModel::new(spec);
    for number in 2..6 {
        run(&mut model);
        model.edit(&json!({"spec": {"template": template(number)}}));
    }
    run(&mut model);
    assert_eq!(model.sets.len(), 2);
}

/// The symptoms of a pod whose container waits.
fn waits_for(reason: &str, message: &str) -> Option<Box<Symptoms>> {
    let waiting = Some(ReasonMessage { reason: reason.to_owned(), message: message.to_owned() });
    Some(Box::new(Symptoms { containers: vec![ContainerSymptom { waiting, ..ContainerSymptom::default() }], ..Symptoms::default() }))
}

#[test]
fn failing_pods_of_the_new_template_are_reported_once_for_each_cause() {
    let mut model = ClusterModel::new(rolling(2, 1, 0));
    act(&mut model);
    model.settle_sets();
    let event = |model: &ClusterModel| {
        let [event] = <[_; 1]>::try_from(model.plan_deployment().events).expect("one event");
        assert_eq!(event.reason, "NewPodsFailing");
        (event.message, event.repeat)
    };
    let (set, first) = (model.sets.keys().next().expect("a set").clone(), model.pods[0].meta.name.clone());
    let once = |kind: &str| Repeat::OncePer(format!("{set}/{kind}"));
    let said = |text: &str| format!("Pods of replica set \"{set}\" are failing: {text}");
    model.pods[1].symptoms = waits_for("CrashLoopBackOff", "back-off 10s");
    let crash = said(&format!("{} keeps crashing: CrashLoopBackOff: back-off 10s", model.pods[1].meta.name));
    assert_eq!(event(&model), (crash, once("crash")));
    model.pods[1].symptoms = waits_for("CrashLoopBackOff", "back-off 20s");
    assert_eq!(event(&model).1, once("crash"), "in other words the same");
    model.pods[0].symptoms = waits_for("ImagePullBackOff", "no such image");
    let image = said(&format!("{first} cannot pull its image: ImagePullBackOff: no such image"));
    assert_eq!(event(&model), (image, once("image_pull")), "it ranks first");
}

#[test]
fn pods_that_a_quota_refuses_are_reported() {
    let mut model = ClusterModel::new(rolling(2, 1, 0));
    act(&mut model);
    model.settle_sets();
    let set = model.sets.values_mut().next().expect("a set");
    set.json["status"]["replicas"] = json!(1);
    set.json["status"]["conditions"] =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}]);
    let name = model.sets.keys().next().expect("a set").clone();
    let wanted = format!("1 pod of ReplicaSet {name} is not created because of a quota: exceeded quota: q");
    assert_eq!(model.plan_deployment().events.last().map(|event| &event.message), Some(&wanted));
}

#[test]
fn a_deployment_being_deleted_only_reports() {
    let mut model = ClusterModel::new(rolling(3, 1, 0));
    model.deployment.json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    run(&mut model);
    assert_eq!((model.sets.len(), model.deployment_view().status.observed_generation), (0, Generation(1)));
}

#[test]
fn a_set_releases_and_replaces_a_pod_whose_labels_change() {
    let mut model = ClusterModel::new(rolling(2, 1, 0));
    run(&mut model);
    model.pods[0].meta.labels = model.pods[0].meta.labels.with("app", "debug");
    model.settle_sets();
    assert_eq!((model.pods.len(), model.pods[0].meta.owners.len()), (3, 0));
    model.pods[0].meta.labels = model.pods[0].meta.labels.with("app", "web");
    model.settle_sets();
    model.gone_all();
    assert_eq!(model.pods.len(), 2);
}

/// The warnings of a plan as text.
fn event_lines(plan: &Plan) -> Vec<String> {
    plan.events.iter().map(|event| format!("{:?} {:?} {}: {}", event.severity, event.repeat, event.reason, event.message)).collect()
}

#[test]
fn a_deployment_that_selects_everything_is_left_alone_and_has_a_warning() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    model.edit(&json!({"spec": {"selector": {"matchLabels": null}}}));
    let text = "Warning Once SelectingAll: This deployment is selecting all pods. A non-empty selector is required.";
    assert_eq!(event_lines(&model.plan_deployment()), [text]);
    assert_eq!(act(&mut model), 1, "only that it was looked at");
    assert_eq!((model.sets.len(), model.deployment.json["status"].clone()), (0, json!({"observedGeneration": 2})));
    assert!(model.plan_deployment().is_idle());
}

#[test]
fn a_strategy_that_no_rollout_can_follow_has_a_warning() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    model.edit(&json!({"spec": {"strategy": {"type": "Sideways"}}}));
    assert_eq!(event_lines(&model.plan_deployment()), ["Warning Once InvalidStrategy: unexpected deployment strategy type: Sideways"]);
    model.edit(&json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "some"}}}}));
    let text = "Warning Once InvalidStrategy: limit of the rolling update: \"some\" is neither a number nor a percentage";
    assert_eq!(event_lines(&model.plan_deployment()), [text]);
    assert!(model.plan_deployment().is_idle());
}

#[test]
fn a_rollback_that_changes_nothing_ends_the_request_and_reports_why() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    run(&mut model);
    let mut ask = |revision: &str| {
        model.edit(&json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": revision}}}));
        let plan = model.plan_deployment();
        let before = model.deployment.json["spec"]["template"].clone();
        let Action::Patch { events, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
        let event = events.success.as_ref().expect("an event");
        let event_lines = format!("{:?} {}: {}", event.severity, event.reason, event.message);
        assert_eq!(model.execute(plan, usize::MAX), 1);
        assert_eq!(model.deployment.json["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "1"}));
        assert_eq!(model.deployment.json["spec"]["template"], before);
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
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    let failure = |plan: &Plan| match &plan.stages[0].actions[0] {
        Action::Create { events, .. } => {
            events.failure.as_ref().map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message))
        }
        other => panic!("{other}"),
    };
    let first = failure(&model.plan_deployment()).expect("an event");
    let name = first.split('"').nth(1).expect("a name").to_owned();
    assert_eq!(first, format!("Warning ReplicaSetCreateError: Failed to create new replica set \"{name}\": "));
    model.last_error = Some("exceeded quota: q".to_owned());
    let plan = model.plan_deployment();
    assert!(
        matches!(plan.stages[0].actions[..], [Action::Patch { .. }]) && matches!(plan.stages[1].actions[..], [Action::Create { .. }]),
        "{plan}"
    );
    model.execute(plan, usize::MAX);
    let progressing = model.deployment_view().status.conditions.unwrap_or_default().pop().expect("a condition");
    assert_eq!((progressing.status.as_str(), progressing.reason.as_deref()), ("False", Some("ReplicaSetCreateError")));
    assert_eq!(progressing.message, Some(format!("Failed to create new replica set \"{name}\": exceeded quota: q")));
    assert!(model.sets.contains_key(&name));
}

#[test]
fn a_new_set_takes_over_what_concerns_it_and_is_counted_from_its_revision() {
    let mut spec = rolling(3, 1, 0);
    spec["minReadySeconds"] = json!(7);
    let mut model = ClusterModel::new(spec);
    let annotations = json!({"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}", "berth.dev/deleted-pod-replacement-policy": "TerminationComplete"});
    model.edit(&json!({"metadata": {"annotations": annotations}}));
    act(&mut model);
    let annotations = |model: &ClusterModel| model.sets.values().next().expect("a set").json["metadata"]["annotations"].clone();
    let of_set = json!({
        "team": "a", "berth.dev/deleted-pod-replacement-policy": "TerminationComplete", "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
    });
    assert_eq!(annotations(&model), of_set);
    let set = model.sets.values().next().expect("a set").json.clone();
    assert_eq!((&set["spec"]["minReadySeconds"], &set["spec"]["replicas"]), (&json!(7), &json!(3)));
    assert_eq!(set["metadata"]["namespace"], "shop");
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(
        (&set["spec"]["selector"]["matchLabels"]["pod-template-hash"], &set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"]),
        (hash, hash)
    );
    assert_eq!(set["metadata"]["name"].as_str(), hash.as_str().map(|hash| format!("web-{hash}")).as_deref());
    model.edit(&json!({"metadata": {"annotations": {"team": "b", "berth.dev/deleted-pod-replacement-policy": null}}, "spec": {"minReadySeconds": 9}}));
    act(&mut model);
    assert_eq!(
        (&annotations(&model)["team"], &annotations(&model)["berth.dev/deleted-pod-replacement-policy"]),
        (&json!("b"), &json!(null))
    );
    assert_eq!(model.sets.values().next().expect("a set").json["spec"]["minReadySeconds"], 9);
}

#[test]
fn a_sets_failure_is_the_deployments_until_it_is_over() {
    let mut model = ClusterModel::new(rolling(1, 1, 0));
    act(&mut model);
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q", "lastTransitionTime": "1970-01-01T00:00:05Z"});
    let set = model.sets.values_mut().next().expect("a set");
    set.json["status"] = json!({"observedGeneration": 1, "conditions": [failure]});
    act(&mut model);
    let of_deployment = |model: &ClusterModel| {
        let conditions = model.deployment.json["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "ReplicaFailure")
    };
    let mut wanted = failure.clone();
    wanted["lastUpdateTime"] = failure["lastTransitionTime"].clone();
    assert_eq!(of_deployment(&model), Some(wanted));
    assert_eq!(act(&mut model), 0);
    model.sets.values_mut().next().expect("a set").json["status"]["conditions"] = json!([]);
    act(&mut model);
    assert_eq!(of_deployment(&model), None);
}

#[test]
fn lasting_waits_are_events_of_the_deployment() {
    let model = ClusterModel::new(rolling(1, 1, 0));
    let event_lines = |wait: Wait| {
        let event = deployment::wait_event(&model.deployment_view(), &wait)?;
        Some(format!("{:?} {}: {}", event.severity, event.reason, event.message))
    };
    let text = "Normal WaitingForAvailablePods: waiting for 1 of 3 pods to become available";
    assert_eq!(event_lines(Wait::PodsUnavailable { pods: 1, of: 3 }).as_deref(), Some(text));
    assert_eq!(event_lines(Wait::ChildNotObserved { name: "web-1".to_owned() }), None);
}

#[test]
fn a_deployment_that_goes_adopts_nothing_and_one_that_stays_no_set_that_goes() {
    let orphaned = |deployment_goes: bool, set_goes: bool| {
        let mut model = ClusterModel::new(rolling(1, 1, 0));
        act(&mut model);
        let set = model.sets.values_mut().next().expect("a set");
        set.json["metadata"]["ownerReferences"] = json!([]);
        let since = json!("2026-01-01T00:00:00Z");
        if set_goes {
            set.json["metadata"]["deletionTimestamp"] = since.clone();
        }
        if deployment_goes {
            model.deployment.json["metadata"]["deletionTimestamp"] = since;
        }
        matches!(model.plan_deployment().stages.first().map(|stage| &stage.actions[..]), Some([Action::ConfirmAlive { .. }]))
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

fn take(model: &mut ClusterModel, step: &Step) {
    match step {
        Step::Deployment(limit) => {
            let plan = model.plan_deployment();
            model.execute(plan, *limit);
        }
        Step::Set(index) => {
            let views = model.set_views();
            if let Some(set) = views.get(index % views.len().max(1)) {
                let plan = model.plan_set(set);
                model.execute(plan, usize::MAX);
            }
        }
        Step::Ready(index) => {
            let now = model.now;
            let count = model.pods.len().max(1);
            if let Some(pod) = model.pods.get_mut(index % count) {
                (pod.ready, pod.ready_since) = (true, Some(now));
            }
        }
        Step::Gone(index) => {
            let terminating: Vec<_> = (0..model.pods.len()).filter(|&at| model.pods[at].meta.deleted.is_some()).collect();
            if let Some(&at) = terminating.get(index % terminating.len().max(1)) {
                model.pods.remove(at);
            }
        }
        Step::Scale(replicas) => model.edit(&json!({"spec": {"replicas": replicas}})),
        Step::Template(number) => model.edit(&json!({"spec": {"template": template(*number)}})),
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
        let mut model = ClusterModel::new(with_policy(spec, "TerminationComplete"));
        model.patience = Patience::of(patience);
        let surge = if is_recreate { 0 } else { surge };
        let mut highest = replicas + surge;
        for step in &steps {
            let before = model.in_use();
            take(&mut model, step);
            if let Step::Scale(replicas) = step {
                highest = highest.max(replicas + surge);
            }
            let desired = model.deployment.json["spec"]["replicas"].as_i64().expect("a size");
            if matches!(step, Step::Deployment(_)) {
                prop_assert!(model.in_use() <= before.max(desired + surge), "{step:?}: {} in use, before {before}, {desired}+{surge}", model.in_use());
            }
            prop_assert!(model.pods_there() <= highest, "{step:?}: {} pods, limit {highest}", model.pods_there());
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
        let (mut model, mut highest) = (ClusterModel::new(spec), replicas + surge);
        model.patience = Patience::of(patience);
        for step in &steps {
            if let Step::Scale(replicas) = step {
                highest = highest.max(replicas + surge);
            }
            let stay = |model: &ClusterModel| i64::try_from(model.pods.iter().filter(|pod| pod.is_active()).count()).expect("few pods");
            let stayed = stay(&model);
            let before: i64 = model.sizes().values().sum();
            take(&mut model, step);
            let after: i64 = model.sizes().values().sum();
            let desired = model.deployment.json["spec"]["replicas"].as_i64().expect("a size");
            if matches!(step, Step::Deployment(_)) {
                prop_assert!(after <= before.max(desired + surge), "{step:?}: {after}, before {before}, {desired}+{surge}");
            }
            prop_assert!(stay(&model) <= stayed.max(highest), "{step:?}: {} pods stay, limit {highest}", stay(&model));
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
        let mut model = ClusterModel::new(spec);
        model.patience = Patience::of(patience);
        steps.iter().for_each(|step| take(&mut model, step));
        run(&mut model);
        let desired = model.deployment.json["spec"]["replicas"].as_i64().expect("a size");
        prop_assert_eq!(model.pods_there(), desired);
        prop_assert_eq!(model.sizes().values().sum::<i64>(), desired);
        prop_assert_eq!(model.deployment_view().status.updated_replicas, i32::try_from(desired).expect("few"));
        prop_assert_eq!(condition(&model, "Progressing").1, "NewReplicaSetAvailable");
        prop_assert!(model.sets.values().all(|set| set.json["metadata"]["annotations"]["deployment.kubernetes.io/replicaset-replicas-before-scale"].is_null()));
    }

    /// Planning is a function: the same state results in the same plan.
    #[test]
    fn planning_twice_gives_the_same(replicas in 0_i64..10, steps in proptest::collection::vec(step(), 0..40)) {
        let mut model = ClusterModel::new(with_policy(rolling(replicas, 2, 1), "TerminationComplete"));
        steps.iter().for_each(|step| take(&mut model, step));
        prop_assert_eq!(format!("{:?}", model.plan_deployment()), format!("{:?}", model.plan_deployment()));
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
