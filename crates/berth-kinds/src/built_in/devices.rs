//! What the kinds of `resource.k8s.io` share: their types, and the rules of devices and of requests for them.
//!
//! Source: upstream `pkg/apis/resource/validation`. Nothing here evaluates CEL: of an expression, only presence and length are checked.

mod claims;

pub(super) use claims::{Requests, default_claim, default_tolerations, validate_claim};

use super::values::{list, text};
use crate::SharedTypes;
use berth_api::{
    FieldError, Path,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain, check_label_key, check_label_value, check_qualified_name},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The group of these kinds.
pub(super) const GROUP: &str = "resource.k8s.io";
/// Their types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
pub(super) static DEVICE_TYPES: SharedTypes = SharedTypes::new(&[include_str!("devices.json")]);

/// Most elements of most lists.
pub(super) const LIST_MAX: usize = 32;
/// Most conditions that a binding waits for.
const BINDING_CONDITIONS_MAX: usize = 4;
/// Most tolerations of a request, or taints of a device.
const TAINTS_MAX: usize = 16;
/// Longest name of a driver, in bytes.
const DRIVER_BYTES_MAX: usize = 63;
/// Longest domain of an attribute, in bytes.
const DOMAIN_BYTES_MAX: usize = 63;
/// Longest name of an attribute in its domain, in bytes.
const ID_BYTES_MAX: usize = 32;
/// Longest expression, and longest parameters of a driver, in bytes.
pub(super) const EXPRESSION_BYTES_MAX: usize = 10 << 10;
/// What a taint of a device does.
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' \
     (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// The elements of a list, of which there can be `max`. If there are more, none is judged.
pub(super) fn bounded<'v>(object: &'v Value, name: &str, max: usize, path: &Path, faults: &mut Faults) -> &'v [Value] {
    let elements = list(object, name);
    faults.at_most(&path.child(name), elements.len(), max);
    if max < elements.len() { &[] } else { elements }
}

/// Each text occurs once. The index is that of the second one.
pub(super) fn each_once<'v>(texts: impl Iterator<Item = &'v str>, path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    texts.enumerate().for_each(|(index, text)| faults.unique(&path.index(index), text, &mut seen));
}

pub(super) fn validate_driver(driver: &str, path: &Path, faults: &mut Faults) {
    if !faults.set(path, driver) {
        return;
    }
    if DRIVER_BYTES_MAX < driver.len() {
        faults.add([FieldError::too_long(path, DRIVER_BYTES_MAX)]);
    }
    // In upper case, too, as upstream.
    faults.form(path, driver, |driver| check_dns_subdomain(&driver.to_lowercase()));
}

/// The name of a pool: subdomains, separated by slashes.
pub(super) fn validate_pool(pool: &str, path: &Path, faults: &mut Faults) {
    if faults.set(path, pool) {
        pool.split('/').for_each(|part| faults.form(path, part, check_dns_subdomain));
    }
}

/// Which devices are meant.
pub(super) fn validate_selectors(object: &Value, path: &Path, faults: &mut Faults) {
    for (index, selector) in bounded(object, "selectors", LIST_MAX, path, faults).iter().enumerate() {
        let path = path.child("selectors").index(index).child("cel");
        let Some(cel) = selector.get("cel") else {
            faults.required(&path, "");
            continue;
        };
        let expression = text(cel, "expression");
        if expression.is_empty() {
            faults.required(&path.child("expression"), "");
        } else if EXPRESSION_BYTES_MAX < expression.len() {
            faults.add([FieldError::too_long(&path.child("expression"), EXPRESSION_BYTES_MAX)]);
        }
    }
}

/// What only the driver understands.
pub(super) fn validate_configuration(configuration: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("opaque");
    let Some(opaque) = configuration.get("opaque") else { return faults.required(&path, "") };
    validate_driver(text(opaque, "driver"), &path.child("driver"), faults);
    validate_object(opaque.get("parameters"), Required::Yes, &path.child("parameters"), faults);
}

/// Whether a value must be there.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Required {
    Yes,
    No,
}

/// Any JSON object of bounded size.
pub(super) fn validate_object(value: Option<&Value>, required: Required, path: &Path, faults: &mut Faults) {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        if required == Required::Yes {
            faults.required(path, "");
        }
        return;
    };
    if EXPRESSION_BYTES_MAX < value.to_string().len() {
        return faults.add([FieldError::too_long(path, EXPRESSION_BYTES_MAX)]);
    }
    if !value.is_object() {
        faults.invalid(path, "<value omitted>", "must be a valid JSON object");
    }
}

