//! The report on one revision: the author of the template change, its cause, and the course of its rollout. Pure: from objects to the
//! report.

use berth_api::{
    annotations::{RESTARTED_AT, REVISION_HISTORY},
    apps::records::{Change, Promotions, Scaling},
};
use berth_controllers::cluster::{AUTOSCALER_FIELD_MANAGER, FIELD_MANAGER as CONTROLLERS};
use berth_identity::RolloutRevision;
use berth_workloads::{
    rollback::Record,
    rollout_record::{How, Rollout},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

type Annotations = BTreeMap<String, String>;

/// Whether the annotations about authors are reliable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Records {
    /// The server writes them itself, and ignores the clients' values.
    Kept,
    /// The server does not write them, so any client may have.
    NotKept,
    /// It is unknown, for this reason.
    Unknown(String),
}

/// The source of an author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Source {
    /// The API server, which authenticates its users.
    Server,
    /// An annotation. It is unknown whether only the API server writes it.
    Unconfirmed,
    /// The object's managed fields: a name that the client chose.
    FieldManager,
}

/// The author and the time of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct By {
    pub(super) at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) manager: String,
    pub(super) source: Source,
}

impl By {
    /// The author in the server's record, if the records are reliable or unconfirmed.
    pub(super) fn recorded(change: Change, records: &Records) -> Option<Self> {
        let Change { at, user, manager } = change;
        let source = match records {
            Records::Kept => Source::Server,
            Records::Unknown(_) => Source::Unconfirmed,
            Records::NotKept => return None,
        };
        Some(Self { at, user, manager, source })
    }

    /// The author in the managed fields of a workload: the last writer of its pod template.
    pub(super) fn of_fields(workload: &Value) -> Option<Self> {
        let entries = workload["metadata"]["managedFields"].as_array()?;
        let wrote = entries.iter().filter(|entry| !entry["fieldsV1"]["f:spec"]["f:template"].is_null());
        let all = wrote.filter_map(|entry| Some((entry["time"].as_str()?.parse().ok()?, entry["manager"].as_str()?)));
        let (at, manager) = all.max_by_key(|(at, _): &(Timestamp, _)| *at)?;
        Some(Self { at, user: None, manager: manager.to_owned(), source: Source::FieldManager })
    }

    /// Whether an autoscaler did it, by the name of its account or of its field manager.
    fn is_autoscaler(&self) -> bool {
        let account = self.user.as_deref().unwrap_or(&self.manager);
        account.contains("autoscaler") || account.contains("keda")
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, manager, source, .. } = self;
        match user {
            Some(user) if manager.is_empty() => f.write_str(user)?,
            Some(user) => write!(f, "{user} ({manager})")?,
            None if *source == Source::FieldManager => return write!(f, "{manager} (field manager)"),
            None => f.write_str(manager)?,
        }
        if *source == Source::Unconfirmed { f.write_str(", unconfirmed") } else { Ok(()) }
    }
}

/// The cause of a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Cause {
    /// Its controller rolled back automatically.
    Rollback {
        to_revision: RolloutRevision,
        from_revision: RolloutRevision,
        /// The failure of that revision.
        #[serde(skip)]
        failed: &'static str,
        /// Since when, as a sentence.
        message: String,
    },
    /// A user restored the template of an earlier revision.
    Undo { to_revision: RolloutRevision },
    /// A user restarted all pods.
    Restart,
    /// An autoscaler also changed the template.
    Autoscaler,
    /// It is the first known revision.
    Created,
    /// Only images differ.
    Image,
    /// Another part of the template differs.
    Template,
}

/// The evidence of a revision's cause.
pub(super) struct Evidence<'a> {
    pub(super) revision: RolloutRevision,
    pub(super) by: Option<&'a By>,
    /// The record in the revision's object.
    pub(super) rollback: Option<&'a Record>,
    /// The former number of the template.
    pub(super) former_revision: Option<RolloutRevision>,
    /// Whether no earlier revision can have existed.
    pub(super) is_first: bool,
    pub(super) template: &'a Value,
    /// The template of the revision before, if that still exists.
    pub(super) before: Option<&'a Value>,
}

