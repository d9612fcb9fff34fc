//! A server that receives more than it can store: what it rejects, what continues, and that users can delete everything.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, Berth, PATIENCE};
use berth_testing::{Tool, skip};
use futures::{StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{collections::BTreeMap, fs, time::Instant};
use tempfile::TempDir;

/// A client that does not retry. By default, the client of `kube` retries after a 429.
async fn client_of(berth: &Berth) -> Client {
    let mut config = berth.kube_config().await;
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn text(client: &Client, path: &str) -> kube::Result<String> {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
}

/// Repeats the check until it holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < PATIENCE, "not yet: {what}");
    }
}

fn config_map(name: &str, bytes: usize) -> ConfigMap {
    let data = Some(BTreeMap::from([("text".to_owned(), "x".repeat(bytes))]));
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, data, ..ConfigMap::default() }
}

/// The code, reason and message of a rejection.
#[derive(Clone, Copy)]
struct Refusal(u16, &'static str, &'static str);

/// etcd's message, which clients know.
const NO_SPACE: Refusal = Refusal(507, "InsufficientStorage", "mvcc: database space exceeded: ");
const NO_MEMORY: Refusal = Refusal(429, "TooManyRequests", "The server has no memory left to store more; deletions make room.");

impl Refusal {
    fn is<T>(self, result: &kube::Result<T>) -> bool {
        let Self(code, reason, words) = self;
        matches!(result, Err(kube::Error::Api(status)) if status.code == code && status.reason == reason && status.message.contains(words))
    }
}

/// Creates smaller and smaller config maps until even the smallest does not fit.
async fn fill(maps: &Api<ConfigMap>) {
    for bytes in [50_000, 5_000, 500, 0] {
        for number in 0.. {
            let made = maps.create(&PostParams::default(), &config_map(&format!("c{bytes}-{number}"), bytes)).await;
            if NO_SPACE.is(&made) {
                break;
            }
            made.unwrap();
            assert!(number < 1000, "there is no bound");
        }
    }
}

/// Whether the pod is running.
fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// The value of a metric.
async fn metric(client: &Client, name: &str) -> u64 {
    let metrics = text(client, "/metrics").await.unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {metrics}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn pods(client: &Client) -> usize {
    Api::<Pod>::all(client.clone()).list_metadata(&ListParams::default()).await.unwrap().items.len()
}

/// `kubectl scale --replicas=2147483647` in one namespace, and a user who fills all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_of_all_pods_fills_its_bound_and_a_full_server_goes_on_starts_again_and_can_be_emptied() {
    const QUOTA: u64 = 1_500_000;
    let folder = TempDir::new().unwrap();
    let quota = QUOTA.to_string();
    let arguments = ["--nodes", "2", "--quota-bytes", &quota];
    let start = || common::up_in(folder.path(), &arguments);
    let berth = start();
    let client = client_of(&berth).await;
    let namespaces = Api::<Namespace>::all(client.clone());
    let name = |number: usize| format!("n{number}");
    for number in 0..8 {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name(number)}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }

    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let all: Deployment = serde_saphyr::from_str(&common::deployment("all", 1, "web:1")).unwrap();
    deployments.create(&PostParams::default(), &all).await.unwrap();
    deployments.patch_scale("all", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": i32::MAX}}))).await.unwrap();
    until("the Deployment says that there is no room", async || {
        let status = deployments.get("all").await.unwrap().status.unwrap_or_default();
        let refused = status.conditions.unwrap_or_default().into_iter().filter_map(|condition| condition.message);
        refused.into_iter().any(|message| message.contains(NO_SPACE.2))
    })
    .await;
    let filled = pods(&client).await;
    assert!((30..200).contains(&filled), "{filled} pods in half of {QUOTA} bytes");
    // The stored pods also run.
    let all_pods = Api::<Pod>::default_namespaced(client.clone());
    until("all of them run", async || all_pods.list(&ListParams::default()).await.unwrap().items.iter().all(is_running)).await;
    text(&client, "/readyz").await.expect("one namespace is full, no more");

    // Each of the other namespaces takes half of the remaining space, until none is left.
    for number in 0..8 {
        fill(&Api::namespaced(client.clone(), &name(number))).await;
    }
    is_full(&client, QUOTA).await;
    assert!((30..200).contains(&pods(&client).await), "still so many");
    // The last namespace still takes half of what the others leave.
    let leases = Api::<Lease>::namespaced(client.clone(), &name(7));
    let lease = serde_json::from_value(json!({"metadata": {"name": "l"}})).unwrap();
    leases.create(&PostParams::default(), &lease).await.expect("leases have the reserve");

    berth.kill();
    let berth = start();
    let client = client_of(&berth).await;
    is_full(&client, QUOTA).await;

    // The controller deletes unwanted pods, and deletions free space.
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    deployments.patch_scale("all", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 2}}))).await.unwrap();
    until("two pods are left", async || pods(&client).await == 2).await;
    deployments.delete("all", &DeleteParams::foreground()).await.unwrap();
    until("no pods are left", async || pods(&client).await == 0).await;
    let namespaces = Api::<Namespace>::all(client.clone());
    for number in 0..8 {
        namespaces.delete(&name(number), &DeleteParams::default()).await.unwrap();
    }
    until("the namespaces are gone", async || namespaces.list_metadata(&ListParams::default()).await.unwrap().items.len() == 4).await;
    text(&client, "/readyz").await.expect("there is room again");
    assert_eq!(metric(&client, "berth_store_no_space").await, 0);
    Api::default_namespaced(client).create(&PostParams::default(), &config_map("again", 100_000)).await.expect("there is room again");
}

