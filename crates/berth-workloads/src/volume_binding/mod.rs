//! Binds claims to volumes, and reclaims volumes without a claim (upstream: persistent volume controller, the two protection controllers,
//! and an external provisioner).
//!
//! [`claim::plan`] plans one claim, and [`volume::plan`] plans one volume. A binding is written to the volume first: its `claimRef`
//! contains the claim's uid. The write has the volume's resource version as a precondition, so only one of two claims can get the volume.
//! Then the claim gets the volume's name, and then its status. A crash can follow each step: the next reconcile continues from the stored
//! objects.

pub mod claim;
mod provision;
pub mod view;
pub mod volume;
mod write;

#[cfg(test)]
mod tests;

pub use view::{BindingMode, ClaimRef, ClaimUserView, ClaimView, ClassView, VolumeView};

/// The provisioner of berth's own volumes. They contain only a content id.
pub const PROVISIONER: &str = "berth.dev/simulated";
/// The driver of these volumes. API servers accept any name of a provisioner, but the name of a CSI driver must be a DNS subdomain.
pub const DRIVER: &str = "simulated.berth.dev";
/// The annotation of a bound claim.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a claim or volume whose other side was chosen by the controller, not a user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a volume that contains its provisioner.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of a claim that contains its provisioner.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The old name of [`STORAGE_PROVISIONER`]. Upstream sets both.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The annotation of a claim that contains the node of its first pod. The scheduler sets it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation in which claims and volumes named their class before the field existed. It still has precedence.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The finalizer that protects a claim while pods use it.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer that protects a volume while it is bound.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
