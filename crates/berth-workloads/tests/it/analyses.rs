//! Steps that wait for an analysis, in a model cluster. Every change is applied in every phase, with complete plans or with a crash after
//! every write. After a crash, the next leader has no answer yet.

use crate::cluster_model::{ClusterModel, Stored, template};
use berth_identity::RolloutRevision;
use berth_workloads::{
    Action, Plan,
    analysis::{Answer, Asked, NoAnswer, Question},
    deployment,
    plan::{Reason, Severity},
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const STEPS: &str = "50%, analysis, 100%";

struct Story {
    model: ClusterModel,
    /// The provider's answer. `None` before the first one.
    answer: Option<Result<f64, NoAnswer>>,
    /// How many writes of a plan are executed before the controller crashes.
    limit: usize,
    rollbacks: Vec<(i64, i64)>,
    recorded_events: BTreeSet<(&'static str, bool, String)>,
    asked: Vec<Question>,
}

impl Story {
    /// Four pods of template 1, complete.
    fn new(limit: usize) -> Self {
        let model = ClusterModel::new(json!({"replicas": 4, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10}));
        let (rollbacks, recorded_events, asked) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut story = Self { model, answer: None, limit, rollbacks, recorded_events, asked };
        story.annotate(&json!({"berth.dev/steps": STEPS, "berth.dev/analysis-provider": "prod", "berth.dev/analysis-query": "up"}));
        story.settle();
        story
    }

    fn annotate(&mut self, annotations: &Value) {
        self.model.edit(&json!({"metadata": {"annotations": annotations}}));
    }

    fn promote(&mut self, name: &str) {
        let promotion = self.model.promotion(name);
        self.annotate(&promotion);
    }

    fn roll_out(&mut self, number: u32) {
        self.model.edit(&json!({"spec": {"template": template(number)}}));
    }

    /// One reconcile and its consequences. Returns whether anything changed.
    fn act(&mut self) -> bool {
        let plan = self.model.plan_deployment();
        self.hear(&plan);
        let question = plan.question.clone();
        let wrote = self.model.execute(plan, self.limit) > 0;
        if wrote && self.limit == 1 {
            // The new leader has not asked yet.
            self.model.asked = None;
            return true;
        }
        let last = self.answer.map(|answer| answer.and_then(Answer::try_from));
        let before = self.model.asked.clone();
        let asked = match (question, self.model.asked.take()) {
            (None, _) => None,
            (Some(question), Some(asked)) if asked.question == question => Some(Asked { last, ..asked }),
            (Some(question), _) => {
                self.asked.push(question.clone());
                Some(Asked { question, since: self.model.now, last })
            }
        };
        let is_news = asked != before;
        self.model.asked = asked;
        wrote || is_news
    }

    fn hear(&mut self, plan: &Plan) {
        let view = self.model.deployment_view();
        let waits = plan.waits.iter().filter_map(|wait| deployment::wait_event(&view, wait));
        let mut events: Vec<_> = plan.events.iter().cloned().chain(waits).collect();
        for action in plan.stages.iter().flat_map(|stage| &stage.actions).take(self.limit) {
            if let Action::Patch { reason, events: outcome, .. } = action {
                events.extend(outcome.success.clone());
                if let Reason::AutomaticRollback { from, to } = reason {
                    self.rollbacks.push((from.0, to.0));
                }
            }
        }
        let words = [
            "WaitingForAnalysis",
            "AnalysisUnanswered",
            "AnalysisFailed",
            "AnalysisPassed",
            "AutomaticRollback",
            "AutomaticRollbackSkipped",
        ];
        for event in events {
            if let Some(word) = words.into_iter().find(|word| event.reason == **word) {
                self.recorded_events.insert((word, event.severity == Severity::Warning, event.message));
            }
        }
    }

    fn others(&mut self) {
        self.model.settle_sets();
        self.model.ready_all();
        self.model.gone_all();
        self.model.settle_sets();
    }

    /// Runs until only waits remain.
    fn settle(&mut self) {
        let mut idle = 0;
        for _ in 0..500 {
            idle = if self.act() { 0 } else { idle + 1 };
            self.others();
            if idle > 1 {
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

    fn image(&self) -> u64 {
        image(&self.model.deployment.json["spec"]["template"])
    }

    /// Sizes by image, without those that are 0.
    fn sizes(&self) -> Vec<(u64, i64)> {
        let sets = self
            .model
            .sets
            .values()
            .map(|set| (image(&set.json["spec"]["template"]), set.json["spec"]["replicas"].as_i64().expect("a size")));
        let mut sizes: Vec<_> = sets.filter(|(_, size)| *size > 0).collect();
        sizes.sort_unstable();
        sizes
    }

    fn condition(&self, type_: &str) -> Option<[String; 3]> {
        let conditions = self.model.deployment_view().status.conditions.unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition.type_ == type_)?;
        Some([found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default()])
    }

    fn waits(&self) -> Vec<String> {
        self.model.plan_deployment().waits.iter().map(ToString::to_string).collect()
    }

    /// The recorded analysis on the set of this image.
    fn note(&self, number: u64) -> Option<Value> {
        let set = self.model.sets.values().find(|set| image(&set.json["spec"]["template"]) == number)?;
        serde_json::from_str(set.json["metadata"]["annotations"]["berth.dev/analysis"].as_str()?).ok()
    }

    fn delete_set(&mut self, number: u64) {
        let is_of = |set: &Stored| image(&set.json["spec"]["template"]) == number;
        let Some(name) = self.model.sets.iter().find(|(_, set)| is_of(set)).map(|(name, _)| name.clone()) else { return };
        let uid = self.model.sets.remove(&name).expect("a set").json["metadata"]["uid"].as_str().expect("a uid").to_owned();
        self.model.pods.retain(|pod| pod.meta.controller().is_none_or(|owner| owner.uid != uid));
    }

    fn recorded_events(&self, word: &str) -> Vec<&str> {
        self.recorded_events.iter().filter(|(known, ..)| *known == word).map(|(.., message)| message.as_str()).collect()
    }

    /// Runs until the provider is asked about template 2.
    fn ask(&mut self) {
        self.answer = None;
        self.roll_out(2);
        self.settle();
        assert_eq!(self.sizes(), [(1, 2), (2, 2)]);
    }
}

fn image(template: &Value) -> u64 {
    let image = template["spec"]["containers"][0]["image"].as_str().expect("an image");
    image.rsplit(':').next().and_then(|number| number.parse().ok()).expect("a number")
}

const WAITS: &str = "step 2 of 3, at 50%: waiting for an analysis by provider \"prod\"";
const TIMED_OUT: Option<Result<f64, NoAnswer>> = Some(Err(NoAnswer::TimedOut));

#[test]
fn a_step_waits_for_an_answer_and_goes_on_when_it_is_not_nought() {
    for limit in [usize::MAX, 1] {
        let mut story = Story::new(limit);
        story.ask();
        let plan = story.model.plan_deployment();
        let question = plan.question.expect("a question");
        let Question { provider, query, namespace, deployment, revision, template_hash, step } = question.clone();
        assert_eq!([provider, query, namespace, deployment], ["prod", "up", "shop", "web"]);
        assert_eq!((revision, step), (RolloutRevision(2), 2));
        assert!(story.model.sets.contains_key(&format!("web-{template_hash}")), "{template_hash}");
        assert_eq!(story.waits(), [WAITS]);
        let progressing = || ["Unknown".to_owned(), "StepWaiting".to_owned(), WAITS.to_owned()];
        assert_eq!(story.condition("Progressing"), Some(progressing()));
        story.pass(100_000);
        assert_eq!((story.sizes(), story.condition("Progressing")), (vec![(1, 2), (2, 2)], Some(progressing())), "the deadline rests");
        story.answer = Some(Ok(0.97));
        story.settle();
        assert_eq!((story.sizes(), story.waits()), (vec![(2, 4)], Vec::new()));
        assert_eq!(story.note(2).map(|note| [note["outcome"].clone(), note["answer"].clone()]), Some([json!("passed"), json!(0.97)]));
        assert_eq!(
            story.recorded_events("AnalysisPassed"),
            ["step 2 of 3, at 50%: the analysis by provider \"prod\" passed: it answered 0.97"]
        );
        assert_eq!(story.model.plan_deployment().question, None);
        // A template that was complete once is not analyzed.
        let asked = story.asked.len();
        story.roll_out(1);
        story.settle();
        assert_eq!((story.sizes(), story.asked.len(), story.rollbacks.len()), (vec![(1, 4)], asked, 0));
    }
}

#[test]
fn an_answer_of_zero_rolls_back_and_reports_why() {
    for limit in [usize::MAX, 1] {
        let mut story = Story::new(limit);
        story.ask();
        story.answer = Some(Ok(0.0));
        story.settle();
        assert_eq!((story.image(), story.sizes(), story.rollbacks.as_slice()), (1, vec![(1, 4)], &[(2, 1)][..]));
        assert_eq!(story.note(2).map(|note| [note["outcome"].clone(), note["answer"].clone()]), Some([json!("failed"), json!(0.0)]));
        let failed = "step 2 of 3, at 50%: the analysis by provider \"prod\" failed: it answered 0";
        assert_eq!(story.recorded_events("AnalysisFailed"), [failed]);
        assert_eq!(
            story.recorded_events("AutomaticRollback"),
            [format!("Rolled back from revision 2, which failed its analysis, to revision 1, now 3: {failed}")]
        );
        let record: Value =
            serde_json::from_str(story.model.deployment.json["metadata"]["annotations"]["berth.dev/rollback"].as_str().expect("a record"))
                .expect("JSON");
        assert_eq!([&record["reason"], &record["message"]], ["analysis_failed", failed]);
        assert_eq!(story.condition("AnalysisFailed"), None, "it is of the template that is gone");
        assert_eq!(story.condition("Progressing").map(|[_, reason, _]| reason).as_deref(), Some("NewReplicaSetAvailable"));
        // A rollback happens once: if a user restores the template, it is analyzed again and remains.
        story.roll_out(2);
        story.settle();
        assert_eq!((story.image(), story.sizes(), story.rollbacks.len()), (2, vec![(1, 2), (2, 2)], 1));
        let stays = "has failed its analysis and stays: its template was rolled back before, and berth does not repeat that; `rollout restart` tries it again";
        assert_eq!(story.recorded_events("AutomaticRollbackSkipped"), [format!("Revision 4 {stays}")]);
        assert_eq!(story.condition("AnalysisFailed"), Some(["True".to_owned(), "Answered".to_owned(), failed.to_owned()]));
        // A user promotes it all the same.
        story.promote("4/2");
        story.settle();
        assert_eq!((story.sizes(), story.condition("AnalysisFailed")), (vec![(2, 4)], None));
    }
}

#[test]
fn a_missing_answer_fails_the_analysis_after_the_progress_deadline_or_ten_minutes() {
    for (deadline, patience) in [(Some(20), 20), (Some(i32::MAX), 600)] {
        let mut story = Story::new(usize::MAX);
        story.model.edit(&json!({"spec": {"progressDeadlineSeconds": deadline}}));
        story.settle();
        story.ask();
        story.answer = TIMED_OUT;
        story.settle();
        let unanswered = format!("{WAITS}: no answer (timed out), retrying");
        assert_eq!(story.waits(), [unanswered.as_str()]);
        assert_eq!(story.recorded_events("AnalysisUnanswered"), [unanswered.as_str()]);
        if deadline == Some(20) {
            assert_eq!(story.condition("Progressing").map(|[.., message]| message), Some(unanswered));
        }
        // A reader without an analysis finds the same wait in the record.
        story.model.asked = None;
        assert_eq!(story.waits().len(), 1);
        story.settle();
        let since = story.model.now;
        assert_eq!(story.model.plan_deployment().requeue_at, Some(since + SignedDuration::from_secs(patience)));
        story.pass(patience - 1);
        assert_eq!(story.sizes(), [(1, 2), (2, 2)]);
        story.pass(1);
        assert_eq!((story.image(), story.rollbacks.len()), (1, 1));
        let gone = "step 2 of 3, at 50%: the analysis by provider \"prod\" got no answer for too long (timed out)";
        assert_eq!(story.recorded_events("AnalysisFailed"), [gone]);
        assert!(story.recorded_events.iter().filter(|(word, ..)| *word == "AnalysisFailed").all(|(_, is_warning, _)| *is_warning));
    }
}

#[test]
fn who_begins_to_ask_has_all_the_time() {
    let mut story = Story::new(usize::MAX);
    story.ask();
    story.answer = TIMED_OUT;
    story.pass(300);
    story.pass(299);
    // Another leader takes over, and a user pauses the rollout and resumes it.
    story.model.asked = None;
    story.pass(599);
    story.model.edit(&json!({"spec": {"paused": true}}));
    story.pass(100_000);
    assert_eq!(story.model.plan_deployment().question, None, "no provider is asked meanwhile");
    story.model.edit(&json!({"spec": {"paused": null}}));
    story.settle();
    story.pass(599);
    assert_eq!((story.sizes(), story.rollbacks.len()), (vec![(1, 2), (2, 2)], 0));
    story.pass(1);
    assert_eq!((story.image(), story.rollbacks.len()), (1, 1));
}

#[test]
fn a_failed_analysis_without_a_former_revision_stops_the_rollout_and_reports_why() {
    let mut story = Story::new(usize::MAX);
    story.ask();
    story.delete_set(1);
    // Pods of another template still exist, so steps count.
    story.roll_out(3);
    story.settle();
    story.answer = Some(Ok(0.0));
    story.settle();
    let sizes = story.sizes();
    assert_eq!((story.image(), story.rollbacks.len(), sizes.len()), (3, 0, 2));
    let why = "no other existing revision was ever complete";
    let recorded_events = story.recorded_events("AutomaticRollbackSkipped");
    assert!(
        recorded_events.len() == 1 && recorded_events[0].ends_with(&format!("has failed its analysis and stays: {why}")),
        "{recorded_events:?}"
    );
    assert_eq!(story.condition("AnalysisFailed").map(|[status, ..]| status).as_deref(), Some("True"));
    // No leader asks again, even if the answer would differ.
    (story.model.asked, story.answer) = (None, Some(Ok(1.0)));
    story.pass(100_000);
    assert_eq!((story.sizes(), story.model.plan_deployment().question), (sizes, None));
    // A changed query is asked.
    story.annotate(&json!({"berth.dev/analysis-query": "vector(1)"}));
    story.settle();
    assert_eq!((story.sizes(), story.condition("AnalysisFailed")), (vec![(3, 4)], None));
}

#[test]
fn a_template_that_comes_back_is_analyzed_again() {
    for limit in [usize::MAX, 1] {
        let mut story = Story::new(limit);
        story.ask();
        story.delete_set(1);
        story.roll_out(3);
        story.answer = Some(Ok(0.0));
        story.settle();
        assert_eq!((story.image(), story.rollbacks.len()), (3, 0), "there was nothing to go back to");
        story.promote("3/2");
        story.roll_out(2);
        story.settle();
        story.promote("4/2");
        story.settle();
        assert_eq!((story.sizes(), story.condition("AnalysisFailed")), (vec![(2, 4)], None));
        // The former record about template 3 no longer counts.
        story.answer = Some(Ok(1.0));
        story.roll_out(3);
        story.settle();
        assert_eq!((story.sizes(), story.rollbacks.len()), (vec![(3, 4)], 0));
    }
}

#[test]
fn an_answer_counts_for_what_was_asked_alone() {
    let mut story = Story::new(usize::MAX);
    story.ask();
    let asked = story.model.asked.clone().expect("it is asked");
    let failed = |question: Question| Asked { question, since: story.model.now, last: Some(Answer::try_from(0.0)) };
    let others = [
        Question { provider: "other".to_owned(), ..asked.question.clone() },
        Question { query: "other".to_owned(), ..asked.question.clone() },
        Question { revision: RolloutRevision(1), ..asked.question.clone() },
        Question { step: 1, ..asked.question.clone() },
        Question { template_hash: "other".into(), ..asked.question.clone() },
    ];
    for other in others {
        let mut model = story.model.clone();
        model.asked = Some(failed(other));
        let plan = model.plan_deployment();
        assert_eq!((plan.is_idle(), plan.question.as_ref()), (true, Some(&asked.question)));
    }
    let mut model = story.model.clone();
    model.asked = Some(failed(asked.question));
    assert!(!model.plan_deployment().is_idle());
    // If a pod fails meanwhile, no question is asked, and no answer counts.
    let new = story
        .model
        .set_views()
        .into_iter()
        .find(|set| {
            set.replicas == 2 && set.template.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some("web:2"))
        })
        .expect("a set");
    let pod = story.model.pods.iter_mut().find(|pod| pod.meta.is_controlled_by(&new.meta.uid)).expect("a pod");
    (pod.ready, pod.ready_since) = (false, None);
    story.model.settle_sets();
    story.model.asked = story.model.asked.take().map(failed_of);
    let plan = story.model.plan_deployment();
    assert_eq!(plan.question, None);
    assert!(!plan.waits.iter().any(|wait| wait.to_string().contains("analysis")), "{:?}", plan.waits);
}

fn failed_of(asked: Asked) -> Asked {
    Asked { last: Some(Answer::try_from(0.0)), ..asked }
}

#[test]
fn an_analysis_without_a_provider_reports_an_unknown_provider_and_fails() {
    let mut story = Story::new(usize::MAX);
    // Upstream's API server accepts these annotations.
    story.annotate(&json!({"berth.dev/analysis-provider": null, "berth.dev/analysis-query": null}));
    story.ask();
    assert_eq!(
        story.model.plan_deployment().question.map(|question| (question.provider, question.query)),
        Some((String::new(), String::new()))
    );
    story.answer = Some(Err(NoAnswer::UnknownProvider));
    story.settle();
    let text = "step 2 of 3, at 50%: waiting for an analysis by provider \"\": no answer (unknown provider), retrying";
    assert_eq!(story.condition("Progressing").map(|[.., message]| message).as_deref(), Some(text));
    story.pass(600);
    assert_eq!((story.image(), story.rollbacks.len()), (1, 1));
}

/// The progress of template 2, which the provider rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its first pods start.
    Begun,
    /// The provider is asked.
    Asked,
    /// No answer yet.
    Unanswered,
    /// The answer has arrived, but nothing is written.
    Heard,
    /// The outcome is written on the set.
    Written,
    /// The template is rolled back, and nothing else has happened yet.
    WentBack,
    /// The other template is complete.
    Back,
}

const PHASES: [Phase; 7] = [Phase::Begun, Phase::Asked, Phase::Unanswered, Phase::Heard, Phase::Written, Phase::WentBack, Phase::Back];

impl Story {
    fn reach(&mut self, phase: Phase) {
        if phase == Phase::Begun {
            self.roll_out(2);
            self.act();
            return;
        }
        self.ask();
        match phase {
            Phase::Begun | Phase::Asked => return,
            Phase::Unanswered => {
                self.answer = TIMED_OUT;
                self.settle();
                return;
            }
            _ => self.answer = Some(Ok(0.0)),
        }
        while self.model.asked.as_ref().is_none_or(|asked| asked.last.is_none()) {
            self.act();
        }
        if phase == Phase::Heard {
            return;
        }
        while self.note(2).is_none_or(|note| note["outcome"] != "failed") {
            self.act();
        }
        if phase == Phase::Written {
            return;
        }
        while self.image() != 1 {
            self.act();
        }
        if phase == Phase::Back {
            self.settle();
        }
    }

    fn is_reached(phase: Phase) -> usize {
        usize::from(matches!(phase, Phase::WentBack | Phase::Back))
    }
}

/// A change that a user makes at that point.
struct Change {
    name: &'static str,
    make: fn(&mut Story),
    /// The final image and the number of rollbacks: if the change comes before the rollback, and if it comes after.
    ends: [(u64, usize); 2],
}

const CHANGES: [Change; 12] = [
    Change { name: "nothing", make: |_| (), ends: [(1, 1), (1, 1)] },
    Change {
        name: "paused for a while",
        make: |story| {
            story.model.edit(&json!({"spec": {"paused": true}}));
            let before = story.rollbacks.len();
            story.answer = Some(Ok(0.0));
            story.pass(3600);
            assert_eq!(story.rollbacks.len(), before, "it is paused");
            story.model.edit(&json!({"spec": {"paused": null}}));
        },
        ends: [(1, 1), (1, 1)],
    },
    Change { name: "scaled", make: |story| story.model.edit(&json!({"spec": {"replicas": 6}})), ends: [(1, 1), (1, 1)] },
    Change { name: "scaled down", make: |story| story.model.edit(&json!({"spec": {"replicas": 2}})), ends: [(1, 1), (1, 1)] },
    Change { name: "a new template", make: |story| story.roll_out(3), ends: [(1, 1), (1, 2)] },
    Change { name: "undone by hand", make: |story| story.roll_out(1), ends: [(1, 0), (1, 1)] },
    Change { name: "brought back", make: |story| story.roll_out(2), ends: [(1, 1), (2, 1)] },
    Change {
        name: "restarted",
        make: |story| {
            let restarted = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}});
            story.model.edit(&json!({"spec": {"template": restarted}}));
        },
        ends: [(1, 1), (1, 2)],
    },
    Change { name: "no steps any more", make: |story| story.annotate(&json!({"berth.dev/steps": null})), ends: [(2, 0), (1, 1)] },
    Change {
        name: "promoted",
        make: |story| {
            // A promotion contains the new set's template hash.
            while !story.model.has_new_set() {
                story.act();
            }
            story.promote("2/2");
        },
        ends: [(2, 0), (1, 1)],
    },
    Change { name: "another query", make: |story| story.annotate(&json!({"berth.dev/analysis-query": "down"})), ends: [(1, 1), (1, 1)] },
    Change {
        name: "another strategy",
        make: |story| story.model.edit(&json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})),
        ends: [(2, 0), (1, 1)],
    },
];

