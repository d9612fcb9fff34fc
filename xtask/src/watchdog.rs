//! Tests that hang, ended and told.

use crate::run::{Outcome, root, say};
use std::{
    collections::HashMap,
    fs,
    process::Command,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Several times what the longest program of tests takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Runs cargo's tests in the root until they end. A program of them that takes too long is ended with all that it has started, and so fails; those after it run.
/// Where the system has no `/proc`, nothing is ended.
pub(crate) fn tests(command: &mut Command) -> Outcome {
    guard(command, LIMIT, Duration::from_secs(1))
}

fn guard(command: &mut Command, limit: Duration, between: Duration) -> Outcome {
    let shown = format!("{command:?}").replace('"', "");
    say(&format!("$ {shown}"));
    let told = |error| format!("{shown}: {error}");
    let mut cargo = command.current_dir(root()).spawn().map_err(told)?;
    let (id, mut since) = (cargo.id(), HashMap::new());
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(cargo.wait()));
    let status = loop {
        match ended.recv_timeout(between) {
            Ok(status) => break status.map_err(told)?,
            Err(_) => look(id, &mut since, limit),
        }
    };
    if status.success() { Ok(()) } else { Err(format!("{shown} ended with {status}")) }
}

/// Ends what runs below cargo for longer than the limit.
fn look(cargo: u32, since: &mut HashMap<u32, Instant>, limit: Duration) {
    let running = children(cargo);
    since.retain(|program, _| running.contains(program));
    for program in running {
        if since.entry(program).or_insert_with(Instant::now).elapsed() < limit {
            continue;
        }
        let name = fs::read_link(format!("/proc/{program}/exe")).unwrap_or_default();
        say(&format!("{} has not ended within {limit:?}: it is killed; the tests without a result above did not end", name.display()));
        // What a test has started holds its output open, and would outlive it.
        let all = [vec![program], descendants(program)].concat();
        // One that has ended meanwhile is no loss.
        let _ = Command::new("kill").args(["-s", "KILL"]).args(all.iter().map(u32::to_string)).status();
    }
}

fn descendants(process: u32) -> Vec<u32> {
    children(process).into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let told = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    told.flat_map(|told| told.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_ended_with_all_that_it_has_started_and_the_rest_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (started, after) = (folder.path().join("started"), folder.path().join("after"));
        // As cargo: one program after the other, and failed in the end. The first has a child that it waits for, and that hangs.
        let hangs = "sleep 1000 & echo $! > $0; wait";
        let script = format!("sh -c '{hangs}' {}; first=$?; echo $first > {}; exit 101", started.display(), after.display());
        let outcome = guard(Command::new("sh").args(["-c", &script]), Duration::from_secs(2), Duration::from_millis(20));
        assert!(outcome.expect_err("it failed").ends_with("exit status: 101"));
        assert_eq!(fs::read_to_string(after).expect("what came after was run").trim(), "137");
        let grandchild: u32 = fs::read_to_string(started).expect("it was started").trim().parse().expect("a process");
        // It was told to end before this; the system takes its time.
        let told = Instant::now();
        while has_not_ended(grandchild) {
            assert!(told.elapsed() < Duration::from_secs(10), "{grandchild} still runs");
            thread::yield_now();
        }
    }

    fn has_not_ended(process: u32) -> bool {
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        !(state.is_empty() || state.contains(") Z "))
    }
}
