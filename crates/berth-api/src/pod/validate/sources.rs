//! Sources of volumes that only drivers understand: what they must say.

use crate::{
    Path,
    faults::Faults,
    names::check_dns_subdomain,
    unset::{list, text},
};
use k8s_openapi::api::core::v1::Volume;

/// Checks the sources of a volume that are not checked elsewhere; `path` is the volume's.
pub(super) fn validate(volume: &Volume, path: &Path, faults: &mut Faults) {
    for (source, field, value) in required(volume) {
        faults.set(&path.child(source).child(field), value);
    }
    for (source, monitors) in monitors(volume) {
        if monitors.is_empty() {
            faults.required(&path.child(source).child("monitors"), "");
        }
    }
    for (source, partition) in partitions(volume) {
        if !(0..=255).contains(&partition) {
            faults.invalid(&path.child(source).child("partition"), partition, "must be between 1 and 255, inclusive");
        }
    }
    if let Some(source) = &volume.iscsi
        && !(0..=255).contains(&source.lun)
    {
        faults.invalid(&path.child("iscsi").child("lun"), source.lun, "must be between 0 and 255, inclusive");
    }
    if let Some(source) = &volume.csi
        && !source.driver.is_empty()
    {
        faults.form(&path.child("csi").child("driver"), &source.driver, |driver| check_dns_subdomain(&driver.to_lowercase()));
    }
    if volume.flocker.as_ref().is_some_and(|source| text(&source.dataset_name).is_empty() && text(&source.dataset_uuid).is_empty()) {
        faults.required(&path.child("flocker"), "one of datasetName and datasetUUID is required");
    }
    if let Some(source) = &volume.fc
        && list(&source.target_wwns).is_empty() == list(&source.wwids).is_empty()
    {
        faults.required(&path.child("fc").child("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
}

/// Texts that a source must have, by source and field as upstream names them.
fn required(volume: &Volume) -> Vec<(&'static str, &'static str, &str)> {
    let mut found = Vec::new();
    macro_rules! required {
        ($($source:ident $path:literal: $($field:ident $name:literal),*;)*) => {$(
            if let Some(source) = &volume.$source {
                found.extend([$(($path, $name, source.$field.as_str())),*]);
            }
        )*};
    }
    required! {
        gce_persistent_disk "persistentDisk": pd_name "pdName";
        aws_elastic_block_store "awsElasticBlockStore": volume_id "volumeID";
        git_repo "gitRepo": repository "repository";
        iscsi "iscsi": target_portal "targetPortal", iqn "iqn";
        glusterfs "glusterfs": endpoints "endpoints", path "path";
        flex_volume "flexVolume": driver "driver";
        rbd "rbd": image "image";
        cinder "cinder": volume_id "volumeID";
        azure_file "azureFile": secret_name "secretName", share_name "shareName";
        azure_disk "azureDisk": disk_name "diskName", disk_uri "diskURI";
        vsphere_volume "vsphereVolume": volume_path "volumePath";
        photon_persistent_disk "photonPersistentDisk": pd_id "pdID";
        portworx_volume "portworxVolume": volume_id "volumeID";
        scale_io "scaleIO": gateway "gateway", system "system";
    }
    found.extend(volume.scale_io.iter().map(|source| ("scaleIO", "volumeName", text(&source.volume_name))));
    found.extend(volume.storageos.iter().map(|source| ("storageos", "volumeName", text(&source.volume_name))));
    found
}

fn monitors(volume: &Volume) -> impl Iterator<Item = (&'static str, &[String])> {
    let rbd = volume.rbd.iter().map(|source| ("rbd", source.monitors.as_slice()));
    rbd.chain(volume.cephfs.iter().map(|source| ("cephfs", source.monitors.as_slice())))
}

fn partitions(volume: &Volume) -> impl Iterator<Item = (&'static str, i32)> {
    let disk = volume.gce_persistent_disk.iter().filter_map(|source| Some(("persistentDisk", source.partition?)));
    disk.chain(volume.aws_elastic_block_store.iter().filter_map(|source| Some(("awsElasticBlockStore", source.partition?))))
}
