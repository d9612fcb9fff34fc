//! The owners of an object.

use berth_identity::Recent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{ops::Deref, sync::Arc};

/// `metadata.ownerReferences`. Cheap to clone. Objects with equal owners, such as the pods of one set, usually share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerReferences(Arc<[OwnerReference]>);

impl Deref for OwnerReferences {
    type Target = [OwnerReference];

    fn deref(&self) -> &[OwnerReference] {
        &self.0
    }
}

impl From<Vec<OwnerReference>> for OwnerReferences {
    fn from(owners: Vec<OwnerReference>) -> Self {
        Self(owners.into())
    }
}

thread_local! {
    static RECENT: Recent<[OwnerReference]> = const { Recent::new() };
}

impl<'de> Deserialize<'de> for OwnerReferences {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::shared(&Vec::deserialize(deserializer)?))
    }
}

impl Serialize for OwnerReferences {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl OwnerReferences {
    /// The owners of a decoded object, shared with equal ones.
    #[must_use]
    pub fn shared(read: &[OwnerReference]) -> Self {
        let texts = |owner: &OwnerReference| owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len();
        let bytes = read.iter().map(texts).sum();
        let key = read.first().map(|owner| &owner.uid);
        Self(RECENT.with(|recent| recent.share(bytes, key, |known| *known == *read, || read.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_that_are_read_are_kept_once() {
        let read = |name: &str| {
            let owner = serde_json::json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "u", "controller": true}]);
            OwnerReferences::deserialize(owner).expect("owners")
        };
        assert!(Arc::ptr_eq(&read("a").0, &read("a").0));
        let text = |length: usize| "x".repeat(length);
        let long = |uid: usize| {
            let owner = serde_json::json!([{"apiVersion": text(256), "kind": text(256), "name": text(256), "uid": text(uid)}]);
            OwnerReferences::deserialize(owner).expect("owners")
        };
        assert!(Arc::ptr_eq(&long(256).0, &long(256).0) && !Arc::ptr_eq(&long(257).0, &long(257).0), "up to a KiB of texts");
        assert_eq!([read("a"), read("b")].map(|owners| owners[0].name.clone()), ["a", "b"], "of one uid, and yet not equal");
    }
}
