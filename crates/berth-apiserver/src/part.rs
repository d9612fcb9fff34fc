//! What a part of a control plane says of itself over HTTPS: health for anybody, metrics for those who may read them.
//!
//! Start with [`PartServer`]. It has no objects and no accounts: whose token it is that somebody comes with, and whether they may, says the API server that the
//! part works on ([`Delegate`]), as upstream's components ask it. Connections, heads and answers have the bounds of an API server, only smaller.

mod delegation;

pub use crate::state_metrics::{SourceError, WorkloadSource};
pub use delegation::{Delegate, Unanswered};

use crate::{
    answer,
    auth::{Asked, Peer, User},
    body,
    credentials::Credentials,
    handlers,
    health::Readiness,
    limits::Limits,
    listening::{Answers, BindError, Listening, belongs_to},
    path::{self, Route},
    query::Query,
    sending,
    status::Refusal,
    tls::{Tls, TlsError},
};
use berth_http::{Answering, Open, Origin};
use berth_registry::{ApiError, authorization::forbidden};
use berth_store::env::Clock;
use delegation::Delegation;
use futures::{FutureExt, future::BoxFuture};
use hyper::{Method, Request, StatusCode, body::Incoming, header::CACHE_CONTROL, http::request::Parts};
use jiff::Timestamp;
use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Connections of all who ask: a Prometheus, a kubelet, somebody who looks. Half are strangers'.
const CONNECTIONS_MAX: usize = 128;
/// Those of one user, and of answers that strangers do not take.
const OF_ONE_MAX: usize = 32;
/// What a request may take, who asks included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What such a server needs.
pub struct PartConfig {
    /// Where to listen; port 0 takes any free one.
    pub bind: SocketAddr,
    /// What it proves itself with, and the authorities of clients' certificates, which may be none: then only tokens count. What else is in it is not used.
    pub credentials: Credentials,
    /// Paths that anybody may ask.
    pub open: OpenPaths,
    /// Who says who is who.
    pub delegate: Arc<dyn Delegate>,
    /// What `/metrics` shows.
    pub metrics: prometheus::Registry,
    /// The workloads that it shows besides, once there is a source.
    pub workloads: Workloads,
    /// What health tells.
    pub readiness: Readiness,
    /// The time by which certificates end.
    pub clock: Arc<dyn Clock>,
}

/// A source, once there is one.
pub type Workloads = Arc<OnceLock<Arc<dyn WorkloadSource>>>;

/// Paths that anybody may ask, whoever they are: `/healthz`, or, with a star at its end, all that begin so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenPaths(Vec<OpenPath>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum OpenPath {
    One(String),
    Below(String),
}

impl OpenPaths {
    /// As upstream's `--authorization-always-allow-paths` names them.
    ///
    /// # Errors
    /// A star that is not at the end.
    pub fn parse(paths: &[String]) -> Result<Self, &'static str> {
        let parsed = paths.iter().map(|path| path.trim_start_matches('/')).filter(|path| !path.is_empty()).map(|path| {
            let (path, is_prefix) = path.strip_suffix('*').map_or((path, false), |prefix| (prefix, true));
            match path.contains('*') {
                true => Err("a * may only be at the end of a path"),
                false if is_prefix => Ok(OpenPath::Below(path.to_owned())),
                false => Ok(OpenPath::One(path.to_owned())),
            }
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    fn has(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        self.0.iter().any(|open| match open {
            OpenPath::One(one) => one == path,
            OpenPath::Below(prefix) => path.starts_with(prefix),
        })
    }
}

/// A server that listens. Nothing is answered before [`PartServer::serve`].
pub struct PartServer {
    listening: Listening,
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    open: OpenPaths,
    delegation: Delegation,
    metrics: prometheus::Registry,
    workloads: Workloads,
    /// Held by who asks for the metrics.
    scrape: tokio::sync::Mutex<()>,
    readiness: Readiness,
    clock: Arc<dyn Clock>,
}

fn tls(credentials: &Credentials) -> Result<Tls, TlsError> {
    if credentials.client_authorities.is_empty() {
        Tls::asking_nobody(&credentials.serving)
    } else {
        Tls::new(&credentials.serving, &credentials.client_authorities)
    }
}

impl PartServer {
    /// Listens.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(config: PartConfig) -> Result<Self, BindError> {
        let tls = tls(&config.credentials)?;
        let limits = Limits {
            connections: CONNECTIONS_MAX,
            connections_per_user: OF_ONE_MAX,
            strangers_unread: OF_ONE_MAX,
            request_timeout: REQUEST_TIMEOUT,
            ..Limits::default()
        };
        let listening = Listening::bind(config.bind, tls).await?;
        let shared = Shared {
            limits,
            open: config.open,
            delegation: Delegation::new(config.delegate, Arc::clone(&config.clock)),
            metrics: config.metrics,
            workloads: config.workloads,
            scrape: tokio::sync::Mutex::default(),
            readiness: config.readiness,
            clock: config.clock,
        };
        Ok(Self { listening, shared: Arc::new(shared) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.local_addr()
    }

    /// Gives it another certificate, and other authorities of clients, while it serves. What cannot be used changes nothing.
    pub fn replace(&self) -> impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static + use<> {
        let used = Arc::clone(&self.listening.tls);
        move |credentials| tls(credentials).map(|tls| used.set(tls))
    }

    /// Answers requests until `shutdown` resolves.
    pub fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
        self.listening.serve(self.shared, shutdown.boxed())
    }
}

impl Answers for Shared {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    fn answer(self: Arc<Self>, peer: Peer, origin: Origin, request: Request<Incoming>, open: Open) -> Answering {
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let mut answer = handlers::bounded(&head, self.limits.request_timeout, self.respond(&peer, &origin, &head)).await;
            body::discard(&mut body).await;
            answer.headers_mut().entry(CACHE_CONTROL).or_insert(handlers::NO_CACHE);
            if answer.status() == StatusCode::FORBIDDEN {
                answer.headers_mut().insert(handlers::CONTENT_TYPE_OPTIONS, handlers::NOSNIFF);
            }
            answer.map(|body| sending::begin(body, None, open, self.limits.stall_timeout, None))
        })
    }
}

