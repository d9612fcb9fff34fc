//! What a real Kubernetes 1.36.2 answered in the same situations: the last status, without its times, and the events of the Job.
//!
//! Not recorded, but from its source: the ends of Jobs whose pods were terminating, restarts of containers, and batches.

use super::model::JobModel;
use jiff::SignedDuration;
use serde_json::{Value, json};

/// Plays a situation from the creation of the Job on. Nodes do nothing by themselves.
fn check(spec: Value, play: impl FnOnce(&mut JobModel), status: Value, events: &[(&str, &str)]) {
    let mut model = JobModel::new(&spec);
    model.rest();
    play(&mut model);
    model.rest();
    let mut found = model.job.json["status"].clone();
    strip_times(&mut found);
    assert_eq!(found, status, "{spec}");
    let found: Vec<_> = model.events.iter().map(|(reason, message)| (reason.as_str(), message.as_str())).collect();
    assert_eq!(found, events, "{spec}");
}

/// That a time is set remains visible.
fn strip_times(status: &mut Value) {
    for time in ["startTime", "completionTime"] {
        if !status[time].is_null() {
            status[time] = json!("set");
        }
    }
    status.as_object_mut().expect("a status").retain(|_, value| !value.is_null());
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let times = ["lastProbeTime", "lastTransitionTime"].map(|time| condition.as_object_mut().expect("a condition").remove(time));
        assert!(times.iter().all(Option::is_some), "{condition}");
    }
    if status["conditions"].is_null() {
        status.as_object_mut().expect("a status").remove("conditions");
    }
}

fn condition(type_: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": message})
}

/// A status with these members, and those that each status has.
fn status(members: Value, conditions: Value) -> Value {
    let mut status = json!({"startTime": "set", "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}});
    let all = status.as_object_mut().expect("an object");
    all.extend(members.as_object().expect("an object").clone());
    if conditions != json!([]) {
        all.insert("conditions".to_owned(), conditions);
    }
    status
}

fn failed(reason: &str, message: &str) -> Value {
    json!([condition("FailureTarget", reason, message), condition("Failed", reason, message)])
}

fn pod(model: &JobModel, number: usize) -> String {
    model.pods.keys().nth(number).expect("a pod").clone()
}

fn end(model: &mut JobModel, number: usize, code: i32) {
    model.end(&pod(model, number), code, false);
}

const REACHED: (&str, &str) = ("CompletionsReached", "Reached expected number of succeeded pods");
const BACKOFF_LIMIT: (&str, &str) = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");

#[test]
fn a_job_is_complete_when_its_indexes_have_succeeded() {
    let both = |model: &mut JobModel| [0, 1].iter().for_each(|number| end(model, *number, 0));
    let conditions = json!([condition("SuccessCriteriaMet", REACHED.0, REACHED.1), condition("Complete", REACHED.0, REACHED.1)]);
    let complete = status(json!({"completionTime": "set", "succeeded": 2, "completedIndexes": "0,1"}), conditions.clone());
    check(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}), both, complete, &[("Completed", "Job completed")]);
    check(json!({"completions": 0}), |_| (), status(json!({"completionTime": "set"}), conditions), &[("Completed", "Job completed")]);
}

#[test]
fn a_job_without_completions_waits_for_its_other_pods() {
    check(json!({"parallelism": 2}), |model| end(model, 0, 0), status(json!({"active": 1, "succeeded": 1}), json!([])), &[]);
}

