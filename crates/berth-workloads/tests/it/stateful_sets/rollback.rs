//! Failed templates are rolled back automatically.

use super::world::{World, broken, template};
use berth_workloads::{plan::Action, rollback::Record};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const KNOWN: &str = "berth.dev/rolled-back-templates";

/// Three ready pods of a template, in a set with a deadline of a minute and a half.
fn asked(spec: &Value, first: &Value) -> World {
    let mut whole = json!({"replicas": 3, "template": first});
    whole.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    let mut world = World::new(&whole).with_gates("StatefulSetRecreateStrategy=true,MaxUnavailableStatefulSet=true");
    let annotations =
        json!({"berth.dev/auto-rollback": "OnDeadline", "berth.dev/progress-deadline-seconds": "90", "berth.dev/repair": "Revision"});
    world.edit(&json!({"metadata": {"annotations": annotations}}));
    world.settle();
    world
}

/// Reconciles, each with so many writes before the controller crashes, until nothing happens for long.
fn run(world: &mut World, limit: usize) {
    let mut quiet = 0;
    for _ in 0..600 {
        let acted = world.look(limit);
        world.pass();
        quiet = if acted == 0 { quiet + 1 } else { 0 };
        if quiet == 8 {
            return;
        }
    }
    panic!("no end: {:#?}", world.plan());
}

fn roll_out(world: &mut World, template: &Value) {
    world.edit(&json!({"spec": {"template": template}}));
}

/// Runs until the first pod of a failing template exists.
fn until_made(world: &mut World) {
    for _ in 0..10 {
        world.look(usize::MAX);
        if world.short().ends_with('!') {
            return;
        }
        world.pass();
    }
    panic!("it is not made: {}", world.short());
}

fn recorded_events(world: &World, reason: &str) -> Vec<String> {
    world.events.iter().filter(|(known, _)| known == reason).map(|(_, message)| message.clone()).collect()
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
            let mut world = asked(&spec, &template(1));
            roll_out(&mut world, &broken(2));
            run(&mut world, limit);
            let what = format!("{spec}, {limit} writes: {:?}", world.events);
            assert_eq!(world.short(), "web-0=1 web-1=1 web-2=1", "{what}");
            assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 1, "{what}");
            let view = world.view();
            let record = Record::of(&view.annotations).expect("a record");
            assert_eq!((record.from_revision.0, record.to_revision.0, record.revision.0), (2, 1, 3), "{what}");
            assert_eq!(record.message, "1 of its 1 pods are not available", "{what}");
            // Both revisions have the record, and the target is recorded as complete again.
            let kept = |number: i64| {
                let of = |revision: &&crate::world::Stored| revision.json["revision"] == number;
                world.revisions.values().find(of).expect("a revision").json["metadata"]["annotations"].clone()
            };
            assert_eq!([&kept(2)["berth.dev/rollback"], &kept(3)["berth.dev/rollback"]], [&json!(record.value()); 2], "{what}");
            assert_eq!(
                [&kept(2)["berth.dev/completed-revision"], &kept(3)["berth.dev/completed-revision"]],
                [&Value::Null, &json!("3")],
                "{what}"
            );
            // A user restores the template, in a set whose records are deleted.
            world.edit(&json!({"metadata": {"annotations": {KNOWN: null, "berth.dev/rollback": null}}}));
            roll_out(&mut world, &broken(2));
            run(&mut world, limit);
            assert_eq!(
                (recorded_events(&world, "AutomaticRollback").len(), world.view().spec.template == view.spec.template),
                (1, false),
                "{what}"
            );
            assert!(recorded_events(&world, "AutomaticRollbackSkipped")[0].contains("was rolled back before"), "{:?}", world.events);
            // After a restart, it is a different template.
            let mut again = broken(2);
            again["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
            roll_out(&mut world, &again);
            run(&mut world, limit);
            assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 2, "{what}");
            assert_eq!(world.short(), "web-0=1 web-1=1 web-2=1", "{what}");
        }
    }
}

