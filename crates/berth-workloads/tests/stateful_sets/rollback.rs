//! Templates that fail give way by themselves.

use crate::world::{World, broken, template};
use berth_workloads::rollback::Record;
use serde_json::{Value, json};

const KNOWN: &str = "berth.dev/rolled-back-templates";

/// Three ready pods of a template, of a set that goes back after a minute and a half.
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

/// Looks, each of so many writes before the controller dies, until nothing happens for long.
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

fn told(world: &World, reason: &str) -> Vec<String> {
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
fn a_template_that_fails_gives_way_once_under_every_strategy_whenever_the_controller_dies() {
    for spec in strategies() {
        for limit in [usize::MAX, 1, 2] {
            let mut world = asked(&spec, &template(1));
            roll_out(&mut world, &broken(2));
            run(&mut world, limit);
            let what = format!("{spec}, {limit} writes: {:?}", world.events);
            assert_eq!(world.short(), "web-0=1 web-1=1 web-2=1", "{what}");
            assert_eq!(told(&world, "AutomaticRollback").len(), 1, "{what}");
            let view = world.view();
            let record = Record::of(&view.annotations).expect("a record");
            assert_eq!((record.from_revision, record.to_revision, record.revision), (2, 1, 3), "{what}");
            // Both revisions tell of it, and the one that it went to that it is complete again.
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
            // Somebody brings it back, even to a set that has forgotten it.
            world.edit(&json!({"metadata": {"annotations": {KNOWN: null, "berth.dev/rollback": null}}}));
            roll_out(&mut world, &broken(2));
            run(&mut world, limit);
            assert_eq!((told(&world, "AutomaticRollback").len(), world.view().spec.template == view.spec.template), (1, false), "{what}");
            assert!(told(&world, "AutomaticRollbackSkipped")[0].contains("was rolled back from before"), "{:?}", world.events);
            // Started anew it is another one.
            let mut again = broken(2);
            again["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
            roll_out(&mut world, &again);
            run(&mut world, limit);
            assert_eq!(told(&world, "AutomaticRollback").len(), 2, "{what}");
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
    assert_eq!(told(&world, "AutomaticRollback").len(), 1);
    assert_eq!(world.view().spec.template.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).as_deref(), Some("1!"));
    assert_eq!(world.condition("RollbackFailed"), ("True".to_owned(), "TargetFailed".to_owned()));
    assert_eq!(told(&world, "RollbackFailed").len(), 1, "{:?}", world.events);
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
        assert_eq!(told(&world, "AutomaticRollback").len(), 0, "{annotations}");
    }
    let mut world = asked(&json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}), &template(1));
    roll_out(&mut world, &broken(2));
    world.look(usize::MAX);
    world.delete_pod("web-2");
    run(&mut world, usize::MAX);
    assert_eq!((told(&world, "AutomaticRollback").len(), world.short().as_str()), (0, "web-0=1 web-1=1 web-2=2!"));
    let mut world = asked(&json!({}), &template(1));
    world.is_healed = true;
    roll_out(&mut world, &broken(2));
    run(&mut world, usize::MAX);
    roll_out(&mut world, &template(3));
    run(&mut world, usize::MAX);
    world.is_healed = false;
    roll_out(&mut world, &broken(2));
    run(&mut world, usize::MAX);
    assert_eq!(told(&world, "AutomaticRollback").len(), 0, "{:?}", world.events);
}

#[test]
fn a_first_template_has_nothing_to_go_back_to() {
    let world = asked(&json!({}), &broken(1));
    assert_eq!(told(&world, "AutomaticRollback").len(), 0);
    assert!(told(&world, "AutomaticRollbackSkipped")[0].ends_with("no other revision that is still there was ever complete"));
}

/// The deadline of an older template begins when it is rolled out again, not when it was made.
#[test]
fn a_template_that_comes_again_has_its_time() {
    let mut world = asked(&json!({}), &template(1));
    roll_out(&mut world, &broken(2));
    world.look(usize::MAX);
    roll_out(&mut world, &template(1));
    run(&mut world, usize::MAX);
    let begun = world.now;
    roll_out(&mut world, &broken(2));
    while told(&world, "AutomaticRollback").is_empty() {
        world.look(usize::MAX);
        world.pass();
        assert!(world.now.duration_since(begun).as_mins() < 20, "{:?}", world.events);
    }
    assert!(world.now.duration_since(begun).as_secs() > 90);
}
