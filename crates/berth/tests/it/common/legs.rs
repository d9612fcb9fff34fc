//! Compares the forecast sizes of a ReplicaSet with those in a real cluster.

use std::time::Duration;

/// Changes within this time count as one, because the machine may be busy.
pub(crate) const BURST: Duration = Duration::from_millis(300);

/// A part of the forecast sizes of a ReplicaSet: changes in quick succession.
pub(crate) struct Leg {
    /// The time of the first change.
    pub(crate) begins: Duration,
    from: i64,
    sizes: Vec<i64>,
}

impl Leg {
    pub(crate) fn end(&self) -> i64 {
        self.sizes.last().copied().unwrap_or(self.from)
    }

    /// Whether the part ends at its initial size, so that a watch may show nothing of it.
    pub(crate) fn leads_back(&self) -> bool {
        self.end() == self.from
    }

    /// Whether this sequence of sizes matches the part. A watch can show pods of one forecast change one by one, so there can be more
    /// steps, or fewer. The size must not exceed the forecast, nor reverse where the forecast has only one direction.
    pub(crate) fn is_gone_by(&self, seen: &[i64]) -> bool {
        let expected = || std::iter::once(self.from).chain(self.sizes.iter().copied());
        let way = || std::iter::once(self.from).chain(seen.iter().copied());
        let (lowest, highest) = (expected().min(), expected().max());
        way().last() == Some(self.end())
            && way().all(|size| lowest <= Some(size) && Some(size) <= highest)
            && (!expected().is_sorted() || way().is_sorted())
            && (!expected().is_sorted_by(|a, b| a >= b) || way().is_sorted_by(|a, b| a >= b))
    }
}

/// The parts of a set's forecast sizes, which start at `first`. Changes within `within` count as one.
pub(crate) fn legs(changes: &[(Duration, i64)], first: i64, within: Duration) -> Vec<Leg> {
    let (mut legs, mut from) = (Vec::new(), first);
    for burst in changes.chunk_by(|(at, _), (next, _)| *next <= *at + within) {
        let leg = Leg { begins: burst[0].0, from, sizes: burst.iter().map(|(_, size)| *size).collect() };
        from = leg.end();
        legs.push(leg);
    }
    legs
}

/// Whether a set had the forecast sizes. Ignores their times, because a busy machine delays each pod separately.
pub(crate) fn is_as_forecast(seen: &[i64], legs: &[Leg]) -> bool {
    let Some((leg, rest)) = legs.split_first() else { return seen.is_empty() };
    // The end of a part is invisible if the next part passes through the same size.
    (0..=seen.len()).any(|count| leg.is_gone_by(&seen[..count]) && is_as_forecast(&seen[count..], rest))
}
