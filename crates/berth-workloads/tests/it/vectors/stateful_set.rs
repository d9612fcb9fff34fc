//! Vectors of StatefulSets.

use super::{Check, at, case, check, pod};
use berth_api::apps::StatefulSetStatus;
use berth_identity::{Ordinal, Revision};
use berth_workloads::{
    stateful_set::{
        Claim, ClaimOwner, ControlledPods, EffectiveStrategy, NewPod, Ordinals, Phase, PodMembership, PodName, REVISION_LABEL,
        RevisionChoice, claim_owner, complete_rolling_update, controller_revision_name, counts, max_unavailable, must_wait_for_claims,
        new_pod_revision,
    },
    view::{PodView, RetentionPolicy, StatefulSetView, View},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("statefulset_pod_name", pod_name),
    ("statefulset_ordinals", ordinals),
    ("statefulset_max_unavailable", unavailable),
    ("statefulset_pvc_owner", pvc_owner),
    ("statefulset_stale_claims", stale_claims),
    ("statefulset_new_pod_revision", pod_revision),
    ("statefulset_status", status),
    ("statefulset_complete_rolling_update", completion),
    ("statefulset_recreate_phase", phase),
    ("controller_revision_name", revision_name),
];

case! {
    PodNameCase { name: String, pod_name: String, expected: ParsedName }
    ParsedName { parent: String, ordinal: i32 }
    OrdinalsCase { name: String, ordinals_start: Option<i64>, replicas: i64, ordinals: Vec<i64>, expected: ExpectedOrdinals }
    ExpectedOrdinals { first: i64, last: i64, in_range: Vec<i64>, condemned: Vec<i64>, ignored: Vec<i64>, missing: Vec<i64> }
    MaxUnavailableCase { name: String, max_unavailable: Option<IntOrString>, replicas: i32, expected: i32 }
    PvcOwnerCase { name: String, when_scaled: String, when_deleted: String, condemned: bool, expected_owners: BTreeMap<String, Option<bool>> }
    StaleClaimsCase { name: String, when_scaled: String, claims: Vec<String>, pod_has_uid: bool, expected: bool }
    PodRevisionCase {
        name: String, update_strategy_type: String, rolling_update: Option<RollingUpdate>, ordinals_start: i64,
        status_current_replicas: i64, ordinal: i64, expected_revision: String,
    }
    RollingUpdate { partition: i64 }
    StatusCase {
        name: String, min_ready_seconds: i32, now: i64, current_revision: String, update_revision: String, pods: Vec<StatusPod>,
        expected: StatusCounts,
    }
    StatusPod { revision: Option<String>, phase: String, ready: bool, ready_since: Option<i64>, deleting: bool }
    StatusCounts { replicas: i32, ready_replicas: i32, available_replicas: i32, current_replicas: i32, updated_replicas: i32 }
    CompletionCase { name: String, update_strategy_type: String, replicas: i32, status: CompletionStatus, expected: ExpectedCompletion }
    CompletionStatus {
        replicas: i32, ready_replicas: i32, updated_replicas: i32, current_replicas: i32, current_revision: String, update_revision: String,
    }
    ExpectedCompletion { current_revision: String, current_replicas: i32 }
    PhaseCase {
        name: String, update_strategy_type: String, gates: BTreeMap<String, bool>, replicas: i64, update_revision: String,
        pods: Vec<PhasePod>, expected_phase: String,
    }
    PhasePod { ordinal: i64, revision: Option<String>, deleting: bool }
    RevisionNameCase { name: String, parent: String, data: String, collision_count: Option<i32>, expected: ExpectedRevision }
    ExpectedRevision { hash: String, name: String }
}

fn pod_name(text: &str) -> Vec<String> {
    check(text, |case: PodNameCase| {
        let parsed = PodName::parse(&case.pod_name);
        ((case.expected.parent, case.expected.ordinal), (parsed.parent.to_owned(), parsed.ordinal.unwrap_or(-1)))
    })
}

fn ordinals(text: &str) -> Vec<String> {
    check(text, |case: OrdinalsCase| {
        let wanted = Ordinals { start: Ordinal(case.ordinals_start.unwrap_or(0)), replicas: case.replicas };
        let (ignored, numbered): (Vec<i64>, Vec<i64>) = case.ordinals.iter().partition(|ordinal| **ordinal < 0);
        let split = wanted.split(&numbered.into_iter().map(Ordinal).collect::<Vec<_>>());
        let numbers = |ordinals: Vec<Ordinal>| ordinals.into_iter().map(|ordinal| ordinal.0).collect::<Vec<_>>();
        let e = case.expected;
        (
            (e.first, e.last, e.in_range, e.condemned, e.ignored, e.missing),
            (wanted.start.0, wanted.end().0 - 1, numbers(split.in_range), numbers(split.condemned), ignored, numbers(split.missing)),
        )
    })
}

fn unavailable(text: &str) -> Vec<String> {
    check(text, |case: MaxUnavailableCase| (Some(case.expected), max_unavailable(case.max_unavailable.as_ref(), case.replicas)))
}

fn strategy(text: &str) -> EffectiveStrategy {
    match text {
        "RollingUpdate" => EffectiveStrategy::RollingUpdate,
        "OnDelete" => EffectiveStrategy::OnDelete,
        "Recreate" => EffectiveStrategy::Recreate,
        other => panic!("update strategy {other}"),
    }
}

fn retention(text: &str) -> RetentionPolicy {
    match text {
        "Delete" => RetentionPolicy::Delete,
        "Retain" => RetentionPolicy::Retain,
        other => panic!("retention policy {other}"),
    }
}

