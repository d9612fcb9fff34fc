//! ResourceClaim: devices that pods want. No part of berth allocates devices: a pod with a claim that another controller has not allocated waits.

use super::{
    devices::{
        DEVICE_TYPES, GROUP, LIST_MAX, Requests, Required, bounded, default_claim, default_tolerations, device_id, validate_binding,
        validate_claim, validate_configuration, validate_driver, validate_object, validate_pool,
    },
    values::{list, member, native_sharing, spec, text},
};
use crate::{Cell, Column, Content, Definition, Names, Strategy, Version};
use berth_api::{
    FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, ip::check_interface_cidr, names::check_dns_label,
    object::GenerationRule, pod::validate_node_selector,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Most objects that use one claim at a time.
const RESERVED_MAX: usize = 256;
/// Longest name of a network interface, in bytes.
const INTERFACE_BYTES_MAX: usize = 256;
/// Longest address of a network device, in bytes.
const HARDWARE_BYTES_MAX: usize = 128;
/// Most addresses of a network device.
const ADDRESSES_MAX: usize = 16;
/// Most conditions of a device.
const CONDITIONS_MAX: usize = 8;
/// Longest message of a condition, in bytes.
const MESSAGE_BYTES_MAX: usize = 32 << 10;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and \
     must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or \
     'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// The definition of the kind.
#[must_use]
pub fn resource_claim() -> Definition {
    let state =
        Column { cell: Cell::Computed(|claim| json!(state(claim))), ..Column::text("State", "Whether devices are allocated, and used.") };
    let version =
        Version { status: true, columns: vec![Column::of_name(super::NAME_DESCRIPTION), state, Column::age()], ..Version::default() };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"devices": {"requests": null}}, "status": {}}),
        strategy: Some(Arc::new(Claims)),
        ..native_sharing::<k8s_openapi::api::resource::v1::ResourceClaim>(
            GROUP,
            Names::of("ResourceClaim", "resourceclaims"),
            Scope::Namespaced,
            version,
            &[],
            Some(&DEVICE_TYPES),
        )
    }
}

/// Source: upstream `resourceClaimState`.
fn state(claim: &Content) -> String {
    let status = &claim.members()["status"];
    let is_deleted = claim.meta.deletion_timestamp.is_some();
    let mut states = Vec::new();
    if is_deleted {
        states.push("deleted");
    }
    match status.get("allocation") {
        Some(_) => states.push("allocated"),
        None if !is_deleted => states.push("pending"),
        None => (),
    }
    if !list(status, "reservedFor").is_empty() {
        states.push("reserved");
    }
    states.join(",")
}

struct Claims;

impl Strategy for Claims {
    fn default(&self, claim: &mut Content) {
        default_claim(&mut claim.members_mut()["spec"]["devices"]);
        let results = claim.members_mut().get_mut("status").and_then(|status| status.pointer_mut("/allocation/devices/results"));
        results.and_then(Value::as_array_mut).into_iter().flatten().for_each(default_tolerations);
    }

