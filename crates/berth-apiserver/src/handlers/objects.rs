//! Requests for objects: interprets path and method, then calls the registry once.

use super::{
    Exchange,
    bodies::{WORK_OF_STORED_MAX, apply_to_json, converted, read_json, read_json_for, stored_work, to_json},
    components, logs, reviews, tokens, usage,
    watches::{end_of_watch, follow_timeout, share_of_watches},
    with_warnings,
};
use crate::{
    answer::{self, Answer},
    body::{self, ResponseBody},
    flow::Charge,
    metrics::Labels,
    negotiate::{self, Form, PatchType, Syntax},
    path::{ResourcePath, Route},
    status::{Refusal, Status},
    watch::{self, Lines, WatchBody, WatchForm},
};
use berth_api::Scope;
use berth_registry::{
    ApiError, Body, Collection, Current, DeleteOptions, Deleted, Patch, Resource, Subresource, Target, WatchOptions, WriteOptions, Written,
    resource::Simulated, table::Position,
};
use futures::FutureExt as _;
use hyper::{
    Method, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, USER_AGENT},
};
use serde::Deserialize;
use std::{borrow::Cow, sync::Arc};

/// The maximum length of a field manager from the User-Agent.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Handles a request for objects.
pub(super) async fn answer(exchange: &Exchange<'_>, at: &ResourcePath<'_>, body: &mut Incoming) -> Result<Answer, Refusal> {
    let resource = &match exchange.resources.find(&at.resource) {
        Some(resource) => Arc::clone(resource),
        // Its definition may be so new that this server has not served it yet.
        None => exchange.registry().defined_lately(&at.resource).await?.ok_or_else(|| unknown(exchange, at))?,
    };
    if resource.is_review() {
        return reviews::answer(exchange, at, resource, body).boxed().await;
    }
    if resource.is_computed() {
        // The core group has the health of the server's parts, and another one the usage of pods and nodes.
        let is_core = resource.gvk().group.is_empty();
        return match is_core {
            true => components::answer(exchange, at, resource).boxed().await,
            false => usage::answer(exchange, at, resource).boxed().await,
        };
    }
    match at.name.as_deref() {
        None => collection(exchange, at, resource, body).boxed().await,
        Some(name) => object(exchange, at, resource, name, body).await,
    }
}

fn unknown(exchange: &Exchange<'_>, at: &ResourcePath<'_>) -> Refusal {
    exchange.not_served_in(&at.resource.group)
}

async fn collection(
    exchange: &Exchange<'_>,
    at: &ResourcePath<'_>,
    resource: &Arc<Resource>,
    body: &mut Incoming,
) -> Result<Answer, Refusal> {
    if resource.scope == Scope::Cluster && at.namespace.is_some() {
        return Err(wrong_scope(resource));
    }
    // Only reads can span namespaces.
    let complete = resource.scope == Scope::Cluster || at.namespace.is_some();
    let collection = Collection { resource: Arc::clone(resource), namespace: at.namespace.as_deref().map(ToOwned::to_owned) };
    match *exchange.method {
        Method::GET if at.legacy_watch || exchange.query.watch() => watch(exchange, at, collection, None).await,
        Method::GET => list(exchange, &collection).await,
        Method::POST if complete => create(exchange, &collection, body).await,
        Method::DELETE if complete && resource.is_deleted_in_bulk => delete_collection(exchange, &collection, body).await,
        Method::POST if !resource.is_built_in() => Err(wrong_scope(resource)),
        _ => Err(ApiError::MethodNotAllowed.into()),
    }
}

