//! `/scale`: the same view of every kind with replicas.

use crate::{
    Actor, ApiError, Body, Current, Patch, Registry, Subresource, Target, WriteOptions, Written,
    applying::Config,
    checks::Checked,
    modify::{Change, Proposal},
    ownership::Owners,
    patch,
    replicas::scale_of,
    stored::{self, Stored},
};
use berth_api::{FieldError, Object, Path, decode::Codec, k8s_openapi::api::autoscaling::v1::Scale};
use berth_identity::GroupKind;
use berth_store::Entry;
use serde_json::Value;

/// Returns the `Scale` of an entry.
pub(crate) fn view(target: &Target, entry: &Entry) -> Result<Value, ApiError> {
    let object = stored::load(&target.resource, entry)?;
    versioned(&*object, entry.mod_revision.to_string()).map(|scale| scale.to_value())
}

fn versioned(object: &dyn Object, resource_version: String) -> Result<Scale, ApiError> {
    let mut scale = scale_of(object)?;
    scale.metadata.resource_version = Some(resource_version);
    Ok(scale)
}

/// Handles a PUT.
pub(crate) async fn update(
    registry: &Registry,
    actor: &Actor,
    target: &Target,
    body: Body,
    options: &WriteOptions,
    checked: Checked,
) -> Result<Written, ApiError> {
    let Body::Json(bytes) = body else { return Err(ApiError::bad_request("a Scale is expected")) };
    let wanted = Scale::decode_json(&bytes)
        .map_err(|error| ApiError::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {error}")))?;
    write(registry, actor, target, options, checked, |_| Ok(wanted.clone())).await
}

/// Handles a PATCH.
pub(crate) async fn patch(
    registry: &Registry,
    actor: &Actor,
    target: &Target,
    patch: &Patch,
    options: &WriteOptions,
    checked: Checked,
) -> Result<Written, ApiError> {
    if let Patch::Apply(bytes) = patch {
        return apply(registry, actor, target, bytes, options, checked).await;
    }
    let parsed = patch::Parsed::new(patch)?;
    write(registry, actor, target, options, checked, |old| {
        let before = versioned(&*old.object, old.entry.mod_revision.to_string())?.to_value();
        let after = parsed.apply_plain(&before)?;
        Scale::decode_tree(&after).map_err(|error| parsed.unreadable(&error.to_string()))
    })
    .await
}

async fn write(
    registry: &Registry,
    actor: &Actor,
    target: &Target,
    options: &WriteOptions,
    checked: Checked,
    mut wanted: impl FnMut(&Stored) -> Result<Scale, ApiError> + Send,
) -> Result<Written, ApiError> {
    propose(registry, actor, target, options, checked, |old| {
        let scale = wanted(old)?;
        let replicas = check(target, &scale)?;
        let mut object = old.object.clone_object();
        object.set_replicas(replicas);
        let meta = object.meta_mut();
        meta.uid = scale.metadata.uid;
        meta.resource_version = scale.metadata.resource_version;
        Ok(Proposal { object, warnings: Vec::new(), owners: Owners::Follow })
    })
    .await
}

/// Applies a `Scale`: the replicas of the object behind it.
async fn apply(
    registry: &Registry,
    actor: &Actor,
    target: &Target,
    bytes: &[u8],
    options: &WriteOptions,
    checked: Checked,
) -> Result<Written, ApiError> {
    let config = Config::read(bytes, "autoscaling/v1, Kind=Scale", options, checked.validation)?;
    let wanted = Scale::decode_tree(&config.document)
        .map_err(|error| ApiError::bad_request(format!("failed to create typed patch object: {error}")))?;
    check(target, &wanted)?;
    let config = config.of_replicas(wanted.spec.and_then(|spec| spec.replicas));
    let author = registry.author(actor, options, Some(Subresource::Scale));
    propose(registry, actor, target, options, checked, |old| {
        let mut proposal = config.propose(target, old, &author)?;
        let meta = proposal.object.meta_mut();
        meta.uid.clone_from(&wanted.metadata.uid);
        meta.resource_version.clone_from(&wanted.metadata.resource_version);
        Ok(proposal)
    })
    .await
}

/// Changes the object behind the `Scale`, and returns its `Scale`.
async fn propose(
    registry: &Registry,
    actor: &Actor,
    target: &Target,
    options: &WriteOptions,
    checked: Checked,
    change: impl FnMut(&Stored) -> Result<Proposal, ApiError> + Send,
) -> Result<Written, ApiError> {
    let whole = Target { subresource: None, ..target.clone() };
    let author = registry.author(actor, options, Some(Subresource::Scale));
    let by = Change { mode: checked.mode, precondition: &options.precondition, author };
    let written = registry.modify(&whole, by, change).await?;
    let object = Current::Made(match &written.object {
        Current::Stored(entry) => view(target, entry)?,
        Current::Made(value) => made_view(target, value)?,
    });
    Ok(Written { object, ..written })
}

/// Returns the `Scale` of a dry run.
fn made_view(target: &Target, value: &Value) -> Result<Value, ApiError> {
    let bytes = value.to_string();
    let object =
        target.resource.rules.decode_stored(bytes.as_bytes()).map_err(|error| ApiError::Internal { message: error.to_string() })?;
    versioned(&*object, object.meta().resource_version.clone().unwrap_or_default()).map(|scale| scale.to_value())
}

/// Returns the requested replicas. Checks that a name in the body is that of the URL.
fn check(target: &Target, scale: &Scale) -> Result<i32, ApiError> {
    if let Some(name) = scale.metadata.name.as_ref().filter(|name| **name != target.name) {
        let text = format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
        return Err(ApiError::bad_request(text));
    }
    let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
    if replicas < 0 {
        let field = Path::new("spec").child("replicas");
        let errors = vec![FieldError::invalid(&field, replicas, "must be greater than or equal to 0")];
        let kind = GroupKind::from_static("autoscaling", "Scale");
        return Err(ApiError::Invalid { kind, name: target.name.clone(), errors });
    }
    Ok(replicas)
}
