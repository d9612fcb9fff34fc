//! What becomes of an object, seen from its owners.

use super::graph::{Deletion, Dependents};
use crate::plan::Propagation;

/// What an owner reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// There is no such object, or another under its name.
    Dangling,
    /// The owner is being deleted in the foreground: it waits for its dependents.
    Waiting,
    /// The owner is there; being deleted in any other way it still counts.
    Solid,
    /// A cluster-scoped object cannot have a namespaced owner: nobody can tell.
    Unresolvable,
}

/// What to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is.
    Keep,
    /// It stays, without its references to owners that are dangling or waiting.
    DropReferences,
    /// It is deleted.
    Delete {
        /// How.
        propagation: Propagation,
        /// Its own references must first stop blocking their owners: it is part of a circle that could never end.
        unblock: Unblock,
    },
}

/// Whether an object's references are set to not block before it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblock {
    /// They are.
    First,
    /// They stay.
    No,
}

/// Decides about an object that has owner references, from what each leads to, and how the object itself is being deleted: its finalizers
/// say what a delete would mean.
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
