//! `kill -9` under write load: all acknowledged writes exist after the next start, and the server continues.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tempfile::TempDir;
use tokio::sync::Barrier;

const ROUNDS: usize = 50;
const WRITERS: usize = 16;

async fn config_maps(berth: &common::Berth) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(berth.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::default_namespaced(Client::try_from(config).unwrap())
}

fn config_map(round: usize, number: usize) -> ConfigMap {
    let mut map = ConfigMap { data: Some(BTreeMap::from([("payload".to_owned(), "x".repeat(512))])), ..ConfigMap::default() };
    map.metadata.name = Some(format!("round-{round}-{number}"));
    map
}

/// Writes concurrently until `enough` creates are acknowledged, then kills the server while other writes are in progress.
async fn write_and_kill(berth: common::Berth, round: usize, enough: usize) -> Vec<String> {
    let api = config_maps(&berth).await;
    let create = |number: usize| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &config_map(round, number)).await.map(|made| made.name_any()) }
    };
    let mut pending: FuturesUnordered<_> = (0..WRITERS).map(create).collect();
    let mut next = WRITERS;
    let mut acknowledged = Vec::new();
    while acknowledged.len() < enough {
        acknowledged.push(pending.next().await.unwrap().unwrap());
        pending.push(create(next));
        next += 1;
    }
    berth.kill();
    // Responses that were in transit when the server died count too.
    while let Some(answer) = pending.next().await {
        acknowledged.extend(answer.ok());
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_write_survives_kill_nine() {
    let folder = TempDir::new().unwrap();
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        let berth = common::up_in(folder.path(), &["--controllers=-*", "--nodes", "0"]);
        let stored = config_maps(&berth).await.list(&ListParams::default()).await.unwrap();
        let stored: BTreeSet<String> = stored.items.iter().map(ResourceExt::name_any).collect();
        let lost: Vec<_> = acknowledged.difference(&stored).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and not there: {lost:?}");
        // Different numbers, so that the kill hits different points of a commit.
        acknowledged.extend(write_and_kill(berth, round, 20 + round * 7 % 61).await);
    }
}

/// A watch that continues after the last seen revision, as client libraries do.
struct Watcher {
    /// Config maps or secrets.
    resource: usize,
    params: WatchParams,
    version: String,
    seen: Vec<String>,
}

/// The name of the last object.
const LAST: &str = "last";

impl Watcher {
    /// Watches until the server ends, or until the watch has seen `enough` changes or the last object. Begins when all watches are
    /// `opened`.
    async fn follow(&mut self, apis: &[Api<DynamicObject>], enough: usize, opened: &Barrier) {
        let mut events = apis[self.resource].watch(&self.params, &self.version).await.unwrap().boxed();
        opened.wait().await;
        while self.seen.len() < enough && !self.has_seen_all() {
            let (sign, object) = match events.next().await {
                Some(Ok(WatchEvent::Added(object))) => ('+', object),
                Some(Ok(WatchEvent::Modified(object))) => ('~', object),
                Some(Ok(WatchEvent::Deleted(object))) => ('-', object),
                Some(Ok(other)) => panic!("behind {}: {other:?}", self.version),
                Some(Err(_)) | None => return,
            };
            self.version = object.resource_version().unwrap();
            self.seen.push(format!("{sign}{}@{}", object.name_any(), self.version));
        }
    }

    fn has_seen_all(&self) -> bool {
        self.seen.last().is_some_and(|last| last.contains(LAST))
    }
}

/// Config maps and secrets.
async fn apis(berth: &common::Berth) -> Vec<Api<DynamicObject>> {
    let client = berth.kube_client().await;
    let resources = [ApiResource::erase::<ConfigMap>(&()), ApiResource::erase::<Secret>(&())];
    resources.iter().map(|resource| Api::default_namespaced_with(client.clone(), resource)).collect()
}

/// The step-th change of a writer: it creates an object, changes its color, changes it back, or deletes it.
async fn change(api: &Api<DynamicObject>, writer: usize, step: usize) -> kube::Result<()> {
    let name = format!("{writer}-{}", step / 4);
    let paint = |color: &str| Patch::Merge(json!({"metadata": {"labels": {"color": color}}}));
    match step % 4 {
        0 => {
            let object = json!({"metadata": {"name": name, "labels": {"color": "red"}}});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.map(drop)
        }
        1 => api.patch(&name, &PatchParams::default(), &paint("blue")).await.map(drop),
        2 => api.patch(&name, &PatchParams::default(), &paint("red")).await.map(drop),
        _ => api.delete(&name, &DeleteParams::default()).await.map(drop),
    }
}

