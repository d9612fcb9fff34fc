//! Sockets: where is listened, how many connections are open, TLS.

use crate::{
    guard::Place,
    places::{self, CONNECTIONS_MAX, Places},
    route::{self, Desk, FirstPage},
    session::Sessions,
    world::World,
};
use berth_api::FeatureGates;
use berth_controllers::Cluster;
use berth_env::Env;
use berth_follow::forecaster::Forecaster;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

/// How long a connection may take to say what it wants, and between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;
/// A pause after a failed accept, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How long what is being answered may go on once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What a dashboard needs to be told.
pub struct Options {
    /// Where to listen; port 0 takes any free one. An address that is not loopback wants TLS.
    pub bind: SocketAddr,
    /// Its certificate and key; `None`: it is served without TLS, on loopback alone.
    pub tls: Option<TlsOptions>,
    /// Names besides the address under which it is found.
    pub names: Vec<String>,
    /// Which cluster it shows, and as whom.
    pub title: String,
    /// The feature gates of the cluster's controllers.
    pub gates: FeatureGates,
    /// What is said of controllers that heed nothing of berth's; `None`: they are berth's.
    pub unheeded: Option<String>,
    /// What forecasts a change before it is made; `None`: nothing does.
    pub forecaster: Option<Arc<dyn Forecaster>>,
    /// When what the cluster has is read, and a past begins.
    pub following: Following,
    /// What somebody sees who has followed a link.
    pub first: FirstPage,
    /// Has a new link told to the owner, and to nobody else; each works once, for a minute.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

/// When a cluster is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// As soon as the dashboard listens.
    AtOnce,
    /// When somebody has signed in for the first time: until then it costs nothing.
    WhenSomebodyReads,
}

/// PEM texts.
pub struct TlsOptions {
    /// The certificate, and those between it and an authority.
    pub certificates: String,
    /// Its key.
    pub key: String,
}

/// Why there is no dashboard.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Anybody on the way could read along, and take the session over.
    #[error("{address} is not loopback: the page is served there over TLS only; name a certificate and its key")]
    Plain {
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
    /// A PEM text holds no certificate or no key.
    #[error("the certificate or its key is no PEM of such")]
    Pem,
    /// The TLS library does not take them.
    #[error("the certificate and its key cannot be used for TLS")]
    Certificate(#[source] rustls::Error),
}

/// A dashboard that listens. Nothing is answered before [`Dashboard::serve`].
pub struct Dashboard {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    desk: Arc<Desk>,
}

impl Dashboard {
    /// Listens.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(options: Options, cluster: Arc<dyn Cluster>, env: Env) -> Result<Self, BindError> {
        let Options { bind, tls, names, title, gates, unheeded, forecaster, following, first, tell } = options;
        if tls.is_none() && !bind.ip().is_loopback() {
            return Err(BindError::Plain { address: bind });
        }
        let tls = tls.map(|tls| config(&tls)).transpose()?;
        let listen = async {
            let listener = TcpListener::bind(bind).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen.await.map_err(|source| BindError::Listen { address: bind, source })?;
        let place = Place::new(address, &names, tls.is_some());
        let host = names.first().cloned().unwrap_or_else(|| match address.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            _ if address.is_ipv6() => format!("[{}]", address.ip()),
            ip => ip.to_string(),
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let root = format!("{scheme}://{host}:{}", address.port());
        let world = World::new(cluster, env, gates, unheeded);
        forecaster.into_iter().for_each(|forecaster| world.ask(forecaster));
        if following == Following::AtOnce {
            world.begin();
        }
        let desk = Desk { world, place, title, root, first, tell, sessions: Mutex::new(Sessions::default()) };
        Ok(Self { listener, address, tls, desk: Arc::new(desk) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A new link: it works once, for a minute. The one before works no more.
    #[must_use]
    pub fn link(&self) -> String {
        self.desk.link()
    }

    /// What makes links while this is served.
    #[must_use]
    pub fn links(&self) -> Links {
        Links(Arc::clone(&self.desk))
    }

    /// Answers requests until `shutdown` resolves.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, tls, desk, .. } = self;
        let (closing, closed) = watch::channel(());
        let mut connections = JoinSet::new();
        let places = Arc::new(Places::default());
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                stream = accept(&listener), if connections.len() < CONNECTIONS_MAX => {
                    let (place, is_cut) = places.enter();
                    let connection = connection(stream, tls.clone(), (Arc::clone(&desk), place), closed.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            Ok(()) = is_cut => (),
                            () = connection => (),
                        }
                    });
                }
            }
        }
        drop((listener, closing));
        // Streams have no other end, and connections wait for another request.
        desk.close();
        let _ = timeout(DRAIN_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await;
        connections.shutdown().await;
    }
}

/// Makes links to a dashboard that is served.
#[derive(Clone)]
pub struct Links(Arc<Desk>);

impl Links {
    /// As [`Dashboard::link`].
    #[must_use]
    pub fn another(&self) -> String {
        self.0.link()
    }
}

fn config(tls: &TlsOptions) -> Result<Arc<ServerConfig>, BindError> {
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(tls.certificates.as_bytes()).collect::<Result<_, _>>().map_err(|_| BindError::Pem)?;
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).map_err(|_| BindError::Pem)?;
    if certificates.is_empty() {
        return Err(BindError::Pem);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(BindError::Certificate)?;
    let mut config = builder.with_no_client_auth().with_single_cert(certificates, key).map_err(BindError::Certificate)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => tracing::debug!(%error, "could not accept a connection"),
        }
        sleep(ACCEPT_RETRY).await;
    }
}

async fn connection(stream: TcpStream, tls: Option<Arc<ServerConfig>>, served: (Arc<Desk>, places::Place), closed: watch::Receiver<()>) {
    // Small events must not wait for the acknowledgement of the ones before.
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve(stream, served, closed).await,
        Some(config) => {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
                serve(stream, served, closed).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, (desk, place): (Arc<Desk>, places::Place), mut closed: watch::Receiver<()>) {
    let place = &place;
    let service = service_fn(|request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(route::answer(&desk, place, request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_headers(HEADERS_MAX).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    // Whoever breaks the protocol or goes is not worth a line.
    tokio::select! {
        _ = &mut connection => return,
        // Its sender says nothing before it goes.
        _ = closed.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
