//! An object's metadata without the fields that no plan reads.

use crate::{owners::OwnerReferences, selector::Labels};
use berth_identity::{Name, Namespace, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, IgnoredAny, MapAccess, Visitor},
};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// The metadata of an object of any kind, as views decode it. `managedFields` is left out: it is the largest part of many objects, and its
/// tree would cost more than all the rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WireMetadata {
    /// `namespace`.
    pub namespace: Option<Namespace>,
    /// `name`.
    pub name: Option<Name>,
    /// `uid`.
    pub uid: Option<Uid>,
    /// `labels`.
    pub labels: Option<Labels>,
    /// `annotations`.
    pub annotations: Option<BTreeMap<String, String>>,
    /// `ownerReferences`.
    pub owner_references: Option<OwnerReferences>,
    /// `finalizers`.
    pub finalizers: Option<Vec<String>>,
    /// `creationTimestamp`.
    pub creation_timestamp: Option<Time>,
    /// `deletionTimestamp`.
    pub deletion_timestamp: Option<Time>,
}

/// Reads `metadata` of an object's JSON and nothing after it, because most of an object comes after it.
///
/// # Errors
/// The text up to there is not valid JSON, the object has no metadata, or the metadata is not an `M`.
pub fn read_metadata<M: DeserializeOwned>(json: &[u8]) -> Result<M, serde_json::Error> {
    let mut found = None;
    let stopped = serde_json::Deserializer::from_slice(json).deserialize_map(UpToMetadata(&mut found));
    found.map_or_else(|| Err(stopped.err().unwrap_or_else(|| Error::missing_field("metadata"))), Ok)
}

/// Ends with an error as soon as it has found the metadata, because unread text costs nothing.
struct UpToMetadata<'a, M>(&'a mut Option<M>);

impl<'de, M: Deserialize<'de>> Visitor<'de> for UpToMetadata<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(Member(member)) = members.next_key()? {
            if member == "metadata" {
                *self.0 = Some(members.next_value()?);
                return Err(Error::custom("the rest is not read"));
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A name that is copied only if the JSON escapes it.
#[derive(Deserialize)]
struct Member<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(json: &str) -> Result<String, String> {
        let read: Result<WireMetadata, _> = read_metadata(json.as_bytes());
        read.map(|metadata| metadata.name.unwrap_or_default().to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn metadata_is_read_at_any_position_and_what_follows_it_is_not() {
        assert_eq!(name(r#"{"kind": "Pod", "spec": {"metadata": {"name": "b"}}, "metadata": {"name": "a"}}"#), Ok("a".to_owned()));
        assert_eq!(name(r#"{"metadata": {"name": "a"}, "spec": not JSON"#), Ok("a".to_owned()));
    }

    #[test]
    fn what_is_no_object_with_metadata_is_an_error() {
        assert_eq!(name(r#"{"kind": "Pod"}"#), Err("missing field `metadata`".to_owned()));
        assert!(name("[]").is_err_and(|error| error.starts_with("invalid type: sequence, expected an object")));
        for wrong in ["", "[]", r#"{"spec": }"#, r#"{"metadata": 1}"#, r#"{"metadata": {"name": 1}}"#, r#"{"metadata": {"name": "a""#] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
