//! Failed templates are rolled back automatically.

use super::cluster_model::{ClusterModel, broken, template};
use berth_workloads::{plan::Action, rollback::Record};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const KNOWN: &str = "berth.dev/rolled-back-templates";

/// Three ready pods of a template, in a set with a deadline of a minute and a half.
fn asked(spec: &Value, first: &Value) -> ClusterModel {
    let mut whole = json!({"replicas": 3, "template": first});
    whole.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    let mut model = ClusterModel::new(&whole).with_gates("StatefulSetRecreateStrategy=true,MaxUnavailableStatefulSet=true");
    let annotations =
        json!({"berth.dev/auto-rollback": "OnDeadline", "berth.dev/progress-deadline-seconds": "90", "berth.dev/repair": "Revision"});
    model.edit(&json!({"metadata": {"annotations": annotations}}));
    model.settle();
    model
}

/// Reconciles, each with so many writes before the controller crashes, until nothing happens for long.
fn run(model: &mut ClusterModel, limit: usize) {
    let mut quiet = 0;
    for _ in 0..600 {
        let acted = model.reconcile(limit);
        model.pass();
        quiet = if acted == 0 { quiet + 1 } else { 0 };
        if quiet == 8 {
            return;
        }
    }
    panic!("no end: {:#?}", model.plan());
}

fn roll_out(model: &mut ClusterModel, template: &Value) {
    model.edit(&json!({"spec": {"template": template}}));
}

/// Runs until the first pod of a failing template exists.
fn until_made(model: &mut ClusterModel) {
    for _ in 0..10 {
        model.reconcile(usize::MAX);
        if model.short().ends_with('!') {
            return;
        }
        model.pass();
    }
    panic!("it is not made: {}", model.short());
}

fn recorded_events(model: &ClusterModel, reason: &str) -> Vec<String> {
    model.events.iter().filter(|(known, _)| known == reason).map(|(_, message)| message.clone()).collect()
}

fn strategies() -> [Value; 4] {
    [
        json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}),
        json!({}),
        json!({"podManagementPolicy": "Parallel"}),
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}}),
    ]
}

#[test]
fn a_template_that_fails_is_rolled_back_once_under_every_strategy_whenever_the_controller_dies() {
    for spec in strategies() {
        for limit in [usize::MAX, 1, 2] {
            let mut model = asked(&spec, &template(1));
            roll_out(&mut model, &broken(2));
            run(&mut model, limit);
            let what = format!("{spec}, {limit} writes: {:?}", model.events);
            assert_eq!(model.short(), "web-0=1 web-1=1 web-2=1", "{what}");
            assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 1, "{what}");
            let view = model.view();
            let record = Record::of(&view.annotations).expect("a record");
            assert_eq!((record.from_revision.0, record.to_revision.0, record.revision.0), (2, 1, 3), "{what}");
            assert_eq!(record.message, "1 of its 1 pods are not available", "{what}");
            // Both revisions have the record, and the target is recorded as complete again.
            let kept = |number: i64| {
                let of = |revision: &&crate::cluster_model::Stored| revision.json["revision"] == number;
                model.revisions.values().find(of).expect("a revision").json["metadata"]["annotations"].clone()
            };
            assert_eq!([&kept(2)["berth.dev/rollback"], &kept(3)["berth.dev/rollback"]], [&json!(record.value()); 2], "{what}");
            assert_eq!(
                [&kept(2)["berth.dev/completed-revision"], &kept(3)["berth.dev/completed-revision"]],
                [&Value::Null, &json!("3")],
                "{what}"
            );
            // A user restores the template, in a set whose records are deleted.
            model.edit(&json!({"metadata": {"annotations": {KNOWN: null, "berth.dev/rollback": null}}}));
            roll_out(&mut model, &broken(2));
            run(&mut model, limit);
            assert_eq!(
                (recorded_events(&model, "AutomaticRollback").len(), model.view().spec.template == view.spec.template),
                (1, false),
                "{what}"
            );
            assert!(recorded_events(&model, "AutomaticRollbackSkipped")[0].contains("was rolled back before"), "{:?}", model.events);
            // After a restart, it is a different template.
            let mut again = broken(2);
            again["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
            roll_out(&mut model, &again);
            run(&mut model, limit);
            assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 2, "{what}");
            assert_eq!(model.short(), "web-0=1 web-1=1 web-2=1", "{what}");
        }
    }
}

