//! Calls the webhooks that match one write.
//!
//! Source: kubernetes `apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`, version 1.36.

use crate::{
    failure::CallFailure,
    metrics::{Called, Outcome},
    reviewer::Inner,
};
use berth_admission::{
    AdmissionReview, Data, Denial, FailurePolicy, Hook, Matching, Reinvocation, ReviewFault, Rights, Verdict, Webhook, read_verdict,
};
use berth_api::Object;
use berth_registry::{AdmissionRequest, ApiError, BoxObject, Documents, Remarks, Resource, Shown, Versions, patch};
use futures::future::join_all;
use serde_json::{Value, json};
use std::{
    fmt,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// One write on its way through the webhooks of a kind.
#[derive(Clone, Copy)]
struct Round<'r> {
    inner: &'r Inner,
    hook: Hook,
    /// The second round has the number 1.
    number: u8,
    request: &'r AdmissionRequest<'r>,
    versions: &'r Versions<'r>,
}

/// A webhook that matches.
struct Match<'c> {
    webhook: &'c Webhook,
    /// Its place among all mutating webhooks, or among the validating webhooks that match. Annotations have it.
    index: usize,
    /// The place of the version that it matches.
    version: usize,
}

/// A call that has ended.
struct Answered {
    took: Duration,
    verdict: Result<Verdict, CallError>,
}

/// Why a call has no verdict.
enum CallError {
    Call(CallFailure),
    Answer(ReviewFault),
}

impl CallError {
    /// Returns the code for metrics.
    fn code(&self) -> u16 {
        match self {
            Self::Call(failure) => failure.code(),
            Self::Answer(fault) => fault.code(),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(failure) => failure.fmt(f),
            Self::Answer(fault) => fault.fmt(f),
        }
    }
}

impl Inner {
    /// Calls the mutating webhooks that match, one after another. Each one sees the changes of those before it.
    pub(crate) async fn mutate(
        &self,
        request: &AdmissionRequest<'_>,
        mut object: Option<&mut BoxObject>,
        reinvocation: &mut Reinvocation,
    ) -> Result<Remarks, ApiError> {
        let configurations = self.mutating.current().await?;
        let resources = self.registry.resources();
        let versions = Versions::of(request, &resources);
        let number = u8::from(reinvocation.is_second());
        let round = Round { inner: self, hook: Hook::Mutating, number, request, versions: &versions };
        let mut documents = Documents::of(&self.registry, request, &versions);
        let mut remarks = Remarks::default();
        for (index, webhook) in configurations.webhooks().enumerate() {
            let current = object.as_deref().map(|object| &**object);
            let Some(version) = round.matched(webhook, current, &mut documents).await? else { continue };
            let id = webhook.id();
            // As upstream, after the conditions: one that cannot be evaluated fails the request in each round.
            if !reinvocation.is_due(&id) {
                continue;
            }
            let matched = Match { webhook, index, version };
            let shown = documents.read(version, current).await?;
            let answered = round.ask(&matched, shown).await;
            let changed = round.changed(&matched, shown, current, answered, &mut remarks).await;
            let changed = changed.map_err(|error| error.warned_before(&[&remarks.warnings]))?;
            round.note_mutation(&matched, changed.is_some(), &mut remarks);
            if let (Some(changed), Some(object)) = (changed, &mut object) {
                **object = changed;
                documents.object_changed();
                reinvocation.changed();
            }
            if webhook.is_reinvoked {
                reinvocation.called(&id);
            }
        }
        Ok(remarks)
    }

