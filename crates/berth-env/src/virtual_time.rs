//! Tasks on one thread, and their time: the simulation and tests use this instead of a runtime.

use crate::{Clock, Rng, Spawner, Timestamp};
use futures::future::BoxFuture;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Which of several tasks that could run is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was woken first.
    Fifo,
    /// Any, by the random numbers: seeds explore interleavings.
    Random,
}

/// Runs tasks one poll at a time. Time is frozen while any task can run, then jumps to the next timer. Cheap to clone.
#[derive(Clone)]
pub struct VirtualTime(Arc<Inner>);

struct Inner {
    order: Order,
    rng: Arc<dyn Rng>,
    now: Mutex<Timestamp>,
    timers: Mutex<Timers>,
    tasks: Mutex<Tasks>,
    ready: Arc<Mutex<Ready>>,
}

#[derive(Default)]
struct Timers {
    wakers: BTreeMap<(Timestamp, u64), Waker>,
    next: u64,
}

#[derive(Default)]
struct Tasks {
    /// Those that have not ended.
    all: BTreeMap<TaskId, Task>,
    next: u64,
    processes: u64,
    dead: BTreeSet<u64>,
    /// Those of a process that could run if it were not paused.
    paused: BTreeMap<u64, Vec<TaskId>>,
}

impl Tasks {
    /// A task to be polled; `None`: it has ended, or its process is paused.
    fn take(&mut self, id: TaskId) -> Option<(BoxFuture<'static, ()>, Waker)> {
        let task = self.all.get_mut(&id)?;
        if let Some(waiting) = self.paused.get_mut(&task.process) {
            waiting.push(id);
            return None;
        }
        Some((task.future.take()?, task.waker.clone()))
    }

    /// Gives a task back that has more to do; gives it to the caller if its process is dead.
    fn give_back(&mut self, id: TaskId, future: BoxFuture<'static, ()>) -> Option<BoxFuture<'static, ()>> {
        match self.all.get_mut(&id) {
            Some(task) => task.future.replace(future),
            None => Some(future),
        }
    }
}

struct Task {
    process: u64,
    /// Absent while it is being polled.
    future: Option<BoxFuture<'static, ()>>,
    /// The same each time, so that who wakes it sees that nothing has changed.
    waker: Waker,
    entry: QueueEntry,
}

type TaskId = u64;

/// Tasks that could run, each once, in the order in which they were woken.
type Ready = Vec<QueueEntry>;

/// A task's entry in the queue of runnable tasks.
#[derive(Clone)]
struct QueueEntry {
    id: TaskId,
    is_taken: Arc<AtomicBool>,
}

impl QueueEntry {
    fn take(&self, ready: &Mutex<Ready>) {
        if !self.is_taken.swap(true, Ordering::Relaxed) {
            lock(ready).push(self.clone());
        }
    }
}

/// What [`VirtualTime::step`] found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A task was polled.
    Ran,
    /// No task could run. Time has passed.
    TimePassed,
    /// No task can run before the given time: it is that time now.
    Quiet,
}

impl VirtualTime {
    /// No tasks, at `now`. `rng` is for [`Order::Random`].
    #[must_use]
    pub fn new(order: Order, rng: Arc<dyn Rng>, now: Timestamp) -> Self {
        Self(Arc::new(Inner { order, rng, now: Mutex::new(now), timers: Mutex::default(), tasks: Mutex::default(), ready: Arc::default() }))
    }

    /// A new process: tasks that can be stopped together.
    #[must_use]
    pub fn process(&self) -> Process {
        let mut tasks = lock(&self.0.tasks);
        tasks.processes += 1;
        Process { time: self.clone(), id: tasks.processes }
    }

    /// Polls one task or, if none can run, lets time pass to the next timer, at most to `until`.
    pub fn step(&self, until: Timestamp) -> Step {
        match self.next_ready() {
            Some(id) => {
                self.poll(id);
                Step::Ran
            }
            None => self.pass_time(until),
        }
    }

    fn next_ready(&self) -> Option<TaskId> {
        let mut ready = lock(&self.0.ready);
        let count = ready.len() as u64;
        let at = match self.0.order {
            _ if count == 0 => return None,
            Order::Fifo => 0,
            Order::Random => self.0.rng.below(count),
        };
        let QueueEntry { id, is_taken } = ready.remove(usize::try_from(at).expect("it is an index"));
        is_taken.store(false, Ordering::Relaxed);
        Some(id)
    }

