//! Rollouts whose steps wait for an analysis, on a real server, with a local provider that implements Prometheus' API.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Berth, deployment, kubectl_is_here, until, up, up_in, up_logging};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};
use tempfile::TempDir;

const FAST: &[&str] = &["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

/// Answers a numeric query with its number, as Prometheus does. Answers `flag` with the value that a test sets, or with an error if there
/// is none.
struct Prometheus {
    address: SocketAddr,
    flag: Arc<Mutex<Option<f64>>>,
}

impl Prometheus {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, flag) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(None)));
        let said = Arc::clone(&flag);
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, *said.lock().unwrap())));
        Self { address, flag }
    }

    fn set(&self, number: f64) {
        *self.flag.lock().unwrap() = Some(number);
    }

    /// Writes the administrator's file.
    fn providers(&self, folder: &Path) -> PathBuf {
        let url = format!("http://{}", self.address);
        let file = folder.join("providers.yaml");
        let text = format!(
            "providers:\n- {{name: prod, kind: prometheus, url: '{url}', namespaces: [default], allowLoopback: true}}\n\
             - {{name: theirs, kind: prometheus, url: '{url}', namespaces: [theirs], allowLoopback: true}}\n\
             - {{name: near, kind: prometheus, url: '{url}', namespaces: ['*']}}\n"
        );
        fs::write(&file, text).unwrap();
        file
    }
}

fn answer(mut stream: TcpStream, flag: Option<f64>) {
    let mut request = String::new();
    let mut piece = [0; 4096];
    while !request.contains("&timeout=") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(read) => request.push_str(&String::from_utf8_lossy(&piece[..read])),
        }
    }
    let query = request.split_once("\r\n\r\nquery=").and_then(|(_, body)| body.split('&').next()).unwrap_or_default();
    let number = if query == "flag" { flag } else { query.parse().ok() };
    let (status, body) = match number {
        Some(number) => ("200 OK", format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{number}"]}}}}"#)),
        None => ("503 Service Unavailable", "the provider's own words".to_owned()),
    };
    _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

fn annotate(berth: &Berth, annotations: &[&str]) {
    berth.kubectl(&[&["annotate", "deployment", "web", "--overwrite"], annotations].concat());
}

fn image(berth: &Berth) -> String {
    berth.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"])
}

fn events(berth: &Berth, reason: &str) -> String {
    berth.kubectl(&["get", "events", &format!("--field-selector=reason={reason}"), "-o", "jsonpath={.items[*].message}"])
}

fn set_image(berth: &Berth, image: &str) {
    berth.kubectl(&["set", "image", "deployment/web", &format!("main={image}")]);
}

fn status_until(berth: &Berth, part: &str) {
    until(part, || berth.rollout(&["status", "deployment/web", "--watch=false"]).contains(part));
}

#[test]
fn a_rollout_goes_on_goes_back_or_waits_as_a_provider_answers() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let prometheus = Prometheus::start();
    let (manifest, providers) = (folder.path().join("web.yaml"), prometheus.providers(folder.path()));
    fs::write(&manifest, deployment("web", 4, "web:1")).unwrap();
    let (manifest, providers) = (manifest.to_str().unwrap(), providers.to_str().unwrap());
    let mut berth = up(&[FAST, &["-f", manifest, "--analysis-providers", providers]].concat());
    berth.line_with("rolled out after");

    let steps = "berth.dev/steps=50%,analysis,100%";
    let refused = berth.kubectl_fails(&["annotate", "deployment", "web", steps, "berth.dev/analysis-provider=prod"]);
    let missing = "metadata.annotations[berth.dev/analysis-query]: Required value: berth.dev/steps has an `analysis`";
    assert!(refused.contains(missing), "{refused}");
    let refused = berth.kubectl_fails(&["annotate", "deployment", "web", "berth.dev/analysis-provider=Prod/x"]);
    assert!(refused.contains("metadata.annotations[berth.dev/analysis-provider]: Invalid value: \"Prod/x\""), "{refused}");

    annotate(&berth, &[steps, "berth.dev/analysis-provider=prod", "berth.dev/analysis-query=0.97"]);
    set_image(&berth, "web:2");
    berth.rollout(&["status", "deployment/web"]);
    until("the event", || {
        events(&berth, "AnalysisPassed") == "step 2 of 3, at 50%: the analysis by provider \"prod\" passed: it answered 0.97"
    });

    annotate(&berth, &["berth.dev/analysis-query=0"]);
    set_image(&berth, "web:3");
    until("the way back", || image(&berth) == "web:2");
    let gone_back = "Rolled back from revision 3, which failed its analysis, to revision 2, now 4: step 2 of 3, at 50%: the analysis by \
                     provider \"prod\" failed: it answered 0";
    status_until(&berth, gone_back);
    until("the event", || events(&berth, "AutomaticRollback") == gone_back);

    for (provider, query, why) in [
        ("nobody", "1", "unknown provider"),
        ("theirs", "1", "not allowed in this namespace"),
        ("near", "1", "address refused"),
        ("prod", "flag", "error status"),
    ] {
        annotate(&berth, &[&format!("berth.dev/analysis-provider={provider}"), &format!("berth.dev/analysis-query={query}")]);
        set_image(&berth, &format!("web:{provider}"));
        let waits = format!("step 2 of 3, at 50%: waiting for an analysis by provider {provider:?}: no answer ({why}), retrying");
        status_until(&berth, &waits);
        assert!(berth.explain(&["deployment/web"]).contains(&waits));
        let message = "jsonpath={.status.conditions[?(@.type==\"Progressing\")].message}";
        assert_eq!(berth.kubectl_until(&["get", "deployment", "web", "-o", message], |text| text == waits), waits);
        let all = berth.kubectl(&["get", "events,deployments,replicasets", "-o", "yaml"]);
        assert!(!all.contains("own words"), "{all}");
    }
    berth.rollout(&["promote", "deployment/web"]);
    berth.rollout(&["status", "deployment/web"]);
    assert_eq!(image(&berth), "web:prod");
}

