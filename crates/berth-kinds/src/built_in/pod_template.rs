//! PodTemplate: a template of pods that other objects can refer to. Nothing acts on it.

use super::templates::{TEMPLATE_TYPES, container_columns, labels_shown, read_template};
use super::values::native_sharing;
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    pod::{template_warnings, validate_template},
};
use serde_json::json;
use std::sync::Arc;

/// The definition of the kind.
#[must_use]
pub fn pod_template() -> Definition {
    let columns = container_columns!("/template/spec").map(|column| Column { priority: 0, ..column });
    let [names, images] = columns;
    let labels = Cell::Computed(|template: &Content| json!(labels_shown(&template.members()["template"]["metadata"]["labels"])));
    let labels = Column { cell: labels, ..Column::text("Pod Labels", "The labels of the pods.") };
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), names, images, labels], ..Version::default() };
    Definition {
        rules: ObjectRules { checks_new_name_base: true, ..super::rules() },
        empty: json!({"metadata": {}, "template": {"metadata": {}, "spec": {"containers": null}}}),
        pod_template: &["template"],
        strategy: Some(Arc::new(Templates)),
        ..native_sharing::<k8s_openapi::api::core::v1::PodTemplate>(
            "",
            Names::of("PodTemplate", "podtemplates"),
            Scope::Namespaced,
            version,
            &[TYPES],
            Some(&TEMPLATE_TYPES),
        )
    }
}

struct Templates;

impl Strategy for Templates {
    fn validate(&self, object: &Content) -> Vec<FieldError> {
        let path = Path::new("template");
        match read_template(&object.members()["template"]) {
            Ok(template) => validate_template(&template, &path),
            Err(why) => vec![FieldError::invalid_part(&path, why.to_string())],
        }
    }

    fn validate_update(&self, object: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        if object.members() == old.members() { Vec::new() } else { self.validate(object) }
    }

    fn warnings(&self, object: &Content, old: Option<&Content>) -> Vec<String> {
        if old.is_some_and(|old| old.members() == object.members()) {
            return Vec::new();
        }
        let template = read_template(&object.members()["template"]);
        template.iter().flat_map(|template| template_warnings(template, &Path::new("template"))).collect()
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.core.v1.PodTemplate": {
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
      "template": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "",
        "kind": "PodTemplate",
        "version": "v1"
      }
    ]
  }
}"##;
