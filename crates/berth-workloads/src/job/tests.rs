//! Plans of single states, as they are shown.

use super::*;
use crate::{plan::Action, resources::JOBS, view::View};
use berth_identity::{ObjectKey, ObjectRef, Revision};
use serde_json::{Value, json};

const NOW: i64 = 100;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn job(spec: &Value, status: &Value) -> Arc<JobView> {
    let mut full = json!({"selector": {"matchLabels": {"job": "sum"}}, "template": {"metadata": {"labels": {"job": "sum"}}, "spec": {"containers": []}}});
    full.as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    let json = json!({"metadata": {"name": "sum", "namespace": "ns", "uid": "u"}, "spec": full, "status": status});
    Arc::new(JobView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Job"))
}

/// A pod in words: `a running`, `b failed@90`, `c deleted`, `d untracked`, `e index=1`, `f orphan`, `g other` (labels), `h restarts=2`,
/// `i index=1 failures=2` (before, of its index), `j index=1 ignored=2`.
fn pod(text: &str) -> Arc<JobPodView> {
    let mut words = text.split_whitespace();
    let name = words.next().expect("a name");
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "u", "controller": true}]);
    let mut json = json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "labels": {"job": "sum"}, "ownerReferences": owner,
            "finalizers": ["batch.kubernetes.io/job-tracking"], "annotations": {},
        },
        "spec": {}, "status": {"phase": "Pending", "containerStatuses": [{"name": "main"}]},
    });
    for word in words {
        match word.split_once(['@', '=']).unwrap_or((word, "")) {
            ("running", _) => {
                let ready = json!([{"type": "Ready", "status": "True"}]);
                (json["status"]["phase"], json["status"]["conditions"], json["spec"]["nodeName"]) = (json!("Running"), ready, json!("n"));
            }
            (end @ ("failed" | "succeeded"), second) => {
                let (code, phase) = if end == "failed" { (1, "Failed") } else { (0, "Succeeded") };
                let finished = at(second.parse().expect("a second"));
                json["status"]["phase"] = json!(phase);
                json["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": code, "finishedAt": finished}});
            }
            ("deleted", _) => json["metadata"]["deletionTimestamp"] = json!(at(NOW + 30)),
            ("untracked", _) => json["metadata"]["finalizers"] = json!(["other"]),
            ("index", index) => json["metadata"]["annotations"] = json!({"batch.kubernetes.io/job-completion-index": index}),
            ("failures", count) => json["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = json!(count),
            ("ignored", count) => json["metadata"]["annotations"]["batch.kubernetes.io/job-index-ignored-failure-count"] = json!(count),
            ("orphan", _) => json["metadata"]["ownerReferences"] = json!([]),
            ("other", _) => json["metadata"]["labels"] = json!({}),
            ("restarts", count) => json["status"]["containerStatuses"][0]["restartCount"] = json!(count.parse::<i32>().expect("a number")),
            (other, _) => panic!("{other}"),
        }
    }
    Arc::new(JobPodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod"))
}

fn state(spec: &Value, status: &Value, pods: &str) -> JobState {
    let pods = pods.split(',').map(str::trim).filter(|text| !text.is_empty()).map(pod).collect();
    JobState { job: job(spec, status), pods, past: FailureStreak::default(), now: at(NOW) }
}

/// The plan's text, without the write of a status that only reports.
fn check(spec: Value, status: Value, pods: &str, expected: &[&str]) {
    let mut plan = plan(&state(&spec, &status, pods));
    plan.stages.iter_mut().for_each(|stage| stage.actions.retain(|action| !action.may_wait()));
    plan.stages.retain(|stage| !stage.actions.is_empty());
    let text = plan.to_string();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{spec} {pods}");
}

#[test]
fn missing_pods_are_created_and_surplus_ones_deleted() {
    let spec = json!({"completions": 5, "parallelism": 3});
    check(spec.clone(), json!({}), "a running", &["1. create 2 pods of Job ns/sum: 3 wanted, 1 there"]);
    check(spec.clone(), json!({"succeeded": 3}), "a running, b running", &[]);
    let text = ["1. patch Pod ns/b: 1 wanted, 2 there", "2. delete 1 pod of Job ns/sum: 1 wanted, 2 there, b (without a node)"];
    check(spec, json!({"succeeded": 4}), "a running, b", &text);
}

