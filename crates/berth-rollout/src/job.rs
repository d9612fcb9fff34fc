//! How far a Job is, and what it waits for: the waits of the very plan that its controller makes.

use crate::status::{RolloutProgress, RolloutStage};
use berth_controllers::{
    cache::Known,
    job::{JobPodIndex, observe},
};
use berth_workloads::{
    job::JobState,
    view::{JobPodView, JobView},
};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobCondition;
use std::sync::Arc;

/// The state that the Job's controller plans from. `pods` are at least all that it controls, and those of its namespace without a controller.
#[must_use]
pub fn state(job: &JobView, pods: &[Arc<JobPodView>], now: Timestamp) -> JobState {
    let pods: Known<JobPodView, JobPodIndex> = pods.iter().cloned().collect();
    observe(&Arc::new(job.clone()), &pods, now)
}

/// Its progress according to its status.
#[must_use]
pub fn progress(job: &JobView) -> RolloutProgress {
    let (name, status) = (&job.meta.name, &job.status);
    let succeeded = status.succeeded.unwrap_or(0);
    // Without a number, one success is enough, and the other pods must end.
    let wanted = job.spec.completions.map_or_else(|| "at least 1".to_owned(), |completions| completions.to_string());
    let counts = format!("{succeeded} of {wanted} pods have succeeded");
    let (state, message) = if job.meta.deleted.is_some() {
        (RolloutStage::Waiting, format!("job {name:?} is being deleted"))
    } else if has(job, "Complete").is_some() {
        (RolloutStage::Complete, format!("job {name:?} is complete: {counts}"))
    } else if let Some(JobCondition { reason, message, .. }) = has(job, "Failed") {
        let texts = [reason, message].into_iter().flatten().filter(|text| !text.is_empty());
        (RolloutStage::Failed, texts.fold(format!("job {name:?} has failed"), |all, text| format!("{all}: {text}")))
    } else {
        let (active, failed) = (status.active.unwrap_or(0), status.failed.unwrap_or(0));
        (RolloutStage::Waiting, format!("{counts}, {active} are active, {failed} have failed"))
    };
    RolloutProgress { state, message }
}

/// The condition of this type, if it is true.
fn has<'j>(job: &'j JobView, type_: &str) -> Option<&'j JobCondition> {
    job.status.conditions.iter().flatten().find(|condition| condition.type_ == type_ && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::{Wait, job, view::View};
    use serde_json::{Value, json};

    fn job_with(spec: Value, status: &Value) -> JobView {
        let mut object = json!({"metadata": {"name": "migrate", "namespace": "shop", "uid": "j"}, "spec": spec, "status": status});
        object["spec"]["selector"] = json!({"matchLabels": {"job": "migrate"}});
        object["spec"]["template"] = json!({"metadata": {"labels": {"job": "migrate"}}});
        JobView::decode(object.to_string().as_bytes(), Revision(1)).expect("a Job")
    }

    #[test]
    fn conditions_and_counts_show_how_far_a_job_is() {
        let check = |spec: Value, status: Value, state: RolloutStage, message: &str| {
            assert_eq!(progress(&job_with(spec, &status)), RolloutProgress { state, message: message.to_owned() });
        };
        let condition = |type_: &str| json!([{"type": type_, "status": "True", "reason": "R", "message": "it says why"}]);
        check(
            json!({"completions": 3}),
            json!({"succeeded": 1, "active": 2}),
            RolloutStage::Waiting,
            "1 of 3 pods have succeeded, 2 are active, 0 have failed",
        );
        check(json!({}), json!({"failed": 1}), RolloutStage::Waiting, "0 of at least 1 pods have succeeded, 0 are active, 1 have failed");
        let complete = json!({"succeeded": 3, "conditions": condition("Complete")});
        check(json!({"completions": 3}), complete, RolloutStage::Complete, "job \"migrate\" is complete: 3 of 3 pods have succeeded");
        let failed = json!({"conditions": condition("Failed")});
        check(json!({"completions": 3}), failed, RolloutStage::Failed, "job \"migrate\" has failed: R: it says why");
    }

    #[test]
    fn the_waits_are_those_of_its_controllers_plan() {
        let job = job_with(json!({"suspend": true, "parallelism": 1, "completions": 1}), &json!({}));
        let waits = job::plan(&state(&job, &[], Timestamp::UNIX_EPOCH)).waits;
        assert_eq!(waits, [Wait::JobSuspended]);
    }
}
