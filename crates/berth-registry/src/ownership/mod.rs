//! `metadata.managedFields`: records the owners of fields at every write (KEP-555).
//!
//! An object without recorded owners has none until the first apply. Then `before-first-apply` owns all its fields.
//! That is upstream's rule for objects from before it recorded owners. In berth it also applies to objects of its own
//! controllers ([`is_recorded`]).

mod kinds;

use crate::{
    Actor, ApiError, Body, RequestOptions, Resource, Subresource, Target, error::Cause, fresh::SharedObject, resource::KindFields,
    stamps::whole_seconds,
};
use berth_api::{
    Object,
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
};
use berth_fieldsets::{
    Application, ApplyError, Faults, Force, LAST_APPLIED_ANNOTATION, Managers, Root, Set, Update, Versions, Writer, apply_as_kubectl,
    update, update_entries,
};
use berth_store::env::Timestamp;
use kinds::fields_of;
use serde_json::{Map, Value};

/// The manager whose applies update the annotation of client-side apply.
const KUBECTL: &str = "kubectl";
/// The maximum total size of annotation keys and values.
const ANNOTATION_BYTES_MAX: usize = 256 << 10;

/// The author of a write, its subresource and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'a> {
    pub(crate) actor: &'a Actor,
    /// `fieldManager`.
    pub(crate) manager: &'a str,
    /// The subresource. `None`: the object itself.
    pub(crate) subresource: Option<Subresource>,
    pub(crate) now: Timestamp,
    /// The options of the request, for its reviewers.
    pub(crate) options: RequestOptions<'a>,
}

/// How a write determines the owners of fields.
pub(crate) enum Owners {
    /// They follow the change: its author owns new and changed fields.
    Follow,
    /// An apply has determined them.
    Decided(Managers),
    /// They stay unchanged.
    Unchanged,
}

impl Author<'_> {
    fn writer(&self, resource: &Resource) -> Writer {
        let subresource = self.subresource.map(Subresource::as_str).unwrap_or_default().to_owned();
        Writer { name: self.manager.to_owned(), api_version: resource.api_version().to_owned(), subresource }
    }

    /// Returns the time of an entry. Entries through `/scale` have none, as upstream.
    fn time(&self) -> Option<Time> {
        (self.subresource != Some(Subresource::Scale)).then(|| Time(whole_seconds(self.now)))
    }
}

/// Whether the owners of a new object are recorded from the start. Controllers in this process create thousands of
/// objects, to which users rarely apply. Records would double the size of a pod and triple the time of its writes.
pub(crate) fn is_recorded(body: &Body) -> bool {
    matches!(body, Body::Json(_))
}

/// Removes and returns the managed fields of a request. This precedes defaulting, which would make an empty list
/// absent.
pub(crate) fn take_given(object: &mut dyn Object) -> Option<Vec<ManagedFieldsEntry>> {
    object.meta_mut().managed_fields.take()
}

/// Records the owners of a new object.
pub(crate) fn record_create(resource: &Resource, object: &mut dyn Object, given: Option<&[ManagedFieldsEntry]>, author: &Author<'_>) {
    let kind = fields_of(resource);
    let mut managers = given.and_then(|given| Managers::decode(given).ok()).unwrap_or_default();
    let document = document(kind, object);
    change(resource, &kind.empty, &document, author, |change| update(&mut managers, change));
    set(object, &managers);
}

/// Sets the owners of an object that an apply creates.
pub(crate) fn record_applied_create(object: &mut dyn Object, managers: &Managers) {
    set(object, managers);
}

/// Records the author of a change, other than an apply, as the owner of changed fields. The stored owners apply. A
/// request may rewrite them, or reset them by an empty list or one empty entry, but not through a subresource. Returns
/// the fields of the new object if any has an owner.
pub(crate) fn record_update(
    resource: &Resource,
    old: &mut SharedObject,
    new: &mut dyn Object,
    given: Option<Vec<ManagedFieldsEntry>>,
    author: &Author<'_>,
) -> Option<Value> {
    // Removed while both objects are converted. Changing a shared object without need would copy it.
    let has_owners = old.meta().managed_fields.is_some();
    let stored = if has_owners { old.meta_mut().managed_fields.take() } else { None };
    let entries = match given.filter(|_| author.subresource.is_none()) {
        Some(given) if is_reset(&given) => Vec::new(),
        Some(given) if stored.as_ref() != Some(&given) => read(&given).or_else(|| stored.clone()).unwrap_or_default(),
        Some(_) | None => stored.clone().unwrap_or_default(),
    };
    let fields = (!entries.is_empty()).then(|| {
        let kind = fields_of(resource);
        let (old, new_document) = (document(kind, &**old), document(kind, new));
        let updated = change(resource, &old, &new_document, author, |change| update_entries(entries, change));
        new.meta_mut().managed_fields = Some(updated).filter(|entries| !entries.is_empty());
        new_document
    });
    if has_owners {
        old.meta_mut().managed_fields = stored;
    }
    fields
}

