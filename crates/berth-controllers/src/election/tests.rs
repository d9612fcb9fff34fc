//! Elections in virtual time: their steps, and several candidates over a server that is slow, loses answers and executes requests late.

use super::*;
use proptest::prelude::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The wall clock is only for users and does not matter here.
const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn record(holder: &str, transitions: i32) -> Record {
    Record { holder: holder.to_owned(), lease_duration: seconds(15), acquire_time: WALL, renew_time: WALL, transitions }
}

/// Each renewal time makes a different version of the lease.
fn renewed(holder: &str, transitions: i32, second: i64) -> Record {
    Record { renew_time: Timestamp::from_second(second).expect("a time"), ..record(holder, transitions) }
}

fn claim(election: &mut Election, now: Elapsed) -> Claim {
    match election.next(now, WALL, 0.0) {
        Move::Write(claim) => claim,
        other => panic!("{other:?} at {now:?}"),
    }
}

/// A leader since `now`.
fn leader(now: Elapsed) -> Election {
    let mut election = Election::new("a".to_owned(), Timing::default());
    election.read(None, now);
    let first = claim(&mut election, now);
    election.written(first, Outcome::Written(Revision(1)), now, now);
    election
}

#[test]
fn the_first_makes_the_lease_and_renews_it() {
    let mut election = Election::new("a".to_owned(), Timing::default());
    assert_eq!(election.next(seconds(100), WALL, 0.0), Move::Read);
    election.read(None, seconds(100));
    let first = claim(&mut election, seconds(100));
    assert_eq!(first, Claim { record: record("a", 0), over: None });
    assert_eq!(election.acts_until(), None, "not before it is written");
    election.written(first, Outcome::Written(Revision(7)), seconds(100), seconds(103));
    assert_eq!(election.acts_until(), Some(seconds(110)), "counted from before the write");
    assert_eq!(election.next(seconds(104), WALL, 0.0), Move::Wait(seconds(105)));
    let next = claim(&mut election, seconds(105));
    assert_eq!(next, Claim { record: record("a", 0), over: Some(Revision(7)) }, "without reading it again");
    election.written(next, Outcome::Written(Revision(8)), seconds(105), seconds(105));
    assert_eq!(election.acts_until(), Some(seconds(115)));
}

#[test]
fn a_lease_is_taken_over_when_nothing_of_it_has_changed_for_as_long_as_it_holds() {
    let mut election = Election::new("b".to_owned(), Timing::default());
    election.read(Some((renewed("a", 3, 1), Revision(5))), seconds(100));
    assert_eq!(election.next(seconds(100), WALL, 1.0), Move::Wait(Duration::from_millis(102_400)), "1.2 times the period at most");
    election.read(Some((renewed("a", 3, 2), Revision(6))), seconds(103));
    assert_eq!(election.next(seconds(103), WALL, 0.0), Move::Wait(seconds(105)));
    election.read(Some((renewed("a", 3, 2), Revision(6))), seconds(117));
    assert_eq!(election.next(seconds(117), WALL, 0.0), Move::Wait(seconds(118)), "it was seen to be renewed at 103");
    election.read(Some((renewed("a", 3, 2), Revision(6))), seconds(118));
    let taken = claim(&mut election, seconds(118));
    assert_eq!(taken, Claim { record: record("b", 4), over: Some(Revision(6)) });
}

/// The worst moment: the leader is killed right after a renewal, which came right after the other candidate's read.
#[test]
fn the_next_leads_within_a_lease_and_a_pause_of_a_kill() {
    for chance in [0.0, 0.3, 1.0] {
        let (mut election, killed) = (Election::new("b".to_owned(), Timing::default()), seconds(100));
        election.read(Some((renewed("a", 0, 1), Revision(1))), killed);
        let mut now = killed;
        loop {
            match election.next(now, WALL, chance) {
                Move::Wait(until) => now = until,
                Move::Read => election.read(Some((renewed("a", 0, 2), Revision(2))), now),
                Move::Write(_) => break,
                Move::Stop => panic!("it never led"),
            }
        }
        assert!(now <= killed + seconds(15) + Duration::from_millis(2_400), "{now:?} with {chance}");
    }
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut a = leader(seconds(100));
    let released = a.release(WALL).expect("it is held");
    assert_eq!((released.record.holder.as_str(), released.record.transitions, released.over), ("", 0, Some(Revision(1))));
    assert_eq!((a.next(seconds(101), WALL, 0.0), a.acts_until(), a.release(WALL)), (Move::Stop, None, None));
    let mut b = Election::new("b".to_owned(), Timing::default());
    b.read(Some((released.record, Revision(2))), seconds(500));
    assert_eq!(claim(&mut b, seconds(500)).record, record("b", 1));
}

