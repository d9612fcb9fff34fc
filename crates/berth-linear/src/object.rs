//! One object's operations as a problem for the search, and which of them suffice to show that there is no order.

use crate::{
    Effort, Fault, Freshness, Key, Operation, Outcome, Preconditions, Reason, Request, ResourceVersion,
    bounds::{Bound, Bounds},
    facts::{Facts, Timeline, Transition},
    search::{Answer, Move, Only, Problem, Step, StepKind, What, solve},
    snapshots::{Quiet, Silence},
    text::anomaly,
};
use std::collections::BTreeSet;

/// How often the search is asked while the part that shows it is sought.
const ASKED_MAX: usize = 400;
/// Versions that are shown in addition to the operations that prove it.
const CONTEXT_MAX: usize = 8;

/// Why the operations on an object cannot be put in order, if they cannot.
pub(crate) fn fault(facts: &Facts<'_>, key: &Key, silence: &Silence, bounds: &[Bounds], effort: Effort) -> Option<Fault> {
    let case = Case::new(facts, &facts.keys[key], silence, bounds);
    let all: BTreeSet<Part> = case.parts().into_iter().collect();
    let problem = case.problem(&all);
    // What is the only way to go is not counted as work.
    let allowed = effort.tries_per_key.saturating_add(16 * (problem.moves.len() + problem.steps.len()));
    let mut tries = allowed;
    match solve(&problem, &mut tries) {
        Answer::Ordered => None,
        Answer::TooHard => Some(Fault::TooHard { key: key.clone(), tries: allowed }),
        Answer::Impossible => Some(case.explain(facts, key, allowed)),
    }
}

/// One object's operations, and what else is known of it.
struct Case<'a> {
    moves: Vec<(Move<'a>, Bounds)>,
    transitions: Vec<Step<'a>>,
    /// Versions at which it was absent, and the operations that show it.
    absent: Vec<(u64, usize)>,
    quiet: Vec<Quiet>,
}

/// Something that can be left out without making anything impossible that was possible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// A move; one that is left out may have been at any time.
    Move(usize),
    /// That it is after what others had seen.
    Low(usize),
    /// That it is before what others did.
    High(usize),
    Absent(usize),
    Quiet(usize),
}

