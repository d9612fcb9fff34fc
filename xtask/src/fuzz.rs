//! Fuzzing with libFuzzer, which takes hours. The tests of `berth-fuzz` run the same targets on the same seeds.
//!
//! The targets are in `fuzz/` in cargo-fuzz's layout, and `cargo fuzz` works there. But it requires a nightly toolchain, and for safe code
//! it only adds the flags below, which the stable compiler supports too.

use crate::run::{Outcome, command, output, root};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What to fuzz by hand.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The fuzz target, a file of fuzz/fuzz_targets without its extension. Without it, all targets run in turn.
    target: Option<String>,
    /// How many seconds to fuzz each target.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
}

/// Counters for edges and for the operands of comparisons, as cargo-fuzz sets them.
const INSTRUMENTATION: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
];
/// An input that takes longer is a fault. Inputs are small, and test machines may be ten times slower than ours.
const INPUT_SECONDS_MAX: u64 = 10;
/// An input that needs more memory is a fault.
const MEMORY_MIB_MAX: u64 = 2048;
const INPUT_BYTES_MAX: u64 = 4096;

/// Fuzzes until the time is over or a fault is found.
pub(crate) fn run(options: &Options) -> Outcome {
    let all = targets()?;
    let chosen: Vec<String> = match &options.target {
        None => all,
        Some(target) if all.contains(target) => vec![target.clone()],
        Some(target) => return Err(format!("there is no fuzz target {target:?}, only: {}", all.join(", "))),
    };
    let programs = build()?;
    for target in chosen {
        let mut fuzzer = fuzzer(&programs, &target, &root().join("target/fuzz/corpus").join(&target))?;
        command(fuzzer.arg(format!("-max_total_time={}", options.seconds)))?;
    }
    Ok(())
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

/// Checks that targets are formatted. `cargo fmt` would read their dependencies and update `Cargo.lock`.
pub(crate) fn is_formatted() -> Outcome {
    let files = targets()?.into_iter().map(|target| format!("fuzz/fuzz_targets/{target}.rs"));
    command(Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(files))
}

/// Builds all targets, and returns their folder.
fn build() -> Result<PathBuf, String> {
    let version = output("rustc", &["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not say for which host it is")?;
    let mut cargo = Command::new("cargo");
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--bins",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target-dir",
        "target/fuzz",
    ]);
    // With an explicit host, the flags do not apply to programs that run during the build.
    cargo.args(["--target", host]).env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", INSTRUMENTATION.join(" "));
    command(&mut cargo)?;
    Ok(root().join("target/fuzz").join(host).join("release"))
}

/// A target with its limits. It adds to `corpus`, and also starts from the seeds in the repository.
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
