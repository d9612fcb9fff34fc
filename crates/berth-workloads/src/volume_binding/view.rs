//! What is read of claims, volumes, storage classes, and of pods that use claims.

use super::CLASS_ANNOTATION;
use crate::{
    resources::{CLAIMS, VOLUMES},
    selector::{Labels, Selector},
    view::{Identity, PodVolume, View, WireMetadata, claims_of},
};
use berth_api::{decode::from_json, quantity::Quantity};
use berth_identity::{GroupResource, Name, Namespace, ObjectKey, ObjectRef, Revision, Uid};
use k8s_openapi::{
    api::core::v1::{NodeSelectorTerm, TopologySelectorTerm, VolumeNodeAffinity},
    apimachinery::pkg::{api::resource::Quantity as WireQuantity, apis::meta::v1::LabelSelector},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// Amounts in the wire's type.
pub type Capacity = BTreeMap<String, WireQuantity>;

/// The metadata of an object that takes part in a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Its namespace; empty for volumes and classes.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// Whether its `deletionTimestamp` is set.
    pub deleting: bool,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
}

impl Meta {
    fn new(wire: WireMetadata, revision: Revision) -> Self {
        Self {
            namespace: wire.namespace.into(),
            name: wire.name.into(),
            uid: wire.uid.into(),
            revision,
            deleting: wire.deletion_timestamp.is_some(),
            labels: wire.labels.unwrap_or_default(),
            annotations: wire.annotations.unwrap_or_default(),
            finalizers: wire.finalizers.unwrap_or_default(),
        }
    }

    fn class(&self, field: Option<String>) -> Option<String> {
        self.annotations.get(CLASS_ANNOTATION).cloned().or(field)
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.identity().key()
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }

    fn reference(&self, resource: GroupResource) -> ObjectRef {
        self.identity().reference(resource, self.revision)
    }
}

/// What is read of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimView {
    /// Its metadata.
    pub meta: Meta,
    /// Its class. Empty for volumes without a class. `None` if it is unset and there was no default.
    pub class: Option<String>,
    /// The volume that it has or requests. Empty for any.
    pub volume_name: String,
    /// The requested access modes.
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: String,
    /// The requested resources.
    pub requests: Capacity,
    /// The selector of its volumes. `None` for any. An invalid selector (`Some(None)`) matches none.
    pub selector: Option<Option<Selector>>,
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// The capacity in its status.
    pub capacity: Capacity,
    /// The access modes in its status.
    pub status_access_modes: Vec<String>,
}

impl View for ClaimView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<ClaimSpec, ClaimStatus> = from_json(json)?;
        let (spec, status) = (wire.spec.unwrap_or_default(), wire.status.unwrap_or_default());
        let meta = Meta::new(wire.metadata, revision);
        Ok(Self {
            class: meta.class(spec.storage_class_name),
            meta,
            volume_name: spec.volume_name.unwrap_or_default(),
            access_modes: spec.access_modes.unwrap_or_default(),
            volume_mode: spec.volume_mode.unwrap_or_default(),
            requests: spec.resources.and_then(|resources| resources.requests).unwrap_or_default(),
            selector: spec.selector.as_ref().map(Selector::parse),
            phase: status.phase.unwrap_or_default(),
            capacity: status.capacity.unwrap_or_default(),
            status_access_modes: status.access_modes.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl ClaimView {
    /// The requested storage.
    #[must_use]
    pub fn size(&self) -> Quantity {
        storage(&self.requests)
    }

    /// Whether it is bound and its status reports so: its pods can be scheduled and started.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.is_bind_completed() && !self.volume_name.is_empty() && self.phase == "Bound"
    }

    /// Whether it has been bound.
    #[must_use]
    pub fn is_bind_completed(&self) -> bool {
        self.meta.annotations.contains_key(super::BIND_COMPLETED)
    }

    /// The node of its first pod.
    #[must_use]
    pub fn selected_node(&self) -> Option<&str> {
        self.meta.annotations.get(super::SELECTED_NODE).map(String::as_str)
    }

    /// Its class, if that has a name.
    #[must_use]
    pub fn class_name(&self) -> Option<&str> {
        self.class.as_deref().filter(|class| !class.is_empty())
    }

    /// The claim, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(CLAIMS)
    }
}

/// The claim that a volume is reserved for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid. Empty for any claim of that name.
    pub uid: Uid,
}

/// What is read of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeView {
    /// Its metadata.
    pub meta: Meta,
    /// Its class. Empty for none.
    pub class: String,
    /// The claim that it is reserved for.
    pub claim_ref: Option<ClaimRef>,
    /// Its capacity.
    pub capacity: Capacity,
    /// Its access modes.
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: String,
    /// `Retain`, `Delete` or `Recycle`.
    pub reclaim_policy: String,
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: String,
    /// The terms of which a node with the volume must match one. `None`: any node.
    pub node_terms: Option<Vec<NodeSelectorTerm>>,
}

