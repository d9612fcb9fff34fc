//! PodDisruptionBudgets: how many pods may be evicted now (upstream: disruption controller). The API server performs the eviction.

use crate::{
    plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Subresource, Urgency, merge_patch},
    view::{BudgetView, PodView},
};
use berth_api::int_or_string::{Rounding, resolve};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::policy::v1::PodDisruptionBudgetStatus,
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, LabelSelectorRequirement, OwnerReference, Time},
        util::intstr::IntOrString,
    },
};
use serde_json::json;
use std::collections::BTreeMap;

/// How long a pod may take from its granted eviction to its deletion. After that the pod counts as not evicted.
pub const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// The input of one budget's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct DisruptionState<'a> {
    /// The budget.
    pub budget: &'a BudgetView,
    /// The pods of its namespace that its selector matches.
    pub pods: Vec<&'a PodView>,
    /// The workloads that own the pods, by the uid of the pod's controller: all that [`controllers`] names. A ReplicaSet's Deployment, else the
    /// controller itself.
    pub workloads: BTreeMap<String, Workload>,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// A workload that owns pods, itself or through a ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its uid. The ReplicaSets of a Deployment all have the Deployment's.
    pub uid: String,
    /// How many pods it wants; `None` if it is unknown or has no scale.
    pub replicas: Option<i64>,
}

/// The controllers of these pods whose workloads the state needs, once for every pod. None if the budget does not depend on them.
pub fn controllers<'a>(budget: &BudgetView, pods: &'a [&PodView]) -> impl Iterator<Item = &'a OwnerReference> {
    let spec = &budget.spec;
    let is_share = spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)));
    let pods = if is_share { pods } else { &[] };
    pods.iter().filter_map(|pod| pod.meta.controller())
}

/// Plans the budget's status.
#[must_use]
pub fn plan(state: &DisruptionState<'_>) -> Plan {
    let (status, events) = match expectation(state) {
        Ok(expected) => status(state, expected),
        Err(error) => (failed(state, &error), vec![event(state, Severity::Warning, "CalculateExpectedPodCountFailed", error.to_string())]),
    };
    let deadlines = status.disrupted_pods.iter().flatten().filter_map(|(_, time)| expiry(time));
    let requeue_at = deadlines.min();
    let write = merge_patch(&state.budget.status, &status).map(|patch| Action::Patch {
        target: state.budget.reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": patch}),
        urgency: Urgency::Now,
        reason: Reason::PodsChanged,
        events: Outcome::default(),
    });
    Plan { stages: write.into_iter().map(|action| Stage { actions: vec![action] }).collect(), events, requeue_at, ..Plan::default() }
}

/// The expected number of pods, and how many of them must be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expectation {
    pods: i64,
    healthy: i64,
}

/// Why the expected number of pods is unknown. Then no pod may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unknown {
    /// A pod's controller does not exist or has no scale.
    NoScale { pod: String },
    /// A limit is neither a number nor a percentage.
    Limit(IntOrString),
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoScale { pod } => write!(f, "found no controllers for pod \"{pod}\""),
            Self::Limit(limit) => write!(f, "{limit:?} is neither a number nor a percentage"),
        }
    }
}

fn expectation(state: &DisruptionState<'_>) -> Result<Expectation, Unknown> {
    let spec = &state.budget.spec;
    let of = |limit: &IntOrString, pods: i64| {
        let total = i32::try_from(pods).unwrap_or(i32::MAX);
        resolve(limit, total, Rounding::Up).map(i64::from).ok_or_else(|| Unknown::Limit(limit.clone()))
    };
    let matched = i64::try_from(state.pods.len()).unwrap_or(i64::MAX);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(limit), _) => {
            let pods = wanted(state)?;
            Ok(Expectation { pods, healthy: (pods - of(limit, pods)?).max(0) })
        }
        (None, Some(IntOrString::Int(healthy))) => Ok(Expectation { pods: matched, healthy: (*healthy).into() }),
        (None, Some(limit)) => {
            let pods = wanted(state)?;
            Ok(Expectation { pods, healthy: of(limit, pods)? })
        }
        (None, None) => Ok(Expectation { pods: matched, healthy: 0 }),
    }
}

