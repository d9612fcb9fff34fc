//! One device of a slice: what it is, what it has, what it uses.

use super::super::{
    devices::{LIST_MAX, bounded, validate_attribute_name, validate_binding, validate_taints},
    values::{list, text},
};
use berth_api::{FieldError, Path, faults::Faults, names::check_dns_label, quantity::Quantity};
use serde_json::{Map, Value, json};

/// Most attributes and capacities together.
const ATTRIBUTES_MAX: usize = 32;
/// Longest value of an attribute, in bytes.
const VALUE_BYTES_MAX: usize = 64;
/// Most sets of counters that a device uses.
const CONSUMED_SETS_MAX: usize = 2;
/// Most counters of a set.
const COUNTERS_MAX: usize = 32;

/// Source: upstream `validateDevice`.
pub(super) fn validate(device: &Value, path: &Path, faults: &mut Faults) {
    let none = Map::new();
    let members = |field: &str| device.get(field).and_then(Value::as_object).unwrap_or(&none);
    let (attributes, capacities) = (members("attributes"), members("capacity"));
    let count = attributes.len() + capacities.len();
    if ATTRIBUTES_MAX < count {
        let why = format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        faults.invalid(path, count, why);
    } else {
        let of_attributes = path.child("attributes");
        for (name, attribute) in attributes {
            validate_attribute_name(name, &of_attributes, faults);
            validate_attribute(attribute, &of_attributes.key(name), faults);
        }
        let of_capacity = path.child("capacity");
        let is_shared = device.get("allowMultipleAllocations") == Some(&json!(true));
        for (name, capacity) in capacities {
            validate_attribute_name(name, &of_capacity, faults);
            if let Some(policy) = capacity.get("requestPolicy") {
                validate_policy(policy, is_shared, &of_capacity.key(name).child("requestPolicy"), faults);
            }
        }
    }
    validate_taints(device, path, faults);
    for (index, set) in bounded(device, "consumesCounters", CONSUMED_SETS_MAX, path, faults).iter().enumerate() {
        let path = path.child("consumesCounters").index(index);
        faults.set_form(&path.child("counterSet"), text(set, "counterSet"), check_dns_label);
        validate_counters(set, &path, faults);
    }
    validate_binding(device, path, faults);
    for (given, missing) in [("bindingConditions", "bindingFailureConditions"), ("bindingFailureConditions", "bindingConditions")] {
        if !list(device, given).is_empty() && list(device, missing).is_empty() {
            faults.invalid(&path.child(missing), Value::Null, format!("{missing} are required to use {given}"));
        }
    }
}

/// Counters by name.
pub(super) fn validate_counters(set: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("counters");
    let Some(counters) = set.get("counters").and_then(Value::as_object).filter(|counters| !counters.is_empty()) else {
        return faults.required(&path, "");
    };
    if COUNTERS_MAX < counters.len() {
        return faults.at_most(&path, counters.len(), LIST_MAX);
    }
    for name in counters.keys() {
        faults.form(&path, name, check_dns_label);
    }
}

fn validate_attribute(attribute: &Value, path: &Path, faults: &mut Faults) {
    let values: Vec<&str> = ["int", "bool", "string", "version"].into_iter().filter(|field| attribute.get(field).is_some()).collect();
    let [field] = values[..] else {
        let value = if values.is_empty() { json!("") } else { attribute.clone() };
        return faults.invalid(path, value, "exactly one value must be specified");
    };
    let Some(value) = attribute[field].as_str() else { return };
    let path = path.child(field);
    if VALUE_BYTES_MAX < value.len() {
        return faults.add([FieldError::too_long(&path, VALUE_BYTES_MAX)]);
    }
    if field == "version" && !is_version(value) {
        faults.invalid(&path, value, "must be a string compatible with semver.org spec 2.0.0");
    }
}

/// A version as semver.org specifies it: three numbers, then identifiers after `-` and after `+`.
fn is_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (numbers, before) = rest.split_once('-').map_or((rest, None), |(numbers, before)| (numbers, Some(before)));
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_numeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && before.is_none_or(|before| before.split('.').all(|word| is_word(word) && (!is_numeric(word) || is_number(word))))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// How much of a capacity a request takes.
///
/// Source: upstream `validateRequestPolicy`.
fn validate_policy(policy: &Value, is_shared: bool, path: &Path, faults: &mut Faults) {
    if !is_shared {
        return faults.forbidden(path, "allowMultipleAllocations must be true");
    }
    let range = policy.get("validRange");
    if !list(policy, "validValues").is_empty() && range.is_some() {
        let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        return faults.forbidden(path, why);
    }
    if let Some(range) = range {
        validate_range(range, amount(policy, "default"), &path.child("validRange"), faults);
    }
}

/// An amount as it is written, and its number.
type Amount<'v> = (&'v str, Quantity);

fn amount<'v>(object: &'v Value, field: &str) -> Option<Amount<'v>> {
    let text = object.get(field)?.as_str()?;
    Some((text, text.parse().ok()?))
}

fn validate_range(range: &Value, default: Option<Amount<'_>>, path: &Path, faults: &mut Faults) {
    let Some((shown_min, min)) = amount(range, "min") else { return };
    if let Some((shown, default)) = default
        && default < min
    {
        faults.invalid(&path.child("min"), shown, format!("default is less than min: {shown_min}"));
    }
    let max = amount(range, "max");
    if let Some((shown_max, max)) = max
        && max < min
    {
        faults.invalid(&path.child("max"), shown_min, format!("min is larger than max: {shown_max}"));
    }
    let Some((shown_step, step)) = amount(range, "step").filter(|(_, step)| !step.is_zero()) else { return };
    for (shown, value) in [default, max].into_iter().flatten() {
        if (value.nanos() - min.nanos()) % step.nanos() != 0 {
            let why = format!("value is not a multiple of a given step ({shown_step}) from ({shown_min})");
            faults.invalid(&path.child("step"), shown, why);
        }
    }
}
