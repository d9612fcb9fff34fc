//! Forecasts the effect of a change on the pods of a workload, before the change is made.

use berth_workloads::workload::WorkloadId;
use futures::future::BoxFuture;
use serde_json::Value;

/// Why a change cannot be forecast, in a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoForecast(pub String);

/// Forecasts changes of workloads. The implementation, which reads the cluster, is outside this crate.
pub trait Forecaster: Send + Sync {
    /// Returns the effect on the pods if the workload is `changed`, in sentences. Writes nothing.
    ///
    /// # Errors
    /// [`NoForecast`].
    fn forecast<'a>(&'a self, id: &'a WorkloadId, changed: Value) -> BoxFuture<'a, Result<Vec<String>, NoForecast>>;
}
