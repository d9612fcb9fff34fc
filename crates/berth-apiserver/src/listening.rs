//! The API server's side of connections: whose they are, and what is answered. What they may take is `berth-http`'s.

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

/// Who answers what comes in on connections.
pub(crate) trait Answers: Send + Sync + 'static {
    /// What connections and heads may take.
    fn limits(&self) -> &Limits;
    /// Now: certificates end.
    fn now(&self) -> Timestamp;
    /// What is told to who asks whether it is ready.
    fn readiness(&self) -> &Readiness;
    /// Answers a request, whatever it is and whatever happens. It counts as `open` until the answer is sent.
    fn answer(self: Arc<Self>, peer: Peer, origin: Origin, request: Request<Incoming>, open: Open) -> Answering;
}

/// Listens there; port 0 takes any free one.
///
/// # Errors
/// [`BindError`].
async fn listen(address: SocketAddr) -> Result<Listener, BindError> {
    Listener::bind(address).await.map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        _ => BindError::Listen { address, source },
    })
}

/// A server that listens. Nothing is answered before [`Listening::serve`].
pub(crate) struct Listening {
    listener: Listener,
    pub(crate) tls: Arc<Current<Tls>>,
}

impl Listening {
    /// Listens there.
    ///
    /// # Errors
    /// [`BindError`].
    pub(crate) async fn bind(bind: SocketAddr, tls: Tls) -> Result<Self, BindError> {
        Ok(Self { listener: listen(bind).await?, tls: Arc::new(Current::new(tls)) })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Turns true when no more connections are taken.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.listener.stopping()
    }

    /// Answers requests until `shutdown` resolves. Then `/readyz` fails, no connection is taken any more, watches end, and what is being answered may end
    /// within 10 seconds.
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

    /// Logs a client that sends something that is not TLS. A client that closes the connection without a word, as a port check does, is not logged.
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
    /// The server's side of TLS as it was when the connection began.
    met: Arc<Tls>,
    /// Once the handshake is done.
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

/// It has turned out that this is a user's connection.
///
/// # Errors
/// The user has too many: it stays among the strangers.
pub(crate) fn belongs_to(place: &ConnectionSlot, user: &User) -> Result<(), TooMany> {
    if !place.is_stranger() || user.groups.iter().any(|group| group == UNAUTHENTICATED) {
        return Ok(());
    }
    place.belongs_to(if user.is_master() { Owner::Unlimited } else { Owner::Known(user.share()) })
}

/// What is wrong with the `Host` of a request of HTTP/1.1, which has exactly one (RFC 9112, section 3.2). The texts are upstream's.
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
