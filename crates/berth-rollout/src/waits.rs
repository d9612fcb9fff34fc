//! What a Deployment's rollout waits for: the waits of the very plan that its controller makes from the same objects.

use berth_api::FeatureGates;
use berth_controllers::{
    cache::Known,
    deployment::{Sets, observe as observe_deployment},
    plan_loop::PlanInputs,
    pods::PodIndex,
    replica_set,
};
use berth_identity::RolloutRevision;
use berth_workloads::{
    Action, Wait,
    deployment::{self, DeploymentState, annotations},
    plan::Reason,
    replica_set as workloads,
    view::{DeploymentView, PodReplacementPolicy, PodView, ReplicaSetView},
};
use jiff::Timestamp;
use std::sync::Arc;

/// The facts from pods and ReplicaSets that the Deployment alone does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// What is left undone on purpose, and why.
    pub waits: Vec<Wait>,
    /// Pods of the Deployment that terminate.
    pub terminating: i32,
    /// Those of them that are of the newest template: a scale-down deletes them, no rollout replaces them.
    pub terminating_newest: i32,
    /// The revision that its controller is about to go back to by itself.
    pub goes_back_to: Option<RolloutRevision>,
}

/// Plans for the Deployment with the gates of the cluster's controllers, and takes the waits alone. `sets` are all of its namespace, `pods` those
/// that it selects.
#[must_use]
pub fn observe(
    deployment: &DeploymentView,
    sets: &[Arc<ReplicaSetView>],
    pods: &[Arc<PodView>],
    gates: &FeatureGates,
    now: Timestamp,
) -> Observed {
    let sets: Sets = sets.iter().cloned().collect();
    let mut pods: Known<PodView, PodIndex> = pods.iter().cloned().collect();
    observe_known(deployment, &sets, pods.index_mut(), gates, now)
}

/// The state that [`observe`] plans from.
#[must_use]
pub fn state(
    deployment: &DeploymentView,
    sets: &[Arc<ReplicaSetView>],
    pods: &[Arc<PodView>],
    gates: &FeatureGates,
    now: Timestamp,
) -> DeploymentState {
    let mut pods: Known<PodView, PodIndex> = pods.iter().cloned().collect();
    let inputs = PlanInputs { last_error: None, gates, now };
    observe_deployment(&Arc::new(deployment.clone()), &sets.iter().cloned().collect(), pods.index_mut(), inputs, None)
}

/// As [`observe`], from what is known of all sets and pods: costs what has changed since the last time.
#[must_use]
pub fn observe_known(deployment: &DeploymentView, sets: &Sets, pods: &mut PodIndex, gates: &FeatureGates, now: Timestamp) -> Observed {
    // A reader sends no queries: the set has the last answers.
    let inputs = PlanInputs { last_error: None, gates, now };
    let state = observe_deployment(&Arc::new(deployment.clone()), sets, pods, inputs, None);
    let mut observed = of_deployment(&state);
    for set in sets.index().controlled_by(&deployment.meta.uid) {
        let own = of_replica_set(set, sets, pods, inputs);
        let is_new = |wait: &Wait| observed.waits.iter().all(|known| known.metric_label() != wait.metric_label());
        let more: Vec<_> = own.into_iter().filter(is_new).collect();
        observed.waits.extend(more);
    }
    observed
}

fn of_deployment(state: &DeploymentState) -> Observed {
    let deployment = &state.deployment;
    let own = state.sets.iter().filter(|set| set.meta.is_controlled_by(&deployment.meta.uid));
    let terminating_of = |set: &ReplicaSetView| state.counts(&set.meta.uid).all_terminating();
    let revision = annotations::revision(&deployment.annotations);
    let newest = own.clone().find(|set| revision.is_some() && annotations::revision(&set.annotations) == revision);
    let terminating_newest = newest.map_or(0, |set| i32::try_from(terminating_of(set)).unwrap_or(i32::MAX));
    let terminating = own.map(|set| terminating_of(set)).sum::<u32>();
    let terminating = i32::try_from(terminating + state.left_behind.terminating).unwrap_or(i32::MAX);
    let plan = deployment::plan(state);
    let goes_back_to = plan.stages.iter().flat_map(|stage| &stage.actions).find_map(|action| match action {
        Action::Patch { reason: Reason::AutomaticRollback { to, .. }, .. } => Some(*to),
        _ => None,
    });
    Observed { waits: plan.waits, terminating, terminating_newest, goes_back_to }
}

/// The waits of a ReplicaSet by its own plan: where an annotation requires it, it replaces a terminating pod only after its deletion.
#[must_use]
pub fn of_replica_set(set: &Arc<ReplicaSetView>, sets: &Sets, pods: &mut PodIndex, inputs: PlanInputs<'_>) -> Vec<Wait> {
    // No other set's plan has waits.
    if set.deleted_pod_policy != PodReplacementPolicy::TerminationComplete {
        return Vec::new();
    }
    workloads::plan(&replica_set::observe(set, sets, pods, inputs)).waits
}