async fn object(
    exchange: &Exchange<'_>,
    at: &ResourcePath<'_>,
    resource: &Arc<Resource>,
    name: &str,
    body: &mut Incoming,
) -> Result<Answer, Refusal> {
    if (resource.scope == Scope::Namespaced) != at.namespace.is_some() {
        return Err(wrong_scope(resource));
    }
    let namespace = at.namespace.as_deref().map(ToOwned::to_owned);
    if let Some(simulated) = at.subresource.and_then(|path| resource.simulated(path)) {
        let target = Target { resource: Arc::clone(resource), namespace, name: name.to_owned(), subresource: None };
        return Err(refuse_simulated(exchange, &target, *simulated).await);
    }
    let subresource = at.subresource.map(|path| find_subresource(resource, name, path)).transpose()?;
    if at.legacy_watch && exchange.method == Method::GET {
        return watch(exchange, at, Collection { resource: Arc::clone(resource), namespace }, Some(name)).await;
    }
    let target = Target { resource: Arc::clone(resource), namespace, name: name.to_owned(), subresource };
    let is_view = matches!(subresource, None | Some(Subresource::Status | Subresource::Scale | Subresource::Approval));
    let is_action = matches!(subresource, Some(Subresource::Binding | Subresource::Eviction | Subresource::Log | Subresource::Token));
    // Most requests are gets. The much larger futures of other requests are boxed, so that those of gets stay small.
    match *exchange.method {
        Method::GET if is_view => get(exchange, &target).await,
        Method::GET if subresource == Some(Subresource::Log) => logs::answer(exchange, at, &target).boxed().await,
        Method::PUT if !is_action => update(exchange, &target, body).boxed().await,
        Method::PATCH if is_view => patch(exchange, &target, body).boxed().await,
        Method::DELETE if subresource.is_none() => delete(exchange, &target, body).boxed().await,
        Method::POST if subresource == Some(Subresource::Token) => tokens::request(exchange, &target, body).boxed().await,
        Method::POST if is_action && subresource != Some(Subresource::Log) => act(exchange, &target, body).boxed().await,
        _ => Err(ApiError::MethodNotAllowed.into()),
    }
}

/// Rejects a request that needs a running container, with the reason, if the object exists.
async fn refuse_simulated(exchange: &Exchange<'_>, target: &Target, simulated: Simulated) -> Refusal {
    if simulated.names_an_object
        && let Err(error) = exchange.registry().get(target, &exchange.query.get_options()).await
    {
        return error.into();
    }
    ApiError::NotServed { message: simulated.why.to_owned() }.into()
}

/// Returns the error for a path that has a namespace, or has none, unlike the paths of the resource.
fn wrong_scope(resource: &Resource) -> Refusal {
    if resource.is_built_in() { ApiError::UnknownResource.into() } else { Refusal::PageNotFound }
}

/// As upstream, an unknown subresource of a custom object is reported as if the object were missing.
fn find_subresource(resource: &Resource, name: &str, path: &str) -> Result<Subresource, ApiError> {
    let known = resource.subresources.iter().copied().find(|known| known.as_str() == path);
    let missing = || ApiError::NotFound { resource: resource.group_resource().clone(), name: name.to_owned() };
    known.ok_or_else(|| if resource.is_built_in() { ApiError::UnknownResource } else { missing() })
}

async fn get(exchange: &Exchange<'_>, target: &Target) -> Result<Answer, Refusal> {
    let wishes = exchange.wishes()?;
    let current = exchange.registry().get(target, &exchange.query.get_options()).await?;
    let memory = match &current {
        Current::Stored(entry) => exchange.memory(wishes.cost(entry.value.len())).await?,
        Current::Made(_) => None,
    };
    Ok(answer::keeping(wishes.object(StatusCode::OK, &target.resource, target.subresource, &current)?, memory))
}

async fn list(exchange: &Exchange<'_>, at: &Collection) -> Result<Answer, Refusal> {
    let wishes = exchange.wishes()?;
    let list = exchange.registry().list(exchange.actor(), at, &exchange.query.list_options()?).await?;
    let memory = exchange.memory(wishes.cost_of_list(&list.items)).await?;
    Ok(answer::keeping(wishes.list(&at.resource, list)?, memory))
}

