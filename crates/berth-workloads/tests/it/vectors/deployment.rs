//! Vectors of Deployments, but for scaling several ReplicaSets.

use super::{Check, case, check};
use berth_api::apps::{DeploymentStatus, ReplicaSetStatus};
use berth_identity::{Generation, RolloutRevision};
use berth_workloads::{
    deployment::{
        Subject,
        annotations::{self, Annotations, REVISION, REVISION_HISTORY},
        history::surplus,
        limits::{Limits, Size},
        progress::{
            Check as DeadlineCheck, Goal, Held, Progress, deadline, has_progressed, is_complete, is_timed_out, next_check, set_progress,
        },
        recreate::{OldPods, must_wait},
        rolling::{Pods, grown, new_size, scale_down, shrink_old, unhealthy_to_remove},
        status::{Conditions, terminating_sum},
    },
    hash::{replica_set_name, safe_encode, same_template},
    view::{DeploymentStrategy, Meta, PodReplacementPolicy, ReplicaSetView},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::DeploymentCondition, core::v1::PodTemplateSpec},
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, Time},
        util::intstr::IntOrString,
    },
};
use std::collections::BTreeMap;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("annotation_non_negative_int", pod_count),
    ("cleanup_unhealthy", clean_up_unhealthy),
    ("deployment_complete", complete),
    ("deployment_progress_condition", progress_condition),
    ("deployment_progressing", progressing),
    ("deployment_requeue", requeue),
    ("deployment_timed_out", timed_out),
    ("fenceposts", fenceposts),
    ("max_unavailable", max_unavailable),
    ("new_rs_replicas", new_rs_replicas),
    ("old_pods_running", old_pods_running),
    ("reconcile_new_rs", reconcile_new),
    ("reconcile_old_rs", reconcile_old),
    ("replicaset_name", set_name),
    ("revision_history", revision_history),
    ("revision_history_cleanup", history_clean_up),
    ("rollout_new_rs_termination_complete", rollout_policies),
    ("safe_encode", encode),
    ("scale_down_old_rs", scale_down_old),
    ("template_equality", template_equality),
    ("terminating_sum", terminating),
];