impl Shared {
    async fn respond(&self, peer: &Peer, origin: &Origin, head: &Parts) -> Result<answer::Answer, Refusal> {
        let (path, query) = (head.uri.path(), Query::parse(head.uri.query()));
        // Whoever asks those need not say who they are: probes go on while the API server is away.
        if !self.open.has(path) {
            self.admit(peer, origin, head).await?;
        }
        if head.method != Method::GET {
            return Err(ApiError::MethodNotAllowed.into());
        }
        match path::parse(path) {
            Route::Health { endpoint, check } => handlers::health((endpoint, check), &query, &self.readiness).await,
            Route::Metrics => {
                let _scrape = self.scrape.lock().await;
                Ok(answer::text(StatusCode::OK, handlers::exposed(&self.metrics)? + &self.shown_workloads().await))
            }
            _ => Err(Refusal::PageNotFound),
        }
    }

    /// Nothing where there is no source, or it cannot be read: the other metrics are worth having alone.
    async fn shown_workloads(&self) -> String {
        let Some(source) = self.workloads.get() else { return String::new() };
        crate::state_metrics::text_of(&**source).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot show workloads as metrics");
            String::new()
        })
    }

    /// Finds out who asks, and whether they may.
    async fn admit(&self, peer: &Peer, origin: &Origin, head: &Parts) -> Result<(), Refusal> {
        let user = match (peer, crate::auth::bearer_token(&head.headers)) {
            (Peer::Known { user, until }, _) if self.clock.now() < *until => Arc::clone(user),
            (_, Some(token)) => self.delegation.holder(token).await?.ok_or(Refusal::Unauthorized)?,
            (Peer::Anonymous, None) => Arc::new(User::anonymous()),
            (Peer::Known { .. } | Peer::Untrusted, None) => return Err(Refusal::Unauthorized),
        };
        // Who has too many connections with a token keeps this one for as long as no stranger needs its place.
        let _ = belongs_to(&origin.slot, &user);
        // All that a part has is a path, also where an API server would see an object.
        let query = Query::parse(None);
        let asked = Asked::of(&head.method, head.uri.path(), &Route::Unknown, &query);
        let verb = head.method.as_str().to_ascii_lowercase();
        if user.is_master() || self.delegation.may(&user, &verb, head.uri.path()).await? {
            return Ok(());
        }
        Err(forbidden(&user, &asked.attributes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(paths: &[&str], asked: &str, is_open: bool) {
        let paths: Vec<_> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(OpenPaths::parse(&paths).map(|paths| paths.has(asked)), Ok(is_open), "{paths:?} {asked}");
    }

    #[test]
    fn open_paths_are_single_ones_or_all_below() {
        check(&["/healthz", "/readyz"], "/readyz", true);
        check(&["healthz"], "/healthz", true);
        check(&["/healthz"], "/healthz/ping", false);
        check(&["/healthz"], "/healthz/", false);
        check(&["/healthz*"], "/healthz/ping", true);
        check(&["/healthz/*"], "/healthz", false);
        check(&["/"], "/metrics", false);
        check(&[], "/healthz", false);
        assert!(OpenPaths::parse(&["/a*b".to_owned()]).is_err());
    }
}
