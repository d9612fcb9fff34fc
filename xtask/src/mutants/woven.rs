//! All mutants that can be woven into one build, tried one after the other: a build takes longer than the tests, and there is one for all of them.

use super::{
    Bench, Outcome, Part,
    results::{CAUGHT, MISSED, Mutant, TIMEOUT, UNVIABLE},
    weave::{Change, QUESTION, weave},
};
use crate::run::say;
use cargo_metadata::{Message, diagnostic::DiagnosticLevel};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The mutant that is on, by its number.
const ON: &str = "BERTH_MUTANT";
/// Whether the first panic ends the run.
const ENDS: &str = "BERTH_MUTANT_ENDS";
/// Where a run notes which mutants its tests reach.
const REACHED: &str = "BERTH_MUTANTS_REACHED";
/// The tests of a mutant may take this many times as long as those of the source.
const TIMES_MAX: u32 = 5;
/// And at least this long.
const TIME_MIN: Duration = Duration::from_secs(20);
/// A mutant may not take the machine with it.
const MEMORY_KIB_MAX: u64 = 6 << 20;

/// What answers the question: added to the crate's root. With `REACHED`, it notes for each test which mutants it asks about.
const ANSWER: &str = r#"
#[doc(hidden)]
#[allow(missing_docs, clippy::all, clippy::disallowed_methods, clippy::disallowed_types)]
pub fn mutant(id: usize) -> bool {
    use std::{collections::BTreeSet, io::Write, sync::OnceLock};
    static ON: OnceLock<Option<usize>> = OnceLock::new();
    static REACHED: OnceLock<Option<String>> = OnceLock::new();
    thread_local! {
        static NOTED: std::cell::RefCell<BTreeSet<usize>> = const { std::cell::RefCell::new(BTreeSet::new()) };
    }
    if let Some(file) = REACHED.get_or_init(|| std::env::var("BERTH_MUTANTS_REACHED").ok())
        && NOTED.try_with(|noted| noted.borrow_mut().insert(id)).unwrap_or(false)
    {
        let line = format!("{id} {}\n", std::thread::current().name().unwrap_or_default());
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).expect("the file of notes");
        file.write_all(line.as_bytes()).expect("a note");
    }
    let on = ON.get_or_init(|| {
        if std::env::var_os("BERTH_MUTANT_ENDS").is_some() {
            std::panic::set_hook(Box::new(|_| std::process::exit(101)));
        }
        std::env::var("BERTH_MUTANT").ok()?.parse().ok()
    });
    *on == Some(id)
}
"#;

/// A program of tests, and what is known of it.
struct Program {
    executable: PathBuf,
    /// As long as its tests take without a mutant.
    takes: Duration,
    /// Names of the tests that reach a mutant.
    reached: BTreeMap<usize, BTreeSet<String>>,
}

/// Errors of what stands instead, whatever is around it: no such trait, type, operator or method.
const UNVIABLE_CODES: [&str; 6] = ["E0277", "E0282", "E0308", "E0369", "E0599", "E0600"];

/// An error of the compiler.
#[derive(Debug)]
struct Fault {
    code: String,
    /// The paths from the root and the places there that it names, first where it is.
    places: Vec<(String, usize)>,
}

impl Fault {
    /// The mutant that it is about, and whether the fault is in what stands instead. Several faults may be about one.
    fn mutant(&self, bench: &Bench) -> Option<(usize, bool)> {
        let asked = |(path, at): &(String, usize)| {
            let text = fs::read_to_string(bench.tree.join(path)).ok()?;
            let (_, since) = text.get(..*at)?.rsplit_once(QUESTION)?;
            Some((number(since)?, is_instead(since)))
        };
        let asked: Vec<_> = self.places.iter().filter_map(asked).collect();
        asked.iter().find(|(_, is_instead)| *is_instead).or(asked.first()).copied()
    }
}

/// What is built.
struct Build {
    ids: BTreeSet<usize>,
    /// They compile neither beside the original nor in its place.
    unviable: BTreeSet<usize>,
    programs: Vec<Program>,
}

