//! Binding a pod to a node.

use crate::{
    Actor, ApiError, Body, Current, Registry, RequestOptions, Subresource, Target, WriteOptions, Written,
    admission::{Admission, At, Remarks},
    checks::{self, Mode, Verb},
    failure::Failure,
    modify::check_namespace,
    options::Precondition,
    ownership::{Author, Owners},
    stamps::whole_seconds,
    stored::{ATTEMPTS, Stored},
};
use berth_api::{
    FieldError, Object, Path,
    decode::Codec,
    k8s_openapi::{
        api::core::v1::{Binding, ObjectReference, Pod, PodCondition},
        apimachinery::pkg::apis::meta::v1::Time,
    },
    metadata,
    pod::validate_deletion_cost_update,
};
use berth_identity::GroupKind;
use berth_store::{Entry, Expected, Purpose, env::Timestamp};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

impl Registry {
    /// Binds the pod to `node` if it is unbound and can be scheduled: one read, one write. Returns the pod's new
    /// version.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], or a conflict for a pod that is bound, terminating, gated or violates `precondition`.
    pub async fn bind(&self, actor: &Actor, target: &Target, node: &str, precondition: &Precondition) -> Result<Arc<Entry>, ApiError> {
        let node = ObjectReference { kind: Some("Node".to_owned()), name: Some(node.to_owned()), ..ObjectReference::default() };
        let binding = Binding { target: node, ..Binding::default() };
        let (now, options) = (self.storage.clock.now(), RequestOptions::None);
        let author = Author { actor, manager: "", subresource: Some(Subresource::Binding), now, options };
        let (entry, _) = self.admit_binding(target, binding, precondition, author, Mode::Real).await?;
        Ok(entry)
    }

