//! The page of a real `berth up` in Debian's Chromium; `cargo xtask test` installs what drives it. `BERTH_SCREENSHOTS=FOLDER` keeps pictures to look at.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use berth_testing::{Tool, skip};
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

const CHROMIUM: &str = "/usr/bin/chromium";

#[test]
fn the_page_is_travelled_through() {
    let Some(node) = common::tool(Tool::Browser, "javascript/node_modules/.bin/node") else { return };
    if !Path::new(CHROMIUM).exists() {
        return skip(Tool::Browser, "Debian's chromium is not installed");
    }
    let fails = ["--image-fails", "*:404"];
    let latencies = ["--pod-start-latency", "300ms", "--pod-stop-latency", "300ms"];
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop.yaml");
    let arguments = [&["--store", "memory", "--nodes", "3", "-f", shop.to_str().unwrap()][..], &fails, &latencies].concat();
    let berth = common::up(&arguments);
    let page = Served::start(&berth, &[], Stdio::inherit());
    // Node looks for packages where the script lies.
    let journey = node.ancestors().nth(3).unwrap().join("dashboard.mjs");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/javascript/dashboard.mjs"), &journey).unwrap();
    let output = Command::new(&node).arg(journey).arg(&page.link).args(env::var_os("BERTH_SCREENSHOTS")).output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

/// A `berth dashboard` over a `berth up`, until it is dropped.
struct Served {
    child: Child,
    link: String,
}

fn command(berth: &common::Berth, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.arg("dashboard").arg("--kubeconfig").arg(berth.kubeconfig()).args(arguments);
    command
}

impl Served {
    fn start(berth: &common::Berth, arguments: &[&str], log: Stdio) -> Self {
        let mut child = command(berth, arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("/sign-in?token="))).unwrap();
        let link = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { child, link }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer to one request, as it came.
fn get(address: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_has_its_users_rights_and_its_token_is_in_no_log() {
    let berth = common::up(&["--store", "memory", "--nodes", "1"]);
    let log = berth.data_dir.join("log");
    let page = Served::start(&berth, &["-vv"], Stdio::from(fs::File::create(&log).unwrap()));
    let (address, path) = page.link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let answer = get(address, &format!("/{path}"), "");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().split(';').next().unwrap().to_owned();
    let shown = |text: &str| {
        let started = Instant::now();
        loop {
            let shown = get(address, "/nodes", &cookie);
            if shown.contains(text) {
                return;
            }
            assert!(started.elapsed() < common::PATIENCE, "{shown}");
        }
    };
    shown("1 node.");
    let said = fs::read_to_string(&log).unwrap();
    let (token, cookie) = (path.split_once("token=").unwrap().1, cookie.split_once('=').unwrap().1);
    assert!(!said.is_empty() && !said.contains(token) && !said.contains(cookie), "a secret is in the log");
}

#[test]
fn an_address_that_others_reach_wants_tls() {
    let berth = common::up(&["--store", "memory", "--nodes", "1"]);
    let output = command(&berth, &["--address", "0.0.0.0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the page is served there over TLS only"), "{said}");
}
