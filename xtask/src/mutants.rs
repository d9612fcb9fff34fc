//! Mutants: what no test notices.
//!
//! cargo-mutants says which there are. Those that can be woven into one build are tried in that, the others by cargo-mutants, which builds each by
//! itself. What came of each is kept in `testdata/mutants/`, in a letter, from which docs/mutants.md is made.
//!
//! What counts for how long: a mutant that was caught stays caught while its file is the same but for tests, since those are seldom weakened. One that was missed
//! was missed by the crate as it was: any change in the crate may have brought the test, so it is tried again.

mod page;
mod results;
mod weave;
mod woven;

use crate::run::{Outcome, command, output, root, say};
use results::{Mutant, Results, Shard};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Another version makes other mutants.
const VERSION: &str = "27.1.0";

/// What to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Every n-th mutant only, from the k-th on: a fair sample.
    #[arg(long, value_name = "K/N", default_value = "0/1")]
    shard: Shard,
    /// Only these.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(PARTS.iter().map(|part| part.package)))]
    package: Vec<String>,
    /// Builds each mutant by itself, as cargo-mutants does: to see that it comes to the same.
    #[arg(long)]
    one_by_one: bool,
    /// Tries nothing, only writes docs/mutants.md anew: after an explanation in testdata/mutants/explained.toml.
    #[arg(long)]
    page: bool,
}

/// What is mutated, and the crate whose tests should notice.
struct Part {
    package: &'static str,
    /// From the root; all that is below it.
    folder: &'static str,
    /// What is below it, but is no part of the product.
    without: &'static [&'static str],
    /// Of the crate, for its tests.
    features: &'static [&'static str],
}

const PARTS: &[Part] = &[
    Part { package: "berth-workloads", folder: "crates/berth-workloads/src", without: &[], features: &[] },
    // A door for fuzz targets, which is built for them only; and what stands for etcd, a disk and time where something is tested.
    Part {
        package: "berth-store",
        folder: "crates/berth-store/src",
        without: &["log/fuzzing.rs", "backend/etcd/model.rs", "files/disk.rs", "virtual_time.rs"],
        features: &["embedded"],
    },
    Part { package: "berth-registry", folder: "crates/berth-registry/src/admission", without: &[], features: &[] },
];

/// A run that is broken off has tried every so many-th mutant first: a fair sample.
const SAMPLES: usize = 16;

/// Tries what is chosen and has not been tried of this source. Goes on where it was broken off.
pub(crate) fn run(options: &Options) -> Outcome {
    if options.page {
        return page::write();
    }
    let bench = Bench::new()?;
    let chosen = |part: &&Part| options.package.is_empty() || options.package.iter().any(|package| package == part.package);
    let outcome = PARTS.iter().filter(chosen).try_for_each(|part| bench.try_mutants(part, options));
    outcome.and(page::write())
}

/// Where mutants are built: a tree of its own, since a run that is broken off leaves a mutant in it.
struct Bench {
    tool: PathBuf,
    tree: PathBuf,
    build: PathBuf,
    /// What is tried: what is committed.
    commit: String,
}

impl Bench {
    fn new() -> Result<Self, String> {
        let folder = root().join("target/mutants");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let tree = folder.join("tree");
        if !tree.join(".git").exists() {
            command(Command::new("git").args(["clone", "--quiet", "--shared", "--no-checkout", "."]).arg(&tree))?;
        }
        command(Command::new("git").arg("-C").arg(&tree).args(["fetch", "--quiet"]).arg(root()).arg("HEAD"))?;
        if !output("git", &["status", "--porcelain", "--", "crates"])?.is_empty() {
            say("what is not committed is not tried");
        }
        let commit = output("git", &["rev-parse", "HEAD"])?.trim().to_owned();
        let bench = Self { tool: tool()?, tree, build: folder.join("build"), commit };
        bench.restore()?;
        Ok(bench)
    }

