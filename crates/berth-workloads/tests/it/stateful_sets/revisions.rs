//! ControllerRevisions: equality, numbers, names, history.

use super::cluster_model::{ClusterModel, template};
use serde_json::{Value, json};

fn numbers(model: &ClusterModel) -> Vec<i64> {
    let mut numbers: Vec<_> = model.revisions.values().filter_map(|revision| revision.json["revision"].as_i64()).collect();
    numbers.sort_unstable();
    numbers
}

fn update(model: &mut ClusterModel, number: u32) {
    model.edit(&json!({"spec": {"template": template(number)}}));
    model.settle();
}

#[test]
fn a_revision_keeps_the_template_as_a_patch() {
    let mut model = ClusterModel::new(&json!({}));
    model.edit(&json!({"metadata": {"annotations": {"note": "first"}}}));
    model.reconcile(usize::MAX);
    let (name, revision) = model.revisions.iter().next().expect("a revision");
    let mut data = json!({"spec": {"template": template(1)}});
    data["spec"]["template"]["$patch"] = json!("replace");
    assert_eq!((&revision.json["data"], &revision.json["revision"]), (&data, &json!(1)));
    assert_eq!(
        (&revision.json["metadata"]["annotations"], &revision.json["metadata"]["namespace"]),
        (&json!({"note": "first"}), &json!("shop"))
    );
    assert_eq!(revision.json["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    let hash = revision.json["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str().expect("a hash");
    assert_eq!((name.as_str(), &revision.json["metadata"]["labels"]["app"]), (format!("web-{hash}").as_str(), &json!("web")));
    assert_eq!(model.pods["web-0"].json["metadata"]["labels"]["controller-revision-hash"], name.as_str());
}

#[test]
fn a_template_that_comes_back_raises_its_old_revision() {
    let mut model = ClusterModel::new(&json!({}));
    model.settle();
    let first = model.revisions.keys().next().cloned().expect("a revision");
    update(&mut model, 2);
    update(&mut model, 1);
    assert_eq!((model.revisions.len(), numbers(&model)), (2, vec![2, 3]));
    assert_eq!((model.revisions[&first].json["revision"].clone(), model.view().status.current_revision), (json!(3), first));
}

#[test]
fn a_revision_that_the_set_does_not_select_is_none_of_its_history() {
    let mut model = ClusterModel::new(&json!({}));
    model.settle();
    let mut stray = model.revisions.values().next().expect("a revision").clone();
    stray.json["metadata"]["name"] = json!("stray");
    stray.json["metadata"]["uid"] = json!("uid-stray");
    stray.json["metadata"]["labels"] = json!({"app": "db"});
    stray.json["revision"] = json!(7);
    model.revisions.insert("stray".to_owned(), stray);
    update(&mut model, 2);
    assert_eq!(numbers(&model), [1, 2, 7]);
}

#[test]
fn scaling_makes_no_revision() {
    let mut model = ClusterModel::new(&json!({}));
    model.settle();
    model.edit(&json!({"spec": {"replicas": 4, "minReadySeconds": 1}}));
    model.settle();
    assert_eq!(model.revisions.len(), 1);
}

#[test]
fn a_revision_of_fewer_defaults_means_the_same_with_its_gate() {
    for (gates, revisions) in [("", 1), ("StatefulSetSemanticRevisionComparison=false", 2)] {
        let mut model =
            ClusterModel::new(&json!({"template": {"spec": {"restartPolicy": "Always", "containers": [{"name": "web", "image": "1",
            "imagePullPolicy": "IfNotPresent", "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File"}], "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30, "enableServiceLinks": true}}}))
            .with_gates(gates);
        model.settle();
        let full = model.set.json["spec"]["template"].clone();
        let revision = model.revisions.values_mut().next().expect("a revision");
        revision.json["data"]["spec"]["template"]["spec"].as_object_mut().expect("a spec").remove("dnsPolicy");
        model.settle();
        assert_eq!(model.revisions.len(), revisions, "{gates:?} {full}");
    }
}

#[test]
fn a_name_that_is_taken_by_another_template_is_passed_over() {
    let mut model = ClusterModel::new(&json!({}));
    model.settle();
    let mut probe = model.clone();
    update(&mut probe, 2);
    let name = probe.revisions.keys().find(|name| !model.revisions.contains_key(*name)).expect("the second").clone();
    let mut taken = probe.revisions[&name].clone();
    taken.json["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]);
    let mut same = model.clone();
    same.revisions.insert(name.clone(), taken.clone());
    update(&mut same, 2);
    assert_eq!((same.revisions.len(), same.view().status.update_revision, same.view().status.collision_count), (2, name.clone(), Some(0)));
    taken.json["data"] = json!({"another": "template"});
    model.revisions.insert(name.clone(), taken);
    update(&mut model, 2);
    assert_eq!((model.revisions.len(), model.view().status.collision_count), (3, Some(1)));
    assert_ne!(model.view().status.update_revision, name);
    let hash = |name: &str| model.revisions[name].json["metadata"]["labels"]["controller.kubernetes.io/hash"].clone();
    assert_eq!(hash(&model.view().status.update_revision), hash(&name), "the label keeps the first hash");
    assert_eq!(model.reconcile(usize::MAX), 0);
}

#[test]
fn orphans_are_adopted() {
    let mut model = ClusterModel::new(&json!({}));
    model.settle();
    let name = model.revisions.keys().next().cloned().expect("a revision");
    model.revisions.get_mut(&name).expect("it").json["metadata"]["ownerReferences"] = Value::Null;
    model.settle();
    assert_eq!((model.revisions.len(), &model.revisions[&name].json["metadata"]["ownerReferences"][0]["uid"]), (1, &json!("uid-web")));
}

#[test]
fn the_history_has_a_limit() {
    for (limit, kept) in [(0, 1), (2, 3), (-1, 6)] {
        let mut model = ClusterModel::new(&json!({"revisionHistoryLimit": limit}));
        model.settle();
        (2..=6).for_each(|number| update(&mut model, number));
        assert_eq!(model.revisions.len(), kept, "limit {limit}");
        assert_eq!(numbers(&model).last(), Some(&6));
    }
}

#[test]
fn the_limit_holds_where_no_pod_can_be_created() {
    // kubernetes#85690
    let mut model = ClusterModel::new(&json!({"revisionHistoryLimit": 2}));
    for number in 1..9 {
        model.edit(&json!({"spec": {"template": template(number)}}));
        for _ in 0..3 {
            let plan = model.plan();
            let deletes_beside = plan.stages.iter().filter(|stage| stage.actions.len() > 1).count();
            assert!(deletes_beside <= 1);
            // The revision, and the stage of status and pod without the pod.
            model.reconcile_without_pods();
        }
    }
    assert!(model.pods.is_empty());
    assert_eq!(model.revisions.len(), 4, "the first is still the current one, the last the update's, and two are kept");
}

#[test]
fn revisions_that_pods_name_are_kept() {
    let mut model =
        ClusterModel::new(&json!({"revisionHistoryLimit": 0, "replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}));
    model.settle();
    update(&mut model, 2);
    model.edit(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 3}}}}));
    update(&mut model, 3);
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=2");
    assert_eq!(numbers(&model), [1, 2, 3]);
}

#[test]
fn a_restarted_controller_writes_nothing() {
    // kubernetes#58347
    let mut model = ClusterModel::new(&json!({}));
    model.settle();
    update(&mut model, 2);
    let plan = model.plan();
    assert!(plan.stages.is_empty() && plan.events.is_empty() && plan.waits.is_empty(), "{plan:?}");
}