    /// POST `pods/NAME/binding`.
    pub(crate) async fn create_binding(
        &self,
        actor: &Actor,
        target: &Target,
        body: Body,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let checked = checks::write_options(Verb::Create, options)?;
        let Body::Json(bytes) = body else { return Err(ApiError::bad_request("a Binding is expected")) };
        let mut binding = Binding::decode_json(&bytes)
            .map_err(|error| ApiError::bad_request(format!("Binding in version \"v1\" cannot be handled as a Binding: {error}")))?;
        check_namespace(target.namespace.as_deref(), &mut binding)?;
        checked_node(target, &binding)?;
        let (meta, given) = (&mut binding.metadata, &options.precondition);
        let precondition = Precondition {
            uid: meta.uid.take().or_else(|| given.uid.clone()),
            resource_version: meta.resource_version.take().or_else(|| given.resource_version.clone()),
        };
        let author = self.author(actor, options, Some(Subresource::Binding));
        let (_, Remarks { warnings, audit }) = self.admit_binding(target, binding, &precondition, author, checked.mode).await?;
        let object = Current::Made(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
        Ok(Written { object, created: true, warnings, audit })
    }

    /// Takes a Binding through the chain and binds the pod. A concurrent change of the pod does not affect the Binding.
    async fn admit_binding(
        &self,
        target: &Target,
        mut binding: Binding,
        precondition: &Precondition,
        author: Author<'_>,
        mode: Mode,
    ) -> Result<(Arc<Entry>, Remarks), ApiError> {
        binding.metadata.name = Some(target.name.clone());
        binding.metadata.namespace.clone_from(&target.namespace);
        let mut admission = Admission::create(At::of(target, mode), author, Box::new(binding), Owners::Unchanged);
        self.admit(&mut admission).await?;
        self.chain.validate(&mut admission).await?;
        let binding: &Binding = admission.object.downcast_ref().ok_or(ApiError::UnknownResource)?;
        let (node, annotations) = (checked_node(target, binding)?, binding.metadata.annotations.as_ref());
        Ok((self.bind_with(target, node, precondition, annotations, mode).await?, admission.remarks))
    }

    async fn bind_with(
        &self,
        target: &Target,
        node: &str,
        precondition: &Precondition,
        annotations: Option<&BTreeMap<String, String>>,
        mode: Mode,
    ) -> Result<Arc<Entry>, ApiError> {
        let target = &Target { subresource: None, ..target.clone() };
        for attempt in 0..ATTEMPTS {
            let mut old = self.storage.load_to_write(target, mode, attempt).await?;
            let bound = bind(target, &mut old, precondition, node, annotations, whole_seconds(self.storage.clock.now()));
            let put = match bound {
                Ok(()) if mode == Mode::Dry => return Ok(old.entry),
                Ok(()) => {
                    // The quota was charged when the pod was created.
                    let (key, expected) = (old.entry.key.clone(), Expected::At(old.entry.mod_revision));
                    self.storage.put(&target.resource, key, &old.object, expected, Purpose::Growth).await
                }
                Err(error) => Err(error.into()),
            };
            match put {
                Ok(entry) => return Ok(entry),
                Err(Failure::Raced) => (),
                Err(failure) if old.may_be_old && !failure.is_unknown() => (),
                Err(Failure::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(target))
    }
}

/// Binds the pod in memory.
fn bind(
    target: &Target,
    old: &mut Stored,
    precondition: &Precondition,
    node: &str,
    annotations: Option<&BTreeMap<String, String>>,
    now: Timestamp,
) -> Result<(), ApiError> {
    check_precondition(target, &*old.object, &old.entry, precondition)?;
    let pod: &mut Pod = old.object.downcast_mut().ok_or(ApiError::UnknownResource)?;
    set_node(target, pod, node, now)?;
    match annotations.filter(|annotations| !annotations.is_empty()) {
        Some(annotations) => annotate(target, pod, annotations),
        None => Ok(()),
    }
}

/// Returns the node of a valid binding.
fn checked_node<'a>(target: &Target, binding: &'a Binding) -> Result<&'a str, ApiError> {
    if let Some(name) = binding.metadata.name.as_ref().filter(|name| **name != target.name) {
        return Err(ApiError::bad_request(format!("name in URL does not match name in Binding object: {name}")));
    }
    let field = Path::new("target");
    let mut errors = Vec::new();
    let kind = binding.target.kind.as_deref().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(&field.child("kind"), kind, &["Node", "<empty>"]));
    }
    let node = binding.target.name.as_deref().unwrap_or_default();
    if node.is_empty() {
        errors.push(FieldError::required(&field.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(node);
    }
    Err(ApiError::Invalid { kind: GroupKind::from_static("", "Binding"), name: target.name.clone(), errors })
}

fn check_precondition(target: &Target, pod: &dyn Object, entry: &Entry, wanted: &Precondition) -> Result<(), ApiError> {
    let found = pod.meta().uid.as_deref().unwrap_or_default();
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| !uid.is_empty() && *uid != found) {
        return Err(refused(target, &format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")));
    }
    let found = entry.mod_revision.to_string();
    match wanted.resource_version.as_deref() {
        Some(version) if !version.is_empty() && version != found => Err(ApiError::modified(target)),
        _ => Ok(()),
    }
}

fn set_node(target: &Target, pod: &mut Pod, node: &str, now: Timestamp) -> Result<(), ApiError> {
    let name = &target.name;
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(refused(target, &format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    let spec = pod.spec.get_or_insert_default();
    if let Some(bound) = spec.node_name.as_deref().filter(|bound| !bound.is_empty()) {
        return Err(refused(target, &format!("pod {name} is already assigned to node {bound:?}")));
    }
    if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
        return Err(refused(target, &format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    spec.node_name = Some(node.to_owned());
    let status = pod.status.get_or_insert_default();
    // The pod has its node, so no capacity need be reserved for it.
    status.nominated_node_name = None;
    let conditions = status.conditions.get_or_insert_default();
    set_condition(conditions, PodCondition { type_: "PodScheduled".to_owned(), status: "True".to_owned(), ..PodCondition::default() }, now);
    Ok(())
}

/// Adds the annotations of the binding to the pod, under the usual rules for changing them.
fn annotate(target: &Target, pod: &mut Pod, annotations: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let old = pod.metadata.annotations.clone();
    pod.metadata.annotations.get_or_insert_default().extend(annotations.clone());
    let new = pod.metadata.annotations.as_ref();
    let mut errors = metadata::validate_annotations(new, &Path::new("metadata.annotations"));
    errors.extend(validate_deletion_cost_update(new, old.as_ref()));
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(&target.resource, &target.name, errors)) }
}

/// Replaces the condition of the same type. The transition time changes only with the status.
pub(crate) fn set_condition(conditions: &mut Vec<PodCondition>, mut new: PodCondition, now: Timestamp) {
    let old = conditions.iter_mut().find(|condition| condition.type_ == new.type_);
    let unchanged = old.as_ref().filter(|old| old.status == new.status).and_then(|old| old.last_transition_time.clone());
    new.last_transition_time = unchanged.or(Some(Time(now)));
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn refused(target: &Target, why: &str) -> ApiError {
    let resource = format!("{}/{}", target.resource.plural(), Subresource::Binding.as_str());
    ApiError::conflict_shown_as(target, &resource, why)
}
