//! Progressive rollouts in a model cluster, with complete plans or with a crash after every write.

use crate::cluster_model::{ClusterModel, Stored, template};
use berth_workloads::{Action, Wait, plan::Reason};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const STEPS: &str = "10%, 5m, 50%, pause, 100%";

struct Story {
    model: ClusterModel,
    /// Images whose pods never become ready.
    bad: Vec<u64>,
    /// How many writes of a plan are executed before the controller crashes.
    limit: usize,
    rollbacks: usize,
    surge: i64,
    unavailable: i64,
}

impl Story {
    /// Ten pods of template 1, complete.
    fn new(surge: i64, unavailable: i64, policy: Option<&str>, limit: usize) -> Self {
        let model = ClusterModel::new(json!({
            "replicas": 10, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, "podReplacementPolicy": policy,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        }));
        let mut story = Self { model, bad: Vec::new(), limit, rollbacks: 0, surge, unavailable };
        story.model.edit(&json!({"metadata": {"annotations": {"berth.dev/steps": STEPS}}}));
        story.settle();
        story
    }

    fn act(&mut self) -> usize {
        let plan = self.model.plan_deployment();
        let actions = plan.stages.iter().flat_map(|stage| &stage.actions).take(self.limit);
        self.rollbacks += actions.filter(|action| matches!(action, Action::Patch { reason: Reason::AutomaticRollback { .. }, .. })).count();
        let before: i64 = self.model.sizes().values().sum();
        let acted = self.model.execute(plan, self.limit);
        let after: i64 = self.model.sizes().values().sum();
        let replicas = self.model.deployment.json["spec"]["replicas"].as_i64().expect("a size");
        assert!(after <= before.max(replicas + self.surge), "{after} pods wanted, before {before}, of {replicas}");
        assert!(after >= before.min(replicas - self.unavailable), "{after} pods wanted, before {before}, of {replicas}");
        acted
    }

