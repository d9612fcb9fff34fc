//! Upstream's kinds that are data: a file each.

mod admission_policies;
mod admission_rules;
mod api_service;
mod certificate_signing_request;
mod component_status;
mod cron_job;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod custom_resource_definition;
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
pub(crate) mod values;
mod volume_attachment;
mod volume_attributes_class;
mod webhook_configuration;

pub use admission_policies::{
    mutating_admission_policy, mutating_admission_policy_binding, validating_admission_policy, validating_admission_policy_binding,
};
pub use api_service::{api_service, is_of_custom_resource, local_api_service};
pub use certificate_signing_request::certificate_signing_request;
pub use component_status::component_status;
pub use cron_job::cron_job;
pub use csi_driver::csi_driver;
pub use csi_node::csi_node;
pub use csi_storage_capacity::csi_storage_capacity;
pub use custom_resource_definition::custom_resource_definition;
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
pub use webhook_configuration::{mutating_webhook_configuration, validating_webhook_configuration};

use berth_api::{
    ObjectRules,
    object::{FinalizerRule, GenerationRule},
};

/// What people read of the column of the name.
const NAME_DESCRIPTION: &str = "Name of the object, unique in its namespace.";

/// What is generic of an object of upstream's Go types, unless its kind differs.
fn rules() -> ObjectRules {
    let finalizer_rule = FinalizerRule::Qualified;
    ObjectRules { generation_rule: GenerationRule::Spec, requires_resource_version: false, finalizer_rule, ..ObjectRules::default() }
}

#[cfg(test)]
mod tests;
