//! The explanation of a DaemonSet.

use super::{
    super::{super::target::Found, Explanation, facts, state::WorkloadState},
    Reader, Summary, has_earlier, state, views,
};
use crate::rollout::error::Error;
use berth_rollout::{daemon_set, outdated, settled::settled, status::RolloutStatus};
use berth_workloads::{
    cause::{self, DaemonSetFacts},
    resources::{REPLICA_SETS, REVISIONS},
    view::{DaemonSetView, ReplicaSetView},
};
use std::{collections::BTreeMap, sync::Arc};

impl Reader<'_> {
    pub(super) async fn daemon_set(mut self, found: &Found) -> Result<Explanation, Error> {
        let set: DaemonSetView = found.view()?;
        let revisions = self.readable(REVISIONS).await?;
        let sets: Vec<Arc<ReplicaSetView>> = self.views(REPLICA_SETS).await?;
        let nodes = self.nodes().await?;
        let nodes = self.is_readable("nodes").then(|| views(&nodes));
        let mut around = self.around(None).await?;
        around.pods.retain(|pod| pod.meta.controller().is_none_or(|owner| owner.uid == *set.meta.uid));
        let (pods, events, now) = (&around.pods, &around.events, self.now);
        let lags = set.status.observed_generation.unwrap_or(0) < set.meta.generation.0;
        let unobserved_since = lags.then(|| found.changed().unwrap_or(now));
        let causes = cause::of_daemon_set(&DaemonSetFacts { set: &set, pods, events, unobserved_since, now });
        let of = daemon_set::Belongings { revisions, pods: self.is_readable("pods").then(|| pods.clone()), nodes };
        if self.keeps_input {
            self.input = daemon_set::state(&set, &of, now).map(WorkloadState::DaemonSet).map(Box::new);
        }
        let newest = daemon_set::newest(&set, &of);
        let outdated = outdated::of_daemon_set(&set, newest.map(|revision| &**revision), pods);
        let has_earlier = !lags && has_earlier(&set.meta, of.revisions.as_deref().unwrap_or_default());
        let status = daemon_set::explain(&set, &of, causes, now);
        let owned = pods.iter().filter(|pod| pod.meta.is_controlled_by(&set.meta.uid)).map(|pod| &**pod);
        let min_ready_seconds = set.spec.min_ready_seconds.unwrap_or(0);
        let RolloutStatus { progress, mut causes, waits, .. } = settled(status, owned, min_ready_seconds, now);
        // A drain leaves its pods, so no budget holds them.
        causes.extend(self.rivals("DaemonSet", &set.meta, &set.spec.template, &sets).await?);
        let summary = Summary {
            kind: "DaemonSet",
            meta: &set.meta,
            state: state(progress.state),
            message: progress.message,
            conditions: facts::conditions(&found.json),
            workload: format!("daemonset/{}", set.meta.name),
            has_earlier,
            outdated,
            replacement: daemon_set::replacement(&set),
            notes: Vec::new(),
            parts: BTreeMap::new(),
            ended: None,
        };
        self.explain(summary, causes, waits, around, None).await
    }
}
