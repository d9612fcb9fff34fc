//! The part of automatic rollback that all workloads share: the records on objects.

use crate::{
    analysis,
    cause::Cause,
    hash::{template_hash, without_hash},
    plan::{Action, EventRecord, Outcome, Reason, Repeat, Stage},
};
use berth_api::annotations::{BERTH_COMPLETED_AT, BERTH_COMPLETED_REVISION, BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES};
use berth_identity::{RolloutRevision, TemplateHash};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// How many templates are remembered. Beyond that, the oldest are dropped and may be rolled back once more.
pub const TEMPLATES_MAX: usize = 64;
/// How many characters of a message are stored: an event has no more.
const MESSAGE_CHARS_MAX: usize = 1024;

/// How long all pods of a template must stay available until its rollout has succeeded. A container that crashes right after its start
/// makes its pod available briefly.
pub const STEADY: SignedDuration = SignedDuration::from_secs(10);

/// The maximum age of a healthy node's lease renewal: kubelets renew every 10 s. The node's status reports a lost node only 40 s later.
const NODE_ANSWERS_WITHIN: SignedDuration = SignedDuration::from_secs(12);

type Annotations = BTreeMap<String, String>;

/// How long all pods of a template must stay available until its rollout has succeeded, or a step of it is reached: 10 s, or the deadline
/// if that is shorter.
#[must_use]
pub fn steady(deadline: SignedDuration) -> SignedDuration {
    STEADY.min(deadline)
}

/// The last automatic rollback of a workload, as stored in the annotation [`BERTH_ROLLBACK`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The number of the rollback's own rollout, which its target template has from then on.
    pub revision: RolloutRevision,
    /// The hash of that template. A template that a user sets before the rollout begins gets the number too, but has another hash.
    pub template_hash: TemplateHash,
    /// The number of the rollout that failed.
    pub from_revision: RolloutRevision,
    /// The former number of the target template.
    pub to_revision: RolloutRevision,
    /// The reason of the cause ([`crate::cause::Kind::reason`]) if it is known, otherwise `analysis_failed` or `analysis_unanswered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The failure as a sentence.
    pub message: String,
}

impl Record {
    /// Reads the annotation. `None` if it is missing or cannot be parsed.
    #[must_use]
    pub fn of(annotations: &Annotations) -> Option<Self> {
        serde_json::from_str(annotations.get(BERTH_ROLLBACK)?).ok()
    }

    /// The annotation's value.
    #[must_use]
    pub fn value(&self) -> String {
        let message: String = self.message.chars().take(MESSAGE_CHARS_MAX).collect();
        serde_json::to_string(&Self { message, ..self.clone() }).expect("it has string keys only")
    }

    /// The message if the target template fails too.
    pub(crate) fn failure(&self) -> String {
        let Self { revision, from_revision, .. } = self;
        format!(
            "Revision {revision}, which revision {from_revision} was rolled back to, has missed its progress deadline too; nothing more is rolled back"
        )
    }

    /// The failure of the rolled-back rollout: `missed its progress deadline`, `failed its analysis`.
    #[must_use]
    pub fn failed(&self) -> &'static str {
        match self.reason.as_deref() {
            Some(analysis::FAILED | analysis::UNANSWERED) => "failed its analysis",
            _ => "missed its progress deadline",
        }
    }

    /// Whether this rollback caused the rollout of this number, to this template.
    #[must_use]
    pub fn has_made(&self, revision: RolloutRevision, template: &PodTemplateSpec) -> bool {
        self.revision == revision && self.template_hash == template_hash(&without_hash(template), None)
    }

    /// Whether the object of this revision stores the record too, for users who read the history.
    #[must_use]
    pub fn is_about(&self, revision: RolloutRevision, template: &PodTemplateSpec) -> bool {
        self.from_revision == revision || self.has_made(revision, template)
    }
}

/// How a template is rolled back.
pub(crate) enum WayBack {
    /// At once, with no other action in this sync.
    Now(Stage),
    /// These stages come after all other work of the sync. The first one checks whether a node answers. Until one does, the other work
    /// continues.
    IfConfirmed([Stage; 2]),
}

