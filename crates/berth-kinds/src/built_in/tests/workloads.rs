//! Kinds whose objects make pods of a template. Objects, results and texts are those of a real 1.36.2.

use super::{check_create, check_stored, check_update, compare, decoded, named};
use crate::{
    Definition, Document,
    built_in::{cron_job, daemon_set, job, pod_template, replication_controller},
};
use berth_api::{FeatureGates, Object, ObjectStrategy, Subresource};
use berth_testing::merged;
use serde_json::{Value, json};

fn pods() -> Value {
    json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}})
}

fn with_spec(spec: &Value) -> Value {
    json!({"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": merged(pods(), spec)})
}

fn created(spec: &Value) -> Document {
    let [mut job] = decoded(job, [&with_spec(spec)]);
    job.prepare_create(&FeatureGates::default());
    job
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
fn check(spec: Value, wanted: &[&str]) {
    check_create(job, &with_spec(&spec), wanted);
}

#[test]
fn a_job_is_defaulted_and_selects_its_own_pods() {
    let spec_of = |sent: Value| created(&sent).to_value()["spec"].clone();
    let labels =
        json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "a", "controller-uid": "u", "job-name": "a"});
    let container = json!({"name": "a", "image": "b", "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"});
    assert_eq!(
        spec_of(json!({})),
        json!({
            "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false, "manualSelector": false,
            "podReplacementPolicy": "TerminatingOrFailed", "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler",
            }},
        })
    );
    assert_eq!(spec_of(json!({"parallelism": 2})).get("completions"), None);
    let indexed = spec_of(json!({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}));
    assert_eq!((&indexed["parallelism"], &indexed["backoffLimit"]), (&json!(1), &json!(2_147_483_647)));
    let rules = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    let failing = spec_of(json!({"podFailurePolicy": rules}));
    assert_eq!(failing["podReplacementPolicy"], json!("Failed"));
    assert_eq!(failing["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"], json!("True"));
}

#[test]
fn a_job_without_labels_has_those_of_its_template() {
    let own = |labels: Value| created(&json!({"template": {"metadata": labels}})).to_value()["metadata"]["labels"].clone();
    assert_eq!(own(json!({"labels": {"x": "y"}}))["x"], json!("y"));
    assert_eq!(own(json!({}))["job-name"], json!("a"));
    let object = merged(with_spec(&json!({})), &json!({"metadata": {"labels": {"q": "r"}}}));
    let [mut named] = decoded(job, [&object]);
    named.prepare_create(&FeatureGates::default());
    assert_eq!(named.to_value()["metadata"]["labels"], json!({"q": "r"}));
}

/// The name of an earlier try stays in no label.
#[test]
fn another_try_of_a_generated_name_replaces_the_labels_of_the_first() {
    let object = merged(with_spec(&json!({})), &json!({"metadata": {"name": "a-1", "generateName": "a-"}}));
    let [mut job] = decoded(job, [&object]);
    job.prepare_create(&FeatureGates::default());
    job.meta_mut().name = Some("a-2".to_owned());
    job.prepare_create(&FeatureGates::default());
    compare(&job.validate(&FeatureGates::default()), &[], &object);
    assert_eq!(job.to_value()["metadata"]["labels"]["job-name"], json!("a-2"));
}