/// A name of an attribute or a capacity: an identifier, which a domain can precede.
pub(super) fn validate_attribute_name(name: &str, path: &Path, faults: &mut Faults) {
    match name.split_once('/') {
        None => validate_identifier(name, path, faults),
        Some((domain, rest)) => {
            validate_domain(domain, path, faults);
            validate_identifier_set(rest, path, faults);
        }
    }
}

/// The same, where the domain must be there.
pub(super) fn validate_full_name(name: &str, path: &Path, faults: &mut Faults) {
    validate_attribute_name(name, path, faults);
    if !name.contains('/') {
        faults.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn validate_domain(domain: &str, path: &Path, faults: &mut Faults) {
    if domain.is_empty() {
        return faults.invalid(path, domain, "the domain must not be empty");
    }
    if DOMAIN_BYTES_MAX < domain.len() {
        faults.add([FieldError::too_long(path, DOMAIN_BYTES_MAX)]);
    }
    faults.form(path, domain, check_dns_subdomain);
}

fn validate_identifier_set(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        return faults.invalid(path, name, "the name must not be empty");
    }
    validate_identifier(name, path, faults);
}

fn validate_identifier(name: &str, path: &Path, faults: &mut Faults) {
    if ID_BYTES_MAX < name.len() {
        faults.add([FieldError::too_long(path, ID_BYTES_MAX)]);
    }
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_identifier = name.bytes().next().is_some_and(is_letter) && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    if !is_identifier {
        faults.invalid(path, name, IDENTIFIER);
    }
}

/// What a device keeps away.
pub(super) fn validate_taints(device: &Value, path: &Path, faults: &mut Faults) {
    for (index, taint) in bounded(device, "taints", TAINTS_MAX, path, faults).iter().enumerate() {
        let path = path.child("taints").index(index);
        faults.form(&path.child("key"), text(taint, "key"), check_label_key);
        faults.form(&path.child("value"), text(taint, "value"), check_label_value);
        faults.one_of(&path.child("effect"), text(taint, "effect"), EFFECTS);
    }
}

/// Which taints a request ignores.
pub(super) fn validate_tolerations(request: &Value, path: &Path, faults: &mut Faults) {
    for (index, toleration) in bounded(request, "tolerations", TAINTS_MAX, path, faults).iter().enumerate() {
        let path = path.child("tolerations").index(index);
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        if !key.is_empty() {
            faults.form(&path.child("key"), key, check_label_key);
        }
        match text(toleration, "operator") {
            "Exists" if !value.is_empty() => faults.invalid(&path.child("value"), value, "must be empty for operator `Exists`"),
            "Exists" => (),
            "Equal" => faults.form(&path.child("value"), value, check_label_value),
            operator => faults.one_of(&path.child("operator"), operator, &["Equal", "Exists"]),
        }
        let effect = text(toleration, "effect");
        if !effect.is_empty() {
            faults.known(&path.child("effect"), effect, EFFECTS);
        }
    }
}

/// Conditions that decide whether a device is bound: all of their kinds, or none.
pub(super) fn validate_binding(object: &Value, path: &Path, faults: &mut Faults) {
    let fields = ["bindingConditions", "bindingFailureConditions"];
    let names = |field: &str| list(object, field).iter().filter_map(Value::as_str);
    for field in fields {
        faults.at_most(&path.child(field), list(object, field).len(), BINDING_CONDITIONS_MAX);
    }
    for field in fields {
        for (index, name) in names(field).enumerate() {
            faults.form(&path.child(field).index(index), name, check_qualified_name);
        }
        each_once(names(field), &path.child(field), faults);
    }
}

/// A request by its name, or by its name and that of one of its alternatives.
fn validate_request_name(name: &str, path: &Path, faults: &mut Faults) {
    name.split('/').for_each(|part| faults.form(path, part, check_dns_label));
}

/// A value as upstream's messages name a device.
pub(super) fn device_id(object: &Value) -> Value {
    json!({"Driver": text(object, "driver"), "Pool": text(object, "pool"), "Device": text(object, "device"), "ShareID": text(object, "shareID")})
}
