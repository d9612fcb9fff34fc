//! The API server: its configuration and its life cycle.

use crate::{
    audit::AuditLog,
    auth::{Anonymous, Authenticator, MASTERS, Peer, User},
    credentials::Credentials,
    flow::{Budget, Flow, Memory, Turns},
    handlers::{self, Documents, Shared},
    health::{CHECK_TIMEOUT, CheckError, Failure, Readiness},
    limits::{Limits, Quota},
    listening::{Answers, BindError, Listening},
    metrics::Metrics,
    tls::{Tls, TlsError},
};
use berth_api::FeatureGates;
use berth_http::{Answering, Open, Origin};
use berth_registry::{ApiError, Registry};
use berth_store::{Health, env::Rng};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use hyper::{Request, body::Incoming};
use jiff::Timestamp;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// The configuration of a server.
pub struct Config {
    /// The address to listen on. Port 0 selects a free port.
    pub bind: SocketAddr,
    /// The registry with its objects.
    pub registry: Registry,
    /// Its certificate, and the authorities that it trusts.
    pub credentials: Credentials,
    /// The store, for health and metrics.
    pub storage: Storage,
    /// Further users.
    pub access: Access,
    /// The limits.
    pub limits: Limits,
    /// The server's feature gates, for metrics.
    pub gates: Arc<FeatureGates>,
    /// The feature gates of the controllers in this process, for metrics.
    pub controller_gates: Arc<FeatureGates>,
    /// The metrics for `/metrics`. The server adds its own.
    pub metrics: prometheus::Registry,
    /// The readiness, to which the binary reports the end of the startup.
    pub readiness: Readiness,
    /// The randomness for audit ids and watch timeouts.
    pub rng: Arc<dyn Rng>,
    /// The runtime for requests of users other than members of `system:masters`. Work on other runtimes does not wait
    /// for it.
    pub users: Handle,
}

/// The store in health and metrics.
#[derive(Clone, Copy)]
pub struct Storage {
    /// The name of its health check.
    pub name: &'static str,
    /// The effect of a failed check. A restart of the server does not repair a remote store.
    pub failure: Failure,
    /// The timeout of the check.
    pub within: Duration,
}

impl Default for Storage {
    fn default() -> Self {
        Self { name: "store", failure: Failure::Dead, within: CHECK_TIMEOUT }
    }
}

/// Further authentication, besides certificates and service account tokens.
#[derive(Default)]
pub struct Access {
    /// Bearer tokens with their users.
    pub tokens: Vec<(String, User)>,
    /// The handling of requests without credentials.
    pub anonymous: Anonymous,
    /// The audit log.
    pub audit: Option<AuditLog>,
}

fn authenticator(config: &Config) -> Result<Authenticator, TlsError> {
    let admin = User::authenticated("kubernetes-admin", &[MASTERS.to_owned()]);
    let admins = config.credentials.admin_token.clone().map(|token| (token, admin));
    let tokens = config.access.tokens.iter().cloned().chain(admins);
    Ok(Authenticator::new(tokens, config.credentials.account_keys.tokens()?, config.access.anonymous))
}

/// A listening server. It accepts no request before [`Server::serve`].
pub struct Server {
    listening: Listening,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(config: Config) -> Result<Self, BindError> {
        let tls = Tls::new(&config.credentials.serving, &config.credentials.client_authorities)?;
        let authenticator = authenticator(&config)?;
        let limits = config.limits;
        let metrics = Metrics::register(&config.metrics, &config.gates, &config.controller_gates)?;
        if let Some(audit) = &config.access.audit {
            audit.register(&config.metrics)?;
        }
        check_registry(&config.readiness, &config.registry, config.storage);
        let listening = Listening::bind(config.bind, tls).await?;
        let shared = Shared {
            registry: config.registry,
            authenticator,
            documents: Documents::new(listening.local_addr()),
            flow: Flow::new(limits.mutating_requests_inflight, limits.requests_inflight, limits.queue_wait, &metrics.flow),
            memory: Memory::new("answers", limits.answer_bytes, limits.queue_wait, &metrics.flow),
            work: Memory::new("work", limits.work_bytes, limits.queue_wait, &metrics.flow),
            heads: Budget::new(limits.head_bytes),
            selectors: Budget::new(limits.selector_bytes),
            scrape: tokio::sync::Mutex::default(),
            storage: config.storage.name,
            watches: Quota::new(limits.watches_per_user),
            limits,
            metrics,
            prometheus: config.metrics,
            readiness: config.readiness,
            audit: config.access.audit.map(Arc::new),
            rng: config.rng,
            turns: Turns::new(config.users),
            stopping: listening.stopping(),
        };
        Ok(Self { listening, shared: Arc::new(shared) })
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.local_addr()
    }

    /// Returns a function that replaces the credentials at run time, for new connections and for new requests on open
    /// ones. The administrator's token stays. Unusable credentials change nothing.
    pub fn replace(&self) -> impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static + use<> {
        let (tls, shared) = (Arc::clone(&self.listening.tls), Arc::clone(&self.shared));
        move |credentials| {
            let used = Tls::new(&credentials.serving, &credentials.client_authorities)?;
            shared.authenticator.set_account_tokens(credentials.account_keys.tokens()?);
            tls.set(used);
            Ok(())
        }
    }

    /// Serves requests until `shutdown` resolves. Then `/readyz` fails, new connections are rejected, watches end, and
    /// requests in progress have 10 seconds to finish.
    pub fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
        self.listening.serve(self.shared, shutdown.boxed())
    }
}

impl Answers for Shared {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn now(&self) -> Timestamp {
        self.registry.now()
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    fn answer(self: Arc<Self>, peer: Peer, origin: Origin, request: Request<Incoming>, open: Open) -> Answering {
        Box::pin(async move { handlers::serve(self, &peer, &origin, request, open).await })
    }
}

/// Adds the checks that every request depends on: a store that responds and has space, and current roles and bindings.
fn check_registry(readiness: &Readiness, registry: &Registry, storage: Storage) {
    let failed = |error: ApiError| CheckError(error.to_string());
    let [store, writes, policy, space, component] = std::array::from_fn(|_| registry.clone());
    readiness.add_component("etcd-0", move || {
        let registry = component.clone();
        async move { registry.check_store().await.map_err(failed) }
    });
    readiness.add_within(storage.within, storage.name, storage.failure, move || {
        let registry = store.clone();
        async move {
            registry.check_store().await.map_err(failed)?;
            match registry.store_health() {
                Health::Ready | Health::Refusing { .. } => Ok(()),
                Health::Ended { cause } => Err(CheckError(cause)),
            }
        }
    });
    readiness.add("store-readiness", Failure::Unready, move || {
        ready(match writes.store_health() {
            Health::Ready => Ok(()),
            Health::Refusing { cause } | Health::Ended { cause } => Err(CheckError(cause)),
        })
    });
    readiness.add("policy-sync", Failure::Unready, move || {
        let registry = policy.clone();
        async move { registry.policy().await.map(drop).map_err(failed) }
    });
    // Covers the quota of the whole store and the disk. A single namespace cannot make the server unready.
    readiness.add("store-space", Failure::Unready, move || {
        let lacks = space.usage().and_then(|usage| usage.lacks);
        ready(lacks.map_or(Ok(()), |lack| Err(CheckError(lack.to_string()))))
    });
}
