//! The usage of pods and nodes, which is computed and not stored.

use super::Exchange;
use crate::{
    answer::{self, Answer},
    path::ResourcePath,
    status::Refusal,
};
use berth_api::Scope;
use berth_registry::{ApiError, Collection, Resource, Target, usage};
use hyper::{Method, StatusCode};
use std::sync::Arc;

/// Handles a request for the usage of pods or nodes.
pub(super) async fn answer(exchange: &Exchange<'_>, at: &ResourcePath<'_>, resource: &Arc<Resource>) -> Result<Answer, Refusal> {
    let is_namespaced = resource.scope == Scope::Namespaced;
    if at.subresource.is_some()
        || (!is_namespaced && at.namespace.is_some())
        || (is_namespaced && at.name.is_some() && at.namespace.is_none())
    {
        return Err(ApiError::UnknownResource.into());
    }
    if *exchange.method != Method::GET || at.legacy_watch || exchange.query.watch() {
        return Err(ApiError::MethodNotAllowed.into());
    }
    let wishes = exchange.wishes()?;
    let namespace = at.namespace.as_deref().map(ToOwned::to_owned);
    if let Some(name) = &at.name {
        let target = Target { resource: Arc::clone(resource), namespace, name: name.to_string(), subresource: None };
        let current = exchange.registry().get_usage(exchange.actor(), &target, &exchange.query.get_options()).await?;
        return wishes.object(StatusCode::OK, resource, None, &current);
    }
    let (registry, actor) = (exchange.registry(), exchange.actor());
    let collection = Collection { resource: Arc::clone(resource), namespace };
    let measured = registry.list_measured(actor, &collection, &exchange.query.list_options()?).await?;
    // Reserved before the computation, whose result exists only for this response.
    let memory = exchange.memory(wishes.cost_of_deleted() + usage::cost(&measured)).await?;
    let list = registry.list_usage(actor, resource, measured).await?;
    Ok(answer::keeping(wishes.list(resource, list)?, memory))
}