impl<'a> Case<'a> {
    fn new(facts: &Facts<'a>, timeline: &Timeline<'a>, silence: &Silence, bounds: &[Bounds]) -> Self {
        let moves = timeline.operations.iter().filter_map(|at| Some((move_of(facts, *at)?, bounds[*at]))).collect();
        let transition = |(version, known): (&ResourceVersion, &Transition<'a>)| {
            let what = match known.value {
                Some(_) => StepKind::Write { uid: known.uid },
                None => StepKind::Deletion { uid: known.uid, is_claimed: known.by.is_some() },
            };
            Step { version: version.0, what }
        };
        let transitions = timeline.transitions.iter().map(transition).collect();
        let absent = silence.absent_at.iter().map(|(version, by)| (*version, *by)).collect();
        Self { moves, transitions, absent, quiet: silence.quiet.clone() }
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (at, (one, _)) in self.moves.iter().enumerate().filter(|(_, (one, _))| one.is_required) {
            // In the order of time: what belongs together is left out together.
            parts.extend([Part::Move(at), Part::Low(at), Part::High(at)].map(|part| (one.from, part)));
        }
        parts.extend(self.absent.iter().enumerate().map(|(at, (version, _))| (*version, Part::Absent(at))));
        parts.extend(self.quiet.iter().enumerate().map(|(at, quiet)| (quiet.after, Part::Quiet(at))));
        parts.sort();
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// With these parts only.
    fn problem(&self, kept: &BTreeSet<Part>) -> Problem<'a> {
        let bounded = |(at, (one, bounds)): (usize, &(Move<'a>, Bounds))| {
            if one.is_required && !kept.contains(&Part::Move(at)) {
                return anytime(*one);
            }
            let low = if !one.is_required || kept.contains(&Part::Low(at)) { bounds.low.version } else { 0 };
            let high = if !one.is_required || kept.contains(&Part::High(at)) { bounds.high.version } else { u64::MAX };
            Some(Move { low, high, ..*one })
        };
        let mut moves: Vec<_> = self.moves.iter().enumerate().filter_map(bounded).collect();
        moves.sort_by_key(|one| one.from);
        let absent = self.absent.iter().enumerate().filter(|(at, _)| kept.contains(&Part::Absent(*at)));
        let absent = absent.map(|(_, (version, _))| Step { version: *version, what: StepKind::NotThere });
        let mut steps: Vec<_> = self.transitions.iter().copied().chain(absent).collect();
        steps.sort_by_key(|step| (step.version, matches!(step.what, StepKind::NotThere)));
        let quiet = self.quiet.iter().enumerate().filter(|(at, _)| kept.contains(&Part::Quiet(*at)));
        Problem { moves, steps, quiet: joined(quiet.map(|(_, quiet)| (quiet.after, quiet.through)).collect()) }
    }

    /// The least part that shows that there is no order.
    fn explain(&self, facts: &Facts<'a>, key: &Key, mut tries: usize) -> Fault {
        let mut asked = 0;
        let mut is_impossible = |kept: &[Part]| {
            asked += 1;
            asked <= ASKED_MAX && solve(&self.problem(&kept.iter().copied().collect()), &mut tries) == Answer::Impossible
        };
        let mut kept = self.parts();
        let of_this_object: Vec<_> = kept.iter().copied().filter(|part| !matches!(part, Part::Low(_) | Part::High(_))).collect();
        if is_impossible(&of_this_object) {
            kept = of_this_object;
        }
        let mut piece = kept.len();
        while 1 < piece {
            piece = piece.div_ceil(2);
            let mut at = 0;
            while at < kept.len() {
                let rest: Vec<_> = kept.iter().take(at).chain(kept.iter().skip(at + piece)).copied().collect();
                if is_impossible(&rest) {
                    kept = rest;
                } else {
                    at += piece;
                }
            }
        }
        anomaly(facts.history, &format!("{key}: no order explains these"), &self.report(facts, key, &kept))
    }

    fn report(&self, facts: &Facts<'_>, key: &Key, kept: &[Part]) -> Vec<(usize, String)> {
        let of_other = |bound: Bound, own: usize| bound.by.filter(|by| *by != own);
        let mut shown = Vec::new();
        for part in kept {
            match *part {
                Part::Move(at) => shown.push((self.moves[at].0.operation, String::new())),
                Part::Low(at) => {
                    let (one, Bounds { low, .. }) = self.moves[at];
                    shown.extend(of_other(low, one.operation).map(|by| (by, format!("version {} was seen here", low.version))));
                }
                Part::High(at) => {
                    let (one, Bounds { high, .. }) = self.moves[at];
                    shown.extend(
                        of_other(high, one.operation).map(|by| (by, format!("what returned before is no later than {}", high.version))),
                    );
                }
                Part::Absent(at) => {
                    let (version, by) = self.absent[at];
                    shown.push((by, format!("does not show it at {version}")));
                }
                Part::Quiet(at) => {
                    let Quiet { after, through, by } = self.quiet[at];
                    shown.push((by, format!("leaves no room for what it does not show between {after} and {through}")));
                }
            }
        }
        // The writes that these mention.
        let told: BTreeSet<usize> = shown.iter().map(|(operation, _)| *operation).collect();
        let versions: BTreeSet<u64> = told.iter().flat_map(|at| mentioned(&facts.history[*at], key)).collect();
        let transitions = &facts.keys[key].transitions;
        let writes = versions.iter().filter_map(|version| transitions.get(&ResourceVersion(*version))?.by);
        shown.extend(writes.filter(|by| !told.contains(by)).take(CONTEXT_MAX).map(|by| (by, String::new())));
        shown
    }
}

/// The move without anything that is known of it but that it may have been; `None` where it changes nothing.
fn anytime(one: Move<'_>) -> Option<Move<'_>> {
    let free = Move { from: 0, to: u64::MAX, low: 0, high: u64::MAX, ..one };
    match one.what {
        What::Create { version: Some(version) }
        | What::Update { version: Some(version), .. }
        | What::Delete { version: Some(version), .. }
        | What::Somehow { version } => Some(Move { what: What::Somehow { version }, ..free }),
        What::Delete { version: None, .. } => {
            Some(Move { what: What::Delete { version: None, uid: None, only: Only::default() }, is_required: false, ..free })
        }
        What::Create { version: None } | What::Update { version: None, .. } => Some(Move { is_required: false, ..free }),
        What::Found(_) | What::Absent | What::Present | What::Other(_) => None,
    }
}

/// What an operation does to its object, and its answer. `None` where it proves nothing, or nothing beyond the version that it shows.
fn move_of<'a>(facts: &Facts<'a>, at: usize) -> Option<Move<'a>> {
    let operation = &facts.history[at];
    let version = facts.versions.get(&at).map(|version| version.0);
    let (mut from, mut to) = (operation.invoked.0, operation.returned.0);
    let mut is_required = true;
    if operation.request.is_unknown_write() {
        to = u64::MAX;
        is_required = !facts.is_unseen(at);
    }
    let what = match &operation.request {
        Request::Get { freshness: Freshness::MostRecent, outcome: Outcome::Ok(object), .. } => What::Found(object.resource_version.0),
        Request::Get { freshness, outcome: Outcome::Refused(Reason::NotFound), .. } => {
            if *freshness != Freshness::MostRecent {
                from = 0;
            }
            What::Absent
        }
        Request::Create { outcome: Outcome::Refused(Reason::AlreadyExists), .. } => What::Present,
        Request::Create { outcome: Outcome::Ok(_) | Outcome::Unknown, .. } => What::Create { version },
        Request::Update { preconditions, outcome: Outcome::Ok(_) | Outcome::Unknown, .. } => {
            What::Update { version, only: only(preconditions) }
        }
        Request::Delete { preconditions, outcome: Outcome::Ok(deleted), .. } => {
            What::Delete { version, uid: deleted.uid.as_ref(), only: only(preconditions) }
        }
        Request::Delete { preconditions, outcome: Outcome::Unknown, .. } => What::Delete { version, uid: None, only: only(preconditions) },
        Request::Update { outcome: Outcome::Refused(Reason::NotFound), .. }
        | Request::Delete { outcome: Outcome::Refused(Reason::NotFound), .. } => What::Absent,
        Request::Update { preconditions, outcome: Outcome::Refused(Reason::Conflict), .. }
        | Request::Delete { preconditions, outcome: Outcome::Refused(Reason::Conflict), .. }
            if *preconditions != Preconditions::default() =>
        {
            What::Other(only(preconditions))
        }
        _ => return None,
    };
    Some(Move { operation: at, from, to, low: 0, high: u64::MAX, is_required, what })
}

fn only(preconditions: &Preconditions) -> Only<'_> {
    Only { version: preconditions.resource_version.map(|version| version.0), uid: preconditions.uid.as_ref() }
}

/// Ranges behind the one and up to the other, in order and without overlaps.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (after, through) in ranges {
        match joined.last_mut() {
            Some(last) if after <= last.1 => last.1 = last.1.max(through),
            _ => joined.push((after, through)),
        }
    }
    joined
}

/// The versions of the object that an operation's line speaks of.
fn mentioned(operation: &Operation, key: &Key) -> Vec<u64> {
    let of = |preconditions: &Preconditions| preconditions.resource_version.map(|version| version.0);
    match &operation.request {
        Request::Get { outcome: Outcome::Ok(object), .. } => vec![object.resource_version.0],
        Request::Update { preconditions, .. } | Request::Delete { preconditions, .. } => of(preconditions).into_iter().collect(),
        Request::List { outcome: Outcome::Ok(listed), .. } => {
            listed.items.iter().filter(|item| item.key == *key).map(|item| item.object.resource_version.0).collect()
        }
        _ => Vec::new(),
    }
}
