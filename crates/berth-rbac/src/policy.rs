//! All roles and bindings, indexed by who is bound.

use crate::{Attributes, User, rule, service_account_name};
use berth_api::k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Where a role or binding applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Beside all namespaces; what it grants holds everywhere.
    Cluster,
    /// In this namespace; what it grants holds inside.
    Namespace(String),
}

/// Which role or binding.
pub type RoleName = (Scope, String);

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Clone, Debug)]
pub struct Binding {
    scope: Scope,
    name: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

impl From<RoleBinding> for Binding {
    fn from(binding: RoleBinding) -> Self {
        let scope = Scope::Namespace(binding.metadata.namespace.unwrap_or_default());
        let name = binding.metadata.name.unwrap_or_default();
        Self { scope, name, role: binding.role_ref, subjects: binding.subjects.unwrap_or_default() }
    }
}

impl From<ClusterRoleBinding> for Binding {
    fn from(binding: ClusterRoleBinding) -> Self {
        let name = binding.metadata.name.unwrap_or_default();
        Self { scope: Scope::Cluster, name, role: binding.role_ref, subjects: binding.subjects.unwrap_or_default() }
    }
}

impl Binding {
    /// The role that it refers to: a Role in its own namespace or a ClusterRole.
    fn role_name(&self) -> RoleName {
        role_name(&self.role, &self.scope)
    }

    /// The namespace of its service accounts that name none.
    fn own_namespace(&self) -> &str {
        match &self.scope {
            Scope::Cluster => "",
            Scope::Namespace(namespace) => namespace,
        }
    }

    fn subject_key(&self, subject: &Subject) -> Option<SubjectKey> {
        match subject.kind.as_str() {
            "User" => Some(SubjectKey::User(subject.name.clone())),
            "Group" => Some(SubjectKey::Group(subject.name.clone())),
            "ServiceAccount" => {
                let namespace = subject.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(self.own_namespace());
                (!namespace.is_empty()).then(|| SubjectKey::User(service_account_name(namespace, &subject.name)))
            }
            _ => None,
        }
    }
}

/// The role that a binding in `scope` means by its reference.
fn role_name(role: &RoleRef, scope: &Scope) -> RoleName {
    let scope = if role.kind == "ClusterRole" { Scope::Cluster } else { scope.clone() };
    (scope, role.name.clone())
}

/// A subject as requests show it: service accounts are users.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SubjectKey {
    User(String),
    Group(String),
}

/// All roles and bindings. A query is cheap: it reads only the bindings of the user's own name and groups.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    roles: BTreeMap<RoleName, Arc<[PolicyRule]>>,
    bindings: BTreeMap<RoleName, Arc<Binding>>,
    by_subject: BTreeMap<SubjectKey, BTreeSet<RoleName>>,
}

/// Why something is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { scope, name, role, .. } = self.binding;
        match scope {
            Scope::Cluster => write!(f, "RBAC: allowed by ClusterRoleBinding {name:?}")?,
            Scope::Namespace(namespace) => write!(f, "RBAC: allowed by RoleBinding \"{name}/{namespace}\"")?,
        }
        write!(f, " of {} {:?} to {}", role.kind, role.name, self.subject.kind)?;
        match (self.subject.kind.as_str(), &self.subject.namespace) {
            ("ServiceAccount", Some(namespace)) => write!(f, " \"{}/{namespace}\"", self.subject.name),
            _ => write!(f, " {:?}", self.subject.name),
        }
    }
}

impl Policy {
    /// Takes a Role, new or changed.
    pub fn put_role(&mut self, role: Role) {
        let scope = Scope::Namespace(role.metadata.namespace.unwrap_or_default());
        self.roles.insert((scope, role.metadata.name.unwrap_or_default()), role.rules.unwrap_or_default().into());
    }

    /// Takes a ClusterRole, new or changed.
    pub fn put_cluster_role(&mut self, role: ClusterRole) {
        self.roles.insert((Scope::Cluster, role.metadata.name.unwrap_or_default()), role.rules.unwrap_or_default().into());
    }