#[test]
fn a_holder_that_does_not_renew_is_gone_and_one_that_does_so_twice_lives() {
    let feel = |pulse: &mut Pulse, lease: &Record, now| pulse.feel(Some(lease), Timing::default(), seconds(now));
    let mut pulse = Pulse::default();
    assert_eq!(pulse.feel(None, Timing::default(), seconds(100)), Sign::Gone, "there is none");
    assert_eq!(feel(&mut pulse, &record("", 4), 100), Sign::Gone, "it was released");
    assert_eq!(feel(&mut pulse, &renewed("a", 3, 1), 100), Sign::None);
    assert_eq!(feel(&mut pulse, &renewed("a", 3, 1), 102), Sign::None);
    assert_eq!(feel(&mut pulse, &renewed("a", 3, 1), 103), Sign::Gone);
    // A late request of a killed holder.
    assert_eq!(feel(&mut pulse, &renewed("a", 3, 2), 103), Sign::None);
    assert_eq!(feel(&mut pulse, &renewed("a", 3, 2), 105), Sign::None);
    assert_eq!(feel(&mut pulse, &renewed("a", 3, 3), 105), Sign::Lives);
    assert_eq!(feel(&mut pulse, &renewed("b", 4, 4), 106), Sign::None, "of this one nothing is known");
    assert_eq!(feel(&mut pulse, &renewed("b", 4, 5), 107), Sign::None);
    assert_eq!(feel(&mut pulse, &renewed("b", 4, 5), 110), Sign::Gone);
}

#[test]
fn a_leader_that_cannot_renew_stops_before_another_may_begin() {
    let mut election = leader(seconds(100));
    let next = claim(&mut election, seconds(102));
    election.written(next, Outcome::Unknown, seconds(102), seconds(106));
    assert_eq!(election.next(seconds(107), WALL, 0.0), Move::Wait(seconds(108)));
    assert_eq!(election.next(seconds(108), WALL, 0.0), Move::Read);
    election.unread(seconds(109));
    assert_eq!(election.next(seconds(109), WALL, 0.0), Move::Wait(seconds(110)), "not beyond its end");
    assert_eq!(election.next(seconds(110), WALL, 0.0), Move::Stop);
    election.read(Some((record("a", 0), Revision(2))), seconds(111));
    assert_eq!(election.next(seconds(120), WALL, 0.0), Move::Stop, "for good");
}

#[test]
fn who_sees_anothers_name_on_its_lease_stops_at_once() {
    let mut election = leader(seconds(100));
    let next = claim(&mut election, seconds(102));
    election.written(next, Outcome::Raced, seconds(102), seconds(102));
    assert_eq!(election.next(seconds(102), WALL, 0.0), Move::Read, "at once");
    election.read(Some((record("b", 1), Revision(2))), seconds(102));
    assert_eq!((election.next(seconds(102), WALL, 0.0), election.acts_until()), (Move::Stop, None));
}

#[test]
fn a_lease_that_another_client_changed_or_deleted_stays_with_its_holder() {
    let mut election = leader(seconds(100));
    let next = claim(&mut election, seconds(102));
    election.written(next, Outcome::Raced, seconds(102), seconds(102));
    election.read(Some((record("a", 0), Revision(9))), seconds(102));
    assert_eq!(claim(&mut election, seconds(102)).over, Some(Revision(9)));
    let mut taken = Election::new("b".to_owned(), Timing::default());
    taken.read(Some((record("", 4), Revision(1))), seconds(1));
    let first = claim(&mut taken, seconds(1));
    taken.written(first, Outcome::Written(Revision(2)), seconds(1), seconds(1));
    let next = claim(&mut taken, seconds(3));
    taken.written(next, Outcome::Raced, seconds(3), seconds(3));
    taken.read(None, seconds(3));
    assert_eq!(claim(&mut taken, seconds(3)), Claim { record: record("b", 5), over: None }, "it does not count from zero again");
}

#[test]
fn what_one_wrote_without_an_answer_is_known_again() {
    let mut election = Election::new("a".to_owned(), Timing::default());
    election.read(None, seconds(1));
    let first = claim(&mut election, seconds(1));
    election.written(first, Outcome::Unknown, seconds(1), seconds(2));
    assert_eq!(election.acts_until(), None, "it may not be done");
    election.read(Some((record("a", 0), Revision(3))), seconds(4));
    assert_eq!(election.acts_until(), Some(seconds(11)), "counted from before it was written");
    assert_eq!(claim(&mut election, seconds(4)), Claim { record: record("a", 0), over: Some(Revision(3)) }, "and renewed at once");
}

