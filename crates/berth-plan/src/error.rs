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
    /// The change cannot be made to what is there.
    #[error("{0}")]
    Change(String),
    /// The workloads want more than a simulation makes.
    #[error("the workloads need {what} together; a simulation creates at most {most}")]
    TooMuch {
        /// How much.
        what: String,
        /// How much there may be.
        most: String,
    },
    /// It comes to no end, or to none within what a simulation may take.
    #[error("the simulation did not end after {writes} writes; simulate a shorter time, or fewer workloads")]
    TooLong {
        /// How many it may make.
        writes: u64,
    },
    /// A manifest has no workload that rolls out.
    #[error("the change contains no Deployment or StatefulSet")]
    NoTarget,
    /// An object of the snapshot cannot be used.
    #[error("{kind} {name} of the snapshot cannot be used")]
    Snapshot {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        source: ApiError,
    },
    /// The API server would refuse the change.
    #[error("{what} would be rejected")]
    Refused {
        /// What was to be written.
        what: String,
        /// Why.
        source: ApiError,
    },
    /// A fault in berth.
    #[error("the simulation failed: {0}; this is a bug in berth")]
    Fault(String),
}
