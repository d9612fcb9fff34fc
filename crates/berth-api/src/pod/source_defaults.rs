//! The defaults of volume sources that pods and PersistentVolumes share.

use crate::unset::default_to;
use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, HostPathVolumeSource, ISCSIPersistentVolumeSource, ISCSIVolumeSource, RBDPersistentVolumeSource,
    RBDVolumeSource, ScaleIOPersistentVolumeSource, ScaleIOVolumeSource,
};

/// A source of a pod's volume or a PersistentVolume, in its normal form.
pub(crate) trait Source {
    /// Sets its defaults. Idempotent.
    fn set_defaults(&mut self);
}

/// Sets the defaults of a source, if there is one.
pub(crate) fn fill_source(source: &mut Option<impl Source>) {
    source.iter_mut().for_each(Source::set_defaults);
}

impl Source for HostPathVolumeSource {
    fn set_defaults(&mut self) {
        self.type_.get_or_insert_default();
    }
}

impl Source for AzureDiskVolumeSource {
    fn set_defaults(&mut self) {
        self.caching_mode.get_or_insert_with(|| "ReadWrite".to_owned());
        self.fs_type.get_or_insert_with(|| "ext4".to_owned());
        self.kind.get_or_insert_with(|| "Shared".to_owned());
        self.read_only.get_or_insert(false);
    }
}

macro_rules! source {
    ($($type:ty { $($field:ident: $default:literal,)* })*) => {$(
        impl Source for $type {
            fn set_defaults(&mut self) {
                $(default_to(&mut self.$field, $default);)*
            }
        }
    )*};
}

source! {
    ISCSIVolumeSource { iscsi_interface: "default", }
    ISCSIPersistentVolumeSource { iscsi_interface: "default", }
    RBDVolumeSource { keyring: "/etc/ceph/keyring", pool: "rbd", user: "admin", }
    RBDPersistentVolumeSource { keyring: "/etc/ceph/keyring", pool: "rbd", user: "admin", }
    ScaleIOVolumeSource { fs_type: "xfs", storage_mode: "ThinProvisioned", }
    ScaleIOPersistentVolumeSource { fs_type: "xfs", storage_mode: "ThinProvisioned", }
}
