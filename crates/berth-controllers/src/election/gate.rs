//! The gate between a leader's controllers and their writes.

use super::Elapsed;
use crate::{ClusterError, lock};
use berth_api::fencing::FencingToken;
use event_listener::Event;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// The machine's time, including suspension.
pub type RunningTime = Arc<dyn Fn() -> Elapsed + Send + Sync>;

/// Open while this process leads. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    running: RunningTime,
    state: Arc<GateState>,
}

#[derive(Default)]
struct GateState {
    /// `None` while the gate is shut.
    lead: Mutex<Option<Lead>>,
    /// How many writes are in progress.
    inside: AtomicUsize,
    /// Notified when a write ends.
    left: Event,
}

/// The present term and its end.
#[derive(Clone, Debug)]
pub(super) struct Lead {
    pub(super) until: Elapsed,
    pub(super) fencing_token: Arc<FencingToken>,
}

/// A write in progress. It ends when this is dropped.
pub struct Pass {
    state: Arc<GateState>,
    fencing_token: Arc<FencingToken>,
}

impl Gate {
    /// A shut gate.
    pub(super) fn new(running: RunningTime) -> Self {
        Self { running, state: Arc::default() }
    }

    /// The present time.
    pub(super) fn now(&self) -> Elapsed {
        (self.running)()
    }

    /// Admits a write.
    ///
    /// # Errors
    /// [`ClusterError::Busy`]: this process no longer leads. This holds even if the process has not noticed it since the machine was
    /// suspended.
    pub fn enter(&self) -> Result<Pass, ClusterError> {
        let lead = lock(&self.state.lead);
        let lead = lead.as_ref().filter(|lead| self.now() < lead.until);
        let lead = lead.ok_or_else(|| ClusterError::Busy { message: "another one may be the leader now".to_owned(), retry_after: None })?;
        self.state.inside.fetch_add(1, Ordering::SeqCst);
        Ok(Pass { state: Arc::clone(&self.state), fencing_token: Arc::clone(&lead.fencing_token) })
    }

    /// Whether a write could begin now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        lock(&self.state.lead).as_ref().is_some_and(|lead| self.now() < lead.until)
    }

    /// Opens the gate for a term. `None` shuts it.
    pub(super) fn set(&self, lead: Option<Lead>) {
        *lock(&self.state.lead) = lead;
    }

    /// Resolves when no write is in progress.
    pub(super) async fn at_rest(&self) {
        loop {
            let left = self.state.left.listen();
            if self.state.inside.load(Ordering::SeqCst) == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Pass {
    /// The term in which the write may happen.
    #[must_use]
    pub fn fencing_token(&self) -> &Arc<FencingToken> {
        &self.fencing_token
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.state.inside.fetch_sub(1, Ordering::SeqCst);
        self.state.left.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::{sync::atomic::AtomicU64, time::Duration};

    #[test]
    fn no_write_begins_once_the_lease_has_expired_and_writes_in_progress_are_waited_for() {
        let time = Arc::new(AtomicU64::new(5));
        let own = Arc::clone(&time);
        let gate = Gate::new(Arc::new(move || Duration::from_secs(own.load(Ordering::Relaxed))));
        let lead = |seconds, fencing_token: &str| {
            Some(Lead { until: Duration::from_secs(seconds), fencing_token: Arc::new(fencing_token.parse().expect("a fencing token")) })
        };
        assert!(gate.enter().is_err() && !gate.is_open(), "it begins shut");
        gate.set(lead(10, "a/b;c;1"));
        assert!(gate.is_open());
        let inside = gate.enter().expect("it is open");
        assert_eq!(inside.fencing_token().to_string(), "a/b;c;1");
        assert!(gate.at_rest().now_or_never().is_none());
        // The machine was suspended, and nothing has shut the gate.
        time.store(10, Ordering::Relaxed);
        assert!(gate.enter().is_err() && !gate.is_open());
        drop(inside);
        assert!(gate.at_rest().now_or_never().is_some());
        gate.set(lead(20, "a/b;c;2"));
        assert_eq!(gate.enter().expect("it is open").fencing_token().transitions, 2);
        gate.set(None);
        assert!(gate.enter().is_err() && gate.at_rest().now_or_never().is_some());
    }
}
