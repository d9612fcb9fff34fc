//! The programs of tests: one after the other, since they may use the whole machine and watch the clock; and beside them, with the processor's time that
//! those leave, the ones that watch none.
//!
//! Most of the first kind wait for something most of their time, those of the second hardly ever.

use crate::run::{Built, Outcome, say};
use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Several times what the longest program of tests takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Crates in whose tests no time passes but a virtual one.
const BEHIND: &[&str] = &["berth-plan", "berth-registry", "berth-sim", "berth-workloads"];

/// What came of programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    programs: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Those that failed, as one would run them again.
    again: Vec<String>,
}

/// Runs every program, whatever comes of the others; `skipped` is where tests say that they were. What each prints is shown when it has ended.
pub(crate) fn run(programs: Vec<Built>, skipped: &Path) -> Outcome {
    let mut programs: Vec<Built> = programs.into_iter().filter(|built| built.is_test).collect();
    programs.sort_by(|one, other| (&one.manifest, &one.target).cmp(&(&other.manifest, &other.target)));
    let (behind, before): (Vec<_>, Vec<_>) = programs.iter().partition(|built| BEHIND.contains(&crate_of(built)));
    let sum = Mutex::new(Sum::default());
    let lane = |programs: &[&Built], nice: &str| {
        for built in programs {
            let mut program = Command::new("nice");
            program.args(["-n", nice]).arg(&built.executable).env(berth_testing::SKIPPED, skipped);
            program.current_dir(built.manifest.parent().unwrap_or(Path::new(".")));
            let (begun, ran) = (Instant::now(), end_of(&mut program, LIMIT));
            // One at a time: what two print must not be mixed.
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            say(&format!("\n     Ran {}: {} in {:.1} s", crate_of(built), built.target, begun.elapsed().as_secs_f64()));
            sum.add(built, ran);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lane(&behind, "19"));
        lane(&before, "0");
    });
    let Sum { programs, passed, failed, ignored, again } = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    say(&format!("{programs} programs of tests: {passed} passed, {failed} failed, {ignored} ignored"));
    if again.is_empty() { Ok(()) } else { Err(format!("tests failed; again:\n  {}", again.join("\n  "))) }
}

/// The name of the crate's folder.
fn crate_of(built: &Built) -> &str {
    let folder = built.manifest.parent().and_then(Path::file_name);
    folder.and_then(|name| name.to_str()).unwrap_or_default()
}

impl Sum {
    fn add(&mut self, built: &Built, ran: io::Result<(ExitStatus, String)>) {
        self.programs += 1;
        let is_good = match &ran {
            Ok((status, printed)) => {
                say(printed.trim_end());
                self.count(printed);
                status.success()
            }
            Err(error) => {
                say(&format!("{}: {error}", built.executable.display()));
                false
            }
        };
        if !is_good {
            self.again.push(format!("cargo test --package {} {}", crate_of(built), built.selection));
        }
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; …`, of each program once.
    fn count(&mut self, printed: &str) {
        let result = printed.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        let numbers = result.into_iter().flat_map(|result| result.split([';', '.'])).filter_map(|part| part.trim().split_once(' '));
        for (number, what) in numbers {
            let Ok(number) = number.parse::<usize>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => (),
            }
        }
    }
}

/// Runs a program to its end; gives how it ended and what it printed. One that takes too long is ended with all that it has started, where the system has a
/// `/proc`, and so fails.
fn end_of(program: &mut Command, limit: Duration) -> io::Result<(ExitStatus, String)> {
    // What it has started may outlive it and hold its output open: nobody waits for that.
    let mut printed = tempfile::tempfile()?;
    let child = program.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(printed.try_clone()?).spawn()?;
    let (status, is_killed) = wait(child, limit)?;
    let mut text = read(&mut printed)?;
    if is_killed {
        text.push_str(&format!("\nit had not ended within {limit:?} and was killed: the tests without a result above did not end\n"));
    }
    Ok((status, text))
}

/// How it ended, and whether that was by force.
fn wait(mut child: Child, limit: Duration) -> io::Result<(ExitStatus, bool)> {
    let (id, (sender, ended)) = (child.id(), mpsc::channel());
    thread::spawn(move || sender.send(child.wait()));
    if let Ok(status) = ended.recv_timeout(limit) {
        return Ok((status?, false));
    }
    let all = [vec![id], descendants(id)].concat();
    // One that has ended meanwhile is no loss.
    let _ = Command::new("kill").args(["-s", "KILL"]).args(all.iter().map(u32::to_string)).status();
    Ok((ended.recv().map_err(io::Error::other)??, true))
}

fn read(printed: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    printed.rewind()?;
    printed.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn descendants(process: u32) -> Vec<u32> {
    children(process).into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let told = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    told.flat_map(|told| told.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str, folder: &Path) -> Built {
        let executable = folder.join(format!("{}.sh", script.len()));
        fs::write(&executable, format!("#!/bin/sh\n{script}\n")).expect("a program");
        let status = Command::new("chmod").arg("+x").arg(&executable).status().expect("chmod");
        assert!(status.success());
        let manifest = folder.join("berth-sim").join("Cargo.toml");
        Built { manifest, target: "storms".to_owned(), is_test: true, selection: "--test storms".to_owned(), executable, built_nanos: 0 }
    }

    #[test]
    fn results_are_added_up_and_what_failed_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sum = Sum::default();
        for script in [
            "echo 'test result: nonsense'; echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s'",
            "echo; echo 'test result: FAILED. 20 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s' >&2; exit 101",
            "echo nothing is said of tests",
        ] {
            let built = program(script, folder.path());
            let ran = end_of(&mut Command::new(&built.executable), LIMIT);
            sum.add(&built, ran);
        }
        let again = vec!["cargo test --package berth-sim --test storms".to_owned()];
        assert_eq!(sum, Sum { programs: 3, passed: 23, failed: 2, ignored: 1, again });
        let gone = Built { executable: folder.path().join("gone"), selection: "--bin xtask".to_owned(), ..program("", folder.path()) };
        sum.add(&gone, end_of(&mut Command::new(&gone.executable), LIMIT));
        assert_eq!((sum.programs, sum.again.last().map(String::as_str)), (4, Some("cargo test --package berth-sim --bin xtask")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_hangs_is_ended_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let started = folder.path().join("started");
        // It has a child that it waits for, and that hangs.
        let script = "sleep 1000 & echo $! > $0; echo begun; wait";
        let (status, printed) = end_of(Command::new("sh").args(["-c", script]).arg(&started), Duration::from_secs(2)).expect("it ran");
        let told = "begun\n\nit had not ended within 2s and was killed: the tests without a result above did not end\n";
        assert_eq!((status.code(), printed.as_str()), (None, told));
        let grandchild: u32 = fs::read_to_string(started).expect("it was started").trim().parse().expect("a process");
        // It was told to end before this; the system takes its time.
        let told = Instant::now();
        while has_not_ended(grandchild) {
            assert!(told.elapsed() < Duration::from_secs(10), "{grandchild} still runs");
            thread::yield_now();
        }
    }

    #[cfg(target_os = "linux")]
    fn has_not_ended(process: u32) -> bool {
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        !(state.is_empty() || state.contains(") Z "))
    }
}
