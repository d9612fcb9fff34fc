//! Running counts of a set's pods.
//!
//! The pod cache updates the counts with every pod event. [`PodCounts::recount`] defines them. Plans read the counts. Only choosing
//! victims, adopting and releasing iterate over pods.

use crate::{
    shared,
    view::{Meta, PodView, ReplicaSetView},
};
use berth_api::annotations::POD_TEMPLATE_HASH;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Longest name of an object.
const NAME_LENGTH_MAX: usize = 253;

/// The number of a ReplicaSet's pods in each category. A pod is in at most one of `active`, `mismatched`, `terminating` and
/// `mismatched_terminating`. A finished pod (Succeeded, Failed) is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Controlled by the set, labels match, not terminating.
    pub active: u32,
    /// Of the active pods, those that are ready.
    pub ready: u32,
    /// Of the active pods, those ready for `minReadySeconds`.
    pub available: u32,
    /// Of the active pods, those with all labels of the template.
    pub fully_labeled: u32,
    /// Of the active pods, those with a deletion cost other than 0.
    pub with_cost: u32,
    /// Controlled by the set, labels match, terminating.
    pub terminating: u32,
    /// Controlled by the set, labels do not match, not terminating. The controller releases them.
    pub mismatched: u32,
    /// As `mismatched`, but terminating.
    pub mismatched_terminating: u32,
    /// Without a controller, in the set's namespace, labels match, neither terminating nor finished. The controller adopts them.
    pub adoptable: u32,
}

impl PodCounts {
    /// Counts the pods of a namespace for one set from scratch. Returns the counts at `now`, and when the next ready pod becomes available.
    pub fn recount<'a>(set: &ReplicaSetView, pods: impl IntoIterator<Item = &'a PodView>, now: Timestamp) -> (Self, Option<Timestamp>) {
        let (mut counts, mut next) = (Self::default(), None);
        for pod in pods {
            counts.add(set, pod, now);
            let counted = pod.is_active() && role(set, pod) == Role::Owned;
            let due = pod.available_at(set.min_ready_seconds).filter(|at| counted && *at > now);
            next = [next, due].into_iter().flatten().min();
        }
        (counts, next)
    }

    /// Pods that the set controls and that have not finished, whatever their labels. Each of them counts toward the set's size.
    #[must_use]
    pub fn unfinished(&self) -> u32 {
        self.active + self.mismatched + self.all_terminating()
    }

    /// Pods that the set controls, that are terminating and that have not finished.
    #[must_use]
    pub fn all_terminating(&self) -> u32 {
        self.terminating + self.mismatched_terminating
    }

    fn add(&mut self, set: &ReplicaSetView, pod: &PodView, now: Timestamp) {
        match (role(set, pod), pod.is_active(), pod.is_terminating()) {
            (Role::Owned, true, _) => {
                self.active += 1;
                self.ready += u32::from(pod.ready);
                self.available += u32::from(pod.available_at(set.min_ready_seconds).is_some_and(|at| at <= now));
                self.fully_labeled += u32::from(has_template_labels(set, pod));
                self.with_cost += u32::from(pod.deletion_cost != 0);
            }
            (Role::Owned, _, true) => self.terminating += 1,
            (Role::Mismatched, true, _) => self.mismatched += 1,
            (Role::Mismatched, _, true) => self.mismatched_terminating += 1,
            (Role::Orphan, true, _) => self.adoptable += 1,
            _ => (),
        }
    }
}

/// The relation between a pod and a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The set controls it and its labels match.
    Owned,
    /// The set controls it, but its labels do not match.
    Mismatched,
    /// The pod has no controller and its labels match.
    Orphan,
    /// The pod has no relation to the set.
    Stranger,
}

/// The relation between `pod` and `set`. A set without a valid selector has no relation to any pod.
#[must_use]
pub fn role(set: &ReplicaSetView, pod: &PodView) -> Role {
    let Some(selector) = set.selector.as_ref().filter(|_| pod.meta.namespace == set.meta.namespace) else { return Role::Stranger };
    match (pod.meta.controller(), selector.matches(&pod.meta.labels)) {
        (Some(owner), matches) if owner.uid == set.meta.uid => {
            if matches {
                Role::Owned
            } else {
                Role::Mismatched
            }
        }
        (None, true) => Role::Orphan,
        _ => Role::Stranger,
    }
}

