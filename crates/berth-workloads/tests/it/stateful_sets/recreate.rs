//! Recreate (KEP-3541).

use super::cluster_model::{ClusterModel, broken, template};
use berth_workloads::Action;
use serde_json::{Value, json};

fn spec(replicas: u32) -> Value {
    json!({"replicas": replicas, "updateStrategy": {"type": "Recreate", "rollingUpdate": null}})
}

fn parallel(replicas: u32) -> Value {
    let mut spec = spec(replicas);
    spec["podManagementPolicy"] = json!("Parallel");
    spec
}

const DELETING: &str = "True RecreateInProgress: Deleting all pods for Recreate update";
const WAITING: &str = "True RecreateInProgress: Waiting for the termination of all pods of older revisions";
const COMPLETE: &str = "True RecreateComplete: All pods exist and have the update revision.";
const AVAILABLE: &str = "True MinimumReplicasAvailable: StatefulSet has minimum availability.";
const UNAVAILABLE: &str = "False MinimumReplicasUnavailable: StatefulSet does not have minimum availability.";

/// The conditions Progressing and Available.
fn both_conditions(model: &ClusterModel) -> [String; 2] {
    ["Progressing", "Available"].map(|type_| model.condition_text(type_))
}

const ALL: [&str; 3] = ["RecreateStarted", "RecreateWaitingForTermination", "RecreateCompleted"];

#[test]
fn a_new_set_is_complete_without_a_word() {
    let mut model = ClusterModel::new(&spec(2));
    model.settle();
    assert_eq!((model.short().as_str(), model.condition_text("Progressing").as_str()), ("web-0=1 web-1=1", COMPLETE));
    assert_eq!(model.reasons(), [""; 0]);
}

#[test]
fn an_update_goes_through_its_phases() {
    let mut model = ClusterModel::new(&spec(3));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    assert_eq!(
        (model.short().as_str(), both_conditions(&model)),
        ("web-0=1~ web-1=1~ web-2=1~", [DELETING, UNAVAILABLE].map(str::to_owned))
    );
    model.gone("web-1");
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1~ web-2=1~");
    assert_eq!(model.waits(), ["waiting for 2 terminating pods (web-2 has 30s of its 30s grace left) before creating 3 more"]);
    assert_eq!(both_conditions(&model), [WAITING, UNAVAILABLE]);
    model.gone("web-0");
    model.gone("web-2");
    model.reconcile(usize::MAX);
    let creating = |there: u32, cause: &str| format!("True RecreateInProgress: {there} of 3 pods of revision 2 exist{cause}");
    let first = ": waiting for web-0 to become ready before web-1 is created";
    assert_eq!((model.short().as_str(), both_conditions(&model)), ("web-0=2", [creating(0, first), UNAVAILABLE.to_owned()]));
    model.reconcile(usize::MAX);
    assert_eq!(model.condition_text("Progressing"), creating(1, first));
    model.settle();
    assert_eq!((model.short().as_str(), model.condition_text("Progressing").as_str()), ("web-0=2 web-1=2 web-2=2", COMPLETE));
    assert_eq!(model.reasons(), ALL);
    let status = model.view().status;
    assert_eq!(status.current_revision, status.update_revision);
}

#[test]
fn a_parallel_set_is_created_at_once() {
    let mut model = ClusterModel::new(&parallel(3));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    model.pass();
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=2 web-1=2 web-2=2");
    model.reconcile(usize::MAX);
    assert_eq!(model.condition_text("Progressing").as_str(), COMPLETE, "complete is there, not ready");
}