    fn poll(&self, id: TaskId) {
        let Some((mut future, waker)) = lock(&self.0.tasks).take(id) else { return };
        // Dropping a task wakes others: not under the lock.
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            let killed = lock(&self.0.tasks).give_back(id, future);
            drop(killed);
        } else {
            let ended = lock(&self.0.tasks).all.remove(&id);
            drop((ended, future));
        }
    }

    fn pass_time(&self, until: Timestamp) -> Step {
        let next = lock(&self.0.timers).wakers.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
        let mut now = lock(&self.0.now);
        *now = next.unwrap_or(until).max(*now);
        let reached = *now;
        drop(now);
        if next.is_none() {
            return Step::Quiet;
        }
        loop {
            let due = {
                let mut timers = lock(&self.0.timers);
                if timers.wakers.first_key_value().is_none_or(|((at, _), _)| *at > reached) {
                    return Step::TimePassed;
                }
                timers.wakers.pop_first()
            };
            due.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    fn start(&self, process: u64, future: BoxFuture<'static, ()>) {
        let mut tasks = lock(&self.0.tasks);
        if tasks.dead.contains(&process) {
            return;
        }
        tasks.next += 1;
        let id = tasks.next;
        let entry = QueueEntry { id, is_taken: Arc::default() };
        let waker = Waker::from(Arc::new(TaskWaker { entry: entry.clone(), ready: Arc::clone(&self.0.ready) }));
        entry.take(&self.0.ready);
        tasks.all.insert(id, Task { process, future: Some(future), waker, entry });
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Timestamp {
        *lock(&self.0.now)
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { time: self.clone(), at, timer: None })
    }
}

/// A set of tasks that live and die together, as those of an operating system's process. Cheap to clone.
#[derive(Clone)]
pub struct Process {
    time: VirtualTime,
    id: u64,
}

impl Process {
    /// Stops all its tasks at their present step, without notice. Nothing it starts later runs.
    pub fn kill(&self) {
        let mut tasks = lock(&self.time.0.tasks);
        tasks.dead.insert(self.id);
        let (killed, rest) = std::mem::take(&mut tasks.all).into_iter().partition(|(_, task)| task.process == self.id);
        tasks.all = rest;
        drop(tasks);
        // Dropping a task wakes others: not under the lock.
        let killed: BTreeMap<TaskId, Task> = killed;
        drop(killed);
    }
}

impl Process {
    /// From now on none of its tasks runs, as after SIGSTOP: time passes, and it notices only when it [goes on](Self::resume).
    pub fn pause(&self) {
        lock(&self.time.0.tasks).paused.entry(self.id).or_default();
    }

    /// Goes on where it was paused, if it was.
    pub fn resume(&self) {
        let mut tasks = lock(&self.time.0.tasks);
        let waiting = tasks.paused.remove(&self.id);
        let tasks = waiting.into_iter().flatten().filter_map(|id| tasks.all.get(&id));
        tasks.for_each(|task| task.entry.take(&self.time.0.ready));
    }
}

impl Spawner for Process {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.time.start(self.id, task);
    }
}

/// A timer. It is removed when it is dropped, so that time does not stop for an unused timer.
struct Sleep {
    time: VirtualTime,
    at: Timestamp,
    timer: Option<Timer>,
}

/// What a sleep has left among the timers.
struct Timer {
    number: u64,
    waker: Waker,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.at {
            return Poll::Ready(());
        }
        // It is registered until its time has come, which it has not.
        if self.timer.as_ref().is_some_and(|timer| timer.waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        let mut timers = lock(&self.time.0.timers);
        let number = self.timer.as_ref().map_or(timers.next + 1, |timer| timer.number);
        timers.next = timers.next.max(number);
        let waker = context.waker().clone();
        timers.wakers.insert((self.at, number), waker.clone());
        drop(timers);
        self.timer = Some(Timer { number, waker });
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            lock(&self.time.0.timers).wakers.remove(&(self.at, timer.number));
        }
    }
}

struct TaskWaker {
    entry: QueueEntry,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.entry.take(&self.ready);
    }
}

