//! Providers on sockets of this machine: the requests that they receive, and the results of late, long, redirected or wrong answers.

use berth_analysis::{ANSWER_BYTES_MAX, ANSWER_WITHIN, FileProviders};
use berth_controllers::analysis::Providers;
use berth_env::{Clock, Timestamp, followed::READ_INTERVAL};
use berth_identity::RolloutRevision;
use berth_workloads::analysis::{NoAnswer, Question};
use futures::future::BoxFuture;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, LazyLock, Mutex},
    time::Instant,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

/// The action of a stub after it has read a request.
#[derive(Clone)]
enum Does {
    /// Sends this text.
    Answers(String),
    /// Sends this text, and then nothing, indefinitely.
    Hangs(String),
    /// Sends this text when the test permits it.
    Waits(String, Arc<Semaphore>),
}

/// A server with one action, which records its requests.
struct Stub {
    address: SocketAddr,
    seen: watch::Sender<Vec<String>>,
}

impl Stub {
    async fn start(does: Does, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let (address, seen) = (listener.local_addr().expect("an address"), watch::Sender::default());
        let notes = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (does, tls, notes) = (does.clone(), tls.clone(), notes.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, does, &notes).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, does, &notes).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }

    /// Waits until it has received a request.
    async fn seen_one(&self) {
        self.seen.subscribe().wait_for(|seen| !seen.is_empty()).await.expect("the stub is there");
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, does: Does, notes: &watch::Sender<Vec<String>>) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !is_whole(&request) {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend(&piece[..read]),
        }
    }
    notes.send_modify(|seen| seen.push(String::from_utf8(request).expect("text")));
    if let Does::Waits(_, told) = &does {
        told.acquire().await.expect("it is never closed").forget();
    }
    let (Does::Answers(answer) | Does::Hangs(answer) | Does::Waits(answer, _)) = &does;
    _ = stream.write_all(answer.as_bytes()).await;
    match does {
        Does::Answers(_) | Does::Waits(..) => _ = stream.shutdown().await,
        Does::Hangs(_) => std::future::pending::<()>().await,
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").and_then(|length| length.parse().ok()));
    body.len() >= length.unwrap_or(0)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn sample(number: &str) -> String {
    ok(&format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"a":"b"}},"value":[1,"{number}"]}}]}}}}"#))
}

fn question(provider: &str) -> Question {
    Question {
        provider: provider.to_owned(),
        query: "sum(rate(x{a=\"b&c\"}[5m])) > bool 0".to_owned(),
        namespace: "shop".to_owned(),
        deployment: "web".to_owned(),
        revision: RolloutRevision(3),
        template_hash: "abc12".into(),
        step: 2,
    }
}

/// A folder with a file of providers, one in each line.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, text: &str) -> &Self {
        fs::write(self.0.path().join(name), text).expect("a file");
        self
    }

    fn providers(&self, providers: &[String]) -> &Self {
        self.file("providers.yaml", &format!("providers: [{}]", providers.join(", ")))
    }

    fn open(&self, providers: &[String]) -> FileProviders {
        self.providers(providers);
        FileProviders::open(&self.0.path().join("providers.yaml")).expect("a good file")
    }

    /// Also follows the files, with one read per [`Turned::advance`].
    fn follow(&self, providers: &[String]) -> (Arc<FileProviders>, Arc<Turned>) {
        let (providers, clock) = (Arc::new(self.open(providers)), Arc::<Turned>::default());
        tokio::spawn(Arc::clone(&providers).follow(Arc::<Turned>::clone(&clock)));
        (providers, clock)
    }

    /// The logged warnings about this folder.
    fn warnings(&self) -> Vec<String> {
        let folder = self.0.path().display().to_string();
        let log = LOG.0.lock().expect("no holder panics");
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(&folder)).map(|line| line.replace(&folder, "FOLDER")).collect()
    }
}

/// A clock whose sleeps end when the test ends them.
struct Turned {
    sleeps: watch::Sender<u64>,
    turns: Arc<Semaphore>,
}

impl Default for Turned {
    fn default() -> Self {
        Self { sleeps: watch::Sender::new(0), turns: Arc::new(Semaphore::new(0)) }
    }
}