#[test]
fn the_counts_of_a_job_are_validated() {
    let negative = "must be greater than or equal to 0";
    check(
        json!({"parallelism": -1, "completions": -1, "activeDeadlineSeconds": -1, "backoffLimit": -1, "ttlSecondsAfterFinished": -1,
               "backoffLimitPerIndex": -1, "maxFailedIndexes": -1, "managedBy": "x", "completionMode": "X", "podReplacementPolicy": "Y"}),
        &[
            &format!("spec.parallelism: Invalid value: -1: {negative}"),
            &format!("spec.completions: Invalid value: -1: {negative}"),
            &format!("spec.activeDeadlineSeconds: Invalid value: -1: {negative}"),
            &format!("spec.backoffLimit: Invalid value: -1: {negative}"),
            &format!("spec.ttlSecondsAfterFinished: Invalid value: -1: {negative}"),
            &format!("spec.backoffLimitPerIndex: Invalid value: -1: {negative}"),
            &format!("spec.maxFailedIndexes: Invalid value: -1: {negative}"),
            "spec.managedBy: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            "spec.completionMode: Unsupported value: \"X\": supported values: \"NonIndexed\", \"Indexed\"",
            "spec.podReplacementPolicy: Unsupported value: \"Y\": supported values: \"Failed\", \"TerminatingOrFailed\"",
        ],
    );
    check(json!({"managedBy": ""}), &["spec.managedBy: Required value"]);
    let long = format!("a.b/{}", "x".repeat(70));
    check(json!({"managedBy": long}), &["spec.managedBy: Too long: may not be more than 63 bytes"]);
    let many = json!({"completionMode": "Indexed", "completions": 100_001, "parallelism": 100_001, "maxFailedIndexes": 100_002});
    let bounds = [
        "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        "spec.maxFailedIndexes: Invalid value: 100002: must be less than or equal to completions",
        "spec.maxFailedIndexes: Invalid value: 100002: must be less than or equal to 100000",
    ];
    let missing = "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified";
    check(many.clone(), &[&[missing], &bounds[..]].concat());
    let of_many = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
    let more =
        [format!("spec.parallelism: Invalid value: 100001: {of_many}"), format!("spec.maxFailedIndexes: Invalid value: 100002: {of_many}")];
    check(merged(many, &json!({"backoffLimitPerIndex": 1})), &[&bounds[..], &[&more[0], &more[1]]].concat());
    check(
        json!({"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}),
        &["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"],
    );
    let indexed = "requires indexed completion mode";
    check(json!({"maxFailedIndexes": 1}), &[missing, &format!("spec.maxFailedIndexes: Invalid value: 1: {indexed}")]);
    check(json!({"backoffLimitPerIndex": 1}), &[&format!("spec.backoffLimitPerIndex: Invalid value: 1: {indexed}")]);
    let named = |name: &str| {
        let indexed = json!({"completionMode": "Indexed", "completions": 5});
        merged(with_spec(&indexed), &json!({"metadata": {"name": name}}))
    };
    check_create(job, &named("a.c"), &["metadata.name: Invalid value: \"a.c\": will not able to create pod with invalid DNS label: a.c-4"]);
}

#[test]
fn the_selector_of_a_job_is_generated_or_matches_its_template() {
    let broken = [
        "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/controller-uid\":\"u\"}}: `selector` not auto-generated",
        "spec.template.metadata.labels: Invalid value: {…",
    ];
    check(json!({"selector": {"matchLabels": {"a": "b"}}}), &broken);
    let unmatched = "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`";
    check(json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}), &[unmatched]);
    check(json!({"manualSelector": true}), &["spec.selector: Required value", unmatched]);
    check(json!({"manualSelector": true, "selector": {}}), &[]);
    let operator = "spec.selector.matchExpressions[0].operator: Invalid value: \"Z\": not a valid selector operator";
    check(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Z"}]}}), &[operator]);
    check(
        json!({"template": {"metadata": {"labels": {"job-name": "x", "controller-uid": "y"}}}}),
        &["spec.template.metadata.labels[controller-uid]: Invalid value: {…", "spec.template.metadata.labels[job-name]: Invalid value: {…"],
    );
}

#[test]
fn the_pods_of_a_job_end() {
    let policy = |policy: Value| json!({"template": {"spec": {"restartPolicy": policy}}});
    let path = "spec.template.spec.restartPolicy";
    check(policy(json!(null)), &[&format!("{path}: Required value: valid values: \"OnFailure\", \"Never\"")]);
    check(
        policy(json!("X")),
        &[
            &format!("{path}: Unsupported value: \"X\": supported values: \"Always\", \"OnFailure\", \"Never\""),
            &format!("{path}: Unsupported value: \"X\": supported values: \"OnFailure\", \"Never\""),
        ],
    );
    check(
        merged(policy(json!("OnFailure")), &json!({"podFailurePolicy": {"rules": []}})),
        &[&format!("{path}: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified")],
    );
    let [mut nothing] = decoded(job, [&json!({"metadata": {"name": "a", "uid": "u"}})]);
    nothing.prepare_create(&FeatureGates::default());
    let wanted =
        ["spec.template.spec.containers: Required value", &format!("{path}: Required value: valid values: \"OnFailure\", \"Never\"")];
    compare(&nothing.validate(&FeatureGates::default()), &wanted, &json!({}));
}

#[test]
fn the_rules_for_failed_pods_are_validated() {
    let check = |rule: Value, wanted: &[&str]| {
        let inside: Vec<String> = wanted.iter().map(|fault| format!("spec.podFailurePolicy.rules[0]{fault}")).collect();
        check(json!({"podFailurePolicy": {"rules": [rule]}}), &inside.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let neither = ": Invalid value: specifying one of OnExitCodes and OnPodConditions is required";
    let actions = "\"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"";
    check(json!({}), &[&format!(".action: Required value: valid values: [{}]", actions.replace(',', "")), neither]);
    check(json!({"action": "X"}), &[&format!(".action: Unsupported value: \"X\": supported values: {actions}"), neither]);
    check(
        json!({"action": "FailIndex", "onPodConditions": [{"type": "A", "status": "True"}]}),
        &[".action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"],
    );
    check(
        json!({"action": "Ignore", "onPodConditions": [{"type": "A", "status": "X"}]}),
        &[".onPodConditions[0].status: Unsupported value: \"X\": supported values: \"False\", \"True\", \"Unknown\""],
    );
    check(
        json!({"action": "Count", "onExitCodes": {"operator": "X", "containerName": "zz", "values": [3, 2, 2, 0]}, "onPodConditions": [{"type": "a"}]}),
        &[
            ".onExitCodes.operator: Unsupported value: \"X\": supported values: \"In\", \"NotIn\"",
            ".onExitCodes.containerName: Invalid value: \"zz\": must be one of the container or initContainer names in the pod template",
            ".onExitCodes.values[2]: Duplicate value: 2",
            ".onExitCodes.values: Invalid value: [3,2,2,0]: must be ordered",
            ": Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
        ],
    );
    check(
        json!({"action": "Count", "onExitCodes": {"operator": "In", "values": [0, 1]}}),
        &[".onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"],
    );
    check(
        json!({"action": "Count", "onExitCodes": {}}),
        &[".onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]", ".onExitCodes.values: Invalid value: …"],
    );
}

#[test]
fn the_rules_for_success_are_validated() {
    let check_rule = |rule: Value, wanted: &[&str]| {
        check(json!({"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [rule]}}), wanted);
    };
    check(
        json!({"successPolicy": {"rules": []}}),
        &["spec.successPolicy: Invalid value: {\"rules\":[]}: requires indexed completion mode"],
    );
    let path = "spec.successPolicy.rules[0]";
    check_rule(json!({}), &[&format!("{path}: Required value: at least one of succeededCount or succeededIndexes must be specified")]);
    let all = "the number of specified completions";
    let listed = "the number of indexes in the specified succeededIndexes field";
    check_rule(
        json!({"succeededIndexes": "", "succeededCount": 6}),
        &[
            &format!("{path}.succeededCount: Invalid value: 6: must be less than or equal to 5 ({all})"),
            &format!("{path}.succeededCount: Invalid value: 6: must be less than or equal to 0 ({listed})"),
        ],
    );
    check_rule(
        json!({"succeededIndexes": "3-1"}),
        &[&format!(
            "{path}.succeededIndexes: Invalid value: \"3-1\": error parsing succeededIndexes: non-increasing order, previous: 3, current: 1"
        )],
    );
    check_rule(json!({"succeededIndexes": "0-4", "succeededCount": 5}), &[]);
}

#[test]
fn an_update_of_a_job_keeps_what_its_pods_depend_on() {
    let immutable = "field is immutable";
    let check = |old: Value, new: Value, wanted: &[&str]| check_update(job, &with_labels(&old), &with_labels(&new), wanted);
    check(json!({}), json!({"completions": 2}), &[&format!("spec.completions: Invalid value: 2: {immutable}")]);
    check(
        json!({}),
        json!({"completions": 1, "parallelism": 3, "backoffLimit": 2, "activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 1, "suspend": true}),
        &[],
    );
    check(json!({}), json!({"completionMode": "Indexed"}), &[&format!("spec.completionMode: Invalid value: \"Indexed\": {immutable}")]);
    check(json!({}), json!({"managedBy": "a.b/c"}), &[&format!("spec.managedBy: Invalid value: \"a.b/c\": {immutable}")]);
    let once = "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode";
    let per_index = format!("spec.backoffLimitPerIndex: Invalid value: 1: {immutable}");
    check(json!({}), json!({"backoffLimitPerIndex": 1, "backoffLimit": 6}), &[once, &per_index]);
    let indexed =
        |completions: i32, parallelism: i32| json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism});
    let tandem = "spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism";
    check(indexed(3, 3), indexed(5, 3), &[tandem]);
    check(indexed(3, 3), indexed(5, 5), &[]);
    let annotated = json!({"template": {"metadata": {"annotations": {"q": "r"}}}});
    check(json!({}), annotated.clone(), &["spec.template: Invalid value: {…"]);
    check(json!({}), merged(annotated.clone(), &json!({"suspend": true})), &["spec.template: Invalid value: {…"]);
    check(json!({"suspend": true}), annotated, &[]);
}

/// A Job that was created, with the labels and the selector that it got.
fn with_labels(spec: &Value) -> Value {
    let labels =
        json!({"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "a", "controller-uid": "u", "job-name": "a"});
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
    let own = json!({"selector": selector, "template": {"metadata": {"labels": labels}}});
    with_spec(&merged(own, spec))
}

#[test]
fn a_suspended_job_without_pods_can_be_scheduled_elsewhere() {
    let node = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}});
    let pods = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}});
    let of_pods = |spec: Value| with_labels(&json!({"suspend": true, "template": {"spec": spec}}));
    let base = of_pods(json!({}));
    let moved = json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "z", "operator": "Exists"}], "schedulingGates": [{"name": "e.com/f"}], "affinity": node});
    check_update(job, &base, &of_pods(moved.clone()), &[]);
    check_update(job, &of_pods(moved), &base, &[]);
    let container = json!({"name": "a", "image": "b", "resources": {"requests": {"cpu": "1"}}});
    check_update(job, &base, &of_pods(json!({"containers": [container]})), &[]);
    let kept = ["spec.template.spec: Invalid value: {…"];
    check_update(job, &base, &of_pods(json!({"affinity": pods})), &kept);
    check_update(job, &base, &of_pods(json!({"containers": [{"name": "a", "image": "c"}]})), &kept);
    let states = [
        (json!({}), true),
        (json!({"active": 1}), false),
        (json!({"startTime": "2026-01-01T00:00:00Z"}), false),
        (json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}), true),
        (json!({"active": 1, "conditions": [{"type": "Suspended", "status": "True"}]}), false),
    ];
    for (status, is_allowed) in states {
        let [old, mut new] =
            decoded(job, [&merged(base.clone(), &json!({"status": status})), &of_pods(json!({"nodeSelector": {"a": "b"}}))]);
        new.prepare_update(&old, None, &FeatureGates::default());
        let faults = new.validate_update(&old, None, &FeatureGates::default());
        assert_eq!(faults.is_empty(), is_allowed, "{status}: {faults:?}");
    }
}

