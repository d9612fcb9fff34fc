//! Vectors of ReplicaSets and of choosing pods.

use super::{Check, at, case, check, pod};
use berth_api::FeatureGates;
use berth_identity::Revision;
use berth_workloads::{
    counts::PodCounts,
    plan::SlowStart,
    replica_set::{
        ReplicaSetState, SinglePods,
        rank::{Candidate, DeletionCost, Ranking, related_per_node},
        status,
    },
    view::{PodView, ReplicaSetView, View},
};
use k8s_openapi::api::apps::v1::ReplicaSetCondition;
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("next_availability_check", next_availability),
    ("pod_deletion_cost", deletion_cost),
    ("pod_rank_by_node", rank_by_node),
    ("pod_ranking_orders", orders),
    ("pod_ranking_pairs", pairs),
    ("replicaset_conditions", conditions),
    ("replicaset_status", counts),
    ("slow_start", slow_start),
];

case! {
    NextCase {
        name: String, ready: bool, ready_for_seconds: Option<i64>, min_ready_seconds: i32, expected_next_check_seconds: Option<i64>,
    }
    CostCase { name: String, value: Option<String>, expected: Cost }
    Cost { cost: i32, valid: bool }
    RankCase { name: String, related: Vec<RelatedPod>, candidate_nodes: Vec<String>, expected_ranks: Vec<u32> }
    RelatedPod { node_name: String, phase: String, deleting: bool }
    RankedPod {
        name: String, uid: String, node_name: String, phase: String, ready: bool, cost: i32, rank: u32, restarts: i32,
        sidecar_restarts: i32, ready_since: Option<i64>, created: Option<i64>,
    }
    OrderCase {
        name: String, now: i64, gates: Gates, pods: Vec<RankedPod>, delete: usize, expected_deleted: Vec<String>,
        expected_order: Vec<String>,
    }
    PairCase { name: String, now: i64, gates: Gates, pods: [RankedPod; 2], expected: String }
    ConditionsCase {
        name: String, replicas: i64, active_pods: i64, error: Option<String>, replica_failure: Option<Failure>,
        expected_replica_failure: Option<Failure>,
    }
    Failure { status: String, reason: String, message: String }
    StatusCase {
        name: String, template_labels: BTreeMap<String, String>, min_ready_seconds: i32, gates: BTreeMap<String, bool>, now: i64,
        pods: Vec<StatusPod>, expected: Counts,
    }
    StatusPod { labels: BTreeMap<String, String>, phase: String, ready: bool, ready_since: Option<i64>, deleting: bool }
    Counts {
        replicas: i32, fully_labeled_replicas: i32, ready_replicas: i32, available_replicas: i32, terminating_replicas: Option<i32>,
    }
    SlowStartCase { name: String, count: usize, initial_batch_size: usize, successful_calls: usize, expected: Started }
    Started { successes: usize, calls: usize, batches: Vec<usize>, error: bool, skipped: usize }
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Gates {
    #[serde(rename = "PodDeletionCost")]
    pod_deletion_cost: bool,
    #[serde(rename = "LogarithmicScaleDown")]
    logarithmic_scale_down: bool,
}

fn next_availability(text: &str) -> Vec<String> {
    check(text, |case: NextCase| {
        let now = at(1_000_000);
        let mut view = pod("Running");
        view.ready = case.ready;
        view.ready_since = case.ready_for_seconds.map(|seconds| at(1_000_000 - seconds));
        let next = view.available_at(case.min_ready_seconds).filter(|at| *at > now);
        (case.expected_next_check_seconds, next.map(|at| at.duration_since(now).as_secs()))
    })
}

fn deletion_cost(text: &str) -> Vec<String> {
    check(text, |case: CostCase| {
        let annotations: BTreeMap<_, _> =
            case.value.iter().map(|value| (berth_api::annotations::POD_DELETION_COST.to_owned(), value.clone())).collect();
        let json = serde_json::json!({"metadata": {"name": "pod", "annotations": annotations}});
        let cost = PodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod").deletion_cost;
        let valid = case.value.as_deref().is_none_or(berth_api::pod::is_valid_deletion_cost);
        ((case.expected.cost, case.expected.valid), (cost, valid))
    })
}

fn rank_by_node(text: &str) -> Vec<String> {
    check(text, |case: RankCase| {
        let related: Vec<_> = case
            .related
            .iter()
            .map(|related| {
                let mut view = pod(&related.phase);
                view.node_name = (&related.node_name).into();
                view.meta.deleted = related.deleting.then(|| at(0));
                view
            })
            .collect();
        let per_node = related_per_node(&related);
        let ranks = case.candidate_nodes.iter().map(|node| per_node.get(node.as_str()).copied().unwrap_or(0)).collect();
        (case.expected_ranks, ranks)
    })
}

fn ranking(now: i64, gates: &Gates) -> Ranking {
    assert!(gates.logarithmic_scale_down, "upstream's gate cannot be switched off, so there is no other way");
    Ranking { min_ready_seconds: 0, now: at(now), cost: if gates.pod_deletion_cost { DeletionCost::Counts } else { DeletionCost::Ignored } }
}

fn view(ranked: &RankedPod) -> PodView {
    let mut view = pod(&ranked.phase);
    view.meta.name = ranked.name.as_str().into();
    view.meta.uid = ranked.uid.as_str().into();
    view.meta.created = ranked.created.map(at);
    view.node_name = (&ranked.node_name).into();
    (view.ready, view.ready_since) = (ranked.ready, ranked.ready_since.map(at));
    (view.deletion_cost, view.restarts, view.sidecar_restarts) = (ranked.cost, ranked.restarts, ranked.sidecar_restarts);
    view
}

fn orders(text: &str) -> Vec<String> {
    check(text, |case: OrderCase| {
        let views: Vec<_> = case.pods.iter().map(|pod| (view(pod), pod.rank)).collect();
        let ranking = ranking(case.now, &case.gates);
        let first = |count| {
            let candidates = views.iter().map(|(pod, related)| Candidate { pod, related: *related }).collect();
            ranking.chosen(candidates, count).iter().map(|(_, pod)| pod.meta.name.to_string()).collect::<Vec<_>>()
        };
        let mut deleted = first(case.delete);
        let mut expected = case.expected_deleted.clone();
        deleted.sort();
        expected.sort();
        ((expected, case.expected_order), (deleted, first(views.len())))
    })
}

fn pairs(text: &str) -> Vec<String> {
    check(text, |case: PairCase| {
        let [a, b] = [0, 1].map(|index| (view(&case.pods[index]), case.pods[index].rank));
        let candidate = |(pod, related): &'_ (PodView, u32)| (pod.clone(), *related);
        let (a, b) = (candidate(&a), candidate(&b));
        let compare = |a: &(PodView, u32), b: &(PodView, u32)| {
            let candidate = |pair: &(PodView, u32)| pair.1;
            ranking(case.now, &case.gates)
                .compare(&Candidate { pod: &a.0, related: candidate(a) }, &Candidate { pod: &b.0, related: candidate(b) })
        };
        let answer = match (compare(&a, &b), compare(&b, &a)) {
            (Ordering::Less, Ordering::Greater) => "first",
            (Ordering::Greater, Ordering::Less) => "second",
            (Ordering::Equal, Ordering::Equal) => "equal",
            _ => "contradiction",
        };
        (case.expected, answer.to_owned())
    })
}

fn conditions(text: &str) -> Vec<String> {
    check(text, |case: ConditionsCase| {
        let stored: Vec<_> = case
            .replica_failure
            .into_iter()
            .map(|failure| ReplicaSetCondition {
                type_: "ReplicaFailure".to_owned(),
                status: failure.status,
                reason: Some(failure.reason),
                message: Some(failure.message),
                last_transition_time: None,
            })
            .collect();
        let failure = case.error.as_deref();
        let failure = failure.map(|message| status::Failure { message, active: case.active_pods, wanted: case.replicas });
        let actual = status::conditions(&stored, failure, at(0)).map(|conditions| {
            let one = conditions.into_iter().map(|condition| (condition.status, condition.reason, condition.message));
            one.collect::<Vec<_>>()
        });
        let expected = case.expected_replica_failure.map(|failure| vec![(failure.status, Some(failure.reason), Some(failure.message))]);
        (expected, actual)
    })
}

fn counts(text: &str) -> Vec<String> {
    check(text, |case: StatusCase| {
        let json = serde_json::json!({
            "metadata": {"name": "rs", "uid": "rs"},
            // Pods of a case match the set whatever labels they have.
            "spec": {"selector": {}, "minReadySeconds": case.min_ready_seconds, "template": {"metadata": {"labels": case.template_labels}}},
        });
        let set = ReplicaSetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a set");
        let owner = berth_workloads::claim::controller_reference(&berth_workloads::resources::REPLICA_SET, &set.meta);
        let pods: Vec<_> = case
            .pods
            .iter()
            .map(|wanted| {
                let mut view = pod(&wanted.phase);
                view.meta.labels = wanted.labels.iter().collect();
                view.meta.owners = vec![owner.clone()].into();
                view.meta.deleted = wanted.deleting.then(|| at(case.now));
                (view.ready, view.ready_since) = (wanted.ready, wanted.ready_since.map(at));
                view
            })
            .collect();
        let (counts, next_available_at) = PodCounts::recount(&set, &pods, at(case.now));
        let settings: Vec<_> = case.gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
        let gates = FeatureGates::parse(&settings.join(",")).expect("gates of a case");
        let (set, pods, now) = (Arc::new(set), SinglePods::default(), at(case.now));
        let state = ReplicaSetState { set, counts, next_available_at, pods, last_error: None, gates, now };
        let made = status::status(&state, None);
        let e = case.expected;
        (
            (e.replicas, e.fully_labeled_replicas, e.ready_replicas, e.available_replicas, e.terminating_replicas),
            (made.replicas, made.fully_labeled_replicas, made.ready_replicas, made.available_replicas, made.terminating_replicas),
        )
    })
}

fn slow_start(text: &str) -> Vec<String> {
    check(text, |case: SlowStartCase| {
        assert_eq!(case.initial_batch_size, 1, "batches begin with 1");
        let (mut successes, mut calls, mut batches) = (0, 0, Vec::new());
        for batch in SlowStart::new(case.count) {
            batches.push(batch);
            calls += batch;
            successes = calls.min(case.successful_calls);
            if successes < calls {
                break;
            }
        }
        let e = case.expected;
        ((e.successes, e.calls, e.batches, e.error, e.skipped), (successes, calls, batches, successes < calls, case.count - successes))
    })
}
