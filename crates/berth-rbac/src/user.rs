//! Who asks.

use std::collections::BTreeMap;

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of every authenticated user.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of every unauthenticated user.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all service accounts; with `:NAMESPACE` appended, of those of one namespace.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// An identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Distinguishes users of one name over time. May be empty.
    pub uid: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// Additional data from the authentication.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An authenticated user `name`, in these groups and in that of all authenticated users.
    #[must_use]
    pub fn authenticated(name: &str, groups: &[String]) -> Self {
        let mut groups = groups.to_vec();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// The unauthenticated user.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// A service account, with the groups that all of them have.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
        Self { uid: uid.to_owned(), ..Self::authenticated(&service_account_name(namespace, name), &groups) }
    }

    /// Whether it has this group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Whether it may do everything.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Namespace and name, if it is called like a service account.
    #[must_use]
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
    }

    /// The name under which everything that is shared fairly between users is counted. The service accounts of a namespace have one share: a user
    /// who may edit a namespace creates as many of them as it likes.
    #[must_use]
    pub fn share(&self) -> &str {
        self.as_service_account().map_or(&self.name, |(_, name)| &self.name[..self.name.len() - name.len() - 1])
    }
}

/// What a service account is called as a user.
#[must_use]
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_are_users_and_are_recognized_again() {
        let user = User::service_account("n", "s", "u");
        assert_eq!((user.name.as_str(), user.as_service_account()), ("system:serviceaccount:n:s", Some(("n", "s"))));
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]);
        for other in ["alice", "system:serviceaccount:n", "system:serviceaccount::s", "system:serviceaccount:n:a:b"] {
            assert_eq!(User { name: other.to_owned(), ..User::default() }.as_service_account(), None, "{other}");
        }
    }

    #[test]
    fn service_accounts_of_a_namespace_have_one_share() {
        let share = |name: &str| User::authenticated(name, &[]).share().to_owned();
        for name in ["system:serviceaccount:n:a", "system:serviceaccount:n:b"] {
            assert_eq!(share(name), "system:serviceaccount:n");
        }
        for other in ["alice", "system:serviceaccount:m", "system:serviceaccount::s", "system:serviceaccount:n:a:b"] {
            assert_eq!(share(other), other);
        }
        assert_ne!(share("system:serviceaccount:m:a"), share("system:serviceaccount:n:a"));
    }
}
