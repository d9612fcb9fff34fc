//! Made by `testdata/normal-form/make.py` from the JSON tags of k8s.io/api v1.36.2. Do not edit.

use super::normal;
use k8s_openapi::{
    api::{
        apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization, autoscaling::v2 as autoscaling,
        coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events, networking::v1 as networking,
        policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apimachinery::pkg::apis::meta::v1 as meta,
};

normal! {
    apps::ControllerRevision { visit: metadata; }
    apps::DeploymentCondition { drop: message reason; }
    apps::ReplicaSetCondition { drop: message reason; }
    apps::StatefulSetCondition { drop: message reason; }
    apps::StatefulSetOrdinals { fill: start; }
    apps::StatefulSetPersistentVolumeClaimRetentionPolicy { drop: when_deleted when_scaled; }
    authentication::SelfSubjectReview { fill: status; visit: metadata status; }
    authentication::SelfSubjectReviewStatus { fill: user_info; visit: user_info; }
    authentication::TokenReview { fill: status; visit: metadata spec status; }
    authentication::TokenReviewSpec { drop: audiences; }
    authentication::TokenReviewStatus { drop: audiences authenticated error; fill: user; visit: user; }
    authentication::UserInfo { drop: extra groups uid username; }
    authorization::FieldSelectorAttributes { drop: raw_selector requirements; visit: requirements; }
    authorization::LabelSelectorAttributes { drop: raw_selector requirements; visit: requirements; }
    authorization::LocalSubjectAccessReview { fill: status; visit: metadata spec status; }
    authorization::NonResourceAttributes { drop: path verb; }
    authorization::NonResourceRule { drop: non_resource_urls; }
    authorization::ResourceAttributes {
        drop: group name namespace resource subresource verb version;
        visit: field_selector label_selector;
    }
    authorization::ResourceRule { drop: api_groups resource_names resources; }
    authorization::SelfSubjectAccessReview { fill: status; visit: metadata spec status; }
    authorization::SelfSubjectAccessReviewSpec { visit: non_resource_attributes resource_attributes; }
    authorization::SelfSubjectRulesReview { fill: status; visit: metadata spec status; }
    authorization::SelfSubjectRulesReviewSpec { drop: namespace; }
    authorization::SubjectAccessReview { fill: status; visit: metadata spec status; }
    authorization::SubjectAccessReviewSpec { drop: extra groups uid user; visit: non_resource_attributes resource_attributes; }
    authorization::SubjectAccessReviewStatus { drop: denied evaluation_error reason; }
    authorization::SubjectRulesReviewStatus { drop: evaluation_error; visit: non_resource_rules resource_rules; }
    autoscaling::CrossVersionObjectReference { drop: api_version; }
    autoscaling::ExternalMetricSource { visit: metric; }
    autoscaling::ExternalMetricStatus { visit: metric; }
    autoscaling::HorizontalPodAutoscaler { fill: status; visit: metadata spec status; }
    autoscaling::HorizontalPodAutoscalerCondition { drop: message reason; }
    autoscaling::HorizontalPodAutoscalerSpec { drop: metrics; visit: metrics scale_target_ref; }
    autoscaling::HorizontalPodAutoscalerStatus { drop: conditions current_replicas; visit: conditions current_metrics; }
    autoscaling::MetricIdentifier { visit: selector; }
    autoscaling::MetricSpec { visit: external object pods; }
    autoscaling::MetricStatus { visit: external object pods; }
    autoscaling::ObjectMetricSource { visit: described_object metric; }
    autoscaling::ObjectMetricStatus { visit: described_object metric; }
    autoscaling::PodsMetricSource { visit: metric; }
    autoscaling::PodsMetricStatus { visit: metric; }
    coordination::Lease { fill: spec; visit: metadata; }
    core::AWSElasticBlockStoreVolumeSource { drop: fs_type partition read_only; }
    core::Affinity { visit: node_affinity pod_affinity pod_anti_affinity; }
    core::AzureFilePersistentVolumeSource { drop: read_only; }
    core::AzureFileVolumeSource { drop: read_only; }
    core::CSIPersistentVolumeSource {
        drop: fs_type read_only volume_attributes;
        visit: controller_expand_secret_ref controller_publish_secret_ref node_expand_secret_ref node_publish_secret_ref
            node_stage_secret_ref;
    }
    core::CSIVolumeSource { drop: volume_attributes; }
    core::Capabilities { drop: add drop; }
    core::CephFSPersistentVolumeSource { drop: path read_only secret_file user; visit: secret_ref; }
    core::CephFSVolumeSource { drop: path read_only secret_file user; }
    core::CinderPersistentVolumeSource { drop: fs_type read_only; visit: secret_ref; }
    core::CinderVolumeSource { drop: fs_type read_only; }
    core::ClusterTrustBundleProjection { visit: label_selector; }
    core::ConfigMap { drop: binary_data data; visit: metadata; }
    core::ConfigMapNodeConfigSource { drop: resource_version uid; }
    core::ConfigMapProjection { drop: items; }
    core::ConfigMapVolumeSource { drop: items; }
    core::Container {
        drop: args command env env_from image image_pull_policy ports resize_policy restart_policy_rules stdin stdin_once
            termination_message_path termination_message_policy tty volume_devices volume_mounts working_dir;
        fill: resources;
        visit: env env_from lifecycle liveness_probe ports readiness_probe resources restart_policy_rules security_context startup_probe
            volume_mounts;
    }
    core::ContainerImage { drop: size_bytes; }
    core::ContainerPort { drop: host_ip host_port name protocol; }
    core::ContainerRestartRule { visit: exit_codes; }
    core::ContainerRestartRuleOnExitCodes { drop: values; }
    core::ContainerState { visit: terminated waiting; }
    core::ContainerStateTerminated { drop: container_id message reason signal; }
    core::ContainerStateWaiting { drop: message reason; }
    core::ContainerStatus {
        drop: allocated_resources allocated_resources_status container_id volume_mounts;
        fill: last_state state;
        visit: allocated_resources_status last_state resources state user volume_mounts;
    }
    core::ContainerUser { visit: linux; }
    core::DownwardAPIProjection { drop: items; visit: items; }
    core::DownwardAPIVolumeFile { visit: field_ref resource_field_ref; }
    core::DownwardAPIVolumeSource { drop: items; visit: items; }
    core::EmptyDirVolumeSource { drop: medium; }
    core::EndpointAddress { drop: hostname; visit: target_ref; }
    core::EndpointPort { drop: name protocol; }
    core::EndpointSubset { drop: addresses not_ready_addresses ports; visit: addresses not_ready_addresses ports; }
    core::Endpoints { drop: subsets; visit: metadata subsets; }
    core::EnvFromSource { drop: prefix; }
    core::EnvVar { drop: value; visit: value_from; }
    core::EnvVarSource { visit: field_ref resource_field_ref; }
    core::EphemeralContainer {
        drop: args command env env_from image image_pull_policy ports resize_policy restart_policy_rules stdin stdin_once
            target_container_name termination_message_path termination_message_policy tty volume_devices volume_mounts working_dir;
        fill: resources;
        visit: env env_from lifecycle liveness_probe ports readiness_probe resources restart_policy_rules security_context startup_probe
            volume_mounts;
    }
    core::EphemeralVolumeSource { visit: volume_claim_template; }
    core::Event {
        drop: action count message reason type_;
        fill: reporting_component reporting_instance source;
        visit: involved_object metadata related series source;
    }
    core::EventSeries { drop: count; }
    core::EventSource { drop: component host; }
    core::ExecAction { drop: command; }
    core::FCVolumeSource { drop: fs_type read_only target_wwns wwids; }
    core::FlexPersistentVolumeSource { drop: fs_type options read_only; visit: secret_ref; }
    core::FlexVolumeSource { drop: fs_type options read_only; }
    core::FlockerVolumeSource { drop: dataset_name dataset_uuid; }
    core::GCEPersistentDiskVolumeSource { drop: fs_type partition read_only; }
    core::GitRepoVolumeSource { drop: directory revision; }
    core::GlusterfsPersistentVolumeSource { drop: read_only; }
    core::GlusterfsVolumeSource { drop: read_only; }
    core::HTTPGetAction { drop: host http_headers path scheme; }
    core::HostAlias { drop: hostnames; }
    core::ISCSIPersistentVolumeSource {
        drop: chap_auth_discovery chap_auth_session fs_type iscsi_interface portals read_only;
        visit: secret_ref;
    }
    core::ISCSIVolumeSource { drop: chap_auth_discovery chap_auth_session fs_type iscsi_interface portals read_only; }
    core::ImageVolumeSource { drop: pull_policy reference; }
    core::Lifecycle { visit: post_start pre_stop; }
    core::LifecycleHandler { visit: exec http_get tcp_socket; }
    core::LimitRange { fill: spec; visit: metadata spec; }
    core::LimitRangeItem { drop: default default_request max max_limit_request_ratio min; }
    core::LimitRangeSpec { visit: limits; }
    core::LinuxContainerUser { drop: supplemental_groups; }
    core::LoadBalancerIngress { drop: hostname ip ports; }
    core::LoadBalancerStatus { drop: ingress; visit: ingress; }
    core::ModifyVolumeStatus { drop: target_volume_attributes_class_name; }
    core::NFSVolumeSource { drop: read_only; }
    core::Namespace { fill: spec status; visit: metadata spec status; }
    core::NamespaceCondition { drop: message reason; }
    core::NamespaceSpec { drop: finalizers; }
    core::NamespaceStatus { drop: conditions phase; visit: conditions; }
    core::Node { fill: spec status; visit: metadata spec status; }
    core::NodeAffinity {
        drop: preferred_during_scheduling_ignored_during_execution;
        visit: preferred_during_scheduling_ignored_during_execution required_during_scheduling_ignored_during_execution;
    }
    core::NodeAllocatableResourceClaimStatus { drop: containers; }
    core::NodeCondition { drop: message reason; }
    core::NodeConfigSource { visit: config_map; }
    core::NodeConfigStatus { drop: error; visit: active assigned last_known_good; }
    core::NodeDaemonEndpoints { fill: kubelet_endpoint; }
    core::NodeRuntimeHandler { fill: name; }
    core::NodeSelector { visit: node_selector_terms; }
    core::NodeSelectorRequirement { drop: values; }
    core::NodeSelectorTerm { drop: match_expressions match_fields; visit: match_expressions match_fields; }
    core::NodeSpec { drop: external_id pod_cidr pod_cidrs provider_id taints unschedulable; visit: config_source taints; }
    core::NodeStatus {
        drop: addresses allocatable capacity conditions declared_features images phase runtime_handlers volumes_attached volumes_in_use;
        fill: daemon_endpoints node_info;
        visit: conditions config daemon_endpoints images runtime_handlers;
    }
    core::ObjectFieldSelector { drop: api_version; }
    core::ObjectReference { drop: api_version field_path kind name namespace resource_version uid; }
    core::PersistentVolume { fill: spec status; visit: metadata spec status; }
    core::PersistentVolumeClaim { fill: spec status; visit: metadata spec status; }
    core::PersistentVolumeClaimCondition { drop: message reason; }
    core::PersistentVolumeClaimSpec { drop: access_modes volume_name; fill: resources; visit: resources selector; }
    core::PersistentVolumeClaimStatus {
        drop: access_modes allocated_resource_statuses allocated_resources capacity conditions phase;
        visit: conditions modify_volume_status;
    }
    core::PersistentVolumeClaimTemplate { fill: metadata; visit: metadata spec; }
    core::PersistentVolumeClaimVolumeSource { drop: read_only; }
    core::PersistentVolumeSpec {
        drop: access_modes capacity mount_options persistent_volume_reclaim_policy storage_class_name;
        visit: aws_elastic_block_store azure_file cephfs cinder claim_ref csi fc flex_volume flocker gce_persistent_disk glusterfs iscsi
            nfs node_affinity photon_persistent_disk portworx_volume quobyte rbd scale_io storageos vsphere_volume;
    }
    core::PersistentVolumeStatus { drop: message phase reason; }
    core::PhotonPersistentDiskVolumeSource { drop: fs_type; }
    core::Pod { fill: spec status; visit: metadata spec status; }
    core::PodAffinity {
        drop: preferred_during_scheduling_ignored_during_execution required_during_scheduling_ignored_during_execution;
        visit: preferred_during_scheduling_ignored_during_execution required_during_scheduling_ignored_during_execution;
    }
    core::PodAffinityTerm { drop: match_label_keys mismatch_label_keys namespaces; visit: label_selector namespace_selector; }
    core::PodAntiAffinity {
        drop: preferred_during_scheduling_ignored_during_execution required_during_scheduling_ignored_during_execution;
        visit: preferred_during_scheduling_ignored_during_execution required_during_scheduling_ignored_during_execution;
    }
    core::PodCertificateProjection { drop: certificate_chain_path credential_bundle_path key_path user_annotations; }
    core::PodCondition { drop: message observed_generation reason; }
    core::PodDNSConfig { drop: nameservers options searches; visit: options; }
    core::PodDNSConfigOption { drop: name; }
    core::PodSecurityContext { drop: supplemental_groups sysctls; visit: se_linux_options; }
    core::PodSpec {
        drop: dns_policy ephemeral_containers host_aliases host_ipc host_network host_pid hostname image_pull_secrets init_containers
            node_name node_selector overhead priority_class_name readiness_gates resource_claims restart_policy scheduler_name
            scheduling_gates service_account service_account_name subdomain tolerations topology_spread_constraints volumes;
        visit: affinity containers dns_config ephemeral_containers host_aliases init_containers resources security_context tolerations
            topology_spread_constraints volumes;
    }
    core::PodStatus {
        drop: allocated_resources conditions container_statuses ephemeral_container_statuses host_ip host_ips init_container_statuses
            message node_allocatable_resource_claim_statuses nominated_node_name observed_generation phase pod_ip pod_ips qos_class reason
            resize resource_claim_statuses;
        visit: conditions container_statuses ephemeral_container_statuses init_container_statuses node_allocatable_resource_claim_statuses
            resources;
    }
    core::PodTemplateSpec { fill: metadata spec; visit: metadata spec; }
    core::PortworxVolumeSource { drop: fs_type read_only; }
    core::PreferredSchedulingTerm { visit: preference; }
    core::Probe {
        drop: failure_threshold initial_delay_seconds period_seconds success_threshold timeout_seconds;
        visit: exec http_get tcp_socket;
    }
    core::ProjectedVolumeSource { visit: sources; }
    core::QuobyteVolumeSource { drop: group read_only tenant user; }
    core::RBDPersistentVolumeSource { drop: fs_type keyring pool read_only user; visit: secret_ref; }
    core::RBDVolumeSource { drop: fs_type keyring pool read_only user; }
    core::ResourceClaim { drop: request; }
    core::ResourceFieldSelector { drop: container_name; }
    core::ResourceHealth { drop: health; }
    core::ResourceQuota { fill: spec status; visit: metadata spec status; }
    core::ResourceQuotaSpec { drop: hard scopes; visit: scope_selector; }
    core::ResourceQuotaStatus { drop: hard used; }
    core::ResourceRequirements { drop: claims limits requests; visit: claims; }
    core::ResourceStatus { drop: resources; visit: resources; }
    core::SELinuxOptions { drop: level role type_ user; }
    core::ScaleIOPersistentVolumeSource {
        drop: fs_type protection_domain read_only ssl_enabled storage_mode storage_pool volume_name;
        visit: secret_ref;
    }
    core::ScaleIOVolumeSource { drop: fs_type protection_domain read_only ssl_enabled storage_mode storage_pool volume_name; }
    core::ScopeSelector { drop: match_expressions; visit: match_expressions; }
    core::ScopedResourceSelectorRequirement { drop: values; }
    core::Secret { drop: data string_data type_; visit: metadata; }
    core::SecretProjection { drop: items; }
    core::SecretReference { drop: name namespace; }
    core::SecretVolumeSource { drop: items secret_name; }
    core::SecurityContext { visit: capabilities se_linux_options; }
    core::Service { fill: spec status; visit: metadata spec status; }
    core::ServiceAccount { drop: image_pull_secrets secrets; visit: metadata secrets; }
    core::ServiceAccountTokenProjection { drop: audience; }
    core::ServicePort { drop: name node_port protocol; }
    core::ServiceSpec {
        drop: cluster_ip cluster_ips external_ips external_name external_traffic_policy health_check_node_port ip_families load_balancer_ip
            load_balancer_source_ranges ports publish_not_ready_addresses selector session_affinity type_;
        visit: ports;
    }
    core::ServiceStatus { drop: conditions; fill: load_balancer; visit: conditions load_balancer; }
    core::StorageOSPersistentVolumeSource { drop: fs_type read_only volume_name volume_namespace; visit: secret_ref; }
    core::StorageOSVolumeSource { drop: fs_type read_only volume_name volume_namespace; }
    core::TCPSocketAction { drop: host; }
    core::Taint { drop: value; }
    core::Toleration { drop: effect key operator value; }
    core::TopologySelectorTerm { drop: match_label_expressions; }
    core::TopologySpreadConstraint { drop: match_label_keys; visit: label_selector; }
    core::Volume {
        visit: aws_elastic_block_store azure_file cephfs cinder config_map csi downward_api empty_dir ephemeral fc flex_volume flocker
            gce_persistent_disk git_repo glusterfs image iscsi nfs persistent_volume_claim photon_persistent_disk portworx_volume projected
            quobyte rbd scale_io secret storageos vsphere_volume;
    }
    core::VolumeMount { drop: read_only sub_path sub_path_expr; }
    core::VolumeMountStatus { drop: read_only; }
    core::VolumeNodeAffinity { visit: required; }
    core::VolumeProjection { visit: cluster_trust_bundle config_map downward_api pod_certificate secret service_account_token; }
    core::VolumeResourceRequirements { drop: limits requests; }
    core::VsphereVirtualDiskVolumeSource { drop: fs_type storage_policy_id storage_policy_name; }
    core::WeightedPodAffinityTerm { visit: pod_affinity_term; }
    discovery::Endpoint { drop: deprecated_topology; fill: conditions; visit: hints target_ref; }
    discovery::EndpointHints { drop: for_nodes for_zones; }
    discovery::EndpointSlice { visit: endpoints metadata; }
    events::Event {
        drop: action deprecated_count note reason reporting_controller reporting_instance type_;
        fill: deprecated_source regarding;
        visit: deprecated_source metadata regarding related;
    }
    networking::IPAddress { visit: metadata spec; }
    networking::IPAddressSpec { visit: parent_ref; }
    networking::ParentReference { drop: group namespace; }
    networking::ServiceCIDR { fill: spec status; visit: metadata spec status; }
    networking::ServiceCIDRSpec { drop: cidrs; }
    networking::ServiceCIDRStatus { drop: conditions; visit: conditions; }
    meta::Condition { drop: observed_generation; }
    meta::FieldSelectorRequirement { drop: values; }
    meta::LabelSelector { drop: match_expressions match_labels; visit: match_expressions; }
    meta::LabelSelectorRequirement { drop: values; }
    policy::PodDisruptionBudget { fill: spec status; visit: metadata spec status; }
    policy::PodDisruptionBudgetSpec { visit: selector; }
    policy::PodDisruptionBudgetStatus {
        drop: conditions disrupted_pods observed_generation;
        fill: current_healthy desired_healthy disruptions_allowed expected_pods;
        visit: conditions;
    }
    rbac::AggregationRule { drop: cluster_role_selectors; visit: cluster_role_selectors; }
    rbac::ClusterRole { visit: aggregation_rule metadata rules; }
    rbac::ClusterRoleBinding { drop: subjects; visit: metadata role_ref subjects; }
    rbac::PolicyRule { drop: api_groups non_resource_urls resource_names resources; }
    rbac::Role { visit: metadata rules; }
    rbac::RoleBinding { drop: subjects; visit: metadata role_ref subjects; }
    rbac::RoleRef { fill: api_group; }
    rbac::Subject { drop: api_group namespace; }
    scheduling::PriorityClass { drop: description global_default; fill: value; visit: metadata; }
    storage::StorageClass { drop: allowed_topologies mount_options parameters; visit: allowed_topologies metadata; }
}
