//! Attacks over HTTP/2, frame by frame: the server limits or closes each connection, and serves another client at once.

use crate::common::{Client, Protocol, TestServer, connect};
use berth_apiserver::{Limits, pki::Pair};
use hyper::Method;
use serde_json::json;
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Longer than any operation here, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);
/// More than any limit of the server.
const MANY: u32 = 20_000;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

const INITIAL_WINDOW_SIZE: u16 = 4;
const CANCEL: u32 = 8;

#[derive(Clone, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns a header in HPACK, neither indexed nor compressed.
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        integer(&mut bytes, text.len());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Writes a length in HPACK: seven bits, then seven at a time.
fn integer(bytes: &mut Vec<u8>, mut value: usize) {
    let byte = |value: usize| u8::try_from(value).expect("seven bits");
    if value < 127 {
        return bytes.push(byte(value));
    }
    bytes.push(127);
    value -= 127;
    while 127 < value {
        bytes.push(0x80 | byte(value & 0x7f));
        value >>= 7;
    }
    bytes.push(byte(value));
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    pseudo.iter().chain(headers).flat_map(|(name, value)| header(name, value)).collect()
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &request("GET", path, &[]))
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// A connection that can send any frames.
struct Attacker {
    reader: ReadHalf<TlsStream<TcpStream>>,
    writer: WriteHalf<TlsStream<TcpStream>>,
}

