//! Wall-clock time that runs evenly, whatever is done to the machine's clock.
//!
//! Sleeps, elapsed times and comparisons need a time that neither stops nor jumps. Timestamps need the time of the day. So this time starts at the wall
//! clock, and continues with the machine's running time. If the wall clock is set, by hand, by NTP or after a suspension, this time runs faster or
//! slower until the two agree again.

use crate::{Clock, Timestamp};
use event_listener::Event;
use futures::{
    FutureExt,
    future::{BoxFuture, select},
};
use jiff::SignedDuration;
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// The interval in which the machine's clock is read.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// What is no difference: two readings are not made at the same moment.
const TOLERANCE: Nanoseconds = 100_000_000;
/// How fast time runs where the wall clock is ahead. Leases are renewed by the same time, so that none runs out; an hour is caught up in nine minutes.
const FASTER: Speed = Speed { num: 8, den: 1 };
/// How fast where it is behind. Time never goes back; an hour takes four.
const SLOWER: Speed = Speed { num: 3, den: 4 };
const EVEN: Speed = Speed { num: 1, den: 1 };
/// A larger advance of the wall clock means that it was wrong before: its new time is used at once.
const CAUGHT_UP_MAX: Nanoseconds = 24 * 3600 * 1_000_000_000;

/// The clocks of a machine.
pub trait Machine: Send + Sync + 'static {
    /// How long it has run since some moment. Never goes back, and cannot be set.
    fn running(&self) -> Duration;
    /// The time of its clock. It can be set at any moment, either way.
    fn wall_clock(&self) -> Timestamp;
    /// Resolves when it has run for so long.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A [`Clock`] over a [`Machine`]. Cheap to clone.
pub struct SteadyTime<M>(Arc<Shared<M>>);

struct Shared<M> {
    machine: M,
    pace: RwLock<Pace>,
    /// Time runs otherwise than was thought.
    turned: Event,
}

/// Of time, or of the machine's running time.
type Nanoseconds = i128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Speed {
    num: Nanoseconds,
    den: Nanoseconds,
}

impl Speed {
    /// How long it must run until the wall clock is no more `ahead`, or behind where that is less than nothing.
    fn takes(self, ahead: Nanoseconds) -> Nanoseconds {
        ahead * self.den / (self.num - self.den)
    }
}

/// How time passes: from `from` to `until`, on the machine's running time, at `speed`, then evenly.
#[derive(Clone, Copy, Debug)]
struct Pace {
    from: Nanoseconds,
    /// What time it is at `from`.
    at: Nanoseconds,
    until: Nanoseconds,
    speed: Speed,
}

impl Pace {
    fn even(from: Nanoseconds, at: Nanoseconds) -> Self {
        Self { from, at, until: from, speed: EVEN }
    }

    /// What time it is. Never earlier for a later `running`.
    fn time_at(&self, running: Nanoseconds) -> Nanoseconds {
        let passed = (running - self.from).max(0);
        let scaled = passed.min(self.until - self.from);
        // Usually time runs evenly, and callers read it often.
        let of_scaled = if scaled == 0 { 0 } else { scaled * self.speed.num / self.speed.den };
        self.at + of_scaled + (passed - scaled)
    }

    /// The first moment at which it is that time, or later.
    fn running_at(&self, time: Nanoseconds) -> Nanoseconds {
        let left = (time - self.at).max(0);
        let scaled = (self.until - self.from) * self.speed.num / self.speed.den;
        if left <= scaled { self.from + (left * self.speed.den + self.speed.num - 1) / self.speed.num } else { self.until + left - scaled }
    }

    /// How time passes from now on, if the wall clock is not where it was thought to be; and how far it is ahead.
    fn turned(&self, running: Nanoseconds, wall_clock: Nanoseconds) -> Option<(Self, Nanoseconds)> {
        let expected = self.time_at(self.until) + (running - self.until);
        if (wall_clock - expected).abs() <= TOLERANCE {
            return None;
        }
        let at = self.time_at(running);
        let ahead = wall_clock - at;
        let speed = match ahead {
            _ if CAUGHT_UP_MAX < ahead => return Some((Self::even(running, wall_clock), ahead)),
            0.. => FASTER,
            _ => SLOWER,
        };
        Some((Self { from: running, at, until: running + speed.takes(ahead), speed }, ahead))
    }
}

impl<M: Machine> SteadyTime<M> {
    /// Time from the wall clock's on. It agrees with the wall clock again after that was set only where [`SteadyTime::follow`] runs.
    #[must_use]
    pub fn new(machine: M) -> Self {
        let pace = Pace::even(nanoseconds(machine.running()), machine.wall_clock().as_nanosecond());
        Self(Arc::new(Shared { machine, pace: RwLock::new(pace), turned: Event::new() }))
    }

    /// Follows the machine's clock indefinitely. Whenever it has been set, calls `report` with how far it is ahead, negative if it is behind.
    pub async fn follow(self, report: impl Fn(SignedDuration) + Send) {
        loop {
            self.0.machine.sleep(READ_INTERVAL).await;
            if let Some(ahead) = self.0.sample() {
                report(SignedDuration::from_nanos_i128(ahead));
            }
        }
    }
}

