//! Upstream's kinds that are data: a file each.

mod ingress;
mod ingress_class;
mod network_policy;
mod values;
// The example of CONTRIBUTING, which berth does not serve.
#[cfg(test)]
mod volume_attributes_class;

pub use ingress::ingress;
pub use ingress_class::ingress_class;
pub use network_policy::network_policy;

use berth_api::{ObjectRules, object::GenerationRule};

/// What people read of the column of the name.
const NAME_DESCRIPTION: &str = "Name of the object, unique in its namespace.";

/// What is generic of an object of upstream's Go types, unless its kind differs.
fn rules() -> ObjectRules {
    ObjectRules { generation_rule: GenerationRule::Spec, requires_resource_version: false, ..ObjectRules::default() }
}

#[cfg(test)]
mod tests;