    fn others(&mut self) {
        self.model.settle_sets();
        let image = |template: &Value| {
            template["spec"]["containers"][0]["image"].as_str().and_then(|image| image.rsplit(':').next()?.parse::<u64>().ok())
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let sets = self.model.sets.values();
        let images: BTreeMap<String, Option<u64>> =
            sets.map(|set| (text(&set.json["metadata"]["uid"]), image(&set.json["spec"]["template"]))).collect();
        for pod in &mut self.model.pods {
            let owner = pod.meta.controller().map(|owner| owner.uid.clone()).unwrap_or_default();
            let fails = images.get(&owner).is_some_and(|image| image.is_some_and(|image| self.bad.contains(&image)));
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

    fn roll_out(&mut self, number: u32) {
        self.model.edit(&json!({"spec": {"template": template(number)}}));
        self.settle();
    }

    /// Ends a wait of the rollout to the newest template.
    fn promote(&mut self, name: &str) {
        let promotion = self.model.promotion(name);
        self.model.edit(&json!({"metadata": {"annotations": promotion}}));
        self.settle();
    }

    fn promote_template(&mut self, name: &str, hash: &str) {
        self.model.edit(&json!({"metadata": {"annotations": {"berth.dev/promoted": format!("{name}/{hash}")}}}));
        self.settle();
    }

    fn scale(&mut self, replicas: i64) {
        self.model.edit(&json!({"spec": {"replicas": replicas}}));
        self.settle();
    }

    /// A user deletes the set of this image with all its pods.
    fn lose(&mut self, image: &str) {
        let is_of = |set: &Stored| set.json["spec"]["template"]["spec"]["containers"][0]["image"] == image;
        let name = self.model.sets.iter().find(|(_, set)| is_of(set)).map(|(name, _)| name.clone()).expect("a set");
        let uid = self.model.sets.remove(&name).expect("a set").json["metadata"]["uid"].as_str().expect("a uid").to_owned();
        self.model.pods.retain(|pod| pod.meta.controller().is_none_or(|owner| owner.uid != uid));
    }

    /// Sizes by image, without those that are 0.
    fn sizes(&self) -> Vec<(String, i64)> {
        let sets = self.model.sets.values().map(|set| {
            let image = set.json["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image").to_owned();
            (image, set.json["spec"]["replicas"].as_i64().expect("a size"))
        });
        let mut sizes: Vec<_> = sets.filter(|(_, size)| *size > 0).collect();
        sizes.sort();
        sizes
    }

    fn check(&self, sizes: &[(&str, i64)], waits: &[&str], progress: &str) {
        let sizes: Vec<_> = sizes.iter().map(|(image, size)| ((*image).to_owned(), *size)).collect();
        assert_eq!(self.sizes(), sizes);
        let found: Vec<_> = self.model.plan_deployment().waits.iter().map(ToString::to_string).collect();
        assert_eq!(found, waits);
        let conditions = self.model.deployment_view().status.conditions.unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.type_ == "Progressing").expect("a condition");
        assert_eq!(condition.reason.as_deref(), Some(progress));
    }
}

const FIVE_MINUTES: &str = "step 2 of 5, at 10%: waiting until 1970-01-12T13:51:50Z";
const PAUSED: &str = "step 4 of 5, at 50%: waiting for `berth rollout promote deployment/web`";

#[test]
fn a_rollout_goes_in_steps_whenever_the_controller_dies() {
    for (surge, unavailable) in [(1, 0), (0, 1), (3, 3), (10, 10)] {
        for policy in [None, Some("TerminationComplete")] {
            for limit in [usize::MAX, 1] {
                let mut story = Story::new(surge, unavailable, policy, limit);
                story.check(&[("web:1", 10)], &[], "NewReplicaSetAvailable");
                story.roll_out(2);
                story.check(&[("web:1", 9), ("web:2", 1)], &[FIVE_MINUTES], "StepWaiting");
                story.pass(299);
                story.check(&[("web:1", 9), ("web:2", 1)], &[FIVE_MINUTES], "StepWaiting");
                story.pass(1);
                story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
                assert_eq!(story.model.plan_deployment().requeue_at, None, "no deadline runs");
                story.pass(100_000);
                story.promote("2/2");
                story.promote("1/4");
                story.promote_template("2/4", "another");
                story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
                story.promote("2/4");
                story.check(&[("web:2", 10)], &[], "NewReplicaSetAvailable");
                // A template that was complete once is rolled out at once, and the next template starts from the first step.
                story.roll_out(1);
                story.check(&[("web:1", 10)], &[], "NewReplicaSetAvailable");
                story.roll_out(3);
                assert_eq!(story.sizes(), [("web:1".to_owned(), 9), ("web:3".to_owned(), 1)]);
            }
        }
    }
}

#[test]
fn a_time_can_be_cut_short_too() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.roll_out(2);
    story.promote("2/2");
    story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
}

#[test]
fn what_changes_in_the_middle_keeps_the_share() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.roll_out(2);
    for (replicas, old, new) in [(20, 18, 2), (21, 18, 3), (5, 4, 1), (10, 9, 1)] {
        story.scale(replicas);
        story.check(&[("web:1", old), ("web:2", new)], &[FIVE_MINUTES], "StepWaiting");
    }
    // While paused, nothing continues, and the time runs.
    story.model.edit(&json!({"spec": {"paused": true}}));
    story.pass(100_000);
    assert_eq!(story.sizes().len(), 2);
    story.model.edit(&json!({"spec": {"paused": null}}));
    story.settle();
    story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
    // Another template starts from the first step, and replaces the one that was never complete.
    story.roll_out(3);
    assert_eq!(story.sizes(), [("web:1".to_owned(), 9), ("web:3".to_owned(), 1)]);
    // Without steps, the rest is rolled out.
    story.model.edit(&json!({"metadata": {"annotations": {"berth.dev/steps": null}}}));
    story.settle();
    story.check(&[("web:3", 10)], &[], "NewReplicaSetAvailable");
}

#[test]
fn a_template_that_comes_back_has_the_first_share_from_the_first_reconcile_on() {
    let mut story = Story::new(10, 0, None, usize::MAX);
    story.roll_out(2);
    story.pass(300);
    story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
    story.roll_out(1);
    story.check(&[("web:1", 10)], &[], "NewReplicaSetAvailable");
    story.model.edit(&json!({"spec": {"template": template(2)}}));
    story.act();
    assert_eq!(story.sizes(), [("web:1".to_owned(), 10), ("web:2".to_owned(), 1)]);
}

/// The position that a set records belongs to its former rollout.
#[test]
fn a_template_that_comes_back_before_it_was_complete_begins_at_the_first_step() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.roll_out(2);
    story.pass(300);
    story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
    story.roll_out(3);
    story.roll_out(2);
    let waits: Vec<_> = story.model.plan_deployment().waits.iter().map(ToString::to_string).collect();
    assert!(waits.len() == 1 && waits[0].starts_with("step 2 of 5, at 10%: waiting until "), "{waits:?}");
}

