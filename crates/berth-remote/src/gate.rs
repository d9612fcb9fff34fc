//! What stands between a part that leads and its writes.

use crate::election::Elapsed;
use event_listener::Event;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Counts the machine's time, while it is suspended too.
pub type RunningTime = Arc<dyn Fn() -> Elapsed + Send + Sync>;

/// Open while somebody leads. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    running: RunningTime,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Until when it is open, in nanoseconds of the running time; 0: shut.
    until: AtomicU64,
    /// How many writes are under way.
    inside: AtomicUsize,
    /// One of them ended.
    left: Event,
}

/// A write that is under way.
pub(crate) struct Pass(Arc<State>);

impl Gate {
    /// One that is shut.
    pub(crate) fn new(running: RunningTime) -> Self {
        Self { running, state: Arc::default() }
    }

    /// The time by which it goes.
    pub(crate) fn now(&self) -> Elapsed {
        (self.running)()
    }

    /// Lets a write begin. `None`: who asks leads no longer, also where nobody has noticed since the machine was suspended.
    pub(crate) fn enter(&self) -> Option<Pass> {
        // First: who shuts the gate sees this write, or this sees the gate shut.
        self.state.inside.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(Arc::clone(&self.state));
        (nanoseconds(self.now()) < self.state.until.load(Ordering::SeqCst)).then_some(pass)
    }

    /// Opens it until then; `None` shuts it.
    pub(crate) fn set(&self, until: Option<Elapsed>) {
        self.state.until.store(until.map_or(0, nanoseconds), Ordering::SeqCst);
    }

    /// Resolves when no write is under way.
    pub(crate) async fn at_rest(&self) {
        loop {
            let left = self.state.left.listen();
            if self.state.inside.load(Ordering::SeqCst) == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify(usize::MAX);
    }
}

fn nanoseconds(elapsed: Elapsed) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::time::Duration;

    #[test]
    fn nobody_enters_once_its_time_is_over_and_whoever_is_inside_is_waited_for() {
        let time = Arc::new(AtomicU64::new(5));
        let own = Arc::clone(&time);
        let gate = Gate::new(Arc::new(move || Duration::from_secs(own.load(Ordering::Relaxed))));
        assert!(gate.enter().is_none(), "it begins shut");
        gate.set(Some(Duration::from_secs(10)));
        let inside = gate.enter().expect("it is open");
        assert!(gate.at_rest().now_or_never().is_none());
        // The machine slept, and nobody has shut it.
        time.store(10, Ordering::Relaxed);
        assert!(gate.enter().is_none());
        drop(inside);
        assert!(gate.at_rest().now_or_never().is_some());
        gate.set(Some(Duration::from_secs(20)));
        assert!(gate.enter().is_some());
        gate.set(None);
        assert!(gate.enter().is_none() && gate.at_rest().now_or_never().is_some());
    }
}
