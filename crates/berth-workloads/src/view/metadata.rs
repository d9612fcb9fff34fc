//! An object's metadata without what nobody plans by.

use crate::{owners::OwnerReferences, selector::Labels};
use berth_identity::{Name, Namespace, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The metadata of an object of any kind, as views decode it. `managedFields` is left out: it is the largest part of many objects, and as a tree
/// costs more than all the rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WireMetadata {
    /// `namespace`.
    pub namespace: Option<Namespace>,
    /// `name`.
    pub name: Option<Name>,
    /// `uid`.
    pub uid: Option<Uid>,
    /// `labels`.
    pub labels: Option<Labels>,
    /// `annotations`.
    pub annotations: Option<BTreeMap<String, String>>,
    /// `ownerReferences`.
    pub owner_references: Option<OwnerReferences>,
    /// `finalizers`.
    pub finalizers: Option<Vec<String>>,
    /// `creationTimestamp`.
    pub creation_timestamp: Option<Time>,
    /// `deletionTimestamp`.
    pub deletion_timestamp: Option<Time>,
}
