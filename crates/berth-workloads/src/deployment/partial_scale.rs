//! Scaling up within the room that terminating pods leave (KEP-5882). Some ReplicaSets get their share now, others after pods are deleted.
//!
//! A set below its share records its size from before the scaling (`replicaset-replicas-before-scale`) and the limit at that time
//! (`max-replicas`). Its share is always computed from these two. While pods from rounding are missing, the largest set keeps its
//! `desired-replicas`, so that the scaling still shows as unfinished. The final sizes do not depend on the order in which pods are deleted.

use super::{limits::Size, scale::Scale};
use std::cmp::Reverse;

/// The growth of one set.
struct Due {
    index: usize,
    /// The number of pods that its share adds.
    share: i64,
    /// The number of pods added in this pass. The largest set also gets the pods from rounding.
    granted: i64,
}

/// Sizes and annotations after one pass. `sets` are the active ones, oldest first; `room` is how many pods may be added now.
///
/// Nothing shrinks. All of `room` is used as long as sets lack pods.
#[must_use]
pub fn grow(sets: &[Scale], size: Size, status_replicas: i64, room: i64) -> Vec<Scale> {
    let lacking = (size.max() - sets.iter().map(|set| set.size).sum::<i64>()).max(0);
    let mut left = lacking;
    let mut dues: Vec<_> = in_order(sets, size, status_replicas)
        .into_iter()
        .map(|index| {
            let share = (sets[index].share(size, status_replicas) - sets[index].size).clamp(0, left);
            left -= share;
            Due { index, share, granted: 0 }
        })
        .collect();
    distribute(sets, &mut dues, left, room.min(lacking));

    let mut result = sets.to_vec();
    for (place, due) in dues.iter().enumerate() {
        let leftover = if place == 0 { left } else { 0 };
        result[due.index] = outcome(sets[due.index], due, leftover, size);
    }
    result
}

/// Sizes a single active set up to the desired number if there is room, or down. An empty set that cannot grow gets no annotation: if the
/// template changed first, the annotation would remain.
#[must_use]
pub fn grow_single(set: Scale, size: Size, room: i64) -> Scale {
    let replicas = size.desired.min(set.size + room);
    if replicas == 0 && size.desired > 0 {
        return set;
    }
    if replicas == size.desired { set.finished(replicas, size) } else { Scale { size: replicas, before: Some(set.base()), ..set } }
}

/// Sorts by the larger of size and share, newest first among equals. Unlike the size alone, this order does not change during a scaling.
fn in_order(sets: &[Scale], size: Size, status_replicas: i64) -> Vec<usize> {
    let mut order: Vec<_> = (0..sets.len()).rev().collect();
    order.sort_by_key(|&index| Reverse(sets[index].size.max(sets[index].share(size, status_replicas))));
    order
}

/// Distributes `room`: in order to the largest set and to sets that do not wait yet. A waiting set gets pods only if it gets all that it
/// lacks. The largest set then gets the pods from rounding, and the skipped sets get the rest.
fn distribute(sets: &[Scale], dues: &mut [Due], leftover: i64, mut room: i64) {
    let mut passed_over = Vec::new();
    for (place, due) in dues.iter_mut().enumerate() {
        if place > 0 && sets[due.index].before.is_some() && due.share > room {
            passed_over.push(place);
        } else {
            due.granted = due.share.min(room);
            room -= due.granted;
        }
    }
    if let Some(largest) = dues.first_mut() {
        let rest = room.min(largest.share + leftover - largest.granted);
        largest.granted += rest;
        room -= rest;
    }
    for place in passed_over {
        dues[place].granted = dues[place].share.min(room);
        room -= dues[place].granted;
    }
}

fn outcome(set: Scale, due: &Due, leftover: i64, size: Size) -> Scale {
    let replicas = set.size + due.granted;
    let finished = set.finished(replicas, size);
    let shows_pending = set.desired.is_some_and(|desired| desired != size.desired);
    if due.granted == due.share + leftover {
        finished
    } else if due.granted >= due.share && shows_pending {
        Scale { desired: set.desired, ..finished }
    } else {
        Scale { size: replicas, before: Some(set.base()), ..set }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_set_is_marked_while_it_is_short_unless_it_stays_empty() {
        let size = |desired| Size { desired, surge: 1, unavailable: 0, min_available: desired };
        let set = |size| Scale { size, desired: Some(2), max: Some(3), before: None };
        let finished = |replicas, desired| Scale { size: replicas, desired: Some(desired), max: Some(desired + 1), before: None };
        assert_eq!(grow_single(set(2), size(4), 9), finished(4, 4));
        assert_eq!(grow_single(set(2), size(4), 1), Scale { size: 3, before: Some(2), ..set(2) });
        assert_eq!(grow_single(set(0), size(4), 0), set(0));
        assert_eq!(grow_single(set(2), size(0), 0), finished(0, 0), "nothing is wanted");
    }
}
