//! CSIStorageCapacity: how much a driver can still provide in a part of the cluster.

use super::values::{LABEL_SELECTOR_TYPES, native, selector, text};
use crate::{Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, label_selector::validate_label_selector, names::check_dns_subdomain,
    object::GenerationRule, quantity::Quantity,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The definition of the kind.
#[must_use]
pub fn csi_storage_capacity() -> Definition {
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), Column::created()], ..Version::default() };
    Definition {
        rules: ObjectRules {
            generation_rule: GenerationRule::None,
            requires_resource_version: true,
            checks_new_name_base: true,
            ..super::rules()
        },
        empty: json!({"metadata": {}, "storageClassName": ""}),
        strategy: Some(Arc::new(Capacities)),
        ..native::<k8s_openapi::api::storage::v1::CSIStorageCapacity>(
            "storage.k8s.io",
            Names::of("CSIStorageCapacity", "csistoragecapacities"),
            Scope::Namespaced,
            version,
            &[TYPES, LABEL_SELECTOR_TYPES],
        )
    }
}

struct Capacities;

impl Strategy for Capacities {
    fn validate(&self, capacity: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let members = capacity.members();
        if let Some(nodes) = selector(members, "nodeTopology") {
            faults.add(validate_label_selector(&nodes, &Path::new("nodeTopology")));
        }
        faults.form(&Path::new("storageClassName"), text(members, "storageClassName"), check_dns_subdomain);
        for field in ["capacity", "maximumVolumeSize"] {
            let Some(amount) = members.get(field).and_then(Value::as_str) else { continue };
            if amount.parse::<Quantity>().is_ok_and(Quantity::is_negative) {
                faults.invalid(&Path::new(field), amount, "must be greater than or equal to 0");
            }
        }
        faults.into_vec()
    }

    fn validate_update(&self, capacity: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(self.validate(capacity));
        for field in ["nodeTopology", "storageClassName"] {
            if capacity.members().get(field) != old.members().get(field) {
                faults.invalid(&Path::new(field), capacity.members()[field].clone(), "field is immutable");
            }
        }
        faults.into_vec()
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.storage.v1.CSIStorageCapacity": {
    "properties": {
      "apiVersion": {
        "type": "string"
      },
      "capacity": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
          }
        ]
      },
      "kind": {
        "type": "string"
      },
      "maximumVolumeSize": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
          }
        ]
      },
      "metadata": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
          }
        ],
        "default": {}
      },
      "nodeTopology": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
          }
        ]
      },
      "storageClassName": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "storageClassName"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "storage.k8s.io",
        "kind": "CSIStorageCapacity",
        "version": "v1"
      }
    ]
  }
}"##;
