//! The actor of a request: the server itself, or a user.

use berth_rbac::User;
use std::sync::Arc;

/// The actor. Every verb that depends on it takes it as a parameter, without a default.
#[derive(Clone, Debug)]
pub enum Actor {
    /// The server itself: its controllers, and follow-up writes. It has all rights.
    System,
    /// A user, limited by roles, bindings and shares. The caller has authorized the request with
    /// [`Registry::authorize`](crate::Registry::authorize). The registry checks further rights that the request needs.
    User(Arc<User>),
}

impl Actor {
    /// Returns the user for records of the author. `None`: the server itself.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        match self {
            Self::System => None,
            Self::User(user) => Some(user),
        }
    }

    /// Returns the user, unless this actor has all rights, such as an administrator and the server itself.
    pub(crate) fn limited(&self) -> Option<&User> {
        self.user().filter(|user| !user.is_master())
    }
}
