//! The server of a component has the same limits as an API server: a flood does not block health checks of other
//! clients.

use crate::common::MachineClock;
use berth_apiserver::{
    Credentials, Readiness,
    auth::User,
    credentials::AccountKeys,
    part::{Delegate, OpenPaths, PartConfig, PartServer, SourceError, Unanswered, WorkloadSource, Workloads},
    pki,
};
use berth_identity::GroupResource;
use futures::{FutureExt, future::BoxFuture};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Longer than any operation here, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// A delegate that rejects every token and request.
struct RejectsAll;

impl Delegate for RejectsAll {
    fn holder(&self, _: String) -> BoxFuture<'_, Result<Option<User>, Unanswered>> {
        async { Ok(None) }.boxed()
    }

    fn may<'a>(&'a self, _: &'a User, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<bool, Unanswered>> {
        async { Ok(false) }.boxed()
    }
}

/// Returns one series.
fn metrics() -> prometheus::Registry {
    let registry = prometheus::Registry::new();
    let own = prometheus::IntGauge::new("own", "Its own").expect("a name");
    registry.register(Box::new(own)).expect("it is the first");
    registry
}

/// One Deployment, and Jobs that the user may not list. Or no answer at all.
struct One {
    answers: bool,
}

impl WorkloadSource for One {
    fn all(&self, resource: GroupResource) -> BoxFuture<'_, Result<Vec<Vec<u8>>, SourceError>> {
        let web = r#"{"metadata": {"name": "web", "namespace": "shop", "generation": 2}, "spec": {"replicas": 3}, "status": {"observedGeneration": 1}}"#;
        let objects = if resource.plural == "deployments" { vec![web.as_bytes().to_vec()] } else { Vec::new() };
        let answer = match (self.answers, &*resource.plural) {
            (true, "jobs") => Err("the user cannot list jobs".into()),
            (true, _) => Ok(objects),
            (false, _) => Err("it is away".into()),
        };
        async move { answer }.boxed()
    }
}

struct Part {
    address: SocketAddr,
    connector: TlsConnector,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

async fn part() -> Part {
    part_with(&["/healthz"], Workloads::default()).await
}

async fn part_with(open: &[&str], workloads: Workloads) -> Part {
    let serving = pki::self_signed("part", Ipv4Addr::LOCALHOST.into(), jiff::Timestamp::now()).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(serving.certificate.as_bytes()).expect("a certificate")).expect("one that is good");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (readiness, none) = (Readiness::when("started"), String::new());
    readiness.set_ready();
    let credentials = Credentials {
        serving,
        client_authorities: none,
        root_ca: String::new(),
        admin_token: None,
        account_keys: AccountKeys::of(""),
        own_ends: Vec::new(),
    };
    let server = PartServer::bind(PartConfig {
        bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        credentials,
        open: OpenPaths::parse(&open.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("paths"),
        delegate: Arc::new(RejectsAll),
        metrics: metrics(),
        workloads,
        readiness,
        clock: Arc::new(MachineClock),
    });
    let server = server.await.expect("a free port");
    let address = server.local_addr();
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(server.serve(stopped.map(drop)));
    Part { address, connector: TlsConnector::from(Arc::new(config)), stop, serving }
}

impl Part {
    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        self.connector.connect(ServerName::try_from("localhost").expect("a name"), stream).await.expect("TLS")
    }

    /// Sends these bytes. Returns everything that the server sends before it closes the connection.
    async fn response_to(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may reject the start of a request without reading the rest.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it closes the connection");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

const ASKED: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn who_holds_connections_open_does_not_keep_others_out() {
    let part = part().await;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(part.address).await.expect("it listens"));
    }
    let answer = timeout(PATIENCE, part.response_to(ASKED)).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok"), "{answer}");
    // The oldest connections were closed.
    let mut closed = 0;
    for stream in &mut held {
        let ended = timeout(Duration::from_millis(10), stream.read_u8()).await;
        closed += usize::from(ended.is_ok());
    }
    assert!((100..200).contains(&closed), "{closed} of 200 were closed");
}

#[tokio::test]
async fn a_long_head_is_refused_and_so_is_who_may_not() {
    let part = part().await;
    let long = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(300 << 10));
    let answer = part.response_to(long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let refused = String::from_utf8_lossy(ASKED).replace("/healthz", "/metrics");
    let answer = part.response_to(refused.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("cache-control: no-cache, private\r\n"), "{answer}");
    let with_token = refused.replace("connection: close", "authorization: Bearer x\r\nconnection: close");
    let answer = part.response_to(with_token.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn metrics_show_the_workloads_of_a_source_and_go_on_without_it() {
    let asked = String::from_utf8_lossy(ASKED).replace("/healthz", "/metrics");
    let shown = async |source: Option<One>| {
        let workloads = Workloads::default();
        source.into_iter().for_each(|source| assert!(workloads.set(Arc::new(source)).is_ok()));
        part_with(&["/metrics"], workloads).await.response_to(asked.as_bytes()).await
    };
    let (series, own) = (r#"kube_deployment_metadata_generation{deployment="web",namespace="shop"} 2"#, "\nown 0\n");
    let with = shown(Some(One { answers: true })).await;
    assert!(with.contains(series) && with.contains(own), "{with}");
    for without in [shown(Some(One { answers: false })).await, shown(None).await] {
        assert!(without.starts_with("HTTP/1.1 200 ") && !without.contains("kube_") && without.contains(own), "{without}");
    }
}

#[tokio::test]
async fn a_request_to_a_part_names_exactly_one_host() {
    let part = part().await;
    for (host, code) in [("host: localhost\r\n", 200), ("", 400), ("host: a\r\nhost: a\r\n", 400)] {
        let asked = String::from_utf8_lossy(ASKED).replace("host: localhost\r\n", host);
        let answer = part.response_to(asked.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{host:?}: {answer}");
    }
}

#[tokio::test]
async fn a_stop_of_a_part_waits_for_no_stranger() {
    let part = part().await;
    let silent = TcpStream::connect(part.address).await.expect("it listens");
    let mut half = part.connect().await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost:").await.expect("sent");
    // The server is handling each of them.
    assert!(part.response_to(ASKED).await.starts_with("HTTP/1.1 200 "));
    let begun = Instant::now();
    part.stop.send(()).expect("it serves");
    part.serving.await.expect("no panic");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(TcpStream::connect(part.address).await.is_err(), "the server does not listen any more");
    drop((silent, half));
}