/// Opens a watch. `name` restricts it to one object, for the deprecated `/watch/` paths.
async fn watch(exchange: &Exchange<'_>, path: &ResourcePath<'_>, at: Collection, name: Option<&str>) -> Result<Answer, Refusal> {
    let wishes = exchange.wishes()?;
    if wishes.accepted.syntax == Syntax::Yaml {
        return Err(Refusal::NotAcceptable("only the following media types are accepted: application/json;stream=watch".to_owned()));
    }
    let form = match wishes.accepted.form {
        Form::Object => WatchForm::Object,
        Form::Table => WatchForm::Table(wishes.printer(&at.resource), Position::First),
        Form::Metadata | Form::MetadataList => WatchForm::Metadata(wishes.accepted.version),
    };
    let timeout = exchange.query.watch_timeout()?.unwrap_or_else(|| follow_timeout(exchange));
    let mut options = exchange.query.watch_options()?;
    if let Some(name) = name {
        options.field_selector = format!("metadata.name={name}");
    }
    let share = share_of_watches(exchange)?;
    let selectors = room_for_selectors(exchange, &options)?;
    let events = exchange.registry().watch(exchange.actor(), &at, &options).await?;
    let route = Route::Resource(path.clone());
    let counted = exchange.shared.metrics.begin_watch(&Labels::of("WATCH", &route));
    let until = end_of_watch(exchange, timeout);
    let lines = lines_of_watch(exchange, watch::list_bytes(&events)).await?;
    let body = WatchBody { events, until, resource: at.resource, form, counted, share, selectors, lines, ended: false, audited: None };
    Ok(answer::stream(ResponseBody::Watch(Box::new(body))))
}

/// The memory of a watch per requirement and value, in bytes, besides their texts.
const REQUIREMENT_BYTES: usize = 192;
/// The size up to which selectors are not counted, because the number of watches is limited.
const SELECTOR_BYTES_UNCOUNTED: usize = 1 << 10;

/// Reserves memory for the selectors of a watch.
fn room_for_selectors(exchange: &Exchange<'_>, options: &WatchOptions) -> Result<Option<Charge>, Refusal> {
    let bytes_of = |text: &str| text.len() + REQUIREMENT_BYTES * text.bytes().filter(|byte| *byte == b',').count();
    let bytes = bytes_of(&options.label_selector) + bytes_of(&options.field_selector);
    let user = exchange.user();
    if bytes <= SELECTOR_BYTES_UNCOUNTED || user.is_master() {
        return Ok(None);
    }
    exchange.shared.selectors.take(user.share(), bytes).map(Some).ok_or(Refusal::Overloaded)
}

/// Reserves memory for the lines of a watch that begins with a list of this size.
async fn lines_of_watch(exchange: &Exchange<'_>, list_bytes: usize) -> Result<Lines, Refusal> {
    let user = exchange.user();
    let list = exchange.memory(list_bytes).await?;
    Ok(if user.is_master() { Lines::default() } else { Lines::of(&exchange.shared.memory, user.share(), list) })
}

async fn create(exchange: &Exchange<'_>, at: &Collection, body: &mut Incoming) -> Result<Answer, Refusal> {
    let wishes = exchange.wishes()?;
    negotiate::object_syntax(exchange.header(CONTENT_TYPE), &at.resource)?;
    let body = Body::Json(read_json(exchange, body).await?);
    let written = exchange.registry().create(exchange.actor(), at, body, &write_options(exchange)).await?;
    exchange.audit(|entry| entry.names(written.object.name()));
    let answer = wishes.object(StatusCode::CREATED, &at.resource, None, &written.object)?;
    Ok(with_remarks(exchange, answer, &written.warnings, &written.audit))
}

/// Handles a POST whose response is a `Status`, which has no other form.
async fn act(exchange: &Exchange<'_>, target: &Target, body: &mut Incoming) -> Result<Answer, Refusal> {
    let mut wishes = exchange.wishes()?;
    wishes.accepted.form = Form::Object;
    let body = Body::Json(read_json_for(exchange, Some(target), body).await?);
    let written = exchange.registry().create_subresource(exchange.actor(), target, body, &write_options(exchange)).await?;
    let answer = wishes.object(StatusCode::CREATED, &target.resource, target.subresource, &written.object)?;
    Ok(with_warnings(answer, &written.warnings))
}

