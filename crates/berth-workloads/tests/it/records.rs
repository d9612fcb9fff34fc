//! The records of rollouts in a model cluster, with complete plans or with a crash after every write.

use crate::cluster_model::{ClusterModel, template};
use berth_api::Gate;
use jiff::SignedDuration;
use serde_json::{Value, json};

const ROLLOUT: &str = "berth.dev/rollout";
const CHANGED_BY: &str = "berth.dev/changed-by";

struct Story {
    model: ClusterModel,
    /// Numbers of images whose pods never become ready.
    bad: Vec<u64>,
    /// How many writes of a plan are executed before the controller crashes.
    limit: usize,
}

impl Story {
    /// Three pods of template 1, complete.
    fn new(limit: usize) -> Self {
        let mut model = ClusterModel::new(json!({
            "replicas": 3, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        }));
        model.gates.set(Gate::RolloutRecords, true);
        let mut story = Self { model, bad: Vec::new(), limit };
        story.settle();
        story
    }

    fn act(&mut self) -> usize {
        let plan = self.model.plan_deployment();
        let acted = self.model.execute(plan, self.limit);
        self.check();
        acted
    }

    /// Every set with a number has a record of that rollout. Annotations of a workload or a set about itself are not copied.
    fn check(&self) {
        for set in self.model.sets.values() {
            let annotations = &set.json["metadata"]["annotations"];
            let record: Value = serde_json::from_str(annotations[ROLLOUT].as_str().expect("a record")).expect("JSON");
            assert_eq!(record["revision"].to_string(), annotations["deployment.kubernetes.io/revision"].as_str().expect("a number"));
            assert!(annotations[CHANGED_BY].is_null(), "{annotations}");
        }
        assert!(self.model.deployment.json["metadata"]["annotations"][ROLLOUT].is_null());
    }

    fn others(&mut self) {
        self.model.settle_sets();
        let image = |template: &Value| {
            template["spec"]["containers"][0]["image"].as_str().and_then(|image| image.rsplit(':').next()?.parse::<u64>().ok())
        };
        let sets = self.model.sets.values().map(|set| (set.json["metadata"]["uid"].clone(), image(&set.json["spec"]["template"])));
        let bad: Vec<Value> = sets.filter(|(_, image)| image.is_some_and(|image| self.bad.contains(&image))).map(|(uid, _)| uid).collect();
        for pod in &mut self.model.pods {
            let fails = pod.meta.controller().is_some_and(|owner| bad.iter().any(|uid| *uid == *owner.uid));
            let is_ready = !fails && pod.is_active();
            if is_ready != std::mem::replace(&mut pod.ready, is_ready) {
                pod.ready_since = is_ready.then_some(self.model.now);
            }
        }
        self.model.gone_all();
        self.model.settle_sets();
    }

    fn settle(&mut self) {
        for _ in 0..500 {
            let acted = self.act();
            self.others();
            if acted == 0 && self.act() == 0 {
                let Some(at) = self.model.settles_at() else { return };
                self.model.now = at;
            }
        }
        panic!("no end: {:?}", self.model.plan_deployment());
    }

    fn pass(&mut self, seconds: i64) {
        self.model.now += SignedDuration::from_secs(seconds);
        self.settle();
    }

