//! Jobs and CronJobs, and their changes.

use super::{Operation, patch, recreate};
use crate::draw::Draw;
use serde_json::{Value, json};

/// Minutes of an hour and of a day.
const HOUR: u64 = 60;
const DAY: u64 = 24 * HOUR;

/// A Job. The delay after failures is 10 s, then 20 s: at most two failures keep a sequence short.
pub(super) fn job(draw: &mut Draw) -> Value {
    let spec = job_spec(draw);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec})
}

fn job_spec(draw: &mut Draw) -> Value {
    let is_indexed = draw.percent(50);
    let completions = 1 + draw.below(4);
    let mut spec = json!({
        "parallelism": draw.below(4),
        "completions": completions,
        "completionMode": if is_indexed { "Indexed" } else { "NonIndexed" },
        "backoffLimit": draw.below(2),
        "suspend": draw.percent(20),
        "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": ends(draw)},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "web", "image": "web:1"}],
            },
        },
    });
    if !is_indexed && draw.percent(30) {
        spec["completions"] = Value::Null;
    }
    if draw.percent(20) {
        spec["podReplacementPolicy"] = json!("Failed");
    }
    if draw.percent(20) {
        let action =
            if is_indexed { *draw.pick(&["FailJob", "FailIndex", "Ignore", "Count"]) } else { *draw.pick(&["FailJob", "Ignore", "Count"]) };
        spec["podFailurePolicy"] = json!({"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [1]}}]});
    }
    if is_indexed && draw.percent(30) {
        spec["successPolicy"] = json!({"rules": [{"succeededCount": 1 + draw.below(completions)}]});
    }
    if is_indexed && (draw.percent(30) || spec["podFailurePolicy"]["rules"][0]["action"] == "FailIndex") {
        spec["backoffLimit"] = Value::Null;
        spec["backoffLimitPerIndex"] = json!(draw.below(2));
    }
    if draw.percent(20) {
        spec["activeDeadlineSeconds"] = json!(3);
    }
    if draw.percent(20) {
        spec["ttlSecondsAfterFinished"] = json!(draw.below(2));
    }
    spec
}

/// How its pods end.
fn ends(draw: &mut Draw) -> Value {
    draw.pick(&[
        json!({"sim.berth.dev/completes-after": "500ms"}),
        json!({"sim.berth.dev/completes-after": "500ms"}),
        json!({"sim.berth.dev/completes-after": "never"}),
        json!({"sim.berth.dev/exit-code": "1", "sim.berth.dev/completes-after": "500ms"}),
    ])
    .clone()
}

pub(super) fn of_job(draw: &mut Draw) -> Operation {
    match draw.below(10) {
        0..3 => patch(json!({"parallelism": draw.below(5)})),
        3..6 => patch(json!({"suspend": draw.percent(50)})),
        6 => Operation::DeletePods(1 + draw.below(2)),
        7 => patch(json!({"activeDeadlineSeconds": draw.pick(&[json!(2), Value::Null])})),
        8 => {
            let size = 1 + draw.below(4);
            patch(json!({"parallelism": size, "completions": size}))
        }
        _ => Operation::Patch(json!({"metadata": {"annotations": {"note": draw.pick(&["a", "b"])}}})),
    }
}

/// A CronJob whose next time is hours away. Its starts are those that it has missed.
pub(super) fn cron_job(draw: &mut Draw) -> Value {
    let mut job = job_spec(draw);
    for field in ["suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        job[field] = Value::Null;
    }
    let mut spec = json!({
        "schedule": schedule(draw),
        "timeZone": draw.pick(&["Etc/UTC", "Europe/Berlin", "Asia/Kathmandu"]),
        "concurrencyPolicy": draw.pick(&["Allow", "Forbid", "Replace"]),
        "suspend": draw.percent(30),
        "successfulJobsHistoryLimit": draw.below(3),
        "failedJobsHistoryLimit": draw.below(3),
        "jobTemplate": {"metadata": {"labels": {"of": "web"}}, "spec": job},
    });
    if draw.percent(30) {
        spec["startingDeadlineSeconds"] = deadline(draw);
    }
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "web"}, "spec": spec})
}

/// The minute is far from the present one, in each of the zones.
fn schedule(draw: &mut Draw) -> Value {
    draw.pick(&[json!("7 */3 * * *"), json!("7 5 * * *"), json!("@daily"), json!("7 4 * * 1-5"), json!("7 0 1 * *")]).clone()
}

fn deadline(draw: &mut Draw) -> Value {
    draw.pick(&[json!(10), json!(HOUR * 60 * 3), json!(DAY * 60 * 40), Value::Null]).clone()
}

pub(super) fn of_cron_job(draw: &mut Draw) -> Operation {
    match draw.below(14) {
        0..5 => Operation::Backdate(*draw.pick(&[HOUR, 4 * HOUR, 30 * HOUR, 3 * DAY, 40 * DAY])),
        5 | 6 => patch(json!({"suspend": draw.percent(40)})),
        7 => patch(json!({"schedule": schedule(draw)})),
        8 => patch(json!({"concurrencyPolicy": draw.pick(&["Allow", "Forbid", "Replace"])})),
        9 => patch(json!({"successfulJobsHistoryLimit": draw.below(3), "failedJobsHistoryLimit": draw.below(3)})),
        10 => patch(json!({"startingDeadlineSeconds": deadline(draw)})),
        11 => Operation::DeleteJobs(1 + draw.below(2)),
        12 => patch(json!({"jobTemplate": {"spec": {"template": {"metadata": {"annotations": ends(draw)}}}}})),
        _ => recreate(draw),
    }
}
