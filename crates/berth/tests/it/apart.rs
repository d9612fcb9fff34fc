//! A control plane of four processes: an API server, controllers, a scheduler and nodes, which communicate only through objects.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, end_of, part::Part};
use berth_testing::Upstream;
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::{Lease, LeaseSpec},
    core::v1::Pod,
};
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use tokio::time::timeout;

fn deployment(image: &str) -> Deployment {
    let metadata = json!({"labels": {"app": "web"}, "annotations": {"sim.berth.dev/terminates-after": "500ms"}});
    let template = json!({"metadata": metadata, "spec": {"containers": [{"name": "main", "image": image}]}});
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let spec = json!({"replicas": 4, "podReplacementPolicy": "TerminationComplete", "strategy": strategy,
        "selector": {"matchLabels": {"app": "web"}}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

/// Runs `berth rollout status` until the rollout is complete.
fn rolled_out(kubeconfig: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["rollout", "status", "deployment/web", "--timeout", "60s", "--kubeconfig"])
        .arg(kubeconfig)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_processes_carry_a_rollout_out() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let data_dir = folder.path().to_str().unwrap();
    let mut server = Part::start(&["apiserver", "--store", "memory", "--secure-port", "0", "--data-dir", data_dir], None);
    server.line_with("API server ready at");
    let fast = ["--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
    let mut parts = [
        Part::start(&["controller-manager"], Some(&kubeconfig)),
        Part::start(&["scheduler"], Some(&kubeconfig)),
        Part::start(&[&["node"][..], &fast].concat(), Some(&kubeconfig)),
    ];
    for (part, name) in parts.iter_mut().zip(["berth-controller-manager", "berth-scheduler", "berth-node"]) {
        part.line_with(&format!("{name} works on https://127.0.0.1:"));
    }
    let api = Api::<Deployment>::default_namespaced(client(&kubeconfig).await);
    api.create(&PostParams::default(), &deployment("web:1")).await.unwrap();
    rolled_out(&kubeconfig);
    // The patch has the field that k8s-openapi does not know.
    let patch = json!({"spec": {"podReplacementPolicy": "TerminationComplete", "template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    api.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    rolled_out(&kubeconfig);
    let pods = Api::<Pod>::default_namespaced(client(&kubeconfig).await).list(&ListParams::default()).await.unwrap();
    let images: Vec<_> = pods.items.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()).collect();
    assert_eq!(images, ["web:2"; 4]);
}

/// Scales the Deployment, and waits until it has that many pods.
async fn scale(kubeconfig: &Path, replicas: u32) {
    let api = Api::<Deployment>::default_namespaced(client(kubeconfig).await);
    api.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": replicas}}))).await.unwrap();
    rolled_out(kubeconfig);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_outlive_their_server() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, kubeconfig) = (folder.path().to_str().unwrap(), folder.path().join("kubeconfig"));
    let mut server = Part::start(&["apiserver", "--secure-port", "0", "--data-dir", data_dir], None);
    let port = port_of(&server.line_with("API server ready at"));
    drop(server);
    let again = || Part::start(&["apiserver", "--secure-port", &port, "--data-dir", data_dir], None);
    // The parts start before the server, and wait for it.
    let _parts = ["controller-manager", "scheduler", "node"].map(|name| Part::start(&[name], Some(&kubeconfig)));
    let mut server = again();
    server.line_with("API server ready at");
    let api = Api::<Deployment>::default_namespaced(client(&kubeconfig).await);
    api.create(&PostParams::default(), &deployment("web:1")).await.unwrap();
    rolled_out(&kubeconfig);
    drop(server);
    let mut server = again();
    server.line_with("API server ready at");
    scale(&kubeconfig, 6).await;
}

/// The port in `… ready at https://127.0.0.1:PORT after …`.
fn port_of(line: &str) -> String {
    let (_, rest) = line.split_once("https://127.0.0.1:").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// One of two controller managers is the leader. After a signal the other takes over at once. After a kill it takes over when the lease has
/// expired.
#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_another_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, kubeconfig) = (folder.path().to_str().unwrap(), folder.path().join("kubeconfig"));
    let mut server = Part::start(&["apiserver", "--store", "memory", "--secure-port", "0", "--data-dir", data_dir], None);
    server.line_with("API server ready at");
    let _others = ["scheduler", "node"].map(|name| Part::start(&[name], Some(&kubeconfig)));
    let timing = ["--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s", "--leader-elect-retry-period", "500ms"];
    let candidate = || {
        let mut part = Part::start(&[&["controller-manager"][..], &timing].concat(), Some(&kubeconfig));
        part.line_with("waits to acquire the lease kube-system/berth-controller-manager");
        part
    };
    let works = "berth-controller-manager works on";
    let mut first = candidate();
    first.line_with(works);
    let api = Api::<Deployment>::default_namespaced(client(&kubeconfig).await);
    api.create(&PostParams::default(), &deployment("web:1")).await.unwrap();
    rolled_out(&kubeconfig);
    let mut second = candidate();
    assert!(first.terminate().success(), "it ends in order");
    second.line_with(works);
    scale(&kubeconfig, 5).await;
    let lease = lease(&kubeconfig).await;
    assert_eq!((lease.lease_transitions, lease.lease_duration_seconds), (Some(1), Some(4)), "{lease:?}");
    let mut third = candidate();
    // The test kills the leader in the middle of a rollout that must not have more than six pods.
    let pods = Api::<Pod>::default_namespaced(client(&kubeconfig).await);
    let most = tokio::spawn(most_pods_until(pods, "web:3"));
    let template = json!({"spec": {"containers": [{"name": "main", "image": "web:3"}]}});
    let patch = json!({"spec": {"podReplacementPolicy": "TerminationComplete", "template": template}});
    api.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    while api.get("web").await.unwrap().status.unwrap().updated_replicas.unwrap_or(0) == 0 {
        tokio::task::yield_now().await;
    }
    drop(second);
    let killed = Instant::now();
    third.line_with(works);
    // The duration of a lease, 1.2 times the interval between two attempts, and the time to start and to print a line.
    assert!(killed.elapsed() < Duration::from_millis(4_600) + Duration::from_secs(5), "{:?}", killed.elapsed());
    rolled_out(&kubeconfig);
    assert_eq!(timeout(common::PATIENCE, most).await.unwrap().unwrap(), 6, "with those that go: five and one more");
    // A manager that has lost its lease exits. Here the lease has another holder.
    let leases = Api::<Lease>::namespaced(client(&kubeconfig).await, "kube-system");
    let patch = json!({"spec": {"holderIdentity": "somebody"}});
    leases.patch("berth-controller-manager", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(end_of(&mut third.child).code(), Some(1));
}

/// The maximum number of pods at a time, until five pods have this image and there are no others.
async fn most_pods_until(pods: Api<Pod>, image: &str) -> usize {
    let mut shown = BTreeMap::new();
    let mut most = 0;
    let mut changes = watcher(pods, watcher::Config::default()).default_backoff().boxed();
    loop {
        match changes.next().await.unwrap() {
            Ok(Event::Init) => shown.clear(),
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                let image = pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
                shown.insert(pod.metadata.name.clone().unwrap(), image);
            }
            Ok(Event::Delete(pod)) => drop(shown.remove(&pod.metadata.name.unwrap())),
            Ok(Event::InitDone) | Err(_) => (),
        }
        most = most.max(shown.len());
        if shown.len() == 5 && shown.values().all(|of| of == image) {
            return most;
        }
    }
}

async fn lease(kubeconfig: &Path) -> LeaseSpec {
    let leases = Api::<Lease>::namespaced(client(kubeconfig).await, "kube-system");
    leases.get("berth-controller-manager").await.unwrap().spec.unwrap()
}

/// Where the server does not know the field, an annotation replaces it.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_work_on_another_kubernetes() {
    // The equivalent upstream controllers are disabled.
    let Some(upstream) = Upstream::start(&["--controllers", "*,-deployment,-replicaset,-statefulset"]) else { return };
    let kubeconfig = upstream.kubeconfig();
    let _parts = [
        Part::start(&["controller-manager", "--controllers=deployment,replicaset,statefulset"], Some(&kubeconfig)),
        Part::start(&["scheduler"], Some(&kubeconfig)),
        Part::start(&["node", "--join-foreign-cluster", "--no-simulated-taint", "--nodes", "2"], Some(&kubeconfig)),
    ];
    let api = Api::<Deployment>::default_namespaced(client(&kubeconfig).await);
    let mut web = deployment("web:1");
    web.spec.as_mut().unwrap().replicas = Some(5);
    web.metadata.annotations = Some(BTreeMap::from([("berth.dev/pod-replacement-policy".to_owned(), "TerminationComplete".to_owned())]));
    api.create(&PostParams::default(), &web).await.unwrap();
    rolled_out(&kubeconfig);
    let pods = Api::<Pod>::default_namespaced(client(&kubeconfig).await);
    let most = tokio::spawn(most_pods_until(pods, "web:2"));
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}});
    api.patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    assert_eq!(timeout(common::PATIENCE, most).await.unwrap().unwrap(), 6, "with those that go: five and one more");
    rolled_out(&kubeconfig);
}
