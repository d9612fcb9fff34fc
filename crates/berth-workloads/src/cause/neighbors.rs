//! Other objects of a namespace that keep a workload's pods on their nodes, or that can adopt them.

use super::{About, Cause, Kind};
use crate::{
    selector::{Labels, Selector},
    view::{BudgetView, PodPhase, PodView},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A workload that selects pods.
#[derive(Clone, Debug)]
pub struct Rival {
    /// `Deployment`, `StatefulSet`, `DaemonSet`, `ReplicaSet` or `ReplicationController`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its selector.
    pub selector: Selector,
}

/// Whether other workloads also select the pods of this workload. The first controller that reconciles adopts orphaned pods, and counts by
/// label include pods twice. `labels` are those of the template.
#[must_use]
pub fn overlap(kind: &'static str, name: &str, labels: &Labels, rivals: &[Rival]) -> Option<Cause> {
    let takes = |rival: &&Rival| (rival.kind, &*rival.name) != (kind, name) && rival.selector.matches(labels);
    let named: Vec<_> = rivals.iter().filter(takes).map(|rival| format!("{} {}", rival.kind, rival.name)).collect();
    let about = About { kind, name: name.to_owned() };
    (!named.is_empty()).then(|| Cause { kind: Kind::Overlap, pods: 0, about, evidence: named.join(", ") })
}

/// Pods on cordoned nodes whose eviction a budget blocks: a drain of the node waits for them. `cordoned` contains the names of those nodes.
#[must_use]
pub fn held_by_budgets(pods: &[Arc<PodView>], budgets: &[BudgetView], cordoned: &BTreeSet<String>) -> Option<Cause> {
    let refuses = |pod: &PodView| {
        let selects = |budget: &&BudgetView| {
            budget.meta.namespace == pod.meta.namespace
                && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.meta.labels))
        };
        budgets.iter().filter(selects).find(|budget| budget.status.disruptions_allowed.unwrap_or(0) <= 0)
    };
    let stays = |pod: &&Arc<PodView>| pod.is_active() && cordoned.contains(pod.node_name.as_str());
    let mut held: Vec<_> = pods.iter().filter(stays).filter_map(|pod| Some((pod, refuses(pod)?))).collect();
    held.sort_by(|(a, _), (b, _)| a.meta.name.cmp(&b.meta.name));
    let (first, budget) = held.first()?;
    let status = &budget.status;
    let evidence = format!(
        "budget {} allows no eviction: {} of {} pods are healthy, {} must be",
        budget.meta.name,
        status.current_healthy.unwrap_or(0),
        status.expected_pods.unwrap_or(0),
        status.desired_healthy.unwrap_or(0)
    );
    Some(Cause { kind: Kind::Budget, pods: held.len(), about: About { kind: "Pod", name: first.meta.name.to_string() }, evidence })
}

/// Counts pods that run on lost nodes and are not ready as lost, because their probes did not fail. `lost` maps each unresponsive node to
/// the message of its condition.
pub fn on_lost_nodes(causes: &mut Vec<Cause>, pods: &[Arc<PodView>], lost: &BTreeMap<String, String>) {
    let is_lost = |pod: &&Arc<PodView>| {
        pod.phase == PodPhase::Running && !pod.ready && pod.meta.deleted.is_none() && lost.contains_key(pod.node_name.as_str())
    };
    let mut on_lost: Vec<&Arc<PodView>> = pods.iter().filter(is_lost).collect();
    on_lost.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
    let Some(first) = on_lost.first() else { return };
    let evidence = format!("node {}: {}", first.node_name, lost[first.node_name.as_str()]);
    let about = About { kind: "Pod", name: first.meta.name.to_string() };
    let others = || pods.iter().filter(|pod| pod.phase == PodPhase::Running && !pod.ready && !on_lost.contains(pod));
    causes.retain_mut(|cause| {
        if cause.kind == Kind::NotReady {
            cause.pods = cause.pods.saturating_sub(on_lost.len());
            // Evidence is about the pod that the cause names.
            if let Some(other) = others()
                .min_by(|a, b| a.meta.name.cmp(&b.meta.name))
                .filter(|_| on_lost.iter().any(|pod| cause.about.name == *pod.meta.name))
            {
                cause.about.name = other.meta.name.to_string();
                cause.evidence.clear();
            }
        }
        cause.kind != Kind::NodeLost && (cause.kind != Kind::NotReady || 0 < cause.pods)
    });
    causes.push(Cause { kind: Kind::NodeLost, pods: on_lost.len(), about, evidence });
}

