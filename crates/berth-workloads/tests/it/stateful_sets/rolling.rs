//! Rolling updates, partitions, budgets, OnDelete and repair.

use super::cluster_model::{ClusterModel, broken, template};
use berth_identity::ApiName;
use berth_workloads::Action;
use serde_json::{Value, json};

/// A set of so many ready pods of template 1 that gets template 2.
fn updated(spec: &Value, gates: &str) -> ClusterModel {
    let mut model = ClusterModel::new(spec).with_gates(gates);
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model
}

fn partition(replicas: u32, partition: u32) -> Value {
    json!({"replicas": replicas, "updateStrategy": {"rollingUpdate": {"partition": partition}}})
}

#[test]
fn pods_are_replaced_one_by_one_from_the_highest() {
    let mut model = updated(&json!({"replicas": 3}), "");
    let mut seen = Vec::new();
    for _ in 0..12 {
        model.reconcile(usize::MAX);
        seen.push(model.short());
        model.pass();
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
    let status = model.view().status;
    assert_eq!((status.current_revision == status.update_revision, status.current_replicas), (true, 3));
    assert_eq!(model.condition("Progressing"), ("True".to_owned(), "NewRevisionAvailable".to_owned()));
}

#[test]
fn the_status_excludes_a_pod_before_its_deletion() {
    let mut model = updated(&json!({"replicas": 2, "updateStrategy": {"rollingUpdate": null}}), "");
    model.reconcile(2);
    assert_eq!(
        (model.short().as_str(), model.view().status.current_replicas),
        ("web-0=1 web-1=1", 1),
        "the controller died before the delete"
    );
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2");
}

#[test]
fn the_status_names_the_revision_before_pods_are_deleted_for_it() {
    let model = updated(&json!({"replicas": 2}), "");
    let stages = model.plan().stages;
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
    let mut model = ClusterModel::new(&budget(3, "Parallel", &json!(1))).with_gates(BUDGET);
    model.settle();
    for name in ["web-0", "web-1"] {
        model.edit_pod(name, &json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null}}}));
    }
    model.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    model.edit(&json!({"spec": {"template": template(2)}}));
    let plan = model.plan();
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
    let mut model = updated(&partition(4, 2), "");
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=2 web-3=2");
    assert_eq!(model.waits(), ["the partition keeps 2 pods of older templates: only ordinals from 2 are updated"]);
    let status = model.view().status;
    assert_eq!((status.current_replicas, status.updated_replicas, status.current_revision == status.update_revision), (2, 2, false));
    assert_eq!(model.condition("Progressing").1, "NewRevisionAvailable");
    for name in ["web-0", "web-3"] {
        model.delete_pod(name);
        model.settle();
        assert_eq!(model.short(), "web-0=1 web-1=1 web-2=2 web-3=2");
    }
    model.edit(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2 web-3=2");
}

#[test]
fn the_partition_counts_from_the_start() {
    let mut spec = partition(3, 2);
    spec["ordinals"] = json!({"start": 5});
    let mut model = updated(&spec, "");
    model.settle();
    assert_eq!(model.short(), "web-5=1 web-6=1 web-7=2");
}

#[test]
fn a_partition_beyond_the_end_updates_nothing() {
    let mut model = updated(&partition(2, 9), "");
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1");
}

#[test]
fn a_pod_deleted_by_hand_in_the_middle_does_not_keep_the_old_template() {
    // kubernetes#70442
    let mut model = updated(&json!({"replicas": 3, "updateStrategy": {"rollingUpdate": null}}), "");
    model.reconcile(usize::MAX);
    model.delete_pod("web-0");
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2");
}