/// Watchers of all objects and of selections. When the server is killed, they are current or any number of changes behind. All continue
/// with the next server without a list, and receive every change once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_continue_after_their_last_revision_when_the_server_was_killed() {
    const CHANGES: usize = 240;
    let folder = TempDir::new().unwrap();
    let quiet = ["--controllers=-*", "--nodes", "0"];
    let berth = common::up_in(folder.path(), &quiet);
    let before = apis(&berth).await;
    let mut followers = Vec::new();
    for (resource, api) in before.iter().enumerate() {
        let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        for params in [WatchParams::default(), WatchParams::default().labels("color=red"), WatchParams::default().labels("color=blue")] {
            let params = params.disable_bookmarks();
            followers.extend((0..27).map(|_| Watcher { resource, params: params.clone(), version: version.clone(), seen: Vec::new() }));
        }
    }
    let first = followers[0].version.clone();

    let (done, running) = (AtomicUsize::new(0), Mutex::new(Some(berth)));
    let write = async |writer: usize| {
        for step in 0.. {
            if change(&before[writer % 2], writer, step).await.is_err() {
                return step;
            }
            if done.fetch_add(1, Ordering::SeqCst) == CHANGES {
                running.lock().unwrap().take().map(common::Berth::kill);
            }
        }
        unreachable!("the server was killed")
    };
    // The first of each selection reads until the server ends, the others stop earlier.
    let opened = Barrier::new(followers.len() + 1);
    let follow =
        followers.iter_mut().enumerate().map(|(number, follower)| follower.follow(&before, (number % 27 * 4).wrapping_sub(1), &opened));
    let write_all = async {
        opened.wait().await;
        join_all((0..4).map(write)).await
    };
    let (written, _) = tokio::join!(write_all, join_all(follow));

    let berth = common::up_in(folder.path(), &quiet);
    let after = apis(&berth).await;
    for api in &after {
        for color in ["red", "blue"] {
            let last = json!({"metadata": {"name": format!("{LAST}-{color}"), "labels": {"color": color}}});
            api.create(&PostParams::default(), &serde_json::from_value(last).unwrap()).await.unwrap();
        }
    }
    let opened = Barrier::new(1);
    join_all(followers.iter_mut().map(|follower| follower.follow(&after, usize::MAX, &opened))).await;
    for selection in followers.chunks(27) {
        let Watcher { resource, params, .. } = &selection[0];
        let mut whole = Watcher { resource: *resource, params: params.clone(), version: first.clone(), seen: Vec::new() };
        whole.follow(&after, usize::MAX, &opened).await;
        assert!(whole.has_seen_all());
        assert!(selection.iter().all(|follower| follower.seen == whole.seen), "{params:?}");
        if params.label_selector.is_none() {
            let acknowledged: usize = written.iter().skip(*resource).step_by(2).sum();
            // Changes in transit when the server died may be there too.
            assert!((acknowledged..=acknowledged + 2).contains(&(whole.seen.len() - 1)), "{acknowledged} of {:?}", whole.seen);
        }
    }
}

fn berth(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).arg("--data-dir").arg(folder).stdin(Stdio::null()).output().unwrap()
}

/// Exit code, standard output and standard error.
fn output_texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// berth reads the keys before it opens the store, because opening begins a new log.
#[test]
fn a_start_that_refuses_a_damaged_key_has_not_touched_the_store() {
    let folder = TempDir::new().unwrap();
    common::up_in(folder.path(), &["--controllers=-*", "--nodes", "0"]).kill();
    let store = || -> BTreeMap<_, _> {
        let files = fs::read_dir(folder.path().join("store")).unwrap().map(|file| file.unwrap().path());
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = store();
    for key in ["ca.pem", "admin.pem", "service-account.key"].map(|name| folder.path().join("pki").join(name)) {
        let whole = fs::read(&key).unwrap();
        fs::write(&key, &whole[..whole.len() / 2]).unwrap();
        let (code, _, error) = output_texts(&berth(&["up", "--secure-port", "0"], folder.path()));
        assert!(code == Some(1) && error.contains("contains no usable certificate or key"), "{code:?} {error}");
        assert_eq!(store(), before, "{}", key.display());
        fs::write(&key, whole).unwrap();
    }
}

/// The steps of the owner of a damaged store: a start fails, a check reports the damage, and a start that accepts the loss continues.
#[test]
fn a_damaged_store_is_reported_checked_and_opened_if_the_loss_is_accepted() {
    let folder = TempDir::new().unwrap();
    let quiet = ["--controllers=-*", "--nodes", "0"];
    let running = common::up_in(folder.path(), &quiet);
    let (code, _, error) = output_texts(&berth(&["check"], folder.path()));
    assert!(code == Some(1) && error.contains("in use by another process"), "{code:?} {error}");
    // Killed, it could leave a last write that it has not acknowledged.
    running.terminate();
    let (code, output, _) = output_texts(&berth(&["check"], folder.path()));
    assert!(code == Some(0) && output.ends_with("Everything is intact.\n"), "{code:?} {output}");

    let log = folder.path().join("store/log-00000001");
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let (code, output, _) = output_texts(&berth(&["check", "-o", "json"], folder.path()));
    let found: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &found["whole"], &found["faults"][0]["file"]), (Some(1), &false.into(), &"log-00000001".into()), "{output}");
    let (code, _, error) = output_texts(&berth(&["up", "--secure-port", "0"], folder.path()));
    assert!(code == Some(1) && error.contains("was acknowledged") && error.contains("--accept-loss"), "{code:?} {error}");
    assert_eq!(fs::read(&log).unwrap(), bytes, "a start that refuses changes nothing");

    common::up_in(folder.path(), &[&quiet[..], &["--accept-loss"]].concat()).kill();
    assert_eq!(output_texts(&berth(&["check"], folder.path())).0, Some(0));
    let (code, _, error) = output_texts(&berth(&["check"], &folder.path().join("elsewhere")));
    assert!(code == Some(1) && error.contains("there is no store in"), "{code:?} {error}");
}
