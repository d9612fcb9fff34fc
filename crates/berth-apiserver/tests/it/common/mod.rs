//! A server in the test's process, over a memory store, and its client.

#![allow(dead_code, reason = "every user takes a part")]

pub(crate) mod widget;

use berth_api::FeatureGates;
use berth_apiserver::{
    Access, Config, Credentials, Limits, Pki, PkiOptions, Readiness, Server, Storage, credentials::Following, pki::Pair,
};
use berth_registry::{Registry, ResourceTable};
use berth_store::{
    DEFAULT_HISTORY_BYTES, MemoryStore,
    env::{Clock, Rng, Timestamp},
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::SignedDuration;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::Value;
use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpStream, runtime::Handle, sync::oneshot, task::JoinHandle};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The machine's clock.
pub(crate) struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        Box::pin(tokio::time::sleep(left))
    }
}

/// The machine's clock, ahead by what the test sets.
#[derive(Default)]
pub(crate) struct MovedClock(AtomicI64);

impl MovedClock {
    pub(crate) fn set_ahead(&self, minutes: i64) {
        self.0.store(60 * minutes, Ordering::Relaxed);
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        Box::pin(tokio::time::sleep(left))
    }
}

/// The machine's randomness.
pub(crate) struct MachineRng;

impl Rng for MachineRng {
    fn fill(&self, bytes: &mut [u8]) {
        rustls::crypto::ring::default_provider().secure_random.fill(bytes).expect("the machine has randomness");
    }
}

/// The log output as text.
#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no holder panics").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the credentials in a folder.
pub(crate) fn pki(folder: &Path, bind: SocketAddr) -> Pki {
    let options = PkiOptions { folder, bind: bind.ip(), extra_names: &[], now: Timestamp::now() };
    Pki::load_or_create(&options, &MachineRng).expect("certificates")
}

/// Returns the configuration of a server with an empty store.
pub(crate) async fn config(folder: &Path, bind: SocketAddr) -> Config {
    config_by(Arc::new(MachineClock), folder, bind).await
}

/// Returns the same with another clock.
pub(crate) async fn config_by(clock: Arc<dyn Clock>, folder: &Path, bind: SocketAddr) -> Config {
    let rng = Arc::new(MachineRng);
    let pki = pki(folder, bind);
    let table = Arc::new(ResourceTable::default());
    let store = Arc::new(MemoryStore::new(Arc::clone(&table), DEFAULT_HISTORY_BYTES));
    let gates = Arc::new(FeatureGates::default());
    let registry = Registry::new(store, table, clock, rng.clone(), gates.clone());
    registry.bootstrap().await.expect("an empty store takes the first objects");
    registry.bootstrap_policy().await.expect("an empty store takes the first roles");
    let (metrics, readiness, access) = (prometheus::Registry::new(), Readiness::default(), Access::default());
    Config {
        bind,
        registry,
        credentials: Credentials::from(&pki),
        storage: Storage::default(),
        access,
        limits: Limits::default(),
        gates: gates.clone(),
        controller_gates: gates,
        metrics,
        readiness,
        rng,
        users: Handle::current(),
    }
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) pki: Pki,
    pub(crate) readiness: Readiness,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(Access::default()).await
    }

    pub(crate) async fn start_with(access: Access) -> Self {
        Self::start_changed(|config| config.access = access).await
    }

    pub(crate) async fn start_limited(limits: Limits) -> Self {
        Self::start_changed(|config| config.limits = limits).await
    }

    pub(crate) async fn start_changed(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_by(Arc::new(MachineClock), change).await
    }

    pub(crate) async fn start_by(clock: Arc<dyn Clock>, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config_by(clock, folder.path(), ([127, 0, 0, 1], 0).into()).await;
        change(&mut config);
        Self::start_in(folder, config, None).await
    }

    /// Starts a server with credentials in files.
    pub(crate) async fn start_following(following: Following) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config(folder.path(), ([127, 0, 0, 1], 0).into()).await;
        config.credentials = following.credentials().clone();
        following.register(&config.metrics).expect("registered once");
        Self::start_in(folder, config, Some(following)).await
    }

    async fn start_in(folder: tempfile::TempDir, config: Config, following: Option<Following>) -> Self {
        let (pki, readiness) = (pki(folder.path(), config.bind), config.readiness.clone());
        let server = Server::bind(config).await.expect("a free port");
        if let Some(following) = following {
            tokio::spawn(following.follow(server.replace()));
        }
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        readiness.set_ready();
        Self { address, pki, readiness, stop: Some(stop), serving, folder }
    }

    /// Stops the server. The handle resolves when it has stopped.
    pub(crate) fn stop(mut self) -> JoinHandle<()> {
        self.stop.take().expect("stopped once").send(()).expect("it runs");
        self.serving
    }

    pub(crate) async fn admin(&self) -> Client {
        Client::connect(self, Some(&self.pki.admin), Protocol::Http1).await
    }

    /// Returns a client with a certificate.
    pub(crate) async fn user(&self, name: &str, groups: &[&str]) -> Client {
        Client::connect(self, Some(&self.certificate(name, groups)), Protocol::Http1).await
    }

    /// Returns a certificate that is valid for an hour.
    pub(crate) fn certificate(&self, name: &str, groups: &[&str]) -> Pair {
        self.certificate_of(name, groups, (Timestamp::now(), SignedDuration::from_hours(1)))
    }

    /// Returns a certificate with this validity.
    pub(crate) fn certificate_of(&self, name: &str, groups: &[&str], validity: (Timestamp, SignedDuration)) -> Pair {
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        berth_apiserver::pki::issue(self.folder.path(), name, &groups, validity).expect("a certificate").client
    }

    /// Lets a group edit everything in the namespace `default`.
    pub(crate) async fn let_edit(&self, group: &str) {
        let binding = serde_json::json!({"metadata": {"name": group}, "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "Group", "name": group}]});
        let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
        let answer = self.admin().await.post(path, &binding).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
    }

    pub(crate) async fn anonymous(&self) -> Client {
        Client::connect(self, None, Protocol::Http1).await
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection.
pub(crate) struct Client {
    sender: Sender,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }
}

pub(crate) async fn connect(server: &TestServer, certificate: Option<&Pair>, protocol: Protocol) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.pki.ca_certificate.as_bytes()).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS").with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("PEM")];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM")).expect("a pair")
        }
    };
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    let stream = TcpStream::connect(server.address).await.expect("it listens");
    let name = ServerName::from(server.address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
}

impl Client {
    pub(crate) async fn connect(server: &TestServer, certificate: Option<&Pair>, protocol: Protocol) -> Self {
        let stream = TokioIo::new(connect(server, certificate, protocol).await);
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.expect("HTTP/1.1");
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        Self { sender }
    }

    /// Sends a request and returns after the head of the response.
    pub(crate) async fn open(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let uri = match self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("https://localhost{path}"),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if matches!(self.sender, Sender::Http1(_)) {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.expect("the connection is open");
                sender.send_request(request).await
            }
            Sender::Http2(sender) => sender.send_request(request).await,
        }
        .expect("an answer")
    }

    pub(crate) async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let (head, body) = self.open(method, path, headers, body).await.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer { code: head.status, headers: head.headers, body }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }
}

/// Returns the next line of a watch as JSON, or `None` at its end.
pub(crate) async fn next_line(body: &mut Incoming) -> Option<Value> {
    let frame = body.frame().await?.expect("the watch goes on");
    let data = frame.into_data().expect("a watch has no trailers");
    Some(serde_json::from_slice(&data).expect("one line a frame"))
}