impl Attacker {
    /// Connects and sends these settings.
    async fn connect(server: &TestServer, settings: &[u8]) -> Self {
        let (reader, mut writer) = split(connect(server, Some(&server.pki.admin), Protocol::Http2).await);
        let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, settings)[..]].concat();
        writer.write_all(&greeting).await.expect("sent");
        Self { reader, writer }
    }

    /// Connects with a window that allows only the heads of responses.
    async fn without_window(server: &TestServer, certificate: Option<&Pair>) -> Self {
        let (reader, writer) = split(connect(server, certificate, Protocol::Http2).await);
        let mut attacker = Self { reader, writer };
        let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 0))[..]].concat();
        attacker.send(&greeting).await;
        attacker
    }

    /// Reads the heads of this many responses.
    async fn heads(&mut self, count: u32) -> Vec<Vec<u8>> {
        let mut heads = Vec::new();
        for _ in 0..count {
            heads.push(self.wait_for(HEADERS).await.payload);
        }
        heads
    }

    /// Opens the window and reads this many short responses.
    async fn bodies(&mut self, count: u32) -> Vec<Frame> {
        self.send(&frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 65_535))).await;
        let mut bodies = Vec::new();
        for _ in 0..count {
            bodies.push(self.wait_for(DATA).await);
        }
        bodies
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.expect("sent");
    }

    async fn next(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.reader.read_exact(&mut head).await?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.reader.read_exact(&mut payload).await?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Ok(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Returns the next frame of this type.
    async fn wait_for(&mut self, kind: u8) -> Frame {
        let found = async {
            loop {
                let frame = self.next().await.expect("the connection is open");
                if frame.kind == kind {
                    return frame;
                }
            }
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no frame of kind {kind}"))
    }

    /// Sends floods without reading any response, until the server closes the connection. Returns whether it did.
    async fn cuts_off(mut self, mut flood: impl FnMut(u32) -> Vec<u8>) -> bool {
        let write = async {
            for number in 0..MANY {
                if self.writer.write_all(&flood(number)).await.is_err() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        let read = async {
            let mut bytes = vec![0; 1 << 16];
            while self.reader.read(&mut bytes).await.is_ok_and(|count| count != 0) {}
        };
        timeout(PATIENCE, async { futures::future::select(Box::pin(write), Box::pin(read)).await }).await.is_ok()
    }
}

/// Checks that another client is served at once.
async fn check_served(server: &TestServer) {
    let asked = async { server.admin().await.get(CONFIG_MAPS).await.code };
    assert_eq!(timeout(Duration::from_secs(5), asked).await.expect("at once"), 200);
}

async fn check_cut_off(settings: &[u8], flood: impl FnMut(u32) -> Vec<u8>) {
    let server = TestServer::start().await;
    let attacker = Attacker::connect(&server, settings).await;
    let (cut_off, ()) = futures::join!(attacker.cuts_off(flood), check_served(&server));
    assert!(cut_off);
    check_served(&server).await;
}

/// The streams of a client: 1, 3, 5, ….
fn stream(number: u32) -> u32 {
    2 * number + 1
}

#[tokio::test]
async fn rapid_resets_close_the_connection() {
    check_cut_off(&[], |number| [get(stream(number), CONFIG_MAPS), reset(stream(number))].concat()).await;
}

#[tokio::test]
async fn resets_that_the_server_is_made_to_send_close_the_connection() {
    // A window update of 0 is a stream error, which the server must answer with a reset.
    let no_growth = |stream| frame(WINDOW_UPDATE, 0, stream, &[0; 4]);
    check_cut_off(&[], |number| [get(stream(number), CONFIG_MAPS), no_growth(stream(number))].concat()).await;
}

#[tokio::test]
async fn data_behind_the_end_of_a_request_closes_the_connection() {
    check_cut_off(&[], |number| [get(stream(number), CONFIG_MAPS), frame(DATA, 0, stream(number), b"x")].concat()).await;
}

#[tokio::test]
async fn headers_that_never_end_close_the_connection() {
    let part = header("x", &"y".repeat(1000));
    check_cut_off(&[], |number| match number {
        0 => frame(HEADERS, END_STREAM, 1, &request("GET", "/version", &[])),
        _ => frame(CONTINUATION, 0, 1, &part),
    })
    .await;
}

#[tokio::test]
async fn empty_continuations_close_the_connection() {
    check_cut_off(&[], |number| match number {
        0 => frame(HEADERS, END_STREAM, 1, &request("GET", "/version", &[])),
        _ => frame(CONTINUATION, 0, 1, &[]),
    })
    .await;
}

#[tokio::test]
async fn a_small_block_that_unfolds_to_huge_headers_closes_the_connection() {
    // Adds one header to the header table, then references it with one byte each.
    let mut block = request("GET", "/version", &[]);
    block.push(0x40);
    block.extend_from_slice(&header("x-bomb", &"y".repeat(4000))[1..]);
    block.extend(std::iter::repeat_n(0x80 | 62, 10_000));
    check_cut_off(&[], |number| match number {
        0 => frame(HEADERS, END_STREAM | END_HEADERS, 1, &block),
        _ => frame(PING, 0, 0, &[0; 8]),
    })
    .await;
}

#[tokio::test]
async fn floods_of_pings_and_settings_do_not_pile_up_answers() {
    for flood in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 1 << 16))] {
        let server = TestServer::start_limited(Limits { stall_timeout: Duration::from_millis(200), ..Limits::default() }).await;
        let mut attacker = Attacker::connect(&server, &[]).await;
        // The attacker reads nothing: responses fill the socket, then the server stops reading, then it closes the
        // connection.
        let flooding = async {
            let many = flood.repeat(1000);
            for _ in 0..MANY {
                if attacker.writer.write_all(&many).await.is_err() {
                    return;
                }
            }
            panic!("the server took {} frames without an answer being read", MANY * 1000);
        };
        let ((), ()) =
            futures::join!(async { timeout(PATIENCE, flooding).await.expect("the connection is closed") }, check_served(&server));
    }
}

#[tokio::test]
async fn empty_data_frames_without_end_close_the_connection() {
    let head = [("content-type", "application/json")];
    check_cut_off(&[], |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &request("POST", CONFIG_MAPS, &head)),
        _ => frame(DATA, 0, 1, &[]).repeat(100),
    })
    .await;
}

