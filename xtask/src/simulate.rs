//! Rollouts in the simulation: a range of seeds on all cores.

use crate::run::{Outcome, command, print, program, root};
use serde::Deserialize;
use std::{
    iter::StepBy,
    ops::Range,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How many seeds one process runs: some seconds.
const SEEDS_AT_ONCE: u64 = 40;
/// The interval of progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Which storms to run, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A range of seeds. Each seed is one storm of each kind.
    #[arg(long, default_value = "0..1000", value_parser = range, value_name = "FROM..TO")]
    seeds: Range<u64>,
    /// Only storms of this name: `deployment`, `stateful-set`.
    #[arg(long)]
    only: Option<String>,
    /// Prints every change of the store, seed after seed.
    #[arg(long)]
    trace: bool,
}

/// Parses `0..1000`.
fn range(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.filter(|seeds| !seeds.is_empty()).ok_or_else(|| "write two numbers, the smaller one first: 0..1000".to_owned())
}

/// One line of output of the program.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Failed { storm: String, seed: u64, why: String },
    Done { rollouts: u64, scalings: u64, checked: u64 },
}

/// The counts of the storms that have ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    seeds: u64,
    rollouts: u64,
    scalings: u64,
    checked: u64,
    failed: usize,
}

/// Runs the seeds and prints the counts. Fails if any storm failed.
pub(crate) fn run(options: &Options) -> Outcome {
    program("cargo", &["build", "--release", "--package", "berth-sim", "--example", "simulate"])?;
    let program = root().join("target/release/examples/simulate");
    if options.trace {
        let mut storms = storms(&program, &options.seeds, options);
        return command(storms.arg("--trace").env("BERTH_SIM_LOG_LINES", usize::MAX.to_string()));
    }
    let begun = Instant::now();
    let progress = Progress { firsts: options.seeds.clone().step_by(SEEDS_AT_ONCE as usize), sum: Sum::default(), begun, printed: begun };
    let progress = Mutex::new(progress);
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(|| work(&program, options, &progress))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let sum = progress.into_inner().unwrap_or_else(PoisonError::into_inner).sum;
    print(&format!("seeds {:?}: {sum}", options.seeds));
    if sum.failed == 0 { Ok(()) } else { Err(format!("{} storms failed", sum.failed)) }
}

/// What the workers share.
struct Progress {
    /// The first seeds of the processes that have not started.
    firsts: StepBy<Range<u64>>,
    sum: Sum,
    begun: Instant,
    printed: Instant,
}

/// Runs one process after another until no seeds are left.
fn work(program: &Path, options: &Options, progress: &Mutex<Progress>) -> Outcome {
    let locked = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(first) = locked().firsts.next() else { return Ok(()) };
        let seeds = first..(first + SEEDS_AT_ONCE).min(options.seeds.end);
        let output = storms(program, &seeds, options).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let mut progress = locked();
        // A process that was killed, or ran out of memory, has not printed its counts.
        if !progress.sum.add(&String::from_utf8_lossy(&output.stdout)) {
            return Err(format!("seeds {seeds:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        progress.sum.seeds += seeds.end - seeds.start;
        if progress.printed.elapsed() >= PROGRESS_EVERY {
            progress.printed = Instant::now();
            let seeds_per_second = progress.sum.seeds as f64 / progress.begun.elapsed().as_secs_f64();
            print(&format!("{}; {seeds_per_second:.1} seeds/s", progress.sum));
        }
    }
}

fn storms(program: &Path, seeds: &Range<u64>, options: &Options) -> Command {
    let mut storms = Command::new(program);
    storms.arg(format!("{}..{}", seeds.start, seeds.end)).args(&options.only);
    storms
}

impl Sum {
    /// Adds the output of a process and prints the storms that failed. Returns whether the process ran to its end.
    fn add(&mut self, output: &str) -> bool {
        let mut is_done = false;
        for line in output.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Line::Failed { storm, seed, why } => {
                    self.failed += 1;
                    print(&failure(&storm, seed, &why));
                }
                Line::Done { rollouts, scalings, checked } => {
                    is_done = true;
                    self.rollouts += rollouts;
                    self.scalings += scalings;
                    self.checked += checked;
                }
            }
        }
        is_done
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seeds, rollouts, scalings, checked, failed } = self;
        write!(f, "{seeds} seeds, {rollouts} rollouts, {scalings} scalings, {checked} writes checked, {failed} storms failed")
    }
}

/// What failed, and the command that replays it.
fn failure(storm: &str, seed: u64, why: &str) -> String {
    // The log comes first; the check that failed is named in one of the last lines, before the replay hint.
    let cause = why.lines().rev().find(|line| line.contains(&format!("seed {seed}"))).or_else(|| why.lines().last()).unwrap_or_default();
    format!("{storm}: {cause}\n  cargo xtask simulate --seeds {seed}..{} --only {storm} --trace", seed + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_a_process_without_counts_has_not_ended() {
        let failed = r#"{"failed":{"storm":"deployment","seed":7,"why":"x"}}"#;
        let done = r#"{"done":{"rollouts":5,"scalings":3,"checked":100}}"#;
        let mut sum = Sum::default();
        assert!(sum.add(&format!("some text\n{failed}\n{done}\n")));
        assert!(!sum.add(failed));
        assert_eq!(sum, Sum { seeds: 0, rollouts: 5, scalings: 3, checked: 100, failed: 2 });
    }

    #[test]
    fn a_failed_storm_is_named_with_its_cause_and_the_command_that_replays_it() {
        let expected = "deployment: seed 7, after 12s: 3 pods of 2\n  cargo xtask simulate --seeds 7..8 --only deployment --trace";
        assert_eq!(failure("deployment", 7, "12.0 + pods a\n\nseed 7, after 12s: 3 pods of 2\nreplay: x"), expected);
    }
}
