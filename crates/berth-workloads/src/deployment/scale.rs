//! Distributes a Deployment's new size over its ReplicaSets at once, in proportion to their sizes.

use super::limits::Size;
use crate::rounding;

/// What scaling reads and writes of one ReplicaSet: its size and the three annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// `spec.replicas`.
    pub size: i64,
    /// Annotation `desired-replicas`; `None` if it is absent or not a number.
    pub desired: Option<i64>,
    /// Annotation `max-replicas`.
    pub max: Option<i64>,
    /// Annotation `replicaset-replicas-before-scale`.
    pub before: Option<i64>,
}

impl Scale {
    /// This set at its final size, with no growth pending.
    #[must_use]
    pub fn finished(self, replicas: i64, size: Size) -> Self {
        Self { size: replicas, desired: Some(size.desired), max: Some(size.max()), before: None }
    }

    /// The size from which its share is computed.
    #[must_use]
    pub fn base(self) -> i64 {
        self.before.unwrap_or(self.size)
    }

    /// The proportional size: the set's base, times the Deployment's present maximum, divided by its former maximum. `status_replicas` (of
    /// the Deployment) replaces an unknown former maximum. If that is 0 too, the size does not change.
    #[must_use]
    pub fn share(self, size: Size, status_replicas: i64) -> i64 {
        let before = self.max.filter(|max| *max > 0).unwrap_or(status_replicas);
        match (size.desired, before) {
            (0, _) => 0,
            (_, ..=0) => self.size,
            (_, before) => rounding::scale(self.base(), size.max(), before),
        }
    }
}

/// Sizes after proportional scaling that ignores terminating pods. `sets` contains the active sets, oldest first.
///
/// Each set gets its share while pods remain. The largest set gets the pods from rounding. Every set ends finished.
///
/// Deviation from upstream: no set shrinks while others grow, or vice versa. So the total is never higher than before and after.
#[must_use]
pub fn proportional(sets: &[Scale], size: Size, status_replicas: i64) -> Vec<Scale> {
    // Where nothing is distributed, not even a share from before an unfinished scaling applies.
    let sets: Vec<_> = sets.iter().map(|set| Scale { before: None, ..*set }).collect();
    let to_add = to_add(&sets, size);
    spread(&sets, size, to_add, |set| set.share(size, status_replicas) - set.size)
}

/// Sizes after scaling down, from the sizes before an unfinished scaling. No set grows.
#[must_use]
pub fn shrink(sets: &[Scale], size: Size, status_replicas: i64) -> Vec<Scale> {
    spread(sets, size, to_add(sets, size).min(0), |set| set.share(size, status_replicas) - set.size)
}

/// How many pods the active sets lack in total; negative if they have too many.
#[must_use]
pub fn to_add(sets: &[Scale], size: Size) -> i64 {
    let allowed = if size.desired == 0 { 0 } else { size.max() };
    allowed - sets.iter().map(|set| set.size).sum::<i64>()
}

fn spread(sets: &[Scale], size: Size, to_add: i64, change_of: impl Fn(Scale) -> i64) -> Vec<Scale> {
    let mut result: Vec<_> = sets.iter().map(|set| set.finished(set.size, size)).collect();
    let mut left = to_add;
    let order = by_size(sets, to_add);
    for &index in &order {
        let change = change_of(sets[index]).clamp(left.min(0), left.max(0));
        result[index].size += change;
        left -= change;
    }
    if let Some(&largest) = order.first() {
        result[largest].size = (result[largest].size + left).max(0);
    }
    result
}

/// Largest first; of equal ones the newest first when growing, the oldest first when shrinking.
fn by_size(sets: &[Scale], to_add: i64) -> Vec<usize> {
    let mut order: Vec<_> = (0..sets.len()).collect();
    if to_add > 0 {
        order.reverse();
    }
    order.sort_by_key(|&index| std::cmp::Reverse(sets[index].size));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_sets_of_one_size_the_newest_grows_first_and_the_oldest_shrinks_first() {
        let set = |size| Scale { size, desired: Some(6), max: Some(6), before: None };
        let size = |desired| Size { desired, surge: 0, unavailable: 0, min_available: 0 };
        let sizes = |scaled: Vec<Scale>| scaled.into_iter().map(|set| set.size).collect::<Vec<_>>();
        assert_eq!(sizes(proportional(&[set(3), set(3)], size(7), 6)), [3, 4]);
        assert_eq!(sizes(proportional(&[set(3), set(3)], size(5), 6)), [2, 3]);
    }

    #[test]
    fn what_a_set_was_before_an_unfinished_scaling_is_no_share_of_it_any_more() {
        let set = |size, before| Scale { size, desired: Some(6), max: Some(6), before };
        let size = Size { desired: 12, surge: 0, unavailable: 0, min_available: 0 };
        let sizes: Vec<_> = proportional(&[set(4, None), set(2, Some(1))], size, 6).into_iter().map(|set| set.size).collect();
        assert_eq!(sizes, [8, 4]);
    }

    #[test]
    fn shrinking_keeps_the_proportion_of_before_and_grows_nothing() {
        let set = |size, before| Scale { size, desired: Some(10), max: Some(13), before };
        let size = |desired| Size { desired, surge: 3, unavailable: 0, min_available: 0 };
        let finished = |replicas, desired| Scale { size: replicas, desired: Some(desired), max: Some(desired + 3), before: None };
        assert_eq!(shrink(&[set(8, None), set(5, None)], size(5), 13), [finished(5, 5), finished(3, 5)]);
        assert_eq!(shrink(&[set(8, None), set(5, None)], size(20), 13), [finished(8, 20), finished(5, 20)]);
    }
}
