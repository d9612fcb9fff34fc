//! The verdict on an object, based on its owners.

use super::graph::{Deletion, Dependents};
use crate::plan::Propagation;

/// The state of the owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The owner does not exist, or another object has its name.
    Dangling,
    /// The owner is in foreground deletion: it waits for its dependents.
    Waiting,
    /// The owner exists. It still counts if it is being deleted in another way.
    Solid,
    /// The reference is from a cluster-scoped object to a namespaced owner, so the owner cannot be found.
    Unresolvable,
}

/// The action on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object does not change.
    Keep,
    /// The object remains, without its references to owners that are dangling or waiting.
    DropReferences,
    /// The object is deleted.
    Delete {
        /// The propagation policy.
        propagation: Propagation,
        /// Whether the object's own references must first stop blocking their owners, because the object is part of a cycle that would
        /// never end.
        unblock: Unblock,
    },
}

/// Whether an object's references are set to not block before the object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// The references are changed first.
    First,
    /// The references do not change.
    No,
}

/// Decides on an object that has owner references, from the state of each owner. `finalizers` determine the propagation of a delete.
///
/// Source: upstream garbage collector, `attemptToDeleteItem`.
#[must_use]
pub fn decide(owners: &[OwnerState], dependents: Dependents, finalizers: Deletion) -> Verdict {
    let has = |state| owners.contains(&state);
    if owners.is_empty() || has(OwnerState::Unresolvable) {
        return Verdict::Keep;
    }
    if has(OwnerState::Solid) {
        let all_solid = owners.iter().all(|state| *state == OwnerState::Solid);
        return if all_solid { Verdict::Keep } else { Verdict::DropReferences };
    }
    if has(OwnerState::Waiting) && dependents != Dependents::None {
        let unblock = if dependents == Dependents::SomeForeground { Unblock::First } else { Unblock::No };
        return Verdict::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = match finalizers {
        Deletion::Orphan => Propagation::Orphan,
        Deletion::Foreground => Propagation::Foreground,
        Deletion::None | Deletion::Other => Propagation::Background,
    };
    Verdict::Delete { propagation, unblock: Unblock::No }
}

#[cfg(test)]
mod tests {
    use super::{OwnerState::*, *};

    fn delete(propagation: Propagation, unblock: Unblock) -> Verdict {
        Verdict::Delete { propagation, unblock }
    }

    #[test]
    fn an_object_lives_as_long_as_one_owner_is_solid() {
        let cases: &[(&[OwnerState], Dependents, Deletion, Verdict)] = &[
            (&[], Dependents::None, Deletion::None, Verdict::Keep),
            (&[Solid], Dependents::None, Deletion::None, Verdict::Keep),
            (&[Solid, Dangling], Dependents::None, Deletion::None, Verdict::DropReferences),
            (&[Waiting, Solid], Dependents::SomeForeground, Deletion::None, Verdict::DropReferences),
            (&[Unresolvable, Dangling], Dependents::None, Deletion::None, Verdict::Keep),
            (&[Dangling], Dependents::None, Deletion::None, delete(Propagation::Background, Unblock::No)),
            (&[Dangling], Dependents::Some, Deletion::Orphan, delete(Propagation::Orphan, Unblock::No)),
            (&[Dangling], Dependents::Some, Deletion::Foreground, delete(Propagation::Foreground, Unblock::No)),
            (&[Waiting], Dependents::None, Deletion::None, delete(Propagation::Background, Unblock::No)),
            (&[Waiting, Dangling], Dependents::Some, Deletion::None, delete(Propagation::Foreground, Unblock::No)),
            (&[Waiting], Dependents::SomeForeground, Deletion::None, delete(Propagation::Foreground, Unblock::First)),
        ];
        for (owners, dependents, finalizers, wanted) in cases {
            assert_eq!(decide(owners, *dependents, *finalizers), *wanted, "{owners:?} {dependents:?} {finalizers:?}");
        }
    }
}
