//! The owners of volume claims, which determine when they are deleted.

use crate::view::RetentionPolicy;

/// The owner of a claim. The reference is always a controller reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOwner {
    /// The set.
    StatefulSet,
    /// The pod.
    Pod,
}

/// Whether a pod's ordinal is in the set's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodMembership {
    /// It is in range.
    InRange,
    /// It is out of range.
    Condemned,
}

/// The owner that a claim should have.
#[must_use]
pub fn claim_owner(when_scaled: RetentionPolicy, when_deleted: RetentionPolicy, pod: PodMembership) -> Option<ClaimOwner> {
    match (when_scaled, when_deleted, pod) {
        (RetentionPolicy::Delete, _, PodMembership::Condemned) => Some(ClaimOwner::Pod),
        (_, RetentionPolicy::Delete, _) => Some(ClaimOwner::StatefulSet),
        (_, RetentionPolicy::Retain, _) => None,
    }
}

/// The state of a claim of a pod to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It does not exist.
    Missing,
    /// It exists, without a reference to a pod of that name.
    Unowned,
    /// This pod owns it.
    OfThisPod,
    /// A former pod of that name owns it, so it will be deleted soon.
    OfFormerPod,
}

/// Whether the pod must not be created yet, because it would lose the existing claim.
#[must_use]
pub fn must_wait_for_claims(when_scaled: RetentionPolicy, claims: &[Claim]) -> bool {
    when_scaled == RetentionPolicy::Delete && claims.contains(&Claim::OfFormerPod)
}