#[test]
fn a_way_back_that_fails_too_is_the_end() {
    let mut world =
        World::new(&json!({"replicas": 3, "template": broken(1), "updateStrategy": {"type": "Recreate", "rollingUpdate": null}}))
            .with_gates("StatefulSetRecreateStrategy=true");
    world.is_healed = true;
    world.edit(
        &json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline", "berth.dev/progress-deadline-seconds": "90"}}}),
    );
    world.settle();
    world.is_healed = false;
    roll_out(&mut world, &broken(2));
    run(&mut world, usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 1);
    assert_eq!(world.view().spec.template.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).as_deref(), Some("1!"));
    assert_eq!(world.condition("RollbackFailed"), ("True".to_owned(), "TargetFailed".to_owned()));
    assert_eq!(recorded_events(&world, "RollbackFailed").len(), 1, "{:?}", world.events);
    world.is_healed = true;
    run(&mut world, usize::MAX);
    assert_eq!(world.condition("RollbackFailed"), (String::new(), String::new()), "it came up after all");
}

#[test]
fn nothing_goes_back_that_is_not_asked_to_or_was_complete_once() {
    for annotations in [
        json!({"berth.dev/auto-rollback": null}),
        json!({"berth.dev/auto-rollback": "Always"}),
        json!({"berth.dev/progress-deadline-seconds": null}),
        json!({"berth.dev/progress-deadline-seconds": "soon"}),
    ] {
        let mut world = asked(&json!({}), &template(1));
        world.edit(&json!({"metadata": {"annotations": annotations}}));
        roll_out(&mut world, &broken(2));
        run(&mut world, usize::MAX);
        assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0, "{annotations}");
    }
    let mut world = asked(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), &template(1));
    roll_out(&mut world, &broken(2));
    world.look(usize::MAX);
    world.delete_pod("web-2");
    run(&mut world, usize::MAX);
    assert_eq!((recorded_events(&world, "AutomaticRollback").len(), world.short().as_str()), (0, "web-0=1 web-1=1 web-2=2!"));
    let mut world = asked(&json!({}), &template(1));
    world.is_healed = true;
    roll_out(&mut world, &broken(2));
    run(&mut world, usize::MAX);
    roll_out(&mut world, &template(3));
    run(&mut world, usize::MAX);
    world.is_healed = false;
    roll_out(&mut world, &broken(2));
    run(&mut world, usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0, "{:?}", world.events);
}

#[test]
fn a_first_template_has_nothing_to_go_back_to() {
    let world = asked(&json!({}), &broken(1));
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0);
    assert!(recorded_events(&world, "AutomaticRollbackSkipped")[0].ends_with("no other existing revision was ever complete"));
}

/// At that moment, not later.
#[test]
fn a_set_that_waits_for_the_deadline_is_requeued_for_that_time() {
    let mut world = asked(&json!({}), &template(1));
    assert_eq!(world.plan().look_again, None, "it is complete");
    roll_out(&mut world, &broken(2));
    until_made(&mut world);
    let made = |world: &World, pod: &str| {
        let text = world.pods[pod].json["metadata"]["creationTimestamp"].as_str().expect("a time");
        text.parse::<Timestamp>().expect("a time")
    };
    let deadline = made(&world, "web-2") + SignedDuration::from_secs(90);
    assert_eq!(world.plan().look_again, Some(deadline));
    world.look(usize::MAX);
    world.now = deadline - SignedDuration::from_nanos(1);
    assert_eq!((world.plan().look_again, recorded_events(&world, "AutomaticRollback").len()), (Some(deadline), 0));
    world.look(usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0);
    world.now = deadline;
    world.look(usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 1);
    // While the template remains, there is nothing to wait for.
    let mut world = asked(&json!({}), &broken(1));
    // The pod was observed running a minute after its creation.
    world.now = made(&world, "web-0") + SignedDuration::from_secs(150);
    assert_eq!(world.plan().look_again, None);
}