async fn update(exchange: &Exchange<'_>, target: &Target, body: &mut Incoming) -> Result<Answer, Refusal> {
    negotiate::object_syntax(exchange.header(CONTENT_TYPE), &target.resource)?;
    let body = Body::Json(read_json_for(exchange, Some(target), body).await?);
    let written = exchange.registry().update(exchange.actor(), target, body, &write_options(exchange)).await?;
    written_answer(exchange, target, &written)
}

async fn patch(exchange: &Exchange<'_>, target: &Target, body: &mut Incoming) -> Result<Answer, Refusal> {
    let patch_type = negotiate::patch_type(exchange.header(CONTENT_TYPE), &target.resource)?;
    let bytes = body::read(exchange.headers, body).await?;
    let bytes = if patch_type == PatchType::Apply { converted(apply_to_json(bytes)?).await } else { bytes };
    exchange.begin_work(&bytes, stored_work(exchange, Some(target)).await).await?;
    exchange.audit(|entry| entry.request_body(&bytes));
    let patch = match patch_type {
        PatchType::Json => Patch::Json(bytes),
        PatchType::Merge => Patch::Merge(bytes),
        PatchType::Strategic => Patch::Strategic(bytes),
        PatchType::Apply => Patch::Apply(bytes),
    };
    // An applier must name its field manager, which owns the applied fields.
    let options = if patch_type == PatchType::Apply { exchange.query.write_options() } else { write_options(exchange) };
    let written = exchange.registry().patch(exchange.actor(), target, patch, &options).await?;
    written_answer(exchange, target, &written)
}

fn written_answer(exchange: &Exchange<'_>, target: &Target, written: &Written) -> Result<Answer, Refusal> {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let answer = exchange.wishes()?.object(code, &target.resource, target.subresource, &written.object)?;
    Ok(with_remarks(exchange, answer, &written.warnings, &written.audit))
}

/// Passes the warnings and annotations of admission to the client and the audit log.
fn with_remarks(exchange: &Exchange<'_>, answer: Answer, warnings: &[String], audit: &[(Cow<'static, str>, String)]) -> Answer {
    exchange.audit(|entry| entry.annotate(audit));
    with_warnings(answer, warnings)
}

async fn delete(exchange: &Exchange<'_>, target: &Target, body: &mut Incoming) -> Result<Answer, Refusal> {
    let wishes = exchange.wishes()?;
    let options = delete_options(exchange, body).await?;
    let resource = &target.resource;
    exchange.begin_work(&[], stored_work(exchange, Some(target)).await).await?;
    let (deleted, mut remarks) = exchange.registry().delete_with_remarks(exchange.actor(), target, &options).await?;
    let answer = match deleted {
        Deleted::Object(current) => wishes.object(StatusCode::OK, resource, None, &current)?,
        Deleted::Gone { uid, .. } => {
            answer::status(&Status::deleted(resource.group_resource(), &target.name, &uid), exchange.is_indented())
        }
    };
    remarks.warnings.extend(orphan_warning(resource, &options));
    Ok(with_remarks(exchange, answer, &remarks.warnings, &remarks.audit))
}

/// Returns the warning that a deletion orphans dependents, if the client chooses no policy.
fn orphan_warning(resource: &Resource, options: &DeleteOptions) -> Vec<String> {
    let names_no_policy = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
    let warning = resource.orphans_by_default.filter(|warning| names_no_policy && !warning.is_empty());
    warning.map(str::to_owned).into_iter().collect()
}

async fn delete_collection(exchange: &Exchange<'_>, at: &Collection, body: &mut Incoming) -> Result<Answer, Refusal> {
    let wishes = exchange.wishes()?;
    let options = delete_options(exchange, body).await?;
    // Reserved before the deletion, because it cannot be rejected afterwards.
    exchange.begin_work(&[], exchange.registry().longest(at).await.saturating_mul(WORK_OF_STORED_MAX)).await?;
    let memory = exchange.memory(wishes.cost_of_deleted()).await?;
    let deleted = exchange.registry().delete_collection(exchange.actor(), at, &exchange.query.list_options()?, &options).await?;
    let answer = answer::keeping(wishes.list(&at.resource, deleted)?, memory);
    Ok(with_warnings(answer, &orphan_warning(&at.resource, &options)))
}