/// It has more than its share, from an earlier rollout. The complete template takes the rest back.
#[test]
fn a_template_that_comes_back_gives_up_what_is_beyond_its_share() {
    for (surge, unavailable) in [(1, 0), (0, 1)] {
        let mut story = Story::new(surge, unavailable, None, usize::MAX);
        story.roll_out(2);
        story.pass(300);
        story.model.edit(&json!({"spec": {"template": template(3)}}));
        for _ in 0..6 {
            story.act();
            story.others();
        }
        story.roll_out(2);
        assert_eq!(story.sizes(), [("web:1".to_owned(), 9), ("web:2".to_owned(), 1)]);
    }
}

#[test]
fn a_step_is_not_over_before_its_pods_are_available() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.bad.push(2);
    story.roll_out(2);
    let waits = |story: &Story| story.model.plan_deployment().waits.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(waits(&story).iter().all(|wait| !wait.starts_with("step")), "{:?}", waits(&story));
    story.bad.clear();
    story.others();
    story.settle();
    story.check(&[("web:1", 9), ("web:2", 1)], &[FIVE_MINUTES], "StepWaiting");
}

/// A container that crashes right after its start makes its pod available briefly.
#[test]
fn a_pod_that_is_available_for_a_moment_reaches_no_step() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.model.edit(&json!({"spec": {"template": template(2)}}));
    let step = |story: &Story| {
        let new = |set: &&Stored| set.json["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2";
        let place = story.model.sets.values().find(new).map(|set| set.json["metadata"]["annotations"]["berth.dev/step"].clone());
        place.as_ref().and_then(Value::as_str).and_then(|place| place.split_once('@')).map(|(step, _)| step.to_owned())
    };
    for bad in [vec![], vec![2], vec![], vec![2], vec![], vec![2]] {
        story.bad = bad;
        for _ in 0..10 {
            story.act();
            story.others();
        }
        let waits: Vec<_> = story.model.plan_deployment().waits.iter().map(Wait::metric_label).collect();
        assert_eq!(
            (step(&story).as_deref(), waits),
            (Some("2/1"), vec![if story.bad.is_empty() { "step_settles" } else { "pods_unavailable" }])
        );
        story.model.now += SignedDuration::from_secs(9);
    }
    story.bad.clear();
    story.settle();
    assert_eq!(step(&story).as_deref(), Some("2/2"));
}

/// If a canary is deleted with its pods, the complete template gets its share, not the next canary.
#[test]
fn what_old_sets_lack_the_one_that_was_complete_makes_up_for() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.roll_out(2);
    story.pass(300);
    story.roll_out(3);
    story.lose("web:2");
    story.settle();
    assert_eq!(story.sizes(), [("web:1".to_owned(), 9), ("web:3".to_owned(), 1)]);
}

/// One template after the other stops at its first step. Each replaces the one before.
#[test]
fn no_canary_takes_a_place_of_what_is_proven() {
    for (surge, unavailable) in [(1, 0), (0, 1), (3, 3)] {
        for policy in [None, Some("TerminationComplete")] {
            let mut story = Story::new(surge, unavailable, policy, usize::MAX);
            for number in 2..5 {
                story.model.edit(&json!({"spec": {"template": template(number)}}));
                for _ in 0..30 {
                    story.act();
                    let proven = story.sizes().iter().find(|(image, _)| image == "web:1").map_or(0, |(_, size)| *size);
                    assert!(proven >= 9, "{proven} pods of what is proven");
                    story.others();
                }
                story.settle();
                assert_eq!(story.sizes(), [("web:1".to_owned(), 9), (format!("web:{number}"), 1)]);
            }
        }
    }
}