/// The table of causes: the first that applies. `None` if no cause is known.
pub(super) fn cause(evidence: &Evidence<'_>) -> Option<Cause> {
    let Evidence { by, template, .. } = evidence;
    // The annotation alone is not sufficient if the server knows another author.
    let may_be_its_own = by.is_none_or(|by| by.source == Source::FieldManager || by.manager == CONTROLLERS);
    if let Some(record) = evidence.rollback.filter(|record| record.revision == evidence.revision && may_be_its_own) {
        let (failed, message) = (record.failed(), record.message.clone());
        return Some(Cause::Rollback { to_revision: record.to_revision, from_revision: record.from_revision, failed, message });
    }
    if let Some(to_revision) = evidence.former_revision {
        return Some(Cause::Undo { to_revision });
    }
    if by.is_some_and(By::is_autoscaler) {
        return Some(Cause::Autoscaler);
    }
    let Some(before) = evidence.before else { return evidence.is_first.then_some(Cause::Created) };
    let differs_in = |part: Part| without(template, part) == without(before, part);
    Some(if restarted(template) != restarted(before) && differs_in(Part::Restart) {
        Cause::Restart
    } else if differs_in(Part::Images) {
        Cause::Image
    } else {
        Cause::Template
    })
}

fn restarted(template: &Value) -> Option<&str> {
    template["metadata"]["annotations"][RESTARTED_AT].as_str()
}

/// A part of a template that can differ alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Restart,
    Images,
}

fn without(template: &Value, part: Part) -> Value {
    let mut rest = template.clone();
    match part {
        Part::Restart => {
            if let Some(metadata) = rest["metadata"].as_object_mut() {
                if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                    annotations.remove(RESTARTED_AT);
                }
                metadata.retain(|key, value| key != "annotations" || value.as_object().is_none_or(|map| !map.is_empty()));
            }
        }
        Part::Images => {
            for kind in ["containers", "initContainers"] {
                for container in rest["spec"][kind].as_array_mut().into_iter().flatten() {
                    container["image"].take();
                }
            }
        }
    }
    rest
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rollback { to_revision, .. } => write!(f, "auto-rollback to {to_revision}"),
            Self::Undo { to_revision } => write!(f, "undo to {to_revision}"),
            Self::Restart => f.write_str("restart"),
            Self::Autoscaler => f.write_str("autoscaler"),
            Self::Created => f.write_str("created"),
            Self::Image => f.write_str("image"),
            Self::Template => f.write_str("template"),
        }
    }
}

/// The course of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Course {
    /// When it got its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) began: Option<Timestamp>,
    /// `Complete`, `Failed`, `Superseded`, `RolledBack`, or `InProgress`. Missing without a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<RolloutOutcome>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Timestamp>,
    /// The time from its beginning to its end or, while it is in progress, until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) took_seconds: Option<i64>,
    /// The number of the rollout that replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_revision: Option<RolloutRevision>,
    /// The cause, as in `berth rollout status -o json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// The state of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum RolloutOutcome {
    InProgress,
    Complete,
    Failed,
    Superseded,
    RolledBack,
}

impl From<How> for RolloutOutcome {
    fn from(how: How) -> Self {
        match how {
            How::Complete => Self::Complete,
            How::Failed => Self::Failed,
            How::Superseded => Self::Superseded,
            How::RolledBack => Self::RolledBack,
        }
    }
}

/// The state of the newest rollout according to its workload, if its end is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RolloutStatus {
    pub(super) state: RolloutOutcome,
    /// The time of that status.
    pub(super) since: Option<Timestamp>,
    /// What it waits for, or why it failed.
    pub(super) message: Option<String>,
}

/// The course of a rollout from its record. `standing` is the workload's status, for its newest rollout. `began` is used without a record.
/// `given_up` is when the rollout scaled down the former pods, if it began so.
pub(super) fn course(
    kept: Option<&Rollout>,
    standing: Option<RolloutStatus>,
    began: Option<Timestamp>,
    given_up: Option<Timestamp>,
    now: Timestamp,
) -> Course {
    let numbered = kept.map(|kept| kept.began).or(began);
    let began = numbered.map(|numbered| given_up.map_or(numbered, |given_up| given_up.min(numbered)));
    let seconds = |end: Timestamp| began.map(|began| end.duration_since(began).as_secs()).filter(|seconds| *seconds >= 0);
    if let Some(ended) = kept.and_then(|kept| kept.ended.clone()) {
        return Course {
            began,
            state: Some(ended.how.into()),
            ended: Some(ended.at),
            took_seconds: seconds(ended.at),
            next_revision: ended.revision,
            reason: ended.reason,
            message: ended.message,
        };
    }
    let Some(RolloutStatus { state, since, message }) = standing else { return Course { began, ..Course::default() } };
    let ended = since.filter(|since| state != RolloutOutcome::InProgress && began.is_none_or(|began| began <= *since));
    let until = if state == RolloutOutcome::InProgress { Some(now) } else { ended };
    Course { began, state: Some(state), ended, took_seconds: until.and_then(seconds), next_revision: None, reason: None, message }
}

