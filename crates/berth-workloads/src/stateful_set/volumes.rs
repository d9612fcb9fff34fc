//! The claims of a set's pods. They are created before the pod, with the owners that the retention policy requires, whether the pod exists
//! or not.

use super::{
    Claim, ClaimOwner, Ordinals, PodMembership, StatefulSetState, claim_owner,
    controlled_pods::ControlledPods,
    events::{Verb, claim_outcome, warn_once},
    must_wait_for_claims,
    names::{claim_name, pod_name},
    ordinals,
};
use crate::{
    claim::controller_reference,
    plan::{Action, EventRecord, Outcome, Reason, Urgency},
    resources::{POD, STATEFUL_SET},
    view::{ClaimView, Meta, PodView, Retention, RetentionPolicy, StatefulSetView},
};
use berth_api::annotations::BERTH_WHEN_SCALED;
use berth_identity::Ordinal;
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The claims of a set's pods, and the set's policy for them.
pub(super) struct Claims<'a> {
    set: &'a StatefulSetView,
    found: &'a BTreeMap<String, Arc<ClaimView>>,
    retention: Retention,
}

impl<'a> Claims<'a> {
    pub(super) fn new(set: &'a StatefulSetView, found: &'a BTreeMap<String, Arc<ClaimView>>) -> Self {
        Self { set, found, retention: set.choices.retention }
    }
}

/// Of these ordinals, those whose claims have wrong owners or belong to another object, whether the pods are desired or exist. A change of
/// the set's spec, of the pod (including its deletion), or of one of its claims requires a new check. `found` contains the candidates'
/// existing claims, by the names that [`claim_names`] returns.
#[must_use]
pub fn claims_in_doubt(
    set: &StatefulSetView,
    controlled: &ControlledPods,
    found: &BTreeMap<String, Arc<ClaimView>>,
    candidates: impl IntoIterator<Item = Ordinal>,
) -> BTreeSet<Ordinal> {
    let (claims, wanted) = (Claims::new(set, found), ordinals(set));
    let is_wrong = |ordinal: &Ordinal| {
        let references = References::of(&claims, wanted, controlled, Named { ordinal: *ordinal, is_free: true });
        !references.writes.is_empty() || !references.events.is_empty()
    };
    candidates.into_iter().filter(is_wrong).collect()
}

/// What prevents the creation of a pod or its missing claims.
pub(super) enum Readiness {
    /// A claim belongs to a former pod or set, or is terminating.
    Wait(Blocked),
    /// These writes to claims come first.
    Prepare(Vec<Action>),
}

/// A claim that will be deleted.
pub(super) enum Blocked {
    /// A former pod or set of the same name owns it.
    Stale(String),
    /// It is terminating.
    Deleting(String),
}

fn templates(set: &StatefulSetView) -> impl Iterator<Item = (&PersistentVolumeClaim, &str)> {
    let templates = set.spec.volume_claim_templates.iter().flatten();
    templates.filter_map(|template| Some((template, template.metadata.name.as_deref()?)))
}

/// Whether the set's pods have claims.
pub(super) fn has_templates(set: &StatefulSetView) -> bool {
    templates(set).next().is_some()
}

/// The names of the claims of the pods with these ordinals, whether they exist or not.
pub fn claim_names(set: &StatefulSetView, ordinals: impl IntoIterator<Item = Ordinal>) -> impl Iterator<Item = String> {
    let of_pod = move |ordinal: Ordinal| templates(set).map(move |(_, template)| claim_name(template, &set.meta.name, ordinal));
    ordinals.into_iter().flat_map(of_pod)
}

fn named<'a>(claims: &Claims<'a>, template: &str, ordinal: Ordinal) -> (String, Option<&'a Arc<ClaimView>>) {
    let name = claim_name(template, &claims.set.meta.name, ordinal);
    let claim = claims.found.get(&name);
    (name, claim)
}

