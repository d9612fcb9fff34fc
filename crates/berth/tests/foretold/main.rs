//! Plans of random changes, made from a real `berth up`, hold there (docs/how-to/plan.md, "Is it right?"): a few here, thousands by `cargo xtask foretold`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../it/common/mod.rs"]
mod common;
mod compare;
#[path = "../../../berth-plan/tests/it/common/scenario.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod scenario;
mod seen;
mod trial;

use futures::{StreamExt, stream};
use std::env;
use trial::{Cluster, Ended, Ran};

/// Seeds, with commas, to run instead of a few: each that is over is told in a line of JSON, and none fails.
const SEEDS: &str = "BERTH_FORETOLD_SEEDS";
/// How many of them at once.
const AT_ONCE: &str = "BERTH_FORETOLD_AT_ONCE";
/// How often one that differs is tried again alone: another program may have kept the machine busy.
const TRIES: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_foretold_of_random_changes_of_a_real_cluster_comes_true() {
    if let Ok(seeds) = env::var(SEEDS) {
        let at_once = env::var(AT_ONCE).map_or(1, |text| text.parse().unwrap());
        let cluster = Cluster::up(at_once).await;
        // The test harness has begun a line.
        tell("");
        return run(&cluster, seeds.split(',').map(|seed| seed.parse().unwrap()).collect(), at_once, |ran| {
            tell(&serde_json::to_string(ran).unwrap());
        })
        .await;
    }
    let seeds: Vec<u64> = (0..8).collect();
    let cluster = Cluster::up(seeds.len()).await;
    let mut differed = Vec::new();
    run(&cluster, seeds.clone(), seeds.len(), |ran| differed.extend(is_different(ran).then(|| ran.clone()))).await;
    for first in differed {
        let mut tries = vec![first];
        while tries.len() <= TRIES as usize && tries.last().is_some_and(is_different) {
            tries.push(cluster.run(tries[0].seed).await);
        }
        assert!(!tries.last().is_some_and(is_different), "{tries:#?}");
        tell(&format!("seed {} came true alone: {:?}", tries[0].seed, tries[0].ended));
    }
}

fn is_different(ran: &Ran) -> bool {
    matches!(ran.ended, Ended::Differed { .. })
}

async fn run(cluster: &Cluster, seeds: Vec<u64>, at_once: usize, mut over: impl FnMut(&Ran)) {
    let mut all = stream::iter(seeds).map(|seed| cluster.run(seed)).buffer_unordered(at_once);
    while let Some(ran) = all.next().await {
        over(&ran);
    }
}

fn tell(line: &str) {
    println!("{line}");
}
