//! Who acts: the server itself, or a user.

use berth_rbac::User;
use std::sync::Arc;

/// Who acts. Every verb that depends on it takes it, and it has no default: a caller that is forgotten does not compile.
#[derive(Clone, Debug)]
pub enum Actor {
    /// The server itself: its controllers, and what a write entails. It may do everything.
    System,
    /// A user, as far as roles, bindings and shares allow. That the user may make this request, the caller has asked
    /// [`Registry::authorize`](crate::Registry::authorize); the registry checks what the request does besides.
    User(Arc<User>),
}

impl Actor {
    /// The user who is recorded as the author; `None`: the server itself.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        match self {
            Self::System => None,
            Self::User(user) => Some(user),
        }
    }

    /// The user, unless this actor may do everything, as administrators and the server itself.
    pub(crate) fn limited(&self) -> Option<&User> {
        self.user().filter(|user| !user.is_master())
    }
}
