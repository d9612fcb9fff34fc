//! All mutants that can be woven into one build, tried one after the other: a build takes longer than the tests, and there is one for all of them.

use super::{
    Bench, Outcome, Part,
    results::{CAUGHT, MISSED, Mutant, TIMEOUT, UNVIABLE},
    weave::{Change, QUESTION, Woven, weave},
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
/// A test by itself, without a mutant, may take this long.
const TEST_TIME_MAX: Duration = Duration::from_secs(600);
/// Where the machine is busy, time is given this many times, twice as much each time.
const TRIES: u32 = 5;
/// The tests that are tried first take so long together: most mutants end with them.
const QUICK: Duration = Duration::from_millis(500);
/// A mutant may not take the machine with it.
const MEMORY_KIB_MAX: u64 = 6 << 20;

/// What answers the question: added to the crate's root. With `REACHED`, it notes which mutants are asked about; with `ENDS`, the process ends with the
/// first test that panics.
const ANSWER: &str = r#"
#[doc(hidden)]
#[allow(missing_docs, clippy::all, clippy::disallowed_methods, clippy::disallowed_types)]
pub fn mutant(id: usize) -> bool {
    use std::{io::Write, sync::OnceLock};
    static ON: OnceLock<Option<usize>> = OnceLock::new();
    static REACHED: OnceLock<Option<String>> = OnceLock::new();
    thread_local! {
        static NOTED: std::cell::RefCell<Vec<bool>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    fn is_new(noted: &std::cell::RefCell<Vec<bool>>, id: usize) -> bool {
        let mut noted = noted.borrow_mut();
        if noted.len() <= id {
            noted.resize(id + 1, false);
        }
        !std::mem::replace(&mut noted[id], true)
    }
    if let Some(file) = REACHED.get_or_init(|| std::env::var("BERTH_MUTANTS_REACHED").ok())
        && NOTED.try_with(|noted| is_new(noted, id)).unwrap_or(true)
    {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).expect("the file of notes");
        file.write_all(format!("{id}\n").as_bytes()).expect("a note");
    }
    let on = ON.get_or_init(|| {
        if std::env::var_os("BERTH_MUTANT_ENDS").is_some() {
            std::panic::set_hook(Box::new(|_| {
                // A thread of another name is none of a test: whether a test minds its panic is for the test to say.
                if std::env::args().any(|test| std::thread::current().name() == Some(test.as_str())) {
                    std::process::exit(101);
                }
            }));
        }
        std::env::var("BERTH_MUTANT").ok()?.parse().ok()
    });
    *on == Some(id)
}
"#;

/// A program of tests.
struct Program {
    executable: PathBuf,
    /// The quickest first.
    tests: Vec<Test>,
}

/// What is known of a test.
struct Test {
    name: String,
    /// As long as it takes without a mutant.
    takes: Duration,
    /// It provokes panics, and passes; with any other the first panic is the end.
    panics: bool,
    /// The mutants that it reaches, on whatever thread.
    reaches: BTreeSet<usize>,
}

impl Program {
    /// The tests that reach a mutant, in the order in which they are run: quick ones, the others, those that provoke panics.
    fn batches(&self, id: usize) -> [Vec<&Test>; 3] {
        let (mut quick, mut slow, mut panicking) = (Vec::new(), Vec::new(), Vec::new());
        let mut takes = Duration::ZERO;
        for test in self.tests.iter().filter(|test| test.reaches.contains(&id)) {
            takes += test.takes;
            let batch = if test.panics {
                &mut panicking
            } else if takes < QUICK {
                &mut quick
            } else {
                &mut slow
            };
            batch.push(test);
        }
        [quick, slow, panicking]
    }
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
        let Woven { ids, refused, .. } = write(bench, part, wanted, &without)?;
        unviable.extend(&refused);
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
fn write(bench: &Bench, part: &Part, wanted: &[&Mutant], without: &BTreeSet<usize>) -> Result<Woven, String> {
    bench.restore()?;
    let mut by_path: BTreeMap<&str, Vec<Change<'_>>> = BTreeMap::new();
    for (id, mutant) in wanted.iter().enumerate().filter(|(id, _)| !without.contains(id)) {
        let change = mutant.change().ok_or_else(|| format!("no place: {}", mutant.name))?;
        by_path.entry(mutant.path()).or_default().push(Change { id, ..change });
    }
    let mut all = Woven::default();
    for (path, changes) in by_path {
        let file = bench.tree.join(path);
        let text = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
        let woven = weave(&text, &changes).map_err(|error| format!("{path}: {error}"))?;
        fs::write(&file, woven.text).map_err(|error| format!("{path}: {error}"))?;
        all.ids.extend(woven.ids);
        all.refused.extend(woven.refused);
    }
    let root = bench.tree.join(format!("crates/{}/src/lib.rs", part.package));
    let add = || fs::write(&root, fs::read_to_string(&root)? + ANSWER);
    add().map_err(|error| format!("{}: {error}", root.display()))?;
    Ok(all)
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

/// Builds the tests, and runs each by itself without a mutant: how long it takes, and which it reaches.
fn programs(bench: &Bench, part: &Part) -> Result<Vec<Program>, String> {
    let (mut executables, mut why) = (Vec::new(), String::new());
    for message in messages(bench.cargo(part).args(["test", "--no-run", "--tests"]), part)? {
        match message {
            Message::CompilerArtifact(artifact) => {
                executables.extend(artifact.executable.filter(|_| artifact.profile.test).map(PathBuf::from));
            }
            Message::CompilerMessage(fault) if fault.message.level == DiagnosticLevel::Error => why = fault.message.message,
            // What the tests of a program that is not there would notice would count as missed.
            Message::BuildFinished(build) if !build.success => {
                return Err(format!("not all tests of {} can be built: {why}", part.package));
            }
            _ => (),
        }
    }
    if executables.is_empty() {
        return Err(format!("the tests of {} are not built", part.package));
    }
    executables.into_iter().map(|executable| program(bench, part, executable)).collect()
}

fn program(bench: &Bench, part: &Part, executable: PathBuf) -> Result<Program, String> {
    let listed = Command::new(&executable).args(["--list", "--format", "terse"]).output();
    let listed = listed.map_err(|error| format!("{}: {error}", executable.display()))?;
    let mut program = Program { executable, tests: Vec::new() };
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.strip_suffix(": test")) {
        let notes = bench.build.with_file_name("reached");
        let _ = fs::remove_file(&notes);
        let noting = (REACHED, notes.display().to_string());
        let started = Instant::now();
        let run = |variables: &[Variable]| run(bench, part, &program, &[name], TEST_TIME_MAX, variables);
        let panics = run(&[noting.clone(), (ENDS, "1".to_owned())])? != MISSED;
        if panics && run(&[noting])? != MISSED {
            return Err(format!("{} fails without a mutant: {name}", program.executable.display()));
        }
        let noted = fs::read_to_string(&notes).unwrap_or_default();
        let reaches = noted.lines().filter_map(|id| id.parse().ok()).collect();
        program.tests.push(Test { name: name.to_owned(), takes: started.elapsed(), panics, reaches });
    }
    program.tests.sort_by_key(|test| test.takes);
    let takes: Duration = program.tests.iter().map(|test| test.takes).sum();
    say(&format!("{}: {} tests, {:.1} s", program.executable.display(), program.tests.len(), takes.as_secs_f64()));
    Ok(program)
}

/// What becomes of one mutant: the tests that reach it decide.
fn outcome(bench: &Bench, part: &Part, programs: &[Program], id: usize) -> Result<char, String> {
    let batches: Vec<_> = programs.iter().map(|program| program.batches(id)).collect();
    for step in 0..3 {
        for (program, batches) in programs.iter().zip(&batches).filter(|(_, batches)| !batches[step].is_empty()) {
            let outcome = outcome_of(bench, part, program, &batches[step], id)?;
            if outcome != MISSED {
                return Ok(outcome);
            }
        }
    }
    Ok(MISSED)
}

/// Whether these tests notice. What takes too long counts only where the same without the mutant does not: the machine may be busy.
fn outcome_of(bench: &Bench, part: &Part, program: &Program, tests: &[&Test], id: usize) -> Result<char, String> {
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let takes: Duration = tests.iter().map(|test| test.takes).sum();
    let mut variables = vec![(ON, id.to_string())];
    if !tests.iter().any(|test| test.panics) {
        variables.push((ENDS, "1".to_owned()));
    }
    let mut time = TIME_MIN.max(takes * TIMES_MAX);
    for _ in 0..TRIES {
        let outcome = run(bench, part, program, &names, time, &variables)?;
        if outcome != TIMEOUT || run(bench, part, program, &names, time / 2, &[])? == MISSED {
            return Ok(outcome);
        }
        time *= 2;
    }
    Err(format!("{} does not end in time without a mutant either: {}", program.executable.display(), names.join(" ")))
}

/// Of the environment of a run.
type Variable = (&'static str, String);

/// Runs tests of a program until they end, or for so long.
fn run(bench: &Bench, part: &Part, program: &Program, tests: &[&str], time: Duration, variables: &[Variable]) -> Result<char, String> {
    let shown = || program.executable.display().to_string();
    let folder = bench.tree.join("crates").join(part.package);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB_MAX}; exec \"$0\" \"$@\"")]).arg(&program.executable).arg("--exact").args(tests);
    bench.settings(&mut command).current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
    command.envs(variables.iter().map(|(name, value)| (name, value))).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", shown()))?;
    let end = Instant::now() + time;
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
