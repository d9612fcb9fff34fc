//! How far the server has served the changes of definitions. Requests for unknown kinds wait for it.

use berth_store::{
    Revision,
    env::{Clock, Timestamp},
};
use futures::{
    channel::oneshot,
    future::{Either, select},
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long a request waits. Serving a change takes milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The revision of the served definitions.
#[derive(Default)]
pub(crate) struct DefinitionProgress(Mutex<ServedDefinitions>);

#[derive(Default)]
struct ServedDefinitions {
    /// `None`: this process does not follow definitions.
    seen: Option<Revision>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl DefinitionProgress {
    fn state(&self) -> MutexGuard<'_, ServedDefinitions> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process follows definitions.
    pub(crate) fn is_followed(&self) -> bool {
        self.state().seen.is_some()
    }

    /// Notes that all changes up to a revision are served.
    pub(crate) fn reach(&self, revision: Revision) {
        let mut state = self.state();
        state.seen = state.seen.max(Some(revision));
        // Dropping the senders wakes the requests.
        state.waiting.clear();
    }

    /// Waits until the changes up to a revision are served, for a second at most.
    pub(crate) async fn wait_for(&self, revision: Revision, clock: &dyn Clock) {
        let until: Timestamp = clock.now().saturating_add(WAIT_MAX).expect("a positive duration can be added");
        loop {
            let changed = {
                let mut state = self.state();
                if state.seen.is_none_or(|seen| revision <= seen) {
                    return;
                }
                let (wake, changed) = oneshot::channel();
                state.waiting.push(wake);
                changed
            };
            if let Either::Right(_) = select(changed, clock.sleep_until(until)).await {
                return;
            }
        }
    }
}
