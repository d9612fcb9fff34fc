//! The status of a pod that is not ready or not deleted.

use super::wire::{self, ContainerStatus, PodStatus};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Why a pod is not ready or not deleted, from its own status. Most pods have none most of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Symptoms {
    /// Containers that are not ready, and init containers that have not succeeded. Init containers come first.
    pub containers: Vec<ContainerSymptom>,
    /// The condition PodScheduled, if it is False.
    pub unscheduled: Option<ReasonMessage>,
    /// Since when the condition PodScheduled is True.
    pub scheduled_since: Option<Timestamp>,
    /// The condition Ready, if it is not True.
    pub unready: Option<ReasonMessage>,
    /// `status.reason` and `status.message`: why it failed as a whole.
    pub failed: Option<ReasonMessage>,
    /// `metadata.finalizers` of a terminating pod.
    pub finalizers: Vec<String>,
}

/// A container that is not ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSymptom {
    /// Its name.
    pub name: String,
    /// The list of the pod's spec that contains it.
    pub role: ContainerRole,
    /// Why it waits.
    pub waiting: Option<ReasonMessage>,
    /// How it ended, now or the last time.
    pub ended: Option<Ended>,
    /// How often it was restarted.
    pub restarts: i32,
    /// Since when it runs.
    pub running_since: Option<Timestamp>,
}

/// The list of a pod's spec that contains a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContainerRole {
    /// `initContainers`.
    Init,
    /// `containers`.
    #[default]
    Main,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Its exit code.
    pub exit_code: i32,
    /// `Error`, `OOMKilled`, …
    pub reason: String,
    /// Its termination message; often empty.
    pub message: String,
}

/// A reason in CamelCase and a message for users. Either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonMessage {
    /// `ImagePullBackOff`.
    pub reason: String,
    /// The message for users.
    pub message: String,
}

impl Symptoms {
    /// Reads the symptoms. `None` if there are none.
    pub(super) fn read(status: &PodStatus, finalizers: Option<Vec<String>>, going: bool) -> Option<Box<Self>> {
        let condition = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
        let (ready, scheduled) = (condition("Ready"), condition("PodScheduled"));
        let finalizers = finalizers.filter(|_| going).unwrap_or_default();
        if ready.is_some_and(|ready| ready.status == "True") && finalizers.is_empty() {
            return None;
        }
        let init = status.init_container_statuses.iter().flatten().filter_map(|status| container(status, ContainerRole::Init));
        let main = status.container_statuses.iter().flatten().filter_map(|status| container(status, ContainerRole::Main));
        let failed = reason_message(status.reason.as_deref(), status.message.as_deref());
        let symptoms = Self {
            containers: init.chain(main).collect(),
            unscheduled: scheduled.filter(|condition| condition.status == "False").map(wire::Condition::reason_message),
            scheduled_since: scheduled.filter(|condition| condition.status == "True").and_then(|condition| condition.last_transition_time),
            unready: ready.filter(|condition| condition.status != "True").map(wire::Condition::reason_message),
            failed: (failed != ReasonMessage::default()).then_some(failed),
            finalizers,
        };
        (symptoms != Self::default()).then(|| Box::new(symptoms))
    }
}

impl wire::Condition {
    fn reason_message(&self) -> ReasonMessage {
        reason_message(self.reason.as_deref(), self.message.as_deref())
    }
}

fn reason_message(reason: Option<&str>, message: Option<&str>) -> ReasonMessage {
    ReasonMessage { reason: reason.unwrap_or_default().to_owned(), message: message.unwrap_or_default().to_owned() }
}

/// `None` for a container without symptoms: it is ready, has ended as an init container should, or has no state yet.
fn container(status: &ContainerStatus, role: ContainerRole) -> Option<ContainerSymptom> {
    let state = status.state.as_ref();
    let (waiting, running, terminated) =
        state.map_or((None, None, None), |state| (state.waiting.as_ref(), state.running.as_ref(), state.terminated.as_ref()));
    let has_done_its_part = match role {
        ContainerRole::Init => terminated.is_some_and(|end| end.exit_code == 0),
        ContainerRole::Main => false,
    };
    if status.ready || has_done_its_part || (waiting, running, terminated) == (None, None, None) {
        return None;
    }
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    Some(ContainerSymptom {
        name: status.name.clone(),
        role,
        waiting: waiting.map(|waiting| reason_message(waiting.reason.as_deref(), waiting.message.as_deref())),
        ended: terminated.or(last).map(|end| Ended {
            exit_code: end.exit_code,
            reason: end.reason.clone().unwrap_or_default(),
            message: end.message.clone().unwrap_or_default(),
        }),
        restarts: status.restart_count,
        running_since: running.and_then(|running| running.started_at),
    })
}
