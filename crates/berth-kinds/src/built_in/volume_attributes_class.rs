//! VolumeAttributesClass: the attributes of volumes that can change.

use super::values::{native, text};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, object::GenerationRule};
use serde_json::json;
use std::sync::Arc;

/// The definition of the kind.
#[must_use]
pub fn volume_attributes_class() -> Definition {
    let driver = Cell::Computed(|class| json!(text(class.members(), "driverName")));
    let columns = vec![
        Column::of_name(super::NAME_DESCRIPTION),
        Column { cell: driver, ..Column::text("DriverName", "The driver that sets the attributes.") },
        Column::age(),
    ];
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}, "driverName": ""}),
        strategy: Some(Arc::new(Classes)),
        ..native::<k8s_openapi::api::storage::v1::VolumeAttributesClass>(
            "storage.k8s.io",
            Names { short_names: vec!["vac".to_owned()], ..Names::of("VolumeAttributesClass", "volumeattributesclasses") },
            Scope::Cluster,
            Version { columns, ..Version::default() },
            TYPES,
        )
    }
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, class: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.set(&Path::new("driverName"), text(class.members(), "driverName"));
        faults.into_vec()
    }

    fn validate_update(&self, class: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        for field in ["driverName", "parameters"] {
            if class.members().get(field) != old.members().get(field) {
                faults.forbidden(&Path::new(field), &format!("updates to {field} are forbidden."));
            }
        }
        faults.into_vec()
    }
}

/// Its types as OpenAPI publishes them, without descriptions, and with the marks of fields that upstream leaves out or always writes.
const TYPES: &str = r##"{
  "io.k8s.api.storage.v1.VolumeAttributesClass": {
    "type": "object",
    "required": ["driverName"],
    "properties": {
      "apiVersion": {"type": "string"},
      "kind": {"type": "string"},
      "metadata": {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
        "default": {}
      },
      "driverName": {"type": "string", "default": ""},
      "parameters": {
        "type": "object",
        "additionalProperties": {"type": "string", "default": ""},
        "x-berth-omit-empty": true
      }
    },
    "x-kubernetes-group-version-kind": [{"group": "storage.k8s.io", "kind": "VolumeAttributesClass", "version": "v1"}]
  }
}"##;
