//! What a request wants to do.

use crate::User;
use std::fmt::Write as _;

/// The attributes of a request for authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// Something with objects.
    Resource(ResourceAttributes<'a>),
    /// Something with another path.
    Path(PathAttributes<'a>),
}

/// Something to do with objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    /// `get`, `list`, `watch`, …
    pub verb: &'a str,
    /// Empty for core.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster scope and for all namespaces.
    pub namespace: &'a str,
    /// Empty for collections.
    pub name: &'a str,
}

/// Something to do with a path that holds no objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathAttributes<'a> {
    /// The method, lower case.
    pub verb: &'a str,
    /// The path.
    pub path: &'a str,
}

impl<'a> From<ResourceAttributes<'a>> for Attributes<'a> {
    fn from(attributes: ResourceAttributes<'a>) -> Self {
        Self::Resource(attributes)
    }
}

impl Attributes<'_> {
    /// The verb.
    #[must_use]
    pub fn verb(&self) -> &str {
        match self {
            Self::Resource(attributes) => attributes.verb,
            Self::Path(attributes) => attributes.verb,
        }
    }

    /// The complete message for a user who may not do this.
    #[must_use]
    pub fn refusal(&self, user: &User) -> String {
        match self {
            Self::Path(PathAttributes { verb, path }) => format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name),
            Self::Resource(attributes) => attributes.refusal(user),
        }
    }
}

impl ResourceAttributes<'_> {
    fn refusal(&self, user: &User) -> String {
        let Self { verb, group, resource, subresource, namespace, name } = self;
        let mut message = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
        let slash = if subresource.is_empty() { "" } else { "/" };
        // Writing to a string cannot fail.
        if !name.is_empty() {
            let _ = write!(message, " {name:?}");
        }
        let user = &user.name;
        let _ = write!(message, " is forbidden: User {user:?} cannot {verb} resource \"{resource}{slash}{subresource}\"");
        let _ = write!(message, " in API group {group:?}");
        let _ = match *namespace {
            "" => write!(message, " at the cluster scope"),
            namespace => write!(message, " in the namespace {namespace:?}"),
        };
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_verb_resource_and_scope() {
        let alice = User::authenticated("alice", &[]);
        let of = |verb, group, resource, subresource, namespace, name| {
            Attributes::from(ResourceAttributes { verb, group, resource, subresource, namespace, name }).refusal(&alice)
        };
        assert_eq!(
            of("list", "apps", "deployments", "", "t1", ""),
            "deployments.apps is forbidden: User \"alice\" cannot list resource \"deployments\" in API group \"apps\" in the namespace \"t1\""
        );
        assert_eq!(
            of("patch", "", "pods", "", "e1", "x"),
            "pods \"x\" is forbidden: User \"alice\" cannot patch resource \"pods\" in API group \"\" in the namespace \"e1\""
        );
        assert_eq!(
            of("update", "apps", "deployments", "status", "e1", "x"),
            "deployments.apps \"x\" is forbidden: User \"alice\" cannot update resource \"deployments/status\" in API group \"apps\" in the \
             namespace \"e1\""
        );
        assert_eq!(
            of("list", "", "nodes", "", "", ""),
            "nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
        );
        let path = Attributes::Path(PathAttributes { verb: "get", path: "/metrics" });
        assert_eq!(path.refusal(&alice), "forbidden: User \"alice\" cannot get path \"/metrics\"");
    }
}