#[test]
fn a_template_that_fails_its_analysis_is_rolled_back_once_whatever_else_happens() {
    for limit in [usize::MAX, 1] {
        for phase in PHASES {
            for change in &CHANGES {
                let what = format!("{limit} writes, {phase:?}, {}", change.name);
                let mut story = Story::new(limit);
                story.reach(phase);
                (change.make)(&mut story);
                story.answer = Some(Ok(0.0));
                story.settle();
                let ends = change.ends[Story::is_reached(phase)];
                assert_eq!((story.image(), story.rollbacks.len()), ends, "{what}: {:?}", story.recorded_events);
                assert_eq!(story.condition("RollbackFailed"), None, "{what}");
                let fails = story.condition("AnalysisFailed").is_some();
                assert_eq!(fails, story.sizes().len() > 1, "{what}: it fails as long as it stays at the step");
            }
        }
    }
}

#[test]
fn a_deployment_that_is_being_deleted_asks_no_provider() {
    for phase in PHASES {
        let mut story = Story::new(usize::MAX);
        story.reach(phase);
        let before = (story.image(), story.rollbacks.len());
        story.model.deployment.json["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
        story.settle();
        assert_eq!((story.image(), story.rollbacks.len()), before, "{phase:?}");
        assert_eq!(story.model.plan_deployment().question, None, "{phase:?}");
    }
}
