//! Flow control: limits the requests in progress, and schedules the waiting ones.
//!
//! Mutating and read-only requests have separate limits. A request without a free seat waits for a while in its user's
//! queue. Then it is rejected with 429 and `Retry-After`. The group `system:masters` and the health endpoints are
//! exempt, so that an administrator can investigate an overload.
//!
//! Source: kubernetes API Priority and Fairness (KEP-1040), in its smallest useful form.

mod budget;
mod memory;
mod metrics;
mod queues;
mod turns;

use self::{
    metrics::{FlowMetrics, Rejected},
    queues::{Arrival, Queues, Room, Seats, Ticket, Woken},
};
use crate::status::Refusal;
use berth_rbac::User;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

pub(crate) use self::{
    budget::{Budget, Charge},
    memory::{Kept, Memory},
    metrics::FlowCollectors,
    turns::Turns,
};

/// The limits of queues: per user as upstream's queues of one flow together, and in total to limit memory.
const ROOM: Room = Room { per_user: 400, total: 10_000 };

/// The maximum number of seats of one request.
pub(crate) const SEATS_MAX: usize = 10;

const SCHEMA_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The limit that applies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// None, for administrators and health checks.
    Exempt,
    /// The limit of mutating requests.
    Mutating,
    /// The limit of read-only requests.
    ReadOnly,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::Mutating => "mutating",
            Self::ReadOnly => "readonly",
        }
    }

    /// Returns the uids of schema and level for the headers. Clients only log them.
    fn uids(self) -> (HeaderValue, HeaderValue) {
        const EXEMPT_SCHEMA: HeaderValue = HeaderValue::from_static("62657274-6800-5000-8000-000000000001");
        const USERS_SCHEMA: HeaderValue = HeaderValue::from_static("62657274-6800-5000-8000-000000000002");
        let (schema, level) = match self {
            Self::Exempt => (EXEMPT_SCHEMA, "62657274-6800-5000-8000-000000000011"),
            Self::Mutating => (USERS_SCHEMA, "62657274-6800-5000-8000-000000000012"),
            Self::ReadOnly => (USERS_SCHEMA, "62657274-6800-5000-8000-000000000013"),
        };
        (schema, HeaderValue::from_static(level))
    }

    /// Adds the level to a response's headers.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        let (schema, level) = self.uids();
        headers.insert(SCHEMA_HEADER, schema);
        headers.insert(LEVEL_HEADER, level);
    }
}

/// The seats of a server.
#[derive(Debug)]
pub(crate) struct Flow {
    mutating: Option<Arc<Lane>>,
    read_only: Option<Arc<Lane>>,
}

impl Flow {
    /// Creates seats for mutating and for read-only requests. 0: no limit. A request waits up to `wait`.
    pub(crate) fn new(mutating: usize, read_only: usize, wait: Duration, collectors: &FlowCollectors) -> Self {
        let lane = |seats: usize, level: Level| (seats != 0).then(|| Arc::new(Lane::new(seats, wait, collectors.of(level.name()))));
        Self { mutating: lane(mutating, Level::Mutating), read_only: lane(read_only, Level::ReadOnly) }
    }

    /// Takes `seats` seats for a request. Returns `None` if no limit applies.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`]: the user has too many waiting requests, or this one waited too long.
    pub(crate) async fn admit(&self, level: Level, user: &User, seats: usize) -> Result<Option<Seat>, Refusal> {
        let lane = match level {
            Level::Exempt => return Ok(None),
            Level::Mutating => &self.mutating,
            Level::ReadOnly => &self.read_only,
        };
        match lane {
            Some(lane) => lane.admit(user.share(), seats).await.map(Some),
            None => Ok(None),
        }
    }
}

#[derive(Debug)]
struct Lane {
    queues: Mutex<Queues<oneshot::Sender<Seat>>>,
    wait: Duration,
    metrics: FlowMetrics,
}

/// The seats of a request. Dropping it frees them.
#[derive(Debug)]
pub(crate) struct Seat {
    lane: Arc<Lane>,
    /// `None` only during the drop.
    seats: Option<Seats>,
}

impl Lane {
    fn new(seats: usize, wait: Duration, metrics: FlowMetrics) -> Self {
        Self { queues: Mutex::new(Queues::new(seats, ROOM)), wait, metrics }
    }

