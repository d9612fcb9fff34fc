//! For tests: one process in virtual time, and numbers that are the same in every run.

use crate::{
    Clock, Env, Rng, Spawner, Timestamp,
    virtual_time::{Order, Process, Step, VirtualTime},
};
use futures::FutureExt;
use jiff::SignedDuration;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// The same numbers in every run, scattered enough that names do not repeat.
#[derive(Default)]
pub struct Numbers(AtomicU64);

impl Rng for Numbers {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64.
            let mut number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            number ^= number >> 31;
            chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// One process in virtual time, on the thread of the test. Cheap to clone.
#[derive(Clone)]
pub struct TestEnv {
    time: VirtualTime,
    process: Process,
}

impl Default for TestEnv {
    fn default() -> Self {
        let time = VirtualTime::new(Order::Fifo, Arc::new(Numbers::default()), Timestamp::UNIX_EPOCH);
        Self { process: time.process(), time }
    }
}

impl TestEnv {
    /// The process's clock, numbers and tasks.
    #[must_use]
    pub fn env(&self) -> Env {
        Env { clock: Arc::new(self.time.clone()), rng: Arc::new(Numbers::default()), spawner: Arc::new(self.process.clone()) }
    }

    /// Starts another process in the same time.
    #[must_use]
    pub fn another(&self) -> (Env, Process) {
        let process = self.time.process();
        (Env { spawner: Arc::new(process.clone()), ..self.env() }, process)
    }

    /// Runs all tasks, and lets time pass, for `duration`.
    pub fn run_for(&self, duration: SignedDuration) {
        let until = self.time.now() + duration;
        while self.time.step(until) != Step::Quiet {}
    }

    /// Polls ready tasks `times` times.
    pub fn poll(&self, times: usize) {
        (0..times).for_each(|_| _ = self.time.step(self.time.now() + SignedDuration::from_secs(1)));
    }

    /// Runs `future` to its end, beside all other tasks.
    ///
    /// # Panics
    ///
    /// Panics if the future has not ended after an hour of virtual time.
    pub fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let answer = Arc::new(Mutex::new(None));
        let sink = Arc::clone(&answer);
        self.process.spawn("test", future.map(move |value| *locked(&sink) = Some(value)).boxed());
        let until = self.time.now() + SignedDuration::from_hours(1);
        loop {
            let step = self.time.step(until);
            if let Some(value) = locked(&answer).take() {
                return value;
            }
            assert_ne!(step, Step::Quiet, "the future does not end");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
