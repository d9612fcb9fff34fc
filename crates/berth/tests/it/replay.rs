//! `berth record` and `berth replay` with a real `berth up`, and with a real Kubernetes: a recording contains no secrets, and its unchanged replay has
//! the same result.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{
    self, Lines,
    legs::{BURST, is_as_forecast, legs},
    part::Part,
};
use berth_testing::Upstream;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

/// A pod takes longer to stop than a rollout takes on a busy machine. All replaced pods are therefore terminating at once, in the recording
/// and in the replay.
const UP: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "700ms", "--pod-stop-latency", "6900ms"];
/// The maximum difference between times, in seconds. On a machine that is busy with other tests a watch has a longer delay.
const TOLERANCE: f64 = 0.1;
const LATE: f64 = 3.0;
/// A text that no recording may contain.
const SECRET: &str = "s3cret-!of somebody";

/// A recording in progress.
struct Recording {
    child: Child,
    lines: Lines,
    /// Its warnings.
    warnings: Lines,
    file: PathBuf,
}

impl Recording {
    /// Starts a recording. The file contains all existing objects when this returns.
    fn begin(kubeconfig: &Path, file: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["record", "--output"]).arg(file).args(arguments).arg("--kubeconfig").arg(kubeconfig);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let warnings = Lines::of(child.stderr.take().unwrap());
        let mut lines = Lines::of(child.stdout.take().unwrap());
        let line = lines.next().unwrap();
        assert!(line.contains("It contains everything that exists now"), "{line}");
        Self { child, lines, warnings, file: file.to_path_buf() }
    }

    /// Waits for a warning that contains `text`.
    fn warns(&mut self, text: &str) -> String {
        self.warnings.find(|line| line.contains(text)).unwrap_or_else(|| panic!("it ended without a word of {text:?}"))
    }

    /// Ends it with SIGINT, as Ctrl-C does. Returns the text of its file.
    fn end(mut self) -> String {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(self.lines.next().unwrap().contains(" lines in "));
        text(&self.file)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(file: &Path) -> String {
    let mut text = String::new();
    zstd::Decoder::new(fs::File::open(file).unwrap()).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn berth(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth")).args(arguments).output().unwrap()
}

fn replayed(file: &Path, arguments: &[&str]) -> Value {
    let output = berth(&[&["replay", file.to_str().unwrap(), "-o", "json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

/// A Deployment with a secret in every possible field.
fn web(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {"example.com/note": SECRET}},
        "spec": {
            "replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": "web", "team": "s3cretteam"}, "annotations": {"example.com/note": SECRET}},
                "spec": {"containers": [{
                    "name": "main", "image": image, "command": ["sh", "-c", SECRET], "args": [SECRET],
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }]},
            },
        },
    })
}

async fn create(client: &Client, path: &str, object: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json").body(object.to_string().into_bytes()).unwrap();
    let made: Result<Value, _> = client.request(request).await;
    made.unwrap_or_else(|error| panic!("{path}: {error}"));
}

