//! DaemonSet: a pod on each node that its template fits.

use super::{
    templates::{TEMPLATE_TYPES, container_columns, count_column, labels_shown, read_template, validate_always_restarted, wide},
    values::{member, native_sharing, selector, shown_selector, spec, text},
};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FeatureGates, FieldError, Path, Scope, Selector, Subresource,
    faults::Faults,
    int_or_string::{is_zero, validate_at_most_100_percent, validate_not_negative},
    label_selector::validate_label_selector,
    pod::{template_warnings, validate_template},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};
use std::sync::Arc;

/// How often the template has changed. Upstream's type has a field for it, which `apps/v1` shows as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// How many revisions are kept, unless the owner sets a limit.
const REVISION_HISTORY: i32 = 10;
/// The counts of a status that are not negative, in the order in which they are judged.
const COUNTS: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

/// The definition of the kind.
#[must_use]
pub fn daemon_set() -> Definition {
    let [names, images] = container_columns!("/spec/template/spec");
    let node_selector = |set: &Content| json!(labels_shown(&spec(set)["template"]["spec"]["nodeSelector"]));
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            count_column!("Desired", "Nodes that should have a pod.", "/status/desiredNumberScheduled"),
            count_column!("Current", "Nodes that should have a pod and have one.", "/status/currentNumberScheduled"),
            count_column!("Ready", "Nodes whose pod is ready.", "/status/numberReady"),
            count_column!("Up-to-date", "Nodes whose pod has the newest template.", "/status/updatedNumberScheduled"),
            count_column!("Available", "Nodes whose pod has been ready for long enough.", "/status/numberAvailable"),
            Column { cell: Cell::Computed(node_selector), ..Column::text("Node Selector", "Which nodes can have a pod.") },
            Column::age(),
            names,
            images,
            wide("Selector", "Which pods belong to the object.", Cell::Computed(|set| json!(shown_selector(spec(set), "selector")))),
        ],
        ..Version::default()
    };
    let counts = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    Definition {
        empty: json!({"metadata": {}, "spec": {"selector": null, "template": template, "updateStrategy": {}}, "status": counts}),
        pod_template: &["spec", "template"],
        strategy: Some(Arc::new(DaemonSets)),
        ..native_sharing::<k8s_openapi::api::apps::v1::DaemonSet>(
            "apps",
            Names { short_names: vec!["ds".to_owned()], categories: vec!["all".to_owned()], ..Names::of("DaemonSet", "daemonsets") },
            Scope::Namespaced,
            version,
            &[TYPES],
            Some(&TEMPLATE_TYPES),
        )
    }
}

struct DaemonSets;