#[test]
fn a_server_that_is_killed_while_it_waits_for_an_answer_asks_again() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let prometheus = Prometheus::start();
    let (manifest, providers) = (folder.path().join("web.yaml"), prometheus.providers(folder.path()));
    fs::write(&manifest, deployment("web", 4, "web:1")).unwrap();
    let data = folder.path().join("data");
    let providers = ["--analysis-providers", providers.to_str().unwrap()];
    let mut berth = up_in(&data, &[FAST, &providers[..], &["-f", manifest.to_str().unwrap()]].concat());
    berth.line_with("rolled out after");
    annotate(&berth, &["berth.dev/steps=50%,analysis,100%", "berth.dev/analysis-provider=prod", "berth.dev/analysis-query=flag"]);
    set_image(&berth, "web:2");
    status_until(&berth, "no answer (error status)");
    berth.kill();
    let berth = up_in(&data, &[FAST, &providers[..]].concat());
    status_until(&berth, "no answer (error status)");
    prometheus.set(0.0);
    until("the way back", || image(&berth) == "web:1");
    berth.rollout(&["status", "deployment/web"]);
}

#[test]
fn a_provider_that_is_added_while_the_server_runs_is_asked_and_a_wrong_file_changes_nothing() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (manifest, providers, log) = (folder.path().join("web.yaml"), folder.path().join("providers.yaml"), folder.path().join("log"));
    fs::write(&manifest, deployment("web", 4, "web:1")).unwrap();
    fs::write(&providers, "providers: []").unwrap();
    let arguments = [FAST, &["-f", manifest.to_str().unwrap(), "--analysis-providers", providers.to_str().unwrap()]].concat();
    let mut berth = up_logging(&folder.path().join("data"), &arguments, fs::File::create(&log).unwrap().into());
    berth.line_with("rolled out after");
    annotate(&berth, &["berth.dev/steps=50%,analysis,100%", "berth.dev/analysis-provider=prod", "berth.dev/analysis-query=0.97"]);
    set_image(&berth, "web:2");
    status_until(&berth, "no answer (unknown provider)");
    let told = |part: &str| fs::read_to_string(&log).unwrap().matches(part).count();
    fs::write(&providers, "providers: {").unwrap();
    until("what is wrong", || told("contains no valid analysis providers") == 1);
    Prometheus::start().providers(folder.path());
    until("that it is mended", || told("providers.yaml: fixed and reloaded") == 1);
    berth.rollout(&["status", "deployment/web"]);
    assert_eq!(told("keeping the previous analysis providers"), 1);
}

