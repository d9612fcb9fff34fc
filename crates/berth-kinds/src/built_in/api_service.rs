//! APIService: a version of an API group. Those that the server itself serves are local and available. berth forwards no
//! requests: one with a service is kept, and it is not available.

use super::values::{list, native_of_type, spec, text};
use crate::{Cell, Column, Components, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    names::{check_dns_1035_label, check_dns_subdomain},
    object::{FinalizerRule, GenerationRule, NameRule},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use serde_json::{Value, json};
use std::sync::Arc;

const TYPE_NAME: &str = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService";
/// The port of a service without one.
const PORT: i64 = 443;
/// The largest port.
const PORT_MAX: i64 = 65_535;
/// The largest priority of a group.
const GROUP_PRIORITY_MAX: i64 = 20_000;
/// The largest priority of a version in its group.
const VERSION_PRIORITY_MAX: i64 = 1_000;
const AVAILABLE: &str = "Available";
const CONDITION_STATUSES: &[&str] = &["False", "True", "Unknown"];

/// Returns the definition of the kind.
#[must_use]
pub fn api_service() -> Definition {
    let column = |name: &str, description: &str, cell: fn(&Content) -> Value| Column {
        cell: Cell::Computed(cell),
        ..Column::text(name, description)
    };
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Service", "The service with the API, or `Local`.", |api| json!(shown_service(api))),
            column("Available", "Whether the API is available.", |api| json!(availability(api))),
            Column::age(),
        ],
        ..Version::default()
    };
    let names = Names { categories: vec!["api-extensions".to_owned()], ..Names::of("APIService", "apiservices") };
    let components = Components::new(TYPE_NAME, &[include_str!("api_service.json")], None);
    Definition {
        rules: ObjectRules {
            generation_rule: GenerationRule::None,
            name_rule: NameRule::PathSegment,
            requires_resource_version: true,
            finalizer_rule: FinalizerRule::Plain,
            ..super::rules()
        },
        strategy: Some(Arc::new(ApiServices)),
        ..native_of_type::<APIService>("apiregistration.k8s.io", names, Scope::Cluster, version, components)
    }
}

fn shown_service(api: &Content) -> String {
    let service = &spec(api)["service"];
    if service.is_null() { "Local".to_owned() } else { format!("{}/{}", text(service, "namespace"), text(service, "name")) }
}

