//! RuntimeClass: how containers of a pod run. Admission takes a pod's overhead and its nodes from its class.

use super::values::{at, member, native, text};
use crate::{Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    metadata::validate_labels,
    names::check_dns_label,
    object::{FinalizerRule, GenerationRule},
    pod::{validate_container_limits, validate_tolerations},
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// The definition of the kind.
#[must_use]
pub fn runtime_class() -> Definition {
    let handler = Column { cell: at(".handler"), ..Column::text("Handler", "The configuration of the container runtime.") };
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), handler, Column::age()], ..Version::default() };
    Definition {
        rules: ObjectRules {
            generation_rule: GenerationRule::None,
            requires_resource_version: true,
            finalizer_rule: FinalizerRule::Plain,
            checks_new_name_base: true,
            ..super::rules()
        },
        empty: json!({"metadata": {}, "handler": ""}),
        strategy: Some(Arc::new(Classes)),
        ..native::<k8s_openapi::api::node::v1::RuntimeClass>(
            "node.k8s.io",
            Names::of("RuntimeClass", "runtimeclasses"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, class: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.set_form(&Path::new("handler"), text(class.members(), "handler"), check_dns_label);
        if let Some(overhead) = class.members().get("overhead") {
            let amounts = member(overhead, "podFixed").unwrap_or_default();
            validate_container_limits(amounts, &Path::new("overhead"), &mut faults);
        }
        if let Some(scheduling) = class.members().get("scheduling") {
            let path = Path::new("scheduling");
            faults.add(validate_labels(member(scheduling, "nodeSelector").as_ref(), &path.child("nodeSelector")));
            let tolerations: Vec<k8s_openapi::api::core::v1::Toleration> = member(scheduling, "tolerations").unwrap_or_default();
            let path = path.child("tolerations");
            validate_tolerations(&tolerations, &path, &mut faults);
            let mut seen = BTreeSet::new();
            for (index, toleration) in tolerations.iter().map(|toleration| json!(toleration)).enumerate() {
                if !seen.insert(toleration.to_string()) {
                    faults.duplicate(&path.index(index), toleration);
                }
            }
        }
        faults.into_vec()
    }

    fn validate_update(&self, class: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let handler = text(class.members(), "handler");
        faults.add(self.validate(class));
        if handler != text(old.members(), "handler") {
            faults.invalid(&Path::new("handler"), handler, "field is immutable");
        }
        faults.into_vec()
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.core.v1.Toleration": {
    "properties": {
      "effect": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "key": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "operator": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "tolerationSeconds": {
        "format": "int64",
        "type": "integer"
      },
      "value": {
        "type": "string",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.node.v1.Overhead": {
    "properties": {
      "podFixed": {
        "additionalProperties": {
          "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
        },
        "type": "object",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.node.v1.RuntimeClass": {
    "properties": {
      "apiVersion": {
        "type": "string"
      },
      "handler": {
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
      "overhead": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.node.v1.Overhead"
          }
        ]
      },
      "scheduling": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.node.v1.Scheduling"
          }
        ]
      }
    },
    "required": [
      "handler"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "node.k8s.io",
        "kind": "RuntimeClass",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.node.v1.Scheduling": {
    "properties": {
      "nodeSelector": {
        "additionalProperties": {
          "type": "string"
        },
        "type": "object",
        "x-berth-omit-empty": true,
        "x-kubernetes-map-type": "atomic"
      },
      "tolerations": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.core.v1.Toleration"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-type": "atomic"
      }
    },
    "type": "object"
  }
}"##;
