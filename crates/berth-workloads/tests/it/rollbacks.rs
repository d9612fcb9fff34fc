//! Automatic rollback in a model cluster. Users make changes in each phase, with complete plans or with a crash after every write.

use crate::cluster_model::{ClusterModel, template};
use berth_workloads::{
    Action, Plan,
    plan::Reason,
    rollback::Record,
    view::{ContainerSymptom, ReasonMessage, Symptoms},
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const KEY: &str = "berth.dev/auto-rollback";
const KNOWN: &str = "berth.dev/rolled-back-templates";

/// A model cluster, the templates that fail in it, and its history.
struct Story {
    model: ClusterModel,
    /// Numbers of images that cannot be pulled.
    bad: Vec<u64>,
    /// How many writes of a plan are executed before the controller crashes.
    limit: usize,
    rollbacks: Vec<(i64, i64)>,
    events: Vec<(String, String)>,
}

fn spec() -> Value {
    json!({
        "replicas": 3, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    })
}

impl Story {
    /// Template 1 is complete, and template 2 will fail.
    fn new(spec: Value, limit: usize) -> Self {
        let mut model = ClusterModel::new(spec);
        model.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}}));
        let mut story = Self { model, bad: vec![2], limit, rollbacks: Vec::new(), events: Vec::new() };
        story.settle();
        story
    }

    fn act(&mut self) -> usize {
        let plan = self.model.plan_deployment();
        self.note(&plan);
        let before: i64 = self.model.sizes().values().sum();
        let acted = self.model.execute(plan, self.limit);
        let after: i64 = self.model.sizes().values().sum();
        let replicas = self.model.deployment.json["spec"]["replicas"].as_i64().expect("a size");
        assert!(after <= before.max(replicas + 1), "{after} pods wanted, before {before}, of {replicas}+1");
        acted
    }

    fn note(&mut self, plan: &Plan) {
        let taken = plan.stages.iter().flat_map(|stage| &stage.actions).take(self.limit);
        for action in taken {
            if let Action::Patch { reason: Reason::AutomaticRollback { from, to }, events, .. } = action {
                self.rollbacks.push((from.0, to.0));
                let event = events.success.as_ref().expect("an event");
                self.events.push((event.reason.to_string(), event.message.clone()));
            }
        }
        for event in &plan.events {
            let event = (event.reason.to_string(), event.message.clone());
            if !self.events.contains(&event) {
                self.events.push(event);
            }
        }
    }

    /// All other components act: pods of good templates become ready, those of bad ones never do.
    fn others(&mut self) {
        self.model.settle_sets();
        let images: BTreeMap<String, u64> =
            self.model.sets.values().map(|set| (text(&set.json["metadata"]["uid"]), image(&set.json["spec"]["template"]))).collect();
        let waiting = || Some(ReasonMessage { reason: "ImagePullBackOff".to_owned(), message: "no such image".to_owned() });
        for pod in &mut self.model.pods {
            let owner = pod.meta.controller().map(|owner| owner.uid.clone()).unwrap_or_default();
            let fails = images.get(&owner).is_some_and(|image| self.bad.contains(image));
            let container = ContainerSymptom { waiting: waiting(), ..ContainerSymptom::default() };
            pod.symptoms = fails.then(|| Box::new(Symptoms { containers: vec![container], ..Symptoms::default() }));
            pod.ready = !fails && pod.is_active();
            pod.ready_since = pod.ready.then_some(self.model.now);
        }
        self.model.gone_all();
        self.model.settle_sets();
    }

    /// Runs until only waits remain.
    fn settle(&mut self) {
        for _ in 0..500 {
            let acted = self.act();
            self.others();
            if acted == 0 && self.act() == 0 {
                return;
            }
        }
        panic!("no end: {:?}", self.model.plan_deployment());
    }

    /// Runs to the end, past each deadline that a plan waits for.
    fn run(&mut self) {
        for _ in 0..20 {
            self.settle();
            match self.model.plan_deployment().requeue_at {
                Some(at) => self.model.now = at,
                None => return,
            }
        }
        panic!("a circle: {:?}", self.rollbacks);
    }

    fn annotation(&self, key: &str) -> String {
        text(&self.model.deployment.json["metadata"]["annotations"][key])
    }

    fn condition(&self, type_: &str) -> Option<String> {
        let conditions = self.model.deployment_view().status.conditions.unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == type_)?.reason
    }

    fn image(&self) -> u64 {
        image(&self.model.deployment.json["spec"]["template"])
    }

    /// The name of the set that has this image.
    fn set(&self, number: u64) -> Option<String> {
        let mut sets = self.model.sets.iter().filter(|(_, set)| image(&set.json["spec"]["template"]) == number);
        sets.next().map(|(name, _)| name.clone())
    }

    /// Deletes the set with all its pods, as a user does.
    fn delete_set(&mut self, number: u64) {
        let Some(set) = self.set(number).and_then(|name| self.model.sets.remove(&name)) else { return };
        let uid = text(&set.json["metadata"]["uid"]);
        self.model.pods.retain(|pod| pod.meta.controller().is_none_or(|owner| owner.uid != uid));
    }

    fn edit(&mut self, patch: &Value) {
        self.model.edit(patch);
    }

    fn roll_out(&mut self, number: u32) {
        self.edit(&json!({"spec": {"template": template(number)}}));
    }

    fn recorded_events(&self, reason: &str) -> Vec<&str> {
        self.events.iter().filter(|(known, _)| known == reason).map(|(_, message)| message.as_str()).collect()
    }

    /// Continues the rollout of template 2 to a phase.
    fn reach(&mut self, phase: Phase) {
        self.roll_out(2);
        self.settle();
        if phase == Phase::Failing {
            return;
        }
        self.model.now = self.model.plan_deployment().requeue_at.expect("a deadline to watch");
        while self.condition("Progressing").as_deref() != Some("ProgressDeadlineExceeded") {
            self.act();
        }
        if phase == Phase::Missed {
            return;
        }
        while self.image() != 1 {
            self.act();
        }
        match phase {
            Phase::WentBack => (),
            Phase::HalfWay => {
                self.act();
                self.model.settle_sets();
            }
            _ => self.settle(),
        }
    }
}

