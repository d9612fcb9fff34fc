//! States that automatic rollback must not mistake for a failure or for a rollback: reconciles of a model cluster between two writes.

use crate::world::{World, template};
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
fn others(world: &mut World) {
    world.settle_sets();
    let good: Vec<String> =
        world.sets.values().filter(|set| image(&set.json["spec"]["template"]) == "web:1").map(|set| uid(&set.json)).collect();
    for pod in &mut world.pods {
        let is_good = pod.meta.controller().is_some_and(|owner| good.iter().any(|uid| **uid == *owner.uid));
        let waiting = Some(ReasonMessage { reason: "ImagePullBackOff".to_owned(), message: "no such image".to_owned() });
        let container = ContainerSymptom { waiting, ..ContainerSymptom::default() };
        pod.symptoms = (!is_good).then(|| Box::new(Symptoms { containers: vec![container], ..Symptoms::default() }));
        pod.ready = is_good && pod.is_active();
        pod.ready_since = pod.ready.then_some(world.now);
    }
    world.gone_all();
    world.settle_sets();
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// Runs until only waits remain.
fn settle(world: &mut World) {
    for _ in 0..100 {
        let plan = world.plan_deployment();
        let acted = world.carry_out(plan, usize::MAX);
        others(world);
        if acted == 0 {
            return;
        }
    }
    panic!("no end: {:?}", world.plan_deployment());
}

/// Template 1 is complete, and template 2 has missed its deadline, which the status reports. The rollback has not happened yet.
fn failed() -> World {
    let mut world = World::new(json!({
        "replicas": 3, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    }));
    world.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}}));
    settle(&mut world);
    // Its pods stay available for long enough.
    world.now += SignedDuration::from_secs(10);
    settle(&mut world);
    world.edit(&json!({"metadata": {"annotations": {KEY: null}}, "spec": {"template": template(2)}}));
    settle(&mut world);
    world.now = world.plan_deployment().look_again.expect("a deadline to watch");
    settle(&mut world);
    assert_eq!(progressing(&world), "ProgressDeadlineExceeded");
    world
}

fn progressing(world: &World) -> String {
    let conditions = world.deployment_view().status.conditions.unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == "Progressing").and_then(|condition| condition.reason).unwrap_or_default()
}

/// Whether the next reconcile rolls back.
fn goes_back(world: &World) -> bool {
    let plan = world.plan_deployment();
    let mut actions = plan.stages.iter().flat_map(|stage| &stage.actions);
    actions.any(|action| matches!(action, Action::Patch { reason: Reason::AutomaticRollback { .. }, .. }))
}

#[test]
fn a_failed_template_is_rolled_back_as_soon_as_the_annotation_requests_it() {
    let mut world = failed();
    assert!(!goes_back(&world));
    world.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}}));
    assert!(goes_back(&world));
}

/// The status may still be about the rollout before, if the controller crashed after the first write of the next.
#[test]
fn the_missed_deadline_of_another_template_is_none_of_this_one() {
    let mut world = failed();
    world.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}, "spec": {"template": template(3)}}));
    while !world.sets.values().any(|set| image(&set.json["spec"]["template"]) == "web:3" && set.json["spec"]["replicas"] != 0) {
        let plan = world.plan_deployment();
        assert_ne!(world.carry_out(plan, 1), 0, "the new template's set is to come");
        others(&mut world);
        assert_eq!(progressing(&world), "ProgressDeadlineExceeded", "nothing is written of the new rollout yet");
        assert!(!goes_back(&world));
    }
}