impl Clock for Turned {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        assert_eq!(at, self.now() + READ_INTERVAL);
        self.sleeps.send_modify(|sleeps| *sleeps += 1);
        let turns = Arc::clone(&self.turns);
        Box::pin(async move { turns.acquire().await.expect("it is never closed").forget() })
    }
}

impl Turned {
    /// Ends one sleep, and waits until the sleeper has reloaded the files and sleeps again.
    async fn advance(&self) {
        let mut sleeps = self.sleeps.subscribe();
        let before = *sleeps.wait_for(|sleeps| 0 < *sleeps).await.expect("the clock is there");
        self.turns.add_permits(1);
        sleeps.wait_for(|sleeps| before < *sleeps).await.expect("the clock is there");
    }
}

/// All logs of this process.
struct Log(Mutex<Vec<u8>>);

impl io::Write for &Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no holder panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static LOG: LazyLock<&'static Log> = LazyLock::new(|| {
    let log: &Log = Box::leak(Box::new(Log(Mutex::default())));
    tracing_subscriber::fmt().with_writer(move || log).with_ansi(false).without_time().with_max_level(tracing::Level::TRACE).init();
    log
});

fn near(name: &str, kind: &str, at: impl std::fmt::Display, more: &str) -> String {
    format!("{{name: {name}, kind: {kind}, url: '{at}', namespaces: [shop], allowLoopback: true{more}}}")
}

async fn asked(providers: &FileProviders, name: &str) -> Result<f64, NoAnswer> {
    providers.ask(&question(name)).await.map(f64::from)
}

