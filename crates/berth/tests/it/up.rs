//! `berth up` itself: its output, its errors, and the data that it keeps.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, deployment, kubectl_is_here, up, up_in, up_logging};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
    thread,
    time::Instant,
};
use tempfile::TempDir;

const FAST: &[&str] = &["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

/// Runs `berth up` to its end, for calls that must fail.
fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let output: Output =
        Command::new(env!("CARGO_BIN_EXE_berth")).arg("up").arg("--data-dir").arg(folder.path()).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "should have failed: {text}");
    text
}

fn check_refused(arguments: &[&str], says: &[&str]) {
    let text = refused(&TempDir::new().unwrap(), arguments);
    for part in says {
        assert!(text.contains(part), "{arguments:?} should say {part:?}:\n{text}");
    }
}

#[test]
fn a_manifest_is_rolled_out_and_reported() {
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("web.yaml");
    fs::write(&manifest, deployment("web", 3, "web:1")).unwrap();
    let database = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/database.yaml");
    let mut berth = up(&[FAST, &["-f", manifest.to_str().unwrap(), "-f", database]].concat());
    berth.line_with("deployment.apps/web created");
    berth.line_with("statefulset.apps/db created");
    // The order of the two is undefined.
    let (first, second) = (berth.line_with("rolled out, 3 pods available"), berth.line_with("rolled out, 3 pods available"));
    let told = [first, second].map(|line| line.split(':').next().unwrap_or_default().to_owned());
    assert_eq!(
        std::collections::BTreeSet::from(told),
        ["deployment.apps/web in default", "statefulset.apps/db in default"].map(String::from).into()
    );
    berth.line_with("1 Deployment and 1 StatefulSet rolled out after");
    assert_eq!(berth.terminate().0, Some(0));
}

/// A web server that gives each client this page. Returns its address.
fn page(text: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut connection in listener.incoming().map(Result::unwrap) {
            let head = BufReader::new(&connection).lines().map(Result::unwrap).take_while(|line| !line.is_empty());
            assert_eq!(head.take(1).collect::<Vec<_>>(), ["GET /page HTTP/1.1"]);
            write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len()).unwrap();
        }
    });
    url
}

#[test]
fn a_manifest_of_the_web_is_rolled_out_and_a_page_that_is_none_is_refused() {
    let mut berth = up(&[FAST, &["-f", &page(deployment("web", 1, "web:1"))]].concat());
    berth.line_with("deployment.apps/web created");
    berth.line_with("deployment.apps/web in default: rolled out, 1 pod available");
    for (text, says) in [("<html>\n<p>Not here", "is not a Kubernetes object"), ("a: [", "is neither YAML nor JSON")] {
        let url = page(text.to_owned());
        check_refused(&["--store", "memory", "--secure-port", "0", "-f", &url], &[&url, says]);
    }
}

#[test]
fn everything_is_there_again_after_kill_nine_and_rollouts_go_on() {
    if kubectl_is_here() {
        common::goes_on_after_kill_nine(TempDir::new().unwrap().path(), FAST);
    }
}

