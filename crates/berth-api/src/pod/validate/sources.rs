//! Sources of volumes that only drivers understand: what they must say.

use crate::{
    Path,
    faults::Faults,
    names::check_dns_subdomain,
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{FCVolumeSource, FlockerVolumeSource, PersistentVolumeSpec, QuobyteVolumeSource, Volume};

/// What the sources of a pod's volume, or of a PersistentVolume, say.
struct Sources<'a> {
    /// Texts that a source must have, by source and field as upstream names them.
    texts: Vec<(&'static str, &'static str, &'a str)>,
    monitors: Vec<(&'static str, &'a [String])>,
    partitions: Vec<(&'static str, i32)>,
    lun: Option<i32>,
    quobyte: Option<&'a QuobyteVolumeSource>,
    flocker: Option<&'a FlockerVolumeSource>,
    fc: Option<&'a FCVolumeSource>,
}

macro_rules! texts_of {
    ($volume:ident; $($source:ident $path:literal: $($field:ident $name:literal),*;)*) => {{
        let mut found: Vec<(&'static str, &'static str, &str)> = Vec::new();
        $(if let Some(source) = &$volume.$source {
            found.extend([$(($path, $name, source.$field.as_str())),*]);
        })*
        found.extend($volume.scale_io.iter().map(|source| ("scaleIO", "volumeName", text(&source.volume_name))));
        found.extend($volume.storageos.iter().map(|source| ("storageos", "volumeName", text(&source.volume_name))));
        found
    }};
}

macro_rules! sources_of {
    ($volume:ident) => {{
        let texts = texts_of! {
            $volume;
            gce_persistent_disk "persistentDisk": pd_name "pdName";
            aws_elastic_block_store "awsElasticBlockStore": volume_id "volumeID";
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
        };
        let rbd = $volume.rbd.iter().map(|source| ("rbd", source.monitors.as_slice()));
        let cephfs = $volume.cephfs.iter().map(|source| ("cephfs", source.monitors.as_slice()));
        let disk = $volume.gce_persistent_disk.iter().filter_map(|source| Some(("persistentDisk", source.partition?)));
        let store = $volume.aws_elastic_block_store.iter().filter_map(|source| Some(("awsElasticBlockStore", source.partition?)));
        Sources {
            texts,
            monitors: rbd.chain(cephfs).collect(),
            partitions: disk.chain(store).collect(),
            lun: $volume.iscsi.as_ref().map(|source| source.lun),
            quobyte: $volume.quobyte.as_ref(),
            flocker: $volume.flocker.as_ref(),
            fc: $volume.fc.as_ref(),
        }
    }};
}

/// Checks the sources of a volume that are not checked elsewhere; `path` is the volume's.
pub(super) fn validate(volume: &Volume, path: &Path, faults: &mut Faults) {
    if let Some(source) = &volume.git_repo {
        faults.set(&path.child("gitRepo").child("repository"), &source.repository);
    }
    sources_of!(volume).validate(path, faults);
    if let Some(source) = &volume.csi
        && !source.driver.is_empty()
    {
        faults.form(&path.child("csi").child("driver"), &source.driver, |driver| check_dns_subdomain(&driver.to_lowercase()));
    }
}

/// Checks the sources of a PersistentVolume that are not checked elsewhere; `path` is its spec's.
pub(crate) fn validate_persistent(spec: &PersistentVolumeSpec, path: &Path, faults: &mut Faults) {
    sources_of!(spec).validate(path, faults);
}

impl Sources<'_> {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        for (source, field, value) in &self.texts {
            faults.set(&path.child(source).child(field), value);
        }
        for (source, monitors) in &self.monitors {
            if monitors.is_empty() {
                faults.required(&path.child(source).child("monitors"), "");
            }
        }
        for (source, partition) in &self.partitions {
            if !(0..=255).contains(partition) {
                faults.invalid(&path.child(source).child("partition"), *partition, "must be between 1 and 255, inclusive");
            }
        }
        if let Some(lun) = self.lun.filter(|lun| !(0..=255).contains(lun)) {
            faults.invalid(&path.child("iscsi").child("lun"), lun, "must be between 0 and 255, inclusive");
        }
        if let Some(source) = self.quobyte {
            let path = path.child("quobyte");
            if source.registry.is_empty() {
                faults.required(&path.child("registry"), "must be a host:port pair or multiple pairs separated by commas");
            }
            faults.set(&path.child("volume"), &source.volume);
        }
        if self.flocker.is_some_and(|source| text(&source.dataset_name).is_empty() && text(&source.dataset_uuid).is_empty()) {
            faults.required(&path.child("flocker"), "one of datasetName and datasetUUID is required");
        }
        if let Some(source) = self.fc
            && list(&source.target_wwns).is_empty() == list(&source.wwids).is_empty()
        {
            faults.required(&path.child("fc").child("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
        }
    }
}
