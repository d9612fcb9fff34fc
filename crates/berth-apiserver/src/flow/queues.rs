//! Schedules waiting requests. Pure: the caller reports arrivals, departures and timeouts, and gets the requests that
//! may begin.
//!
//! A request takes one or more seats. Free seats go to the waiting user who holds the fewest, and among equals to the
//! one whose last turn is longest ago. A user with ten thousand requests and one with a single request therefore get
//! equal service. No user holds more than three quarters of the seats. No user takes a further seat beyond three quarters
//! of what the others leave. So requests that never end, even of several users, cannot block the others.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// The number of inactive users that are kept, so that a returning user costs no allocation.
const USERS_KEPT: usize = 1024;

/// The limits of waiting requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The limit per user.
    pub(super) per_user: usize,
    /// The limit for all users.
    pub(super) total: usize,
}

/// The seats of a request. Only [`Queues::leave`] frees them.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) struct Seats {
    user: Arc<str>,
    count: usize,
}

/// A position in a user's queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    user: Arc<str>,
    number: u64,
}

/// The result of an arrival.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The request may begin.
    Seated(Seats),
    /// The request waits. It may be among the requests that are woken at the same time.
    Waits(Ticket),
    /// The user, or all users together, have too many waiting requests.
    Refused,
}

/// The requests that may begin now, each with its waker.
pub(super) type Woken<W> = Vec<(W, Seats)>;

#[derive(Debug)]
struct Waiter<W> {
    number: u64,
    seats: usize,
    wake: W,
}

/// The state of one user.
#[derive(Debug)]
struct Line<W> {
    held: usize,
    /// When the user last got a seat, or began to wait.
    turn: u64,
    waiting: VecDeque<Waiter<W>>,
}

/// The seats and the waiting requests.
#[derive(Debug)]
pub(super) struct Queues<W> {
    seats: usize,
    seats_per_user: usize,
    taken: usize,
    room: Room,
    waiting: usize,
    users: BTreeMap<Arc<str>, Line<W>>,
    /// The users whose first waiting request is within their share, in scheduling order: seats held, turn, user.
    next: BTreeSet<(usize, u64, Arc<str>)>,
    clock: u64,
}

impl<W> Queues<W> {
    /// Creates this many seats (at least one), all free.
    pub(super) fn new(seats: usize, room: Room) -> Self {
        let seats = seats.max(1);
        let seats_per_user = (seats - seats / 4).max(1);
        Self { seats, seats_per_user, taken: 0, room, waiting: 0, users: BTreeMap::new(), next: BTreeSet::new(), clock: 0 }
    }

    /// Returns the number of waiting requests.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Handles the arrival of a request of `user`. Calls `wake` if the request must wait.
    pub(super) fn arrive(&mut self, user: &str, seats: usize, wake: impl FnOnce() -> W) -> (Arrival, Woken<W>) {
        let seats = seats.clamp(1, self.seats_per_user);
        let user = self.known(user);
        let line = &self.users[&user];
        let fits = line.held + seats <= self.seats_per_user && self.has_room(line.held, seats);
        if fits && line.waiting.is_empty() && !self.are_kept_for_next() {
            return (Arrival::Seated(self.seat(&user, seats)), Vec::new());
        }
        if self.room.per_user <= line.waiting.len() || self.room.total <= self.waiting {
            self.forget(&user);
            return (Arrival::Refused, Vec::new());
        }
        self.clock += 1;
        let number = self.clock;
        let waiter = Waiter { number, seats, wake: wake() };
        self.change(&user, |line| {
            if line.waiting.is_empty() {
                line.turn = number;
            }
            line.waiting.push_back(waiter);
        });
        self.waiting += 1;
        (Arrival::Waits(Ticket { user, number }), self.fill())
    }

    /// Frees seats.
    pub(super) fn leave(&mut self, seats: Seats) -> Woken<W> {
        let Seats { user, count } = seats;
        self.taken -= count;
        self.change(&user, |line| line.held -= count);
        self.forget(&user);
        self.fill()
    }

    /// Removes a waiting request. Returns whether it was still waiting. Requests behind it may begin.
    pub(super) fn give_up(&mut self, ticket: &Ticket) -> (bool, Woken<W>) {
        if !self.users.contains_key(&ticket.user) {
            return (false, Vec::new());
        }
        let gone = self.change(&ticket.user, |line| {
            let before = line.waiting.len();
            line.waiting.retain(|waiter| waiter.number != ticket.number);
            before - line.waiting.len()
        });
        self.waiting -= gone;
        self.forget(&ticket.user);
        (gone != 0, self.fill())
    }

    /// Returns the user's key, creating its state if necessary.
    fn known(&mut self, user: &str) -> Arc<str> {
        if let Some((known, _)) = self.users.get_key_value(user) {
            return known.clone();
        }
        let user: Arc<str> = user.into();
        self.users.insert(user.clone(), Line { held: 0, turn: 0, waiting: VecDeque::new() });
        user
    }