/// Tries those of `wanted` that can be woven in, and tells of each. Gives the others.
pub(super) fn try_mutants<'a>(
    bench: &Bench,
    part: &Part,
    wanted: &[&'a Mutant],
    mut tell: impl FnMut(&Mutant, char) -> Outcome,
) -> Result<Vec<&'a Mutant>, String> {
    let Build { ids, unviable, programs } = build(bench, part, wanted)?;
    unviable.iter().try_for_each(|id| tell(wanted[*id], UNVIABLE))?;
    let started = Instant::now();
    for (count, id) in (1..).zip(&ids) {
        let outcome = outcome(bench, part, &programs, *id)?;
        if outcome != CAUGHT {
            say(&format!("{} {}", if outcome == MISSED { "MISSED " } else { "TIMEOUT" }, wanted[*id].name));
        }
        tell(wanted[*id], outcome)?;
        if count % 100 == 0 {
            say(&format!("{count} of {} in {:.0} s", ids.len(), started.elapsed().as_secs_f64()));
        }
    }
    bench.restore()?;
    let is_left = |id: &usize| !ids.contains(id) && !unviable.contains(id);
    Ok(wanted.iter().enumerate().filter(|(id, _)| is_left(id)).map(|(_, mutant)| *mutant).collect())
}

/// Builds the tests with as many of the mutants as compile together.
fn build(bench: &Bench, part: &Part, wanted: &[&Mutant]) -> Result<Build, String> {
    let (mut without, mut unviable) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let ids = write(bench, part, wanted, &without)?;
        let faults = faults(bench, part)?;
        if faults.is_empty() {
            return Ok(Build { ids, unviable, programs: programs(bench, part)? });
        }
        let before = without.len();
        for fault in &faults {
            match fault.mutant(bench) {
                Some((id, is_instead)) => {
                    without.insert(id);
                    if is_instead && UNVIABLE_CODES.contains(&fault.code.as_str()) {
                        unviable.insert(id);
                    }
                }
                // It is in the original, which is other than it was beside a mutant before it: which, is not known.
                None => {
                    let path = fault.places.first().map(|(path, _)| path.as_str());
                    without.extend(wanted.iter().enumerate().filter(|(_, mutant)| Some(mutant.path()) == path).map(|(id, _)| id));
                }
            }
        }
        say(&format!("{}: {} of {} mutants do not compile with the others", part.package, without.len(), wanted.len()));
        if without.len() == before {
            return Err(format!("{} does not compile with its mutants: {faults:?}", part.package));
        }
    }
}

/// `12` of `(12) { …`
fn number(text: &str) -> Option<usize> {
    text.strip_prefix('(')?.split(')').next()?.parse().ok()
}

/// Whether what follows `(12) { …` is still what stands instead: the brace is open.
fn is_instead(text: &str) -> bool {
    let mut depth = 0;
    let mut depths = text.chars().filter(|letter| "{}".contains(*letter)).map(|brace| {
        depth += if brace == '{' { 1 } else { -1 };
        depth
    });
    depths.all(|depth| depth > 0)
}

/// Writes the woven files; gives which mutants are in them.
fn write(bench: &Bench, part: &Part, wanted: &[&Mutant], without: &BTreeSet<usize>) -> Result<BTreeSet<usize>, String> {
    bench.restore()?;
    let mut by_path: BTreeMap<&str, Vec<Change<'_>>> = BTreeMap::new();
    for (id, mutant) in wanted.iter().enumerate().filter(|(id, _)| !without.contains(id)) {
        let change = mutant.change().ok_or_else(|| format!("no place: {}", mutant.name))?;
        by_path.entry(mutant.path()).or_default().push(Change { id, ..change });
    }
    let mut ids = BTreeSet::new();
    for (path, changes) in by_path {
        let file = bench.tree.join(path);
        let text = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
        let woven = weave(&text, &changes).map_err(|error| format!("{path}: {error}"))?;
        fs::write(&file, woven.text).map_err(|error| format!("{path}: {error}"))?;
        ids.extend(woven.ids);
    }
    let root = bench.tree.join(format!("crates/{}/src/lib.rs", part.package));
    let add = || fs::write(&root, fs::read_to_string(&root)? + ANSWER);
    add().map_err(|error| format!("{}: {error}", root.display()))?;
    Ok(ids)
}

/// Each fault that the compiler finds.
fn faults(bench: &Bench, part: &Part) -> Result<Vec<Fault>, String> {
    let mut faults = Vec::new();
    for message in messages(bench.cargo(part).args(["check", "--lib"]), part)? {
        let Message::CompilerMessage(message) = message else { continue };
        if message.message.level != DiagnosticLevel::Error {
            continue;
        }
        let code = message.message.code.map(|code| code.code).unwrap_or_default();
        // What a macro or the standard library makes of a fault has its place in this crate too.
        let spans = message.message.spans.iter().filter(|span| span.file_name.starts_with("crates/"));
        let (primary, others): (Vec<_>, Vec<_>) = spans.partition(|span| span.is_primary);
        let places = primary.into_iter().chain(others).map(|span| (span.file_name.clone(), span.byte_start as usize)).collect();
        faults.push(Fault { code, places });
    }
    // That compilation is aborted has no place.
    faults.retain(|fault: &Fault| !fault.places.is_empty());
    Ok(faults)
}

