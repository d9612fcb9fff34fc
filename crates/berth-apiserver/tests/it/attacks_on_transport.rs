//! Invalid HTTP and TLS, and faults of the server itself.

use crate::common::{MachineClock, MachineRng, Protocol, TestServer, connect};
use berth_api::FeatureGates;
use berth_registry::{Registry, ResourceTable};
use berth_store::{
    DEFAULT_HISTORY_BYTES, Entry, Health, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError,
};
use futures::future::BoxFuture;
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Longer than any operation here, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends these bytes. Returns everything that the server sends before it closes the connection.
async fn response_to(server: &TestServer, bytes: &str) -> String {
    let mut stream = connect(server, Some(&server.pki.admin), Protocol::Http1).await;
    stream.write_all(bytes.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // A connection that closes without a TLS alert is closed too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes the connection");
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn a_request_whose_end_is_in_doubt_is_refused_and_nothing_behind_it_is_read() {
    let server = TestServer::start().await;
    let inner = format!("DELETE {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let outer = |headers: &str, body: &str| {
        format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n\r\n{body}{inner}")
    };
    for (headers, body) in [
        ("content-length: 5\r\ntransfer-encoding: chunked", "0\r\n\r\n"),
        ("transfer-encoding: chunked\r\ncontent-length: 5", "0\r\n\r\n"),
        ("content-length: 2\r\ncontent-length: 3", "{} "),
        ("content-length: 2, 3", "{} "),
        ("content-length: +2", "{}"),
        ("content-length: -2", "{}"),
        ("content-length: 0x2", "{}"),
        ("content-length: 18446744073709551618", "{}"),
        ("transfer-encoding: xchunked", "0\r\n\r\n"),
        ("transfer-encoding: chunked, identity", "0\r\n\r\n"),
        ("transfer-encoding: identity", ""),
        ("transfer-encoding: chunked", "2;\r\r\n{}\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", "0x2\r\n{}\r\n0\r\n\r\n"),
        ("transfer-encoding: chunked", "10000000000000002\r\n{}\r\n0\r\n\r\n"),
        ("transfer-encoding : chunked", "0\r\n\r\n"),
        ("x: y\r\n folded: z\r\ncontent-length: 2", "{}"),
        ("x\0: y\r\ncontent-length: 2", "{}"),
        ("content-length\r: 2", "{}"),
    ] {
        let response = response_to(&server, &outer(headers, body)).await;
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{headers:?}: {response}");
        assert!(response.starts_with("HTTP/1.1 4"), "{headers:?}: {response}");
    }
}

#[tokio::test]
async fn lines_that_are_no_http_are_refused() {
    let server = TestServer::start().await;
    for bytes in [
        "GET / HTTP/0.9\r\n\r\n",
        "GET / HTTP/3.0\r\nhost: localhost\r\n\r\n",
        "GET  / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /\u{0}/x HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nhost localhost\r\n\r\n",
        "G\u{1}T / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        let response = response_to(&server, bytes).await;
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{bytes:?}: {response}");
    }
}

#[tokio::test]
async fn tls_older_than_1_2_is_refused() {
    let server = TestServer::start().await;
    for version in [[3, 0], [3, 1], [3, 2]] {
        // A ClientHello with two supported suites, signature algorithms, groups and point formats.
        let mut hello = version.to_vec();
        hello.extend_from_slice(&[7; 32]);
        hello.extend_from_slice(&[0, 0, 4, 0, 0x2f, 0xc0, 0x2b, 1, 0]);
        hello.extend_from_slice(&[0, 22, 0, 13, 0, 4, 0, 2, 4, 3, 0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0]);
        let length = u8::try_from(hello.len()).expect("short");
        let record = [&[0x16, 3, 1, 0, length + 4, 1, 0, 0, length][..], &hello].concat();
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        stream.write_all(&record).await.expect("sent");
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed").expect("readable");
        assert_eq!((answer.first(), answer.last()), (Some(&0x15), Some(&70)), "an alert, protocol_version: {answer:?}");
    }
}

/// A store that panics for keys with `panic` in them, and has the health that the test sets.
struct Brittle(MemoryStore, Mutex<Health>);

fn touch(key: &Key) {
    assert!(!key.as_str().contains("panic"), "as asked");
}

impl Store for Brittle {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.0.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        touch(key);
        self.0.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.0.range(request)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        writes.iter().for_each(|write| touch(&write.key));
        self.0.commit(writes)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.0.watch(prefix, after)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.0.compact(prefix, revision)
    }

    fn health(&self) -> Health {
        self.1.lock().expect("no holder panics").clone()
    }
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_reported_by_health_endpoints() {
    let table = Arc::new(ResourceTable::default());
    let store = Arc::new(Brittle(MemoryStore::new(Arc::clone(&table), DEFAULT_HISTORY_BYTES), Mutex::new(Health::Ready)));
    let of = Arc::<Brittle>::clone(&store);
    let registry = Registry::new(of, table, Arc::new(MachineClock), Arc::new(MachineRng), Arc::new(FeatureGates::default()));
    registry.bootstrap().await.expect("an empty store takes the first objects");
    let server = TestServer::start_changed(|config| config.registry = registry).await;
    let mut client = server.admin().await;
    let cause = || "no space is left".to_owned();
    for (health, codes) in
        [(Health::Refusing { cause: cause() }, [500, 200]), (Health::Ended { cause: cause() }, [500, 500]), (Health::Ready, [200, 200])]
    {
        let is_well = health == Health::Ready;
        *store.1.lock().expect("no holder panics") = health.clone();
        let found = [client.get("/readyz").await.code.as_u16(), client.get("/livez").await.code.as_u16()];
        assert_eq!(found, codes, "{health:?}");
        let why = client.get("/readyz/store-readiness").await.text();
        assert_eq!(why, if is_well { "ok" } else { "internal server error: no space is left\n" }, "{health:?}");
    }
}

#[tokio::test]
async fn a_panic_is_one_answer_500_and_the_server_goes_on() {
    let table = Arc::new(ResourceTable::default());
    let store = Arc::new(Brittle(MemoryStore::new(Arc::clone(&table), DEFAULT_HISTORY_BYTES), Mutex::new(Health::Ready)));
    let registry = Registry::new(store, table, Arc::new(MachineClock), Arc::new(MachineRng), Arc::new(FeatureGates::default()));
    registry.bootstrap().await.expect("an empty store takes the first objects");
    let server = TestServer::start_changed(|config| config.registry = registry).await;
    let mut client = server.admin().await;
    for _ in 0..2 {
        let answer = client.get(&format!("{CONFIG_MAPS}/panic")).await;
        let status = answer.json();
        assert_eq!((answer.code.as_u16(), &status["kind"], &status["reason"]), (500, &json!("Status"), &json!("InternalError")));
        assert!(!answer.text().contains("as asked"), "what went wrong is the log's: {}", answer.text());
        let answer = client.post(CONFIG_MAPS, &json!({"metadata": {"name": "panic"}})).await;
        assert_eq!(answer.code, 500);
    }
    let metrics = client.get("/metrics").await.text();
    assert!(metrics.contains(r#"apiserver_current_inflight_requests{request_kind="mutating"} 0"#), "{metrics}");
    assert_eq!(client.post(CONFIG_MAPS, &json!({"metadata": {"name": "calm"}})).await.code, 201);
}
