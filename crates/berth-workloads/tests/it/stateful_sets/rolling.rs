//! Rolling updates, partitions, budgets, OnDelete and repair.

use super::world::{World, broken, template};
use berth_identity::ApiName;
use berth_workloads::Action;
use serde_json::{Value, json};

/// A set of so many ready pods of template 1 that gets template 2.
fn updated(spec: &Value, gates: &str) -> World {
    let mut world = World::new(spec).with_gates(gates);
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world
}

fn partition(replicas: u32, partition: u32) -> Value {
    json!({"replicas": replicas, "updateStrategy": {"rollingUpdate": {"partition": partition}}})
}

#[test]
fn pods_are_replaced_one_by_one_from_the_highest() {
    let mut world = updated(&json!({"replicas": 3}), "");
    let mut seen = Vec::new();
    for _ in 0..12 {
        world.look(usize::MAX);
        seen.push(world.short());
        world.pass();
    }
    seen.dedup();
    assert_eq!(
        seen,
        [
            "web-0=1 web-1=1 web-2=1~",
            "web-0=1 web-1=1 web-2=2",
            "web-0=1 web-1=1~ web-2=2",
            "web-0=1 web-1=2 web-2=2",
            "web-0=1~ web-1=2 web-2=2",
            "web-0=2 web-1=2 web-2=2",
        ]
    );
    let status = world.view().status;
    assert_eq!((status.current_revision == status.update_revision, status.current_replicas), (true, 3));
    assert_eq!(world.condition("Progressing"), ("True".to_owned(), "NewRevisionAvailable".to_owned()));
}

#[test]
fn the_status_excludes_a_pod_before_its_deletion() {
    let mut world = updated(&json!({"replicas": 2, "updateStrategy": {"rollingUpdate": null}}), "");
    world.look(2);
    assert_eq!(
        (world.short().as_str(), world.view().status.current_replicas),
        ("web-0=1 web-1=1", 1),
        "the controller died before the delete"
    );
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2");
}

#[test]
fn the_status_names_the_revision_before_pods_are_deleted_for_it() {
    let world = updated(&json!({"replicas": 2}), "");
    let stages = world.plan().stages;
    let stage_of = |resource: &str| stages.iter().position(|stage| stage.actions.iter().any(|action| plural(action) == resource));
    assert_eq!([stage_of("controllerrevisions"), stage_of("statefulsets"), stage_of("pods")], [Some(0), Some(1), Some(2)]);
}

fn plural(action: &Action) -> ApiName {
    match action {
        Action::Create { object, .. } => object.resource().plural,
        Action::Patch { target, .. } | Action::Delete { target, .. } => target.resource.plural.clone(),
        other => panic!("{other}"),
    }
}

#[test]
fn nothing_else_is_written_to_a_broken_pod_that_goes_for_an_update() {
    let mut world = World::new(&budget(3, "Parallel", &json!(1))).with_gates(BUDGET);
    world.settle();
    for name in ["web-0", "web-1"] {
        world.edit_pod(name, &json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null}}}));
    }
    world.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    world.edit(&json!({"spec": {"template": template(2)}}));
    let plan = world.plan();
    let mut written: Vec<_> = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.actions)
        .filter_map(|action| match action {
            Action::Patch { target, .. } if target.resource.plural == "pods" => Some(format!("patch {}", target.key.name)),
            Action::Delete { target, .. } => Some(format!("delete {}", target.key.name)),
            _ => None,
        })
        .collect();
    written.sort();
    assert_eq!(written, ["delete web-0", "patch web-1"]);
}

