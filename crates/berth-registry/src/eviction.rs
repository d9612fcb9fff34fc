//! Evictions: deletions of pods that respect disruption budgets.

use crate::{
    Actor, ApiError, Body, Current, DeleteOptions, Registry, Subresource, Target, WriteOptions, Written,
    admission::{Admission, At, Remarks},
    binding::set_condition,
    checks::{self, Mode, Verb},
    delete::check_precondition,
    error::Cause,
    key,
    modify::{Change, Proposal, check_namespace},
    options::Precondition,
    ownership::Owners,
    resource,
    stamps::whole_seconds,
    stored::{self, Stored},
};
use berth_api::{
    Selector,
    k8s_openapi::{
        api::{
            core::v1::{Pod, PodCondition},
            policy::v1::{Eviction, PodDisruptionBudget, PodDisruptionBudgetStatus},
        },
        apimachinery::pkg::apis::meta::v1::{Condition, DeleteOptions as WireDeleteOptions, ObjectMeta, Time},
    },
};
use berth_store::{RangeRequest, env::Timestamp};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// The retry interval while a budget's status is not of its newest spec.
const UNSYNCED_RETRY_SECONDS: u32 = 10;

impl Registry {
    /// POST `pods/NAME/eviction`.
    pub(crate) async fn create_eviction(
        &self,
        actor: &Actor,
        target: &Target,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let checked = checks::write_options(Verb::Create, options)?;
        let eviction = decoded(target, body)?;
        let wanted = delete_options(&eviction);
        let mode = if wanted.dry_run.is_empty() { checked.mode } else { checks::delete_options(&wanted)?.mode };
        let author = self.author(actor, options, Some(Subresource::Eviction));
        let mut admission = Admission::create(At::of(target, mode), author, Box::new(eviction), Owners::Unchanged);
        self.admit(&mut admission).await?;
        self.chain.validate(&mut admission).await?;
        let eviction: &Eviction = admission.object.downcast_ref().ok_or(ApiError::UnknownResource)?;
        let pod = Target { subresource: None, ..target.clone() };
        // The rest is part of the eviction. Reviewers are not called again, while the budget is charged.
        self.reviewed().evict(actor, &pod, delete_options(eviction), mode).await?;
        let object = Current::Made(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
        let Remarks { warnings, audit } = admission.remarks;
        Ok(Written { object, created: true, warnings, audit })
    }

    async fn evict(&self, actor: &Actor, pod: &Target, options: DeleteOptions, mode: Mode) -> Result<(), ApiError> {
        let old = self.storage.load(pod).await?;
        check_precondition(pod, &old, &options.precondition)?;
        let done = self.remove_evicted(actor, pod, &old, options, mode).await;
        let Err(error) = &done else { return Ok(()) };
        if self.is_gone(pod, &old, error).await? { Ok(()) } else { done }
    }

    /// Whether the pod is deleted, even if another pod has its name. The eviction has succeeded then.
    async fn is_gone(&self, pod: &Target, old: &Stored, error: &ApiError) -> Result<bool, ApiError> {
        if !matches!(error, ApiError::NotFound { .. } | ApiError::Conflict { .. }) {
            return Ok(false);
        }
        match self.storage.load(pod).await {
            Ok(now) => Ok(now.object.meta().uid != old.object.meta().uid),
            Err(ApiError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn remove_evicted(&self, actor: &Actor, pod: &Target, old: &Stored, options: DeleteOptions, mode: Mode) -> Result<(), ApiError> {
        if self.ask_budget(actor, pod, old, mode).await? {
            self.mark_disrupted(actor, pod, old, mode).await?;
        }
        let dry_run = if mode == Mode::Dry { vec!["All".to_owned()] } else { Vec::new() };
        // The condition has changed the resource version, which was checked before. The uid still identifies the pod.
        let precondition = Precondition { uid: old.object.meta().uid.clone(), resource_version: None };
        self.delete(actor, pod, &DeleteOptions { dry_run, precondition, ..options }).await.map(drop)
    }

    /// Charges the eviction to the pod's budget. Returns `false` if the pod needs no budget and no condition.
    ///
    /// # Errors
    /// [`ApiError::TooManyRequests`] if the budget allows no disruption, [`ApiError::NotSupported`] for a pod with two
    /// budgets.
    async fn ask_budget(&self, actor: &Actor, pod: &Target, old: &Stored, mode: Mode) -> Result<bool, ApiError> {
        let object: &Pod = old.object.downcast_ref().ok_or(ApiError::UnknownResource)?;
        if needs_no_budget(object) {
            return Ok(false);
        }
        let budgets = self.budgets_of(pod, object).await?;
        let [budget] = budgets.as_slice() else {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.".to_owned();
            return if budgets.is_empty() { Ok(true) } else { Err(ApiError::NotSupported { message }) };
        };
        let now = whole_seconds(self.storage.clock.now());
        let is_ready = is_ready(object);
        let options = WriteOptions::default();
        let by = Change { mode, precondition: &options.precondition, author: self.author(actor, &options, budget.subresource) };
        self.modify(budget, by, |stored| {
            let mut object = stored.object.clone_object();
            let budget: &mut PodDisruptionBudget = object.downcast_mut().ok_or(ApiError::UnknownResource)?;
            if is_ready || !lets_unready_go(budget) {
                take_one(budget, &pod.name, now)?;
            }
            Ok(Proposal { object, warnings: Vec::new(), owners: Owners::Unchanged })
        })
        .await?;
        Ok(true)
    }

    /// Returns the `/status` target of each budget that selects the pod.
    async fn budgets_of(&self, target: &Target, pod: &Pod) -> Result<Vec<Target>, ApiError> {
        let budgets = resource::of::<PodDisruptionBudget>();
        let prefix = key::prefix_of(&crate::Collection { resource: Arc::clone(budgets), namespace: target.namespace.clone() });
        let range = self.storage.store.range(RangeRequest::all(prefix)).await?;
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let mut found = Vec::new();
        for entry in &range.entries {
            let object = stored::load(budgets, entry)?;
            let spec = object.downcast_ref::<PodDisruptionBudget>().and_then(|budget| budget.spec.as_ref());
            // An invalid selector selects nothing, as an absent one.
            let selector = spec.and_then(|spec| spec.selector.as_ref()).and_then(|selector| Selector::from_label_selector(selector).ok());
            if selector.is_some_and(|selector| selector.matches(&labels)) {
                found.extend(key::target_of(budgets, &entry.key).map(|target| Target { subresource: Some(Subresource::Status), ..target }));
            }
        }
        Ok(found)
    }

    /// Records the reason of the eviction in a condition, so that controllers can classify the pod's failure.
    async fn mark_disrupted(&self, actor: &Actor, pod: &Target, old: &Stored, mode: Mode) -> Result<(), ApiError> {
        let status = Target { subresource: Some(Subresource::Status), ..pod.clone() };
        let precondition = Precondition { uid: old.object.meta().uid.clone(), resource_version: None };
        let now = whole_seconds(self.storage.clock.now());
        let change = |stored: &Stored| {
            let mut object = stored.object.clone_object();
            let pod: &mut Pod = object.downcast_mut().ok_or(ApiError::UnknownResource)?;
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            set_condition(conditions, disruption_target(), now);
            Ok(Proposal { object, warnings: Vec::new(), owners: Owners::Unchanged })
        };
        let options = WriteOptions { precondition, ..WriteOptions::default() };
        let by = Change { mode, precondition: &options.precondition, author: self.author(actor, &options, status.subresource) };
        self.modify(&status, by, change).await.map(|_| ())
    }
}

/// An Eviction of `policy/v1`, or of `policy/v1beta1`, which kubectl up to 1.21 sends to any server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireEviction {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<ObjectMeta>,
    delete_options: Option<WireDeleteOptions>,
}

fn decoded(target: &Target, body: Body) -> Result<Eviction, ApiError> {
    let Body::Json(bytes) = body else { return Err(ApiError::bad_request("an Eviction is expected")) };
    let refused = |why: String| ApiError::bad_request(format!("Eviction in version \"v1\" cannot be handled as a Eviction: {why}"));
    let WireEviction { api_version, kind, metadata, delete_options } =
        serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
    let (api_version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
    if !matches!(api_version.as_str(), "" | "policy/v1" | "policy/v1beta1") || !matches!(kind.as_str(), "" | "Eviction") {
        return Err(refused(format!("no kind {kind:?} of version {api_version:?} is served at this path")));
    }
    let mut eviction = Eviction { metadata: metadata.unwrap_or_default(), delete_options };
    check_namespace(target.namespace.as_deref(), &mut eviction)?;
    if eviction.metadata.name.as_ref().is_some_and(|name| *name != target.name) {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    eviction.metadata.name = Some(target.name.clone());
    Ok(eviction)
}

fn delete_options(eviction: &Eviction) -> DeleteOptions {
    let wire = eviction.delete_options.clone().unwrap_or_default();
    let preconditions = wire.preconditions.unwrap_or_default();
    DeleteOptions {
        dry_run: wire.dry_run.unwrap_or_default(),
        grace_period_seconds: wire.grace_period_seconds,
        propagation_policy: wire.propagation_policy,
        orphan_dependents: wire.orphan_dependents,
        precondition: Precondition { uid: preconditions.uid, resource_version: preconditions.resource_version },
        is_last_unseen: true,
    }
}

/// Whether the pod serves no traffic or is terminating.
fn needs_no_budget(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Pending" | "Succeeded" | "Failed"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the budget permits the eviction of unready pods without a charge.
fn lets_unready_go(budget: &PodDisruptionBudget) -> bool {
    let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
    let status = budget.status.as_ref();
    let count = |of: fn(&PodDisruptionBudgetStatus) -> Option<i32>| status.and_then(of).unwrap_or(0);
    let (current, desired) = (count(|status| status.current_healthy), count(|status| status.desired_healthy));
    policy == Some("AlwaysAllow") || (0 < desired && desired <= current)
}

/// Takes one disruption if the budget's status is of its newest spec and has one left.
fn take_one(budget: &mut PodDisruptionBudget, pod: &str, now: Timestamp) -> Result<(), ApiError> {
    let name = budget.metadata.name.clone().unwrap_or_default();
    let generation = budget.metadata.generation.unwrap_or(0);
    let status = budget.status.get_or_insert_default();
    if status.observed_generation.unwrap_or(0) < generation {
        let text = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(text, UNSYNCED_RETRY_SECONDS));
    }
    let left = status.disruptions_allowed.unwrap_or(0);
    if left <= 0 {
        let (needed, healthy) = (status.desired_healthy.unwrap_or(0), status.current_healthy.unwrap_or(0));
        let text = format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
        return Err(refused(text, 0));
    }
    status.disruptions_allowed = Some(left - 1);
    status.disrupted_pods.get_or_insert_default().insert(pod.to_owned(), Time(now));
    if left == 1 {
        mark_exhausted(status, generation, now);
    }
    Ok(())
}

fn mark_exhausted(status: &mut PodDisruptionBudgetStatus, generation: i64, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let was = conditions.iter().find(|condition| condition.type_ == "DisruptionAllowed" && condition.status == "False");
    let last_transition_time = was.map_or(Time(now), |condition| condition.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != "DisruptionAllowed");
    conditions.push(Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: "False".to_owned(),
        reason: "InsufficientPods".to_owned(),
        observed_generation: Some(generation),
        last_transition_time,
        message: String::new(),
    });
}

fn disruption_target() -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("EvictionByEvictionAPI".to_owned()),
        message: Some("Eviction API: evicting".to_owned()),
        ..PodCondition::default()
    }
}

fn refused(cause: String, retry_after_seconds: u32) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message: cause, field: String::new() };
    ApiError::TooManyRequests { message, retry_after_seconds, causes: vec![cause] }
}
