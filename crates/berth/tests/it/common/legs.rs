//! What is foretold of a ReplicaSet's size, held against what a real cluster shows.

use std::time::Duration;

/// Changes that are no further apart are one, where a machine may be busy.
pub(crate) const BURST: Duration = Duration::from_millis(300);

/// A part of what is foretold of a set's size: changes that follow each other closely.
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

    /// Whether a set that has these sizes one after the other goes this way. Pods that are foretold together may be seen one by one, so that it takes more
    /// steps, or fewer; it goes neither beyond what is foretold, nor back where only one direction is foretold.
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

/// Whether a set had these sizes as it was foretold. When they came says nothing of it: a busy machine is late with each pod by itself.
pub(crate) fn is_as_foretold(seen: &[i64], legs: &[Leg]) -> bool {
    let Some((leg, rest)) = legs.split_first() else { return seen.is_empty() };
    // Where one ends is not seen if the next one's way leads through the same size.
    (0..=seen.len()).any(|count| leg.is_gone_by(&seen[..count]) && is_as_foretold(&seen[count..], rest))
}