/// How many pods the controllers of the matched pods require, each counted once. Pods without a controller do not count.
fn wanted(state: &DisruptionState<'_>) -> Result<i64, Unknown> {
    let mut scales = BTreeMap::new();
    for pod in &state.pods {
        let Some(controller) = pod.meta.controller() else { continue };
        let known = state.workloads.get(&controller.uid).and_then(|workload| Some((&workload.uid, workload.replicas?)));
        let (uid, replicas) = known.ok_or_else(|| Unknown::NoScale { pod: pod.meta.name.to_string() })?;
        scales.insert(uid, replicas);
    }
    Ok(scales.values().sum())
}

fn status(state: &DisruptionState<'_>, expected: Expectation) -> (PodDisruptionBudgetStatus, Vec<EventRecord>) {
    let (disrupted, overdue) = disrupted(state);
    let is_healthy = |pod: &&&PodView| pod.ready && pod.meta.deleted.is_none() && !disrupted.contains_key(pod.meta.name.as_str());
    let healthy = i64::try_from(state.pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let allowed = if expected.pods > 0 { (healthy - expected.healthy).max(0) } else { 0 };
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(state, status, reason, String::new())),
        current_healthy: Some(number(healthy)),
        desired_healthy: Some(number(expected.healthy)),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: Some(number(allowed)),
        expected_pods: Some(number(expected.pods)),
        observed_generation: Some(state.budget.meta.generation.0),
    };
    let bare = are_unmanaged(state).then(|| event(state, Severity::Warning, "UnmanagedPods", unmanaged(state)));
    let no_pods = state.pods.is_empty().then(|| event(state, Severity::Normal, "NoPods", "No matching pods found".to_owned()));
    (status, overdue.into_iter().chain(bare).chain(no_pods).collect())
}

/// Whether the budget depends on the scale of controllers, and a pod has no controller.
fn are_unmanaged(state: &DisruptionState<'_>) -> bool {
    let spec = &state.budget.spec;
    let counts_wanted = spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)));
    counts_wanted && state.pods.iter().any(|pod| pod.meta.controller().is_none())
}

fn unmanaged(state: &DisruptionState<'_>) -> String {
    let selector = state.budget.spec.selector.as_ref().map_or_else(|| "nil".to_owned(), in_go);
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the PDB cannot be \
         calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB \
         to an integer value."
    )
}

/// A selector as upstream's messages show it.
fn in_go(selector: &LabelSelector) -> String {
    let labels: String = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    let expression = |wanted: &LabelSelectorRequirement| {
        let LabelSelectorRequirement { key, operator, values } = wanted;
        let values = values.as_deref().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    };
    let expressions: String = selector.match_expressions.iter().flatten().map(expression).collect();
    format!("&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}")
}

/// The pods with a granted eviction that are not deleted yet, and events about those that took too long.
fn disrupted(state: &DisruptionState<'_>) -> (BTreeMap<String, Time>, Vec<EventRecord>) {
    let (mut waiting, mut overdue) = (BTreeMap::new(), Vec::new());
    let granted = state.budget.status.disrupted_pods.iter().flatten();
    for (name, time) in granted {
        let is_there = state.pods.iter().any(|pod| pod.meta.name == *name && pod.meta.deleted.is_none());
        if !is_there {
            continue;
        }
        if expiry(time).is_some_and(|expiry| expiry > state.now) {
            waiting.insert(name.clone(), time.clone());
        } else {
            let meta = &state.budget.meta;
            let message = format!("Pod {name} was expected by PDB {}/{} to be deleted but it wasn't", meta.namespace, meta.name);
            overdue.push(event(state, Severity::Warning, "NotDeleted", message));
        }
    }
    (waiting, overdue)
}