impl<M: Machine> Shared<M> {
    fn pace(&self) -> Pace {
        // Nothing panics while it is written.
        *self.pace.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanoseconds {
        let running = nanoseconds(self.machine.running());
        self.pace().time_at(running)
    }

    /// By how much the wall clock is ahead, if it has been set.
    fn sample(&self) -> Option<Nanoseconds> {
        let before = nanoseconds(self.machine.running());
        let wall_clock = self.machine.wall_clock().as_nanosecond();
        let running = nanoseconds(self.machine.running());
        // A thread that was stopped between the two readings knows nothing.
        if TOLERANCE / 2 < running - before {
            return None;
        }
        let (pace, ahead) = self.pace().turned(running, wall_clock)?;
        *self.pace.write().unwrap_or_else(PoisonError::into_inner) = pace;
        self.turned.notify(usize::MAX);
        Some(ahead)
    }
}

impl<M: Machine> Clock for SteadyTime<M> {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanosecond(self.0.now()).unwrap_or(Timestamp::MAX)
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let (shared, at) = (Arc::clone(&self.0), at.as_nanosecond());
        let sleep = async move {
            loop {
                let turned = shared.turned.listen();
                let left = shared.pace().running_at(at) - nanoseconds(shared.machine.running());
                if left <= 0 {
                    return;
                }
                let left = Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX));
                drop(select(shared.machine.sleep(left), turned).await);
            }
        };
        sleep.boxed()
    }
}

impl<M> Clone for SteadyTime<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn nanoseconds(duration: Duration) -> Nanoseconds {
    Nanoseconds::try_from(duration.as_nanos()).unwrap_or(Nanoseconds::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Rng, Spawner,
        virtual_time::{Order, Step, VirtualTime},
    };
    use std::{
        collections::VecDeque,
        sync::{
            Mutex,
            atomic::{AtomicU64, Ordering},
        },
    };

    struct Zeros;

    impl Rng for Zeros {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    /// A machine whose running time is virtual, and whose clock the test sets.
    #[derive(Clone)]
    struct Settable {
        time: VirtualTime,
        set_by: Arc<Mutex<SignedDuration>>,
        sleeps: Arc<AtomicU64>,
    }

    const BEGINNING: i64 = 1_800_000_000;

    impl Settable {
        fn new() -> Self {
            let time = VirtualTime::new(Order::Fifo, Arc::new(Zeros), seconds(BEGINNING));
            Self { time, set_by: Arc::default(), sleeps: Arc::default() }
        }

        fn set(&self, by: SignedDuration) {
            *self.set_by.lock().expect("no test panics with it") += by;
        }

        fn run_for(&self, duration: SignedDuration) {
            let until = self.time.now() + duration;
            while self.time.step(until) != Step::Quiet {}
        }

        fn start(&self) -> SteadyTime<Self> {
            let steady = SteadyTime::new(self.clone());
            self.time.process().spawn("clock", steady.clone().follow(|_| ()).boxed());
            steady
        }
    }

    impl Machine for Settable {
        fn running(&self) -> Duration {
            Duration::try_from(self.time.now().duration_since(seconds(BEGINNING))).expect("it does not go back")
        }

        fn wall_clock(&self) -> Timestamp {
            self.time.now() + *self.set_by.lock().expect("no test panics with it")
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
            self.time.sleep_until(self.time.now() + duration)
        }
    }

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("in range")
    }

    const MINUTE: SignedDuration = SignedDuration::from_mins(1);

    /// Sets the clock by this many minutes, then reads the time each minute, as minutes ahead of the wall clock.
    fn ahead_after(set_by: i64, minutes: i32) -> Vec<i64> {
        let machine = Settable::new();
        let steady = machine.start();
        machine.run_for(MINUTE);
        assert_eq!(steady.now(), machine.wall_clock());
        machine.set(MINUTE * i32::try_from(set_by).expect("small"));
        let mut last = steady.now();
        let mut ahead = Vec::new();
        for _ in 0..minutes {
            machine.run_for(MINUTE);
            let now = steady.now();
            assert!(last < now, "time has not passed");
            last = now;
            ahead.push(now.duration_since(machine.wall_clock()).as_mins());
        }
        ahead
    }

    #[test]
    fn a_clock_that_is_set_back_is_waited_for_while_time_goes_on() {
        let ahead = ahead_after(-60, 300);
        // A second may pass before it is noticed.
        assert_eq!((ahead[0], ahead[1], ahead[119], ahead[238], ahead[241]), (59, 59, 30, 0, 0));
    }

    #[test]
    fn a_clock_that_is_set_forward_is_caught_up_with() {
        let ahead = ahead_after(60, 20);
        assert_eq!((ahead[0], ahead[3], ahead[7], ahead[8], ahead[9]), (-53, -32, -4, 0, 0));
    }

