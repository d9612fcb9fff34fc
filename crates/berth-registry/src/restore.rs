//! Stores objects of another server.

use crate::{ApiError, Registry, Resource, Resources, decoding, failure::Failure, key, stored};
use berth_api::{
    FeatureGates, FieldError, Scope,
    decode::{DecodeError, ParseError, from_json, parse_json},
    metadata,
};
use berth_identity::GroupVersionKind;
use berth_store::{Expected, Key, MAX_VALUE_BYTES, Purpose, env::Timestamp};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// An object of an [archive](crate::archive), in the form that a write would store.
#[derive(Debug)]
pub struct Archived {
    /// The object, encoded again.
    pub value: Bytes,
    /// When it expires. An event gets the lifetime that it has after a write.
    pub expires_at: Option<Timestamp>,
    /// Omitted fields that this build does not have.
    pub unknown: Vec<String>,
}

/// Why an object of an archive cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum ArchivedFault {
    /// This build does not have its kind.
    #[error("{0} is of no kind that this berth has")]
    Kind(Key),
    /// The value is not what can be stored at this key.
    #[error("{key}: {fault}")]
    Object {
        /// The key.
        key: Key,
        /// What is wrong with the value.
        fault: ObjectFault,
    },
}

/// Why a value of an archive is no object that this server can store.
#[derive(Debug, thiserror::Error)]
pub enum ObjectFault {
    /// It is not JSON.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It is not an object of the kind.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A field occurs twice.
    #[error("duplicate field {0:?}")]
    Duplicate(String),
    /// It is another JSON value.
    #[error("it is no JSON object")]
    NoObject,
    /// It names another kind or version.
    #[error(transparent)]
    Type(ApiError),
    /// Its name and namespace give another key.
    #[error("its name and namespace belong elsewhere")]
    Elsewhere,
    /// It has no uid.
    #[error("it has no uid")]
    NoUid,
    /// It breaks rules of its kind.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// It has no stored form.
    #[error(transparent)]
    Encode(ApiError),
    /// Its stored form has so many bytes.
    #[error("a value of {0} bytes is larger than {MAX_VALUE_BYTES}")]
    TooLarge(usize),
}

/// The type of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Type {
    api_version: String,
    kind: String,
}

impl Resources {
    /// Checks an object of an archive like a write: by the schema and the rules of its kind. It must have a uid, and a
    /// key that fits its name.
    ///
    /// # Errors
    /// [`ArchivedFault`].
    pub fn check_archived(&self, key: &Key, json: &[u8], now: Timestamp) -> Result<Archived, ArchivedFault> {
        let resource = self.by_key(key.as_str()).ok_or_else(|| ArchivedFault::Kind(key.clone()))?;
        // The archive contains the version of the object.
        let named =
            from_json::<Type>(json).ok().and_then(|named| self.by_kind(&GroupVersionKind::as_written(&named.api_version, &named.kind)));
        let resource = named.filter(|named| named.prefix() == resource.prefix()).unwrap_or(resource);
        let checked = check_archived(resource, key, json);
        let (value, unknown) = checked.map_err(|fault| ArchivedFault::Object { key: key.clone(), fault })?;
        Ok(Archived { value, expires_at: resource.expires_at(now), unknown })
    }
}

fn check_archived(resource: &Resource, key: &Key, json: &[u8]) -> Result<(Bytes, Vec<String>), ObjectFault> {
    let parsed = parse_json(json)?;
    if let Some(twice) = parsed.duplicates.first() {
        return Err(ObjectFault::Duplicate(twice.clone()));
    }
    if !parsed.value.is_object() {
        return Err(ObjectFault::NoObject);
    }
    decoding::check_type(resource, &parsed.value).map_err(ObjectFault::Type)?;
    let decoded = resource.rules.decode(parsed.value)?;
    let mut object = decoded.object;
    let meta = object.meta_mut();
    meta.resource_version = None;
    let namespace = meta.namespace.as_deref().filter(|_| resource.scope == Scope::Namespaced);
    if key::key_of(resource, namespace, meta.name.as_deref().unwrap_or_default()) != *key {
        return Err(ObjectFault::Elsewhere);
    }
    if meta.uid.as_deref().unwrap_or_default().is_empty() {
        return Err(ObjectFault::NoUid);
    }
    object.set_defaults();
    let rules = *object.rules();
    let mut faults = metadata::validate_new(object.meta(), rules.name_rule, resource.scope);
    faults.extend(metadata::validate_finalizer_names(object.meta(), rules.finalizer_rule));
    faults.extend(object.validate(&FeatureGates::default()));
    if !faults.is_empty() {
        return Err(ObjectFault::Invalid(faults));
    }
    let value = stored::encode(resource, &*object).map_err(ObjectFault::Encode)?;
    if MAX_VALUE_BYTES < value.len() {
        return Err(ObjectFault::TooLarge(value.len()));
    }
    Ok((value, decoded.unknown))
}

