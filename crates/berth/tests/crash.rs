//! `kill -9` under write load: whatever was acknowledged is there after the next start, and the server goes on.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

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

/// Writes with many writers until `enough` creates are acknowledged, then kills the server while the others are under way.
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
    // Answers that were on their way when the server died count too.
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

fn berth(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(arguments).arg("--data-dir").arg(folder).stdin(Stdio::null()).output().unwrap()
}

/// Exit code, standard output and standard error.
fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What its owner does about a damaged store: a start refuses, a check tells what is wrong, and a start that accepts the loss goes on.
#[test]
fn a_damaged_store_is_told_checked_and_opened_if_the_loss_is_accepted() {
    let folder = TempDir::new().unwrap();
    let quiet = ["--controllers=-*", "--nodes", "0"];
    let running = common::up_in(folder.path(), &quiet);
    let (code, _, error) = told(&berth(&["check"], folder.path()));
    assert!(code == Some(1) && error.contains("in use by another process"), "{code:?} {error}");
    running.kill();
    let (code, output, _) = told(&berth(&["check"], folder.path()));
    assert!(code == Some(0) && output.ends_with("Everything is whole.\n"), "{code:?} {output}");

    let log = folder.path().join("store/log-00000001");
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let (code, output, _) = told(&berth(&["check", "-o", "json"], folder.path()));
    let found: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &found["whole"], &found["faults"][0]["file"]), (Some(1), &false.into(), &"log-00000001".into()), "{output}");
    let (code, _, error) = told(&berth(&["up", "--secure-port", "0"], folder.path()));
    assert!(code == Some(1) && error.contains("was acknowledged") && error.contains("--accept-loss"), "{code:?} {error}");
    assert_eq!(fs::read(&log).unwrap(), bytes, "a start that refuses changes nothing");

    common::up_in(folder.path(), &[&quiet[..], &["--accept-loss"]].concat()).kill();
    assert_eq!(told(&berth(&["check"], folder.path())).0, Some(0));
    let (code, _, error) = told(&berth(&["check"], &folder.path().join("elsewhere")));
    assert!(code == Some(1) && error.contains("there is no store in"), "{code:?} {error}");
}