#[test]
fn a_leader_goes_on_from_a_renewal_without_an_answer_that_was_done() {
    let later = |second| Timestamp::new(second, 1_999).expect("a time");
    let renew = |election: &mut Election, second| match election.next(seconds(second), later(second.try_into().expect("small")), 0.0) {
        Move::Write(claim) => claim,
        other => panic!("{other:?} at {second}"),
    };
    let mut election = leader(seconds(100));
    let renewal = renew(&mut election, 102);
    assert_eq!(renewal.record.renew_time, Timestamp::new(102, 1_000).expect("a time"), "as it is read again");
    election.written(renewal.clone(), Outcome::Unknown, seconds(102), seconds(106));
    assert_eq!(election.acts_until(), Some(seconds(110)), "it may not be done");
    election.read(Some((renewal.record, Revision(2))), seconds(108));
    assert_eq!(election.acts_until(), Some(seconds(112)));

    // The lease before the write.
    let second = renew(&mut election, 108);
    election.written(second.clone(), Outcome::Unknown, seconds(108), seconds(109));
    election.read(Some((renewed("a", 0, 102), Revision(2))), seconds(111));
    assert_eq!(election.acts_until(), Some(seconds(112)), "it was not done yet");
    // Two equal writes while the wall clock does not advance: the first one may have succeeded.
    let third = renew(&mut election, 111);
    election.written(Claim { record: second.record.clone(), ..third }, Outcome::Unknown, seconds(111), seconds(111));
    election.read(Some((second.record, Revision(3))), seconds(111));
    assert_eq!(election.acts_until(), Some(seconds(118)));
}

#[test]
fn what_was_written_too_long_ago_is_only_claimed() {
    let mut election = Election::new("a".to_owned(), Timing::default());
    election.read(None, seconds(1));
    let first = claim(&mut election, seconds(1));
    election.written(first, Outcome::Unknown, seconds(1), seconds(11));
    election.read(Some((record("a", 0), Revision(3))), seconds(13));
    assert_eq!(election.acts_until(), None, "others may lead by then");
    assert_eq!(claim(&mut election, seconds(13)).over, Some(Revision(3)));
}

#[test]
fn times_with_which_it_would_not_work_are_refused() {
    let check = |lease, deadline, retry| Timing::new(lease, deadline, retry).err();
    assert_eq!(check(seconds(15), seconds(10), seconds(2)), None);
    assert_eq!(check(seconds(10), seconds(10), seconds(2)), Some(BadTiming::Lease));
    assert_eq!(check(Duration::from_millis(10_900), seconds(10), seconds(2)), Some(BadTiming::Lease), "what is written is whole seconds");
    assert_eq!(check(seconds(15), Duration::from_millis(2_400), seconds(2)), Some(BadTiming::Deadline));
    assert_eq!(check(seconds(15), seconds(10), Duration::ZERO), Some(BadTiming::Nothing));
}

/// A server with one lease, and the requests and answers in transit.
#[derive(Default)]
struct Network {
    lease: Option<(Record, Revision)>,
    newest: u64,
    requests: Vec<Request>,
}

struct Request {
    of: usize,
    number: u64,
    /// `None` for a read.
    what: Option<Claim>,
    served_at: Elapsed,
    /// `None` if no answer arrives.
    answered_at: Option<Elapsed>,
    answer: Option<Answer>,
}

#[derive(Clone)]
enum Answer {
    Lease(Option<(Record, Revision)>),
    Outcome(Outcome),
}

impl Network {
    /// Executes the requests that have arrived.
    fn serve(&mut self, now: Elapsed) {
        self.requests.sort_by_key(|request| request.served_at);
        for at in 0..self.requests.len() {
            if self.requests[at].served_at <= now && self.requests[at].answer.is_none() {
                let answer = match self.requests[at].what.clone() {
                    None => Answer::Lease(self.lease.clone()),
                    Some(claim) => Answer::Outcome(self.write(&claim)),
                };
                self.requests[at].answer = Some(answer);
            }
        }
        let is_over = |request: &Request| request.answer.is_some() && request.answered_at.is_none_or(|at| at + seconds(1) < now);
        self.requests.retain(|request| !is_over(request));
    }

    fn write(&mut self, claim: &Claim) -> Outcome {
        if self.lease.as_ref().map(|(_, revision)| *revision) != claim.over {
            return Outcome::Raced;
        }
        self.newest += 1;
        self.lease = Some((claim.record.clone(), Revision(self.newest)));
        Outcome::Written(Revision(self.newest))
    }

    /// The answer to this request, if it has arrived.
    fn answer(&self, of: usize, number: u64, now: Elapsed) -> Option<Answer> {
        let request = self.requests.iter().find(|request| (request.of, request.number) == (of, number))?;
        request.answer.clone().filter(|_| request.answered_at.is_some_and(|at| at <= now))
    }
}