    fn validate(&self, claim: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_claim(&spec(claim)["devices"], &Path::new("spec").child("devices"), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, claim: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if subresource.is_some() {
            validate_status(claim, old, &mut faults);
        } else if spec(claim) != spec(old) {
            faults.invalid(&Path::new("spec"), spec(claim).clone(), "field is immutable");
        }
        faults.into_vec()
    }
}

/// Source: upstream `ValidateResourceClaimStatusUpdate`.
fn validate_status(claim: &Content, old: &Content, faults: &mut Faults) {
    let is_deleted = old.meta.deletion_timestamp.is_some();
    let (path, status, old) = (Path::new("status"), &claim.members()["status"], &old.members()["status"]);
    let allocation = status.get("allocation");
    if let Some(allocation) = allocation {
        validate_allocation(allocation, &Requests::of(&spec(claim)["devices"]), &path.child("allocation"), faults);
    }
    validate_reserved(status, &path, faults);
    let (users, stored_users) = (list(status, "reservedFor"), list(old, "reservedFor"));
    if allocation.is_none() && !users.is_empty() {
        faults.forbidden(&path.child("reservedFor"), "may not be specified when `allocated` is not set");
    } else if is_deleted && users.iter().any(|user| !stored_users.contains(user)) {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        faults.forbidden(&path.child("reservedFor"), why);
    }
    validate_devices(status, &path, faults);
    if let (Some(allocation), Some(stored)) = (allocation, old.get("allocation"))
        && allocation != stored
    {
        faults.invalid(&path.child("allocation"), allocation.clone(), "field is immutable");
    }
}

fn validate_allocation(allocation: &Value, requests: &Requests, path: &Path, faults: &mut Faults) {
    let devices = &allocation["devices"];
    let of_devices = path.child("devices");
    let results = bounded(devices, "results", LIST_MAX, &of_devices, faults);
    for (index, result) in results.iter().enumerate() {
        let path = of_devices.child("results").index(index);
        requests.validate(text(result, "request"), &path.child("request"), faults);
        validate_driver(text(result, "driver"), &path.child("driver"), faults);
        validate_pool(text(result, "pool"), &path.child("pool"), faults);
        faults.form(&path.child("device"), text(result, "device"), check_dns_label);
        validate_binding(result, &path, faults);
    }
    for (index, configuration) in bounded(devices, "config", 2 * LIST_MAX, &of_devices, faults).iter().enumerate() {
        let path = of_devices.child("config").index(index);
        faults.one_of(&path.child("source"), text(configuration, "source"), &["FromClaim", "FromClass"]);
        requests.validate_list(configuration, &path, faults);
        validate_configuration(configuration, &path, faults);
    }
    if let Some(selector) = member(allocation, "nodeSelector") {
        validate_node_selector(&selector, &path.child("nodeSelector"), faults);
    }
}

fn validate_reserved(status: &Value, path: &Path, faults: &mut Faults) {
    let users = bounded(status, "reservedFor", RESERVED_MAX, path, faults);
    let path = path.child("reservedFor");
    for (index, user) in users.iter().enumerate() {
        for field in ["resource", "name", "uid"] {
            faults.set(&path.index(index).child(field), text(user, field));
        }
    }
    super::devices::each_once(users.iter().map(|user| text(user, "uid")), &path, faults);
}

/// What drivers report about allocated devices.
fn validate_devices(status: &Value, path: &Path, faults: &mut Faults) {
    let results = status.pointer("/allocation/devices/results").and_then(Value::as_array).into_iter().flatten();
    let allocated: BTreeSet<String> = results.map(|result| device_id(result).to_string()).collect();
    let devices = list(status, "devices");
    let path = path.child("devices");
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        validate_driver(text(device, "driver"), &path.child("driver"), faults);
        validate_pool(text(device, "pool"), &path.child("pool"), faults);
        faults.form(&path.child("device"), text(device, "device"), check_dns_label);
        let id = device_id(device);
        if !allocated.contains(&id.to_string()) {
            faults.invalid(&path, id, "must be an allocated device in the claim");
        }
        validate_conditions(device, &path, faults);
        validate_object(device.get("data"), Required::No, &path.child("data"), faults);
        if let Some(data) = device.get("networkData") {
            validate_network(data, &path.child("networkData"), faults);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, id) in devices.iter().map(device_id).enumerate() {
        if !seen.insert(id.to_string()) {
            faults.duplicate(&path.index(index), id);
        }
    }
}

/// Source: upstream `metav1validation.ValidateConditions`.
fn validate_conditions(device: &Value, path: &Path, faults: &mut Faults) {
    let conditions = list(device, "conditions");
    let path = path.child("conditions");
    faults.at_most(&path, conditions.len(), CONDITIONS_MAX);
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let (kind, reason) = (text(condition, "type"), text(condition, "reason"));
        faults.form(&path.child("type"), kind, berth_api::names::check_label_key);
        faults.unique(&path.child("type"), kind, &mut seen);
        faults.known(&path.child("status"), text(condition, "status"), &["False", "True", "Unknown"]);
        faults.set(&path.child("lastTransitionTime"), text(condition, "lastTransitionTime"));
        if faults.set(&path.child("reason"), reason) && !is_reason(reason) {
            faults.invalid(&path.child("reason"), reason, REASON);
        }
        if MESSAGE_BYTES_MAX < text(condition, "message").len() {
            faults.add([FieldError::too_long(&path.child("message"), MESSAGE_BYTES_MAX)]);
        }
    }
}

fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(is_word)
        && bytes.iter().all(|byte| is_word(byte) || matches!(byte, b',' | b':'))
}

fn validate_network(data: &Value, path: &Path, faults: &mut Faults) {
    for (field, max) in [("interfaceName", INTERFACE_BYTES_MAX), ("hardwareAddress", HARDWARE_BYTES_MAX)] {
        if max < text(data, field).len() {
            faults.add([FieldError::too_long(&path.child(field), max)]);
        }
    }
    let addresses = bounded(data, "ips", ADDRESSES_MAX, path, faults);
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        faults.form(&path.child("ips").index(index), address, check_interface_cidr);
    }
    super::devices::each_once(addresses.iter().filter_map(Value::as_str), &path.child("ips"), faults);
}