    /// Locks the queues. No code panics while it holds the lock, and each step leaves consistent counts.
    fn queues(&self) -> MutexGuard<'_, Queues<oneshot::Sender<Seat>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn admit(self: &Arc<Self>, user: &str, seats: usize) -> Result<Seat, Refusal> {
        let mut woken_by = None;
        let (arrival, woken) = self.queues().arrive(user, seats, || {
            let (wake, woken) = oneshot::channel();
            woken_by = Some(woken);
            wake
        });
        self.wake(woken);
        let (ticket, woken) = match (arrival, woken_by) {
            (Arrival::Seated(seats), _) => return Ok(self.seat(seats)),
            (Arrival::Waits(ticket), Some(woken)) => (ticket, woken),
            (Arrival::Refused | Arrival::Waits(_), _) => return Err(self.reject(Rejected::QueueFull)),
        };
        self.metrics.waiting.inc();
        let waiting = Waiting { lane: self, ticket };
        let seat = timeout(self.wait, woken).await;
        drop(waiting);
        match seat {
            Ok(Ok(seat)) => Ok(seat),
            Ok(Err(_)) | Err(_) => Err(self.reject(Rejected::TimeOut)),
        }
    }

    fn seat(self: &Arc<Self>, seats: Seats) -> Seat {
        self.metrics.executing.inc();
        Seat { lane: self.clone(), seats: Some(seats) }
    }

    /// Wakes waiting requests. A request that has given up drops its seats, which wakes others.
    fn wake(self: &Arc<Self>, woken: Woken<oneshot::Sender<Seat>>) {
        for (wake, seats) in woken {
            let _ = wake.send(self.seat(seats));
        }
    }

    fn reject(&self, why: Rejected) -> Refusal {
        self.metrics.reject(why);
        Refusal::Overloaded
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(seats) = self.seats.take() else { return };
        self.lane.metrics.executing.dec();
        let woken = self.lane.queues().leave(seats);
        self.lane.wake(woken);
    }
}

/// A waiting request. Dropped when it gets its seats, times out, or its client disconnects.
struct Waiting<'a> {
    lane: &'a Arc<Lane>,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.lane.metrics.waiting.dec();
        let (_, woken) = self.lane.queues().give_up(&self.ticket);
        self.lane.wake(woken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, future::BoxFuture};

    const LONG: Duration = Duration::from_secs(3600);

    fn flow(seats: usize, wait: Duration) -> Flow {
        Flow::new(seats, seats, wait, &FlowCollectors::new().expect("valid names"))
    }

    /// Requests one seat when it is polled.
    fn ask<'a>(flow: &'a Flow, name: &str) -> BoxFuture<'a, Result<Option<Seat>, Refusal>> {
        let user = User::authenticated(name, &[]);
        async move { flow.admit(Level::Mutating, &user, 1).await }.boxed()
    }

    fn seated(answer: Option<Result<Option<Seat>, Refusal>>) -> Seat {
        answer.expect("at once").expect("admitted").expect("bounded")
    }

    #[tokio::test]
    async fn who_finds_no_seat_in_time_is_refused() {
        let flow = flow(1, Duration::from_millis(1));
        let held = seated(ask(&flow, "a").now_or_never());
        let refused = ask(&flow, "b").await;
        assert!(matches!(refused, Err(Refusal::Overloaded)), "{refused:?}");
        drop(held);
        seated(ask(&flow, "b").now_or_never());
    }

    #[tokio::test]
    async fn a_seat_goes_on_when_who_was_woken_is_gone() {
        let flow = flow(1, LONG);
        let held = seated(ask(&flow, "a").now_or_never());
        let (mut gone, mut next) = (ask(&flow, "b"), ask(&flow, "c"));
        assert!((&mut gone).now_or_never().is_none() && (&mut next).now_or_never().is_none());
        drop(held);
        drop(gone);
        seated(next.now_or_never());
    }

    #[tokio::test]
    async fn single_requests_pass_ten_thousand_of_another_user() {
        let flow = flow(4, LONG);
        let mut flood: Vec<_> = (0..10_000).map(|_| ask(&flow, "greedy")).collect();
        let (mut held, mut refused) = (Vec::new(), 0);
        for request in &mut flood {
            match request.now_or_never() {
                Some(Ok(seat)) => held.extend(seat),
                Some(Err(_)) => refused += 1,
                None => (),
            }
        }
        assert_eq!((held.len(), refused), (3, 10_000 - 3 - ROOM.per_user));
        let modest = seated(ask(&flow, "modest").now_or_never());
        let mut other = ask(&flow, "other");
        assert!((&mut other).now_or_never().is_none());
        held.pop();
        seated((&mut other).now_or_never());
        drop(modest);
    }

    #[tokio::test]
    async fn reads_and_writes_are_bounded_apart_and_some_not_at_all() {
        let bounded = flow(1, LONG);
        let user = User::authenticated("a", &[]);
        let _held = seated(ask(&bounded, "a").now_or_never());
        assert!(bounded.admit(Level::ReadOnly, &user, 1).await.expect("admitted").is_some());
        assert!(bounded.admit(Level::Exempt, &user, 1).await.expect("admitted").is_none());
        assert!(ask(&flow(0, LONG), "a").await.expect("admitted").is_none());
    }
}
