//! What becomes of volume claims when their pod or the set goes.

use crate::view::RetentionPolicy;

/// Whom a claim goes with. The reference is always a controller reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOwner {
    /// The set.
    StatefulSet,
    /// The pod.
    Pod,
}

/// Whether a pod's number is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodMembership {
    /// It is.
    InRange,
    /// It is not.
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

/// What a claim of a pod that is to be created looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Not there.
    Missing,
    /// There, without a reference to a pod of that name.
    Unowned,
    /// It goes with this very pod.
    OfThisPod,
    /// It goes with a former pod of that name, and so will be gone soon.
    OfFormerPod,
}

/// Whether the pod must not be created yet: it would lose the claim it finds.
#[must_use]
pub fn must_wait_for_claims(when_scaled: RetentionPolicy, claims: &[Claim]) -> bool {
    when_scaled == RetentionPolicy::Delete && claims.contains(&Claim::OfFormerPod)
}