#[test]
fn a_way_back_that_fails_too_is_the_end() {
    let mut model =
        ClusterModel::new(&json!({"replicas": 3, "template": broken(1), "updateStrategy": {"type": "Recreate", "rollingUpdate": null}}))
            .with_gates("StatefulSetRecreateStrategy=true");
    model.is_healed = true;
    model.edit(
        &json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline", "berth.dev/progress-deadline-seconds": "90"}}}),
    );
    model.settle();
    model.is_healed = false;
    roll_out(&mut model, &broken(2));
    run(&mut model, usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 1);
    assert_eq!(model.view().spec.template.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).as_deref(), Some("1!"));
    assert_eq!(model.condition("RollbackFailed"), ("True".to_owned(), "TargetFailed".to_owned()));
    assert_eq!(recorded_events(&model, "RollbackFailed").len(), 1, "{:?}", model.events);
    model.is_healed = true;
    run(&mut model, usize::MAX);
    assert_eq!(model.condition("RollbackFailed"), (String::new(), String::new()), "it came up after all");
}

#[test]
fn nothing_goes_back_that_is_not_asked_to_or_was_complete_once() {
    for annotations in [
        json!({"berth.dev/auto-rollback": null}),
        json!({"berth.dev/auto-rollback": "Always"}),
        json!({"berth.dev/progress-deadline-seconds": null}),
        json!({"berth.dev/progress-deadline-seconds": "soon"}),
    ] {
        let mut model = asked(&json!({}), &template(1));
        model.edit(&json!({"metadata": {"annotations": annotations}}));
        roll_out(&mut model, &broken(2));
        run(&mut model, usize::MAX);
        assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0, "{annotations}");
    }
    let mut model = asked(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), &template(1));
    roll_out(&mut model, &broken(2));
    model.reconcile(usize::MAX);
    model.delete_pod("web-2");
    run(&mut model, usize::MAX);
    assert_eq!((recorded_events(&model, "AutomaticRollback").len(), model.short().as_str()), (0, "web-0=1 web-1=1 web-2=2!"));
    let mut model = asked(&json!({}), &template(1));
    model.is_healed = true;
    roll_out(&mut model, &broken(2));
    run(&mut model, usize::MAX);
    roll_out(&mut model, &template(3));
    run(&mut model, usize::MAX);
    model.is_healed = false;
    roll_out(&mut model, &broken(2));
    run(&mut model, usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0, "{:?}", model.events);
}

#[test]
fn a_first_template_has_nothing_to_go_back_to() {
    let model = asked(&json!({}), &broken(1));
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0);
    assert!(recorded_events(&model, "AutomaticRollbackSkipped")[0].ends_with("no other existing revision was ever complete"));
}

/// At that moment, not later.
#[test]
fn a_set_that_waits_for_the_deadline_is_requeued_for_that_time() {
    let mut model = asked(&json!({}), &template(1));
    assert_eq!(model.plan().requeue_at, None, "it is complete");
    roll_out(&mut model, &broken(2));
    until_made(&mut model);
    let made = |model: &ClusterModel, pod: &str| {
        let text = model.pods[pod].json["metadata"]["creationTimestamp"].as_str().expect("a time");
        text.parse::<Timestamp>().expect("a time")
    };
    let deadline = made(&model, "web-2") + SignedDuration::from_secs(90);
    assert_eq!(model.plan().requeue_at, Some(deadline));
    model.reconcile(usize::MAX);
    model.now = deadline - SignedDuration::from_nanos(1);
    assert_eq!((model.plan().requeue_at, recorded_events(&model, "AutomaticRollback").len()), (Some(deadline), 0));
    model.reconcile(usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0);
    model.now = deadline;
    model.reconcile(usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 1);
    // While the template remains, there is nothing to wait for.
    let mut model = asked(&json!({}), &broken(1));
    // The pod was observed running a minute after its creation.
    model.now = made(&model, "web-0") + SignedDuration::from_secs(150);
    assert_eq!(model.plan().requeue_at, None);
}

