//! Job: pods that run until enough of them have succeeded.

mod indexes;
mod spec;
mod status;

pub(super) use spec::{validate_job_spec, warnings};

use super::{
    templates::{TEMPLATE_TYPES, container_columns, name_warning, wide},
    values::{list, member, native_sharing, shown_selector, spec as spec_of, text},
};
use crate::{Cell, Column, Content, Definition, JsonPath, Names, SelectableField, Strategy, Version};
use berth_api::{
    FeatureGates, FieldError, ObjectRules, Path, Scope, Subresource, decode::decode_tree, faults::Faults, names::check_dns_label,
};
use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The label that the generated selector selects by: the uid of the Job.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// The labels of the uid that the template gets, the newer one first.
const UID_LABELS: [&str; 2] = [CONTROLLER_UID, "controller-uid"];
/// The labels of the name that the template gets, the newer one first.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// How often pods are replaced, unless the owner sets a limit.
const BACKOFF_LIMIT: i32 = 6;

/// The definition of the kind.
#[must_use]
pub fn job() -> Definition {
    let path = |path: &str| JsonPath::parse(path).expect("a path of this crate");
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let [names, images] = container_columns!("/spec/template/spec");
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Status", "What the Job does, or how it ended.", Cell::Computed(|job| json!(state(job)))),
            column("Completions", "Pods that succeeded, of those that must.", Cell::Computed(|job| json!(completions(job)))),
            column("Duration", "How long the Job ran.", Cell::Elapsed(path(".status.startTime"), path(".status.completionTime"))),
            Column::age(),
            names,
            images,
            wide("Selector", "Which pods belong to the object.", Cell::Computed(|job| json!(shown_selector(spec_of(job), "selector")))),
        ],
        selectable_fields: vec![SelectableField {
            name: "status.successful".to_owned(),
            fields: vec!["status".to_owned(), "succeeded".to_owned()],
        }],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { checks_new_name_base: true, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
        pod_template: &["spec", "template"],
        strategy: Some(Arc::new(Jobs)),
        ..native_sharing::<k8s_openapi::api::batch::v1::Job>(
            "batch",
            Names { categories: vec!["all".to_owned()], ..Names::of("Job", "jobs") },
            Scope::Namespaced,
            version,
            &[TYPES],
            Some(&TEMPLATE_TYPES),
        )
    }
}

/// Source: upstream `printJob`.
fn state(job: &Content) -> &'static str {
    let conditions = list(&job.members()["status"], "conditions");
    let has = |kind: &str| conditions.iter().any(|condition| text(condition, "type") == kind && text(condition, "status") == "True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if job.meta.deletion_timestamp.is_some() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Content) -> String {
    let number = |object: &Value, name: &str| object.get(name).and_then(Value::as_i64);
    let succeeded = number(&job.members()["status"], "succeeded").unwrap_or(0);
    match (number(spec_of(job), "completions"), number(spec_of(job), "parallelism").unwrap_or(0)) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if 1 < parallelism => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

struct Jobs;

impl Strategy for Jobs {
    fn default(&self, job: &mut Content) {
        // A template with generated labels is of a Job that exists. A new one takes over labels when its own are generated.
        if spec_of(job).pointer("/template/metadata/labels").is_some_and(|labels| labels.get(CONTROLLER_UID).is_some()) {
            take_labels_of_template(job);
        }
        let Some(Value::Object(spec)) = job.members_mut().get_mut("spec") else { return };
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            spec.insert("completions".to_owned(), json!(1));
        }
        let limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { BACKOFF_LIMIT };
        let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        let defaults = [
            ("parallelism", json!(1)),
            ("backoffLimit", json!(limit)),
            ("completionMode", json!("NonIndexed")),
            ("suspend", json!(false)),
            ("podReplacementPolicy", json!(replacement)),
            ("manualSelector", json!(false)),
        ];
        for (name, value) in defaults {
            spec.entry(name).or_insert(value);
        }
        set_pattern_defaults(spec);
    }

    fn prepare_create(&self, job: &mut Content, _: &FeatureGates) {
        if spec_of(job).get("manualSelector") != Some(&json!(true)) {
            generate_selector(job);
        }
        take_labels_of_template(job);
    }

    fn prepare_update(&self, job: &mut Content, _: &Content, _: &FeatureGates) {
        take_labels_of_template(job);
    }

    fn validate(&self, job: &Content) -> Vec<FieldError> {
        validate(job, None)
    }

    fn validate_update(&self, job: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let (new_spec, old_spec) = match (job_spec(job), job_spec(old)) {
            (Ok(new), Ok(old)) => (new, old),
            (Err(fault), _) | (_, Err(fault)) => return vec![fault],
        };
        let [new_status, old_status] = [job, old].map(|job| member::<JobStatus>(job.members(), "status").unwrap_or_default());
        let mut faults = Faults::default();
        if subresource.is_some() {
            status::validate_update(&new_spec, &new_status, &old_status, &mut faults);
        } else {
            faults.add(validate(job, Some(&old_spec)));
            spec::validate_update(&new_spec, &old_spec, &old_status, &mut faults);
        }
        faults.into_vec()
    }

    fn warnings(&self, job: &Content, old: Option<&Content>) -> Vec<String> {
        let mut warnings: Vec<String> = name_warning(job).filter(|_| old.is_none()).into_iter().collect();
        if old.is_none_or(|old| spec_of(old) != spec_of(job)) {
            warnings.extend(job_spec(job).iter().flat_map(|spec| self::warnings(spec, &Path::new("spec"))));
        }
        warnings
    }
}

