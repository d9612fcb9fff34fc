//! An API server: what it is given, and what it says of itself.

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

/// What a server needs.
pub struct Config {
    /// Where to listen; port 0 takes any free one.
    pub bind: SocketAddr,
    /// Whose objects are served.
    pub registry: Registry,
    /// What it proves itself with, and whom it believes.
    pub credentials: Credentials,
    /// Where its objects are.
    pub storage: Storage,
    /// Who else is known.
    pub access: Access,
    /// How much is held at a time, and by whom.
    pub limits: Limits,
    /// The server's feature gates, shown as metrics.
    pub gates: Arc<FeatureGates>,
    /// Those of the controllers that run beside it, shown as metrics.
    pub controller_gates: Arc<FeatureGates>,
    /// What `/metrics` shows; the server adds its own.
    pub metrics: prometheus::Registry,
    /// Where the binary says when everything has started.
    pub readiness: Readiness,
    /// For audit ids and the ends of watches.
    pub rng: Arc<dyn Rng>,
    /// Where the requests of users are worked on, but for members of `system:masters`. What runs elsewhere does not wait for it.
    pub users: Handle,
}

/// What is said of the store in health and metrics.
#[derive(Clone, Copy)]
pub struct Storage {
    /// The name of its check.
    pub name: &'static str,
    /// What it means when it does not answer: one that is elsewhere does not come back when the server is started anew.
    pub failure: Failure,
    /// How long an answer may take.
    pub within: Duration,
}

impl Default for Storage {
    fn default() -> Self {
        Self { name: "store", failure: Failure::Dead, within: CHECK_TIMEOUT }
    }
}

/// Who is known besides the holders of certificates and of service accounts' tokens.
#[derive(Default)]
pub struct Access {
    /// Bearer tokens, each with its user.
    pub tokens: Vec<(String, User)>,
    /// Whether requests without any credential are somebody.
    pub anonymous: Anonymous,
    /// Where it is written who did what.
    pub audit: Option<AuditLog>,
}

fn authenticator(config: &Config) -> Result<Authenticator, TlsError> {
    let admin = User::authenticated("kubernetes-admin", &[MASTERS.to_owned()]);
    let admins = config.credentials.admin_token.clone().map(|token| (token, admin));
    let tokens = config.access.tokens.iter().cloned().chain(admins);
    Ok(Authenticator::new(tokens, config.credentials.account_keys.tokens()?, config.access.anonymous))
}

/// A server that listens. Nothing is answered before [`Server::serve`].
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

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.local_addr()
    }

    /// Gives it other credentials while it serves: new connections, and new requests on those that are open, meet them. The administrator's token stays.
    /// What cannot be used changes nothing.
    pub fn replace(&self) -> impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static + use<> {
        let (tls, shared) = (Arc::clone(&self.listening.tls), Arc::clone(&self.shared));
        move |credentials| {
            let used = Tls::new(&credentials.serving, &credentials.client_authorities)?;
            shared.authenticator.set_account_tokens(credentials.account_keys.tokens()?);
            tls.set(used);
            Ok(())
        }
    }

    /// Answers requests until `shutdown` resolves. Then `/readyz` fails, no connection is taken any more, watches end, and what is being
    /// answered may end within 10 seconds.
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

/// What every request needs: a store that answers and has room, and roles and bindings as they were a moment ago.
fn check_registry(readiness: &Readiness, registry: &Registry, storage: Storage) {
    let failed = |error: ApiError| CheckError(error.to_string());
    let [store, writes, policy, space] = std::array::from_fn(|_| registry.clone());
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
    // The quota as a whole, and the disk: nobody takes the server out of service from one namespace.
    readiness.add("store-space", Failure::Unready, move || {
        let lacks = space.usage().and_then(|usage| usage.lacks);
        ready(lacks.map_or(Ok(()), |lack| Err(CheckError(lack.to_string()))))
    });
}