#[test]
fn a_suspended_job_has_no_start_time_and_deletes_its_pods() {
    let suspended = json!([{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]);
    let mut expected = status(json!({"terminating": 2}), suspended);
    expected.as_object_mut().expect("an object").remove("startTime");
    let play = |model: &mut JobModel| {
        assert!(model.pods.is_empty());
        model.edit(&json!({"spec": {"suspend": false}}));
        model.rest();
        assert_eq!(model.condition("Suspended"), "False");
        model.active().iter().for_each(|name| model.start(name));
        model.rest();
        model.edit(&json!({"spec": {"suspend": true}}));
    };
    let events = [("Suspended", "Job suspended"), ("Resumed", "Job resumed"), ("Suspended", "Job suspended")];
    check(json!({"completions": 2, "parallelism": 2, "suspend": true}), play, expected, &events);
}

#[test]
fn a_failure_beyond_the_backoff_limit_fails_the_job() {
    let expected = status(json!({"failed": 1}), failed(BACKOFF_LIMIT.0, BACKOFF_LIMIT.1));
    check(json!({"completions": 1, "backoffLimit": 0}), |model| end(model, 0, 1), expected, &[BACKOFF_LIMIT]);
}

/// With `OnFailure`, containers restart in their pod, and the pod does not fail.
#[test]
fn restarts_of_containers_count_toward_the_backoff_limit() {
    for (limit, restarts, is_failed) in [(0, 0, false), (0, 1, true), (3, 2, false), (3, 3, true)] {
        let mut model =
            JobModel::new(&json!({"completions": 1, "backoffLimit": limit, "template": {"spec": {"restartPolicy": "OnFailure"}}}));
        model.rest();
        let name = pod(&model, 0);
        model.start(&name);
        model.edit_pod(&name, &json!({"status": {"containerStatuses": [{"name": "main", "restartCount": restarts}]}}));
        model.rest();
        assert_eq!(model.condition("FailureTarget") == "True", is_failed, "limit {limit}, {restarts} restarts");
    }
}

#[test]
fn a_fail_job_rule_ends_the_job_and_counts_its_other_pods_as_failed() {
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]);
    let spec = json!({"completions": 2, "parallelism": 2, "podFailurePolicy": {"rules": rules}});
    let message = "Container main for pod ns/sum-00003 failed with exit code 42 matching FailJob rule at index 1";
    let play = |model: &mut JobModel| {
        let other = pod(model, 1);
        model.start(&other);
        end(model, 0, 42);
    };
    let interim = json!([condition("FailureTarget", "PodFailurePolicy", message)]);
    check(spec.clone(), play, status(json!({"failed": 2, "terminating": 1}), interim), &[]);
    let play_to_end = |model: &mut JobModel| {
        play(model);
        model.run_to_end(0);
    };
    check(spec, play_to_end, status(json!({"failed": 2}), failed("PodFailurePolicy", message)), &[("PodFailurePolicy", message)]);
}

#[test]
fn an_ignored_failure_is_not_counted_but_delays_the_next_pod() {
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    let play = |model: &mut JobModel| {
        model.end(&pod(model, 0), 1, true);
        model.rest();
        model.now += SignedDuration::from_secs(9);
    };
    check(json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": {"rules": rules}}), play, status(json!({}), json!([])), &[]);
}

#[test]
fn a_job_fails_when_its_last_index_has_ended_and_one_has_failed() {
    let play = |model: &mut JobModel| {
        end(model, 0, 1);
        end(model, 1, 1);
        model.rest();
        assert!(!model.is_finished());
        end(model, 2, 0);
    };
    let message = ("FailedIndexes", "Job has failed indexes");
    let expected =
        status(json!({"succeeded": 1, "failed": 2, "completedIndexes": "2", "failedIndexes": "0,1"}), failed(message.0, message.1));
    check(json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0}), play, expected, &[message]);
}

#[test]
fn more_failed_indexes_than_allowed_fail_the_job() {
    let play = |model: &mut JobModel| {
        end(model, 0, 1);
        model.rest();
        end(model, 2, 1);
        model.run_to_end(0);
    };
    let message = ("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes");
    let expected = status(json!({"failed": 3, "failedIndexes": "0,2"}), failed(message.0, message.1));
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
    check(spec, play, expected, &[message]);
}