/// Checks the claims of a missing or pending pod. A claim that will be deleted with a former pod or set is not used, because the new pod's
/// data would be deleted with it. If claims are deleted with their pods, the plan waits for the claim of a former pod. If they are
/// retained, [`References`] has corrected the owner. (Upstream creates the pod with that claim, and the garbage collector deletes it.) The
/// plan also waits for the claim of a former set, so that a recreated set does not reuse the former one's data.
pub(super) fn readiness(claims: &Claims<'_>, ordinal: Ordinal, pod: Option<&PodView>) -> Readiness {
    let (pod, set) = (named_pod(claims, ordinal, pod), set_reference(claims));
    let mut writes = Vec::new();
    for (template, name) in templates(claims.set) {
        let (name, claim) = named(claims, name, ordinal);
        let Some(claim) = claim else {
            writes.push(create(claims, template, name, ordinal));
            continue;
        };
        let state = with_pod(claim, &pod);
        if must_wait_for_claims(claims.retention.when_scaled, &[state]) || goes_with_former(&claim.meta, &set) {
            return Readiness::Wait(Blocked::Stale(name));
        }
        if claim.meta.deleted.is_some() {
            return Readiness::Wait(Blocked::Deleting(name));
        }
    }
    Readiness::Prepare(writes)
}

/// The pod with this ordinal as claims refer to it. A missing pod has no uid.
fn named_pod(claims: &Claims<'_>, ordinal: Ordinal, pod: Option<&PodView>) -> OwnerReference {
    let missing = || OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod_name(&claims.set.meta.name, ordinal),
        ..OwnerReference::default()
    };
    pod.map_or_else(missing, pod_reference)
}

/// The relation of a claim to the pods of this name.
fn with_pod(claim: &ClaimView, pod: &OwnerReference) -> Claim {
    if goes_with_former(&claim.meta, pod) {
        Claim::OfFormerPod
    } else if claim.meta.owners.iter().any(|owner| owner.uid == pod.uid) {
        Claim::OfThisPod
    } else {
        Claim::Unowned
    }
}

/// Whether a former object of this name owns an object.
fn goes_with_former(object: &Meta, own: &OwnerReference) -> bool {
    object.owners.iter().any(|owner| is_former(owner, own))
}

/// Whether the owner has the same name but another uid, so it is a former object.
fn is_former(owner: &OwnerReference, own: &OwnerReference) -> bool {
    (&owner.api_version, &owner.kind, &owner.name) == (&own.api_version, &own.kind, &own.name) && owner.uid != own.uid
}

fn create(claims: &Claims<'_>, template: &PersistentVolumeClaim, name: String, ordinal: Ordinal) -> Action {
    let set = claims.set;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(set.spec.selector.iter().filter_map(|selector| selector.match_labels.clone()).flatten());
    // A desired pod is never the owner, so the owner is known before the pod exists.
    let owner = wanted_owner(claims, PodMembership::InRange).map(|_| set_reference(claims));
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    if claims.retention.when_scaled == RetentionPolicy::Delete {
        annotations.insert(BERTH_WHEN_SCALED.to_owned(), DELETE.to_owned());
    }
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(set.meta.namespace.to_string()),
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: owner.map(|owner| vec![owner]),
        ..template.metadata.clone()
    };
    let events = claim_outcome(set, Verb::Create, &name, &pod_name(&set.meta.name, ordinal));
    let object = PersistentVolumeClaim { metadata, spec: template.spec.clone(), status: None }.into();
    Action::Create { object, reason: Reason::ClaimMissing, events }
}

fn set_reference(claims: &Claims<'_>) -> OwnerReference {
    controller_reference(&STATEFUL_SET, &claims.set.meta)
}

fn pod_reference(pod: &PodView) -> OwnerReference {
    controller_reference(&POD, &pod.meta)
}

fn wanted_owner(claims: &Claims<'_>, membership: PodMembership) -> Option<ClaimOwner> {
    claim_owner(claims.retention.when_scaled, claims.retention.when_deleted, membership)
}

/// The writes that correct the owner references of a set's claims, and delete claims that no other controller deletes.
#[derive(Default)]
pub(super) struct References {
    pub(super) writes: Vec<Action>,
    pub(super) events: Vec<EventRecord>,
}

