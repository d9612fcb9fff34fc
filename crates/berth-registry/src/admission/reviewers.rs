//! Asking somebody outside about a write.

use super::{Admission, Operation, Remarks, chain::PlugIn};
use crate::{ApiError, BoxObject, Registry, Resource, Subresource, checks::Mode, replicas};
use berth_api::{Object, k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
use berth_rbac::User;
use berth_store::AsOf;
use futures::future::BoxFuture;
use std::sync::Arc;

/// Somebody who is asked about writes, and may take their time: nothing is held and nothing is charged meanwhile.
///
/// Each is asked once about every try of a write, by each of the two methods, after what the server itself has to say: of creates, updates
/// and deletions of objects, also by way of a subresource. It is not asked about what an eviction does to the pod and its budget.
pub trait Reviewer: Send + Sync {
    /// Changes the object, refuses the write or remarks on it. What names the object stays as it is. Absent of a deletion, which can only be
    /// refused.
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;

    /// Refuses the write or remarks on it. The object is as it will be stored, but for its owners and, of a Service, what is allocated.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;
}

/// A write that somebody is asked about.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// What it does.
    pub operation: Operation,
    /// To what kind of object.
    pub resource: &'a Resource,
    /// By which door; `None`: the object's own. The object is then what that door takes: a `Scale`, a `Binding`, an `Eviction`.
    pub subresource: Option<Subresource>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The object's name, also where it was generated; another one may be generated later, if this one is taken.
    pub name: &'a str,
    /// Whether it is only tried: then nothing must come of it elsewhere.
    pub is_dry_run: bool,
    /// The user who asks; `None`: the server itself, or an administrator.
    pub caller: Option<&'a User>,
    /// As it stands, of updates and deletions.
    pub old: Option<&'a dyn Object>,
}

pub(super) struct Reviewers;

impl PlugIn for Reviewers {
    const NAME: &'static str = "Reviewers";

    async fn mutate(api: &Registry, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if api.reviewers.is_empty() || admission.is_asked {
            return Ok(());
        }
        // Boxed, so that writes that nobody is asked about stay small.
        Box::pin(api.ask_to_change(admission)).await
    }

    async fn validate(api: &Registry, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if api.reviewers.is_empty() { Ok(()) } else { Box::pin(api.ask_to_accept(admission)).await }
    }
}

impl Registry {
    /// The same API, asking these about each write, one after the other.
    #[must_use]
    pub fn with_reviewers(self, reviewers: Vec<Arc<dyn Reviewer>>) -> Self {
        Self { reviewers: reviewers.into(), ..self }
    }

    /// The API for what belongs to a write that everybody was asked about.
    pub(crate) fn reviewed(&self) -> Self {
        Self { reviewers: Arc::default(), ..self.clone() }
    }

    async fn ask_to_change(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        admission.is_asked = true;
        // They may take long: what is read behind them is newer.
        admission.as_of = AsOf::default();
        let old = old_view(admission)?;
        let is_deletion = admission.operation == Operation::Delete;
        let mut object = view(admission, &*admission.object)?.unwrap_or_else(|| admission.object.clone_object());
        let before = object.clone_object();
        let name = admission.name().to_owned();
        for reviewer in self.reviewers.iter() {
            let request = self.request(admission, &name, old.as_deref());
            let remarks = reviewer.mutate(&request, (!is_deletion).then_some(&mut *object)).await?;
            admission.remarks.add(remarks);
            keep_identity(object.meta_mut(), before.meta());
        }
        if is_deletion || object.same_as(&*before) {
            return Ok(());
        }
        admission.is_changed_outside = true;
        match admission.subresource() {
            Some(Subresource::Scale) => replicas::set_scale(&mut *admission.object, &*object),
            _ => admission.object = object.into(),
        }
        Ok(())
    }

    async fn ask_to_accept(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let old = old_view(admission)?;
        let shown = view(admission, &*admission.object)?;
        let is_deletion = admission.operation == Operation::Delete;
        let mut all = Remarks::default();
        for reviewer in self.reviewers.iter() {
            let request = self.request(admission, admission.name(), old.as_deref());
            let object = shown.as_deref().unwrap_or(&*admission.object);
            all.add(reviewer.validate(&request, (!is_deletion).then_some(object)).await?);
        }
        admission.remarks.add(all);
        Ok(())
    }

    fn request<'r>(&'r self, admission: &'r Admission<'_>, name: &'r str, old_view: Option<&'r dyn Object>) -> AdmissionRequest<'r> {
        AdmissionRequest {
            operation: admission.operation,
            resource: admission.at.resource,
            subresource: admission.subresource(),
            namespace: admission.at.namespace,
            name,
            is_dry_run: admission.at.mode == Mode::Dry,
            caller: admission.author.actor.limited(),
            old: old_view.or(admission.old.as_ref().map(|old| &*old.object)),
        }
    }
}

/// What a door shows instead of the object that it leads to; `None`: the object itself.
fn view(admission: &Admission<'_>, object: &dyn Object) -> Result<Option<BoxObject>, ApiError> {
    match admission.subresource() {
        Some(Subresource::Scale) => replicas::scale_of(object).map(|scale| Some(Box::new(scale) as BoxObject)),
        _ => Ok(None),
    }
}

fn old_view(admission: &Admission<'_>) -> Result<Option<BoxObject>, ApiError> {
    admission.old.as_ref().map_or(Ok(None), |old| view(admission, &*old.object))
}

/// Puts back what nobody but the server says.
fn keep_identity(meta: &mut ObjectMeta, before: &ObjectMeta) {
    meta.name.clone_from(&before.name);
    meta.generate_name.clone_from(&before.generate_name);
    meta.namespace.clone_from(&before.namespace);
    meta.uid.clone_from(&before.uid);
    meta.resource_version.clone_from(&before.resource_version);
    meta.creation_timestamp.clone_from(&before.creation_timestamp);
    meta.deletion_timestamp.clone_from(&before.deletion_timestamp);
    meta.deletion_grace_period_seconds = before.deletion_grace_period_seconds;
    meta.generation = before.generation;
    meta.self_link.clone_from(&before.self_link);
    meta.managed_fields.clone_from(&before.managed_fields);
}