/// The failed pod of index 1 keeps its finalizer until it is replaced: its successor continues its count.
#[test]
fn a_fail_index_rule_fails_its_index_and_another_index_is_replaced() {
    let rules = json!([{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]);
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": rules}});
    let play = |model: &mut JobModel| {
        end(model, 0, 42);
        end(model, 1, 1);
        model.rest();
        assert_eq!((model.job.json["status"]["failed"].clone(), model.active().len()), (json!(1), 0));
        assert_eq!(model.names(berth_workloads::view::JobPodView::is_tracked).len(), 1, "{}", model.short());
        model.now += SignedDuration::from_secs(10);
        model.rest();
        let successor = model.active().first().expect("a pod").clone();
        let annotations = &model.pods[&successor].json["metadata"]["annotations"];
        let expected = json!({"batch.kubernetes.io/job-completion-index": "1", "batch.kubernetes.io/job-index-failure-count": "1"});
        assert_eq!(*annotations, expected);
    };
    check(spec, play, status(json!({"active": 1, "failed": 2, "failedIndexes": "0"}), json!([])), &[]);
}

#[test]
fn a_success_rule_ends_the_job_and_its_other_pods_have_not_failed() {
    let policy = json!({"rules": [{"succeededIndexes": "0", "succeededCount": 1}, {"succeededCount": 1}]});
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "successPolicy": policy});
    let met = condition("SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 1");
    let interim = status(json!({"succeeded": 1, "terminating": 2, "completedIndexes": "1"}), json!([met]));
    check(spec.clone(), |model| end(model, 1, 0), interim, &[]);
    let play_to_end = |model: &mut JobModel| {
        end(model, 1, 0);
        model.run_to_end(0);
    };
    let complete = condition("Complete", "SuccessPolicy", "Matched rules at index 1");
    let expected = status(json!({"succeeded": 1, "completedIndexes": "1", "completionTime": "set"}), json!([met, complete]));
    check(spec, play_to_end, expected, &[("Completed", "Job completed")]);
}

#[test]
fn a_job_fails_when_its_active_deadline_passes() {
    let message = ("DeadlineExceeded", "Job was active longer than specified deadline");
    let play = |model: &mut JobModel| {
        assert_eq!(model.plan().requeue_at, Some(model.now + SignedDuration::from_secs(2)));
        model.now += SignedDuration::from_secs(2);
        model.run_to_end(0);
    };
    check(
        json!({"completions": 1, "activeDeadlineSeconds": 2}),
        play,
        status(json!({"failed": 1}), failed(message.0, message.1)),
        &[message],
    );
}

#[test]
fn a_deleted_pod_is_replaced_when_the_policy_allows() {
    let play = |seconds: i64, has_ended: bool| {
        move |model: &mut JobModel| {
            let name = pod(model, 0);
            model.start(&name);
            model.delete(&name);
            model.rest();
            if has_ended {
                model.end(&name, 137, false);
                model.rest();
            }
            model.now += SignedDuration::from_secs(seconds);
        }
    };
    let at_once = json!({"completions": 1});
    check(at_once.clone(), play(9, false), status(json!({"failed": 1, "terminating": 1}), json!([])), &[]);
    check(at_once, play(10, false), status(json!({"active": 1, "failed": 1, "terminating": 1}), json!([])), &[]);
    let when_failed = json!({"completions": 1, "podReplacementPolicy": "Failed"});
    check(when_failed.clone(), play(1000, false), status(json!({"terminating": 1}), json!([])), &[]);
    check(when_failed.clone(), play(9, true), status(json!({"failed": 1}), json!([])), &[]);
    check(when_failed, play(10, true), status(json!({"active": 1, "failed": 1}), json!([])), &[]);
}

/// Pods that never ran are deleted before running ones, and no pod that is deleted for this counts as failed.
#[test]
fn a_lower_parallelism_deletes_pods_that_are_not_running_first() {
    let play = |model: &mut JobModel| {
        [pod(model, 1)].iter().for_each(|name| model.start(name));
        model.rest();
        model.edit(&json!({"spec": {"parallelism": 1}}));
        model.rest();
        assert_eq!(model.active(), [pod(model, 1)]);
    };
    check(json!({"completions": 5, "parallelism": 3}), play, status(json!({"active": 1, "ready": 1, "terminating": 2}), json!([])), &[]);
}

