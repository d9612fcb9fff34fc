//! Creating, keeping and removing pods in order.

use super::world::{World, template};
use berth_identity::Generation;
use berth_workloads::{Action, stateful_set::REVISION_LABEL};
use serde_json::{Value, json};

fn parallel(replicas: u32) -> Value {
    json!({"replicas": replicas, "podManagementPolicy": "Parallel"})
}

#[test]
fn a_new_set_gets_its_pods_one_by_one() {
    let mut world = World::new(&json!({"replicas": 3}));
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.revisions.len()), ("web-0=1", 1));
    assert_eq!(world.look(usize::MAX), 1, "the status only");
    assert_eq!(world.waits(), ["waiting for web-0 to become ready before web-1 is created"]);
    world.start("web-0");
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1");
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=1");
    let status = world.view().status;
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas), (3, 3, 3, 3));
    assert_eq!((status.current_revision == status.update_revision, status.collision_count), (true, Some(0)));
    assert_eq!(world.look(usize::MAX), 0);
}

#[test]
fn pods_carry_their_identity() {
    let mut world = World::new(&json!({"ordinals": {"start": 7}, "template": {
        "metadata": {"annotations": {"note": "x"}, "finalizers": ["example.com/hold"]}, "spec": {"volumes": [{"name": "data"}, {"name": "tmp"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}));
    world.look(usize::MAX);
    let pod = &world.pods["web-7"].json;
    let revision = world.revisions.keys().next().expect("a revision");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7", REVISION_LABEL: revision})
    );
    let metadata = ["generateName", "namespace", "annotations", "finalizers"].map(|field| &pod["metadata"][field]);
    assert_eq!(metadata, [&json!("web-"), &json!("shop"), &json!({"note": "x"}), &json!(["example.com/hold"])]);
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-7"), &json!("web")));
    let volumes: Vec<_> = pod["spec"]["volumes"].as_array().expect("volumes").iter().map(|volume| volume["name"].as_str()).collect();
    assert_eq!(
        (volumes, &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]),
        (vec![Some("data"), Some("tmp")], &json!("data-web-7"))
    );
    let owners = pod["metadata"]["ownerReferences"].as_array().expect("owners");
    assert_eq!((owners.len(), &owners[0]["controller"], &owners[0]["blockOwnerDeletion"]), (1, &json!(true), &json!(true)));
}

#[test]
fn a_parallel_set_gets_its_pods_at_once_and_waits_for_none() {
    let mut world = World::new(&parallel(700));
    world.look(usize::MAX);
    assert_eq!(world.pods.len(), 500, "a look's burst");
    world.look(usize::MAX);
    assert_eq!(world.pods.len(), 700);
    world.edit(&json!({"spec": {"replicas": 2}}));
    world.look(usize::MAX);
    assert_eq!(world.names().iter().filter(|name| !world.is_going(name)).count(), 2);
}

#[test]
fn batches_grow_so_that_a_full_quota_is_met_by_few() {
    let world = World::new(&parallel(9));
    let stages: Vec<_> = world.plan().stages.iter().map(|stage| stage.actions.len()).collect();
    assert_eq!(stages, [1, 2, 2, 4, 2], "the revision; one pod and the status; two, four and two pods");
}

#[test]
fn the_start_moves_both_ends() {
    let mut world = World::new(&json!({"replicas": 2}));
    world.settle();
    world.edit(&json!({"spec": {"ordinals": {"start": 1}}}));
    world.settle();
    assert_eq!(world.short(), "web-1=1 web-2=1");
    world.edit(&json!({"spec": {"ordinals": {"start": 0}}}));
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1");
}

#[test]
fn scaling_down_takes_the_highest_and_waits_for_unhealthy_lower_pods() {
    let mut world = World::new(&json!({"replicas": 4}));
    world.settle();
    world.edit(&json!({"spec": {"replicas": 1}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=1 web-3=1~");
    assert_eq!(world.waits(), ["waiting for web-3 to terminate (web-3 has 30s of its 30s grace left) before web-2 is deleted"]);
    world.gone("web-3");
    world.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=1");
    assert_eq!(world.waits(), ["waiting for web-0 to become ready before web-2 is deleted"]);
    world.settle();
    assert_eq!(world.short(), "web-0=1");
}

#[test]
fn a_condemned_pod_that_is_not_available_yet_goes_at_once() {
    // kubernetes#123918
    let mut world = World::new(&json!({"replicas": 2, "minReadySeconds": 30}));
    world.look(usize::MAX);
    world.pass();
    world.look(usize::MAX);
    world.start("web-1");
    world.edit(&json!({"spec": {"replicas": 1}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1~");
}

#[test]
fn of_several_condemned_the_lowest_that_is_not_ready_may_go_first() {
    let mut world = World::new(&json!({"replicas": 3}));
    world.settle();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.edit(&json!({"spec": {"replicas": 1}}));
    world.edit_pod("web-1", &unready);
    world.edit_pod("web-2", &unready);
    assert_eq!(world.waits(), ["waiting for web-2 to become ready before web-2 is deleted"]);
}

#[test]
fn min_ready_seconds_holds_the_next_pod() {
    let mut world = World::new(&json!({"replicas": 2, "minReadySeconds": 30}));
    world.look(usize::MAX);
    world.start("web-0");
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1");
    assert_eq!(world.waits(), ["waiting for web-0 to stay ready for minReadySeconds before web-1 is created"]);
    assert_eq!(world.plan().look_again, Some(world.now + jiff::SignedDuration::from_secs(30)));
    assert_eq!((world.view().status.ready_replicas, world.view().status.available_replicas), (1, 0));
    world.now += jiff::SignedDuration::from_secs(30);
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.plan().look_again), ("web-0=1 web-1=1", None));
}

#[test]
fn pods_that_ran_to_their_end_are_replaced() {
    for (policy, phase) in [("OrderedReady", "Failed"), ("OrderedReady", "Succeeded"), ("Parallel", "Failed")] {
        let mut world = World::new(&json!({"podManagementPolicy": policy}));
        world.settle();
        let uid = world.pods["web-1"].json["metadata"]["uid"].clone();
        world.edit_pod("web-1", &json!({"status": {"phase": phase}}));
        world.look(usize::MAX);
        assert_eq!(world.short(), "web-0=1 web-1=1~", "{policy} {phase}");
        world.look(usize::MAX);
        let told = world.events.iter().filter(|(reason, _)| reason == "SuccessfulDelete").count();
        assert_eq!((world.look(usize::MAX), told), (0, 1), "it is told to go once: kubernetes#122709");
        world.settle();
        assert_ne!(world.pods["web-1"].json["metadata"]["uid"], uid);
    }
}

#[test]
fn orphans_are_adopted_by_name_and_labels_and_strays_released() {
    let mut world = World::new(&json!({"replicas": 2}));
    world.settle();
    let orphan = json!({"metadata": {"ownerReferences": null}});
    world.edit_pod("web-0", &orphan);
    let stages = world.plan().stages;
    assert_eq!((stages.len(), stages[1].actions.len()), (2, 1), "it asks whether the set is still there first");
    world.settle();
    assert!(world.pods["web-0"].json["metadata"]["ownerReferences"].is_array());
    world.edit_pod("web-0", &json!({"metadata": {"labels": {"app": "other"}}}));
    world.look(usize::MAX);
    assert!(world.pods["web-0"].json["metadata"]["ownerReferences"].is_null(), "released");
    assert!(!world.selects(&json!({"app": "other"})));
    assert_eq!(world.waits(), ["waiting for pod web-0 of another owner to be deleted before web-0 is created"]);
    world.edit_pod("web-0", &json!({"metadata": {"labels": {"app": "web"}}}));
    world.settle();
    assert_eq!(world.waits(), [""; 0]);
}

#[test]
fn an_identity_that_was_lost_is_put_right() {
    for spec in [json!({"replicas": 2}), parallel(2)] {
        let mut world = World::new(&spec);
        world.settle();
        world.edit_pod(
            "web-1",
            &json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null, "apps.kubernetes.io/pod-index": "9"}}}),
        );
        world.settle();
        let labels = &world.pods["web-1"].json["metadata"]["labels"];
        assert_eq!(
            (&labels["statefulset.kubernetes.io/pod-name"], &labels["apps.kubernetes.io/pod-index"]),
            (&json!("web-1"), &json!("1"))
        );
    }
}

#[test]
fn a_set_that_is_being_deleted_only_counts() {
    let mut world = World::new(&json!({"replicas": 2}));
    world.settle();
    world.edit(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"replicas": 5, "template": template(2)}}));
    world.delete_pod("web-1");
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.revisions.len()), ("web-0=1 web-1=1~", 1));
    assert_eq!(world.view().status.observed_generation, Generation(2));
}