impl Course {
    /// The outcome in a word or two.
    pub(super) fn outcome(&self) -> String {
        let next = |text: &str| self.next_revision.map_or_else(|| text.to_owned(), |next| format!("{text} by {next}"));
        match self.state {
            None => "-".to_owned(),
            Some(RolloutOutcome::InProgress) => "in progress".to_owned(),
            Some(RolloutOutcome::Complete) => "complete".to_owned(),
            Some(RolloutOutcome::Failed) => "failed".to_owned(),
            Some(RolloutOutcome::Superseded) => next("superseded"),
            Some(RolloutOutcome::RolledBack) => "rolled back".to_owned(),
        }
    }
}

/// The former numbers of a ReplicaSet's template, oldest first, from its own annotation.
pub(super) fn former_revisions(annotations: &Annotations) -> Vec<RolloutRevision> {
    let history = annotations.get(REVISION_HISTORY).map(String::as_str).unwrap_or_default();
    history.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// The author of a workload's last scaling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Scaled {
    pub(super) from: i32,
    pub(super) to: i32,
    pub(super) by: By,
    /// Whether the author is an autoscaler, by its name.
    pub(super) autoscaler: bool,
}

impl Scaled {
    /// The server's record, if the records are reliable or unconfirmed.
    pub(super) fn of(workload: &Annotations, records: &Records) -> Option<Self> {
        let Scaling { by, from, to } = Scaling::of(workload)?;
        let by = By::recorded(by, records)?;
        // In a process of its own, berth's has the account of all its controllers.
        Some(Self { from, to, autoscaler: by.is_autoscaler() || by.manager == AUTOSCALER_FIELD_MANAGER, by })
    }
}

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, by, autoscaler } = self;
        write!(f, "scaled from {from} to {to} by {}{by}", if *autoscaler { "an autoscaler, " } else { "" })
    }
}

/// A promotion: a user ended the wait at a step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Promoted {
    /// The step, counted from 1.
    pub(super) step: u32,
    pub(super) by: By,
}

impl Promoted {
    /// The promotions of the rollout of this number in the server's record, if the records are reliable or unconfirmed.
    pub(super) fn of(workload: &Annotations, revision: RolloutRevision, records: &Records) -> Vec<Self> {
        let promotions = Promotions::of(workload).filter(|promotions| promotions.revision == revision);
        let steps = promotions.into_iter().flat_map(|promotions| promotions.steps);
        steps.filter_map(|one| Some(Self { step: one.step, by: By::recorded(one.by, records)? })).collect()
    }
}

