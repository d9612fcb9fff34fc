//! The sources that `-f` accepts, their results, and the effect of a restart with the same or another file.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, deployment, kubectl_is_here, up_in};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const FAST: &[&str] = &["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms", "--steady", "0s"];
const POLICY: &str = "---\napiVersion: example.com/v1\nkind: Policy\nmetadata: {name: once}\nspec: {}\n---\n";
const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: behind}\ndata: {a: b}\n";

/// Runs berth to its end, in this folder, with this standard input.
fn berth(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).current_dir(folder).env("HOME", folder).env_remove("KUBECONFIG");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that ends without reading its input is correct too.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[test]
fn a_manifest_without_objects_is_an_error_of_every_command() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("empty.yaml", "");
    file("comments.yaml", "# nothing\n---\n# nothing either\n---\n");
    file("list.yaml", "{apiVersion: v1, kind: List, items: []}");
    file("good.yaml", &deployment("web", 1, "web:1"));
    fs::create_dir(folder.path().join("files")).unwrap();
    file("files/a.yaml", "# nothing\n");
    let memory = ["--store", "memory", "--secure-port", "0"];
    let commands: [Vec<&str>; 6] = [
        [&["up", "--no-dashboard"], &memory[..]].concat(),
        [&["up", "--no-dashboard", "--wait"], &memory[..]].concat(),
        vec!["test", "--nodes", "1"],
        vec!["plan", "--from", "good.yaml"],
        vec!["rollout", "status"],
        vec!["rollout", "history"],
    ];
    for command in &commands {
        for name in ["empty.yaml", "comments.yaml", "list.yaml", "files", "-"] {
            let end: &[&str] = if command[0] == "test" { &["--", "echo", "ran"] } else { &[] };
            let output = berth(folder.path(), &[command.as_slice(), &["-f", name], end].concat(), "");
            let (place, told) = (if name == "-" { "standard input" } else { name }, texts(&output));
            assert_eq!(output.status.code(), Some(1), "{command:?} -f {name}: {told}");
            assert!(told.contains(&format!("{place} contains no objects")), "{command:?} -f {name}: {told}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{command:?} -f {name}");
        }
    }
    let output = berth(folder.path(), &["test", "-f", "good.yaml", "-f", "empty.yaml", "--", "echo", "ran"], "");
    assert_eq!((output.status.code(), texts(&output).contains("ran")), (Some(1), false), "one of two is empty");
}

#[test]
fn what_is_served_of_a_file_is_applied_and_all_faults_are_reported_at_the_end() {
    let folder = TempDir::new().unwrap();
    let wrong = deployment("bad", 1, "web:1").replace("matchLabels: {app: bad}", "matchLabels: {app: other}");
    let text = format!("{}{POLICY}{wrong}---\n{CONFIG}", deployment("web", 1, "web:1"));
    fs::write(folder.path().join("app.yaml"), text).unwrap();
    let up = |arguments: &[&str]| {
        let all = [&["up", "--store", "memory", "--secure-port", "0", "--no-dashboard", "-f", "app.yaml"], FAST, arguments].concat();
        berth(folder.path(), &all, "")
    };
    let output = up(&["--wait"]);
    let told = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let at = |part: &str| told.find(part).unwrap_or_else(|| panic!("no {part:?} in {told}"));
    let applied = at("deployment.apps/web created").max(at("configmap/behind created"));
    assert!(applied < at("app.yaml (document 2): berth serves no Policy of example.com/v1"), "{told}");
    assert!(at("(document 2)") < at("app.yaml (document 3) was rejected"), "{told}");
    for kind in ["2 documents were not applied", "Deployment", "StatefulSet", "Ingress", "--skip-unserved"] {
        at(kind);
    }
    let output = up(&["--wait", "--skip-unserved"]);
    assert_eq!(output.status.code(), Some(1), "one is refused still: {}", texts(&output));

    fs::write(folder.path().join("app.yaml"), format!("{}{POLICY}{CONFIG}", deployment("web", 1, "web:1"))).unwrap();
    let output = up(&["--wait"]);
    assert_eq!(output.status.code(), Some(1), "{}", texts(&output));
    let output = up(&["--wait", "--skip-unserved"]);
    let told = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("skipped: app.yaml (document 2): berth serves no Policy of example.com/v1"), "{told}");
    assert!(told.contains("1 Deployment rolled out after"), "{told}");
}