    /// Drops an inactive user if many are kept.
    fn forget(&mut self, user: &Arc<str>) {
        if USERS_KEPT < self.users.len() && self.users.get(user).is_some_and(|line| line.held == 0 && line.waiting.is_empty()) {
            self.users.remove(user);
        }
    }

    fn seat(&mut self, user: &Arc<str>, count: usize) -> Seats {
        self.clock += 1;
        let turn = self.clock;
        self.taken += count;
        self.change(user, |line| {
            line.held += count;
            line.turn = turn;
        });
        Seats { user: user.clone(), count }
    }

    /// Assigns free seats in scheduling order, until no request is left or the seats do not suffice. A later request
    /// never overtakes one that needs many seats.
    fn fill(&mut self) -> Woken<W> {
        let mut woken = Vec::new();
        while let Some((_, _, user)) = self.next.first() {
            let user = user.clone();
            let line = &self.users[&user];
            let needed = line.waiting.front().map_or(0, |waiter| waiter.seats);
            if !self.has_room(line.held, needed) {
                break;
            }
            let waiter = self.change(&user, |line| line.waiting.pop_front()).expect("who is next waits");
            self.waiting -= 1;
            woken.push((waiter.wake, self.seat(&user, waiter.seats)));
        }
        woken
    }

    /// Whether the free seats are reserved for the next user, whose request needs more of them. A request that waits
    /// for its own user's share reserves none.
    fn are_kept_for_next(&self) -> bool {
        let needed = self.next.first().and_then(|(_, _, user)| self.users[user].waiting.front()).map_or(0, |waiter| waiter.seats);
        self.seats - self.taken < needed
    }

    /// Whether the free seats suffice for a user who holds some. The first request of a user may take all of them, a
    /// further one may not.
    fn has_room(&self, held: usize, needed: usize) -> bool {
        let left_by_others = self.seats - (self.taken - held);
        let most = if held == 0 { left_by_others } else { left_by_others - left_by_others / 4 };
        held + needed <= most
    }

