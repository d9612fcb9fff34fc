//! Replaces the content of templates: a hash identifies the template, and containers are numbered.

use crate::{allowed::TracedKind, names::Names};
use berth_api::{decode::Codec, k8s_openapi::api::core::v1::PodTemplateSpec};
use berth_workloads::hash::canonical_template;
use serde_json::{Map, Value, json};

/// Returns an object in the form of the allowed fields. Container names are numbers, and the image of a template's
/// first container is the template's hash.
pub(crate) fn prepared(kind: &TracedKind, object: &Value, names: &Names) -> Value {
    let mut object = object.clone();
    if let Some(template) = kind.template.and_then(|pointer| object.pointer_mut(pointer)) {
        let identity = identity(template, names);
        if let Some(spec) = spec_of(template) {
            number(spec);
            keep_host_ports(spec);
        }
        if let Some(first) = template.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut) {
            first.insert("image".to_owned(), json!(identity));
        }
    }
    if kind.kind == "Pod" {
        let statuses = numbered_statuses(&object);
        if let Some(spec) = spec_of(&mut object) {
            number(spec);
            keep_host_ports(spec);
        }
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            status.extend(statuses.into_iter().map(|(member, list)| (member.to_owned(), list)));
        }
    }
    object
}

/// An untrusted server may send no spec, or another type.
fn spec_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("spec").and_then(Value::as_object_mut)
}

/// Returns the same identity for all templates that create the same pods, in any workload.
fn identity(template: &Value, names: &Names) -> String {
    let mut template = template.clone();
    if let Some(members) = template.as_object_mut() {
        // The patch directive of a ControllerRevision is not part of the template.
        members.remove("$patch");
    }
    let canonical = PodTemplateSpec::decode_tree(&template).map_or(template, |template| canonical_template(&template));
    names.template(&canonical.to_string())
}

const LISTS: [(&str, &str, &str); 2] = [("containers", "containerStatuses", "c"), ("initContainers", "initContainerStatuses", "i")];

fn number(spec: &mut Map<String, Value>) {
    for (member, _, letter) in LISTS {
        for (index, container) in spec.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            if let Some(container) = container.as_object_mut() {
                container.insert("name".to_owned(), json!(format!("{letter}{index}")));
                container.remove("image");
            }
        }
    }
}

/// Keeps host ports only.
fn keep_host_ports(spec: &mut Map<String, Value>) {
    for (member, ..) in LISTS {
        for container in spec.get_mut(member).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let is_hosts = |port: &Value| port["hostPort"].as_i64().is_some_and(|port| port != 0);
            if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
                ports.retain(is_hosts);
                if ports.is_empty() {
                    container.remove("ports");
                }
            }
        }
    }
}

fn numbered_statuses(pod: &Value) -> Vec<(&'static str, Value)> {
    let mut lists = Vec::new();
    for (member, statuses, letter) in LISTS {
        let Some(mut list) = pod["status"][statuses].as_array().cloned() else { continue };
        let containers = pod["spec"][member].as_array().map(Vec::as_slice).unwrap_or_default();
        for status in list.iter_mut().filter_map(Value::as_object_mut) {
            let index = containers.iter().position(|container| container.get("name") == status.get("name"));
            status.insert("name".to_owned(), index.map_or(Value::Null, |index| json!(format!("{letter}{index}"))));
        }
        lists.push((statuses, Value::Array(list)));
    }
    lists
}
