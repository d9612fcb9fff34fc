//! Rejects new objects in a missing or terminating namespace. Some namespaces cannot be deleted.

use super::{
    Admission, Charges, Operation,
    plug_in::{Chain, PlugIn},
    reader::Reader,
};
use crate::{ApiError, error::Cause, resource, stored};
use berth_api::{Scope, k8s_openapi::api::core::v1::Namespace};
use berth_store::{Entry, MinRevision};
use std::{collections::BTreeMap, sync::Arc};

/// Namespaces that may not be deleted.
const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

pub(super) struct NamespaceLifecycle;

impl PlugIn for NamespaceLifecycle {
    const NAME: &'static str = "NamespaceLifecycle";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        if let Some(namespace) = filled(admission) {
            admission.namespace_entry = Some(open_namespace(&chain.reader, admission, namespace).await?);
        }
        Ok(())
    }

    async fn validate(_chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let is_namespace = admission.object.as_any().is::<Namespace>();
        if is_namespace && admission.operation == Operation::Delete && IMMORTAL.contains(&admission.name()) {
            return Err(admission.forbidden("this namespace may not be deleted"));
        }
        Ok(())
    }

    /// A reviewer may have taken long, so the namespace is checked again.
    async fn charge(chain: &Chain, admission: &mut Admission<'_>, _charges: &mut Charges) -> Result<(), ApiError> {
        match filled(admission).filter(|_| admission.rounds.have_begun()) {
            Some(namespace) => open_namespace(&chain.reader, admission, namespace).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Chain {
    /// Returns the labels of a namespace.
    pub(crate) async fn namespace_labels(&self, name: &str) -> Result<BTreeMap<String, String>, ApiError> {
        let namespaces = resource::of::<Namespace>();
        let entry = self.reader.get(namespaces, None, name, &MinRevision::default()).await?;
        let entry = entry.ok_or_else(|| ApiError::not_found(namespaces, name))?;
        Ok(stored::load(namespaces, &entry)?.meta().labels.clone().unwrap_or_default())
    }
}

/// Returns the namespace of a new object.
fn filled<'a>(admission: &Admission<'a>) -> Option<&'a str> {
    admission.at.namespace.filter(|_| admission.is_new() && admission.at.resource.scope == Scope::Namespaced)
}

/// # Errors
/// A namespace that is missing or terminating.
async fn open_namespace(reader: &Reader, admission: &Admission<'_>, namespace: &str) -> Result<Arc<Entry>, ApiError> {
    let namespaces = resource::of::<Namespace>();
    let entry = reader.get(namespaces, None, namespace, &admission.as_of).await?;
    let entry = entry.ok_or_else(|| ApiError::not_found(namespaces, namespace))?;
    if entry.header.field("status.phase") != Some("Terminating") {
        return Ok(entry);
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    Err(ApiError::forbidden(admission.at.resource, admission.name(), &why, vec![cause]))
}