impl View for VolumeView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<VolumeSpec, VolumeStatus> = from_json(json)?;
        let spec = wire.spec.unwrap_or_default();
        let meta = Meta::new(wire.metadata, revision);
        Ok(Self {
            class: meta.class(spec.storage_class_name).unwrap_or_default(),
            meta,
            claim_ref: spec.claim_ref,
            capacity: spec.capacity.unwrap_or_default(),
            access_modes: spec.access_modes.unwrap_or_default(),
            volume_mode: spec.volume_mode.unwrap_or_default(),
            reclaim_policy: spec.persistent_volume_reclaim_policy.unwrap_or_default(),
            phase: wire.status.unwrap_or_default().phase.unwrap_or_default(),
            node_terms: spec.node_affinity.and_then(|affinity| affinity.required).map(|required| required.node_selector_terms),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl VolumeView {
    /// Its storage capacity.
    #[must_use]
    pub fn size(&self) -> Quantity {
        storage(&self.capacity)
    }

    /// Whether it is available to any claim.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.claim_ref.is_none() && self.phase == "Available" && !self.meta.deleting
    }

    /// The claim that it is reserved for.
    #[must_use]
    pub fn reserved_for(&self) -> Option<ObjectKey> {
        self.claim_ref.as_ref().map(|claim| ObjectKey::new(&claim.namespace, &claim.name))
    }

    /// Whether it is reserved for this claim, by uid or, without a uid, by name.
    #[must_use]
    pub fn is_for(&self, claim: &ClaimView) -> bool {
        self.claim_ref.as_ref().is_some_and(|claim_ref| {
            (&claim_ref.namespace, &claim_ref.name) == (&claim.meta.namespace, &claim.meta.name)
                && (claim_ref.uid.is_empty() || claim_ref.uid == claim.meta.uid)
        })
    }

    /// Whether berth provisioned it.
    #[must_use]
    pub fn is_provisioned_here(&self) -> bool {
        self.meta.annotations.get(super::PROVISIONED_BY).is_some_and(|by| by == super::PROVISIONER)
    }

    /// The volume, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(VOLUMES)
    }
}

/// When a claim is bound to a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindingMode {
    /// At once.
    #[default]
    Immediate,
    /// When the scheduler has chosen a node for the first pod that uses it.
    WaitForFirstConsumer,
}

/// What is read of a StorageClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassView {
    /// Its metadata.
    pub meta: Meta,
    /// The provisioner of its volumes.
    pub provisioner: String,
    /// The reclaim policy of its volumes.
    pub reclaim_policy: String,
    /// When its claims are bound.
    pub binding_mode: BindingMode,
    /// The mount options of its volumes.
    pub mount_options: Vec<String>,
    /// The terms of which a node must match one, for volumes to be provisioned for it. Empty: any node.
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

impl View for ClassView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: WireClass = from_json(json)?;
        let waits = wire.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        Ok(Self {
            meta: Meta::new(wire.metadata, revision),
            provisioner: wire.provisioner,
            reclaim_policy: wire.reclaim_policy.unwrap_or_else(|| "Delete".to_owned()),
            binding_mode: if waits { BindingMode::WaitForFirstConsumer } else { BindingMode::Immediate },
            mount_options: wire.mount_options.unwrap_or_default(),
            allowed_topologies: wire.allowed_topologies.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

/// What is read of a pod: the claims that it uses, and whether it has a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimUserView {
    /// Its metadata.
    pub meta: Meta,
    /// The claims that it uses, by name.
    pub claims: Vec<String>,
    /// Whether it has a node, which may then mount its volumes.
    pub is_placed: bool,
}

impl View for ClaimUserView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<PodSpec, serde::de::IgnoredAny> = from_json(json)?;
        let spec = wire.spec.unwrap_or_default();
        Ok(Self {
            meta: Meta::new(wire.metadata, revision),
            claims: claims_of(&spec.volumes.unwrap_or_default()).into_values().collect(),
            is_placed: spec.node_name.is_some_and(|node| !node.is_empty()),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

/// A quantity that cannot be parsed counts as 0. Validation rejects such quantities.
fn storage(amounts: &Capacity) -> Quantity {
    amounts.get("storage").and_then(|amount| amount.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

#[derive(Deserialize)]
#[serde(bound = "S: DeserializeOwned, T: DeserializeOwned")]
struct Wire<S, T> {
    metadata: WireMetadata,
    spec: Option<S>,
    status: Option<T>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    storage_class_name: Option<String>,
    volume_name: Option<String>,
    access_modes: Option<Vec<String>>,
    volume_mode: Option<String>,
    resources: Option<Resources>,
    selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Option<Capacity>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimStatus {
    phase: Option<String>,
    capacity: Option<Capacity>,
    access_modes: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec {
    storage_class_name: Option<String>,
    claim_ref: Option<ClaimRef>,
    capacity: Option<Capacity>,
    access_modes: Option<Vec<String>>,
    volume_mode: Option<String>,
    persistent_volume_reclaim_policy: Option<String>,
    node_affinity: Option<VolumeNodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeStatus {
    phase: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireClass {
    metadata: WireMetadata,
    #[serde(default)]
    provisioner: String,
    reclaim_policy: Option<String>,
    volume_binding_mode: Option<String>,
    mount_options: Option<Vec<String>>,
    allowed_topologies: Option<Vec<TopologySelectorTerm>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    volumes: Option<Vec<PodVolume>>,
}
