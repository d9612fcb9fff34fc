//! Validates the sources of volumes. Sources with API objects are in `volumes.rs`.

use super::names::{check_no_backsteps, check_relative_path};
use crate::{
    FieldError, Path,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain},
    unset::{entries, list, text},
};
use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFilePersistentVolumeSource, AzureFileVolumeSource,
    CSIPersistentVolumeSource, CSIVolumeSource, CephFSPersistentVolumeSource, CephFSVolumeSource, CinderPersistentVolumeSource,
    CinderVolumeSource, FCVolumeSource, FlexPersistentVolumeSource, FlexVolumeSource, FlockerVolumeSource, GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource, GlusterfsPersistentVolumeSource, GlusterfsVolumeSource, HostPathVolumeSource, ISCSIPersistentVolumeSource,
    ISCSIVolumeSource, LocalVolumeSource, NFSVolumeSource, PhotonPersistentDiskVolumeSource, PortworxVolumeSource, QuobyteVolumeSource,
    RBDPersistentVolumeSource, RBDVolumeSource, ScaleIOPersistentVolumeSource, ScaleIOVolumeSource, SecretReference,
    StorageOSPersistentVolumeSource, StorageOSVolumeSource, VsphereVirtualDiskVolumeSource,
};
use std::collections::BTreeMap;

/// Highest mode of a file, 0777.
const MODE_MAX: i32 = 511;

/// How long the name of a CSI driver may be.
const CSI_DRIVER_BYTES_MAX: usize = 63;

/// A source that a volume of a pod, or a PersistentVolume, may have.
pub(crate) trait SourceRules {
    /// Adds the faults of the source at `path`, in upstream's order.
    fn validate(&self, path: &Path, faults: &mut Faults);
}

/// Validates the first source of a volume, and rejects all others. `path` is the volume's.
///
/// Source: upstream `validateVolumeSource`, `ValidatePersistentVolumeSpec`.
pub(crate) fn validate_only(sources: &[(&str, &dyn SourceRules)], path: &Path, faults: &mut Faults) {
    let Some(((name, first), more)) = sources.split_first() else { return faults.required(path, "must specify a volume type") };
    first.validate(&path.child(if *name == "gcePersistentDisk" { "persistentDisk" } else { name }), faults);
    refuse_more(more, path, faults);
}

/// Rejects sources beside another one.
pub(crate) fn refuse_more(more: &[(&str, &dyn SourceRules)], path: &Path, faults: &mut Faults) {
    for (name, _) in more {
        // Upstream misspells two of them here.
        let field = match *name {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            name => name,
        };
        faults.forbidden(&path.child(field), "may not specify more than 1 volume type");
    }
}

/// Sources with required texts and no other checks.
macro_rules! texts {
    ($($type:ty { $($field:ident $wire:literal,)* })*) => {$(
        impl SourceRules for $type {
            fn validate(&self, path: &Path, faults: &mut Faults) {
                $(faults.set(&path.child($wire), &self.$field);)*
            }
        }
    )*};
}

texts! {
    AzureFileVolumeSource { secret_name "secretName", share_name "shareName", }
    GlusterfsVolumeSource { endpoints "endpoints", path "path", }
    PhotonPersistentDiskVolumeSource { pd_id "pdID", }
    PortworxVolumeSource { volume_id "volumeID", }
    VsphereVirtualDiskVolumeSource { volume_path "volumePath", }
}

/// Implements the same rules for two types with the same fields.
macro_rules! both {
    ($($type:ty),*; |$source:ident, $path:ident, $faults:ident| $rules:block) => {$(
        impl SourceRules for $type {
            fn validate(&self, $path: &Path, $faults: &mut Faults) {
                let $source = self;
                $rules
            }
        }
    )*};
}

both!(RBDVolumeSource, RBDPersistentVolumeSource; |source, path, faults| {
    validate_monitors(&source.monitors, path, faults);
    faults.set(&path.child("image"), &source.image);
});

both!(CephFSVolumeSource, CephFSPersistentVolumeSource; |source, path, faults| {
    validate_monitors(&source.monitors, path, faults);
});

both!(ScaleIOVolumeSource, ScaleIOPersistentVolumeSource; |source, path, faults| {
    faults.set(&path.child("gateway"), &source.gateway);
    faults.set(&path.child("system"), &source.system);
    faults.set(&path.child("volumeName"), text(&source.volume_name));
});

