//! ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings: expressions that accept, reject or change
//! requests.

mod check;
mod expressions;

use super::{
    admission_rules::{MATCH_CONDITION_TYPES, default_rules},
    values::{LABEL_SELECTOR_TYPES, list, native, spec, text},
};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, object::FinalizerRule};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const GROUP: &str = "admissionregistration.k8s.io";
const SHARED: &str = include_str!("admission_policies/shared.json");

/// Returns the definition of the kind whose expressions accept or reject.
#[must_use]
pub fn validating_admission_policy() -> Definition {
    let version = policy_version("Validations", "The number of validations.", |policy| json!(list(spec(policy), "validations").len()));
    Definition {
        rules: with_resource_version(),
        strategy: Some(Arc::new(Policies::Validating)),
        ..native::<ValidatingAdmissionPolicy>(
            GROUP,
            names("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            Scope::Cluster,
            Version { status: true, ..version },
            &[include_str!("admission_policies/validating_policy.json"), SHARED, MATCH_CONDITION_TYPES, LABEL_SELECTOR_TYPES],
        )
    }
}

/// Returns the definition of the kind that applies validating policies.
#[must_use]
pub fn validating_admission_policy_binding() -> Definition {
    Definition {
        rules: with_resource_version(),
        strategy: Some(Arc::new(Bindings::Validating)),
        ..native::<ValidatingAdmissionPolicyBinding>(
            GROUP,
            names("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
            Scope::Cluster,
            binding_version(),
            &[include_str!("admission_policies/validating_binding.json"), SHARED, LABEL_SELECTOR_TYPES],
        )
    }
}

/// Returns the definition of the kind whose expressions change objects.
#[must_use]
pub fn mutating_admission_policy() -> Definition {
    let version = policy_version("Mutations", "The number of mutations.", |policy| json!(list(spec(policy), "mutations").len()));
    Definition {
        rules: with_resource_version(),
        strategy: Some(Arc::new(Policies::Mutating)),
        ..native::<MutatingAdmissionPolicy>(
            GROUP,
            names("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
            Scope::Cluster,
            version,
            &[include_str!("admission_policies/mutating_policy.json"), SHARED, MATCH_CONDITION_TYPES, LABEL_SELECTOR_TYPES],
        )
    }
}

/// Returns the definition of the kind that applies mutating policies.
#[must_use]
pub fn mutating_admission_policy_binding() -> Definition {
    Definition {
        rules: with_resource_version(),
        strategy: Some(Arc::new(Bindings::Mutating)),
        ..native::<MutatingAdmissionPolicyBinding>(
            GROUP,
            names("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
            Scope::Cluster,
            binding_version(),
            &[include_str!("admission_policies/mutating_binding.json"), SHARED, LABEL_SELECTOR_TYPES],
        )
    }
}

fn names(kind: &str, plural: &str) -> Names {
    Names { categories: vec!["api-extensions".to_owned()], ..Names::of(kind, plural) }
}

fn with_resource_version() -> ObjectRules {
    ObjectRules { requires_resource_version: true, finalizer_rule: FinalizerRule::Plain, ..super::rules() }
}

fn policy_version(counted: &str, description: &str, count: fn(&Content) -> Value) -> Version {
    Version {
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            Column { kind: "integer".to_owned(), cell: Cell::Computed(count), ..Column::text(counted, description) },
            Column { cell: Cell::Computed(|policy| json!(param_kind(policy))), ..Column::text("ParamKind", "The kind of the parameters.") },
            Column::age(),
        ],
        ..Version::default()
    }
}

fn binding_version() -> Version {
    Version {
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            Column {
                cell: Cell::Computed(|binding| json!(text(spec(binding), "policyName"))),
                ..Column::text("PolicyName", "The policy that the binding applies.")
            },
            Column {
                cell: Cell::Computed(|binding| json!(param_ref(binding))),
                ..Column::text("ParamRef", "The object with the parameters.")
            },
            Column::age(),
        ],
        ..Version::default()
    }
}

fn param_kind(policy: &Content) -> String {
    let kind = &spec(policy)["paramKind"];
    if kind.is_null() { "<unset>".to_owned() } else { format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")) }
}

/// Source: upstream `printValidatingAdmissionPolicyBinding`.
fn param_ref(binding: &Content) -> String {
    let params = &spec(binding)["paramRef"];
    let (namespace, name) = (text(params, "namespace"), text(params, "name"));
    match () {
        () if params.is_null() => "<unset>".to_owned(),
        () if !name.is_empty() && namespace.is_empty() => format!("*/{name}"),
        () if !name.is_empty() => format!("{namespace}/{name}"),
        () => super::values::shown_selector(params, "selector"),
    }
}

/// A kind of policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policies {
    Validating,
    Mutating,
}

impl Strategy for Policies {
    fn default(&self, policy: &mut Content) {
        let Some(Value::Object(spec)) = policy.members_mut().get_mut("spec") else { return };
        spec.entry("failurePolicy").or_insert_with(|| json!("Fail"));
        default_match_resources(spec.get_mut("matchConstraints"));
    }

    fn validate(&self, policy: &Content) -> Vec<FieldError> {
        check::policy(*self, policy)
    }

    fn validate_update(&self, policy: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        if subresource.is_some() {
            let mut faults = Faults::default();
            check::status(&policy.members()["status"], &Path::new("status"), &mut faults);
            return faults.into_vec();
        }
        // An unchanged policy is not compiled again.
        if spec(policy) == spec(old) { Vec::new() } else { self.validate(policy) }
    }
}

/// A kind of binding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bindings {
    Validating,
    Mutating,
}

impl Strategy for Bindings {
    fn default(&self, binding: &mut Content) {
        default_match_resources(binding.members_mut().get_mut("spec").and_then(|spec| spec.get_mut("matchResources")));
    }

    fn validate(&self, binding: &Content) -> Vec<FieldError> {
        check::binding(*self, spec(binding))
    }
}

/// Source: upstream `SetDefaults_MatchResources`.
fn default_match_resources(resources: Option<&mut Value>) {
    let Some(Value::Object(resources)) = resources else { return };
    let default = |resources: &mut Map<String, Value>, name: &str, value: Value| {
        resources.entry(name).or_insert(value);
    };
    default(resources, "matchPolicy", json!("Equivalent"));
    default(resources, "namespaceSelector", json!({}));
    default(resources, "objectSelector", json!({}));
    default_rules(resources.get_mut("resourceRules"));
    default_rules(resources.get_mut("excludeResourceRules"));
}
