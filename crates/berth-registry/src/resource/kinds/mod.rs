//! The built-in kinds with Rust types, one file each: the table entry, the columns of `kubectl get`, and everything
//! else that is specific to the kind in this crate. Defaults and validation are in `berth-api`. Kinds that are data are
//! in `berth-kinds`.

mod cluster_role;
mod cluster_role_binding;
mod config_map;
mod controller_revision;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod event;
mod horizontal_pod_autoscaler;
mod ip_address;
mod lease;
mod limit_range;
mod metrics;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod priority_class;
mod replica_set;
mod resource_quota;
mod reviews;
mod role;
mod role_binding;
mod secret;
mod service;
mod service_account;
mod service_cidr;
mod shared_types;
mod stateful_set;
mod storage_class;
pub(crate) mod text;

pub(super) use metrics::resources as metrics;
pub(super) use reviews::resources as reviews;
pub(super) use shared_types::MERGE_RULES as SHARED_MERGE_RULES;

use super::{
    Resource,
    merge_rules::{
        MergeRule,
        PatchStrategy::Key,
        Ssa::{self, MapOf},
        conditions, list, list_of, to,
    },
};
use berth_kinds::{
    Definition, Kind,
    built_in::{
        api_service, certificate_signing_request, component_status, cron_job, csi_driver, csi_node, csi_storage_capacity,
        custom_resource_definition, daemon_set, device_class, flow_schema, ingress, ingress_class, job, mutating_admission_policy,
        mutating_admission_policy_binding, mutating_webhook_configuration, network_policy, pod_template, priority_level_configuration,
        replication_controller, resource_claim, resource_claim_template, resource_slice, runtime_class, validating_admission_policy,
        validating_admission_policy_binding, validating_webhook_configuration, volume_attachment, volume_attributes_class,
    },
};

/// Returns the table entry of every stored kind, in order of preference of groups. Key prefixes are those of upstream.
pub(super) fn stored() -> Vec<Resource> {
    let [autoscaler, autoscaler_v1] = horizontal_pod_autoscaler::resources();
    vec![
        namespace::resource(),
        node::resource(),
        pod::resource(),
        data(pod_template()).merges(POD_TEMPLATE),
        data(replication_controller()).merges(REPLICATION_CONTROLLER).stored_at("controllers").orphans_by_default(""),
        service::resource(),
        endpoints::resource(),
        config_map::resource(),
        secret::resource(),
        service_account::resource(),
        persistent_volume::resource(),
        persistent_volume_claim::resource(),
        event::core_resource(),
        data(component_status()).computed(),
        resource_quota::resource(),
        limit_range::resource(),
        data(api_service()).merges(API_SERVICE).stored_at("apiregistration.k8s.io/apiservices"),
        data(daemon_set()).merges(DAEMON_SET),
        deployment::resource(),
        replica_set::resource(),
        stateful_set::resource(),
        controller_revision::resource(),
        event::resource(),
        autoscaler,
        autoscaler_v1,
        data(cron_job()).merges(CRON_JOB),
        data(job()).merges(JOB).orphans_by_default(ORPHANED_PODS),
        data(certificate_signing_request()),
        data(ingress_class()),
        data(ingress()).stored_at("ingress"),
        ip_address::resource(),
        data(network_policy()),
        service_cidr::resource(),
        pod_disruption_budget::resource(),
        cluster_role_binding::resource(),
        cluster_role::resource(),
        role_binding::resource(),
        role::resource(),
        data(csi_driver()),
        data(csi_node()).merges(CSI_NODE),
        data(csi_storage_capacity()),
        storage_class::resource(),
        data(volume_attachment()),
        data(volume_attributes_class()),
        data(validating_admission_policy()).merges(VALIDATING_POLICY),
        data(validating_admission_policy_binding()),
        data(mutating_admission_policy()).merges(MUTATING_POLICY),
        data(mutating_admission_policy_binding()),
        data(mutating_webhook_configuration()).merges(MUTATING_WEBHOOKS),
        data(validating_webhook_configuration()).merges(VALIDATING_WEBHOOKS),
        data(custom_resource_definition()).stored_at("apiextensions.k8s.io/customresourcedefinitions"),
        priority_class::resource(),
        lease::resource(),
        data(runtime_class()).put_creates(),
        endpoint_slice::resource(),
        data(device_class()),
        data(resource_claim()).merges(RESOURCE_CLAIM),
        data(resource_claim_template()),
        data(resource_slice()),
        data(flow_schema()).merges(FLOW_SCHEMA),
        data(priority_level_configuration()).merges(PRIORITY_LEVEL),
    ]
}

