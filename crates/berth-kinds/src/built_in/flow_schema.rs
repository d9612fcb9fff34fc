//! FlowSchema: which priority level takes a request. berth gives each user a share instead: the objects are kept, and change nothing.

use super::values::{list, native, spec, text, validate_conditions};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, Path, Scope, Subresource,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Precedence of a schema that names none.
const PRECEDENCE: i64 = 1000;
/// Largest precedence.
const PRECEDENCE_MAX: i64 = 10_000;
/// What requests do.
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// Kinds of subjects, each with the member that names one.
const SUBJECTS: [(&str, &str); 3] = [("User", "user"), ("Group", "group"), ("ServiceAccount", "serviceAccount")];

/// The definition of the kind.
#[must_use]
pub fn flow_schema() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("PriorityLevel", "The level that takes the requests.", Cell::Computed(|schema| json!(level(schema)))),
            column(
                "MatchingPrecedence",
                "Which of several schemas takes a request: the one with the smallest number.",
                Cell::Computed(|schema| json!(spec(schema)["matchingPrecedence"].to_string())),
            ),
            column(
                "DistinguisherMethod",
                "What makes two requests a part of different flows.",
                Cell::Computed(|schema| json!(distinguisher(schema))),
            ),
            Column::age(),
            column("MissingPL", "Whether the level is missing.", Cell::Computed(|schema| json!(is_dangling(schema)))),
        ],
        ..Version::default()
    };
    Definition {
        empty: json!({"metadata": {}, "spec": {"priorityLevelConfiguration": {"name": ""}, "matchingPrecedence": 0}, "status": {}}),
        strategy: Some(Arc::new(Schemas)),
        ..native::<k8s_openapi::api::flowcontrol::v1::FlowSchema>(
            "flowcontrol.apiserver.k8s.io",
            Names::of("FlowSchema", "flowschemas"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

fn level(schema: &Content) -> &str {
    text(&spec(schema)["priorityLevelConfiguration"], "name")
}

fn distinguisher(schema: &Content) -> &str {
    spec(schema).get("distinguisherMethod").map_or("<none>", |method| text(method, "type"))
}

fn is_dangling(schema: &Content) -> &'static str {
    let conditions = list(&schema.members()["status"], "conditions");
    match conditions.iter().find(|condition| text(condition, "type") == "Dangling").map(|condition| text(condition, "status")) {
        Some("True") => "True",
        Some("False") => "False",
        _ => "?",
    }
}

struct Schemas;

impl Strategy for Schemas {
    fn default(&self, schema: &mut Content) {
        let Some(Value::Object(spec)) = schema.members_mut().get_mut("spec") else { return };
        if spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or_default() == 0 {
            spec.insert("matchingPrecedence".to_owned(), json!(PRECEDENCE));
        }
    }

    fn validate(&self, schema: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(schema, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, schema: &Content, _: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        if subresource.is_none() {
            return self.validate(schema);
        }
        let mut faults = Faults::default();
        validate_conditions(&schema.members()["status"], &mut faults);
        faults.into_vec()
    }
}

/// Source: upstream `ValidateFlowSchemaSpec`.
fn validate_spec(schema: &Content, faults: &mut Faults) {
    let (path, spec) = (Path::new("spec"), spec(schema));
    let precedence = spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or_default();
    if precedence <= 0 {
        faults.invalid(&path.child("matchingPrecedence"), precedence, "must be a positive value");
    }
    if PRECEDENCE_MAX < precedence {
        faults.invalid(&path.child("matchingPrecedence"), precedence, format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    let name = schema.meta.name.as_deref().unwrap_or_default();
    if precedence == 1 && name != "exempt" {
        faults.invalid(&path.child("matchingPrecedence"), precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.get("distinguisherMethod") {
        let kind = text(method, "type");
        if !matches!(kind, "ByUser" | "ByNamespace") {
            let at = path.child("distinguisherMethod").child("type");
            faults.add([FieldError::not_supported(&at, method.clone(), &["ByNamespace", "ByUser"])]);
        }
    }
    let at = path.child("priorityLevelConfiguration").child("name");
    match level(schema) {
        "" => faults.required(&at, "must reference a priority level"),
        level => faults.form(&at, level, check_dns_subdomain),
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(index), faults);
    }
    if mandatory(name).is_some_and(|fixed| &fixed != spec) {
        faults.invalid(&path, spec.clone(), format!("spec of '{name}' must equal the fixed value"));
    }
}

/// The spec of a schema that is every server's.
fn mandatory(name: &str) -> Option<Value> {
    let everything = json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    let with_groups = |groups: &[&str]| {
        let subjects: Vec<Value> = groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
        let mut rule = everything.clone();
        rule["subjects"] = json!(subjects);
        json!([rule])
    };
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": with_groups(&["system:masters"]),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": PRECEDENCE_MAX,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": with_groups(&["system:unauthenticated", "system:authenticated"]),
        })),
        _ => None,
    }
}

fn validate_rule(rule: &Value, path: &Path, faults: &mut Faults) {
    let subjects = list(rule, "subjects");
    if subjects.is_empty() {
        faults.required(&path.child("subjects"), "subjects must contain at least one value");
    }
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(subject, &path.child("subjects").index(index), faults);
    }
    let (resources, others) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        faults.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (index, rule) in resources.iter().enumerate() {
        validate_resource_rule(rule, &path.child("resourceRules").index(index), faults);
    }
    for (index, rule) in others.iter().enumerate() {
        validate_non_resource_rule(rule, &path.child("nonResourceRules").index(index), faults);
    }
}

fn validate_subject(subject: &Value, path: &Path, faults: &mut Faults) {
    let kind = text(subject, "kind");
    if SUBJECTS.iter().all(|(known, _)| *known != kind) {
        return faults.known(&path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
    }
    // First what the kind requires, then what it forbids.
    let own = |(known, _): &&(&str, &str)| *known == kind;
    for (_, member) in SUBJECTS.iter().filter(own) {
        match subject.get(member) {
            None => faults.required(&path.child(member), &format!("{member} is required when subject kind is '{kind}'")),
            Some(named) if kind == "ServiceAccount" => validate_account(named, &path.child(member), faults),
            Some(named) => _ = faults.set(&path.child(member).child("name"), text(named, "name")),
        }
    }
    for (known, member) in SUBJECTS.iter().filter(|entry| !own(entry)) {
        if subject.get(member).is_some() {
            faults.forbidden(&path.child(member), format!("{member} is forbidden when subject kind is not '{known}'"));
        }
    }
}

fn validate_account(account: &Value, path: &Path, faults: &mut Faults) {
    let name = text(account, "name");
    if faults.set(&path.child("name"), name) && name != "*" {
        faults.form(&path.child("name"), name, check_dns_subdomain);
    }
    match text(account, "namespace") {
        "" => faults.required(&path.child("namespace"), "must specify namespace for service account"),
        namespace => faults.form(&path.child("namespace"), namespace, check_dns_label),
    }
}

fn validate_resource_rule(rule: &Value, path: &Path, faults: &mut Faults) {
    validate_verbs(rule, path, faults);
    let lists = [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")];
    for (field, one, many) in lists {
        match list(rule, field) {
            [] => faults.required(&path.child(field), &format!("resource rules must supply at least one {one}")),
            all => check_alone(all, many, &path.child(field), faults),
        }
    }
    let (namespaces, at) = (list(rule, "namespaces"), path.child("namespaces"));
    if namespaces.is_empty() && rule.get("clusterScope") != Some(&json!(true)) {
        faults.required(&at, "resource rules that are not cluster scoped must supply at least one namespace");
    }
    if has_star(namespaces) {
        return check_alone(namespaces, "namespaces", &at, faults);
    }
    for (index, namespace) in namespaces.iter().filter_map(Value::as_str).enumerate() {
        for why in check_dns_label(namespace) {
            faults.invalid(&at.index(index), namespace, format!("each member of this list must be '*' or a DNS-1123 label; {why}"));
        }
    }
}

fn validate_non_resource_rule(rule: &Value, path: &Path, faults: &mut Faults) {
    validate_verbs(rule, path, faults);
    let (urls, at) = (list(rule, "nonResourceURLs"), path.child("nonResourceURLs"));
    if urls.is_empty() {
        faults.required(&at, "nonResourceURLs must contain at least one value");
    }
    if has_star(urls) {
        return check_alone(urls, "non-resource URLs", &at, faults);
    }
    for (index, url) in urls.iter().filter_map(Value::as_str).enumerate() {
        if let Some(why) = url_fault(url) {
            faults.invalid(&at.index(index), url, why);
        }
    }
}

/// Source: upstream `ValidateNonResourceURLPath`.
fn url_fault(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        return Some("must not be empty");
    }
    if url == "/" {
        return None;
    }
    if !url.starts_with('/') {
        return Some("must start with slash");
    }
    if url.contains(' ') {
        return Some("must not contain white-space");
    }
    if url.contains("//") {
        return Some("must not contain double slash");
    }
    match url.find('*') {
        Some(star) if star + 1 != url.len() || !url.ends_with("/*") => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

fn validate_verbs(rule: &Value, path: &Path, faults: &mut Faults) {
    let (verbs, at) = (list(rule, "verbs"), path.child("verbs"));
    if verbs.is_empty() {
        faults.required(&at, "verbs must contain at least one value");
    }
    if has_star(verbs) {
        check_alone(verbs, "verbs", &at, faults);
    } else if verbs.iter().filter_map(Value::as_str).any(|verb| !VERBS.contains(&verb)) {
        faults.add([FieldError::not_supported(&at, verbs.to_vec(), VERBS)]);
    }
}

fn has_star(list: &[Value]) -> bool {
    list.iter().any(|element| element == "*")
}

/// A star means all, so nothing can be beside it.
fn check_alone(list: &[Value], what: &str, path: &Path, faults: &mut Faults) {
    if has_star(list) && 1 < list.len() {
        faults.invalid(path, list.to_vec(), format!("if '*' is present, must not specify other {what}"));
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = r##"{
  "io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod": {
    "properties": {
      "type": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "type"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.FlowSchema": {
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
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.FlowSchemaSpec"
          }
        ],
        "default": {},
        "x-berth-always": true
      },
      "status": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.FlowSchemaStatus"
          }
        ],
        "default": {},
        "x-berth-always": true
      }
    },
    "type": "object",
    "x-kubernetes-group-version-kind": [
      {
        "group": "flowcontrol.apiserver.k8s.io",
        "kind": "FlowSchema",
        "version": "v1"
      }
    ]
  },
  "io.k8s.api.flowcontrol.v1.FlowSchemaCondition": {
    "properties": {
      "lastTransitionTime": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"
          }
        ],
        "x-berth-omit-empty": true
      },
      "message": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "reason": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "status": {
        "type": "string",
        "x-berth-omit-empty": true
      },
      "type": {
        "type": "string",
        "x-berth-omit-empty": true
      }
    },
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.FlowSchemaSpec": {
    "properties": {
      "distinguisherMethod": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod"
          }
        ]
      },
      "matchingPrecedence": {
        "default": 0,
        "format": "int32",
        "type": "integer",
        "x-berth-always": true
      },
      "priorityLevelConfiguration": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference"
          }
        ],
        "default": {},
        "x-berth-always": true
      },
      "rules": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-type": "atomic"
      }
    },
    "required": [
      "priorityLevelConfiguration"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.FlowSchemaStatus": {
    "properties": {
      "conditions": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.FlowSchemaCondition"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-map-keys": [
          "type"
        ],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "type",
        "x-kubernetes-patch-strategy": "merge"
      }
    },
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.GroupSubject": {
    "properties": {
      "name": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "name"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.NonResourcePolicyRule": {
    "properties": {
      "nonResourceURLs": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "set"
      },
      "verbs": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "set"
      }
    },
    "required": [
      "verbs",
      "nonResourceURLs"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.PolicyRulesWithSubjects": {
    "properties": {
      "nonResourceRules": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.NonResourcePolicyRule"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-type": "atomic"
      },
      "resourceRules": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.ResourcePolicyRule"
        },
        "type": "array",
        "x-berth-omit-empty": true,
        "x-kubernetes-list-type": "atomic"
      },
      "subjects": {
        "items": {
          "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.Subject"
        },
        "type": "array",
        "x-kubernetes-list-type": "atomic"
      }
    },
    "required": [
      "subjects"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationReference": {
    "properties": {
      "name": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "name"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.ResourcePolicyRule": {
    "properties": {
      "apiGroups": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "set"
      },
      "clusterScope": {
        "type": "boolean",
        "x-berth-omit-empty": true
      },
      "namespaces": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-berth-always": true,
        "x-kubernetes-list-type": "set"
      },
      "resources": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "set"
      },
      "verbs": {
        "items": {
          "type": "string"
        },
        "type": "array",
        "x-kubernetes-list-type": "set"
      }
    },
    "required": [
      "verbs",
      "apiGroups",
      "resources"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.ServiceAccountSubject": {
    "properties": {
      "name": {
        "default": "",
        "type": "string"
      },
      "namespace": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "namespace",
      "name"
    ],
    "type": "object"
  },
  "io.k8s.api.flowcontrol.v1.Subject": {
    "properties": {
      "group": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.GroupSubject"
          }
        ]
      },
      "kind": {
        "default": "",
        "type": "string"
      },
      "serviceAccount": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.ServiceAccountSubject"
          }
        ]
      },
      "user": {
        "allOf": [
          {
            "$ref": "#/components/schemas/io.k8s.api.flowcontrol.v1.UserSubject"
          }
        ]
      }
    },
    "required": [
      "kind"
    ],
    "type": "object",
    "x-kubernetes-unions": [
      {
        "discriminator": "kind",
        "fields-to-discriminateBy": {
          "group": "Group",
          "serviceAccount": "ServiceAccount",
          "user": "User"
        }
      }
    ]
  },
  "io.k8s.api.flowcontrol.v1.UserSubject": {
    "properties": {
      "name": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "name"
    ],
    "type": "object"
  }
}"##;
