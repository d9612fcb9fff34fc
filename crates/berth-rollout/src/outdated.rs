//! Which pods do not have the template that is wanted now: `rollout undo` would bring theirs back.

use berth_workloads::{
    deployment::annotations,
    view::{DaemonSetView, DeploymentView, PodView, ReplicaSetView, RevisionView, StatefulSetView},
};
use std::sync::Arc;

/// The label that StatefulSets and DaemonSets give their pods.
const REVISION: &str = "controller-revision-hash";

/// Those of `ReplicaSets` of earlier revisions.
#[must_use]
pub fn of_deployment(deployment: &DeploymentView, sets: &[Arc<ReplicaSetView>], pods: &[Arc<PodView>]) -> Vec<String> {
    let now = annotations::revision(&deployment.annotations);
    let own = sets.iter().filter(|set| set.meta.is_controlled_by(&deployment.meta.uid));
    let outdated: Vec<_> = own.filter(|set| annotations::revision(&set.annotations) != now).map(|set| &set.meta.uid).collect();
    let is_of_one = |pod: &&Arc<PodView>| outdated.iter().any(|uid| pod.meta.is_controlled_by(uid));
    pods.iter().filter(is_of_one).map(|pod| pod.meta.name.to_string()).collect()
}

/// Those of other revisions than the update revision, once the controller has seen the set.
#[must_use]
pub fn of_stateful_set(set: &StatefulSetView, pods: &[Arc<PodView>]) -> Vec<String> {
    let wanted = set.status.update_revision.as_str();
    if wanted.is_empty() || set.status.observed_generation < set.meta.generation {
        return Vec::new();
    }
    let has_another = |pod: &&Arc<PodView>| pod.meta.labels.get(REVISION).is_some_and(|revision| revision != wanted);
    pods.iter().filter(has_another).map(|pod| pod.meta.name.to_string()).collect()
}

/// Those of other revisions than that of the set's template. `None`: it is not known, or its controller has not created it.
#[must_use]
pub fn of_daemon_set(set: &DaemonSetView, newest: Option<&RevisionView>, pods: &[Arc<PodView>]) -> Vec<String> {
    let Some(wanted) = newest.map(|revision| revision.meta.labels.get(REVISION).unwrap_or(&revision.meta.name)) else { return Vec::new() };
    let has_another = |pod: &&Arc<PodView>| {
        pod.meta.is_controlled_by(&set.meta.uid) && pod.meta.labels.get(REVISION).is_some_and(|revision| revision != wanted)
    };
    pods.iter().filter(has_another).map(|pod| pod.meta.name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    fn view<V: View>(object: &Value) -> V {
        V::decode(object.to_string().as_bytes(), Revision(1)).expect("it is of the kind")
    }

    #[test]
    fn pods_of_a_template_that_was_undone_are_outdated() {
        let set = |observed: i64| {
            view(&json!({"metadata": {"name": "db", "generation": 3}, "spec": {"replicas": 2, "selector": {}, "template": {}},
                "status": {"observedGeneration": observed, "updateRevision": "db-good"}}))
        };
        let pods = [("db-0", "db-good"), ("db-1", "db-broken")]
            .map(|(name, revision)| Arc::new(view(&json!({"metadata": {"name": name, "labels": {"controller-revision-hash": revision}}}))));
        assert_eq!(of_stateful_set(&set(3), &pods), ["db-1"]);
        assert_eq!(of_stateful_set(&set(2), &pods), [""; 0], "it is not known yet what is wanted");
    }

    /// Pods name a DaemonSet's revision by its hash, not by its name.
    #[test]
    fn pods_without_the_hash_of_a_daemon_sets_template_are_outdated() {
        let owners = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": true}]);
        let set = view(&json!({"metadata": {"name": "agent", "uid": "d"}, "spec": {"selector": {}, "template": {}}}));
        let meta = |name: &str, hash: &str| json!({"name": name, "uid": name, "labels": {"controller-revision-hash": hash}, "ownerReferences": owners});
        let newest: RevisionView = view(&json!({"metadata": meta("agent-good", "good"), "revision": 2, "data": {}}));
        let pods = ["good", "broken"].map(|hash| Arc::new(view(&json!({"metadata": meta(hash, hash)}))));
        assert_eq!(of_daemon_set(&set, Some(&newest), &pods), ["broken"]);
        assert_eq!(of_daemon_set(&set, None, &pods), [""; 0]);
    }

    #[test]
    fn pods_of_the_replica_set_of_the_deployments_revision_are_not_outdated() {
        let owner = |kind: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": true}]);
        let revision = |number: &str| json!({"deployment.kubernetes.io/revision": number});
        let deployment =
            view(&json!({"metadata": {"name": "web", "uid": "d", "annotations": revision("3")}, "spec": {"selector": {}, "template": {}}}));
        let sets = [("good", "3"), ("broken", "2")].map(|(uid, number)| {
            Arc::new(view(&json!({"metadata": {"name": uid, "uid": uid, "annotations": revision(number), "ownerReferences": owner("Deployment", "d")}})))
        });
        let pods = ["good", "broken", "other"]
            .map(|uid| Arc::new(view(&json!({"metadata": {"name": format!("web-{uid}"), "ownerReferences": owner("ReplicaSet", uid)}}))));
        assert_eq!(of_deployment(&deployment, &sets, &pods), ["web-broken"]);
    }
}
