//! The lease of the controllers in the API server's process, where several processes can use one etcd.

use super::Outcome;
use crate::env::{self, Faults};
use berth_controllers::election::{Candidacy, End, Leader, Lives, Timing};
use berth_identity::ObjectKey;
use berth_local::LocalCluster;
use berth_registry::Registry;
use berth_store::env::Env;
use futures::FutureExt;
use std::{sync::Arc, time::Duration};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

/// The timeout for the release of the controllers' lease.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// The lease of the controllers in the API server's process.
const LEASE: (&str, &str) = ("kube-system", "berth-up");

/// The leader election of the controllers, until it is stopped.
pub(super) struct Leading {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Leading {
    pub(super) fn start(mut leader: Leader, faults: &Faults) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (told, lost) = (faults.clone(), faults.clone());
        let lead = async move {
            match leader.hold(stopped.map(drop)).await {
                End::Stopped => leader.release().await,
                End::Lost => {
                    lost.report(format!(
                        "another server has the lease {}/{} now: its controllers are the leaders, and this server ends",
                        LEASE.0, LEASE.1
                    ));
                }
            }
        };
        Self { stop, ended: tokio::spawn(told.watch("lease of the controllers", lead)) }
    }

    /// Releases the lease if that is possible within the timeout. Otherwise the lease expires by itself.
    pub(super) async fn end(mut self) {
        // The election has no receiver if it has ended.
        let _ = self.stop.send(());
        let _ = timeout(RELEASE_MAX, &mut self.ended).await;
        self.ended.abort();
    }
}

/// Takes the lease. Fails if the controllers of another server's process hold it.
pub(super) async fn lead(registry: &Registry, env: &Env) -> Outcome<Leader> {
    let cluster = Arc::new(LocalCluster::new(registry.clone(), env.clone()));
    let lease = ObjectKey::new(LEASE.0, LEASE.1);
    let candidacy = Candidacy { lease: lease.clone(), identity: env::identity(env), timing: Timing::default() };
    let taken = Leader::take(cluster, env.clone(), Arc::new(env::running_time), candidacy).await;
    let advice = "stop it first, or start only an API server with berth apiserver";
    taken.map_err(|Lives { holder }| {
        format!("another berth up, {holder}, runs controllers here and holds the lease {lease}: {advice}").into()
    })
}
