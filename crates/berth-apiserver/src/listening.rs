//! Sockets: accepting, TLS, HTTP/1.1 and HTTP/2, and an orderly end. What is answered is another's: that of an API server, or of a part that tells how it is.

use crate::{
    activity::{Activity, Open},
    answer,
    auth::Peer,
    brief::{Rare, cut},
    connections::Connections,
    current::Current,
    handlers::Origin,
    health::Readiness,
    in_hand::Streams,
    limits::Limits,
    protocol::{self, Protocol},
    sending::Sending,
    stall::StallGuard,
    tls::{Shown, Tls, TlsError},
};
use futures::{FutureExt, future::BoxFuture};
use hyper::{Request, Response, Version, body::Incoming, header::HOST, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
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
    /// Turns true when no more connections are taken.
    fn stopping(&self) -> watch::Receiver<bool>;
    /// What is told to who asks whether it is ready.
    fn readiness(&self) -> &Readiness;
    /// Answers a request, whatever it is and whatever happens. It counts as `open` until the answer is sent.
    fn answer(
        self: Arc<Self>,
        peer: Peer,
        origin: Origin,
        request: Request<Incoming>,
        open: Open,
    ) -> impl Future<Output = Response<Sending>> + Send;
}

/// Listens there; port 0 takes any free one.
///
/// # Errors
/// [`BindError`].
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

/// A server that listens. Nothing is answered before [`Listening::serve`].
pub(crate) struct Listening<A> {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<Current<Tls>>,
    pub(crate) answers: Arc<A>,
    stop: watch::Sender<bool>,
}

impl<A: Answers> Listening<A> {
    /// Listens there, for what `answers` makes; it is given the address and what turns true when no more connections are accepted.
    ///
    /// # Errors
    /// [`BindError`].
    pub(crate) async fn bind(
        bind: SocketAddr,
        tls: Tls,
        answers: impl FnOnce(SocketAddr, watch::Receiver<bool>) -> A,
    ) -> Result<Self, BindError> {
        let (listener, address) = listen(bind).await?;
        let (stop, stopping) = watch::channel(false);
        Ok(Self { listener, address, tls: Arc::new(Current::new(tls)), answers: Arc::new(answers(address, stopping)), stop })
    }

    /// Answers requests until `shutdown` resolves. Boxed, so that the future is compiled where this is called.
    pub(crate) fn serve(self, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        serve(self, shutdown).boxed()
    }
}

/// Answers requests until `shutdown` resolves. Then `/readyz` fails, no connection is taken any more, `stop` says so to all, watches end, and what is being
/// answered may end within 10 seconds.
async fn serve<A: Answers>(server: Listening<A>, mut shutdown: BoxFuture<'static, ()>) {
    let Listening { listener, tls, answers, stop, .. } = server;
    let mut connections = JoinSet::new();
    let places = Connections::new(answers.limits());
    // With those that are being closed and those of administrators. What comes beyond waits in the kernel's queue.
    let open_max = 2 * answers.limits().connections;
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            (stream, from) = accept(&listener, &places), if connections.len() < open_max => {
                let activity = Activity::new();
                let (place, is_cut) = places.enter(from.ip(), activity.clone());
                let (tls, answers) = (tls.clone(), answers.clone());
                connections.spawn(async move {
                    let origin = Origin { from, place: Arc::new(place) };
                    tokio::select! {
                        Ok(()) = is_cut => tracing::debug!(%from, "connection closed: there are too many"),
                        () = connection(stream, origin, tls, answers, activity) => tracing::debug!(%from, "connection closed"),
                    }
                });
            }
        }
    }
    answers.readiness().set_stopping();
    drop(listener);
    // Nobody listening means that there are no connections left.
    let _ = stop.send(true);
    if timeout(DRAIN_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await.is_err() {
        tracing::warn!(open = connections.len(), "closing connections that did not end in time");
        connections.shutdown().await;
    }
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
async fn connection<A: Answers>(stream: TcpStream, origin: Origin, tls: Arc<Current<Tls>>, answers: Arc<A>, activity: Arc<Activity>) {
    let from = origin.from;
    let met = tls.get();
    // Small answers must not wait for the acknowledgement of the ones before. A socket that refuses is served all the same.
    let _ = stream.set_nodelay(true);
    let mut stopping = answers.stopping();
    let handshake = TlsAcceptor::from(met.config.clone()).accept(StallGuard::new(stream, answers.limits().stall_timeout));
    let handshake = timeout(answers.limits().handshake_timeout, handshake);
    let stream = tokio::select! {
        stream = handshake => stream,
        // Who has said nothing yet is not waited for.
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    let stream = match stream {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tell_of_failed_handshake(from, &error),
        Err(_elapsed) => return,
    };
    let session = stream.get_ref().1;
    // Which protocol it is was said in the handshake: a client that then says nothing is one that has no request.
    let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
    let shown = Arc::new(Shown::new(session, Arc::clone(&met), answers.now()));
    if let Peer::Known { user, .. } = shown.peer(&met, answers.now())
        && origin.place.belongs_to(&user).is_err()
    {
        tracing::debug!(%from, "closed: its user has too many connections");
        return;
    }
    let is_stopping = answers.stopping();
    let unwanted = async {
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => (),
            () = activity.idle_for(answers.limits().idle_timeout) => (),
        }
    };
    let over = async {
        // A watch has ended by now, but for what its client does not take. A stranger is refused before the rest of its request comes.
        let may_be_answered = if *is_stopping.borrow() && !origin.place.is_stranger() { DRAIN_TIMEOUT } else { Duration::ZERO };
        let _ = timeout(may_be_answered, activity.answered()).await;
        sleep(GOODBYE_TIMEOUT).await;
    };
    let service = service_fn(|request| {
        let peer = shown.peer(&tls.get(), answers.now());
        let refused = bad_host(&request).map(|why| answer::bad_request(why).map(Sending::refusal));
        let (answers, origin, open) = (Arc::clone(&answers), origin.clone(), activity.begin());
        Box::pin(async move {
            Ok::<_, Infallible>(match refused {
                Some(refused) => refused,
                None => answers.answer(peer, origin, request, open).await,
            })
        })
    });
    let as_agreed = (protocol, Streams::of(origin.place.clone()));
    if let Err(error) = protocol::serve(TokioIo::new(stream), as_agreed, answers.limits().head_timeout, service, (unwanted, over)).await {
        tracing::debug!(%error, "connection ended early");
    }
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

/// Who speaks no TLS that can be understood is told of; who only looks whether somebody listens is not.
fn tell_of_failed_handshake(from: SocketAddr, error: &io::Error) {
    static FAILED: Rare = Rare::new();
    if error.kind() == io::ErrorKind::InvalidData
        && let Some(left_out) = FAILED.now()
    {
        tracing::warn!(%from, error = %cut(&error.to_string()), left_out, "a TLS handshake failed");
    }
}