/// Of each write of the set's status that is planned now: whether it is written at once.
fn urgent(world: &World) -> Vec<bool> {
    let plan = world.plan();
    let is_status = |action: &&Action| matches!(action, Action::Patch { target, .. } if target.resource.plural == "statefulsets");
    plan.stages.iter().flat_map(|stage| &stage.actions).filter(is_status).map(|action| !action.may_wait()).collect()
}

#[test]
fn a_status_that_only_counts_may_wait_until_all_pods_are_there() {
    let mut world = World::new(&json!({"replicas": 2})).with_gates("StatefulSetRecreateStrategy=false");
    assert_eq!(urgent(&world), [true], "the revision");
    world.look(usize::MAX);
    assert_eq!(urgent(&world), [false], "one of two");
    world.look(usize::MAX);
    world.start("web-0");
    world.look(usize::MAX);
    assert_eq!(urgent(&world), [false], "two, of which one is ready");
    world.look(usize::MAX);
    world.start("web-1");
    assert_eq!(urgent(&world), [true]);
    world.look(usize::MAX);
    assert_eq!(urgent(&world), [true; 0]);
}

#[test]
fn conditions_stay_as_they_are_where_their_gate_is_off() {
    let mut world = World::new(&json!({"replicas": 1}));
    world.settle();
    let mut world = world.with_gates("StatefulSetRecreateStrategy=false");
    assert_eq!((world.look(usize::MAX), world.condition("Available").0.as_str()), (0, "True"));
}