/// The spec of a Job as a type. Its schema has read it, so only a template that no type can hold is a fault.
fn job_spec(job: &Content) -> Result<JobSpec, FieldError> {
    read_job_spec(spec_of(job), &Path::new("spec"))
}

/// The spec of a Job as a type.
pub(super) fn read_job_spec(spec: &Value, path: &Path) -> Result<JobSpec, FieldError> {
    decode_tree(spec).map_err(|error| FieldError::invalid_part(path, error.to_string()))
}

/// A pattern of a pod failure policy matches a condition that is true, unless it names another status.
pub(super) fn set_pattern_defaults(spec: &mut Map<String, Value>) {
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules")).and_then(Value::as_array_mut);
    let patterns = rules.into_iter().flatten().filter_map(|rule| rule.get_mut("onPodConditions").and_then(Value::as_array_mut));
    for pattern in patterns.flatten().filter(|pattern| text(pattern, "status").is_empty()) {
        pattern["status"] = json!("True");
    }
}

/// Sets the selector and the labels that only the pods of this Job have. What the client wrote there stays, for validation to reject.
///
/// Source: upstream `generateSelector`.
fn generate_selector(job: &mut Content) {
    let [name, uid] = [&job.meta.name, &job.meta.uid].map(|text| json!(text.as_deref().unwrap_or_default()));
    // A generated name can be taken. Another try replaces the labels of the earlier name.
    let base = job.meta.generate_name.clone().filter(|base| !base.is_empty());
    let is_of_base = |value: &Value| base.as_ref().is_some_and(|base| value.as_str().is_some_and(|value| value.starts_with(base.as_str())));
    for label in NAME_LABELS {
        let labels = job.meta.labels.as_mut().and_then(|labels| labels.get_mut(label));
        if let (Some(value), Some(name)) = (labels, name.as_str()) {
            *value = if is_of_base(&json!(value)) { name.to_owned() } else { value.clone() };
        }
    }
    let Some(spec) = job.members_mut().get_mut("spec") else { return };
    let labels = members(&mut spec["template"]["metadata"]["labels"]);
    for label in NAME_LABELS {
        let value = labels.entry(label).or_insert_with(|| name.clone());
        if is_of_base(value) {
            value.clone_from(&name);
        }
    }
    for label in UID_LABELS {
        labels.entry(label).or_insert_with(|| uid.clone());
    }
    members(members(&mut spec["selector"]).entry("matchLabels").or_insert(Value::Null)).entry(CONTROLLER_UID).or_insert(uid);
}

/// A value as an object, if need be as an empty one.
fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it has just been made one")
}

/// A Job without labels has those of its template.
fn take_labels_of_template(job: &mut Content) {
    if job.meta.labels.as_ref().is_none_or(BTreeMap::is_empty) {
        let template = &spec_of(job)["template"]["metadata"];
        job.meta.labels = member(template, "labels");
    }
}

fn validate(job: &Content, old: Option<&JobSpec>) -> Vec<FieldError> {
    let spec = match job_spec(job) {
        Ok(spec) => spec,
        Err(fault) => return vec![fault],
    };
    let mut faults = Faults::default();
    validate_generated_selector(job, &spec, &mut faults);
    spec::validate(&spec, old, &mut faults);
    if spec.completion_mode.as_deref() == Some("Indexed")
        && let Some(completions) = spec.completions.filter(|completions| 0 < *completions)
    {
        let name = job.meta.name.as_deref().unwrap_or_default();
        let longest = format!("{name}-{}", completions - 1);
        if !check_dns_label(&longest).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {longest}");
            faults.invalid(&Path::new("metadata").child("name"), name, why);
        }
    }
    faults.into_vec()
}

/// Source: upstream `validateGeneratedSelector`.
fn validate_generated_selector(job: &Content, spec: &JobSpec, faults: &mut Faults) {
    let Some(selector) = spec.selector.as_ref().filter(|_| spec.manual_selector != Some(true)) else { return };
    let [name, uid] = [&job.meta.name, &job.meta.uid].map(|text| text.as_deref().unwrap_or_default());
    if uid.is_empty() {
        faults.required(&Path::new("metadata").child("uid"), "");
    }
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let path = Path::new("spec").child("template").child("metadata").child("labels");
    let expected = [(UID_LABELS[1], uid), (NAME_LABELS[1], name), (UID_LABELS[0], uid), (NAME_LABELS[0], name)];
    for (label, wanted) in expected {
        match labels.and_then(|labels| labels.get(label)) {
            None => faults.required(&path.key(label), &format!("must be '{wanted}'")),
            Some(found) if found != wanted => faults.invalid(&path.key(label), json!(labels), format!("must be '{wanted}'")),
            Some(_) => (),
        }
    }
    let generated = expected.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
    if !spec::selects(selector, Some(&generated)) {
        faults.invalid(&Path::new("spec").child("selector"), json!(selector), "`selector` not auto-generated");
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
pub(super) const TYPES: &str = include_str!("job.json");