#[test]
fn a_rollback_without_a_cause_records_how_many_pods_were_not_available() {
    let two_at_once =
        json!({"podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}});
    let mut model = asked(&two_at_once, &template(1));
    roll_out(&mut model, &broken(2));
    until_made(&mut model);
    model.reconcile(usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=2! web-2=2!");
    model.is_healed = true;
    model.start("web-2");
    model.is_healed = false;
    // The next pod is deleted meanwhile, which is progress too.
    model.reconcile(usize::MAX);
    model.reconcile(usize::MAX);
    model.now += SignedDuration::from_mins(10);
    model.reconcile(usize::MAX);
    let record = Record::of(&model.view().annotations).expect("a record");
    assert_eq!((record.reason, record.message.as_str()), (None, "1 of its 2 pods are not available"));
}

fn unready(model: &mut ClusterModel, pod: &str) {
    model.edit_pod(pod, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
}

fn image(model: &ClusterModel) -> String {
    model.view().spec.template.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default()
}

/// The deadline starts with the last step of the rollout. While nothing is left to do, it does not run.
#[test]
fn a_canary_that_was_well_is_not_rolled_back_at_its_first_blip() {
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let mut model = asked(&partition, &template(1));
    roll_out(&mut model, &template(2));
    run(&mut model, usize::MAX);
    unready(&mut model, "web-2");
    for _ in 0..3 {
        model.reconcile(usize::MAX);
        model.now += SignedDuration::from_mins(10);
    }
    assert_eq!((image(&model).as_str(), recorded_events(&model, "AutomaticRollbackSkipped").len()), ("2", 0), "{:?}", model.events);
    // The pods that the partition kept have their own deadline, and can fail on their own.
    unready(&mut model, "web-0");
    model.edit(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}));
    model.reconcile(usize::MAX);
    assert_eq!(image(&model), "2");
    model.now += SignedDuration::from_secs(91);
    model.reconcile(usize::MAX);
    assert_eq!(image(&model), "1", "{:?}", model.events);
}

#[test]
fn a_template_that_was_complete_without_a_deadline_stays() {
    for strategy in strategies() {
        let mut model = asked(&strategy, &template(1));
        model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": null}}}));
        roll_out(&mut model, &template(2));
        run(&mut model, usize::MAX);
        unready(&mut model, "web-1");
        model.reconcile(usize::MAX);
        model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline"}}}));
        for _ in 0..3 {
            model.reconcile(usize::MAX);
            model.now += SignedDuration::from_mins(10);
        }
        assert_eq!(image(&model), "2", "{strategy}: {:?}", model.events);
        // It is also a valid rollback target.
        model.is_healed = true;
        run(&mut model, usize::MAX);
        model.is_healed = false;
        roll_out(&mut model, &broken(3));
        run(&mut model, usize::MAX);
        assert_eq!(image(&model), "2", "{strategy}: {:?}", model.events);
    }
}

#[test]
fn a_deadline_that_is_set_in_the_middle_of_a_rollout_begins_then() {
    let mut model = asked(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}), &template(1));
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": null}}}));
    roll_out(&mut model, &broken(2));
    run(&mut model, usize::MAX);
    model.now += SignedDuration::from_hours(1);
    model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline"}}}));
    model.reconcile(usize::MAX);
    assert_eq!((image(&model).as_str(), model.plan().requeue_at), ("2!", Some(model.now + SignedDuration::from_secs(90))));
    model.now += SignedDuration::from_secs(90);
    model.reconcile(usize::MAX);
    assert_eq!(image(&model), "1");
}

/// The template's pods cannot be created, and the template is the cause.
#[test]
fn a_template_whose_pods_are_refused_is_rolled_back() {
    let refused = |why: &str| {
        let mut model = asked(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}), &template(1));
        roll_out(&mut model, &template(2));
        for _ in 0..6 {
            model.reconcile_refused(why);
            model.pass();
        }
        model
    };
    let security = "pods \"web-0\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    let model = refused(security);
    assert_eq!(image(&model), "1", "{:?}", model.events);
    let record = Record::of(&model.view().annotations).expect("a record");
    assert!(record.message.contains("violates PodSecurity"), "{record:?}");
    let model = refused("pods \"web-0\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2");
    let skipped = recorded_events(&model, "AutomaticRollbackSkipped");
    assert!(image(&model) == "2" && skipped.len() == 1 && skipped[0].contains("exceeded quota"), "{:?}", model.events);
}

/// berth's API server rejects such a deadline, but another one may not.
#[test]
fn pods_that_have_to_stay_ready_for_a_while_do_not_miss_a_deadline() {
    let spec =
        json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}, "minReadySeconds": 300, "podManagementPolicy": "Parallel"});
    let mut model = asked(&spec, &template(1));
    roll_out(&mut model, &template(2));
    for _ in 0..20 {
        model.reconcile(usize::MAX);
        model.pass();
    }
    assert_eq!((image(&model).as_str(), recorded_events(&model, "AutomaticRollbackSkipped").len()), ("2", 0), "{:?}", model.events);
}

