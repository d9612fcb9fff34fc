//! `berth up` on a folder, as a user starts it.

use super::Users;
use crate::{access, client::Endpoint, torture::session::PATIENCE};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// A server that did not start, and its output.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// `None`: not as a process ends that has reported why.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: String,
}

pub(crate) struct Process {
    binary: PathBuf,
    folder: PathBuf,
    /// Not in the folder, which must contain only the server's own files.
    log: PathBuf,
    child: Option<Child>,
    users: Option<Users>,
    /// How long the last start took.
    started_within: Duration,
}

impl Process {
    /// On a folder; what it logs goes to a file.
    pub(crate) fn on(binary: &Path, folder: PathBuf, log: PathBuf) -> Self {
        Self { binary: binary.to_owned(), folder, log, child: None, users: None, started_within: Duration::from_millis(200) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts it; gives how it is reached, by the administrator and by users.
    pub(crate) fn start(&mut self) -> Result<Vec<Endpoint>, Refusal> {
        let administrator = self.start_alone()?;
        if self.users.is_none() {
            self.users = Some(Users::issue(&self.folder.join("pki")).map_err(failed)?);
        }
        let users: Vec<Endpoint> = self.users.iter().flat_map(|users| users.endpoints(&administrator.address)).collect();
        Ok([vec![administrator], users].concat())
    }

    /// Starts it; gives how the administrator reaches it.
    pub(crate) fn start_alone(&mut self) -> Result<Endpoint, Refusal> {
        let begun = Instant::now();
        let mut child = self.spawn(Stdio::piped()).map_err(failed)?;
        let printed = child.stdout.take().expect("it is piped");
        let (ready, is_ready) = mpsc::channel();
        // Reads on to the end, or the server would block on a full pipe.
        thread::spawn(move || {
            let lines = BufReader::new(printed).lines().map_while(Result::ok);
            for _ in lines.filter(|line| line.starts_with("API server ready at ")) {
                let _ = ready.send(());
            }
        });
        if let Err(error) = is_ready.recv_timeout(PATIENCE) {
            let is_over = error == RecvTimeoutError::Disconnected;
            let status = if is_over { child.wait().ok() } else { child.kill().and_then(|()| child.wait()).ok() };
            return Err(Refusal { status, output: fs::read_to_string(&self.log).unwrap_or_default() });
        }
        self.started_within = begun.elapsed();
        self.child = Some(child);
        let kubeconfig = fs::read_to_string(self.folder.join("kubeconfig")).map_err(failed)?;
        access::try_endpoint(&kubeconfig).map_err(failed)
    }

    /// Starts, and kills it after a part of the time that a start takes: `share` of a hundred.
    pub(crate) fn kill_in_start(&mut self, share: u64) -> io::Result<()> {
        self.child = Some(self.spawn(Stdio::null())?);
        // Any moment of the start is as good as another, and this is how one is chosen.
        thread::sleep(self.started_within * share as u32 / 100);
        self.kill();
        Ok(())
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn spawn(&self, printed: Stdio) -> io::Result<Child> {
        let mut command = Command::new(&self.binary);
        command.args(["up", "--secure-port", "0", "--nodes", "1", "--data-dir"]).arg(&self.folder);
        command.stdin(Stdio::null()).stdout(printed).stderr(File::create(&self.log)?).spawn()
    }
}

impl Refusal {
    /// Whether it ended as a program does that has reported why.
    pub(crate) fn has_cause(&self) -> bool {
        self.status.is_some_and(|status| status.code() == Some(1)) && !self.output.trim().is_empty()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn failed(error: impl ToString) -> Refusal {
    Refusal { status: None, output: error.to_string() }
}