fn check_status(spec: &Value, old: &Value, new: &Value, wanted: &[&str]) {
    let with = |status: &Value| merged(with_labels(spec), &json!({"status": status}));
    let [old, mut new_job] = decoded(job, [&with(old), &with(new)]);
    new_job.prepare_update(&old, Some(Subresource::Status), &FeatureGates::default());
    let inside: Vec<String> = wanted.iter().map(|fault| format!("status.{fault}")).collect();
    let faults = new_job.validate_update(&old, Some(Subresource::Status), &FeatureGates::default());
    compare(&faults, &inside.iter().map(String::as_str).collect::<Vec<_>>(), new);
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
fn check_new_status(status: Value, wanted: &[&str]) {
    check_status(&json!({}), &json!({}), &status, wanted);
}

fn conditions(kinds: &[&str]) -> Value {
    json!(kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect::<Vec<_>>())
}

const BEGIN: &str = "2026-01-01T00:00:05Z";
const END: &str = "2026-01-01T00:10:05Z";

#[test]
fn the_end_of_a_job_is_reported_as_a_whole() {
    let negative = "Invalid value: -1: must be greater than or equal to 0";
    check_new_status(
        json!({"active": -1, "succeeded": -1, "failed": -1, "ready": -1, "terminating": -1,
               "uncountedTerminatedPods": {"succeeded": ["a", "a", ""], "failed": ["a", "b", ""]}}),
        &[
            &format!("active: {negative}"),
            &format!("succeeded: {negative}"),
            &format!("failed: {negative}"),
            &format!("ready: {negative}"),
            &format!("terminating: {negative}"),
            "uncountedTerminatedPods.succeeded[1]: Duplicate value: \"a\"",
            "uncountedTerminatedPods.succeeded[2]: Invalid value: \"\": must not be empty",
            "uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            "uncountedTerminatedPods.failed[2]: Invalid value: \"\": must not be empty",
            "failed: Invalid value: -1: cannot decrease the failed counter",
            "succeeded: Invalid value: -1: cannot decrease the succeeded counter",
        ],
    );
    let (no_end, no_begin) = (
        "completionTime: Required value: completionTime is required for Complete jobs",
        "startTime: Required value: startTime is required for finished job",
    );
    let not_met = "conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
    let no_target = "conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition";
    check_new_status(json!({"conditions": conditions(&["Complete"])}), &[no_end, not_met, no_begin]);
    check_new_status(json!({"conditions": conditions(&["Failed"])}), &[no_target, no_begin]);
    let both = "conditions: Invalid value: cannot set Complete=True and Failed=true conditions";
    check_new_status(json!({"conditions": conditions(&["Complete", "Failed"])}), &[both, no_end, no_target, not_met, no_begin]);
    check_new_status(
        json!({"conditions": conditions(&["Complete", "FailureTarget", "SuccessCriteriaMet"])}),
        &[
            "conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
            no_end,
            no_begin,
            "conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ],
    );
    check_new_status(
        json!({"completionTime": END}),
        &[&format!("completionTime: Invalid value: \"{END}\": cannot set completionTime when there is no Complete=True condition")],
    );
    check_new_status(
        json!({"startTime": END, "completionTime": BEGIN, "conditions": conditions(&["Complete", "SuccessCriteriaMet"])}),
        &[&format!("completionTime: Invalid value: \"{BEGIN}\": must be equal to or after `startTime`")],
    );
    check_new_status(
        json!({"active": 1, "terminating": 1, "ready": 2, "conditions": conditions(&["Failed", "FailureTarget"]), "uncountedTerminatedPods": {"failed": ["a"]}}),
        &[
            "active: Invalid value: 1: active>0 is invalid for finished job",
            no_begin,
            "uncountedTerminatedPods: Invalid value: {\"failed\":[\"a\"]}: must be empty for finished job",
            "terminating: Invalid value: 1: terminating>0 is invalid for finished job",
            "ready: Invalid value: 2: cannot set more ready pods than active",
        ],
    );
    check_new_status(
        json!({"completedIndexes": "x"}),
        &[
            "completedIndexes: Invalid value: \"x\": error parsing completedIndexes: cannot convert string to integer for index: \"x\"",
            "completedIndexes: Invalid value: \"x\": cannot set non-empty completedIndexes when non-indexed completion mode",
        ],
    );
    let no_limit = "failedIndexes: Invalid value: \"1\": cannot set non-null failedIndexes when backoffLimitPerIndex is null";
    check_new_status(json!({"failedIndexes": "1"}), &[no_limit]);
    let indexed = json!({"completionMode": "Indexed", "completions": 5, "backoffLimitPerIndex": 1});
    let overlap = "failedIndexes: Invalid value: \"2-3\": failedIndexes and completedIndexes overlap at index: 2";
    check_status(&indexed, &json!({}), &json!({"completedIndexes": "0-2", "failedIndexes": "2-3"}), &[overlap]);
}

#[test]
fn the_status_of_a_job_does_not_go_back() {
    let done =
        json!({"startTime": BEGIN, "completionTime": END, "succeeded": 1, "conditions": conditions(&["Complete", "SuccessCriteriaMet"])});
    let check = |patch: Value, wanted: &[&str]| check_status(&json!({}), &done, &merged(done.clone(), &patch), wanted);
    check(json!({}), &[]);
    check(
        json!({"conditions": null}),
        &[
            &format!("completionTime: Invalid value: \"{END}\": cannot set completionTime when there is no Complete=True condition"),
            "conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ],
    );
    check(json!({"succeeded": 0}), &["succeeded: Invalid value: 0: cannot decrease the succeeded counter"]);
    check(json!({"active": 1}), &["active: Invalid value: 1: active>0 is invalid for finished job"]);
    let later = "2026-01-01T00:11:05Z";
    check(json!({"completionTime": later}), &[&format!("completionTime: Invalid value: \"{later}\": field is immutable")]);
    check(
        json!({"startTime": "2026-01-01T00:00:01Z"}),
        &["startTime: Invalid value: \"2026-01-01T00:00:01Z\": field is immutable for unsuspended job once set"],
    );
    let failing = json!({"failed": 2, "startTime": BEGIN, "conditions": conditions(&["FailureTarget"])});
    let lower = merged(failing.clone(), &json!({"failed": 1}));
    check_status(&json!({}), &failing, &lower, &["failed: Invalid value: 1: cannot decrease the failed counter"]);
    check_status(&json!({"suspend": true}), &json!({"startTime": BEGIN}), &json!({}), &[]);
}

fn cron(spec: &Value) -> Value {
    named(&json!({"spec": merged(json!({"schedule": "* * * * *", "jobTemplate": {"spec": pods()}}), spec)}))
}

#[test]
fn a_cron_job_is_defaulted_and_validated() {
    let [mut made] = decoded(cron_job, [&cron(&json!({"concurrencyPolicy": ""}))]);
    made.prepare_create(&FeatureGates::default());
    let spec = made.to_value()["spec"].clone();
    assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
    assert_eq!((&spec["successfulJobsHistoryLimit"], &spec["failedJobsHistoryLimit"]), (&json!(3), &json!(1)));
    assert_eq!(spec["jobTemplate"]["metadata"], json!({}));
    assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], json!("ClusterFirst"));
    assert_eq!(spec["jobTemplate"]["spec"].get("parallelism"), None);
    let check = |spec: Value, wanted: &[&str]| check_create(cron_job, &cron(&spec), wanted);
    check(json!({"schedule": ""}), &["spec.schedule: Required value"]);
    check(json!({"schedule": "x"}), &["spec.schedule: Invalid value: \"x\": expected exactly 5 fields, found 1: [x]"]);
    let zone = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
    check(json!({"schedule": "TZ=UTC @daily"}), &[&format!("spec.schedule: Invalid value: \"TZ=UTC @daily\": {zone}")]);
    check(json!({"timeZone": "Asia/Tokyo"}), &[]);
    check(json!({"timeZone": ""}), &["spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"]);
    check(json!({"timeZone": "x"}), &["spec.timeZone: Invalid value: \"x\": unknown time zone x"]);
    let explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    check(json!({"timeZone": "Local"}), &[&format!("spec.timeZone: Invalid value: \"Local\": {explicit}")]);
    check(
        json!({"timeZone": "local"}),
        &[
            &format!("spec.timeZone: Invalid value: \"local\": {explicit}"),
            "spec.timeZone: Invalid value: \"local\": unknown time zone local",
        ],
    );
    let negative = "Invalid value: -1: must be greater than or equal to 0";
    check(
        json!({"concurrencyPolicy": "X", "startingDeadlineSeconds": -1, "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1}),
        &[
            &format!("spec.startingDeadlineSeconds: {negative}"),
            "spec.concurrencyPolicy: Unsupported value: \"X\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            &format!("spec.successfulJobsHistoryLimit: {negative}"),
            &format!("spec.failedJobsHistoryLimit: {negative}"),
        ],
    );
    check(
        json!({"jobTemplate": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "manualSelector": true, "parallelism": -1}}}),
        &[
            &format!("spec.jobTemplate.spec.parallelism: {negative}"),
            "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
        ],
    );
    let long = merged(cron(&json!({})), &json!({"metadata": {"name": "x".repeat(53)}}));
    check_create(cron_job, &long, &["metadata.name: Invalid value: \"xxx…"]);
    check_update(cron_job, &long, &long, &[]);
    check_update(cron_job, &cron(&json!({"schedule": "TZ=UTC @daily"})), &cron(&json!({"schedule": "TZ=UTC @hourly"})), &[]);
}

fn with_template(spec: &Value) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    named(&json!({"spec": merged(json!({ "template": template }), spec)}))
}

