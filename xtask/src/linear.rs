//! Checks recorded histories: whether one order explains what clients observed.

use crate::run::{Outcome, print};
use berth_linear::{Checked, Effort, check, from_lines};
use std::{fs, path::PathBuf, time::Instant};

/// What to check, and how hard to try.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The history, with one operation per line, as `berth_linear::Operation::to_line` writes it.
    file: PathBuf,
    /// How many attempts the checker makes for each object.
    #[arg(long, default_value_t = Effort::default().tries_per_key)]
    tries: usize,
}

/// Reads and checks.
pub(crate) fn run(Options { file, tries }: &Options) -> Outcome {
    let wrong = |error: &dyn std::error::Error| {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        causes.fold(format!("{}: {error}", file.display()), |text, cause| format!("{text}: {cause}"))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let history = from_lines(&text).map_err(|error| wrong(&error))?;
    let started = Instant::now();
    match check(&history, Effort { tries_per_key: *tries }) {
        Ok(Checked { operations, keys, unknown }) => {
            print(&format!(
                "{operations} operations on {keys} objects, {unknown} of unknown outcome: there is one order of all ({:.0?})",
                started.elapsed()
            ));
            Ok(())
        }
        Err(faults) => {
            faults.iter().for_each(|fault| print(&format!("{fault}\n")));
            Err(format!("{}: {} faults", file.display(), faults.len()))
        }
    }
}
