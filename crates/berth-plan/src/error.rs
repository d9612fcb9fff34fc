//! Why there is no forecast.

use berth_registry::ApiError;
use berth_workloads::workload::WorkloadId;

/// Why there is no forecast.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The change names a workload that the snapshot does not have.
    #[error("there is no {} {} in namespace {}", workload.kind.name(), workload.name, workload.namespace)]
    NoWorkload {
        /// The missing workload.
        workload: WorkloadId,
    },
    /// The change cannot be applied to the existing objects.
    #[error("{0}")]
    Change(String),
    /// The workloads need more than a simulation can create.
    #[error("the workloads need {what} together; a simulation creates at most {most}")]
    TooMuch {
        /// The demand.
        what: String,
        /// The limit.
        most: String,
    },
    /// The simulation does not end, or not within its limit.
    #[error("the simulation did not end after {writes} writes; simulate a shorter time, or fewer workloads")]
    TooLong {
        /// The maximum number of writes.
        writes: u64,
    },
    /// The change contains no workload.
    #[error("the change contains no Deployment, StatefulSet, DaemonSet, Job or ReplicationController")]
    NoTarget,
    /// An object of the snapshot cannot be used.
    #[error("{kind} {name} of the snapshot cannot be used")]
    Snapshot {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The reason.
        source: ApiError,
    },
    /// The API server would reject the change.
    #[error("{what} would be rejected")]
    Refused {
        /// The object.
        what: String,
        /// The reason.
        source: ApiError,
    },
    /// A recording cannot be replayed with an autoscaler.
    #[error("autoscaler {name} cannot be replayed")]
    Autoscaler {
        /// Its name.
        name: String,
        /// The reason.
        source: UnfitAutoscaler,
    },
    /// A fault in berth.
    #[error("the simulation failed: {0}; this is a bug in berth")]
    Fault(String),
}

/// Why a recording cannot be replayed with an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitAutoscaler {
    /// It is another object.
    #[error("it is not a HorizontalPodAutoscaler of autoscaling/v2 with a name and a scaleTargetRef")]
    Kind,
    /// A metric has no recorded value.
    #[error("a recording has only the usage of cpu and memory by whole pods, so no value of its metric of type {0}")]
    Metric(String),
    /// The usage of its target is unknown.
    #[error(
        "the recording has no usage of {kind} {namespace}/{name}{}; berth record keeps it if the cluster has a metrics server, and \
         either an autoscaler of the workload or --all-usage", only_of(.known)
    )]
    NoUsage {
        /// The kind of the target.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Some workloads with usage.
        known: Vec<String>,
    },
    /// Two autoscalers have one target.
    #[error("another one has the same target")]
    SameTarget,
}

fn only_of(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(", only of {}", known.join(", ")) }
}
