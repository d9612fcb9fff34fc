//! ResourceSlice: devices that a driver offers. No part of berth allocates devices: slices are kept.

mod devices;

use super::{
    devices::{DEVICE_TYPES, GROUP, bounded, each_once, validate_driver, validate_pool},
    values::{at, list, member, native_sharing, spec, text},
};
use crate::{Cell, Column, Content, Definition, JsonPath, Names, SelectableField, Strategy, Version};
use berth_api::{
    FeatureGates, FieldError, ObjectRules, Path, Scope, Subresource,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain},
    object::GenerationRule,
    pod::validate_node_selector,
};
use k8s_openapi::{api::core::v1::NodeSelector, apimachinery::pkg::apis::meta::v1::Time};
use serde_json::{Value, json};
use std::sync::Arc;

/// Most devices of a slice.
const DEVICES_MAX: usize = 128;
/// The same, where a device has taints or shares counters.
const ADVANCED_DEVICES_MAX: usize = 64;
/// Most sets of counters.
const COUNTER_SETS_MAX: usize = 8;
/// What of a device upstream drops, because its feature gate is off.
const GATED: [&str; 4] = ["ints", "bools", "strings", "versions"];

/// The definition of the kind.
#[must_use]
pub fn resource_slice() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let version = Version {
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            column("Node", "The node with the devices.", Cell::Computed(|slice| json!(text(spec(slice), "nodeName")))),
            column("Driver", "The driver that offers the devices.", at(".spec.driver")),
            column("Pool", "The pool of the devices.", at(".spec.pool.name")),
            Column::age(),
        ],
        selectable_fields: [".spec.driver", ".spec.nodeName"].into_iter().map(selectable).collect(),
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::Spec, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"driver": "", "pool": {"generation": 0, "name": "", "resourceSliceCount": 0}}}),
        strategy: Some(Arc::new(Slices)),
        ..native_sharing::<k8s_openapi::api::resource::v1::ResourceSlice>(
            GROUP,
            Names::of("ResourceSlice", "resourceslices"),
            Scope::Cluster,
            version,
            &[],
            Some(&DEVICE_TYPES),
        )
    }
}

fn selectable(path: &str) -> SelectableField {
    SelectableField::at(&JsonPath::parse(path).expect("a path of this crate")).expect("it leads through no list")
}

struct Slices;

impl Strategy for Slices {
    fn prepare_create(&self, slice: &mut Content, _: &FeatureGates) {
        drop_gated(slice);
    }

    fn prepare_update(&self, slice: &mut Content, _: &Content, _: &FeatureGates) {
        drop_gated(slice);
    }

    /// A taint without a time was added now.
    fn stamp(&self, slice: &mut Content, _: Option<&Content>, now: &Time) {
        for taint in devices_mut(slice).filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten() {
            if taint.get("timeAdded").is_none() {
                taint["timeAdded"] = json!(now);
            }
        }
    }

