//! The health of etcd, as far as it is known without a request: the result of the last attempt to reach it, and its latest status.

use super::{
    api::{Alarm, Etcd, Status},
    newest::Newest,
};
use crate::{Health, OutOfSpace, Usage, env::Clock};
use jiff::SignedDuration;
use std::sync::{Arc, Mutex, MutexGuard};

/// The interval of status requests, so that changes in etcd are known here even without reads or writes.
const ASK: SignedDuration = SignedDuration::from_secs(5);
/// The same while something is wrong.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(1);

#[derive(Default)]
pub(super) struct Condition(Mutex<ConditionState>);

#[derive(Default)]
struct ConditionState {
    /// Why it was not reached.
    failure: Option<String>,
    status: Status,
    /// How many commits it has refused for want of space.
    refused: u64,
}

impl Condition {
    /// Records the result of the last attempt to reach etcd.
    pub(super) fn record(&self, failure: Option<&str>) {
        self.lock().failure = failure.map(str::to_owned);
    }

    /// It has refused a commit for want of space.
    pub(super) fn is_full(&self) {
        let mut state = self.lock();
        state.failure = None;
        state.refused += 1;
        if !state.status.alarms.contains(&Alarm::NoSpace) {
            state.status.alarms.push(Alarm::NoSpace);
        }
    }

    pub(super) fn health(&self) -> Health {
        let state = self.lock();
        let differ = || {
            let cause = "etcd's members differ in what they hold, and it takes no writes (alarm CORRUPT)";
            state.status.alarms.contains(&Alarm::Corrupt).then(|| cause.to_owned())
        };
        state.failure.clone().or_else(differ).map_or(Health::Ready, |cause| Health::Refusing { cause })
    }

    pub(super) fn usage(&self) -> Usage {
        let state = self.lock();
        let lacks = state.status.alarms.contains(&Alarm::NoSpace).then_some(OutOfSpace::Etcd);
        Usage { bytes: state.status.database_bytes, lacks, refused: state.refused, ..Usage::default() }
    }

    /// Asks how it is; never ends.
    pub(super) async fn keep_asking(self: Arc<Self>, etcd: Arc<dyn Etcd>, newest: Arc<Newest>, clock: Arc<dyn Clock>) {
        let mut pause = ASK_AGAIN;
        loop {
            clock.sleep_until(clock.now() + pause).await;
            // The status of this member only: it answers without its leader, and the request writes nothing.
            let status = etcd.status().await;
            // That it can be read, and written, wants more of its members.
            let reached = newest.ask().await.err().or_else(|| status.as_ref().err().cloned());
            self.record(reached.map(|error| error.to_string()).as_deref());
            if let Ok(status) = status {
                self.lock().status = status;
            }
            pause = if self.is_well() { ASK } else { ASK_AGAIN };
        }
    }

    fn is_well(&self) -> bool {
        let state = self.lock();
        state.failure.is_none() && state.status.alarms.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, ConditionState> {
        self.0.lock().expect("nothing panics under this lock")
    }
}
