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

/// The machine's time, its randomness, and tasks on `runtime`. `faults` receives the panics of tasks. Seeds the hashes of this process.
pub(crate) fn real(runtime: Handle, faults: Faults) -> Env {
    let time = SteadyTime::new(RealMachine { started: Instant::now() });
    let spawner = RealSpawner { runtime, faults };
    spawner.spawn("clock", time.clone().follow(log_clock_change).boxed());
    let rng = RealRng::new();
    let mut seed = [0; 8];
    rng.fill(&mut seed);
    berth_identity::seed_hashes(u64::from_ne_bytes(seed));
    Env { clock: Arc::new(time), rng: Arc::new(rng), spawner: Arc::new(spawner) }
}

/// The same time and randomness, with separate tasks on `runtime`, whose panics `faults` receives.
pub(crate) fn beside(env: &Env, runtime: Handle, faults: Faults) -> Env {
    Env { spawner: Arc::new(RealSpawner { runtime, faults }), ..env.clone() }
}

/// A unique name of this run. Even another run of the same program on the same machine has another name.
pub(crate) fn identity(env: &Env) -> String {
    let mut random = [0; 8];
    env.rng.fill(&mut random);
    // Each write has it in a header.
    let node = uname().nodename().to_string_lossy().replace(|letter: char| !letter.is_ascii_graphic(), "-");
    format!("{node}_{:016x}", u64::from_ne_bytes(random))
}

/// How long the machine has run, including suspensions: the clocks of other machines continue during a suspension.
pub(crate) fn running_time() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Receives the panics of parts, and failures after which the other parts cannot continue. No caller awaits these tasks, but other parts
/// depend on them.
#[derive(Clone, Debug)]
pub(crate) struct Faults(watch::Sender<Option<String>>);

impl Faults {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Runs the part `name` to its end. Reports a panic.
    pub(crate) async fn watch(self, name: &'static str, part: impl Future<Output = ()>) {
        if let Err(Panicked(text)) = caught(part).await {
            tracing::error!(part = name, panic = ?text, "a required part panicked");
            self.report(format!("the part {name:?} panicked: {text}; this is a bug in berth, which exits now"));
        }
    }

    /// Reports a fault after which the process cannot continue.
    pub(crate) fn report(&self, what: String) {
        self.0.send_if_modified(|first| first.is_none() && first.replace(what).is_none());
    }

    /// The first reported fault, as soon as there is one.
    pub(crate) async fn first(&self) -> String {
        let mut receiver = self.0.subscribe();
        let first = receiver.wait_for(Option::is_some).await.map(|first| first.clone());
        // This value is one of the reported faults.
        first.ok().flatten().unwrap_or_default()
    }
}

/// The machine's clocks. The running time starts here, and does not change when a user sets the clock.
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

/// Logs that the machine's clock has been set, and by how much it is ahead now.
fn log_clock_change(ahead: SignedDuration) {
    if ahead.is_negative() {
        tracing::warn!(behind = %ahead.abs(), "the machine's clock was set back: berth's clock is slower until both agree");
    } else {
        tracing::warn!(%ahead, "the machine's clock was set forward: berth's clock is faster until both agree");
    }
}

/// ChaCha12, seeded by the operating system, so that uids, tokens and names need no system call each.
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
    async fn a_part_that_panics_is_reported_once_with_the_tasks_that_it_leaves_behind() {
        let faults = Faults::new();
        let env = real(Handle::current(), faults.clone());
        env.spawner.spawn("cache", async { panic!("an unexpected fault") }.boxed());
        let first = faults.first().await;
        faults.clone().watch("events", async { panic!("what follows from it") }).await;
        assert_eq!(first, "the part \"cache\" panicked: an unexpected fault; this is a bug in berth, which exits now");
        assert_eq!(faults.first().await, first);
    }
}