#[test]
fn a_partition_keeps_what_is_below_and_a_pod_that_is_lost_comes_back_as_it_was() {
    let mut world = updated(&partition(4, 2), "");
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=2 web-3=2");
    assert_eq!(world.waits(), ["the partition keeps 2 pods of older templates: only ordinals from 2 are updated"]);
    let status = world.view().status;
    assert_eq!((status.current_replicas, status.updated_replicas, status.current_revision == status.update_revision), (2, 2, false));
    assert_eq!(world.condition("Progressing").1, "NewRevisionAvailable");
    for name in ["web-0", "web-3"] {
        world.delete_pod(name);
        world.settle();
        assert_eq!(world.short(), "web-0=1 web-1=1 web-2=2 web-3=2");
    }
    world.edit(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2 web-3=2");
}

#[test]
fn the_partition_counts_from_the_start() {
    let mut spec = partition(3, 2);
    spec["ordinals"] = json!({"start": 5});
    let mut world = updated(&spec, "");
    world.settle();
    assert_eq!(world.short(), "web-5=1 web-6=1 web-7=2");
}

#[test]
fn a_partition_beyond_the_end_updates_nothing() {
    let mut world = updated(&partition(2, 9), "");
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1");
}

#[test]
fn a_pod_deleted_by_hand_in_the_middle_does_not_keep_the_old_template() {
    // kubernetes#70442
    let mut world = updated(&json!({"replicas": 3, "updateStrategy": {"rollingUpdate": null}}), "");
    world.look(usize::MAX);
    world.delete_pod("web-0");
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2");
}

/// The pod is deleted before any reconcile observes its termination, as with a pod that never started.
#[test]
fn without_a_block_a_broken_pod_that_goes_at_once_does_not_come_back_as_it_was() {
    let mut world = World::new(&json!({"replicas": 3, "template": broken(1), "updateStrategy": {"rollingUpdate": null}}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.settle();
    assert_eq!((world.short().as_str(), world.view().status.current_replicas), ("web-0=1!", 1));
    world.delete_pod("web-0");
    world.gone("web-0");
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2");
}

#[test]
fn a_broken_ordered_rollout_stays_broken_when_the_template_is_repaired() {
    let mut world = World::new(&json!({"replicas": 2}));
    world.settle();
    world.edit(&json!({"spec": {"template": broken(2)}}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(3)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=2!");
    assert_eq!(
        world.waits(),
        ["waiting for web-1 to become ready: it has an older template. If it never becomes ready, delete it, or set the annotation \
          berth.dev/repair: Revision"]
    );
    world.delete_pod("web-1");
    world.settle();
    assert_eq!(world.short(), "web-0=3 web-1=3");
}

/// The annotation is for rolling updates, so the advice mentions it only where it helps.
#[test]
fn with_on_delete_a_broken_pod_is_left_to_a_person_with_the_annotation_too() {
    for annotations in [json!({}), json!({"berth.dev/repair": "Revision"})] {
        let mut world = World::new(&json!({"replicas": 2, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
        world.edit(&json!({"metadata": {"annotations": annotations}}));
        world.settle();
        world.edit(&json!({"spec": {"template": broken(2)}}));
        world.settle();
        world.delete_pod("web-1");
        world.settle();
        world.edit(&json!({"spec": {"template": template(3)}}));
        world.settle();
        assert_eq!(world.short(), "web-0=1 web-1=2!");
        assert_eq!(
            world.waits(),
            ["waiting for web-1 to become ready: it has an older template. If it never becomes ready, delete it (OnDelete)"]
        );
        world.delete_pod("web-1");
        world.settle();
        assert_eq!(world.short(), "web-0=1 web-1=3");
    }
}

#[test]
fn a_rollout_goes_on_while_pods_are_outdated_missing_or_too_many() {
    let mut world = updated(&json!({"replicas": 3}), "");
    let mut after_a_look = |change: fn(&mut World)| {
        change(&mut world);
        world.look(usize::MAX);
        let first = world.condition("Progressing").1;
        world.settle();
        (first, world.condition("Progressing").1)
    };
    let wanted = ("RevisionUpdated".to_owned(), "NewRevisionAvailable".to_owned());
    assert_eq!(after_a_look(|_| ()), wanted);
    assert_eq!(after_a_look(|world| world.edit(&json!({"spec": {"replicas": 2}}))), wanted);
    assert_eq!(after_a_look(|world| world.delete_pod("web-0")), wanted);
}

#[test]
fn the_next_pod_waits_for_the_one_that_was_replaced() {
    let mut world = updated(&json!({"replicas": 3, "podManagementPolicy": "Parallel"}), "");
    world.look(usize::MAX);
    world.pass();
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=2");
    assert_eq!(world.waits(), ["waiting for 1 of 3 pods to become available"]);
}

#[test]
fn a_parallel_set_repairs_itself_where_the_gate_is_off() {
    let mut world = World::new(&json!({"replicas": 2, "podManagementPolicy": "Parallel", "template": broken(1)}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2");
}

const BUDGET: &str = "MaxUnavailableStatefulSet=true";

fn budget(replicas: u32, policy: &str, unavailable: &Value) -> Value {
    let strategy = json!({"rollingUpdate": {"partition": 0, "maxUnavailable": unavailable}});
    json!({"replicas": replicas, "podManagementPolicy": policy, "updateStrategy": strategy})
}

#[test]
fn a_budget_allows_the_deletion_of_several_pods_at_once() {
    for (unavailable, leaving) in [(json!(2), 2), (json!("50%"), 2), (json!("10%"), 1), (json!(9), 5)] {
        for policy in ["OrderedReady", "Parallel"] {
            let mut world = updated(&budget(5, policy, &unavailable), BUDGET);
            world.look(usize::MAX);
            let going = world.names().iter().filter(|name| world.is_going(name)).count();
            assert_eq!(going, leaving, "{policy} {unavailable}");
            world.settle();
            assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2 web-3=2 web-4=2");
        }
    }
}

#[test]
fn a_budget_is_used_up_by_pods_that_are_unavailable_anyway() {
    let mut world = updated(&budget(3, "Parallel", &json!(1)), BUDGET);
    world.edit_pod("web-0", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1~ web-1=1 web-2=1");
    assert_eq!(world.waits(), ["waiting for 1 of 3 pods to become available"]);
}

#[test]
fn broken_old_pods_cost_a_parallel_set_no_budget() {
    // kubernetes#137409
    let mut spec = budget(3, "Parallel", &json!(1));
    spec["template"] = broken(1);
    let mut world = World::new(&spec).with_gates(BUDGET);
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2");
}

/// A pod becomes available by time, without a new version. It may be available when the deletion is executed.
#[test]
fn old_pods_that_are_ready_and_not_available_yet_are_waited_for() {
    let mut spec = budget(2, "Parallel", &json!(1));
    spec["minReadySeconds"] = json!(90);
    let mut world = World::new(&spec).with_gates(BUDGET);
    world.look(usize::MAX);
    world.pass();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1");
    assert_eq!(world.waits(), ["waiting for 2 of 2 pods to become available"]);
    world.now += jiff::SignedDuration::from_secs(30);
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1~");
}

/// Without a block that contains a partition, pods with the lowest ordinals are recreated with the old revision, as many as the status
/// counts of it. The counted pods may have other ordinals, and then as many are counted again.
#[test]
fn a_parallel_set_without_a_partition_does_not_make_pods_only_to_replace_them() {
    let spec =
        json!({"replicas": 3, "podManagementPolicy": "Parallel", "ordinals": {"start": 2}, "updateStrategy": {"rollingUpdate": null}});
    let mut world = World::new(&spec).with_gates(BUDGET);
    world.settle();
    world.edit(&json!({"spec": {"template": template(2), "ordinals": {"start": 0}, "replicas": 4}}));
    for _ in 0..4 {
        world.look(usize::MAX);
    }
    assert!(world.short().starts_with("web-0=2 web-1=2 "), "{}", world.short());
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=2 web-2=2 web-3=2");
}

#[test]
fn on_delete_leaves_it_to_others() {
    let mut world = updated(&json!({"replicas": 2, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), "");
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1");
    assert_eq!(world.waits(), ["waiting for 2 pods of older templates to be deleted manually (OnDelete)"]);
    assert_eq!(world.condition("Progressing"), ("Unknown".to_owned(), "WaitingForPodDeletion".to_owned()));
    world.delete_pod("web-0");
    world.settle();
    assert_eq!(world.short(), "web-0=2 web-1=1");
    world.delete_pod("web-1");
    world.settle();
    assert_eq!(world.condition("Progressing").1, "NewRevisionAvailable");
    let status = world.view().status;
    assert_ne!(status.current_revision, status.update_revision, "as upstream 1.36, it never completes");
}

#[test]
fn availability_is_what_the_strategy_promises() {
    let two = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    for (spec, gates, unready, wanted) in [
        (json!({"replicas": 3}), "", 1, "True"),
        (json!({"replicas": 3}), "", 2, "False"),
        (json!({"replicas": 1}), "", 1, "False"),
        (json!({"replicas": 0}), "", 0, "True"),
        (two.clone(), "", 2, "False"),
        (two.clone(), BUDGET, 2, "True"),
        (two, BUDGET, 3, "False"),
        (json!({"replicas": 3, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), "", 1, "False"),
        (json!({"replicas": 3, "updateStrategy": {"type": "Recreate", "rollingUpdate": null}}), "", 1, "False"),
    ] {
        let mut world = World::new(&spec).with_gates(gates);
        world.settle();
        for ordinal in 0..unready {
            world.edit_pod(&format!("web-{ordinal}"), &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
        }
        world.look(usize::MAX);
        assert_eq!(world.condition("Available").0, wanted, "{spec} {gates} with {unready} unready");
    }
}

fn with_repair(spec: &Value) -> World {
    let mut world = World::new(spec);
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": "Revision"}}}));
    world
}

#[test]
fn without_a_block_a_lost_pod_comes_back_as_it_was_but_with_repair_as_it_is_to_be() {
    let spec = |policy: &str| json!({"replicas": 3, "podManagementPolicy": policy, "updateStrategy": {"rollingUpdate": null}});
    for (mut world, wanted) in [
        (World::new(&spec("OrderedReady")), "web-0=1 web-1=1"),
        (World::new(&spec("OrderedReady")).with_gates(BUDGET), "web-0=1 web-1=1"),
        (World::new(&spec("Parallel")), "web-0=1 web-1=1 web-2=2"),
        (with_repair(&spec("OrderedReady")), "web-0=2 web-1=1"),
    ] {
        world.settle();
        world.edit(&json!({"spec": {"template": template(2)}}));
        world.look(usize::MAX);
        world.delete_pod("web-0");
        world.pass();
        assert_eq!(world.short(), "web-1=1");
        world.look(usize::MAX);
        assert_eq!(world.short(), wanted);
    }
}

#[test]
fn repair_gets_a_broken_rollout_going_again() {
    let mut world = with_repair(&json!({"replicas": 3}));
    world.settle();
    world.edit(&json!({"spec": {"template": broken(2)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=2!");
    world.edit(&json!({"spec": {"template": template(3)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=3 web-1=3 web-2=3");
    assert_eq!(world.reasons(), ["RepairedPod"]);
}

#[test]
fn a_pod_that_repair_deletes_is_none_of_the_current_revision_any_more() {
    let mut world = with_repair(&json!({"template": broken(1)}));
    world.settle();
    assert_eq!(world.view().status.current_replicas, 1);
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    assert_eq!((world.short().as_str(), world.view().status.current_replicas), ("web-0=1!~", 0));
}

#[test]
fn repair_works_where_the_very_first_revision_is_broken() {
    for rolling in [json!(null), json!({"partition": 0})] {
        let mut world = with_repair(&json!({"replicas": 2, "template": broken(1), "updateStrategy": {"rollingUpdate": rolling}}));
        world.settle();
        world.edit(&json!({"spec": {"template": template(2)}}));
        world.settle();
        assert_eq!(world.short(), "web-0=2 web-1=2", "{rolling}");
    }
}

#[test]
fn repair_deletes_one_at_a_time_and_nothing_below_the_partition() {
    let mut world = with_repair(&json!({"replicas": 3, "podManagementPolicy": "Parallel", "template": broken(1),
        "updateStrategy": {"rollingUpdate": {"partition": 1}}}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1! web-1=1! web-2=1!~");
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1! web-1=1! web-2=1!~", "one after the other");
    world.settle();
    assert_eq!(world.short(), "web-0=1! web-1=2 web-2=2");
}

/// Without repair, two such pods block each other indefinitely, as upstream's do.
#[test]
fn repair_deletes_broken_pods_that_are_no_longer_wanted() {
    for (repair, end) in [(json!("Revision"), "web-0=3"), (Value::Null, "web-0=1 web-1=1! web-2=1!")] {
        let mut world = World::new(&json!({"replicas": 3}));
        world.settle();
        for name in ["web-1", "web-2"] {
            world.edit_pod(name, &json!({"spec": {"containers": [{"name": "web", "image": "1!"}]}}));
        }
        world.pass();
        world.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": repair}}, "spec": {"replicas": 1, "template": template(3)}}));
        world.settle();
        assert_eq!(world.short(), end);
    }
}

#[test]
fn repair_is_for_rolling_updates_and_a_misspelled_one_is_reported() {
    let mut world = with_repair(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}, "template": broken(1)}));
    world.settle();
    world.edit(&json!({"spec": {"template": template(2)}}));
    world.settle();
    assert_eq!(world.short(), "web-0=1!");
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": "revision"}}}));
    world.settle();
    let told = ("InvalidAnnotation".to_owned(), "berth.dev/repair is \"revision\", not \"Revision\": it is ignored".to_owned());
    assert!(world.events.contains(&told), "{:?}", world.events);
}

#[test]
fn a_misspelled_strategy_is_reported_where_it_would_count() {
    let told = |type_: &str, gates: &str| {
        let mut world = World::new(&json!({"updateStrategy": {"type": type_, "rollingUpdate": null}})).with_gates(gates);
        world.edit(&json!({"metadata": {"annotations": {"berth.dev/update-strategy": "recreate"}}}));
        world.plan().events.into_iter().map(|event| event.message).collect::<Vec<_>>()
    };
    let text = "berth.dev/update-strategy is \"recreate\", not \"Recreate\": it is ignored";
    assert_eq!(told("OnDelete", ""), [text]);
    assert_eq!(told("RollingUpdate", ""), [""; 0]);
    assert_eq!(told("OnDelete", "StatefulSetRecreateStrategy=false"), [""; 0]);
}