#[tokio::test]
async fn no_more_streams_are_open_at_once_than_are_allowed() {
    let server = TestServer::start().await;
    let mut attacker = Attacker::connect(&server, &[]).await;
    let settings = attacker.wait_for(SETTINGS).await.payload;
    let allowed = settings.chunks_exact(6).find(|setting| setting[..2] == 3_u16.to_be_bytes()).expect("a bound on streams is announced");
    assert_eq!(allowed[2..], 250_u32.to_be_bytes());
    let watch = format!("{CONFIG_MAPS}?watch=true");
    let watches: Vec<u8> = (0..260).flat_map(|number| get(stream(number), &watch)).collect();
    attacker.send(&watches).await;
    let refused = attacker.wait_for(RST_STREAM).await;
    assert_eq!((refused.stream, refused.payload), (stream(250), 7_u32.to_be_bytes().to_vec()), "REFUSED_STREAM");
    check_served(&server).await;
}

#[tokio::test]
async fn a_response_that_no_client_reads_is_given_up_with_its_seats() {
    let limits = Limits { requests_inflight: 1, stall_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    server.let_edit("editors").await;
    let mut admin = server.admin().await;
    for number in 0..4 {
        let object = json!({"metadata": {"name": number.to_string()}, "data": {"a": "x".repeat(100_000)}});
        assert_eq!(admin.post(CONFIG_MAPS, &object).await.code, 201);
    }
    let alice = server.certificate("alice", &["editors"]);
    let (reader, writer) = split(connect(&server, Some(&alice), Protocol::Http2).await);
    let mut attacker = Attacker { reader, writer };
    // A window of one byte, enough to begin.
    let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 1))[..]].concat();
    attacker.send(&[greeting, get(1, CONFIG_MAPS)].concat()).await;
    attacker.wait_for(DATA).await;
    // Pings are answered all the time, and alice's seat is free again after her list is canceled.
    let executing = r#"apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="readonly"} "#;
    let mut is_reset = false;
    let freed = async {
        while !server.admin().await.get("/metrics").await.text().contains(&format!("{executing}0\n")) {
            attacker.send(&frame(PING, 0, 0, &[0; 8])).await;
            while let frame = attacker.next().await.expect("the connection is open")
                && (frame.kind, frame.flags) != (PING, ACK)
            {
                is_reset |= (frame.kind, frame.stream) == (RST_STREAM, 1);
            }
        }
    };
    timeout(PATIENCE, freed).await.expect("the list is given up");
    assert_eq!(server.user("bob", &["editors"]).await.send(Method::GET, CONFIG_MAPS, &[], "").await.code, 200);
    if !is_reset {
        assert_eq!(attacker.wait_for(RST_STREAM).await.stream, 1);
    }
}

impl Attacker {
    /// Connects as alice, with a window of this many bytes for each of this many responses.
    async fn sips(server: &TestServer, path: &str, answers: u32, window: u32) -> Self {
        let alice = server.certificate("alice", &["editors"]);
        let (reader, writer) = split(connect(server, Some(&alice), Protocol::Http2).await);
        let mut attacker = Self { reader, writer };
        let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, window))[..]].concat();
        attacker.send(&greeting).await;
        attacker.send(&(0..answers).flat_map(|number| get(stream(number), path)).collect::<Vec<u8>>()).await;
        attacker
    }

    /// Returns how many of this many responses have code 200.
    async fn successes(&mut self, answers: u32) -> usize {
        const STATUS_200: u8 = 0x88;
        let mut found = 0;
        for _ in 0..answers {
            found += usize::from(self.wait_for(HEADERS).await.payload[0] == STATUS_200);
        }
        found
    }
}

/// Returns a server with a config map of this size, and its path.
async fn with_config_map(limits: Limits, bytes: usize) -> (TestServer, String) {
    let server = TestServer::start_limited(limits).await;
    server.let_edit("editors").await;
    let object = json!({"metadata": {"name": "c"}, "data": {"a": "x".repeat(bytes)}});
    assert_eq!(server.admin().await.post(CONFIG_MAPS, &object).await.code, 201);
    (server, format!("{CONFIG_MAPS}/c"))
}