    /// Forgets a role.
    pub fn remove_role(&mut self, name: &RoleName) {
        self.roles.remove(name);
    }

    /// Takes a binding, new or changed.
    pub fn put_binding(&mut self, binding: Binding) {
        let name = (binding.scope.clone(), binding.name.clone());
        self.remove_binding(&name);
        for key in binding.subjects.iter().filter_map(|subject| binding.subject_key(subject)) {
            self.by_subject.entry(key).or_default().insert(name.clone());
        }
        self.bindings.insert(name, Arc::new(binding));
    }

    /// Forgets a binding.
    pub fn remove_binding(&mut self, name: &RoleName) {
        let Some(binding) = self.bindings.remove(name) else { return };
        for key in binding.subjects.iter().filter_map(|subject| binding.subject_key(subject)) {
            if let Some(names) = self.by_subject.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    self.by_subject.remove(&key);
                }
            }
        }
    }

    /// The grant by which `user` may do this, if there is one. Does not know of [`crate::MASTERS`] but by bindings.
    #[must_use]
    pub fn grant(&self, user: &User, attributes: &Attributes<'_>) -> Option<Grant<'_>> {
        let namespace = match attributes {
            Attributes::Resource(attributes) => attributes.namespace,
            Attributes::Path(_) => "",
        };
        let allows = |binding: &&Binding| self.rules_of(binding).iter().any(|rule| rule::allows(rule, attributes));
        let binding = self.bindings_of(user, namespace).find(allows)?;
        let subject = binding.subjects.iter().find(|subject| is_subject(binding, subject, user))?;
        Some(Grant { binding, subject })
    }

    /// All rules that `user` has in a namespace; those of cluster scope alone where it is empty.
    pub fn rules_for<'a>(&'a self, user: &User, namespace: &str) -> impl Iterator<Item = &'a PolicyRule> + use<'a> {
        self.bindings_of(user, namespace).flat_map(|binding| {
            let is_cluster = binding.scope == Scope::Cluster;
            // Inside a namespace there are no paths.
            self.rules_of(binding).iter().filter(move |rule| is_cluster || rule.non_resource_urls.as_ref().is_none_or(Vec::is_empty))
        })
    }

    /// The rules of the role that a binding in `scope` refers to so; `None` if there is no such role.
    #[must_use]
    pub fn rules_of_reference(&self, role: &RoleRef, scope: &Scope) -> Option<&[PolicyRule]> {
        self.roles.get(&role_name(role, scope)).map(|rules| &**rules)
    }

    /// A missing role grants nothing.
    fn rules_of(&self, binding: &Binding) -> &[PolicyRule] {
        self.roles.get(&binding.role_name()).map(|rules| &**rules).unwrap_or_default()
    }

    /// Those of all namespaces first, each kind by name.
    fn bindings_of(&self, user: &User, namespace: &str) -> impl Iterator<Item = &Binding> + use<'_> {
        let keys = user.groups.iter().map(|group| SubjectKey::Group(group.clone())).chain([SubjectKey::User(user.name.clone())]);
        let mut names: BTreeSet<&RoleName> = BTreeSet::new();
        for key in keys {
            names.extend(self.by_subject.get(&key).into_iter().flatten().filter(|(scope, _)| match scope {
                Scope::Cluster => true,
                Scope::Namespace(own) => own == namespace,
            }));
        }
        names.into_iter().filter_map(|name| self.bindings.get(name)).map(|binding| &**binding)
    }
}

