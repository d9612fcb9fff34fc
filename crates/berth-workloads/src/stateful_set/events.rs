//! Events about a StatefulSet, with upstream's reasons and texts.

use crate::{
    cause::REVISION_NOT_CREATED,
    plan::{EventRecord, Outcome, Repeat, Severity, Wait},
    view::StatefulSetView,
};
use berth_identity::RolloutRevision;

/// The action on a pod or claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn text(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }

    fn success(self) -> &'static str {
        match self {
            Self::Create => "SuccessfulCreate",
            Self::Update => "SuccessfulUpdate",
            Self::Delete => "SuccessfulDelete",
        }
    }

    fn failure(self) -> &'static str {
        match self {
            Self::Create => "FailedCreate",
            Self::Update => "FailedUpdate",
            Self::Delete => "FailedDelete",
        }
    }
}

/// An event about the set, recorded each time.
pub(super) fn event(set: &StatefulSetView, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord::new(set.reference(), severity, reason, message)
}

/// A warning about a lasting cause. It is recorded once.
pub(super) fn warn_once(set: &StatefulSetView, reason: &'static str, message: String) -> EventRecord {
    EventRecord { repeat: Repeat::Once, ..event(set, Severity::Warning, reason, message) }
}

/// An event that is recorded once for the rollout of this number.
pub(super) fn once_of(number: RolloutRevision, event: EventRecord) -> EventRecord {
    EventRecord { repeat: Repeat::OnceOf(number), ..event }
}

/// The events about an action on a pod.
pub(super) fn pod_outcome(set: &StatefulSetView, verb: Verb, pod: &str) -> Outcome {
    let subject = format!("{} Pod {pod} in StatefulSet {}", verb.text(), set.meta.name);
    Outcome {
        success: Some(event(set, Severity::Normal, verb.success(), format!("{subject} successful"))),
        failure: Some(event(set, Severity::Warning, verb.failure(), format!("{subject} failed error: "))),
    }
}

/// The events of the creation of a ControllerRevision.
pub(super) fn revision_outcome(set: &StatefulSetView, revision: &str) -> Outcome {
    let failure = format!("{REVISION_NOT_CREATED}{revision} in StatefulSet {} failed error: ", set.meta.name);
    Outcome { success: None, failure: Some(event(set, Severity::Warning, Verb::Create.failure(), failure)) }
}

/// An event about an action on a pod that fails for a lasting reason.
pub(super) fn pod_failure(set: &StatefulSetView, verb: Verb, pod: &str, error: &str) -> EventRecord {
    let message = format!("{} Pod {pod} in StatefulSet {} failed error: {error}", verb.text(), set.meta.name);
    warn_once(set, verb.failure(), message)
}

/// The events about an action on a pod's claim.
pub(super) fn claim_outcome(set: &StatefulSetView, verb: Verb, claim: &str, pod: &str) -> Outcome {
    let (name, done) = (&set.meta.name, verb.text());
    let success = format!("{done} Claim {claim} Pod {pod} in StatefulSet {name} success");
    let failure = format!("{done} Claim {claim} for Pod {pod} in StatefulSet {name} failed error: ");
    Outcome {
        success: Some(event(set, Severity::Normal, verb.success(), success)),
        failure: Some(event(set, Severity::Warning, verb.failure(), failure)),
    }
}

/// The event that `set` has begun to wait. `None` if the wait is usual or has another event.
#[must_use]
pub fn wait_event(set: &StatefulSetView, wait: &Wait) -> Option<EventRecord> {
    // Recreate has its own events.
    let told = matches!(wait, Wait::PodsTerminating { .. } | Wait::PodsUnavailable { .. });
    let severity = if wait.is_failure() { Severity::Warning } else { Severity::Normal };
    Some(event(set, severity, wait.event_reason().filter(|_| !told)?, wait.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_waits_have_events_but_those_of_recreate_have_their_own() {
        let set = StatefulSetView::default();
        let told = |wait: Wait| wait_event(&set, &wait).map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message));
        let text = "Normal WaitingForPodDeletion: waiting for 2 pods of older templates to be deleted manually (OnDelete)";
        assert_eq!(told(Wait::DeletionByHand { pods: 2 }).as_deref(), Some(text));
        assert_eq!(told(Wait::PodsUnavailable { pods: 1, of: 2 }), None);
        assert_eq!(told(Wait::PodsTerminating { pods: 1, then_create: 2, last: None }), None);
        assert_eq!(told(Wait::PodNotReady { pod: "web-0".to_owned(), then: None }), None);
    }
}
