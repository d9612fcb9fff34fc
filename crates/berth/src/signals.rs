//! SIGINT and SIGTERM: the first asks for an orderly end, the second for one at once.

use std::{io, process::ExitCode};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// What has come since the process takes its signals itself. Any number of waiters, any number of times.
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
}

impl Signal {
    /// How a shell tells of somebody whom it ended: 128 and its number.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Interrupt => ExitCode::from(130),
            Self::Terminate => ExitCode::from(143),
        }
    }
}

impl Signals {
    /// Takes both signals from now on: they no longer end the process by themselves. Called within a runtime.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn take() -> io::Result<Self> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (sender, received) = watch::channel(Received::default());
        tokio::spawn(async move {
            loop {
                let last = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                };
                sender.send_modify(|received| *received = Received { count: received.count + 1, last: Some(last) });
            }
        });
        Ok(Self { received })
    }

    /// How many have come.
    pub(crate) fn count(&self) -> usize {
        self.received.borrow().count
    }

    /// The one that came last, as soon as more than `count` have come: at once, if they have.
    pub(crate) async fn beyond(&self, count: usize) -> Signal {
        let mut received = self.received.clone();
        let beyond = received.wait_for(|received| received.count > count).await.map(|received| received.last);
        match beyond {
            Ok(Some(last)) => last,
            // The task that sends ends with the runtime alone.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
