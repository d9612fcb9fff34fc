//! The Endpoints of a Service, for clients that do not know EndpointSlices.
//!
//! Source: kubernetes `pkg/controller/endpoint/endpoints_controller.go`, `pkg/api/v1/endpoints/util.go`.

use super::{
    HEADLESS, TargetPort, has_pods, hostname, labels_with, reference, set, target_port,
    view::{EndpointPodView, EndpointsView, ServiceView},
};
use crate::plan::{Action, Outcome, Plan, Reason, Stage, Urgency, merge_patch};
use berth_identity::Uid;
use k8s_openapi::{
    api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::collections::BTreeMap;

/// The maximum number of pods in one Endpoints.
pub const PODS_MAX: usize = 1000;
/// The label that names the controller of the Endpoints.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// This controller in [`MANAGED_BY`].
pub const CONTROLLER: &str = "endpoint-controller";
/// Marks Endpoints of more than [`PODS_MAX`] pods.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Pods, by number, in order of their addresses and uids.
type Places = BTreeMap<(String, Uid), usize>;

/// The input of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointsState<'a> {
    /// The Service, if it exists.
    pub service: Option<&'a ServiceView>,
    /// The pods that it selects, by name.
    pub pods: Vec<&'a EndpointPodView>,
    /// The Endpoints of its name, if they exist.
    pub endpoints: Option<&'a EndpointsView>,
}

/// Plans the Endpoints of the Service's pods. Writes nothing if another component manages them. Endpoints that this controller created are
/// deleted with their Service.
#[must_use]
pub fn plan(state: &EndpointsState<'_>) -> Plan {
    let actions = match (state.service, state.endpoints) {
        (None, Some(endpoints)) if is_managed(endpoints) => vec![delete(endpoints)],
        (Some(service), endpoints) if has_pods(service) && !service.deleting => {
            write(service, &state.pods, endpoints).into_iter().collect()
        }
        _ => Vec::new(),
    };
    if actions.is_empty() { Plan::default() } else { Plan { stages: vec![Stage { actions }], ..Plan::default() } }
}

fn is_managed(endpoints: &EndpointsView) -> bool {
    endpoints.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == CONTROLLER)
}

