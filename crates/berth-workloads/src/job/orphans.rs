//! Pods that no Job counts.

use super::{PODS_MAX, claims::remove_finalizer};
use crate::{
    plan::{Action, Plan, Reason, Stage},
    selector::{Labels, Selector},
    view::{JobPodView, JobView},
};
use berth_identity::ObjectRef;
use std::collections::BTreeMap;

/// Removes the finalizer from pods whose Job the cache does not have, so that they can be deleted: at most [`PODS_MAX`] at once. No Job counts them.
///
/// `job` names the Job with the uid in the pods' owner references. The plan reads it again first, because the cache can lag.
#[must_use]
pub fn plan_orphans<'a>(job: ObjectRef, pods: impl IntoIterator<Item = &'a JobPodView>) -> Plan {
    let tracked = pods.into_iter().filter(|pod| pod.is_tracked() && pod.pod.meta.is_controlled_by(&job.uid));
    let releases: Vec<Action> = tracked.take(PODS_MAX).map(|pod| remove_finalizer(pod, Reason::JobGone)).collect();
    if releases.is_empty() {
        return Plan::default();
    }
    let confirm = Action::ConfirmGone { target: job.in_any_version(), reason: Reason::JobGone };
    Plan { stages: vec![Stage { actions: vec![confirm] }, Stage { actions: releases }], ..Plan::default() }
}

/// Removes the finalizer from pods without a controller that no Job adopts, so that they can be deleted: at most [`PODS_MAX`] at once.
///
/// `jobs` are those of the pods' namespace. A client that deletes a Job can keep its pods: they lose their owner, as a rule before the Job has removed
/// the finalizer. A Job that the cache does not show yet adopts such a pod with the finalizer, so no confirmation is needed.
#[must_use]
pub fn plan_abandoned<'a>(jobs: impl IntoIterator<Item = &'a JobView>, pods: impl IntoIterator<Item = &'a JobPodView>) -> Plan {
    // A Job with an empty selector adopts no pod.
    let selectors = jobs.into_iter().filter(|job| job.meta.deleted.is_none()).filter_map(|job| job.selector.as_ref());
    let mut by_label: BTreeMap<Option<(&str, &str)>, Vec<&Selector>> = BTreeMap::new();
    selectors
        .filter(|selector| !selector.is_empty())
        .for_each(|selector| by_label.entry(selector.required_label()).or_default().push(selector));
    let is_selected = |labels: &Labels| {
        let candidates = labels.iter().map(Some).chain([None]).filter_map(|label| by_label.get(&label)).flatten();
        candidates.into_iter().any(|selector| selector.matches(labels))
    };
    let is_abandoned = |pod: &&JobPodView| pod.is_tracked() && pod.pod.meta.controller().is_none() && !is_selected(&pod.pod.meta.labels);
    let released = pods.into_iter().filter(is_abandoned).take(PODS_MAX);
    let releases: Vec<Action> = released.map(|pod| remove_finalizer(pod, Reason::NoController)).collect();
    if releases.is_empty() {
        return Plan::default();
    }
    Plan { stages: vec![Stage { actions: releases }], ..Plan::default() }
}
