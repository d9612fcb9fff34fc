//! A real Kubernetes.

use crate::skipped::{Tool, skip};
use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};
use tempfile::TempDir;

/// How often it is started on other ports.
const PORTS_TRIED: usize = 5;

/// The folder of a real Kubernetes: the one that `BERTH_UPSTREAM` names, else `../shared/upstream`. It need not be there.
#[must_use]
pub fn upstream_folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/upstream");
    env::var_os("BERTH_UPSTREAM").map_or_else(beside, PathBuf::from)
}

/// A Kubernetes in processes of its own. Ends with this.
pub struct Upstream {
    scripts: PathBuf,
    folder: TempDir,
}

/// What its parts logged last.
#[derive(Debug, PartialEq, Eq)]
struct NotStarted(String);

impl Upstream {
    /// Starts one, with these options of its script, and with those of the form `NAME=value` in its environment. `None` where none is available: the
    /// test then notes that it is skipped.
    ///
    /// # Panics
    /// It does not start; with what its parts logged last.
    #[must_use]
    pub fn start(options: &[&str]) -> Option<Self> {
        let scripts = upstream_folder();
        if !scripts.join("start").exists() {
            skip(Tool::Upstream, &format!("BERTH_UPSTREAM names no folder with one, and {} is none", scripts.display()));
            return None;
        }
        Some(Self::start_by(&scripts, options).unwrap_or_else(|NotStarted(output)| panic!("{output}")))
    }

    /// Its script searches free ports a second before they are used: another test may connect from one of them in between. Then it is started again, on
    /// others.
    fn start_by(scripts: &Path, options: &[&str]) -> Result<Self, NotStarted> {
        for _ in 1..PORTS_TRIED {
            match Self::start_once(scripts, options) {
                Err(NotStarted(output)) if output.contains("address already in use") => {}
                started => return started,
            }
        }
        Self::start_once(scripts, options)
    }

    fn start_once(scripts: &Path, options: &[&str]) -> Result<Self, NotStarted> {
        let upstream = Self { scripts: scripts.to_owned(), folder: tempfile::tempdir().expect("a temporary folder") };
        match upstream.run("start", options) {
            true => Ok(upstream),
            false => Err(NotStarted(upstream.last_words())),
        }
    }

    /// An administrator's.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// A value that it prints: `ETCD_ENDPOINT`, `UPSTREAM_BIN`, …
    ///
    /// # Panics
    /// It prints no such value.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        let said = fs::read_to_string(self.folder.path().join("env")).expect("it has started");
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
        line.unwrap_or_else(|| panic!("it says no {name}")).to_owned()
    }

    /// Stops its API server alone; gives the command line with which it ran.
    ///
    /// # Panics
    /// It does not end.
    #[must_use]
    pub fn stop_apiserver(&self) -> Vec<String> {
        let file = self.folder.path().join("apiserver.pid");
        let pid = fs::read_to_string(&file).expect("it runs").trim().to_owned();
        let line = fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        // A zombie process, which no process has waited for, does not run any more either.
        let wait = "kill $0 && for _ in $(seq 600); do case \"$(cat /proc/$0/stat 2>&1)\" in *') Z '*|*'No such'*) exit 0;; esac; sleep 0.1; done; exit 1";
        let ended = Command::new("sh").args(["-c", wait, &pid]).status();
        assert!(ended.is_ok_and(|status| status.success()), "it does not end");
        fs::remove_file(file).expect("it is there");
        words
    }

    /// Starts it again with this command line. It may take a while until it answers.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start_apiserver(&self, words: &[String]) {
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$0\" \"$@\" > again.log 2>&1 & echo $!"]).args(words).current_dir(self.folder.path());
        let pid = shell.output().expect("there is a shell").stdout;
        fs::write(self.folder.path().join("apiserver.pid"), pid).expect("the folder is ours");
    }

    /// Whether a script of its ended well.
    fn run(&self, script: &str, options: &[&str]) -> bool {
        let mut command = Command::new(self.scripts.join(script));
        // What it starts keeps its output open.
        let output = File::options().create(true).append(true).open(self.folder.path().join("script.log")).expect("the folder is ours");
        let (variables, options): (Vec<&str>, Vec<&str>) =
            options.iter().partition(|option| !option.starts_with('-') && option.contains('='));
        command.envs(variables.into_iter().filter_map(|variable| variable.split_once('=')));
        let status = command.arg(self.folder.path()).args(options).stdout(Stdio::null()).stderr(output).status();
        status.is_ok_and(|status| status.success())
    }

    /// The end of each log.
    fn last_words(&self) -> String {
        let files = fs::read_dir(self.folder.path()).expect("the folder is ours").map(|entry| entry.expect("the folder is ours").path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        let ends = logs.map(|path| {
            let lines = fs::read(&path).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default();
            let end: Vec<_> = lines.lines().rev().take(10).collect();
            format!("{}:\n{}", path.display(), end.into_iter().rev().collect::<Vec<_>>().join("\n"))
        });
        format!("it does not start\n{}", ends.collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        assert!(self.run("stop", &[]) || thread::panicking(), "it does not stop");
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Starts by a script that counts its runs and continues like this. Returns its output and how often it ran.
    fn started(script: &str) -> (Result<(), NotStarted>, usize) {
        let scripts = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = scripts.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        file("start", &format!("#!/bin/sh\nruns=$(dirname $0)/runs; echo >> $runs; runs=$(wc -l < $runs); cd $1\n{script}\n"));
        file("stop", "#!/bin/sh\n");
        let started = Upstream::start_by(scripts.path(), &[]).map(drop);
        (started, fs::read_to_string(scripts.path().join("runs")).unwrap().lines().count())
    }

    #[test]
    fn ports_that_were_taken_in_between_are_left_for_others_and_nothing_else_is_tried_again() {
        let taken = "echo 'listen tcp 127.0.0.1:1: bind: address already in use' > apiserver.log";
        let (twice_taken, runs) = started(&format!("[ $runs -gt 2 ] || {{ {taken}; exit 1; }}"));
        assert_eq!((twice_taken, runs), (Ok(()), 3));
        let (always_taken, runs) = started(&format!("{taken}; exit 1"));
        assert!(always_taken.is_err_and(|NotStarted(output)| output.contains("address already in use")) && runs == PORTS_TRIED);
        let (other, runs) = started("echo broken > etcd.log; echo 'tail of it' >&2; exit 1");
        let NotStarted(other) = other.unwrap_err();
        assert!(other.contains("etcd.log:\nbroken") && other.contains("script.log:\ntail of it") && runs == 1, "{other}");
    }
}