    /// Calls the validating webhooks that match, all at once.
    pub(crate) async fn validate(&self, request: &AdmissionRequest<'_>, object: Option<&dyn Object>) -> Result<Remarks, ApiError> {
        let configurations = self.validating.current().await?;
        let resources = self.registry.resources();
        let versions = Versions::of(request, &resources);
        let round = Round { inner: self, hook: Hook::Validating, number: 0, request, versions: &versions };
        let mut documents = Documents::of(&self.registry, request, &versions);
        let mut matches = Vec::new();
        for webhook in configurations.webhooks() {
            if let Some(version) = round.matched(webhook, object, &mut documents).await? {
                documents.read(version, object).await?;
                matches.push(Match { webhook, index: matches.len(), version });
            }
        }
        let shown = matches.iter().filter_map(|matched| Some((matched, documents.known(matched.version)?)));
        let answers = join_all(shown.map(async |(matched, shown)| (matched, round.ask(matched, shown).await))).await;
        let (mut remarks, mut refused) = (Remarks::default(), None);
        for (matched, Answered { took, verdict }) in answers {
            match round.settle(matched, took, verdict, &mut remarks) {
                Ok(None) => (),
                Ok(Some(verdict)) => {
                    round.record(matched.webhook, took, Outcome::Allowed);
                    note(matched.webhook, verdict, &mut remarks);
                }
                // The first one in order, so that the same request has the same error.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            None => Ok(remarks),
            Some(error) => Err(error.warned_before(&[&remarks.warnings])),
        }
    }
}

impl<'r> Round<'r> {
    /// Returns the version that the webhook matches. `None`: it is not called.
    async fn matched(
        &self,
        webhook: &Arc<Webhook>,
        object: Option<&dyn Object>,
        documents: &mut Documents<'_>,
    ) -> Result<Option<usize>, ApiError> {
        let found = self.inner.registry.matched_version(&webhook.constraints, self.request, self.versions, object).await?;
        let Some(version) = found else { return Ok(None) };
        if !webhook.conditions.is_empty() {
            let rights = self.inner.registry.rights(self.request).await;
            if !self.conditions_hold(webhook, documents.read(version, object).await?, rights)? {
                return Ok(None);
            }
        }
        if self.inner.is_allowed_unseen(&webhook.client).await {
            self.inner.log_unseen(webhook);
            return Ok(None);
        }
        Ok(Some(version))
    }

    /// Evaluates the match conditions of a webhook.
    fn conditions_hold(&self, webhook: &Webhook, shown: &Shown, rights: Rights) -> Result<bool, ApiError> {
        let began = Instant::now();
        let result = webhook.conditions.evaluate(&Data {
            object: &shown.object,
            old: &shown.old,
            request: &shown.request,
            params: &Value::Null,
            namespace: &Value::Null,
            authorizer: Rc::new(rights),
            resource: self.versions.request(self.request, None).access(),
        });
        self.inner.metrics.evaluated(self.called(webhook), began.elapsed(), &result);
        match result.matching {
            Matching::Yes => Ok(true),
            Matching::No => Ok(false),
            Matching::Failed(why, _) => Err(self.request.forbidden(&why)),
        }
    }

    async fn ask(&self, matched: &Match<'_>, shown: &Shown) -> Answered {
        let began = Instant::now();
        let Match { webhook, version, .. } = matched;
        let (uid, options, seen) =
            (self.inner.registry.new_uid(), self.request.options_document(), self.versions.request(self.request, None));
        let review = AdmissionReview {
            version: webhook.review_version,
            uid: &uid,
            request: &seen,
            matched: self.versions.form(*version),
            namespace: seen.namespace,
            user: self.request.author(),
            object: &shown.object,
            old: &shown.old,
            is_dry_run: self.request.is_dry_run,
            options: &options,
        };
        let verdict = match self.inner.caller.call(&webhook.client, review.encode(), webhook.timeout).await {
            Ok(answer) => read_verdict(webhook.review_version, &uid, self.hook, &answer.body).map_err(CallError::Answer),
            Err(failure) => Err(CallError::Call(failure)),
        };
        Answered { took: began.elapsed(), verdict }
    }

    /// Returns the object that a mutating webhook makes of `object`. `None`: it stays as it is.
    async fn changed(
        &self,
        matched: &Match<'_>,
        shown: &Shown,
        object: Option<&dyn Object>,
        answered: Answered,
        remarks: &mut Remarks,
    ) -> Result<Option<BoxObject>, ApiError> {
        let Answered { took, verdict } = answered;
        let Some(mut verdict) = self.settle(matched, took, verdict, remarks)? else { return Ok(None) };
        let changed = match verdict.patch.take() {
            None => Ok(None),
            Some(changes) => self.patched(matched, shown, object, &changes).await.map(Some),
        };
        let outcome = if changed.is_ok() { Outcome::Allowed } else { Outcome::Unusable };
        self.record(matched.webhook, took, outcome);
        note(matched.webhook, verdict, remarks);
        Ok(changed?.filter(|changed| object.is_some_and(|object| !changed.same_as(object))))
    }

