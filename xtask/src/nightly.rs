//! The tests that take hours, in steps of minutes. Completed steps are recorded, so that the next run continues after an interruption.

mod pieces;

use crate::run::{Outcome, append, output, print, root};
use pieces::{Piece, pieces};
use serde::{Deserialize, Serialize};
use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// How many steps of a piece may fail in one run: a fault of every step is known by then.
const FAILURES_MAX: usize = 3;

/// Which pieces to run, and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many hours to run. The pieces share the time equally. A step that has started runs to its end.
    #[arg(long, default_value_t = 8.0)]
    hours: f64,
    /// Only these pieces, in this order.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Prints the pieces and how far each one is. Runs nothing.
    #[arg(long)]
    list: bool,
}

/// A step that has ended: a line of `target/nightly/steps.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    piece: String,
    /// Counted across rounds.
    number: u64,
    command: String,
    commit: String,
    date: String,
    seconds: u64,
    passed: bool,
    /// The line of its output with the result.
    figure: String,
}

/// Runs the pieces in turn, and writes `target/nightly/summary.md` after each step. Fails if any step failed.
pub(crate) fn run(options: &Options) -> Outcome {
    fs::create_dir_all(folder()).map_err(|error| format!("{}: {error}", folder().display()))?;
    let pieces = chosen(pieces()?, &options.only)?;
    let mut kept = Kept::read();
    if options.list {
        pieces.iter().for_each(|piece| print(&format!("{}: {}\n  {}", piece.name, piece.about, kept.progress(piece))));
        return Ok(());
    }
    let end = Instant::now() + Duration::try_from_secs_f64(options.hours * 3600.0).map_err(|error| format!("--hours: {error}"))?;
    let mut failed = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let tool = match piece.tool.map_or(Ok(None), |install| install().map(Some)) {
            Ok(tool) => tool,
            Err(error) => {
                failed.push(format!("{}: {error}", piece.name));
                continue;
            }
        };
        let share = end.saturating_duration_since(Instant::now()) / u32::try_from(pieces.len() - index).unwrap_or(u32::MAX);
        failed.extend(run_piece(piece, tool.as_deref(), share, &mut kept, &pieces)?);
    }
    print(&kept.summary(&pieces));
    if failed.is_empty() { Ok(()) } else { Err(format!("{} steps failed:\n  {}", failed.len(), failed.join("\n  "))) }
}

/// The pieces of these names, or all of them.
fn chosen(pieces: Vec<Piece>, names: &[String]) -> Result<Vec<Piece>, String> {
    if names.is_empty() {
        return Ok(pieces);
    }
    let all = pieces.iter().map(|piece| piece.name).collect::<Vec<_>>().join(", ");
    let mut pieces = pieces;
    let mut take = |name: &String| {
        let place = pieces.iter().position(|piece| piece.name == name);
        place.map(|place| pieces.remove(place)).ok_or_else(|| format!("there is no piece {name:?}, only: {all}"))
    };
    names.iter().map(&mut take).collect()
}

/// Runs steps until the time or the round is over. Returns the commands that failed.
fn run_piece(piece: &Piece, tool: Option<&Path>, share: Duration, kept: &mut Kept, pieces: &[Piece]) -> Result<Vec<String>, String> {
    let (begun, mut failed) = (Instant::now(), Vec::new());
    while begun.elapsed() < share && failed.len() < FAILURES_MAX {
        let number = kept.next(piece.name);
        let step = run_step(piece, tool, number)?;
        let how = if step.passed { "passed" } else { "FAILED" };
        print(&format!("  {how} after {} s: {}", step.seconds, step.figure));
        if !step.passed {
            failed.push(format!("{}: target/nightly/{}-{number}.log", step.command, piece.name));
        }
        append(&folder().join("steps.jsonl"), &step)?;
        kept.0.push(step);
        fs::write(folder().join("summary.md"), kept.summary(pieces)).map_err(|error| format!("summary.md: {error}"))?;
        if piece.is_last(number) {
            break;
        }
    }
    Ok(failed)
}

/// Runs one step. The logs of the last successful step and of each failed step remain in `target/nightly`.
fn run_step(piece: &Piece, tool: Option<&Path>, number: u64) -> Result<Step, String> {
    let command = piece.command(number);
    print(&format!("{} {}: {command}", piece.name, piece.place(number)));
    let log = folder().join(format!("{}-{number}.log", piece.name));
    let wrong = |error: std::io::Error| format!("{}: {error}", log.display());
    let file = File::create(&log).map_err(wrong)?;
    let begun = Instant::now();
    let mut words = command.split(' ');
    let mut child = Command::new(words.next().unwrap_or_default());
    child.args(words).current_dir(root()).stdout(file.try_clone().map_err(wrong)?).stderr(file);
    let status = child.env("PATH", path_with(tool)).status().map_err(|error| format!("{command}: {error}"))?;
    let printed = String::from_utf8_lossy(&fs::read(&log).map_err(wrong)?).into_owned();
    let passed = status.code().is_some_and(|code| code == 0 || piece.accepted.contains(&code));
    if passed {
        fs::rename(&log, folder().join(format!("{}.log", piece.name))).map_err(wrong)?;
    }
    Ok(Step {
        piece: piece.name.to_owned(),
        number,
        command,
        commit: output("git", &["describe", "--always", "--dirty"])?.trim().to_owned(),
        date: output("date", &["--utc", "+%F"])?.trim().to_owned(),
        seconds: begun.elapsed().as_secs(),
        passed,
        figure: figure(&printed, piece.figure),
    })
}

