//! Plans of random changes held against what then happens in a real `berth up`, by hand: many at once, in real time, with what is done kept.
//! `crates/berth/tests/foretold` does a few.

use crate::{
    run::{Outcome, append, build, root, say},
    simulate,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How often is said how far it is.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Which scenarios.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// From one seed up to another; each is a workload and a change of it.
    #[arg(long, default_value = "0..1000", value_parser = simulate::range, value_name = "FROM..TO")]
    seeds: Range<u64>,
    /// How many at once, each in a namespace of one server. More of them, or a machine that does something else, come later than foretold.
    #[arg(long, default_value_t = 32)]
    at_once: usize,
}

/// One that is over, a line of the file that a broken-off run goes on from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    /// Programs built at another time are others: their runs count no more.
    built_nanos: u128,
    alone: bool,
    ran: Ran,
}

/// A line of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ran {
    seed: u64,
    ended: Ended,
    /// By how many milliseconds what was foretold came later.
    late: Vec<i64>,
    seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Ended {
    AsForetold,
    /// As foretold for the moment of the change, which is a while after that of the plan.
    AtItsTime,
    Tied {
        order: u64,
    },
    Differed {
        why: String,
    },
}

impl Ended {
    fn differed(&self) -> bool {
        matches!(self, Self::Differed { .. })
    }
}

/// Runs what is missing, then each one that differed alone, then prints what came of all; an error if any differs still.
pub(crate) fn run(options: &Options) -> Outcome {
    let built = build(&["test", "--release", "--package", "berth", "--test", "foretold", "--no-run"])?;
    let built_nanos = built.iter().map(|built| built.built_nanos).max().unwrap_or_default();
    let test = built.into_iter().find(|built| built.is_test && built.target == "foretold").ok_or("cargo has built no test of that name")?;
    let folder = root().join("target/foretold");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let kept = folder.join("runs.jsonl");
    let runs = earlier(&kept, built_nanos, &options.seeds);
    let mut begun = Begun { program: test.executable, built_nanos, kept, runs, at: Instant::now(), said: Instant::now() };
    let missing = begun.missing(&options.seeds);
    say(&format!(
        "seeds {:?}, {} of them done before, {} at once",
        options.seeds,
        options.seeds.clone().count() - missing.len(),
        options.at_once
    ));
    begun.run_all(&missing, options.at_once)?;
    let differed = begun.differ();
    if !differed.is_empty() {
        say(&format!("again, each alone: {differed:?}"));
        begun.run_all(&differed, 1)?;
    }
    begun.summary(options)
}

/// What earlier runs of the same programs have done of the seeds.
fn earlier(kept: &Path, built_nanos: u128, seeds: &Range<u64>) -> Vec<Run> {
    let text = fs::read_to_string(kept).unwrap_or_default();
    let runs = text.lines().filter_map(|line| serde_json::from_str::<Run>(line).ok());
    runs.filter(|run| run.built_nanos == built_nanos && seeds.contains(&run.ran.seed)).collect()
}

/// A run under way.
struct Begun {
    program: PathBuf,
    built_nanos: u128,
    kept: PathBuf,
    runs: Vec<Run>,
    at: Instant,
    said: Instant,
}

impl Begun {
    /// By seed, in the order in which they were done.
    fn tries(&self) -> BTreeMap<u64, Vec<&Run>> {
        let mut tries: BTreeMap<u64, Vec<&Run>> = BTreeMap::new();
        self.runs.iter().for_each(|run| tries.entry(run.ran.seed).or_default().push(run));
        tries
    }

    fn missing(&self, seeds: &Range<u64>) -> Vec<u64> {
        let tries = self.tries();
        seeds.clone().filter(|seed| !tries.contains_key(seed)).collect()
    }

    /// Seeds whose last try differed.
    fn differ(&self) -> Vec<u64> {
        let differ = |tries: &Vec<&Run>| tries.last().is_some_and(|run| run.ran.ended.differed());
        self.tries().into_iter().filter(|(_, tries)| differ(tries)).map(|(seed, _)| seed).collect()
    }

