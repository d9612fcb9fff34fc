//! Requests for devices, as claims and their templates have them.

use super::super::values::{list, text};
use super::{
    LIST_MAX, bounded, each_once, validate_configuration, validate_full_name, validate_request_name, validate_selectors,
    validate_tolerations,
};
use berth_api::{
    Path,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Most alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;
const ONE_SORT: &str = "exactly one of `exactly` or `firstAvailable` is required";
const UNKNOWN_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
const ONE_ATTRIBUTE: &str = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";

/// The names by which other fields refer to requests: `gpu`, `gpu/large`.
pub(in super::super) struct Requests(BTreeSet<String>);

impl Requests {
    /// Those of the `devices` of a claim.
    pub(in super::super) fn of(devices: &Value) -> Self {
        let names = list(devices, "requests").iter().flat_map(|request| {
            let name = text(request, "name");
            let alternatives =
                list(request, "firstAvailable").iter().map(move |alternative| format!("{name}/{}", text(alternative, "name")));
            alternatives.chain([name.to_owned()])
        });
        Self(names.collect())
    }

    /// A request that a result or a configuration names.
    pub(in super::super) fn validate(&self, name: &str, path: &Path, faults: &mut Faults) {
        validate_request_name(name, path, faults);
        if !self.0.contains(name) {
            faults.invalid(path, name, UNKNOWN_REQUEST);
        }
    }

    /// The requests that an object names.
    pub(in super::super) fn validate_list(&self, object: &Value, path: &Path, faults: &mut Faults) {
        let names = bounded(object, "requests", LIST_MAX, path, faults);
        let path = path.child("requests");
        for (index, name) in names.iter().enumerate() {
            self.validate(name.as_str().unwrap_or_default(), &path.index(index), faults);
        }
        each_once(names.iter().filter_map(Value::as_str), &path, faults);
    }
}

/// Sets the defaults of a claim's `devices`.
pub(in super::super) fn default_claim(devices: &mut Value) {
    let requests = devices.get_mut("requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        request.get_mut("exactly").into_iter().for_each(default_request);
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    if text(request, "allocationMode").is_empty() {
        request["allocationMode"] = json!("ExactCount");
    }
    if text(request, "allocationMode") == "ExactCount" && count(request) == 0 {
        request["count"] = json!(1);
    }
    default_tolerations(request);
}

/// Tolerations without an operator compare values.
pub(in super::super) fn default_tolerations(object: &mut Value) {
    let tolerations = object.get_mut("tolerations").and_then(Value::as_array_mut);
    for toleration in tolerations.into_iter().flatten() {
        if text(toleration, "operator").is_empty() {
            toleration["operator"] = json!("Equal");
        }
    }
}

fn count(request: &Value) -> i64 {
    request.get("count").and_then(Value::as_i64).unwrap_or(0)
}

/// The `devices` of a claim.
pub(in super::super) fn validate_claim(devices: &Value, path: &Path, faults: &mut Faults) {
    let requests = bounded(devices, "requests", LIST_MAX, path, faults);
    for (index, request) in requests.iter().enumerate() {
        validate_request(request, &path.child("requests").index(index), faults);
    }
    each_once(requests.iter().map(|request| text(request, "name")), &path.child("requests"), faults);
    let known = Requests::of(devices);
    for (index, constraint) in bounded(devices, "constraints", LIST_MAX, path, faults).iter().enumerate() {
        let path = path.child("constraints").index(index);
        known.validate_list(constraint, &path, faults);
        validate_constraint(constraint, &path, faults);
    }
    for (index, configuration) in bounded(devices, "config", LIST_MAX, path, faults).iter().enumerate() {
        let path = path.child("config").index(index);
        known.validate_list(configuration, &path, faults);
        validate_configuration(configuration, &path, faults);
    }
}

/// Source: upstream `validateDeviceConstraint`, which reads the second attribute only if there is no first one.
fn validate_constraint(constraint: &Value, path: &Path, faults: &mut Faults) {
    let fields = ["matchAttribute", "distinctAttribute"];
    let attribute = fields.into_iter().find_map(|field| Some((field, constraint.get(field)?.as_str()?)));
    match attribute {
        Some((field, name)) => validate_full_name(name, &path.child(field), faults),
        None => faults.required(path, ONE_ATTRIBUTE),
    }
}

fn validate_request(request: &Value, path: &Path, faults: &mut Faults) {
    faults.form(&path.child("name"), text(request, "name"), check_dns_label);
    match (request.get("exactly"), list(request, "firstAvailable")) {
        (None, []) => faults.required(path, ONE_SORT),
        (Some(exactly), []) => validate_exactly(exactly, &path.child("exactly"), faults),
        (None, _) => {
            let alternatives = bounded(request, "firstAvailable", ALTERNATIVES_MAX, path, faults);
            let path = path.child("firstAvailable");
            for (index, alternative) in alternatives.iter().enumerate() {
                faults.form(&path.index(index).child("name"), text(alternative, "name"), check_dns_label);
                validate_exactly(alternative, &path.index(index), faults);
            }
            each_once(alternatives.iter().map(|alternative| text(alternative, "name")), &path, faults);
        }
        (Some(_), _) => faults.invalid(path, Value::Null, format!("{ONE_SORT}, but multiple fields are set")),
    }
}

/// How many devices of which class.
fn validate_exactly(request: &Value, path: &Path, faults: &mut Faults) {
    faults.set_form(&path.child("deviceClassName"), text(request, "deviceClassName"), check_dns_subdomain);
    validate_selectors(request, path, faults);
    match text(request, "allocationMode") {
        "All" if count(request) != 0 => {
            faults.invalid(&path.child("count"), count(request), "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count(request) <= 0 => faults.invalid(&path.child("count"), count(request), "must be greater than zero"),
        mode => faults.known(&path.child("allocationMode"), mode, &["All", "ExactCount"]),
    }
    validate_tolerations(request, path, faults);
}
