//! Where objects stand in the store: `<prefix of the resource>[<namespace>/]<name>`, such as `/registry/pods/default/web`.

use crate::{ApiError, Collection, Resource, Target, resource::built_in};
use berth_api::Scope;
use berth_store::Key;
use std::sync::Arc;

/// What the keys of a collection begin with.
pub(crate) fn prefix_of(at: &Collection) -> String {
    let all = at.resource.prefix();
    match &at.namespace {
        Some(namespace) => format!("{all}{namespace}/"),
        None => all.to_owned(),
    }
}

/// The key of one object.
pub(crate) fn key_of(resource: &Resource, namespace: Option<&str>, name: &str) -> Key {
    let all = resource.prefix();
    Key::new(&match namespace {
        Some(namespace) => [all, namespace, "/", name].concat(),
        None => [all, name].concat(),
    })
}

impl Resource {
    /// The namespace, if there is one, and the name of the object at a key of this resource. `None`: no object of it can be there.
    #[must_use]
    pub fn place<'k>(&self, key: &'k Key) -> Option<(Option<&'k str>, &'k str)> {
        place(self.scope, key)
    }
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

/// Where a key, or what keys begin with, stands today of the layout that berth had before upstream's: by group and plural, such as
/// `/registry/core/pods/default/web`. `None`: where it did.
pub(crate) fn moved(key: &Key) -> Option<Key> {
    let mut parts = key.as_str().strip_prefix("/registry/")?.splitn(3, '/');
    let (group, plural, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let resource = built_in().by_name(if group == "core" { "" } else { group }, plural)?;
    let moved = Key::new(&format!("{}{rest}", resource.prefix()));
    (moved != *key).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::of;
    use berth_api::k8s_openapi::api::core::v1::{Namespace, Service};

    #[test]
    fn keys_are_read_back_by_scope() {
        let check = |resource: &Arc<Resource>, namespace: Option<&str>, text: &str| {
            let key = key_of(resource, namespace, "n");
            assert_eq!((key.as_str(), place(resource.scope, &key)), (text, Some((namespace, "n"))));
        };
        check(of::<Service>(), Some("a"), "/registry/services/specs/a/n");
        check(of::<Namespace>(), None, "/registry/namespaces/n");
    }
    #[test]
    fn what_stood_by_group_and_plural_is_found() {
        let check = |before: &str, wanted: Option<&str>| assert_eq!(moved(&Key::new(before)).as_ref().map(Key::as_str), wanted, "{before}");
        for resource in built_in().stored() {
            let folder = if resource.group.is_empty() { "core" } else { &resource.group };
            for rest in ["", "a", "a/b"] {
                let today = format!("{}{rest}", resource.prefix());
                let before = format!("/registry/{folder}/{}/{rest}", resource.plural);
                check(&before, (before != today).then_some(&today));
                check(&today, None);
            }
        }
        check("/registry/core/nodes/a", Some("/registry/minions/a"));
        check("/registry/apps/deployments/default/web", Some("/registry/deployments/default/web"));
        for other in ["/registry/example.com/widgets/a/b", "/registry/ranges/servicenodeports/30000", "/registry/core/pods", "/other", ""] {
            check(other, None);
        }
    }
}
