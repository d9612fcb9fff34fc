//! `berth up --store etcd`, over a real etcd.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{
    common::{self, Berth, Lines, kubectl_is_here, up_in, up_logging},
    etcd::{
        self, Etcd, eventually, gateway,
        tls::{self, Authority},
    },
};
use berth_store::{
    Expected, Key, Revision,
    etcd::{Etcd as _, EtcdError, Put, Query},
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const FAST: &[&str] = &["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];

fn are_here() -> bool {
    kubectl_is_here() && etcd::is_here()
}

/// The error of a `berth up` that must not start.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["up", "--secure-port", "0", "--data-dir"]).arg(folder).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A server that starts prints this line, and is killed.
    let started = Lines::of(child.stdout.take().unwrap()).next();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(started.is_none() && !output.status.success(), "{arguments:?} should have failed: {started:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many reads etcd has answered so far.
fn reads_of(etcd: &Etcd) -> u64 {
    let mut connection = TcpStream::connect(etcd.endpoint.trim_start_matches("http://")).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut metrics = String::new();
    connection.read_to_string(&mut metrics).unwrap();
    let is_range = |line: &&str| line.starts_with("grpc_server_handled_total{") && line.contains("grpc_method=\"Range\"");
    metrics.lines().filter(is_range).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// One after the other: a creation asks etcd once for the minimum revision of the reads of namespace and quotas. A deletion of an object
/// that the server has seen does not.
#[test]
fn a_creation_asks_etcd_once_and_a_deletion_not_at_all() {
    const OBJECTS: u64 = 100;
    if !are_here() {
        return;
    }
    let (etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let berth = up_in(folder.path(), &["--store", "etcd", "--etcd-servers", &etcd.endpoint, "--nodes", "0", "--controllers=-*"]);
    if !etcd.client().client.reports_progress() {
        berth_testing::skip(berth_testing::Tool::Etcd36, "this one does not tell how far a watch is, and is asked for each read");
        return;
    }
    let items: Vec<String> = (0..OBJECTS)
        .map(|number| format!("{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {{\"name\": \"c{number}\"}}}}"))
        .collect();
    let all = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}", items.join(","));
    let before = reads_of(&etcd);
    assert!(berth.kubectl_with(&all, &["create", "-f", "-"]).status.success());
    let created = reads_of(&etcd);
    assert!(berth.kubectl_with(&all, &["delete", "--wait=false", "-f", "-"]).status.success());
    let deleted = reads_of(&etcd);
    // The server checks etcd's health every five seconds.
    let others = OBJECTS / 2;
    assert!(created - before < OBJECTS + others, "{OBJECTS} creations took {} reads", created - before);
    assert!(deleted - created < others, "{OBJECTS} deletions took {} reads", deleted - created);
}

fn raw(berth: &Berth, path: &str) -> String {
    let output = berth.kubectl_with("", &["get", "--raw", path]);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// The same request without credentials.
fn stranger(berth: &Berth, path: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = berth.kube_config().await;
        config.auth_info = kube::config::AuthInfo::default();
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        kube::Client::try_from(config).unwrap().request_text(request).await.unwrap()
    })
}

fn is_ready(berth: &Berth) -> bool {
    raw(berth, "/readyz") == "ok"
}

#[test]
fn rollouts_go_on_whether_the_server_or_etcd_is_killed() {
    if !are_here() {
        return;
    }
    let (mut etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let endpoint = etcd.endpoint.clone();
    let berth = common::goes_on_after_kill_nine(folder.path(), &[FAST, &["--store", "etcd", "--etcd-servers", &endpoint]].concat());
    assert!(raw(&berth, "/readyz?verbose").contains("\n[+]etcd ok\n"));
    assert!(raw(&berth, "/metrics").contains("berth_store_ready{store=\"etcd\"} 1\n"));

    etcd.kill();
    eventually("it is not ready", || !is_ready(&berth));
    let why = raw(&berth, "/readyz/etcd");
    assert!(why.contains(&format!("etcd at {endpoint}: ")) && why.contains("onnection refused"), "{why}");
    assert_eq!(raw(&berth, "/livez"), "ok", "to start it anew would not help");
    for path in ["/livez", "/healthz"] {
        assert_eq!(stranger(&berth, path), "ok", "probes have no credentials: {path}");
    }
    eventually("metrics say so", || raw(&berth, "/metrics").contains("berth_store_ready{store=\"etcd\"} 0\n"));
    let told = berth.kubectl_fails(&["create", "configmap", "a"]);
    assert!(told.contains(&endpoint), "{told}");

    etcd.start_again();
    eventually("it heals", || is_ready(&berth));
    berth.kubectl(&["scale", "deployment/web", "--replicas", "3"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl_until(&["get", "pods", "-o", "name"], |pods| pods.lines().count() == 3);
    assert_eq!(berth.terminate().0, Some(0));
}

/// A watch of the rollouts also reads their causes, which are unknown while etcd is down.
#[test]
fn rollouts_that_are_followed_outlive_etcds_absence() {
    if !are_here() {
        return;
    }
    let (mut etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let (manifest, log) = (folder.path().join("web.yaml"), folder.path().join("log"));
    let metadata = r#""metadata": {"labels": {"app": "web"}, "annotations": {"sim.berth.dev/fails": "ImagePullBackOff"}}"#;
    let template = format!(r#"{{{metadata}, "spec": {{"containers": [{{"name": "web", "image": "web:1"}}]}}}}"#);
    let spec = format!(r#"{{"replicas": 1, "selector": {{"matchLabels": {{"app": "web"}}}}, "template": {template}}}"#);
    let web = format!(r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "web"}}, "spec": {spec}}}"#);
    fs::write(&manifest, web).unwrap();
    let manifest = manifest.display().to_string();
    let arguments = [FAST, &["--store", "etcd", "--etcd-servers", &etcd.endpoint, "-f", &manifest]].concat();
    let mut berth = up_logging(&folder.path().join("data"), &arguments, File::create(&log).unwrap().into());
    berth.line_with("cannot pull its image");

    etcd.kill();
    let said = || fs::read_to_string(&log).unwrap();
    eventually("it says so", || said().contains("berth reports the workloads when the store is available again\n"));
    etcd.start_again();
    eventually("it heals", || is_ready(&berth));
    let mended = r#"{"spec": {"template": {"metadata": {"annotations": {"sim.berth.dev/fails": null}}}}}"#;
    berth.kubectl(&["patch", "deployment/web", "-p", mended]);
    berth.line_with("deployment.apps/web in default: rolled out");
    assert_eq!(said().matches("berth reports the workloads").count(), 1, "{}", said());
    assert_eq!(berth.terminate().0, Some(0));
}

/// Writes of a killed server may still arrive, and the next server would not know of them.
#[test]
fn controllers_write_by_a_lease_that_a_second_one_gets_when_the_first_is_seen_to_be_gone() {
    if !are_here() {
        return;
    }
    let (etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let arguments = [FAST, &["--store", "etcd", "--etcd-servers", &etcd.endpoint]].concat();
    let path = "jsonpath={.spec.leaseTransitions} {.spec.holderIdentity}";
    let lease = |berth: &Berth| {
        let told = berth.kubectl(&["-n", "kube-system", "get", "lease/berth-up", "-o", path]);
        let (transitions, holder) = told.split_once(' ').unwrap();
        (transitions.parse::<u32>().unwrap(), holder.to_owned())
    };
    let first = up_in(folder.path(), &arguments);
    let (transitions, killed) = lease(&first);
    assert!(transitions == 0 && !killed.is_empty());
    first.kill();

    // The lease of the killed server would have lasted 15 s.
    let started = Instant::now();
    let log = folder.path().join("log");
    let mut first = up_logging(folder.path(), &arguments, File::create(&log).unwrap().into());
    first.kubectl(&["create", "deployment", "web", "--image", "web:1", "--replicas", "2"]);
    first.kubectl(&["rollout", "status", "deployment/web"]);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    let (transitions, holder) = lease(&first);
    assert!(transitions == 1 && !holder.is_empty() && holder != killed, "{holder} after {killed}");

    // Another server with the same credentials.
    let copy = TempDir::new().unwrap();
    assert!(Command::new("cp").arg("-r").arg(folder.path()).arg(copy.path()).status().unwrap().success());
    let copied = copy.path().join(folder.path().file_name().unwrap());
    let why = refused(&copied, &arguments);
    let told = format!("berth: another berth up, {holder}, runs controllers here and holds the lease kube-system/berth-up: ");
    assert!(why.contains(&told), "{why}");

    first.signal("STOP");
    let second = up_in(&copied, &arguments);
    first.signal("CONT");
    let (transitions, taken) = lease(&second);
    assert!(transitions == 2 && taken != holder, "{taken} after {holder}");
    assert_eq!(first.end().code(), Some(1));
    let log = fs::read_to_string(log).unwrap();
    let told = "berth: another server has the lease kube-system/berth-up now: its controllers are the leaders, and this server ends\n";
    assert!(log.ends_with(told), "{log}");
    second.kubectl(&["scale", "deployment/web", "--replicas", "3"]);
    second.kubectl(&["rollout", "status", "deployment/web"]);
    assert_eq!(second.terminate().0, Some(0));

    // A patch of the lease fences the controllers: their writes fail from then on.
    let mut last = up_in(&copied, &arguments);
    assert_eq!(lease(&last).0, 3);
    let patch = r#"{"spec": {"holderIdentity": "another", "leaseTransitions": 4}}"#;
    last.kubectl(&["-n", "kube-system", "patch", "lease/berth-up", "--type", "merge", "-p", patch]);
    last.kubectl(&["scale", "deployment/web", "--replicas", "4"]);
    assert_eq!(last.end().code(), Some(1));
    assert_eq!(stored(&etcd, "/registry/pods/default/").len(), 3);
}

/// A namespace is deleted when all caches have seen its contents, including those of kinds that no client writes.
#[test]
fn over_an_etcd_without_progress_reports_namespaces_are_deleted_and_the_server_stays_ready() {
    if !kubectl_is_here() {
        return;
    }
    let (Some(etcd), folder) = (Etcd::old(), TempDir::new().unwrap()) else { return };
    let berth = up_in(folder.path(), &[FAST, &["--store", "etcd", "--etcd-servers", &etcd.endpoint]].concat());
    for name in ["one", "two"] {
        berth.kubectl(&["create", "namespace", name]);
        berth.kubectl(&["--namespace", name, "create", "configmap", "a"]);
        berth.kubectl(&["delete", "namespace", name, "--timeout", "60s"]);
    }
    assert_eq!(raw(&berth, "/readyz"), "ok");
    assert_eq!(berth.terminate().0, Some(0));
}

#[test]
fn a_server_without_etcd_stops_at_a_signal() {
    if !are_here() {
        return;
    }
    let (mut etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let berth = up_in(folder.path(), &[FAST, &["--store", "etcd", "--etcd-servers", &etcd.endpoint]].concat());
    etcd.kill();
    eventually("it is not ready", || !is_ready(&berth));
    assert_eq!(berth.terminate().0, Some(0));
}

#[test]
fn what_cannot_be_right_is_refused_with_what_to_do() {
    let check = |arguments: &[&str], says: &[&str]| {
        let folder = TempDir::new().unwrap();
        let text = refused(folder.path(), arguments);
        assert!(says.iter().all(|part| text.contains(part)), "{arguments:?} should say {says:?}:\n{text}");
    };
    let etcd = |url: &'static str, more: &[&'static str]| [&["--store", "etcd", "--etcd-servers", url], more].concat();
    check(&["--store", "etcd"], &["not provided", "--etcd-servers <URL,...>"]);
    check(&["--etcd-servers", "http://127.0.0.1:1"], &["etcd options require --store etcd"]);
    check(
        &etcd("http://10.0.0.1:2379", &[]),
        &["plain http to another machine", "every object, including Secrets", "(--insecure-etcd allows it)"],
    );
    check(&etcd("https://10.0.0.1:2379", &[]), &["there is no authority to verify its certificate", "(--etcd-cafile)"]);
    check(&etcd("10.0.0.1:2379", &[]), &["not an etcd address", "(--etcd-servers)"]);
    check(&etcd("http://127.0.0.1:1", &["--etcd-prefix", "registry"]), &["write a prefix as /registry"]);
    check(&etcd("http://127.0.0.1:1", &["--etcd-certfile", "a.crt"]), &["not provided", "--etcd-keyfile <FILE>"]);
    check(&etcd("http://127.0.0.1:1", &["--etcd-cafile", "/nowhere/ca.crt"]), &["cannot read /nowhere/ca.crt: "]);
    check(&etcd("http://127.0.0.1:1", &["--etcd-user", "a"]), &["not provided", "--etcd-password-file <FILE>"]);
    check(&etcd("http://127.0.0.1:1", &["--etcd-user", "a", "--etcd-password-file", "/nowhere/a"]), &["cannot read /nowhere/a: "]);
    let overrides = |text: &'static str| etcd("http://127.0.0.1:1", &["--etcd-servers-overrides", text]);
    check(&["--etcd-servers-overrides", "/events#http://127.0.0.1:1"], &["etcd options require --store etcd"]);
    for wrong in ["events#http://127.0.0.1:1", "/events", "/events#", "/events#http://127.0.0.1:1;", "a/events/b#http://127.0.0.1:1", "/#a"]
    {
        check(&overrides(wrong), &[wrong, "GROUP/RESOURCE#URL;..."]);
    }
    check(&overrides("core/events#http://127.0.0.1:1"), &["berth has no resource \"core/events\"", "(--etcd-servers-overrides)"]);
    check(&overrides("/events#127.0.0.1:2379"), &["not an etcd address", "(--etcd-servers-overrides)"]);
    check(&overrides("/events#http://10.0.0.1:2379"), &["plain http to another machine"]);
    check(&overrides("/events#http://127.0.0.1:1,events.k8s.io/events#http://127.0.0.1:2"), &["events.k8s.io/events is named twice"]);
    check(&etcd("http://127.0.0.1:1", &[]), &["no etcd answers: etcd at http://127.0.0.1:1: ", "onnection refused", "(--etcd-servers)"]);
}

#[test]
fn an_etcd_of_others_is_refused() {
    if !are_here() {
        return;
    }
    let (etcd, folder, another) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap(), TempDir::new().unwrap());
    put(&etcd, "/registry/minions/a", "1");
    let over = ["--nodes", "0", "--store", "etcd", "--etcd-servers", &etcd.endpoint];
    let told = refused(folder.path(), &over);
    let says = "etcd contains keys below /registry that berth did not create: /registry/minions/a: if a kube-apiserver wrote them, take them over with --take-over";
    assert!(told.contains(says), "{told}");

    let over = [&over[..], &["--etcd-prefix", "/berth/"]].concat();
    let berth = up_in(folder.path(), &over);
    berth.kubectl(&["create", "configmap", "a"]);
    let told = refused(another.path(), &over);
    assert!(
        told.contains("a control plane with other certificates") && told.contains("etcdctl del /berth/berth.dev/control-plane"),
        "{told}"
    );
    berth.kill();
    up_in(folder.path(), &over).kubectl(&["get", "configmap", "a"]);
}

/// Stores a value as a kube-apiserver could.
fn put(etcd: &Etcd, key: &str, value: &'static str) {
    let client = etcd.client();
    let put = Put { key: Key::new(key), expected: Some(Expected::Absent), value: Some(value.into()), lease: None };
    client.wait(client.client.txn(Arc::new([put]))).unwrap();
}

#[test]
fn what_others_have_stored_is_taken_over_and_nothing_is_added() {
    if !are_here() {
        return;
    }
    let (etcd, of_events, folder) = (Etcd::start(etcd::PATIENT), Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    put(&etcd, "/registry/minions/a", r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}"#);
    let namespace = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"gone","uid":"v"},"spec":{"finalizers":["kubernetes"]}}"#;
    put(&etcd, "/registry/namespaces/gone", namespace);
    put(&of_events, "/registry/events/gone/e", "k8s:enc:unreadable");
    let overrides = format!("/events#{}", of_events.endpoint);
    let over = ["--store", "etcd", "--etcd-servers", &etcd.endpoint, "--etcd-servers-overrides", &overrides];
    assert!(
        refused(folder.path(), &over)
            .contains("/registry/minions/a, /registry/namespaces/gone: if a kube-apiserver wrote them, take them over with --take-over")
    );
    let berth = up_in(folder.path(), &[&over[..], &["--take-over"]].concat());
    assert_eq!(berth.kubectl(&["get", "nodes,namespaces,storageclasses,clusterroles", "-o", "name"]), "node/a\nnamespace/gone\n");
    // Simulates a kube-apiserver that ran meanwhile.
    put(&etcd, "/registry/daemonsets/gone/d", "not of this server");
    berth.kill();
    // The server knows of it from then on, and the option names the controllers: all of them.
    let berth = up_in(folder.path(), &[FAST, &over, &["--controllers", "*"]].concat());
    berth.kubectl_until(&["get", "nodes", "-o", "name"], |nodes| nodes.lines().count() == 3);
    put(&etcd, "/registry/example.com/widgets/gone/w", "nor this");
    berth.kubectl(&["delete", "namespace", "gone", "--wait=false"]);
    let let_go = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"gone"},"spec":{"finalizers":[]}}"#;
    let output = berth.kubectl_with(let_go, &["replace", "--raw", "/api/v1/namespaces/gone/finalize", "-f", "-"]);
    let told = String::from_utf8_lossy(&output.stderr);
    let holds = "contains objects that berth does not serve or cannot read: 1 below /registry/daemonsets/, 1 below /registry/events/, \
        1 below /registry/example.com/widgets/";
    assert!(told.contains(holds), "{told}");
    assert_eq!(berth.kubectl(&["get", "namespace", "gone", "-o", "jsonpath={.status.phase}"]), "Terminating");
}

#[test]
fn a_user_is_let_in_and_again_when_etcd_has_forgotten_his_token() {
    if !are_here() {
        return;
    }
    let (mut etcd, folder, files) = (Etcd::with_gateway(etcd::PATIENT), TempDir::new().unwrap(), TempDir::new().unwrap());
    gateway::enable_users(&etcd.endpoint);
    let endpoint = etcd.endpoint.clone();
    let over = ["--nodes", "0", "--store", "etcd", "--etcd-servers", &endpoint];
    assert!(refused(folder.path(), &over).contains("user name is empty"));
    let password = |text: &str| tls::file(files.path(), text.trim(), text);
    let (right, wrong) = (password("secret\n"), password("another"));
    let as_root = |password| [&over[..], &["--etcd-user", "root", "--etcd-password-file", password]].concat();
    assert!(refused(folder.path(), &as_root(&wrong)).contains("authentication failed"));

    let berth = up_in(folder.path(), &as_root(&right));
    berth.kubectl(&["create", "configmap", "a"]);
    // etcd keeps its tokens only in memory.
    etcd.kill();
    eventually("it is not ready", || !is_ready(&berth));
    etcd.start_again();
    eventually("it heals", || is_ready(&berth));
    berth.kubectl(&["create", "configmap", "b"]);
}

/// The key prefixes in an etcd.
fn resources_in(etcd: &Etcd) -> BTreeSet<String> {
    stored(etcd, "/registry/").iter().map(|key| key.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")).collect()
}

/// The keys with this prefix.
fn stored(etcd: &Etcd, prefix: &str) -> Vec<String> {
    let client = etcd.client();
    let all = Query { prefix: prefix.into(), start_after: None, at: None, limit: None };
    let found = client.wait(client.client.range(all)).unwrap().keys;
    found.iter().map(|found| found.key.as_str().to_owned()).collect()
}

#[test]
fn one_resource_may_be_in_another_etcd() {
    const EVENTS: &str = "/registry/events";
    if !are_here() {
        return;
    }
    let (etcd, mut of_events, folder) = (Etcd::start(etcd::PATIENT), Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let events_at = of_events.endpoint.clone();
    let overrides = format!("/events#{events_at}");
    let over = ["--store", "etcd", "--etcd-servers", &etcd.endpoint, "--etcd-servers-overrides", &overrides];
    let berth = up_in(folder.path(), &[FAST, &over, &["--etcd-compaction-interval", "500ms"]].concat());
    berth.kubectl(&["create", "deployment", "web", "--image", "nginx"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    berth.kubectl_until(&["get", "events", "-o", "name"], |events| events.contains("event/web"));
    assert_eq!(resources_in(&of_events), [EVENTS, "/registry/berth.dev"].map(str::to_owned).into());
    assert!(!resources_in(&etcd).contains(EVENTS));
    let client = of_events.client();
    let oldest =
        || client.wait(client.client.range(Query { prefix: EVENTS.into(), start_after: None, at: Some(Revision(2)), limit: None }));
    eventually("it is compacted too", || matches!(oldest(), Err(EtcdError::Compacted)));

    of_events.kill();
    eventually("it is not ready", || !is_ready(&berth));
    let why = raw(&berth, "/readyz/store-readiness");
    assert!(why.contains("/registry/events/: ") && why.contains(&events_at), "{why}");
    berth.kubectl(&["scale", "deployment/web", "--replicas", "2"]);
    berth.kubectl(&["rollout", "status", "deployment/web"]);
    of_events.start_again();
    eventually("it heals", || is_ready(&berth));
    let told = refused(TempDir::new().unwrap().path(), &["--store", "etcd", "--etcd-servers", &events_at]);
    assert!(told.contains("a control plane with other certificates"), "{told}");
}

#[test]
fn etcd_forgets_what_was_replaced_long_ago() {
    if !are_here() {
        return;
    }
    let (etcd, folder) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap());
    let over = ["--nodes", "0", "--store", "etcd", "--etcd-servers", &etcd.endpoint, "--etcd-compaction-interval", "500ms"];
    let berth = up_in(folder.path(), &over);
    berth.kubectl(&["create", "configmap", "a"]);
    let then = berth.kubectl(&["get", "configmap", "a", "-o", "jsonpath={.metadata.resourceVersion}"]);
    let at = Revision(then.parse().unwrap());
    berth.kubectl(&["annotate", "configmap", "a", "b=c"]);
    let client = etcd.client();
    let read = || {
        let prefix = "/registry/configmaps/default/a".to_owned();
        client.wait(client.client.range(Query { prefix, start_after: None, at: Some(at), limit: None }))
    };
    eventually("it is compacted", || matches!(read(), Err(EtcdError::Compacted)));
    assert_eq!(berth.kubectl(&["get", "configmap", "a", "-o", "jsonpath={.metadata.annotations.b}"]), "c");
}

#[test]
fn under_the_alarm_for_space_deletions_go_on_and_all_else_when_it_is_disarmed() {
    if !are_here() {
        return;
    }
    let (etcd, folder) = (Etcd::with_gateway(etcd::PATIENT), TempDir::new().unwrap());
    let berth = up_in(folder.path(), &["--nodes", "0", "--store", "etcd", "--etcd-servers", &etcd.endpoint]);
    berth.kubectl(&["create", "configmap", "a"]);
    gateway::raise_no_space(&etcd.endpoint);
    eventually("it is not ready", || !is_ready(&berth));
    let why = raw(&berth, "/readyz/store-space");
    assert!(why.contains("etcd has raised its alarm for space (NOSPACE)"), "{why}");
    assert!(raw(&berth, "/metrics").contains("berth_store_no_space 1\n"));
    let told = berth.kubectl_fails(&["create", "configmap", "b"]);
    assert!(told.contains("mvcc: database space exceeded: etcd has raised its alarm"), "{told}");
    let status = berth.kubectl_fails(&["create", "configmap", "b", "-v", "8"]);
    assert!(status.contains("507"), "{status}");
    berth.kubectl(&["delete", "configmap", "a"]);
    gateway::make_room(&etcd.endpoint, 2);
    eventually("it heals", || is_ready(&berth));
    assert!(raw(&berth, "/metrics").contains("berth_store_no_space 0\n"));
    berth.kubectl(&["create", "configmap", "b"]);
}

#[test]
fn only_the_etcd_of_the_authority_is_spoken_to() {
    if !are_here() {
        return;
    }
    let (authority, other, folder, files) = (Authority::new(), Authority::new(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let etcd = Etcd::start(&format!("{}{}", etcd::PATIENT, tls::settings(files.path(), &authority, &authority.pair("127.0.0.1"))));
    let ours = authority.pair("berth");
    let file = |name: &str, text: &str| tls::file(files.path(), name, text);
    let (certificate, key) = (file("berth.crt", &ours.0), file("berth.key", &ours.1));
    let shown =
        ["--nodes", "0", "--store", "etcd", "--etcd-servers", &etcd.endpoint, "--etcd-certfile", &certificate, "--etcd-keyfile", &key];
    let told = refused(folder.path(), &[&shown[..], &["--etcd-cafile", &file("other.crt", other.certificate())]].concat());
    assert!(told.contains("nvalid peer certificate"), "{told}");
    let berth = up_in(folder.path(), &[&shown[..], &["--etcd-cafile", &file("ca.crt", authority.certificate())]].concat());
    berth.kubectl(&["create", "configmap", "a"]);
}

/// A signal stops a server that gets no response.
#[test]
fn a_start_that_waits_for_etcd_can_be_interrupted() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (folder, endpoint) = (TempDir::new().unwrap(), format!("http://{}", silent.local_addr().unwrap()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(["up", "--secure-port", "0", "--store", "etcd", "--etcd-servers", &endpoint, "--data-dir"]).arg(folder.path());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    // By then the process handles its signals itself.
    let (_connection, _) = silent.accept().unwrap();
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let mut status = None;
    eventually("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}