#[test]
fn a_changed_type_alone_starts_nothing_but_finishes_what_was_begun() {
    let mut model = ClusterModel::new(&json!({"replicas": 2}));
    model.settle();
    model.edit(&json!({"spec": {"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}}));
    model.settle();
    assert_eq!(
        (model.short().as_str(), model.reasons().len(), model.condition_text("Progressing").as_str()),
        ("web-0=1 web-1=1", 0, COMPLETE)
    );
    let mut model = ClusterModel::new(&json!({"replicas": 2, "updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.settle();
    model.edit(&json!({"spec": {"updateStrategy": {"type": "Recreate"}}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1~ web-1=1~");
}

#[test]
fn pods_are_deleted_whatever_their_state_and_number() {
    let mut model = ClusterModel::new(&parallel(5));
    model.settle();
    for (name, status) in [
        ("web-0", json!({"phase": "Pending"})),
        ("web-1", json!({"phase": "Unknown"})),
        ("web-2", json!({"phase": "Failed"})),
        ("web-3", json!({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})),
    ] {
        model.edit_pod(name, &json!({"status": status}));
    }
    model.edit_pod("web-1", &json!({"metadata": {"labels": {"controller-revision-hash": null}}}));
    model.edit(&json!({"spec": {"template": template(2), "replicas": 2}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1~ web-1=1~ web-2=1~ web-3=1~ web-4=1~");
    model.settle();
    assert_eq!(model.short(), "web-0=2 web-1=2");
}

#[test]
fn a_broken_update_is_repaired_by_the_next() {
    for spec in [spec(2), parallel(2)] {
        let mut model = ClusterModel::new(&spec);
        model.settle();
        model.edit(&json!({"spec": {"template": broken(2)}}));
        model.settle();
        model.edit(&json!({"spec": {"template": template(3)}}));
        model.settle();
        assert_eq!((model.short().as_str(), model.condition_text("Progressing").as_str()), ("web-0=3 web-1=3", COMPLETE));
    }
}

#[test]
fn a_template_that_changes_on_the_way_makes_the_new_pods_old() {
    let mut model = ClusterModel::new(&parallel(2));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    model.pass();
    model.reconcile(usize::MAX);
    model.edit(&json!({"spec": {"template": template(3)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=3 web-1=3");
    let begun = model.reasons().iter().filter(|reason| **reason == "RecreateStarted").count();
    assert_eq!(begun, 2);
}

#[test]
fn a_template_that_is_restored_spares_no_pod_and_deletes_no_pod_twice() {
    let mut model = ClusterModel::new(&spec(2));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    model.edit(&json!({"spec": {"template": template(1)}}));
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1");
}

#[test]
fn a_new_pod_deleted_by_hand_comes_back_alone() {
    let mut model = ClusterModel::new(&parallel(3));
    model.settle();
    model.delete_pod("web-1");
    model.reconcile(usize::MAX);
    let missing = "True CreatingPods: 2 of 3 pods of revision 1 exist";
    assert_eq!((model.short().as_str(), both_conditions(&model)), ("web-0=1 web-1=1~ web-2=1", [missing, UNAVAILABLE].map(str::to_owned)));
    model.settle();
    assert_eq!((model.short().as_str(), both_conditions(&model)), ("web-0=1 web-1=1 web-2=1", [COMPLETE, AVAILABLE].map(str::to_owned)));
    assert_eq!(model.reasons(), [""; 0]);
}

#[test]
fn an_update_to_no_pods_is_complete_when_the_old_ones_are_deleted() {
    let mut model = ClusterModel::new(&spec(2));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2), "replicas": 0}}));
    model.settle();
    assert_eq!((model.short().as_str(), model.condition_text("Progressing").as_str()), ("", COMPLETE));
}

#[test]
fn each_event_is_recorded_once_wherever_the_controller_dies() {
    for limit in 1..6 {
        let mut model = ClusterModel::new(&spec(3));
        model.settle();
        model.edit(&json!({"spec": {"template": template(2)}}));
        for _ in 0..40 {
            model.reconcile(limit);
        }
        model.pass();
        for _ in 0..40 {
            model.reconcile(limit);
            model.pass();
        }
        assert_eq!((model.short().as_str(), model.reasons()), ("web-0=2 web-1=2 web-2=2", ALL.to_vec()), "limit {limit}");
    }
}

#[test]
fn without_the_gate_it_is_a_rolling_update_and_there_are_no_conditions() {
    let mut model = ClusterModel::new(&spec(2)).with_gates("StatefulSetRecreateStrategy=false");
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}, "status": {"conditions": [{"type": "Progressing", "status": "True"}]}}));
    model.reconcile(usize::MAX);
    assert_eq!((model.short().as_str(), model.view().status.conditions), ("web-0=1 web-1=1~", None));
    model.settle();
    let status = model.view().status;
    assert_eq!((model.short().as_str(), status.current_revision), ("web-0=2 web-1=2", status.update_revision));
}

#[test]
fn the_annotation_makes_on_delete_a_recreate() {
    let mut model = ClusterModel::new(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}));
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/update-strategy": "Recreate"}}}));
    model.settle();
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.settle();
    assert_eq!((model.short().as_str(), model.condition_text("Progressing").as_str()), ("web-0=2 web-1=2", COMPLETE));
}

#[test]
fn a_pod_on_its_way_out_is_waited_for_whatever_its_labels() {
    for spec in [spec(2), parallel(2)] {
        let mut model = ClusterModel::new(&spec);
        model.settle();
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile(usize::MAX);
        model.edit_pod("web-1", &json!({"metadata": {"labels": {"app": "debug"}}}));
        model.gone("web-0");
        for _ in 0..3 {
            model.reconcile(usize::MAX);
        }
        assert_eq!((model.short().as_str(), model.view().status.replicas), ("web-1=1~", 1));
        assert_eq!(model.waits(), ["waiting for 1 terminating pod (web-1 has 30s of its 30s grace left) before creating 2 more"]);
        model.settle();
        assert_eq!(model.short(), "web-0=2 web-1=2");
    }
}

#[test]
fn a_pod_of_a_number_no_longer_wanted_is_none_that_is_there() {
    let mut model = ClusterModel::new(&spec(2));
    model.settle();
    model.edit(&json!({"spec": {"ordinals": {"start": 1}}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=1");
    let progressing = model.condition_text("Progressing");
    assert!(progressing.starts_with("True CreatingPods: 1 of 2 pods of revision 1 exist"), "{progressing}");
}

#[test]
fn a_new_set_reports_from_its_first_reconcile_what_it_does() {
    let mut model = ClusterModel::new(&spec(2));
    model.reconcile(usize::MAX);
    let creating = |there: u32| {
        format!("True CreatingPods: {there} of 2 pods of revision 1 exist: waiting for web-0 to become ready before web-1 is created")
    };
    assert_eq!(both_conditions(&model), [creating(0), UNAVAILABLE.to_owned()]);
    model.reconcile(usize::MAX);
    assert_eq!(model.condition_text("Progressing"), creating(1));
    model.settle();
    assert_eq!((both_conditions(&model), model.reasons().len()), ([COMPLETE, AVAILABLE].map(str::to_owned), 0));
    let mut empty = ClusterModel::new(&spec(0));
    empty.reconcile(usize::MAX);
    assert_eq!(both_conditions(&empty), [COMPLETE, AVAILABLE]);
}

#[test]
fn a_scale_up_that_is_refused_is_reported() {
    for spec in [spec(2), parallel(2)] {
        let mut model = ClusterModel::new(&spec);
        model.settle();
        model.edit(&json!({"spec": {"replicas": 3}}));
        model.reconcile_without_pods();
        assert!(
            model.condition_text("Progressing").starts_with("True CreatingPods: 2 of 3 pods of revision 1 exist"),
            "{}",
            model.condition_text("Progressing")
        );
        model.reconcile_without_pods();
        let refusal = "pods \"web-n\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let wanted = format!("True CreatingPods: 2 of 3 pods of revision 1 exist: {refusal}");
        assert_eq!(both_conditions(&model), [wanted, UNAVAILABLE.to_owned()]);
        assert!(
            model.plan().stages.iter().flat_map(|stage| &stage.actions).all(|action| !matches!(action, Action::Patch { .. })),
            "said once"
        );
        model.last_error = None;
        model.settle();
        assert_eq!((both_conditions(&model), model.reasons().len()), ([COMPLETE, AVAILABLE].map(str::to_owned), 0));
    }
}

#[test]
fn a_broken_template_reports_which_pod_it_waits_for() {
    let mut model = ClusterModel::new(&spec(3));
    model.settle();
    model.edit(&json!({"spec": {"template": broken(2)}}));
    model.settle();
    let wanted = "True RecreateInProgress: 1 of 3 pods of revision 2! exist: waiting for web-0 to become ready before web-1 is created";
    assert_eq!((model.short().as_str(), both_conditions(&model)), ("web-0=2!", [wanted, UNAVAILABLE].map(str::to_owned)));
}

/// A pod that is reported as available must still be available when a waiting client reads it.
#[test]
fn nothing_is_available_from_the_moment_that_all_pods_are_to_go() {
    for spec in [spec(2), parallel(2)] {
        let mut model = ClusterModel::new(&spec);
        model.settle();
        assert_eq!(model.condition_text("Available"), AVAILABLE);
        model.edit(&json!({"spec": {"template": template(2)}}));
        for limit in 0.. {
            let mut dies = model.clone();
            let carried = dies.reconcile(limit);
            let is_observed = dies.view().status.observed_generation == dies.view().meta.generation;
            let is_any_going = dies.names().iter().any(|name| dies.is_going(name));
            assert_eq!(dies.condition_text("Available"), if is_observed { UNAVAILABLE } else { AVAILABLE }, "{limit}");
            assert!(is_observed || !is_any_going, "{limit}");
            if carried < limit {
                break;
            }
        }
    }
    for strategy in ["RollingUpdate", "OnDelete"] {
        let mut model = ClusterModel::new(&json!({"updateStrategy": {"type": strategy, "rollingUpdate": null}}));
        model.settle();
        ["web-0", "web-1"].into_iter().for_each(|name| model.delete_pod(name));
        model.reconcile(usize::MAX);
        assert_eq!((model.condition_text("Available").as_str(), model.view().status.available_replicas), (UNAVAILABLE, 2), "{strategy}");
    }
}

#[test]
fn no_event_is_lost_with_a_controller_that_dies_right_after_the_status() {
    for limit in 1..8 {
        let mut model = ClusterModel::new(&spec(3));
        model.settle();
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile_and_lose_events(limit);
        for _ in 0..4 {
            model.reconcile(usize::MAX);
        }
        model.settle();
        assert_eq!(model.reasons(), ALL, "died after {limit} writes");
    }
}

#[test]
fn pods_that_others_deleted_are_not_reported_as_deleted_by_the_update() {
    let mut model = ClusterModel::new(&spec(2));
    model.settle();
    ["web-0", "web-1"].into_iter().for_each(|name| model.delete_pod(name));
    model.edit(&json!({"spec": {"template": template(2)}}));
    model.reconcile(usize::MAX);
    assert_eq!(both_conditions(&model), [WAITING, UNAVAILABLE]);
    model.settle();
    assert_eq!(model.reasons(), ["RecreateWaitingForTermination", "RecreateCompleted"]);
}

#[test]
fn pods_of_the_update_that_do_not_come_up_are_reported_once_for_each_revision_and_cause() {
    for strategy in ["Recreate", "RollingUpdate", "OnDelete"] {
        let mut model =
            ClusterModel::new(&json!({"podManagementPolicy": "Parallel", "updateStrategy": {"type": strategy, "rollingUpdate": null}}));
        model.reconcile(usize::MAX);
        let waiting = |reason: &str| json!({"status": {"containerStatuses": [{"name": "web", "state": {"waiting": {"reason": reason}}}]}});
        for reason in ["ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "ErrImagePull"] {
            ["web-0", "web-1"].into_iter().for_each(|name| model.edit_pod(name, &waiting(reason)));
            (0..2).for_each(|_| _ = model.reconcile(usize::MAX));
        }
        model.edit_pod("web-0", &waiting("ContainerCreating"));
        let first: Vec<_> =
            model.plan().events.iter().map(|event| event.message.rsplit_once(": web-").expect("a pod").1.to_owned()).collect();
        assert_eq!(first, ["1 cannot pull its image: ErrImagePull"], "{strategy}: the first that fails");
        let name = model.view().status.update_revision;
        let told = |cause: &str| ("NewPodsFailing".to_owned(), format!("Pods of revision \"{name}\" are failing: web-0 {cause}"));
        let failing: Vec<_> = model.events.iter().filter(|(reason, _)| reason == "NewPodsFailing").cloned().collect();
        assert_eq!(failing, [told("cannot pull its image: ErrImagePull"), told("keeps crashing: CrashLoopBackOff")], "{strategy}");
        model.edit(&json!({"spec": {"template": template(2)}}));
        model.reconcile(usize::MAX);
        let last = model.events.iter().filter(|(reason, _)| reason == "NewPodsFailing").count();
        assert_eq!(last, 2, "{strategy}: those pods are not of the update any more");
    }
}
