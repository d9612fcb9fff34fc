//! Questions to the authorizer of policies, and its answers.

use super::Opaque;
use crate::{Declaration, Value};
use std::{fmt, rc::Rc};

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// A question to the authorizer: whether a user has access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The namespace and the name of a service account. `None`: the question is about the user of the request.
    pub service_account: Option<(String, String)>,
    /// A path that is not a resource. `None`: the question is about a resource.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field selector.
    pub field_selector: Option<String>,
    /// The label selector.
    pub label_selector: Option<String>,
    /// The verb.
    pub verb: String,
}

/// The answer of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the user has access.
    pub is_allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong.
    pub error: Option<String>,
}

/// Answers the questions of expressions.
pub trait Authorize: fmt::Debug {
    /// Whether the user has access.
    fn authorize(&self, access: &Access) -> Verdict;
}

/// A question that is not complete yet.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    authorizer: Rc<dyn Authorize>,
    pub(crate) access: Access,
}

impl Value<'_> {
    /// The variable `authorizer`.
    #[must_use]
    pub fn authorizer(authorizer: Rc<dyn Authorize>) -> Self {
        Self::opaque(Opaque::Authorizer(Check { authorizer, access: Access::default() }))
    }

    /// The variable `authorizer.requestResource`: a question about the resource of the request.
    #[must_use]
    pub fn resource_check(authorizer: Rc<dyn Authorize>, access: Access) -> Self {
        Self::opaque(Opaque::Resource(Check { authorizer, access }))
    }
}

impl Declaration {
    /// The declaration of the variable `authorizer`.
    #[must_use]
    pub fn authorizer() -> Self {
        Self::opaque(AUTHORIZER)
    }

    /// The declaration of the variable `authorizer.requestResource`.
    #[must_use]
    pub fn resource_check() -> Self {
        Self::opaque(RESOURCE_CHECK)
    }
}

impl Check {
    /// The question with one change.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Access)) -> Self {
        let mut check = self.clone();
        change(&mut check.access);
        check
    }

    pub(crate) fn answer(&self) -> Verdict {
        self.authorizer.authorize(&self.access)
    }
}
