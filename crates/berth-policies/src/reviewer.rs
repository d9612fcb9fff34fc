//! Evaluates the policies that match a write.

use crate::{
    installed::{Bound, Installed},
    metrics::Metrics,
    params::{self, Params},
    stopwatch::Stopwatch,
};
use berth_admission::{
    AuditAnnotations, Change, Data, DenialCause, DenialDetails, ErrorType, FailurePolicy, FindingSource, MUTATING, Matching, Mutated,
    MutationBudget, Policy, PolicyBinding, PolicyDenial, Reinvocation, Rights, VALIDATING, VALIDATION_FAILURE, ValidationAction,
    validation_failure,
};
use berth_api::Object;
use berth_cel::Access;
use berth_identity::GroupVersionResource;
use berth_registry::{
    AdmissionRequest, ApiError, BoxObject, ChangeError, Documents, Following, Operation, Registry, Remarks, Resource, Reviewer, Shown,
    Stage, Versions, resource::built_in,
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use std::{rc::Rc, sync::Arc};

/// The group of the objects that no policy reviews, so that a broken policy can be removed.
const EXEMPT: &str = "admissionregistration.k8s.io";

/// A reviewer that evaluates the policies in the store. It comes before webhooks, as upstream. Cheap to clone.
#[derive(Clone)]
pub struct Policies(Arc<Inner>);

struct Inner {
    registry: Registry,
    validating: Following<Installed>,
    mutating: Following<Installed>,
    metrics: Metrics,
}

impl Policies {
    /// Returns a reviewer of the writes through a registry. `registry` reads what policies depend on.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        let follow = |plurals: [&'static str; 2]| {
            let resource = |plural| built_in().find(&GroupVersionResource::from_static(EXEMPT, "v1", plural)).cloned();
            registry.follow(plurals.into_iter().filter_map(resource).collect::<Vec<Arc<Resource>>>())
        };
        Self(Arc::new(Inner {
            validating: follow(["validatingadmissionpolicies", "validatingadmissionpolicybindings"]),
            mutating: follow(["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]),
            metrics: Metrics::new(),
            registry,
        }))
    }

    /// Registers upstream's metrics of policies.
    ///
    /// # Errors
    /// A metric of this name exists.
    pub fn register(&self, metrics: &prometheus::Registry) -> Result<(), prometheus::Error> {
        self.0.metrics.register(metrics)
    }
}

impl Reviewer for Policies {
    fn may_review(&self, stage: Stage, request: &AdmissionRequest<'_>) -> bool {
        let installed = match stage {
            // A deletion has no object to change.
            Stage::Mutate if request.operation == Operation::Delete => return false,
            Stage::Mutate => &self.0.mutating,
            Stage::Validate => &self.0.validating,
        };
        request.resource.group() != EXEMPT && installed.now().is_none_or(|installed| installed.candidates(request).next().is_some())
    }

    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut BoxObject>,
        reinvocation: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        self.0.mutate(request, object, reinvocation).boxed()
    }

    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        self.0.validate(request, object).boxed()
    }
}

/// A policy that matches a request.
struct Invocation {
    policy: Arc<Policy>,
    /// `None`: the kind of its parameters is unknown, so that no binding can be evaluated.
    binding: Option<Arc<PolicyBinding>>,
    /// The version of the objects.
    version: usize,
    params: Params,
}

/// What the evaluations of one request share.
struct Shared {
    invocations: Vec<Invocation>,
    namespace: Value,
    rights: Rights,
    access: Access,
}

impl Shared {
    /// Returns what expressions read. It belongs to one thread.
    fn data<'d>(&'d self, shown: &'d Shown, params: &'d Value) -> Data<'d> {
        Data {
            object: &shown.object,
            old: &shown.old,
            request: &shown.request,
            params,
            namespace: &self.namespace,
            authorizer: Rc::new(self.rights.clone()),
            resource: self.access.clone(),
        }
    }
}

impl Inner {
    /// Returns the policies that match, with all that their expressions read. `None`: no policy matches.
    async fn shared(
        &self,
        installed: &Installed,
        request: &AdmissionRequest<'_>,
        versions: &Versions<'_>,
        object: Option<&dyn Object>,
    ) -> Result<Option<Shared>, ApiError> {
        let resources = self.registry.resources();
        let seen = versions.request(request, object);
        let mut invocations = Vec::new();
        for Bound { policy, bindings } in installed.candidates(request) {
            let Some(version) = self.registry.matched_version(&policy.constraints, request, versions, object).await? else { continue };
            let params = match &policy.param_kind {
                None => None,
                Some(kind) => match params::resource_of(kind, &resources) {
                    Ok(resource) => Some(resource),
                    Err(error) => {
                        let (policy, params) = (Arc::clone(policy), Params::Missing(error));
                        invocations.push(Invocation { policy, binding: None, version, params });
                        continue;
                    }
                },
            };
            for binding in bindings {
                let is_matched = match &binding.constraints {
                    None => true,
                    Some(constraints) => self.registry.matched_version(constraints, request, versions, object).await?.is_some(),
                };
                if !is_matched {
                    continue;
                }
                let params = match (params, &binding.params) {
                    (Some(resource), Some(of)) => params::read(&self.registry, resource, of, seen.namespace).await?,
                    // A binding without parameters, or parameters of a policy that reads none.
                    _ => Params::Found(vec![Value::Null]),
                };
                invocations.push(Invocation { policy: Arc::clone(policy), binding: Some(Arc::clone(binding)), version, params });
            }
        }
        if invocations.is_empty() {
            return Ok(None);
        }
        let namespace = if seen.is_namespace() { "" } else { seen.namespace };
        Ok(Some(Shared {
            invocations,
            namespace: params::namespace(&self.registry, namespace).await?,
            rights: self.registry.rights(request).await,
            access: seen.access(),
        }))
    }