/// One of the candidates.
struct Candidate {
    index: usize,
    election: Election,
    waits: Waits,
    asked: u64,
}

enum Waits {
    Until(Elapsed),
    Answer { what: Option<Claim>, began: Elapsed },
}

/// The random parameters of one request, in milliseconds.
#[derive(Clone, Debug)]
struct Delivery {
    to_server: u64,
    from_server: u64,
    is_lost: bool,
    chance: f64,
}

const GOOD: Delivery = Delivery { to_server: 50, from_server: 50, is_lost: false, chance: 0.5 };

fn deliveries() -> impl Strategy<Value = Vec<Delivery>> {
    let slow = || prop_oneof![6 => 0..200_u64, 2 => 0..4_000_u64, 1 => 0..30_000_u64];
    let delivery = (slow(), slow(), prop::bool::weighted(0.1), 0.0..1.0_f64);
    let delivery = delivery.prop_map(|(to_server, from_server, is_lost, chance)| Delivery { to_server, from_server, is_lost, chance });
    prop::collection::vec(delivery, 20..120)
}

impl Candidate {
    fn new(index: usize) -> Self {
        Self { index, election: Election::new(format!("{index}"), Timing::default()), waits: Waits::Until(Elapsed::ZERO), asked: 0 }
    }

    /// Executes the next step at `now`.
    fn step(&mut self, network: &mut Network, now: Elapsed, deliveries: &mut impl Iterator<Item = Delivery>) {
        match &self.waits {
            Waits::Until(at) if now < *at => return,
            Waits::Until(_) => (),
            Waits::Answer { what, began } => match (network.answer(self.index, self.asked, now), what.clone()) {
                (Some(Answer::Outcome(outcome)), Some(claim)) => self.election.written(claim, outcome, *began, now),
                (Some(Answer::Lease(lease)), _) => self.election.read(lease, now),
                // The candidate waits no longer for an answer.
                (_, claim) if *began + Timing::default().renew_deadline() <= now => match claim {
                    Some(claim) => self.election.written(claim, Outcome::Unknown, *began, now),
                    None => self.election.unread(now),
                },
                _ => return,
            },
        }
        let wall = Timestamp::UNIX_EPOCH + jiff::SignedDuration::try_from(now).expect("a short time");
        let delivery = deliveries.next().unwrap_or(GOOD);
        let what = match self.election.next(now, wall, delivery.chance) {
            Move::Wait(at) => {
                self.waits = Waits::Until(at);
                return;
            }
            // A restarted process takes its place.
            Move::Stop => {
                self.election = Election::new(format!("{}-{}", self.index, now.as_millis()), Timing::default());
                self.waits = Waits::Until(now);
                return;
            }
            Move::Read => None,
            Move::Write(claim) => Some(claim),
        };
        self.asked += 1;
        let served_at = now + Duration::from_millis(delivery.to_server);
        let answered_at = (!delivery.is_lost).then(|| served_at + Duration::from_millis(delivery.from_server));
        network.requests.push(Request { of: self.index, number: self.asked, what: what.clone(), served_at, answered_at, answer: None });
        self.waits = Waits::Answer { what, began: now };
    }

    fn acts(&self, now: Elapsed) -> bool {
        self.election.acts_until().is_some_and(|until| now < until)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// No two candidates act at once, with any fault of the network and after the death of any candidate. After the network recovers, one acts.
    #[test]
    fn two_never_act_at_once_and_one_does_in_the_end(deliveries in deliveries(), deaths in prop::collection::vec(1..120_u64, 2)) {
        let mut deliveries = deliveries.into_iter();
        let mut network = Network::default();
        let mut candidates: Vec<_> = (0..3).map(Candidate::new).collect();
        let mut now = Elapsed::ZERO;
        let mut end = None;
        while end.is_none_or(|end| now < end) {
            now += Duration::from_millis(50);
            network.serve(now);
            for candidate in &mut candidates {
                // Requests of dead candidates may still be executed.
                if candidate.index == 2 || now < seconds(deaths[candidate.index]) {
                    candidate.step(&mut network, now, &mut deliveries);
                }
            }
            let acting: Vec<_> = candidates.iter().filter(|candidate| candidate.acts(now)).map(|candidate| candidate.index).collect();
            prop_assert!(acting.len() <= 1, "{acting:?} act at {now:?}");
            if deliveries.len() == 0 && end.is_none() {
                end = Some(now.max(seconds(120)) + seconds(120));
            }
        }
        prop_assert!(candidates[2].acts(now), "it is the only one that lives");
    }
}
