//! SIGINT, SIGTERM and SIGHUP: the first signal requests an orderly shutdown, the second an immediate one.

use std::{fs, io, process::ExitCode};
use tokio::{
    signal::unix::{self, SignalKind, signal},
    sync::watch,
};

/// The signals since the process handles them itself. Any number of tasks can wait, any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    received: watch::Receiver<Received>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Received {
    count: usize,
    last: Option<Signal>,
}

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is closed.
    HangUp,
}

impl Signal {
    /// The exit code that a shell reports for a signal: 128 and its number.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Interrupt => ExitCode::from(130),
            Self::Terminate => ExitCode::from(143),
            Self::HangUp => ExitCode::from(129),
        }
    }
}

impl Signals {
    /// Handles these signals from now on, so that they no longer end the process by themselves. SIGHUP remains ignored where it was, for
    /// example under `nohup`. Call it within a runtime.
    ///
    /// # Errors
    /// The operating system rejects the handlers.
    pub(crate) fn take() -> io::Result<Self> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut hang_up = if is_hang_up_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        let (sender, received) = watch::channel(Received::default());
        tokio::spawn(async move {
            loop {
                let last = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                    Some(()) = recv(&mut hang_up) => Signal::HangUp,
                };
                sender.send_modify(|received| *received = Received { count: received.count + 1, last: Some(last) });
            }
        });
        Ok(Self { received })
    }

    /// The number of received signals.
    pub(crate) fn count(&self) -> usize {
        self.received.borrow().count
    }

    /// Waits until more than `count` signals have arrived, and returns the last one.
    pub(crate) async fn beyond(&self, count: usize) -> Signal {
        let mut received = self.received.clone();
        let beyond = received.wait_for(|received| received.count > count).await.map(|received| received.last);
        match beyond {
            Ok(Some(last)) => last,
            // The sending task ends only with the runtime.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

async fn recv(signal: &mut Option<unix::Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether the process was started with SIGHUP ignored.
fn is_hang_up_ignored() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hang_up(&status))
}

/// The line `SigIgn:` has a bit for each signal, in hexadecimal digits. SIGHUP is the first bit.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_under_nohup_goes_on() {
        assert!(ignores_hang_up("Name:\tberth\nSigIgn:\t0000000000001001\n"));
        for status in ["Name:\tberth\nSigIgn:\t0000000000001000\n", "Name:\tberth\n", "SigIgn:\tx\n"] {
            assert!(!ignores_hang_up(status), "{status}");
        }
    }
}