impl WayBack {
    /// `confirm` is the result of [`nodes_to_confirm`].
    pub(crate) fn new(confirm: Option<Action>, rollback: Action) -> Self {
        let stage = |action| Stage { actions: vec![action] };
        match confirm {
            None => Self::Now(stage(rollback)),
            Some(confirm) => Self::IfConfirmed([stage(confirm), stage(rollback)]),
        }
    }
}

/// The check before a rollback from a template whose pods report no cause. The pods may be on lost nodes, and another template would not
/// help then. `nodes` contains the nodes of unready pods. `skipped` is the event if none of them answers, recorded once for each template
/// of this hash. `None` if there is no such pod, or one has no node yet.
pub(crate) fn nodes_to_confirm(
    nodes: Vec<String>,
    record: &Record,
    (hash, skipped): (&str, EventRecord),
    now: Timestamp,
) -> Option<Action> {
    if nodes.is_empty() || nodes.iter().any(String::is_empty) {
        return None;
    }
    let skipped = EventRecord { repeat: Repeat::OncePer(format!("{hash}/node_lost")), ..skipped };
    Some(Action::ConfirmNodeReady {
        nodes,
        answered_since: now.checked_sub(NODE_ANSWERS_WITHIN).unwrap_or(Timestamp::MIN),
        reason: Reason::AutomaticRollback { from: record.from_revision, to: record.to_revision },
        events: Outcome { success: None, failure: Some(skipped) },
    })
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, from_revision, to_revision, message, .. } = self;
        let failed = self.failed();
        write!(f, "Rolled back from revision {from_revision}, which {failed}, to revision {to_revision}, now {revision}: {message}")
    }
}

/// Why a template that has missed its deadline is not rolled back.
pub(crate) enum Stays {
    /// It was rolled back before, and a user has restored it.
    BroughtBack,
    /// All its existing pods are available, so the rollout waits for something else.
    NoneFails,
    /// The cause is not in the template.
    NotItsOwn(Cause),
    /// No other existing revision was ever complete.
    NothingBefore,
    /// It was complete in an earlier rollout, so the cause is not in the template.
    CompleteBefore,
}

impl Stays {
    /// A different word for each event that is recorded once.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::BroughtBack => "brought_back",
            Self::NoneFails => "none_fails",
            Self::NotItsOwn(cause) => cause.kind.reason(),
            Self::NothingBefore => "nothing_before",
            Self::CompleteBefore => "complete_before",
        }
    }
}

impl fmt::Display for Stays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BroughtBack => {
                f.write_str("its template was rolled back before, and berth does not repeat that; `rollout restart` tries it again")
            }
            Self::NoneFails => f.write_str("none of its pods fails, so a rollback would not help"),
            Self::NotItsOwn(cause) => write!(f, "a rollback would not help: {cause}"),
            Self::NothingBefore => f.write_str("no other existing revision was ever complete"),
            Self::CompleteBefore => {
                f.write_str("an earlier rollout of its template was complete, so the template is not the cause of the failure")
            }
        }
    }
}

/// The templates that any of these annotations remember, oldest first. A template's position is that of the last annotation that contains
/// it. The oldest are dropped above the limit. Empty if there are none.
#[must_use]
pub fn remembered<'a>(objects: impl IntoIterator<Item = &'a Annotations>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for annotations in objects {
        let hashes: Vec<&str> = hashes(annotations).collect();
        all.retain(|hash| !hashes.contains(hash));
        let known = std::mem::replace(&mut all, hashes);
        all.splice(0..0, known);
    }
    all[all.len().saturating_sub(TEMPLATES_MAX)..].join(",")
}

/// Whether these annotations remember the template of this hash.
#[must_use]
pub fn is_remembered(annotations: &Annotations, hash: &TemplateHash) -> bool {
    hashes(annotations).any(|known| known == hash)
}

fn hashes(annotations: &Annotations) -> impl Iterator<Item = &str> {
    annotations.get(BERTH_ROLLED_BACK_TEMPLATES).into_iter().flat_map(|text| text.split(',')).filter(|hash| !hash.is_empty())
}

