//! PodMetrics and NodeMetrics: what containers and nodes use. The server computes them, and nothing is stored.
//!
//! Source: kubernetes `metrics/pkg/apis/metrics/v1beta1`; the columns are metrics-server's.

use super::values::{at, list, text};
use crate::{Cell, Column, Components, Content, Conversion, Definition, Form, Names, Version};
use berth_api::{ObjectRules, Scope, object::GenerationRule, quantity::Quantity};
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity as WireQuantity, apis::meta::v1::ObjectMeta};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use std::sync::Arc;

/// The definition of the usage of pods.
#[must_use]
pub fn pod_metrics() -> Definition {
    let cpu = |pod: &Content| total(pod, "cpu");
    let memory = |pod: &Content| total(pod, "memory");
    computed("PodMetrics", "pods", Scope::Namespaced, [Cell::Computed(cpu), Cell::Computed(memory)], POD_TYPES)
}

/// The definition of the usage of nodes.
#[must_use]
pub fn node_metrics() -> Definition {
    computed("NodeMetrics", "nodes", Scope::Cluster, [at(".usage.cpu"), at(".usage.memory")], NODE_TYPES)
}

fn computed(kind: &str, plural: &str, scope: Scope, [cpu, memory]: [Cell; 2], types: &'static str) -> Definition {
    let columns = vec![
        Column::of_name(super::NAME_DESCRIPTION),
        Column { cell: cpu, ..Column::text("cpu", "The CPU that is used.") },
        Column { cell: memory, ..Column::text("memory", "The memory that is used.") },
        Column { cell: at(".window"), format: "duration".to_owned(), ..Column::text("Window", "The time of the measurement.") },
    ];
    let components = Components::new(&format!("io.k8s.metrics.pkg.apis.metrics.v1beta1.{kind}"), &[types, DURATION], None);
    let schema = components.structural().expect("the types are complete");
    Definition {
        group: "metrics.k8s.io".to_owned(),
        names: Names::of(kind, plural),
        scope,
        versions: vec![Version { name: "v1beta1".to_owned(), served: true, storage: true, schema, columns, ..Version::default() }],
        conversion: Conversion::None,
        form: Form::Native { types: Arc::new(components), described_by },
        rules: ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}}),
        pod_template: &[],
        strategy: None,
    }
}

/// Adds the types that those of this file refer to.
fn described_by(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<WireQuantity>();
    generator.subschema_for::<ObjectMeta>()
}

/// The usage of all containers of a pod.
fn total(pod: &Content, resource: &str) -> Value {
    let amounts = list(pod.members(), "containers").iter().filter_map(|container| text(&container["usage"], resource).parse().ok());
    json!(amounts.fold(Quantity::ZERO, Quantity::plus).to_string())
}

const POD_TYPES: &str = r##"{
  "io.k8s.metrics.pkg.apis.metrics.v1beta1.ContainerMetrics": {
    "description": "The usage of one container.",
    "properties": {
      "name": {
        "default": "",
        "description": "The name of the container.",
        "type": "string"
      },
      "usage": {
        "additionalProperties": {
          "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
        },
        "description": "The amounts of cpu and memory that the container uses.",
        "type": "object"
      }
    },
    "required": [
      "name",
      "usage"
    ],
    "type": "object"
  },
  "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics": {
    "description": "The usage of a pod.",
    "properties": {
      "apiVersion": {
        "type": "string"
      },
      "containers": {
        "description": "The usage of each running container.",
        "items": {
          "allOf": [
            {
              "$ref": "#/components/schemas/io.k8s.metrics.pkg.apis.metrics.v1beta1.ContainerMetrics"
            }
          ],
          "default": {}
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic"
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
      "timestamp": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"
          }
        ],
        "description": "The end of the measurement."
      },
      "window": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Duration"
          }
        ],
        "description": "The time of the measurement."
      }
    },
    "required": [
      "timestamp",
      "window",
      "containers"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "metrics.k8s.io",
        "kind": "PodMetrics",
        "version": "v1beta1"
      }
    ]
  }
}"##;

const NODE_TYPES: &str = r##"{
  "io.k8s.metrics.pkg.apis.metrics.v1beta1.NodeMetrics": {
    "description": "The usage of a node.",
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
      "timestamp": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"
          }
        ],
        "description": "The end of the measurement."
      },
      "usage": {
        "additionalProperties": {
          "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
        },
        "description": "The amounts of cpu and memory that the pods of the node use.",
        "type": "object"
      },
      "window": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Duration"
          }
        ],
        "description": "The time of the measurement."
      }
    },
    "required": [
      "timestamp",
      "window",
      "usage"
    ],
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "metrics.k8s.io",
        "kind": "NodeMetrics",
        "version": "v1beta1"
      }
    ]
  }
}"##;

const DURATION: &str = r##"{
  "io.k8s.apimachinery.pkg.apis.meta.v1.Duration": {
    "description": "A duration, such as 15s.",
    "type": "string"
  }
}"##;
