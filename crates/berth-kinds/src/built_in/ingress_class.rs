//! IngressClass: who serves ingresses of a class.

use super::values::{domain_prefixed_path, native, text};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain, check_path_segment},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The definition of the kind.
#[must_use]
pub fn ingress_class() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let version = Version {
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column(
                "Controller",
                "Who serves ingresses of this class.",
                Cell::Computed(|class| json!(text(&class.members()["spec"], "controller"))),
            ),
            column("Parameters", "The object with its settings.", Cell::Computed(shown_parameters)),
            Column::age(),
        ],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { checks_new_name_base: true, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {}}),
        strategy: Some(Arc::new(Classes)),
        ..native::<k8s_openapi::api::networking::v1::IngressClass>(
            "networking.k8s.io",
            Names::of("IngressClass", "ingressclasses"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

fn shown_parameters(class: &Content) -> Value {
    let Some(parameters) = class.members()["spec"].get("parameters") else { return json!("<none>") };
    let group = parameters.get("apiGroup").and_then(Value::as_str).map(|group| format!(".{group}")).unwrap_or_default();
    json!(format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name")))
}

struct Classes;

impl Strategy for Classes {
    fn default(&self, class: &mut Content) {
        if let Some(Value::Object(parameters)) = class.members_mut().get_mut("spec").and_then(|spec| spec.get_mut("parameters")) {
            parameters.entry("scope").or_insert_with(|| json!("Cluster"));
        }
    }

    fn validate(&self, class: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, spec) = (Path::new("spec"), &class.members()["spec"]);
        validate_controller(text(spec, "controller"), &path.child("controller"), &mut faults);
        validate_class_parameters(spec, &path, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, class: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, spec) = (Path::new("spec"), &class.members()["spec"]);
        let controller = text(spec, "controller");
        if controller != text(&old.members()["spec"], "controller") {
            faults.invalid(&path.child("controller"), controller, "field is immutable");
            validate_controller(controller, &path.child("controller"), &mut faults);
        }
        validate_class_parameters(spec, &path, &mut faults);
        faults.into_vec()
    }
}

/// Longest name of a controller, in bytes.
const CONTROLLER_BYTES_MAX: usize = 250;

fn validate_controller(controller: &str, path: &Path, faults: &mut Faults) {
    if controller.len() > CONTROLLER_BYTES_MAX {
        faults.add([FieldError::too_long(path, CONTROLLER_BYTES_MAX)]);
    }
    domain_prefixed_path(controller, path, faults);
}

fn validate_class_parameters(spec: &Value, path: &Path, faults: &mut Faults) {
    let Some(parameters) = spec.get("parameters") else { return };
    let path = path.child("parameters");
    if let Some(group) = parameters.get("apiGroup").and_then(Value::as_str) {
        faults.form(&path.child("apiGroup"), group, check_dns_subdomain);
    }
    faults.set_form(&path.child("kind"), text(parameters, "kind"), check_path_segment);
    faults.set_form(&path.child("name"), text(parameters, "name"), check_path_segment);
    faults.known(&path.child("scope"), text(parameters, "scope"), &["Cluster", "Namespace"]);
    let path = path.child("namespace");
    match (text(parameters, "scope"), parameters.get("namespace").and_then(Value::as_str)) {
        ("Namespace", None) => faults.required(&path, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => faults.form(&path, namespace, check_dns_label),
        ("Cluster", Some(_)) => faults.forbidden(&path, "`parameters.scope` is set to 'Cluster'"),
        _ => (),
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.networking.v1.IngressClass": {
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
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressClassSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "networking.k8s.io",
        "kind": "IngressClass",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.networking.v1.IngressClassSpec": {
    "properties": {
      "controller": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "parameters": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.networking.v1.IngressClassParametersReference"
          }
        ]
      }
    },
    "type": "object"
  },
  "io.k8s.api.networking.v1.IngressClassParametersReference": {
    "properties": {
      "apiGroup": {
        "type": "string"
      },
      "kind": {
        "default": "",
        "type": "string"
      },
      "name": {
        "default": "",
        "type": "string"
      },
      "namespace": {
        "type": "string"
      },
      "scope": {
        "type": "string"
      }
    },
    "required": [
      "kind",
      "name"
    ],
    "type": "object"
  }
}"##;