#[tokio::test]
async fn what_a_connection_has_of_answers_counts_until_it_is_taken() {
    let limits = Limits { answer_bytes: 4 << 20, queue_wait: Duration::from_millis(50), ..Limits::default() };
    let (server, path) = with_config_map(limits, 40_000).await;
    let mut attacker = Attacker::sips(&server, &path, 100, 1).await;
    // Three quarters of 4 MiB. Each response takes 48 KiB.
    assert_eq!(attacker.successes(100).await, 64);
    let mut other_of_alice = server.user("alice", &["editors"]).await;
    for _ in 0..3 {
        attacker
            .send(&(0..100).flat_map(|number| frame(WINDOW_UPDATE, 0, stream(number), &1_u32.to_be_bytes())).collect::<Vec<u8>>())
            .await;
        attacker.wait_for(DATA).await;
        assert_eq!(other_of_alice.get(&path).await.code, 429, "byte by byte");
    }
    assert_eq!(server.user("bob", &["editors"]).await.get(&path).await.code, 200);
    drop(attacker);
    let freed = async { while other_of_alice.get(&path).await.code != 200 {} };
    timeout(PATIENCE, freed).await.expect("the connection is gone");
}

#[tokio::test]
async fn short_responses_that_no_client_reads_keep_their_seats() {
    let limits = Limits { requests_inflight: 8, queue_wait: Duration::from_millis(50), ..Limits::default() };
    let (server, path) = with_config_map(limits, 10_000).await;
    let mut attacker = Attacker::sips(&server, &path, 60, 1).await;
    // As many as fit in 64 KiB, then as many as the seats of one user.
    assert_eq!(attacker.successes(60).await, 6 + 6);
    assert_eq!(server.user("bob", &["editors"]).await.get(&path).await.code, 200);
}

/// Errors hold no seat, because their requests are complete. So each must be short, for every request.
#[tokio::test]
async fn refusals_of_which_nothing_is_taken_are_short() {
    const BYTES_MAX: usize = 1024;
    let server = TestServer::start().await;
    let id = "a".repeat(10_000);
    let anonymous = [("audit-id", id.as_str()), ("authorization", "Bearer forged")];
    for (path, headers) in [("/api/v1/pods", &anonymous[..]), ("/api/v1/pods", &anonymous[..1]), ("/nothing", &anonymous[..1])] {
        let mut attacker = Attacker::without_window(&server, None).await;
        for number in 0..250 {
            attacker.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream(number), &request("GET", path, headers))).await;
        }
        for head in attacker.heads(250).await {
            assert!(head.len() < BYTES_MAX, "{path}: a head of {} bytes", head.len());
        }
        for body in attacker.bodies(250).await {
            assert!(body.payload.len() < BYTES_MAX && body.flags & END_STREAM != 0, "{path}: {} bytes", body.payload.len());
        }
    }
}

/// Unread responses to anonymous clients have a common limit. Above it, connections with more than a few of them are
/// closed.
#[tokio::test]
async fn strangers_do_not_fill_memory_with_refusals_that_they_do_not_take() {
    let server = TestServer::start_limited(Limits { strangers_unread: 300, ..Limits::default() }).await;
    let ask = |count: u32| (0..count).flat_map(|number| get(stream(number), "/api/v1/pods")).collect::<Vec<u8>>();
    let mut open = Vec::new();
    for (certificate, count) in [(Some(server.certificate("alice", &[])), 250), (None, 200), (None, 4)] {
        let mut attacker = Attacker::without_window(&server, certificate.as_ref()).await;
        attacker.send(&ask(count)).await;
        attacker.heads(count).await;
        open.push((attacker, count));
    }
    let mut late = Attacker::without_window(&server, None).await;
    late.send(&ask(200)).await;
    timeout(PATIENCE, async { while late.next().await.is_ok() {} }).await.expect("it is closed: 300 are not taken");
    for (attacker, count) in &mut open {
        // The other connections keep their responses.
        attacker.bodies(*count).await;
    }
    let mut newcomer = Attacker::without_window(&server, None).await;
    // Responses that were read no longer count.
    newcomer.send(&ask(200)).await;
    newcomer.heads(200).await;
}

