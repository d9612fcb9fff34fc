//! The records of a StatefulSet's rollouts.

use super::cluster_model::{ClusterModel, broken, template};
use serde_json::{Value, json};

const ROLLOUT: &str = "berth.dev/rollout";
const CHANGED_BY: &str = "berth.dev/changed-by";
const GATES: &str = "StatefulSetRecreateStrategy=true,RolloutRecords=true";

fn changed(model: &mut ClusterModel, template: &Value, user: &str) {
    let by = format!(r#"{{"at":"1970-01-01T00:00:00Z","user":"{user}","manager":"m"}}"#);
    model.edit(&json!({"metadata": {"annotations": {CHANGED_BY: by}}, "spec": {"template": template}}));
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

/// The record of each revision, oldest first: number, author, former number, end, and the rollout that replaced it.
fn rollout_lines(model: &ClusterModel) -> Vec<String> {
    let mut revisions: Vec<&Value> = model.revisions.values().map(|revision| &*revision.json).collect();
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
            let mut model = ClusterModel::new(&spec).with_gates(GATES);
            run(&mut model, limit);
            changed(&mut model, &template(2), "alice");
            run(&mut model, limit);
            assert_eq!(rollout_lines(&model), ["1 null null Complete null", "2 alice null Complete null"], "{spec} {limit}");
            changed(&mut model, &broken(3), "bob");
            run(&mut model, limit);
            assert_eq!(rollout_lines(&model)[2], "3 bob null null null", "{spec} {limit}");
            changed(&mut model, &template(1), "carol");
            run(&mut model, limit);
            let wanted = ["2 alice null Complete null", "3 bob null Superseded 4"];
            assert_eq!(rollout_lines(&model)[..2], wanted, "{spec} {limit}");
            assert!(rollout_lines(&model)[2].starts_with("4 carol 1 "), "{spec} {limit}: {:?}", rollout_lines(&model));
        }
    }
}

#[test]
fn an_automatic_rollback_is_recorded() {
    for limit in [usize::MAX, 1, 2] {
        let mut model = ClusterModel::new(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}})).with_gates(GATES);
        model.edit(&json!({"metadata": {"annotations": {
            "berth.dev/auto-rollback": "OnDeadline", "berth.dev/progress-deadline-seconds": "90",
        }}}));
        run(&mut model, limit);
        changed(&mut model, &broken(2), "alice");
        run(&mut model, limit);
        let now = rollout_lines(&model);
        assert_eq!(now[0], "2 alice null RolledBack 3", "{limit}");
        assert!(now[1].starts_with("3 alice 1 Complete"), "{limit}: {now:?}");
        changed(&mut model, &broken(2), "bob");
        run(&mut model, limit);
        assert_eq!(rollout_lines(&model)[1], "4 bob 2 Failed null", "{limit}");
    }
}

/// An update that stops at a partition is not complete.
#[test]
fn an_update_with_a_partition_is_under_way_until_it_has_all() {
    let rolling = |partition: u32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let mut model = ClusterModel::new(&rolling(1)).with_gates(GATES);
    run(&mut model, usize::MAX);
    changed(&mut model, &template(2), "alice");
    run(&mut model, usize::MAX);
    assert_eq!(rollout_lines(&model)[1], "2 alice null null null");
    model.edit(&json!({"spec": rolling(0)}));
    run(&mut model, usize::MAX);
    assert_eq!(rollout_lines(&model)[1], "2 alice null Complete null");
}

#[test]
fn with_the_gate_off_nothing_is_kept() {
    let mut model = ClusterModel::new(&json!({})).with_gates("RolloutRecords=false");
    model.edit(&json!({"metadata": {"annotations": {CHANGED_BY: "mine"}}}));
    run(&mut model, usize::MAX);
    let annotations = &model.revisions.values().next().expect("a revision").json["metadata"]["annotations"];
    assert_eq!(*annotations, json!({CHANGED_BY: "mine"}), "as upstream");
}