fn rolled_out(kubeconfig: &Path) {
    let output = berth(&["rollout", "status", "deployment/web", "--timeout", "60s", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The sizes of a set, each with its time.
fn sizes(of: &Value) -> Vec<(Duration, i64)> {
    let size = |size: &Value| (Duration::from_secs_f64(size["atSeconds"].as_f64().unwrap()), size["replicas"].as_i64().unwrap());
    of.as_array().unwrap().iter().map(size).collect()
}

fn check_alike(replay: &Value) {
    let (recorded, replayed) = (&replay["recorded"]["workloads"][0], &replay["replayed"]["workloads"][0]);
    let context = format!("{recorded}\n{replayed}");
    for member in ["pods", "terminating", "available"] {
        assert_eq!(recorded[member]["value"], replayed[member]["value"], "{member}: {context}");
    }
    for resource in ["cpu", "memory"] {
        assert_eq!(recorded["resources"][resource]["value"], replayed["resources"][resource]["value"], "{resource}: {context}");
    }
    let (sets, again) = (recorded["sets"].as_object().unwrap(), replayed["sets"].as_object().unwrap());
    assert_eq!(sets.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>(), "{context}");
    for (template, recorded) in sets {
        let recorded: Vec<i64> = sizes(recorded).into_iter().map(|(_, size)| size).collect();
        assert!(is_as_forecast(&recorded, &legs(&sizes(&again[template]), 0, BURST)), "{template}: {context}");
    }
    let rollouts = |workload: &Value| workload["rollouts"].as_array().unwrap().clone();
    assert_eq!(rollouts(recorded).len(), rollouts(replayed).len(), "{context}");
    let tolerance = if std::env::var_os("BERTH_QUIET_MACHINE").is_some() { TOLERANCE } else { LATE };
    for (one, other) in rollouts(recorded).iter().zip(rollouts(replayed)) {
        for member in ["atSeconds", "completeAtSeconds", "settledAtSeconds"] {
            let (one, other) = (one[member].as_f64().unwrap_or(-1.0), other[member].as_f64().unwrap_or(-1.0));
            assert!((one - other).abs() <= tolerance, "{member}: {one} and {other}: {context}");
        }
    }
}

/// Two rollouts and a scaling, recorded. Returns the content of the file.
async fn record_rollouts(kubeconfig: &Path, file: &Path, arguments: &[&str]) -> String {
    let client = client(kubeconfig).await;
    create(&client, "/apis/apps/v1/namespaces/default/deployments", &web("web:1")).await;
    rolled_out(kubeconfig);
    let recording = Recording::begin(kubeconfig, file, arguments);
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let patch = |patch: Value| {
        let deployments = deployments.clone();
        async move { drop(deployments.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap()) }
    };
    patch(json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}})).await;
    rolled_out(kubeconfig);
    common::only_stay(&client, 4).await;
    patch(json!({"spec": {"replicas": 6}})).await;
    rolled_out(kubeconfig);
    patch(json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": "another"}]}]}}}}))
        .await;
    rolled_out(kubeconfig);
    common::only_stay(&client, 6).await;
    recording.end()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_replayed_as_it_was_comes_to_the_same() {
    let berth = common::up(UP);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl.zst");
    record_rollouts(&berth.kubeconfig(), &file, &[]).await;
    let replay = replayed(&file, &["--policy", "TerminationComplete"]);
    assert_eq!((&replay["recording"]["controllers"], &replay["recording"]["gaps"]), (&json!("berth"), &json!([])));
    assert_eq!(replay["recording"].get("torn"), None);
    assert_eq!(replay["recorded"]["workloads"][0]["rollouts"].as_array().unwrap().len(), 2, "an environment is part of a template");
    check_alike(&replay);
    let (was, under) = (&replay["recorded"]["workloads"][0], &replay["underPolicy"]["workloads"][0]);
    assert!(under["pods"]["value"].as_i64().unwrap() <= 8, "{under}");
    assert!(was["pods"]["value"].as_i64() > under["pods"]["value"].as_i64(), "{was} {under}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_of_a_server_has_no_secrets_and_is_its_owners_alone() {
    let berth = common::up(UP);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl.zst");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3cretname"}, "stringData": {"password": SECRET}});
    create(&client(&berth.kubeconfig()).await, "/api/v1/namespaces/default/secrets", &secret).await;
    let said = record_rollouts(&berth.kubeconfig(), &file, &["--hash-names"]).await;
    for told in ["s3cret", "PASSWORD", "example.com", "\"web", "web-", "node-0", "\"default\"", "\"app\""] {
        assert!(!said.contains(told), "{told}: {said}");
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    check_alike(&replayed(&file, &[]));
    // The command never overwrites an existing file.
    let before = fs::read(&file).unwrap();
    let again = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["record", "--for", "1s", "--output"])
        .arg(&file)
        .arg("--kubeconfig")
        .arg(berth.kubeconfig())
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already exists; choose another file"));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_ends_by_time_and_by_size_and_is_whole() {
    let berth = common::up(UP);
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, arguments: &[&str]| {
        let file = folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(["record", "--output"]).arg(&file).args(arguments).arg("--kubeconfig").arg(berth.kubeconfig());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (text(&file), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (file, said) = record("time", &["--for", "1s"]);
    assert!(file.lines().last().unwrap().contains("\"ended\":\"time\""), "{file}");
    assert!(said.contains("The time of --for is over."), "{said}");
    assert!(file.lines().any(|line| line.contains("\"listed\":true")) && file.contains("\"Node\""), "{file}");
    // Before the recording contains all objects, there is nothing to replay.
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["record", "--for", "1ms", "--output"]).arg(folder.path().join("early")).arg("--kubeconfig").arg(berth.kubeconfig());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = "cannot be replayed: the recording ended before it contained all existing objects. The time of --for is over.";
    assert!(output.status.code() == Some(1) && said.contains(wanted), "{said}");
}

/// The server is killed in the middle of a recording, and restarts on the same folder: the recording continues, and notes what it may have missed. The
/// server is killed again, and does not restart: the recording ends complete, and notes that too.
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_goes_on_over_a_crash_of_its_server_and_ends_whole_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("trace.jsonl.zst"));
    let start = |port: &str| {
        let latencies = ["--pod-start-latency", "700ms", "--pod-stop-latency", "1900ms"];
        let place = ["up", "--nodes", "2", "--no-dashboard", "--secure-port", port, "--data-dir", data.to_str().unwrap()];
        let mut server = Part::start(&[&place[..], &latencies].concat(), None);
        let line = server.line_with("API server ready at");
        (server, line)
    };
    let (mut server, line) = start("0");
    let address = line.split_once("https://").unwrap().1.split(' ').next().unwrap();
    let port = address.rsplit_once(':').unwrap().1.to_owned();
    let kubeconfig = data.join("kubeconfig");
    create(&client(&kubeconfig).await, "/apis/apps/v1/namespaces/default/deployments", &web("web:1")).await;
    rolled_out(&kubeconfig);
    let mut recording = Recording::begin(&kubeconfig, &file, &[]);

    server.kill();
    recording.warns(" was interrupted; berth resumes it as soon as possible: ");
    let (mut server, _) = start(&port);
    let client = client(&kubeconfig).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    deployments.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    rolled_out(&kubeconfig);
    common::only_stay(&client, 4).await;
    recording.warns("all watches have resumed; the recording contains the gaps");

    server.kill();
    recording.warns(" was interrupted; berth resumes it as soon as possible: ");
    recording.end();
    let replay = replayed(&file, &[]);
    let gaps = replay["recording"]["gaps"].as_array().unwrap();
    let of_deployments = gaps.iter().filter(|gap| gap["plural"] == "deployments").count();
    assert!(of_deployments >= 1 && gaps.iter().all(|gap| gap["seconds"].is_number()), "{gaps:?}");
    let last = replay["recording"]["seconds"].as_f64().unwrap();
    assert!(gaps.iter().any(|gap| (last - gap["untilSeconds"].as_f64().unwrap()).abs() < 0.1), "{last} {gaps:?}");
    assert_eq!(replay["recording"].get("torn"), None, "it is whole");
    let rollouts = replay["recorded"]["workloads"][0]["rollouts"].as_array().unwrap();
    assert_eq!(rollouts.len(), 1, "what was missed is listed anew: {rollouts:?}");
    let told = berth(&["replay", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&told.stdout).contains(" were missed or late, for "), "{told:?}");
}

