//! Sockets: accepting, TLS, HTTP/1.1 and HTTP/2, and an orderly end.

use crate::{
    activity::Activity,
    audit::AuditLog,
    auth::{Anonymous, Authenticator, MASTERS, Peer, User},
    brief::{Rare, cut},
    connections::Connections,
    credentials::Credentials,
    current::Current,
    flow::{Flow, Memory, Turns},
    handlers::{self, Documents, Origin, Shared},
    health::{CHECK_TIMEOUT, Failure, Readiness},
    in_hand::Streams,
    limits::{Limits, Quota},
    metrics::Metrics,
    protocol::{self, Protocol},
    stall::StallGuard,
    tls::{Shown, Tls, TlsError},
};
use berth_api::FeatureGates;
use berth_registry::Registry;
use berth_store::{Health, env::Rng};
use futures::future::ready;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

/// How long requests may go on once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to hear that its connection is closed, and to take the rest of its watches.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
/// A pause after a failed accept, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

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

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else listens there.
    #[error("{address} is in use: another process listens there; stop it, or choose another port")]
    InUse {
        /// Where.
        address: SocketAddr,
    },
    /// The address cannot be used.
    #[error("could not listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The credentials cannot be used.
    #[error("could not use the server's credentials")]
    Credentials(#[from] TlsError),
    /// A metric's name is taken.
    #[error("could not register the server's metrics")]
    Metrics(#[from] prometheus::Error),
}

/// A server that listens. Nothing is answered before [`Server::serve`].
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<Current<Tls>>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
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
        let (listener, address) = listen(config.bind).await?;
        check_registry(&config.readiness, &config.registry, config.storage);
        let (stop, stopping) = watch::channel(false);
        let shared = Shared {
            registry: config.registry,
            authenticator,
            documents: Documents::new(address),
            flow: Flow::new(limits.mutating_requests_inflight, limits.requests_inflight, limits.queue_wait, &metrics.flow),
            memory: Memory::new(limits.answer_bytes, limits.queue_wait, &metrics.flow),
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
            stopping,
        };
        Ok(Self { listener, address, tls: Arc::new(Current::new(tls)), shared: Arc::new(shared), stop })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Gives it other credentials while it serves: new connections, and new requests on those that are open, meet them. The administrator's token stays.
    /// What cannot be used changes nothing.
    pub fn replace(&self) -> impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static + use<> {
        let (tls, shared) = (Arc::clone(&self.tls), Arc::clone(&self.shared));
        move |credentials| {
            let used = Tls::new(&credentials.serving, &credentials.client_authorities)?;
            shared.authenticator.set_account_tokens(credentials.account_keys.tokens()?);
            tls.set(used);
            Ok(())
        }
    }

    /// Answers requests until `shutdown` resolves. Then `/readyz` fails, no connection is taken any more, watches end, and what is being
    /// answered may end within 10 seconds.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, tls, shared, stop, .. } = self;
        let mut connections = JoinSet::new();
        let places = Connections::new(&shared.limits);
        // With those that are being closed and those of administrators. What comes beyond waits in the kernel's queue.
        let open_max = 2 * shared.limits.connections;
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                (stream, from) = accept(&listener, &places), if connections.len() < open_max => {
                    let activity = Activity::new();
                    let (place, is_cut) = places.enter(from.ip(), activity.clone());
                    let (tls, shared) = (tls.clone(), shared.clone());
                    connections.spawn(async move {
                        let origin = Origin { from, place: Arc::new(place), first: Arc::default() };
                        tokio::select! {
                            Ok(()) = is_cut => tracing::debug!(%from, "connection closed: there are too many"),
                            () = connection(stream, origin, tls, shared, activity) => tracing::debug!(%from, "connection closed"),
                        }
                    });
                }
            }
        }
        shared.readiness.set_stopping();
        drop(listener);
        // Nobody listening means that there are no connections left.
        let _ = stop.send(true);
        if timeout(DRAIN_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!(open = connections.len(), "closing connections that did not end in time");
            connections.shutdown().await;
        }
    }
}