#[test]
fn a_rollback_without_a_cause_records_how_many_pods_were_not_available() {
    let two_at_once =
        json!({"podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}});
    let mut world = asked(&two_at_once, &template(1));
    roll_out(&mut world, &broken(2));
    until_made(&mut world);
    world.look(usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=2! web-2=2!");
    world.is_healed = true;
    world.start("web-2");
    world.is_healed = false;
    // The next pod is deleted meanwhile, which is progress too.
    world.look(usize::MAX);
    world.look(usize::MAX);
    world.now += SignedDuration::from_mins(10);
    world.look(usize::MAX);
    let record = Record::of(&world.view().annotations).expect("a record");
    assert_eq!((record.reason, record.message.as_str()), (None, "1 of its 2 pods are not available"));
}

fn unready(world: &mut World, pod: &str) {
    world.edit_pod(pod, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
}

fn image(world: &World) -> String {
    world.view().spec.template.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default()
}

/// The deadline starts with the last step of the rollout. While nothing is left to do, it does not run.
#[test]
fn a_canary_that_was_well_is_not_rolled_back_at_its_first_blip() {
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let mut world = asked(&partition, &template(1));
    roll_out(&mut world, &template(2));
    run(&mut world, usize::MAX);
    unready(&mut world, "web-2");
    for _ in 0..3 {
        world.look(usize::MAX);
        world.now += SignedDuration::from_mins(10);
    }
    assert_eq!((image(&world).as_str(), recorded_events(&world, "AutomaticRollbackSkipped").len()), ("2", 0), "{:?}", world.events);
    // The pods that the partition kept have their own deadline, and can fail on their own.
    unready(&mut world, "web-0");
    world.edit(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}));
    world.look(usize::MAX);
    assert_eq!(image(&world), "2");
    world.now += SignedDuration::from_secs(91);
    world.look(usize::MAX);
    assert_eq!(image(&world), "1", "{:?}", world.events);
}

#[test]
fn a_template_that_was_complete_without_a_deadline_stays() {
    for strategy in strategies() {
        let mut world = asked(&strategy, &template(1));
        world.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": null}}}));
        roll_out(&mut world, &template(2));
        run(&mut world, usize::MAX);
        unready(&mut world, "web-1");
        world.look(usize::MAX);
        world.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline"}}}));
        for _ in 0..3 {
            world.look(usize::MAX);
            world.now += SignedDuration::from_mins(10);
        }
        assert_eq!(image(&world), "2", "{strategy}: {:?}", world.events);
        // It is also a valid rollback target.
        world.is_healed = true;
        run(&mut world, usize::MAX);
        world.is_healed = false;
        roll_out(&mut world, &broken(3));
        run(&mut world, usize::MAX);
        assert_eq!(image(&world), "2", "{strategy}: {:?}", world.events);
    }
}

#[test]
fn a_deadline_that_is_set_in_the_middle_of_a_rollout_begins_then() {
    let mut world = asked(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}), &template(1));
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": null}}}));
    roll_out(&mut world, &broken(2));
    run(&mut world, usize::MAX);
    world.now += SignedDuration::from_hours(1);
    world.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline"}}}));
    world.look(usize::MAX);
    assert_eq!((image(&world).as_str(), world.plan().look_again), ("2!", Some(world.now + SignedDuration::from_secs(90))));
    world.now += SignedDuration::from_secs(90);
    world.look(usize::MAX);
    assert_eq!(image(&world), "1");
}

/// The template's pods cannot be created, and the template is the cause.
#[test]
fn a_template_whose_pods_are_refused_is_rolled_back() {
    let refused = |why: &str| {
        let mut world = asked(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}), &template(1));
        roll_out(&mut world, &template(2));
        for _ in 0..6 {
            world.look_refused(why);
            world.pass();
        }
        world
    };
    let security = "pods \"web-0\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    let world = refused(security);
    assert_eq!(image(&world), "1", "{:?}", world.events);
    let record = Record::of(&world.view().annotations).expect("a record");
    assert!(record.message.contains("violates PodSecurity"), "{record:?}");
    let world = refused("pods \"web-0\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2");
    let skipped = recorded_events(&world, "AutomaticRollbackSkipped");
    assert!(image(&world) == "2" && skipped.len() == 1 && skipped[0].contains("exceeded quota"), "{:?}", world.events);
}

/// berth's API server rejects such a deadline, but another one may not.
#[test]
fn pods_that_have_to_stay_ready_for_a_while_do_not_miss_a_deadline() {
    let spec =
        json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}, "minReadySeconds": 300, "podManagementPolicy": "Parallel"});
    let mut world = asked(&spec, &template(1));
    roll_out(&mut world, &template(2));
    for _ in 0..20 {
        world.look(usize::MAX);
        world.pass();
    }
    assert_eq!((image(&world).as_str(), recorded_events(&world, "AutomaticRollbackSkipped").len()), ("2", 0), "{:?}", world.events);
}

