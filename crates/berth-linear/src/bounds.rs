//! Between which versions each operation must be because of real time.
//!
//! An operation that returned before another was invoked is before it. So whatever version an answer has shown, later operations are after it. What
//! returned before is no later than anything that an answer shows to be no later. Two sweeps over all operations of all objects, forward and backward
//! in time.

use crate::{
    Freshness, Key, Outcome, Preconditions, Reason, Request, ResourceVersion,
    facts::{Facts, Transition},
    text::{Faults, anomaly},
};
use std::cmp::{max, min};

/// Where an operation may be in the order. Versions of writes are positions. A read is at a position, or between that and the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Not before this.
    pub(crate) low: Bound,
    /// Not after this.
    pub(crate) high: Bound,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Bound {
    pub(crate) version: u64,
    /// The operation that it is due to.
    pub(crate) by: Option<usize>,
}

impl Point<'_> {
    fn is_write(&self) -> bool {
        matches!(self.kind, Kind::Write)
    }
}

const NO_LOW: Bound = Bound { version: 0, by: None };
const NO_HIGH: Bound = Bound { version: u64::MAX, by: None };

/// Something at one position in the order: an operation, or the observation of a version by a watcher.
struct Point<'a> {
    operation: usize,
    /// Real time: from when on, and until when. What need not be new begins at 0, what has no known end ends never.
    from: u64,
    to: u64,
    bounds: Bounds,
    kind: Kind<'a>,
}

/// What is at the position.
#[derive(Clone, Copy)]
enum Kind<'a> {
    /// No other is at its position.
    Write,
    Read,
    /// It saw no version, but something of this object.
    Sight(&'a Key, Sight),
}

/// What can be seen of an object without its version.
#[derive(Clone, Copy)]
enum Sight {
    Absent,
    Present,
    /// There, but at another version.
    NotAt(ResourceVersion),
}

impl Sight {
    fn fits(self, held: Option<ResourceVersion>) -> bool {
        match self {
            Self::Absent => held.is_none(),
            Self::Present => held.is_some(),
            Self::NotAt(version) => held.is_some_and(|held| held != version),
        }
    }
}

/// The bounds of each operation, and every operation for which there is no place.
pub(crate) fn bounds<'a>(facts: &Facts<'a>, faults: &mut Faults<'a>) -> Vec<Bounds> {
    let mut points: Vec<Point<'_>> = (0..facts.history.len()).flat_map(|at| points_of(facts, at)).collect();
    raise(&mut points, facts, faults);
    lower(&mut points);
    let mut bounds = vec![Bounds { low: NO_LOW, high: NO_HIGH }; facts.history.len()];
    for point in points {
        bounds[point.operation] = point.bounds;
    }
    bounds
}

fn points_of<'a>(facts: &Facts<'a>, at: usize) -> Vec<Point<'a>> {
    let operation = &facts.history[at];
    let own = |version: ResourceVersion| Bound { version: version.0, by: Some(at) };
    let point = |low, high| Point {
        operation: at,
        from: operation.invoked.0,
        to: operation.returned.0,
        bounds: Bounds { low, high },
        kind: Kind::Read,
    };
    let write = |known: Option<&ResourceVersion>, is_unknown: bool| Point {
        to: if is_unknown { u64::MAX } else { operation.returned.0 },
        kind: Kind::Write,
        ..known.map_or_else(|| point(NO_LOW, NO_HIGH), |version| point(own(*version), own(*version)))
    };
    let sight = |key, sight| Point { kind: Kind::Sight(key, sight), ..point(NO_LOW, NO_HIGH) };
    let fresh = |freshness: Freshness, point: Point<'a>| match freshness {
        Freshness::MostRecent => point,
        Freshness::NotOlderThan(version) => {
            Point { from: 0, bounds: Bounds { low: max(point.bounds.low, own(version)), ..point.bounds }, ..point }
        }
        Freshness::Any | Freshness::Exact(_) => Point { from: 0, ..point },
    };
    match &operation.request {
        Request::Create { .. } | Request::Update { .. } | Request::Delete { .. } if operation.request.refusal().is_none() => {
            vec![write(facts.versions.get(&at), operation.request.is_unknown_write())]
        }
        Request::Get { outcome: Outcome::Unknown, .. } | Request::List { outcome: Outcome::Unknown | Outcome::Refused(_), .. } => {
            Vec::new()
        }
        Request::Get { key, freshness, outcome: Outcome::Ok(object) } => {
            vec![fresh(*freshness, point(own(object.resource_version), until_next(facts, key, object.resource_version)))]
        }
        Request::Get { key, freshness, outcome: Outcome::Refused(Reason::NotFound) } => {
            vec![fresh(*freshness, sight(key, Sight::Absent))]
        }
        Request::Update { key, outcome: Outcome::Refused(Reason::NotFound), .. }
        | Request::Delete { key, outcome: Outcome::Refused(Reason::NotFound), .. } => vec![sight(key, Sight::Absent)],
        Request::Create { key, outcome: Outcome::Refused(Reason::AlreadyExists), .. } => vec![sight(key, Sight::Present)],
        Request::Update { key, preconditions, outcome: Outcome::Refused(Reason::Conflict), .. }
        | Request::Delete { key, preconditions, outcome: Outcome::Refused(Reason::Conflict), .. } => match preconditions {
            Preconditions { resource_version: Some(version), uid: None } => vec![sight(key, Sight::NotAt(*version))],
            _ => vec![point(NO_LOW, NO_HIGH)],
        },
        Request::Get { freshness, .. } => vec![fresh(*freshness, point(NO_LOW, NO_HIGH))],
        Request::Create { .. } | Request::Update { .. } | Request::Delete { .. } => vec![point(NO_LOW, NO_HIGH)],
        Request::List { freshness, outcome: Outcome::Ok(listed), .. } => {
            vec![fresh(*freshness, point(own(listed.resource_version), own(listed.resource_version)))]
        }
        Request::Watch { events, .. } => {
            let seen = |low: ResourceVersion, to: u64| Point { from: 0, to, ..point(own(low), NO_HIGH) };
            events.iter().map(|event| seen(event.event.version(), event.seen.0)).collect()
        }
    }
}

