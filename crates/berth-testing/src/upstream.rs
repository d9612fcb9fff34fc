//! A real Kubernetes.

use crate::skipped::{Tool, skip};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

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

impl Upstream {
    /// Starts one, with these options of its script. `None` where there is none to be had: the test says that it is skipped.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(options: &[&str]) -> Option<Self> {
        let scripts = upstream_folder();
        if !scripts.join("start").exists() {
            skip(Tool::Upstream, &format!("BERTH_UPSTREAM names no folder with one, and {} is none", scripts.display()));
            return None;
        }
        let upstream = Self { scripts, folder: tempfile::tempdir().expect("a temporary folder") };
        upstream.run("start", options);
        Some(upstream)
    }

    /// An administrator's.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// What it says of itself: `ETCD_ENDPOINT`, `UPSTREAM_BIN`, …
    ///
    /// # Panics
    /// It says no such thing.
    #[must_use]
    pub fn said(&self, name: &str) -> String {
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
        // One that has ended, and that nobody has asked about, runs no more either.
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

    fn run(&self, script: &str, options: &[&str]) {
        let mut command = Command::new(self.scripts.join(script));
        // What it starts keeps its output open.
        let status = command.arg(self.folder.path()).args(options).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "{script}");
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.run("stop", &[]);
    }
}
