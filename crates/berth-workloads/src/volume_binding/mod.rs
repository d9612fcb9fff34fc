//! Which volume a claim gets, and what becomes of a volume without a claim (upstream: persistent volume controller, the two protection
//! controllers, and an external provisioner).
//!
//! [`claim::plan`] decides for one claim, [`volume::plan`] for one volume. A binding is written on the volume first: its `claimRef` with the
//! claim's uid, guarded by the volume's resource version, so that of two claims only one gets it. Then the claim names the volume, then its
//! status says so. Each step can be the last one before a crash: the next look goes on from what is there.

pub mod claim;
mod provision;
pub mod view;
pub mod volume;
mod write;

#[cfg(test)]
mod tests;

pub use view::{BindingMode, ClaimRef, ClaimUserView, ClaimView, ClassView, VolumeView};

/// The provisioner whose volumes are made here: they hold nothing but a content id.
pub const PROVISIONER: &str = "berth.dev/simulated";
/// The driver of these volumes. API servers take the name of a provisioner as it is, and that of a CSI driver only if it is a DNS subdomain.
pub const DRIVER: &str = "simulated.berth.dev";
/// On a claim: it has its volume.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: the controller chose its other side, not a user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: who made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: who is to make its volume.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// [`STORAGE_PROVISIONER`] by its old name; upstream sets both.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim: the node that its first pod will run on; the scheduler sets it.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Where claims and volumes named their class before the field existed; it still comes first.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// Holds a claim back while pods use it.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Holds a volume back while it is bound.
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
