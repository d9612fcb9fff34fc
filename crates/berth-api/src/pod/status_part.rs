//! Replaces members of a pod's status.

use k8s_openapi::api::core::v1::PodStatus;

macro_rules! replaced {
    ($old:ident, $new:ident, $members:ident; $($field:ident $name:literal)*) => {{
        let are_known = $members.iter().all(|member| [$($name),*].contains(member));
        are_known.then(|| PodStatus { $($field: if $members.contains(&$name) { $new.$field.clone() } else { $old.$field.clone() },)* })
    }};
}

/// Returns the old status with these members of the new one. `None`: one of them is not a member of a pod's status.
pub(super) fn replaced(old: &PodStatus, new: &PodStatus, members: &[&str]) -> Option<PodStatus> {
    replaced! {
        old, new, members;
        allocated_resources "allocatedResources"
        conditions "conditions"
        container_statuses "containerStatuses"
        ephemeral_container_statuses "ephemeralContainerStatuses"
        extended_resource_claim_status "extendedResourceClaimStatus"
        host_ip "hostIP"
        host_ips "hostIPs"
        init_container_statuses "initContainerStatuses"
        message "message"
        node_allocatable_resource_claim_statuses "nodeAllocatableResourceClaimStatuses"
        nominated_node_name "nominatedNodeName"
        observed_generation "observedGeneration"
        phase "phase"
        pod_ip "podIP"
        pod_ips "podIPs"
        qos_class "qosClass"
        reason "reason"
        resize "resize"
        resource_claim_statuses "resourceClaimStatuses"
        resources "resources"
        start_time "startTime"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn each_member_is_known_by_its_name_on_the_wire() {
        let read = |status: Value| -> PodStatus { serde_json::from_value(status).expect("a status") };
        let wire = json!({
            "allocatedResources": {"cpu": "1"}, "conditions": [], "containerStatuses": [], "ephemeralContainerStatuses": [],
            "extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": "c"}, "hostIP": "h", "hostIPs": [], "initContainerStatuses": [],
            "message": "m", "nodeAllocatableResourceClaimStatuses": [], "nominatedNodeName": "n", "observedGeneration": 1, "phase": "Running", "podIP": "p",
            "podIPs": [], "qosClass": "q", "reason": "r", "resize": "z", "resourceClaimStatuses": [], "resources": {}, "startTime": "2026-01-01T00:00:00Z",
        });
        let (none, all) = (PodStatus::default(), read(wire.clone()));
        for (name, value) in wire.as_object().expect("members") {
            let only = |name: &str, value: &Value| read(json!({name: value}));
            assert_eq!(replaced(&none, &all, &[name]), Some(only(name, value)), "{name}");
            let mut rest = wire.clone();
            rest.as_object_mut().expect("members").remove(name);
            assert_eq!(replaced(&all, &none, &[name]), Some(read(rest)), "{name} goes");
        }
        assert_eq!(serde_json::to_value(&all).expect("JSON"), wire, "no member is left out");
        assert_eq!(replaced(&none, &all, &["phase", "phases"]), None);
    }
}
