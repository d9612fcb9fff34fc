//! Where the page is served, and how much its connections may take.

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

/// What connections may take. Those without a session are strangers': a browser opens a few for each page. Those of sessions are a stream for each page that is
/// open, and those that a browser keeps.
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
    #[error("{address} is not loopback and requires TLS: add --tls-cert-file and --tls-private-key-file")]
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
    #[error("the certificate or its key is not valid PEM")]
    Pem,
    /// The TLS library does not take them.
    #[error("the certificate and its key cannot be used for TLS")]
    Certificate(#[source] rustls::Error),
}

/// A dashboard that listens. Nothing is answered before [`Dashboard::serve`].
pub struct Dashboard {
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
    context: Arc<DashboardContext>,
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
            tell,
            sessions: Mutex::new(Sessions::default()),
        };
        Ok(Self { listener, tls, context: Arc::new(context) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// A new link: it works once, for a minute. The one before works no more.
    #[must_use]
    pub fn link(&self) -> String {
        self.context.link()
    }

    /// What makes links while this is served.
    #[must_use]
    pub fn links(&self) -> Links {
        Links(Arc::clone(&self.context))
    }

    /// Answers requests until `shutdown` resolves. Then streams end, and what is being answered may go on for a second.
    pub fn serve<'s>(self, shutdown: impl Future<Output = ()> + Send + 's) -> BoxFuture<'s, ()> {
        let Self { listener, tls, context } = self;
        listener.serve(Arc::new(Served { tls, context }), LIMITS, shutdown.boxed())
    }
}

/// The dashboard, as its server sees it.
struct Served {
    tls: Option<Arc<ServerConfig>>,
    context: Arc<DashboardContext>,
}

impl Service for Served {
    fn connect(&self, origin: &Origin) -> Box<dyn Connection> {
        Box::new(Connected { tls: self.tls.clone(), context: Arc::clone(&self.context), origin: origin.clone() })
    }

    /// Streams have no other end.
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

/// Makes links to a dashboard that is served.
#[derive(Clone)]
pub struct Links(Arc<DashboardContext>);

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