    /// Applies the patch of a webhook. The result has its defaults.
    async fn patched(
        &self,
        matched: &Match<'_>,
        shown: &Shown,
        object: Option<&dyn Object>,
        changes: &[u8],
    ) -> Result<BoxObject, ApiError> {
        let internal = |message: String| ApiError::Internal { message };
        let Some(object) = object else {
            let name = &matched.webhook.name;
            let why = "attempted to modify the object, which is not supported for this operation";
            return Err(internal(format!("admission webhook {name:?} {why}")));
        };
        let version: &Resource = self.versions.resource(matched.version);
        let patched = patch::json_with_reason(&shown.object, changes).map_err(|error| internal(error.to_string()))?;
        let mut changed = self.inner.registry.object_of(self.request, patched, version).await?;
        self.request.restore_identity(&mut *changed, object);
        changed.set_defaults();
        Ok(changed)
    }

    /// Returns the verdict, or `None` if the failure policy ignores a failed call. Records rejections and ignored
    /// failures.
    fn settle(
        &self,
        matched: &Match<'_>,
        took: Duration,
        verdict: Result<Verdict, CallError>,
        remarks: &mut Remarks,
    ) -> Result<Option<Verdict>, ApiError> {
        let webhook = matched.webhook;
        match verdict {
            Ok(mut verdict) => match verdict.denial.take() {
                None => Ok(Some(verdict)),
                Some(denial) => {
                    self.record(webhook, took, Outcome::Denied(denial.code));
                    Err(denied(webhook, denial, verdict.warnings))
                }
            },
            Err(error) if webhook.failure_policy == FailurePolicy::Ignore => {
                self.record(webhook, took, Outcome::Ignored(error.code()));
                tracing::debug!("failed calling webhook {:?}, which its failure policy ignores: {error}", webhook.name);
                let stage = if self.hook == Hook::Mutating { "mutation" } else { "validating" };
                let key = format!("failed-open.{stage}.webhook.admission.k8s.io/round_{}_index_{}", self.number, matched.index);
                remarks.audit.push((key.into(), webhook.name.clone()));
                Ok(None)
            }
            Err(error) => {
                self.record(webhook, took, Outcome::Failed(error.code()));
                Err(ApiError::Internal { message: format!("failed calling webhook {:?}: {error}", webhook.name) })
            }
        }
    }

    fn record(&self, webhook: &Webhook, took: Duration, outcome: Outcome) {
        self.inner.metrics.called(self.called(webhook), took, outcome);
    }

    fn called<'w>(&self, webhook: &'w Webhook) -> Called<'w> {
        let kind = if self.hook == Hook::Mutating { "admit" } else { "validating" };
        Called { name: &webhook.name, kind, operation: berth_admission::Operation::from(self.request.operation).as_str() }
    }

    /// Adds the annotation of a call that can change an object.
    fn note_mutation(&self, matched: &Match<'_>, is_changed: bool, remarks: &mut Remarks) {
        let Match { webhook, index, .. } = matched;
        let key = format!("mutation.webhook.admission.k8s.io/round_{}_index_{index}", self.number);
        let value = json!({"configuration": webhook.configuration, "webhook": webhook.name, "mutated": is_changed});
        remarks.audit.push((key.into(), value.to_string()));
    }
}

fn denied(webhook: &Webhook, denial: Denial, warnings: Vec<String>) -> ApiError {
    let Denial { code, explanation, reason, details } = denial;
    let why = explanation.map_or_else(|| " without explanation".to_owned(), |explanation| format!(": {explanation}"));
    let message = format!("admission webhook {:?} denied the request{why}", webhook.name);
    ApiError::Denied { code, reason, message, details: details.map(Box::new), warnings }
}

/// Adds the warnings and annotations of a verdict.
fn note(webhook: &Webhook, verdict: Verdict, remarks: &mut Remarks) {
    remarks.warnings.extend(verdict.warnings);
    let annotations = verdict.annotations.into_iter().map(|(key, value)| (format!("{}/{key}", webhook.name).into(), value));
    remarks.audit.extend(annotations);
}
