//! The health of a part, for probes and for Prometheus: the server, and the checks.

use super::{Outcome, Part, delegate::Reviews, options::HealthOptions, process::Process};
use crate::{
    env::Faults,
    progress::{Output, chain},
};
use berth_apiserver::{
    BindError, CheckError, Credentials, Failure, Readiness,
    credentials::{AccountKeys, CredentialFiles, Following},
    part::{OpenPaths, PartConfig, PartServer, SourceError, WorkloadSource, Workloads},
    pki,
};
use berth_controllers::{election::Gate, metrics::Metrics};
use berth_identity::GroupResource;
use berth_remote::{Connection, Contact, RemoteCluster};
use berth_store::env::Env;
use futures::{
    FutureExt,
    future::{BoxFuture, pending, ready},
};
use jiff::SignedDuration;
use prometheus::{IntGaugeVec, Opts, Registry};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long the API server may fail to respond. A restart takes less time, and the leader renews a lease every two seconds.
const SILENCE_MAX: SignedDuration = SignedDuration::from_secs(5);
/// A reconcile that takes longer hangs, as in `berth up`.
const RECONCILE_MAX: Duration = Duration::from_mins(5);

/// The health of a part.
#[derive(Clone)]
pub(super) struct Health {
    /// The metrics that `/metrics` shows.
    pub(super) metrics: Registry,
    pub(super) readiness: Readiness,
    workloads: Workloads,
    leads: IntGaugeVec,
}

impl Health {
    pub(super) fn new() -> Outcome<Self> {
        let leads =
            IntGaugeVec::new(Opts::new("leader_election_master_status", "1 while this one leads, by the name of the lease."), &["name"])?;
        let metrics = Registry::new();
        metrics.register(Box::new(leads.clone()))?;
        metrics.register(Box::new(Process::new()?))?;
        Ok(Self { metrics, readiness: Readiness::when("api-server-found"), workloads: Workloads::default(), leads })
    }

    /// Starts to listen and to answer, unless the options disable the port.
    pub(super) async fn serve(
        &self,
        options: &HealthOptions,
        part: Part,
        connection: Connection,
        env: &Env,
        faults: &Faults,
    ) -> Outcome<()> {
        let port = options.secure_port.unwrap_or(part.port);
        if port == 0 {
            return Ok(());
        }
        let following = credentials(options, part.name, env)?;
        following.register(&self.metrics)?;
        let config = PartConfig {
            bind: SocketAddr::new(options.bind_address, port),
            credentials: following.credentials().clone(),
            open: OpenPaths::parse(&options.authorization_always_allow_paths)
                .map_err(|why| format!("{why} (--authorization-always-allow-paths)"))?,
            delegate: Arc::new(Reviews(connection)),
            metrics: self.metrics.clone(),
            workloads: Arc::clone(&self.workloads),
            readiness: self.readiness.clone(),
            clock: Arc::clone(&env.clock),
        };
        let server = PartServer::bind(config).await.map_err(|error| bind_failure(&error))?;
        Output::Stdout.line(&format!("health and metrics at https://{}", server.local_addr()));
        tokio::spawn(faults.clone().watch("credentials", following.follow(server.replace())));
        tokio::spawn(faults.clone().watch("health and metrics", server.serve(pending())));
        Ok(())
    }

    /// Records that the API server is reachable. `contact` records its answers from now on.
    pub(super) fn found(&self, contact: Arc<Contact>) -> Outcome<()> {
        contact.register(&self.metrics)?;
        let writes = Arc::clone(&contact);
        self.readiness.add("permissions", Failure::Unready, move || {
            let denied = writes.denied();
            ready(if denied.is_empty() { Ok(()) } else { Err(CheckError(denied.join("; "))) })
        });
        self.readiness.add("api-server", Failure::Unready, move || {
            let silent = contact.silent_for().filter(|silent| SILENCE_MAX < *silent);
            ready(silent.map_or(Ok(()), |silent| Err(CheckError(format!("no answer for {} s", silent.as_secs())))))
        });
        self.readiness.set_ready();
        Ok(())
    }

    /// Shows the workloads of this cluster in the metrics from now on, because the cluster's API server does not.
    pub(super) fn shows_workloads_of(&self, cluster: RemoteCluster) {
        // At most one call sets it.
        let _ = self.workloads.set(Arc::new(Listed(cluster)));
    }

    /// Records that the part is a standby for this lease.
    pub(super) fn set_standby(&self, lease: &str) {
        self.leads.with_label_values(&[lease]).set(0);
    }

    /// Records that the part leads from now on, until it ends.
    pub(super) fn leads(&self, lease: &str, gate: Gate) {
        self.leads.with_label_values(&[lease]).set(1);
        let lost = CheckError(format!("failed election to renew leadership on lease {lease}"));
        self.readiness.add("leaderElection", Failure::Dead, move || ready(if gate.is_open() { Ok(()) } else { Err(lost.clone()) }));
    }

    /// Records that the part works from now on. A standby has no caches yet, and is as ready as it needs to be.
    pub(super) fn works(&self, metrics: &Arc<Metrics>) -> Arc<AtomicBool> {
        let are_synced = Arc::<AtomicBool>::default();
        let (caches, looks, synced) = (Arc::clone(metrics), Arc::clone(metrics), Arc::clone(&are_synced));
        self.readiness.add("informer-sync", Failure::Unready, move || {
            // Caches that start later, for a new kind, hold back only their controllers.
            let is_synced = synced.load(Ordering::Acquire);
            let waits = || caches.unsynced().iter().map(|resource| resource.plural.as_str()).collect::<Vec<_>>().join(", ");
            ready(if is_synced { Ok(()) } else { Err(CheckError(format!("informers not synced yet: {}", waits()))) })
        });
        self.readiness.add("controllers", Failure::Dead, move || {
            let why = |(queue, age): (String, Duration)| CheckError(format!("{queue} has reconciled one object for {} s", age.as_secs()));
            ready(looks.hanging(RECONCILE_MAX).map_or(Ok(()), |hanging| Err(why(hanging))))
        });
        are_synced
    }

    /// Records that the part stops.
    pub(super) fn stops(&self) {
        self.readiness.set_stopping();
    }
}

/// All objects of a kind, from the API server.
struct Listed(RemoteCluster);

impl WorkloadSource for Listed {
    fn all(&self, resource: GroupResource) -> BoxFuture<'_, Result<Vec<Vec<u8>>, SourceError>> {
        async move {
            let (objects, _) = self.0.list(resource, None).await?;
            Ok(objects.into_iter().map(|(_, object)| object.json.to_vec()).collect())
        }
        .boxed()
    }
}

/// The certificate of the endpoint, and the authorities of clients' certificates.
fn credentials(options: &HealthOptions, name: &str, env: &Env) -> Outcome<Following> {
    let files = CredentialFiles {
        client_ca: options.client_ca_file.clone(),
        serving: options.tls_cert_file.clone().zip(options.tls_private_key_file.clone()),
        ..CredentialFiles::default()
    };
    let own = Credentials {
        serving: pki::self_signed(name, options.bind_address, env.clock.now())?,
        client_authorities: String::new(),
        root_ca: String::new(),
        admin_token: None,
        account_keys: AccountKeys::of(""),
        own_ends: Vec::new(),
    };
    Ok(Following::read(files, own)?)
}

fn bind_failure(error: &BindError) -> String {
    format!("{} (--bind-address; --secure-port, where 0 disables it)", chain(error))
}
