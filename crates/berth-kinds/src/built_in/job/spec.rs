//! What the spec of a Job must be, alone and as the next one of another spec.

use super::indexes;
use crate::built_in::values::domain_prefixed_path;
use berth_api::{
    FieldError, Path, Selector,
    faults::Faults,
    label_selector::validate_label_selector,
    names::check_qualified_name,
    pod::{template_warnings, validate_template},
};
use k8s_openapi::{
    api::{
        batch::v1::{
            JobSpec, JobStatus, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
            PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule,
        },
        core::v1::{Affinity, Container, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Most pods of an indexed Job at a time.
const INDEXED_PARALLELISM_MAX: i32 = 100_000;
/// Most indexes that can fail.
const FAILED_INDEXES_MAX: i32 = 100_000;
/// Above so many completions, a Job with a limit per index must bound more.
const MANY_COMPLETIONS: i32 = 100_000;
/// Most pods at a time, and most failed indexes, of such a Job.
const BOUND_OF_MANY: i32 = 10_000;
/// Longest name of a controller, in bytes.
const MANAGED_BY_BYTES_MAX: usize = 63;
/// Most rules of a policy.
const RULES_MAX: usize = 20;
/// Most exit codes of a rule.
const EXIT_CODES_MAX: usize = 255;
/// Most conditions of a rule.
const PATTERNS_MAX: usize = 20;
/// Longest text of indexes, in bytes.
const INDEXES_BYTES_MAX: usize = 64 << 10;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// The faults of a spec. A template that `old` has too is not judged again.
///
/// Source: upstream `ValidateJobSpec`.
pub(super) fn validate(spec: &JobSpec, old: Option<&JobSpec>, faults: &mut Faults) {
    let path = Path::new("spec");
    validate_job_spec(spec, old, &path, faults);
    match &spec.selector {
        None => faults.required(&path.child("selector"), ""),
        Some(selector) => faults.add(validate_label_selector(selector, &path.child("selector"))),
    }
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    if !spec.selector.as_ref().is_some_and(|selector| selects(selector, labels)) {
        let path = path.child("template").child("metadata").child("labels");
        faults.invalid(&path, json!(labels), "`selector` does not match template `labels`");
    }
}

/// Whether a selector selects labels. One that cannot be read selects all, because it is a fault already.
pub(super) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    Selector::from_label_selector(selector).map_or(true, |selector| selector.matches(&labels))
}

/// Source: upstream `validateJobSpec`, which the template of a CronJob passes too.
pub(in crate::built_in) fn validate_job_spec(spec: &JobSpec, old: Option<&JobSpec>, path: &Path, faults: &mut Faults) {
    faults.not_negative(&path.child("parallelism"), spec.parallelism);
    faults.not_negative(&path.child("completions"), spec.completions);
    faults.not_negative(&path.child("activeDeadlineSeconds"), spec.active_deadline_seconds);
    faults.not_negative(&path.child("backoffLimit"), spec.backoff_limit);
    faults.not_negative(&path.child("ttlSecondsAfterFinished"), spec.ttl_seconds_after_finished);
    faults.not_negative(&path.child("backoffLimitPerIndex"), spec.backoff_limit_per_index);
    faults.not_negative(&path.child("maxFailedIndexes"), spec.max_failed_indexes);
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        faults.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(managed_by) = &spec.managed_by {
        let path = path.child("managedBy");
        domain_prefixed_path(managed_by, &path, faults);
        if MANAGED_BY_BYTES_MAX < managed_by.len() {
            faults.add([FieldError::too_long(&path, MANAGED_BY_BYTES_MAX)]);
        }
    }
    validate_mode(spec, path, faults);
    if let Some(policy) = &spec.pod_failure_policy {
        validate_failure_policy(policy, spec, &path.child("podFailurePolicy"), faults);
    }
    if let Some(policy) = &spec.success_policy {
        validate_success_policy(policy, spec, &path.child("successPolicy"), faults);
    }
    if let Some(policy) = &spec.pod_replacement_policy {
        let known: &[&str] = if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        faults.known(&path.child("podReplacementPolicy"), policy, known);
    }
    if old.is_none_or(|old| old.template != spec.template) {
        faults.add(validate_template(&spec.template, &path.child("template")));
    }
    validate_restart_policy(spec, &path.child("template").child("spec").child("restartPolicy"), faults);
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

fn validate_mode(spec: &JobSpec, path: &Path, faults: &mut Faults) {
    let mode = spec.completion_mode.as_deref();
    if let Some(mode) = mode {
        faults.known(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if is_indexed(spec) {
        validate_indexed(spec, path, faults);
    }
    if mode.is_none_or(|mode| mode == "NonIndexed") {
        for (field, value) in [("backoffLimitPerIndex", spec.backoff_limit_per_index), ("maxFailedIndexes", spec.max_failed_indexes)] {
            if let Some(value) = value {
                faults.invalid(&path.child(field), value, "requires indexed completion mode");
            }
        }
    }
}

fn validate_indexed(spec: &JobSpec, path: &Path, faults: &mut Faults) {
    if spec.completions.is_none() {
        faults.required(&path.child("completions"), "when completion mode is Indexed");
    }
    let (parallelism, failed) = (("parallelism", spec.parallelism), ("maxFailedIndexes", spec.max_failed_indexes));
    let at_most = |faults: &mut Faults, (field, value): (&str, Option<i32>), max: i32, bound: &str| {
        if let Some(value) = value.filter(|value| max < *value) {
            faults.invalid(&path.child(field), value, format!("must be less than or equal to {bound}"));
        }
    };
    at_most(faults, parallelism, INDEXED_PARALLELISM_MAX, &format!("{INDEXED_PARALLELISM_MAX} when completion mode is Indexed"));
    if let Some(completions) = spec.completions {
        at_most(faults, failed, completions, "completions");
    }
    at_most(faults, failed, FAILED_INDEXES_MAX, &FAILED_INDEXES_MAX.to_string());
    if spec.completions.is_some_and(|completions| MANY_COMPLETIONS < completions) && spec.backoff_limit_per_index.is_some() {
        if spec.max_failed_indexes.is_none() {
            let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            faults.required(&path.child("maxFailedIndexes"), &why);
        }
        let bound = format!("{BOUND_OF_MANY} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most(faults, parallelism, BOUND_OF_MANY, &bound);
        at_most(faults, failed, BOUND_OF_MANY, &bound);
    }
}

fn validate_failure_policy(policy: &PodFailurePolicy, spec: &JobSpec, path: &Path, faults: &mut Faults) {
    let path = path.child("rules");
    faults.at_most(&path, policy.rules.len(), RULES_MAX);
    let containers: BTreeSet<&str> = containers(&spec.template).map(|container| container.name.as_str()).collect();
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_failure_rule(rule, spec, &containers, &path.index(index), faults);
    }
}

fn containers(template: &PodTemplateSpec) -> impl Iterator<Item = &Container> {
    template.spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()))
}

fn validate_failure_rule(rule: &PodFailurePolicyRule, spec: &JobSpec, containers: &BTreeSet<&str>, path: &Path, faults: &mut Faults) {
    let action = path.child("action");
    choice(&action, &rule.action, &ACTIONS, faults);
    if rule.action == "FailIndex" && spec.backoff_limit_per_index.is_none() {
        faults.invalid(&action, rule.action.as_str(), "requires the backoffLimitPerIndex to be set");
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        validate_exit_codes(codes, containers, &path.child("onExitCodes"), faults);
    }
    validate_patterns(patterns, &path.child("onPodConditions"), faults);
    match (&rule.on_exit_codes, patterns) {
        (Some(_), [_, ..]) => {
            faults.add([FieldError::invalid_part(path, "specifying both OnExitCodes and OnPodConditions is not supported")]);
        }
        (None, []) => faults.add([FieldError::invalid_part(path, "specifying one of OnExitCodes and OnPodConditions is required")]),
        _ => (),
    }
}

/// One of a few words, which the message lists also where it is missing.
fn choice(path: &Path, value: &str, supported: &[&str], faults: &mut Faults) {
    if value.is_empty() {
        let quoted: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        faults.required(path, &format!("valid values: [{}]", quoted.join(" ")));
    } else {
        faults.known(path, value, supported);
    }
}

fn validate_exit_codes(rule: &PodFailurePolicyOnExitCodesRequirement, containers: &BTreeSet<&str>, path: &Path, faults: &mut Faults) {
    choice(&path.child("operator"), &rule.operator, &OPERATORS, faults);
    if let Some(name) = rule.container_name.as_deref().filter(|name| !containers.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        faults.invalid(&path.child("containerName"), name, why);
    }
    let path = path.child("values");
    if rule.values.is_empty() {
        faults.invalid(&path, json!(rule.values), "at least one value is required");
    }
    faults.at_most(&path, rule.values.len(), EXIT_CODES_MAX);
    let mut seen = BTreeSet::new();
    for (index, code) in rule.values.iter().enumerate() {
        if rule.operator == "In" && *code == 0 {
            faults.invalid(&path.index(index), *code, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            faults.duplicate(&path.index(index), *code);
        }
    }
    if !rule.values.is_sorted() {
        faults.invalid(&path, json!(rule.values), "must be ordered");
    }
}

fn validate_patterns(patterns: &[PodFailurePolicyOnPodConditionsPattern], path: &Path, faults: &mut Faults) {
    faults.at_most(path, patterns.len(), PATTERNS_MAX);
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        faults.form(&path.child("type"), &pattern.type_, check_qualified_name);
        choice(&path.child("status"), pattern.status.as_deref().unwrap_or_default(), &STATUSES, faults);
    }
}

fn validate_success_policy(policy: &SuccessPolicy, spec: &JobSpec, path: &Path, faults: &mut Faults) {
    if !is_indexed(spec) {
        return faults.invalid(path, json!(policy), "requires indexed completion mode");
    }
    let path = path.child("rules");
    if policy.rules.is_empty() {
        faults.required(&path, "at least one rules must be specified when the successPolicy is specified");
    }
    faults.at_most(&path, policy.rules.len(), RULES_MAX);
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_success_rule(rule, spec.completions.unwrap_or_default(), &path.index(index), faults);
    }
}

fn validate_success_rule(rule: &SuccessPolicyRule, completions: i32, path: &Path, faults: &mut Faults) {
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        faults.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(text) = &rule.succeeded_indexes {
        let path = path.child("succeededIndexes");
        if INDEXES_BYTES_MAX < text.len() {
            faults.add([FieldError::too_long(&path, INDEXES_BYTES_MAX)]);
        }
        match indexes::parse(text, completions) {
            Ok(intervals) => total = indexes::count(&intervals),
            Err(why) => faults.invalid(&path, text.as_str(), format!("error parsing succeededIndexes: {why}")),
        }
    }
    let Some(count) = rule.succeeded_count else { return };
    let path = path.child("succeededCount");
    faults.not_negative(&path, Some(count));
    if completions < count {
        faults.invalid(&path, count, format!("must be less than or equal to {completions} (the number of specified completions)"));
    }
    if rule.succeeded_indexes.is_some() && total < count {
        let what = "the number of indexes in the specified succeededIndexes field";
        faults.invalid(&path, count, format!("must be less than or equal to {total} ({what})"));
    }
}

fn validate_restart_policy(spec: &JobSpec, path: &Path, faults: &mut Faults) {
    let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or_default();
    match policy {
        "" | "Always" => faults.required(path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.pod_failure_policy.is_some() => {
            faults.invalid(path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => faults.known(path, policy, &["OnFailure", "Never"]),
    }
}

/// The faults of a spec as the next one of `old`, besides those that it has alone.
///
/// Source: upstream `ValidateJobSpecUpdate`.
pub(super) fn validate_update(spec: &JobSpec, old: &JobSpec, status: &JobStatus, faults: &mut Faults) {
    let path = Path::new("spec");
    validate_completions(spec, old, &path, faults);
    let immutable = "field is immutable";
    if spec.selector != old.selector {
        faults.invalid(&path.child("selector"), json!(spec.selector), immutable);
    }
    validate_template_update(spec, old, status, &path.child("template"), faults);
    if spec.completion_mode != old.completion_mode {
        faults.invalid(&path.child("completionMode"), json!(spec.completion_mode), immutable);
    }
    if spec.pod_failure_policy != old.pod_failure_policy {
        faults.invalid(&path.child("podFailurePolicy"), json!(spec.pod_failure_policy), immutable);
    }
    if spec.backoff_limit_per_index != old.backoff_limit_per_index {
        faults.invalid(&path.child("backoffLimitPerIndex"), json!(spec.backoff_limit_per_index), immutable);
    }
    if spec.managed_by != old.managed_by {
        faults.invalid(&path.child("managedBy"), json!(spec.managed_by), immutable);
    }
    if spec.success_policy != old.success_policy {
        faults.invalid(&path.child("successPolicy"), json!(spec.success_policy), immutable);
    }
}

/// An indexed Job can grow and shrink, with as many pods at a time as completions.
fn validate_completions(spec: &JobSpec, old: &JobSpec, path: &Path, faults: &mut Faults) {
    if spec.completions == old.completions {
        return;
    }
    let path = path.child("completions");
    if !is_indexed(spec) {
        faults.invalid(&path, json!(spec.completions), "field is immutable");
    } else if spec.completions.is_some() && spec.completions != spec.parallelism {
        faults.invalid(&path, json!(spec.completions), "can only be modified in tandem with spec.parallelism");
    }
}

/// The template of a suspended Job without running pods can change where its pods are scheduled and how much they request.
fn validate_template_update(spec: &JobSpec, old: &JobSpec, status: &JobStatus, path: &Path, faults: &mut Faults) {
    let has_stopped = || status.conditions.iter().flatten().any(|condition| condition.type_ == "Suspended" && condition.status == "True");
    let is_idle = status.active.unwrap_or_default() == 0 && (status.start_time.is_none() || has_stopped());
    if old.suspend != Some(true) || !is_idle {
        if spec.template != old.template {
            faults.invalid(path, json!(spec.template), "field is immutable");
        }
        return;
    }
    let mut allowed = old.template.clone();
    allow_scheduling(&mut allowed, &spec.template);
    if spec.template.spec != allowed.spec {
        faults.invalid(&path.child("spec"), json!(spec.template.spec), "field is immutable");
    }
}

/// Takes over what a suspended Job can change.
fn allow_scheduling(allowed: &mut PodTemplateSpec, new: &PodTemplateSpec) {
    let (Some(allowed), Some(new)) = (&mut allowed.spec, &new.spec) else { return };
    let node_affinity = new.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    if allowed.affinity.is_some() || new.affinity.is_some() {
        allowed.affinity.get_or_insert_default().node_affinity = node_affinity;
    }
    if new.affinity.is_none() && allowed.affinity == Some(Affinity::default()) {
        allowed.affinity = None;
    }
    allowed.node_selector.clone_from(&new.node_selector);
    allowed.tolerations.clone_from(&new.tolerations);
    allowed.scheduling_gates.clone_from(&new.scheduling_gates);
    let lists = [(Some(&mut allowed.containers), Some(&new.containers)), (allowed.init_containers.as_mut(), new.init_containers.as_ref())];
    for (allowed, new) in lists.into_iter().filter_map(|(allowed, new)| Some((allowed?, new?))).filter(|(old, new)| old.len() == new.len())
    {
        for (allowed, new) in allowed.iter_mut().zip(new) {
            allowed.resources.clone_from(&new.resources);
        }
    }
}

/// Warnings about a spec, and about its template.
///
/// Source: upstream `WarningsForJobSpec`.
pub(in crate::built_in) fn warnings(spec: &JobSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let (completions, parallelism) = (spec.completions.unwrap_or_default(), spec.parallelism.unwrap_or_default());
    if is_indexed(spec) && MANY_COMPLETIONS < completions && BOUND_OF_MANY < parallelism {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might \
             not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(template_warnings(&spec.template, &path.child("template")));
    warnings
}