/// Removes the ownership of `sent` fields that the rules of an update dropped. Costs another conversion of the object.
pub(crate) fn forget_lost(resource: &Resource, entries: &mut Vec<ManagedFieldsEntry>, sent: &Value, settled: &dyn Object) {
    let kind = fields_of(resource);
    let settled = document(kind, settled);
    if has_lost(sent, &settled)
        && let Ok(mut managers) = Managers::decode(entries)
    {
        managers.forget_removed(kind.root(), sent, &settled);
        *entries = managers.encode();
    }
}

/// Whether a member or an element of `sent` is missing.
fn has_lost(sent: &Value, settled: &Value) -> bool {
    match (sent, settled) {
        (Value::Object(sent), Value::Object(settled)) => {
            sent.iter().any(|(name, value)| settled.get(name).is_none_or(|settled| has_lost(value, settled)))
        }
        (Value::Array(sent), Value::Array(settled)) => {
            settled.len() < sent.len() || sent.iter().zip(settled).any(|(sent, settled)| has_lost(sent, settled))
        }
        _ => false,
    }
}

/// Returns the entries as a client rewrites them, or `None` if they are invalid.
fn read(given: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    Managers::decode(given).ok().map(|managers| managers.encode()).filter(|entries| !entries.is_empty())
}

fn is_reset(given: &[ManagedFieldsEntry]) -> bool {
    match given {
        [] => true,
        [one] => *one == ManagedFieldsEntry::default(),
        _ => false,
    }
}

/// Returns the owners in an object. The server wrote them, or validated them in a request.
fn stored(object: &dyn Object) -> Managers {
    object.meta().managed_fields.as_deref().and_then(|entries| Managers::decode(entries).ok()).unwrap_or_default()
}

fn set(object: &mut dyn Object, managers: &Managers) {
    object.meta_mut().managed_fields = (!managers.is_empty()).then(|| managers.encode());
}

/// Builds the description of a change and calls `execute` with it.
fn change<T>(resource: &Resource, old: &Value, new: &Value, author: &Author<'_>, execute: impl FnOnce(&Update<'_>) -> T) -> T {
    let kind = fields_of(resource);
    let (writer, now) = (author.writer(resource), author.time());
    let ignored = kind.ignored(author.subresource);
    let versions = OtherVersions { resource, kind, subresource: author.subresource };
    execute(&Update { root: kind.root(), old, new, writer: &writer, ignored, now: now.as_ref(), versions: &versions })
}

/// The other versions of a resource, for field ownership.
#[derive(Debug)]
struct OtherVersions<'a> {
    resource: &'a Resource,
    kind: &'a KindFields,
    subresource: Option<Subresource>,
}

impl Versions for OtherVersions<'_> {
    fn root(&self, api_version: &str) -> Option<Root<'_>> {
        self.kind.others.get(api_version).map(KindFields::root)
    }

    fn ignored(&self, api_version: &str) -> &Set {
        self.kind.others.get(api_version).unwrap_or(self.kind).ignored(self.subresource)
    }

    fn convert(&self, document: &Value, from: &str, to: &str) -> Option<Value> {
        self.resource.rules.convert(document, from, to)
    }
}

/// Returns the ownable fields of an object.
fn document(kind: &KindFields, object: &dyn Object) -> Value {
    let mut document = object.to_value();
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    kind.complete(&mut document);
    document
}

/// The result of an apply.
pub(crate) struct Applied {
    pub(crate) document: Value,
    pub(crate) managers: Managers,
}

