//! The decisions on a pod on an unhealthy node.

use super::view::{BoundPodView, NodeView, Readiness};
use crate::{
    placement::tolerates,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, Stage, Subresource, Urgency},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{PodCondition, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::json;

/// The input of one pod's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePodState<'a> {
    /// The pod.
    pub pod: &'a BoundPodView,
    /// Its node.
    pub node: &'a NodeView,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// How long a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// Without a limit.
    Unlimited,
    /// Until this time.
    Until(Timestamp),
    /// Not at all.
    Over,
}

/// Decides whether the pod still counts as ready, and whether it is evicted.
#[must_use]
pub fn plan(state: &NodePodState<'_>) -> Plan {
    if state.pod.phase.is_finished() {
        return Plan::default();
    }
    let stay = if state.pod.deleting { Stay::Unlimited } else { stay(state) };
    let leaves = match stay {
        Stay::Unlimited => false,
        Stay::Until(end) => end <= state.now,
        Stay::Over => true,
    };
    let deletion = leaves.then(|| delete(state));
    let requeue_at = if let (Stay::Until(end), false) = (stay, leaves) { Some(end) } else { None };
    let actions = mark(state, leaves).into_iter().chain(deletion);
    Plan { stages: actions.map(|action| Stage { actions: vec![action] }).collect(), requeue_at, ..Plan::default() }
}

/// The shortest stay that the pod's tolerations allow.
fn stay(state: &NodePodState<'_>) -> Stay {
    let mut end = None;
    for taint in state.node.evicting() {
        // As upstream, the first matching toleration counts.
        let Some(toleration) = state.pod.tolerations.iter().find(|toleration| tolerates(toleration, taint)) else { return Stay::Over };
        if let Some(seconds) = toleration.toleration_seconds {
            end = [end, stay_until(taint, seconds)].into_iter().flatten().min();
        }
    }
    end.map_or(Stay::Unlimited, Stay::Until)
}

/// Returns `None` while the taint has no `timeAdded`. The node's own plan adds it.
fn stay_until(taint: &Taint, seconds: i64) -> Option<Timestamp> {
    let added = taint.time_added.as_ref()?.0;
    Some(added.saturating_add(SignedDuration::from_secs(seconds.max(0))).expect("a duration of whole seconds has no calendar units"))
}

/// Writes the pod's conditions if they are outdated.
fn mark(state: &NodePodState<'_>, leaves: bool) -> Option<Action> {
    let mut conditions = state.pod.conditions.clone();
    let ready = conditions.iter_mut().find(|condition| condition.type_ == "Ready" && condition.status == "True");
    let lost = ready.filter(|_| matches!(state.node.readiness(), Readiness::NotReady | Readiness::Unknown));
    let is_lost = lost.is_some();
    if let Some(ready) = lost {
        ready.status = "False".to_owned();
        ready.last_transition_time = Some(Time(state.now));
    }
    if leaves {
        conditions.retain(|condition| condition.type_ != "DisruptionTarget");
        conditions.push(disruption_target(state));
    }
    let warning = is_lost.then(|| event(state.pod, Severity::Warning, "NodeNotReady", "Node is not ready".to_owned()));
    (conditions != state.pod.conditions).then(|| Action::Patch {
        target: state.pod.reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": {"conditions": conditions}}),
        urgency: Urgency::Now,
        reason: Reason::NodeState { node: state.node.name.clone() },
        events: Outcome { success: warning, failure: None },
    })
}

fn disruption_target(state: &NodePodState<'_>) -> PodCondition {
    let stored = state.pod.conditions.iter().find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("DeletionByTaintManager".to_owned()),
        message: Some("Taint manager: deleting due to NoExecute taint".to_owned()),
        last_transition_time: stored.map_or(Some(Time(state.now)), |condition| condition.last_transition_time.clone()),
        ..PodCondition::default()
    }
}

