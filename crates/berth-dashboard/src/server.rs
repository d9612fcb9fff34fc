//! The server of the dashboard, and the limits of its connections.

use crate::{
    cluster_cache::ClusterCache,
    guard::ServerAddress,
    route::{self, DashboardContext, FirstPage},
    session::Sessions,
};
use berth_api::FeatureGates;
use berth_controllers::Cluster;
use berth_env::Env;
use berth_follow::forecaster::Forecaster;
use berth_http::{Answering, Connection, Limits, Listener, Open, Origin, Service};
use futures::{FutureExt, future::BoxFuture};
use hyper::{Request, body::Incoming};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The limits of connections. Connections without a session are anonymous, and a browser opens a few per page. A
/// session has one stream per open page, and the idle connections of its browser.
const LIMITS: Limits = Limits {
    strangers: 96,
    known: READERS_MAX,
    per_owner: READERS_MAX,
    strangers_unread: READERS_MAX,
    head_bytes: 32 << 10,
    headers: Some(64),
    handshake_timeout: Duration::from_secs(10),
    head_timeout: Duration::from_secs(30),
    idle_timeout: Duration::from_secs(90),
    stall_timeout: Duration::from_secs(60),
    drain_timeout: Duration::from_secs(1),
};
const READERS_MAX: usize = 256;

/// The options of a dashboard.
pub struct Options {
    /// The address to listen on. Port 0 selects a free port. An address other than loopback requires TLS.
    pub bind: SocketAddr,
    /// The certificate and key. `None`: no TLS, on loopback only.
    pub tls: Option<TlsOptions>,
    /// Additional host names of the dashboard.
    pub names: Vec<String>,
    /// The name of the cluster, and the user that the dashboard is connected as.
    pub title: String,
    /// The feature gates of the cluster's controllers.
    pub gates: FeatureGates,
    /// The message if the cluster's controllers do not support berth's fields. `None`: they do.
    pub unheeded: Option<String>,
    /// Forecasts the consequences of an action. `None`: no forecasts.
    pub forecaster: Option<Arc<dyn Forecaster>>,
    /// When the watches of the cluster start.
    pub following: Following,
    /// The first page after signing in.
    pub first: FirstPage,
    /// Prints a new link for the owner only. Each link works once, for a minute.
    pub print_link: Box<dyn Fn(&str) + Send + Sync>,
}

/// When the watches of a cluster start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// When the dashboard listens.
    AtOnce,
    /// When a user signs in for the first time. Until then the dashboard reads nothing.
    OnDemand,
}

/// A certificate and its key, in PEM.
pub struct TlsOptions {
    /// The certificate chain.
    pub certificates: String,
    /// The private key.
    pub key: String,
}

/// Why the dashboard cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Without TLS, an attacker on the network could read the traffic and take over the session.
    #[error("{address} is not loopback and requires TLS: add --tls-cert-file and --tls-private-key-file")]
    Plain {
        /// The address.
        address: SocketAddr,
    },
    /// The dashboard cannot listen on the address.
    #[error("could not listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A PEM text has no certificate or no key.
    #[error("the certificate or its key is not valid PEM")]
    Pem,
    /// The TLS library rejects the certificate or key.
    #[error("the certificate and its key cannot be used for TLS")]
    Certificate(#[source] rustls::Error),
}

/// A dashboard that listens. It accepts no request before [`Dashboard::serve`].
pub struct Dashboard {
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
    context: Arc<DashboardContext>,
}

impl Dashboard {
    /// Listens on the address.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(options: Options, cluster: Arc<dyn Cluster>, env: Env) -> Result<Self, BindError> {
        let Options { bind, tls, names, title, gates, unheeded, forecaster, following, first, print_link } = options;
        if tls.is_none() && !bind.ip().is_loopback() {
            return Err(BindError::Plain { address: bind });
        }
        let tls = tls.map(|tls| config(&tls)).transpose()?;
        let listener = Listener::bind(bind).await.map_err(|source| BindError::Listen { address: bind, source })?;
        let address = listener.local_addr();
        let server_address = ServerAddress::new(address, &names, tls.is_some());
        let host = names.first().cloned().unwrap_or_else(|| match address.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            _ if address.is_ipv6() => format!("[{}]", address.ip()),
            ip => ip.to_string(),
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let root = format!("{scheme}://{host}:{}", address.port());
        let cluster_cache = ClusterCache::new(cluster, env, gates, unheeded);
        forecaster.into_iter().for_each(|forecaster| cluster_cache.ask(forecaster));
        if following == Following::AtOnce {
            cluster_cache.begin();
        }
        let context = DashboardContext {
            cluster_cache,
            address: server_address,
            title,
            root,
            first,
            print_link,
            sessions: Mutex::new(Sessions::default()),
        };
        Ok(Self { listener, tls, context: Arc::new(context) })
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Returns a new link, which works once, for a minute. It invalidates the previous link.
    #[must_use]
    pub fn link(&self) -> String {
        self.context.link()
    }

    /// Returns a source of links, for use while the dashboard is served.
    #[must_use]
    pub fn links(&self) -> Links {
        Links(Arc::clone(&self.context))
    }

    /// Serves requests until `shutdown` resolves. Then streams end, and requests in progress have one second to finish.
    pub fn serve<'s>(self, shutdown: impl Future<Output = ()> + Send + 's) -> BoxFuture<'s, ()> {
        let Self { listener, tls, context } = self;
        listener.serve(Arc::new(Served { tls, context }), LIMITS, shutdown.boxed())
    }
}

/// The dashboard as its server uses it.
struct Served {
    tls: Option<Arc<ServerConfig>>,
    context: Arc<DashboardContext>,
}

impl Service for Served {
    fn connect(&self, origin: &Origin) -> Box<dyn Connection> {
        Box::new(Connected { tls: self.tls.clone(), context: Arc::clone(&self.context), origin: origin.clone() })
    }

    /// Streams end only here.
    fn stop(&self) {
        self.context.close();
    }
}

struct Connected {
    tls: Option<Arc<ServerConfig>>,
    context: Arc<DashboardContext>,
    origin: Origin,
}

impl Connection for Connected {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.clone()
    }

    fn answer(&self, request: Request<Incoming>, open: Open) -> Answering {
        let (context, slot) = (Arc::clone(&self.context), Arc::clone(&self.origin.slot));
        Box::pin(async move { route::answer(&context, &slot, request).await.map(|content| content.into_body(open)) })
    }
}

/// Creates links to a running dashboard.
#[derive(Clone)]
pub struct Links(Arc<DashboardContext>);

impl Links {
    /// Returns a new link, as [`Dashboard::link`].
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
