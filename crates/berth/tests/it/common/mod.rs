//! A real `berth up` for one test: its own folder, its own port, stopped when dropped.
#![expect(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod legs;
pub(crate) mod part;
pub(crate) mod terminal;

use berth_testing::{Tool, skip};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, runtime::wait::await_condition};
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The timeout of every wait: far beyond the time that a slow machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running `berth up`.
pub(crate) struct Berth {
    child: Child,
    output: Lines,
    folder: Option<TempDir>,
    /// `--data-dir`.
    pub(crate) data_dir: PathBuf,
}

/// `berth up` with a fresh folder and a free port.
pub(crate) fn up(arguments: &[&str]) -> Berth {
    let folder = TempDir::new().unwrap();
    let mut berth = up_in(folder.path(), arguments);
    berth.folder = Some(folder);
    berth
}

/// `berth up` on a folder that the test keeps.
pub(crate) fn up_in(folder: &Path, arguments: &[&str]) -> Berth {
    up_logging(folder, arguments, Stdio::inherit())
}

/// `berth up` on a folder that the test keeps, with its standard error in `log`.
pub(crate) fn up_logging(folder: &Path, arguments: &[&str], log: Stdio) -> Berth {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["up", "--secure-port", "0", "--data-dir"])
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let output = Lines::of(child.stdout.take().unwrap());
    let mut berth = Berth { child, output, folder: None, data_dir: folder.to_path_buf() };
    berth.line_with("API server ready at");
    berth
}

