//! What a controller wants done, and why. Complete: whoever carries it out has nothing left to choose.

use berth_api::Object;
use jiff::Timestamp;
use std::fmt;

/// The decision of one look.
#[derive(Debug, Default)]
pub struct Plan {
    /// Carried out in order; a stage starts when the one before succeeded as a whole.
    pub stages: Vec<Stage>,
    /// Recorded whatever becomes of the stages; never delay or fail them.
    pub events: Vec<EventRecord>,
    /// What is left undone on purpose, and why.
    pub waits: Vec<Wait>,
    /// When to look again without being woken.
    pub look_again: Option<Timestamp>,
}

/// Actions that may run at the same time.
#[derive(Debug, Default)]
pub struct Stage {
    /// In order of start; at most [`STAGE_CONCURRENCY`] run at once.
    pub actions: Vec<Action>,
}

/// How many actions of one stage run at once: enough to fill one group commit, few enough that a stage cannot starve the others.
pub const STAGE_CONCURRENCY: usize = 64;

/// An object to act on. Every write carries the uid; `resource_version` too, where the plan depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Empty for core.
    pub group: &'static str,
    /// `replicasets`.
    pub resource: &'static str,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version that the plan was made from, if the write must not hit a later one.
    pub resource_version: Option<String>,
}

/// One write.
#[derive(Debug)]
pub enum Action {
    /// Creates an object under the name it carries. `AlreadyExists` is success if the one there has the same controller uid.
    Create {
        /// Complete, with name and namespace.
        object: Box<dyn Object>,
        /// Why, for people.
        reason: String,
        /// Recorded when it succeeded, on its outcome.
        events: Outcome,
    },
    /// A JSON merge patch; the executor adds `metadata.uid` and, if given, `metadata.resourceVersion`.
    Patch {
        /// What to patch.
        target: ObjectRef,
        /// `None`: the object; else `status`, `scale`, ….
        subresource: Option<&'static str>,
        /// The patch.
        patch: serde_json::Value,
        /// Why, for people.
        reason: String,
        /// Recorded on its outcome.
        events: Outcome,
    },
    /// Deletes one object. Absent already is success.
    Delete {
        /// What to delete.
        target: ObjectRef,
        /// `None`: the resource's default.
        propagation: Option<Propagation>,
        /// `None`: the object's own.
        grace_period_seconds: Option<i64>,
        /// Why, for people.
        reason: String,
        /// Recorded on its outcome.
        events: Outcome,
    },
    /// Creates `count` pods from one template in slow-start batches (1, 2, 4, …): the executor names them.
    CreatePods {
        /// Without a name; `generateName` set, owner reference, labels and spec complete.
        template: Box<k8s_openapi::api::core::v1::Pod>,
        /// How many.
        count: usize,
        /// Whose events (`SuccessfulCreate`, `FailedCreate`).
        owner: ObjectRef,
        /// `kind` of the owner.
        owner_kind: &'static str,
    },
    /// Deletes pods, all at once up to the stage's limit.
    DeletePods {
        /// Which.
        pods: Vec<ObjectRef>,
        /// Whose events (`SuccessfulDelete`, `FailedDelete`).
        owner: ObjectRef,
        /// `kind` of the owner.
        owner_kind: &'static str,
    },
    /// Asks the API server to evict nothing but to bind: used by the scheduler only.
    Bind {
        /// The pod.
        pod: ObjectRef,
        /// The node's name.
        node: String,
    },
}

/// `propagationPolicy` of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents go after the object.
    Background,
    /// The object goes after its dependents.
    Foreground,
    /// Dependents stay.
    Orphan,
}

/// Events that depend on how an action ended. The executor appends the error's text to `failure`'s message.
#[derive(Debug, Default)]
pub struct Outcome {
    /// When it succeeded.
    pub success: Option<EventRecord>,
    /// When it failed.
    pub failure: Option<EventRecord>,
}

/// An event about an object; series are aggregated by whoever records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// `involvedObject`.
    pub about: ObjectRef,
    /// Its kind.
    pub about_kind: &'static str,
    /// Its apiVersion.
    pub about_api_version: String,
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// CamelCase.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Expected.
    Normal,
    /// Needs a look.
    Warning,
}

/// Why something is not done yet. Each case carries its figures; [`fmt::Display`] is the one text that people see.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// `podReplacementPolicy: TerminationComplete`, or Recreate: pods still hold their place.
    PodsTerminating {
        /// How many.
        pods: u32,
        /// How many more will be created then.
        then_create: u32,
    },
    /// Pods of the new revision are not available yet.
    PodsUnavailable {
        /// How many.
        pods: u32,
        /// Of how many.
        of: u32,
    },
    /// A child has not yet seen its own change.
    ChildNotObserved {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodsTerminating { pods, then_create } => {
                write!(f, "waiting for {pods} terminating pods before creating {then_create} more")
            }
            Self::PodsUnavailable { pods, of } => write!(f, "waiting for {pods} of {of} pods to become available"),
            Self::ChildNotObserved { name } => write!(f, "waiting for {name} to be observed"),
        }
    }
}
