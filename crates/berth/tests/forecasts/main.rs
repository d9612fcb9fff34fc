//! Checks plans of random changes against a real `berth up` (docs/how-to/plan.md, "Is it right?"): a few here, thousands in `cargo xtask
//! forecasts`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../it/common/mod.rs"]
mod common;
mod compare;
#[path = "../../../berth-plan/tests/it/common/scenario.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod scenario;
mod seen;
mod trial;

use compare::Late;
use futures::{StreamExt, stream};
use std::{
    collections::BTreeMap,
    env,
    ops::Range,
    time::{Duration, Instant},
};
use trial::{Cluster, Ended, Ran};

/// A range of seeds (`0..1000`) that replaces the few default ones, as in `cargo xtask forecasts`.
const SEEDS: &str = "BERTH_FORETOLD_SEEDS";
/// The number of concurrent scenarios.
const AT_ONCE: &str = "BERTH_FORETOLD_AT_ONCE";
/// The interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// The number of further attempts, without other scenarios, after a difference: another program may have kept the machine busy.
const TRIES: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn forecasts_of_random_changes_of_a_real_cluster_come_true() {
    if let Ok(seeds) = env::var(SEEDS) {
        let (first, end) = seeds.split_once("..").unwrap();
        let at_once = env::var(AT_ONCE).map_or(1, |text| text.parse().unwrap());
        return run_range(first.parse().unwrap()..end.parse().unwrap(), at_once).await;
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
        print(&format!("seed {} came true alone: {:?}", tries[0].seed, tries[0].ended));
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

/// Runs all seeds, then repeats each scenario with a difference alone, and prints the counts. Panics if a difference remains.
async fn run_range(seeds: Range<u64>, at_once: usize) {
    let (mut ended, mut printed) = (BTreeMap::new(), Instant::now());
    let cluster = Cluster::up(at_once).await;
    run(&cluster, seeds.clone().collect(), at_once, |ran| {
        ended.insert(ran.seed, ran.clone());
        if printed.elapsed() >= PROGRESS_EVERY {
            printed = Instant::now();
            print(&counts(&ended));
        }
    })
    .await;
    drop(cluster);
    let differed: Vec<u64> = ended.values().filter(|ran| is_different(ran)).map(|ran| ran.seed).collect();
    if !differed.is_empty() {
        let cluster = Cluster::up(1).await;
        print(&format!("again, each alone: {differed:?}"));
        run(&cluster, differed, 1, |ran| drop(ended.insert(ran.seed, ran.clone()))).await;
    }
    ended.values().filter(|ran| ran.ended != Ended::AsForecast).for_each(|ran| print(&format!("seed {}: {:?}", ran.seed, ran.ended)));
    print(&lateness(ended.values().flat_map(|ran| ran.late.clone()).collect()));
    print(&format!("seeds {seeds:?}: {}", counts(&ended)));
    assert!(!ended.values().any(is_different), "scenarios differ from their forecasts");
}

fn counts(ended: &BTreeMap<u64, Ran>) -> String {
    let of = |is: fn(&Ended) -> bool| ended.values().filter(|ran| is(&ran.ended)).count();
    format!(
        "{} as forecast, {} for the moment of the change, {} tied, {} differ",
        of(|ended| *ended == Ended::AsForecast),
        of(|ended| *ended == Ended::AtItsTime),
        of(|ended| matches!(ended, Ended::Tied { .. })),
        of(|ended| matches!(ended, Ended::Differed { .. }))
    )
}

/// The number of milliseconds between forecast and event.
fn lateness(late: Vec<Late>) -> String {
    let mut apart: Vec<u64> = late.iter().map(|late| late.unsigned_abs()).collect();
    apart.sort_unstable();
    let part = |thousandths: usize| apart.get(apart.len().saturating_sub(1) * thousandths / 1000).copied().unwrap_or_default();
    format!("{} times, {} ms from the forecast (median), {} ms (99 of 100), {} ms (at most)", apart.len(), part(500), part(990), part(1000))
}

fn print(line: &str) {
    println!("{line}");
}
