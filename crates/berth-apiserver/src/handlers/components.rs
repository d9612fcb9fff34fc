//! The health of the parts of the control plane, as objects. They are computed for each request.

use super::{Exchange, with_warnings};
use crate::{answer::Answer, path::ResourcePath, status::Refusal};
use berth_identity::GroupResource;
use berth_registry::{ApiError, Collection, Current, Registry, Resource};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

const DEPRECATED: &str = "v1 ComponentStatus is deprecated in v1.19+";
/// The parts, in the order of the list.
const COMPONENTS: [&str; 3] = ["controller-manager", "scheduler", "etcd-0"];

/// Handles a request for them.
pub(super) async fn answer(exchange: &Exchange<'_>, at: &ResourcePath<'_>, resource: &Arc<Resource>) -> Result<Answer, Refusal> {
    if at.namespace.is_some() || at.subresource.is_some() {
        return Err(ApiError::UnknownResource.into());
    }
    if *exchange.method != Method::GET {
        return Err(ApiError::MethodNotAllowed.into());
    }
    if at.legacy_watch || exchange.query.watch() {
        let message = format!("watch is not supported on resources of kind \"{}\"", resource.plural());
        return Err(ApiError::NotServed { message }.into());
    }
    let wishes = exchange.wishes()?;
    let mut objects = Vec::new();
    for name in COMPONENTS.into_iter().filter(|name| at.name.as_deref().is_none_or(|wanted| wanted == *name)) {
        objects.push(component(exchange, name).await);
    }
    let collection = Collection { resource: Arc::clone(resource), namespace: None };
    let answer = match at.name.as_deref() {
        None => wishes.list(resource, Registry::list_of_computed(&collection, &exchange.query.list_options()?, &objects)?)?,
        Some(name) => {
            // Upstream prints the singular here.
            let resource_name = GroupResource { plural: resource.names().singular.clone(), ..resource.group_resource().clone() };
            let object = objects.pop().ok_or_else(|| ApiError::NotFound { resource: resource_name, name: name.to_owned() })?;
            wishes.object(StatusCode::OK, resource, None, &Current::Made(object))?
        }
    };
    Ok(with_warnings(answer, &[DEPRECATED.to_owned()]))
}

async fn component(exchange: &Exchange<'_>, name: &str) -> Value {
    let (status, message) = match exchange.shared.readiness.component(name).await {
        Some(Ok(())) => ("True", "ok".to_owned()),
        Some(Err(why)) => ("False", why.to_string()),
        None => ("Unknown", "it is not a part of this server".to_owned()),
    };
    json!({
        "apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": status, "message": message}],
    })
}
