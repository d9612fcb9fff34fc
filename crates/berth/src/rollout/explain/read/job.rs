//! The explanation of a Job.

use super::{
    super::{Explanation, facts, state::WorkloadState},
    Reader, Summary, belongs, decoded, state, views,
};
use crate::rollout::{error::Error, target::changed};
use berth_rollout::{job, status::RolloutStage};
use berth_workloads::{
    cause::{self, JobFacts, Replacement},
    job::plan as plan_job,
    resources::PODS,
    view::{JobPodView, JobView, Meta},
};
use std::{collections::BTreeMap, sync::Arc};

impl Reader<'_> {
    pub(super) async fn job(mut self, json: &str) -> Result<Explanation, Error> {
        let job: JobView = decoded("job", json)?;
        let items = self.items(PODS, None).await?;
        let is_concerned = |pod: &Meta| pod.controller().is_none_or(|owner| owner.uid == *job.meta.uid);
        let job_pods: Vec<Arc<JobPodView>> =
            views(&items).into_iter().filter(|pod: &Arc<JobPodView>| is_concerned(&pod.pod.meta)).collect();
        let mut around = self.around_pods(&items).await?;
        around.pods.retain(|pod| pod.meta.is_controlled_by(&job.meta.uid));
        let now = self.now;
        let progress = job::progress(&job);
        let (is_suspended, is_managed) = (job.spec.suspend == Some(true), job.choices.managed_by.is_some());
        let is_unseen = job.status.start_time.is_none() && job.status.conditions.iter().flatten().next().is_none();
        let unobserved_since = (is_unseen && !is_suspended && !is_managed).then(|| changed(json).unwrap_or(now));
        let facts = JobFacts { job: &job, pods: &around.pods, events: &around.events, unobserved_since, now };
        let is_waiting = progress.state == RolloutStage::Waiting;
        let mut causes = if progress.state == RolloutStage::Complete { Vec::new() } else { cause::of_job(&facts).list };
        causes.extend(self.budgets(&around.pods).await?);
        let planned = job::state(&job, &job_pods, now);
        let waits = if is_waiting { plan_job(&planned).waits } else { Vec::new() };
        if self.keeps_input && self.is_readable("pods") {
            self.input = Some(Box::new(WorkloadState::Job(planned)));
        }
        let owner = job.meta.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
        let summary = Summary {
            kind: "Job",
            meta: &job.meta,
            state: state(progress.state),
            message: progress.message,
            conditions: facts::conditions(json),
            workload: format!("job/{}", job.meta.name),
            has_earlier: false,
            outdated: Vec::new(),
            replacement: Replacement::Immutable,
            notes: belongs(owner.as_ref()),
            parts: BTreeMap::new(),
            ended: (progress.state == RolloutStage::Failed).then_some("nothing: it has ended and gets no more pods"),
        };
        let later = if is_waiting { facts::job_deadline(&job, now) } else { facts::job_expiry(&job, now) };
        self.explain(summary, causes, waits, around, later).await
    }
}