#[test]
fn surplus_pods_are_deleted_in_upstreams_order() {
    let text = |pods: &str| {
        let plan = plan(&state(&json!({"completions": 5, "parallelism": 1}), &json!({}), pods));
        let last = plan.stages.last().and_then(|stage| stage.actions.first()).map(Action::to_string);
        last.unwrap_or_default().split_once("there, ").map(|(_, victims)| victims.to_owned()).unwrap_or_default()
    };
    assert_eq!(text("a, b running"), "a (without a node)");
    assert_eq!(text("a running restarts=2, b running"), "a (more than 0 restarts)");
    assert_eq!(text("b running, a running"), "a (tie)");
    assert_eq!(text("a running, b, c running restarts=1"), "b (without a node), c (more than 0 restarts)");
}

#[test]
fn pods_with_an_index_that_is_not_free_are_deleted_first() {
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
    let text = [
        "1. patch Pod ns/d: 2 wanted, 4 there",
        "1. patch Pod ns/b: 2 wanted, 4 there",
        "1. patch Pod ns/c: 2 wanted, 4 there",
        "2. delete 3 pods of Job ns/sum: 2 wanted, 4 there, d, c (its index is not one of the Job), b (another pod has its index)",
    ];
    let mut plan = plan(&state(&spec, &json!({}), "a running index=0, b index=0, c index=7, d"));
    plan.stages.iter_mut().for_each(|stage| stage.actions.retain(|action| !action.may_wait()));
    plan.stages.retain(|stage| !stage.actions.is_empty());
    let mut lines: Vec<String> = plan.to_string().lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected = text.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_pod_is_listed_before_it_loses_the_finalizer() {
    let text = ["1. patch status of Job ns/sum: its pods have changed", "2. patch Pod ns/a: its Job has counted it"];
    check(
        json!({"completions": 1}),
        json!({"succeeded": 0}),
        "a failed@100",
        &[&text[..], &["waiting until 1970-01-01T00:01:50Z before creating 1 pod: 1 pod failed in a row"]].concat(),
    );
    let listed = json!({"uncountedTerminatedPods": {"failed": ["uid-a"]}});
    check(
        json!({"completions": 1}),
        listed,
        "a failed@1",
        &["1. patch Pod ns/a: its Job has counted it", "1. create 1 pod of Job ns/sum: 1 wanted, 0 there"],
    );
}

/// A stopped container can exit with 0 before its pod loses the finalizer.
#[test]
fn a_pod_that_a_success_policy_stops_counts_only_if_it_has_ended() {
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "successPolicy": policy});
    let met = json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "Matched rules at index 0"}]);
    let stored = json!({"succeeded": 1, "completedIndexes": "0", "conditions": met});
    let plan = plan(&state(&spec, &stored, "a running deleted index=1, b succeeded@90 deleted index=2"));
    let Action::Patch { patch, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
    assert_eq!((&patch["status"]["completedIndexes"], &patch["status"]["succeeded"]), (&json!("0,2"), &json!(2)));
    assert_eq!(plan.stages[1].actions.len(), 2, "both lose the finalizer: {plan}");
}

#[test]
fn a_job_that_ends_waits_for_its_pods() {
    let spec = json!({"completions": 2, "parallelism": 2, "backoffLimit": 0});
    let ends = "its Job ends: BackoffLimitExceeded";
    let text = [
        "1. patch status of Job ns/sum: its pods have changed",
        "2. patch Pod ns/a: its Job has counted it",
        &format!("2. delete 1 pod of Job ns/sum: {ends}, b (scaled to 0)"),
        "waiting for 1 pod to end before the Job is finished",
    ];
    check(spec, json!({}), "a failed@1, b running", &text);
}

#[test]
fn a_suspended_job_gives_its_pods_up() {
    let text = [
        "1. patch status of Job ns/sum: its pods have changed",
        "2. patch Pod ns/a: its Job is suspended",
        "3. delete 1 pod of Job ns/sum: its Job is suspended, a (scaled to 0)",
        "suspended: no pod runs until you resume it",
    ];
    check(json!({"completions": 1, "suspend": true}), json!({}), "a running", &text);
}

