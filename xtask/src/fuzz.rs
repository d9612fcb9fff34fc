//! Fuzzing with libFuzzer: a short run of every target with the tests, long ones by hand.
//!
//! The targets lie in `fuzz/` as cargo-fuzz wants them, and `cargo fuzz` works there; but it asks for a nightly toolchain, and all that it adds
//! to a build of safe code are the flags below, which the stable compiler has too.

use crate::run::{Outcome, command, output, root, say};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::Duration,
};

/// What to fuzz by hand.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A file of fuzz/fuzz_targets without its ending; all in turn if absent.
    target: Option<String>,
    /// How long, for each target.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// All targets for some seconds each, always in the same way, as `cargo xtask test` does it.
    #[arg(long, conflicts_with_all = ["target", "seconds"])]
    short: bool,
}

/// Counters for edges and for what comparisons compare, as cargo-fuzz sets them.
const INSTRUMENTATION: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];
/// Beyond this an input counts as slow, which is a fault. Inputs are small, and machines that run the tests may be ten times slower than ours.
const INPUT_SECONDS_MAX: u64 = 10;
/// Beyond this an input counts as too dear.
const MEMORY_MIB_MAX: u64 = 2048;
const INPUT_BYTES_MAX: u64 = 4096;
/// Of the run with the tests, for each target: the first limit that is reached ends it.
const SHORT: Duration = Duration::from_secs(8);
const SHORT_RUNS: u64 = 50_000;

/// How the targets are built.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    /// In the least time.
    Quick,
    /// To run for long.
    Optimised,
}

/// Fuzzes until the time is over or something is found.
pub(crate) fn run(options: &Options) -> Outcome {
    if options.short {
        return short();
    }
    let all = targets()?;
    let chosen: Vec<String> = match &options.target {
        None => all,
        Some(target) if all.contains(target) => vec![target.clone()],
        Some(target) => return Err(format!("there is no fuzz target {target:?}, only: {}", all.join(", "))),
    };
    let programs = build(Build::Optimised)?;
    for target in chosen {
        let mut fuzzer = fuzzer(&programs, &target, &root().join("target/fuzz/corpus").join(&target))?;
        command(fuzzer.arg(format!("-max_total_time={}", options.seconds)))?;
    }
    Ok(())
}

/// Every target, from its seeds and always in the same way. Prints how far each came.
pub(crate) fn short() -> Outcome {
    short_with(&build(Build::Quick)?)
}

/// The same with the targets in the folder that `build` gave.
pub(crate) fn short_with(programs: &Path) -> Outcome {
    let waiting = Mutex::new(targets()?.into_iter());
    let faults = Mutex::new(Vec::new());
    let work = || {
        while let Some(target) = waiting.lock().expect("nobody panics with it").next() {
            if let Err(fault) = short_of(programs, &target) {
                faults.lock().expect("nobody panics with it").push(fault);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let faults = faults.into_inner().expect("nobody panics with it");
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn short_of(programs: &Path, target: &str) -> Outcome {
    let corpus = root().join("target/fuzz/short").join(target);
    let _ = fs::remove_dir_all(&corpus);
    let mut fuzzer = fuzzer(programs, target, &corpus)?;
    fuzzer.args(["-seed=1".to_owned(), format!("-runs={SHORT_RUNS}"), format!("-max_total_time={}", SHORT.as_secs())]);
    let output = fuzzer.output().map_err(|error| format!("{target}: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        // `#63279 DONE cov: 2463 ft: 4303 corp: 379/7025b lim: 68 exec/s: 7031 rss: 51Mb`
        let done = log.lines().rfind(|line| line.contains("DONE")).unwrap_or("it did not say how far it came");
        say(&format!("fuzz {target}: {}", done.split_whitespace().collect::<Vec<_>>().join(" ")));
        return Ok(());
    }
    let from = log.find("panicked at").or_else(|| log.find("ERROR")).unwrap_or_default();
    let input = log.lines().find_map(|line| line.split_once("Test unit written to ")).map_or("INPUT", |(_, path)| path);
    let again = format!("again: {} {input}", programs.join(target).display());
    Err(format!("fuzz {target} found a fault\n{}\n{again}", log.get(from..).unwrap_or_default()))
}

/// Names of all targets.
pub(crate) fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.filter_map(Result::ok).filter_map(|file| stem(file.path())).collect();
    names.sort();
    Ok(names)
}

/// Checks that targets are formatted. `cargo fmt` would read the dependencies for that, and renew `Cargo.lock` on the way.
pub(crate) fn is_formatted() -> Outcome {
    let files = targets()?.into_iter().map(|target| format!("fuzz/fuzz_targets/{target}.rs"));
    command(Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(files))
}

/// Builds all targets; gives the folder that they are in.
pub(crate) fn build(how: Build) -> Result<PathBuf, String> {
    let version = output("rustc", &["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not say for which host it is")?;
    let mut cargo = Command::new("cargo");
    // Naming the host keeps the flags away from what runs during the build.
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target-dir",
        "target/fuzz",
        "--bins",
        "--target",
        host,
    ]);
    let folder = match how {
        Build::Quick => "debug",
        Build::Optimised => {
            cargo.arg("--release");
            "release"
        }
    };
    command(cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", INSTRUMENTATION.join(" ")))?;
    Ok(root().join("target/fuzz").join(host).join(folder))
}

/// A target with its limits: it adds to `corpus` and also begins with the seeds that are kept with it.
fn fuzzer(programs: &Path, target: &str, corpus: &Path) -> Result<Command, String> {
    let [seeds, found] = [root().join("fuzz/corpus").join(target), root().join("target/fuzz/found")];
    for folder in [corpus, &found] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut fuzzer = Command::new(programs.join(target));
    fuzzer.arg(corpus).arg(seeds).current_dir(root()).env("RUST_BACKTRACE", "1");
    fuzzer.args([
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        "-dict=fuzz/words.dict".to_owned(),
        format!("-artifact_prefix={}/{target}-", found.display()),
    ]);
    Ok(fuzzer)
}
