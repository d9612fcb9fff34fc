//! Sockets: accepting, TLS, HTTP/1.1 and HTTP/2, and an orderly end.

use crate::{
    activity::Activity,
    connections::{Connections, Origin},
    in_hand::Streams,
    io::Io,
    limits::Limits,
    protocol::{self, Bounds, Protocol},
    rare::Rare,
    service::{Connection, Requests, Service},
    stall::StallGuard,
};
use futures::{FutureExt, future::BoxFuture};
use hyper_util::rt::TokioIo;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

/// How long a client may take to hear that its connection is closed, and to take the rest of its watches.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
/// A pause after a failed accept, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A server that listens. Nothing is answered before [`Listener::serve`].
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    stop: watch::Sender<bool>,
}

impl Listener {
    /// Listens at `address`; port 0 takes any free one.
    ///
    /// # Errors
    ///
    /// The address cannot be used.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, stop: watch::channel(false).0 })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns what turns true when no more connections are accepted.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Serves connections until `shutdown` resolves. Then the service is stopped, no connection is accepted any more, and requests may go on for
    /// [`Limits::drain_timeout`].
    ///
    /// Neither generic nor inlined, and boxed: all of a connection is compiled in this crate, and optimized as it is.
    #[inline(never)]
    #[must_use]
    pub fn serve<'s>(self, service: Arc<dyn Service>, limits: Limits, shutdown: BoxFuture<'s, ()>) -> BoxFuture<'s, ()> {
        serve(self, service, Arc::new(limits), shutdown).boxed()
    }
}

async fn serve(server: Listener, service: Arc<dyn Service>, limits: Arc<Limits>, mut shutdown: BoxFuture<'_, ()>) {
    let Listener { listener, stop, .. } = server;
    let mut connections = JoinSet::new();
    let places = Connections::new(&limits);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            (stream, from) = accept(&listener, &places), if connections.len() < limits.open_max() => {
                let activity = Activity::new();
                let (slot, is_cut) = places.enter(from.ip(), activity.clone());
                let origin = Origin { from, slot: Arc::new(slot) };
                let serving = connection(stream, origin, Arc::clone(&service), Arc::clone(&limits), (activity, stop.subscribe()));
                connections.spawn(async move {
                    tokio::select! {
                        Ok(()) = is_cut => tracing::debug!(%from, "connection closed: there are too many"),
                        () = serving => tracing::debug!(%from, "connection closed"),
                    }
                });
            }
        }
    }
    service.stop();
    drop(listener);
    stop.send_replace(true);
    if timeout(limits.drain_timeout, async { while connections.join_next().await.is_some() {} }).await.is_err() {
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

/// Serves one connection until the client closes it, it has been idle for too long, or the server stops.
async fn connection(
    stream: TcpStream,
    origin: Origin,
    service: Arc<dyn Service>,
    limits: Arc<Limits>,
    (activity, mut stopping): (Arc<Activity>, watch::Receiver<bool>),
) {
    let from = origin.from;
    let mut connection = service.connect(&origin);
    // Small answers must not wait for the acknowledgement of the ones before. A socket that refuses is served all the same.
    let _ = stream.set_nodelay(true);
    let secured = tokio::select! {
        secured = secure(StallGuard::new(stream, limits.stall_timeout), &mut *connection, limits.handshake_timeout) => secured,
        // A silent connection does not delay the end.
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    let (stream, protocol) = match secured {
        Ok(secured) => secured,
        Err(Unsecured::Failed(error)) => return service.handshake_failed(from, &error),
        Err(Unsecured::TooLate) => return,
        Err(Unsecured::TooMany) => return tracing::debug!(%from, "closed: its user has too many connections"),
    };
    let is_stopping = stopping.clone();
    let unwanted = async {
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => (),
            () = activity.idle_for(limits.idle_timeout) => (),
        }
    };
    let over = async {
        // A watch has ended by now, but for what its client does not take. A stranger is refused before the rest of its request comes.
        let may_be_answered = if *is_stopping.borrow() && !origin.slot.is_stranger() { limits.drain_timeout } else { Duration::ZERO };
        let _ = timeout(may_be_answered, activity.answered()).await;
        sleep(GOODBYE_TIMEOUT).await;
    };
    let requests = Requests { connection, activity: Arc::clone(&activity) };
    let as_agreed = (protocol, Streams::of(origin.slot.clone()));
    if let Err(error) = protocol::serve(TokioIo::new(stream), as_agreed, Bounds::of(&limits), requests, (unwanted, over)).await {
        tracing::debug!(%error, "connection ended early");
    }
}

/// Why a connection ends before its first request.
enum Unsecured {
    Failed(io::Error),
    TooLate,
    TooMany,
}

/// The connection's bytes behind TLS, if it has any, and what it speaks.
async fn secure(stream: StallGuard, connection: &mut dyn Connection, within: Duration) -> Result<(Io, Protocol), Unsecured> {
    let Some(config) = connection.tls() else { return Ok((Io::Plain(stream), Protocol::Http1)) };
    let stream = match timeout(within, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => Box::new(stream),
        Ok(Err(error)) => return Err(Unsecured::Failed(error)),
        Err(_elapsed) => return Err(Unsecured::TooLate),
    };
    let session = stream.get_ref().1;
    // The handshake has negotiated the protocol: a client that is then silent has no request.
    let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
    connection.secured(session).map_err(|_too_many| Unsecured::TooMany)?;
    Ok((Io::Tls(stream), protocol))
}