fn daemons(spec: &Value) -> Value {
    with_template(&merged(json!({"selector": {"matchLabels": {"a": "b"}}}), spec))
}

#[test]
fn a_daemon_set_is_defaulted_and_validated() {
    let strategy_of = |strategy: Value| {
        let [set] = decoded(daemon_set, [&daemons(&json!({"updateStrategy": strategy}))]);
        set.to_value()["spec"]["updateStrategy"].clone()
    };
    let default = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    for sent in [json!({}), json!({"type": ""}), json!({"type": "RollingUpdate"}), json!({"rollingUpdate": null})] {
        assert_eq!(strategy_of(sent), default);
    }
    assert_eq!(strategy_of(json!({"type": "OnDelete"})), json!({"type": "OnDelete"}));
    let kept = json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 5, "maxSurge": 0}});
    assert_eq!(strategy_of(json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 5}})), kept);
    let check = |spec: Value, wanted: &[&str]| check_create(daemon_set, &daemons(&spec), wanted);
    let unmatched = "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`";
    check(json!({}), &[]);
    check(json!({"selector": null}), &[unmatched]);
    check(json!({"selector": {"matchLabels": {"a": "c"}}}), &[unmatched]);
    check(json!({"selector": {"matchLabels": null}}), &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"]);
    let rolling = |rolling: Value, wanted: &[&str]| {
        let inside: Vec<String> = wanted.iter().map(|fault| format!("spec.updateStrategy.rollingUpdate.{fault}")).collect();
        check(json!({"updateStrategy": {"rollingUpdate": rolling}}), &inside.iter().map(String::as_str).collect::<Vec<_>>());
    };
    rolling(json!({"maxSurge": "25%", "maxUnavailable": "0%"}), &[]);
    rolling(json!({"maxSurge": 1}), &["maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"]);
    rolling(json!({"maxUnavailable": 0}), &["maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]);
    rolling(
        json!({"maxUnavailable": "101%", "maxSurge": "200%"}),
        &[
            "maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            "maxSurge: Invalid value: \"200%\": must not be greater than 100%",
            "maxSurge: Invalid value: \"200%\": may not be set when maxUnavailable is non-zero",
        ],
    );
    let percent = "a valid percent string must be a numeric string…";
    rolling(
        json!({"maxUnavailable": "x", "maxSurge": -1}),
        &[&format!("maxUnavailable: Invalid value: \"x\": {percent}"), "maxSurge: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(json!({"updateStrategy": {"type": "X"}}), &["spec.updateStrategy: Unsupported value: {…"]);
    check(
        json!({"template": {"spec": {"restartPolicy": "Never", "activeDeadlineSeconds": 5}}}),
        &[
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
        ],
    );
    let moved = json!({"selector": {"matchLabels": {"c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}});
    check_update(daemon_set, &daemons(&json!({})), &daemons(&moved), &["spec.selector: Invalid value: {…"]);
}

#[test]
fn an_annotation_counts_the_templates_of_a_daemon_set() {
    let key = "deprecated.daemonset.template.generation";
    let annotated = |spec: Value, value: &str| merged(daemons(&spec), &json!({"metadata": {"annotations": {key: value}}}));
    let of = |set: &Document| set.to_value()["metadata"]["annotations"][key].clone();
    let changed = json!({"template": {"metadata": {"labels": {"c": "d"}}}});
    let [mut old, mut same, mut new, mut status] = decoded(
        daemon_set,
        [&daemons(&json!({})), &annotated(json!({"minReadySeconds": 4}), "9"), &daemons(&changed), &annotated(json!({}), "9")],
    );
    old.prepare_create(&FeatureGates::default());
    assert_eq!(of(&old), "1");
    same.prepare_update(&old, None, &FeatureGates::default());
    new.prepare_update(&old, None, &FeatureGates::default());
    status.prepare_update(&old, Some(Subresource::Status), &FeatureGates::default());
    assert_eq!((of(&same), of(&new), of(&status)), (json!("1"), json!("2"), json!("1")));
}

#[test]
fn the_status_of_a_daemon_set_has_no_negative_counts() {
    let check = |old: Value, new: Value, wanted: &[&str]| {
        let with = |status: Value| merged(daemons(&json!({})), &json!({ "status": status }));
        let [old, mut set] = decoded(daemon_set, [&with(old), &with(new)]);
        set.prepare_update(&old, Some(Subresource::Status), &FeatureGates::default());
        compare(&set.validate_update(&old, Some(Subresource::Status), &FeatureGates::default()), wanted, &json!({}));
    };
    check(
        json!({}),
        json!({"numberReady": -1, "collisionCount": -1}),
        &[
            "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
            "status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    check(json!({"collisionCount": 9}), json!({"collisionCount": 3}), &["status.collisionCount: Invalid value: 3: cannot be decremented"]);
    check(json!({"collisionCount": 9}), json!({}), &["status.collisionCount: Invalid value: 0: cannot be decremented"]);
}

#[test]
fn a_replication_controller_is_defaulted_and_validated() {
    let [made] = decoded(replication_controller, [&with_template(&json!({"selector": {}}))]);
    let value = made.to_value();
    assert_eq!((&value["spec"]["replicas"], &value["spec"]["selector"]), (&json!(1), &json!({"a": "b"})));
    assert_eq!(value["metadata"]["labels"], json!({"a": "b"}));
    let scale = made.scale().expect("it has replicas");
    assert_eq!((scale.replicas, scale.current, scale.selector.is_some()), (Some(1), 0, true));
    let check = |spec: Value, wanted: &[&str]| check_create(replication_controller, &with_template(&spec), wanted);
    check_stored(replication_controller, &named(&json!({})), &json!({"spec": {"replicas": 1}, "status": {"replicas": 0}}));
    check_create(replication_controller, &named(&json!({})), &["spec.selector: Required value", "spec.template: Required value"]);
    check(json!({"selector": {"a": "c"}}), &["spec.template.metadata.labels: Invalid value: {…"]);
    check(
        json!({"replicas": -1, "minReadySeconds": -1}),
        &[
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
    check(
        json!({"template": {"spec": {"activeDeadlineSeconds": 5}}}),
        &["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported"],
    );
    let with = |status: Value| merged(with_template(&json!({})), &json!({ "status": status }));
    let counts = json!({"replicas": 1, "fullyLabeledReplicas": 2, "readyReplicas": 3, "availableReplicas": 4});
    let [old, mut new] = decoded(replication_controller, [&with(json!({})), &with(counts)]);
    new.prepare_update(&old, Some(Subresource::Status), &FeatureGates::default());
    compare(
        &new.validate_update(&old, Some(Subresource::Status), &FeatureGates::default()),
        &[
            "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 4: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 4: cannot be greater than readyReplicas",
        ],
        &json!({}),
    );
}

#[test]
fn a_pod_template_is_a_template() {
    check_create(pod_template, &named(&json!({})), &["template.spec.containers: Required value"]);
    let template =
        json!({"template": {"spec": {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never", "activeDeadlineSeconds": 5}}});
    check_create(pod_template, &named(&template), &[]);
}

/// Each has the normal form that the template of a Deployment has.
#[test]
fn every_kind_with_pods_has_the_same_template() {
    let sent = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {}, "creationTimestamp": null},
        "spec": {"containers": [{"name": "a", "image": "b:1", "command": [], "tty": false, "resources": {"requests": {"cpu": "1000m"}},
            "env": [{"name": "E", "value": ""}], "readinessProbe": {"httpGet": {"path": "", "port": 80}}}],
            "restartPolicy": "Never", "hostNetwork": false, "nodeSelector": {}, "volumes": [{"name": "v"}]},
    });
    let made = |definition: fn() -> Definition, object: Value, path: &str| {
        let [made] = decoded(definition, [&object]);
        made.to_value().pointer(path).cloned().expect("it has a template")
    };
    let wanted = made(pod_template, json!({"template": sent}), "/template");
    assert_eq!(wanted["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(wanted["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    assert_eq!(wanted["metadata"], json!({"labels": {"a": "b"}}));
    for definition in [job, daemon_set, replication_controller] {
        assert_eq!(made(definition, json!({"spec": {"template": sent}}), "/spec/template"), wanted);
    }
    let nested = json!({"spec": {"jobTemplate": {"spec": {"template": sent}}}});
    assert_eq!(made(cron_job, nested, "/spec/jobTemplate/spec/template"), wanted);
}