    async fn validate(&self, request: &AdmissionRequest<'_>, object: Option<&dyn Object>) -> Result<Remarks, ApiError> {
        let installed = self.validating.current().await?;
        let resources = self.registry.resources();
        let versions = Versions::of(request, &resources);
        let Some(shared) = self.shared(&installed, request, &versions, object).await? else { return Ok(Remarks::default()) };
        let mut documents = Documents::of(&self.registry, request, &versions);
        for invocation in &shared.invocations {
            documents.read(invocation.version, object).await?;
        }
        self.evaluate(request, &documents, &shared)
    }

    fn evaluate(&self, request: &AdmissionRequest<'_>, documents: &Documents<'_>, shared: &Shared) -> Result<Remarks, ApiError> {
        let (mut remarks, mut annotations, mut denials) = (Remarks::default(), AuditAnnotations::default(), Vec::new());
        for Invocation { policy, binding, version, params } in &shared.invocations {
            let params = match params {
                Params::Found(params) => params,
                Params::Skip => continue,
                Params::Missing(error) => {
                    if policy.failure_policy == FailurePolicy::Fail {
                        denials.push(unconfigured(VALIDATING, policy, binding.as_deref(), error, "Invalid"));
                    }
                    continue;
                }
            };
            let (Some(binding), Some(shown)) = (binding, documents.known(*version)) else { continue };
            for params in params {
                let stopwatch = Stopwatch::start();
                let validated = policy.validate(&shared.data(shown, params), &mut annotations);
                let took = stopwatch.elapsed();
                validated.ignored.iter().for_each(|error| self.metrics.validated("allow", *error, policy, binding, took));
                for finding in validated.findings {
                    let FindingSource::Validation(place) = finding.source else {
                        denials.push(PolicyDenial::new(VALIDATING, policy, Some(binding), finding.message, &finding.reason));
                        continue;
                    };
                    for action in &binding.actions {
                        let name = match action {
                            ValidationAction::Deny => {
                                denials.push(PolicyDenial::new(
                                    VALIDATING,
                                    policy,
                                    Some(binding),
                                    finding.message.as_str(),
                                    &finding.reason,
                                ));
                                "deny"
                            }
                            ValidationAction::Warn => {
                                let (policy, binding, message) = (&policy.name, &binding.name, &finding.message);
                                remarks
                                    .warnings
                                    .push(format!("Validation failed for {VALIDATING} '{policy}' with binding '{binding}': {message}"));
                                "warn"
                            }
                            ValidationAction::Audit => {
                                // As upstream, the first failure of a request has the annotation.
                                if remarks.audit.iter().all(|(name, _)| name != VALIDATION_FAILURE) {
                                    let value = validation_failure(policy, binding, place, &finding.message);
                                    remarks.audit.push((VALIDATION_FAILURE.into(), value));
                                }
                                "audit"
                            }
                        };
                        self.metrics.validated(name, finding.error_type, policy, binding, took);
                    }
                }
            }
        }
        if let Some(denial) = denials.first() {
            return Err(denied(request, denial, denial.code(), remarks.warnings));
        }
        remarks.audit.extend(annotations.into_vec().into_iter().map(|(name, value)| (name.into(), value)));
        Ok(remarks)
    }

    async fn mutate(
        &self,
        request: &AdmissionRequest<'_>,
        object: Option<&mut BoxObject>,
        reinvocation: &mut Reinvocation,
    ) -> Result<Remarks, ApiError> {
        let Some(object) = object else { return Ok(Remarks::default()) };
        let installed = self.mutating.current().await?;
        let resources = self.registry.resources();
        let versions = Versions::of(request, &resources);
        let shared = self.shared(&installed, request, &versions, Some(&**object)).await?;
        if let Some(shared) = shared {
            self.change(request, object, &versions, &shared, reinvocation).await?;
        }
        Ok(Remarks::default())
    }