impl Registry {
    /// Stores an object unchanged, with its uid, status and times, from a snapshot of another cluster. No reviewer is
    /// called, and no follow-up writes are made. Unknown fields are omitted, and known defaults are added.
    ///
    /// # Errors
    /// A kind that is not served, an undecodable object, an existing one, or errors of the store.
    pub async fn restore(&self, object: &Value) -> Result<(), ApiError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let resources = self.resources();
        let Some(resource) = resources.by_kind(&GroupVersionKind::as_written(text("/apiVersion"), text("/kind"))) else {
            return Err(ApiError::UnknownResource);
        };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let unreadable = |why: String| ApiError::bad_request(format!("{} {name} cannot be read: {why}", resource.kind()));
        let mut decoded = resource.rules.decode_tree(object).map_err(|error| unreadable(error.to_string()))?;
        decoded.set_defaults();
        decoded.meta_mut().resource_version = None;
        let key = key::key_of(resource, (resource.scope == Scope::Namespaced).then_some(namespace), name);
        match self.storage.put(resource, key, &decoded.into(), Expected::Absent, Purpose::Upkeep).await {
            Ok(_) => Ok(()),
            Err(Failure::Raced) => Err(ApiError::already_exists(resource, name)),
            Err(Failure::Refused(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::built_in;
    use serde_json::json;

    fn check(key: &str, object: &Value) -> Result<Archived, String> {
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        built_in().check_archived(&Key::new(key), object.to_string().as_bytes(), now).map_err(|fault| fault.to_string())
    }

    fn map(change: impl FnOnce(&mut Value)) -> Value {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "uid": "u"}});
        change(&mut map);
        map
    }

    #[test]
    fn an_object_of_an_archive_is_stored_as_if_it_were_written() {
        let given = map(|map| {
            map["metadata"]["resourceVersion"] = "7".into();
            map["metadata"]["generation"] = 3.into();
            map["later"] = json!({"a": 1});
        });
        let Archived { value, expires_at, unknown } = check("/registry/configmaps/b/a", &given).expect("it is one");
        assert_eq!(value, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generation":3,"name":"a","namespace":"b","uid":"u"}}"#);
        assert_eq!((expires_at, unknown), (None, vec!["later".to_owned()]));
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "b", "uid": "u"},
            "involvedObject": {"namespace": "b"}});
        let expires_at = check("/registry/events/b/a", &event).expect("it is one").expires_at;
        assert_eq!(expires_at, Some("2026-01-01T01:00:00Z".parse().expect("a time")), "events live another hour");
    }

    #[test]
    fn what_could_not_be_written_there_is_refused_with_all_that_is_wrong() {
        let refused = |key: &str, object: &Value, wanted: &str| {
            let told = check(key, object).expect_err(wanted);
            assert!(told.contains(wanted), "{told}");
        };
        let at = "/registry/configmaps/b/a";
        refused("/registry/example.com/widgets/b/a", &map(|_| ()), "is of no kind that this berth has");
        refused("/registry/ranges/servicenodeports/30000", &map(|_| ()), "is of no kind that this berth has");
        refused("/registry/configmaps/b/c", &map(|_| ()), "its name and namespace belong elsewhere");
        refused("/registry/configmaps/b/x/a", &map(|_| ()), "its name and namespace belong elsewhere");
        refused("/registry/secrets/b/a", &map(|_| ()), "no kind \"ConfigMap\" is served at this path");
        refused(at, &map(|map| map["metadata"]["uid"] = "".into()), "it has no uid");
        refused(at, &map(|map| map["apiVersion"] = "v2".into()), "does not match the expected API version");
        refused(at, &map(|map| map["data"] = json!({"a": 1})), "data");
        refused(at, &json!([]), "it is no JSON object");
        refused(at, &map(|map| map["data"] = json!({"a": "x".repeat(MAX_VALUE_BYTES)})), "1048576");
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A", "namespace": "b", "uid": "u"}, "spec": {"containers": []}});
        refused("/registry/pods/b/A", &pod, "metadata.name: Invalid value");
        refused("/registry/pods/b/A", &pod, "spec.containers: Required value");
        let twice = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"a","namespace":"b","uid":"u"}}"#;
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let told = built_in().check_archived(&Key::new(at), twice, now).expect_err("which counts?").to_string();
        assert!(told.contains("duplicate field \"metadata.name\""), "{told}");
    }
}
