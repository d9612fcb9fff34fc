//! A real kube-apiserver, and the etcd below it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "it is another program, with files and sockets"
)]

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};
use tempfile::TempDir;

/// Ends with this.
pub(crate) struct Upstream {
    tools: PathBuf,
    folder: TempDir,
}

impl Upstream {
    /// `None` where there is none to be had: says so.
    pub(crate) fn start() -> Option<Self> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/upstream");
        let tools = env::var_os("BERTH_UPSTREAM").map_or(beside, PathBuf::from);
        if !tools.join("start").exists() {
            skip(&format!("BERTH_UPSTREAM names no folder with a real one, and {} is none", tools.display()));
            return None;
        }
        let upstream = Self { tools, folder: tempfile::tempdir().expect("a temporary folder") };
        assert!(upstream.run("start", &["--no-controllers"]), "it starts");
        Some(upstream)
    }

    fn run(&self, command: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new(self.tools.join(command));
        // What it starts keeps its output open.
        let status = command.arg(self.folder.path()).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("it can be run").success()
    }

    fn said(&self, name: &str) -> String {
        let said = fs::read_to_string(self.folder.path().join("env")).expect("it has started");
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("export {name}="))).expect("it says so");
        line.to_owned()
    }

    /// Writes keys into etcd, over its JSON gateway.
    pub(crate) fn put(&self, keys: &[(String, Vec<u8>)]) {
        let endpoint = self.said("ETCD_ENDPOINT");
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

    /// The names of the objects at a path of the API.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let mut kubectl = Command::new(PathBuf::from(self.said("UPSTREAM_BIN")).join("kubectl"));
        let output = kubectl
            .args(["get", "--request-timeout=20s", "--raw", path])
            .env("KUBECONFIG", self.said("KUBECONFIG"))
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

impl Drop for Upstream {
    fn drop(&mut self) {
        self.run("stop", &[]);
    }
}

/// Says that the running test cannot run; `cargo xtask test` tells at its end which did not.
fn skip(reason: &str) {
    println!("skipped: upstream: {reason}");
    let Some(file) = env::var_os("BERTH_SKIPPED") else { return };
    let line = format!("upstream\t{}\t{reason}\n", thread::current().name().unwrap_or_default());
    // In one write: other tests append too.
    fs::OpenOptions::new().append(true).create(true).open(file).expect("a file").write_all(line.as_bytes()).expect("it can be written");
}