fn image(template: &Value) -> u64 {
    let image = text(&template["spec"]["containers"][0]["image"]);
    image.rsplit(':').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The progress of template 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its pods fail.
    Failing,
    /// The status reports that it has missed its deadline.
    Missed,
    /// It is rolled back, and nothing else has happened yet.
    WentBack,
    /// The other template's set has grown.
    HalfWay,
    /// The other template is complete.
    Back,
}

const PHASES: [Phase; 5] = [Phase::Failing, Phase::Missed, Phase::WentBack, Phase::HalfWay, Phase::Back];

/// A change that a user makes at that point.
struct Change {
    name: &'static str,
    make: fn(&mut Story),
    /// The final image: if the change comes before the rollback, and if it comes after.
    ends: [u64; 2],
    /// The number of rollbacks of template 2, likewise.
    rollbacks: [usize; 2],
}

const CHANGES: [Change; 11] = [
    Change { name: "nothing", make: |_| (), ends: [1, 1], rollbacks: [1, 1] },
    Change {
        name: "paused for a while",
        make: |story| {
            story.edit(&json!({"spec": {"paused": true}}));
            let before = story.rollbacks.len();
            story.model.now += SignedDuration::from_hours(1);
            story.settle();
            assert_eq!(story.rollbacks.len(), before, "it is paused");
            story.edit(&json!({"spec": {"paused": null}}));
        },
        ends: [1, 1],
        rollbacks: [1, 1],
    },
    Change { name: "scaled", make: |story| story.edit(&json!({"spec": {"replicas": 5}})), ends: [1, 1], rollbacks: [1, 1] },
    Change { name: "scaled down", make: |story| story.edit(&json!({"spec": {"replicas": 1}})), ends: [1, 1], rollbacks: [1, 1] },
    Change { name: "a new template", make: |story| story.roll_out(3), ends: [3, 3], rollbacks: [0, 1] },
    Change { name: "undone by hand", make: |story| story.roll_out(1), ends: [1, 1], rollbacks: [0, 1] },
    Change { name: "brought back", make: |story| story.roll_out(2), ends: [1, 2], rollbacks: [1, 1] },
    Change {
        name: "restarted",
        make: |story| {
            story.roll_out(2);
            story.edit(&json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}));
        },
        ends: [1, 1],
        rollbacks: [1, 2],
    },
    Change { name: "the complete set is deleted", make: |story| story.delete_set(1), ends: [2, 1], rollbacks: [0, 1] },
    Change { name: "no history", make: |story| story.edit(&json!({"spec": {"revisionHistoryLimit": 0}})), ends: [1, 1], rollbacks: [1, 1] },
    Change {
        name: "another policy and strategy",
        make: |story| {
            let spec = json!({"strategy": {"type": "Recreate", "rollingUpdate": null}, "podReplacementPolicy": "TerminationComplete"});
            story.edit(&json!({"spec": spec}));
        },
        ends: [1, 1],
        rollbacks: [1, 1],
    },
];

