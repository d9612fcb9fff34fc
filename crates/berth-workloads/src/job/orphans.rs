//! Pods whose Job no longer exists.

use super::claims::remove_finalizer;
use crate::{
    plan::{Action, Plan, Reason, Stage},
    view::JobPodView,
};
use berth_identity::ObjectRef;

/// Removes the finalizer from pods whose Job the cache does not have, so that they can be deleted. No Job counts them.
///
/// `job` names the Job with the uid in the pods' owner references. The plan reads it again first, because the cache can lag.
#[must_use]
pub fn plan_orphans<'a>(job: ObjectRef, pods: impl IntoIterator<Item = &'a JobPodView>) -> Plan {
    let tracked = pods.into_iter().filter(|pod| pod.is_tracked() && pod.pod.meta.is_controlled_by(&job.uid));
    let releases: Vec<Action> = tracked.map(|pod| remove_finalizer(pod, Reason::JobGone)).collect();
    if releases.is_empty() {
        return Plan::default();
    }
    let confirm = Action::ConfirmGone { target: job.in_any_version(), reason: Reason::JobGone };
    Plan { stages: vec![Stage { actions: vec![confirm] }, Stage { actions: releases }], ..Plan::default() }
}
