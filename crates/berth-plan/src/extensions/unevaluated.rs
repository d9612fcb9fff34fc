//! The policies and webhooks that a forecast does not evaluate, and what they match.

use berth_admission::{Constraints, Reinvocation, Webhook};
use berth_api::Object;
use berth_registry::{AdmissionRequest, ApiError, BoxObject, Operation, Registry, Remarks, Reviewer, Stage, Versions};
use futures::{FutureExt, future::BoxFuture};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// An admission policy or a webhook that matches objects of the forecast, and whose decision about them is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnevaluatedRule {
    /// `ValidatingAdmissionPolicy`, `MutatingWebhookConfiguration`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The binding of a policy, or the webhook of a configuration.
    pub part: String,
    /// The resources of the objects: `deployments.apps`, `pods`.
    pub resources: Vec<String>,
    /// Why it is not evaluated, as a clause.
    pub why: String,
}

/// Validating or mutating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PolicyKind {
    Validating,
    Mutating,
}

impl PolicyKind {
    fn name(self) -> &'static str {
        match self {
            Self::Validating => "ValidatingAdmissionPolicy",
            Self::Mutating => "MutatingAdmissionPolicy",
        }
    }
}

/// Names a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleName {
    Policy { kind: PolicyKind, policy: String, binding: String },
    Webhook { stage: Stage, configuration: String, webhook: String },
}

impl RuleName {
    fn stage(&self) -> Stage {
        match self {
            Self::Policy { kind: PolicyKind::Validating, .. } => Stage::Validate,
            Self::Policy { kind: PolicyKind::Mutating, .. } => Stage::Mutate,
            Self::Webhook { stage, .. } => *stage,
        }
    }
}

/// A rule that is not evaluated.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: RuleName,
    /// It matches what all of these match.
    pub(super) constraints: Vec<Constraints>,
    /// As a clause.
    pub(super) why: String,
}

/// The rules that are not evaluated, and what they have matched.
#[derive(Default)]
pub(super) struct Unevaluated {
    rules: Vec<Rule>,
    /// Resources, by the place of the rule.
    matched: Mutex<BTreeMap<usize, BTreeSet<String>>>,
}

impl Unevaluated {
    /// The webhooks among these objects, and these policies.
    pub(super) fn of<'o>(objects: impl Iterator<Item = &'o Value>, policies: Vec<Rule>) -> Self {
        let mut rules = policies;
        let mut webhooks = BTreeMap::new();
        for object in objects {
            let stage = match (object["apiVersion"].as_str(), object["kind"].as_str()) {
                (Some("admissionregistration.k8s.io/v1"), Some("ValidatingWebhookConfiguration")) => Stage::Validate,
                (Some("admissionregistration.k8s.io/v1"), Some("MutatingWebhookConfiguration")) => Stage::Mutate,
                _ => continue,
            };
            // A configuration of the change replaces that of the snapshot.
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            webhooks.insert((stage == Stage::Mutate, name), (stage, Webhook::of_configuration(object)));
        }
        for (stage, webhooks) in webhooks.into_values() {
            rules.extend(webhooks.into_iter().map(|Webhook { configuration, name, constraints, .. }| Rule {
                name: RuleName::Webhook { stage, configuration, webhook: name },
                constraints: vec![constraints],
                why: "plans call no webhooks".to_owned(),
            }));
        }
        Self { rules, matched: Mutex::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn selects_namespaces(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.constraints).any(Constraints::selects_namespaces)
    }

    pub(super) fn clear(&self) {
        self.seen().clear();
    }

    /// The rules that have matched. `are_pods_asked`: the server has judged the pods by rules that only validate.
    pub(super) fn matched(&self, are_pods_asked: bool) -> Vec<UnevaluatedRule> {
        let matched = self.seen();
        let found = self.rules.iter().enumerate().filter_map(|(place, rule)| {
            let is_known = |resource: &str| are_pods_asked && resource == "pods" && rule.name.stage() == Stage::Validate;
            let resources: Vec<String> = matched.get(&place)?.iter().filter(|resource| !is_known(resource)).cloned().collect();
            let (kind, name, part) = match &rule.name {
                RuleName::Policy { kind, policy, binding } => (kind.name(), policy, binding),
                RuleName::Webhook { stage: Stage::Validate, configuration, webhook } => {
                    ("ValidatingWebhookConfiguration", configuration, webhook)
                }
                RuleName::Webhook { stage: Stage::Mutate, configuration, webhook } => {
                    ("MutatingWebhookConfiguration", configuration, webhook)
                }
            };
            let rule = UnevaluatedRule { kind, name: name.clone(), part: part.clone(), resources, why: rule.why.clone() };
            Some(rule).filter(|rule| !rule.resources.is_empty())
        });
        found.collect()
    }

    /// There is only one thread, so the lock is never contended.
    fn seen(&self) -> MutexGuard<'_, BTreeMap<usize, BTreeSet<String>>> {
        self.matched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records what the rules match, and accepts it.
pub(super) struct Recorder {
    registry: Registry,
    unevaluated: Arc<Unevaluated>,
}

impl Recorder {
    pub(super) fn new(registry: Registry, unevaluated: Arc<Unevaluated>) -> Self {
        Self { registry, unevaluated }
    }

    async fn record(&self, stage: Stage, request: &AdmissionRequest<'_>, object: Option<&dyn Object>) -> Result<Remarks, ApiError> {
        let resources = self.registry.resources();
        let versions = Versions::of(request, &resources);
        for (place, rule) in self.unevaluated.rules.iter().enumerate().filter(|(_, rule)| rule.name.stage() == stage) {
            let mut is_matched = true;
            for constraints in &rule.constraints {
                is_matched &= self.registry.matched_version(constraints, request, &versions, object).await?.is_some();
            }
            if is_matched {
                let resource = request.resource.group_resource().to_string();
                self.unevaluated.seen().entry(place).or_default().insert(resource);
            }
        }
        Ok(Remarks::default())
    }
}

impl Reviewer for Recorder {
    fn may_review(&self, stage: Stage, request: &AdmissionRequest<'_>) -> bool {
        let is_open = request.subresource.is_none() && (stage == Stage::Validate || request.operation != Operation::Delete);
        is_open && self.unevaluated.rules.iter().any(|rule| rule.name.stage() == stage)
    }

    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut BoxObject>,
        _: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        async move { self.record(Stage::Mutate, request, object.map(|object| &**object)).await }.boxed()
    }

    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        self.record(Stage::Validate, request, object).boxed()
    }
}
