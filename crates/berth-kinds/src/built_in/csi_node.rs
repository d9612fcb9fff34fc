//! CSINode: the drivers of volumes that are registered on a node.

use super::values::{list, native, spec, text};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    names::{check_dns_subdomain, check_qualified_name},
    object::GenerationRule,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Longest name of a driver, in bytes.
const DRIVER_BYTES_MAX: usize = 63;
/// Longest name of a node in a driver's words, in bytes.
const NODE_ID_BYTES_MAX: usize = 256;

/// The definition of the kind.
#[must_use]
pub fn csi_node() -> Definition {
    let count = Cell::Computed(|node| json!(list(spec(node), "drivers").len()));
    let drivers =
        Column { kind: "integer".to_owned(), cell: count, ..Column::text("Drivers", "How many drivers are registered on the node.") };
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), drivers, Column::age()], ..Version::default() };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, requires_resource_version: true, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"drivers": []}}),
        strategy: Some(Arc::new(Nodes)),
        ..native::<k8s_openapi::api::storage::v1::CSINode>(
            "storage.k8s.io",
            Names::of("CSINode", "csinodes"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

struct Nodes;

impl Strategy for Nodes {
    fn validate(&self, node: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let mut seen = BTreeSet::new();
        for (index, driver) in list(spec(node), "drivers").iter().enumerate() {
            let path = Path::new("spec").child("drivers").index(index);
            validate_driver(driver, &path, &mut faults);
            faults.unique(&path.child("name"), text(driver, "name"), &mut seen);
        }
        faults.into_vec()
    }

    /// A driver that stays is as it was, except for what it can allocate.
    fn validate_update(&self, node: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(self.validate(node));
        let known: BTreeMap<&str, &Value> = list(spec(old), "drivers").iter().map(|driver| (text(driver, "name"), driver)).collect();
        for driver in list(spec(node), "drivers") {
            let before = known.get(text(driver, "name"));
            if before.is_some_and(|before| identity(before) != identity(driver)) {
                faults.invalid(&Path::new("spec").child("drivers"), driver.clone(), "field is immutable");
            }
        }
        faults.into_vec()
    }
}

/// What of a driver does not change.
fn identity(driver: &Value) -> (&str, &[Value]) {
    (text(driver, "nodeID"), list(driver, "topologyKeys"))
}

/// Source: upstream `validateCSINodeDriver`.
fn validate_driver(driver: &Value, path: &Path, faults: &mut Faults) {
    let name = text(driver, "name");
    if faults.set(&path.child("name"), name) {
        if DRIVER_BYTES_MAX < name.len() {
            faults.add([FieldError::too_long(&path.child("name"), DRIVER_BYTES_MAX)]);
        }
        for why in check_dns_subdomain(&name.to_lowercase()) {
            faults.invalid(&path.child("name"), name, why);
        }
    }
    let node = text(driver, "nodeID");
    if faults.set(&path.child("nodeID"), node) && NODE_ID_BYTES_MAX < node.len() {
        faults.invalid(&path.child("nodeID"), node, format!("must be {NODE_ID_BYTES_MAX} characters or less"));
    }
    let count = driver.get("allocatable").and_then(|allocatable| allocatable.get("count")).and_then(Value::as_i64);
    faults.not_negative(&path.child("allocatable").child("count"), count);
    let mut seen = BTreeSet::new();
    for key in list(driver, "topologyKeys").iter().filter_map(Value::as_str) {
        faults.unique(path, key, &mut seen);
        if key.is_empty() {
            faults.required(path, "");
        }
        faults.form(path, key, check_qualified_name);
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.storage.v1.CSINode": {
    "properties": {
      "apiVersion": {
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
      "spec": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.storage.v1.CSINodeSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "required": [
      "spec"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "storage.k8s.io",
        "kind": "CSINode",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.storage.v1.CSINodeDriver": {
    "properties": {
      "allocatable": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.storage.v1.VolumeNodeResources"
          }
        ]
      },
      "name": {
        "default": "",
        "type": "string"
      },
      "nodeID": {
        "default": "",
        "type": "string"
      },
      "topologyKeys": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-berth-always": true,
        "x-kubernetes-list-type": "atomic"
      }
    },
    "required": [
      "name",
      "nodeID"
    ],
    "type": "object"
  },
  "io.k8s.api.storage.v1.CSINodeSpec": {
    "properties": {
      "drivers": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.storage.v1.CSINodeDriver"
        },
        "type": "array",
        "x-kubernetes-list-map-keys": [
          "name"
        ],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge"
      }
    },
    "required": [
      "drivers"
    ],
    "type": "object"
  },
  "io.k8s.api.storage.v1.VolumeNodeResources": {
    "properties": {
      "count": {
        "format": "int32",
        "type": "integer"
      }
    },
    "type": "object"
  }
}"##;
