//! How far a DaemonSet's rollout is, in kubectl's words, and what it waits for: the waits of the very plan that its controller makes.

use crate::status::{Replicas, RolloutProgress, RolloutStage, RolloutStatus};
use berth_controllers::{
    cache::Known,
    daemon_set::{Belongings as AllBelongings, observe},
    pods::PodIndex,
};
use berth_workloads::{
    cause::{Causes, Replacement},
    daemon_set::{self, DaemonSetState, FailedPods},
    stateful_set::revision_data,
    view::{DaemonNodeView, DaemonSetView, DaemonUpdate, PodView, RevisionView},
};
use jiff::Timestamp;
use std::sync::Arc;

/// What belongs to a set; `None` where it cannot be read.
#[derive(Debug, Default)]
pub struct Belongings {
    /// ControllerRevisions of its namespace.
    pub revisions: Option<Vec<Arc<RevisionView>>>,
    /// Pods of its namespace.
    pub pods: Option<Vec<Arc<PodView>>>,
    /// All nodes.
    pub nodes: Option<Vec<Arc<DaemonNodeView>>>,
}

/// The status of a set's rollout, by kubectl's rule. `causes` is what blocks it.
#[must_use]
pub fn status(set: &DaemonSetView, of: &Belongings, causes: Causes, now: Timestamp) -> RolloutStatus {
    with_waits(set, of, (progress(set), causes), now)
}

/// The same, but complete only if no pod runs on a node where none should run: kubectl's rule does not count those. States if no node should
/// run a pod.
#[must_use]
pub fn explain(set: &DaemonSetView, of: &Belongings, causes: Causes, now: Timestamp) -> RolloutStatus {
    let mut progress = progress(set);
    let misplaced = set.status.number_misscheduled;
    if progress.state == RolloutStage::Complete && 0 < misplaced {
        progress = waiting(format!("Waiting for {misplaced} pods to be deleted on nodes where none should run..."));
    } else if progress.state == RolloutStage::Complete && set.status.desired_number_scheduled == 0 {
        progress.message = format!("daemon set \"{}\" is complete: no node should run its pod", set.meta.name);
    }
    with_waits(set, of, (progress, causes), now)
}

fn with_waits(set: &DaemonSetView, of: &Belongings, (progress, causes): (RolloutProgress, Causes), now: Timestamp) -> RolloutStatus {
    let is_complete = progress.state == RolloutStage::Complete;
    let waits = if is_complete { None } else { state(set, of, now).map(|state| daemon_set::plan(&state).waits) };
    let causes = if is_complete { Causes::default() } else { causes };
    let status = &set.status;
    let is_own = |pod: &&Arc<PodView>| pod.is_terminating() && pod.meta.is_controlled_by(&set.meta.uid);
    let terminating = of.pods.as_ref().map(|pods| i32::try_from(pods.iter().filter(is_own).count()).unwrap_or(i32::MAX));
    RolloutStatus {
        revision: newest(set, of).map(|revision| revision.number),
        progress,
        rollback: None,
        goes_back_to: None,
        phase: None,
        replicas: Replicas {
            wanted: status.desired_number_scheduled,
            total: status.current_number_scheduled,
            updated: status.updated_number_scheduled.unwrap_or(0),
            available: status.number_available.unwrap_or(0),
            terminating,
        },
        causes: causes.list,
        waits: waits.unwrap_or_default(),
        unready_pods: Vec::new(),
        requeue_at: causes.requeue_at,
    }
}

/// The revision of the set's template: the one with the highest number, if there are several.
#[must_use]
pub fn newest<'r>(set: &DaemonSetView, of: &'r Belongings) -> Option<&'r Arc<RevisionView>> {
    let data = revision_data(&set.spec.template);
    let own = || of.revisions.iter().flatten().filter(|revision| revision.meta.is_controlled_by(&set.meta.uid));
    let same = own().filter(|revision| *revision.data == data).max_by_key(|revision| revision.number);
    // Kubernetes before 1.34 also writes the member `creationTimestamp: null`.
    let equal = || own().filter(|revision| revision.template.as_deref() == Some(&set.spec.template)).max_by_key(|revision| revision.number);
    same.or_else(equal)
}