/// A recording has the usage that the server reports. A replay scales by it with another autoscaler.
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_of_an_autoscaled_workload_is_replayed_with_another_autoscaler() {
    let berth = common::up(UP);
    let client = client(&berth.kubeconfig()).await;
    let mut web = web("web:1");
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/memory": "64Mi"});
    create(&client, "/apis/apps/v1/namespaces/default/deployments", &web).await;
    let autoscaler = |name: &str, average: &str| {
        let memory =
            json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": average}}});
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {"minReplicas": 4, "maxReplicas": 8, "scaleTargetRef": target, "metrics": [memory]}})
    };
    create(&client, "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", &autoscaler("own", "64Mi")).await;
    rolled_out(&berth.kubeconfig());
    let folder = tempfile::tempdir().unwrap();
    let (file, hpa) = (folder.path().join("trace.jsonl.zst"), folder.path().join("hpa.json"));
    let recording = Recording::begin(&berth.kubeconfig(), &file, &[]);
    // The first sample follows the initial lists. Half of its load per pod is enough for twice as many.
    let is_measured = || {
        // The last frame may be incomplete.
        let mut text = String::new();
        let read = fs::File::open(&file).and_then(zstd::Decoder::new).and_then(|mut decoder| decoder.read_to_string(&mut text));
        read.is_ok() && text.contains("\"usage\"")
    };
    common::until("the usage is in the file", is_measured);
    recording.end();
    fs::write(&hpa, autoscaler("other", "32Mi").to_string()).unwrap();
    let replay = replayed(&file, &["--hpa", hpa.to_str().unwrap()]);
    let autoscaled = &replay["autoscaled"][0];
    assert_eq!((&autoscaled["autoscaler"], &autoscaled["insteadOf"]), (&json!("other"), &json!("own")), "{autoscaled}");
    assert_eq!(autoscaled["load"]["memory"]["value"], json!(4 * (64 << 20)), "{autoscaled}");
    let sizes = |column: usize| -> Vec<i64> { sizes(&autoscaled["columns"][column]["sizes"]).into_iter().map(|(_, size)| size).collect() };
    assert_eq!((sizes(0), sizes(1), sizes(2)), (vec![4], vec![4], vec![4, 8]), "{autoscaled}");
    fs::write(&hpa, autoscaler("other", "32Mi").to_string().replace("\"web\"", "\"till\"")).unwrap();
    let refused = refusal(&file, &hpa);
    assert!(
        refused.contains("autoscaler other cannot be replayed") && refused.contains("no usage of Deployment default/till"),
        "{refused}"
    );
}