fn write_options(exchange: &Exchange<'_>) -> WriteOptions {
    let mut options = exchange.query.write_options();
    if options.field_manager.is_empty() {
        options.field_manager = default_field_manager(exchange.header(USER_AGENT).unwrap_or_default()).to_owned();
    }
    options
}

/// Returns the default field manager: the program of the User-Agent.
fn default_field_manager(user_agent: &str) -> &str {
    let program = user_agent.split('/').next().unwrap_or_default();
    let end = (0..=program.len().min(FIELD_MANAGER_BYTES_MAX)).rev().find(|end| program.is_char_boundary(*end)).unwrap_or(0);
    if end == 0 { "unknown" } else { &program[..end] }
}

/// `DeleteOptions`, as clients send them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireDeleteOptions {
    kind: Option<String>,
    dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<WirePreconditions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePreconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The maximum size of delete options, in bytes. They are decoded before memory is reserved.
const DELETE_OPTIONS_BYTES_MAX: usize = 64 << 10;

/// Returns the options of a delete: those of the body if there is one, otherwise of the query.
async fn delete_options(exchange: &Exchange<'_>, body: &mut Incoming) -> Result<DeleteOptions, Refusal> {
    let bytes = body::read(exchange.headers, body).await?;
    if DELETE_OPTIONS_BYTES_MAX < bytes.len() {
        let message = format!("Request entity too large: DeleteOptions have {DELETE_OPTIONS_BYTES_MAX} bytes at most");
        return Err(ApiError::TooLarge { message }.into());
    }
    if bytes.trim_ascii().is_empty() {
        return Ok(exchange.query.delete_options()?);
    }
    let syntax = negotiate::body_syntax(exchange.header(CONTENT_TYPE))?;
    Ok(parse_delete_options(&to_json(syntax, bytes)?)?)
}

pub(crate) fn parse_delete_options(json: &[u8]) -> Result<DeleteOptions, ApiError> {
    let wire: WireDeleteOptions =
        serde_json::from_slice(json).map_err(|error| ApiError::BadRequest { message: format!("the body is no DeleteOptions: {error}") })?;
    if let Some(kind) = wire.kind.filter(|kind| !kind.is_empty() && kind != "DeleteOptions") {
        return Err(ApiError::BadRequest { message: format!("decoded object cannot be converted to DeleteOptions: it is a {kind:?}") });
    }
    let mut options = DeleteOptions {
        dry_run: wire.dry_run.unwrap_or_default(),
        grace_period_seconds: wire.grace_period_seconds,
        propagation_policy: wire.propagation_policy,
        orphan_dependents: wire.orphan_dependents,
        ..DeleteOptions::default()
    };
    if let Some(preconditions) = wire.preconditions {
        options.precondition.uid = preconditions.uid;
        options.precondition.resource_version = preconditions.resource_version;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_options_are_read_whole() {
        let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Orphan","dryRun":["All"],
            "preconditions":{"uid":"u","resourceVersion":"7"}}"#;
        let options = parse_delete_options(body.as_bytes()).expect("valid");
        assert_eq!(options.grace_period_seconds, Some(0));
        assert_eq!(options.propagation_policy.as_deref(), Some("Orphan"));
        assert_eq!(options.dry_run, ["All"]);
        assert_eq!(options.precondition.uid.as_deref(), Some("u"));
        assert_eq!(options.precondition.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn delete_options_of_another_kind_are_refused() {
        assert!(parse_delete_options(br#"{"preconditions":null}"#).is_ok());
        assert!(parse_delete_options(br#"{"kind":"Pod"}"#).is_err());
        assert!(parse_delete_options(br#"{"gracePeriodSeconds":"x"}"#).is_err());
    }

    #[test]
    fn writers_are_called_by_their_program() {
        assert_eq!(default_field_manager("kubectl/v1.36.0 (linux/amd64)"), "kubectl");
        assert_eq!(default_field_manager(""), "unknown");
        assert_eq!(default_field_manager(&"é".repeat(100)).len(), 128);
    }
}