/// The pods are available briefly after each start.
#[test]
fn a_template_whose_pods_crash_a_moment_after_their_start_is_rolled_back() {
    let mut world =
        asked(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}, "podManagementPolicy": "Parallel"}), &template(1));
    roll_out(&mut world, &template(2));
    for _ in 0..6 {
        world.look(usize::MAX);
        if world.short() == "web-0=2 web-1=2 web-2=2" && world.condition("Available").0 == "True" {
            break;
        }
        world.pass();
    }
    assert_eq!(world.condition("Available").0, "True", "conditions and counts are upstream's");
    let reached = world.now;
    for second in 1..=30 {
        world.now = reached + SignedDuration::from_secs(second * 4);
        for pod in ["web-0", "web-1", "web-2"] {
            if second % 2 == 1 { unready(&mut world, pod) } else { world.start(pod) }
        }
        world.look(usize::MAX);
        let is_over = world.now.duration_since(reached).as_secs() > 90 && second % 2 == 1;
        assert_eq!(image(&world), if is_over { "1" } else { "2" }, "{:?}", world.events);
        if is_over {
            return;
        }
    }
    panic!("it was never rolled back");
}

#[test]
fn pods_that_take_long_to_stop_are_no_failure_and_other_waits_are_reported() {
    let recreate = json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}});
    let mut world = asked(&recreate, &template(1));
    roll_out(&mut world, &template(2));
    for _ in 0..3 {
        world.look(usize::MAX);
        world.now += SignedDuration::from_mins(10);
    }
    assert_eq!(recorded_events(&world, "AutomaticRollbackSkipped").len(), 0, "{:?}", world.events);
    let mut others = world.pods["web-1"].clone();
    others.json["metadata"]["ownerReferences"] = json!(null);
    others.json["metadata"]["labels"] = json!({"app": "another"});
    others.json["metadata"]["deletionTimestamp"] = json!(null);
    for name in world.names() {
        world.gone(&name);
    }
    world.pods.insert("web-1".to_owned(), others);
    for _ in 0..6 {
        world.look(usize::MAX);
        world.start("web-0");
        world.now += SignedDuration::from_secs(40);
    }
    let skipped = recorded_events(&world, "AutomaticRollbackSkipped");
    assert!(image(&world) == "2" && skipped.len() == 1 && skipped[0].contains("none of its pods fails"), "{:?}", world.events);
}

