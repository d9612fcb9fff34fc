//! The claims of a set's pods: made before the pod, and told with whom they go.

use super::{
    Claim, ClaimOwner, Ordinals, PodFate, State, claim_owner,
    events::{claim_outcome, warn_once},
    must_wait_for_claims,
    names::{claim_name, pod_name},
    ordinals,
    roster::Roster,
};
use crate::{
    claim::controller_reference,
    plan::{Action, EventRecord, Outcome, Reason, Urgency},
    view::{APPS_V1, ClaimView, Meta, PodView, Retention, RetentionPolicy, StatefulSetView},
};
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// The claims of a set's pods, and what the set says of them.
pub(super) struct Claims<'a> {
    set: &'a StatefulSetView,
    named: &'a dyn Fn(&str) -> Option<Arc<ClaimView>>,
    retention: Retention,
}

impl<'a> Claims<'a> {
    pub(super) fn new(set: &'a StatefulSetView, named: &'a dyn Fn(&str) -> Option<Arc<ClaimView>>) -> Self {
        Self { set, named, retention: set.choices.retention }
    }
}

/// Of these numbers, those of pods whose claims do not go with whom they should, or are another's, whether the pods are wanted or not. To be
/// looked at again after a change of the set's spec, of the pod or of one of its claims.
#[must_use]
pub fn claims_in_doubt(
    set: &StatefulSetView,
    roster: &Roster,
    claim_named: &dyn Fn(&str) -> Option<Arc<ClaimView>>,
    candidates: impl IntoIterator<Item = i64>,
) -> BTreeSet<i64> {
    let (claims, wanted) = (Claims::new(set, claim_named), ordinals(set));
    let is_wrong = |ordinal: &i64| {
        let references = References::of(&claims, wanted, roster, *ordinal);
        !references.writes.is_empty() || !references.events.is_empty()
    };
    candidates.into_iter().filter(is_wrong).collect()
}

/// What keeps a pod from being created, or its missing claims.
pub(super) enum Readiness {
    /// A claim still goes with a former pod or set, or is being deleted.
    Wait(Blocked),
    /// These writes to claims come first.
    Prepare(Vec<Action>),
}

/// A claim that is on its way out.
pub(super) enum Blocked {
    /// It goes with a former pod or set of the same name.
    Stale(String),
    /// It is being deleted.
    Deleting(String),
}

fn templates<'a>(claims: &Claims<'a>) -> impl Iterator<Item = (&'a PersistentVolumeClaim, &'a str)> {
    let templates = claims.set.spec.volume_claim_templates.iter().flatten();
    templates.filter_map(|template| Some((template, template.metadata.name.as_deref()?)))
}

fn named(claims: &Claims<'_>, template: &str, ordinal: i64) -> (String, Option<Arc<ClaimView>>) {
    let name = claim_name(template, &claims.set.meta.name, ordinal);
    let claim = (claims.named)(&name);
    (name, claim)
}

/// Looks at the claims of a pod that is missing or pending. None is used that is about to go with a pod or set that is no more: what the new pod writes
/// would go with it. One that goes with a former pod is waited for where claims go with their pods, and is taken over where they stay (upstream makes the
/// pod on it, and the garbage collector takes it); one that goes with a former set is waited for, so that a set made anew finds nothing of the last one.
pub(super) fn readiness(claims: &Claims<'_>, ordinal: i64, pod: Option<&PodView>) -> Readiness {
    let (pod, set) = (named_pod(claims, ordinal, pod), set_reference(claims));
    let mut writes = Vec::new();
    for (template, name) in templates(claims) {
        let (name, claim) = named(claims, name, ordinal);
        let Some(claim) = claim else {
            writes.push(create(claims, template, name, ordinal));
            continue;
        };
        let state = with_pod(&claim, &pod);
        if must_wait_for_claims(claims.retention.when_scaled, &[state]) || goes_with_former(&claim.meta, &set) {
            return Readiness::Wait(Blocked::Stale(name));
        }
        if claim.meta.deleted.is_some() {
            return Readiness::Wait(Blocked::Deleting(name));
        }
        if state == Claim::OfFormerPod {
            let kept: Vec<_> = claim.meta.owners.iter().filter(|owner| !is_former(owner, &pod)).cloned().collect();
            writes.push(write(&claim, &kept));
        }
    }
    Readiness::Prepare(writes)
}

/// The pod with this number as claims refer to it; one that is missing has no uid.
fn named_pod(claims: &Claims<'_>, ordinal: i64, pod: Option<&PodView>) -> OwnerReference {
    let missing = || OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod_name(&claims.set.meta.name, ordinal),
        ..OwnerReference::default()
    };
    pod.map_or_else(missing, pod_reference)
}

/// With which pod of this name a claim goes.
fn with_pod(claim: &ClaimView, pod: &OwnerReference) -> Claim {
    if goes_with_former(&claim.meta, pod) {
        Claim::OfFormerPod
    } else if claim.meta.owners.iter().any(|owner| owner.uid == pod.uid) {
        Claim::OfThisPod
    } else {
        Claim::Unowned
    }
}

/// Whether an object goes with a former one of this name.
fn goes_with_former(object: &Meta, own: &OwnerReference) -> bool {
    object.owners.iter().any(|owner| is_former(owner, own))
}

/// Whether it is of this name, and another: the one before it.
fn is_former(owner: &OwnerReference, own: &OwnerReference) -> bool {
    (&owner.api_version, &owner.kind, &owner.name) == (&own.api_version, &own.kind, &own.name) && owner.uid != own.uid
}

