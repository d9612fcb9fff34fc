//! Scaling up within the room that terminating pods leave (KEP-5882): some ReplicaSets get their share now, others when pods have gone.
//!
//! A set that is short of its share remembers the size from before the scaling (`replicaset-replicas-before-scale`) and the limit of that time
//! (`max-replicas`): whatever happens in between, its share is computed from those. `desired-replicas` of the largest set stays as it was while the
//! rest of rounding is outstanding, so that the scaling still shows as unfinished. The final sizes do not depend on the order in which pods go.

use super::{limits::Size, scale::Scale};
use std::cmp::Reverse;

/// What one set is to get.
struct Due {
    index: usize,
    /// How many pods its share gives it.
    share: i64,
    /// How many of them it gets in this pass, the largest also of what rounding leaves over.
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

/// A single active set, up to what is desired, or down. One that stays empty for want of room is marked by nothing: the mark of a set that does not become
/// active, because the template changes first, would never go.
#[must_use]
pub fn grow_single(set: Scale, size: Size, room: i64) -> Scale {
    let replicas = size.desired.min(set.size + room);
    if replicas == 0 && size.desired > 0 {
        return set;
    }
    if replicas == size.desired { set.finished(replicas, size) } else { Scale { size: replicas, before: Some(set.base()), ..set } }
}

/// By the larger of size and share, newest first among equals. Unlike the size alone, that does not change while a scaling is under way.
fn in_order(sets: &[Scale], size: Size, status_replicas: i64) -> Vec<usize> {
    let mut order: Vec<_> = (0..sets.len()).rev().collect();
    order.sort_by_key(|&index| Reverse(sets[index].size.max(sets[index].share(size, status_replicas))));
    order
}

/// Hands out `room`: in order to those that were not yet made to wait and to the largest; a waiting one only if it gets all it lacks. Then what
/// rounding leaves over to the largest, and the rest to those passed over.
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