impl References {
    /// Covers all claims of the set, whether their pods are desired, exist or are terminating. Empty if the set itself is terminating: the
    /// garbage collector handles them then.
    pub(super) fn observe(state: &StatefulSetState) -> Self {
        let mut all = Self::default();
        if state.set.meta.deleted.is_none() {
            let (claims, wanted) = (Claims::new(&state.set, &state.found.claims), ordinals(&state.set));
            for ordinal in &state.claims_in_doubt {
                let is_free = !state.is_pod_there(&pod_name(&state.set.meta.name, *ordinal));
                let of_pod = Self::of(&claims, wanted, &state.pods, Named { ordinal: *ordinal, is_free });
                all.writes.extend(of_pod.writes);
                all.events.extend(of_pod.events);
            }
        }
        all
    }

    fn of(claims: &Claims<'_>, wanted: Ordinals, controlled: &ControlledPods, pod: Named) -> Self {
        let membership = if wanted.contains(pod.ordinal) { PodMembership::InRange } else { PodMembership::Condemned };
        let mut references = Self::default();
        let of_pod = OfPod::new(claims, pod, controlled.pod(pod.ordinal), membership);
        for (_, template) in templates(claims.set) {
            let (name, Some(claim)) = named(claims, template, pod.ordinal) else { continue };
            if of_pod.concerns(claim) {
                references.add(&of_pod, &name, claim);
            }
        }
        references
    }

    fn add(&mut self, of_pod: &OfPod<'_, '_>, name: &str, claim: &ClaimView) {
        let (claims, owners) = (of_pod.claims, &of_pod.owners);
        let conflicting = !is_retained(claims) && owners.is_others(&claim.meta);
        if conflicting {
            self.events.push(conflict(claims, name));
        }
        if !conflicting && of_pod.is_to_go(claim) {
            self.writes.push(delete(of_pod, name, claim));
            return;
        }
        let wanted = if conflicting { owners.without(&claim.meta) } else { owners.right(&claim.meta) };
        self.writes.extend(write(claim, &wanted, !conflicting && of_pod.mark(claim)));
    }
}

/// The name of a pod.
#[derive(Clone, Copy)]
struct Named {
    ordinal: Ordinal,
    /// Whether no pod has the name. Another owner's pod, or one that is about to be adopted, may use the claims.
    is_free: bool,
}

/// The claims of one ordinal, whose pod may be missing.
struct OfPod<'c, 'a> {
    claims: &'c Claims<'a>,
    pod: Option<&'c PodView>,
    name: Named,
    membership: PodMembership,
    owners: Owners,
}

impl<'c, 'a> OfPod<'c, 'a> {
    fn new(claims: &'c Claims<'a>, name: Named, pod: Option<&'c PodView>, membership: PodMembership) -> Self {
        // A missing pod cannot be the owner.
        let wanted = wanted_owner(claims, if pod.is_some() { membership } else { PodMembership::InRange });
        let owners = Owners { pod: named_pod(claims, name.ordinal, pod), wanted, set: set_reference(claims) };
        Self { claims, pod, name, membership, owners }
    }

    /// Whether the claim belongs to the set and its owners must be corrected. The garbage collector handles a claim of a former set, and a
    /// claim of a former pod if the policy is Delete.
    fn concerns(&self, claim: &ClaimView) -> bool {
        let with_former_pod = goes_with_former(&claim.meta, &self.owners.pod);
        let is_collected = self.pod.is_some() || self.claims.retention.when_scaled == RetentionPolicy::Delete;
        let goes_with = claim.meta.owners.iter().any(|owner| self.owners.is_own(owner));
        let is_own = self.pod.is_some() || with_former_pod || goes_with || self.is_labeled(claim);
        let is_stale = goes_with_former(&claim.meta, &self.owners.set) || with_former_pod && is_collected;
        is_own && !is_stale && claim.meta.deleted.is_none()
    }