/// The same of a ReplicaSet or a ReplicationController that is observed by itself; `pods` are those of its namespace. One that is being deleted waits for nothing else.
#[must_use]
pub fn of_set_alone(set: &ReplicaSetView, pods: &[Arc<PodView>], gates: &FeatureGates, now: Timestamp) -> Vec<Wait> {
    if set.meta.deleted.is_some() {
        return vec![Wait::BeingDeleted { kind: set.kind.name().to_owned(), name: set.meta.name.to_string() }];
    }
    let unavailable = set.status.ready_replicas - set.status.available_replicas;
    let min_ready = Wait::MinReady { pods: unavailable.cast_unsigned(), seconds: set.min_ready_seconds.max(0).cast_unsigned() };
    let min_ready = Some(min_ready).filter(|_| 0 < unavailable && 0 < set.min_ready_seconds);
    let set = Arc::new(set.clone());
    let sets: Sets = [Arc::clone(&set)].into_iter().collect();
    let mut pods: Known<PodView, PodIndex> = pods.iter().cloned().collect();
    of_replica_set(&set, &sets, pods.index_mut(), PlanInputs { last_error: None, gates, now }).into_iter().chain(min_ready).collect()
}

/// Whether two lists of waits are the same but for the time that has passed.
#[must_use]
pub fn same(a: &[Wait], b: &[Wait]) -> bool {
    a.iter().map(timeless).eq(b.iter().map(timeless))
}

fn timeless(wait: &Wait) -> Wait {
    let mut wait = wait.clone();
    if let Wait::PodsTerminating { last: Some(last), .. } | Wait::PodTerminating { last: Some(last), .. } = &mut wait {
        last.left_seconds = 0;
    }
    wait
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    const TEMPLATE: &str = r#"{"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:2"}]}}"#;

    fn bytes(value: &Value) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T00:00:{time}Z").parse().expect("a time")
    }

    /// Three pods of an older template on their way out, none of the new one yet, no surge.
    fn half_way() -> (DeploymentView, Vec<Arc<ReplicaSetView>>, Vec<Arc<PodView>>) {
        let template: Value = serde_json::from_str(TEMPLATE).expect("JSON");
        let mut old_template = template.clone();
        old_template["spec"]["containers"][0]["image"] = json!("web:1");
        let selector = json!({"matchLabels": {"app": "web"}});
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 2},
            "spec": {
                "replicas": 3, "podReplacementPolicy": "TerminationComplete", "selector": selector, "template": template,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 3}},
            },
            "status": {"observedGeneration": 2},
        });
        let owner = |kind: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": uid, "controller": true}]);
        let set = |name: &str, template: &Value, terminating: i32| {
            let set = json!({
                "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}, "ownerReferences": owner("Deployment", "d")},
                "spec": {"replicas": 0, "selector": selector, "template": template},
                "status": {"replicas": 0, "terminatingReplicas": terminating, "observedGeneration": 1},
            });
            Arc::new(ReplicaSetView::decode(&bytes(&set), Revision(0)).expect("a ReplicaSet"))
        };
        let pod = |name: &str| {
            let pod = json!({
                "metadata": {
                    "name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}, "ownerReferences": owner("ReplicaSet", "web-old"),
                    "deletionTimestamp": at("30").to_string(), "deletionGracePeriodSeconds": 30,
                },
                "status": {"phase": "Running"},
            });
            Arc::new(PodView::decode(&bytes(&pod), Revision(0)).expect("a pod"))
        };
        let deployment = DeploymentView::decode(&bytes(&deployment), Revision(0)).expect("a Deployment");
        let sets = vec![set("web-old", &old_template, 3), set("web-new", &template, 0)];
        (deployment, sets, ["a", "b", "c"].map(pod).to_vec())
    }

    #[test]
    fn the_waits_are_in_the_plans_own_words() {
        let (deployment, sets, pods) = half_way();
        let observed = observe(&deployment, &sets, &pods, &FeatureGates::default(), at("05"));
        assert_eq!(observed.terminating, 3);
        let texts: Vec<_> = observed.waits.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["waiting for 3 terminating pods (c has 25s of its 30s grace left) before creating 3 more"]);
    }

    /// A pod was deleted, and goes; its set waits for it, whatever the Deployment's policy.
    #[test]
    fn what_a_set_waits_for_by_itself_is_waited_for() {
        let (deployment, sets, pods) = half_way();
        let mut old = (*sets[0]).clone();
        (old.replicas, old.deleted_pod_policy) = (1, PodReplacementPolicy::TerminationComplete);
        let labels = |waits: &[Wait]| waits.iter().map(Wait::metric_label).collect::<Vec<_>>();
        let alone = |old: &ReplicaSetView| of_set_alone(old, &pods, &FeatureGates::default(), at("05"));
        assert_eq!((labels(&alone(&sets[0])), labels(&alone(&old))), (vec![], vec!["pods_terminating"]));
        let mut unset = deployment;
        unset.choices.policy = Ok(PodReplacementPolicy::Unset);
        let observed = observe(&unset, &[Arc::new(old.clone())], &pods, &FeatureGates::default(), at("05"));
        assert!(labels(&observed.waits).contains(&"pods_terminating"), "{:?}", observed.waits);
        old.meta.deleted = Some(at("05"));
        assert_eq!(labels(&alone(&old)), ["being_deleted"]);
    }

    #[test]
    fn the_passing_of_time_alone_is_no_change() {
        let (deployment, sets, pods) = half_way();
        let [early, late] = ["05", "06"].map(|time| observe(&deployment, &sets, &pods, &FeatureGates::default(), at(time)).waits);
        assert!(early != late && same(&early, &late));
        assert!(!same(&early, &[]));
    }
}
