//! Which source a volume has: upstream's union of some thirty members.

use k8s_openapi::api::core::v1::Volume;

macro_rules! sources {
    ($($field:ident $wire:literal,)*) => {
        /// Names of the sources that a volume sets, as on the wire, in alphabetical order. Valid volumes have one.
        pub(crate) fn names(volume: &Volume) -> Vec<&'static str> {
            let mut names = Vec::new();
            $(if volume.$field.is_some() { names.push($wire); })*
            names
        }

        /// Whether a volume sets a source.
        pub(super) fn any(volume: &Volume) -> bool {
            false $(|| volume.$field.is_some())*
        }
    };
}

sources! {
    aws_elastic_block_store "awsElasticBlockStore",
    azure_disk "azureDisk",
    azure_file "azureFile",
    cephfs "cephfs",
    cinder "cinder",
    config_map "configMap",
    csi "csi",
    downward_api "downwardAPI",
    empty_dir "emptyDir",
    ephemeral "ephemeral",
    fc "fc",
    flex_volume "flexVolume",
    flocker "flocker",
    gce_persistent_disk "gcePersistentDisk",
    git_repo "gitRepo",
    glusterfs "glusterfs",
    host_path "hostPath",
    image "image",
    iscsi "iscsi",
    nfs "nfs",
    persistent_volume_claim "persistentVolumeClaim",
    photon_persistent_disk "photonPersistentDisk",
    portworx_volume "portworxVolume",
    projected "projected",
    quobyte "quobyte",
    rbd "rbd",
    scale_io "scaleIO",
    secret "secret",
    storageos "storageos",
    vsphere_volume "vsphereVolume",
}
