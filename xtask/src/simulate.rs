//! Rollouts in the simulation, by hand: range after range of seeds, on all cores, with what is done kept.

use crate::run::{Outcome, append, build, command, root, say};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How many seeds one process runs: some seconds, which is what is lost of a run that is broken off.
const SEEDS_AT_ONCE: u64 = 40;
/// How often is said how far it is.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Which storms, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// From one seed up to another; each is a storm of each kind.
    #[arg(long, default_value = "0..1000", value_parser = range, value_name = "FROM..TO")]
    seeds: Range<u64>,
    /// Only storms of this name: `deployment`, `stateful-set`.
    #[arg(long)]
    only: Option<String>,
    /// Prints every change of the store, seed after seed, whatever was done before.
    #[arg(long)]
    trace: bool,
}

/// `0..1000`.
pub(crate) fn range(text: &str) -> Result<Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.filter(|seeds| !seeds.is_empty()).ok_or_else(|| "two numbers are wanted, the smaller one first: 0..1000".to_owned())
}

/// A range that is over, a line of the file that a broken-off run goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    /// Programs built at another time are others: their runs count no more.
    built_nanos: u128,
    only: Option<String>,
    seeds: Range<u64>,
    done: Done,
    failed: Vec<Failed>,
    milliseconds: u128,
}

/// What storms came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    rollouts: u64,
    scalings: u64,
    checked: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    storm: String,
    seed: u64,
    why: String,
}

/// A line of the program.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Failed(Failed),
    Done(Done),
}

/// Runs what is missing, then prints what came of all; an error if any storm failed.
pub(crate) fn run(options: &Options) -> Outcome {
    let built = build(&["build", "--release", "--package", "berth-sim", "--example", "simulate"])?;
    let program = built.into_iter().find(|built| built.target == "simulate").ok_or("cargo has built no simulate")?;
    if options.trace {
        let seeds = format!("{}..{}", options.seeds.start, options.seeds.end);
        let arguments = [seeds.as_str()].into_iter().chain(options.only.as_deref()).chain(["--trace"]);
        return command(Command::new(&program.executable).args(arguments).env("BERTH_SIM_LOG_LINES", usize::MAX.to_string()));
    }
    let folder = root().join("target/simulate");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let kept = folder.join("runs.jsonl");
    let earlier = earlier(&kept, program.built_nanos, options);
    let missing = pieces(&options.seeds).filter(|piece| !earlier.iter().any(|run| run.seeds == *piece)).collect();
    let begun =
        Begun { program: program.executable, built_nanos: program.built_nanos, kept, only: options.only.clone(), at: Instant::now() };
    say(&format!("seeds {:?}, {} of them done before", options.seeds, seeds_of(&earlier)));
    let runs = begun.run_all(missing, earlier)?;
    summary(&runs, options)
}

/// The range in pieces that do not depend on where it begins or ends, but for the first and the last.
fn pieces(seeds: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let (start, end) = (seeds.start, seeds.end);
    let piece = move |at: u64| (at * SEEDS_AT_ONCE).max(start)..((at + 1) * SEEDS_AT_ONCE).min(end);
    (start / SEEDS_AT_ONCE..end.div_ceil(SEEDS_AT_ONCE)).map(piece)
}

fn seeds_of(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.seeds.end - run.seeds.start).sum()
}

/// What earlier runs of the same program have done of the range.
fn earlier(kept: &Path, built_nanos: u128, options: &Options) -> Vec<Run> {
    let text = fs::read_to_string(kept).unwrap_or_default();
    let runs = text.lines().filter_map(|line| serde_json::from_str::<Run>(line).ok());
    let wanted: Vec<Range<u64>> = pieces(&options.seeds).collect();
    runs.filter(|run| run.built_nanos == built_nanos && run.only == options.only && wanted.contains(&run.seeds)).collect()
}

/// A run under way.
struct Begun {
    program: PathBuf,
    built_nanos: u128,
    kept: PathBuf,
    only: Option<String>,
    at: Instant,
}

/// How far it is.
struct Progress {
    missing: VecDeque<Range<u64>>,
    runs: Vec<Run>,
    done_now: u64,
    said: Instant,
}

