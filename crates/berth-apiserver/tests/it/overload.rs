//! What a server does with more than it can answer, and with clients that take or give too slowly.

use crate::common::{Client, Log, Protocol, TestServer, connect, next_line};
use berth_apiserver::{Limits, auth::User, pki::Pair};
use futures::future::join_all;
use hyper::Method;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Longer than anything here takes, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(50);

/// Sends the head of a POST whose body never comes; the connection.
async fn stalled_post(server: &TestServer, certificate: Option<&Pair>, headers: &str) -> TlsStream<TcpStream> {
    let mut stream = connect(server, certificate, Protocol::Http1).await;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

/// The text that comes until nothing more does.
async fn read_head(stream: &mut TlsStream<TcpStream>) -> String {
    let mut head = Vec::new();
    let read = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        Ok::<_, std::io::Error>(())
    };
    timeout(PATIENCE, read).await.expect("an answer").expect("a whole head");
    String::from_utf8(head).expect("text")
}

async fn ends(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut rest = Vec::new();
    // An end without a goodbye is an end too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server closes the connection");
}

/// The value of a metric, by its name and labels as they are written.
async fn metric(server: &TestServer, series: &str) -> u64 {
    let text = server.admin().await.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{series} in {text}"));
    line.trim().parse().expect("a number")
}

async fn wait_for_metric(server: &TestServer, series: &str, value: u64) {
    let reached = async {
        while metric(server, series).await != value {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{series} never becomes {value}"));
}

const EXECUTING: &str = r#"apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="mutating"}"#;

#[tokio::test]
async fn a_user_that_takes_all_it_can_does_not_keep_others_out() {
    let server = TestServer::start_limited(Limits { mutating_requests_inflight: 4, queue_wait: SOON, ..Limits::default() }).await;
    server.let_edit("editors").await;
    let alice = server.certificate("alice", &["editors"]);
    let mut stalled = Vec::new();
    for _ in 0..3 {
        stalled.push(stalled_post(&server, Some(&alice), "content-length: 10").await);
    }
    wait_for_metric(&server, EXECUTING, 3).await;

    let mut client = Client::connect(&server, Some(&alice), Protocol::Http1).await;
    let refused = client.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(refused.code, 429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(refused.text(), "Too many requests, please try again later.\n");
    assert!(refused.header("x-kubernetes-pf-flowschema-uid").is_some() && refused.header("x-kubernetes-pf-prioritylevel-uid").is_some());

    for name in ["b", "c"] {
        let answer = server.user("bob", &["editors"]).await.post(CONFIG_MAPS, &json!({"metadata": {"name": name}})).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
    }
    assert_eq!(client.get(CONFIG_MAPS).await.code, 200, "reads have their own seats");
    let rejected =
        r#"apiserver_flowcontrol_rejected_requests_total{flow_schema="global-default",priority_level="mutating",reason="time-out"}"#;
    assert_eq!(metric(&server, rejected).await, 1);

    drop(stalled);
    wait_for_metric(&server, EXECUTING, 0).await;
    assert_eq!(client.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await.code, 201);
}

#[tokio::test]
async fn administrators_and_health_checks_get_in_whatever_others_do() {
    let limits = Limits { mutating_requests_inflight: 1, requests_inflight: 1, queue_wait: SOON, ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    server.let_edit("editors").await;
    let mut stalled = stalled_post(&server, Some(&server.certificate("alice", &["editors"])), "transfer-encoding: chunked").await;
    wait_for_metric(&server, EXECUTING, 1).await;
    assert_eq!(server.user("bob", &["editors"]).await.post(CONFIG_MAPS, &json!({})).await.code, 429);
    assert_eq!(server.admin().await.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await.code, 201);
    assert_eq!(server.nobody().await.get("/readyz").await.code, 200);
    stalled.write_all(b"2\r\n{}\r\n0\r\n\r\n").await.expect("sent");
    assert!(read_head(&mut stalled).await.starts_with("HTTP/1.1 422"), "what waited for its body goes on");
}

#[tokio::test]
async fn who_may_not_is_told_so_before_the_body_is_read() {
    let server = TestServer::start().await;
    let mallory = server.certificate("mallory", &[]);
    for (certificate, headers, code) in [
        (Some(&mallory), "content-length: 1000", "403"),
        (Some(&mallory), "content-length: 99999999999", "403"),
        (Some(&mallory), "transfer-encoding: chunked", "403"),
        (None, "content-length: 1000\r\nauthorization: Bearer wrong", "401"),
        (None, "content-length: 1000", "403"),
    ] {
        let mut stream = stalled_post(&server, certificate, headers).await;
        let head = read_head(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{headers}: {head}");
    }
    // Nor is what it says looked at.
    let mut mallory = Client::connect(&server, Some(&mallory), Protocol::Http1).await;
    for content_type in ["application/json", "text/plain"] {
        let answer = mallory.send(Method::POST, CONFIG_MAPS, &[("content-type", content_type)], "{").await;
        assert_eq!(answer.code, 403, "{content_type}");
    }
    assert_eq!(mallory.get("/apis/nope/v1/things").await.code, 403);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_504() {
    let server = TestServer::start_limited(Limits { request_timeout: SOON, ..Limits::default() }).await;
    let mut stream = stalled_post(&server, Some(&server.pki.admin.clone()), "content-length: 10").await;
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
    assert_eq!(server.admin().await.get(CONFIG_MAPS).await.code, 200);
    let mut watcher = server.admin().await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0");
    assert_eq!(watcher.get(&path).await.code, 200, "a watch may take longer");
}

#[tokio::test]
async fn watches_of_a_user_are_bounded() {
    let server = TestServer::start_limited(Limits { watches_per_user: 1, ..Limits::default() }).await;
    server.let_edit("editors").await;
    let path = &format!("{CONFIG_MAPS}?watch=true");
    let mut first = server.user("alice", &["editors"]).await;
    let mut open = first.open(Method::GET, path, &[], "").await.into_body();
    let refused = server.user("alice", &["editors"]).await.get(path).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, Some("1")));
    let mut other = server.user("bob", &["editors"]).await.open(Method::GET, path, &[], "").await.into_body();
    server.admin().await.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}})).await;
    for watch in [&mut open, &mut other] {
        while next_line(watch).await.expect("an event")["object"]["metadata"]["name"] != "c" {}
    }
    drop((open, first));
    let again = async { while server.user("alice", &["editors"]).await.open(Method::GET, path, &[], "").await.status() != 200 {} };
    timeout(PATIENCE, again).await.expect("a watch that ended makes room");
}

