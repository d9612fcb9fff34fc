//! VolumeAttributesClass: what a driver can change of a volume. Simulated volumes have no attributes: classes are kept.

use super::values::{at, native, text};
use crate::{Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, names::check_qualified_name, object::GenerationRule};
use serde_json::{Value, json};
use std::sync::Arc;

/// How many parameters a class can have.
const PARAMETERS_MAX: usize = 512;
/// Largest sum of names and values of parameters, in bytes.
const PARAMETERS_BYTES_MAX: usize = 256 << 10;

/// The definition of the kind.
#[must_use]
pub fn volume_attributes_class() -> Definition {
    let driver = at(".driverName");
    let driver = Column { cell: driver, ..Column::text("DriverName", "The driver whose volumes the class is for.") };
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), driver, Column::age()], ..Version::default() };
    let names = Names { short_names: vec!["vac".to_owned()], ..Names::of("VolumeAttributesClass", "volumeattributesclasses") };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}, "driverName": ""}),
        strategy: Some(Arc::new(Classes)),
        ..native::<k8s_openapi::api::storage::v1::VolumeAttributesClass>("storage.k8s.io", names, Scope::Cluster, version, &[TYPES])
    }
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, class: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let members = class.members();
        let (path, driver) = (Path::new("driverName"), text(members, "driverName"));
        if faults.set(&path, driver) {
            faults.form(&path, &driver.to_lowercase(), check_qualified_name);
        }
        validate_parameters(members, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, class: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        for field in ["driverName", "parameters"] {
            if class.members().get(field) != old.members().get(field) {
                faults.forbidden(&Path::new(field), format!("updates to {field} are forbidden."));
            }
        }
        faults.add(self.validate(class));
        faults.into_vec()
    }
}

/// Source: upstream `validateParameters`, with `allowEmpty` off.
fn validate_parameters(class: &Value, faults: &mut Faults) {
    let path = Path::new("parameters");
    let parameters: Vec<(&String, &Value)> = class.get("parameters").and_then(Value::as_object).into_iter().flatten().collect();
    if parameters.is_empty() {
        return faults.required(&path, "must contain at least one key/value pair");
    }
    if PARAMETERS_MAX < parameters.len() {
        return faults.add([FieldError::too_long(&path, PARAMETERS_MAX)]);
    }
    if parameters.iter().any(|(name, _)| name.is_empty()) {
        faults.invalid(&path, "", "field can not be empty.");
    }
    let bytes: usize = parameters.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if PARAMETERS_BYTES_MAX < bytes {
        faults.add([FieldError::too_long(&path, PARAMETERS_BYTES_MAX)]);
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.storage.v1.VolumeAttributesClass": {
    "properties": {
      "apiVersion": {
        "type": "string"
      },
      "driverName": {
        "default": "",
        "type": "string"
      },
      "kind": {
        "type": "string"
      },
      "metadata": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
          }
        ],
        "default": {}
      },
      "parameters": {
        "additionalProperties": {
          "type": "string"
        },
        "type": "object",
        "x-berth-omit-empty": true
      }
    },
    "required": [
      "driverName"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "storage.k8s.io",
        "kind": "VolumeAttributesClass",
        "version": "v1"
      }
    ]
  }
}"##;