impl Begun {
    /// Runs the pieces, one for each core at a time.
    fn run_all(&self, missing: VecDeque<Range<u64>>, runs: Vec<Run>) -> Result<Vec<Run>, String> {
        let progress = Mutex::new(Progress { missing, runs, done_now: 0, said: self.at });
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(|| self.work(&progress))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        })?;
        Ok(progress.into_inner().unwrap_or_else(PoisonError::into_inner).runs)
    }

    fn work(&self, progress: &Mutex<Progress>) -> Outcome {
        let locked = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(seeds) = locked().missing.pop_front() else { return Ok(()) };
            let run = self.one(seeds)?;
            append(&self.kept, &run)?;
            let mut progress = locked();
            run.failed.iter().for_each(|failed| say(&failed.to_string()));
            progress.done_now += run.seeds.end - run.seeds.start;
            progress.runs.push(run);
            if progress.said.elapsed() >= SAID_EVERY {
                progress.said = Instant::now();
                say(&progress.line(self.at.elapsed()));
            }
        }
    }

    fn one(&self, seeds: Range<u64>) -> Result<Run, String> {
        let begun = Instant::now();
        let shown = format!("{}..{}", seeds.start, seeds.end);
        let output = Command::new(&self.program).arg(&shown).args(&self.only).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", self.program.display()))?;
        let (done, failed) = results(&String::from_utf8_lossy(&output.stdout));
        // A program that is killed, or runs out of memory, says nothing more.
        let done =
            done.ok_or_else(|| format!("seeds {shown} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))?;
        let milliseconds = begun.elapsed().as_millis();
        Ok(Run { built_nanos: self.built_nanos, only: self.only.clone(), seeds, done, failed, milliseconds })
    }
}

impl Progress {
    fn line(&self, since: Duration) -> String {
        let done = total(&self.runs);
        let left: u64 = self.missing.iter().map(|piece| piece.end - piece.start).sum();
        let rate = self.done_now as f64 / since.as_secs_f64();
        let failed: usize = self.runs.iter().map(|run| run.failed.len()).sum();
        let Done { rollouts, checked, .. } = done;
        format!(
            "{} seeds, {rollouts} rollouts, {checked} writes checked, {failed} storms failed; {rate:.1} seeds/s, {:.0} minutes left",
            seeds_of(&self.runs),
            left as f64 / rate / 60.0
        )
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { storm, seed, why } = self;
        // The log of a world comes first; what was passed stands behind it, before how to replay it.
        let told = why.lines().rev().find(|line| line.contains(&format!("seed {seed}"))).or_else(|| why.lines().last()).unwrap_or_default();
        write!(f, "{storm}: {told}\n  cargo xtask simulate --seeds {seed}..{} --only {storm} --trace", seed + 1)
    }
}

/// What a program has printed: how it ended, if it did, and which storms failed.
fn results(printed: &str) -> (Option<Done>, Vec<Failed>) {
    let (mut done, mut failed) = (None, Vec::new());
    for line in printed.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Failed(storm) => failed.push(storm),
            Line::Done(all) => done = Some(all),
        }
    }
    (done, failed)
}

fn total(runs: &[Run]) -> Done {
    runs.iter().fold(Done::default(), |sum, run| Done {
        rollouts: sum.rollouts + run.done.rollouts,
        scalings: sum.scalings + run.done.scalings,
        checked: sum.checked + run.done.checked,
    })
}

fn summary(runs: &[Run], options: &Options) -> Outcome {
    let Done { rollouts, scalings, checked } = total(runs);
    let hours = runs.iter().map(|run| run.milliseconds).sum::<u128>() as f64 / 3_600_000.0;
    let failed: Vec<&Failed> = runs.iter().flat_map(|run| &run.failed).collect();
    say(&format!(
        "seeds {:?}: {rollouts} rollouts, {scalings} scalings, {checked} writes checked, {} storms failed; {hours:.2} hours of one core",
        options.seeds,
        failed.len()
    ));
    failed.iter().for_each(|failed| say(&failed.to_string()));
    if failed.is_empty() { Ok(()) } else { Err(format!("{} storms failed", failed.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(built_nanos: u128, seeds: Range<u64>) -> Run {
        let done = Done { rollouts: 5, scalings: 3, checked: 100 };
        Run { built_nanos, only: None, seeds, done, failed: Vec::new(), milliseconds: 1 }
    }

    #[test]
    fn a_simulation_goes_on_where_it_was_broken_off_but_not_with_a_program_built_anew() {
        let folder = root().join("target/simulate-of-a-test");
        fs::create_dir_all(&folder).expect("a folder");
        let kept = folder.join("runs.jsonl");
        let _ = fs::remove_file(&kept);
        for run in [run(7, 40..80), run(8, 40..80), run(8, 0..40), Run { only: Some("deployment".to_owned()), ..run(8, 80..120) }] {
            append(&kept, &run).expect("written");
        }
        let options = Options { seeds: 40..100, only: None, trace: false };
        assert_eq!(earlier(&kept, 8, &options), [run(8, 40..80)]);
        assert_eq!(pieces(&options.seeds).collect::<Vec<_>>(), [40..80, 80..100]);
    }

    #[test]
    fn what_a_program_prints_is_read_and_a_program_that_died_is_not_done() {
        let failed = r#"{"failed":{"storm":"deployment","seed":7,"why":"12.0 + pods a\n\nseed 7, after 12s: 3 pods of 2\nreplay: x"}}"#;
        let (done, storms) = results(&format!("some text\n{failed}\n{}\n", r#"{"done":{"rollouts":5,"scalings":3,"checked":100}}"#));
        assert_eq!(done, Some(Done { rollouts: 5, scalings: 3, checked: 100 }));
        let told: Vec<String> = storms.iter().map(ToString::to_string).collect();
        let wanted = "deployment: seed 7, after 12s: 3 pods of 2\n  cargo xtask simulate --seeds 7..8 --only deployment --trace";
        assert_eq!(told, [wanted]);
        assert_eq!(results(failed).0, None);
    }
}
