//! States that automatic rollback must not mistake for a failure or for a rollback: reconciles of a model cluster between two writes.

use crate::cluster_model::{ClusterModel, template};
use berth_workloads::{
    Action,
    plan::Reason,
    view::{ContainerSymptom, ReasonMessage, Symptoms},
};
use jiff::SignedDuration;
use serde_json::{Value, json};

const KEY: &str = "berth.dev/auto-rollback";

fn image(template: &Value) -> &str {
    template["spec"]["containers"][0]["image"].as_str().expect("an image")
}

/// All other components: pods of image `web:1` become ready, and all others cannot pull.
fn others(model: &mut ClusterModel) {
    model.settle_sets();
    let good: Vec<String> =
        model.sets.values().filter(|set| image(&set.json["spec"]["template"]) == "web:1").map(|set| uid(&set.json)).collect();
    for pod in &mut model.pods {
        let is_good = pod.meta.controller().is_some_and(|owner| good.iter().any(|uid| **uid == *owner.uid));
        let waiting = Some(ReasonMessage { reason: "ImagePullBackOff".to_owned(), message: "no such image".to_owned() });
        let container = ContainerSymptom { waiting, ..ContainerSymptom::default() };
        pod.symptoms = (!is_good).then(|| Box::new(Symptoms { containers: vec![container], ..Symptoms::default() }));
        pod.ready = is_good && pod.is_active();
        pod.ready_since = pod.ready.then_some(model.now);
    }
    model.gone_all();
    model.settle_sets();
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// Runs until only waits remain.
fn settle(model: &mut ClusterModel) {
    for _ in 0..100 {
        let plan = model.plan_deployment();
        let acted = model.execute(plan, usize::MAX);
        others(model);
        if acted == 0 {
            return;
        }
    }
    panic!("no end: {:?}", model.plan_deployment());
}

/// Template 1 is complete, and template 2 has missed its deadline, which the status reports. The rollback has not happened yet.
fn failed() -> ClusterModel {
    let mut model = ClusterModel::new(json!({
        "replicas": 3, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    }));
    model.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}}));
    settle(&mut model);
    // Its pods stay available for long enough.
    model.now += SignedDuration::from_secs(10);
    settle(&mut model);
    model.edit(&json!({"metadata": {"annotations": {KEY: null}}, "spec": {"template": template(2)}}));
    settle(&mut model);
    model.now = model.plan_deployment().requeue_at.expect("a deadline to watch");
    settle(&mut model);
    assert_eq!(progressing(&model), "ProgressDeadlineExceeded");
    model
}

fn progressing(model: &ClusterModel) -> String {
    let conditions = model.deployment_view().status.conditions.unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == "Progressing").and_then(|condition| condition.reason).unwrap_or_default()
}

/// Whether the next reconcile rolls back.
fn goes_back(model: &ClusterModel) -> bool {
    let plan = model.plan_deployment();
    let mut actions = plan.stages.iter().flat_map(|stage| &stage.actions);
    actions.any(|action| matches!(action, Action::Patch { reason: Reason::AutomaticRollback { .. }, .. }))
}

#[test]
fn a_failed_template_is_rolled_back_as_soon_as_the_annotation_requests_it() {
    let mut model = failed();
    assert!(!goes_back(&model));
    model.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}}));
    assert!(goes_back(&model));
}

/// The status may still be about the rollout before, if the controller crashed after the first write of the next.
#[test]
fn the_missed_deadline_of_another_template_is_none_of_this_one() {
    let mut model = failed();
    model.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}, "spec": {"template": template(3)}}));
    while !model.sets.values().any(|set| image(&set.json["spec"]["template"]) == "web:3" && set.json["spec"]["replicas"] != 0) {
        let plan = model.plan_deployment();
        assert_ne!(model.execute(plan, 1), 0, "the new template's set is to come");
        others(&mut model);
        assert_eq!(progressing(&model), "ProgressDeadlineExceeded", "nothing is written of the new rollout yet");
        assert!(!goes_back(&model));
    }
}
