//! A part of a control plane as a separate process.

use super::{Lines, end_of};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

/// A process, which ends on drop.
pub(crate) struct Part {
    pub(crate) child: Child,
    output: Lines,
}

impl Part {
    pub(crate) fn start(arguments: &[&str], kubeconfig: Option<&Path>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        let is_part = arguments.first().is_some_and(|name| ["controller-manager", "scheduler", "node"].contains(name));
        // Several parts on one machine would conflict over the default port.
        let nowhere = is_part && !arguments.contains(&"--secure-port");
        command.args(arguments).args(if nowhere { &["--secure-port", "0"][..] } else { &[] }).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(path) = kubeconfig {
            command.arg("--kubeconfig").arg(path);
        }
        let mut child = command.spawn().unwrap();
        let output = Lines::of(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Waits until it prints a line with `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        self.output.by_ref().find(|line| line.contains(text)).unwrap_or_else(|| panic!("it ended without printing {text:?}"))
    }

    /// Sends SIGTERM, and waits until the process has ended.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        end_of(&mut self.child)
    }

    /// Kills it, as a failure of its machine would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
