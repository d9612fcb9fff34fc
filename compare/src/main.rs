//! Sends the same random requests to a real berth and to a real Kubernetes, and compares the answers: status, faults, warnings, defaults, owners of fields,
//! generation. Run by hand (`cargo xtask compare`), at night and, shortly, by its test.
//!
//! A seed is a case: an object of one kind, made from a document by random changes, then changed by PUT, apply and patches. A difference that
//! docs/deviations.md lists is accepted (`accepted.txt`); any other is a fault.
#![expect(clippy::unwrap_used, reason = "a comparison stops at the first surprise and prints its results")]

mod accepted;
mod case;
mod definitions;
mod differ;
mod documents;
mod draw;
mod edit;
mod end_states;
mod manifests;
mod normal;
mod print;
mod projects;
mod report;
mod rest;
mod schema;
mod sequence;
mod served;
mod values;

use case::{Comparison, Seen};
use clap::Parser;
use futures::{StreamExt as _, stream};
use print::print;
use report::Report;
use sequence::Workload;
use std::{
    ops::Range,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

/// The interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// How often clusters at rest that differ are compared again.
const TRIES: u32 = 3;
/// From so many cases on every accepted difference should have been seen.
const LONG: u64 = 5000;

/// What `cargo xtask compare` passes on.
#[derive(Parser)]
struct Arguments {
    /// A range of seeds. Each seed is one object and its changes.
    #[arg(long, default_value = "0..1000", value_parser = range, value_name = "FROM..TO")]
    seeds: Range<u64>,
    /// Only these kinds.
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    only: Vec<String>,
    /// A folder with more manifests to start cases from.
    #[arg(long, value_name = "DIR", env = "BERTH_REAL")]
    documents: Option<PathBuf>,
    /// Compares workloads and autoscalers at rest, after each of a few changes, instead of answers. Seeds are, in turn, of Deployments,
    /// StatefulSets, DaemonSets, Jobs, CronJobs and HorizontalPodAutoscalers.
    #[arg(long)]
    end_states: bool,
    /// Applies the manifests of a folder instead: each file or folder in it is a set with servers of its own. Repeatable.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["end_states", "only"])]
    manifests: Vec<PathBuf>,
    /// Compares generated custom resource definitions, and objects of them, with what the pure functions of `berth-kinds` answer. Needs no berth.
    /// With a folder: the definitions and objects of the projects in it, which both servers get.
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["end_states", "only", "manifests"])]
    definitions: Option<Option<PathBuf>>,
    /// How many cases run at once.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Prints every request and both answers.
    #[arg(long)]
    trace: bool,
}

/// Parses `0..1000`.
fn range(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.filter(|seeds| !seeds.is_empty()).ok_or_else(|| "write two numbers, the smaller one first: 0..1000".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if !arguments.manifests.is_empty() {
        let tally = runtime.block_on(manifests::run(&arguments.manifests));
        tally.iter().for_each(|tally| print(&tally.text()));
        return if tally.is_some_and(|tally| tally.has_refusals()) { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    if let Some(folder) = &arguments.definitions {
        let differences = match folder {
            None => runtime.block_on(definitions::run(arguments.seeds.clone())).map(|found| found.differences),
            Some(folder) => runtime.block_on(projects::run(folder)).map(|found| found.differences),
        };
        return if differences.is_some_and(|differences| 0 < differences) { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    match runtime.block_on(run(&arguments)) {
        Some(report) if report.open() > 0 => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// `None` where there is no real Kubernetes.
async fn run(arguments: &Arguments) -> Option<Report> {
    let mut report = Report::default();
    if arguments.end_states {
        run_end_states(arguments, &mut report).await?;
    } else {
        run_requests(arguments, &mut report).await?;
    }
    let is_long = arguments.seeds.end - arguments.seeds.start >= LONG && arguments.only.is_empty();
    print(&report.text(is_long));
    print(&format!("seeds {:?}: {}", arguments.seeds, report.progress()));
    Some(report)
}

/// Compares answers.
async fn run_requests(arguments: &Arguments, report: &mut Report) -> Option<()> {
    let pair = served::Pair::start().await?;
    let kinds = pair.kinds().await;
    let schemas = pair.schemas(&kinds).await;
    let documents = documents::read(&kinds, arguments.documents.as_deref());
    let comparison = Comparison { pair, kinds, schemas, documents, is_traced: arguments.trace };
    let kind = |seed: u64| &comparison.kinds[comparison.kind_of(seed)];
    let is_wanted = |seed: &u64| arguments.only.is_empty() || arguments.only.contains(&kind(*seed).kind);
    let seeds = arguments.seeds.clone().filter(is_wanted);
    let comparison = &comparison;
    let mut cases = stream::iter(seeds).map(|seed| async move { (seed, comparison.run(seed).await) }).buffer_unordered(arguments.at_once());
    let mut printed = Instant::now();
    while let Some((seed, seen)) = cases.next().await {
        report.add(&kind(seed).shown(), seed, seen);
        progress(report, &mut printed, seed);
    }
    Some(())
}

/// Compares clusters at rest. One that differs is compared again, alone: deadlines run in real time, and another program may have kept the machine busy.
async fn run_end_states(arguments: &Arguments, report: &mut Report) -> Option<()> {
    let kind = |seed: u64| end_states::kind(Workload::of(seed));
    let is_wanted = |seed: &u64| arguments.only.is_empty() || arguments.only.iter().any(|only| kind(*seed).starts_with(only));
    let seeds: Vec<u64> = arguments.seeds.clone().filter(is_wanted).collect();
    let is_of_autoscaler = |seed: u64| Workload::of(seed) == Workload::HorizontalPodAutoscaler;
    let autoscaling = if seeds.iter().any(|seed| is_of_autoscaler(*seed)) { Some(served::Pair::start_autoscaling().await?) } else { None };
    let working = if seeds.iter().all(|seed| is_of_autoscaler(*seed)) { None } else { Some(served::Pair::start_working().await?) };
    let pair =
        |seed: u64| if is_of_autoscaler(seed) { autoscaling.as_ref() } else { working.as_ref() }.expect("it is started for such seeds");
    let mut runs = stream::iter(seeds)
        .map(|seed| async move { (seed, end_states::run(pair(seed), seed, 0, arguments.trace).await) })
        .buffer_unordered(arguments.at_once());
    let (mut printed, mut again) = (Instant::now(), Vec::new());
    while let Some((seed, seen)) = runs.next().await {
        if end_states::is_accepted(&kind(seed), &seen.found) {
            report.add(&kind(seed), seed, seen);
        } else {
            again.push(seed);
        }
        progress(report, &mut printed, seed);
    }
    for seed in again {
        let mut seen = Seen::default();
        for again in 1..=TRIES {
            seen = end_states::run(pair(seed), seed, again, arguments.trace).await;
            if end_states::is_accepted(&kind(seed), &seen.found) {
                break;
            }
        }
        report.add(&kind(seed), seed, seen);
        progress(report, &mut printed, seed);
    }
    Some(())
}

impl Arguments {
    fn at_once(&self) -> usize {
        if self.trace { 1 } else { self.at_once }
    }
}

fn progress(report: &Report, printed: &mut Instant, seed: u64) {
    if printed.elapsed() >= PROGRESS_EVERY {
        *printed = Instant::now();
        print(&format!("{}; at seed {seed}", report.progress()));
    }
}