/// What every request needs: a store that answers and has room, and roles and bindings as they were a moment ago.
fn check_registry(readiness: &Readiness, registry: &Registry, storage: Storage) {
    let [store, writes, policy, space] = std::array::from_fn(|_| registry.clone());
    readiness.add_within(storage.within, storage.name, storage.failure, move || {
        let registry = store.clone();
        async move {
            registry.check_store().await.map_err(|error| error.to_string())?;
            match registry.store_health() {
                Health::Ready | Health::Refusing { .. } => Ok(()),
                Health::Ended { cause } => Err(cause),
            }
        }
    });
    readiness.add("store-readiness", Failure::Unready, move || {
        ready(match writes.store_health() {
            Health::Ready => Ok(()),
            Health::Refusing { cause } | Health::Ended { cause } => Err(cause),
        })
    });
    readiness.add("policy-sync", Failure::Unready, move || {
        let registry = policy.clone();
        async move { registry.policy().await.map(drop).map_err(|error| error.to_string()) }
    });
    // The quota as a whole, and the disk: nobody takes the server out of service from one namespace.
    readiness.add("store-space", Failure::Unready, move || {
        let lacks = space.usage().and_then(|usage| usage.lacks);
        ready(lacks.map_or(Ok(()), |lack| Err(lack.to_string())))
    });
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound.await.map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        _ => BindError::Listen { address, source },
    })
}

/// The next connection. Failures are of single connections, or of a machine short of something: both pass.
async fn accept(listener: &TcpListener, places: &Connections) -> (TcpStream, SocketAddr) {
    static FAILED: Rare = Rare::new();
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                if let Some(left_out) = FAILED.now() {
                    tracing::warn!(%error, left_out, "could not accept a connection");
                }
            }
        }
        // It may be descriptors that are short.
        places.cut_stranger();
        sleep(ACCEPT_RETRY).await;
    }
}

/// Serves one connection to its end, until nobody uses it any more, or until the server stops.
async fn connection(stream: TcpStream, origin: Origin, tls: Arc<Current<Tls>>, shared: Arc<Shared>, activity: Arc<Activity>) {
    let from = origin.from;
    let met = tls.get();
    // Small answers must not wait for the acknowledgement of the ones before. A socket that refuses is served all the same.
    let _ = stream.set_nodelay(true);
    let handshake = TlsAcceptor::from(met.config.clone()).accept(StallGuard::new(stream, shared.limits.stall_timeout));
    let stream = match timeout(shared.limits.handshake_timeout, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tell_of_failed_handshake(from, &error),
        Err(_elapsed) => return,
    };
    let session = stream.get_ref().1;
    // Which protocol it is was said in the handshake: a client that then says nothing is one that has no request.
    let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
    let shown = Arc::new(Shown::new(session, Arc::clone(&met), shared.registry.now()));
    if let Peer::Known { user, .. } = shown.peer(&met, shared.registry.now())
        && origin.place.belongs_to(&user).is_err()
    {
        tracing::debug!(%from, "closed: its user has too many connections");
        return;
    }
    let mut stopping = shared.stopping.clone();
    let unwanted = async {
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => (),
            () = activity.idle_for(shared.limits.idle_timeout) => (),
        }
    };
    let over = async {
        // A watch has ended by now, but for what its client does not take.
        let may_be_answered = if *shared.stopping.borrow() { DRAIN_TIMEOUT } else { Duration::ZERO };
        let _ = timeout(may_be_answered, activity.answered()).await;
        sleep(GOODBYE_TIMEOUT).await;
    };
    let service = service_fn(|request| {
        let peer = shown.peer(&tls.get(), shared.registry.now());
        let (shared, origin, open) = (shared.clone(), origin.clone(), activity.begin());
        Box::pin(async move { Ok::<_, Infallible>(handlers::serve(shared, &peer, &origin, request, open).await) })
    });
    let as_agreed = (protocol, Streams::of(origin.place.clone()));
    if let Err(error) = protocol::serve(TokioIo::new(stream), as_agreed, shared.limits.head_timeout, service, (unwanted, over)).await {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Who speaks no TLS that can be understood is told of; who only looks whether somebody listens is not.
fn tell_of_failed_handshake(from: SocketAddr, error: &io::Error) {
    static FAILED: Rare = Rare::new();
    if error.kind() == io::ErrorKind::InvalidData
        && let Some(left_out) = FAILED.now()
    {
        tracing::warn!(%from, error = %cut(&error.to_string()), left_out, "a TLS handshake failed");
    }
}