/// The number of the last complete rollout to this revision. `None` if there was none, or the annotation is not a number.
#[must_use]
pub fn completed_revision(annotations: &Annotations) -> Option<RolloutRevision> {
    annotations.get(BERTH_COMPLETED_REVISION)?.parse().ok()
}

/// The annotations that record a complete rollout of this number at this time.
#[must_use]
pub fn completion(revision: RolloutRevision, at: Timestamp) -> [(&'static str, String); 2] {
    let seconds = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    [(BERTH_COMPLETED_REVISION, revision.to_string()), (BERTH_COMPLETED_AT, seconds)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{About, Kind};
    use k8s_openapi::api::core::v1::PodSpec;

    fn with(hashes: &str) -> Annotations {
        Annotations::from([(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), hashes.to_owned())])
    }

    #[test]
    fn templates_of_all_objects_are_remembered_in_the_order_of_the_last_object() {
        let all = |objects: &[Annotations]| remembered(objects);
        assert_eq!(all(&[with("b,a"), with("a,b,c")]), "a,b,c");
        assert_eq!(all(&[with("old,a"), with("a,b")]), "old,a,b");
        assert_eq!(all(&[with("a"), Annotations::new()]), "a");
        assert_eq!(all(&[with(",,")]), "");
        assert!(is_remembered(&with("ab,c"), &"c".into()) && !is_remembered(&with("ab,c"), &"b".into()));
    }

    #[test]
    fn each_reason_to_stay_has_its_own_word() {
        let about = About { kind: "Pod", name: "web-0".to_owned() };
        let cause = Cause { kind: Kind::Quota, pods: 1, about, evidence: String::new() };
        let all = [Stays::BroughtBack, Stays::NoneFails, Stays::NotItsOwn(cause), Stays::NothingBefore, Stays::CompleteBefore];
        let words = ["brought_back", "none_fails", Kind::Quota.reason(), "nothing_before", "complete_before"];
        assert_eq!(all.map(|stays| stays.word()), words);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let many: Vec<String> = (0..=TEMPLATES_MAX).map(|number| number.to_string()).collect();
        let kept = remembered([&with(&many.join(","))]);
        assert_eq!(kept, many[1..].join(","));
    }

    #[test]
    fn a_record_is_read_back_and_its_message_has_an_end() {
        let (template, other) = (
            PodTemplateSpec::default(),
            PodTemplateSpec { spec: Some(PodSpec { host_network: Some(true), ..PodSpec::default() }), ..PodTemplateSpec::default() },
        );
        let template_hash = template_hash(&template, None);
        let record = Record {
            revision: RolloutRevision(7),
            template_hash,
            from_revision: RolloutRevision(6),
            to_revision: RolloutRevision(3),
            reason: None,
            message: "é".repeat(5000),
        };
        let read = Record::of(&Annotations::from([(BERTH_ROLLBACK.to_owned(), record.value())])).expect("a record");
        assert_eq!((read.message.chars().count(), read.revision), (MESSAGE_CHARS_MAX, RolloutRevision(7)));
        assert!(
            [6, 7].into_iter().all(|revision| read.is_about(RolloutRevision(revision), &template))
                && !read.is_about(RolloutRevision(3), &template)
        );
        assert!(
            read.is_about(RolloutRevision(6), &other) && !read.is_about(RolloutRevision(7), &other),
            "it was changed before it was rolled out"
        );
        for text in ["", "{}", "[]", "null", "{\"revision\": \"7\"}"] {
            assert_eq!(Record::of(&Annotations::from([(BERTH_ROLLBACK.to_owned(), text.to_owned())])), None, "{text}");
        }
    }

    #[test]
    fn a_completion_is_read_back() {
        let written: Annotations =
            completion(RolloutRevision(4), Timestamp::UNIX_EPOCH).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!((completed_revision(&written), &*written[BERTH_COMPLETED_AT]), (Some(RolloutRevision(4)), "1970-01-01T00:00:00Z"));
        assert_eq!(completed_revision(&Annotations::new()), None);
    }
}
