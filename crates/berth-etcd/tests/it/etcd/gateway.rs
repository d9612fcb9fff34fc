//! Administrative requests to etcd through its JSON gateway.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_types, reason = "tests have sockets")]

use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Returns the answer.
pub(crate) fn post(endpoint: &str, path: &str, body: &Value) -> Value {
    try_post(endpoint, path, body).unwrap_or_else(|answer| panic!("{path}: {answer}"))
}

/// Returns the answer, or the error response.
pub(crate) fn try_post(endpoint: &str, path: &str, body: &Value) -> Result<Value, String> {
    try_post_with(endpoint, path, "", body)
}

/// Does the same with additional headers.
fn try_post_with(endpoint: &str, path: &str, headers: &str, body: &Value) -> Result<Value, String> {
    let address = endpoint.strip_prefix("http://").expect("plain http");
    let mut stream = TcpStream::connect(address).expect("it answers");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("that is some time");
    let body = body.to_string();
    // With HTTP/1.0, the answer is not chunked.
    write!(stream, "POST {path} HTTP/1.0\r\nHost: {address}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let is_done = head.split(' ').nth(1) == Some("200");
    serde_json::from_str(body).ok().filter(|_| is_done).ok_or(answer)
}

/// Makes `root` a user with the role of that name, and rejects all others.
pub(crate) fn enable_users(endpoint: &str) {
    post(endpoint, "/v3/auth/user/add", &json!({"name": "root", "password": "secret"}));
    post(endpoint, "/v3/auth/role/add", &json!({"name": "root"}));
    post(endpoint, "/v3/auth/user/grant", &json!({"user": "root", "role": "root"}));
    post(endpoint, "/v3/auth/enable", &json!({}));
}

/// Makes etcd drop all tokens of `root`, as it does when a password is set. Tokens survive a restart, because the log
/// records authentications.
pub(crate) fn forget_tokens(endpoint: &str) {
    let root = json!({"name": "root", "password": "secret"});
    let token = post(endpoint, "/v3/auth/authenticate", &root)["token"].as_str().expect("a token").to_owned();
    try_post_with(endpoint, "/v3/auth/user/changepw", &format!("Authorization: {token}\r\n"), &root).expect("it is let in");
}

/// Creates a user with rights to only the keys below `/registry/`.
pub(crate) fn add_user_of_registry(endpoint: &str, name: &str) {
    let perm = json!({"permType": "READWRITE", "key": "L3JlZ2lzdHJ5Lw==", "range_end": "L3JlZ2lzdHJ5MA=="});
    post(endpoint, "/v3/auth/user/add", &json!({"name": name, "password": "secret"}));
    post(endpoint, "/v3/auth/role/add", &json!({"name": name}));
    post(endpoint, "/v3/auth/role/grant", &json!({"name": name, "perm": perm}));
    post(endpoint, "/v3/auth/user/grant", &json!({"user": name, "role": name}));
}

/// Returns the number of password authentications since the start.
pub(crate) fn passwords_shown(endpoint: &str) -> u64 {
    let address = endpoint.strip_prefix("http://").expect("plain http");
    let mut stream = TcpStream::connect(address).expect("it answers");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("that is some time");
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let mut counts = answer.lines().filter(|line| line.starts_with("grpc_server_started_total{grpc_method=\"Authenticate\""));
    counts.next().and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("it counts calls")
}

/// Raises the NOSPACE alarm, as if the database had reached its quota.
pub(crate) fn raise_no_space(endpoint: &str) {
    let status = post(endpoint, "/v3/maintenance/status", &json!({}));
    alarm(endpoint, "ACTIVATE", &status["header"]["member_id"]);
}

/// Frees space and disarms the alarm: `etcdctl compact`, `defrag`, `alarm disarm`.
pub(crate) fn make_room(endpoint: &str, revision: impl std::fmt::Display) {
    post(endpoint, "/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true}));
    post(endpoint, "/v3/maintenance/defragment", &json!({}));
    let raised = post(endpoint, "/v3/maintenance/alarm", &json!({"action": "GET"}));
    raised["alarms"].as_array().expect("an alarm is raised").iter().for_each(|raised| alarm(endpoint, "DEACTIVATE", &raised["memberID"]));
}

fn alarm(endpoint: &str, action: &str, member: &Value) {
    post(endpoint, "/v3/maintenance/alarm", &json!({"action": action, "memberID": member, "alarm": "NOSPACE"}));
}