/// Neither pods of another revision nor terminating pods make a template fail.
#[test]
fn a_template_is_judged_by_its_own_pods_that_stay() {
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let mut world = asked(&partition, &template(1));
    roll_out(&mut world, &template(2));
    run(&mut world, usize::MAX);
    assert_eq!(world.short(), "web-0=1 web-1=1 web-2=2");
    world.edit_pod("web-0", &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    world.now += SignedDuration::from_mins(10);
    assert_eq!(world.plan().look_again, None);
    world.look(usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0, "{:?}", world.events);
    let mut world = asked(&json!({}), &template(1));
    roll_out(&mut world, &broken(2));
    until_made(&mut world);
    world.delete_pod("web-2");
    world.now += SignedDuration::from_mins(10);
    assert_eq!(world.plan().look_again, None);
    world.look(usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0, "{:?}", world.events);
}

/// Faults of the cluster or of other objects cause no rollback.
#[test]
fn a_failure_that_no_other_template_would_cure_causes_no_rollback_and_is_reported() {
    let mut world = asked(&json!({}), &template(1));
    roll_out(&mut world, &broken(2));
    until_made(&mut world);
    world.look(usize::MAX);
    let unplaced = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
    world.edit_pod("web-2", &json!({"status": {"conditions": unplaced}}));
    world.now += SignedDuration::from_secs(600);
    world.look(usize::MAX);
    assert_eq!(recorded_events(&world, "AutomaticRollback").len(), 0, "{:?}", world.events);
    let skipped = recorded_events(&world, "AutomaticRollbackSkipped");
    assert!(skipped.len() == 1 && skipped[0].contains("0/1 nodes are available"), "{skipped:?}");
}

/// Pods of a lost node report nothing, and no other template would help them.
#[test]
fn where_pods_report_no_cause_one_of_their_nodes_must_answer_first() {
    let mut world = asked(&json!({}), &template(1));
    roll_out(&mut world, &broken(2));
    until_made(&mut world);
    world.look(usize::MAX);
    world.edit_pod("web-2", &json!({"spec": {"nodeName": "node-1"}}));
    world.now += SignedDuration::from_secs(600);
    let actions = |world: &World| world.plan().stages.into_iter().flat_map(|stage| stage.actions).collect::<Vec<_>>();
    let planned = actions(&world);
    let [Action::ConfirmNodeReady { nodes, answered_since, events, .. }, Action::Patch { .. }] = &planned[..] else {
        panic!("{planned:?}")
    };
    assert_eq!((&nodes[..], *answered_since), (&["node-1".to_owned()][..], world.now - SignedDuration::from_secs(12)));
    let skipped = events.failure.as_ref().expect("it says why nothing is done");
    assert!(skipped.message.starts_with("Revision 2 has missed its progress deadline and stays: "), "{skipped:?}");
    // A pod's report comes from its node.
    let waiting = json!([{"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    world.edit_pod("web-2", &json!({"status": {"containerStatuses": waiting}}));
    assert!(matches!(&actions(&world)[..], [Action::Patch { .. }]), "{:?}", world.plan());
}

/// A node may never answer again. The other work does not wait for it.
#[test]
fn a_set_gets_its_pods_while_no_node_answers_for_its_rollback() {
    let mut world = asked(&json!({"podManagementPolicy": "Parallel"}), &template(1));
    roll_out(&mut world, &broken(2));
    until_made(&mut world);
    world.look(usize::MAX);
    world.edit_pod("web-2", &json!({"spec": {"nodeName": "node-1"}}));
    world.edit(&json!({"spec": {"replicas": 5}}));
    // The progress is recorded, and the pods of the new size are not created yet.
    world.look(1);
    world.now += SignedDuration::from_secs(600);
    let plan = world.plan();
    let planned: Vec<_> = plan.stages.iter().flat_map(|stage| &stage.actions).collect();
    let created = planned.iter().filter(|action| matches!(action, Action::Create { .. })).count();
    assert_eq!(created, 2, "{planned:#?}");
    let [.., Action::ConfirmNodeReady { .. }, Action::Patch { subresource: None, .. }] = planned[..] else { panic!("{planned:#?}") };
}

#[test]
fn progress_is_kept_where_there_is_a_deadline_and_no_rollout_is_complete_without_pods() {
    let kept = |world: &World, number: i64, key: &str| {
        let of = |revision: &&crate::world::Stored| revision.json["revision"] == number;
        world.revisions.values().find(of).expect("a revision").json["metadata"]["annotations"][key].clone()
    };
    for (policy, is_asked) in [("OnDeadline", true), ("Never", false)] {
        let mut world = asked(&json!({}), &template(1));
        world.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": policy}}}));
        roll_out(&mut world, &template(2));
        run(&mut world, usize::MAX);
        roll_out(&mut world, &template(1));
        run(&mut world, usize::MAX);
        assert_eq!(kept(&world, 3, "berth.dev/progress").is_string(), is_asked, "{policy}");
    }
    let mut world = asked(&json!({}), &template(1));
    world.edit(&json!({"spec": {"replicas": 0}}));
    run(&mut world, usize::MAX);
    roll_out(&mut world, &template(2));
    run(&mut world, usize::MAX);
    assert_eq!([1, 2].map(|number| kept(&world, number, "berth.dev/completed-revision")), [json!("1"), Value::Null]);
}

/// The deadline of an older template starts when it is rolled out again, not when it was created.
#[test]
fn a_template_that_comes_again_has_its_time() {
    let mut world = asked(&json!({}), &template(1));
    roll_out(&mut world, &broken(2));
    world.look(usize::MAX);
    roll_out(&mut world, &template(1));
    run(&mut world, usize::MAX);
    let begun = world.now;
    roll_out(&mut world, &broken(2));
    while recorded_events(&world, "AutomaticRollback").is_empty() {
        world.look(usize::MAX);
        world.pass();
        assert!(world.now.duration_since(begun).as_mins() < 20, "{:?}", world.events);
    }
    assert!(world.now.duration_since(begun).as_secs() > 90);
}