/// The pods are available briefly after each start.
#[test]
fn a_template_whose_pods_crash_a_moment_after_their_start_is_rolled_back() {
    let mut model =
        asked(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}, "podManagementPolicy": "Parallel"}), &template(1));
    roll_out(&mut model, &template(2));
    for _ in 0..6 {
        model.reconcile(usize::MAX);
        if model.short() == "web-0=2 web-1=2 web-2=2" && model.condition("Available").0 == "True" {
            break;
        }
        model.pass();
    }
    assert_eq!(model.condition("Available").0, "True", "conditions and counts are upstream's");
    let reached = model.now;
    for second in 1..=30 {
        model.now = reached + SignedDuration::from_secs(second * 4);
        for pod in ["web-0", "web-1", "web-2"] {
            if second % 2 == 1 { unready(&mut model, pod) } else { model.start(pod) }
        }
        model.reconcile(usize::MAX);
        let is_over = model.now.duration_since(reached).as_secs() > 90 && second % 2 == 1;
        assert_eq!(image(&model), if is_over { "1" } else { "2" }, "{:?}", model.events);
        if is_over {
            return;
        }
    }
    panic!("it was never rolled back");
}

#[test]
fn pods_that_take_long_to_stop_are_no_failure_and_other_waits_are_reported() {
    let recreate = json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}});
    let mut model = asked(&recreate, &template(1));
    roll_out(&mut model, &template(2));
    for _ in 0..3 {
        model.reconcile(usize::MAX);
        model.now += SignedDuration::from_mins(10);
    }
    assert_eq!(recorded_events(&model, "AutomaticRollbackSkipped").len(), 0, "{:?}", model.events);
    let mut others = model.pods["web-1"].clone();
    others.json["metadata"]["ownerReferences"] = json!(null);
    others.json["metadata"]["labels"] = json!({"app": "another"});
    others.json["metadata"]["deletionTimestamp"] = json!(null);
    for name in model.names() {
        model.gone(&name);
    }
    model.pods.insert("web-1".to_owned(), others);
    for _ in 0..6 {
        model.reconcile(usize::MAX);
        model.start("web-0");
        model.now += SignedDuration::from_secs(40);
    }
    let skipped = recorded_events(&model, "AutomaticRollbackSkipped");
    assert!(image(&model) == "2" && skipped.len() == 1 && skipped[0].contains("none of its pods fails"), "{:?}", model.events);
}

/// Neither pods of another revision nor terminating pods make a template fail.
#[test]
fn a_template_is_judged_by_its_own_pods_that_stay() {
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let mut model = asked(&partition, &template(1));
    roll_out(&mut model, &template(2));
    run(&mut model, usize::MAX);
    assert_eq!(model.short(), "web-0=1 web-1=1 web-2=2");
    model.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    model.now += SignedDuration::from_mins(10);
    assert_eq!(model.plan().requeue_at, None);
    model.reconcile(usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0, "{:?}", model.events);
    let mut model = asked(&json!({}), &template(1));
    roll_out(&mut model, &broken(2));
    until_made(&mut model);
    model.delete_pod("web-2");
    model.now += SignedDuration::from_mins(10);
    assert_eq!(model.plan().requeue_at, None);
    model.reconcile(usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0, "{:?}", model.events);
}

/// Faults of the cluster or of other objects cause no rollback.
#[test]
fn a_failure_that_no_other_template_would_cure_causes_no_rollback_and_is_reported() {
    let mut model = asked(&json!({}), &template(1));
    roll_out(&mut model, &broken(2));
    until_made(&mut model);
    model.reconcile(usize::MAX);
    let unplaced = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
    model.edit_pod("web-2", &json!({"status": {"conditions": unplaced}}));
    model.now += SignedDuration::from_secs(600);
    model.reconcile(usize::MAX);
    assert_eq!(recorded_events(&model, "AutomaticRollback").len(), 0, "{:?}", model.events);
    let skipped = recorded_events(&model, "AutomaticRollbackSkipped");
    assert!(skipped.len() == 1 && skipped[0].contains("0/1 nodes are available"), "{skipped:?}");
}

