//! The keys of objects in the store: `<prefix of the resource>[<namespace>/]<name>`, such as
//! `/registry/pods/default/web`.

use crate::{ApiError, Collection, Resource, Target};
use berth_api::Scope;
use berth_store::Key;
use std::sync::Arc;

/// Returns the key prefix of a collection.
pub(crate) fn prefix_of(at: &Collection) -> String {
    let all = at.resource.prefix();
    match &at.namespace {
        Some(namespace) => format!("{all}{namespace}/"),
        None => all.to_owned(),
    }
}

/// Returns the key of an object.
pub(crate) fn key_of(resource: &Resource, namespace: Option<&str>, name: &str) -> Key {
    let all = resource.prefix();
    Key::new(&match namespace {
        Some(namespace) => [all, namespace, "/", name].concat(),
        None => [all, name].concat(),
    })
}

impl Resource {
    /// Parses a key of this resource into namespace, if any, and name. `None`: it is not a key of an object of this
    /// resource.
    #[must_use]
    pub fn place<'k>(&self, key: &'k Key) -> Option<(Option<&'k str>, &'k str)> {
        place(self.scope, key)
    }
}

impl Target {
    /// Returns the key of the object.
    pub(crate) fn key(&self) -> Key {
        key_of(&self.resource, self.namespace.as_deref(), &self.name)
    }

    /// Checks that the resource has the subresource. Otherwise the rules of a status would apply to a kind without one.
    pub(crate) fn check_subresource(&self) -> Result<(), ApiError> {
        match self.subresource {
            Some(subresource) if !self.resource.subresources.contains(&subresource) => Err(ApiError::UnknownResource),
            _ => Ok(()),
        }
    }

    /// Returns the collection of the object.
    pub(crate) fn collection(&self) -> Collection {
        Collection { resource: Arc::clone(&self.resource), namespace: self.namespace.clone() }
    }
}

/// Returns the namespace and the name from a key of a resource of this scope: the last parts, for any prefix.
pub(crate) fn place(scope: Scope, key: &Key) -> Option<(Option<&str>, &str)> {
    let mut from_the_end = key.as_str().rsplit('/');
    let name = from_the_end.next()?;
    match scope {
        Scope::Namespaced => Some((Some(from_the_end.next()?), name)),
        Scope::Cluster => Some((None, name)),
    }
}

/// Returns the target for a key of `resource`.
pub(crate) fn target_of(resource: &Arc<Resource>, key: &Key) -> Option<Target> {
    let (namespace, name) = place(resource.scope, key)?;
    let namespace = namespace.map(str::to_owned);
    Some(Target { resource: Arc::clone(resource), namespace, name: name.to_owned(), subresource: None })
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
}
