//! The record of a rollout on the object of its revision (a ReplicaSet, a ControllerRevision): when it began, its author, and its end. The
//! gate is [`berth_api::Gate::RolloutRecords`].
//!
//! A record belongs to the revision whose number it contains. A record with another number is stale and is ignored.

use crate::{cause::Cause, rollback};
use berth_api::{annotations::BERTH_ROLLOUT, apps::records::Change, metadata::has_room_for};
use berth_identity::RolloutRevision;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many characters of a message are stored: an event has no more.
const MESSAGE_CHARS_MAX: usize = 1024;

type Annotations = BTreeMap<String, String>;

/// One rollout, as stored in the annotation [`BERTH_ROLLOUT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Its number.
    pub revision: RolloutRevision,
    /// When it got its number, in whole seconds.
    pub began: Timestamp,
    /// The former number of the same template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_revision: Option<RolloutRevision>,
    /// The author of the template change, from the workload's own annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Change>,
    /// `None` if it has not ended, or no controller has observed its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// The end of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// When the controller observed the end, in whole seconds.
    pub at: Timestamp,
    /// How.
    pub how: How,
    /// The number of the rollout that replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<RolloutRevision>,
    /// The reason of the cause ([`crate::cause::Kind::reason`]) if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Every desired pod had its template and was available.
    Complete,
    /// It missed its deadline. It continues, and can be complete later.
    Failed,
    /// Another template replaced it before it was complete.
    Superseded,
    /// It failed, and its controller rolled back to another template automatically.
    RolledBack,
}

impl How {
    /// Whether this end may still change to `next`.
    fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Failed, Self::Complete | Self::RolledBack) => true,
            (Self::Complete | Self::Failed | Self::Superseded | Self::RolledBack, _) => false,
        }
    }
}

impl Rollout {
    /// The record of a rollout that begins. `workload` contains the workload's annotations.
    #[must_use]
    pub fn begun(revision: RolloutRevision, former_revision: Option<RolloutRevision>, workload: &Annotations, now: Timestamp) -> Self {
        Self { revision, began: whole(now), former_revision, by: Change::of(workload), ended: None }
    }

    /// Reads the annotation. `None` if it is not about the rollout of this number.
    #[must_use]
    pub fn of(annotations: &Annotations, revision: RolloutRevision) -> Option<Self> {
        let rollout: Self = serde_json::from_str(annotations.get(BERTH_ROLLOUT)?).ok()?;
        let by = rollout.by.map(|Change { at, user, manager }| Change::new(at, user.as_deref(), &manager));
        (rollout.revision == revision).then_some(Self { by, ..rollout })
    }

    /// Stores the record. Annotations at the size limit do not change, because a record must not block a rollout.
    pub fn keep(&self, annotations: &mut Annotations) {
        let value = serde_json::to_string(self).expect("it has string keys only");
        if has_room_for(annotations, BERTH_ROLLOUT, &value) {
            annotations.insert(BERTH_ROLLOUT.to_owned(), value);
        }
    }
}

/// The record of this rollout with this end. `None` if there is no record, or it already has an end.
#[must_use]
pub fn ended(annotations: &Annotations, revision: RolloutRevision, end: &Ended) -> Option<Rollout> {
    let rollout = Rollout::of(annotations, revision)?;
    let is_news = rollout.ended.as_ref().is_none_or(|ended| ended.how.may_become(end.how));
    is_news.then(|| Rollout { ended: Some(end.clone()), ..rollout })
}

impl Ended {
    /// The end of a complete rollout.
    #[must_use]
    pub fn complete(now: Timestamp) -> Self {
        Self { at: whole(now), how: How::Complete, revision: None, reason: None, message: None }
    }

    /// The end of a rollout that missed its deadline, with its cause or, if none is known, the text of `standing`.
    #[must_use]
    pub fn failed(now: Timestamp, cause: Option<&Cause>, standing: impl FnOnce() -> String) -> Self {
        let message = cause.map_or_else(standing, Cause::to_string);
        let reason = cause.map(|cause| cause.kind.reason().to_owned());
        Self { how: How::Failed, reason, message: Some(short(&message)), ..Self::complete(now) }
    }

    /// The end of a rollout that another one has replaced.
    #[must_use]
    pub fn superseded(now: Timestamp, by: RolloutRevision, message: Option<String>) -> Self {
        Self { how: How::Superseded, revision: Some(by), message, ..Self::complete(now) }
    }

    /// The end of a rollout that its controller has rolled back.
    #[must_use]
    pub fn rolled_back(now: Timestamp, record: &rollback::Record) -> Self {
        let (reason, message) = (record.reason.clone(), Some(short(&record.message)));
        Self { how: How::RolledBack, revision: Some(record.revision), reason, message, ..Self::complete(now) }
    }
}

