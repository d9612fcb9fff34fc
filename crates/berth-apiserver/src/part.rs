//! The HTTPS server of a control plane component: health for every client, metrics for authorized ones.
//!
//! Start with [`PartServer`]. It has no objects and no accounts. The API server of the component authenticates tokens
//! and authorizes requests ([`Delegate`]), as for upstream's components. The limits of connections, heads and responses
//! are smaller than those of an API server.

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

/// The maximum number of connections, such as those of Prometheus, a kubelet and an administrator. Half of them are for
/// anonymous clients.
const CONNECTIONS_MAX: usize = 128;
/// The maximum number of connections of one user, and of unread responses to anonymous clients.
const OF_ONE_MAX: usize = 32;
/// The timeout of a request, including its authentication.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The configuration of such a server.
pub struct PartConfig {
    /// The address to listen on. Port 0 selects a free port.
    pub bind: SocketAddr,
    /// The server's certificate, and the authorities of client certificates. Without authorities, only tokens are
    /// accepted. Other fields are unused.
    pub credentials: Credentials,
    /// The paths that need no authorization.
    pub open: OpenPaths,
    /// Authenticates tokens and authorizes requests.
    pub delegate: Arc<dyn Delegate>,
    /// The metrics for `/metrics`.
    pub metrics: prometheus::Registry,
    /// The additional metrics of workloads, if there is a source.
    pub workloads: Workloads,
    /// The health of the component.
    pub readiness: Readiness,
    /// The clock for the expiry of certificates.
    pub clock: Arc<dyn Clock>,
}

/// A source of workload metrics, as soon as there is one.
pub type Workloads = Arc<OnceLock<Arc<dyn WorkloadSource>>>;

/// The paths that need no authorization: `/healthz`, or with a trailing star all paths with this prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenPaths(Vec<OpenPath>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum OpenPath {
    One(String),
    Below(String),
}

impl OpenPaths {
    /// Parses paths in the format of upstream's `--authorization-always-allow-paths`.
    ///
    /// # Errors
    /// A star is not at the end.
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

/// A listening server. It accepts no request before [`PartServer::serve`].
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
    /// Held during a scrape.
    scrape: tokio::sync::Mutex<()>,
    readiness: Readiness,
    clock: Arc<dyn Clock>,
}

fn tls(credentials: &Credentials) -> Result<Tls, TlsError> {
    if credentials.client_authorities.is_empty() {
        Tls::without_client_certificates(&credentials.serving)
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

    /// Returns the address on which it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listening.local_addr()
    }

    /// Returns a function that replaces the certificate and the client authorities at run time. Unusable ones change
    /// nothing.
    pub fn replace(&self) -> impl Fn(&Credentials) -> Result<(), TlsError> + Send + 'static + use<> {
        let used = Arc::clone(&self.listening.tls);
        move |credentials| tls(credentials).map(|tls| used.set(tls))
    }

    /// Serves requests until `shutdown` resolves.
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
        // Open paths need no credentials, so that probes work while the API server is unavailable.
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

    /// Returns an empty text without a readable source, because the other metrics are useful alone.
    async fn shown_workloads(&self) -> String {
        let Some(source) = self.workloads.get() else { return String::new() };
        crate::state_metrics::text_of(&**source).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot show workloads as metrics");
            String::new()
        })
    }

    /// Authenticates and authorizes a request.
    async fn admit(&self, peer: &Peer, origin: &Origin, head: &Parts) -> Result<(), Refusal> {
        let user = match (peer, crate::auth::bearer_token(&head.headers)) {
            (Peer::Known { user, until }, _) if self.clock.now() < *until => Arc::clone(user),
            (_, Some(token)) => self.delegation.holder(token).await?.ok_or(Refusal::Unauthorized)?,
            (Peer::Anonymous, None) => Arc::new(User::anonymous()),
            (Peer::Known { .. } | Peer::Untrusted, None) => return Err(Refusal::Unauthorized),
        };
        // If the user has too many connections with a token, this one stays until an anonymous client needs its slot.
        let _ = belongs_to(&origin.slot, &user);
        // A component serves paths only, even those that an API server would parse as objects.
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
