//! The source of a volume: upstream's unions of about thirty members.

use super::sources::SourceRules;
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Volume};

macro_rules! sources {
    ($function:ident($volume:ty) { $($field:ident $wire:literal,)* }) => {
        /// Returns the sources that a volume sets, by their names on the wire, in upstream's order of validation. Valid
        /// volumes have one.
        pub(crate) fn $function(volume: &$volume) -> Vec<(&'static str, &dyn SourceRules)> {
            let mut sources: Vec<(&'static str, &dyn SourceRules)> = Vec::new();
            $(if let Some(source) = &volume.$field { sources.push(($wire, source)); })*
            sources
        }
    };
}

sources! {
    of_volume(Volume) {
        empty_dir "emptyDir",
        host_path "hostPath",
        git_repo "gitRepo",
        gce_persistent_disk "gcePersistentDisk",
        aws_elastic_block_store "awsElasticBlockStore",
        secret "secret",
        nfs "nfs",
        iscsi "iscsi",
        glusterfs "glusterfs",
        flocker "flocker",
        persistent_volume_claim "persistentVolumeClaim",
        rbd "rbd",
        cinder "cinder",
        cephfs "cephfs",
        quobyte "quobyte",
        downward_api "downwardAPI",
        fc "fc",
        flex_volume "flexVolume",
        config_map "configMap",
        azure_file "azureFile",
        vsphere_volume "vsphereVolume",
        photon_persistent_disk "photonPersistentDisk",
        portworx_volume "portworxVolume",
        azure_disk "azureDisk",
        storageos "storageos",
        projected "projected",
        scale_io "scaleIO",
        csi "csi",
        ephemeral "ephemeral",
        image "image",
    }
}

sources! {
    of_persistent_volume(PersistentVolumeSpec) {
        host_path "hostPath",
        gce_persistent_disk "gcePersistentDisk",
        aws_elastic_block_store "awsElasticBlockStore",
        glusterfs "glusterfs",
        flocker "flocker",
        nfs "nfs",
        rbd "rbd",
        quobyte "quobyte",
        cephfs "cephfs",
        iscsi "iscsi",
        cinder "cinder",
        fc "fc",
        flex_volume "flexVolume",
        azure_file "azureFile",
        vsphere_volume "vsphereVolume",
        photon_persistent_disk "photonPersistentDisk",
        portworx_volume "portworxVolume",
        azure_disk "azureDisk",
        scale_io "scaleIO",
        local "local",
        storageos "storageos",
        csi "csi",
    }
}

/// Returns the names of the sources that a volume sets.
pub(crate) fn names(volume: &Volume) -> Vec<&'static str> {
    of_volume(volume).into_iter().map(|(name, _)| name).collect()
}
