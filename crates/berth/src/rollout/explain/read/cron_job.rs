//! The explanation of a CronJob.

use super::{
    super::{
        Explanation,
        facts::{self, Around},
    },
    Reader, Summary, decoded, state,
};
use crate::rollout::{error::Error, target::changed};
use berth_rollout::cron_job;
use berth_workloads::{
    Plan,
    cause::{self, CronJobFacts, Replacement},
    cron_job::{CronJobState, plan},
    plan::{EventRecord, Severity},
    resources::JOBS,
    view::{CronJobView, EventView, JobView},
};
use std::{collections::BTreeMap, sync::Arc};

impl Reader<'_> {
    pub(super) async fn cron_job(mut self, json: &str) -> Result<Explanation, Error> {
        let cron_job: Arc<CronJobView> = Arc::new(decoded("cronjob", json)?);
        let jobs: Vec<Arc<JobView>> = self.views(JOBS).await?;
        let around = Around { events: self.warnings().await?, ..Around::default() };
        let (meta, now) = (&cron_job.meta, self.now);
        let own = jobs.iter().filter(|job| job.meta.is_controlled_by(&meta.uid)).cloned().collect();
        let planned = CronJobState::new(Arc::clone(&cron_job), own, now, |name| jobs.iter().any(|job| job.meta.name == name));
        let is_known = self.is_readable("jobs");
        // If the Jobs cannot be read, a plan would miss them.
        let plan = if is_known { plan(&planned) } else { Plan::default() };
        // A CronJob that was resumed or changed has missed times that its controller has not seen yet.
        let missed = planned.due_since().filter(|_| is_known);
        let due_since = missed.map(|since| changed(json).map_or(since, |changed| since.max(changed)));
        let causes = cause::of_cron_job(&CronJobFacts { cron_job: &cron_job, due_since, events: &around.events, now });
        let progress = cron_job::progress(&planned, &plan);
        let is_new = |event: &&Arc<EventView>| event.about_uid == meta.uid && missed.is_some() && missed <= event.last;
        let reported = around.events.iter().filter(is_new).map(|event| event.message.clone());
        let is_warning = |event: &EventRecord| event.severity == Severity::Warning;
        let warnings = plan.events.into_iter().filter(is_warning).map(|event| event.message);
        let summary = Summary {
            kind: "CronJob",
            meta,
            state: if is_known { state(progress.state) } else { "Waiting" },
            message: progress.message,
            conditions: Vec::new(),
            workload: format!("cronjob/{}", meta.name),
            has_earlier: false,
            outdated: Vec::new(),
            replacement: Replacement::default(),
            notes: warnings.chain(reported).collect(),
            parts: BTreeMap::new(),
            ended: None,
        };
        let later = plan.requeue_at.map(|at| facts::next_time(at, now));
        self.explain(summary, causes.list, plan.waits, around, later).await
    }
}
