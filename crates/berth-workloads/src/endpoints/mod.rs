//! The addresses of a Service's pods: its EndpointSlices and, for older clients, its Endpoints.
//!
//! Source: kubernetes `staging/src/k8s.io/endpointslice`, `pkg/controller/endpoint`.

pub mod addresses;
pub mod slices;
pub mod view;

use self::view::{EndpointPodView, ServiceView};
use k8s_openapi::{
    api::core::v1::{ObjectReference, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use std::collections::BTreeMap;

/// The label of objects that belong to a Service without a cluster IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// A pod's port that is the target of a Service's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TargetPort {
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) port: i32,
    pub(crate) app_protocol: Option<String>,
}

/// The target of a Service's port on this pod. `None` if the pod has no port of that name.
fn target_port(port: &ServicePort, pod: &EndpointPodView) -> Option<TargetPort> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let number = match port.target_port.as_ref() {
        None => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => pod.ports.iter().find(|port| port.name == *name && port.protocol == protocol)?.number,
    };
    Some(TargetPort { name: port.name.clone().unwrap_or_default(), protocol, port: number, app_protocol: port.app_protocol.clone() })
}

/// Whether a selector determines the Service's pods. Otherwise another component manages its endpoints.
fn has_pods(service: &ServiceView) -> bool {
    service.selector.is_some() && !service.is_external
}

/// The Service's labels except those in `never`, and `others`, which take precedence. A headless Service gets [`HEADLESS`].
fn labels_with(service: &ServiceView, others: &[(&str, &str)], never: &[&str]) -> BTreeMap<String, String> {
    let own = service.labels.iter().filter(|(key, _)| !never.contains(key));
    let mut labels: BTreeMap<_, _> = own.chain(others.iter().copied()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if service.is_headless {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// The pod's host name in the headless Service that governs it.
fn hostname(service: &ServiceView, pod: &EndpointPodView) -> Option<String> {
    (pod.subdomain == service.name && !pod.hostname.is_empty()).then(|| pod.hostname.clone())
}

fn reference(pod: &EndpointPodView) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.to_string()),
        name: Some(pod.name.to_string()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    }
}

fn set(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{view::NamedPort, *};
    use crate::view::View;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    fn service(spec: &Value) -> ServiceView {
        let json = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "s"}, "spec": spec});
        ServiceView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Service")
    }

    #[test]
    fn a_port_leads_to_a_number_or_to_the_pods_port_of_its_name_and_protocol() {
        let named = |name: &str, protocol: &str, number| NamedPort { name: name.to_owned(), protocol: protocol.to_owned(), number };
        let pod = EndpointPodView {
            ports: vec![named("dns", "TCP", 5353), named("http", "UDP", 1), named("http", "TCP", 8080)],
            ..Default::default()
        };
        let leads_to = |port: Value| {
            let service = service(&json!({"ports": [port]}));
            target_port(&service.ports[0], &pod).map(|port| (port.protocol, port.port))
        };
        let tcp = |number| Some(("TCP".to_owned(), number));
        assert_eq!(leads_to(json!({"port": 80})), tcp(80));
        assert_eq!(leads_to(json!({"port": 80, "targetPort": 9090})), tcp(9090));
        assert_eq!(leads_to(json!({"port": 80, "targetPort": "http"})), tcp(8080));
        assert_eq!(leads_to(json!({"port": 80, "targetPort": "http", "protocol": "UDP"})), Some(("UDP".to_owned(), 1)));
        assert_eq!(leads_to(json!({"port": 80, "targetPort": "dns", "protocol": "UDP"})), None);
    }

    #[test]
    fn a_pod_has_a_name_in_the_service_that_governs_it() {
        let web = service(&json!({"clusterIP": "None"}));
        let name = |subdomain: &str, name: &str| {
            hostname(&web, &EndpointPodView { subdomain: subdomain.to_owned(), hostname: name.to_owned(), ..EndpointPodView::default() })
        };
        assert_eq!(
            [name("web", "web-0"), name("db", "web-0"), name("web", ""), name("", "")],
            [Some("web-0".to_owned()), None, None, None]
        );
    }
}
