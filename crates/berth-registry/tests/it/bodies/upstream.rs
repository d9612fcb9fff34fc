//! A real kube-apiserver and its etcd.
#![expect(clippy::disallowed_types, reason = "it is another program, with files and sockets")]

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::Command,
};

/// A server without controllers.
pub(crate) struct Upstream(berth_testing::Upstream);

impl Upstream {
    /// Starts the server. If none is available, it prints the reason and returns `None`.
    pub(crate) fn start() -> Option<Self> {
        berth_testing::Upstream::start(&["--no-controllers"]).map(Self)
    }

    /// Writes keys into etcd through its JSON gateway.
    pub(crate) fn put(&self, keys: &[(String, Vec<u8>)]) {
        let endpoint = self.0.variable("ETCD_ENDPOINT");
        let address = endpoint.strip_prefix("http://").expect("plain http");
        for some in keys.chunks(100) {
            let put = |(key, value): &(String, Vec<u8>)| json!({"requestPut": {"key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value)}});
            let body = json!({"success": some.iter().map(put).collect::<Vec<_>>()}).to_string();
            let mut stream = TcpStream::connect(address).expect("it answers");
            let head = format!("POST /v3/kv/txn HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).expect("it takes all");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it answers");
            assert!(answer.contains("\"succeeded\":true"), "{answer}");
        }
    }

    /// Returns the names of the objects at an API path.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let mut kubectl = Command::new(PathBuf::from(self.0.variable("UPSTREAM_BIN")).join("kubectl"));
        let output = kubectl
            .args(["get", "--request-timeout=20s", "--raw", path])
            .env("KUBECONFIG", self.0.variable("KUBECONFIG"))
            .output()
            .expect("it runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let list: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let name = |item: &Value| item["metadata"]["name"].as_str().expect("each has a name").to_owned();
        Ok(list["items"].as_array().expect("a list").iter().map(name).collect())
    }
}
