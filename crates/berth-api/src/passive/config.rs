//! ConfigMap, Secret and ServiceAccount.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    pod::validate::check_config_key,
    unset::{default_to, entries, list_mut, text},
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, ObjectReference, Secret, ServiceAccount},
};
use std::collections::BTreeMap;

/// The maximum total size of the values of one ConfigMap or Secret, in bytes.
const VALUE_BYTES_MAX: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

/// The deprecated annotation that restricted a service account's pods to its own secrets.
const MOUNTABLE_ONLY: &str = "kubernetes.io/enforce-mountable-secrets";

impl Kind for ServiceAccount {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        keep_names(self);
    }

    fn prepare_update(&mut self, _old: &Self, _gates: &FeatureGates) {
        keep_names(self);
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let is_bound =
            |account: &Self| account.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MOUNTABLE_ONLY));
        let text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
        let is_new = is_bound(self) && !old.is_some_and(is_bound);
        is_new.then(|| format!("metadata.annotations[{MOUNTABLE_ONLY}]: {text}")).into_iter().collect()
    }
}

/// Keeps only the names of an account's secrets.
///
/// Source: upstream `cleanSecretReferences`.
fn keep_names(account: &mut ServiceAccount) {
    for secret in list_mut(&mut account.secrets) {
        *secret = ObjectReference { name: secret.name.take(), ..ObjectReference::default() };
    }
}

impl Kind for ConfigMap {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        for (key, _) in entries(&self.data) {
            let path = Path::new("data").key(key);
            faults.form(&path, key, check_config_key);
            if self.binary_data.as_ref().is_some_and(|data| data.contains_key(key)) {
                faults.invalid(&path, key.as_str(), "duplicate of key present in binaryData");
            }
        }
        for (key, _) in entries(&self.binary_data) {
            faults.form(&Path::new("binaryData").key(key), key, check_config_key);
        }
        let text_bytes: usize = entries(&self.data).map(|(_, value)| value.len()).sum();
        if text_bytes + data_bytes(&self.binary_data) > VALUE_BYTES_MAX {
            faults.add([FieldError::too_long(&Path::new("[]"), VALUE_BYTES_MAX)]);
        }
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if old.immutable == Some(true) {
            let changed = [
                ("immutable", self.immutable != Some(true)),
                ("data", self.data != old.data),
                ("binaryData", self.binary_data != old.binary_data),
            ];
            refuse_changes(&changed, &mut faults);
        }
        faults.add(Kind::validate(self, gates));
        faults.into_vec()
    }
}

impl Kind for Secret {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn set_defaults(&mut self) {
        default_to(&mut self.type_, "Opaque");
        let texts = self.string_data.take().unwrap_or_default();
        if !texts.is_empty() {
            let data = self.data.get_or_insert_default();
            data.extend(texts.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))));
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let path = Path::new("data");
        for (key, _) in entries(&self.data) {
            faults.form(&path.key(key), key, check_config_key);
        }
        if data_bytes(&self.data) > VALUE_BYTES_MAX {
            faults.add([FieldError::too_long(&path, VALUE_BYTES_MAX)]);
        }
        validate_type(self, &path, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if self.type_ != old.type_ {
            faults.invalid(&Path::new("type"), text(&self.type_), IMMUTABLE);
        }
        if old.immutable == Some(true) {
            refuse_changes(&[("immutable", self.immutable != Some(true)), ("data", self.data != old.data)], &mut faults);
        }
        faults.add(Kind::validate(self, gates));
        faults.into_vec()
    }
}

fn refuse_changes(fields: &[(&str, bool)], faults: &mut Faults) {
    for (field, _) in fields.iter().filter(|(_, changed)| *changed) {
        faults.forbidden(&Path::new(field), FROZEN);
    }
}

/// Validates the keys that well-known types require.
fn validate_type(secret: &Secret, path: &Path, faults: &mut Faults) {
    let has = |key: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
    let mut require = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !has(key)) {
            faults.required(&path.key(key), "");
        }
    };
    match text(&secret.type_) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let account = secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
            if account.is_none_or(String::is_empty) {
                faults.required(&Path::new("metadata.annotations").key(key), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(secret, ".dockercfg", path, faults),
        "kubernetes.io/dockerconfigjson" => validate_json(secret, ".dockerconfigjson", path, faults),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => require(&["username", "password"]),
        "kubernetes.io/ssh-auth" => require(&["ssh-privatekey"]),
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"]),
        _ => (),
    }
}

fn validate_json(secret: &Secret, key: &str, path: &Path, faults: &mut Faults) {
    match secret.data.as_ref().and_then(|data| data.get(key)) {
        None => faults.required(&path.key(key), ""),
        Some(ByteString(bytes)) => {
            if let Err(error) = serde_json::from_slice::<serde_json::Value>(bytes) {
                faults.invalid(&path.key(key), "<secret contents redacted>", error.to_string());
            }
        }
    }
}

fn data_bytes(data: &Option<BTreeMap<String, ByteString>>) -> usize {
    entries(data).map(|(_, value)| value.0.len()).sum()
}
