//! The Pod Security Standards: the pods that a namespace's labels allow.
//!
//! Source: upstream `k8s.io/pod-security-admission`; <https://kubernetes.io/docs/concepts/security/pod-security-standards/>.

mod baseline;
mod checks;
mod found;
mod policy;
mod restricted;
mod subject;
#[cfg(test)]
mod tests;

pub use checks::Violations;
pub use policy::{Level, LevelVersion, Policy, Version, validate_labels};

use k8s_openapi::{
    api::core::v1::{Container, EphemeralContainer, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::collections::BTreeSet;

use crate::unset::list;

/// Returns the violations of a level by a pod or a template.
#[must_use]
pub fn violations(allowed: LevelVersion, meta: &ObjectMeta, spec: &PodSpec) -> Violations {
    checks::evaluate(allowed, meta, spec)
}

/// Whether an update of a pod changes a field that a check reads. Of the mutable fields, those are the images and the
/// set of containers.
#[must_use]
pub fn is_significant_update(new: &PodSpec, old: &PodSpec) -> bool {
    let same = |new: &[Container], old: &[Container]| {
        new.len() == old.len() && new.iter().zip(old).all(|(container, before)| container.image == before.image)
    };
    let before: BTreeSet<_> = list(&old.ephemeral_containers).iter().map(|old| (&old.name, &old.image)).collect();
    let was_there = |new: &EphemeralContainer| before.contains(&(&new.name, &new.image));
    !same(&new.containers, &old.containers)
        || !same(list(&new.init_containers), list(&old.init_containers))
        || !list(&new.ephemeral_containers).iter().all(was_there)
}
