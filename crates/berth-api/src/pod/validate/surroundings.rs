//! What the checks of one container know of its pod.

use std::collections::BTreeSet;

/// What the checks of one container need of its pod.
pub(super) struct Surroundings<'a> {
    /// Names of the volumes that may be mounted.
    pub(super) volumes: &'a BTreeSet<&'a str>,
    /// How long the pod has to end.
    pub(super) grace_period_seconds: i64,
    /// When its containers restart.
    pub(super) restart_policy: &'a str,
    /// Names of the claims of devices that its containers may refer to.
    pub(super) resource_claims: Vec<&'a str>,
    /// Whether its users are not those of its node.
    pub(super) has_own_users: bool,
}