/// The pod is deleted before any reconcile observes its termination, as with a pod that never started.
#[test]
fn without_a_block_a_broken_pod_that_goes_at_once_does_not_come_back_as_it_was() {
    let mut model = ClusterModel::new(&json!({"replicas": 3, "template": broken(1), "updateStrategy": {"rollingUpdate": null}}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.settle();
    assert_eq!((model.short().as_str(), model.view().status.current_replicas), ("web-0=1!", 1));
    model.delete_pod("web-0");
    model.gone("web-0");
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2");
}

#[test]
fn a_broken_ordered_rollout_stays_broken_when_the_template_is_repaired() {
    let mut model = ClusterModel::new(&json!({"replicas": 2}));
    model.settle();
    model.edit(&json!({"spec": {"template": broken(2)}}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(3)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=2!");
    assert_eq!(
        model.waits(),
        ["waiting for web-1 to become ready: it has an older template. If it never becomes ready, delete it, or set the annotation \
          berth.dev/repair: Revision"]
    );
    model.delete_pod("web-1");
    model.settle();
    assert_eq!(model.short(), "web-0=3 web-1=3");
}

/// The annotation is for rolling updates, so the advice mentions it only where it helps.
#[test]
fn with_on_delete_a_broken_pod_is_left_to_a_person_with_the_annotation_too() {
    for annotations in [json!({}), json!({"berth.dev/repair": "Revision"})] {
        let mut model = ClusterModel::new(&json!({"replicas": 2, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
        model.edit(&json!({"metadata": {"annotations": annotations}}));
        model.settle();
        model.edit(&json!({"spec": {"template": broken(2)}}));
        model.settle();
        model.delete_pod("web-1");
        model.settle();
        model.edit(&json!({"spec": {"template": template(3)}}));
        model.settle();
        assert_eq!(model.short(), "web-0=1 web-1=2!");
        assert_eq!(
            model.waits(),
            ["waiting for web-1 to become ready: it has an older template. If it never becomes ready, delete it (OnDelete)"]
        );
        model.delete_pod("web-1");
        model.settle();
        assert_eq!(model.short(), "web-0=1 web-1=3");
    }
}

#[test]
fn a_rollout_goes_on_while_pods_are_outdated_missing_or_too_many() {
    let mut model = updated(&json!({"replicas": 3}), "");
    let mut after_a_look = |change: fn(&mut ClusterModel)| {
        change(&mut model);
        model.reconcile(usize::MAX);
        let first = model.condition("Progressing").1;
        model.settle();
        (first, model.condition("Progressing").1)
    };
    let wanted = ("RevisionUpdated".to_owned(), "NewRevisionAvailable".to_owned());
    assert_eq!(after_a_look(|_| ()), wanted);
    assert_eq!(after_a_look(|model| model.edit(&json!({"spec": {"replicas": 2}}))), wanted);
    assert_eq!(after_a_look(|model| model.delete_pod("web-0")), wanted);
}

#[test]
fn the_next_pod_waits_for_the_one_that_was_replaced() {
    let mut model = updated(&json!({"replicas": 3, "podManagementPolicy": "Parallel"}), "");
    model.reconcile(usize::MAX);
    model.pass();
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=2");
    assert_eq!(model.waits(), ["waiting for 1 of 3 pods to become available"]);
}

#[test]
fn a_parallel_set_repairs_itself_where_the_gate_is_off() {
    let mut model = ClusterModel::new(&json!({"replicas": 2, "podManagementPolicy": "Parallel", "template": broken(1)}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2");
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
            let mut model = updated(&budget(5, policy, &unavailable), BUDGET);
            model.reconcile(usize::MAX);
            let going = model.names().iter().filter(|name| model.is_going(name)).count();
            assert_eq!(going, leaving, "{policy} {unavailable}");
            model.settle();
            assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2 web-3=2 web-4=2");
        }
    }
}

#[test]
fn a_budget_is_used_up_by_pods_that_are_unavailable_anyway() {
    let mut model = updated(&budget(3, "Parallel", &json!(1)), BUDGET);
    model.edit_pod("web-0", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1~ web-1=1 web-2=1");
    assert_eq!(model.waits(), ["waiting for 1 of 3 pods to become available"]);
}

#[test]
fn broken_old_pods_cost_a_parallel_set_no_budget() {
    // kubernetes#137409
    let mut spec = budget(3, "Parallel", &json!(1));
    spec["template"] = broken(1);
    let mut model = ClusterModel::new(&spec).with_gates(BUDGET);
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2");
}

/// A pod becomes available by time, without a new version. It may be available when the deletion is executed.
#[test]
fn old_pods_that_are_ready_and_not_available_yet_are_waited_for() {
    let mut spec = budget(2, "Parallel", &json!(1));
    spec["minReadySeconds"] = json!(90);
    let mut model = ClusterModel::new(&spec).with_gates(BUDGET);
    model.reconcile(usize::MAX);
    model.pass();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1");
    assert_eq!(model.waits(), ["waiting for 2 of 2 pods to become available"]);
    model.now += jiff::SignedDuration::from_secs(30);
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1~");
}

/// Without a block that contains a partition, pods with the lowest ordinals are recreated with the old revision, as many as the status
/// counts of it. The counted pods may have other ordinals, and then as many are counted again.
#[test]
fn a_parallel_set_without_a_partition_does_not_make_pods_only_to_replace_them() {
    let spec =
        json!({"replicas": 3, "podManagementPolicy": "Parallel", "ordinals": {"start": 2}, "updateStrategy": {"rollingUpdate": null}});
    let mut model = ClusterModel::new(&spec).with_gates(BUDGET);
    model.settle();
    model.edit(&json!({"spec": {"template": template(2), "ordinals": {"start": 0}, "replicas": 4}}));
    for _ in 0..4 {
        model.reconcile(usize::MAX);
    }
    assert!(model.short().starts_with("web-0=2 web-1=2 "), "{}", model.short());
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2 web-3=2");
}

#[test]
fn on_delete_leaves_it_to_others() {
    let mut model = updated(&json!({"replicas": 2, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), "");
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1");
    assert_eq!(model.waits(), ["waiting for 2 pods of older templates to be deleted manually (OnDelete)"]);
    assert_eq!(model.condition("Progressing"), ("Unknown".to_owned(), "WaitingForPodDeletion".to_owned()));
    model.delete_pod("web-0");
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=1");
    model.delete_pod("web-1");
    model.settle();
    assert_eq!(model.condition("Progressing").1, "NewRevisionAvailable");
    let status = model.view().status;
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
        let mut model = ClusterModel::new(&spec).with_gates(gates);
        model.settle();
        for ordinal in 0..unready {
            model.edit_pod(&format!("web-{ordinal}"), &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
        }
        model.reconcile(usize::MAX);
        assert_eq!(model.condition("Available").0, wanted, "{spec} {gates} with {unready} unready");
    }
}

fn with_repair(spec: &Value) -> ClusterModel {
    let mut model = ClusterModel::new(spec);
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": "Revision"}}}));
    model
}

#[test]
fn without_a_block_a_lost_pod_comes_back_as_it_was_but_with_repair_as_it_is_to_be() {
    let spec = |policy: &str| json!({"replicas": 3, "podManagementPolicy": policy, "updateStrategy": {"rollingUpdate": null}});
    for (mut model, wanted) in [
        (ClusterModel::new(&spec("OrderedReady")), "web-0=1 web-1=1"),
        (ClusterModel::new(&spec("OrderedReady")).with_gates(BUDGET), "web-0=1 web-1=1"),
        (ClusterModel::new(&spec("Parallel")), "web-0=1 web-1=1 web-2=2"),
        (with_repair(&spec("OrderedReady")), "web-0=2 web-1=1"),
    ] {
        model.settle();
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile(usize::MAX);
        model.delete_pod("web-0");
        model.pass();
        assert_eq!(model.short(), "web-1=1");
        model.reconcile(usize::MAX);
        assert_eq!(model.short(), wanted);
    }
}

#[test]
fn repair_gets_a_broken_rollout_going_again() {
    let mut model = with_repair(&json!({"replicas": 3}));
    model.settle();
    model.edit(&json!({"spec": {"template": broken(2)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=2!");
    model.edit(&json!({"spec": {"template": template(3)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=3 web-1=3 web-2=3");
    assert_eq!(model.reasons(), ["RepairedPod"]);
}

#[test]
fn a_pod_that_repair_deletes_is_none_of_the_current_revision_any_more() {
    let mut model = with_repair(&json!({"template": broken(1)}));
    model.settle();
    assert_eq!(model.view().status.current_replicas, 1);
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    assert_eq!((model.short().as_str(), model.view().status.current_replicas), ("web-0=1!~", 0));
}

#[test]
fn repair_works_where_the_very_first_revision_is_broken() {
    for rolling in [json!(null), json!({"partition": 0})] {
        let mut model = with_repair(&json!({"replicas": 2, "template": broken(1), "updateStrategy": {"rollingUpdate": rolling}}));
        model.settle();
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.settle();
        assert_eq!(model.short(), "web-0=2 web-1=2", "{rolling}");
    }
}

#[test]
fn repair_deletes_one_at_a_time_and_nothing_below_the_partition() {
    let mut model = with_repair(&json!({"replicas": 3, "podManagementPolicy": "Parallel", "template": broken(1),
        "updateStrategy": {"rollingUpdate": {"partition": 1}}}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1! web-1=1! web-2=1!~");
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1! web-1=1! web-2=1!~", "one after the other");
    model.settle();
    assert_eq!(model.short(), "web-0=1! web-1=2 web-2=2");
}

/// Without repair, two such pods block each other indefinitely, as upstream's do.
#[test]
fn repair_deletes_broken_pods_that_are_no_longer_wanted() {
    for (repair, end) in [(json!("Revision"), "web-0=3"), (Value::Null, "web-0=1 web-1=1! web-2=1!")] {
        let mut model = ClusterModel::new(&json!({"replicas": 3}));
        model.settle();
        for name in ["web-1", "web-2"] {
            model.edit_pod(name, &json!({"spec": {"containers": [{"name": "web", "image": "1!"}]}}));
        }
        model.pass();
        model.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": repair}}, "spec": {"replicas": 1, "template": template(3)}}));
        model.settle();
        assert_eq!(model.short(), end);
    }
}

#[test]
fn repair_is_for_rolling_updates_and_a_misspelled_one_is_reported() {
    let mut model = with_repair(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}, "template": broken(1)}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=1!");
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/repair": "revision"}}}));
    model.settle();
    let told = ("InvalidAnnotation".to_owned(), "berth.dev/repair is \"revision\", not \"Revision\": it is ignored".to_owned());
    assert!(model.events.contains(&told), "{:?}", model.events);
}

#[test]
fn a_misspelled_strategy_is_reported_where_it_would_count() {
    let told = |type_: &str, gates: &str| {
        let mut model = ClusterModel::new(&json!({"updateStrategy": {"type": type_, "rollingUpdate": null}})).with_gates(gates);
        model.edit(&json!({"metadata": {"annotations": {"berth.dev/update-strategy": "recreate"}}}));
        model.plan().events.into_iter().map(|event| event.message).collect::<Vec<_>>()
    };
    let text = "berth.dev/update-strategy is \"recreate\", not \"Recreate\": it is ignored";
    assert_eq!(told("OnDelete", ""), [text]);
    assert_eq!(told("RollingUpdate", ""), [""; 0]);
    assert_eq!(told("OnDelete", "StatefulSetRecreateStrategy=false"), [""; 0]);
}
