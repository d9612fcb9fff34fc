//! Sets of completion indexes, in the form of `status.completedIndexes`: `0,2-4,7`.

use std::{collections::BTreeSet, fmt, ops::RangeInclusive};

/// A set of completion indexes. It takes space for its gaps, not for its indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(
    /// In order, with a gap between each two.
    Vec<RangeInclusive<u32>>,
);

impl Indexes {
    /// Reads a list as statuses and success policies have it. Ignores intervals that are not valid, and indexes from `end` on.
    ///
    /// Source: kubernetes `pkg/controller/job/indexed_job_utils.go`, `parseIndexesFromString`.
    #[must_use]
    pub fn parse(text: &str, end: u32) -> Self {
        let intervals = text.split(',').filter_map(|interval| {
            let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            (first < end && first <= last).then(|| first..=last.min(end - 1))
        });
        Self::of_intervals(intervals.collect())
    }

    /// The union of intervals in any order.
    fn of_intervals(mut intervals: Vec<RangeInclusive<u32>>) -> Self {
        intervals.sort_unstable_by_key(|interval| *interval.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged.last_mut() {
                Some(last) if *interval.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(interval.end());
                }
                _ => merged.push(interval),
            }
        }
        Self(merged)
    }

    /// Whether the index is in the set.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|interval| *interval.end() < index);
        self.0.get(at).is_some_and(|interval| *interval.start() <= index)
    }

    /// How many indexes there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|interval| interval.end() - interval.start() + 1).sum()
    }

    /// Whether there is no index.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::of_intervals(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// How many indexes are in both sets.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> u32 {
        let in_both = |a: &RangeInclusive<u32>, b: &RangeInclusive<u32>| {
            let (first, last) = (*a.start().max(b.start()), *a.end().min(b.end()));
            (last + 1).saturating_sub(first)
        };
        let mut count = 0;
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (mine.peek(), others.peek()) {
            count += in_both(a, b);
            if a.end() < b.end() {
                mine.next();
            } else {
                others.next();
            }
        }
        count
    }

    /// The indexes below `end` that are not in the set, lowest first.
    pub fn missing(&self, end: u32) -> impl Iterator<Item = u32> {
        let starts = self.0.iter().map(|interval| *interval.start()).chain([end]);
        let ends = [0].into_iter().chain(self.0.iter().map(|interval| interval.end() + 1));
        ends.zip(starts).flat_map(move |(first, next)| first..next.min(end))
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        let sorted: BTreeSet<u32> = indexes.into_iter().collect();
        Self::of_intervals(sorted.into_iter().map(|index| index..=index).collect())
    }
}

/// `0,2-4,7`; two neighbors are `5,6`.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for interval in &self.0 {
            let (first, last) = (interval.start(), interval.end());
            write!(f, "{separator}{first}")?;
            match last - first {
                0 => (),
                1 => write!(f, ",{last}")?,
                _ => write!(f, "-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn indexes_are_written_as_upstream_writes_them() {
        let check = |indexes: &[u32], text: &str| assert_eq!(indexes.iter().copied().collect::<Indexes>().to_string(), text);
        check(&[], "");
        check(&[3], "3");
        check(&[1, 0], "0,1");
        check(&[2, 0, 1], "0-2");
        check(&[1, 3, 4, 5, 7], "1,3-5,7");
        check(&[0, 1, 3, 4, 6, 7, 8], "0,1,3,4,6-8");
    }

    #[test]
    fn indexes_beyond_the_completions_and_broken_intervals_are_ignored() {
        let check = |text: &str, end: u32, indexes: &[u32]| {
            let read = Indexes::parse(text, end);
            assert_eq!(read, indexes.iter().copied().collect(), "{text:?} below {end}");
        };
        check("", 5, &[]);
        check("0-2,4", 10, &[0, 1, 2, 4]);
        check("0-7", 3, &[0, 1, 2]);
        check("5,6-7", 5, &[]);
        check("0,1,2", 3, &[0, 1, 2]);
        check("x,1,2-y,4-3,-5", 9, &[1]);
        check("0-3", 0, &[]);
    }

    proptest! {
        #[test]
        fn a_set_of_intervals_is_a_set_of_indexes(
            one in proptest::collection::btree_set(0_u32..24, 0..16),
            other in proptest::collection::btree_set(0_u32..24, 0..16),
            end in 0_u32..26,
        ) {
            let (a, b) = (one.iter().copied().collect::<Indexes>(), other.iter().copied().collect::<Indexes>());
            prop_assert_eq!(Indexes::parse(&a.to_string(), 24), a.clone());
            prop_assert_eq!((a.len() as usize, a.is_empty()), (one.len(), one.is_empty()));
            prop_assert_eq!(a.union(&b), one.union(&other).copied().collect());
            prop_assert_eq!(a.overlap(&b) as usize, one.intersection(&other).count());
            prop_assert!((0..26).all(|index| a.contains(index) == one.contains(&index)));
            let missing: Vec<u32> = (0..end).filter(|index| !one.contains(index)).collect();
            prop_assert_eq!(a.missing(end).collect::<Vec<_>>(), missing);
        }
    }
}