    /// Whether the claim has the labels that the set gives to its claims. The name alone is ambiguous: `a-b-c-0` can belong to `b-c` or to
    /// `c`.
    fn is_labeled(&self, claim: &ClaimView) -> bool {
        let mut labels = self.claims.set.spec.selector.iter().filter_map(|selector| selector.match_labels.as_ref()).flatten();
        labels.all(|(key, value)| claim.meta.labels.get(key) == Some(value.as_str()))
    }

    /// Whether the claim must be deleted: the set lost its ordinal while `whenScaled` was Delete, its pod does not exist, and no other
    /// object owns it.
    fn is_to_go(&self, claim: &ClaimView) -> bool {
        let is_unwanted = self.membership == PodMembership::Condemned && self.claims.retention.when_scaled == RetentionPolicy::Delete;
        is_unwanted
            && self.pod.is_none()
            && self.name.is_free
            && claim.goes_when_scaled
            && claim.meta.owners.iter().all(|owner| self.owners.is_own(owner))
    }

    /// Whether to mark the claim for deletion when its pod is scaled down. A claim whose ordinal was out of range before the policy was
    /// Delete remains.
    fn mark(&self, claim: &ClaimView) -> bool {
        self.claims.retention.when_scaled == RetentionPolicy::Delete
            && (self.membership == PodMembership::InRange || claim.goes_when_scaled)
    }
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

/// The write that sets these owners and this mark. `None` if the claim has them.
fn write(claim: &ClaimView, owners: &[OwnerReference], mark: bool) -> Option<Action> {
    let mut metadata = json!({});
    if *owners != *claim.meta.owners {
        metadata["ownerReferences"] = if owners.is_empty() { Value::Null } else { json!(owners) };
    }
    if mark != claim.goes_when_scaled {
        metadata["annotations"] = json!({BERTH_WHEN_SCALED: mark.then_some(DELETE)});
    }
    (metadata != json!({})).then(|| Action::Patch {
        target: claim.reference(),
        subresource: None,
        patch: json!({"metadata": metadata}),
        urgency: Urgency::Now,
        reason: Reason::RetentionPolicy,
        events: Outcome::default(),
    })
}

/// Deletes only this version of the claim. A claim that was reassigned meanwhile remains.
fn delete(of_pod: &OfPod<'_, '_>, name: &str, claim: &ClaimView) -> Action {
    let set = of_pod.claims.set;
    Action::Delete {
        target: claim.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::ClaimNotWanted,
        events: claim_outcome(set, Verb::Delete, name, &pod_name(&set.meta.name, of_pod.name.ordinal)),
    }
}

/// The value of [`BERTH_WHEN_SCALED`].
const DELETE: &str = "Delete";

/// The two objects that can own a claim.
struct Owners {
    set: OwnerReference,
    pod: OwnerReference,
    wanted: Option<ClaimOwner>,
}

impl Owners {
    fn is_own(&self, owner: &OwnerReference) -> bool {
        owner.uid == self.set.uid || owner.uid == self.pod.uid
    }

    /// Whether another object controls the claim: neither the set nor its present or former pod.
    fn is_others(&self, claim: &Meta) -> bool {
        claim.controller().is_some_and(|owner| self.is_kept(owner))
    }

    /// Whether a reference remains whatever the policy.
    fn is_kept(&self, owner: &OwnerReference) -> bool {
        !self.is_own(owner) && !is_former(owner, &self.pod)
    }

    fn without(&self, claim: &Meta) -> Vec<OwnerReference> {
        claim.owners.iter().filter(|owner| self.is_kept(owner)).cloned().collect()
    }

    fn right(&self, claim: &Meta) -> Vec<OwnerReference> {
        let wanted = self.wanted.map(|owner| match owner {
            ClaimOwner::StatefulSet => &self.set,
            ClaimOwner::Pod => &self.pod,
        });
        let right = |owner: &&OwnerReference| self.is_kept(owner) || Some(*owner) == wanted;
        let mut owners: Vec<_> = claim.owners.iter().filter(right).cloned().collect();
        owners.extend(wanted.filter(|wanted| !owners.contains(wanted)).cloned());
        owners
    }
}