    /// A user changes the template, at a different second each time.
    fn roll_out(&mut self, number: u32, user: &str) {
        self.model.now += SignedDuration::from_secs(10);
        let by = format!(r#"{{"at":"1970-01-01T00:00:00Z","user":"{user}","manager":"m"}}"#);
        self.model.edit(&json!({"metadata": {"annotations": {CHANGED_BY: by}}, "spec": {"template": template(number)}}));
        self.settle();
    }

    /// The record of the template's last rollout: number, author, former number, end, and the rollout that replaced it.
    fn rollout_line(&self, number: u32) -> String {
        let wanted = template(number)["spec"]["containers"][0]["image"].clone();
        let set = self.model.sets.values().find(|set| set.json["spec"]["template"]["spec"]["containers"][0]["image"] == wanted);
        let annotations = &set.expect("a set").json["metadata"]["annotations"];
        let record: Value = serde_json::from_str(annotations[ROLLOUT].as_str().expect("a record")).expect("JSON");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let ended = &record["ended"];
        [&record["revision"], &record["by"]["user"], &record["formerRevision"], &ended["how"], &ended["revision"]].map(text).join(" ")
    }

    fn message(&self, number: u32) -> String {
        let wanted = template(number)["spec"]["containers"][0]["image"].clone();
        let set = self.model.sets.values().find(|set| set.json["spec"]["template"]["spec"]["containers"][0]["image"] == wanted);
        let text = set.expect("a set").json["metadata"]["annotations"][ROLLOUT].as_str().expect("a record");
        serde_json::from_str::<Value>(text).expect("JSON")["ended"]["message"].as_str().unwrap_or_default().to_owned()
    }
}

const CRASHES: [usize; 3] = [usize::MAX, 1, 2];

#[test]
fn each_rollout_is_recorded_with_the_user_who_began_it_and_its_end() {
    for limit in CRASHES {
        let mut story = Story::new(limit);
        assert_eq!(story.rollout_line(1), "1 null null Complete null", "no server has recorded the user");
        story.roll_out(2, "alice");
        assert_eq!([story.rollout_line(1), story.rollout_line(2)], ["1 null null Complete null", "2 alice null Complete null"]);
        story.bad = vec![3];
        story.roll_out(3, "bob");
        assert_eq!(story.rollout_line(3), "3 bob null null null", "under way");
        story.roll_out(4, "carol");
        assert_eq!([story.rollout_line(3), story.rollout_line(4)], ["3 bob null Superseded 4", "4 carol null Complete null"]);
        // Back to the first template: its record is about the new rollout, and the record of the former template does not change.
        story.roll_out(1, "dave");
        assert_eq!([story.rollout_line(1), story.rollout_line(4)], ["5 dave 1 Complete null", "4 carol null Complete null"]);
    }
}

#[test]
fn what_misses_its_deadline_has_failed_and_may_be_complete_later() {
    for limit in CRASHES {
        let mut story = Story::new(limit);
        story.bad = vec![2];
        story.roll_out(2, "alice");
        story.pass(599);
        assert_eq!(story.rollout_line(2), "2 alice null null null");
        story.pass(3);
        assert_eq!(story.rollout_line(2), "2 alice null Failed null");
        assert!(story.message(2).contains("pods are not available"), "{}", story.message(2));
        story.bad.clear();
        story.pass(1);
        assert_eq!(story.rollout_line(2), "2 alice null Complete null");
        story.bad = vec![3];
        story.roll_out(3, "bob");
        story.pass(602);
        story.roll_out(4, "carol");
        assert_eq!(story.rollout_line(3), "3 bob null Failed null", "it had failed before another came");
    }
}

#[test]
fn an_automatic_rollback_is_recorded_with_the_revision_that_it_rolled_back_to() {
    for limit in CRASHES {
        let mut story = Story::new(limit);
        story.model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline"}}}));
        story.settle();
        story.bad = vec![2];
        story.roll_out(2, "alice");
        story.pass(602);
        assert_eq!(story.rollout_line(2), "2 alice null RolledBack 3");
        assert_eq!(story.rollout_line(1).split(' ').collect::<Vec<_>>()[2..], ["1", "Complete", "null"]);
        // A user restores the template. It fails again and remains.
        story.roll_out(2, "bob");
        story.pass(602);
        assert_eq!(story.rollout_line(2), "4 bob 2 Failed null");
    }
}

#[test]
fn a_template_that_waits_for_the_end_of_a_pause_takes_nobodys_place() {
    let mut story = Story::new(usize::MAX);
    story.bad = vec![2];
    story.roll_out(2, "alice");
    story.model.edit(&json!({"spec": {"paused": true}}));
    story.roll_out(3, "bob");
    assert_eq!(story.rollout_line(2), "2 alice null null null");
    story.model.edit(&json!({"spec": {"paused": false}}));
    story.settle();
    assert_eq!([story.rollout_line(2), story.rollout_line(3)], ["2 alice null Superseded 3", "3 bob null Complete null"]);
}

#[test]
fn a_rollout_in_steps_is_recorded_with_the_step_that_it_was_at() {
    for limit in CRASHES {
        let mut story = Story::new(limit);
        story.model.edit(&json!({"metadata": {"annotations": {"berth.dev/steps": "10%, 5m, 50%, pause, 100%"}}}));
        story.settle();
        story.roll_out(2, "alice");
        assert_eq!(story.rollout_line(2), "2 alice null null null", "a step waits");
        story.pass(301);
        story.roll_out(3, "bob");
        assert_eq!((story.rollout_line(2), story.message(2)), ("2 alice null Superseded 3".to_owned(), "at step 4 of 5".to_owned()));
        story.pass(301);
        let promotion = story.model.promotion("3/4");
        story.model.edit(&json!({"metadata": {"annotations": promotion}}));
        story.settle();
        assert_eq!(story.rollout_line(3), "3 bob null Complete null");
    }
}

/// Without `progressDeadlineSeconds` a rollout has no deadline, so it can remain incomplete indefinitely.
#[test]
fn a_deployment_without_a_deadline_records_its_rollouts_too() {
    let mut story = Story::new(usize::MAX);
    story.model.edit(&json!({"spec": {"progressDeadlineSeconds": i32::MAX}}));
    story.settle();
    story.roll_out(2, "alice");
    assert_eq!(story.rollout_line(2), "2 alice null Complete null");
    story.bad = vec![3];
    story.roll_out(3, "bob");
    story.pass(100_000);
    assert_eq!(story.rollout_line(3), "3 bob null null null");
}

#[test]
fn with_the_gate_off_nothing_is_kept() {
    let mut model = ClusterModel::new(json!({"replicas": 1, "progressDeadlineSeconds": 600, "strategy": {"type": "Recreate"}}));
    model.edit(&json!({"metadata": {"annotations": {CHANGED_BY: "mine"}}}));
    for _ in 0..20 {
        let plan = model.plan_deployment();
        model.execute(plan, usize::MAX);
        model.settle_sets();
        model.ready_all();
        model.settle_sets();
    }
    let annotations = model.sets.values().next().expect("a set").json["metadata"]["annotations"].clone();
    assert!(annotations[ROLLOUT].is_null() && annotations["deployment.kubernetes.io/revision"] == "1", "{annotations}");
}
