//! The taints that a node's state requires, and the taints that a pod tolerates.

use super::view::{NodeView, Readiness};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Time};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that repel new pods while they are True, with their taints.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

/// A taint that the controller adds and removes with a node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Managed {
    key: &'static str,
    effect: &'static str,
}

/// The node's desired taints: those of its state, and other writers' taints unchanged. Each taint that evicts pods has a timestamp.
pub(super) fn wanted(node: &NodeView, now: Timestamp) -> Vec<Taint> {
    let called_for = called_for(node);
    let is = |taint: &Taint, managed: &Managed| taint.key == managed.key && taint.effect == managed.effect;
    let is_called_for = |taint: &Taint| called_for.iter().any(|managed| is(taint, managed));
    let stays = |taint: &&Taint| is_called_for(taint) || !all_managed().any(|managed| is(taint, &managed));
    let mut taints: Vec<Taint> = node.taints.iter().filter(stays).map(|taint| stamped(taint, now)).collect();
    for managed in called_for {
        if !node.taints.iter().any(|taint| is(taint, &managed)) {
            let (key, effect) = (managed.key.to_owned(), managed.effect.to_owned());
            taints.push(Taint { key, effect, time_added: Some(Time(now)), value: None });
        }
    }
    taints
}

/// A pod's stay is counted from this timestamp. Users who taint a node manually omit it.
fn stamped(taint: &Taint, now: Timestamp) -> Taint {
    let time_added = if taint.effect == "NoExecute" { taint.time_added.clone().or(Some(Time(now))) } else { taint.time_added.clone() };
    Taint { time_added, ..taint.clone() }
}

fn called_for(node: &NodeView) -> Vec<Managed> {
    let no_schedule = |key| Managed { key, effect: "NoSchedule" };
    let mut taints = match node.readiness() {
        Readiness::Ready => vec![],
        // The node has no pods yet that could be evicted.
        Readiness::Unreported => vec![no_schedule(NOT_READY)],
        Readiness::NotReady => both(NOT_READY),
        Readiness::Unknown => both(UNREACHABLE),
    };
    let is_true = |type_: &str| node.condition(type_).is_some_and(|condition| condition.status == "True");
    taints.extend(PRESSURES.iter().filter(|(type_, _)| is_true(type_)).map(|(_, key)| no_schedule(key)));
    if node.unschedulable {
        taints.push(no_schedule(UNSCHEDULABLE));
    }
    taints
}

fn both(key: &'static str) -> Vec<Managed> {
    ["NoSchedule", "NoExecute"].map(|effect| Managed { key, effect }).into()
}

fn all_managed() -> impl Iterator<Item = Managed> {
    let no_schedule = PRESSURES.iter().map(|(_, key)| *key).chain([UNSCHEDULABLE]).map(|key| Managed { key, effect: "NoSchedule" });
    no_schedule.chain(both(NOT_READY)).chain(both(UNREACHABLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Revision;
    use serde_json::json;

    /// The desired taints as `key:effect`, with `+` if they have a timestamp.
    fn check(conditions: &[(&str, &str)], unschedulable: bool, taints: &[(&str, &str)], expected: &[&str]) {
        let conditions: Vec<_> = conditions.iter().map(|(type_, status)| json!({"type": type_, "status": status})).collect();
        let taints: Vec<_> = taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
        let node = json!({
            "metadata": {"name": "n"}, "spec": {"unschedulable": unschedulable, "taints": taints}, "status": {"conditions": conditions},
        });
        let node = NodeView::decode(node.to_string().as_bytes(), Revision(1)).expect("a node");
        let text = |taint: Taint| {
            let since = if taint.time_added.is_some() { "+" } else { "" };
            format!("{}:{}{since}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect)
        };
        let found: Vec<_> = wanted(&node, Timestamp::UNIX_EPOCH).into_iter().map(text).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn taints_follow_the_state_and_leave_others_alone() {
        let ready = ("Ready", "True");
        check(&[], false, &[], &["not-ready:NoSchedule+"]);
        check(&[ready], false, &[], &[]);
        check(&[("Ready", "False")], false, &[], &["not-ready:NoSchedule+", "not-ready:NoExecute+"]);
        check(&[("Ready", "Unknown")], false, &[], &["unreachable:NoSchedule+", "unreachable:NoExecute+"]);
        check(&[("Ready", "Unknown")], false, &[(NOT_READY, "NoExecute")], &["unreachable:NoSchedule+", "unreachable:NoExecute+"]);
        check(&[ready], false, &[(UNREACHABLE, "NoExecute"), ("gpu", "NoSchedule")], &["gpu:NoSchedule"]);
        check(&[ready], true, &[], &["unschedulable:NoSchedule+"]);
        check(&[ready], true, &[(UNSCHEDULABLE, "NoSchedule")], &["unschedulable:NoSchedule"]);
        check(&[ready], false, &[(UNSCHEDULABLE, "NoSchedule")], &[]);
        check(&[ready, ("MemoryPressure", "True"), ("DiskPressure", "Unknown")], false, &[], &["memory-pressure:NoSchedule+"]);
        check(&[ready], false, &[("by-hand", "NoExecute")], &["by-hand:NoExecute+"]);
    }
}
