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
    /// A fault in berth.
    #[error("the simulation failed: {0}; this is a bug in berth")]
    Fault(String),
}