fn create(claims: &Claims<'_>, template: &PersistentVolumeClaim, name: String, ordinal: i64) -> Action {
    let set = claims.set;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(set.spec.selector.iter().filter_map(|selector| selector.match_labels.clone()).flatten());
    // A pod that is wanted is never the owner, so the owner is known before the pod is there.
    let owner = wanted_owner(claims, PodFate::InRange).map(|_| set_reference(claims));
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(set.meta.namespace.to_string()),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        owner_references: owner.map(|owner| vec![owner]),
        ..template.metadata.clone()
    };
    let events = claim_outcome(set, &name, &pod_name(&set.meta.name, ordinal));
    let object = PersistentVolumeClaim { metadata, spec: template.spec.clone(), status: None }.into();
    Action::Create { object, reason: Reason::ClaimMissing, events }
}

fn set_reference(claims: &Claims<'_>) -> OwnerReference {
    controller_reference(APPS_V1, "StatefulSet", &claims.set.meta)
}

fn pod_reference(pod: &PodView) -> OwnerReference {
    controller_reference("v1", "Pod", &pod.meta)
}

fn wanted_owner(claims: &Claims<'_>, fate: PodFate) -> Option<ClaimOwner> {
    claim_owner(claims.retention.when_scaled, claims.retention.when_deleted, fate)
}

/// What puts the owner references of pods' claims right.
#[derive(Default)]
pub(super) struct References {
    pub(super) writes: Vec<Action>,
    pub(super) events: Vec<EventRecord>,
}

impl References {
    /// For all pods that are there: those that are wanted and those that are not, and whether or not they are on their way out. None where the
    /// set itself is: then they are the garbage collector's.
    pub(super) fn observe(state: &State<'_>) -> Self {
        let mut all = Self::default();
        if state.set.meta.deleted.is_none() {
            let (claims, wanted) = (Claims::new(state.set, state.claim_named), ordinals(state.set));
            for ordinal in state.claims_in_doubt {
                let of_pod = Self::of(&claims, wanted, state.roster, *ordinal);
                all.writes.extend(of_pod.writes);
                all.events.extend(of_pod.events);
            }
        }
        all
    }

    fn of(claims: &Claims<'_>, wanted: Ordinals, roster: &Roster, ordinal: i64) -> Self {
        let fate = if wanted.contains(ordinal) { PodFate::InRange } else { PodFate::Condemned };
        roster.pod(ordinal).map(|pod| references(claims, ordinal, pod, fate)).unwrap_or_default()
    }
}

/// Looks at the owner references of the claims of a pod that is there.
fn references(claims: &Claims<'_>, ordinal: i64, pod: &PodView, fate: PodFate) -> References {
    let mut references = References::default();
    let set = set_reference(claims);
    let owners = Owners { pod: pod_reference(pod), wanted: wanted_owner(claims, fate), set };
    for (_, template) in templates(claims) {
        let (name, Some(claim)) = named(claims, template, ordinal) else { continue };
        if owners.are_stale(&claim.meta) || claim.meta.deleted.is_some() {
            continue;
        }
        let conflicting = !is_retained(claims) && owners.is_others(&claim.meta);
        if conflicting {
            references.events.push(conflict(claims, &name));
        }
        let wanted = if conflicting { owners.without(&claim.meta) } else { owners.right(&claim.meta) };
        if *wanted != *claim.meta.owners {
            references.writes.push(write(&claim, &wanted));
        }
    }
    references
}

fn is_retained(claims: &Claims<'_>) -> bool {
    (claims.retention.when_scaled, claims.retention.when_deleted) == (RetentionPolicy::Retain, RetentionPolicy::Retain)
}

fn conflict(claims: &Claims<'_>, claim: &str) -> EventRecord {
    let message = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, \
         the retention policy is ignored for this claim"
    );
    warn_once(claims.set, "ConflictingController", message)
}

fn write(claim: &ClaimView, owners: &[OwnerReference]) -> Action {
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    Action::Patch {
        target: claim.reference(),
        subresource: None,
        patch: json!({"metadata": {"ownerReferences": owners}}),
        urgency: Urgency::Now,
        reason: Reason::RetentionPolicy,
        events: Outcome::default(),
    }
}

/// The two objects that a claim may go with.
struct Owners {
    set: OwnerReference,
    pod: OwnerReference,
    wanted: Option<ClaimOwner>,
}

impl Owners {
    fn is_own(&self, owner: &OwnerReference) -> bool {
        owner.uid == self.set.uid || owner.uid == self.pod.uid
    }

    /// Whether the claim goes with a former set or pod of the same name.
    fn are_stale(&self, claim: &Meta) -> bool {
        goes_with_former(claim, &self.set) || goes_with_former(claim, &self.pod)
    }

    /// Whether somebody else manages the claim.
    fn is_others(&self, claim: &Meta) -> bool {
        claim.controller().is_some_and(|owner| !self.is_own(owner))
    }

    fn without(&self, claim: &Meta) -> Vec<OwnerReference> {
        claim.owners.iter().filter(|owner| !self.is_own(owner)).cloned().collect()
    }

    fn right(&self, claim: &Meta) -> Vec<OwnerReference> {
        let wanted = self.wanted.map(|owner| match owner {
            ClaimOwner::StatefulSet => &self.set,
            ClaimOwner::Pod => &self.pod,
        });
        let right = |owner: &&OwnerReference| !self.is_own(owner) || Some(*owner) == wanted;
        let mut owners: Vec<_> = claim.owners.iter().filter(right).cloned().collect();
        owners.extend(wanted.filter(|wanted| !owners.contains(wanted)).cloned());
        owners
    }
}