/// The error of a replay with this autoscaler.
fn refusal(file: &Path, hpa: &Path) -> String {
    let output = berth(&["replay", file.to_str().unwrap(), "--hpa", hpa.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Kubernetes' own controllers and scheduler, with berth's nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_recording_of_another_kubernetes_comes_to_the_same() {
    let Some(upstream) = Upstream::start(&["--scheduler"]) else { return };
    let kubeconfig = upstream.kubeconfig();
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args([
        "node",
        "--join-foreign-cluster",
        "--no-simulated-taint",
        "--secure-port",
        "0",
        "--nodes",
        "2",
        "--pod-start-latency",
        "700ms",
        // Longer than a whole rollout on a busy machine, so that delays of single waves do not change the maximum number of pods.
        "--pod-stop-latency",
        "10s",
        "--kubeconfig",
    ]);
    let mut nodes = command.arg(&kubeconfig).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl.zst");
    let said = record_rollouts(&kubeconfig, &file, &[]).await;
    let ended = nodes.kill().and_then(|()| nodes.wait());
    assert!(!said.contains("s3cret"), "{said}");
    let replay = replayed(&file, &["--policy", "TerminationComplete"]);
    assert_eq!(replay["recording"]["controllers"], "kubernetes");
    check_alike(&replay);
    assert!(replay["underPolicy"]["workloads"][0]["pods"]["value"].as_i64().unwrap() <= 8, "{replay}");
    assert!(ended.is_ok());
}

#[test]
fn what_is_no_recording_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let check = |content: &[u8], wanted: &str| {
        let file = folder.path().join("x");
        fs::write(&file, content).unwrap();
        let output = berth(&["replay", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(wanted), "{said}");
    };
    check(b"", "this is not a recording; `berth record` makes one (it is empty)");
    check(b"\x1f\x8b", "this is not a recording; `berth record` makes one (it is neither lines of JSON nor compressed with zstd)");
    let header = r#"{"trace":"berth","version":1,"at":"2026-01-01T00:00:00Z","controllers":"berth","because":"x"}"#;
    check(format!("{header}\n").as_bytes(), "line 1: it ends before it contains all objects of the start");
    check(format!("{header}\n{}\n", r#"{"ms":0,"put":{"kind":"Secret\u001b[2J"}}"#).as_bytes(), r#"line 2: put.kind is "Secret\u{1b}[2J""#);
    let missing = berth(&["replay", "/nowhere"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read /nowhere"));
}