/// The warning about the deletion of a Job without a policy.
const ORPHANED_PODS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
                             propagationPolicy=Orphan to suppress this warning";

// Strategic merge patch rules of kinds that are data. Server-side apply uses the rules of their schemas.
const CSI_NODE: &[MergeRule] = &[to("CSINode", "spec", "CSINodeSpec"), list("CSINodeSpec", "drivers", Key("name"), MapOf(&["name"]))];
const POD_TEMPLATE: &[MergeRule] = &[to("PodTemplate", "template", "PodTemplateSpec")];
const REPLICATION_CONTROLLER: &[MergeRule] = &[
    to("ReplicationController", "spec", "ReplicationControllerSpec"),
    to("ReplicationController", "status", "ReplicationControllerStatus"),
    to("ReplicationControllerSpec", "template", "PodTemplateSpec"),
    conditions("ReplicationControllerStatus"),
];
const DAEMON_SET: &[MergeRule] = &[
    to("DaemonSet", "spec", "DaemonSetSpec"),
    to("DaemonSet", "status", "DaemonSetStatus"),
    to("DaemonSetSpec", "template", "PodTemplateSpec"),
    conditions("DaemonSetStatus"),
];
const CRON_JOB: &[MergeRule] = &[
    to("CronJob", "spec", "CronJobSpec"),
    to("CronJobSpec", "jobTemplate", "JobTemplateSpec"),
    to("JobTemplateSpec", "metadata", "ObjectMeta"),
    to("JobTemplateSpec", "spec", "JobSpec"),
];
const JOB: &[MergeRule] = &[
    to("Job", "spec", "JobSpec"),
    to("Job", "status", "JobStatus"),
    to("JobSpec", "template", "PodTemplateSpec"),
    list("JobStatus", "conditions", Key("type"), Ssa::Atomic),
];
const RESOURCE_CLAIM: &[MergeRule] =
    &[to("ResourceClaim", "status", "ResourceClaimStatus"), list("ResourceClaimStatus", "reservedFor", Key("uid"), MapOf(&["uid"]))];
const FLOW_SCHEMA: &[MergeRule] = &[to("FlowSchema", "status", "FlowSchemaStatus"), conditions("FlowSchemaStatus")];
const PRIORITY_LEVEL: &[MergeRule] =
    &[to("PriorityLevelConfiguration", "status", "PriorityLevelConfigurationStatus"), conditions("PriorityLevelConfigurationStatus")];

const VALIDATING_POLICY: &[MergeRule] = &[
    to("ValidatingAdmissionPolicy", "spec", "ValidatingAdmissionPolicySpec"),
    list("ValidatingAdmissionPolicySpec", "matchConditions", Key("name"), MapOf(&["name"])),
    list("ValidatingAdmissionPolicySpec", "variables", Key("name"), MapOf(&["name"])),
];
const MUTATING_POLICY: &[MergeRule] = &[
    to("MutatingAdmissionPolicy", "spec", "MutatingAdmissionPolicySpec"),
    list("MutatingAdmissionPolicySpec", "matchConditions", Key("name"), MapOf(&["name"])),
];
const API_SERVICE: &[MergeRule] =
    &[to("APIService", "status", "APIServiceStatus"), list("APIServiceStatus", "conditions", Key("type"), MapOf(&["type"]))];
const MUTATING_WEBHOOKS: &[MergeRule] = &[
    list_of("MutatingWebhookConfiguration", "webhooks", Key("name"), MapOf(&["name"]), "MutatingWebhook"),
    list("MutatingWebhook", "matchConditions", Key("name"), MapOf(&["name"])),
];
const VALIDATING_WEBHOOKS: &[MergeRule] = &[
    list_of("ValidatingWebhookConfiguration", "webhooks", Key("name"), MapOf(&["name"]), "ValidatingWebhook"),
    list("ValidatingWebhook", "matchConditions", Key("name"), MapOf(&["name"])),
];

/// Returns a kind that is data, stored at `PLURAL`.
fn data(definition: Definition) -> Resource {
    let kind = Kind::new(definition).expect("built-in kinds do not contradict themselves");
    let resource = Resource::of_kind(&kind).remove(0);
    let place = resource.plural().to_string();
    resource.stored_at(&place)
}