    fn validate(&self, slice: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(spec(slice), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, slice: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(self.validate(slice));
        let (path, new, old) = (Path::new("spec"), spec(slice), spec(old));
        for (field, pointer) in [("driver", "/driver"), ("pool.name", "/pool/name"), ("nodeName", "/nodeName")] {
            if new.pointer(pointer) != old.pointer(pointer) {
                let path = field.split('.').fold(path.clone(), |path, name| path.child(name));
                faults.invalid(&path, new.pointer(pointer).cloned().unwrap_or_default(), "field is immutable");
            }
        }
        faults.into_vec()
    }
}

fn devices_mut(slice: &mut Content) -> impl Iterator<Item = &mut Value> {
    let devices = slice.members_mut().get_mut("spec").and_then(|spec| spec.get_mut("devices")?.as_array_mut());
    devices.into_iter().flatten()
}

fn drop_gated(slice: &mut Content) {
    for device in devices_mut(slice) {
        let Some(device) = device.as_object_mut() else { continue };
        device.remove("nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for attribute in attributes.into_iter().flat_map(|attributes| attributes.values_mut()).filter_map(Value::as_object_mut) {
            attribute.retain(|field, _| !GATED.contains(&field.as_str()));
        }
    }
}

/// Source: upstream `ValidateResourceSlice`.
fn validate_spec(spec: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    validate_driver(text(spec, "driver"), &path.child("driver"), faults);
    let (of_pool, pool) = (path.child("pool"), &spec["pool"]);
    validate_pool(text(pool, "name"), &of_pool.child("name"), faults);
    let number = |field: &str| pool.get(field).and_then(Value::as_i64).unwrap_or(0);
    if number("resourceSliceCount") <= 0 {
        faults.invalid(&of_pool.child("resourceSliceCount"), number("resourceSliceCount"), "must be greater than zero");
    }
    if number("generation") < 0 {
        faults.invalid(&of_pool.child("generation"), number("generation"), "must be greater than or equal to zero");
    }
    let chosen = validate_nodes(spec, &path, &["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"], faults);
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match chosen[..] {
        [_] => (),
        [] => faults.required(&path, one),
        _ => faults.invalid(&path, shown(&chosen), format!("{one}, but multiple fields are set")),
    }
    let (devices, sets) = (list(spec, "devices"), list(spec, "sharedCounters"));
    if !devices.is_empty() && !sets.is_empty() {
        faults.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let is_advanced = devices.iter().any(|device| device.get("taints").is_some() || device.get("consumesCounters").is_some());
    let max = if is_advanced { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let devices = bounded(spec, "devices", max, &path, faults);
    for (index, device) in devices.iter().enumerate() {
        let path = path.child("devices").index(index);
        faults.form(&path.child("name"), text(device, "name"), check_dns_label);
        devices::validate(device, &path, faults);
        validate_device_nodes(device, spec["perDeviceNodeSelection"] == json!(true), &path, faults);
    }
    each_once(devices.iter().map(|device| text(device, "name")), &path.child("devices"), faults);
    let sets = bounded(spec, "sharedCounters", COUNTER_SETS_MAX, &path, faults);
    for (index, set) in sets.iter().enumerate() {
        let path = path.child("sharedCounters").index(index);
        faults.set_form(&path.child("name"), text(set, "name"), check_dns_label);
        devices::validate_counters(set, &path, faults);
    }
    each_once(sets.iter().map(|set| text(set, "name")), &path.child("sharedCounters"), faults);
}

/// Judges each field that chooses the nodes of devices. Returns those that choose.
fn validate_nodes<'f>(object: &Value, path: &Path, fields: &[&'f str], faults: &mut Faults) -> Vec<&'f str> {
    let mut chosen = Vec::new();
    for field in fields {
        let (path, Some(value)) = (path.child(field), object.get(field)) else { continue };
        let is_chosen = match value {
            Value::String(name) if name.is_empty() => {
                faults.invalid(&path, "", "must be either unset or set to a non-empty string");
                false
            }
            Value::String(name) => {
                faults.form(&path, name, check_dns_subdomain);
                true
            }
            Value::Bool(is_set) => {
                if !is_set {
                    faults.invalid(&path, false, "must be either unset or set to true");
                }
                *is_set
            }
            selector => {
                if let Some(selector) = member::<NodeSelector>(object, field) {
                    validate_node_selector(&selector, &path, faults);
                }
                let terms = list(selector, "nodeSelectorTerms");
                if terms.len() != 1 {
                    let value = if terms.is_empty() { Value::Null } else { json!(terms) };
                    faults.invalid(&path.child("nodeSelectorTerms"), value, "must have exactly one node selector term");
                }
                true
            }
        };
        if is_chosen {
            chosen.push(*field);
        }
    }
    chosen
}

fn validate_device_nodes(device: &Value, is_per_device: bool, path: &Path, faults: &mut Faults) {
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if !is_per_device {
        if fields.iter().any(|field| device.get(field).is_some()) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            faults.invalid(path, Value::Null, why);
        }
        return;
    }
    let chosen = validate_nodes(device, path, &fields, faults);
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match chosen[..] {
        [_] => (),
        [] => faults.required(path, one),
        _ => faults.invalid(path, shown(&chosen), one),
    }
}

fn shown(fields: &[&str]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
    format!("{{{}}}", fields.join(", "))
}
