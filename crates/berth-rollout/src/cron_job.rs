//! How far a CronJob is, according to its status and the plan that its controller makes.

use crate::status::{RolloutProgress, RolloutStage};
use berth_workloads::{Plan, cron_job::CronJobState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Its progress. It is complete if it waits only for its next time.
#[must_use]
pub fn progress(state: &CronJobState, plan: &Plan) -> RolloutProgress {
    let status = &state.cron_job.status;
    let shown = |time: Option<&Time>| time.map_or_else(|| "none".to_owned(), |time| time.0.to_string());
    let active = status.active.as_ref().map_or(0, Vec::len);
    let last = shown(status.last_schedule_time.as_ref());
    let success = shown(status.last_successful_time.as_ref());
    let stage = match &state.cron_job.choices.schedule {
        Err(_) => RolloutStage::Failed,
        Ok(_) if plan.waits.is_empty() && state.due_since().is_none() => RolloutStage::Complete,
        Ok(_) => RolloutStage::Waiting,
    };
    RolloutProgress { state: stage, message: format!("active Jobs: {active}, last start: {last}, last success: {success}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::{
        cron_job::plan,
        view::{CronJobView, View},
    };
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn check(spec: Value, status: Value, now: &str, stage: RolloutStage, message: &str) {
        let mut object = json!({"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": spec, "status": status});
        object["spec"]["jobTemplate"] = json!({"spec": {"template": {}}});
        let cron_job = Arc::new(CronJobView::decode(object.to_string().as_bytes(), Revision(1)).expect("a CronJob"));
        let state = CronJobState::new(cron_job, Vec::new(), now.parse().expect("a time"), |_| false);
        assert_eq!(progress(&state, &plan(&state)), RolloutProgress { state: stage, message: message.to_owned() });
    }

    #[test]
    fn a_cron_job_is_complete_until_its_next_time() {
        let status = || json!({"lastScheduleTime": "2026-11-29T10:00:00Z", "lastSuccessfulTime": "2026-11-29T10:00:07Z"});
        let message = "active Jobs: 0, last start: 2026-11-29T10:00:00Z, last success: 2026-11-29T10:00:07Z";
        let hourly = || json!({"schedule": "0 * * * *"});
        check(hourly(), status(), "2026-11-29T10:59:59Z", RolloutStage::Complete, message);
        check(hourly(), status(), "2026-11-29T11:00:00Z", RolloutStage::Waiting, message);
        check(json!({"schedule": "0 * * * *", "suspend": true}), status(), "2026-11-29T10:59:59Z", RolloutStage::Waiting, message);
        let none = "active Jobs: 0, last start: none, last success: none";
        check(json!({"schedule": "never"}), json!({}), "2026-11-29T10:59:59Z", RolloutStage::Failed, none);
    }
}