#[test]
fn replacements_wait_for_terminating_pods_where_the_policy_requires_it() {
    let spec = json!({"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed"});
    check(spec, json!({}), "a running, b running deleted", &["waiting for 1 terminating pod before creating 1 more"]);
}

#[test]
fn the_finalizer_comes_and_leaves_with_the_owner() {
    let adopted = [
        "1. confirm that Job ns/sum is there: it is about to adopt an object",
        "2. patch Pod ns/a: it has no controller, and the selector of sum matches it",
    ];
    check(json!({}), json!({}), "a orphan untracked", &adopted);
    check(json!({}), json!({}), "a other", &["1. patch Pod ns/a: its labels no longer match the selector"]);
    check(json!({}), json!({}), "a orphan deleted", &["1. patch Pod ns/a: it terminates without a controller that could count it"]);
    let plan = plan(&state(&json!({}), &json!({}), "a orphan untracked"));
    let Action::Patch { patch, .. } = &plan.stages[1].actions[0] else { panic!("{plan}") };
    assert_eq!(patch["metadata"]["finalizers"], json!(["other", "batch.kubernetes.io/job-tracking"]));
}

#[test]
fn a_pod_that_lost_the_finalizer_gets_it_back_if_it_stays() {
    let spec = json!({"completions": 1});
    check(
        spec,
        json!({}),
        "a running untracked",
        &["1. patch Pod ns/a: it lacks the finalizer that keeps it until its Job has counted it"],
    );
}

#[test]
fn a_job_with_an_unknown_mode_is_left_alone() {
    let plan = plan(&state(&json!({"completionMode": "Other"}), &json!({}), "a running"));
    assert!(plan.is_idle());
    let events: Vec<_> = plan.events.iter().map(|event| (event.reason.as_ref(), event.message.as_str())).collect();
    assert_eq!(events, [("UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")]);
}

#[test]
fn a_finished_job_releases_pods_that_came_late() {
    let status = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    check(json!({}), status, "a running, b running untracked", &["1. patch Pod ns/a: its Job is finished"]);
}

#[test]
fn pods_without_their_job_lose_the_finalizer() {
    let reference = ObjectRef { resource: JOBS, key: ObjectKey::new("ns", "sum"), uid: "u".into(), resource_version: Some(Revision(7)) };
    let pods = [pod("a running"), pod("b untracked"), pod("c orphan")];
    let plan = plan_orphans(reference.clone(), pods.iter().map(|pod| &**pod));
    let text = "1. confirm that Job ns/sum is gone: its Job no longer exists\n2. patch Pod ns/a: its Job no longer exists\n";
    assert_eq!(plan.to_string(), text);
    assert!(plan_orphans(reference, [&*pods[1]]).is_idle());
}

#[test]
fn pods_without_a_controller_lose_the_finalizer_unless_a_job_adopts_them() {
    let pods = ["a orphan", "b orphan other", "c orphan untracked", "d running"].map(pod);
    let released = |jobs: &[Arc<JobView>]| -> Vec<String> {
        let plan = plan_abandoned(jobs.iter().map(|job| &**job), pods.iter().map(|pod| &**pod));
        plan.to_string().lines().map(str::to_owned).collect()
    };
    let line = |name: &str| format!("1. patch Pod ns/{name}: it terminates without a controller that could count it");
    let with = |selector: Value| job(&json!({"selector": selector}), &json!({}));
    let (both, only_b) = (vec![line("a"), line("b")], vec![line("b")]);
    assert_eq!(released(&[]), both);
    let several = json!({"matchExpressions": [{"key": "job", "operator": "In", "values": ["sum", "other"]}]});
    let (by_label, by_expression) = (job(&json!({}), &json!({})), with(several));
    assert_eq!(released(&[Arc::clone(&by_label)]), only_b);
    assert_eq!(released(&[by_expression]), only_b);
    assert_eq!(released(&[with(json!({"matchLabels": {"job": "other"}})), with(json!({}))]), both);
    let mut deleted = by_label;
    Arc::make_mut(&mut deleted).meta.deleted = Some(at(NOW));
    assert_eq!(released(&[deleted]), both);
}