/// Pods without a node that name a missing ResourceClaim. Schedulers do not report on such pods. `claimed` contains the claims of each pod,
/// and `there` the existing ones.
#[must_use]
pub fn resource_claims(claimed: &BTreeMap<String, Vec<String>>, there: &BTreeSet<String>) -> Option<Cause> {
    let missing = |claims: &Vec<String>| claims.iter().find(|claim| !there.contains(*claim)).cloned();
    let waiting: Vec<(&String, String)> = claimed.iter().filter_map(|(pod, claims)| Some((pod, missing(claims)?))).collect();
    let (first, claim) = waiting.first()?;
    let about = About { kind: "Pod", name: (*first).clone() };
    Some(Cause { kind: Kind::ResourceClaim, pods: waiting.len(), about, evidence: format!("resourceclaim {claim:?} not found") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Revision;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::{Value, json};

    fn selector(value: Value) -> Selector {
        let selector: LabelSelector = serde_json::from_value(value).expect("a selector");
        Selector::parse(&selector).expect("a valid one")
    }

    #[test]
    fn a_workload_that_selects_the_same_pods_is_named() {
        let rival =
            |kind, name: &str, labels: Value| Rival { kind, name: name.to_owned(), selector: selector(json!({"matchLabels": labels})) };
        let labels = Labels::from([("app", "web"), ("tier", "front")]);
        let own = rival("Deployment", "web", json!({"app": "web"}));
        assert_eq!(overlap("Deployment", "web", &labels, &[own.clone(), rival("Deployment", "b", json!({"app": "b"}))]), None);
        let rivals = [own, rival("StatefulSet", "web", json!({"tier": "front"})), rival("Deployment", "web2", json!({"app": "web"}))];
        let found = overlap("Deployment", "web", &labels, &rivals).expect("an overlap");
        let text = "Deployment web selects pods that another workload selects too: StatefulSet web, Deployment web2";
        assert_eq!(found.to_string(), text);
    }

    #[test]
    fn pods_on_lost_nodes_are_lost_and_not_failed_by_their_probes() {
        let pod = |name: &str, node: &str, phase: &str| {
            let object = json!({"metadata": {"name": name}, "spec": {"nodeName": node}, "status": {"phase": phase}});
            Arc::new(PodView::decode(object.to_string().as_bytes(), Revision(1)).expect("a pod"))
        };
        let pods = [pod("b", "n1", "Running"), pod("a", "n1", "Running"), pod("c", "n2", "Running"), pod("d", "n1", "Pending")];
        let not_ready =
            |pods: usize| Cause { kind: Kind::NotReady, pods, about: About { kind: "Pod", name: "a".to_owned() }, evidence: String::new() };
        let found = |pods_not_ready: usize, lost: &[&str]| {
            let mut causes = vec![not_ready(pods_not_ready)];
            let lost = lost.iter().map(|node| ((*node).to_owned(), "Kubelet stopped posting node status.".to_owned())).collect();
            on_lost_nodes(&mut causes, &pods, &lost);
            causes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let lost = "2 pods are on nodes that do not answer, e.g. a: node n1: Kubelet stopped posting node status.";
        assert_eq!(found(2, &["n1"]), [lost]);
        assert_eq!(found(3, &["n1"]), ["c runs but is not ready", lost]);
        assert_eq!(found(2, &[]), ["2 pods run but are not ready, e.g. a"]);
    }

    #[test]
    fn pods_that_name_a_claim_which_is_missing_wait_for_it() {
        let claimed = |pod: &str, claim: &str| (pod.to_owned(), vec![claim.to_owned()]);
        let all = BTreeMap::from([claimed("web-1", "gpu"), claimed("web-2", "gpu"), claimed("web-3", "disk")]);
        let there = BTreeSet::from(["disk".to_owned()]);
        let found = resource_claims(&all, &there).map(|cause| cause.to_string());
        assert_eq!(found.as_deref(), Some("2 pods wait for a ResourceClaim, e.g. web-1: resourceclaim \"gpu\" not found"));
        assert_eq!(resource_claims(&all, &BTreeSet::from(["disk".to_owned(), "gpu".to_owned()])), None);
    }

    #[test]
    fn a_budget_keeps_pods_on_a_node_that_is_to_be_emptied() {
        let pod = |name: &str, node: &str, more: Value| {
            let mut object = json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}}, "spec": {"nodeName": node}, "status": {"phase": "Running"}});
            object["metadata"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
            Arc::new(PodView::decode(object.to_string().as_bytes(), Revision(1)).expect("a pod"))
        };
        let budget = |namespace: &str, allowed: i32| {
            let status = json!({"disruptionsAllowed": allowed, "currentHealthy": 3, "expectedPods": 3, "desiredHealthy": 3});
            let object = json!({"metadata": {"name": "few", "namespace": namespace}, "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": status});
            BudgetView::decode(object.to_string().as_bytes(), Revision(1)).expect("a budget")
        };
        let cordoned = BTreeSet::from(["n1".to_owned()]);
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let pods = [pod("c", "n1", json!({})), pod("b", "n1", json!({})), pod("a", "n1", going), pod("d", "n2", json!({}))];
        let found = |budgets: &[BudgetView]| held_by_budgets(&pods, budgets, &cordoned).map(|cause| cause.to_string());
        let text = "2 pods stay on cordoned nodes because of a disruption budget, e.g. b: budget few allows no eviction: 3 of 3 pods are \
                    healthy, 3 must be";
        assert_eq!(found(&[budget("shop", 0)]).as_deref(), Some(text));
        assert_eq!((found(&[budget("shop", 1)]), found(&[budget("other", 0)]), found(&[])), (None, None, None));
        assert_eq!(held_by_budgets(&pods, &[budget("shop", 0)], &BTreeSet::new()), None);
    }
}
