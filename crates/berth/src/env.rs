//! Time, randomness and tasks of the real machine.

use berth_controllers::panics::{Panicked, caught};
use berth_env::{
    Env, Rng, Spawner, Timestamp,
    steady_time::{Machine, SteadyTime},
};
use futures::{FutureExt, future::BoxFuture};
use jiff::SignedDuration;
use rustix::{
    system::uname,
    time::{ClockId, clock_gettime},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::watch};

/// The machine's time, its randomness, and tasks on `runtime`. A task that panics is told to `faults`.
pub(crate) fn real(runtime: Handle, faults: Faults) -> Env {
    let time = SteadyTime::new(RealMachine { started: Instant::now() });
    let spawner = RealSpawner { runtime, faults };
    spawner.spawn("clock", time.clone().follow(tell_of_clock).boxed());
    Env { clock: Arc::new(time), rng: Arc::new(RealRng::new()), spawner: Arc::new(spawner) }
}

/// The same time and randomness, with tasks of others: on `runtime`, whose panics are told to `faults`.
pub(crate) fn beside(env: &Env, runtime: Handle, faults: Faults) -> Env {
    Env { spawner: Arc::new(RealSpawner { runtime, faults }), ..env.clone() }
}

/// A name of this run, which no other has: not even of the same program on the same machine.
pub(crate) fn identity(env: &Env) -> String {
    let mut random = [0; 8];
    env.rng.fill(&mut random);
    // It stands in a header of each write.
    let node = uname().nodename().to_string_lossy().replace(|letter: char| !letter.is_ascii_graphic(), "-");
    format!("{node}_{:016x}", u64::from_ne_bytes(random))
}

/// How long the machine has run, and been suspended: what others count does not stand still meanwhile.
pub(crate) fn running_time() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Where it is told that a part has panicked, or lost something, without which the rest cannot go on: nobody waits for its tasks, and others rely on what they
/// do.
#[derive(Clone, Debug)]
pub(crate) struct Faults(watch::Sender<Option<String>>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Runs the part `name` to its end; tells if that is a panic.
    pub(crate) async fn watch(self, name: &'static str, part: impl Future<Output = ()>) {
        if let Err(Panicked(text)) = caught(part).await {
            tracing::error!(part = name, panic = ?text, "a required part panicked");
            self.tell(format!("the part {name:?} panicked: {text}; this is a bug in berth, which exits now"));
        }
    }

    /// Something has happened with which the rest cannot go on.
    pub(crate) fn tell(&self, what: String) {
        self.0.send_if_modified(|first| first.is_none() && first.replace(what).is_none());
    }

    /// The first that has been told, as soon as one is.
    pub(crate) async fn first(&self) -> String {
        let mut told = self.0.subscribe();
        let first = told.wait_for(Option::is_some).await.map(|first| first.clone());
        // This value is one of those that tell.
        first.ok().flatten().unwrap_or_default()
    }
}

/// The machine as it tells of time. Its running time is counted from here, whoever sets its clock.
struct RealMachine {
    started: Instant,
}

impl Machine for RealMachine {
    fn running(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall_clock(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }
}

/// Told when the machine's clock has been set, by how much it is ahead now.
fn tell_of_clock(ahead: SignedDuration) {
    if ahead.is_negative() {
        tracing::warn!(behind = %ahead.abs(), "the machine's clock was set back: berth's clock is slower until both agree");
    } else {
        tracing::warn!(%ahead, "the machine's clock was set forward: berth's clock is faster until both agree");
    }
}

/// ChaCha12, seeded by the operating system: uids, tokens and names need no system call each.
pub(crate) struct RealRng(Mutex<rand_chacha::ChaCha12Rng>);

impl RealRng {
    pub(crate) fn new() -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_panics_is_told_of_and_what_it_leaves_behind_as_well_only_once() {
        let faults = Faults::new();
        let env = real(Handle::current(), faults.clone());
        env.spawner.spawn("cache", async { panic!("nobody saw this coming") }.boxed());
        let first = faults.first().await;
        faults.clone().watch("events", async { panic!("what follows from it") }).await;
        assert_eq!(first, "the part \"cache\" panicked: nobody saw this coming; this is a bug in berth, which exits now");
        assert_eq!(faults.first().await, first);
    }
}
