//! Where the requests of users are worked on: on threads of their own, of which no user holds all, and a piece at a time.
//!
//! A future is polled only while it has one of as many seats as there are threads, and gives it back before it waits for anything. Who comes
//! next is decided as for requests that wait to be answered ([`super::queues`]): a user whose requests take all the time that there is has
//! the same turns as one with a single request, and is not in the way of administrators, of the questions for the server's health and of
//! controllers at all: those do not come here.
//!
//! What is woken takes its place in the queue at once, whatever the runtime would do first; the runtime only ever has to do with what it is the turn of.

use super::queues::{Arrival, Queues, Room, Seats, Ticket, Woken};
use futures::task::AtomicWaker;
use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};
use tokio::{runtime::Handle, task::JoinSet};

/// Whoever has been given a seat to answer a request with may also use it: nobody is sent away here.
const ROOM: Room = Room { per_user: usize::MAX, total: usize::MAX };

/// The threads on which the work of users is done, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    runtime: Handle,
    queues: Mutex<Queues<Arc<Work>>>,
}

/// A seat for one poll. Given back when it is dropped, which must not happen under a lock.
#[derive(Debug)]
struct Turn {
    turns: Arc<Turns>,
    /// Absent only while it is dropped.
    seats: Option<Seats>,
}

impl Turns {
    /// On the threads of `runtime`.
    pub(crate) fn new(runtime: Handle) -> Arc<Self> {
        let seats = runtime.metrics().num_workers();
        Arc::new(Self { runtime, queues: Mutex::new(Queues::new(seats, ROOM)) })
    }

    /// Begins some work of a user. It is given up when what is returned is dropped.
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

    /// Tells those whose turn it is.
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

/// Nothing panics while it is locked; if it did, what is in it would still be of whole steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Some work as those see it who wake it or tell it that its turn has come.
struct Work {
    turns: Arc<Turns>,
    user: Box<str>,
    place: Mutex<WorkState>,
    /// Of the task that does it.
    runtime: AtomicWaker,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "work of {}", self.user)
    }
}

/// Where some work is.
enum WorkState {
    /// It waits for something else than its turn.
    Nowhere,
    /// In its user's queue.
    InQueue(Ticket),
    /// Its turn has come.
    Called(Turn),
    /// It is being polled.
    AtWork,
    /// It is being polled, and has been woken meanwhile.
    AtWorkAgain,
    /// It is done, or has been given up.
    Over,
}

impl Work {
    /// Takes a place in the queue, or a seat if there is one.
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

    /// Its turn has come. What is over passes it on.
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

    /// Its turn, if it has come.
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

    /// What was woken while it was polled is in the queue again before its seat is given to the next.
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

/// Work that is done when it is its user's turn.
struct InTurn<F> {
    work: Arc<Work>,
    /// Wakes it.
    waker: Waker,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.work.runtime.register(cx.waker());
        let Some(turn) = this.work.begin_turn() else { return Poll::Pending };
        // Where this panics, the turn ends with it and the rest when this is dropped.
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

    /// Longer than anything here takes, so that a test fails instead of hanging.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn runtime(threads: usize) -> Runtime {
        Builder::new_multi_thread().worker_threads(threads).build().expect("threads")
    }

    /// What comes of `future` in time, by a thread that no work can take.
    fn in_time<T>(future: impl Future<Output = T>) -> T {
        let own = Builder::new_current_thread().enable_time().build().expect("a timer");
        own.block_on(async { timeout(PATIENCE, future).await }).expect("in time")
    }

    /// What some work gives, whose turn comes.
    fn done<T: 'static>(mut work: JoinSet<T>) -> T {
        in_time(work.join_next()).expect("one").expect("no panic")
    }

    /// The seat of the only thread.
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
            // Does not yield: until the test ends.
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
