//! The subject of a Deployment's condition `Progressing`.

use super::status::PROGRESSING;
use berth_api::apps::DeploymentStatus;
use k8s_openapi::api::apps::v1::DeploymentCondition;
use std::fmt;

/// The subject of a condition `Progressing`. The condition's message begins with it.
///
/// Upstream's condition names its subject only in the message, and berth writes the same message. So this is the only code that parses it.
/// All other code calls [`Subject::is_of`] and decides by the condition's reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The Deployment of this name, while it has no set for its template.
    Deployment(String),
    /// Its set of this name.
    ReplicaSet(String),
}

impl Subject {
    /// Whether the condition is about this subject.
    #[must_use]
    pub fn is_of(&self, condition: &DeploymentCondition) -> bool {
        condition.message.as_deref().is_some_and(|message| message.starts_with(&self.to_string()))
    }

    /// Whether the status reports this reason for the rollout of this subject.
    #[must_use]
    pub fn has_reason(&self, status: &DeploymentStatus, reason: &str) -> bool {
        let mut conditions = status.conditions.iter().flatten().filter(|condition| condition.type_ == PROGRESSING);
        conditions.any(|condition| condition.reason.as_deref() == Some(reason) && self.is_of(condition))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployment(name) => write!(f, "Deployment \"{name}\""),
            Self::ReplicaSet(name) => write!(f, "ReplicaSet \"{name}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_about_the_set_that_its_message_begins_with() {
        let of = |message: &str| DeploymentCondition { message: Some(message.to_owned()), ..DeploymentCondition::default() };
        let web = Subject::ReplicaSet("web-1".to_owned());
        assert!(web.is_of(&of("ReplicaSet \"web-1\" has timed out progressing.")));
        for other in ["ReplicaSet \"web-12\" is progressing.", "Deployment \"web-1\" is progressing.", "Created \"web-1\"", ""] {
            assert!(!web.is_of(&of(other)), "{other}");
        }
        assert!(!web.is_of(&DeploymentCondition::default()));
        assert!(Subject::Deployment("web".to_owned()).is_of(&of("Deployment \"web\" has successfully progressed.")));
    }

    #[test]
    fn a_status_gives_a_reason_for_its_own_subject_alone() {
        let condition = |type_: &str, reason: &str| DeploymentCondition {
            type_: type_.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some("ReplicaSet \"web-1\" is".to_owned()),
            ..DeploymentCondition::default()
        };
        let status = |condition| DeploymentStatus { conditions: Some(vec![condition]), ..DeploymentStatus::default() };
        let (web, other) = (Subject::ReplicaSet("web-1".to_owned()), Subject::ReplicaSet("web-2".to_owned()));
        let progressing = status(condition(PROGRESSING, "ReplicaSetUpdated"));
        assert!(web.has_reason(&progressing, "ReplicaSetUpdated"));
        assert!(!web.has_reason(&progressing, "NewReplicaSetAvailable") && !other.has_reason(&progressing, "ReplicaSetUpdated"));
        assert!(!web.has_reason(&status(condition("Available", "ReplicaSetUpdated")), "ReplicaSetUpdated"));
    }
}
