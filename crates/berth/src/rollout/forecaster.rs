//! The forecast that the page and `berth rollout watch` show before a change: that of `berth plan`, in a few sentences.

use super::{cluster::Connection, plan};
use crate::progress::chain;
use berth_follow::forecaster::{Forecaster, NoForecast};
use berth_plan::{Change, Edit, Edits, Suppositions};
use berth_workloads::workload::WorkloadId;
use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OnceCell, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

/// With more pods, in the workload's namespace or requested by the change, a forecast takes longer than users wait for a confirmation.
const PODS_MAX: usize = 2_000;
/// More writes than two thousand pods need: about half a minute. The next user waits for the running forecast.
const WRITES_MAX: u64 = 200_000;
/// The maximum time that a user waits for a confirmation.
const LONGEST: Duration = Duration::from_secs(10);

/// Forecasts as `berth plan` does, from the objects that the cluster's user may read.
pub(crate) struct PlanForecaster {
    remote: berth_remote::Options,
    connected: OnceCell<Connection>,
    /// Held by the running forecast, which continues after its user has stopped waiting.
    turn: Arc<Semaphore>,
}

impl PlanForecaster {
    /// A forecaster that connects on its first use.
    pub(crate) fn shared(remote: berth_remote::Options) -> Arc<dyn Forecaster> {
        Arc::new(Self { remote, connected: OnceCell::new(), turn: Arc::new(Semaphore::new(1)) })
    }

    async fn of_change(&self, id: &WorkloadId, changed: Value) -> Result<Vec<String>, NoForecast> {
        let connection = self.connected.get_or_try_init(|| Connection::of(&self.remote)).await.map_err(|error| because(&error))?;
        let connection = connection.in_namespace(&id.namespace);
        let edit = Edit { workload: id.clone(), edits: Edits::default() };
        let wanted = changed["spec"]["replicas"].as_u64().and_then(|pods| usize::try_from(pods).ok()).unwrap_or_default();
        let change = Change { namespace: id.namespace.to_string(), edits: vec![edit], ..Change::default() }.answered(vec![changed]);
        let mut snapshot = plan::read(&connection, &change).await.map_err(|error| because(&error))?;
        let exist = snapshot.objects.iter().filter(|object| object["kind"] == "Pod").count();
        if PODS_MAX < wanted.max(exist) {
            return Err(NoForecast(format!("there are more than {PODS_MAX} pods; use `berth plan`")));
        }
        let supposed = plan::suppositions(&connection, &mut snapshot, &change).await.map_err(|error| because(&error))?;
        let suppositions = Suppositions { writes_max: Some(WRITES_MAX), ..supposed };
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|error| because(&error))?;
        let made = spawn_blocking(move || {
            let _turn = turn;
            berth_plan::forecast(&snapshot, &change, &suppositions)
        });
        let forecast = made.await;
        let forecast = forecast.map_err(|error| because(&error))?.map_err(|error| because(&error))?;
        Ok(berth_plan::consequences(&forecast))
    }
}

impl Forecaster for PlanForecaster {
    fn forecast<'a>(&'a self, id: &'a WorkloadId, changed: Value) -> BoxFuture<'a, Result<Vec<String>, NoForecast>> {
        let late = |_| Err(NoForecast(format!("the forecast takes longer than {} s; use `berth plan`", LONGEST.as_secs())));
        async move { timeout(LONGEST, self.of_change(id, changed)).await.unwrap_or_else(late) }.boxed()
    }
}

fn because(error: &dyn std::error::Error) -> NoForecast {
    NoForecast(chain(error).trim_end_matches('.').to_owned())
}