#[test]
fn a_failed_template_is_rolled_back_once_whatever_else_happens() {
    let complete = |mut spec: Value, policy: &str| {
        spec["podReplacementPolicy"] = json!(policy);
        spec
    };
    let mut recreate = spec();
    recreate["strategy"] = json!({"type": "Recreate"});
    let complete = complete(spec(), "TerminationComplete");
    for (kind, spec, limits) in
        [("rolling", spec(), &[usize::MAX, 1][..]), ("complete", complete, &[1]), ("recreate", recreate, &[usize::MAX])]
    {
        for &limit in limits {
            for phase in PHASES {
                for change in &CHANGES {
                    let what = format!("{kind}, {limit} writes, {phase:?}, {}", change.name);
                    let mut story = Story::new(spec.clone(), limit);
                    story.reach(phase);
                    (change.make)(&mut story);
                    story.run();
                    let has_given_way = usize::from(!matches!(phase, Phase::Failing | Phase::Missed));
                    assert_eq!(
                        (story.image(), story.rollbacks.len()),
                        (change.ends[has_given_way], change.rollbacks[has_given_way]),
                        "{what}: {:?}",
                        story.events
                    );
                    let wanted = if story.image() == 2 { "ProgressDeadlineExceeded" } else { "NewReplicaSetAvailable" };
                    assert_eq!(story.condition("Progressing").as_deref(), Some(wanted), "{what}");
                    assert_eq!(story.condition("RollbackFailed"), None, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_rollback_records_what_it_did_and_why() {
    let mut story = Story::new(spec(), usize::MAX);
    story
        .edit(&json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "two", "team": "a"}}, "spec": {"template": template(2)}}));
    story.run();
    let record = Record::of(&story.model.deployment_view().annotations).expect("a record");
    assert_eq!((record.from_revision.0, record.to_revision.0, record.revision.0, record.reason.as_deref()), (2, 1, 3, Some("image_pull")));
    assert!(record.message.ends_with(" cannot pull its image: ImagePullBackOff: no such image"), "{}", record.message);
    assert_eq!(story.annotation("deployment.kubernetes.io/revision"), "3", "as forecast");
    assert_eq!((story.annotation("kubernetes.io/change-cause"), story.annotation("team")), (String::new(), "a".to_owned()));
    let recorded_events = story.recorded_events("AutomaticRollback");
    assert_eq!(recorded_events.len(), 1);
    let begins = "Rolled back from revision 2, which missed its progress deadline, to revision 1, now 3: web-";
    assert!(recorded_events[0].starts_with(begins), "{recorded_events:?}");
    // The sets of both revisions have the record, and all sets remember the template.
    let of = |number: u64, key: &str| text(&story.model.sets[&story.set(number).expect("a set")].json["metadata"]["annotations"][key]);
    assert_eq!([of(1, "berth.dev/rollback"), of(2, "berth.dev/rollback")], [record.value(), record.value()]);
    assert_eq!([of(1, KNOWN), of(2, KNOWN)], [story.annotation(KNOWN), story.annotation(KNOWN)]);
    assert_eq!([of(1, "berth.dev/completed-revision"), of(2, "berth.dev/completed-revision")], ["3", ""]);
}

#[test]
fn what_a_replaced_deployment_has_forgotten_its_sets_remember() {
    let mut story = Story::new(spec(), usize::MAX);
    story.roll_out(2);
    story.run();
    story.edit(&json!({"metadata": {"annotations": {KNOWN: null, "berth.dev/rollback": null}}}));
    story.roll_out(2);
    story.run();
    assert_eq!((story.image(), story.rollbacks.len()), (2, 1));
    let recorded_events = story.recorded_events("AutomaticRollbackSkipped");
    assert!(recorded_events.len() == 1 && recorded_events[0].contains("was rolled back before"), "{recorded_events:?}");
}

#[test]
fn a_way_back_that_fails_too_is_the_end() {
    let mut story = Story::new(spec(), usize::MAX);
    story.reach(Phase::WentBack);
    story.bad.push(1);
    story.run();
    assert_eq!((story.image(), story.rollbacks.len()), (1, 1));
    assert_eq!(story.condition("RollbackFailed").as_deref(), Some("TargetFailed"));
    assert_eq!(story.recorded_events("RollbackFailed").len(), 1);
    // Also if its set had to be recreated, so that no record of its completion remains.
    let mut story = Story::new(spec(), usize::MAX);
    story.roll_out(3);
    story.run();
    story.roll_out(2);
    story.settle();
    story.model.now = story.model.plan_deployment().requeue_at.expect("a deadline to watch");
    while story.image() != 3 {
        story.act();
    }
    story.delete_set(3);
    story.bad.push(3);
    story.run();
    assert_eq!((story.image(), story.rollbacks.len(), story.condition("RollbackFailed").as_deref()), (3, 1, Some("TargetFailed")));
    // The next template ends this state.
    story.roll_out(4);
    story.run();
    assert_eq!((story.condition("RollbackFailed"), story.condition("Progressing").as_deref()), (None, Some("NewReplicaSetAvailable")));
}

#[test]
fn nothing_is_rolled_back_that_was_complete_once_or_is_not_asked_for() {
    let mut story = Story::new(spec(), usize::MAX);
    story.roll_out(3);
    story.run();
    story.bad.push(1);
    story.roll_out(1);
    story.run();
    assert_eq!((story.image(), story.rollbacks.len()), (1, 0), "it was complete once");
    assert_eq!(story.condition("Progressing").as_deref(), Some("ProgressDeadlineExceeded"));
    for patch in [
        json!({"metadata": {"annotations": {KEY: null}}}),
        json!({"metadata": {"annotations": {KEY: "Always"}}}),
        json!({"spec": {"progressDeadlineSeconds": i32::MAX}}),
    ] {
        let mut story = Story::new(spec(), usize::MAX);
        story.edit(&patch);
        story.roll_out(2);
        story.run();
        assert_eq!((story.image(), story.rollbacks.len()), (2, 0), "{patch}");
    }
}

#[test]
fn a_set_that_is_being_deleted_is_no_way_back() {
    let mut story = Story::new(spec(), usize::MAX);
    story.roll_out(2);
    story.settle();
    let name = story.set(1).expect("a set");
    let complete = story.model.sets.get_mut(&name).expect("a set");
    assert_eq!(text(&complete.json["metadata"]["annotations"]["berth.dev/completed-revision"]), "1", "else it would be none anyway");
    // As for a deletion in the foreground, or with another component's finalizer.
    complete.json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    complete.json["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    story.run();
    assert_eq!((story.image(), story.rollbacks.len()), (2, 0), "{:?}", story.events);
    assert!(story.recorded_events("AutomaticRollbackSkipped")[0].ends_with("no other existing revision was ever complete"));
}

/// A user who sets the annotation together with the new template had no completion records before.
#[test]
fn what_was_complete_when_the_annotation_came_counts() {
    let mut model = ClusterModel::new(spec());
    model.edit(&json!({"metadata": {"annotations": {"other": "1"}}}));
    let mut story = Story { model, bad: vec![2], limit: usize::MAX, rollbacks: Vec::new(), events: Vec::new() };
    story.settle();
    assert_eq!(
        story.model.sets.values().next().expect("a set").json["metadata"]["annotations"]["berth.dev/completed-revision"],
        Value::Null
    );
    story.edit(&json!({"metadata": {"annotations": {KEY: "OnDeadline"}}, "spec": {"template": template(2)}}));
    story.run();
    assert_eq!((story.image(), story.rollbacks.as_slice()), (1, &[(2, 1)][..]));
}

#[test]
fn a_rollout_of_no_pods_shows_nothing() {
    let mut none = spec();
    none["replicas"] = json!(0);
    let mut story = Story::new(none, usize::MAX);
    story.edit(&json!({"spec": {"replicas": 2, "template": template(2)}}));
    story.run();
    assert_eq!((story.image(), story.rollbacks.len()), (2, 0));
    assert!(story.recorded_events("AutomaticRollbackSkipped")[0].ends_with("no other existing revision was ever complete"));
}

#[test]
fn what_going_back_would_not_help_is_named() {
    let mut story = Story::new(spec(), usize::MAX);
    story.roll_out(2);
    story.settle();
    let name = story.set(2).expect("a set");
    let failure = |message: &str| json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]);
    // Its pods were never created, so the state of its image is unknown.
    story.model.pods.retain(|pod| pod.meta.controller().is_none_or(|owner| owner.name != name));
    let set = story.model.sets.get_mut(&name).expect("a set");
    set.json["status"] = json!({"observedGeneration": set.json["metadata"]["generation"], "conditions": failure("exceeded quota: few")});
    while story.act() > 0 {}
    story.model.now = story.model.plan_deployment().requeue_at.expect("a deadline to watch");
    while story.act() > 0 {}
    assert_eq!((story.image(), story.rollbacks.len()), (2, 0));
    let recorded_events = story.recorded_events("AutomaticRollbackSkipped");
    assert!(
        recorded_events.len() == 1
            && recorded_events[0].contains("a rollback would not help: ")
            && recorded_events[0].ends_with("because of a quota: exceeded quota: few"),
        "{recorded_events:?}"
    );
    // The quota has room: the pods get a new deadline, and then the image is the cause.
    story.model.settle_sets();
    story.act();
    assert_eq!((story.image(), story.condition("Progressing").as_deref()), (2, Some("ReplicaSetUpdated")));
    story.run();
    assert_eq!((story.image(), story.rollbacks.len()), (1, 1));
}

/// Under TerminationComplete, an old pod that does not terminate blocks the rollout. The new template is not the cause.
#[test]
fn a_rollout_that_waits_for_others_is_not_rolled_back() {
    let mut complete = spec();
    complete["podReplacementPolicy"] = json!("TerminationComplete");
    complete["strategy"]["rollingUpdate"] = json!({"maxSurge": 0, "maxUnavailable": 1});
    let mut story = Story::new(complete, usize::MAX);
    story.roll_out(3);
    for _ in 0..20 {
        story.act();
        story.model.settle_sets();
    }
    story.model.now = story.model.plan_deployment().requeue_at.expect("a deadline to watch");
    for _ in 0..5 {
        story.act();
        story.model.settle_sets();
    }
    assert_eq!(story.condition("Progressing").as_deref(), Some("ProgressDeadlineExceeded"));
    assert_eq!((story.image(), story.rollbacks.len()), (3, 0));
    assert!(story.recorded_events("AutomaticRollbackSkipped")[0].contains("none of its pods fails"));
}

/// Pods of a lost node report nothing, and the node may never answer again. Scaling does not wait for it.
#[test]
fn a_deployment_is_scaled_while_no_node_answers_for_its_rollback() {
    let mut story = Story::new(spec(), usize::MAX);
    story.model.edit(&json!({"spec": {"template": template(2)}}));
    story.settle();
    for pod in story.model.pods.iter_mut().filter(|pod| !pod.ready) {
        (pod.symptoms, pod.node_name) = (None, "n1".into());
    }
    story.model.now = story.model.plan_deployment().requeue_at.expect("a deadline");
    story.act();
    let planned = |story: &Story| story.model.plan_deployment().stages.into_iter().flat_map(|stage| stage.actions).collect::<Vec<_>>();
    assert!(matches!(&planned(&story)[..], [Action::ConfirmNodeReady { .. }, Action::Patch { .. }]), "{:#?}", planned(&story));
    story.model.edit(&json!({"spec": {"replicas": 9}}));
    let planned = planned(&story);
    let sizes = planned.iter().filter(|action| matches!(action, Action::Patch { reason: Reason::Resized { .. }, .. })).count();
    assert!(sizes > 0, "{planned:#?}");
    let [.., Action::ConfirmNodeReady { .. }, Action::Patch { reason: Reason::AutomaticRollback { .. }, .. }] = &planned[..] else {
        panic!("{planned:#?}")
    };
}
