//! Compares the forecast sizes of a ReplicaSet with those in a real cluster.

use std::time::Duration;

/// Changes that are no further apart are one, where a machine may be busy.
pub(crate) const BURST: Duration = Duration::from_millis(300);

/// A part of the forecast sizes of a set: changes that follow each other closely.
pub(crate) struct Leg {
    /// When the first of them comes.
    pub(crate) begins: Duration,
    from: i64,
    sizes: Vec<i64>,
}

impl Leg {
    pub(crate) fn end(&self) -> i64 {
        self.sizes.last().copied().unwrap_or(self.from)
    }

    /// Whether it leads back to where it begins, so that perhaps nothing is seen of it.
    pub(crate) fn leads_back(&self) -> bool {
        self.end() == self.from
    }

    /// Whether a set with this sequence of sizes follows this part. Pods of one forecast change may be seen one by one, so there can be more steps, or
    /// fewer. The size must not exceed the forecast, nor reverse where only one direction is forecast.
    pub(crate) fn is_gone_by(&self, seen: &[i64]) -> bool {
        let foretold = || std::iter::once(self.from).chain(self.sizes.iter().copied());
        let way = || std::iter::once(self.from).chain(seen.iter().copied());
        let (lowest, highest) = (foretold().min(), foretold().max());
        way().last() == Some(self.end())
            && way().all(|size| lowest <= Some(size) && Some(size) <= highest)
            && (!foretold().is_sorted() || way().is_sorted())
            && (!foretold().is_sorted_by(|a, b| a >= b) || way().is_sorted_by(|a, b| a >= b))
    }
}

/// The legs of a set that has this size `first`: changes no further apart than `within` are one.
pub(crate) fn legs(changes: &[(Duration, i64)], first: i64, within: Duration) -> Vec<Leg> {
    let (mut legs, mut from) = (Vec::new(), first);
    for burst in changes.chunk_by(|(at, _), (next, _)| *next <= *at + within) {
        let leg = Leg { begins: burst[0].0, from, sizes: burst.iter().map(|(_, size)| *size).collect() };
        from = leg.end();
        legs.push(leg);
    }
    legs
}

/// Whether a set had the forecast sizes. Their times do not matter: a busy machine is late with each pod separately.
pub(crate) fn is_as_forecast(seen: &[i64], legs: &[Leg]) -> bool {
    let Some((leg, rest)) = legs.split_first() else { return seen.is_empty() };
    // Where one ends is not seen if the next one's way leads through the same size.
    (0..=seen.len()).any(|count| leg.is_gone_by(&seen[..count]) && is_as_forecast(&seen[count..], rest))
}
