//! Whether the operations on one object can be put in order.
//!
//! The search of Wing and Gong as Lowe made it fast ("Testing for linearizability", 2017), one object at a time (Horn and Kroening, "Faster
//! linearizability checking via P-compositionality", 2015). It takes any operation that no other must precede, checks that the object can give its
//! answer now, and continues. It returns where that leads nowhere, and remembers such states. Versions leave a single choice for most of it: known
//! writes are in their order, so only deletions and unknown writes that no client saw leave a choice.

use crate::{Uid, facts::agree};
use std::{cmp::max, collections::BTreeSet};

/// The operations on one object, and what is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem<'a> {
    /// In order of their `from`.
    pub(crate) moves: Vec<Move<'a>>,
    /// What is known to happen, in the order of versions.
    pub(crate) steps: Vec<Step<'a>>,
    /// Behind the one version, up to the other, there is nothing but the steps. In order, without overlaps.
    pub(crate) quiet: Vec<(u64, u64)>,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<'a> {
    /// Its operation, for reports.
    pub(crate) operation: usize,
    /// In real time.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// In the order of versions.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// It took place. Otherwise it may have.
    pub(crate) is_required: bool,
    pub(crate) what: What<'a>,
}

/// What an operation does, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What<'a> {
    /// It makes the object, if it is not there. A version that is known is that of a step.
    Create { version: Option<u64> },
    /// It changes the object, if it is there and as it should be.
    Update { version: Option<u64>, only: Only<'a> },
    /// It removes the object, if it is there and as it should be.
    Delete { version: Option<u64>, uid: Option<&'a Uid>, only: Only<'a> },
    /// In some way the object reached the state of this version's step.
    Somehow { version: u64 },
    /// It saw this version.
    Found(u64),
    /// It saw none.
    Absent,
    /// It saw that there is one.
    Present,
    /// It saw one that is not as it should be.
    Other(Only<'a>),
}

/// What must hold of an object that is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Only<'a> {
    pub(crate) version: Option<u64>,
    pub(crate) uid: Option<&'a Uid>,
}

/// Something that is known to happen to an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    /// When.
    pub(crate) version: u64,
    pub(crate) what: StepKind<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StepKind<'a> {
    /// It was written.
    Write { uid: Option<&'a Uid> },
    /// It went; and whether it is known by whom.
    Deletion { uid: Option<&'a Uid>, is_claimed: bool },
    /// It was not there, at the end of this version.
    NotThere,
}

/// What a search ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There is an order.
    Ordered,
    /// There is none.
    Impossible,
    /// It is unknown.
    TooHard,
}

/// How far the order has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct OrderState<'a> {
    object: Option<Held<'a>>,
    /// The version that has been reached.
    floor: u64,
    /// The steps that have been made.
    steps: usize,
}

/// The object as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held<'a> {
    /// `None`: one that no client saw.
    version: Option<u64>,
    uid: Option<&'a Uid>,
}

/// A way to go on.
#[derive(Clone, Copy)]
struct Choice<'a> {
    rank: u8,
    taken: Taken,
    then: OrderState<'a>,
}

#[derive(Clone, Copy)]
enum Taken {
    Required(usize),
    Optional(usize),
    /// Only a step was made.
    Nothing,
}

/// A place to come back to.
struct BacktrackPoint<'a> {
    /// Reads that were taken on arrival: a read that can be answered now may be, since it changes nothing.
    reads: Vec<usize>,
    choices: Vec<Choice<'a>>,
    next: usize,
}

/// What led nowhere: the operations that could be next, those of unknown outcome that had been taken, and the state.
type Seen<'a> = (Vec<usize>, Vec<usize>, OrderState<'a>);

struct Search<'p, 'a> {
    problem: &'p Problem<'a>,
    /// The moves that took place, as a list from which one can be taken and put back; the last place is its end and beginning.
    required: Vec<&'p Move<'a>>,
    after: Vec<usize>,
    before: Vec<usize>,
    optional: Vec<&'p Move<'a>>,
    is_taken: Vec<bool>,
}

/// Puts the operations in order, if it can within so many tries, which are taken off.
pub(crate) fn solve(problem: &Problem<'_>, tries: &mut usize) -> Answer {
    let (required, optional): (Vec<_>, Vec<_>) = problem.moves.iter().partition(|one| one.is_required);
    let end = required.len();
    let after = (1..=end).chain([0]).collect();
    let before = [end].into_iter().chain(0..end).collect();
    let is_taken = vec![false; optional.len()];
    Search { problem, required, after, before, optional, is_taken }.run(tries)
}

