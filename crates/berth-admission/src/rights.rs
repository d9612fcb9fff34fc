//! The authorizer that expressions ask.

use crate::Request;
use berth_cel::{Access, Authorize, Verdict};
use berth_rbac::{Attributes, PathAttributes, Policy, ResourceAttributes, User};
use std::{fmt::Display, sync::Arc};

/// The rights of users at one moment, and the user of a request. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rights {
    user: Arc<User>,
    known: Known,
}

#[derive(Clone, Debug)]
enum Known {
    Policy(Arc<Policy>),
    /// Why the rights are unknown.
    Nothing(Arc<str>),
}

impl Rights {
    /// Returns the rights that `policy` grants. Expressions see its error.
    #[must_use]
    pub fn new<E: Display>(user: &User, policy: Result<Arc<Policy>, E>) -> Self {
        let known = match policy {
            Ok(policy) => Known::Policy(policy),
            Err(error) => Known::Nothing(error.to_string().into()),
        };
        Self { user: Arc::new(user.clone()), known }
    }
}

impl Authorize for Rights {
    fn authorize(&self, access: &Access) -> Verdict {
        let account = access.service_account.as_ref().map(|(namespace, name)| User::service_account(namespace, name, ""));
        let user = account.as_ref().unwrap_or(&self.user);
        if user.is_master() {
            return Verdict { is_allowed: true, ..Verdict::default() };
        }
        let policy = match &self.known {
            Known::Policy(policy) => policy,
            Known::Nothing(why) => return Verdict { error: Some(why.to_string()), ..Verdict::default() },
        };
        let attributes: Attributes<'_> = match &access.path {
            Some(path) => Attributes::Path(PathAttributes { verb: &access.verb, path }),
            None => ResourceAttributes {
                verb: &access.verb,
                group: &access.group,
                resource: &access.resource,
                subresource: &access.subresource,
                namespace: &access.namespace,
                name: &access.name,
            }
            .into(),
        };
        match policy.grant(user, &attributes) {
            Some(grant) => Verdict { is_allowed: true, reason: grant.to_string(), error: None },
            None => Verdict::default(),
        }
    }
}

impl Request<'_> {
    /// Returns the question of `authorizer.requestResource`, without its verb.
    #[must_use]
    pub fn access(&self) -> Access {
        let resource = &self.form.resource;
        Access {
            group: resource.group.to_string(),
            resource: resource.plural.to_string(),
            subresource: self.subresource.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            ..Access::default()
        }
    }
}