#[tokio::test]
async fn prometheus_is_queried_by_its_api_and_a_webhook_receives_the_subject() {
    let (prometheus, webhook) =
        (Stub::start(Does::Answers(sample("0.97")), None).await, Stub::start(Does::Answers(ok(r#"{"value": 0}"#)), None).await);
    let providers = Site::new().open(&[
        near("prod", "prometheus", format!("http://{}/base", prometheus.address), ""),
        near("gate", "webhook", format!("http://localhost:{}/gate", webhook.address.port()), ""),
    ]);
    assert_eq!(asked(&providers, "prod").await, Ok(0.97));
    assert_eq!(asked(&providers, "gate").await, Ok(0.0));
    let [sent] = &prometheus.seen()[..] else { panic!("{:?}", prometheus.seen()) };
    assert!(sent.starts_with("POST /base/api/v1/query HTTP/1.1\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nquery=sum%28rate%28x%7Ba%3D%22b%26c%22%7D%5B5m%5D%29%29+%3E+bool+0&timeout=4s"), "{sent}");
    let [sent] = &webhook.seen()[..] else { panic!("{:?}", webhook.seen()) };
    assert!(sent.starts_with("POST /gate HTTP/1.1\r\n") && !sent.to_lowercase().contains("authorization"), "{sent}");
    let body: serde_json::Value = serde_json::from_str(sent.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let wanted = serde_json::json!({
        "namespace": "shop", "deployment": "web", "revision": 3, "templateHash": "abc12", "step": 2, "query": question("").query,
    });
    assert_eq!(body, wanted);
}

#[tokio::test]
async fn a_forbidden_query_or_one_without_a_provider_opens_no_connection() {
    let stub = Stub::start(Does::Answers(sample("1")), None).await;
    let place = format!("http://{}", stub.address);
    let elsewhere = format!("{{name: elsewhere, kind: prometheus, url: '{place}', namespaces: [pay], allowLoopback: true}}");
    let far = format!("{{name: far, kind: prometheus, url: '{place}', namespaces: ['*']}}");
    let named = format!(
        "{{name: named, kind: prometheus, url: 'http://localhost:{}', namespaces: ['*'], allowLinkLocal: true}}",
        stub.address.port()
    );
    let mapped = format!("{{name: mapped, kind: webhook, url: 'http://[::ffff:127.0.0.1]:{}', namespaces: ['*']}}", stub.address.port());
    let providers = Site::new().open(&[elsewhere, far, named, mapped]);
    assert_eq!(asked(&providers, "nobody").await, Err(NoAnswer::UnknownProvider));
    assert_eq!(asked(&providers, "").await, Err(NoAnswer::UnknownProvider));
    assert_eq!(asked(&providers, "elsewhere").await, Err(NoAnswer::NotAllowed));
    for name in ["far", "named", "mapped"] {
        assert_eq!(asked(&providers, name).await, Err(NoAnswer::AddressRefused), "{name}");
    }
    assert_eq!(stub.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn an_invalid_answer_is_reported_in_a_word() {
    let target = Stub::start(Does::Answers(sample("1")), None).await;
    let redirect = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{}/\r\nContent-Length: 0\r\n\r\n", target.address);
    let long = ok(&" ".repeat(ANSWER_BYTES_MAX + 1));
    let endless =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", format!("1000\r\n{}\r\n", " ".repeat(4096)).repeat(17));
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(2 * ANSWER_BYTES_MAX));
    for (does, wanted) in [
        (Does::Answers(redirect), NoAnswer::Redirected),
        (Does::Answers("HTTP/1.1 503 Unavailable\r\nContent-Length: 6\r\n\r\nsecret".to_owned()), NoAnswer::ErrorStatus),
        (Does::Answers(long), NoAnswer::TooLong),
        (Does::Hangs(endless), NoAnswer::TooLong),
        (Does::Answers(head), NoAnswer::TooLong),
        (Does::Answers(ok("<html>")), NoAnswer::NotANumber),
        (Does::Answers(ok("")), NoAnswer::NotANumber),
        (Does::Answers(sample("NaN")), NoAnswer::NotFinite),
        (Does::Answers(ok(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#)), NoAnswer::NoSample),
        (Does::Answers("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut".to_owned()), NoAnswer::Unreachable),
        (Does::Answers("220 smtp\r\n".to_owned()), NoAnswer::Unreachable),
        (Does::Answers(String::new()), NoAnswer::Unreachable),
    ] {
        let stub = Stub::start(does, None).await;
        let providers = Site::new().open(&[near("prod", "prometheus", format!("http://{}", stub.address), "")]);
        assert_eq!(asked(&providers, "prod").await, Err(wanted));
        assert_eq!(stub.seen().len(), 1, "{wanted:?}");
    }
    assert_eq!(target.seen().len(), 0, "no redirect is followed");
    let closed = { TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port").local_addr().expect("an address") };
    let providers = Site::new().open(&[near("prod", "prometheus", format!("http://{closed}"), "")]);
    assert_eq!(asked(&providers, "prod").await, Err(NoAnswer::Unreachable));
}

#[tokio::test]
async fn who_is_slow_is_left_in_time_whatever_has_come_by_then() {
    for sent in [String::new(), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_owned()] {
        let stub = Stub::start(Does::Hangs(sent), None).await;
        let providers = Site::new().open(&[near("prod", "prometheus", format!("http://{}", stub.address), "")]);
        let began = Instant::now();
        assert_eq!(asked(&providers, "prod").await, Err(NoAnswer::TimedOut));
        assert!(ANSWER_WITHIN <= began.elapsed());
    }
}

/// A certificate authority, and a server with a certificate of it for this name.
fn authority(name: &str) -> (String, TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new([name.to_owned()]).expect("a name").signed_by(&key, &issuer).expect("a certificate");
    let private = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("they belong together");
    (issuer.pem(), TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn a_server_proves_who_it_is_before_it_gets_a_secret_and_each_gets_its_own_alone() {
    let ((ca, localhost), (other_ca, other)) = (authority("localhost"), authority("elsewhere.example"));
    let good = Stub::start(Does::Answers(sample("1")), Some(localhost)).await;
    let imposter = Stub::start(Does::Answers(sample("1")), Some(other)).await;
    let plain = Stub::start(Does::Answers(ok(r#"{"value": 1}"#)), None).await;
    let site = Site::new();
    site.file("ca.pem", &ca).file("other.pem", &other_ca).file("token", "s3cret\n").file("password", "pa:ss");
    let at = |stub: &Stub| format!("https://localhost:{}", stub.address.port());
    let providers = site.open(&[
        near("good", "prometheus", at(&good), ", caFile: ca.pem, bearerTokenFile: token"),
        near("basic", "prometheus", at(&good), ", caFile: ca.pem, basicAuth: {username: berth, passwordFile: password}"),
        near("unknown", "prometheus", at(&good), ", caFile: other.pem, bearerTokenFile: token"),
        near("native", "prometheus", at(&good), ", bearerTokenFile: token"),
        near("misnamed", "prometheus", at(&imposter), ", caFile: other.pem, bearerTokenFile: token"),
        near("plain", "webhook", format!("http://{}", plain.address), ""),
    ]);
    assert_eq!(asked(&providers, "good").await, Ok(1.0));
    assert_eq!(asked(&providers, "basic").await, Ok(1.0));
    assert_eq!(asked(&providers, "plain").await, Ok(1.0));
    for name in ["unknown", "native", "misnamed"] {
        assert_eq!(asked(&providers, name).await, Err(NoAnswer::BadCertificate), "{name}");
    }
    assert_eq!(imposter.seen().len(), 0);
    let wanted = [Some("Bearer s3cret".to_owned()), Some("Basic YmVydGg6cGE6c3M=".to_owned())];
    assert_eq!(good.seen().iter().map(|sent| authorization(sent)).collect::<Vec<_>>(), wanted);
    assert_eq!(plain.seen().iter().map(|sent| authorization(sent)).collect::<Vec<_>>(), [None]);
}

fn authorization(sent: &str) -> Option<String> {
    let mut lines = sent.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(name, _)| name.eq_ignore_ascii_case("authorization")).map(|(_, value)| value.to_owned())
}

#[tokio::test]
async fn new_contents_of_the_files_apply_to_the_next_query() {
    let ((ca, localhost), (other_ca, _)) = (authority("localhost"), authority("localhost"));
    let good = Stub::start(Does::Answers(sample("1")), Some(localhost)).await;
    let plain = Stub::start(Does::Answers(ok(r#"{"value": 2}"#)), None).await;
    let site = Site::new();
    site.file("ca.pem", &ca).file("token", "s3cret\n").file("password", "pa:ss");
    let at = format!("https://localhost:{}", good.address.port());
    let bearer = near("bearer", "prometheus", &at, ", caFile: ca.pem, bearerTokenFile: token");
    let basic = near("basic", "prometheus", &at, ", caFile: ca.pem, basicAuth: {username: berth, passwordFile: password}");
    let (providers, clock) = site.follow(&[bearer.clone(), basic]);
    let last = || good.seen().last().and_then(|sent| authorization(sent));
    assert_eq!((asked(&providers, "bearer").await, last().as_deref()), (Ok(1.0), Some("Bearer s3cret")));

    site.file("token", "renewed");
    clock.advance().await;
    assert_eq!((asked(&providers, "bearer").await, last().as_deref()), (Ok(1.0), Some("Bearer renewed")));
    site.file("password", "new");
    clock.advance().await;
    assert_eq!((asked(&providers, "basic").await, last().as_deref()), (Ok(1.0), Some("Basic YmVydGg6bmV3")));

    site.file("ca.pem", &other_ca);
    clock.advance().await;
    assert_eq!(asked(&providers, "bearer").await, Err(NoAnswer::BadCertificate));
    site.file("ca.pem", &format!("{other_ca}{ca}"));
    clock.advance().await;
    assert_eq!(asked(&providers, "bearer").await, Ok(1.0));

    assert_eq!(asked(&providers, "gate").await, Err(NoAnswer::UnknownProvider));
    site.providers(&[bearer.clone(), near("gate", "webhook", format!("http://{}", plain.address), "")]);
    clock.advance().await;
    assert_eq!((asked(&providers, "gate").await, asked(&providers, "bearer").await), (Ok(2.0), Ok(1.0)));
    assert_eq!(asked(&providers, "basic").await, Err(NoAnswer::UnknownProvider));
    site.providers(&[bearer.replace("[shop]", "[pay]")]);
    clock.advance().await;
    assert_eq!(asked(&providers, "bearer").await, Err(NoAnswer::NotAllowed));
}

#[tokio::test]
async fn a_file_that_has_become_invalid_keeps_the_old_providers_and_is_reported_once_as_is_its_recovery() {
    LazyLock::force(&LOG);
    let stub = Stub::start(Does::Answers(sample("1")), None).await;
    let site = Site::new();
    site.file("token", "s3cret");
    let good = near("prod", "prometheus", format!("http://{}", stub.address), ", bearerTokenFile: token");
    let (providers, clock) = site.follow(std::slice::from_ref(&good));
    let bad = "FOLDER/providers.yaml: providers[0].url: must begin with https:// or http://; providers[0].namespaces: no namespace may use it; \"*\" allows all";
    let bad = format!(" WARN berth_analysis::follow: keeping the previous analysis providers: {bad}");
    let mended = " WARN berth_analysis::follow: FOLDER/providers.yaml: fixed and reloaded: berth uses its analysis providers from now on";
    let mut told = Vec::new();
    for (wrong, why) in [
        ("providers: [{name: prod, kind: prometheus, url: 'ftp://a', namespaces: []}]".to_owned(), Some(bad.as_str())),
        ("providers: {".to_owned(), None),
        (format!("providers: [{}]", good.replace("bearerTokenFile: token", "basicAuth: {user: s3cret}")), None),
        (format!("providers: [{}]", good.replace("token", "gone")), None),
    ] {
        site.file("providers.yaml", &wrong);
        clock.advance().await;
        assert_eq!(site.warnings(), told, "it may be half written");
        for _ in 0..3 {
            clock.advance().await;
        }
        let line = site.warnings().last().cloned().unwrap_or_default();
        assert!(why.is_none_or(|why| why == line), "{line}");
        assert!(line.contains("keeping the previous analysis providers: FOLDER/providers.yaml") && !line.contains("s3cret"), "{line}");
        told.push(line);
        assert_eq!(site.warnings(), told, "once");
        assert_eq!((asked(&providers, "prod").await, asked(&providers, "gate").await), (Ok(1.0), Err(NoAnswer::UnknownProvider)));
    }
    site.providers(&[good.replace("prod", "gate")]);
    clock.advance().await;
    told.push(mended.to_owned());
    assert_eq!((site.warnings(), asked(&providers, "gate").await), (told.clone(), Ok(1.0)));

    // A file in the configuration.
    fs::remove_file(site.0.path().join("token")).expect("it was there");
    for _ in 0..3 {
        clock.advance().await;
    }
    let line = site.warnings().last().cloned().unwrap_or_default();
    let gone =
        "keeping the previous analysis providers: FOLDER/providers.yaml: providers[0].bearerTokenFile: could not read FOLDER/token: ";
    assert!(line.contains(gone) && asked(&providers, "gate").await == Ok(1.0), "{line}");
    site.file("token", "s3cret");
    clock.advance().await;
    told.push(line);
    told.push(" WARN berth_analysis::follow: FOLDER/providers.yaml: contains the current analysis providers again".to_owned());
    assert_eq!(site.warnings(), told);
    assert!(stub.seen().iter().all(|sent| authorization(sent).as_deref() == Some("Bearer s3cret")));
    let log = String::from_utf8_lossy(&LOG.0.lock().expect("no holder panics")).into_owned();
    assert!(!log.contains("s3cret"), "no secret is logged, however much is");
}

#[tokio::test]
async fn who_is_being_asked_is_asked_to_the_end_as_that_began() {
    let told = Arc::new(Semaphore::new(0));
    let stub = Stub::start(Does::Waits(sample("1"), Arc::clone(&told)), None).await;
    let site = Site::new();
    let (providers, clock) = site.follow(&[near("prod", "prometheus", format!("http://{}", stub.address), "")]);
    let asking = tokio::spawn({
        let providers = Arc::clone(&providers);
        async move { asked(&providers, "prod").await }
    });
    stub.seen_one().await;
    site.providers(&[]);
    clock.advance().await;
    assert_eq!(asked(&providers, "prod").await, Err(NoAnswer::UnknownProvider));
    told.add_permits(1);
    assert_eq!(asking.await.expect("it ends"), Ok(1.0));
}

#[tokio::test]
async fn a_provider_that_refuses_the_credentials_is_distinguished() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let stub = Stub::start(Does::Answers(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")), None).await;
        let providers = Site::new().open(&[near("prod", "prometheus", format!("http://{}", stub.address), "")]);
        assert_eq!(asked(&providers, "prod").await, Err(NoAnswer::BadCredentials));
    }
}