fn short(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// Truncates to seconds, as in API objects.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{About, Kind};
    use berth_api::annotations::BERTH_CHANGED_BY;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn begun() -> Annotations {
        let change = Change::new(at(5), Some("alice"), "kubectl-set");
        let workload = Annotations::from([(BERTH_CHANGED_BY.to_owned(), change.value())]);
        let mut annotations = Annotations::new();
        Rollout::begun(RolloutRevision(3), Some(RolloutRevision(1)), &workload, at(7)).keep(&mut annotations);
        annotations
    }

    fn end(how: How) -> Ended {
        Ended { how, ..Ended::complete(at(9)) }
    }

    #[test]
    fn a_record_names_its_revision_and_the_user_who_began_it() {
        let rollout = Rollout::of(&begun(), RolloutRevision(3)).expect("a record");
        assert_eq!((rollout.former_revision, rollout.by.expect("a user").user.as_deref()), (Some(RolloutRevision(1)), Some("alice")));
        assert_eq!(Rollout::of(&begun(), RolloutRevision(4)), None, "left over");
        for text in ["", "{}", "[]", "3", r#"{"revision":3,"began":7}"#] {
            assert_eq!(Rollout::of(&Annotations::from([(BERTH_ROLLOUT.to_owned(), text.to_owned())]), RolloutRevision(3)), None, "{text}");
        }
    }

    #[test]
    fn an_end_has_its_cause_and_the_next_revision() {
        let about = About { kind: "Pod", name: "web-0".to_owned() };
        let cause = Cause { kind: Kind::ImagePull, pods: 1, about, evidence: "cannot pull its image".to_owned() };
        let standing = || "1 of its 2 pods are not available".to_owned();
        let failed = Ended::failed(at(9), Some(&cause), standing);
        let told = |ended: &Ended| (ended.at, ended.how, ended.revision, ended.reason.clone(), ended.message.clone());
        assert_eq!(told(&failed), (at(9), How::Failed, None, Some("image_pull".to_owned()), Some(cause.to_string())));
        assert_eq!(told(&Ended::failed(at(9), None, standing)), (at(9), How::Failed, None, None, Some(standing())));
        let record = rollback::Record {
            revision: RolloutRevision(5),
            template_hash: "abc".into(),
            from_revision: RolloutRevision(4),
            to_revision: RolloutRevision(2),
            reason: Some("image_pull".to_owned()),
            message: "why".to_owned(),
        };
        let wanted = (at(9), How::RolledBack, Some(RolloutRevision(5)), Some("image_pull".to_owned()), Some("why".to_owned()));
        assert_eq!(told(&Ended::rolled_back(at(9), &record)), wanted);
    }

    #[test]
    fn what_has_failed_may_be_complete_or_rolled_back_later_and_every_other_end_is_one() {
        const ALL: [How; 4] = [How::Complete, How::Failed, How::Superseded, How::RolledBack];
        for (first, next) in ALL.into_iter().flat_map(|first| ALL.map(|next| (first, next))) {
            let mut annotations = begun();
            ended(&annotations, RolloutRevision(3), &end(first)).expect("it has had no end").keep(&mut annotations);
            let becomes = ended(&annotations, RolloutRevision(3), &end(next)).is_some();
            assert_eq!(becomes, first == How::Failed && matches!(next, How::Complete | How::RolledBack), "{first:?} {next:?}");
        }
        assert_eq!(ended(&begun(), RolloutRevision(4), &end(How::Complete)), None);
    }

    #[test]
    fn a_message_has_an_end_and_a_full_object_stays_as_it_is() {
        let failed = Ended::failed(at(9), None, || "é".repeat(5000));
        assert_eq!(failed.message.map(|message| message.chars().count()), Some(MESSAGE_CHARS_MAX));
        let mut full = Annotations::from([("a".to_owned(), "x".repeat(256 * 1024 - 10))]);
        Rollout::begun(RolloutRevision(1), None, &Annotations::new(), at(1)).keep(&mut full);
        assert_eq!(full.len(), 1);
    }

    /// Programs read the record, so a change of a key or word is an interface change.
    #[test]
    fn every_key_and_word_is_as_promised() {
        let mut annotations = begun();
        ended(&annotations, RolloutRevision(3), &Ended::superseded(at(9), RolloutRevision(4), None))
            .expect("it has had no end")
            .keep(&mut annotations);
        let wanted = [
            r#"{"revision":3,"began":"1970-01-01T00:00:07Z","formerRevision":1,"#,
            r#""by":{"at":"1970-01-01T00:00:05Z","user":"alice","manager":"kubectl-set"},"#,
            r#""ended":{"at":"1970-01-01T00:00:09Z","how":"Superseded","revision":4}}"#,
        ];
        assert_eq!(annotations[BERTH_ROLLOUT], wanted.concat());
        let words = [How::Complete, How::Failed, How::Superseded, How::RolledBack].map(|how| serde_json::to_value(how).expect("a word"));
        assert_eq!(words, ["Complete", "Failed", "Superseded", "RolledBack"]);
    }
}