    fn try_mutants(&self, part: &Part, options: &Options) -> Outcome {
        let mutants = self.list(part)?;
        let mut results = Results::read(part)?.brought_up(&mutants, &self.sources(&mutants)?, &self.crate_tree(part)?);
        let is_wanted = |(index, mutant): &(usize, &Mutant)| options.shard.contains(*index) && !results.is_known(mutant);
        let mut wanted: Vec<(usize, &Mutant)> = mutants.iter().enumerate().filter(is_wanted).collect();
        wanted.sort_by_key(|(index, _)| index % SAMPLES);
        let mut wanted: Vec<&Mutant> = wanted.into_iter().map(|(_, mutant)| mutant).collect();
        say(&format!("{}: {} mutants, {} of shard {} to try", part.package, mutants.len(), wanted.len(), options.shard));
        if wanted.is_empty() {
            return results.write(part);
        }
        let date = output("date", &["--utc", "+%F"])?.trim().to_owned();
        (results.commit, results.date) = (self.commit.clone(), date);
        if !options.one_by_one {
            wanted = woven::try_mutants(self, part, &wanted, |mutant, outcome| {
                results.set(mutant, outcome);
                results.write(part)
            })?;
            say(&format!("{}: {} are tried by themselves", part.package, wanted.len()));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        self.one_by_one(part, &mutants, &wanted, &mut results)
    }

    /// Lets the tool try mutants, of which it builds each by itself.
    fn one_by_one(&self, part: &Part, mutants: &[Mutant], wanted: &[&Mutant], results: &mut Results) -> Outcome {
        let out = root().join("target/mutants").join(part.package);
        let found = out.join("mutants.out");
        // All that the tool is not to try it finds among what it has caught before: a pattern for each that it is to try would miss a kind.
        let others = mutants.iter().filter(|mutant| !wanted.contains(mutant)).map(|mutant| format!("{}\n", mutant.name));
        let prepare = || {
            let _ = fs::remove_dir_all(&out);
            fs::create_dir_all(&found)?;
            fs::write(found.join("caught.txt"), others.collect::<String>())
        };
        prepare().map_err(|error| format!("{}: {error}", out.display()))?;
        let mut run = self.tool(part);
        run.args(["--iterate", "--in-place", "--no-shuffle", "--caught", "--unviable", "--cargo-arg=--tests", "--output"]).arg(&out);
        let mut run = run.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo-mutants: {error}"))?;
        for line in BufReader::new(run.stdout.take().expect("it is piped")).lines() {
            say(&line.map_err(|error| format!("cargo-mutants: {error}"))?);
            results.take_in(wanted, &found);
            results.write(part)?;
        }
        let status = run.wait().map_err(|error| format!("cargo-mutants: {error}"))?;
        // 2: some were missed; 3: some ran for too long.
        if matches!(status.code(), Some(0 | 2 | 3)) { Ok(()) } else { Err(format!("cargo-mutants ended with {status}")) }
    }

    /// All mutants of the part, in the tool's order, which is that of the source.
    fn list(&self, part: &Part) -> Result<Vec<Mutant>, String> {
        let listed = self.tool(part).arg("--list").output().map_err(|error| format!("cargo-mutants: {error}"))?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into_owned());
        }
        Mutant::all(&String::from_utf8_lossy(&listed.stdout), &self.tree)
    }

    /// The tool in the tree, with what decides which mutants there are and how they are built.
    fn tool(&self, part: &Part) -> Command {
        let mut tool = Command::new(&self.tool);
        tool.args(["mutants", "--no-config", "--colors=never", "--package", part.package, "--file", &format!("{}/**", part.folder)]);
        tool.args(part.without.iter().map(|file| format!("--exclude={}/{file}", part.folder)));
        tool.args(part.features.iter().map(|feature| format!("--features={feature}")));
        self.settings(tool.current_dir(&self.tree));
        tool
    }

    /// Cargo in the tree, for a build that is worth some optimisation: it is run thousands of times. Not built in increments: nearly all of it is another
    /// each time, and what a build that was broken off has left of an optimised one does not always link with the next.
    fn cargo(&self, part: &Part) -> Command {
        let mut cargo = Command::new("cargo");
        self.settings(cargo.current_dir(self.tree.join("crates").join(part.package)));
        cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_INCREMENTAL", "0");
        cargo
    }

    /// How mutants are built and tested.
    fn settings<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("CARGO_TARGET_DIR", &self.build).env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "none");
        // Tests that want an etcd are skipped: they are slow, and other ones on other machines.
        command.env_remove("BERTH_ETCD").env_remove("BERTH_UPSTREAM");
        // That a property fails is enough, the least case of it is not asked for.
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true").env("RUST_BACKTRACE", "0")
    }

    /// The tree as it is committed, whatever mutants a run has left in it. Keeps the time of files that are the same, and so what is built of them.
    fn restore(&self) -> Outcome {
        let status =
            Command::new("git").arg("-C").arg(&self.tree).args(["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("git checkout in {} ended with {status}", self.tree.display())),
            Err(error) => Err(format!("git: {error}")),
        }
    }

    /// What stands for the source of each file, without the tests at its end: what they notice is asked, not what they are.
    fn sources(&self, mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
        let paths: BTreeSet<&str> = mutants.iter().map(Mutant::path).collect();
        let source = |path: &str| {
            let text = fs::read_to_string(self.tree.join(path)).map_err(|error| format!("{path}: {error}"))?;
            Ok((path.to_owned(), results::digest(&text)))
        };
        paths.into_iter().map(source).collect()
    }

    /// What git calls the content of the whole crate.
    fn crate_tree(&self, part: &Part) -> Result<String, String> {
        Ok(output("git", &["rev-parse", "--short=12", &format!("HEAD:crates/{}", part.package)])?.trim().to_owned())
    }
}

/// cargo-mutants in the version that counts, built once under `target/tools`.
fn tool() -> Result<PathBuf, String> {
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-mutants");
    let is_here = |program: &Path| {
        let version = Command::new(program).args(["mutants", "--version"]).output();
        version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).trim().ends_with(VERSION))
    };
    if !is_here(&program) {
        say("cargo-mutants is not here: building it under target/tools, once");
        let build = ["install", "cargo-mutants", "--version", VERSION, "--quiet", "--locked", "--debug", "--root"];
        command(Command::new("cargo").args(build).arg(&tools))?;
    }
    Ok(program)
}
