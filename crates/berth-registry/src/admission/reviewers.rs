//! Calls reviewers for a write.

use super::{
    Admission, Operation, Remarks,
    plug_in::{Chain, PlugIn},
    reviewer::AdmissionRequest,
};
use crate::{ApiError, BoxObject, Subresource, checks::Mode, replicas};
use berth_api::{Object, k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
use berth_store::MinRevision;

pub(super) struct Reviewers;

impl PlugIn for Reviewers {
    const NAME: &'static str = "Reviewers";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if chain.reviewers.is_empty() || admission.is_asked {
            return Ok(());
        }
        // Boxed, so that the future of writes without reviewers stays small.
        Box::pin(chain.ask_to_change(admission)).await
    }

    async fn validate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if chain.reviewers.is_empty() { Ok(()) } else { Box::pin(chain.ask_to_accept(admission)).await }
    }
}

impl Chain {
    async fn ask_to_change(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        admission.is_asked = true;
        // Reviewers may take long, so later reads must be newer.
        admission.as_of = MinRevision::default();
        let old = old_view(admission)?;
        let is_deletion = admission.operation == Operation::Delete;
        let mut object = view(admission, &*admission.object)?.unwrap_or_else(|| admission.object.clone_object());
        let before = object.clone_object();
        let name = admission.name().to_owned();
        for reviewer in self.reviewers.iter() {
            let request = request(admission, &name, old.as_deref());
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
            let request = request(admission, admission.name(), old.as_deref());
            let object = shown.as_deref().unwrap_or(&*admission.object);
            all.add(reviewer.validate(&request, (!is_deletion).then_some(object)).await?);
        }
        admission.remarks.add(all);
        Ok(())
    }
}

fn request<'r>(admission: &'r Admission<'_>, name: &'r str, old_view: Option<&'r dyn Object>) -> AdmissionRequest<'r> {
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

/// Returns the object of the subresource. `None`: the object itself.
fn view(admission: &Admission<'_>, object: &dyn Object) -> Result<Option<BoxObject>, ApiError> {
    match admission.subresource() {
        Some(Subresource::Scale) => replicas::scale_of(object).map(|scale| Some(Box::new(scale) as BoxObject)),
        _ => Ok(None),
    }
}

fn old_view(admission: &Admission<'_>) -> Result<Option<BoxObject>, ApiError> {
    admission.old.as_ref().map_or(Ok(None), |old| view(admission, &*old.object))
}

/// Restores the metadata that only the server sets.
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