both!(FlexVolumeSource, FlexPersistentVolumeSource; |source, path, faults| {
    faults.set(&path.child("driver"), &source.driver);
    validate_options(&source.options, &path.child("options"), faults);
});

impl SourceRules for AWSElasticBlockStoreVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("volumeID"), &self.volume_id);
        validate_partition(self.partition, path, faults);
    }
}

impl SourceRules for GCEPersistentDiskVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("pdName"), &self.pd_name);
        validate_partition(self.partition, path, faults);
    }
}

impl SourceRules for HostPathVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        const TYPES: &[&str] = &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
        if !faults.set(&path.child("path"), &self.path) {
            return;
        }
        faults.form(&path.child("path"), &self.path, check_no_backsteps);
        faults.known(&path.child("type"), text(&self.type_), TYPES);
    }
}

impl SourceRules for LocalVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set_form(&path.child("path"), &self.path, check_no_backsteps);
    }
}

impl SourceRules for NFSVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("server"), &self.server);
        faults.set(&path.child("path"), &self.path);
        if !self.path.starts_with('/') {
            faults.invalid(&path.child("path"), self.path.as_str(), "must be an absolute path");
        }
    }
}

impl SourceRules for GitRepoVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("repository"), &self.repository);
        faults.optional_form(&path.child("directory"), &self.directory, check_relative_path);
    }
}

impl SourceRules for FCVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        let (names, ids) = (list(&self.target_wwns), list(&self.wwids));
        let names_path = path.child("targetWWNs");
        match (names.is_empty(), ids.is_empty()) {
            (true, true) => faults.required(&names_path, "must specify either targetWWNs or wwids, but not both"),
            (false, false) => faults.invalid(&names_path, names, "targetWWNs and wwids can not be specified simultaneously"),
            _ => (),
        }
        match self.lun {
            _ if names.is_empty() => (),
            None => faults.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) => faults.within(&path.child("lun"), lun, LUNS),
        }
    }
}

impl SourceRules for FlockerVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        let name = text(&self.dataset_name);
        match (name.is_empty(), text(&self.dataset_uuid).is_empty()) {
            (true, true) => faults.required(path, "one of datasetName and datasetUUID is required"),
            (false, false) => faults.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"),
            _ => (),
        }
        if name.contains('/') {
            faults.invalid(&path.child("datasetName"), name, "must not contain '/'");
        }
    }
}

/// Longest name of a tenant, in bytes.
const TENANT_BYTES_MAX: usize = 64;

impl SourceRules for QuobyteVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        let detail = "must be a host:port pair or multiple pairs separated by commas";
        if self.registry.is_empty() {
            faults.required(&path.child("registry"), detail);
        } else if text(&self.tenant).len() > TENANT_BYTES_MAX {
            faults.required(&path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
        } else {
            for _ in self.registry.split(',').filter(|pair| !is_host_and_port(pair)) {
                faults.invalid(&path.child("registry"), self.registry.as_str(), detail);
            }
        }
        faults.set(&path.child("volume"), &self.volume);
    }
}

impl SourceRules for GlusterfsPersistentVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("endpoints"), &self.endpoints);
        faults.set(&path.child("path"), &self.path);
        match self.endpoints_namespace.as_deref() {
            None => (),
            Some("") => {
                let detail = "if the endpointnamespace is set, it must be a valid namespace name";
                faults.invalid(&path.child("endpointsNamespace"), "", detail);
            }
            Some(name) => faults.form(&path.child("endpointsNamespace"), name, check_dns_label),
        }
    }
}

impl SourceRules for CinderVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("volumeID"), &self.volume_id);
        if let Some(secret) = &self.secret_ref {
            faults.set(&path.child("secretRef").child("name"), &secret.name);
        }
    }
}

impl SourceRules for CinderPersistentVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("volumeID"), &self.volume_id);
        if let Some(secret) = &self.secret_ref {
            faults.set(&path.child("secretRef").child("name"), text(&secret.name));
            faults.set(&path.child("secretRef").child("namespace"), text(&secret.namespace));
        }
    }
}

