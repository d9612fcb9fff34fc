//! Whether a node is alive, and the conditions and taints that follow.

use super::{
    taints,
    view::{LeaseView, NodeView, Readiness},
};
use crate::plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, Stage, Subresource, Urgency};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time};
use serde_json::{Value, json};

/// How long a node may show no sign of life before it counts as lost.
pub const GRACE: SignedDuration = SignedDuration::from_secs(40);

/// A controller that checks this much later than the end of [`GRACE`] was not running (its process was stopped, or its machine was
/// suspended). It could have missed a sign, so the grace period restarts.
pub const UNWATCHED: SignedDuration = SignedDuration::from_secs(20);

/// The conditions that a kubelet maintains.
const KUBELETS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The observed signs of a node's life, by the controller's clock. Timestamps from the node are only compared with each other, so a wrong
/// clock or old objects after a restart do not make a node lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    renewed: Option<Timestamp>,
    ready: Option<NodeCondition>,
    /// When one of these last changed.
    since: Timestamp,
}

impl Watched {
    /// Records the state of the node and its lease at `now`.
    #[must_use]
    pub fn observe(known: Option<&Self>, node: &NodeView, lease: Option<&LeaseView>, now: Timestamp) -> Self {
        let renewed = lease.and_then(|lease| lease.renewed);
        let ready = node.condition("Ready");
        let is_silent = |known: &&Self| known.renewed == renewed && known.ready.as_ref() == ready;
        let is_watched = |known: &&Self| now.duration_since(known.since) <= GRACE + UNWATCHED;
        let since = known.filter(is_silent).filter(is_watched).map_or(now, |known| known.since);
        Self { renewed, ready: ready.cloned(), since }
    }

    /// When the node counts as lost without another sign.
    #[must_use]
    pub fn lost_at(&self) -> Timestamp {
        self.since.saturating_add(GRACE).expect("a duration of seconds is in range")
    }
}

/// The input of one node's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeState<'a> {
    /// The node.
    pub node: &'a NodeView,
    /// Its signs of life, up to `now`.
    pub watched: &'a Watched,
    /// The time of the snapshot.
    pub now: Timestamp,
}

/// Plans the node's conditions. If they do not change, plans its taints.
#[must_use]
pub fn plan(state: &NodeState<'_>) -> Plan {
    if state.node.deleting {
        return Plan::default();
    }
    let is_lost = state.watched.lost_at() <= state.now;
    // Each write has the version that it is based on as a precondition, so the taints wait for the next reconcile.
    let write = if is_lost { mark_lost(state) } else { None }.or_else(|| taint(state));
    let may_be_lost_later = !is_lost && state.node.readiness() != Readiness::Unknown;
    Plan {
        stages: write.into_iter().map(|action| Stage { actions: vec![action] }).collect(),
        requeue_at: may_be_lost_later.then(|| state.watched.lost_at()),
        ..Plan::default()
    }
}

fn mark_lost(state: &NodeState<'_>) -> Option<Action> {
    let mut conditions = state.node.conditions.clone();
    KUBELETS.iter().for_each(|type_| make_unknown(&mut conditions, type_, state));
    let patch = json!({"status": {"conditions": conditions}});
    let was_ready = state.node.readiness() == Readiness::Ready;
    let events = Outcome { success: was_ready.then(|| no_longer_ready(state.node)), failure: None };
    (conditions != state.node.conditions).then(|| patched(state.node, Some(Subresource::Status), patch, Reason::NodeSilent, events))
}

fn make_unknown(conditions: &mut Vec<NodeCondition>, type_: &str, state: &NodeState<'_>) {
    let unknown = |reason: &str, message: &str, heartbeat: Option<Time>| NodeCondition {
        type_: type_.to_owned(),
        status: "Unknown".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: heartbeat,
        last_transition_time: Some(Time(state.now)),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(condition) if condition.status == "Unknown" => (),
        Some(condition) => {
            let heartbeat = condition.last_heartbeat_time.take();
            *condition = unknown("NodeStatusUnknown", "Kubelet stopped posting node status.", heartbeat);
        }
        None => {
            let created = state.node.created.map(Time);
            conditions.push(unknown("NodeStatusNeverUpdated", "Kubelet never posted node status.", created));
        }
    }
}

fn no_longer_ready(node: &NodeView) -> EventRecord {
    let message = format!("Node {} status is now: NodeNotReady", node.name);
    EventRecord::new(node.reference(), Severity::Normal, "NodeNotReady", message)
}

fn taint(state: &NodeState<'_>) -> Option<Action> {
    let taints = taints::wanted(state.node, state.now);
    (taints != state.node.taints).then(|| {
        // An empty list and an absent one are equal. Other writers remove the field.
        let list = if taints.is_empty() { Value::Null } else { json!(taints) };
        patched(state.node, None, json!({"spec": {"taints": list}}), Reason::NodeTaints, Outcome::default())
    })
}