/// Also with a scaling from and to 0: scaling alone never completes a template whose steps have not passed.
#[test]
fn no_size_gives_a_template_more_than_its_share() {
    for (surge, unavailable) in [(1, 0), (0, 1), (3, 3), (25, 0)] {
        for policy in [None, Some("TerminationComplete")] {
            for paused in [None, Some(true)] {
                let mut story = Story::new(surge, unavailable, policy, usize::MAX);
                story.roll_out(2);
                story.pass(300);
                story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
                story.model.edit(&json!({"spec": {"paused": paused}}));
                for replicas in [4, 2, 8, 0, 4, 1, 8, 3, 0, 9, 10] {
                    story.scale(replicas);
                    let sizes: BTreeMap<_, _> = story.sizes().into_iter().collect();
                    let share = (replicas + 1) / 2;
                    let of = |image: &str| sizes.get(image).copied().unwrap_or(0);
                    assert_eq!(
                        (of("web:1"), of("web:2")),
                        (replicas - share, share),
                        "{replicas}: {sizes:?}, {surge} {unavailable} {policy:?}"
                    );
                    let set = story
                        .model
                        .sets
                        .values()
                        .find(|set| set.json["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2");
                    let annotations = &set.expect("it is there").json["metadata"]["annotations"];
                    assert!(annotations["berth.dev/completed-revision"].is_null(), "{replicas}: {annotations}");
                }
                story.model.edit(&json!({"spec": {"paused": null}}));
                story.settle();
                story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
                story.promote("2/4");
                story.check(&[("web:2", 10)], &[], "NewReplicaSetAvailable");
            }
        }
    }
}

/// A template that was complete once has no steps. A pause still holds it, with every policy and any room. Only a new size is executed.
#[test]
fn a_pause_holds_an_undo_that_has_come_half_way() {
    for policy in [None, Some("TerminationStarted"), Some("TerminationComplete")] {
        let mut story = Story::new(3, 3, policy, usize::MAX);
        story.roll_out(2);
        story.pass(300);
        story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
        story.model.edit(&json!({"spec": {"paused": true, "template": template(1)}}));
        let half_way = [("web:1".to_owned(), 5), ("web:2".to_owned(), 5)];
        story.settle();
        assert_eq!(story.sizes(), half_way, "{policy:?}");
        story.pass(1_000);
        assert_eq!(story.sizes(), half_way, "{policy:?}");
        story.scale(20);
        let sizes = story.sizes();
        assert!(sizes.iter().all(|(_, size)| *size > 5), "{policy:?}: {sizes:?}");
        story.settle();
        assert_eq!(story.sizes(), sizes, "{policy:?}");
        story.model.edit(&json!({"spec": {"paused": null}}));
        story.settle();
        story.check(&[("web:1", 20)], &[], "NewReplicaSetAvailable");
    }
}

/// A requested rollback creates the set of a new template before the new size is executed. A later pause holds the template: only the old
/// set grows, whenever the controller crashes.
#[test]
fn a_pause_holds_a_template_that_was_made_for_the_new_size() {
    for limit in [1, usize::MAX] {
        let mut story = Story::new(0, 3, Some("TerminationComplete"), limit);
        // The old set has not observed its size, so nothing grows yet.
        story.model.edit(&json!({"spec": {"replicas": 9}}));
        while story.sizes() != [("web:1".to_owned(), 9)] {
            assert!(story.act() > 0);
        }
        let back = json!({"deprecated.deployment.rollback.to": "1"});
        story.model.edit(&json!({"metadata": {"annotations": back}, "spec": {"replicas": 40, "template": template(2)}}));
        while story.model.sets.len() < 2 {
            assert!(story.act() > 0);
        }
        assert_eq!(story.sizes(), [("web:1".to_owned(), 9)]);
        story.model.edit(&json!({"spec": {"paused": true}}));
        for _ in 0..3 {
            story.pass(1_000);
            assert_eq!(story.sizes(), [("web:1".to_owned(), 40)]);
        }
    }
}

/// The set of a restored template has no pods and another size, and a pause comes before it gets any. Only the active set gets a new size.
#[test]
fn a_pause_holds_a_template_that_came_back_before_it_has_pods() {
    for policy in [None, Some("TerminationStarted"), Some("TerminationComplete")] {
        for limit in [1, usize::MAX] {
            let mut story = Story::new(1, 0, policy, limit);
            story.roll_out(2);
            story.roll_out(1);
            story.scale(9);
            assert_eq!(story.sizes(), [("web:1".to_owned(), 9)], "{policy:?}");
            story.model.edit(&json!({"spec": {"replicas": 40, "paused": true, "template": template(2)}}));
            for _ in 0..3 {
                story.pass(1_000);
                assert_eq!(story.sizes(), [("web:1".to_owned(), 40)], "{policy:?}");
            }
        }
    }
}

/// One pod is a share of one: the step waits with all pods.
#[test]
fn one_pod_waits_at_its_step_too() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.scale(1);
    story.roll_out(2);
    story.check(&[("web:2", 1)], &[FIVE_MINUTES], "StepWaiting");
    story.roll_out(1);
    story.check(&[("web:1", 1)], &[], "NewReplicaSetAvailable");
}

