//! Where objects stand in the store: `/registry/<group, or core>/<resource>/[<namespace>/]<name>`.

use crate::{ApiError, Collection, Resource, Target};
use berth_api::Scope;
use berth_store::Key;
use std::sync::Arc;

/// The resource under whose group objects are kept: the two event resources share one place.
fn storage_group(resource: &Resource) -> &str {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("" | "events.k8s.io", "events") | ("", _) => "core",
        (group, _) => group,
    }
}

/// What the keys of all objects of `resource` start with.
pub(crate) fn resource_prefix(resource: &Resource) -> String {
    format!("/registry/{}/{}/", storage_group(resource), resource.plural)
}

/// What the keys of a collection start with.
pub(crate) fn prefix(at: &Collection) -> String {
    let all = resource_prefix(&at.resource);
    match &at.namespace {
        Some(namespace) => format!("{all}{namespace}/"),
        None => all,
    }
}

/// The key of one object.
pub(crate) fn key_of(resource: &Resource, namespace: Option<&str>, name: &str) -> Key {
    let all = resource_prefix(resource);
    Key::new(&match namespace {
        Some(namespace) => format!("{all}{namespace}/{name}"),
        None => format!("{all}{name}"),
    })
}

impl Target {
    /// The key of the object.
    pub(crate) fn key(&self) -> Key {
        key_of(&self.resource, self.namespace.as_deref(), &self.name)
    }

    /// A subresource must be one that the resource has: the rules of a status, say, mean nothing to a kind without.
    pub(crate) fn check_subresource(&self) -> Result<(), ApiError> {
        match self.subresource {
            Some(subresource) if !self.resource.subresources.contains(&subresource) => Err(ApiError::UnknownResource),
            _ => Ok(()),
        }
    }

    /// The collection that the object is in.
    pub(crate) fn collection(&self) -> Collection {
        Collection { resource: Arc::clone(&self.resource), namespace: self.namespace.clone() }
    }
}

/// A key, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// `core` for the core group.
    pub group: &'a str,
    /// The plural.
    pub plural: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// Takes a key apart; `None` if it is not one of the registry's.
#[must_use]
pub fn parts(key: &Key) -> Option<KeyParts<'_>> {
    let (group, rest) = key.as_str().strip_prefix("/registry/")?.split_once('/')?;
    let (plural, rest) = rest.split_once('/')?;
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    Some(KeyParts { group, plural, namespace, name })
}

/// The namespace and the name of the object at a key of a resource of this scope: its last parts, wherever the resource is stored.
pub(crate) fn place(scope: Scope, key: &Key) -> Option<(Option<&str>, &str)> {
    let mut from_the_end = key.as_str().rsplit('/');
    let name = from_the_end.next()?;
    match scope {
        Scope::Namespaced => Some((Some(from_the_end.next()?), name)),
        Scope::Cluster => Some((None, name)),
    }
}

/// The target that a key of `resource` stands for.
pub(crate) fn target_of(resource: &Arc<Resource>, key: &Key) -> Option<Target> {
    let (namespace, name) = place(resource.scope, key)?;
    let namespace = namespace.map(str::to_owned);
    Some(Target { resource: Arc::clone(resource), namespace, name: name.to_owned(), subresource: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_by_scope() {
        let check = |text: &str, wanted: Option<(&str, &str, &str, &str)>| {
            let key = Key::new(text);
            let found = parts(&key).map(|p| (p.group, p.plural, p.namespace, p.name));
            assert_eq!(found, wanted, "{text}");
        };
        check("/registry/core/pods/ns/p", Some(("core", "pods", "ns", "p")));
        check("/registry/core/nodes/n", Some(("core", "nodes", "", "n")));
        check("/registry/apps/deployments/a/b", Some(("apps", "deployments", "a", "b")));
        check("/other", None);
    }
}