/// The Jobs of a CronJob start at their times, so nothing waits for them.
#[test]
fn a_cron_job_is_not_waited_for() {
    let folder = TempDir::new().unwrap();
    let nightly = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: migrate}\n\
                   spec: {schedule: '0 3 * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: db:1}]}}}}}\n";
    for web in [String::new(), deployment("web", 1, "web:1")] {
        fs::write(folder.path().join("app.yaml"), format!("{web}---\n{nightly}")).unwrap();
        let all = [&["up", "--store", "memory", "--secure-port", "0", "--no-dashboard", "-f", "app.yaml", "--wait"], FAST].concat();
        let output = berth(folder.path(), &all, "");
        let printed = texts(&output);
        assert!(output.status.success() && printed.contains("cronjob.batch/migrate created"), "{printed}");
        assert_eq!(printed.contains("1 Deployment rolled out after"), !web.is_empty(), "{printed}");
    }
    fs::write(folder.path().join("cluster.yaml"), deployment("web", 1, "web:0")).unwrap();
    let output = berth(folder.path(), &["plan", "--from", "cluster.yaml", "-f", "app.yaml"], "");
    let printed = texts(&output);
    assert!(output.status.success() && printed.contains("warning: the plan has no pods of CronJob migrate"), "{printed}");
}

/// A pod that no Deployment owns must be ready too: `--wait` fails if its image is missing, and names the cause.
#[test]
fn pods_replica_sets_and_replication_controllers_are_waited_for() {
    let folder = TempDir::new().unwrap();
    let manifest = |kind: &str, fails: &str| {
        let metadata = format!("metadata: {{name: old, labels: {{app: old}}, annotations: {{sim.berth.dev/fails: '{fails}'}}}}");
        let pod = "spec: {containers: [{name: main, image: old:1}]}";
        match kind {
            "Pod" => format!("apiVersion: v1\nkind: Pod\n{metadata}\n{pod}\n"),
            kind => {
                let (version, selector) =
                    if kind == "ReplicaSet" { ("apps/v1", "{matchLabels: {app: old}}") } else { ("v1", "{app: old}") };
                let template = format!("{{{metadata}, {pod}}}");
                format!(
                    "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: old}}\nspec: {{selector: {selector}, template: {template}}}\n"
                )
            }
        }
    };
    for (kind, title) in [("Pod", "pod/old"), ("ReplicaSet", "replicaset.apps/old"), ("ReplicationController", "replicationcontroller/old")]
    {
        for (fails, code, outcome) in
            [("", 0, format!("1 {kind} available after")), ("ImagePullBackOff", 1, format!("1 of 1 {kind} not available"))]
        {
            fs::write(folder.path().join("app.yaml"), manifest(kind, fails)).unwrap();
            let up = ["up", "--store", "memory", "--secure-port", "0", "--no-dashboard", "-f", "app.yaml", "--wait", "--timeout", "5s"];
            let output = berth(folder.path(), &[&up[..], FAST].concat(), "");
            let printed = texts(&output);
            assert_eq!(output.status.code(), Some(code), "{kind} {fails}: {printed}");
            assert!(printed.contains(&outcome) && printed.contains(title), "{kind} {fails}: {printed}");
            assert_eq!(printed.contains("cannot pull its image"), !fails.is_empty(), "{kind} {fails}: {printed}");
        }
    }
}