fn availability(api: &Content) -> String {
    let conditions = list(&api.members()["status"], "conditions");
    let Some(condition) = conditions.iter().find(|condition| text(condition, "type") == AVAILABLE) else { return "Unknown".to_owned() };
    match (text(condition, "status"), text(condition, "reason")) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

struct ApiServices;

impl Strategy for ApiServices {
    fn default(&self, api: &mut Content) {
        let service = api.members_mut().get_mut("spec").and_then(|spec| spec.get_mut("service"));
        if let Some(Value::Object(service)) = service {
            service.entry("port").or_insert_with(|| json!(PORT));
        }
    }

    fn stamp(&self, api: &mut Content, old: Option<&Content>, now: &Time) {
        let is_changed = old.is_none_or(|old| spec(old)["service"] != spec(api)["service"]);
        if is_changed {
            set_availability(api, now);
        }
    }

    fn validate(&self, api: &Content) -> Vec<FieldError> {
        validate(api)
    }

    fn validate_update(&self, api: &Content, _: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        if subresource.is_none() {
            return validate(api);
        }
        let mut faults = Faults::default();
        for (index, condition) in list(&api.members()["status"], "conditions").iter().enumerate() {
            let path = Path::new("status").child("conditions").index(index).child("status");
            faults.known(&path, text(condition, "status"), CONDITION_STATUSES);
        }
        faults.into_vec()
    }
}

/// Sets the condition of availability.
///
/// Source: upstream `NewLocalAvailableAPIServiceCondition`. The other condition is berth's own.
fn set_availability(api: &mut Content, now: &Time) {
    let (status, reason, message) = if spec(api)["service"].is_null() {
        ("True", "Local", "Local APIServices are always available".to_owned())
    } else {
        let message =
            format!("berth does not forward requests to aggregated API servers: the service {} is not called", shown_service(api));
        ("False", "NotForwarded", message)
    };
    let condition = json!({"type": AVAILABLE, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
    let conditions = list(&api.members()["status"], "conditions").iter();
    let kept = conditions.filter(|condition| text(condition, "type") != AVAILABLE).cloned();
    let conditions: Vec<Value> = kept.chain([condition]).collect();
    api.members_mut().insert("status".to_owned(), json!({ "conditions": conditions }));
}

/// Source: upstream `ValidateAPIService`.
fn validate(api: &Content) -> Vec<FieldError> {
    let (path, spec, mut faults) = (Path::new("spec"), spec(api), Faults::default());
    let (name, group, version) = (api.meta.name.as_deref().unwrap_or_default(), text(spec, "group"), text(spec, "version"));
    let required = format!("{version}.{group}");
    if name != required {
        faults.invalid(&Path::new("metadata").child("name"), name, format!("must be `spec.version+\".\"+spec.group`: {required:?}"));
    }
    match (group, version) {
        ("", "v1") => (),
        ("", _) => faults.required(&path.child("group"), "only v1 may have an empty group and it better be legacy kube"),
        (group, _) => faults.form(&path.child("group"), group, check_dns_subdomain),
    }
    faults.form(&path.child("version"), version, check_dns_1035_label);
    let mut within = |member: &str, max: i64| {
        let priority = spec.get(member).and_then(Value::as_i64).unwrap_or_default();
        if !(1..=max).contains(&priority) {
            faults.invalid(&path.child(member), priority, format!("must be positive and less than {max}"));
        }
    };
    within("groupPriorityMinimum", GROUP_PRIORITY_MAX);
    within("versionPriority", VERSION_PRIORITY_MAX);
    let (at, skips_check) = (path.child("insecureSkipTLSVerify"), spec.get("insecureSkipTLSVerify") == Some(&json!(true)));
    let bundle = bundle_bytes(text(spec, "caBundle"));
    let Some(service) = spec.get("service") else {
        if bundle != 0 {
            faults.invalid(&path.child("caBundle"), format!("{bundle} bytes"), "local APIServices may not have a caBundle");
        }
        if skips_check {
            faults.invalid(&at, true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return faults.into_vec();
    };
    validate_service(service, &path.child("service"), &mut faults);
    if skips_check && bundle != 0 {
        faults.invalid(&at, true, "may not be true if caBundle is present");
    }
    faults.into_vec()
}

fn validate_service(service: &Value, path: &Path, faults: &mut Faults) {
    for member in ["namespace", "name"] {
        faults.set(&path.child(member), text(service, member));
    }
    if let Some(port) = service.get("port").and_then(Value::as_i64).filter(|port| !(1..=PORT_MAX).contains(port)) {
        faults.invalid(&path.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive");
    }
}

/// How many bytes a text in base64 is.
fn bundle_bytes(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
}

/// Labels of an object that the server itself makes.
const AUTO_MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The priorities of upstream's groups.
///
/// Source: upstream `pkg/controlplane/apiserver/aggregator.go`, `DefaultGenericAPIServicePriorities`, and
/// `cmd/kube-apiserver/app/aggregator.go`.
const GROUP_PRIORITIES: [(&str, i64); 21] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("metrics.k8s.io", 100),
];

/// Returns the APIService of a version that the server itself serves. `None`: upstream has none for it.
#[must_use]
pub fn local_api_service(group: &str, version: &str, is_built_in: bool) -> Option<Value> {
    if group == "apiregistration.k8s.io" {
        return None;
    }
    let of_group = GROUP_PRIORITIES.iter().find(|(known, _)| *known == group && is_built_in).map(|(_, priority)| *priority);
    let (label, group_priority, version_priority) = match (of_group, group, version) {
        // Custom resources have the same priorities, as upstream.
        (None, ..) => ("true", 1_000, 100),
        (Some(priority), "", _) => ("onstart", priority, 1),
        (Some(priority), "autoscaling", "v2") => ("onstart", priority, 30),
        (Some(priority), "flowcontrol.apiserver.k8s.io" | "resource.k8s.io", _) => ("onstart", priority, 21),
        (Some(priority), ..) => ("onstart", priority, 15),
    };
    let mut spec = json!({"version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority});
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    Some(json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}"), "labels": {AUTO_MANAGED: label}},
        "spec": spec,
    }))
}

/// Whether the server made the object for a custom resource, so that it deletes the object with the last of its kinds.
#[must_use]
pub fn is_of_custom_resource(api: &Value) -> bool {
    api.pointer("/metadata/labels").and_then(|labels| labels.get(AUTO_MANAGED)).is_some_and(|label| label == "true")
}