fn patched(node: &NodeView, subresource: Option<Subresource>, patch: Value, reason: Reason, events: Outcome) -> Action {
    Action::Patch { target: node.reference(), subresource, patch, urgency: Urgency::Now, reason, events }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read_back::read_back, view::View};
    use berth_identity::Revision;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn node(ready: Option<&str>) -> NodeView {
        let ready = ready.map(|status| json!([{"type": "Ready", "status": status, "lastHeartbeatTime": "1970-01-01T00:00:01Z"}]));
        let json = json!({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": ready}});
        NodeView::decode(json.to_string().as_bytes(), Revision(7)).expect("a node")
    }

    fn lease(renewed: i64) -> LeaseView {
        LeaseView { renewed: Some(at(renewed)), ..LeaseView::default() }
    }

    /// Plans at `now` for a node that was first observed at 100. Returns the written statuses and reasons, and the time of the next
    /// reconcile.
    fn planned(node: &NodeView, now: i64) -> (Vec<String>, Option<i64>) {
        let seen = Watched::observe(None, node, Some(&lease(0)), at(100));
        let watched = Watched::observe(Some(&seen), node, Some(&lease(0)), at(now));
        let plan = read_back(plan(&NodeState { node, watched: &watched, now: at(now) }));
        let mut written = Vec::new();
        for action in plan.stages.into_iter().flat_map(|stage| stage.actions) {
            let Action::Patch { target, patch, .. } = action else { panic!("{action:?}") };
            assert_eq!((target.uid.as_str(), target.resource_version), ("u", Some(Revision(7))));
            let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
            let conditions = patch["status"]["conditions"].as_array().cloned().unwrap_or_default();
            written.extend(conditions.iter().map(|one| format!("{} {} {}", text(one, "type"), text(one, "status"), text(one, "reason"))));
            let taints = patch["spec"]["taints"].as_array().cloned().unwrap_or_default();
            written.extend(taints.iter().map(|taint| format!("{}:{}", text(taint, "key"), text(taint, "effect"))));
        }
        (written, plan.requeue_at.map(Timestamp::as_second))
    }

    #[test]
    fn a_node_is_lost_forty_seconds_after_its_last_sign_by_the_watchers_clock() {
        let ready = node(Some("True"));
        assert_eq!(planned(&ready, 100), (vec![], Some(140)));
        assert_eq!(planned(&ready, 139), (vec![], Some(140)));
        let lost = ["Ready Unknown NodeStatusUnknown"];
        let never = ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|type_| format!("{type_} Unknown NodeStatusNeverUpdated"));
        let written: Vec<_> = lost.iter().map(|&text| text.to_owned()).chain(never).collect();
        assert_eq!(planned(&ready, 140), (written.clone(), None));
        assert_eq!(planned(&ready, 160), (written, None));
        assert_eq!(planned(&ready, 161), (vec![], Some(201)), "no controller was watching");
    }

    #[test]
    fn any_sign_of_life_restarts_the_grace_period() {
        let ready = node(Some("True"));
        let first = Watched::observe(None, &ready, Some(&lease(5)), at(100));
        let since = |node: &NodeView, renewed: Option<i64>| {
            let watched = Watched::observe(Some(&first), node, renewed.map(lease).as_ref(), at(120));
            watched.lost_at().as_second() - 40
        };
        assert_eq!(since(&ready, Some(5)), 100);
        assert_eq!(since(&ready, Some(6)), 120);
        assert_eq!(since(&node(Some("False")), Some(5)), 120);
        let mut refreshed = ready.clone();
        refreshed.conditions[0].last_heartbeat_time = Some(Time(at(9)));
        assert_eq!(since(&refreshed, Some(5)), 120);
    }

    #[test]
    fn what_is_not_ready_is_tainted() {
        let taints = |key: &str| ["NoSchedule", "NoExecute"].map(|effect| format!("node.kubernetes.io/{key}:{effect}")).to_vec();
        assert_eq!(planned(&node(Some("False")), 100), (taints("not-ready"), Some(140)));
        assert_eq!(planned(&node(Some("Unknown")), 100), (taints("unreachable"), None));
        assert_eq!(planned(&node(None), 100), (vec!["node.kubernetes.io/not-ready:NoSchedule".to_owned()], Some(140)));
    }

    #[test]
    fn a_node_that_is_being_deleted_is_left_alone() {
        assert_eq!(planned(&NodeView { deleting: true, ..node(Some("False")) }, 140), (vec![], None));
    }

    #[test]
    fn a_node_that_is_lost_keeps_its_heartbeat_and_has_an_event_if_it_was_ready() {
        let lost = |ready: &str| {
            let node = node(Some(ready));
            let watched = Watched::observe(None, &node, None, at(100));
            let plan = read_back(plan(&NodeState { node: &node, watched: &watched, now: at(140) }));
            let Some(Action::Patch { subresource, patch, events, .. }) = plan.stages.into_iter().flat_map(|stage| stage.actions).next()
            else {
                panic!("a write")
            };
            assert_eq!(subresource, Some(Subresource::Status));
            let event = events.success.map(|event| format!("{:?} {}: {}", event.severity, event.reason, event.message));
            (patch["status"]["conditions"].clone(), event)
        };
        let (conditions, event) = lost("True");
        assert_eq!(event.as_deref(), Some("Normal NodeNotReady: Node n status is now: NodeNotReady"));
        assert_eq!(conditions[0]["message"], "Kubelet stopped posting node status.");
        assert_eq!(
            (&conditions[0]["lastHeartbeatTime"], &conditions[0]["lastTransitionTime"]),
            (&json!("1970-01-01T00:00:01Z"), &json!("1970-01-01T00:02:20Z"))
        );
        assert_eq!(
            (&conditions[1]["message"], &conditions[1]["lastHeartbeatTime"]),
            (&json!("Kubelet never posted node status."), &json!(null))
        );
        assert_eq!(lost("False").1, None, "it was not ready before");
    }

    #[test]
    fn a_node_that_is_known_to_be_lost_is_written_once() {
        let mut node = node(Some("Unknown"));
        for type_ in &KUBELETS[1..] {
            node.conditions.push(NodeCondition { type_: (*type_).to_owned(), ..node.conditions[0].clone() });
        }
        let taints = taints::wanted(&node, at(100));
        assert_eq!(planned(&NodeView { taints, ..node }, 140), (vec![], None));
    }
}
