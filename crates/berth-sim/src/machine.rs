//! A machine whose clock tests can set, while its running time is the virtual one.

use crate::lock;
use berth_env::{Clock, Timestamp, steady_time::Machine, virtual_time::VirtualTime};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// The machine that the parts of a simulation run on. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SimMachine {
    time: VirtualTime,
    began: Timestamp,
    set_by: Arc<Mutex<SignedDuration>>,
}

impl SimMachine {
    pub(crate) fn new(time: VirtualTime) -> Self {
        Self { began: time.now(), time, set_by: Arc::default() }
    }

    /// Sets its clock forward, or back.
    pub(crate) fn set_clock(&self, by: SignedDuration) {
        *lock(&self.set_by) += by;
    }
}

impl Machine for SimMachine {
    fn running(&self) -> Duration {
        Duration::try_from(self.time.now().duration_since(self.began)).expect("time does not go back")
    }

    fn wall_clock(&self) -> Timestamp {
        self.time.now() + *lock(&self.set_by)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.time.sleep_until(self.time.now() + duration)
    }
}