/// A change while there are no pods starts from its first step, because a rollback target exists.
#[test]
fn a_template_that_comes_while_there_are_no_pods_begins_at_the_first_step() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.pass(10);
    story.scale(0);
    story.roll_out(2);
    story.check(&[], &["step 1 of 5, at 10%: waiting for replicas: a step without pods does not end"], "StepWaiting");
    story.scale(10);
    let wait = "step 2 of 5, at 10%: waiting until 1970-01-12T13:52:00Z";
    story.check(&[("web:1", 9), ("web:2", 1)], &[wait], "StepWaiting");
}

/// Without a deadline no condition reports completion. The counts do.
#[test]
fn what_was_complete_without_a_deadline_is_gone_back_to_at_once() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.model.edit(&json!({"spec": {"progressDeadlineSeconds": i32::MAX}}));
    story.settle();
    story.roll_out(2);
    story.pass(300);
    story.promote("2/4");
    assert_eq!(story.sizes(), [("web:2".to_owned(), 10)]);
    story.roll_out(3);
    assert_eq!(story.sizes(), [("web:2".to_owned(), 9), ("web:3".to_owned(), 1)]);
    story.roll_out(2);
    assert_eq!(story.sizes(), [("web:2".to_owned(), 10)]);
    story.roll_out(1);
    assert_eq!(story.sizes(), [("web:1".to_owned(), 10)]);
}

/// A user who scales a set manually ends no step: the set gets its size back.
#[test]
fn a_set_that_is_scaled_by_hand_is_given_its_size_back() {
    for (image, size) in [("web:1", 0), ("web:1", 12), ("web:2", 9), ("web:2", 0)] {
        let mut story = Story::new(3, 3, None, usize::MAX);
        story.roll_out(2);
        let is_of = |set: &Stored| set.json["spec"]["template"]["spec"]["containers"][0]["image"] == image;
        let set = story.model.sets.values_mut().find(|set| is_of(set)).expect("a set");
        set.json["spec"]["replicas"] = json!(size);
        let generation = set.json["metadata"]["generation"].as_i64().unwrap_or(1);
        set.json["metadata"]["generation"] = json!(generation + 1);
        set.revision.0 += 1;
        story.others();
        for _ in 0..100 {
            let plan = story.model.plan_deployment();
            story.model.execute(plan, usize::MAX);
            story.others();
        }
        // A pod that was created meanwhile has to stay available as long.
        story.pass(10);
        story.check(&[("web:1", 9), ("web:2", 1)], &[FIVE_MINUTES], "StepWaiting");
    }
}

/// A user who removes steps during a rollout gets no request for a step that has passed.
#[test]
fn a_rollout_that_is_beyond_the_last_step_is_at_the_last() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.roll_out(2);
    story.pass(300);
    story.check(&[("web:1", 5), ("web:2", 5)], &[PAUSED], "StepWaiting");
    story.model.edit(&json!({"metadata": {"annotations": {"berth.dev/steps": "10%, pause, 100%"}}}));
    story.settle();
    story.check(&[("web:2", 10)], &[], "NewReplicaSetAvailable");
}

/// No other set could get the rest. The step waits all the same.
#[test]
fn pods_that_are_lost_with_their_set_are_made_up_for() {
    let mut story = Story::new(1, 0, None, usize::MAX);
    story.roll_out(2);
    story.lose("web:1");
    story.settle();
    story.check(&[("web:2", 10)], &[FIVE_MINUTES], "StepWaiting");
    story.pass(300);
    story.promote("2/4");
    story.check(&[("web:2", 10)], &[], "NewReplicaSetAvailable");
}

#[test]
fn a_template_that_fails_at_a_step_is_rolled_back_and_one_that_fails_while_a_step_waits_too() {
    for fails_late in [false, true] {
        let mut story = Story::new(1, 0, None, usize::MAX);
        story.model.edit(&json!({"metadata": {"annotations": {"berth.dev/auto-rollback": "OnDeadline"}}}));
        story.settle();
        if !fails_late {
            story.bad.push(2);
        }
        story.roll_out(2);
        if fails_late {
            story.check(&[("web:1", 9), ("web:2", 1)], &[FIVE_MINUTES], "StepWaiting");
            story.pass(100);
            story.bad.push(2);
            story.pass(1);
        }
        assert_eq!(story.sizes().last().map(|(_, size)| *size), Some(1));
        assert_eq!(story.rollbacks, 0);
        for _ in 0..3 {
            story.pass(601);
        }
        story.check(&[("web:1", 10)], &[], "NewReplicaSetAvailable");
        assert_eq!(story.rollbacks, 1, "{fails_late}");
    }
}
