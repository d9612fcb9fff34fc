//! MutatingWebhookConfiguration and ValidatingWebhookConfiguration: webhooks that review requests.

use super::{
    admission_rules::{MATCH_CONDITION_TYPES, default_rules, validate_match_conditions, validate_rule},
    values::{LABEL_SELECTOR_TYPES, list, native, selector, text},
};
use crate::{
    Cell, Column, Content, Definition, Expressions, Names, Strategy, Version,
    webhook_client::{validate_client, validate_review_versions},
};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, faults::Faults, label_selector::validate_label_selector, names::check_dns_subdomain,
    object::FinalizerRule,
};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

const GROUP: &str = "admissionregistration.k8s.io";

/// Returns the definition of the kind whose webhooks change objects.
#[must_use]
pub fn mutating_webhook_configuration() -> Definition {
    let names = Names::of("MutatingWebhookConfiguration", "mutatingwebhookconfigurations");
    definition::<MutatingWebhookConfiguration>(
        names,
        Webhooks::Mutating,
        &[MUTATING_TYPES, SHARED_TYPES, MATCH_CONDITION_TYPES, LABEL_SELECTOR_TYPES],
    )
}

/// Returns the definition of the kind whose webhooks only accept or reject.
#[must_use]
pub fn validating_webhook_configuration() -> Definition {
    let names = Names::of("ValidatingWebhookConfiguration", "validatingwebhookconfigurations");
    let types = &[VALIDATING_TYPES, SHARED_TYPES, MATCH_CONDITION_TYPES, LABEL_SELECTOR_TYPES];
    definition::<ValidatingWebhookConfiguration>(names, Webhooks::Validating, types)
}

fn definition<T: JsonSchema>(names: Names, webhooks: Webhooks, types: &[&'static str]) -> Definition {
    let count = Column {
        kind: "integer".to_owned(),
        cell: Cell::Computed(|configuration| json!(list(configuration.members(), "webhooks").len())),
        ..Column::text("Webhooks", "The number of webhooks.")
    };
    let version = Version { columns: vec![Column::of_name(super::NAME_DESCRIPTION), count, Column::age()], ..Version::default() };
    let names = Names { categories: vec!["api-extensions".to_owned()], ..names };
    Definition {
        rules: ObjectRules { requires_resource_version: true, finalizer_rule: FinalizerRule::Plain, ..super::rules() },
        strategy: Some(Arc::new(webhooks)),
        ..native::<T>(GROUP, names, Scope::Cluster, version, types)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Webhooks {
    Mutating,
    Validating,
}

impl Strategy for Webhooks {
    fn default(&self, configuration: &mut Content) {
        let webhooks = configuration.members_mut().get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten().filter_map(Value::as_object_mut) {
            self.default_webhook(webhook);
        }
    }

    fn validate(&self, configuration: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, mut names) = (Path::new("webhooks"), BTreeSet::new());
        for (index, webhook) in list(configuration.members(), "webhooks").iter().enumerate() {
            let path = path.index(index);
            self.validate_webhook(webhook, &path, &mut faults);
            let (versions, at) = (list(webhook, "admissionReviewVersions"), path.child("admissionReviewVersions"));
            validate_review_versions(versions, "must specify one of v1, v1beta1", &at, &mut faults);
            let name = text(webhook, "name");
            if !name.is_empty() {
                faults.unique(&path.child("name"), name, &mut names);
            }
        }
        faults.into_vec()
    }
}

impl Webhooks {
    /// Source: upstream `pkg/apis/admissionregistration/v1/defaults.go`.
    fn default_webhook(self, webhook: &mut Map<String, Value>) {
        let mut default = |name: &str, value: Value| {
            webhook.entry(name).or_insert(value);
        };
        default("failurePolicy", json!("Fail"));
        default("matchPolicy", json!("Equivalent"));
        default("namespaceSelector", json!({}));
        default("objectSelector", json!({}));
        default("timeoutSeconds", json!(TIMEOUT_SECONDS));
        if self == Self::Mutating {
            default("reinvocationPolicy", json!("Never"));
        }
        if let Some(Value::Object(service)) = webhook.get_mut("clientConfig").and_then(|client| client.get_mut("service")) {
            service.entry("port").or_insert_with(|| json!(PORT));
        }
        default_rules(webhook.get_mut("rules"));
    }

    /// Source: upstream `validateMutatingWebhook` and `validateValidatingWebhook`.
    fn validate_webhook(self, webhook: &Value, path: &Path, faults: &mut Faults) {
        validate_name(text(webhook, "name"), &path.child("name"), faults);
        for (index, rule) in list(webhook, "rules").iter().enumerate() {
            validate_rule(rule, &path.child("rules").index(index), faults);
        }
        let mut known = |name: &str, supported: &[&str]| {
            if let Some(value) = webhook.get(name).and_then(Value::as_str) {
                faults.known(&path.child(name), value, supported);
            }
        };
        known("failurePolicy", &["Fail", "Ignore"]);
        known("matchPolicy", &["Equivalent", "Exact"]);
        known("sideEffects", &["None", "NoneOnDryRun"]);
        if webhook.get("sideEffects").is_none_or(Value::is_null) {
            faults.required(&path.child("sideEffects"), "must specify one of None, NoneOnDryRun");
        }
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.filter(|seconds| !(1..=TIMEOUT_SECONDS_MAX).contains(seconds)) {
            faults.invalid(&path.child("timeoutSeconds"), seconds, "the timeout value must be between 1 and 30 seconds");
        }
        for name in ["namespaceSelector", "objectSelector"] {
            faults.add(selector(webhook, name).iter().flat_map(|selector| validate_label_selector(selector, &path.child(name))));
        }
        if let (Self::Mutating, Some(policy)) = (self, webhook.get("reinvocationPolicy").and_then(Value::as_str)) {
            faults.known(&path.child("reinvocationPolicy"), policy, &["IfNeeded", "Never"]);
        }
        validate_client(&webhook["clientConfig"], &path.child("clientConfig"), faults);
        let conditions = list(webhook, "matchConditions");
        if !conditions.is_empty() {
            let environment = Expressions { authorizer: true, ..Expressions::default() }.environment();
            validate_match_conditions(conditions, &environment, &path.child("matchConditions"), faults);
        }
    }
}

/// The timeout of a webhook that has none.
const TIMEOUT_SECONDS: i64 = 10;
/// The longest timeout.
const TIMEOUT_SECONDS_MAX: i64 = 30;
/// The port of a service without one.
const PORT: i64 = 443;
/// How many labels the name of a webhook has at least.
const NAME_LABELS_MIN: usize = 3;

fn validate_name(name: &str, path: &Path, faults: &mut Faults) {
    if !faults.set(path, name) {
        return;
    }
    let errors = check_dns_subdomain(name);
    if errors.is_empty() && name.split('.').count() < NAME_LABELS_MIN {
        faults.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
    for error in errors {
        faults.invalid(path, name, error);
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const MUTATING_TYPES: &str = include_str!("webhook_configuration/mutating.json");

/// The same for the other kind.
const VALIDATING_TYPES: &str = include_str!("webhook_configuration/validating.json");

/// The types of both.
const SHARED_TYPES: &str = include_str!("webhook_configuration/shared.json");