impl fmt::Display for Promoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promoted past step {} by {}", self.step, self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::annotations::{BERTH_PROMOTED_BY, BERTH_SCALED_BY};
    use berth_workloads::rollout_record::Ended;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn by(user: Option<&str>, manager: &str, source: Source) -> By {
        By { at: at(5), user: user.map(str::to_owned), manager: manager.to_owned(), source }
    }

    fn record() -> Record {
        let message = "1 pod cannot pull its image".to_owned();
        Record {
            revision: RolloutRevision(5),
            template_hash: "x".into(),
            from_revision: RolloutRevision(4),
            to_revision: RolloutRevision(3),
            reason: None,
            message,
        }
    }

    fn template(image: &str, restarted: Option<&str>, more: &Value) -> Value {
        let annotations = restarted.map(|at| json!({RESTARTED_AT: at}));
        let metadata = annotations.map_or(json!({}), |annotations| json!({"annotations": annotations}));
        json!({"metadata": metadata, "spec": {"containers": [{"name": "a", "image": image}], "more": more}})
    }

    /// Each row of the table of causes.
    #[test]
    fn the_first_cause_that_applies_is_reported() {
        let (now, old) = (template("a:2", None, &Value::Null), template("a:1", None, &Value::Null));
        let other = template("a:2", Some("today"), &json!(1));
        let restarted = template("a:2", Some("today"), &Value::Null);
        let (alice, controller) = (by(Some("alice"), "kubectl-set", Source::Server), by(None, CONTROLLERS, Source::Server));
        let apart = by(Some("kubernetes-admin"), CONTROLLERS, Source::Server);
        let claimed = by(None, "kubectl", Source::FieldManager);
        let vpa = by(Some("system:serviceaccount:kube-system:vertical-pod-autoscaler"), "vpa", Source::Server);
        let record = record();
        let told = |text: &str| Some(text.to_owned());
        // A record of the rollback with each possible author, and a user who undid the rollout.
        for (who, wanted) in [
            (None, "auto-rollback to 3"),
            (Some(&controller), "auto-rollback to 3"),
            (Some(&apart), "auto-rollback to 3"),
            (Some(&claimed), "auto-rollback to 3"),
            (Some(&alice), "undo to 3"),
        ] {
            let mut found = Evidence {
                revision: RolloutRevision(5),
                by: who,
                rollback: Some(&record),
                former_revision: Some(RolloutRevision(3)),
                is_first: false,
                template: &now,
                before: Some(&old),
            };
            assert_eq!(cause(&found).map(|cause| cause.to_string()), told(wanted), "{who:?}");
            found.revision = RolloutRevision(6);
            assert_eq!(cause(&found).map(|cause| cause.to_string()), told("undo to 3"), "the record is of another revision");
        }
        let plain = |by: Option<&By>, former_revision, template: &Value, before: Option<&Value>, is_first| {
            cause(&Evidence { revision: RolloutRevision(5), by, rollback: None, former_revision, is_first, template, before })
                .map(|cause| cause.to_string())
        };
        assert_eq!(plain(Some(&alice), Some(RolloutRevision(2)), &now, Some(&old), false), told("undo to 2"));
        assert_eq!(plain(Some(&vpa), None, &other, Some(&old), false), told("autoscaler"));
        assert_eq!(plain(Some(&alice), None, &now, None, true), told("created"));
        assert_eq!(plain(Some(&alice), None, &now, None, false), None, "what it was made from is no longer kept");
        assert_eq!(plain(None, None, &restarted, Some(&now), false), told("restart"));
        assert_eq!(plain(None, None, &other, Some(&now), false), told("template"), "a restart with something else is more");
        assert_eq!(plain(None, None, &now, Some(&old), false), told("image"));
        assert_eq!(plain(None, None, &other, Some(&old), false), told("template"));
    }

    #[test]
    fn a_cause_has_its_word_in_json() {
        let text = |cause: &Cause| serde_json::to_string(cause).expect("JSON");
        let rollback = Cause::Rollback {
            to_revision: RolloutRevision(3),
            from_revision: RolloutRevision(4),
            failed: "failed its analysis",
            message: "no".to_owned(),
        };
        assert_eq!(text(&rollback), r#"{"kind":"rollback","toRevision":3,"fromRevision":4,"message":"no"}"#);
        assert_eq!(text(&Cause::Undo { to_revision: RolloutRevision(3) }), r#"{"kind":"undo","toRevision":3}"#);
        let others = [Cause::Restart, Cause::Autoscaler, Cause::Created, Cause::Image, Cause::Template];
        let words = others.map(|cause| serde_json::to_value(cause).expect("JSON")["kind"].clone());
        assert_eq!(words, ["restart", "autoscaler", "created", "image", "template"]);
    }

    #[test]
    fn the_author_of_a_change_is_shown_with_the_source_of_the_name() {
        let text = |user, manager, source| by(user, manager, source).to_string();
        assert_eq!(text(Some("alice"), "kubectl-set", Source::Server), "alice (kubectl-set)");
        assert_eq!(text(Some("alice"), "", Source::Server), "alice");
        assert_eq!(text(None, "berth-up", Source::Server), "berth-up");
        assert_eq!(text(Some("alice"), "kubectl-set", Source::Unconfirmed), "alice (kubectl-set), unconfirmed");
        assert_eq!(text(None, "kubectl-set", Source::FieldManager), "kubectl-set (field manager)");
    }

    #[test]
    fn a_record_counts_where_the_server_alone_writes_it() {
        let of = |records: &Records| By::recorded(Change::new(at(5), Some("alice"), "m"), records).map(|by| by.source);
        assert_eq!(of(&Records::Kept), Some(Source::Server));
        assert_eq!(of(&Records::Unknown("forbidden".to_owned())), Some(Source::Unconfirmed));
        assert_eq!(of(&Records::NotKept), None);
        let scaling =
            Scaling { by: Change::new(at(5), Some("system:serviceaccount:kube-system:horizontal-pod-autoscaler"), "hpa"), from: 1, to: 4 };
        let workload = Annotations::from([(BERTH_SCALED_BY.to_owned(), scaling.value())]);
        let text = "scaled from 1 to 4 by an autoscaler, system:serviceaccount:kube-system:horizontal-pod-autoscaler (hpa)";
        assert_eq!(Scaled::of(&workload, &Records::Kept).map(|scaled| scaled.to_string()).as_deref(), Some(text));
        assert_eq!(Scaled::of(&workload, &Records::NotKept), None);
        for (user, manager, is_autoscaler) in [
            (None, AUTOSCALER_FIELD_MANAGER, true),
            (Some("system:kube-controller-manager"), AUTOSCALER_FIELD_MANAGER, true),
            (Some("system:kube-controller-manager"), CONTROLLERS, false),
            (Some("alice"), "not-an-autoscaler", false),
        ] {
            let scaling = Scaling { by: Change::new(at(5), user, manager), from: 1, to: 4 };
            let workload = Annotations::from([(BERTH_SCALED_BY.to_owned(), scaling.value())]);
            let found = Scaled::of(&workload, &Records::Kept).map(|scaled| scaled.autoscaler);
            assert_eq!(found, Some(is_autoscaler), "{user:?} {manager}");
        }
        let promotions =
            Promotions::with(None, "3/2/5d4", RolloutRevision(3), || Change::new(at(5), Some("alice"), "berth")).expect("it is new");
        let workload = Annotations::from([(BERTH_PROMOTED_BY.to_owned(), promotions.value())]);
        let told = |revision: RolloutRevision, records: &Records| {
            Promoted::of(&workload, revision, records).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(RolloutRevision(3), &Records::Kept), ["promoted past step 2 by alice (berth)"]);
        assert_eq!((told(RolloutRevision(2), &Records::Kept), told(RolloutRevision(3), &Records::NotKept)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn the_field_manager_is_the_last_one_that_wrote_to_the_template() {
        let entry = |manager: &str, second: u8, fields: Value| json!({"manager": manager, "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsV1": fields});
        let template = || json!({"f:spec": {"f:template": {}}});
        let of = |entries: Value| By::of_fields(&json!({"metadata": {"managedFields": entries}})).map(|by| by.manager);
        let others = [entry("scaler", 9, json!({"f:spec": {"f:replicas": {}}})), entry("status", 9, json!({"f:status": {}}))];
        assert_eq!(of(json!([entry("a", 1, template()), entry("b", 3, template()), others[0], others[1]])).as_deref(), Some("b"));
        assert_eq!(of(json!(others)), None);
        assert_eq!(of(Value::Null), None);
    }

    #[test]
    fn a_course_is_as_recorded_and_for_the_newest_revision_as_its_workload_reports() {
        let begun = Rollout { revision: RolloutRevision(2), began: at(10), former_revision: None, by: None, ended: None };
        let complete = Rollout { ended: Some(Ended::complete(at(25))), ..begun.clone() };
        let superseded = Rollout { ended: Some(Ended::superseded(at(20), RolloutRevision(3), None)), ..begun.clone() };
        let waits = || Some(RolloutStatus { state: RolloutOutcome::InProgress, since: None, message: None });
        let told = |kept: Option<&Rollout>, standing, began| {
            let course = course(kept, standing, began, None, at(50));
            (course.outcome(), course.took_seconds)
        };
        assert_eq!(told(Some(&complete), waits(), None), ("complete".to_owned(), Some(15)), "what was kept counts");
        assert_eq!(told(Some(&superseded), None, None), ("superseded by 3".to_owned(), Some(10)));
        assert_eq!(told(Some(&begun), waits(), None), ("in progress".to_owned(), Some(40)));
        assert_eq!(told(Some(&begun), None, None), ("-".to_owned(), None), "it is not the newest, and its end was not recorded");
        let done = |since| Some(RolloutStatus { state: RolloutOutcome::Complete, since, message: None });
        assert_eq!(told(None, done(Some(at(30))), Some(at(10))), ("complete".to_owned(), Some(20)));
        assert_eq!(told(None, done(Some(at(5))), Some(at(10))), ("complete".to_owned(), None), "that was of another");
        assert_eq!(told(None, done(None), Some(at(10))), ("complete".to_owned(), None));
    }

    #[test]
    fn former_numbers_are_those_of_the_sets_book() {
        let of = |text: &str| former_revisions(&Annotations::from([(REVISION_HISTORY.to_owned(), text.to_owned())]));
        assert_eq!(
            [of("1"), of("1,4"), of(""), of("x,2")],
            [vec![1], vec![1, 4], vec![], vec![2]].map(|numbers| numbers.into_iter().map(RolloutRevision).collect::<Vec<_>>())
        );
        assert!(former_revisions(&Annotations::new()).is_empty());
    }
}