fn expiry(granted: &Time) -> Option<Timestamp> {
    granted.0.checked_add(DELETION_TIMEOUT).ok()
}

/// No pod may be evicted while the expected number is unknown.
fn failed(state: &DisruptionState<'_>, error: &Unknown) -> PodDisruptionBudgetStatus {
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(state, "False", "SyncFailed", error.to_string())),
        disruptions_allowed: Some(0),
        ..state.budget.status.clone()
    }
}

fn conditions(state: &DisruptionState<'_>, status: &str, reason: &str, message: String) -> Vec<Condition> {
    let stored = state.budget.status.conditions.iter().flatten();
    let (current, mut others): (Vec<_>, Vec<_>) = stored.cloned().partition(|condition| condition.type_ == DISRUPTION_ALLOWED);
    let unchanged = current.into_iter().find(|condition| condition.status == status);
    others.push(Condition {
        last_transition_time: unchanged.map_or(Time(state.now), |condition| condition.last_transition_time),
        message,
        observed_generation: Some(state.budget.meta.generation.0),
        reason: reason.to_owned(),
        status: status.to_owned(),
        type_: DISRUPTION_ALLOWED.to_owned(),
    });
    others
}

fn event(state: &DisruptionState<'_>, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord { repeat: Repeat::Once, ..EventRecord::new(state.budget.reference(), severity, reason, message) }
}