    /// Runs these seeds; what came of each is kept as soon as it is over.
    fn run_all(&mut self, seeds: &[u64], at_once: usize) -> Outcome {
        if seeds.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let mut program = Command::new(&self.program)
            .args(["--exact", "what_is_foretold_of_random_changes_of_a_real_cluster_comes_true", "--nocapture"])
            .env("BERTH_FORETOLD_SEEDS", list.join(","))
            .env("BERTH_FORETOLD_AT_ONCE", at_once.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let (mut done, began) = (0, Instant::now());
        for line in BufReader::new(program.stdout.take().expect("it is piped")).lines().map_while(Result::ok) {
            let Ok(ran) = serde_json::from_str::<Ran>(&line) else { continue };
            if let Ended::Differed { why } = &ran.ended {
                say(&format!("seed {}{}: {why}", ran.seed, if at_once == 1 { ", alone" } else { "" }));
            }
            let run = Run { built_nanos: self.built_nanos, alone: at_once == 1, ran };
            append(&self.kept, &run)?;
            self.runs.push(run);
            done += 1;
            if self.said.elapsed() >= SAID_EVERY {
                self.said = Instant::now();
                let left = began.elapsed().as_secs_f64() / done as f64 * (seeds.len() - done) as f64 / 60.0;
                say(&format!("{done} of {} seeds, {}; {left:.1} minutes left", seeds.len(), self.counts()));
            }
        }
        let status = program.wait().map_err(|error| error.to_string())?;
        if status.success() && done == seeds.len() {
            Ok(())
        } else {
            Err(format!("it ended with {status} after {done} of {} seeds", seeds.len()))
        }
    }

    fn counts(&self) -> String {
        let tries = self.tries();
        let last = || tries.values().filter_map(|tries| tries.last()).map(|run| &run.ran.ended);
        let came_true = last().filter(|ended| **ended == Ended::AsForetold).count();
        let at_its_time = last().filter(|ended| **ended == Ended::AtItsTime).count();
        let tied = last().filter(|ended| matches!(ended, Ended::Tied { .. })).count();
        let again = tries.values().filter(|tries| tries.len() > 1).count();
        format!(
            "{came_true} as foretold, {at_its_time} for the moment of the change, {tied} tied, {again} tried again alone, {} differ",
            last().filter(|ended| ended.differed()).count()
        )
    }

    fn summary(&self, options: &Options) -> Outcome {
        let hours = self.runs.iter().map(|run| run.ran.seconds).sum::<f64>() / 3600.0;
        let minutes = self.at.elapsed().as_secs_f64() / 60.0;
        say(&format!("seeds {:?}: {}; {hours:.1} hours of scenarios, now {minutes:.1} minutes", options.seeds, self.counts()));
        for (seed, tries) in self.tries().iter().filter(|(_, tries)| tries.len() > 1 || tries[0].ran.ended != Ended::AsForetold) {
            let ends: Vec<String> = tries.iter().map(|run| shown(&run.ran.ended)).collect();
            say(&format!("seed {seed}: {}", ends.join("; then alone: ")));
        }
        say(&lateness(self.tries().into_values().filter_map(|tries| tries.last().copied()).flat_map(|run| run.ran.late.iter().copied())));
        match self.differ()[..] {
            [] => Ok(()),
            ref seeds => Err(format!("otherwise than foretold: {seeds:?}")),
        }
    }
}

fn shown(ended: &Ended) -> String {
    match ended {
        Ended::AsForetold => "as foretold".to_owned(),
        Ended::AtItsTime => "as foretold for the moment of the change".to_owned(),
        Ended::Tied { order } => format!("a tie, as foretold in order {order}"),
        // What there is besides was printed when it happened, and is kept.
        Ended::Differed { why } => why.split("; ").next().unwrap_or_default().to_owned(),
    }
}

/// How far from what is foretold things came, in words.
fn lateness(late: impl Iterator<Item = i64>) -> String {
    let mut late: Vec<i64> = late.collect();
    late.sort_unstable();
    let Some((first, last)) = late.first().zip(late.last()) else { return "no time was compared".to_owned() };
    let part = |numbers: &[i64], thousandths: usize| numbers[(numbers.len() - 1) * thousandths / 1000];
    let mut apart: Vec<i64> = late.iter().map(|late| late.abs()).collect();
    apart.sort_unstable();
    format!(
        "{} times, apart from what is foretold by {} ms (median), {} ms (99 of 100), {} ms (at most); from {first} to {last} ms later, {} ms in the median",
        late.len(),
        part(&apart, 500),
        part(&apart, 990),
        part(&apart, 1000),
        part(&late, 500)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(built_nanos: u128, seed: u64, ended: Ended) -> Run {
        Run { built_nanos, alone: false, ran: Ran { seed, ended, late: vec![3], seconds: 1.0 } }
    }

    fn differed() -> Ended {
        Ended::Differed { why: "late; by much".to_owned() }
    }

    #[test]
    fn it_goes_on_where_it_was_broken_off_and_what_differed_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = folder.path().join("runs.jsonl");
        let tied = Ended::Tied { order: 3 };
        let lines = [
            run(7, 1, Ended::AsForetold),
            run(8, 2, Ended::AsForetold),
            run(8, 3, differed()),
            run(8, 4, differed()),
            run(8, 4, Ended::AsForetold),
            run(8, 5, tied),
            run(8, 6, Ended::AtItsTime),
            run(8, 9, differed()),
        ];
        lines.iter().for_each(|line| append(&kept, line).expect("written"));
        let runs = earlier(&kept, 8, &(1..8));
        assert_eq!(runs, lines[1..7]);
        let begun = Begun { program: PathBuf::new(), built_nanos: 8, kept, runs, at: Instant::now(), said: Instant::now() };
        assert_eq!((begun.missing(&(1..8)), begun.differ()), (vec![1, 7], vec![3]));
        assert_eq!(begun.counts(), "2 as foretold, 1 for the moment of the change, 1 tied, 1 tried again alone, 1 differ");
        assert_eq!(shown(&lines[2].ran.ended), "late");
    }

    #[test]
    fn lateness_is_told_by_both_sides() {
        let told = lateness([-20, 0, 4, 6, 7].into_iter());
        assert_eq!(
            told,
            "5 times, apart from what is foretold by 6 ms (median), 7 ms (99 of 100), 20 ms (at most); from -20 to 7 ms later, 4 ms in the median"
        );
        assert_eq!(lateness(std::iter::empty()), "no time was compared");
    }
}