/// Pods of a lost node report nothing, and no other template would help them.
#[test]
fn where_pods_report_no_cause_one_of_their_nodes_must_answer_first() {
    let mut model = asked(&json!({}), &template(1));
    roll_out(&mut model, &broken(2));
    until_made(&mut model);
    model.reconcile(usize::MAX);
    model.edit_pod("web-2", &json!({"spec": {"nodeName": "node-1"}}));
    model.now += SignedDuration::from_secs(600);
    let actions = |model: &ClusterModel| model.plan().stages.into_iter().flat_map(|stage| stage.actions).collect::<Vec<_>>();
    let planned = actions(&model);
    let [Action::ConfirmNodeReady { nodes, answered_since, events, .. }, Action::Patch { .. }] = &planned[..] else {
        panic!("{planned:?}")
    };
    assert_eq!((&nodes[..], *answered_since), (&["node-1".to_owned()][..], model.now - SignedDuration::from_secs(12)));
    let skipped = events.failure.as_ref().expect("it says why nothing is done");
    assert!(skipped.message.starts_with("Revision 2 has missed its progress deadline and stays: "), "{skipped:?}");
    // A pod's report comes from its node.
    let waiting = json!([{"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    model.edit_pod("web-2", &json!({"status": {"containerStatuses": waiting}}));
    assert!(matches!(&actions(&model)[..], [Action::Patch { .. }]), "{:?}", model.plan());
}

/// A node may never answer again. The other work does not wait for it.
#[test]
fn a_set_gets_its_pods_while_no_node_answers_for_its_rollback() {
    let mut model = asked(&json!({"podManagementPolicy": "Parallel"}), &template(1));
    roll_out(&mut model, &broken(2));
    until_made(&mut model);
    model.reconcile(usize::MAX);
    model.edit_pod("web-2", &json!({"spec": {"nodeName": "node-1"}}));
    model.edit(&json!({"spec": {"replicas": 5}}));
    // The progress is recorded, and the pods of the new size are not created yet.
    model.reconcile(1);
    model.now += SignedDuration::from_secs(600);
    let plan = model.plan();
    let planned: Vec<_> = plan.stages.iter().flat_map(|stage| &stage.actions).collect();
    let created = planned.iter().filter(|action| matches!(action, Action::Create { .. })).count();
    assert_eq!(created, 2, "{planned:#?}");
    let [.., Action::ConfirmNodeReady { .. }, Action::Patch { subresource: None, .. }] = planned[..] else { panic!("{planned:#?}") };
}

#[test]
fn progress_is_kept_where_there_is_a_deadline_and_no_rollout_is_complete_without_pods() {
    let kept = |model: &ClusterModel, number: i64, key: &str| {
        let of = |revision: &&crate::cluster_model::Stored| revision.json["revision"] == number;
        model.revisions.values().find(of).expect("a revision").json["metadata"]["annotations"][key].clone()
    };
    for (policy, is_asked) in [("OnDeadline", true), ("Never", false)] {
        let mut model = asked(&json!({}), &template(1));
        model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": policy}}}));
        roll_out(&mut model, &template(2));
        run(&mut model, usize::MAX);
        roll_out(&mut model, &template(1));
        run(&mut model, usize::MAX);
        assert_eq!(kept(&model, 3, "berth.dev/progress").is_string(), is_asked, "{policy}");
    }
    let mut model = asked(&json!({}), &template(1));
    model.edit(&json!({"spec": {"replicas": 0}}));
    run(&mut model, usize::MAX);
    roll_out(&mut model, &template(2));
    run(&mut model, usize::MAX);
    assert_eq!([1, 2].map(|number| kept(&model, number, "berth.dev/completed-revision")), [json!("1"), Value::Null]);
}

/// The deadline of an older template starts when it is rolled out again, not when it was created.
#[test]
fn a_template_that_comes_again_has_its_time() {
    let mut model = asked(&json!({}), &template(1));
    roll_out(&mut model, &broken(2));
    model.reconcile(usize::MAX);
    roll_out(&mut model, &template(1));
    run(&mut model, usize::MAX);
    let begun = model.now;
    roll_out(&mut model, &broken(2));
    while recorded_events(&model, "AutomaticRollback").is_empty() {
        model.reconcile(usize::MAX);
        model.pass();
        assert!(model.now.duration_since(begun).as_mins() < 20, "{:?}", model.events);
    }
    assert!(model.now.duration_since(begun).as_secs() > 90);
}