    async fn change(
        &self,
        request: &AdmissionRequest<'_>,
        object: &mut BoxObject,
        versions: &Versions<'_>,
        shared: &Shared,
        reinvocation: &mut Reinvocation,
    ) -> Result<(), ApiError> {
        let mut documents = Documents::of(&self.registry, request, versions);
        let mut refused = None;
        let mut refuse = |denial: PolicyDenial| refused = refused.take().or(Some(denial));
        for Invocation { policy, binding, version, params } in &shared.invocations {
            let is_fatal = policy.failure_policy == FailurePolicy::Fail;
            let params = match params {
                Params::Found(params) => params,
                Params::Skip => continue,
                Params::Missing(error) => {
                    if is_fatal {
                        refuse(unconfigured(MUTATING, policy, binding.as_deref(), error, "Forbidden"));
                    }
                    continue;
                }
            };
            let Some(binding) = binding else { continue };
            for params in params {
                let id = invocation_id(policy, binding, params);
                if !reinvocation.is_due(&id) {
                    continue;
                }
                let mut budget = MutationBudget::default();
                let (mut is_matched, mut is_changed) = (false, false);
                for place in 0..policy.mutation_count() {
                    let stopwatch = Stopwatch::start();
                    let shown = documents.read(*version, Some(&**object)).await?;
                    let mutated = {
                        let data = shared.data(shown, params);
                        if !is_matched {
                            match policy.conditions.evaluate(&data).matching {
                                Matching::Yes => is_matched = true,
                                Matching::No => break,
                                Matching::Failed(message, _) => {
                                    refuse(PolicyDenial::new(MUTATING, policy, Some(binding), message, "Invalid"));
                                    break;
                                }
                            }
                        }
                        policy.mutate(place, &data, &mut budget)
                    };
                    let resource = versions.resource(*version);
                    let changed = match mutated {
                        None => break,
                        Some(Mutated::Failed(message, error)) => Err((message, error)),
                        Some(Mutated::Changed(Change::Apply(fields))) => unfit(request.merged(&shown.object, &fields, resource)),
                        Some(Mutated::Changed(Change::Patch(operations))) => unfit(request.patched(&shown.object, &operations)),
                    };
                    let error = changed.as_ref().err().map_or(ErrorType::None, |(_, error)| *error);
                    self.metrics.mutated(error, policy, binding, stopwatch.elapsed());
                    match changed {
                        Ok(None) => (),
                        Ok(Some(document)) => {
                            let mut new = self.registry.object_of(request, document, resource).await?;
                            request.restore_identity(&mut *new, &**object);
                            new.set_defaults();
                            if !new.same_as(&**object) {
                                *object = new;
                                documents.object_changed();
                                is_changed = true;
                            }
                        }
                        Err((message, _)) if is_fatal => refuse(PolicyDenial::new(MUTATING, policy, Some(binding), message, "Invalid")),
                        Err((message, _)) => {
                            tracing::debug!("policy {} cannot change the object, which its failure policy ignores: {message}", policy.name);
                        }
                    }
                }
                if is_changed {
                    reinvocation.changed();
                }
                if is_matched && policy.is_reinvoked {
                    reinvocation.called(&id);
                }
            }
        }
        // Upstream answers 403, whatever the reason is.
        refused.map_or(Ok(()), |denial| Err(denied(request, &denial, 403, Vec::new())))
    }
}

/// `Ok(None)`: the object stays as it is.
fn unfit(changed: Result<Value, ChangeError>) -> Result<Option<Value>, (String, ErrorType)> {
    match changed {
        Ok(document) => Ok(Some(document)),
        Err(ChangeError::TestFailed) => Ok(None),
        Err(ChangeError::Unfit(message)) => Err((message, ErrorType::Invalid)),
    }
}

fn invocation_id(policy: &Policy, binding: &PolicyBinding, params: &Value) -> String {
    let text = |pointer: &str| params.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}/{}/{}", policy.name, binding.name, text("/metadata/namespace"), text("/metadata/name"))
}

/// Returns the rejection of a request whose policy cannot be evaluated.
fn unconfigured(
    kind: &'static str,
    policy: &Policy,
    binding: Option<&PolicyBinding>,
    error: &berth_admission::ParamsError,
    reason: &str,
) -> PolicyDenial {
    let what = if binding.is_some() { "binding" } else { "policy" };
    PolicyDenial::new(kind, policy, binding, format!("failed to configure {what}: {error}"), reason)
}

fn denied(request: &AdmissionRequest<'_>, denial: &PolicyDenial, code: u16, warnings: Vec<String>) -> ApiError {
    let (name, text) = (request.name, denial.to_string());
    // A message of upstream's errors about mutations does not name the object.
    let message = if text.starts_with(VALIDATING) {
        format!("{} {name:?} is forbidden: {text}", request.resource.group_resource())
    } else {
        text.clone()
    };
    let details = DenialDetails {
        name: name.to_owned(),
        group: request.resource.group().to_string(),
        kind: request.resource.plural().to_string(),
        causes: vec![DenialCause { message: text, ..DenialCause::default() }],
        ..DenialDetails::default()
    };
    ApiError::Denied { code, reason: denial.reason.clone(), message, details: Some(Box::new(details)), warnings }
}
