//! The facts about a pod that the validation of its containers needs.

use std::collections::BTreeSet;

/// The facts about a pod that the validation of its containers needs.
pub(super) struct Surroundings<'a> {
    /// The names of its valid volumes.
    pub(super) volumes: &'a BTreeSet<&'a str>,
    /// Its grace period.
    pub(super) grace_period_seconds: i64,
    /// Its restart policy.
    pub(super) restart_policy: &'a str,
    /// The names of its device claims.
    pub(super) resource_claims: Vec<&'a str>,
    /// Whether it has a user namespace.
    pub(super) has_own_users: bool,
}