fn delete(state: &NodePodState<'_>) -> Action {
    let BoundPodView { namespace, name, .. } = state.pod;
    let marking = event(state.pod, Severity::Normal, "TaintManagerEviction", format!("Marking for deletion Pod {namespace}/{name}"));
    Action::Delete {
        // The write of its condition has just changed its version. The uid still identifies the pod.
        target: state.pod.reference().in_any_version(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::NotTolerated { node: state.node.name.clone() },
        events: Outcome { success: Some(marking), failure: None },
    }
}

fn event(pod: &BoundPodView, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord::new(pod.reference(), severity, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read_back::read_back, view::View};
    use berth_identity::Revision;
    use serde_json::Value;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn node(ready: &str, taints: &Value) -> NodeView {
        let json =
            json!({"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        NodeView::decode(json.to_string().as_bytes(), Revision(1)).expect("a node")
    }

    fn pod(tolerations: &Value) -> BoundPodView {
        let json = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "n", "tolerations": tolerations},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]},
        });
        BoundPodView::decode(json.to_string().as_bytes(), Revision(7)).expect("a pod")
    }

    /// The taint of a lost node, added at 100.
    fn unreachable() -> Value {
        json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}])
    }

    /// The actions as text, and the time of the next reconcile.
    fn check(pod: &BoundPodView, node: &NodeView, now: i64, expected: &[&str], requeue_at: Option<i64>) {
        let plan = read_back(plan(&NodePodState { pod, node, now: at(now) }));
        let word = |action: Action| match action {
            Action::Patch { target, subresource: Some(Subresource::Status), patch, .. } => {
                assert_eq!(target.resource_version, Some(Revision(7)));
                let conditions = patch["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
                conditions.iter().map(|one| format!("{}={}", text(one, "type"), text(one, "status"))).collect::<Vec<_>>().join(" ")
            }
            Action::Delete { target, .. } => format!("delete {}", target.uid),
            other => panic!("{other:?}"),
        };
        let done: Vec<_> = plan.stages.into_iter().flat_map(|stage| stage.actions).map(word).collect();
        assert_eq!((done, plan.requeue_at), (expected.iter().map(|&text| text.to_owned()).collect(), requeue_at.map(at)));
    }

    #[test]
    fn pods_leave_when_what_they_tolerate_is_over() {
        let unready = "Ready=False PodScheduled=True";
        let leaving = "Ready=False PodScheduled=True DisruptionTarget=True";
        let for_seconds =
            |seconds: i64| json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": seconds}]);
        let lost = node("Unknown", &unreachable());
        check(&pod(&json!([])), &lost, 100, &[leaving, "delete u"], None);
        check(&pod(&for_seconds(300)), &lost, 100, &[unready], Some(400));
        check(&pod(&for_seconds(300)), &lost, 399, &[unready], Some(400));
        check(&pod(&for_seconds(300)), &lost, 400, &[leaving, "delete u"], None);
        check(&pod(&for_seconds(-1)), &lost, 100, &[leaving, "delete u"], None);
        check(&pod(&json!([{"operator": "Exists"}])), &lost, 9999, &[unready], None);
    }

    #[test]
    fn the_shortest_stay_counts_and_any_taint_that_is_not_borne_ends_it() {
        let by_hand = json!([
            {"key": "a", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"},
            {"key": "b", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z"},
            {"key": "c", "effect": "NoSchedule"},
        ]);
        let tainted = node("True", &by_hand);
        let bears = |a: i64, b: i64| {
            pod(
                &json!([{"key": "a", "operator": "Exists", "tolerationSeconds": a}, {"key": "b", "operator": "Exists", "tolerationSeconds": b}]),
            )
        };
        check(&bears(10, 500), &tainted, 100, &[], Some(110));
        check(&bears(1000, 500), &tainted, 100, &[], Some(500));
        check(
            &pod(&json!([{"key": "a", "operator": "Exists"}])),
            &tainted,
            100,
            &["Ready=True PodScheduled=True DisruptionTarget=True", "delete u"],
            None,
        );
    }

    #[test]
    fn of_a_pods_conditions_readiness_is_what_its_node_takes_away() {
        let mut pod = pod(&json!([{"operator": "Exists"}]));
        pod.conditions.reverse();
        let lost = node("Unknown", &unreachable());
        check(&pod, &lost, 100, &["PodScheduled=True Ready=False"], None);
        pod.conditions[1].status = "False".to_owned();
        check(&pod, &lost, 100, &[], None);
    }

    #[test]
    fn a_stay_begins_only_with_the_time_that_the_taint_was_added() {
        let unstamped = node("True", &json!([{"key": "a", "effect": "NoExecute"}]));
        check(&pod(&json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 5}])), &unstamped, 1000, &[], None);
    }

    #[test]
    fn nothing_happens_once_the_node_is_well_or_the_pod_is_leaving_or_has_finished() {
        check(&pod(&json!([])), &node("True", &json!(null)), 1000, &[], None);
        let deleting = BoundPodView { deleting: true, ..pod(&json!([])) };
        check(&deleting, &node("Unknown", &unreachable()), 1000, &["Ready=False PodScheduled=True"], None);
        let finished = BoundPodView { phase: crate::view::PodPhase::Failed, ..pod(&json!([])) };
        check(&finished, &node("Unknown", &unreachable()), 1000, &[], None);
    }

    #[test]
    fn the_reason_of_an_eviction_is_in_the_condition_and_in_events() {
        let mut pod = pod(&json!([]));
        let plan_of = |pod: &BoundPodView| {
            let node = node("Unknown", &unreachable());
            let plan = read_back(plan(&NodePodState { pod, node: &node, now: at(160) }));
            let mut conditions = Vec::new();
            let mut told = Vec::new();
            for action in plan.stages.into_iter().flat_map(|stage| stage.actions) {
                let (Action::Patch { ref events, .. } | Action::Delete { ref events, .. }) = action else { panic!("{action:?}") };
                told.extend(events.success.iter().map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message)));
                if let Action::Patch { patch, .. } = action {
                    conditions = patch["status"]["conditions"].as_array().cloned().expect("conditions");
                }
            }
            (conditions, told)
        };
        let (conditions, told) = plan_of(&pod);
        let events = ["Warning NodeNotReady: Node is not ready", "Normal TaintManagerEviction: Marking for deletion Pod ns/p"];
        assert_eq!(told, events);
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:02:40Z");
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": "1970-01-01T00:02:40Z"});
        assert_eq!(conditions[2], target);
        // Another writer's `True` is valid since its transition. Its `False` is not.
        let stored = |status: &str| PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(Time(at(7))),
            ..PodCondition::default()
        };
        for (status, since) in [("True", "1970-01-01T00:00:07Z"), ("False", "1970-01-01T00:02:40Z")] {
            pod.conditions.truncate(2);
            pod.conditions.push(stored(status));
            let (conditions, _) = plan_of(&pod);
            assert_eq!((conditions.len(), &conditions[2]["lastTransitionTime"]), (3, &json!(since)), "{status}");
        }
    }
}
