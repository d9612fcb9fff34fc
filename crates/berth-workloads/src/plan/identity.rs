//! How a plan's JSON refers to objects: by group and plural, for the resources of plans.

use crate::resources;
use berth_identity::{ApiName, Name, Namespace, ObjectKey, ObjectRef, Revision, Uid};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Serialize, Deserialize)]
struct Written {
    group: ApiName,
    resource: ApiName,
    namespace: Namespace,
    name: Name,
    uid: Uid,
    resource_version: Option<u64>,
}

impl From<&ObjectRef> for Written {
    fn from(object: &ObjectRef) -> Self {
        let ObjectRef { resource, key, uid, resource_version } = object.clone();
        Self {
            group: resource.group,
            resource: resource.plural,
            namespace: key.namespace,
            name: key.name,
            uid,
            resource_version: resource_version.map(|revision| revision.0),
        }
    }
}

impl Written {
    fn read<E: de::Error>(self) -> Result<ObjectRef, E> {
        let Self { group, resource, namespace, name, uid, resource_version } = self;
        let unknown = || E::custom(format_args!("plans know no resource {resource:?} of group {group:?}"));
        let resource = resources::named(&group, &resource).ok_or_else(unknown)?;
        Ok(ObjectRef { resource, key: ObjectKey { namespace, name }, uid, resource_version: resource_version.map(Revision) })
    }
}

pub(super) fn serialize<S: Serializer>(object: &ObjectRef, serializer: S) -> Result<S::Ok, S::Error> {
    Written::from(object).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectRef, D::Error> {
    Written::deserialize(deserializer)?.read()
}

/// The same for several.
pub(super) mod list {
    use super::Written;
    use berth_identity::ObjectRef;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::plan) fn serialize<S: Serializer>(objects: &[ObjectRef], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(objects.iter().map(Written::from))
    }

    pub(in crate::plan) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ObjectRef>, D::Error> {
        Vec::<Written>::deserialize(deserializer)?.into_iter().map(Written::read).collect()
    }
}

/// The kind of an event's object: two members of the event.
pub(super) mod about_kind {
    use berth_identity::GroupVersionKind;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Written {
        about_kind: String,
        about_api_version: String,
    }

    pub(in crate::plan) fn serialize<S: Serializer>(kind: &GroupVersionKind, serializer: S) -> Result<S::Ok, S::Error> {
        Written { about_kind: kind.kind.to_string(), about_api_version: kind.api_version() }.serialize(serializer)
    }

    pub(in crate::plan) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GroupVersionKind, D::Error> {
        let Written { about_kind, about_api_version } = Written::deserialize(deserializer)?;
        Ok(GroupVersionKind::as_written(&about_api_version, &about_kind))
    }
}
