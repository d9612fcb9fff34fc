//! Reads parameters and namespaces.

use berth_admission::{NotFound, ParamKind, ParamQuery, ParamRef, ParamsError};
use berth_api::Scope;
use berth_identity::{GroupVersionKind, GroupVersionResource};
use berth_registry::{
    Actor, ApiError, Collection, Current, GetOptions, ListOptions, Registry, Resource, Resources, Target, resource::built_in,
};
use serde_json::Value;
use std::sync::Arc;

/// How many objects a binding can select as parameters. Each costs an evaluation while the request waits.
const PARAMS_MAX: u16 = 1_000;

/// The parameters of one binding.
#[derive(Clone, Debug)]
pub(crate) enum Params {
    /// One evaluation for each of these. `null`: without parameters.
    Found(Vec<Value>),
    /// The policy does not apply.
    Skip,
    /// There are none, for this reason.
    Missing(ParamsError),
}

/// Returns the resource of the parameters.
pub(crate) fn resource_of<'r>(kind: &ParamKind, resources: &'r Resources) -> Result<&'r Arc<Resource>, ParamsError> {
    let found = GroupVersionKind::parse(&kind.api_version, kind.kind.as_str()).ok().and_then(|kind| resources.by_kind(&kind));
    found.filter(|resource| resource.is_stored()).ok_or_else(|| ParamsError::UnknownKind(kind.clone()))
}

/// Reads the parameters of a binding for a request in a namespace (empty: in none).
pub(crate) async fn read(registry: &Registry, resource: &Arc<Resource>, params: &ParamRef, namespace: &str) -> Result<Params, ApiError> {
    let query = match params.query(resource.scope == Scope::Namespaced, namespace) {
        Ok(query) => query,
        Err(error) => return Ok(Params::Missing(error)),
    };
    let found = match query {
        ParamQuery::Null => return Ok(Params::Found(vec![Value::Null])),
        ParamQuery::One { namespace, name } => object(registry, resource, namespace, name).await?.into_iter().collect(),
        ParamQuery::Selected { namespace, selector } => {
            let at = Collection { resource: Arc::clone(resource), namespace: namespace.map(str::to_owned) };
            let limit = i64::from(PARAMS_MAX) + 1;
            let options = ListOptions { label_selector: selector.to_string(), limit, ..ListOptions::default() };
            let list = registry.list(&Actor::System, &at, &options).await?;
            if usize::from(PARAMS_MAX) < list.items.len() {
                return Ok(Params::Missing(ParamsError::TooMany(PARAMS_MAX)));
            }
            list.items.into_iter().map(|entry| value(Current::Stored(entry))).collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(match (found.is_empty(), params.not_found) {
        (false, _) => Params::Found(found),
        (true, NotFound::Allow) => Params::Skip,
        (true, NotFound::Deny) => Params::Missing(ParamsError::NotFound),
    })
}

/// Reads the namespace of a request. A missing one is `null`.
pub(crate) async fn namespace(registry: &Registry, name: &str) -> Result<Value, ApiError> {
    let namespaces = built_in().find(&GroupVersionResource::from_static("", "v1", "namespaces"));
    let Some(namespaces) = namespaces.filter(|_| !name.is_empty()) else { return Ok(Value::Null) };
    Ok(object(registry, namespaces, None, name).await?.unwrap_or_default())
}

async fn object(registry: &Registry, resource: &Arc<Resource>, namespace: Option<&str>, name: &str) -> Result<Option<Value>, ApiError> {
    let target =
        Target { resource: Arc::clone(resource), namespace: namespace.map(str::to_owned), name: name.to_owned(), subresource: None };
    match registry.get(&target, &GetOptions::default()).await {
        Ok(found) => value(found).map(Some),
        Err(ApiError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn value(found: Current) -> Result<Value, ApiError> {
    match found {
        Current::Stored(entry) => serde_json::from_slice(&entry.value).map_err(|error| ApiError::Internal { message: error.to_string() }),
        Current::Made(value) => Ok(value),
    }
}
