//! Upstream's kinds that are data: a file each.

mod certificate_signing_request;
mod component_status;
mod cron_job;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod daemon_set;
mod device_class;
mod devices;
mod flow_schema;
mod horizontal_pod_autoscaler;
mod ingress;
mod ingress_class;
mod job;
mod metrics;
mod network_policy;
mod pod_template;
mod priority_level;
mod replication_controller;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;
mod runtime_class;
mod templates;
mod values;
mod volume_attachment;
mod volume_attributes_class;

pub use certificate_signing_request::certificate_signing_request;
pub use component_status::component_status;
pub use cron_job::cron_job;
pub use csi_driver::csi_driver;
pub use csi_node::csi_node;
pub use csi_storage_capacity::csi_storage_capacity;
pub use daemon_set::daemon_set;
pub use device_class::device_class;
pub use flow_schema::flow_schema;
pub use horizontal_pod_autoscaler::{autoscaler_to_v1, autoscaler_to_v2, horizontal_pod_autoscaler_v1};
pub use ingress::ingress;
pub use ingress_class::ingress_class;
pub use job::job;
pub use metrics::{node_metrics, pod_metrics};
pub use network_policy::network_policy;
pub use pod_template::pod_template;
pub use priority_level::priority_level_configuration;
pub use replication_controller::replication_controller;
pub use resource_claim::resource_claim;
pub use resource_claim_template::resource_claim_template;
pub use resource_slice::resource_slice;
pub use runtime_class::runtime_class;
pub use volume_attachment::volume_attachment;
pub use volume_attributes_class::volume_attributes_class;

use berth_api::{ObjectRules, object::GenerationRule};

/// What people read of the column of the name.
const NAME_DESCRIPTION: &str = "Name of the object, unique in its namespace.";

/// What is generic of an object of upstream's Go types, unless its kind differs.
fn rules() -> ObjectRules {
    ObjectRules { generation_rule: GenerationRule::Spec, requires_resource_version: false, ..ObjectRules::default() }
}

#[cfg(test)]
mod tests;
