//! What the page and `berth rollout watch` say before a change: the forecast of `berth plan`, in a few sentences.

use super::{cluster::Connection, plan};
use crate::progress::chain;
use berth_follow::{
    forecaster::{Forecaster, NoForecast},
    id::{Id, Kind},
};
use berth_plan::{Change, Edit, Edits, Suppositions, WorkloadKind};
use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{sync::OnceCell, task::spawn_blocking, time::timeout};

/// More pods in the workload's namespace take longer than a reader waits for a question.
const PODS_MAX: usize = 2_000;
/// The longest that a reader waits for a question.
const LONGEST: Duration = Duration::from_secs(10);

/// Forecasts as `berth plan` does, from what the cluster's user may read.
pub(crate) struct PlanForecaster {
    remote: berth_remote::Options,
    connected: OnceCell<Connection>,
}

impl PlanForecaster {
    /// Connects when it is asked for the first time.
    pub(crate) fn shared(remote: berth_remote::Options) -> Arc<dyn Forecaster> {
        Arc::new(Self { remote, connected: OnceCell::new() })
    }

    async fn of_change(&self, id: &Id, changed: Value) -> Result<Vec<String>, NoForecast> {
        let connection = self.connected.get_or_try_init(|| Connection::of(&self.remote)).await.map_err(|error| because(&error))?;
        let connection = connection.in_namespace(&id.namespace);
        let kind = match id.kind {
            Kind::Deployment => WorkloadKind::Deployment,
            Kind::StatefulSet => WorkloadKind::StatefulSet,
        };
        let edit = Edit { kind, namespace: id.namespace.to_string(), name: id.name.to_string(), edits: Edits::default() };
        let change = Change { namespace: id.namespace.to_string(), edits: vec![edit], ..Change::default() }.answered(vec![changed]);
        let snapshot = plan::read(&connection, &change).await.map_err(|error| because(&error))?;
        if PODS_MAX < snapshot.objects.iter().filter(|object| object["kind"] == "Pod").count() {
            return Err(NoForecast(format!("there are more than {PODS_MAX} pods; `berth plan` forecasts them")));
        }
        let forecast = spawn_blocking(move || berth_plan::forecast(&snapshot, &change, &Suppositions::default())).await;
        let forecast = forecast.map_err(|error| because(&error))?.map_err(|error| because(&error))?;
        Ok(berth_plan::consequences(&forecast))
    }
}

impl Forecaster for PlanForecaster {
    fn forecast<'a>(&'a self, id: &'a Id, changed: Value) -> BoxFuture<'a, Result<Vec<String>, NoForecast>> {
        let late = |_| Err(NoForecast(format!("it takes longer than {} s; `berth plan` waits for it", LONGEST.as_secs())));
        async move { timeout(LONGEST, self.of_change(id, changed)).await.unwrap_or_else(late) }.boxed()
    }
}

fn because(error: &dyn std::error::Error) -> NoForecast {
    NoForecast(chain(error).trim_end_matches('.').to_owned())
}
