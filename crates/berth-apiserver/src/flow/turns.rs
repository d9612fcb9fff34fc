//! Runs the work of users' requests on separate threads, in small steps. No user gets all threads.
//!
//! A future is polled only while it has one of as many seats as there are threads. It releases the seat before it
//! waits. The schedule is that of waiting requests ([`super::queues`]): a user whose requests use all available time
//! gets as many turns as one with a single request. Requests of administrators, health checks and controllers do not
//! come here, so user requests do not delay them.
//!
//! A woken future enters the queue at once, independent of the runtime's order. The runtime only has tasks whose turn
//! has come.

use super::queues::{Arrival, Queues, Room, Seats, Ticket, Woken};
use futures::task::AtomicWaker;
use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};
use tokio::{runtime::Handle, task::JoinSet};

/// A request with a seat of flow control is always accepted here.
const ROOM: Room = Room { per_user: usize::MAX, total: usize::MAX };

/// The threads for the work of users, and its schedule.
#[derive(Debug)]
pub(crate) struct Turns {
    runtime: Handle,
    queues: Mutex<Queues<Arc<Work>>>,
}

/// A seat for one poll. Dropping it frees the seat, which must not happen under a lock.
#[derive(Debug)]
struct Turn {
    turns: Arc<Turns>,
    /// `None` only during the drop.
    seats: Option<Seats>,
}

impl Turns {
    /// Uses the threads of `runtime`.
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        let seats = runtime.metrics().num_workers();
        Arc::new(Self { runtime, queues: Mutex::new(Queues::new(seats, ROOM)) })
    }

    /// Starts work of a user. Dropping the result cancels it.
    pub(crate) fn begin<F>(self: &Arc<Self>, user: &str, future: F) -> JoinSet<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let (turns, runtime) = (Arc::clone(self), AtomicWaker::new());
        let work = Arc::new(Work { turns, user: user.into(), place: Mutex::new(WorkState::Nowhere), runtime });
        work.wake_by_ref();
        let mut running = JoinSet::new();
        running.spawn_on(InTurn { waker: Waker::from(Arc::clone(&work)), work, future: Box::pin(future) }, &self.runtime);
        running
    }

    fn queues(&self) -> MutexGuard<'_, Queues<Arc<Work>>> {
        lock(&self.queues)
    }

    /// Wakes the work whose turn has come.
    fn grant(self: &Arc<Self>, woken: Woken<Arc<Work>>) {
        for (work, seats) in woken {
            work.come(Turn { turns: Arc::clone(self), seats: Some(seats) });
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(seats) = self.seats.take() else { return };
        let woken = self.turns.queues().leave(seats);
        self.turns.grant(woken);
    }
}

/// Locks the mutex. No code panics while it holds the lock, and each step leaves a consistent state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shared state of some work and its wakers.
struct Work {
    turns: Arc<Turns>,
    user: Box<str>,
    place: Mutex<WorkState>,
    /// The waker of the task.
    runtime: AtomicWaker,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "work of {}", self.user)
    }
}

/// The scheduling state of some work.
enum WorkState {
    /// It waits for something other than its turn.
    Nowhere,
    /// It is in its user's queue.
    InQueue(Ticket),
    /// It has its turn and waits for the runtime.
    Called(Turn),
    /// It is being polled.
    AtWork,
    /// It is being polled, and has been woken since.
    AtWorkAgain,
    /// It is complete or canceled.
    Over,
}

impl Work {
    /// Takes a seat, or a position in the queue.
    fn arrive(self: &Arc<Self>, place: &mut WorkState) -> Woken<Arc<Self>> {
        let (arrival, others) = self.turns.queues().arrive(&self.user, 1, || Arc::clone(self));
        *place = match arrival {
            Arrival::Seated(seats) => {
                self.runtime.wake();
                WorkState::Called(Turn { turns: Arc::clone(&self.turns), seats: Some(seats) })
            }
            Arrival::Waits(ticket) => WorkState::InQueue(ticket),
            Arrival::Refused => unreachable!("there is room for all"),
        };
        others
    }

    /// Handles the start of its turn. Completed work passes the turn on.
    fn come(&self, turn: Turn) {
        let mut place = lock(&self.place);
        if let WorkState::InQueue(_) = *place {
            *place = WorkState::Called(turn);
            drop(place);
            self.runtime.wake();
        } else {
            drop(place);
            drop(turn);
        }
    }

