//! Time, randomness and tasks of the real machine.

use berth_controllers::panics::{Panicked, caught};
use berth_store::env::{Clock, Env, Rng, Spawner, Timestamp};
use futures::{FutureExt, future::BoxFuture};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::watch};

/// The machine's time, its randomness, and tasks on `runtime`. A task that panics is told to `faults`.
pub(crate) fn real(runtime: Handle, faults: Faults) -> Env {
    Env { clock: Arc::new(RealClock::new()), rng: Arc::new(RealRng::new()), spawner: Arc::new(RealSpawner { runtime, faults }) }
}

/// Where it is told that a part has panicked without which the rest cannot go on: nobody waits for its tasks, and others rely on what they do.
#[derive(Clone, Debug)]
pub(crate) struct Faults(watch::Sender<Option<String>>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Runs the part `name` to its end; tells if that is a panic.
    pub(crate) async fn watch(self, name: &'static str, part: impl Future<Output = ()>) {
        if let Err(Panicked(text)) = caught(part).await {
            tracing::error!(part = name, panic = ?text, "a part panicked that others rely on");
            let fault = format!("the part {name:?} panicked: {text}");
            self.0.send_if_modified(|first| first.is_none() && first.replace(fault).is_none());
        }
    }

    /// The first that has been told, as soon as one is.
    pub(crate) async fn first(&self) -> String {
        let mut told = self.0.subscribe();
        let first = told.wait_for(Option::is_some).await.map(|first| first.clone());
        // This value is one of those that tell.
        first.ok().flatten().unwrap_or_default()
    }
}

/// Wall-clock time that never steps back: where the machine's clock is set back, it stands still until that has caught up.
struct RealClock {
    newest_nanoseconds: AtomicI64,
}

impl RealClock {
    fn new() -> Self {
        Self { newest_nanoseconds: AtomicI64::new(i64::MIN) }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        let read = i64::try_from(Timestamp::now().as_nanosecond()).expect("the year is before 2262");
        let newest = self.newest_nanoseconds.fetch_max(read, Ordering::Relaxed).max(read);
        Timestamp::from_nanosecond(newest.into()).expect("was a timestamp before")
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(left).boxed()
    }
}

/// ChaCha12, seeded by the operating system: uids, tokens and names need no system call each.
struct RealRng(Mutex<rand_chacha::ChaCha12Rng>);

impl RealRng {
    fn new() -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the operating system has randomness");
        Self(Mutex::new(rand_core::SeedableRng::from_seed(seed)))
    }
}

impl Rng for RealRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rand_core::Rng::fill_bytes(&mut *generator, bytes);
    }
}

struct RealSpawner {
    runtime: Handle,
    faults: Faults,
}

impl Spawner for RealSpawner {
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(self.faults.clone().watch(name, task));
    }
}
