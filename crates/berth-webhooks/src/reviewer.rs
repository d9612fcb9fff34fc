//! Calls the webhooks that match a write.

use crate::{
    client::Caller,
    configurations::Configurations,
    metrics::Metrics,
    services::{ServiceAddresses, Services},
};
use berth_admission::{Client, Reinvocation, Webhook};
use berth_api::Object;
use berth_identity::GroupVersionResource;
use berth_kinds::ConversionWebhook;
use berth_registry::{AdmissionRequest, ApiError, BoxObject, Converter, Following, Registry, Remarks, Reviewer, Stage, resource::built_in};
use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The group of the objects that no webhook reviews, so that a broken configuration can be removed.
const EXEMPT: &str = "admissionregistration.k8s.io";

/// What happens to reviews by webhooks whose Service has only simulated pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimulatedWebhooks {
    /// The call fails, and their failure policy decides.
    #[default]
    Call,
    /// Each request is allowed without a call, and nothing changes.
    Allow,
}

/// How webhooks are called.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The addresses of Services.
    pub services: ServiceAddresses,
    /// What happens to reviews by simulated webhooks.
    pub simulated: SimulatedWebhooks,
}

/// A reviewer that calls the webhooks in the store. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) registry: Registry,
    pub(crate) mutating: Following<Configurations>,
    pub(crate) validating: Following<Configurations>,
    pub(crate) caller: Caller,
    pub(crate) metrics: Metrics,
    simulated: SimulatedWebhooks,
    /// The webhooks that a log entry names as simulated. Locked briefly.
    logged: Mutex<BTreeSet<String>>,
}

impl Webhooks {
    /// Returns a reviewer of the writes through a registry. `registry` reads what webhooks depend on.
    #[must_use]
    pub fn new(registry: Registry, options: Options) -> Self {
        let configurations = |plural: &'static str| {
            let name = GroupVersionResource::from_static(EXEMPT, "v1", plural);
            registry.follow(built_in().find(&name).into_iter().cloned().collect())
        };
        Self(Arc::new(Inner {
            mutating: configurations("mutatingwebhookconfigurations"),
            validating: configurations("validatingwebhookconfigurations"),
            caller: Caller::new(Services { named: options.services, registry: registry.clone() }),
            metrics: Metrics::new(),
            simulated: options.simulated,
            logged: Mutex::default(),
            registry,
        }))
    }

    /// Registers upstream's metrics of webhooks.
    ///
    /// # Errors
    /// A metric of this name exists.
    pub fn register(&self, metrics: &prometheus::Registry) -> Result<(), prometheus::Error> {
        self.0.metrics.register(metrics)
    }
}

impl Reviewer for Webhooks {
    fn may_review(&self, stage: Stage, request: &AdmissionRequest<'_>) -> bool {
        let configurations = match stage {
            Stage::Mutate => &self.0.mutating,
            Stage::Validate => &self.0.validating,
        };
        request.resource.group() != EXEMPT && configurations.now().is_none_or(|configurations| !configurations.is_empty())
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

impl Converter for Webhooks {
    fn convert<'a>(
        &'a self,
        webhook: &'a ConversionWebhook,
        objects: Vec<Value>,
        to: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        self.0.convert(webhook, objects, to).boxed()
    }
}

/// How many webhooks the log names as simulated.
const LOGGED_MAX: usize = 1000;

impl Inner {
    /// Whether each review by the server of this client is allowed without a call.
    pub(crate) async fn is_allowed_unseen(&self, client: &Client) -> bool {
        self.simulated == SimulatedWebhooks::Allow && self.caller.is_simulated(client).await
    }

    /// Logs once that the requests of a webhook are allowed without a call.
    pub(crate) fn log_unseen(&self, webhook: &Webhook) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_MAX && logged.insert(webhook.id()) {
            tracing::warn!(
                "the Service of webhook {:?} of {:?} has only simulated pods: its requests are allowed (--simulated-webhooks=allow)",
                webhook.name,
                webhook.configuration
            );
        }
    }
}