/// What the first write of the status contains.
fn written(spec: &Value, status: &Value, pods: &str) -> Value {
    let plan = plan(&state(spec, status, pods));
    let Action::Patch { patch, .. } = &plan.stages[0].actions[0] else { panic!("{plan}") };
    patch["status"].clone()
}

/// Several ends can be reached at once. The first in this order counts: a rule that fails the Job, the backoff limit, the deadline, failed indexes, a
/// success policy, the completions.
#[test]
fn the_first_of_several_ends_counts() {
    let check = |spec: Value, status: Value, pods: &str, expected: Option<&str>| {
        let reason = written(&spec, &status, pods)["conditions"][0]["reason"].as_str().map(str::to_owned);
        assert_eq!(reason.as_deref(), expected, "{spec} {pods}");
    };
    let limit = || json!({"completions": 1, "backoffLimit": 1});
    check(limit(), json!({"failed": 1}), "a running", None);
    check(limit(), json!({}), "a failed@90", None);
    check(limit(), json!({"failed": 1}), "a failed@90", Some("BackoffLimitExceeded"));
    let fatal = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]});
    let with_rule = json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": fatal});
    check(with_rule, json!({}), "a failed@90", Some("PodFailurePolicy"));
    let started = json!({"startTime": at(80)});
    let deadline = |seconds: i64, limit: i32| json!({"completions": 1, "activeDeadlineSeconds": seconds, "backoffLimit": limit});
    check(deadline(20, 0), started.clone(), "a failed@90", Some("BackoffLimitExceeded"));
    check(deadline(20, 0), started.clone(), "a succeeded@90", Some("DeadlineExceeded"));
    check(deadline(21, 0), started, "a succeeded@90", Some("CompletionsReached"));
    let indexed = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        spec
    };
    let policy = json!({"rules": [{"succeededIndexes": "0"}]});
    let with_policy = |limit: i32| indexed(json!({"successPolicy": policy, "backoffLimit": limit}));
    check(with_policy(1), json!({}), "a succeeded@90 index=0, b succeeded@90 index=1", Some("SuccessPolicy"));
    check(with_policy(1), json!({}), "a succeeded@90 index=0, b failed@90 index=1", Some("SuccessPolicy"));
    check(with_policy(0), json!({}), "a succeeded@90 index=0, b failed@90 index=1", Some("BackoffLimitExceeded"));
    let per_index = indexed(json!({"successPolicy": policy, "backoffLimitPerIndex": 0}));
    check(per_index, json!({}), "a succeeded@90 index=0, b failed@90 index=1", Some("FailedIndexes"));
    check(indexed(json!({})), json!({}), "a succeeded@90 index=0, b succeeded@90 index=1", Some("CompletionsReached"));
}

#[test]
fn an_index_fails_after_as_many_failures_as_its_limit_and_one_more() {
    let check = |rules: Value, pods: &str, failed: &str, reason: Option<&str>| {
        let spec = json!({
            "completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 2, "maxFailedIndexes": 1,
            "podFailurePolicy": {"rules": rules},
        });
        let written = written(&spec, &json!({}), pods);
        assert_eq!((&written["failedIndexes"], written["conditions"][0]["reason"].as_str()), (&json!(failed), reason), "{pods}");
    };
    let rule = |action: &str| json!([{"action": action, "onExitCodes": {"operator": "In", "values": [1]}}]);
    check(json!([]), "a failed@90 index=0 failures=1", "", None);
    check(json!([]), "a failed@90 index=0 failures=2", "0", None);
    check(json!([]), "a failed@90 index=0 failures=1 ignored=9", "", None);
    check(rule("Ignore"), "a failed@90 index=0 failures=2", "", None);
    check(rule("FailIndex"), "a failed@90 index=0 failures=0", "0", None);
    let two = "a failed@90 index=0 failures=2, b failed@90 index=2 failures=2";
    check(json!([]), two, "0,2", Some("MaxFailedIndexesExceeded"));
}