/// The state that the set's controller plans from; `None` if its revisions, its pods or the nodes cannot be read. The backoff after failed pods is
/// known to the controller only.
#[must_use]
pub fn state(set: &DaemonSetView, of: &Belongings, now: Timestamp) -> Option<DaemonSetState> {
    let pods: Known<PodView, PodIndex> = of.pods.as_ref()?.iter().cloned().collect();
    let newest = newest(set, of);
    // The plan compares the data, in the form of berth's controllers.
    let comparable = |revision: &Arc<RevisionView>| match newest {
        Some(newest) if Arc::ptr_eq(newest, revision) => {
            Arc::new(RevisionView { data: Arc::new(revision_data(&set.spec.template)), ..(**revision).clone() })
        }
        _ => Arc::clone(revision),
    };
    let (revisions, nodes) = (of.revisions.as_ref()?.iter().map(comparable).collect(), of.nodes.as_ref()?.iter().cloned().collect());
    let all = AllBelongings { revisions: &revisions, pods: pods.index(), nodes: &nodes };
    Some(observe(&Arc::new(set.clone()), all, FailedPods::default(), now))
}

/// States whether an update of the set replaces pods that fail.
#[must_use]
pub fn replacement(set: &DaemonSetView) -> Replacement {
    match set.choices {
        DaemonUpdate::RollingUpdate => Replacement::ByItself,
        DaemonUpdate::OnDelete => Replacement::OnDeletion,
    }
}

/// What is left to do, in the words of `kubectl rollout status` where it has any; `None` if nothing is.
#[must_use]
pub fn pending(set: &DaemonSetView) -> Option<String> {
    let progress = progress(set);
    (progress.state != RolloutStage::Complete).then_some(progress.message)
}

/// Its progress according to the set alone. For rolling updates in kubectl's words and order; kubectl refuses `OnDelete`.
#[must_use]
pub fn progress(set: &DaemonSetView) -> RolloutProgress {
    let name = &set.meta.name;
    if set.meta.deleted.is_some() {
        return waiting(format!("daemon set \"{name}\" is being deleted"));
    }
    let outdated = match set.choices {
        DaemonUpdate::RollingUpdate => outdated(set),
        DaemonUpdate::OnDelete => undeleted(set),
    };
    match unobserved(set).or(outdated).or_else(|| unavailable(set)) {
        Some(message) => waiting(message),
        None => RolloutProgress { state: RolloutStage::Complete, message: format!("daemon set \"{name}\" successfully rolled out") },
    }
}

fn unobserved(set: &DaemonSetView) -> Option<String> {
    let is_observed = set.meta.generation.0 <= set.status.observed_generation.unwrap_or(0);
    (!is_observed).then(|| "Waiting for daemon set spec update to be observed...".to_owned())
}

fn outdated(set: &DaemonSetView) -> Option<String> {
    let (desired, name) = (set.status.desired_number_scheduled, &set.meta.name);
    let updated = set.status.updated_number_scheduled.unwrap_or(0);
    let counts = || format!("{updated} out of {desired} new pods have been updated...");
    (updated < desired).then(|| format!("Waiting for daemon set {name:?} rollout to finish: {}", counts()))
}

fn undeleted(set: &DaemonSetView) -> Option<String> {
    let (current, updated) = (set.status.current_number_scheduled, set.status.updated_number_scheduled.unwrap_or(0));
    let counts = || format!("{updated} out of {current} pods have the newest template...");
    (updated < current).then(|| format!("Waiting for pods to be deleted manually: {}", counts()))
}

fn unavailable(set: &DaemonSetView) -> Option<String> {
    let (desired, name) = (set.status.desired_number_scheduled, &set.meta.name);
    let available = set.status.number_available.unwrap_or(0);
    let counts = || format!("{available} of {desired} updated pods are available...");
    (available < desired).then(|| format!("Waiting for daemon set {name:?} rollout to finish: {}", counts()))
}