/// There is one thread: a lock is never contended, and a holder that panicked ends the test.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    /// 8 bytes of noise at a time, from a seed.
    struct Noise(Mutex<u64>);

    impl Rng for Noise {
        fn fill(&self, bytes: &mut [u8]) {
            for chunk in bytes.chunks_mut(8) {
                let mut number = lock(&self.0);
                *number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                chunk.copy_from_slice(&(*number >> 32).to_le_bytes()[..chunk.len()]);
            }
        }
    }

    fn virtual_time(seed: u64, order: Order) -> VirtualTime {
        VirtualTime::new(order, Arc::new(Noise(Mutex::new(seed))), at(0))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("in range")
    }

    fn run(time: &VirtualTime, until: Timestamp) {
        while time.step(until) != Step::Quiet {}
    }

    /// Ten tasks that note their number, twice each.
    fn notes(seed: u64, order: Order) -> Vec<u64> {
        let time = virtual_time(seed, order);
        let process = time.process();
        let notes = Arc::new(Mutex::new(Vec::new()));
        for number in 0..10 {
            let notes = Arc::clone(&notes);
            let task = async move {
                lock(&notes).push(number);
                crate::yield_now().await;
                lock(&notes).push(number);
            };
            process.spawn("note", Box::pin(task));
        }
        run(&time, at(1));
        lock(&notes).clone()
    }

    #[test]
    fn a_seed_decides_the_order() {
        assert_eq!(notes(1, Order::Random), notes(1, Order::Random));
        assert_ne!(notes(1, Order::Random), notes(2, Order::Random));
        assert_eq!(notes(1, Order::Fifo), (0..10).chain(0..10).collect::<Vec<_>>());
    }

    #[test]
    fn time_jumps_to_the_next_timer_and_not_to_one_that_was_dropped() {
        let time = virtual_time(1, Order::Fifo);
        let (clock, seen) = (time.clone(), Arc::new(Mutex::new(Vec::new())));
        let sink = Arc::clone(&seen);
        let task = async move {
            let sleeps = (clock.sleep_until(at(5)), clock.sleep_until(at(30)));
            drop(futures::future::select(sleeps.0, sleeps.1).await);
            lock(&sink).push(clock.now());
            clock.sleep_until(at(60)).await;
            lock(&sink).push(clock.now());
        };
        time.process().spawn("sleep", Box::pin(task));
        let mut passed = 0;
        while let step @ (Step::Ran | Step::TimePassed) = time.step(at(100)) {
            passed += u32::from(step == Step::TimePassed);
        }
        assert_eq!((lock(&seen).clone(), passed, time.now()), (vec![at(5), at(60)], 2, at(100)));
    }

    #[test]
    fn a_paused_process_goes_on_later_where_it_was() {
        let time = virtual_time(1, Order::Fifo);
        let paused = time.process();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (clock, sink) = (time.clone(), Arc::clone(&seen));
        let task = async move {
            for second in 1..4 {
                clock.sleep_until(at(second)).await;
                lock(&sink).push(clock.now());
            }
        };
        paused.spawn("tick", Box::pin(task));
        run(&time, at(1));
        paused.pause();
        run(&time, at(10));
        assert_eq!(*lock(&seen), [at(1)]);
        paused.resume();
        run(&time, at(20));
        assert_eq!(*lock(&seen), [at(1), at(10), at(10)]);
        paused.resume();
    }

    #[test]
    fn a_killed_process_does_nothing_more() {
        let time = virtual_time(1, Order::Fifo);
        let (killed, other) = (time.process(), time.process());
        let counts = [Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0))];
        for (process, count) in [&killed, &other].into_iter().zip(&counts) {
            let (clock, count) = (time.clone(), Arc::clone(count));
            let task = async move {
                loop {
                    *lock(&count) += 1;
                    clock.sleep_until(clock.now() + SignedDuration::from_secs(1)).await;
                }
            };
            process.spawn("tick", Box::pin(task));
        }
        run(&time, at(3));
        killed.kill();
        killed.spawn("late", Box::pin(async { panic!("it is dead") }));
        run(&time, at(10));
        assert_eq!(counts.map(|count| *lock(&count)), [4, 11]);
    }
}
