//! CronJob: a template of Jobs and a schedule.

use super::{
    job,
    templates::{TEMPLATE_TYPES, container_columns, name_warning, wide},
    values::{at, list, native_sharing, shown_selector, spec, text},
};
use crate::{Cell, Column, Content, Definition, JsonPath, Names, Strategy, Version};
use berth_api::{FieldError, Path, Scope, Subresource, cron, faults::Faults};
use serde_json::{Value, json};
use std::sync::Arc;

/// Longest name, in bytes. The names of its Jobs have eleven bytes more.
const NAME_BYTES_MAX: usize = 52;
/// Successful Jobs that are kept, unless the owner sets a limit.
const SUCCESSFUL_HISTORY: i32 = 3;
/// Failed Jobs that are kept, unless the owner sets a limit.
const FAILED_HISTORY: i32 = 1;

/// The definition of the kind.
#[must_use]
pub fn cron_job() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let [names, images] = container_columns!("/spec/jobTemplate/spec/template/spec");
    let shown_zone = |cron: &Content| json!(spec(cron).get("timeZone").and_then(Value::as_str).unwrap_or("<none>"));
    let suspend = |cron: &Content| json!(if spec(cron).get("suspend") == Some(&json!(true)) { "True" } else { "False" });
    let active = |cron: &Content| json!(list(&cron.members()["status"], "active").len());
    let selector = |cron: &Content| json!(shown_selector(&spec(cron)["jobTemplate"]["spec"], "selector"));
    let last = JsonPath::parse(".status.lastScheduleTime").expect("a path of this crate");
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Schedule", "When Jobs are created.", at(".spec.schedule")),
            column("Timezone", "The time zone of the schedule.", Cell::Computed(shown_zone)),
            Column { kind: "boolean".to_owned(), ..column("Suspend", "Whether no Jobs are created.", Cell::Computed(suspend)) },
            Column { kind: "integer".to_owned(), ..column("Active", "Jobs that run.", Cell::Computed(active)) },
            column("Last Schedule", "How long ago the last Job was created.", Cell::Since(last)),
            Column::age(),
            names,
            images,
            wide("Selector", "Which pods belong to the Jobs.", Cell::Computed(selector)),
        ],
        ..Version::default()
    };
    let template = json!({"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": null}}}});
    Definition {
        empty: json!({"metadata": {}, "spec": {"schedule": "", "jobTemplate": template}, "status": {}}),
        pod_template: &["spec", "jobTemplate", "spec", "template"],
        strategy: Some(Arc::new(CronJobs)),
        ..native_sharing::<k8s_openapi::api::batch::v1::CronJob>(
            "batch",
            Names { short_names: vec!["cj".to_owned()], categories: vec!["all".to_owned()], ..Names::of("CronJob", "cronjobs") },
            Scope::Namespaced,
            version,
            &[TYPES, job::TYPES],
            Some(&TEMPLATE_TYPES),
        )
    }
}

struct CronJobs;

impl Strategy for CronJobs {
    fn default(&self, cron: &mut Content) {
        let Some(Value::Object(spec)) = cron.members_mut().get_mut("spec") else { return };
        let defaults = [
            ("concurrencyPolicy", json!("Allow")),
            ("suspend", json!(false)),
            ("successfulJobsHistoryLimit", json!(SUCCESSFUL_HISTORY)),
            ("failedJobsHistoryLimit", json!(FAILED_HISTORY)),
        ];
        for (name, value) in defaults {
            spec.entry(name).or_insert(value);
        }
        if let Some(Value::Object(job)) = spec.get_mut("jobTemplate").and_then(|template| template.get_mut("spec")) {
            job::set_pattern_defaults(job);
        }
    }

    fn validate(&self, cron: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(spec(cron), None, &mut faults);
        let name = cron.meta.name.as_deref().unwrap_or_default();
        if NAME_BYTES_MAX < name.len() {
            let why = format!("must be no more than {NAME_BYTES_MAX} characters");
            faults.invalid(&Path::new("metadata").child("name"), name, why);
        }
        faults.into_vec()
    }

    /// Upstream judges the name of a new object only.
    fn validate_update(&self, cron: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if subresource.is_none() {
            validate_spec(spec(cron), Some(spec(old)), &mut faults);
        }
        faults.into_vec()
    }

    fn warnings(&self, cron: &Content, old: Option<&Content>) -> Vec<String> {
        let mut warnings: Vec<String> = name_warning(cron).filter(|_| old.is_none()).into_iter().collect();
        if old.is_none_or(|old| spec(old) != spec(cron)) {
            let path = Path::new("spec").child("jobTemplate").child("spec");
            let spec = job::read_job_spec(&spec(cron)["jobTemplate"]["spec"], &path);
            warnings.extend(spec.iter().flat_map(|spec| job::warnings(spec, &path)));
        }
        warnings
    }
}

/// Source: upstream `validateCronJobSpec`.
fn validate_spec(spec: &Value, old: Option<&Value>, faults: &mut Faults) {
    let path = Path::new("spec");
    let schedule = text(spec, "schedule");
    if faults.set(&path.child("schedule"), schedule) {
        let allows_zone = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
        validate_schedule(schedule, allows_zone, spec.get("timeZone").is_some(), &path.child("schedule"), faults);
    }
    faults.not_negative(&path.child("startingDeadlineSeconds"), spec.get("startingDeadlineSeconds").and_then(Value::as_i64));
    if old.is_none_or(|old| old.get("timeZone") != spec.get("timeZone"))
        && let Some(zone) = spec.get("timeZone").and_then(Value::as_str)
    {
        validate_time_zone(zone, &path.child("timeZone"), faults);
    }
    faults.one_of(&path.child("concurrencyPolicy"), text(spec, "concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    validate_job_template(spec, old, &path.child("jobTemplate").child("spec"), faults);
    for limit in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        faults.not_negative(&path.child(limit), spec.get(limit).and_then(Value::as_i64));
    }
}

fn validate_schedule(schedule: &str, allows_zone: bool, has_zone: bool, path: &Path, faults: &mut Faults) {
    if let Err(why) = cron::check_schedule(schedule) {
        faults.invalid(path, schedule, why.to_string());
    }
    match (schedule.contains("TZ"), allows_zone) {
        (true, true) if has_zone => faults.invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"),
        (true, false) => faults.invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        _ => (),
    }
}

fn validate_time_zone(zone: &str, path: &Path, faults: &mut Faults) {
    if zone.is_empty() {
        return faults.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    if zone.eq_ignore_ascii_case("Local") {
        faults.invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if zone != "Local" && !cron::is_time_zone(zone) {
        faults.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}

/// Source: upstream `ValidateJobTemplateSpec`. The selector is generated for each Job.
fn validate_job_template(spec: &Value, old: Option<&Value>, path: &Path, faults: &mut Faults) {
    let read = |spec: &Value| job::read_job_spec(&spec["jobTemplate"]["spec"], path);
    let spec = match read(spec) {
        Ok(spec) => spec,
        Err(fault) => return faults.add([fault]),
    };
    let old = old.and_then(|old| read(old).ok());
    job::validate_job_spec(&spec, old.as_ref(), path, faults);
    if let Some(selector) = &spec.selector {
        faults.invalid(&path.child("selector"), json!(selector), "`selector` will be auto-generated");
    }
    if spec.manual_selector == Some(true) {
        faults.add([FieldError::not_supported(&path.child("manualSelector"), true, &["nil", "false"])]);
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("cron_job.json");
