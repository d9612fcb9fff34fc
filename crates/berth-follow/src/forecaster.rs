//! What a change does to the pods of a workload, asked before it is made.

use berth_workloads::workload::WorkloadId;
use futures::future::BoxFuture;
use serde_json::Value;

/// Why a change cannot be forecast, in a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoForecast(pub String);

/// Forecasts changes of workloads. What reads the cluster for that is outside this crate.
pub trait Forecaster: Send + Sync {
    /// Returns what becomes of the pods when the workload is `changed`, in sentences. Writes nothing.
    ///
    /// # Errors
    /// [`NoForecast`].
    fn forecast<'a>(&'a self, id: &'a WorkloadId, changed: Value) -> BoxFuture<'a, Result<Vec<String>, NoForecast>>;
}