    /// Takes its turn, if it has come.
    fn begin_turn(&self) -> Option<Turn> {
        let mut place = lock(&self.place);
        match mem::replace(&mut *place, WorkState::AtWork) {
            WorkState::Called(turn) => Some(turn),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Work that was woken during its poll enters the queue before its seat goes to the next.
    fn end_turn(self: &Arc<Self>, turn: Turn) {
        let mut place = lock(&self.place);
        let others = match mem::replace(&mut *place, WorkState::Nowhere) {
            WorkState::AtWorkAgain => self.arrive(&mut place),
            _ => Woken::new(),
        };
        drop(place);
        self.turns.grant(others);
        drop(turn);
    }
}

impl Wake for Work {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut place = lock(&self.place);
        let others = match *place {
            WorkState::Nowhere => self.arrive(&mut place),
            WorkState::AtWork => {
                *place = WorkState::AtWorkAgain;
                return;
            }
            WorkState::InQueue(_) | WorkState::Called(_) | WorkState::AtWorkAgain | WorkState::Over => return,
        };
        drop(place);
        self.turns.grant(others);
    }
}

/// A future that runs only during its turns.
struct InTurn<F> {
    work: Arc<Work>,
    /// The waker that enters the queue.
    waker: Waker,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.work.runtime.register(cx.waker());
        let Some(turn) = this.work.begin_turn() else { return Poll::Pending };
        // If this panics, the turn ends, and dropping this cleans up the rest.
        let output = this.future.as_mut().poll(&mut Context::from_waker(&this.waker));
        this.work.end_turn(turn);
        output
    }
}

impl<F> Drop for InTurn<F> {
    fn drop(&mut self) {
        let place = mem::replace(&mut *lock(&self.work.place), WorkState::Over);
        if let WorkState::InQueue(ticket) = &place {
            let (_, woken) = self.work.turns.queues().give_up(ticket);
            self.work.turns.grant(woken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::env::yield_now;
    use std::{sync::mpsc, time::Duration};
    use tokio::{
        runtime::{Builder, Runtime},
        task::yield_now as give_way,
        time::timeout,
    };

    /// Longer than any operation here, so that a test fails instead of hanging.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn runtime(threads: usize) -> Runtime {
        Builder::new_multi_thread().worker_threads(threads).build().expect("threads")
    }

    /// Returns the output of `future` within the limit, using a thread that no work occupies.
    fn in_time<T>(future: impl Future<Output = T>) -> T {
        let own = Builder::new_current_thread().enable_time().build().expect("a timer");
        own.block_on(async { timeout(PATIENCE, future).await }).expect("in time")
    }

    /// Returns the output of some work.
    fn done<T: 'static>(mut work: JoinSet<T>) -> T {
        in_time(work.join_next()).expect("one").expect("no panic")
    }

    /// Holds the only seat.
    fn hold(turns: &Arc<Turns>) -> Turn {
        let (arrival, _) = turns.queues().arrive("nobody", 1, || unreachable!("there is one"));
        let Arrival::Seated(seats) = arrival else { panic!("{arrival:?}") };
        Turn { turns: Arc::clone(turns), seats: Some(seats) }
    }

    #[test]
    fn nobodys_work_takes_all_threads() {
        let runtime = runtime(4);
        let turns = Turns::new(runtime.handle().clone());
        let (began, beginnings) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ends = Arc::new(Mutex::new(ends));
        let hog = || {
            let (began, ends) = (began.clone(), Arc::clone(&ends));
            // Never yields before the test ends.
            turns.begin("greedy", async move {
                began.send(()).expect("the test waits");
                let _ = ends.lock().map(|ends| ends.recv());
            })
        };
        let hogs: Vec<_> = (0..60).map(|_| hog()).collect();
        (0..3).for_each(|_| beginnings.recv_timeout(PATIENCE).expect("three of four"));
        assert_eq!(done(turns.begin("modest", async { 7 })), 7);
        assert!(beginnings.try_recv().is_err(), "not more than three quarters of the threads");
        drop(end);
        hogs.into_iter().for_each(done);
    }

    #[test]
    fn users_take_turns_whatever_each_of_them_has_to_do() {
        let runtime = runtime(1);
        let turns = Turns::new(runtime.handle().clone());
        let log = Arc::new(Mutex::new(String::new()));
        let work = |user: &'static str| {
            let log = Arc::clone(&log);
            turns.begin(user, async move {
                for _ in 0..10 {
                    log.lock().expect("no panic").push_str(user);
                    yield_now().await;
                }
            })
        };
        let held = hold(&turns);
        let running: Vec<_> = (0..9).map(|_| work("a")).chain([work("b")]).collect();
        assert_eq!(turns.queues().waiting(), 10);
        drop(held);
        running.into_iter().for_each(done);
        let log = log.lock().expect("no panic");
        assert_eq!((log.len(), &log[..20]), (100, "babababababababababa"));
    }

    #[test]
    fn work_that_is_given_up_leaves_its_turn_to_others() {
        let runtime = runtime(1);
        let turns = Turns::new(runtime.handle().clone());
        let held = hold(&turns);
        let given_up = turns.begin("a", async { 1 });
        let next = turns.begin("b", async { 2 });
        assert_eq!(turns.queues().waiting(), 2);
        drop(given_up);
        let left = async {
            while turns.queues().waiting() == 2 {
                give_way().await;
            }
        };
        in_time(left);
        drop(held);
        assert_eq!(done(next), 2);
    }
}
