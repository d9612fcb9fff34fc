//! The hash of a pod template, the name of its ReplicaSet, and whether two templates are the same.
//!
//! Upstream hashes Go's memory representation, so its values cannot be reproduced; berth hashes the template's JSON in canonical form. All that
//! depends on the value is that one template always has one name: ReplicaSets are found by comparing templates, never by their hash.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;
use std::collections::BTreeMap;

/// Tells the pods of one template from those of another.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Longest name of a ReplicaSet.
const NAME_LENGTH_MAX: usize = 253;

/// No vowels and nothing that looks like another: no hash spells a word.
const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1a over the template's canonical JSON, and over the number of collisions if there was one.
#[must_use]
pub fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut bytes = canonical(template).to_string().into_bytes();
    if let Some(collisions) = collisions {
        bytes.extend(collisions.to_le_bytes());
        bytes.extend([0; 4]);
    }
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    safe_encode(&hash.to_string())
}

/// Maps each character of a number to one that is safe in names.
#[must_use]
pub fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(SAFE_ALPHABET[usize::from(byte) % SAFE_ALPHABET.len()])).collect()
}

/// `<deployment>-<hash>`, the Deployment's part cut so that the whole is a valid name.
#[must_use]
pub fn replica_set_name(deployment: &str, hash: &str) -> String {
    let room = NAME_LENGTH_MAX.saturating_sub(1 + hash.len());
    let kept = if room == 0 { deployment } else { deployment.get(..room).unwrap_or(deployment) };
    format!("{kept}-{hash}")
}

/// The template without the hash label.
#[must_use]
pub fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}

/// Whether both templates make the same pods: equal but for the hash label, for whether a collection is absent or empty, and for how a
/// quantity is written.
#[must_use]
pub fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    // Most templates differ in an image, a label or an annotation: only those that do not are worth being brought to their canonical form.
    labels(a).eq(labels(b)) && annotations(a).eq(annotations(b)) && images(a).eq(images(b)) && canonical(a) == canonical(b)
}

fn labels(template: &PodTemplateSpec) -> impl Iterator<Item = (&String, &String)> {
    let labels = template.metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten());
    labels.filter(|(key, _)| *key != POD_TEMPLATE_HASH)
}

fn annotations(template: &PodTemplateSpec) -> impl Iterator<Item = (&String, &String)> {
    template.metadata.iter().flat_map(|metadata| metadata.annotations.iter().flatten())
}

fn images(template: &PodTemplateSpec) -> impl Iterator<Item = Option<&String>> {
    template.spec.iter().flat_map(|spec| spec.containers.iter().map(|container| container.image.as_ref()))
}

/// Fields of a template that hold a map: an empty one is the same as none. An empty struct (`emptyDir: {}`) is not.
const MAPS: &[&str] = &["annotations", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests", "volumeAttributes"];
/// Maps whose values are quantities.
const QUANTITY_MAPS: &[&str] = &["limits", "overhead", "requests"];
/// Fields that are quantities.
const QUANTITIES: &[&str] = &["divisor", "sizeLimit"];

fn canonical(template: &PodTemplateSpec) -> Value {
    let mut value = serde_json::to_value(without_hash(template)).expect("API types have string keys only");
    canonicalize("", &mut value);
    value
}

fn canonicalize(field: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                let is_quantity = QUANTITY_MAPS.contains(&field) || QUANTITIES.contains(&key.as_str());
                match value {
                    Value::String(text) if is_quantity => *text = canonical_quantity(text),
                    _ => canonicalize(key, value),
                }
            }
            fields.retain(|key, value| !is_empty_collection(key, value));
            fields.sort_keys();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| canonicalize(field, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn is_empty_collection(key: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && (MAPS.contains(&key) || key == "metadata"),
        _ => false,
    }
}

/// The quantity as a whole number of billionths; as it is, if it is not one.
fn canonical_quantity(text: &str) -> String {
    billionths(text).map_or_else(|| text.to_owned(), |value| format!("{value}n"))
}

fn billionths(text: &str) -> Option<i128> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let factor = unit_in_billionths(unit)?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let value = digits.checked_mul(factor)?;
    (value % divisor == 0).then(|| value / divisor)
}

fn unit_in_billionths(unit: &str) -> Option<i128> {
    const ONE: i128 = 1_000_000_000;
    let units: BTreeMap<&str, i128> = [("n", 1), ("u", 1_000), ("m", 1_000_000), ("", ONE), ("k", ONE * 1_000)].into();
    let large = |suffixes: [&str; 6], base: i128| {
        let power = suffixes.iter().position(|suffix| *suffix == unit)?;
        ONE.checked_mul(base.checked_pow(u32::try_from(power).ok()? + 1)?)
    };
    units
        .get(unit)
        .copied()
        .or_else(|| large(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], 1024))
        .or_else(|| large(["k", "M", "G", "T", "P", "E"], 1000))
        .or_else(|| {
            let exponent: u32 = unit.strip_prefix(['e', 'E'])?.trim_start_matches('+').parse().ok()?;
            ONE.checked_mul(10_i128.checked_pow(exponent)?)
        })
}