#[test]
fn a_file_of_providers_that_cannot_be_used_is_refused_at_the_start() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("providers.yaml");
    fs::write(&file, "providers:\n- {name: a, kind: prometheus, url: 'ftp://a', namespaces: []}\n").unwrap();
    for command in [&["up", "--store", "memory"][..], &["controller-manager"]] {
        let mut berth = std::process::Command::new(env!("CARGO_BIN_EXE_berth"));
        let output = berth.args(command).arg("--analysis-providers").arg(&file).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let told = "providers[0].url: must begin with https:// or http://; providers[0].namespaces: no namespace may use it";
        assert!(!output.status.success() && error.contains(told), "{error}");
    }
}

/// A real Prometheus on this machine. The test kills it at the end.
struct RealPrometheus(std::process::Child, SocketAddr);

impl RealPrometheus {
    /// `None`: the machine has no Prometheus.
    fn start(folder: &Path) -> Option<Self> {
        let config = folder.join("prometheus.yml");
        fs::write(&config, "global: {}\n").unwrap();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let mut command = std::process::Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()));
        command.arg(format!("--web.listen-address={address}")).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let child = command.spawn().ok()?;
        until("Prometheus is ready", || {
            let Ok(mut stream) = TcpStream::connect(address) else { return false };
            let mut answer = String::new();
            write!(stream, "GET /-/ready HTTP/1.0\r\n\r\n").is_ok()
                && stream.read_to_string(&mut answer).is_ok()
                && answer.contains(" 200 ")
        });
        Some(Self(child, address))
    }
}

impl Drop for RealPrometheus {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn a_real_prometheus_lets_a_rollout_go_on_or_back() {
    if !kubectl_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let Some(prometheus) = RealPrometheus::start(folder.path()) else {
        return berth_testing::skip(berth_testing::Tool::Promtool, "prometheus is not on this machine (Debian package prometheus)");
    };
    let (manifest, providers) = (folder.path().join("web.yaml"), folder.path().join("providers.yaml"));
    fs::write(&manifest, deployment("web", 4, "web:1")).unwrap();
    let text = format!(
        "providers: [{{name: prod, kind: prometheus, url: 'http://{}', namespaces: [default], allowLoopback: true}}]",
        prometheus.1
    );
    fs::write(&providers, text).unwrap();
    let mut berth = up(&[FAST, &["-f", manifest.to_str().unwrap(), "--analysis-providers", providers.to_str().unwrap()]].concat());
    berth.line_with("rolled out after");
    let ask = |image: &str, query: &str| {
        annotate(
            &berth,
            &["berth.dev/steps=50%,analysis,100%", "berth.dev/analysis-provider=prod", &format!("berth.dev/analysis-query={query}")],
        );
        set_image(&berth, image);
    };
    for (image, query, why) in [
        ("web:2", "vector(1) > 2", "no sample"),
        ("web:3", "0 / 0", "not finite"),
        ("web:4", "label_replace(vector(1), \"a\", \"b\", \"\", \"\") or vector(2)", "several samples"),
        ("web:5", "sum(", "error status"),
    ] {
        ask(image, query);
        status_until(&berth, &format!("no answer ({why}), retrying"));
    }
    ask("web:6", "vector(0.97)");
    berth.rollout(&["status", "deployment/web"]);
    until("the event", || events(&berth, "AnalysisPassed").ends_with("passed: it answered 0.97"));
    ask("web:7", "0.5 < bool 0.1");
    until("the way back", || image(&berth) == "web:6");
    status_until(&berth, "the analysis by provider \"prod\" failed: it answered 0");
}