/// `--wait` waits until a Job is complete. If it fails, the output has the reason.
#[test]
fn a_job_is_waited_for_to_its_end() {
    let folder = TempDir::new().unwrap();
    for (code, expected, outcome) in
        [(0, 0, "1 Job complete after"), (3, 1, "job.batch/migrate in default: failed: Job has reached the specified backoff limit")]
    {
        let job = format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: migrate}}\nspec: {{backoffLimit: 0, template: {{metadata: {{annotations: \
             {{sim.berth.dev/exit-code: \"{code}\"}}}}, spec: {{restartPolicy: Never, containers: [{{name: main, image: db:1}}]}}}}}}\n"
        );
        fs::write(folder.path().join("app.yaml"), job).unwrap();
        let all = [&["up", "--store", "memory", "--secure-port", "0", "--no-dashboard", "-f", "app.yaml", "--wait"], FAST].concat();
        let output = berth(folder.path(), &all, "");
        let printed = texts(&output);
        assert_eq!(output.status.code(), Some(expected), "{printed}");
        assert!(printed.contains(outcome), "{printed}");
    }
}

/// The output of a restart with this file, between the start and "Running.".
fn restarted(folder: &Path, file: &Path) -> (common::Berth, Vec<String>) {
    let mut berth = up_in(folder, &[FAST, &["-f", file.to_str().unwrap()]].concat());
    let mut lines = Vec::new();
    loop {
        let line = berth.line_with("");
        if line.starts_with("Running.") {
            return (berth, lines);
        }
        lines.push(line);
    }
}

#[test]
fn a_restart_goes_on_with_a_rollout_and_reports_what_the_file_changes() {
    if !kubectl_is_here() {
        return;
    }
    let (data, files) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = files.path().join("web.yaml");
    let other = CONFIG.replace("behind", "other");
    let text = |replicas, image| format!("{}---\n{CONFIG}---\n{other}", deployment("web", replicas, image));
    fs::write(&file, text(6, "web:1")).unwrap();
    let (berth, lines) = restarted(data.path(), &file);
    assert!(lines.contains(&"deployment.apps/web created".to_owned()), "{lines:?}");
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kill();

    let (berth, lines) = restarted(data.path(), &file);
    let image = ["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"];
    assert_eq!(berth.kubectl(&image), "web:2", "{lines:?}");
    let has = |lines: &[String], wanted: &str| assert!(lines.iter().any(|line| line == wanted), "no {wanted:?} in {lines:?}");
    has(&lines, "deployment.apps/web unchanged");
    has(&lines, "  spec.template.spec.containers[main].image stays web:2; the unchanged manifest has web:1");
    has(&lines, "configmap/behind unchanged");
    has(&lines, "1 object stays as changed since the last apply of the manifests. `kubectl apply -f` restores the manifests");
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kill();

    // The restart applies another number of pods. The image, which the file has not changed, remains.
    fs::write(&file, text(3, "web:1").replace("{a: b}", "{a: c}")).unwrap();
    let (berth, lines) = restarted(data.path(), &file);
    has(&lines, "deployment.apps/web configured");
    has(&lines, "  spec.replicas: 6 -> 3");
    has(&lines, "configmap/other configured");
    has(&lines, "  data.a: b -> c");
    assert_eq!(berth.kubectl(&image), "web:2", "{lines:?}");
    berth.kill();

    fs::write(&file, text(3, "web:3")).unwrap();
    let (berth, lines) = restarted(data.path(), &file);
    has(&lines, "  spec.template.spec.containers[main].image: web:2 -> web:3");
    assert!(!lines.iter().any(|line| line.contains("stays")), "{lines:?}");
    assert_eq!(berth.kubectl(&image), "web:3");
    let applied = berth.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    assert_eq!(applied, "deployment.apps/web unchanged\nconfigmap/behind unchanged\nconfigmap/other unchanged\n");
}

#[test]
fn values_of_secrets_are_not_printed() {
    if !kubectl_is_here() {
        return;
    }
    let (data, files) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = files.path().join("secret.yaml");
    let text = |value: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\nstringData: {{a: {value}}}\n");
    fs::write(&file, text("first")).unwrap();
    restarted(data.path(), &file).0.kill();
    fs::write(&file, text("second")).unwrap();
    let (berth, lines) = restarted(data.path(), &file);
    assert!(lines.contains(&"  data.a: (not shown) -> (not shown)".to_owned()), "{lines:?}");
    assert_eq!(berth.kubectl(&["get", "secret", "key", "-o", "jsonpath={.data.a}"]), "c2Vjb25k");
}