case! {
    PodCountCase { name: String, value: Option<String>, expected: Option<i64> }
    CleanUpCase { name: String, replicas: i64, available: i64, max_cleanup: i64, expected: i64 }
    CompleteCase {
        name: String, replicas: i64, pod_replacement_policy: Option<String>, status: Status, generation: i64, observed_generation: i64,
        expected: bool,
    }
    ProgressCase {
        name: String, strategy: String, progress_deadline_seconds: Option<i32>, replicas: i64, status: Status,
        progressing: Option<Condition>, old_replica_sets: Vec<ObservedSet>, new_replica_set: Option<ObservedSet>,
        expected_progressing: Option<Condition>,
    }
    Condition { status: Option<String>, reason: String, last_update_time: Option<String>, last_transition_time: Option<String> }
    ObservedSet { name: String, spec_replicas: i64, status_replicas: i32, available_replicas: i32 }
    ProgressingCase { name: String, pod_replacement_policy: Option<String>, old: Status, new: Status, expected: bool }
    RequeueCase {
        name: String, progress_deadline_seconds: Option<i32>, replicas: i64, status: Status, progressing: Option<Condition>,
        now: Option<Timestamp>, expected: Requeue,
    }
    RequeueAfter { remaining_seconds: i64, queue_after_seconds: i64 }
    TimedOutCase {
        name: String, progress_deadline_seconds: Option<i32>, progressing: Option<Condition>, now: Timestamp, expected: bool,
    }
    FencepostsCase {
        name: String, max_surge: Option<IntOrString>, max_unavailable: Option<IntOrString>, replicas: i32, expected: Option<Resolved>,
        error: Option<bool>,
    }
    Resolved { max_surge: i64, max_unavailable: i64 }
    MaxUnavailableCase {
        name: String, strategy: String, replicas: i32, max_surge: Option<IntOrString>, max_unavailable: Option<IntOrString>,
        expected: Available,
    }
    Available { max_unavailable: i64, min_available: i64 }
    NewReplicasCase {
        name: String, strategy: String, replicas: i32, max_surge: IntOrString, all_replica_sets_spec_replicas: Vec<i64>,
        new_replica_set_replicas: i64, expected: i64,
    }
    OldPodsCase {
        name: String, new_replica_set: Option<String>, old_replica_sets: Vec<OldSet>, pods: Vec<OwnedPod>, expected: BTreeMap<String, bool>,
    }
    OldSet { uid: String, status_replicas: i64 }
    OwnedPod { owner: String, phase: String, deleting: Option<bool> }
    ReconcileNewCase {
        name: String, replicas: i32, max_surge: IntOrString, max_unavailable: IntOrString, old_replicas: i64, new_replicas: i64,
        expected: ReconciledNew,
    }
    ReconciledNew { scaled: bool, new_replicas: i64 }
    ReconcileOldCase {
        name: String, replicas: i32, max_surge: IntOrString, max_unavailable: IntOrString, old_replica_sets: Vec<AvailableSet>,
        new_replica_set: AvailableNew, expected: ReconciledOld,
    }
    AvailableSet { name: String, replicas: i64, available: i64 }
    AvailableNew { replicas: i64, available: i64 }
    ReconciledOld { scaled: bool, replicas: BTreeMap<String, i64> }
    NameCase { name: String, deployment_name: String, hash: String, expected: String }
    HistoryCase {
        name: String, revision: Option<String>, revision_history: Option<String>, new_revision: i64, limit_chars: usize, expected: Numbered,
    }
    Numbered { revision: String, revision_history: Option<String> }
    HistoryCleanUpCase { name: String, revision_history_limit: Option<i32>, old_replica_sets: Vec<HistoricSet>, expected_deleted: Vec<String> }
    HistoricSet {
        name: String, revision: Option<String>, created: i64, spec_replicas: i32, status_replicas: i32, generation: i64,
        observed_generation: i64,
    }
    PolicyCase {
        name: String, replicas: i32, max_surge: IntOrString, replica_sets: Vec<PolicySet>, new_replica_set: String,
        expected: BTreeMap<String, i64>,
    }
    PolicySet { name: String, spec_replicas: i64, status_replicas: i64, terminating_replicas: i64 }
    EncodeCase { name: String, input: String, expected: String }
    ScaleDownCase {
        name: String, replicas: i32, max_surge: IntOrString, max_unavailable: IntOrString, available: i64, old_replicas: i64,
        expected: ScaledDown,
    }
    ScaledDown { removed: i64, old_replicas: i64 }
    TemplateCase {
        name: String, labels_a: BTreeMap<String, String>, labels_b: BTreeMap<String, String>, annotations_a: Option<BTreeMap<String, String>>,
        annotations_b: Option<BTreeMap<String, String>>, spec_equal: bool, expected: bool,
    }
    TerminatingCase { name: String, replica_sets: Vec<TerminatingSet>, expected: Sums }
    TerminatingSet { observed_generation: i64, spec_replicas: i64, replicas: i32, terminating_replicas: Option<i32> }
    Sums { spec_replicas: i64, replicas: i32, terminating_replicas: Option<i32> }
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Status {
    replicas: i32,
    updated_replicas: i32,
    ready_replicas: i32,
    available_replicas: i32,
    terminating_replicas: Option<i32>,
}

#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged)]
enum Requeue {
    Word(String),
    After(RequeueAfter),
}

impl Status {
    fn stored(&self, observed_generation: i64) -> DeploymentStatus {
        DeploymentStatus {
            observed_generation: Generation(observed_generation),
            replicas: self.replicas,
            updated_replicas: self.updated_replicas,
            ready_replicas: self.ready_replicas,
            available_replicas: self.available_replicas,
            terminating_replicas: self.terminating_replicas,
            ..DeploymentStatus::default()
        }
    }
}

impl Condition {
    fn stored(&self) -> DeploymentCondition {
        let time = |text: &Option<String>| text.as_ref().map(|text| Time(text.parse().expect("a time")));
        DeploymentCondition {
            type_: "Progressing".to_owned(),
            status: self.status.clone().unwrap_or_default(),
            reason: Some(self.reason.clone()),
            message: None,
            last_update_time: time(&self.last_update_time),
            last_transition_time: time(&self.last_transition_time),
        }
    }
}

fn policy(name: Option<&str>) -> PodReplacementPolicy {
    match name {
        None | Some("default") => PodReplacementPolicy::Unset,
        Some("TerminationStarted") => PodReplacementPolicy::TerminationStarted,
        Some("TerminationComplete") => PodReplacementPolicy::TerminationComplete,
        Some(other) => panic!("policy {other}"),
    }
}

fn strategy(name: &str) -> DeploymentStrategy {
    match name {
        "RollingUpdate" => DeploymentStrategy::RollingUpdate,
        "Recreate" => DeploymentStrategy::Recreate,
        other => panic!("strategy {other}"),
    }
}

fn rolling(replicas: i32, surge: &IntOrString, unavailable: Option<&IntOrString>) -> Size {
    let limits = Limits::resolve(Some(surge), unavailable, replicas).expect("limits of a case");
    Size::new(DeploymentStrategy::RollingUpdate, replicas.into(), limits)
}

fn pod_count(text: &str) -> Vec<String> {
    check(text, |case: PodCountCase| (case.expected, annotations::pod_count(case.value.as_deref())))
}

fn clean_up_unhealthy(text: &str) -> Vec<String> {
    check(text, |case: CleanUpCase| {
        (case.expected, unhealthy_to_remove(Pods { size: case.replicas, available: case.available }, case.max_cleanup))
    })
}

fn goal(desired: i64, generation: i64, policy: PodReplacementPolicy, status: &Status) -> Goal {
    Goal { desired, generation: Generation(generation), policy, terminating: status.terminating_replicas.map(i64::from) }
}

fn complete(text: &str) -> Vec<String> {
    check(text, |case: CompleteCase| {
        let goal = goal(case.replicas, case.generation, policy(case.pod_replacement_policy.as_deref()), &case.status);
        (case.expected, is_complete(goal, &case.status.stored(case.observed_generation)))
    })
}

fn progressing(text: &str) -> Vec<String> {
    check(text, |case: ProgressingCase| {
        (case.expected, has_progressed(policy(case.pod_replacement_policy.as_deref()), &case.old.stored(1), &case.new.stored(1)))
    })
}

fn conditions(progressing: Option<&Condition>) -> Conditions {
    let conditions = progressing.map(|condition| vec![condition.stored()]);
    Conditions::of(&DeploymentStatus { conditions, ..DeploymentStatus::default() })
}

fn progress_condition(text: &str) -> Vec<String> {
    check(text, |case: ProgressCase| {
        strategy(&case.strategy);
        let now: Timestamp = "2020-01-01T00:00:00Z".parse().expect("a time");
        let sets = || case.old_replica_sets.iter().chain(&case.new_replica_set);
        let new = DeploymentStatus {
            observed_generation: Generation(1),
            replicas: sets().map(|set| set.status_replicas).sum(),
            updated_replicas: case.new_replica_set.as_ref().map_or(0, |set| set.status_replicas),
            available_replicas: sets().map(|set| set.available_replicas).sum(),
            ..DeploymentStatus::default()
        };
        let mut conditions = conditions(case.progressing.as_ref());
        let stored = case.status.stored(1);
        set_progress(
            &mut conditions,
            &Progress {
                stored: &stored,
                new: &new,
                goal: goal(case.replicas, 1, PodReplacementPolicy::Unset, &case.status),
                held: Held::No,
                deadline: deadline(case.progress_deadline_seconds),
                subject: Subject::ReplicaSet("web-1".to_owned()),
                now,
            },
        );
        let expected = case.expected_progressing;
        let time = |wanted: Option<&String>, actual: Option<&Time>| {
            // A time that the case leaves out is not checked.
            let actual = actual.map(|time| if time.0 == now { "now".to_owned() } else { time.0.to_string() });
            wanted.and(actual)
        };
        let actual = conditions.get("Progressing").map(|condition| {
            let wanted = expected.as_ref();
            let update = time(wanted.and_then(|wanted| wanted.last_update_time.as_ref()), condition.last_update_time.as_ref());
            let transition = time(wanted.and_then(|wanted| wanted.last_transition_time.as_ref()), condition.last_transition_time.as_ref());
            (Some(condition.status.clone()), condition.reason.clone(), update, transition)
        });
        (expected.map(|wanted| (wanted.status, Some(wanted.reason), wanted.last_update_time, wanted.last_transition_time)), actual)
    })
}

fn requeue(text: &str) -> Vec<String> {
    check(text, |case: RequeueCase| {
        let deadline = deadline(case.progress_deadline_seconds);
        let condition = case.progressing.as_ref().map(Condition::stored);
        let is_complete = is_complete(goal(case.replicas, 1, PodReplacementPolicy::Unset, &case.status), &case.status.stored(1));
        let next = next_check(deadline, condition.as_ref(), case.now.unwrap_or_default());
        let actual = match next {
            DeadlineCheck::None => "none".to_owned(),
            _ if is_complete => "none".to_owned(),
            DeadlineCheck::Now => "now-rate-limited".to_owned(),
            DeadlineCheck::After(left) => format!("{} then {}", left.as_secs(), left.as_secs() + 1),
        };
        let expected = match case.expected {
            Requeue::Word(word) => word,
            Requeue::After(after) => format!("{} then {}", after.remaining_seconds, after.queue_after_seconds),
        };
        (expected, actual)
    })
}

fn timed_out(text: &str) -> Vec<String> {
    check(text, |case: TimedOutCase| {
        let condition = case.progressing.as_ref().map(Condition::stored);
        (case.expected, is_timed_out(deadline(case.progress_deadline_seconds), condition.as_ref(), case.now))
    })
}

fn fenceposts(text: &str) -> Vec<String> {
    check(text, |case: FencepostsCase| {
        let limits = Limits::resolve(case.max_surge.as_ref(), case.max_unavailable.as_ref(), case.replicas);
        let expected = case.expected.map(|limits| (limits.max_surge, limits.max_unavailable));
        assert_eq!(expected.is_none(), case.error == Some(true), "a case expects numbers or an error");
        (expected, limits.ok().map(|limits| (limits.surge, limits.unavailable)))
    })
}

fn max_unavailable(text: &str) -> Vec<String> {
    check(text, |case: MaxUnavailableCase| {
        let limits = Limits::resolve(case.max_surge.as_ref(), case.max_unavailable.as_ref(), case.replicas).expect("limits of a case");
        let size = Size::new(strategy(&case.strategy), case.replicas.into(), limits);
        ((case.expected.max_unavailable, case.expected.min_available), (size.unavailable, size.min_available))
    })
}

fn new_rs_replicas(text: &str) -> Vec<String> {
    check(text, |case: NewReplicasCase| {
        let used = case.all_replica_sets_spec_replicas.iter().sum();
        let size = match strategy(&case.strategy) {
            DeploymentStrategy::RollingUpdate => grown(rolling(case.replicas, &case.max_surge, None), used, case.new_replica_set_replicas),
            // Recreate does not count others: they are gone.
            DeploymentStrategy::Recreate => case.replicas.into(),
        };
        (case.expected, size)
    })
}

fn old_pods_running(text: &str) -> Vec<String> {
    check(text, |case: OldPodsCase| {
        assert_eq!(case.new_replica_set, None, "no case has a new set");
        let count = |uid: &str, deleting: bool| {
            let finished = |pod: &&OwnedPod| matches!(pod.phase.as_str(), "Succeeded" | "Failed");
            let pods = case.pods.iter().filter(|pod| pod.owner == uid && pod.deleting.unwrap_or(false) == deleting && !finished(pod));
            i64::try_from(pods.count()).expect("few pods")
        };
        let old: Vec<_> = case
            .old_replica_sets
            .iter()
            .map(|set| OldPods {
                reported: set.status_replicas,
                lags: false,
                running: count(&set.uid, false),
                terminating: count(&set.uid, true),
            })
            .collect();
        let actual = case.expected.keys().map(|name| (name.clone(), must_wait(policy(Some(name)), &old))).collect();
        (case.expected, actual)
    })
}

fn reconcile_new(text: &str) -> Vec<String> {
    check(text, |case: ReconcileNewCase| {
        let size = rolling(case.replicas, &case.max_surge, Some(&case.max_unavailable));
        let to = new_size(size, case.old_replicas + case.new_replicas, case.new_replicas);
        ((case.expected.scaled, case.expected.new_replicas), (to != case.new_replicas, to))
    })
}

fn reconcile_old(text: &str) -> Vec<String> {
    check(text, |case: ReconcileOldCase| {
        let size = rolling(case.replicas, &case.max_surge, Some(&case.max_unavailable));
        let active: Vec<_> = case.old_replica_sets.iter().filter(|set| set.replicas > 0).collect();
        let old: Vec<_> = active.iter().map(|set| Pods { size: set.replicas, available: set.available }).collect();
        let new = Pods { size: case.new_replica_set.replicas, available: case.new_replica_set.available };
        let mut sizes: BTreeMap<_, _> = case.old_replica_sets.iter().map(|set| (set.name.clone(), set.replicas)).collect();
        let before = sizes.clone();
        sizes.extend(active.iter().map(|set| set.name.clone()).zip(shrink_old(&old, new, size)));
        ((case.expected.scaled, case.expected.replicas), (sizes != before, sizes))
    })
}

fn set_name(text: &str) -> Vec<String> {
    check(text, |case: NameCase| (case.expected, replica_set_name(&case.deployment_name, &case.hash.into())))
}

fn revision_history(text: &str) -> Vec<String> {
    check(text, |case: HistoryCase| {
        let given = [(REVISION, case.revision), (REVISION_HISTORY, case.revision_history)];
        let mut annotations: Annotations = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        annotations::raise_revision(&mut annotations, RolloutRevision(case.new_revision), case.limit_chars);
        let expected = (Some(case.expected.revision), case.expected.revision_history);
        (expected, (annotations.remove(REVISION), annotations.remove(REVISION_HISTORY)))
    })
}

fn history_clean_up(text: &str) -> Vec<String> {
    check(text, |case: HistoryCleanUpCase| {
        let view = |set: &HistoricSet| ReplicaSetView {
            meta: Meta {
                name: set.name.as_str().into(),
                generation: Generation(set.generation),
                created: Some(super::at(set.created)),
                ..Meta::default()
            },
            annotations: set.revision.iter().map(|revision| (REVISION.to_owned(), revision.clone())).collect(),
            replicas: set.spec_replicas,
            status: ReplicaSetStatus {
                replicas: set.status_replicas,
                observed_generation: Generation(set.observed_generation),
                ..ReplicaSetStatus::default()
            },
            ..ReplicaSetView::default()
        };
        let sets: Vec<_> = case.old_replica_sets.iter().map(view).collect();
        let mut deleted: Vec<_> =
            surplus(sets.iter().collect(), case.revision_history_limit).iter().map(|set| set.meta.name.to_string()).collect();
        deleted.sort();
        (case.expected_deleted, deleted)
    })
}

fn rollout_policies(text: &str) -> Vec<String> {
    check(text, |case: PolicyCase| {
        let size = rolling(case.replicas, &case.max_surge, None);
        let current = case.replica_sets.iter().find(|set| set.name == case.new_replica_set).expect("the new set").spec_replicas;
        let wanted: i64 = case.replica_sets.iter().map(|set| set.spec_replicas).sum();
        let in_use: i64 = case.replica_sets.iter().map(|set| set.spec_replicas.max(set.status_replicas) + set.terminating_replicas).sum();
        let used = |name: &str| if policy(Some(name)) == PodReplacementPolicy::TerminationComplete { in_use } else { wanted };
        let actual = case.expected.keys().map(|name| (name.clone(), new_size(size, used(name), current))).collect();
        (case.expected, actual)
    })
}

fn encode(text: &str) -> Vec<String> {
    check(text, |case: EncodeCase| (case.expected, safe_encode(&case.input)))
}

fn scale_down_old(text: &str) -> Vec<String> {
    check(text, |case: ScaleDownCase| {
        let size = rolling(case.replicas, &case.max_surge, Some(&case.max_unavailable));
        let mut sizes = [case.old_replicas];
        scale_down(&mut sizes, case.available - size.min_available);
        ((case.expected.removed, case.expected.old_replicas), (case.old_replicas - sizes[0], sizes[0]))
    })
}

fn template_equality(text: &str) -> Vec<String> {
    check(text, |case: TemplateCase| {
        let template = |labels: BTreeMap<_, _>, annotations, image: &str| {
            let spec = serde_json::json!({"containers": [{"name": "c", "image": image}]});
            PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), annotations, ..ObjectMeta::default() }),
                spec: Some(serde_json::from_value(spec).expect("a spec")),
            }
        };
        let a = template(case.labels_a, case.annotations_a, "one");
        let b = template(case.labels_b, case.annotations_b, if case.spec_equal { "one" } else { "two" });
        (case.expected, same_template(&a, &b))
    })
}

fn terminating(text: &str) -> Vec<String> {
    check(text, |case: TerminatingCase| {
        let status = |set: &TerminatingSet| ReplicaSetStatus {
            replicas: set.replicas,
            terminating_replicas: set.terminating_replicas,
            observed_generation: Generation(set.observed_generation),
            ..ReplicaSetStatus::default()
        };
        let statuses: Vec<_> = case.replica_sets.iter().map(status).collect();
        let wanted: i64 = case.replica_sets.iter().map(|set| set.spec_replicas).sum();
        let replicas = statuses.iter().map(|status| status.replicas).sum();
        let expected = case.expected;
        ((expected.spec_replicas, expected.replicas, expected.terminating_replicas), (wanted, replicas, terminating_sum(&statuses)))
    })
}
