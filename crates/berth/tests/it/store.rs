//! `berth backup`, `berth restore` and `berth store`: they copy the stored objects to another place, and restore them.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{
    common::{Berth, kubectl_is_here, until, up_in},
    etcd::{self, Etcd},
};
use berth_etcd::{Client, Options};
use berth_registry::archive::{Header, Writer};
use berth_store::{
    Expected, Key, Revision,
    etcd::{Etcd as _, Put},
};
use berth_testing::Upstream;
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
};
use tempfile::TempDir;

/// Without nodes nothing changes after the controllers have reconciled.
const STILL: &[&str] = &["--nodes", "0"];

const SHOP: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
stringData: {token: hush-hush}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, nodePort: 30123}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  podReplacementPolicy: TerminationComplete
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1'}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: data, namespace: shop}
spec:
  serviceName: web
  updateStrategy: {type: Recreate}
  selector: {matchLabels: {app: data}}
  template:
    metadata: {labels: {app: data}}
    spec: {containers: [{name: main, image: 'data:1'}]}
";

fn berth(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The output of a command that must succeed.
fn done(arguments: &[&str]) -> String {
    let output = berth(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "berth {arguments:?}: {told}");
    told
}

/// The error of a command that must fail.
fn refused(arguments: &[&str]) -> String {
    let output = berth(arguments);
    assert!(!output.status.success(), "berth {arguments:?} should have failed");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `FILE` and `--data-dir FOLDER`, as arguments.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Each object that no controller recreates, with its uid.
fn objects(berth: &Berth) -> String {
    let kinds =
        "namespaces,secrets,services,deployments,replicasets,statefulsets,pods,controllerrevisions,clusterroles,configmaps,serviceaccounts";
    let columns = "custom-columns=K:.kind,N:.metadata.namespace,M:.metadata.name,U:.metadata.uid";
    berth.kubectl(&["get", kinds, "--all-namespaces", "--no-headers", "--output", columns])
}

fn field(berth: &Berth, of: &str, path: &str) -> String {
    fields(berth, of, &[path])
}

fn fields(berth: &Berth, of: &str, paths: &[&str]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| format!("{{{path}}}")).collect();
    berth.kubectl(&["get", "--namespace", "shop", of, "--output", &format!("jsonpath={}", paths.join(" "))])
}

/// A control plane with all objects of a shop.
fn shop(folder: &Path) -> Berth {
    let berth = up_in(folder, STILL);
    berth.apply(SHOP);
    berth.kubectl_until(&["get", "pods", "--namespace", "shop", "--output", "name"], |pods| pods.lines().count() == 4);
    berth
}

#[test]
fn a_backup_of_a_running_server_is_restored_and_watchers_relist() {
    if !kubectl_is_here() {
        return;
    }
    let (folder, files) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let berth = shop(folder.path());
    let (bare, full) = (files.path().join("bare.berth"), files.path().join("full.berth"));
    let of = ["--data-dir", text(folder.path())];
    let told = done(&[&["backup", text(&bare)][..], &of].concat());
    assert!(told.contains(" objects as of revision ") && told.contains("It contains every Secret in plain text"), "{told}");
    let told = done(&[&["backup", "--with-keys", text(&full)][..], &of].concat());
    assert!(told.contains("It contains the control plane's private keys"), "{told}");
    assert_eq!(fs::metadata(&bare).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(refused(&[&["backup", text(&bare)][..], &of].concat()).contains("already exists; choose another file"));
    let before = objects(&berth);
    let (seen, key) = (field(&berth, "deployment/web", ".metadata.resourceVersion"), fs::read(folder.path().join("pki/ca.pem")).unwrap());
    // The backup does not contain later writes.
    berth.kubectl(&["create", "configmap", "later"]);
    berth.kill();
    assert!(refused(&[&["restore", text(&bare)][..], &of].concat()).contains("already contains a store"));

    for (file, has_keys) in [(&bare, false), (&full, true)] {
        let again = TempDir::new().unwrap();
        let told = done(&["restore", text(file), "--data-dir", text(again.path())]);
        assert!(told.contains("watches get 410"), "{told}");
        assert_eq!(fs::read(again.path().join("pki/ca.pem")).ok(), has_keys.then(|| key.clone()));
        let berth = up_in(again.path(), STILL);
        assert_eq!(objects(&berth), before);
        assert_eq!(field(&berth, "secret/key", ".data.token"), "aHVzaC1odXNo");
        assert!(field(&berth, "deployment/web", ".metadata.resourceVersion").parse::<u64>().unwrap() > 1_000_000_000);
        let watch = format!("/api/v1/namespaces/shop/pods?watch=1&resourceVersion={seen}&timeoutSeconds=1");
        let told = berth.kubectl_with("", &["get", "--raw", &watch]);
        let told = String::from_utf8_lossy(&[told.stdout, told.stderr].concat()).into_owned();
        assert!(told.contains("too old resource version") || told.contains("Expired"), "{told}");
        // The restored server also knows the allocated port.
        let told = berth.kubectl_fails(&["create", "service", "nodeport", "other", "--tcp", "80", "--node-port", "30123"]);
        assert!(told.contains("provided port is already allocated"), "{told}");
    }
}

#[test]
fn a_backup_that_is_not_as_it_was_made_changes_nothing() {
    let files = TempDir::new().unwrap();
    let archive = |name: &str, objects: &[(&str, &str)]| {
        let path = files.path().join(name);
        let header = Header::new("0", Revision(7), "2026-01-01T00:00:00Z".parse().unwrap());
        let mut writer = Writer::begin(File::create(&path).unwrap(), &header).unwrap();
        objects.iter().for_each(|(key, value)| writer.object(&Key::new(key), value.as_bytes()).unwrap());
        writer.finish().unwrap();
        path
    };
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b","uid":"u"}}"#;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"u"},"spec":{"containers":[]}}"#;
    let good = archive("good", &[("/registry/configmaps/b/a", map)]);
    let cut = files.path().join("cut");
    fs::write(&cut, &fs::read(&good).unwrap()[..100]).unwrap();
    let check = |archive: &PathBuf, says: &str| {
        let folder = TempDir::new().unwrap();
        let told = refused(&["restore", text(archive), "--data-dir", text(folder.path())]);
        assert!(told.contains(says), "{told}");
        assert!(!folder.path().join("store").exists() && !folder.path().join("store.making").exists());
    };
    check(&cut, "is not valid: ");
    check(&files.path().join("none"), "No such file");
    let folder = TempDir::new().unwrap();
    let told = refused(&["restore", text(&good), "--quota-bytes", "50", "--data-dir", text(folder.path())]);
    assert!(
        told.contains("contains more than 50 bytes of objects; nothing was changed") && !folder.path().join("store").exists(),
        "{told}"
    );
    let far = files.path().join("far");
    let header = Header::new("0", Revision((1 << 52) - 1), "2026-01-01T00:00:00Z".parse().unwrap());
    Writer::begin(File::create(&far).unwrap(), &header).unwrap().finish().unwrap();
    check(&far, "a store that continues from there would reach revisions that clients cannot read");
    check(
        &archive("invalid", &[("/registry/configmaps/b/a", map), ("/registry/pods/b/a", pod)]),
        "/registry/pods/b/a: spec.containers: Required value",
    );
    check(&archive("elsewhere", &[("/registry/configmaps/b/other", map)]), "its name and namespace belong elsewhere");
    let later = archive("later", &[("/registry/configmaps/b/a", map), ("/registry/example.com/widgets/b/a", map)]);
    check(&later, "/registry/example.com/widgets/b/a is of no kind that this berth has");
    let folder = TempDir::new().unwrap();
    let told = done(&["restore", "--leave-out-unknown", text(&later), "--data-dir", text(folder.path())]);
    assert!(
        told.contains("skipped 1 object of kinds that this berth does not serve") && told.contains("1 object as of 2026-01-01T00:00:00Z"),
        "{told}"
    );
}

#[test]
fn objects_grow_into_an_etcd_and_shrink_back() {
    if !kubectl_is_here() || !etcd::is_here() {
        return;
    }
    let (etcd, folder, shrunk) = (Etcd::start(etcd::PATIENT), TempDir::new().unwrap(), TempDir::new().unwrap());
    let berth = shop(folder.path());
    let before = objects(&berth);
    let archive = folder.path().join("objects");
    berth.terminate();
    let of = ["--data-dir", text(folder.path())];
    done(&[&["store", "export", text(&archive)][..], &of].concat());
    let into = [&["store", "import", text(&archive), "--store", "etcd", "--etcd-servers", &etcd.endpoint][..], &of].concat();
    let over = [STILL, &["--store", "etcd", "--etcd-servers", &etcd.endpoint]].concat();

    // Simulates an interrupted import.
    let authority = fs::read_to_string(folder.path().join("pki/ca.pem")).unwrap();
    let authority = &authority[..authority.find("-----BEGIN PRIVATE KEY").unwrap()];
    let client = etcd.client();
    client.wait(client.client.begin_import(authority)).unwrap();
    let half = Put { key: Key::new("/registry/pods/shop/half"), expected: Some(Expected::Absent), value: Some("{}".into()), lease: None };
    client.wait(client.client.txn(Arc::new([half]))).unwrap();
    let told = refused(&[&["up", "--secure-port", "0"][..], &of, &over].concat());
    assert!(told.contains("part of an interrupted import: run berth store import again"), "{told}");

    let told = done(&into);
    assert!(told.contains("Resource versions continue from this etcd's revision"), "{told}");
    assert!(refused(&into).contains("etcd already contains objects of this control plane below /registry"));
    let berth = up_in(folder.path(), &over);
    assert_eq!(objects(&berth), before);
    assert_eq!(field(&berth, "service/web", ".spec.ports[0].nodePort"), "30123");
    berth.kubectl(&["--namespace", "shop", "create", "configmap", "grown"]);
    let before = objects(&berth);
    berth.terminate();

    // The archive comes through a pipe.
    let export = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["store", "export", "--store", "etcd", "--etcd-servers", &etcd.endpoint])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut export = export;
    let import = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["store", "import", "--data-dir"])
        .arg(shrunk.path())
        .stdin(export.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(export.wait().unwrap().success() && import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    assert_eq!(objects(&up_in(shrunk.path(), STILL)), before);
}

/// Waits until a kube-apiserver's lease has ended.
fn no_other_server_runs(endpoint: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let options = Options { endpoints: vec![endpoint.to_owned()], ..Options::default() };
    let client = runtime.block_on(Client::open(&options)).unwrap();
    until("the lease ends", || runtime.block_on(client.rival()).unwrap().is_none());
}

#[test]
fn an_etcd_goes_from_a_kube_apiserver_to_berth_and_back_and_nothing_is_lost() {
    const NEW: &[&str] = &["--namespace", "shop"];
    if !kubectl_is_here() {
        return;
    }
    let Some(upstream) = Upstream::start(&["--no-controllers"]) else { return };
    let (folder, endpoint) = (TempDir::new().unwrap(), upstream.variable("ETCD_ENDPOINT"));
    let kubectl = |arguments: &[&str]| {
        let output =
            Command::new("kubectl").args(arguments).env("KUBECONFIG", upstream.kubeconfig()).env("HOME", folder.path()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    assert!(kubectl(&["create", "namespace", "theirs"]).0);
    let again = upstream.stop_apiserver();
    let over = ["--store", "etcd", "--etcd-servers", &endpoint];
    let of = ["--data-dir", text(folder.path())];
    let take_over = [&over[..], &["--take-over", "--service-cluster-ip-range", "10.0.0.0/24"]].concat();
    let give_back = [&["store", "give-back"][..], &over, &of].concat();

    no_other_server_runs(&endpoint);
    let berth = up_in(folder.path(), &take_over);
    assert!(berth.kubectl(&["get", "namespaces", "--output", "name"]).contains("namespace/theirs"));
    berth.apply(SHOP);
    let running = refused(&give_back);
    assert!(running.contains("is in use by another berth"), "{running}");
    berth.terminate();
    let told = done(&give_back);
    assert!(told.contains("returned; 2 objects have fields that Kubernetes 1.36 does not know as annotations"), "{told}");
    assert!(refused(&give_back).contains("these keys in etcd do not belong to berth"));

    upstream.start_apiserver(&again);
    until("the API server is ready", || kubectl(&["get", "--raw", "/readyz"]).0);
    let get = |of: &str, path: &str| kubectl(&[NEW, &["get", of, "--output", &format!("jsonpath={{{path}}}")]].concat()).1;
    assert_eq!(get("deployment/web", r".metadata.annotations.berth\.dev/pod-replacement-policy"), "TerminationComplete");
    assert_eq!(get("statefulset/data", ".spec.updateStrategy.type"), "OnDelete");
    // The kube-apiserver accepts writes of both objects.
    for object in ["deployment/web", "statefulset/data"] {
        let (is_done, told) = kubectl(&[NEW, &["scale", object, "--replicas", "5"]].concat());
        assert!(is_done, "{told}");
    }
    let told = refused(&[&["up", "--secure-port", "0"][..], &of, &take_over].concat());
    assert!(told.contains("a kube-apiserver uses the keys below /registry in etcd"), "{told}");
    _ = upstream.stop_apiserver();
    no_other_server_runs(&endpoint);

    let berth = up_in(folder.path(), &take_over);
    assert_eq!(fields(&berth, "deployment/web", &[".spec.podReplacementPolicy", ".spec.replicas"]), "TerminationComplete 5");
    assert_eq!(fields(&berth, "statefulset/data", &[".spec.updateStrategy.type", ".spec.replicas"]), "Recreate 5");
    for object in ["deployment/web", "statefulset/data"] {
        assert!(!field(&berth, object, ".metadata.annotations").contains("berth.dev/"), "{object}");
    }
}