/// Checks what users and administrators see when the server is full. No limit was exceeded.
async fn is_full(client: &Client, quota: u64) {
    let one_more = Api::default_namespaced(client.clone()).create(&PostParams::default(), &config_map("one-more", 30_000)).await;
    assert!(NO_SPACE.is(&one_more), "{one_more:?}");
    assert_eq!(metric(client, "berth_store_no_space").await, 1);
    assert_ne!(metric(client, "berth_store_refused_writes_total").await, 0);
    assert!(metric(client, "apiserver_storage_size_bytes").await <= quota);
    for (path, words) in [("/readyz", "[-]store-space failed"), ("/readyz/store-space", "the quota is used up")] {
        let told = text(client, path).await;
        assert!(matches!(&told, Err(kube::Error::Api(status)) if status.code == 500 && status.message.contains(words)), "{path}: {told:?}");
    }
    text(client, "/livez").await.expect("a new start would not help");
    Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.expect("reads go on");
}

/// The server's memory in bytes. `None` where the machine does not report it.
fn resident(berth: &Berth) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", berth.pid())).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?.trim().to_owned();
    Some(kilobytes.parse::<u64>().ok()? << 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_ends_below_the_watermark_of_memory_and_deletions_go_on() {
    const SLACK: u64 = 64 << 20;
    let folder = TempDir::new().unwrap();
    // Replaced and deleted objects remain in memory as long as the history needs them.
    let quiet = ["--controllers=-*", "--nodes", "0", "--quota-bytes", "0", "--history-bytes", "1"];
    let idle = {
        let berth = common::up_in(folder.path(), &quiet);
        client_of(&berth).await.apiserver_version().await.unwrap();
        resident(&berth)
    };
    let Some(idle) = idle else { return skip(Tool::Procfs, "the machine does not say how much memory a process has") };
    let watermark = idle / 3 * 4;
    let berth = common::up_in(folder.path(), &[&quiet[..], &["--memory-bytes", &watermark.to_string()]].concat());
    let client = client_of(&berth).await;
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let create = async |number: usize| maps.create(&PostParams::default(), &config_map(&format!("c{number}"), 900_000)).await;
    let made: Vec<_> = {
        let creates = stream::iter(0..10_000).map(create).buffered(8);
        // The others are the requests in progress at the first rejection.
        let made = creates.scan(0, |refused, made| {
            *refused += usize::from(made.is_err());
            let goes_on = *refused <= 8;
            async move { goes_on.then_some(made) }
        });
        made.collect().await
    };
    let (stored, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert!(!stored.is_empty() && !refused.is_empty() && refused.iter().all(|refused| NO_MEMORY.is(refused)), "{refused:?}");
    let retry_after = refused.iter().map(|refused| match refused {
        Err(kube::Error::Api(status)) => status.details.as_ref().map(|details| details.retry_after_seconds),
        _ => None,
    });
    assert!(retry_after.eq(vec![Some(2); refused.len()]), "{refused:?}");
    let used = resident(&berth).unwrap();
    assert!(used < watermark + SLACK, "{used} bytes, where {watermark} were to be the end, and {idle} the beginning");
    for map in stored {
        maps.delete(&map.unwrap().metadata.name.unwrap(), &DeleteParams::default()).await.expect("deletions go on");
    }
    assert_eq!(maps.list_metadata(&ListParams::default()).await.unwrap().items.len(), 0);
    until("there is memory again", async || {
        let made = maps.create(&PostParams::default(), &config_map("again", 900_000)).await;
        assert!(made.is_ok() || NO_MEMORY.is(&made), "{made:?}");
        made.is_ok()
    })
    .await;
}
