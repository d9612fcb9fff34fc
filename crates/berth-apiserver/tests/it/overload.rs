//! Overload, and clients that read or send too slowly.

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
/// Longer than any operation here, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(50);

/// Sends the head of a POST whose body never follows. Returns the connection.
async fn stalled_post(server: &TestServer, certificate: Option<&Pair>, headers: &str) -> TlsStream<TcpStream> {
    let mut stream = connect(server, certificate, Protocol::Http1).await;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

/// Reads until the other side sends nothing more.
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
    // A connection that closes without a TLS alert is closed too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server closes the connection");
}

/// Returns the value of a metric series in its text form.
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
    assert_eq!(server.anonymous().await.get("/readyz").await.code, 200);
    stalled.write_all(b"2\r\n{}\r\n0\r\n\r\n").await.expect("sent");
    assert!(read_head(&mut stalled).await.starts_with("HTTP/1.1 422"), "what waited for its body goes on");
}

#[tokio::test]
async fn requests_without_permission_are_refused_before_their_body_is_read() {
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
    // Its body is not decoded either.
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
    let (mut second, mut third) = (server.user("bob", &[]).await, server.anonymous().await);
    assert_eq!((second.get("/version").await.code.as_u16(), third.get("/version").await.code.as_u16()), (200, 200));
    assert_eq!(first.get("/version").await.code, 200);
}

#[tokio::test]
async fn anonymous_connections_shut_out_no_authenticated_client() {
    let token = [("authorization", "Bearer secret")];
    let server = TestServer::start_changed(|config| {
        config.limits = Limits { connections: 8, ..Limits::default() };
        config.access.tokens = vec![("secret".to_owned(), User::authenticated("carol", &[]))];
    })
    .await;
    let mut alice = server.user("alice", &[]).await;
    assert_eq!(alice.get("/version").await.code, 200);
    let mut carol = server.anonymous().await;
    assert_eq!(carol.send(Method::GET, "/version", &token, "").await.code, 200);
    let mut strangers = Vec::new();
    for _ in 0..4 {
        strangers.push(TcpStream::connect(server.address).await.expect("it listens"));
        strangers.push(connect(&server, None, Protocol::Http2).await.into_inner().0);
        // A client that has its response is idle too.
        assert_eq!(server.anonymous().await.get("/version").await.code, 200);
        // Another client connects.
        assert_eq!(server.user("bob", &[]).await.get("/version").await.code, 200);
    }
    for stranger in &mut strangers[..4] {
        ends(stranger).await;
    }
    assert_eq!(alice.get("/version").await.code, 200, "who is known stays");
    assert_eq!(carol.send(Method::GET, "/version", &token, "").await.code, 200, "with a token, too");
}

#[tokio::test]
async fn failed_handshakes_are_logged_once_a_second() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // The subscriber of this thread, which runs the server too.
    let _listening = tracing::subscriber::set_default(subscriber);
    let server = TestServer::start().await;
    let begun = Instant::now();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
        ends(&mut stream).await;
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("not long");
    let text = String::from_utf8(log.0.lock().expect("no holder panics").clone()).expect("text");
    let lines = text.lines().filter(|line| line.contains("a TLS handshake failed")).count();
    assert!((1..=2 + seconds).contains(&lines), "{seconds} s: {text}");
}