    #[test]
    fn a_clock_that_was_wrong_by_years_is_believed_at_once() {
        let ahead = ahead_after(60 * 24 * 365 * 10, 2);
        assert_eq!(ahead, [0, 0]);
    }

    #[test]
    fn sleepers_wake_when_it_is_time_and_not_before_however_the_clock_is_set() {
        for (set_by, after_minutes) in [(0, 10), (-60, 13), (60, 1), (-1, 11), (1, 9)] {
            let machine = Settable::new();
            let steady = machine.start();
            let (asked, woken) = (steady.now() + 10 * MINUTE, Arc::new(Mutex::new(None)));
            let (sink, clock, running) = (Arc::clone(&woken), steady.clone(), machine.clone());
            let task = async move {
                clock.sleep_until(asked).await;
                *sink.lock().expect("one thread") = Some((clock.now(), running.running()));
            };
            machine.time.process().spawn("sleeper", task.boxed());
            machine.run_for(SignedDuration::from_secs(1));
            machine.set(MINUTE * set_by);
            machine.sleeps.store(0, Ordering::Relaxed);
            machine.run_for(20 * MINUTE);
            let (at, running) = woken.lock().expect("one thread").expect("it has woken");
            assert!(asked <= at && at < asked + SignedDuration::from_micros(1), "{set_by}: {at}, not {asked}");
            assert_eq!(running.as_secs() / 60, after_minutes, "{set_by}");
            // One look each second, and the sleeper once more for the step.
            assert!(machine.sleeps.load(Ordering::Relaxed) <= 20 * 60 + 2, "{set_by}: sleepers woke again and again");
        }
    }

    /// A machine that returns given readings, one after the other, in milliseconds since it began.
    struct Readings {
        running: Mutex<VecDeque<u64>>,
        wall_clock: Mutex<VecDeque<i64>>,
    }

    impl Machine for Readings {
        fn running(&self) -> Duration {
            Duration::from_millis(self.running.lock().expect("one thread").pop_front().expect("given"))
        }

        fn wall_clock(&self) -> Timestamp {
            seconds(BEGINNING) + SignedDuration::from_millis(self.wall_clock.lock().expect("one thread").pop_front().expect("given"))
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// Otherwise a busy machine would slow down the time with each read of its clock.
    #[test]
    fn a_thread_that_was_stopped_between_two_readings_does_not_turn_the_clock() {
        for (stopped, wall_clock, ahead) in [
            (0, 61_000, Some(60_000)),
            (50, 61_000, Some(59_950)),
            (51, 61_000, None),
            // Read before it was stopped: the clock seems to be behind.
            (5_000, 1_000, None),
            (5_000, 6_000, None),
            (50, 1_000, None),
            (0, 1_100, None),
            (0, 1_101, Some(101)),
            (0, 900, None),
            (0, 899, Some(-101)),
        ] {
            let running = Mutex::new(VecDeque::from([0, 1_000, 1_000 + stopped]));
            let steady = SteadyTime::new(Readings { running, wall_clock: Mutex::new(VecDeque::from([0, wall_clock])) });
            let report = steady.0.sample().map(|ahead| ahead / 1_000_000);
            assert_eq!(report, ahead, "stopped for {stopped} ms, the clock at {wall_clock}");
        }
    }

    #[test]
    fn time_never_goes_back_and_ends_with_the_wall_clock_whatever_is_done_to_it() {
        let machine = Settable::new();
        let steady = machine.start();
        let mut last = steady.now();
        for step in 0..2000_i64 {
            // Scattered: a few seconds either way.
            machine.set(SignedDuration::from_millis((step * 7919) % 9000 - 4500));
            machine.run_for(SignedDuration::from_millis((step * 104_729) % 1700 + 1));
            let now = steady.now();
            assert!(last < now, "step {step}: {last}, then {now}");
            last = now;
        }
        machine.run_for(SignedDuration::from_hours(100));
        let apart = steady.now().duration_since(machine.wall_clock()).abs();
        assert!(apart <= SignedDuration::from_millis(100), "{apart}");
    }

    #[test]
    fn a_sleeper_wakes_at_the_first_moment_at_which_it_is_time() {
        for speed in [EVEN, FASTER, SLOWER] {
            for length in 0..30 {
                let pace = Pace { from: 5, at: 100, until: 5 + length, speed };
                for time in 90..300 {
                    let woken = pace.running_at(time);
                    let is_first = woken == pace.from || pace.time_at(woken - 1) < time;
                    assert!(time <= pace.time_at(woken) && is_first, "{time} at {woken}, {pace:?}");
                }
            }
        }
    }

    #[test]
    fn a_clock_that_is_ahead_by_a_day_is_caught_up_with_and_by_more_is_believed() {
        let turned = |ahead| Pace::even(0, 0).turned(0, ahead).map(|(pace, ahead)| (pace.speed, pace.time_at(0), ahead));
        let day = 24 * 3600 * 1_000_000_000;
        assert_eq!(turned(day), Some((FASTER, 0, day)));
        assert_eq!(turned(day + 1), Some((EVEN, day + 1, day + 1)));
    }
}