fn pvc_owner(text: &str) -> Vec<String> {
    check(text, |case: PvcOwnerCase| {
        let fate = if case.condemned { PodMembership::Condemned } else { PodMembership::InRange };
        let owner = claim_owner(retention(&case.when_scaled), retention(&case.when_deleted), fate);
        let owners = [
            ("StatefulSet", Some(owner == Some(ClaimOwner::StatefulSet))),
            ("Pod", Some(owner == Some(ClaimOwner::Pod))),
            ("controller", owner.map(|_| true)),
        ];
        (case.expected_owners, owners.map(|(name, is)| (name.to_owned(), is)).into())
    })
}

fn stale_claims(text: &str) -> Vec<String> {
    check(text, |case: StaleClaimsCase| {
        let claim = |text: &String| match (text.as_str(), case.pod_has_uid) {
            ("missing", _) => Claim::Missing,
            ("exists", _) => Claim::Unowned,
            ("with-ref", true) => Claim::OfThisPod,
            ("stale", _) | ("with-ref", false) => Claim::OfFormerPod,
            (other, _) => panic!("claim {other}"),
        };
        let claims: Vec<_> = case.claims.iter().map(claim).collect();
        (case.expected, must_wait_for_claims(retention(&case.when_scaled), &claims))
    })
}

fn pod_revision(text: &str) -> Vec<String> {
    check(text, |case: PodRevisionCase| {
        let pod = NewPod {
            ordinal: Ordinal(case.ordinal),
            start: Ordinal(case.ordinals_start),
            current_replicas: case.status_current_replicas,
            partition: case.rolling_update.map(|block| block.partition),
        };
        let choice = match new_pod_revision(strategy(&case.update_strategy_type), pod) {
            RevisionChoice::Current => "current",
            RevisionChoice::Update => "update",
        };
        (case.expected_revision, choice.to_owned())
    })
}

fn status(text: &str) -> Vec<String> {
    check(text, |case: StatusCase| {
        let pods: Vec<_> = case
            .pods
            .iter()
            .map(|wanted| {
                let mut view = pod(&wanted.phase);
                (view.ready, view.ready_since) = (wanted.ready, wanted.ready_since.map(at));
                view.meta.deleted = wanted.deleting.then(|| at(case.now));
                view.meta.labels = wanted.revision.iter().map(|revision| (REVISION_LABEL, revision)).collect();
                view
            })
            .collect();
        let (current_revision, update_revision) = (case.current_revision, case.update_revision);
        let mut status = StatefulSetStatus { current_revision, update_revision, ..StatefulSetStatus::default() };
        counts(&mut status, &pods, case.min_ready_seconds, at(case.now));
        let e = case.expected;
        (
            [e.replicas, e.ready_replicas, e.available_replicas, e.current_replicas, e.updated_replicas],
            [status.replicas, status.ready_replicas, status.available_replicas, status.current_replicas, status.updated_replicas],
        )
    })
}

fn completion(text: &str) -> Vec<String> {
    check(text, |case: CompletionCase| {
        let stored = case.status;
        let mut status = StatefulSetStatus {
            replicas: stored.replicas,
            ready_replicas: stored.ready_replicas,
            updated_replicas: stored.updated_replicas,
            current_replicas: stored.current_replicas,
            current_revision: stored.current_revision,
            update_revision: stored.update_revision,
            ..StatefulSetStatus::default()
        };
        complete_rolling_update(&mut status, strategy(&case.update_strategy_type), case.replicas);
        ((case.expected.current_revision, case.expected.current_replicas), (status.current_revision, status.current_replicas))
    })
}

fn phase(text: &str) -> Vec<String> {
    check(text, |case: PhaseCase| {
        assert_eq!(case.update_strategy_type, "Recreate", "phases are Recreate's");
        assert_eq!(case.gates.get("StatefulSetRecreateStrategy"), Some(&true), "without the gate there are no phases");
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": case.replicas, "selector": {"matchLabels": {"app": "web"}}}});
        let pods: Vec<_> = case.pods.iter().map(|pod| Arc::new(decode::<PodView>(&member(pod)))).collect();
        let controlled = ControlledPods::new(&decode::<StatefulSetView>(&set), &pods, at(0));
        let phase = match controlled.phase_counts(&case.update_revision).phase(case.replicas) {
            Phase::NeedsDeletion => "NeedsDeletion",
            Phase::WaitingTermination => "WaitingTermination",
            Phase::ReadyForCreation => "ReadyForCreation",
            Phase::Complete => "Complete",
        };
        (case.expected_phase, phase.to_owned())
    })
}

fn member(pod: &PhasePod) -> Value {
    let mut labels = json!({"app": "web"});
    labels.as_object_mut().expect("a map").extend(pod.revision.iter().map(|revision| (REVISION_LABEL.to_owned(), json!(revision))));
    let deleted = pod.deleting.then_some("2026-01-01T00:00:00Z");
    json!({"metadata": {"name": format!("web-{}", pod.ordinal), "labels": labels, "deletionTimestamp": deleted}})
}

fn decode<V: View>(json: &Value) -> V {
    V::decode(json.to_string().as_bytes(), Revision(1)).expect("a view")
}

fn revision_name(text: &str) -> Vec<String> {
    check(text, |case: RevisionNameCase| {
        let made = controller_revision_name(&case.parent, case.data.as_bytes(), case.collision_count);
        ((case.expected.hash, case.expected.name), (made.hash, made.name))
    })
}