#[test]
fn the_kubeconfig_is_for_its_owner_alone() {
    let berth = up(&["--store", "memory", "--nodes", "0"]);
    let mode = fs::metadata(berth.kubeconfig()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let folder = TempDir::new().unwrap();
    let _first = up_in(folder.path(), &["--nodes", "0"]);
    let text = refused(&folder, &["--secure-port", "0", "--nodes", "0"]);
    assert!(text.contains("in use") && text.contains(folder.path().to_str().unwrap()), "{text}");
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check_refused(&["--store", "memory", "--secure-port", &port], &[&port, "in use", "--secure-port"]);
}

#[test]
fn a_broken_manifest_is_refused_with_its_place() {
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("broken.yaml");
    fs::write(&manifest, "apiVersion: v1\nkind: [").unwrap();
    let path = manifest.to_str().unwrap();
    check_refused(&["--store", "memory", "--secure-port", "0", "-f", path], &["broken.yaml"]);
    fs::write(&manifest, deployment("web", 1, "web:1").replace("matchLabels: {app: web}", "matchLabels: {app: other}")).unwrap();
    check_refused(&["--store", "memory", "--secure-port", "0", "-f", path], &["broken.yaml", "does not match template `labels`"]);
    fs::write(&manifest, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n").unwrap();
    check_refused(&["--store", "memory", "--secure-port", "0", "-f", path], &["broken.yaml", "Widget"]);
    check_refused(&["--store", "memory", "--secure-port", "0", "-f", "no-such-file.yaml"], &["no-such-file.yaml"]);
}

#[test]
fn unknown_gates_and_controllers_are_refused_with_the_known_ones() {
    check_refused(&["--store", "memory", "--feature-gates", "Nope=true"], &["Nope", "StatefulSetRecreateStrategy"]);
    check_refused(&["--store", "memory", "--controllers", "nope"], &["nope", "deployment"]);
    check_refused(&["--store", "memory", "--node-cpu", "many"], &["--node-cpu", "\"many\" is not a quantity, such as 8, 500m or 100Gi"]);
    check_refused(&["--store", "memory", "--node-memory=-1Gi"], &["--node-memory", "\"-1Gi\" is negative"]);
}

#[test]
fn without_controllers_and_nodes_nothing_moves() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(&["--store", "memory", "--controllers=-*", "--nodes", "0"]);
    berth.apply(&deployment("web", 1, "web:1"));
    assert_eq!(berth.kubectl(&["get", "replicasets,pods,nodes", "-o", "name"]), "");
}

#[test]
fn requests_of_strangers_leave_few_lines_and_no_colors_in_a_log_file() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let berth = up_logging(folder.path(), FAST, File::create(&log).unwrap().into());
    let kubeconfig = fs::read_to_string(berth.kubeconfig()).unwrap();
    let address = kubeconfig.split("https://").nth(1).unwrap().split_whitespace().next().unwrap();
    let begun = Instant::now();
    // No TLS at all, and a message of TLS that no client sends.
    for hello in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"\x16\x03\x01\x00\x04\x0e\x00\x00\x00"].repeat(50) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(hello).unwrap();
        // The end of the connection does not matter.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    drop(berth);
    let text = fs::read_to_string(&log).unwrap();
    let lines = text.lines().count();
    assert!((1..=2 + seconds).contains(&lines), "{seconds} s: {text}");
    assert!(text.contains("a TLS handshake failed") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_controllers_action_is_logged_in_one_line_with_its_reasons() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let arguments = [FAST, &["-v"]].concat();
    let berth = up_logging(folder.path(), &arguments, File::create(&log).unwrap().into());
    berth.apply(&deployment("web", 2, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    let set = berth.kubectl(&["get", "replicasets", "-o", "name"]);
    let set = set.trim().trim_start_matches("replicaset.apps/");
    drop(berth);
    let text = fs::read_to_string(&log).unwrap();
    let plans: Vec<[&str; 2]> = text
        .lines()
        .filter_map(|line| line.split_once(" carrying out key=default/"))
        .map(|(_, told)| told.split_once(" plan=").unwrap().into())
        .collect();
    for told in [
        [
            "web",
            &format!(
                "1. create ReplicaSet default/{set}: no object has the template of revision 1; 2. patch status of Deployment default/web: its ReplicaSets have changed"
            ),
        ],
        [set, &format!("1. create 2 pods of ReplicaSet default/{set}: 2 wanted, 0 there")],
    ] {
        assert_eq!(plans.iter().filter(|plan| **plan == told).count(), 1, "{told:?}: {text}");
    }
    assert!(plans.iter().all(|[_, plan]| plan.starts_with("1. ")), "a plan that does nothing is not told of: {text}");
}

#[test]
fn health_covers_store_caches_and_controllers() {
    if !kubectl_is_here() {
        return;
    }
    let berth = up(FAST);
    let raw = |path: &str| berth.kubectl(&["get", "--raw", path]);
    assert_eq!(raw("/livez?verbose"), "[+]ping ok\n[+]store ok\n[+]controllers ok\nlivez check passed\n");
    assert_eq!(
        raw("/readyz?verbose&exclude=store"),
        "[+]ping ok\n[+]store excluded: ok\n[+]store-readiness ok\n[+]policy-sync ok\n[+]store-space ok\n[+]informer-sync ok\n[+]controllers ok\n[+]poststarthook/bootstrap ok\n\
         [+]shutdown ok\nreadyz check passed\n"
    );
    for check in [
        "ping",
        "store",
        "store-readiness",
        "policy-sync",
        "store-space",
        "informer-sync",
        "controllers",
        "poststarthook/bootstrap",
        "shutdown",
    ] {
        assert_eq!(raw(&format!("/readyz/{check}")), "ok", "{check}");
    }
}
