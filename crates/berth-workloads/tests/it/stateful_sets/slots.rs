//! Creating, keeping and removing pods in order.

use super::cluster_model::{ClusterModel, template};
use berth_identity::Generation;
use berth_workloads::{Action, stateful_set::REVISION_LABEL};
use serde_json::{Value, json};

fn parallel(replicas: u32) -> Value {
    json!({"replicas": replicas, "podManagementPolicy": "Parallel"})
}

#[test]
fn a_new_set_gets_its_pods_one_by_one() {
    let mut model = ClusterModel::new(&json!({"replicas": 3}));
    model.reconcile(usize::MAX);
    assert_eq!((model.short().as_str(), model.revisions.len()), ("web-0=1", 1));
    assert_eq!(model.reconcile(usize::MAX), 1, "the status only");
    assert_eq!(model.waits(), ["waiting for web-0 to become ready before web-1 is created"]);
    model.start("web-0");
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1");
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=1");
    let status = model.view().status;
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas), (3, 3, 3, 3));
    assert_eq!((status.current_revision == status.update_revision, status.collision_count), (true, Some(0)));
    assert_eq!(model.reconcile(usize::MAX), 0);
}

#[test]
fn pods_carry_their_identity() {
    let mut model = ClusterModel::new(&json!({"ordinals": {"start": 7}, "template": {
        "metadata": {"annotations": {"note": "x"}, "finalizers": ["example.com/hold"]}, "spec": {"volumes": [{"name": "data"}, {"name": "tmp"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}));
    model.reconcile(usize::MAX);
    let pod = &model.pods["web-7"].json;
    let revision = model.revisions.keys().next().expect("a revision");
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
    let mut model = ClusterModel::new(&parallel(700));
    model.reconcile(usize::MAX);
    assert_eq!(model.pods.len(), 500, "a look's burst");
    model.reconcile(usize::MAX);
    assert_eq!(model.pods.len(), 700);
    model.edit(&json!({"spec": {"replicas": 2}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.names().iter().filter(|name| !model.is_going(name)).count(), 2);
}

#[test]
fn batches_grow_so_that_a_full_quota_is_met_by_few() {
    let model = ClusterModel::new(&parallel(9));
    let stages: Vec<_> = model.plan().stages.iter().map(|stage| stage.actions.len()).collect();
    assert_eq!(stages, [1, 2, 2, 4, 2], "the revision; one pod and the status; two, four and two pods");
}

#[test]
fn the_start_moves_both_ends() {
    let mut model = ClusterModel::new(&json!({"replicas": 2}));
    model.settle();
    model.edit(&json!({"spec": {"ordinals": {"start": 1}}}));
    model.settle();
    assert_eq!(model.short(), "web-1=1 web-2=1");
    model.edit(&json!({"spec": {"ordinals": {"start": 0}}}));
    model.settle();
    assert_eq!(model.short(), "web-0=1 web-1=1");
}

#[test]
fn scaling_down_takes_the_highest_and_waits_for_unhealthy_lower_pods() {
    let mut model = ClusterModel::new(&json!({"replicas": 4}));
    model.settle();
    model.edit(&json!({"spec": {"replicas": 1}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=1 web-3=1~");
    assert_eq!(model.waits(), ["waiting for web-3 to terminate (web-3 has 30s of its 30s grace left) before web-2 is deleted"]);
    model.gone("web-3");
    model.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=1");
    assert_eq!(model.waits(), ["waiting for web-0 to become ready before web-2 is deleted"]);
    model.settle();
    assert_eq!(model.short(), "web-0=1");
}

#[test]
fn a_condemned_pod_that_is_not_available_yet_goes_at_once() {
    // kubernetes#123918
    let mut model = ClusterModel::new(&json!({"replicas": 2, "minReadySeconds": 30}));
    model.reconcile(usize::MAX);
    model.pass();
    model.reconcile(usize::MAX);
    model.start("web-1");
    model.edit(&json!({"spec": {"replicas": 1}}));
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1~");
}

#[test]
fn of_several_condemned_the_lowest_that_is_not_ready_may_go_first() {
    let mut model = ClusterModel::new(&json!({"replicas": 3}));
    model.settle();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    model.edit(&json!({"spec": {"replicas": 1}}));
    model.edit_pod("web-1", &unready);
    model.edit_pod("web-2", &unready);
    assert_eq!(model.waits(), ["waiting for web-2 to become ready before web-2 is deleted"]);
}

#[test]
fn min_ready_seconds_holds_the_next_pod() {
    let mut model = ClusterModel::new(&json!({"replicas": 2, "minReadySeconds": 30}));
    model.reconcile(usize::MAX);
    model.start("web-0");
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1");
    assert_eq!(model.waits(), ["waiting for web-0 to stay ready for minReadySeconds before web-1 is created"]);
    assert_eq!(model.plan().requeue_at, Some(model.now + jiff::SignedDuration::from_secs(30)));
    assert_eq!((model.view().status.ready_replicas, model.view().status.available_replicas), (1, 0));
    model.now += jiff::SignedDuration::from_secs(30);
    model.reconcile(usize::MAX);
    assert_eq!((model.short().as_str(), model.plan().requeue_at), ("web-0=1 web-1=1", None));
}

#[test]
fn pods_that_ran_to_their_end_are_replaced() {
    for (policy, phase) in [("OrderedReady", "Failed"), ("OrderedReady", "Succeeded"), ("Parallel", "Failed")] {
        let mut model = ClusterModel::new(&json!({"podManagementPolicy": policy}));
        model.settle();
        let uid = model.pods["web-1"].json["metadata"]["uid"].clone();
        model.edit_pod("web-1", &json!({"status": {"phase": phase}}));
        model.reconcile(usize::MAX);
        assert_eq!(model.short(), "web-0=1 web-1=1~", "{policy} {phase}");
        model.reconcile(usize::MAX);
        let told = model.events.iter().filter(|(reason, _)| reason == "SuccessfulDelete").count();
        assert_eq!((model.reconcile(usize::MAX), told), (0, 1), "it is told to go once: kubernetes#122709");
        model.settle();
        assert_ne!(model.pods["web-1"].json["metadata"]["uid"], uid);
    }
}

#[test]
fn orphans_are_adopted_by_name_and_labels_and_strays_released() {
    let mut model = ClusterModel::new(&json!({"replicas": 2}));
    model.settle();
    let orphan = json!({"metadata": {"ownerReferences": null}});
    model.edit_pod("web-0", &orphan);
    let stages = model.plan().stages;
    assert_eq!((stages.len(), stages[1].actions.len()), (2, 1), "it asks whether the set is still there first");
    model.settle();
    assert!(model.pods["web-0"].json["metadata"]["ownerReferences"].is_array());
    model.edit_pod("web-0", &json!({"metadata": {"labels": {"app": "other"}}}));
    model.reconcile(usize::MAX);
    assert!(model.pods["web-0"].json["metadata"]["ownerReferences"].is_null(), "released");
    assert!(!model.selects(&json!({"app": "other"})));
    assert_eq!(model.waits(), ["waiting for pod web-0 of another owner to be deleted before web-0 is created"]);
    model.edit_pod("web-0", &json!({"metadata": {"labels": {"app": "web"}}}));
    model.settle();
    assert_eq!(model.waits(), [""; 0]);
}

#[test]
fn an_identity_that_was_lost_is_put_right() {
    for spec in [json!({"replicas": 2}), parallel(2)] {
        let mut model = ClusterModel::new(&spec);
        model.settle();
        model.edit_pod(
            "web-1",
            &json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null, "apps.kubernetes.io/pod-index": "9"}}}),
        );
        model.settle();
        let labels = &model.pods["web-1"].json["metadata"]["labels"];
        assert_eq!(
            (&labels["statefulset.kubernetes.io/pod-name"], &labels["apps.kubernetes.io/pod-index"]),
            (&json!("web-1"), &json!("1"))
        );
    }
}

#[test]
fn a_set_that_is_being_deleted_only_counts() {
    let mut model = ClusterModel::new(&json!({"replicas": 2}));
    model.settle();
    model.edit(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"replicas": 5, "template": template(2)}}));
    model.delete_pod("web-1");
    model.reconcile(usize::MAX);
    assert_eq!((model.short().as_str(), model.revisions.len()), ("web-0=1 web-1=1~", 1));
    assert_eq!(model.view().status.observed_generation, Generation(2));
}

/// Of each write of the set's status that is planned now: whether it is written at once.
fn urgent(model: &ClusterModel) -> Vec<bool> {
    let plan = model.plan();
    let is_status = |action: &&Action| matches!(action, Action::Patch { target, .. } if target.resource.plural == "statefulsets");
    plan.stages.iter().flat_map(|stage| &stage.actions).filter(is_status).map(|action| !action.may_wait()).collect()
}

#[test]
fn a_status_that_only_counts_may_wait_until_all_pods_are_there() {
    let mut model = ClusterModel::new(&json!({"replicas": 2})).with_gates("StatefulSetRecreateStrategy=false");
    assert_eq!(urgent(&model), [true], "the revision");
    model.reconcile(usize::MAX);
    assert_eq!(urgent(&model), [false], "one of two");
    model.reconcile(usize::MAX);
    model.start("web-0");
    model.reconcile(usize::MAX);
    assert_eq!(urgent(&model), [false], "two, of which one is ready");
    model.reconcile(usize::MAX);
    model.start("web-1");
    assert_eq!(urgent(&model), [true]);
    model.reconcile(usize::MAX);
    assert_eq!(urgent(&model), [true; 0]);
}

#[test]
fn conditions_stay_as_they_are_where_their_gate_is_off() {
    let mut model = ClusterModel::new(&json!({"replicas": 1}));
    model.settle();
    let mut model = model.with_gates("StatefulSetRecreateStrategy=false");
    assert_eq!((model.reconcile(usize::MAX), model.condition("Available").0.as_str()), (0, "True"));
}
