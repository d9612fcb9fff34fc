//! Serializes objects that planners' inputs share with the caches, as the objects themselves.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// Serializes the object.
pub(crate) fn serialize<T: Serialize, S: Serializer>(shared: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
    shared.as_ref().serialize(serializer)
}

/// Deserializes the object.
pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// An object that may be absent.
pub(crate) mod option {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(shared: &Option<Arc<T>>, serializer: S) -> Result<S::Ok, S::Error> {
        shared.as_deref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<T>>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(Arc::new))
    }
}

/// Several objects.
pub(crate) mod list {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(shared: &[Arc<T>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(shared.iter().map(|object| &**object))
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<T>>, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().map(Arc::new).collect())
    }
}

/// Objects by their names.
pub(crate) mod map {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(shared: &BTreeMap<String, Arc<T>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(shared.iter().map(|(name, object)| (name, &**object)))
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Arc<T>>, D::Error> {
        let objects: BTreeMap<String, T> = BTreeMap::deserialize(deserializer)?;
        Ok(objects.into_iter().map(|(name, object)| (name, Arc::new(object))).collect())
    }
}
