//! Prevents privilege escalation: a user cannot grant rights that they do not have.
//!
//! Source: kubernetes `registry/rbac/*/policybased/storage.go`, `registry/rbac/validation/rule.go`.

use super::{
    Admission, At, Operation,
    plug_in::{Chain, PlugIn},
};
use crate::{ApiError, Resource};
use berth_api::{
    Object,
    k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef},
};
use berth_rbac::{Policy, ResourceAttributes, Scope, User, combinations, describe, everything, uncovered};

/// The maximum number of combinations of verb, group, resource and name that are compared with the caller's rights. The
/// largest default roles have some hundreds. A body of 100 KB can have more than there is time for.
const COMBINATIONS_MAX: usize = 10_000;

/// Checks writes of roles and bindings. The caller must have every granted right, or the right to `escalate` or `bind`.
pub(super) struct Escalation;

impl PlugIn for Escalation {
    const NAME: &'static str = "Escalation";

    async fn authorize(chain: &Chain, admission: &Admission<'_>) -> Result<(), ApiError> {
        let (At { resource, namespace, .. }, operation) = (admission.at, admission.operation);
        let is_asked = operation != Operation::Delete && resource.group() == berth_rbac::GROUP;
        let Some(user) = admission.author.actor.limited().filter(|_| is_asked) else { return Ok(()) };
        let policy = chain.authorizer.policy().await?;
        let (old, new) = (admission.old.as_ref().map(|old| &*old.object), &*admission.object);
        Attempt { policy: &policy, user, resource, namespace: namespace.unwrap_or_default(), name: admission.name() }.check(old, new)
    }
}

/// A write of a role or a binding by a user with limited rights.
struct Attempt<'a> {
    policy: &'a Policy,
    user: &'a User,
    resource: &'a Resource,
    /// Empty for cluster-scoped objects.
    namespace: &'a str,
    name: &'a str,
}

impl Attempt<'_> {
    fn check(&self, old: Option<&dyn Object>, new: &dyn Object) -> Result<(), ApiError> {
        if let Some(role) = new.downcast_ref::<Role>() {
            let old = old.and_then(|old| old.downcast_ref::<Role>());
            return self.check_rules(old.map(|old| old.rules.as_deref()), role.rules.as_deref());
        }
        if let Some(role) = new.downcast_ref::<ClusterRole>() {
            return self.check_cluster_role(old.and_then(|old| old.downcast_ref()), role);
        }
        if let Some(binding) = new.downcast_ref::<RoleBinding>() {
            let old = old.and_then(|old| old.downcast_ref::<RoleBinding>());
            let is_same = old.is_some_and(|old| old.role_ref == binding.role_ref && old.subjects == binding.subjects);
            return if is_same { Ok(()) } else { self.check_binding(&binding.role_ref) };
        }
        if let Some(binding) = new.downcast_ref::<ClusterRoleBinding>() {
            let old = old.and_then(|old| old.downcast_ref::<ClusterRoleBinding>());
            let is_same = old.is_some_and(|old| old.role_ref == binding.role_ref && old.subjects == binding.subjects);
            return if is_same { Ok(()) } else { self.check_binding(&binding.role_ref) };
        }
        Ok(())
    }

    fn check_cluster_role(&self, old: Option<&ClusterRole>, new: &ClusterRole) -> Result<(), ApiError> {
        self.check_rules(old.map(|old| old.rules.as_deref()), new.rules.as_deref())?;
        let before = old.and_then(|old| old.aggregation_rule.as_ref());
        if before == new.aggregation_rule.as_ref() || self.may("escalate", self.resource.plural(), self.name) {
            return Ok(());
        }
        if self.missing(&everything()).is_empty() {
            return Ok(());
        }
        Err(self.forbidden("must have cluster-admin privileges to use the aggregationRule"))
    }

    /// `old` is `None` for a new role.
    fn check_rules(&self, old: Option<Option<&[PolicyRule]>>, new: Option<&[PolicyRule]>) -> Result<(), ApiError> {
        let new = new.unwrap_or_default();
        if old.is_some_and(|old| old.unwrap_or_default() == new) || self.may("escalate", self.resource.plural(), self.name) {
            return Ok(());
        }
        self.check_held(new)
    }

    fn check_binding(&self, role: &RoleRef) -> Result<(), ApiError> {
        let plural = if role.kind == "ClusterRole" { "clusterroles" } else { "roles" };
        if self.may("bind", plural, &role.name) {
            return Ok(());
        }
        let scope = if self.namespace.is_empty() { Scope::Cluster } else { Scope::Namespace(self.namespace.to_owned()) };
        let rules = self.policy.rules_of_reference(role, &scope).ok_or_else(|| ApiError::not_found(self.resource, &role.name))?;
        self.check_held(rules)
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let attributes = ResourceAttributes { verb, group: berth_rbac::GROUP, resource, subresource: "", namespace: self.namespace, name };
        self.policy.grant(self.user, &attributes.into()).is_some()
    }

    fn missing(&self, rules: &[PolicyRule]) -> Vec<PolicyRule> {
        let held: Vec<PolicyRule> = self.policy.rules_for(self.user, self.namespace).cloned().collect();
        uncovered(&held, rules)
    }

    fn check_held(&self, rules: &[PolicyRule]) -> Result<(), ApiError> {
        let count = combinations(rules);
        if COMBINATIONS_MAX < count {
            return Err(self.forbidden(&format!(
                "the rules name {count} combinations of verbs, groups, resources and names, more than the {COMBINATIONS_MAX} that are compared \
                 with what their author holds"
            )));
        }
        let missing = self.missing(rules);
        if missing.is_empty() {
            return Ok(());
        }
        let User { name, groups, .. } = self.user;
        let groups: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
        let (groups, missing) = (groups.join(" "), describe(&missing));
        Err(self.forbidden(&format!(
            "user {name:?} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{missing}"
        )))
    }

    fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(self.resource, self.name, why, Vec::new())
    }
}