impl SourceRules for StorageOSVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set_form(&path.child("volumeName"), text(&self.volume_name), check_dns_label);
        faults.optional_form(&path.child("volumeNamespace"), &self.volume_namespace, check_dns_label);
        if let Some(secret) = &self.secret_ref {
            faults.set(&path.child("secretRef").child("name"), &secret.name);
        }
    }
}

impl SourceRules for StorageOSPersistentVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set_form(&path.child("volumeName"), text(&self.volume_name), check_dns_label);
        faults.optional_form(&path.child("volumeNamespace"), &self.volume_namespace, check_dns_label);
        if let Some(secret) = &self.secret_ref {
            faults.set(&path.child("secretRef").child("name"), text(&secret.name));
            faults.set(&path.child("secretRef").child("namespace"), text(&secret.namespace));
        }
    }
}

impl SourceRules for AzureFilePersistentVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("secretName"), &self.secret_name);
        faults.set(&path.child("shareName"), &self.share_name);
        if let Some(namespace) = &self.secret_namespace {
            faults.set(&path.child("secretNamespace"), namespace);
        }
    }
}

impl SourceRules for AzureDiskVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
        faults.set(&path.child("diskName"), &self.disk_name);
        faults.set(&path.child("diskURI"), &self.disk_uri);
        if let Some(mode) = &self.caching_mode {
            faults.known(&path.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
        }
        let Some(kind) = &self.kind else { return };
        faults.known(&path.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
        let (start, example) = if kind == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
        if !self.disk_uri.starts_with(start) {
            faults.add([FieldError::not_supported(&path.child("diskURI"), self.disk_uri.as_str(), &[example])]);
        }
    }
}

/// File mode, if set.
pub(super) fn validate_mode(mode: Option<i32>, path: &Path, faults: &mut Faults) {
    if let Some(mode) = mode.filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        faults.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Validates the name of a CSI driver, which may have upper-case letters.
///
/// Source: upstream `validation.go`, `ValidateCSIDriverName`.
fn validate_csi_driver(driver: &str, path: &Path, faults: &mut Faults) {
    if !faults.set(path, driver) {
        return;
    }
    if driver.len() > CSI_DRIVER_BYTES_MAX {
        faults.add([FieldError::too_long(path, CSI_DRIVER_BYTES_MAX)]);
    }
    for detail in check_dns_subdomain(&driver.to_lowercase()) {
        faults.invalid(path, driver, detail);
    }
}

impl SourceRules for CSIVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        validate_csi_driver(&self.driver, &path.child("driver"), faults);
        if let Some(secret) = &self.node_publish_secret_ref
            && faults.set(&path.child("nodePublishSecretRef").child("name"), &secret.name)
        {
            // Upstream reports the form of the name at the source's own `name`, which does not exist.
            faults.form(&path.child("name"), &secret.name, check_dns_subdomain);
        }
    }
}

impl SourceRules for CSIPersistentVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        validate_csi_driver(&self.driver, &path.child("driver"), faults);
        faults.set(&path.child("volumeHandle"), &self.volume_handle);
        validate_secret(self.controller_publish_secret_ref.as_ref(), &path.child("controllerPublishSecretRef"), faults);
        validate_secret(self.controller_expand_secret_ref.as_ref(), &path.child("controllerExpandSecretRef"), faults);
        validate_secret(self.node_publish_secret_ref.as_ref(), &path.child("nodePublishSecretRef"), faults);
        validate_secret(self.node_expand_secret_ref.as_ref(), &path.child("nodeExpandSecretRef"), faults);
    }
}

/// Upstream's messages about a name of unknown form, in pod volumes and in PersistentVolumes.
const OF_POD: &str = "must be valid format starting with iqn, eui, or naa";
const OF_PERSISTENT: &str = "must be valid format";

impl SourceRules for ISCSIVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("targetPortal"), &self.target_portal);
        if faults.set(&path.child("iqn"), &self.iqn) {
            validate_iscsi_name(&self.iqn, OF_POD, &path.child("iqn"), faults);
        }
        faults.within(&path.child("lun"), self.lun, LUNS);
        let authenticates = self.chap_auth_discovery == Some(true) || self.chap_auth_session == Some(true);
        if authenticates && self.secret_ref.is_none() {
            faults.required(&path.child("secretRef"), "");
        }
        if let Some(name) = &self.initiator_name {
            validate_iscsi_name(name, OF_POD, &path.child("initiatorname"), faults);
        }
    }
}