fn is_subject(binding: &Binding, subject: &Subject, user: &User) -> bool {
    match binding.subject_key(subject) {
        Some(SubjectKey::User(name)) => name == user.name,
        Some(SubjectKey::Group(group)) => user.is_in(&group),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceAttributes;
    use proptest::{collection::vec, prelude::*, sample::select};
    use serde_json::{Value, json};

    fn rules(verbs: &[&str]) -> Value {
        json!([{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}])
    }

    fn role(namespace: &str, name: &str, verbs: &[&str]) -> Role {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules(verbs)})).expect("a Role")
    }

    fn cluster_role(name: &str, verbs: &[&str]) -> ClusterRole {
        serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules(verbs)})).expect("a ClusterRole")
    }

    /// A binding in a namespace, or of the cluster where that is empty.
    fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: &Value) -> Binding {
        let value = json!({"metadata": {"name": name, "namespace": namespace}, "subjects": subjects,
            "roleRef": {"apiGroup": crate::GROUP, "kind": role.0, "name": role.1}});
        if namespace.is_empty() {
            return Binding::from(serde_json::from_value::<ClusterRoleBinding>(value).expect("a ClusterRoleBinding"));
        }
        Binding::from(serde_json::from_value::<RoleBinding>(value).expect("a RoleBinding"))
    }

    fn to_user(name: &str) -> Value {
        json!([{"kind": "User", "name": name}])
    }

    fn reason(policy: &Policy, user: &User, verb: &str, namespace: &str) -> Option<String> {
        let attributes = ResourceAttributes { verb, resource: "pods", namespace, ..ResourceAttributes::default() };
        policy.grant(user, &attributes.into()).map(|grant| grant.to_string())
    }

    #[test]
    fn a_role_binding_grants_inside_its_namespace_only() {
        let mut policy = Policy::default();
        policy.put_role(role("e1", "rb", &["get"]));
        policy.put_cluster_role(cluster_role("rb", &["list"]));
        policy.put_binding(binding("e1", "rb", ("Role", "rb"), &to_user("alice")));
        policy.put_binding(binding("e2", "c", ("ClusterRole", "rb"), &to_user("alice")));
        let alice = User::authenticated("alice", &[]);
        let expected = "RBAC: allowed by RoleBinding \"rb/e1\" of Role \"rb\" to User \"alice\"";
        assert_eq!(reason(&policy, &alice, "get", "e1").as_deref(), Some(expected));
        assert_eq!(reason(&policy, &alice, "list", "e1"), None);
        assert_eq!(reason(&policy, &alice, "get", "e2"), None);
        let expected = "RBAC: allowed by RoleBinding \"c/e2\" of ClusterRole \"rb\" to User \"alice\"";
        assert_eq!(reason(&policy, &alice, "list", "e2").as_deref(), Some(expected));
        assert_eq!(reason(&policy, &alice, "list", ""), None);
        assert_eq!(reason(&policy, &User::authenticated("bob", &[]), "get", "e1"), None);
    }

    #[test]
    fn a_cluster_role_binding_grants_everywhere_and_is_named_first() {
        let mut policy = Policy::default();
        policy.put_cluster_role(cluster_role("r", &["get"]));
        policy.put_binding(binding("a", "z", ("ClusterRole", "r"), &to_user("alice")));
        policy.put_binding(binding("", "all", ("ClusterRole", "r"), &json!([{"kind": "Group", "name": "dev"}])));
        let alice = User::authenticated("alice", &["dev".to_owned()]);
        let expected = "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"r\" to Group \"dev\"";
        for namespace in ["", "a", "b"] {
            assert_eq!(reason(&policy, &alice, "get", namespace).as_deref(), Some(expected), "{namespace}");
        }
    }

    #[test]
    fn service_accounts_are_bound_by_either_of_their_names() {
        let mut policy = Policy::default();
        policy.put_role(role("n", "r", &["get"]));
        let account = User::service_account("n", "s", "");
        for subject in [
            json!({"kind": "ServiceAccount", "name": "s"}),
            json!({"kind": "ServiceAccount", "name": "s", "namespace": "n"}),
            json!({"kind": "User", "name": "system:serviceaccount:n:s"}),
            json!({"kind": "Group", "name": "system:serviceaccounts:n"}),
        ] {
            policy.put_binding(binding("n", "b", ("Role", "r"), &json!([subject])));
            assert!(reason(&policy, &account, "get", "n").is_some(), "{subject}");
        }
        policy.put_binding(binding("n", "b", ("Role", "r"), &json!([{"kind": "ServiceAccount", "name": "s", "namespace": "other"}])));
        assert_eq!(reason(&policy, &account, "get", "n"), None);
    }

    #[test]
    fn a_change_counts_at_once_and_a_missing_role_grants_nothing() {
        let mut policy = Policy::default();
        let alice = User::authenticated("alice", &[]);
        policy.put_binding(binding("n", "b", ("Role", "r"), &to_user("alice")));
        assert_eq!(reason(&policy, &alice, "get", "n"), None);
        policy.put_role(role("n", "r", &["get"]));
        assert!(reason(&policy, &alice, "get", "n").is_some());
        policy.put_binding(binding("n", "b", ("Role", "r"), &to_user("bob")));
        assert_eq!(reason(&policy, &alice, "get", "n"), None);
        assert!(reason(&policy, &User::authenticated("bob", &[]), "get", "n").is_some());
        policy.remove_role(&(Scope::Namespace("n".to_owned()), "r".to_owned()));
        assert_eq!(reason(&policy, &User::authenticated("bob", &[]), "get", "n"), None);
        policy.remove_binding(&(Scope::Namespace("n".to_owned()), "b".to_owned()));
        assert!(policy.by_subject.is_empty());
    }

    #[test]
    fn rules_of_a_user_are_those_of_the_namespace_and_of_the_cluster() {
        let mut policy = Policy::default();
        policy.put_role(role("n", "r", &["get"]));
        let value = json!({"metadata": {"name": "c"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]});
        policy.put_cluster_role(serde_json::from_value(value).expect("a ClusterRole"));
        policy.put_binding(binding("n", "b", ("Role", "r"), &to_user("alice")));
        policy.put_binding(binding("n", "paths", ("ClusterRole", "c"), &to_user("alice")));
        let alice = User::authenticated("alice", &[]);
        assert_eq!(policy.rules_for(&alice, "n").count(), 1);
        assert_eq!(policy.rules_for(&alice, "").count(), 0);
        policy.put_binding(binding("", "paths", ("ClusterRole", "c"), &to_user("alice")));
        assert_eq!(policy.rules_for(&alice, "n").count(), 2);
    }

    proptest! {
        /// The index by subject has the same result as a walk over all bindings.
        #[test]
        fn the_index_finds_what_a_walk_finds(
            changes in vec((select(vec!["", "a", "b"]), select(vec!["x", "y"]), select(vec!["r", "s"]), vec(select(vec!["u", "v"]), 0..3), any::<bool>()), 0..12)
        ) {
            let mut policy = Policy::default();
            policy.put_cluster_role(cluster_role("r", &["get"]));
            let mut bindings: BTreeMap<(String, String), (String, Vec<String>)> = BTreeMap::new();
            for (namespace, name, role, users, removed) in changes {
                let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespace(namespace.to_owned()) };
                if removed {
                    policy.remove_binding(&(scope, name.to_owned()));
                    bindings.remove(&(namespace.to_owned(), name.to_owned()));
                } else {
                    let subjects: Vec<Value> = users.iter().map(|user| json!({"kind": "User", "name": user})).collect();
                    policy.put_binding(binding(namespace, name, ("ClusterRole", role), &json!(subjects)));
                    let users = users.into_iter().map(str::to_owned).collect();
                    bindings.insert((namespace.to_owned(), name.to_owned()), (role.to_owned(), users));
                }
            }
            for user in ["u", "v"] {
                for namespace in ["", "a", "b"] {
                    let walked = bindings.iter().any(|((of, _), (role, users))| {
                        (of.is_empty() || of == namespace) && role == "r" && users.iter().any(|bound| bound == user)
                    });
                    let found = reason(&policy, &User::authenticated(user, &[]), "get", namespace).is_some();
                    prop_assert_eq!(found, walked, "{} in {:?}", user, namespace);
                }
            }
        }
    }
}