impl Berth {
    /// Reads the output until a line contains `text`. Returns that line.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        for line in &mut self.output {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("berth ended without printing {text:?}; it printed:\n{}", seen.join("\n"));
    }

    /// Runs `berth rollout`, expects success, and returns the output.
    pub(crate) fn rollout(&self, arguments: &[&str]) -> String {
        let output = self.rollout_command(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "berth rollout {arguments:?}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs `berth rollout`, expects exit code 1, and returns the error output.
    pub(crate) fn rollout_fails(&self, arguments: &[&str]) -> String {
        let output = self.rollout_command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "berth rollout {arguments:?}:\n{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// `berth rollout watch` as a user types it.
    pub(crate) fn watch(&self, arguments: &[&str], (rows, columns): (u16, u16)) -> terminal::Terminal {
        let kubeconfig = self.kubeconfig();
        let all = [&["rollout", "watch", "--kubeconfig", kubeconfig.to_str().unwrap()], arguments].concat();
        terminal::Terminal::run(&all, (rows, columns))
    }

    /// Runs `berth explain`, expects success, and returns the output.
    pub(crate) fn explain(&self, arguments: &[&str]) -> String {
        let output = self.explain_command(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "berth explain {arguments:?}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    pub(crate) fn explain_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.arg("explain").args(arguments).arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    fn rollout_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.arg("rollout").args(arguments).arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// The path of its kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data_dir.join("kubeconfig")
    }

    /// The configuration of Rust's `kube` for it.
    pub(crate) async fn kube_config(&self) -> kube::Config {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig()).unwrap();
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await.unwrap()
    }

    /// Rust's `kube` client for it.
    pub(crate) async fn kube_client(&self) -> Client {
        Client::try_from(self.kube_config().await).unwrap()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs kubectl against it, with `input` as its standard input.
    pub(crate) fn kubectl_with(&self, input: &str, arguments: &[&str]) -> Output {
        self.run(Path::new("kubectl"), input, arguments)
    }

    /// Runs this kubectl against it, with `input` as its standard input.
    pub(crate) fn run(&self, kubectl: &Path, input: &str, arguments: &[&str]) -> Output {
        let mut child = Command::new(kubectl)
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.data_dir.join("kube-cache"))
            .env("HOME", &self.data_dir)
            // The change that `kubectl edit` makes.
            .env("EDITOR", "sed --in-place s/web:1/web:edited/")
            .env("KUBECTL_APPLYSET", "true")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs kubectl, expects success, and returns the output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_with("", arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?}:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs kubectl, expects failure, and returns the error output.
    pub(crate) fn kubectl_fails(&self, arguments: &[&str]) -> String {
        let output = self.kubectl_with("", arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "kubectl {arguments:?} should have failed:\n{}", String::from_utf8_lossy(&output.stdout));
        text
    }

    /// Applies a manifest with kubectl.
    pub(crate) fn apply(&self, manifest: &str) -> String {
        let output = self.kubectl_with(manifest, &["apply", "--filename", "-"]);
        assert!(output.status.success(), "kubectl apply:\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Repeats kubectl until `holds` is true for its output.
    pub(crate) fn kubectl_until(&self, arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let text = String::from_utf8_lossy(&self.kubectl_with("", arguments).stdout).into_owned();
            if holds(&text) {
                return text;
            }
            assert!(started.elapsed() < PATIENCE, "kubectl {arguments:?} still prints:\n{text}");
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) -> Option<TempDir> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.folder.take()
    }

    /// Sends it a signal of this name.
    pub(crate) fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap().success());
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(&mut self) -> ExitStatus {
        end_of(&mut self.child)
    }

    /// Sends SIGTERM. Returns the exit code.
    pub(crate) fn terminate(mut self) -> (Option<i32>, Option<TempDir>) {
        self.signal("TERM");
        let status = end_of(&mut self.child);
        (status.code(), self.folder.take())
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a child prints. A wait for a line has a timeout, so that a test fails instead of hanging.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    /// Reads `output` until it ends.
    pub(crate) fn of(output: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self(receiver)
    }
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing was printed for {PATIENCE:?}"),
        }
    }
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for the end of a process that ends by itself.
pub(crate) fn end_of(child: &mut Child) -> ExitStatus {
    until("the process has ended", || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

/// Waits until all terminating pods of the default namespace are deleted, and `count` pods remain.
pub(crate) async fn only_stay(client: &Client, count: usize) {
    let pods = Api::<Pod>::default_namespaced(client.clone());
    loop {
        let found = pods.list(&ListParams::default()).await.unwrap().items;
        let going: Vec<String> =
            found.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).filter_map(|pod| pod.metadata.name.clone()).collect();
        let Some(name) = going.first() else {
            assert_eq!(found.len(), count);
            return;
        };
        let is_gone = |pod: Option<&Pod>| pod.is_none();
        tokio::time::timeout(PATIENCE, await_condition(pods.clone(), name, is_gone)).await.unwrap().unwrap();
    }
}

/// Whether the machine has a kubectl that supports current servers (1.28 or later). Prints why not.
pub(crate) fn kubectl_is_here() -> bool {
    let Ok(output) = Command::new("kubectl").args(["version", "--client", "--output", "json"]).output() else {
        skip(Tool::Kubectl, "it is not on this machine");
        return false;
    };
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().map(|text| text.trim_end_matches('+').parse::<u32>().unwrap_or(0));
    if minor.is_none_or(|minor| minor < 28) {
        skip(Tool::Kubectl, &format!("it is older than 1.28: {version}"));
        return false;
    }
    true
}

/// The tool that `cargo xtask test` installed at this path below `target/tools`. Reports if it is missing.
pub(crate) fn tool(tool: Tool, path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(path);
    if found.exists() {
        return Some(found);
    }
    skip(tool, &format!("no target/tools/{path}: `cargo xtask test` installs it where it can be had"));
    None
}

/// Helm 3, which npm provides for some machines.
pub(crate) fn helm() -> Option<PathBuf> {
    tool(Tool::Helm3, "javascript/node_modules/.bin/helm")
}

/// Kills a server in the middle of a rollout, and checks that the next one continues it. Returns the next server.
pub(crate) fn goes_on_after_kill_nine(folder: &Path, arguments: &[&str]) -> Berth {
    let berth = up_in(folder, arguments);
    berth.apply(&deployment("web", 6, "web:1"));
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl(&["set", "image", "deployment/web", "main=web:2"]);
    berth.kill();
    let berth = up_in(folder, arguments);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]), "web:2");
    berth.kubectl_until(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"], |images| {
        images.split(' ').count() == 6 && images.split(' ').all(|image| image == "web:2")
    });
    berth
}

/// A Deployment as YAML.
pub(crate) fn deployment(name: &str, replicas: u32, image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels: {{app: {name}}}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
      containers:
        - name: main
          image: {image}
"
    )
}
