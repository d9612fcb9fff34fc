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
use std::collections::{BTreeMap, BTreeSet};
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
