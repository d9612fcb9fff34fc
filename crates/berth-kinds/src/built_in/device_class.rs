//! DeviceClass: devices that claims name together. No part of berth allocates devices: classes are kept.

use super::{
    devices::{DEVICE_TYPES, GROUP, LIST_MAX, bounded, validate_configuration, validate_selectors},
    values::{native_sharing, spec},
};
use crate::{Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, names::check_qualified_name, object::GenerationRule};
use serde_json::{Value, json};
use std::sync::Arc;

/// The definition of the kind.
#[must_use]
pub fn device_class() -> Definition {
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), Column::age()], ..Version::default() };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::Spec, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {}}),
        strategy: Some(Arc::new(Classes)),
        ..native_sharing::<k8s_openapi::api::resource::v1::DeviceClass>(
            GROUP,
            Names::of("DeviceClass", "deviceclasses"),
            Scope::Cluster,
            version,
            &[],
            Some(&DEVICE_TYPES),
        )
    }
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, class: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, spec) = (Path::new("spec"), spec(class));
        validate_selectors(spec, &path, &mut faults);
        for (index, configuration) in bounded(spec, "config", LIST_MAX, &path, &mut faults).iter().enumerate() {
            validate_configuration(configuration, &path.child("config").index(index), &mut faults);
        }
        if let Some(name) = spec.get("extendedResourceName").and_then(Value::as_str).filter(|name| !is_extended_resource(name)) {
            faults.invalid(&path.child("extendedResourceName"), name, "must be a valid extended resource name");
        }
        faults.into_vec()
    }

    fn validate_update(&self, class: &Content, _: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        self.validate(class)
    }
}

/// A resource in a domain that is not Kubernetes' own.
///
/// Source: upstream `IsExtendedResourceName`.
fn is_extended_resource(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native && !name.starts_with("requests.") && check_qualified_name(&format!("requests.{name}")).is_empty()
}
