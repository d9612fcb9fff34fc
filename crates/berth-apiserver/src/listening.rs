//! The API server's part of connections: their owners, and their responses. `berth-http` enforces the limits.

use crate::{
    answer,
    auth::{Peer, User},
    brief::cut,
    current::Current,
    health::Readiness,
    limits::Limits,
    sending,
    tls::{Shown, Tls, TlsError},
};
use berth_http::{Answering, Connection, ConnectionSlot, Listener, Open, Origin, Owner, Rare, Service, TooMany};
use berth_rbac::UNAUTHENTICATED;
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use hyper::{Request, Version, body::Incoming, header::HOST};
use jiff::Timestamp;
use rustls::{ServerConfig, ServerConnection};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::sync::watch;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens on the address.
    #[error("{address} is in use: another process listens there; stop it, or choose another port")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The server cannot listen on the address.
    #[error("could not listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The credentials are unusable.
    #[error("could not use the server's credentials")]
    Credentials(#[from] TlsError),
    /// A metric's name is taken.
    #[error("could not register the server's metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Responds to the requests on connections.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Returns the limits of connections and heads.
    fn limits(&self) -> &Limits;
    /// Returns the current time, for the expiry of certificates.
    fn now(&self) -> Timestamp;
    /// Returns the readiness, which changes when the server stops.
    fn readiness(&self) -> &Readiness;
    /// Responds to a request in every case. The request counts as `open` until the response is sent.
    fn answer(self: Arc<Self>, peer: Peer, origin: Origin, request: Request<Incoming>, open: Open) -> Answering;
}

/// Listens on the address. Port 0 selects a free port.
///
/// # Errors
/// [`BindError`].
async fn listen(address: SocketAddr) -> Result<Listener, BindError> {
    Listener::bind(address).await.map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        _ => BindError::Listen { address, source },
    })
}

/// A listening server. It accepts no request before [`Listening::serve`].
pub(crate) struct Listening {
    listener: Listener,
    pub(crate) tls: Arc<Current<Tls>>,
}

impl Listening {
    /// Listens on the address.
    ///
    /// # Errors
    /// [`BindError`].
    pub(crate) async fn bind(bind: SocketAddr, tls: Tls) -> Result<Self, BindError> {
        Ok(Self { listener: listen(bind).await?, tls: Arc::new(Current::new(tls)) })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Returns a receiver that becomes true when the server stops accepting connections.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.listener.stopping()
    }

    /// Serves requests until `shutdown` resolves. Then `/readyz` fails, new connections are rejected, watches end, and
    /// requests in progress have 10 seconds to finish.
    pub(crate) fn serve(self, answers: Arc<dyn Answers>, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let limits = answers.limits().of_connections();
        self.listener.serve(Arc::new(Served { tls: self.tls, answers }), limits, shutdown)
    }
}

struct Served {
    tls: Arc<Current<Tls>>,
    answers: Arc<dyn Answers>,
}

impl Service for Served {
    fn connect(&self, origin: &Origin) -> Box<dyn Connection> {
        let (tls, answers) = (Arc::clone(&self.tls), Arc::clone(&self.answers));
        Box::new(Connected { met: tls.get(), shown: None, tls, answers, origin: origin.clone() })
    }

    fn stop(&self) {
        self.answers.readiness().set_stopping();
    }

    /// Logs a client that sends something other than TLS. A client that closes the connection without data, such as a
    /// port check, is not logged.
    fn handshake_failed(&self, from: SocketAddr, error: &io::Error) {
        static FAILED: Rare = Rare::new();
        if error.kind() == io::ErrorKind::InvalidData
            && let Some(left_out) = FAILED.now()
        {
            tracing::warn!(%from, error = %cut(&error.to_string()), left_out, "a TLS handshake failed");
        }
    }
}

struct Connected {
    tls: Arc<Current<Tls>>,
    answers: Arc<dyn Answers>,
    origin: Origin,
    /// The TLS configuration at the start of the connection.
    met: Arc<Tls>,
    /// Set after the handshake.
    shown: Option<Shown>,
}

impl Connection for Connected {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.met.config))
    }

    fn secured(&mut self, session: &ServerConnection) -> Result<(), TooMany> {
        let now = self.answers.now();
        let shown = self.shown.insert(Shown::new(session, Arc::clone(&self.met), now));
        match shown.peer(&self.met, now) {
            Peer::Known { user, .. } => belongs_to(&self.origin.slot, &user),
            Peer::Anonymous | Peer::Untrusted => Ok(()),
        }
    }

    fn answer(&self, request: Request<Incoming>, open: Open) -> Answering {
        if let Some(why) = bad_host(&request) {
            return ready(answer::bad_request(why).map(sending::refusal)).boxed();
        }
        let peer = self.shown.as_ref().map_or(Peer::Anonymous, |shown| shown.peer(&self.tls.get(), self.answers.now()));
        Arc::clone(&self.answers).answer(peer, self.origin.clone(), request, open)
    }
}

/// Assigns the connection to an authenticated user.
///
/// # Errors
/// The user has too many connections. The connection stays anonymous.
pub(crate) fn belongs_to(place: &ConnectionSlot, user: &User) -> Result<(), TooMany> {
    if !place.is_stranger() || user.groups.iter().any(|group| group == UNAUTHENTICATED) {
        return Ok(());
    }
    place.belongs_to(if user.is_master() { Owner::Unlimited } else { Owner::Known(user.share()) })
}

/// Returns the error in the `Host` of an HTTP/1.1 request, which must have exactly one (RFC 9112, section 3.2). The
/// texts are those of upstream.
fn bad_host<B>(request: &Request<B>) -> Option<&'static str> {
    if request.version() != Version::HTTP_11 {
        return None;
    }
    match request.headers().get_all(HOST).iter().count() {
        0 => Some("400 Bad Request: missing required Host header"),
        1 => None,
        _ => Some("400 Bad Request: too many Host headers"),
    }
}
