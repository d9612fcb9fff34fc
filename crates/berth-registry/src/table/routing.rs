//! What directs traffic: Ingress, IngressClass, NetworkPolicy.

use super::{
    Printed,
    text::{AGE, NAME, age_of, first_few, name, or, selector, text},
};
use crate::resource::Column;
use berth_api::k8s_openapi::api::networking::v1::{Ingress, IngressClass, NetworkPolicy};
use jiff::Timestamp;
use serde_json::{Value, json};

/// More hosts than these are only counted.
const SHOWN_MAX: usize = 3;

impl Printed for Ingress {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Class", "The class that serves the ingress."),
        text("Hosts", "The hosts that its rules are for."),
        text("Address", "Where it can be reached."),
        text("Ports", "Its ports: with TLS two."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.clone().unwrap_or_default();
        let hosts: Vec<String> = spec.rules.iter().flatten().filter_map(|rule| rule.host.clone()).filter(|host| !host.is_empty()).collect();
        let status = self.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let points = status.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
        let addresses: Vec<&str> = points.filter_map(|point| point.ip.as_deref().or(point.hostname.as_deref())).collect();
        vec![
            json!(name(&self.metadata)),
            json!(or(spec.ingress_class_name.as_deref(), "<none>")),
            json!(or(Some(&first_few(&hosts, SHOWN_MAX)), "*")),
            json!(addresses.join(",")),
            json!(if spec.tls.is_some_and(|tls| !tls.is_empty()) { "80, 443" } else { "80" }),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

impl Printed for IngressClass {
    const COLUMNS: &'static [Column] =
        &[NAME, text("Controller", "Who serves ingresses of this class."), text("Parameters", "The object with its settings."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.clone().unwrap_or_default();
        let parameters = spec.parameters.map(|parameters| {
            let group = parameters.api_group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", parameters.kind, parameters.name)
        });
        vec![
            json!(name(&self.metadata)),
            json!(spec.controller.unwrap_or_default()),
            json!(or(parameters.as_deref(), "<none>")),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

impl Printed for NetworkPolicy {
    const COLUMNS: &'static [Column] = &[NAME, text("Pod-Selector", "Which pods it is about."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let pods = self.spec.as_ref().and_then(|spec| spec.pod_selector.as_ref());
        vec![json!(name(&self.metadata)), json!(selector(pods)), json!(age_of(&self.metadata, now))]
    }
}