/// Whether the pod has every label of the set's template.
#[must_use]
pub fn has_template_labels(set: &ReplicaSetView, pod: &PodView) -> bool {
    template_labels(set).into_iter().flatten().all(|(key, value)| pod.meta.labels.get(key) == Some(value.as_str()))
}

/// Whether every pod counts alike for two versions of one set. A set that is only scaled counts as before.
#[must_use]
pub fn counts_alike(one: &ReplicaSetView, other: &ReplicaSetView) -> bool {
    one.min_ready_seconds == other.min_ready_seconds && one.selector == other.selector && template_labels(one) == template_labels(other)
}

fn template_labels(set: &ReplicaSetView) -> Option<&BTreeMap<String, String>> {
    set.template.metadata.as_ref()?.labels.as_ref()
}

/// The pods of one of a Deployment's ReplicaSets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsOfSet {
    /// The counts.
    pub counts: PodCounts,
    /// Of the terminating pods that have not finished, the one whose grace period ends last.
    #[serde(with = "shared::option")]
    pub last_to_go: Option<Arc<PodView>>,
    /// Of the active pods, one that does not become ready: the one whose cause ([`crate::cause::of_pod`]) ranks first.
    #[serde(with = "shared::option")]
    pub failing: Option<Arc<PodView>>,
}

/// Pods whose ReplicaSet was the Deployment's and is deleted, or belongs to a former Deployment of the same name. The garbage collector
/// deletes the pods. Until then they count toward the Deployment's size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftBehind {
    /// Neither finished nor terminating.
    pub active: u32,
    /// Terminating and not finished.
    pub terminating: u32,
    /// Not created yet: pods that sets of a former Deployment of the name still create.
    pub to_come: u32,
    /// Of the terminating pods, the one whose grace period ends last.
    #[serde(with = "shared::option")]
    pub last: Option<Arc<PodView>>,
}

impl LeftBehind {
    /// Pods that remain until the garbage collector deletes them or their set, created or not.
    #[must_use]
    pub fn staying(&self) -> u32 {
        self.active + self.to_come
    }

    /// Counts one more pod.
    #[must_use]
    pub fn with(mut self, pod: &Arc<PodView>) -> Self {
        self.active += u32::from(pod.is_active());
        if pod.is_terminating() {
            self.terminating += 1;
            // Of equals, the last one.
            if self.last.as_ref().is_none_or(|last| last.meta.deleted <= pod.meta.deleted) {
                self.last = Some(Arc::clone(pod));
            }
        }
        self
    }
}

/// Whether pods that match the selector of `deployment` are left behind by their set: the set is deleted (`None`), or belongs to a former
/// Deployment of this name. A deleted set must have been the Deployment's, which [`former_deployment`] of a pod reports.
#[must_use]
pub fn is_left_behind(deployment: &Meta, set: Option<&ReplicaSetView>) -> bool {
    let Some(set) = set else { return true };
    let of_same_name = |owner: &OwnerReference| owner.kind == "Deployment" && owner.name == deployment.name && owner.uid != deployment.uid;
    set.meta.controller().is_some_and(of_same_name)
}

