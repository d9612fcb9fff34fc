//! What the controller of a pod means for advice about the pod.

use super::{Reader, decoded, has_earlier};
use crate::rollout::error::Error;
use berth_identity::RolloutRevision;
use berth_rollout::{daemon_set, job, outdated, status::RolloutStage};
use berth_workloads::{
    cause::Replacement,
    deployment::annotations,
    resources::{DAEMON_SETS, JOBS, REPLICA_SETS, REVISIONS, v1},
    view::{DaemonSetView, PodView, ReplicaSetView},
};
use std::sync::Arc;

/// What the controller of a pod means for advice about it.
#[derive(Default)]
pub(super) struct OfOwner {
    /// The kind and the name of the controller's own controller.
    pub(super) owner: Option<(String, String)>,
    pub(super) has_earlier: bool,
    pub(super) outdated: Vec<String>,
    pub(super) replacement: Replacement,
    /// What happens next to the pod although obstacles exist, because its controller has ended.
    pub(super) ended: Option<&'static str>,
}

impl Reader<'_> {
    /// What the controller of a pod means for advice about it.
    pub(super) async fn of_owner(&mut self, owner: Option<&(String, String)>, pods: &[Arc<PodView>]) -> Result<OfOwner, Error> {
        let mut found = OfOwner::default();
        let Some((kind, name)) = owner else { return Ok(found) };
        match kind.as_str() {
            "ReplicaSet" => {
                let Ok(json) = self.connection.get(&v1(REPLICA_SETS), name).await else { return Ok(found) };
                let set: ReplicaSetView = decoded("replicaset", &json)?;
                found.has_earlier = self.is_current(&set).await
                    && annotations::revision(&set.annotations).is_some_and(|revision| revision > RolloutRevision::FIRST);
                found.owner = set.meta.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
                if found.owner.is_none() {
                    found.replacement = Replacement::OnDeletion;
                }
            }
            "DaemonSet" => {
                let Ok(json) = self.connection.get(&v1(DAEMON_SETS), name).await else { return Ok(found) };
                let set: DaemonSetView = decoded("daemonset", &json)?;
                let of = daemon_set::Belongings { revisions: self.readable(REVISIONS).await?, ..daemon_set::Belongings::default() };
                let newest = daemon_set::newest(&set, &of);
                found.has_earlier = newest.is_some() && has_earlier(&set.meta, of.revisions.as_deref().unwrap_or_default());
                found.outdated = outdated::of_daemon_set(&set, newest.map(|revision| &**revision), pods);
                found.replacement = daemon_set::replacement(&set);
            }
            "ReplicationController" => found.replacement = Replacement::OnDeletion,
            "Job" => {
                found.replacement = Replacement::Immutable;
                let Ok(json) = self.connection.get(&v1(JOBS), name).await else { return Ok(found) };
                let has_ended = job::progress(&decoded("job", &json)?).state != RolloutStage::Waiting;
                found.ended = has_ended.then_some("nothing: its Job has ended and gets no more pods");
            }
            _ => (),
        }
        Ok(found)
    }
}