/// Applies `config` to a stored object, or creates one.
///
/// # Errors
/// 400 for a configuration that does not fit the kind, or conflicts.
pub(crate) fn apply(
    target: &Target,
    live: Option<&dyn Object>,
    config: &Value,
    author: &Author<'_>,
    force: Force,
) -> Result<Applied, ApiError> {
    let kind = fields_of(&target.resource);
    let live_document = live.map_or_else(|| kind.empty.clone(), |object| document(kind, object));
    let managers = live.map(stored).unwrap_or_default();
    let (writer, now) = (author.writer(&target.resource), author.time());
    let versions = OtherVersions { resource: &target.resource, kind, subresource: author.subresource };
    let application = Application {
        versions: &versions,
        root: kind.root(),
        live: &live_document,
        empty: &kind.empty,
        config,
        writer: &writer,
        ignored: kind.ignored(author.subresource),
        now: now.as_ref(),
    };
    let (mut document, managers) = apply_as_kubectl(&managers, &application, force).map_err(|error| refused(target, error))?;
    if author.manager == KUBECTL {
        renew_last_applied(&mut document, config);
    }
    Ok(Applied { document, managers })
}

fn refused(target: &Target, error: ApplyError) -> ApiError {
    match error {
        ApplyError::Invalid(faults) => {
            let (resource, namespace) = (&target.resource, target.namespace.as_deref().unwrap_or_default());
            let kind = format!("{}/{}, Kind={}", resource.group(), resource.version(), resource.kind());
            let text = format!("failed to create typed patch object ({namespace}/{}; {kind}): {faults}", target.name);
            ApiError::bad_request(text)
        }
        ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: &berth_fieldsets::Conflict| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message(),
                field: conflict.path.to_string(),
            };
            ApiError::ApplyConflict { message: conflicts.to_string(), causes: conflicts.0.iter().map(cause).collect() }
        }
    }
}

/// Updates the annotation of client-side apply if it exists. An outdated one is removed.
fn renew_last_applied(document: &mut Value, config: &Value) {
    let Some(annotations) = document.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    if annotations.get(LAST_APPLIED_ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = config.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED_ANNOTATION);
    }
    let text = format!("{applied}\n");
    annotations.remove(LAST_APPLIED_ANNOTATION);
    if last_applied_fits(annotations, &text) {
        annotations.insert(LAST_APPLIED_ANNOTATION.to_owned(), text.into());
    }
}

/// Whether an object can have the annotation of client-side apply beside these annotations.
pub(crate) fn last_applied_fits(annotations: &Map<String, Value>, text: &str) -> bool {
    let others: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    others + LAST_APPLIED_ANNOTATION.len() + text.len() <= ANNOTATION_BYTES_MAX
}

/// Removes the ownership of fields that the rules of an update dropped from an apply's result. Examples are a block that
/// no longer fits its type, and a field whose gate is off.
pub(crate) fn forget_dropped(resource: &Resource, managers: &mut Managers, applied: &dyn Object, settled: &dyn Object) {
    let kind = fields_of(resource);
    managers.forget_removed(kind.root(), &document(kind, applied), &document(kind, settled));
}

/// Writes the owners after an apply. If the apply changed nothing, not even owners, the timestamps stay too.
pub(crate) fn record_apply(old: &dyn Object, new: &mut dyn Object, managers: &Managers) {
    set(new, managers);
    if !stored(old).same_owners(managers) {
        return;
    }
    let renewed = std::mem::replace(&mut new.meta_mut().managed_fields, old.meta().managed_fields.clone());
    if !new.same_as(old) {
        new.meta_mut().managed_fields = renewed;
    }
}

/// Returns a document with `fields` merged into it by the schema of its kind. Owners stay as they are.
///
/// # Errors
/// The fields do not fit the schema, or they contain a part that a merge replaces as a whole. In upstream's words.
pub(crate) fn merged(version: &Resource, document: &Value, fields: &Value) -> Result<Value, MergeError> {
    let root = fields_of(version).root();
    root.validate(fields).map_err(MergeError::Schema)?;
    let atomic = root.atomic_parts(fields);
    if !atomic.is_empty() {
        return Err(MergeError::Atomic(atomic));
    }
    Ok(root.merge(document, fields))
}

/// Why fields cannot be merged into a document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    /// They do not fit the schema.
    #[error("failed to convert patch object to typed object: {0}")]
    Schema(Faults),
    /// They contain parts that a merge replaces as a whole.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Atomic(Vec<berth_fieldsets::Path>),
}