/// The last place at which an object was still at this version.
fn until_next(facts: &Facts<'_>, key: &Key, version: ResourceVersion) -> Bound {
    let later = ResourceVersion(version.0.saturating_add(1))..;
    let next = facts.keys.get(key).and_then(|timeline| timeline.transitions.range(later).next());
    next.map_or(NO_HIGH, |(next, transition)| Bound { version: next.0 - 1, by: Some(transition.by.unwrap_or(transition.shown_by)) })
}

/// Forth in time: what was seen before something is invoked is not undone.
fn raise<'a>(points: &mut [Point<'_>], facts: &Facts<'a>, faults: &mut Faults<'a>) {
    let begins = sorted(points, |point| point.from);
    let mut ends = sorted(points, |point| point.to).into_iter().peekable();
    let mut floor = NO_LOW;
    for begin in begins {
        while let Some(end) = ends.next_if(|end| points[*end].to < points[begin].from) {
            floor = max(floor, points[end].bounds.low);
        }
        let Bounds { low, high } = points[begin].bounds;
        let low = max(low, floor);
        let is_too_late = if points[begin].is_write() { high.version <= floor.version } else { high.version < low.version };
        if is_too_late {
            report(&points[begin], low, facts, faults);
            // Nothing else is to be blamed for it.
            points[begin].bounds.high = NO_HIGH;
        } else {
            points[begin].bounds.low = first_place(facts, points[begin].kind, low);
        }
    }
}

/// The first place from there on at which a read could be answered so, if all changes are known.
fn first_place(facts: &Facts<'_>, kind: Kind<'_>, from: Bound) -> Bound {
    let Kind::Sight(key, sight) = kind else { return from };
    let timeline = &facts.keys[key];
    let version = ResourceVersion(from.version);
    let fits = |change: (&ResourceVersion, &Transition<'_>)| sight.fits(change.1.value.map(|_| *change.0));
    let last = timeline.transitions.range(..=version).next_back();
    if !facts.are_complete(timeline) || last.map_or(sight.fits(None), fits) {
        return from;
    }
    let turn = timeline.transitions.range(version..).find(|change| fits(*change));
    turn.map_or(from, |(at, turn)| Bound { version: at.0, by: Some(turn.by.unwrap_or(turn.shown_by)) })
}

/// Backward in time: what returned before something was invoked is before it.
fn lower(points: &mut [Point<'_>]) {
    let ends = sorted(points, |point| u64::MAX - point.to);
    let mut begins = sorted(points, |point| u64::MAX - point.from).into_iter().peekable();
    let mut ceiling = NO_HIGH;
    for end in ends {
        while let Some(begin) = begins.next_if(|begin| points[end].to < points[*begin].from) {
            let high = points[begin].bounds.high;
            let before = if points[begin].is_write() { Bound { version: high.version.saturating_sub(1), ..high } } else { high };
            ceiling = min(ceiling, before);
        }
        points[end].bounds.high = min(points[end].bounds.high, ceiling);
    }
}

fn sorted(points: &[Point<'_>], by: impl Fn(&Point<'_>) -> u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|at| by(&points[*at]));
    order
}

fn report<'a>(late: &Point<'_>, floor: Bound, facts: &Facts<'a>, faults: &mut Faults<'a>) {
    let history = facts.history;
    let operation = &history[late.operation];
    let high = late.bounds.high;
    let before = floor.by.map(|by| (by, format!("version {} was seen here", floor.version)));
    // For a read: the writer of the next version.
    let next = high.by.filter(|by| *by != late.operation).map(|by| (by, format!("at {} it was no longer so", high.version + 1)));
    let shown: Vec<_> = before.into_iter().chain(next).chain([(late.operation, "older, but asked later".to_owned())]).collect();
    match operation.request.key() {
        Some(key) if late.is_write() => {
            let headline = format!("{key}: a write got version {}, though {} had been seen before it began", high.version, floor.version);
            faults.of_key(key, anomaly(history, &headline, &shown));
        }
        Some(key) => faults.of_key(key, anomaly(history, &format!("{key}: a stale read"), &shown)),
        None => {
            let headline = format!("a stale list: as of {}, though {} had been seen before it began", high.version, floor.version);
            faults.of_operation(late.operation, anomaly(history, &headline, &shown));
        }
    }
}