fn messages(cargo: &mut Command, part: &Part) -> Result<Vec<Message>, String> {
    cargo.args(["--quiet", "--message-format=json", "--package", part.package]);
    cargo.args(part.features.iter().map(|feature| format!("--features={feature}")));
    let output = cargo.stderr(Stdio::null()).output().map_err(|error| format!("cargo: {error}"))?;
    Message::parse_stream(&*output.stdout).collect::<Result<_, _>>().map_err(|error| format!("cargo's messages: {error}"))
}

/// Builds and runs the tests without a mutant: which take how long, and which reach what.
fn programs(bench: &Bench, part: &Part) -> Result<Vec<Program>, String> {
    let (mut executables, mut why) = (Vec::new(), String::new());
    for message in messages(bench.cargo(part).args(["test", "--no-run", "--tests"]), part)? {
        match message {
            Message::CompilerArtifact(artifact) => {
                let executable = artifact.executable.filter(|_| artifact.profile.test);
                executables.extend(executable.map(|executable| (!artifact.target.is_lib(), PathBuf::from(executable))));
            }
            Message::CompilerMessage(fault) if fault.message.level == DiagnosticLevel::Error => why = fault.message.message,
            // What the tests of a program that is not there would notice would count as missed.
            Message::BuildFinished(build) if !build.success => {
                return Err(format!("not all tests of {} can be built: {why}", part.package));
            }
            _ => (),
        }
    }
    // Those beside the code are the quickest, and most mutants end with them.
    executables.sort();
    if executables.is_empty() {
        return Err(format!("the tests of {} are not built", part.package));
    }
    let notes = bench.build.with_file_name("reached");
    let mut programs = Vec::new();
    for (_, executable) in executables {
        let _ = fs::remove_file(&notes);
        let mut program = Program { executable, takes: TIME_MIN * 60, reached: BTreeMap::new() };
        let started = Instant::now();
        if run(bench, part, &program, &[], |command| command.env(REACHED, &notes))? != MISSED {
            return Err(format!("{} fails without a mutant", program.executable.display()));
        }
        program.takes = started.elapsed();
        for line in fs::read_to_string(&notes).unwrap_or_default().lines() {
            let Some((id, test)) = line.split_once(' ').and_then(|(id, test)| Some((id.parse().ok()?, test))) else { continue };
            program.reached.entry(id).or_default().insert(test.to_owned());
        }
        say(&format!("{}: {:.1} s", program.executable.display(), program.takes.as_secs_f64()));
        programs.push(program);
    }
    Ok(programs)
}

/// What becomes of one mutant: the tests that reach it decide.
fn outcome(bench: &Bench, part: &Part, programs: &[Program], id: usize) -> Result<char, String> {
    for program in programs {
        let Some(tests) = program.reached.get(&id) else { continue };
        // What a thread without a test's name reaches may be any test's.
        let is_named = tests.iter().all(|test| !test.is_empty() && test != "main");
        let only: Vec<&str> = if is_named { ["--exact"].into_iter().chain(tests.iter().map(String::as_str)).collect() } else { Vec::new() };
        let outcome =
            run(bench, part, program, &only, |command| if part.panics { command } else { command.env(ENDS, "1") }.env(ON, id.to_string()))?;
        if outcome != MISSED {
            return Ok(outcome);
        }
    }
    Ok(MISSED)
}

/// Runs a program of tests until it ends, or for too long.
fn run(
    bench: &Bench,
    part: &Part,
    program: &Program,
    tests: &[&str],
    set: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<char, String> {
    let shown = || program.executable.display().to_string();
    let folder = bench.tree.join("crates").join(part.package);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB_MAX}; exec \"$0\" \"$@\"")]).arg(&program.executable).args(tests);
    bench.settings(&mut command).current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
    set(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", shown()))?;
    let end = Instant::now() + TIME_MIN.max(program.takes * TIMES_MAX);
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("{}: {error}", shown()))? {
            return Ok(if status.success() { MISSED } else { CAUGHT });
        }
        if end < Instant::now() {
            child.kill().and_then(|()| child.wait()).map_err(|error| format!("{}: {error}", shown()))?;
            return Ok(TIMEOUT);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_instead_ends_with_its_brace() {
        assert_eq!(number("(12) { return 1; }"), Some(12));
        assert!(is_instead("(12) { return "));
        assert!(is_instead("(12) { A { b: c } < "));
        assert!(!is_instead("(12) { a > b } else { "));
    }
}