    /// Changes a user's state and its position in the scheduling order.
    fn change<T>(&mut self, user: &Arc<str>, change: impl FnOnce(&mut Line<W>) -> T) -> T {
        let most = self.seats_per_user;
        let is_next = |line: &Line<W>| line.waiting.front().is_some_and(|waiter| line.held + waiter.seats <= most);
        let line = self.users.get_mut(user).expect("each user that holds or wants a seat is known");
        let before = is_next(line).then_some((line.held, line.turn));
        let result = change(line);
        let after = is_next(line).then_some((line.held, line.turn));
        if before != after {
            before.map(|(held, turn)| self.next.remove(&(held, turn, user.clone())));
            after.map(|(held, turn)| self.next.insert((held, turn, user.clone())));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOM: Room = Room { per_user: 20, total: 50 };

    /// The queues with an independent record of held seats and waiting requests.
    struct QueueModel {
        queues: Queues<usize>,
        seated: BTreeMap<usize, Seats>,
        waiting: BTreeMap<usize, Ticket>,
        arrived: usize,
    }

    impl QueueModel {
        fn new(seats: usize) -> Self {
            Self { queues: Queues::new(seats, ROOM), seated: BTreeMap::new(), waiting: BTreeMap::new(), arrived: 0 }
        }

        /// Returns the request's number unless it was rejected.
        fn arrive(&mut self, user: &str, seats: usize) -> Option<usize> {
            self.arrived += 1;
            let number = self.arrived;
            let (arrival, woken) = self.queues.arrive(user, seats, || number);
            match arrival {
                Arrival::Seated(seats) => drop(self.seated.insert(number, seats)),
                Arrival::Waits(ticket) => drop(self.waiting.insert(number, ticket)),
                Arrival::Refused => return None,
            }
            self.wake(woken);
            Some(number)
        }

        fn leave(&mut self, number: usize) {
            let seats = self.seated.remove(&number).expect("it holds seats");
            let woken = self.queues.leave(seats);
            self.wake(woken);
        }

        fn give_up(&mut self, number: usize) {
            let ticket = self.waiting.remove(&number).expect("it waits");
            let (waited, woken) = self.queues.give_up(&ticket);
            assert!(waited, "no other request took its place");
            self.wake(woken);
        }

        fn wake(&mut self, woken: Woken<usize>) {
            for (number, seats) in woken {
                assert!(self.waiting.remove(&number).is_some(), "only who waits is woken, and once");
                self.seated.insert(number, seats);
            }
        }

        fn check(&self) {
            let held: usize = self.seated.values().map(|seats| seats.count).sum();
            assert_eq!((self.queues.taken, self.queues.waiting), (held, self.waiting.len()));
            assert!(held <= self.queues.seats);
            for user in ["a", "b", "c", "d"] {
                let held: usize = self.seated.values().filter(|seats| &*seats.user == user).map(|seats| seats.count).sum();
                let waiting = self.waiting.values().filter(|ticket| &*ticket.user == user).count();
                assert!(held <= self.queues.seats_per_user && waiting <= ROOM.per_user, "{user}: {held} {waiting}");
            }
        }

        /// Checks that no waiting request could begin: first in its user's queue, within the user's share, with enough
        /// free seats.
        fn check_no_request_forgotten(&self) {
            let Some((_, _, user)) = self.queues.next.first() else {
                for line in self.queues.users.values() {
                    let first = line.waiting.front().map(|waiter| line.held + waiter.seats);
                    assert!(first.is_none_or(|wanted| self.queues.seats_per_user < wanted));
                }
                return;
            };
            let line = &self.queues.users[user];
            assert!(!self.queues.has_room(line.held, line.waiting[0].seats));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive(usize, usize),
        Leave(usize),
        GiveUp(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0..4_usize, 0..12_usize).prop_map(|(user, seats)| Step::Arrive(user, seats)),
            2 => (0..1000_usize).prop_map(Step::Leave),
            1 => (0..1000_usize).prop_map(Step::GiveUp),
        ];
        proptest::collection::vec(step, 1..300)
    }

    proptest! {
        #[test]
        fn never_more_than_the_seats_and_no_request_is_lost(seats in 1..30_usize, steps in steps()) {
            let mut model = QueueModel::new(seats);
            for step in steps {
                match step {
                    Step::Arrive(user, seats) => drop(model.arrive(["a", "b", "c", "d"][user], seats)),
                    Step::Leave(which) => {
                        let seated: Vec<usize> = model.seated.keys().copied().collect();
                        if !seated.is_empty() {
                            model.leave(seated[which % seated.len()]);
                        }
                    }
                    Step::GiveUp(which) => {
                        let waiting: Vec<usize> = model.waiting.keys().copied().collect();
                        if !waiting.is_empty() {
                            model.give_up(waiting[which % waiting.len()]);
                        }
                    }
                }
                model.check();
                model.check_no_request_forgotten();
            }
            while let Some(number) = model.seated.keys().next().copied() {
                model.leave(number);
                model.check();
            }
            prop_assert_eq!((model.queues.taken, model.waiting.len()), (0, 0));
        }
    }

    #[test]
    fn a_flood_leaves_the_next_free_seat_to_the_others() {
        let mut model = QueueModel::new(8);
        let flood: Vec<usize> = (0..100).filter_map(|_| model.arrive("a", 1)).collect();
        assert_eq!((model.seated.len(), model.waiting.len(), flood.len()), (6, 20, 26));
        let first = model.arrive("b", 1).expect("there is room");
        assert!(model.seated.contains_key(&first), "a quarter of the seats is not for one user");
        model.arrive("c", 1).expect("there is room");
        let last = model.arrive("d", 1).expect("there is room");
        assert!(model.waiting.contains_key(&last));
        model.leave(flood[0]);
        assert!(model.seated.contains_key(&last), "before the twenty that waited longer");
    }

    #[test]
    fn floods_of_several_users_leave_seats_to_the_others() {
        let mut model = QueueModel::new(400);
        let mut held_by = |user| {
            let before = model.seated.len();
            (0..400).for_each(|_| _ = model.arrive(user, 1));
            model.seated.len() - before
        };
        assert_eq!(["a", "b", "c"].map(&mut held_by), [300, 75, 19]);
        assert_eq!(held_by("d"), 5);
    }

    #[test]
    fn users_take_turns() {
        let mut model = QueueModel::new(1);
        let holder = model.arrive("d", 1).expect("there is room");
        let of = |model: &mut QueueModel, user| (0..3).map(|_| model.arrive(user, 1).expect("there is room")).collect::<Vec<_>>();
        let (a, b) = (of(&mut model, "a"), of(&mut model, "b"));
        let mut order = Vec::new();
        let mut seated = holder;
        for _ in 0..6 {
            model.leave(seated);
            seated = *model.seated.keys().next().expect("a request is next");
            order.push(seated);
        }
        assert_eq!(order, [a[0], b[0], a[1], b[1], a[2], b[2]]);
    }

    #[test]
    fn a_request_for_many_seats_is_not_overtaken() {
        let mut model = QueueModel::new(8);
        let held: Vec<usize> = ["a", "a", "a", "b", "b", "b"].iter().filter_map(|user| model.arrive(user, 1)).collect();
        let large = model.arrive("c", 6).expect("there is room");
        let small = model.arrive("d", 1).expect("there is room");
        for number in &held[..4] {
            assert!(model.waiting.contains_key(&large) && model.waiting.contains_key(&small));
            model.leave(*number);
        }
        assert!(model.seated.contains_key(&large) && model.waiting.contains_key(&small));
    }

    #[test]
    fn who_asks_for_more_than_there_is_gets_all_that_one_may_hold() {
        let mut model = QueueModel::new(4);
        let greedy = model.arrive("a", 1000).expect("there is room");
        assert_eq!(model.seated[&greedy].count, 3);
        assert_eq!(QueueModel::new(1).arrive("a", 10), Some(1));
    }

    #[test]
    fn users_without_requests_are_not_kept_indefinitely() {
        let mut model = QueueModel::new(4);
        for number in 0..3 * USERS_KEPT {
            let request = model.arrive(&number.to_string(), 1).expect("there is room");
            model.leave(request);
        }
        assert!(model.queues.users.len() <= USERS_KEPT + 1);
    }
}