impl SourceRules for ISCSIPersistentVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("targetPortal"), &self.target_portal);
        if faults.set(&path.child("iqn"), &self.iqn) {
            validate_iscsi_name(&self.iqn, OF_PERSISTENT, &path.child("iqn"), faults);
        }
        faults.within(&path.child("lun"), self.lun, LUNS);
        let authenticates = self.chap_auth_discovery == Some(true) || self.chap_auth_session == Some(true);
        match &self.secret_ref {
            None if authenticates => faults.required(&path.child("secretRef"), ""),
            None => (),
            Some(secret) => _ = faults.set(&path.child("secretRef").child("name"), text(&secret.name)),
        }
        if let Some(name) = &self.initiator_name {
            validate_iscsi_name(name, OF_PERSISTENT, &path.child("initiatorname"), faults);
        }
    }
}

/// Units of a SCSI target.
const LUNS: (i64, i64) = (0, 255);

fn validate_monitors(monitors: &[String], path: &Path, faults: &mut Faults) {
    if monitors.is_empty() {
        faults.required(&path.child("monitors"), "");
    }
}

fn validate_partition(partition: Option<i32>, path: &Path, faults: &mut Faults) {
    // 0 means no partition, despite the message.
    if let Some(partition) = partition.filter(|partition| !(0..=255).contains(partition)) {
        faults.invalid(&path.child("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

/// The kubelet passes its own options to the driver, with Kubernetes' domains.
fn validate_options(options: &Option<BTreeMap<String, String>>, path: &Path, faults: &mut Faults) {
    for (name, _) in entries(options) {
        let domain = name.split_once('/').map_or(name.as_str(), |(domain, _)| domain).to_lowercase();
        let is_within = |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if is_within("kubernetes.io") || is_within("k8s.io") {
            faults.invalid(&path.key(name), name.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

/// Source: upstream `validatePVSecretReference`.
fn validate_secret(secret: Option<&SecretReference>, path: &Path, faults: &mut Faults) {
    let Some(secret) = secret else { return };
    faults.set_form(&path.child("name"), text(&secret.name), check_dns_subdomain);
    faults.set_form(&path.child("namespace"), text(&secret.namespace), check_dns_label);
}

/// Validates the name of an iSCSI node, which has one of three forms.
fn validate_iscsi_name(name: &str, if_unknown: &str, path: &Path, faults: &mut Faults) {
    let form = ["iqn", "eui", "naa"].into_iter().find_map(|form| Some((form, name.strip_prefix(form)?)));
    let is_valid = match form {
        None => return faults.invalid(path, name, if_unknown),
        Some(("iqn", rest)) => rest.strip_prefix('.').is_some_and(is_qualified),
        Some(("eui", rest)) => is_identifier(rest, 16),
        Some((_, rest)) => is_identifier(rest, 32),
    };
    if !is_valid {
        faults.invalid(path, name, OF_PERSISTENT);
    }
}

/// Whether the text is `YYYY-MM.domain:name`: a date at which the naming authority owned the domain, and the domain.
fn is_qualified(text: &str) -> bool {
    let digits = |part: &str, count| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    let Some(((date, rest), (year, month))) = text.split_once('.').and_then(|parts| Some((parts, parts.0.split_once('-')?))) else {
        return false;
    };
    let Some((domain, name)) = rest.split_once(':') else { return false };
    let is_domain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let is_name = |char: char| !char.is_ascii_whitespace() && !",;*&$|".contains(char);
    let has_date = date.len() == 7 && digits(year, 4) && digits(month, 2);
    has_date && !domain.is_empty() && domain.bytes().all(is_domain) && !name.is_empty() && name.chars().all(is_name)
}

/// A separator and so many letters or digits.
fn is_identifier(text: &str, count: usize) -> bool {
    let mut chars = text.chars();
    chars.next().is_some() && chars.as_str().len() == count && chars.all(|char| char.is_ascii_alphanumeric())
}

/// `host:port` or `[host]:port`. Both parts may be empty.
fn is_host_and_port(text: &str) -> bool {
    let parts = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => text.split_once(':').filter(|(host, _)| !host.contains(']')),
    };
    parts.is_some_and(|(host, port)| !host.contains('[') && !port.contains([':', '[', ']']))
}