fn waiting(message: String) -> RolloutProgress {
    RolloutProgress { state: RolloutStage::Waiting, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::{Revision, RolloutRevision};
    use berth_workloads::{Wait, view::View};
    use serde_json::{Value, json};

    #[test]
    fn a_rollout_is_complete_when_each_pod_is_updated_and_available() {
        let check = |type_: &str, status: Value, wanted: Option<&str>| {
            assert_eq!(pending(&set(&json!({"type": type_}), &status)).as_deref(), wanted, "{status}");
        };
        check("RollingUpdate", json!({}), Some("Waiting for daemon set spec update to be observed..."));
        let updated = r#"Waiting for daemon set "agent" rollout to finish: 1 out of 3 new pods have been updated..."#;
        check("RollingUpdate", counts(1, 3), Some(updated));
        let available = r#"Waiting for daemon set "agent" rollout to finish: 2 of 3 updated pods are available..."#;
        check("RollingUpdate", counts(3, 2), Some(available));
        check("RollingUpdate", counts(3, 3), None);
        check("OnDelete", json!({}), Some("Waiting for daemon set spec update to be observed..."));
        let outdated = "Waiting for pods to be deleted manually: 1 out of 3 pods have the newest template...";
        check("OnDelete", counts(1, 3), Some(outdated));
        check("OnDelete", counts(3, 2), Some(available));
        check("OnDelete", counts(3, 3), None);
    }

    #[test]
    fn with_on_delete_each_existing_pod_must_be_updated_and_each_node_must_have_one() {
        let check = |current: i32, updated: i32, wanted: Option<&str>| {
            let status = json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": current,
                "updatedNumberScheduled": updated, "numberAvailable": current});
            assert_eq!(pending(&set(&json!({"type": "OnDelete"}), &status)).as_deref(), wanted, "{status}");
        };
        check(2, 1, Some("Waiting for pods to be deleted manually: 1 out of 2 pods have the newest template..."));
        check(2, 2, Some("Waiting for daemon set \"agent\" rollout to finish: 2 of 3 updated pods are available..."));
        check(3, 3, None);
    }

    #[test]
    fn a_set_that_is_being_deleted_is_not_complete() {
        for type_ in ["RollingUpdate", "OnDelete"] {
            let mut set = set(&json!({"type": type_}), &counts(3, 3));
            set.meta.deleted = Some(at(1));
            let text = "daemon set \"agent\" is being deleted";
            assert_eq!(pending(&set).as_deref(), Some(text));
            assert_eq!(status(&set, &belongings(&set), Causes::default(), at(5)).progress, waiting(text.to_owned()));
        }
    }

    fn bytes(value: &Value) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    fn set(strategy: &Value, status: &Value) -> DaemonSetView {
        let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "main", "image": "agent:2"}]}});
        let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template, "updateStrategy": strategy});
        let metadata = json!({"name": "agent", "namespace": "shop", "uid": "d", "generation": 2});
        DaemonSetView::decode(&bytes(&json!({"metadata": metadata, "spec": spec, "status": status})), Revision(1)).expect("a set")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).expect("in range")
    }

    /// Three nodes: the pod of one has the newest template and is not ready, the other two are outdated.
    fn belongings(set: &DaemonSetView) -> Belongings {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true}]);
        let meta = |name: &str, hash: &str| {
            json!({"name": name, "namespace": "shop", "uid": name, "labels": {"app": "agent", "controller-revision-hash": hash},
                "ownerReferences": owner})
        };
        let revision = |name: &str, number: i64, data: Value| {
            let object = json!({"metadata": meta(name, name), "revision": number, "data": data});
            Arc::new(RevisionView::decode(&bytes(&object), Revision(1)).expect("a revision"))
        };
        let pod = |node: &str, hash: &str, ready: &str| {
            let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": at(0)}]);
            let object =
                json!({"metadata": meta(node, hash), "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": conditions}});
            Arc::new(PodView::decode(&bytes(&object), Revision(1)).expect("a pod"))
        };
        let node = |name: &str| {
            Arc::new(DaemonNodeView::decode(&bytes(&json!({"metadata": {"name": name, "uid": name}})), Revision(1)).expect("a node"))
        };
        let old = json!({"spec": {"template": {"$patch": "replace"}}});
        Belongings {
            revisions: Some(vec![revision("agent-1", 1, old), revision("agent-2", 2, revision_data(&set.spec.template))]),
            pods: Some(vec![pod("a", "agent-2", "False"), pod("b", "agent-1", "True"), pod("c", "agent-1", "True")]),
            nodes: Some(["a", "b", "c"].map(node).to_vec()),
        }
    }

    fn counts(updated: i32, available: i32) -> Value {
        json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available})
    }

    #[test]
    fn a_rollout_shows_the_waits_of_its_controllers_plan() {
        let set = set(&json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}), &counts(1, 2));
        let of = belongings(&set);
        let found = status(&set, &of, Causes::default(), at(5));
        let waits: Vec<_> = found.waits.iter().map(ToString::to_string).collect();
        assert_eq!(waits, ["waiting for 1 of 3 pods to become available"]);
        assert_eq!(found.revision, Some(RolloutRevision(2)));
        assert_eq!((found.replicas.wanted, found.replicas.updated, found.replicas.terminating), (3, 1, Some(0)));
        let unread = Belongings { nodes: None, ..of };
        assert!(status(&set, &unread, Causes::default(), at(5)).waits.is_empty(), "a plan without nodes would delete every pod");
    }

    #[test]
    fn pods_that_only_a_client_deletes_are_waited_for() {
        let set = set(&json!({"type": "OnDelete"}), &counts(1, 3));
        let found = status(&set, &belongings(&set), Causes::default(), at(5));
        assert_eq!(
            found.progress,
            waiting("Waiting for pods to be deleted manually: 1 out of 3 pods have the newest template...".to_owned())
        );
        assert_eq!(found.waits, [Wait::DeletionByHand { pods: 2 }]);
        assert_eq!(pending(&set), Some(found.progress.message), "no result is a success before the deletions");
        assert_eq!(replacement(&set), Replacement::OnDeletion);
    }

    #[test]
    fn the_revision_of_an_older_kubernetes_is_that_of_the_template() {
        let set = set(&json!({"type": "OnDelete"}), &counts(1, 3));
        let mut of = belongings(&set);
        for revision in of.revisions.iter_mut().flatten().filter(|revision| revision.number == RolloutRevision(2)) {
            let mut data = (*revision.data).clone();
            data["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
            *revision = Arc::new(RevisionView { data: Arc::new(data), ..(**revision).clone() });
        }
        let found = status(&set, &of, Causes::default(), at(5));
        assert_eq!((found.revision, found.waits), (Some(RolloutRevision(2)), vec![Wait::DeletionByHand { pods: 2 }]));
    }

    #[test]
    fn a_set_is_explained_as_complete_when_no_node_has_a_pod_too_many() {
        let mut status = counts(3, 3);
        let message = |status: &Value| {
            let set = set(&json!({"type": "RollingUpdate"}), status);
            let explained = explain(&set, &belongings(&set), Causes::default(), at(5));
            (explained.progress.state, explained.progress.message)
        };
        assert_eq!(message(&status), (RolloutStage::Complete, "daemon set \"agent\" successfully rolled out".to_owned()));
        status["numberMisscheduled"] = json!(1);
        let text = "Waiting for 1 pods to be deleted on nodes where none should run...";
        assert_eq!(message(&status), (RolloutStage::Waiting, text.to_owned()));
        let empty = json!({"observedGeneration": 2, "desiredNumberScheduled": 0});
        assert_eq!(message(&empty), (RolloutStage::Complete, "daemon set \"agent\" is complete: no node should run its pod".to_owned()));
        let unobserved = json!({"observedGeneration": 1, "desiredNumberScheduled": 0});
        assert_eq!(message(&unobserved).0, RolloutStage::Waiting, "its nodes are those of the previous spec");
    }
}