fn number(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use crate::{read_back::read_back, view::Meta};
    use berth_identity::Revision;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn pods(healthy: usize, unready: usize) -> Vec<PodView> {
        let owner = OwnerReference { uid: "rs".to_owned(), controller: Some(true), ..OwnerReference::default() };
        let pod = |index: usize| PodView {
            meta: Meta { name: format!("p{index}").into(), owners: vec![owner.clone()].into(), ..Meta::default() },
            ready: index < healthy,
            ..PodView::default()
        };
        (0..healthy + unready).map(pod).collect()
    }

    fn budget(spec: &serde_json::Value, status: &serde_json::Value) -> BudgetView {
        let json = json!({"metadata": {"name": "b", "namespace": "n", "uid": "u", "generation": 2}, "spec": spec, "status": status});
        BudgetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a budget")
    }

    fn plan_of(budget: &BudgetView, pods: &[PodView], scale: &dyn Fn(&OwnerReference) -> Option<i64>) -> Plan {
        let pods: Vec<&PodView> = pods.iter().collect();
        let workload = |owner: &OwnerReference| Workload { uid: owner.uid.clone(), replicas: scale(owner) };
        let workloads = controllers(budget, &pods).map(|owner| (owner.uid.clone(), workload(owner))).collect();
        read_back(plan(&DisruptionState { budget, pods, workloads, now: NOW.parse().expect("a time") }))
    }

    fn planned(spec: &serde_json::Value, status: &serde_json::Value, pods: &[PodView], scale: Option<i64>) -> serde_json::Value {
        let plan = plan_of(&budget(spec, status), pods, &|_| scale);
        let Some(Action::Patch { patch, .. }) = plan.stages.into_iter().flat_map(|stage| stage.actions).next() else { return json!(null) };
        patch["status"].clone()
    }

    fn event_lines(plan: &Plan) -> Vec<String> {
        plan.events.iter().map(|event| format!("{:?} {:?} {}: {}", event.severity, event.repeat, event.reason, event.message)).collect()
    }

    #[test]
    fn as_many_may_go_as_are_healthy_beyond_what_is_needed() {
        let check = |spec: serde_json::Value, pods: &[PodView], scale, expected: [i64; 4], reason: &str| {
            let status = planned(&spec, &json!({}), pods, scale);
            let found = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"].map(|field| status[field].as_i64());
            assert_eq!(found, expected.map(Some), "{spec}");
            assert_eq!(status["conditions"][0]["reason"], reason, "{spec}");
        };
        check(json!({"minAvailable": 2}), &pods(3, 0), None, [3, 2, 3, 1], "SufficientPods");
        check(json!({"minAvailable": 2}), &pods(2, 1), None, [3, 2, 2, 0], "InsufficientPods");
        check(json!({"minAvailable": "50%"}), &pods(3, 0), Some(5), [5, 3, 3, 0], "InsufficientPods");
        check(json!({"maxUnavailable": 1}), &pods(3, 0), Some(3), [3, 2, 3, 1], "SufficientPods");
        check(json!({"maxUnavailable": "30%"}), &pods(5, 0), Some(5), [5, 3, 5, 2], "SufficientPods");
        check(json!({"maxUnavailable": 5}), &[], Some(3), [0, 0, 0, 0], "InsufficientPods");
        let bare: Vec<_> =
            pods(3, 0).into_iter().map(|pod| PodView { meta: Meta { owners: Vec::new().into(), ..pod.meta }, ..pod }).collect();
        check(json!({"maxUnavailable": 1}), &bare, None, [0, 0, 3, 0], "InsufficientPods");
    }

    #[test]
    fn nothing_may_go_if_the_controller_is_unknown() {
        let status = planned(&json!({"maxUnavailable": 1}), &json!({"disruptionsAllowed": 2}), &pods(3, 0), None);
        assert_eq!((&status["disruptionsAllowed"], &status["conditions"][0]["reason"]), (&json!(0), &json!("SyncFailed")));
        assert_eq!(status["conditions"][0]["message"], "found no controllers for pod \"p0\"");
    }

    #[test]
    fn a_granted_eviction_counts_for_two_minutes() {
        let granted = |time: &str| json!({"disruptedPods": {"p0": time, "gone": time}});
        let recent = planned(&json!({"minAvailable": 1}), &granted("2026-01-01T00:08:01Z"), &pods(3, 0), None);
        assert_eq!((&recent["currentHealthy"], &recent["disruptedPods"]), (&json!(2), &json!({"gone": null})));
        let overdue = planned(&json!({"minAvailable": 1}), &granted("2026-01-01T00:08:00Z"), &pods(3, 0), None);
        assert_eq!((&overdue["currentHealthy"], &overdue["disruptedPods"]), (&json!(3), &json!(null)));
    }

    #[test]
    fn events_about_a_budget_are_recorded_once() {
        let event_lines = |spec: &serde_json::Value, status: &serde_json::Value, pods: &[PodView]| {
            event_lines(&plan_of(&budget(spec, status), pods, &|_| None))
        };
        let spec = json!({"minAvailable": 1});
        assert_eq!(event_lines(&spec, &json!({}), &pods(1, 0)), [""; 0]);
        assert_eq!(event_lines(&spec, &json!({}), &[]), ["Normal Once NoPods: No matching pods found"]);
        let overdue = json!({"disruptedPods": {"p0": "2026-01-01T00:08:00Z"}});
        let text = "Warning Once NotDeleted: Pod p0 was expected by PDB n/b to be deleted but it wasn't";
        assert_eq!(event_lines(&spec, &overdue, &pods(1, 0)), [text]);
        let text = "Warning Once CalculateExpectedPodCountFailed: found no controllers for pod \"p0\"";
        assert_eq!(event_lines(&json!({"maxUnavailable": 1}), &json!({}), &pods(1, 0)), [text]);
        let bare: Vec<_> =
            pods(1, 0).into_iter().map(|pod| PodView { meta: Meta { owners: Vec::new().into(), ..pod.meta }, ..pod }).collect();
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["x", "y"]}]});
        let text = "Warning Once UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{a: b,},\
                    MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:NotIn,Values:[x y],},},}) were found to be \
                    unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
                    for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.";
        assert_eq!(event_lines(&json!({"maxUnavailable": 1, "selector": selector}), &json!({}), &bare), [text]);
        assert_eq!(event_lines(&json!({"minAvailable": "50%", "selector": selector}), &json!({}), &bare), [text]);
        assert_eq!(event_lines(&json!({"minAvailable": 1, "selector": selector}), &json!({}), &bare), [""; 0]);
        let status = planned(&json!({"maxUnavailable": "some"}), &json!({}), &pods(1, 0), Some(1));
        let text = "String(\"some\") is neither a number nor a percentage";
        assert_eq!(status["conditions"][0]["message"], text);
    }

    #[test]
    fn a_budget_is_requeued_when_the_first_granted_eviction_expires_and_only_differences_are_written() {
        let spec = json!({"minAvailable": 1});
        let granted = json!({"disruptedPods": {"p0": "2026-01-01T00:09:30Z", "p1": "2026-01-01T00:08:30Z"}});
        let first = plan_of(&budget(&spec, &granted), &pods(3, 0), &|_| None);
        assert_eq!(first.requeue_at, "2026-01-01T00:10:30Z".parse().ok());
        let status = planned(&spec, &json!({}), &pods(3, 0), None);
        let again = plan_of(&budget(&spec, &status), &pods(3, 0), &|_| None);
        assert_eq!((again.is_idle(), again.requeue_at), (true, None), "{again:?}");
    }

    #[test]
    fn the_condition_moves_its_time_with_its_status_and_leaves_others_alone() {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let found = |allowed: &str| {
            let stored = json!({"conditions": [condition(DISRUPTION_ALLOWED, allowed), condition("Other", "True")]});
            let status = planned(&json!({"minAvailable": 2}), &stored, &pods(3, 0), None);
            let conditions = status["conditions"].as_array().cloned().expect("conditions");
            let text =
                |one: &serde_json::Value| format!("{} {} {}", one["type"], one["status"], one["lastTransitionTime"]).replace('"', "");
            conditions.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(found("True"), ["Other True 2026-01-01T00:00:00Z", "DisruptionAllowed True 2026-01-01T00:00:00Z"]);
        assert_eq!(found("False"), ["Other True 2026-01-01T00:00:00Z", "DisruptionAllowed True 2026-01-01T00:10:00Z"]);
    }

    #[test]
    fn pods_on_their_way_out_are_not_healthy_and_their_granted_evictions_are_over() {
        let mut pods = pods(3, 0);
        pods[0].meta.deleted = NOW.parse().ok();
        let status = planned(&json!({"minAvailable": 1}), &json!({"disruptedPods": {"p0": NOW}}), &pods, None);
        assert_eq!(
            (&status["currentHealthy"], &status["disruptionsAllowed"], &status["disruptedPods"]),
            (&json!(2), &json!(1), &json!(null))
        );
    }

    #[test]
    fn each_controller_counts_once_and_pods_without_one_not_at_all() {
        let owned = |name: &str, owner: Option<&str>| {
            let owners: Vec<_> = owner
                .map(|uid| OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() })
                .into_iter()
                .collect();
            PodView { meta: Meta { name: name.into(), owners: owners.into(), ..Meta::default() }, ready: true, ..PodView::default() }
        };
        let pods = [owned("a", Some("small")), owned("b", Some("small")), owned("c", Some("large")), owned("d", None)];
        let scale = |owner: &OwnerReference| Some(if owner.uid == "small" { 2 } else { 7 });
        let plan = plan_of(&budget(&json!({"maxUnavailable": 0}), &json!({})), &pods, &scale);
        let Some(Action::Patch { patch, .. }) = plan.stages.into_iter().flat_map(|stage| stage.actions).next() else { panic!("a write") };
        let status = &patch["status"];
        assert_eq!((&status["expectedPods"], &status["desiredHealthy"], &status["disruptionsAllowed"]), (&json!(9), &json!(9), &json!(0)));
    }
}