#[tokio::test]
async fn streams_of_which_nothing_is_taken_are_reset() {
    // Without a window, a whole piece waits. With a window of one byte, the rest of the piece waits.
    for (bytes, window) in [(10_000, 1), (40_000, 1), (10_000, 0), (40_000, 0)] {
        let limits = Limits { stall_timeout: Duration::from_millis(200), ..Limits::default() };
        let (server, path) = with_config_map(limits, bytes).await;
        let mut attacker = Attacker::sips(&server, &path, 20, window).await;
        let at_once = if bytes < 16 << 10 { 6 } else { 0 };
        for _ in at_once..20 {
            attacker.wait_for(RST_STREAM).await;
        }
        let held = r#"apiserver_flowcontrol_current_executing_requests{flow_schema="global-default",priority_level="answers"} 0"#;
        let freed = async { while !server.admin().await.get("/metrics").await.text().contains(held) {} };
        timeout(PATIENCE, freed).await.expect("nothing is held");
        attacker.send(&get(stream(20), "/version")).await;
        assert_eq!(attacker.successes(1).await, 1, "the connection goes on");
    }
}

#[tokio::test]
async fn answers_take_no_more_memory_together_than_there_is_for_them() {
    let limits = Limits { answer_bytes: 1 << 20, queue_wait: Duration::from_millis(50), ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    server.let_edit("editors").await;
    let object = json!({"metadata": {"name": "c"}, "data": {"a": "x".repeat(500_000)}});
    let mut admin = server.admin().await;
    assert_eq!(admin.post(CONFIG_MAPS, &object).await.code, 201);
    let path = format!("{CONFIG_MAPS}/c");
    let alice = server.certificate("alice", &["editors"]);
    let (reader, writer) = split(connect(&server, Some(&alice), Protocol::Http2).await);
    let mut attacker = Attacker { reader, writer };
    let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 1))[..]].concat();
    attacker.send(&[greeting, get(1, &path)].concat()).await;
    attacker.wait_for(DATA).await;
    // Her unread responses count for her. She may have at most three quarters of the total.
    let mut other_of_alice = Client::connect(&server, Some(&alice), Protocol::Http1).await;
    let refused = other_of_alice.get(&path).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, Some("1")));
    assert_eq!(other_of_alice.get(&format!("{CONFIG_MAPS}?limit=1&fieldSelector=metadata.name%3Dx")).await.code, 200, "what is short");
    assert_eq!(server.user("bob", &["editors"]).await.get(&path).await.code, 200, "the others'");
    assert_eq!(admin.get(&path).await.code, 200);
    attacker.send(&reset(1)).await;
    let freed = async { while other_of_alice.get(&path).await.code != 200 {} };
    timeout(PATIENCE, freed).await.expect("what she lets go is free again");
}

#[tokio::test]
async fn a_watch_that_no_client_reads_is_given_up() {
    let limits = Limits { watches_per_user: 1, stall_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = TestServer::start_limited(limits).await;
    server.let_edit("editors").await;
    let alice = server.certificate("alice", &["editors"]);
    let (reader, writer) = split(connect(&server, Some(&alice), Protocol::Http2).await);
    let mut attacker = Attacker { reader, writer };
    let greeting = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 1))[..]].concat();
    let path = format!("{CONFIG_MAPS}?watch=true");
    attacker.send(&[greeting, get(1, &path)].concat()).await;
    attacker.wait_for(HEADERS).await;
    let mut admin = server.admin().await;
    for number in 0..3 {
        let object = json!({"metadata": {"name": number.to_string()}, "data": {"a": "x".repeat(300_000)}});
        assert_eq!(admin.post(CONFIG_MAPS, &object).await.code, 201);
    }
    let again = async { while server.user("alice", &["editors"]).await.open(Method::GET, &path, &[], "").await.status() != 200 {} };
    timeout(PATIENCE, again).await.expect("the watch is given up");
    check_served(&server).await;
}

#[tokio::test]
async fn a_frame_that_is_not_http2_ends_the_connection_with_a_protocol_error() {
    let server = TestServer::start().await;
    let mut attacker = Attacker::connect(&server, &[]).await;
    attacker.send(&frame(DATA, 0, 0, b"no stream has number 0")).await;
    let goodbye = attacker.wait_for(GOAWAY).await;
    assert_eq!(goodbye.payload[4..8], 1_u32.to_be_bytes(), "PROTOCOL_ERROR");
    check_served(&server).await;
}