impl Strategy for DaemonSets {
    fn default(&self, set: &mut Content) {
        if template_generation(set).is_none() {
            set_template_generation(set, 0);
        }
        let Some(Value::Object(spec)) = set.members_mut().get_mut("spec") else { return };
        spec.entry("revisionHistoryLimit").or_insert(json!(REVISION_HISTORY));
        let Some(Value::Object(strategy)) = spec.get_mut("updateStrategy") else { return };
        if strategy.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
            strategy.insert("type".to_owned(), json!("RollingUpdate"));
        }
        let rolls = strategy["type"] == "RollingUpdate";
        if rolls {
            strategy.entry("rollingUpdate").or_insert(json!({}));
        }
        if let Some(Value::Object(rolling)) = strategy.get_mut("rollingUpdate") {
            rolling.entry("maxUnavailable").or_insert(json!(i32::from(rolls)));
            rolling.entry("maxSurge").or_insert(json!(0));
        }
    }

    fn prepare_create(&self, set: &mut Content, _: &FeatureGates) {
        let generation = template_generation(set).unwrap_or(0).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_update(&self, set: &mut Content, old: &Content, _: &FeatureGates) {
        let changes = i64::from(spec(set)["template"] != spec(old)["template"]);
        set_template_generation(set, template_generation(old).unwrap_or(0) + changes);
    }

    fn prepare_status_update(&self, set: &mut Content, old: &Content) {
        set_template_generation(set, template_generation(old).unwrap_or(0));
    }

    fn validate(&self, set: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(set, None, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, set: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if subresource.is_some() {
            validate_status(&set.members()["status"], &old.members()["status"], &mut faults);
        } else {
            let selector = spec(set).get("selector");
            if selector != spec(old).get("selector") {
                faults.invalid(&Path::new("spec").child("selector"), json!(selector), "field is immutable");
            }
            validate_spec(set, Some(old), &mut faults);
        }
        faults.into_vec()
    }

    fn warnings(&self, set: &Content, old: Option<&Content>) -> Vec<String> {
        if old.is_some_and(|old| spec(old) == spec(set)) {
            return Vec::new();
        }
        let template = read_template(&spec(set)["template"]);
        template.iter().flat_map(|template| template_warnings(template, &Path::new("spec").child("template"))).collect()
    }
}

/// The annotation's number. `None`: it has none.
fn template_generation(set: &Content) -> Option<i64> {
    set.meta.annotations.as_ref()?.get(TEMPLATE_GENERATION)?.parse().ok()
}

fn set_template_generation(set: &mut Content, generation: i64) {
    set.meta.annotations.get_or_insert_default().insert(TEMPLATE_GENERATION.to_owned(), generation.to_string());
}

/// Source: upstream `ValidateDaemonSetSpec`.
fn validate_spec(set: &Content, old: Option<&Content>, faults: &mut Faults) {
    let (path, spec) = (Path::new("spec"), spec(set));
    let template_path = path.child("template");
    let found = selector(spec, "selector");
    if let Some(selector) = &found {
        faults.add(validate_label_selector(selector, &path.child("selector")));
    }
    let template = match read_template(&spec["template"]) {
        Ok(template) => template,
        Err(why) => return faults.add([FieldError::invalid_part(&template_path, why.to_string())]),
    };
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let selects = found.as_ref().is_some_and(|selector| Selector::from_label_selector(selector).map_or(true, |all| all.matches(&labels)));
    if !selects {
        let path = template_path.child("metadata").child("labels");
        faults.invalid(&path, json!(labels), "`selector` does not match template `labels`");
    }
    if spec.get("selector") == Some(&json!({})) {
        faults.invalid(&path.child("selector"), json!({}), "empty selector is invalid for daemonset");
    }
    if old.is_none_or(|old| self::spec(old)["template"] != spec["template"]) {
        faults.add(validate_template(&template, &template_path));
    }
    validate_always_restarted(&template, "DaemonSet", &template_path, faults);
    faults.not_negative(&path.child("minReadySeconds"), spec.get("minReadySeconds").and_then(Value::as_i64));
    validate_strategy(&spec["updateStrategy"], &path.child("updateStrategy"), faults);
    faults.not_negative(&path.child("revisionHistoryLimit"), spec.get("revisionHistoryLimit").and_then(Value::as_i64));
}

fn validate_strategy(strategy: &Value, path: &Path, faults: &mut Faults) {
    match text(strategy, "type") {
        "OnDelete" => (),
        "RollingUpdate" => validate_rolling(strategy, &path.child("rollingUpdate"), faults),
        _ => faults.add([FieldError::not_supported(path, strategy.clone(), &["RollingUpdate", "OnDelete"])]),
    }
}

/// Source: upstream `ValidateRollingUpdateDaemonSet`.
fn validate_rolling(strategy: &Value, path: &Path, faults: &mut Faults) {
    let Some(rolling) = strategy.get("rollingUpdate") else { return faults.required(path, "") };
    let [unavailable_path, surge_path] = ["maxUnavailable", "maxSurge"].map(|field| path.child(field));
    let [unavailable, surge] = ["maxUnavailable", "maxSurge"].map(|field| member(rolling, field).unwrap_or(IntOrString::Int(0)));
    faults.add(validate_not_negative(&unavailable, &unavailable_path));
    faults.add(validate_not_negative(&surge, &surge_path));
    faults.add(validate_at_most_100_percent(&unavailable, &unavailable_path));
    faults.add(validate_at_most_100_percent(&surge, &surge_path));
    match (is_none(&unavailable), is_none(&surge)) {
        (false, false) => faults.invalid(&surge_path, json!(surge), "may not be set when maxUnavailable is non-zero"),
        (true, true) => faults.required(&unavailable_path, "cannot be 0 when maxSurge is 0"),
        _ => (),
    }
}

/// Whether it is 0, 0%, or a text that is no percentage, which upstream reads as 0.
fn is_none(value: &IntOrString) -> bool {
    is_zero(value) || !validate_not_negative(value, &Path::new("")).is_empty() && matches!(value, IntOrString::String(_))
}

fn validate_status(status: &Value, old: &Value, faults: &mut Faults) {
    let path = Path::new("status");
    let count = |status: &Value, field: &str| status.get(field).and_then(Value::as_i64);
    for field in COUNTS {
        faults.not_negative(&path.child(field), count(status, field));
    }
    let new = count(status, "collisionCount").unwrap_or(0);
    if count(old, "collisionCount").is_some_and(|old| new < old) {
        faults.invalid(&path.child("collisionCount"), new, "cannot be decremented");
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("daemon_set.json");