#[tokio::test]
async fn connections_on_which_nothing_is_asked_are_closed() {
    let limits = Limits { handshake_timeout: SOON, head_timeout: SOON, idle_timeout: 4 * SOON, ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    // Before TLS, inside a TLS record, before a request, and inside the head of a request.
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

const READING: &str = r#"apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="readonly"}"#;

/// Lists, then watches with bookmarks, as informers do. Returns the watch.
async fn inform(client: &mut Client, path: &str) -> hyper::Response<hyper::body::Incoming> {
    let list = client.get(path).await;
    assert_eq!(list.code, 200, "{}", list.text());
    let version = list.json()["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={version}");
    client.open(Method::GET, &format!("{path}?{query}"), &[], "").await
}

#[tokio::test]
async fn informers_leave_the_seats_of_reads_to_the_others() {
    let server = TestServer::start_limited(Limits { requests_inflight: 4, queue_wait: SOON, ..Limits::default() }).await;
    server.let_edit("editors").await;
    let mut clients = Vec::new();
    let mut watches = Vec::new();
    for name in ["alice", "carol"] {
        let mut client = Client::connect(&server, Some(&server.certificate(name, &["editors"])), Protocol::Http2).await;
        for _ in 0..100 {
            let watch = inform(&mut client, CONFIG_MAPS).await;
            assert_eq!(watch.status(), 200, "{name}, {} are open", watches.len());
            watches.push(watch.into_body());
        }
        clients.push(client);
    }
    assert_eq!(metric(&server, READING).await, 0, "a watch that has begun holds no seat");
    let mut bob = server.user("bob", &["editors"]).await;
    assert_eq!(bob.get(CONFIG_MAPS).await.code, 200);
    assert_eq!(bob.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}})).await.code, 201);
    for watch in &mut watches {
        assert_eq!(next_line(watch).await.expect("an event")["object"]["metadata"]["name"], "c");
    }
    assert_eq!(metric(&server, READING).await, 0, "nor when it has shown something");
    // The watches end, and all clients list again.
    watches.clear();
    for client in &mut clients {
        assert_eq!(inform(client, CONFIG_MAPS).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_watches_of_a_user_are_open_and_no_more() {
    const WATCHES: usize = 10_000;
    let server = TestServer::start().await;
    server.let_edit("editors").await;
    let alice = server.certificate("alice", &["editors"]);
    let path = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion=1&fieldSelector=metadata.name%3Dc");
    let open = async || {
        let mut client = Client::connect(&server, Some(&alice), Protocol::Http2).await;
        let mut bodies = Vec::new();
        for _ in 0..250 {
            let watch = client.open(Method::GET, &path, &[], "").await;
            assert_eq!(watch.status(), 200);
            bodies.push(watch.into_body());
        }
        (client, bodies)
    };
    let held = join_all((0..WATCHES / 250).map(|_| open())).await;
    let mut more = Client::connect(&server, Some(&alice), Protocol::Http2).await;
    assert_eq!(more.open(Method::GET, &path, &[], "").await.status(), 429);
    assert_eq!(more.get(CONFIG_MAPS).await.code, 200, "its other requests go on");
    let mut bob = server.user("bob", &["editors"]).await;
    assert_eq!(bob.get(CONFIG_MAPS).await.code, 200);
    assert_eq!(inform(&mut bob, CONFIG_MAPS).await.status(), 200);
    assert_eq!(metric(&server, READING).await, 0);
    drop(held);
}

#[tokio::test]
async fn service_accounts_of_a_namespace_share_seats_watches_and_connections() {
    let limits =
        Limits { mutating_requests_inflight: 4, queue_wait: SOON, watches_per_user: 1, connections_per_user: 6, ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    server.let_edit("editors").await;
    let [a, b, other] =
        ["default:a", "default:b", "other:a"].map(|name| server.certificate(&format!("system:serviceaccount:{name}"), &["editors"]));
    let path = &format!("{CONFIG_MAPS}?watch=true");
    let mut clients = Vec::new();
    for (certificate, code) in [(&a, 200), (&b, 429), (&other, 200)] {
        let mut client = Client::connect(&server, Some(certificate), Protocol::Http2).await;
        let watch = client.open(Method::GET, path, &[], "").await;
        assert_eq!(watch.status(), code);
        clients.push((client, watch));
    }
    let mut stalled = Vec::new();
    for certificate in [&a, &b, &a] {
        stalled.push(stalled_post(&server, Some(certificate), "content-length: 10").await);
    }
    wait_for_metric(&server, EXECUTING, 3).await;
    let object = |name: &str| json!({"metadata": {"name": name}});
    let mut sixth = Client::connect(&server, Some(&b), Protocol::Http1).await;
    assert_eq!(sixth.post(CONFIG_MAPS, &object("b")).await.code, 429);
    assert_eq!(Client::connect(&server, Some(&other), Protocol::Http1).await.post(CONFIG_MAPS, &object("c")).await.code, 201);
    let mut seventh = connect(&server, Some(&a), Protocol::Http1).await;
    ends(&mut seventh).await;
    assert_eq!(sixth.get(CONFIG_MAPS).await.code, 200);
}

#[tokio::test]
async fn writes_are_charged_what_they_take_decoded() {
    let server = TestServer::start_limited(Limits { work_bytes: 4 << 20, queue_wait: SOON, ..Limits::default() }).await;
    server.let_edit("editors").await;
    let mut alice = server.user("alice", &["editors"]).await;
    let pods = "/api/v1/namespaces/default/pods?dryRun=All";
    let pod = |containers: usize| json!({"metadata": {"name": "p"}, "spec": {"containers": vec![json!({}); containers]}});
    let refused = alice.post(pods, &pod(1_000)).await;
    assert_eq!(refused.code, 413, "three kilobytes that come to three megabytes");
    assert_eq!(alice.post(pods, &pod(10)).await.code, 422);
    assert_eq!(server.admin().await.post(pods, &pod(1_000)).await.code, 422, "administrators are not counted");
    let text = "x".repeat(500_000);
    assert_eq!(
        alice.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}, "data": {"k": text}})).await.code,
        201,
        "a long text is not much more"
    );
    // The stored object needs more than the total, so the request gets the share of one user.
    let many: serde_json::Map<_, _> = (0..6_000).map(|at| (format!("k{at}"), json!("v"))).collect();
    assert_eq!(server.admin().await.post(CONFIG_MAPS, &json!({"metadata": {"name": "many"}, "data": many})).await.code, 201);
    let path = format!("{CONFIG_MAPS}/many");
    let patch = [("content-type", "application/merge-patch+json")];
    let patched = alice.send(Method::PATCH, &path, &patch, r#"{"data":{"k0":"w"}}"#).await;
    assert_eq!(patched.code, 200, "{}", patched.text());
    assert_eq!(alice.send(Method::DELETE, &path, &[], "").await.code, 200, "all can be deleted");
    let working = r#"apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="work"}"#;
    assert_eq!(metric(&server, working).await, 0, "all is given back");
}