#[tokio::test]
async fn connections_of_a_user_are_bounded() {
    let server = TestServer::start_limited(Limits { connections_per_user: 1, ..Limits::default() }).await;
    let alice = server.certificate("alice", &[]);
    let mut first = Client::connect(&server, Some(&alice), Protocol::Http1).await;
    assert_eq!(first.get("/version").await.code, 200);
    ends(&mut connect(&server, Some(&alice), Protocol::Http1).await).await;
    let (mut second, mut third) = (server.user("bob", &[]).await, server.nobody().await);
    assert_eq!((second.get("/version").await.code.as_u16(), third.get("/version").await.code.as_u16()), (200, 200));
    assert_eq!(first.get("/version").await.code, 200);
}

#[tokio::test]
async fn strangers_shut_nobody_out_who_proves_who_they_are() {
    let token = [("authorization", "Bearer secret")];
    let server = TestServer::start_changed(|config| {
        config.limits = Limits { connections: 8, ..Limits::default() };
        config.access.tokens = vec![("secret".to_owned(), User::authenticated("carol", &[]))];
    })
    .await;
    let mut alice = server.user("alice", &[]).await;
    assert_eq!(alice.get("/version").await.code, 200);
    let mut carol = server.nobody().await;
    assert_eq!(carol.send(Method::GET, "/version", &token, "").await.code, 200);
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(TcpStream::connect(server.address).await.expect("it listens"));
        strangers.push(connect(&server, None, Protocol::Http2).await.into_inner().0);
        // Idle is who has been answered, too.
        assert_eq!(server.nobody().await.get("/version").await.code, 200);
        // Somebody else comes.
        assert_eq!(server.user("bob", &[]).await.get("/version").await.code, 200);
    }
    for stranger in &mut strangers[..4] {
        ends(stranger).await;
    }
    assert_eq!(alice.get("/version").await.code, 200, "who is known stays");
    assert_eq!(carol.send(Method::GET, "/version", &token, "").await.code, 200, "with a token, too");
}

#[tokio::test]
async fn failed_handshakes_are_told_of_once_a_second() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // Of this thread, which is the server's too.
    let _listening = tracing::subscriber::set_default(subscriber);
    let server = TestServer::start().await;
    let begun = Instant::now();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
        ends(&mut stream).await;
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("not long");
    let text = String::from_utf8(log.0.lock().expect("nobody panicked").clone()).expect("text");
    let lines = text.lines().filter(|line| line.contains("a TLS handshake failed")).count();
    assert!((1..=2 + seconds).contains(&lines), "{seconds} s: {text}");
}

#[tokio::test]
async fn connections_on_which_nothing_is_asked_are_closed() {
    let limits = Limits { handshake_timeout: SOON, head_timeout: SOON, idle_timeout: 4 * SOON, ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    // Before TLS, inside a record of it, before a request, inside the head of one.
    ends(&mut TcpStream::connect(server.address).await.expect("it listens")).await;
    let mut plain = TcpStream::connect(server.address).await.expect("it listens");
    plain.write_all(b"\x16\x03\x01").await.expect("sent");
    ends(&mut plain).await;
    let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let beginnings: [(Protocol, &[u8]); 5] = [
        (Protocol::Http1, b""),
        (Protocol::Http1, b"GET / HT"),
        (Protocol::Http2, b""),
        (Protocol::Http2, b"PRI * HT"),
        (Protocol::Http2, http2),
    ];
    join_all(beginnings.map(async |(protocol, beginning)| {
        let mut stream = connect(&server, None, protocol).await;
        stream.write_all(beginning).await.expect("sent");
        ends(&mut stream).await;
    }))
    .await;
}
