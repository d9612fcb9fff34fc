//! Addresses of load balancers: each Service that requests one gets one from a range.
//!
//! This replaces a cloud's load balancer, so that clients that wait for an address can continue. Another controller handles a Service with
//! a `loadBalancerClass`.
//!
//! Source: kubernetes `cloud-provider/controllers/service/controller.go`.

use crate::{
    endpoints::view::ServiceView,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Subresource, Urgency, merge_patch},
};
use berth_api::ip::Cidr;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus};
use serde_json::json;
use std::{collections::BTreeSet, net::IpAddr};

/// The input of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBalancerState<'a> {
    /// The Service.
    pub service: &'a ServiceView,
    /// The address that the Service gets if it needs one. `None` if the range is exhausted.
    pub free: Option<IpAddr>,
    /// The range of addresses.
    pub range: Cidr,
}

/// The addresses of a Service's load balancer.
pub fn addresses(service: &ServiceView) -> impl Iterator<Item = &str> {
    service.balancer.ingress.iter().flatten().filter_map(|ingress| ingress.ip.as_deref())
}

/// The first unused address of the range.
#[must_use]
pub fn free_address(range: &Cidr, used: &BTreeSet<String>) -> Option<IpAddr> {
    (0..range.host_count()).map(|number| range.host(number)).find(|address| !used.contains(&address.to_string()))
}

/// Whether the Service requests an address and has none.
#[must_use]
pub fn needs_address(service: &ServiceView) -> bool {
    service.wants_balancer && service.balancer.ingress.as_ref().is_none_or(Vec::is_empty)
}

/// Assigns an address to the Service if it requests one and has none.
#[must_use]
pub fn plan(state: &LoadBalancerState<'_>) -> Plan {
    let service = state.service;
    if !needs_address(service) {
        return Plan::default();
    }
    let Some(ip) = state.free.map(|address| address.to_string()) else {
        let text = format!("Error syncing load balancer: failed to ensure load balancer: {} has no free address", state.range);
        return Plan { events: vec![event(service, Severity::Warning, "SyncLoadBalancerFailed", text)], ..Plan::default() };
    };
    let ingress = LoadBalancerIngress { ip: Some(ip), ip_mode: Some("VIP".to_owned()), ..LoadBalancerIngress::default() };
    let status = LoadBalancerStatus { ingress: Some(vec![ingress]) };
    let Some(patch) = merge_patch(&service.balancer, &status) else { return Plan::default() };
    let ensured = event(service, Severity::Normal, "EnsuredLoadBalancer", "Ensured load balancer".to_owned());
    let action = Action::Patch {
        target: service.reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": {"loadBalancer": patch}}),
        urgency: Urgency::Now,
        reason: Reason::BalancerMissing,
        events: Outcome { success: Some(ensured), failure: None },
    };
    Plan { stages: vec![Stage { actions: vec![action] }], ..Plan::default() }
}

fn event(service: &ServiceView, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    let repeat = if severity == Severity::Warning { Repeat::Once } else { Repeat::Each };
    EventRecord { repeat, ..EventRecord::new(service.reference(), severity, reason, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_back::read_back;
    use crate::view::View;
    use berth_identity::Revision;
    use serde_json::Value;

    /// The address that a Service of this spec gets, or the event that explains why it gets none.
    fn check(spec: Value, ingress: Value, used: &[&str], wanted: &str) {
        let json = json!({"metadata": {"namespace": "ns", "name": "s", "uid": "u"}, "spec": spec, "status": {"loadBalancer": ingress}});
        let service = ServiceView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Service");
        let used: BTreeSet<String> = used.iter().map(ToString::to_string).collect();
        let range = "198.51.100.0/30".parse().expect("a range");
        let plan = read_back(plan(&LoadBalancerState { service: &service, free: free_address(&range, &used), range }));
        let patched = plan.stages.iter().flat_map(|stage| &stage.actions).map(|action| match action {
            Action::Patch { patch, .. } => patch["status"]["loadBalancer"]["ingress"][0]["ip"].to_string().replace('"', ""),
            other => panic!("{other:?}"),
        });
        let told = plan.events.iter().map(|event| format!("{} {}", event.reason, event.message));
        assert_eq!(patched.chain(told).collect::<Vec<_>>().join("; "), wanted);
    }

    #[test]
    fn who_asks_gets_the_first_free_address() {
        let balancer = || json!({"type": "LoadBalancer"});
        check(balancer(), json!({}), &[], "198.51.100.1");
        check(balancer(), json!({}), &["198.51.100.1"], "198.51.100.2");
        check(balancer(), json!({"ingress": [{"hostname": "x"}]}), &[], "");
        check(json!({"type": "ClusterIP"}), json!({}), &[], "");
        check(json!({"type": "LoadBalancer", "loadBalancerClass": "x.io/y"}), json!({}), &[], "");
        let full =
            "SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: 198.51.100.0/30 has no free address";
        check(balancer(), json!({}), &["198.51.100.1", "198.51.100.2"], full);
    }

    #[test]
    fn the_address_is_written_to_the_status_with_an_event_each_time_and_an_exhausted_range_has_one_event() {
        let json = json!({"metadata": {"namespace": "ns", "name": "s", "uid": "u"}, "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": []}}});
        let service = ServiceView::decode(json.to_string().as_bytes(), Revision(6)).expect("a Service");
        let range = "198.51.100.0/30".parse().expect("a range");
        let told = |event: &EventRecord| format!("{:?} {:?} {}: {}", event.severity, event.repeat, event.reason, event.message);
        let made = read_back(plan(&LoadBalancerState { service: &service, free: free_address(&range, &BTreeSet::new()), range }));
        let [Action::Patch { target, subresource, patch, events, .. }] = &made.stages[0].actions[..] else { panic!("{made:?}") };
        assert_eq!((target.uid.as_str(), target.resource_version, *subresource), ("u", Some(Revision(6)), Some(Subresource::Status)));
        assert_eq!(*patch, json!({"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1", "ipMode": "VIP"}]}}}));
        assert_eq!(events.success.as_ref().map(told).as_deref(), Some("Normal Each EnsuredLoadBalancer: Ensured load balancer"));
        let full = plan(&LoadBalancerState { service: &service, free: None, range });
        assert!(full.is_idle() && told(&full.events[0]).starts_with("Warning Once SyncLoadBalancerFailed: "), "{full:?}");
    }

    #[test]
    fn addresses_are_those_of_the_status_that_are_no_names() {
        let json = json!({"metadata": {"name": "s"}, "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}, {"hostname": "x"}]}}});
        let service = ServiceView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Service");
        assert_eq!(addresses(&service).collect::<Vec<_>>(), ["198.51.100.1"]);
    }
}
