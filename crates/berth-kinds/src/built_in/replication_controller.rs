//! ReplicationController: a number of equal pods, which ReplicaSets have replaced.

use super::{
    templates::{
        TEMPLATE_TYPES, container_columns, count_column, labels_shown, name_warning, read_template, validate_always_restarted, wide,
    },
    values::{member, native_sharing, spec},
};
use crate::{Cell, Column, Content, Definition, JsonPath, Names, ScalePaths, SelectableField, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    pod::{template_warnings, validate_template},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// The counts of a status, in the order in which they are judged.
const COUNTS: [&str; 5] = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];

/// The definition of the kind.
#[must_use]
pub fn replication_controller() -> Definition {
    let path = |path: &str| JsonPath::parse(path).expect("a path of this crate");
    let [names, images] = container_columns!("/spec/template/spec");
    let scale = ScalePaths {
        spec_replicas: path(".spec.replicas"),
        status_replicas: path(".status.replicas"),
        label_selector: Some(path(".spec.selector")),
    };
    let version = Version {
        status: true,
        scale: Some(scale),
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            count_column!("Desired", "Pods that are wanted.", "/spec/replicas"),
            count_column!("Current", "Pods that exist.", "/status/replicas"),
            count_column!("Ready", "Pods that are ready.", "/status/readyReplicas"),
            Column::age(),
            names,
            images,
            wide("Selector", "Which pods belong to the object.", Cell::Computed(|set| json!(labels_shown(&spec(set)["selector"])))),
        ],
        selectable_fields: vec![SelectableField::at(&path(".status.replicas")).expect("it leads through no list")],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { checks_new_name_base: true, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {}, "status": {"replicas": 0}}),
        pod_template: &["spec", "template"],
        strategy: Some(Arc::new(Controllers)),
        ..native_sharing::<k8s_openapi::api::core::v1::ReplicationController>(
            "",
            Names {
                short_names: vec!["rc".to_owned()],
                categories: vec!["all".to_owned()],
                ..Names::of("ReplicationController", "replicationcontrollers")
            },
            Scope::Namespaced,
            version,
            &[TYPES],
            Some(&TEMPLATE_TYPES),
        )
    }
}

struct Controllers;

impl Strategy for Controllers {
    /// Selector and labels are those of the template, unless the owner sets others.
    fn default(&self, controller: &mut Content) {
        let labels = spec(controller)["template"]["metadata"].get("labels").filter(|labels| *labels != &json!({})).cloned();
        if let Some(labels) = labels {
            if controller.meta.labels.as_ref().is_none_or(BTreeMap::is_empty) {
                controller.meta.labels = member(&spec(controller)["template"]["metadata"], "labels");
            }
            let spec = &mut controller.members_mut()["spec"];
            if spec.get("selector").is_none_or(|selector| *selector == json!({})) {
                spec["selector"] = labels;
            }
        }
        let Some(Value::Object(spec)) = controller.members_mut().get_mut("spec") else { return };
        spec.entry("replicas").or_insert(json!(1));
    }

    fn validate(&self, controller: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(controller, None, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, controller: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if subresource.is_some() {
            validate_status(&controller.members()["status"], &mut faults);
        } else {
            validate_spec(controller, Some(old), &mut faults);
        }
        faults.into_vec()
    }

    fn warnings(&self, controller: &Content, old: Option<&Content>) -> Vec<String> {
        let mut warnings: Vec<String> = name_warning(controller).filter(|_| old.is_none()).into_iter().collect();
        if old.is_none_or(|old| spec(old) != spec(controller))
            && let Some(Ok(template)) = spec(controller).get("template").map(read_template)
        {
            warnings.extend(template_warnings(&template, &Path::new("spec").child("template")));
        }
        warnings
    }
}

/// Source: upstream `ValidateReplicationControllerSpec`.
fn validate_spec(controller: &Content, old: Option<&Content>, faults: &mut Faults) {
    let (path, spec) = (Path::new("spec"), spec(controller));
    let number = |field: &str| spec.get(field).and_then(Value::as_i64);
    faults.not_negative(&path.child("minReadySeconds"), number("minReadySeconds"));
    let selector = spec.get("selector").and_then(Value::as_object).filter(|selector| !selector.is_empty());
    if selector.is_none() {
        faults.required(&path.child("selector"), "");
    }
    faults.not_negative(&path.child("replicas"), number("replicas"));
    let path = path.child("template");
    let Some(template) = spec.get("template") else { return faults.required(&path, "") };
    if let Some(selector) = selector {
        let labels = template["metadata"].get("labels").and_then(Value::as_object);
        if !selector.iter().all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value))) {
            let path = path.child("metadata").child("labels");
            faults.invalid(&path, json!(labels), "`selector` does not match template `labels`");
        }
    }
    let template = match read_template(template) {
        Ok(template) => template,
        Err(why) => return faults.add([FieldError::invalid_part(&path, why.to_string())]),
    };
    if old.is_none_or(|old| self::spec(old).get("template") != spec.get("template")) {
        faults.add(validate_template(&template, &path));
    }
    validate_always_restarted(&template, "ReplicationController", &path, faults);
}

fn validate_status(status: &Value, faults: &mut Faults) {
    let path = Path::new("status");
    let count = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or(0);
    for field in COUNTS {
        faults.not_negative(&path.child(field), Some(count(field)));
    }
    for field in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if count("replicas") < count(field) {
            faults.invalid(&path.child(field), count(field), "cannot be greater than status.replicas");
        }
    }
    if count("readyReplicas") < count("availableReplicas") {
        faults.invalid(&path.child("availableReplicas"), count("availableReplicas"), "cannot be greater than readyReplicas");
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("replication_controller.json");