#[test]
fn a_finished_job_is_deleted_when_it_expires() {
    let mut model = JobModel::new(&json!({"completions": 1, "ttlSecondsAfterFinished": 60}));
    model.rest();
    end(&mut model, 0, 0);
    model.rest();
    assert_eq!(model.plan().requeue_at, Some(model.now + SignedDuration::from_secs(60)));
    model.now += SignedDuration::from_secs(60);
    let text = model.plan().to_string();
    assert_eq!(text, "1. delete Job ns/sum, dependents Foreground: its ttlSecondsAfterFinished of 60 is over\n");
    model.reconcile(usize::MAX, false);
    assert!(model.is_job_gone);
}

#[test]
fn a_job_of_another_controller_is_left_alone_until_it_expires() {
    let mut model = JobModel::new(&json!({"completions": 1, "managedBy": "example.com/queue", "ttlSecondsAfterFinished": 0}));
    assert_eq!(model.plan().to_string(), "example.com/queue manages the Job (managedBy)\n");
    let complete = json!({"type": "Complete", "status": "True", "lastTransitionTime": model.now.to_string()});
    model.edit(&json!({"status": {"conditions": [complete]}}));
    assert!(model.plan().to_string().starts_with("1. delete Job ns/sum"), "{}", model.plan());
}

/// The pod of index 0, without what the server adds.
#[test]
fn a_pod_of_an_index_has_its_number_in_names_labels_and_variables() {
    let template = json!({"metadata": {"annotations": {"note": "x"}}, "spec": {"initContainers": [{"name": "once", "image": "i", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]}]}});
    let mut model = JobModel::new(&json!({"completionMode": "Indexed", "completions": 1, "template": template}));
    model.rest();
    let json = model.pods.values().next().expect("a pod").json.clone();
    let (metadata, spec) = (&json["metadata"], &json["spec"]);
    assert_eq!((&metadata["generateName"], &spec["hostname"]), (&json!("sum-0-"), &json!("sum-0")));
    assert_eq!(metadata["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(metadata["annotations"], json!({"batch.kubernetes.io/job-completion-index": "0", "note": "x"}));
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "uid-sum", "batch.kubernetes.io/job-name": "sum", "batch.kubernetes.io/job-completion-index": "0",
    });
    assert_eq!(metadata["labels"], labels);
    let owner =
        json!({"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "uid-sum", "controller": true, "blockOwnerDeletion": true});
    assert_eq!(metadata["ownerReferences"], json!([owner]));
    let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    assert_eq!(spec["containers"][0]["env"], json!([variable]));
    assert_eq!(spec["initContainers"][0]["env"], json!([{"name": "JOB_COMPLETION_INDEX", "value": "own"}]));
}

#[test]
fn pods_are_created_in_growing_batches_at_most_five_hundred_at_a_time() {
    let sizes = |spec: Value| {
        let plan = JobModel::new(&spec).plan();
        let creations = plan.stages.iter().map(|stage| {
            let counts = stage.actions.iter().filter_map(|action| match action {
                berth_workloads::Action::CreatePods { count, .. } => Some(*count),
                _ => None,
            });
            counts.sum::<usize>()
        });
        creations.filter(|count| 0 < *count).collect::<Vec<_>>()
    };
    assert_eq!(sizes(json!({"completions": 10, "parallelism": 10, "completionMode": "Indexed"})), [1, 2, 4, 3]);
    let indexed = sizes(json!({"completions": 1000, "parallelism": 1000, "completionMode": "Indexed"}));
    assert_eq!((indexed.iter().sum::<usize>(), indexed.len()), (500, 9));
    assert_eq!(sizes(json!({"completions": 1000, "parallelism": 1000})), [500], "the executor divides alike pods");
}