impl<'a> Search<'_, 'a> {
    fn run(mut self, tries: &mut usize) -> Answer {
        let mut nowhere: BTreeSet<Seen<'a>> = BTreeSet::new();
        let mut points: Vec<BacktrackPoint<'a>> = Vec::new();
        let mut state = OrderState::default();
        loop {
            let reads = self.take_reads(state, tries);
            if self.is_done(state) {
                return Answer::Ordered;
            }
            if *tries == 0 {
                return Answer::TooHard;
            }
            let mut choices = self.choices(state);
            *tries = tries.saturating_sub(1 + choices.len());
            if 1 < choices.len() {
                let taken = (0..self.optional.len()).filter(|at| self.is_taken[*at]).collect();
                if !nowhere.insert((self.candidates().0, taken, state)) {
                    choices.clear();
                }
            }
            points.push(BacktrackPoint { reads, choices, next: 0 });
            // Back to the last place with a choice left.
            loop {
                let Some(place) = points.last_mut() else { return Answer::Impossible };
                if 0 < place.next {
                    let left = place.choices[place.next - 1].taken;
                    self.put_back(left);
                }
                if let Some(choice) = place.choices.get(place.next).copied() {
                    place.next += 1;
                    self.take(choice.taken);
                    state = choice.then;
                    break;
                }
                let place = points.pop().expect("it was there");
                for read in place.reads.into_iter().rev() {
                    self.put_back(Taken::Required(read));
                }
            }
        }
    }

    fn is_done(&self, state: OrderState<'a>) -> bool {
        let end = self.required.len();
        self.after[end] == end && state.steps == self.problem.steps.len()
    }

    /// The required moves that no other must precede, and the end of the first of them to return.
    fn candidates(&self) -> (Vec<usize>, u64) {
        let end = self.required.len();
        let (mut found, mut first_return) = (Vec::new(), u64::MAX);
        let mut at = self.after[end];
        while at != end && self.required[at].from <= first_return {
            found.push(at);
            first_return = first_return.min(self.required[at].to);
            at = self.after[at];
        }
        (found, first_return)
    }

    /// Takes the reads that can be answered as things are, and those that this makes possible.
    fn take_reads(&mut self, state: OrderState<'a>, tries: &mut usize) -> Vec<usize> {
        let mut taken = Vec::new();
        loop {
            let (candidates, _) = self.candidates();
            let can_be_read = |at: &usize| {
                let one = self.required[*at];
                one.low <= state.floor && state.floor <= one.high && state.answers(one.what)
            };
            let reads: Vec<usize> = candidates.into_iter().filter(can_be_read).collect();
            if reads.is_empty() {
                return taken;
            }
            *tries = tries.saturating_sub(reads.len());
            for read in reads {
                self.take(Taken::Required(read));
                taken.push(read);
            }
        }
    }

    /// All ways to go on; none if some operation has lost its place.
    fn choices(&self, state: OrderState<'a>) -> Vec<Choice<'a>> {
        let (candidates, first_return) = self.candidates();
        if candidates.iter().any(|at| state.is_too_late_for(self.required[*at])) {
            return Vec::new();
        }
        let mut choices = Vec::new();
        let mut add = |rank, taken, then: Option<OrderState<'a>>| choices.extend(then.map(|then| Choice { rank, taken, then }));
        for at in candidates {
            let one = self.required[at];
            add(0, Taken::Required(at), self.read_later(state, one));
            add(1, Taken::Required(at), self.known(state, one));
            add(3, Taken::Required(at), self.unseen(state, one));
        }
        add(2, Taken::Nothing, self.pass(state));
        let mut tried = BTreeSet::new();
        for (at, one) in self.optional.iter().enumerate() {
            // Of equal operations, the first is as good as any: it may be wherever a later one may be.
            if !self.is_taken[at] && one.from <= first_return && tried.insert(one.what) {
                add(4, Taken::Optional(at), self.known(state, one));
                add(5, Taken::Optional(at), self.unseen(state, one));
            }
        }
        choices.sort_by_key(|choice| choice.rank);
        choices
    }

    fn next_step(&self, state: OrderState<'a>) -> Option<&Step<'a>> {
        self.problem.steps.get(state.steps)
    }

    /// A read that was answered with the present state, but is further on.
    fn read_later(&self, state: OrderState<'a>, one: &Move<'a>) -> Option<OrderState<'a>> {
        let there = one.low <= one.high && state.floor < one.low && state.answers(one.what) && self.reaches(state, one.low);
        there.then_some(OrderState { floor: one.low, ..state })
    }

    /// Whether nothing that is known happens before this version is reached.
    fn reaches(&self, state: OrderState<'a>, version: u64) -> bool {
        self.next_step(state).is_none_or(|step| match step.what {
            StepKind::NotThere => version <= step.version,
            StepKind::Write { .. } | StepKind::Deletion { .. } => version < step.version,
        })
    }

    /// A write that is the next step.
    fn known(&self, state: OrderState<'a>, one: &Move<'a>) -> Option<OrderState<'a>> {
        let step = self.next_step(state)?;
        if one.high < step.version {
            return None;
        }
        let is_this = |version: Option<u64>| version == Some(step.version);
        let object = match (one.what, step.what, state.object) {
            (What::Create { version }, StepKind::Write { uid }, None) if is_this(version) => Some(Held { version, uid }),
            (What::Update { version, only }, StepKind::Write { uid }, Some(held))
                if is_this(version) && held.may_be(only) && agree(held.uid, uid) =>
            {
                Some(Held { version, uid: uid.or(held.uid) })
            }
            (What::Delete { version, uid, only }, StepKind::Deletion { uid: gone, is_claimed }, Some(held))
                if (is_this(version) || version.is_none() && !is_claimed && one.low < step.version)
                    && held.may_be(only)
                    && agree(held.uid, uid)
                    && agree(held.uid, gone)
                    && agree(uid, gone) =>
            {
                None
            }
            (What::Somehow { version }, StepKind::Write { uid }, _) if version == step.version => {
                Some(Held { version: Some(version), uid })
            }
            (What::Somehow { version }, StepKind::Deletion { .. }, _) if version == step.version => None,
            _ => return None,
        };
        Some(OrderState { object, floor: step.version, steps: state.steps + 1 })
    }

    /// A write that no client saw: it has a version of its own, before the next step.
    fn unseen(&self, state: OrderState<'a>, one: &Move<'a>) -> Option<OrderState<'a>> {
        let object = match (one.what, state.object) {
            (What::Create { version: None }, None) => Some(Held { version: None, uid: None }),
            // A second one after it would change nothing visible.
            (What::Update { version: None, only }, Some(held)) if held.may_be(only) && held.version.is_some() => {
                Some(Held { version: None, ..held })
            }
            (What::Delete { version: None, uid, only }, Some(held)) if held.may_be(only) && agree(held.uid, uid) => None,
            _ => return None,
        };
        let version = self.next_unquiet(max(state.floor, one.low).saturating_add(1));
        (version <= one.high && self.reaches(state, version)).then_some(OrderState { object, floor: version, ..state })
    }

    /// That it was not there, if it is not.
    fn pass(&self, state: OrderState<'a>) -> Option<OrderState<'a>> {
        let step = self.next_step(state)?;
        let is_right = matches!(step.what, StepKind::NotThere) && state.object.is_none();
        is_right.then(|| OrderState { floor: max(state.floor, step.version), steps: state.steps + 1, ..state })
    }

    /// This version, or the next at which an unseen change is possible.
    fn next_unquiet(&self, version: u64) -> u64 {
        let at = self.problem.quiet.partition_point(|(_, through)| *through < version);
        match self.problem.quiet.get(at) {
            Some((after, through)) if *after < version => through.saturating_add(1),
            _ => version,
        }
    }

    fn take(&mut self, taken: Taken) {
        match taken {
            Taken::Required(at) => {
                let (before, after) = (self.before[at], self.after[at]);
                self.after[before] = after;
                self.before[after] = before;
            }
            Taken::Optional(at) => self.is_taken[at] = true,
            Taken::Nothing => (),
        }
    }

    /// Undoes the last that was taken and not put back.
    fn put_back(&mut self, taken: Taken) {
        match taken {
            Taken::Required(at) => {
                let (before, after) = (self.before[at], self.after[at]);
                self.after[before] = at;
                self.before[after] = at;
            }
            Taken::Optional(at) => self.is_taken[at] = false,
            Taken::Nothing => (),
        }
    }
}

impl<'a> OrderState<'a> {
    /// Whether a read now would see this.
    fn answers(&self, what: What<'a>) -> bool {
        match what {
            What::Found(version) => self.object.is_some_and(|held| held.version == Some(version)),
            What::Absent => self.object.is_none(),
            What::Present => self.object.is_some(),
            What::Other(only) => self.object.is_some_and(|held| held.may_not_be(only)),
            What::Create { .. } | What::Update { .. } | What::Delete { .. } | What::Somehow { .. } => false,
        }
    }

    /// Whether it can have no place any more.
    fn is_too_late_for(&self, one: &Move<'a>) -> bool {
        let is_past = matches!(one.what, What::Found(version) if version <= self.floor && !self.answers(one.what));
        is_past || one.high < self.floor
    }
}

impl<'a> Held<'a> {
    fn may_be(&self, only: Only<'a>) -> bool {
        only.version.is_none_or(|version| self.version == Some(version)) && agree(self.uid, only.uid)
    }

    fn may_not_be(&self, only: Only<'a>) -> bool {
        let is_another = only.uid.is_some_and(|uid| self.uid != Some(uid));
        is_another || only.version.is_some_and(|version| self.version != Some(version))
    }
}