fn write(service: &ServiceView, pods: &[&EndpointPodView], before: Option<&EndpointsView>) -> Option<Action> {
    let shown = shown_pods(service, pods);
    let is_cut = shown.len() > PODS_MAX;
    let subsets = subsets(service, &shown[..shown.len().min(PODS_MAX)]);
    let Some(before) = before else {
        let metadata = ObjectMeta {
            name: Some(service.name.to_string()),
            namespace: Some(service.namespace.to_string()),
            labels: Some(labels(service)),
            annotations: is_cut.then(|| [(OVER_CAPACITY.to_owned(), "truncated".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let endpoints = Endpoints { metadata, subsets: (!subsets.is_empty()).then_some(subsets) };
        let reason = Reason::EndpointsMissing;
        return Some(Action::Create { object: endpoints.into(), reason, events: Outcome::default() });
    };
    let mut metadata = before.metadata.clone();
    metadata.labels = Some(labels(service));
    let annotations = metadata.annotations.get_or_insert_default();
    if is_cut {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    let list = |subsets: &Vec<EndpointSubset>| (!subsets.is_empty()).then(|| subsets.clone());
    let old = Endpoints { metadata: before.metadata.clone(), subsets: list(&before.subsets) };
    let patch = merge_patch(&old, &Endpoints { metadata, subsets: list(&subsets) })?;
    let reason = Reason::EndpointsChanged;
    Some(Action::Patch { target: before.reference(), subresource: None, patch, urgency: Urgency::Now, reason, events: Outcome::default() })
}

fn labels(service: &ServiceView) -> BTreeMap<String, String> {
    labels_with(service, &[(MANAGED_BY, CONTROLLER)], &[MANAGED_BY, HEADLESS])
}

/// Running pods with an address, which is included. Ready pods come first, so that they remain if the number is limited.
fn shown_pods<'a>(service: &ServiceView, pods: &[&'a EndpointPodView]) -> Vec<(&'a EndpointPodView, String, bool)> {
    let family = service.families.first().map_or("IPv4", String::as_str);
    let counts = |pod: &&&EndpointPodView| !pod.is_finished && (!pod.is_terminating || service.publishes_not_ready);
    let shown = pods.iter().filter(counts).filter_map(|pod| {
        let address = pod.address(family)?.to_string();
        Some((*pod, address, pod.is_ready || service.publishes_not_ready))
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_by_key(|(_, _, is_ready)| !is_ready);
    shown
}

/// Ports with the same addresses form one subset.
fn subsets(service: &ServiceView, pods: &[(&EndpointPodView, String, bool)]) -> Vec<EndpointSubset> {
    let mut by_port: BTreeMap<Option<TargetPort>, Places> = BTreeMap::new();
    for (index, (pod, address, _)) in pods.iter().enumerate() {
        let key = || (address.clone(), pod.uid.clone());
        if service.ports.is_empty() && service.is_headless {
            by_port.entry(None).or_default().insert(key(), index);
        }
        for port in service.ports.iter().filter_map(|port| target_port(port, pod)) {
            by_port.entry(Some(port)).or_default().insert(key(), index);
        }
    }
    let mut subsets: Vec<(Vec<Option<TargetPort>>, Places)> = Vec::new();
    for (port, addresses) in by_port {
        match subsets.iter_mut().find(|(_, others)| *others == addresses) {
            Some((ports, _)) => ports.push(port),
            None => subsets.push((vec![port], addresses)),
        }
    }
    subsets.into_iter().map(|(ports, addresses)| subset(service, ports, addresses.values().map(|index| &pods[*index]))).collect()
}

fn subset<'a>(
    service: &ServiceView,
    ports: Vec<Option<TargetPort>>,
    pods: impl Iterator<Item = &'a (&'a EndpointPodView, String, bool)>,
) -> EndpointSubset {
    let (ready, others): (Vec<_>, Vec<_>) = pods.partition(|(_, _, is_ready)| *is_ready);
    let addresses = |pods: Vec<&(&EndpointPodView, String, bool)>| {
        let wire = |(pod, ip, _): &(&EndpointPodView, String, bool)| EndpointAddress {
            hostname: hostname(service, pod),
            ip: ip.clone(),
            node_name: set(&pod.node_name),
            target_ref: Some(reference(pod)),
        };
        (!pods.is_empty()).then(|| pods.into_iter().map(wire).collect())
    };
    let port = |port: TargetPort| EndpointPort {
        app_protocol: port.app_protocol,
        name: set(&port.name),
        port: port.port,
        protocol: Some(port.protocol),
    };
    let ports: Vec<EndpointPort> = ports.into_iter().flatten().map(port).collect();
    EndpointSubset { addresses: addresses(ready), not_ready_addresses: addresses(others), ports: (!ports.is_empty()).then_some(ports) }
}

fn delete(endpoints: &EndpointsView) -> Action {
    Action::Delete {
        target: endpoints.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::ServiceGone,
        events: Outcome::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::view::NamedPort, *};
    use crate::{read_back::read_back, view::View};
    use berth_identity::Revision;
    use serde_json::{Value, json};

    fn service(json: Value) -> ServiceView {
        let mut service = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "s", "labels": {"x": "y"}},
            "spec": {"selector": {"app": "web"}, "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}, {"name": "m", "port": 81, "protocol": "TCP", "targetPort": 9090}]}});
        for (key, value) in json.as_object().expect("a spec") {
            service["spec"][key] = value.clone();
        }
        ServiceView::decode(service.to_string().as_bytes(), Revision(3)).expect("a Service")
    }

    fn pod(number: usize, is_ready: bool, http: Option<i32>) -> EndpointPodView {
        let port = |number| NamedPort { name: "http".to_owned(), protocol: "TCP".to_owned(), number };
        EndpointPodView {
            namespace: "ns".into(),
            name: format!("p{number}").into(),
            uid: format!("u{number}").into(),
            addresses: vec![format!("10.64.{}.{}", number / 200, number % 200 + 1).parse().expect("an address")],
            is_ready,
            ports: http.into_iter().map(port).collect(),
            ..EndpointPodView::default()
        }
    }

    /// The subsets as `ports: addresses | not ready`.
    fn made(service: &ServiceView, pods: &[EndpointPodView]) -> Vec<String> {
        let plan = read_back(plan(&EndpointsState { service: Some(service), pods: pods.iter().collect(), endpoints: None }));
        let Some(Action::Create { object, .. }) = plan.stages.first().and_then(|stage| stage.actions.first()) else { panic!("{plan:?}") };
        let text = |value: &Value, field: &str, of: &str| -> String {
            let all = value[field].as_array().into_iter().flatten();
            all.map(|one| one[of].to_string().replace('"', "")).collect::<Vec<_>>().join(",")
        };
        let line = |subset: &Value| {
            format!("{}: {} | {}", text(subset, "ports", "port"), text(subset, "addresses", "ip"), text(subset, "notReadyAddresses", "ip"))
        };
        object.as_object().to_value()["subsets"].as_array().into_iter().flatten().map(line).collect()
    }

    #[test]
    fn ports_with_the_same_addresses_make_one_subset() {
        let pods = [pod(0, true, Some(8080)), pod(1, false, Some(8080)), pod(2, true, Some(8081)), pod(3, true, None)];
        assert_eq!(
            made(&service(json!({})), &pods),
            ["8080: 10.64.0.1 | 10.64.0.2", "8081: 10.64.0.3 | ", "9090: 10.64.0.1,10.64.0.3,10.64.0.4 | 10.64.0.2",]
        );
        assert_eq!(made(&service(json!({})), &pods[..2]), ["8080,9090: 10.64.0.1 | 10.64.0.2"]);
        assert_eq!(made(&service(json!({"publishNotReadyAddresses": true})), &pods[..2]), ["8080,9090: 10.64.0.1,10.64.0.2 | "]);
        assert_eq!(made(&service(json!({"clusterIP": "None", "ports": null})), &pods[..2]), [": 10.64.0.1 | 10.64.0.2"]);
        assert_eq!(made(&service(json!({})), &[]), Vec::<String>::new());
    }

    #[test]
    fn endpoints_are_made_under_the_services_name_with_its_labels() {
        let metadata = |count: usize| {
            let pods: Vec<_> = (0..count).map(|number| pod(number, true, Some(1))).collect();
            let service = service(json!({}));
            let plan = plan(&EndpointsState { service: Some(&service), pods: pods.iter().collect(), endpoints: None });
            let Some(Action::Create { object, .. }) = plan.stages.first().and_then(|stage| stage.actions.first()) else {
                panic!("{plan:?}")
            };
            object.as_object().to_value()["metadata"].clone()
        };
        let wanted = json!({"namespace": "ns", "name": "web", "labels": {"x": "y", MANAGED_BY: CONTROLLER}});
        assert_eq!(metadata(1), wanted);
        assert_eq!(metadata(1000), wanted, "as many as can be shown are not cut");
        assert_eq!(metadata(1001)["annotations"], json!({OVER_CAPACITY: "truncated"}));
    }

    #[test]
    fn endpoints_follow_the_pods() {
        let service = service(json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 9}]}));
        let action_for = |pods: &[EndpointPodView], endpoints: Option<&EndpointsView>| {
            let plan = read_back(plan(&EndpointsState { service: Some(&service), pods: pods.iter().collect(), endpoints }));
            plan.stages.into_iter().flat_map(|stage| stage.actions).next()
        };
        let pods = [pod(0, true, None), pod(1, true, None)];
        let Some(Action::Create { object, .. }) = action_for(&pods[..1], None) else { panic!("no Endpoints") };
        let made = EndpointsView::decode(object.as_object().to_value().to_string().as_bytes(), Revision(9)).expect("Endpoints");
        assert!(action_for(&pods[..1], Some(&made)).is_none());
        let Some(Action::Patch { patch, .. }) = action_for(&pods, Some(&made)) else { panic!("no patch") };
        assert_eq!(patch["subsets"][0]["addresses"].as_array().map(Vec::len), Some(2));
        let Some(Action::Patch { patch, .. }) = action_for(&[], Some(&made)) else { panic!("no patch") };
        assert_eq!(patch, json!({"subsets": null}));
    }

    #[test]
    fn a_headless_service_with_ports_is_shown_by_them() {
        let headless = json!({"clusterIP": "None", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 9}]});
        assert_eq!(made(&service(headless), &[pod(0, true, None)]), ["9: 10.64.0.1 | "]);
        assert_eq!(made(&service(json!({"ports": null})), &[pod(0, true, None)]), Vec::<String>::new());
    }

    #[test]
    fn what_ends_or_has_no_address_is_not_shown() {
        let finished = EndpointPodView { is_finished: true, ..pod(0, true, Some(1)) };
        let terminating = EndpointPodView { is_terminating: true, ..pod(1, true, Some(1)) };
        let nowhere = EndpointPodView { addresses: Vec::new(), ..pod(2, true, Some(1)) };
        let pods = [finished, terminating, nowhere];
        assert_eq!(made(&service(json!({})), &pods), Vec::<String>::new());
        let published = made(&service(json!({"publishNotReadyAddresses": true})), &pods);
        assert_eq!(published, ["1,9090: 10.64.0.2 | "], "terminating ones too, where all are published");
    }

    #[test]
    fn of_more_than_a_thousand_the_ready_ones_are_shown() {
        let pods: Vec<EndpointPodView> = (0..1500).map(|number| pod(number, number >= 700, Some(1))).collect();
        let service = service(json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 9}]}));
        let plan = plan(&EndpointsState { service: Some(&service), pods: pods.iter().collect(), endpoints: None });
        let Some(Action::Create { object, .. }) = plan.stages.first().and_then(|stage| stage.actions.first()) else { panic!("{plan:?}") };
        let object = object.as_object().to_value();
        assert_eq!(object["metadata"]["annotations"], json!({"endpoints.kubernetes.io/over-capacity": "truncated"}));
        let count = |field: &str| object["subsets"][0][field].as_array().map_or(0, Vec::len);
        assert_eq!((count("addresses"), count("notReadyAddresses")), (800, 200));
    }

    #[test]
    fn only_what_differs_is_written_and_only_what_was_made_here_is_deleted() {
        let service = service(json!({}));
        let view = |labels: Value| {
            let json = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "e", "labels": labels}, "subsets": []});
            EndpointsView::decode(json.to_string().as_bytes(), Revision(9)).expect("Endpoints")
        };
        let managed = view(json!({MANAGED_BY: CONTROLLER, "x": "y"}));
        let state = |service, endpoints| EndpointsState { service, pods: Vec::new(), endpoints };
        assert!(plan(&state(Some(&service), Some(&managed))).stages.is_empty());
        let stale = view(json!({"old": "label"}));
        let plan_of_stale = read_back(plan(&state(Some(&service), Some(&stale))));
        let Some(Action::Patch { target, patch, .. }) = plan_of_stale.stages.first().and_then(|stage| stage.actions.first()) else {
            panic!("{plan_of_stale:?}")
        };
        assert_eq!(*patch, json!({"metadata": {"labels": {"old": null, MANAGED_BY: CONTROLLER, "x": "y"}}}));
        assert_eq!(target.resource_version, Some(Revision(9)));
        assert!(plan(&state(None, Some(&stale))).stages.is_empty());
        assert!(matches!(read_back(plan(&state(None, Some(&managed)))).stages[0].actions[..], [Action::Delete { .. }]));
        let external = self::service(json!({"type": "ExternalName"}));
        assert!(plan(&state(Some(&external), None)).stages.is_empty());
    }
}
