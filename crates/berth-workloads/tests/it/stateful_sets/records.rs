//! The records of a StatefulSet's rollouts.

use super::world::{World, broken, template};
use serde_json::{Value, json};

const ROLLOUT: &str = "berth.dev/rollout";
const CHANGED_BY: &str = "berth.dev/changed-by";
const GATES: &str = "StatefulSetRecreateStrategy=true,RolloutRecords=true";

fn changed(world: &mut World, template: &Value, user: &str) {
    let by = format!(r#"{{"at":"1970-01-01T00:00:00Z","user":"{user}","manager":"m"}}"#);
    world.edit(&json!({"metadata": {"annotations": {CHANGED_BY: by}}, "spec": {"template": template}}));
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

/// The record of each revision, oldest first: number, author, former number, end, and the rollout that replaced it.
fn rollout_lines(world: &World) -> Vec<String> {
    let mut revisions: Vec<&Value> = world.revisions.values().map(|revision| &*revision.json).collect();
    revisions.sort_by_key(|revision| revision["revision"].as_i64());
    let one = |revision: &Value| {
        let annotations = &revision["metadata"]["annotations"];
        assert!(annotations[CHANGED_BY].is_null(), "{annotations}");
        let record: Value = serde_json::from_str(annotations[ROLLOUT].as_str().expect("a record")).expect("JSON");
        assert_eq!(record["revision"], revision["revision"]);
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let ended = &record["ended"];
        [&record["revision"], &record["by"]["user"], &record["formerRevision"], &ended["how"], &ended["revision"]].map(text).join(" ")
    };
    revisions.into_iter().map(one).collect()
}

#[test]
fn each_rollout_is_recorded_with_the_user_who_began_it_and_its_end() {
    for spec in [json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}), json!({"podManagementPolicy": "Parallel"})] {
        for limit in [usize::MAX, 1, 2] {
            let mut world = World::new(&spec).with_gates(GATES);
            run(&mut world, limit);
            changed(&mut world, &template(2), "alice");
            run(&mut world, limit);
            assert_eq!(rollout_lines(&world), ["1 null null Complete null", "2 alice null Complete null"], "{spec} {limit}");
            changed(&mut world, &broken(3), "bob");
            run(&mut world, limit);
            assert_eq!(rollout_lines(&world)[2], "3 bob null null null", "{spec} {limit}");
            changed(&mut world, &template(1), "carol");
            run(&mut world, limit);
            let wanted = ["2 alice null Complete null", "3 bob null Superseded 4"];
            assert_eq!(rollout_lines(&world)[..2], wanted, "{spec} {limit}");
            assert!(rollout_lines(&world)[2].starts_with("4 carol 1 "), "{spec} {limit}: {:?}", rollout_lines(&world));
        }
    }
}

#[test]
fn an_automatic_rollback_is_recorded() {
    for limit in [usize::MAX, 1, 2] {
        let mut world = World::new(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}})).with_gates(GATES);
        world.edit(&json!({"metadata": {"annotations": {
            "berth.dev/auto-rollback": "OnDeadline", "berth.dev/progress-deadline-seconds": "90",
        }}}));
        run(&mut world, limit);
        changed(&mut world, &broken(2), "alice");
        run(&mut world, limit);
        let now = rollout_lines(&world);
        assert_eq!(now[0], "2 alice null RolledBack 3", "{limit}");
        assert!(now[1].starts_with("3 alice 1 Complete"), "{limit}: {now:?}");
        changed(&mut world, &broken(2), "bob");
        run(&mut world, limit);
        assert_eq!(rollout_lines(&world)[1], "4 bob 2 Failed null", "{limit}");
    }
}

/// An update that stops at a partition is not complete.
#[test]
fn an_update_with_a_partition_is_under_way_until_it_has_all() {
    let rolling = |partition: u32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let mut world = World::new(&rolling(1)).with_gates(GATES);
    run(&mut world, usize::MAX);
    changed(&mut world, &template(2), "alice");
    run(&mut world, usize::MAX);
    assert_eq!(rollout_lines(&world)[1], "2 alice null null null");
    world.edit(&json!({"spec": rolling(0)}));
    run(&mut world, usize::MAX);
    assert_eq!(rollout_lines(&world)[1], "2 alice null Complete null");
}

#[test]
fn with_the_gate_off_nothing_is_kept() {
    let mut world = World::new(&json!({})).with_gates("RolloutRecords=false");
    world.edit(&json!({"metadata": {"annotations": {CHANGED_BY: "mine"}}}));
    run(&mut world, usize::MAX);
    let annotations = &world.revisions.values().next().expect("a revision").json["metadata"]["annotations"];
    assert_eq!(*annotations, json!({CHANGED_BY: "mine"}), "as upstream");
}