/// The name of the Deployment that owned the pod's ReplicaSet. The set's name consists of the Deployment's name and the pod's hash. `None`
/// if it does not, because the set was adopted or its name was truncated. Then every Deployment that selects the pod counts it.
#[must_use]
pub fn former_deployment(pod: &PodView) -> Option<&str> {
    let owner = pod.meta.controller().filter(|owner| owner.name.len() < NAME_LENGTH_MAX)?;
    let hash = pod.meta.labels.get(POD_TEMPLATE_HASH).filter(|hash| !hash.is_empty())?;
    owner.name.strip_suffix(hash)?.strip_suffix('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Generation;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    fn owner(kind: &str, name: &str, uid: &str) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}])
    }

    fn set(owners: &Value) -> ReplicaSetView {
        let json = json!({
            "metadata": {"namespace": "ns", "name": "web-5d4", "uid": "rs", "ownerReferences": owners},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "minReadySeconds": 10, "template": {"metadata": {"labels": {"app": "web", "tier": "a"}}}},
        });
        ReplicaSetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a set")
    }

    #[test]
    fn a_set_counts_as_before_until_what_pods_are_counted_by_is_another() {
        let changed = |change: fn(&mut ReplicaSetView)| {
            let mut set = set(&json!([]));
            change(&mut set);
            set
        };
        let is_alike = |change| {
            let (one, other) = (set(&json!([])), changed(change));
            assert_eq!(counts_alike(&one, &other), counts_alike(&other, &one));
            counts_alike(&one, &other)
        };
        let others: [fn(&mut ReplicaSetView); 3] = [
            |set| set.replicas = 7,
            |set| set.meta.generation = Generation(7),
            |set| Arc::make_mut(&mut set.template).spec.get_or_insert_default().node_name = Some("n".to_owned()),
        ];
        assert_eq!(others.map(is_alike), [true; 3]);
        let counted_by: [fn(&mut ReplicaSetView); 4] = [
            |set| set.min_ready_seconds = 0,
            |set| set.selector = None,
            |set| Arc::make_mut(&mut set.template).metadata = None,
            |set| _ = Arc::make_mut(&mut set.template).metadata.get_or_insert_default().labels.get_or_insert_default().pop_first(),
        ];
        assert_eq!(counted_by.map(is_alike), [false; 4]);
    }

    /// A pod with these labels, owned, deleted at this second, in this phase.
    fn pod(labels: &Value, owners: &Value, deleted: Option<i64>, phase: &str) -> PodView {
        let deleted = deleted.map(at);
        let metadata =
            json!({"namespace": "ns", "name": "p", "uid": "p", "labels": labels, "ownerReferences": owners, "deletionTimestamp": deleted});
        let json = json!({"metadata": metadata, "status": {"phase": phase}});
        PodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_pod_is_counted_once_by_whose_it_is_and_what_becomes_of_it() {
        let (set, mine) = (set(&json!(null)), owner("ReplicaSet", "web-5d4", "rs"));
        let (web, other) = (json!({"app": "web"}), json!({"app": "db"}));
        let counts = |labels: &Value, owners: &Value, deleted: Option<i64>, phase: &str| {
            PodCounts::recount(&set, [&pod(labels, owners, deleted, phase)], at(5)).0
        };
        let none = PodCounts::default();
        assert_eq!(counts(&web, &mine, None, "Running"), PodCounts { active: 1, ..none });
        assert_eq!(counts(&json!({"app": "web", "tier": "a"}), &mine, None, "Running"), PodCounts { active: 1, fully_labeled: 1, ..none });
        let dear = PodView { deletion_cost: -1, ..pod(&web, &mine, None, "Running") };
        assert_eq!(PodCounts::recount(&set, [&dear], at(5)).0, PodCounts { active: 1, with_cost: 1, ..none });
        assert_eq!(counts(&web, &mine, Some(9), "Running"), PodCounts { terminating: 1, ..none });
        assert_eq!(counts(&other, &mine, None, "Running"), PodCounts { mismatched: 1, ..none });
        assert_eq!(counts(&other, &mine, Some(9), "Running"), PodCounts { mismatched_terminating: 1, ..none });
        assert_eq!(counts(&web, &json!(null), None, "Running"), PodCounts { adoptable: 1, ..none });
        for (labels, owners, deleted, phase) in [
            (&web, &mine, None, "Succeeded"),
            (&web, &mine, Some(9), "Failed"),
            (&web, &json!(null), Some(9), "Running"),
            (&web, &owner("ReplicaSet", "other", "o"), None, "Running"),
            (&other, &json!(null), None, "Running"),
        ] {
            assert_eq!(counts(labels, owners, deleted, phase), none, "{labels} {owners} {deleted:?} {phase}");
        }
        let all = PodCounts { active: 1, terminating: 2, mismatched: 4, mismatched_terminating: 8, adoptable: 16, ready: 32, ..none };
        assert_eq!((all.unfinished(), all.all_terminating()), (15, 10));
    }

    #[test]
    fn a_set_has_no_business_in_other_namespaces_nor_without_a_selector() {
        let (set, pod) = (set(&json!(null)), pod(&json!({"app": "web"}), &owner("ReplicaSet", "web-5d4", "rs"), None, "Running"));
        assert_eq!(role(&set, &pod), Role::Owned);
        let elsewhere = PodView { meta: Meta { namespace: "other".into(), ..pod.meta.clone() }, ..pod.clone() };
        assert_eq!(role(&set, &elsewhere), Role::Stranger);
        assert_eq!(role(&ReplicaSetView { selector: None, ..set }, &pod), Role::Stranger);
    }

    #[test]
    fn the_next_to_become_available_is_the_first_that_is_not_yet() {
        let set = set(&json!(null));
        let ready = |since: i64, deleted: Option<i64>| PodView {
            ready: true,
            ready_since: Some(at(since)),
            ..pod(&json!({"app": "web"}), &owner("ReplicaSet", "web-5d4", "rs"), deleted, "Running")
        };
        let counts_at = |pods: &[PodView], now: i64| {
            let (counts, next) = PodCounts::recount(&set, pods, at(now));
            (counts.ready, counts.available, next)
        };
        let pods = [ready(0, None), ready(3, None), ready(1, Some(50))];
        assert_eq!(counts_at(&pods, 9), (2, 0, Some(at(10))));
        assert_eq!(counts_at(&pods, 10), (2, 1, Some(at(13))), "one that goes does not become available");
        assert_eq!(counts_at(&pods, 13), (2, 2, None));
    }

    #[test]
    fn pods_are_left_behind_by_a_set_that_is_gone_or_a_former_deployments() {
        let deployment = Meta { name: "web".into(), uid: "new".into(), ..Meta::default() };
        let is_left = |owners: &Value| is_left_behind(&deployment, Some(&set(owners)));
        assert!(is_left_behind(&deployment, None));
        assert!(is_left(&owner("Deployment", "web", "old")));
        assert!(!is_left(&owner("Deployment", "web", "new")), "its own");
        assert!(!is_left(&owner("Deployment", "db", "old")) && !is_left(&owner("Thing", "web", "old")), "another's");
        assert!(!is_left(&json!(null)), "it has no owner");
    }

    #[test]
    fn left_behind_pods_are_counted_while_they_hold_their_place() {
        let left = |deleted: Option<i64>, phase: &str| pod(&json!({}), &json!(null), deleted, phase);
        let pods = [
            left(None, "Running"),
            left(Some(20), "Running"),
            left(Some(30), "Pending"),
            left(Some(25), "Running"),
            left(Some(40), "Failed"),
            left(None, "Succeeded"),
        ];
        let all = pods.into_iter().fold(LeftBehind::default(), |all, pod| all.with(&Arc::new(pod)));
        assert_eq!((all.active, all.terminating, all.last.and_then(|pod| pod.meta.deleted)), (1, 3, Some(at(30))));
    }

    #[test]
    fn a_former_deployment_is_known_by_its_sets_name_and_hash() {
        let former = |name: &str, hash: &str| {
            let pod = pod(&json!({"pod-template-hash": hash}), &owner("ReplicaSet", name, "rs"), None, "Running");
            former_deployment(&pod).map(str::to_owned)
        };
        assert_eq!(former("web-front-5d4", "5d4").as_deref(), Some("web-front"));
        assert_eq!([former("web-5d4", "other"), former("web5d4", "5d4"), former("web-", "")], [None, None, None]);
        let long = |length: usize| former(&format!("{}-5d4", "a".repeat(length - 4)), "5d4").is_some();
        assert_eq!([252, 253].map(long), [true, false], "a name that had to be cut does not tell");
        assert_eq!(former_deployment(&pod(&json!({"pod-template-hash": "5d4"}), &json!(null), None, "Running")), None);
    }
}