/// The variable `PATH` with the folder of a tool first.
fn path_with(tool: Option<&Path>) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folder = tool.and_then(Path::parent).map(Path::to_path_buf);
    env::join_paths(folder.into_iter().chain(env::split_paths(&path))).unwrap_or(path)
}

/// The last line that contains the text, otherwise the last line.
fn figure(printed: &str, text: &str) -> String {
    let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back();
    lines.rfind(|line| line.contains(text)).or(last).unwrap_or("no output").to_owned()
}

fn folder() -> PathBuf {
    root().join("target/nightly")
}

/// All completed steps, in order.
struct Kept(Vec<Step>);

impl Kept {
    fn read() -> Self {
        let text = fs::read_to_string(folder().join("steps.jsonl")).unwrap_or_default();
        Self(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn of<'k>(&'k self, piece: &'k str) -> impl DoubleEndedIterator<Item = &'k Step> {
        self.0.iter().filter(move |step| step.piece == piece)
    }

    /// The number of the next step.
    fn next(&self, piece: &str) -> u64 {
        self.of(piece).next_back().map_or(0, |step| step.number + 1)
    }

    fn progress(&self, piece: &Piece) -> String {
        let Some(last) = self.of(piece.name).next_back() else { return "no step has ended".to_owned() };
        let failed = self.of(piece.name).filter(|step| !step.passed).count();
        let Step { number, commit, date, figure, .. } = last;
        format!("step {} has ended ({date}, {commit}), {failed} steps failed: {figure}", piece.place(*number))
    }

    /// A page in Markdown: the progress of each piece, and each failed step.
    fn summary(&self, pieces: &[Piece]) -> String {
        let mut text = "# Nightly\n\n".to_owned();
        for piece in pieces {
            let _ = writeln!(text, "- **{}**: {}", piece.name, self.progress(piece));
        }
        for Step { piece, number, command, commit, figure, .. } in self.0.iter().filter(|step| !step.passed) {
            let _ = write!(text, "\nFailed at {commit}: `{command}`: {figure} (target/nightly/{piece}-{number}.log)\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pieces::Steps;

    fn piece(name: &'static str) -> Piece {
        let commands = ["a", "b", "c"].map(str::to_owned).to_vec();
        Piece { name, steps: Steps::Round(commands), ..Piece::default() }
    }

    fn step(piece: &str, number: u64, passed: bool) -> Step {
        let [piece, command, commit, date, figure] = [piece, "a", "abc", "2026-11-28", "7 seeds"].map(str::to_owned);
        Step { piece, number, command, commit, date, seconds: 1, passed, figure }
    }

    #[test]
    fn a_piece_goes_on_behind_its_last_step_and_begins_again_after_a_round() {
        let kept = Kept(vec![step("one", 0, true), step("other", 7, true), step("one", 1, false)]);
        let one = piece("one");
        assert_eq!((kept.next("one"), kept.next("new")), (2, 0));
        assert_eq!([0, 1, 2, 3].map(|number| one.command(number)), ["a", "b", "c", "a"]);
        assert_eq!([1, 2, 5].map(|number| one.is_last(number)), [false, true, true]);
    }

    #[test]
    fn the_summary_names_the_last_figure_of_each_piece_and_each_failed_step() {
        let kept = Kept(vec![step("one", 0, true), step("one", 1, false)]);
        let expected = "# Nightly\n\n\
            - **one**: step 2 of 3 has ended (2026-11-28, abc), 1 steps failed: 7 seeds\n\
            - **new**: no step has ended\n\n\
            Failed at abc: `a`: 7 seeds (target/nightly/one-1.log)\n";
        assert_eq!(kept.summary(&[piece("one"), piece("new")]), expected);
    }

    #[test]
    fn the_figure_is_the_last_line_with_the_text_of_the_piece() {
        assert_eq!(figure("1 tested\n 2 tested \nbye\n\n", "tested"), "2 tested");
        assert_eq!(figure("1 tested\nbye\n", "seeds"), "bye");
        assert_eq!(figure("", "seeds"), "no output");
    }

    #[test]
    fn pieces_are_chosen_by_name_and_an_unknown_name_is_an_error() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(vec![piece("a"), piece("b")], &names).map(|chosen| chosen.iter().map(|piece| piece.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]), Ok(vec!["a", "b"]));
        assert_eq!(names(&["b"]), Ok(vec!["b"]));
        assert_eq!(names(&["c"]), Err("there is no piece \"c\", only: a, b".to_owned()));
    }
}
