//! Authorization by the roles and bindings in the store, and its errors.

mod own_writes;
mod policy;

pub(crate) use own_writes::OwnWrites;
pub(crate) use policy::Authorizer;
pub use policy::LAG_MAX;

use crate::{Actor, ApiError, Target};
use berth_identity::GroupResource;
use berth_rbac::{Attributes, ResourceAttributes, User};

impl Authorizer {
    /// Returns why `user` may do this (empty for users with all rights), or `None` if they may not. It sees every
    /// acknowledged write of this server, and those of others after [`LAG_MAX`].
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Result<Option<String>, ApiError> {
        if user.is_master() {
            return Ok(Some(String::new()));
        }
        let policy = self.policy().await?;
        Ok(policy.grant(user, attributes).map(|grant| grant.to_string()))
    }

    /// Does the same as [`Authorizer::decide`], with an error instead of `None`.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`], or errors of the store.
    pub(crate) async fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<String, ApiError> {
        self.decide(user, attributes).await?.ok_or_else(|| forbidden(user, attributes))
    }

    /// Checks that the actor may create the target's object, for a PUT or an apply of a missing one.
    pub(crate) async fn authorize_creation(&self, actor: &Actor, target: &Target) -> Result<(), ApiError> {
        let Some(user) = actor.limited() else { return Ok(()) };
        let attributes = ResourceAttributes {
            verb: "create",
            group: target.resource.group(),
            resource: target.resource.plural(),
            subresource: "",
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: &target.name,
        };
        self.authorize(user, &attributes.into()).await.map(drop)
    }
}

/// Returns the error for a request that `user` may not make.
#[must_use]
pub fn forbidden(user: &User, attributes: &Attributes<'_>) -> ApiError {
    let (group, resource, name) = match attributes {
        Attributes::Path(_) => ("", "", ""),
        Attributes::Resource(attributes) => (attributes.group, attributes.resource, attributes.name),
    };
    ApiError::Forbidden {
        resource: GroupResource::new(group, resource),
        name: name.to_owned(),
        message: attributes.refusal(user),
        causes: Vec::new(),
        refused_by: None,
    }
}
