//! Every test many times over: a failure that comes and goes is a fault to find, never one to run again.

use crate::run::{Built, Outcome, append, build, output, root, say};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

/// How often, and under what.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each test program is run.
    #[arg(long, default_value_t = 20)]
    times: u32,
    /// Keeps every core busy with something else meanwhile.
    #[arg(long)]
    load: bool,
    /// With programs that are built as for a release: a round takes a third of the time, most of which the simulation spent.
    #[arg(long)]
    release: bool,
    /// Only test programs whose name contains one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// A program of tests as it was built.
struct Program {
    /// `berth-store/crash`: crate and target.
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
    /// Programs built at another time are others: their runs count no more.
    built_nanos: u128,
}

/// One run that is over, a line of the file that a broken-off soak goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    program: String,
    built_nanos: u128,
    load: bool,
    round: u32,
    passed: u32,
    /// Names of tests; `(the program)` if it ended badly without naming one.
    failed: Vec<String>,
    milliseconds: u128,
}

/// Runs what is missing, round after round, then prints which tests failed how often. What a failed run printed is kept in `target/soak`.
pub(crate) fn run(options: &Options) -> Outcome {
    let folder = root().join("target/soak");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let programs = programs(options)?;
    let kept = folder.join("runs.jsonl");
    let mut runs = earlier(&kept, &programs, options);
    let wanted = programs.len() * options.times as usize;
    say(&format!("{} test programs, {} times each, {} of {wanted} runs done before", programs.len(), options.times, runs.len()));
    let done = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        if options.load {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
        }
        let outcome = rounds(options, &programs, &folder, &kept, &mut runs);
        done.store(true, Ordering::Relaxed);
        outcome
    });
    outcome?;
    summary(&runs)
}

fn rounds(options: &Options, programs: &[Program], folder: &Path, kept: &Path, runs: &mut Vec<Run>) -> Outcome {
    for round in 1..=options.times {
        for program in programs {
            if runs.iter().any(|run| run.program == program.name && run.round == round) {
                continue;
            }
            let run = one(options, program, round, folder)?;
            if !run.failed.is_empty() {
                say(&format!("round {round}: {} failed: {}", run.program, run.failed.join(", ")));
            }
            append(kept, &run)?;
            runs.push(run);
        }
        say(&format!("round {round} of {} is over", options.times));
    }
    Ok(())
}

/// The test programs of the workspace, built.
fn programs(options: &Options) -> Result<Vec<Program>, String> {
    let mut arguments = vec!["test", "--workspace", "--no-run"];
    arguments.extend(options.release.then_some("--release"));
    let mut programs = Vec::new();
    for Built { manifest, target, executable, built_nanos, .. } in build(&arguments)?.into_iter().filter(|built| built.is_test) {
        let folder = manifest.parent().ok_or("a manifest lies in a folder")?;
        let name = format!("{}/{target}", folder.file_name().and_then(|name| name.to_str()).unwrap_or("berth"));
        if options.only.is_empty() || options.only.iter().any(|part| name.contains(part)) {
            programs.push(Program { name, executable, folder: folder.into(), built_nanos });
        }
    }
    Ok(programs)
}

/// What an earlier soak of the same programs, under the same load, left.
fn earlier(kept: &Path, programs: &[Program], options: &Options) -> Vec<Run> {
    let text = fs::read_to_string(kept).unwrap_or_default();
    let built: BTreeMap<&str, u128> = programs.iter().map(|program| (program.name.as_str(), program.built_nanos)).collect();
    text.lines()
        .filter_map(|line| serde_json::from_str::<Run>(line).ok())
        .filter(|run| built.get(run.program.as_str()) == Some(&run.built_nanos))
        .filter(|run| run.load == options.load && run.round <= options.times)
        .collect()
}

fn one(options: &Options, program: &Program, round: u32, folder: &Path) -> Result<Run, String> {
    let begun = Instant::now();
    let output = Command::new(&program.executable)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.executable.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let (passed, mut failed) = results(&printed);
    if failed.is_empty() && !output.status.success() {
        failed.push("(the program)".to_owned());
    }
    if !failed.is_empty() {
        let file = folder.join(format!("{}-{round}{}.log", program.name.replace('/', "-"), if options.load { "-load" } else { "" }));
        let text = [&*output.stdout, &*output.stderr].concat();
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let milliseconds = begun.elapsed().as_millis();
    Ok(Run { program: program.name.clone(), built_nanos: program.built_nanos, load: options.load, round, passed, failed, milliseconds })
}

/// How many tests passed, and which failed, by the lines that the test harness prints.
fn results(printed: &str) -> (u32, Vec<String>) {
    let mut passed = 0;
    let mut failed = BTreeSet::new();
    for line in printed.lines() {
        let Some(line) = line.strip_prefix("test ") else { continue };
        if line.ends_with("... ok") {
            passed += 1;
        } else if let Some((name, _)) = line.split_once(" ... FAILED") {
            failed.insert(name.to_owned());
        }
    }
    (passed, failed.into_iter().collect())
}

/// Prints what came of all; an error if any test failed in any run.
fn summary(runs: &[Run]) -> Outcome {
    let passed: u32 = runs.iter().map(|run| run.passed).sum();
    let mut failures: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    for run in runs {
        for test in &run.failed {
            failures.entry((&run.program, test)).or_default().push(run.round);
        }
    }
    let minutes = runs.iter().map(|run| run.milliseconds).sum::<u128>() as f64 / 60_000.0;
    let version = output("git", &["describe", "--always", "--dirty"]).unwrap_or_default();
    say(&format!("{} runs of test programs at {}: {passed} tests passed in {minutes:.1} minutes", runs.len(), version.trim()));
    for ((program, test), rounds) in &failures {
        say(&format!("{program} {test}: failed {} times, in rounds {rounds:?}", rounds.len()));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{} tests failed at least once; target/soak has what they printed", failures.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_is_named_once_and_passed_ones_are_counted() {
        let printed = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d - should panic ... ok\n\nfailures:\n    c\n\ntest result: FAILED. 2 passed";
        assert_eq!(results(printed), (2, vec!["c".to_owned()]));
    }

    #[test]
    fn a_soak_goes_on_where_it_was_broken_off_but_not_with_programs_built_anew() {
        let folder = root().join("target/soak-of-a-test");
        fs::create_dir_all(&folder).expect("a folder");
        let kept = folder.join("runs.jsonl");
        let _ = fs::remove_file(&kept);
        let run = |program: &str, built_nanos, round| Run {
            program: program.to_owned(),
            built_nanos,
            load: false,
            round,
            passed: 1,
            failed: Vec::new(),
            milliseconds: 1,
        };
        for run in [run("a", 7, 1), run("a", 8, 1), run("a", 8, 2), run("a", 8, 3), run("gone", 8, 1)] {
            append(&kept, &run).expect("written");
        }
        let program = Program { name: "a".to_owned(), executable: PathBuf::new(), folder: PathBuf::new(), built_nanos: 8 };
        let options = Options { times: 2, load: false, release: false, only: Vec::new() };
        assert_eq!(earlier(&kept, &[program], &options), [run("a", 8, 1), run("a", 8, 2)]);
    }
}