#[tokio::test]
async fn selectors_of_watches_are_charged_until_they_end() {
    let server = TestServer::start_limited(Limits { selector_bytes: 20_000, ..Limits::default() }).await;
    server.let_edit("editors").await;
    // About 4 KB each.
    let selector = (0..20).map(|at| format!("key{at}%20notin%20(v)")).collect::<Vec<_>>().join(",");
    let path = format!("{CONFIG_MAPS}?watch=true&labelSelector={selector}");
    let connect = async |name: &str| Client::connect(&server, Some(&server.certificate(name, &["editors"])), Protocol::Http2).await;
    let (mut alice, mut bob) = (connect("alice").await, connect("bob").await);
    let first = [alice.open(Method::GET, &path, &[], "").await, alice.open(Method::GET, &path, &[], "").await];
    assert_eq!(first.each_ref().map(|watch| watch.status().as_u16()), [200, 200]);
    let refused = alice.get(&path).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, Some("1")));
    let other = bob.open(Method::GET, &path, &[], "").await;
    assert_eq!(other.status(), 200, "half is left to others");
    assert_eq!(inform(&mut alice, CONFIG_MAPS).await.status(), 200, "one without a selector");
    drop(first);
    let again = async { while alice.open(Method::GET, &path, &[], "").await.status() != 200 {} };
    timeout(PATIENCE, again).await.expect("what a watch that ended had is given back");
}

#[tokio::test]
async fn heads_of_requests_that_wait_are_charged() {
    let server = TestServer::start_limited(Limits { head_bytes: 100_000, ..Limits::default() }).await;
    server.let_edit("editors").await;
    let [alice, bob] = ["alice", "bob"].map(|name| server.certificate(name, &["editors"]));
    let long = format!("content-length: 10\r\nx-pad: {}", "x".repeat(40_000));
    let mut first = stalled_post(&server, Some(&alice), &long).await;
    wait_for_metric(&server, EXECUTING, 1).await;
    let mut second = stalled_post(&server, Some(&alice), &long).await;
    let refused = read_head(&mut second).await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    let mut strangers = stalled_post(&server, None, &format!("content-length: 10\r\nx-pad: {}", "x".repeat(90_000))).await;
    let refused = read_head(&mut strangers).await;
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    let pad = "x".repeat(25_000);
    let mut client = Client::connect(&server, Some(&bob), Protocol::Http1).await;
    assert_eq!(client.send(Method::GET, CONFIG_MAPS, &[("x-pad", &pad)], "").await.code, 200, "others have room");
    let mut client = Client::connect(&server, Some(&alice), Protocol::Http1).await;
    assert_eq!(client.get(CONFIG_MAPS).await.code, 200, "short heads are not counted");
    first.write_all(b"{}        ").await.expect("sent");
    assert!(read_head(&mut first).await.starts_with("HTTP/1.1 422"));
    assert_eq!(client.send(Method::GET, CONFIG_MAPS, &[("x-pad", &"x".repeat(40_000))], "").await.code, 200, "it is given back");
}

#[tokio::test]
async fn a_request_of_http1_names_exactly_one_host() {
    let server = TestServer::start().await;
    for (head, answer) in [
        ("GET /version HTTP/1.1\r\nhost: a\r\n", "HTTP/1.1 200"),
        ("GET /version HTTP/1.1\r\n", "HTTP/1.1 400"),
        ("GET /version HTTP/1.1\r\nhost: a\r\nHost: a\r\n", "HTTP/1.1 400"),
        ("GET https://a/version HTTP/1.1\r\n", "HTTP/1.1 400"),
        ("GET /version HTTP/1.0\r\n", "HTTP/1.0 200"),
    ] {
        let mut stream = connect(&server, None, Protocol::Http1).await;
        stream.write_all(format!("{head}\r\nGET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.expect("sent");
        let found = read_head(&mut stream).await;
        assert!(found.starts_with(answer), "{head}: {found}");
        if answer.ends_with("400") {
            let mut rest = Vec::new();
            let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("nothing behind it is read");
            assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1 200"));
        }
    }
}

#[tokio::test]
async fn a_stop_waits_for_no_stranger() {
    let server = TestServer::start().await;
    let silent = TcpStream::connect(server.address).await.expect("it listens");
    let mut half = connect(&server, None, Protocol::Http1).await;
    half.write_all(b"GET /version HTTP/1.1\r\nhost:").await.expect("sent");
    let body = stalled_post(&server, None, "content-length: 10").await;
    // The server is handling each of them.
    assert_eq!(server.anonymous().await.get("/version").await.code, 200);
    let begun = Instant::now();
    server.stop().await.expect("no panic");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop((silent, half, body));
}
