//! The hash of a pod template, the name of its ReplicaSet, and whether two templates are the same.
//!
//! Upstream hashes Go's memory representation, so its values cannot be reproduced. berth hashes the template's JSON in canonical form. Only
//! one property of the value matters: a template always has the same name. Controllers find ReplicaSets by comparing templates, never by
//! hash.

use berth_api::{annotations::POD_TEMPLATE_HASH, names::SAFE_ALPHABET, normal::Normal, quantity::Quantity};
use berth_identity::TemplateHash;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// Longest name of a ReplicaSet.
const NAME_LENGTH_MAX: usize = 253;

/// FNV-1a over the template's canonical JSON, and over the number of collisions if there was one.
#[must_use]
pub fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> TemplateHash {
    let mut bytes = canonical_template(template).to_string().into_bytes();
    if let Some(collisions) = collisions {
        bytes.extend(collisions.to_le_bytes());
        bytes.extend([0; 4]);
    }
    short_hash(&bytes).into()
}

/// FNV-1a of bytes, encoded with characters that are safe in names. The hash does not resist deliberate collisions.
#[must_use]
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    safe_encode(&hash.to_string())
}

/// Maps each character to one that is safe in names.
#[must_use]
pub fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(SAFE_ALPHABET[usize::from(byte) % SAFE_ALPHABET.len()])).collect()
}

/// `<deployment>-<hash>`. The Deployment's part is truncated so that the whole is a valid name.
#[must_use]
pub fn replica_set_name(deployment: &str, hash: &TemplateHash) -> String {
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

/// Whether both templates create the same pods. Differences in the hash label, in the notation of quantities, and between absent and empty
/// collections do not count.
#[must_use]
pub fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    // Most different templates differ in an image, a label or an annotation. Only the other pairs require the canonical form.
    labels(a).eq(labels(b))
        && annotations(a).eq(annotations(b))
        && finalizers(a).eq(finalizers(b))
        && images(a).eq(images(b))
        && (a.spec == b.spec || canonical_template(a)["spec"] == canonical_template(b)["spec"])
}

fn labels(template: &PodTemplateSpec) -> impl Iterator<Item = (&String, &String)> {
    let labels = template.metadata.iter().flat_map(|metadata| metadata.labels.iter().flatten());
    labels.filter(|(key, _)| *key != POD_TEMPLATE_HASH)
}

fn annotations(template: &PodTemplateSpec) -> impl Iterator<Item = (&String, &String)> {
    template.metadata.iter().flat_map(|metadata| metadata.annotations.iter().flatten())
}

fn finalizers(template: &PodTemplateSpec) -> impl Iterator<Item = &String> {
    template.metadata.iter().flat_map(|metadata| metadata.finalizers.iter().flatten())
}

fn images(template: &PodTemplateSpec) -> impl Iterator<Item = Option<&String>> {
    template.spec.iter().flat_map(|spec| spec.containers.iter().map(|container| container.image.as_ref()))
}

/// Map fields of a template: an empty map equals an absent one. An empty struct (`emptyDir: {}`) does not.
const MAPS: &[&str] = &["annotations", "labels", "limits", "matchLabels", "nodeSelector", "overhead", "requests", "volumeAttributes"];
/// Maps whose values are quantities.
const QUANTITY_MAPS: &[&str] = &["limits", "overhead", "requests"];
/// Fields that are quantities.
const QUANTITIES: &[&str] = &["divisor", "sizeLimit"];

/// The template without the hash label, in canonical form: two are equal if and only if both templates create the same pods.
#[must_use]
pub fn canonical_template(template: &PodTemplateSpec) -> Value {
    let mut template = without_hash(template);
    // An older server may have stored another form.
    template.normalize();
    let mut value = serde_json::to_value(template).expect("API types have string keys only");
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

/// The canonical text of a quantity. Any other text is unchanged.
fn canonical_quantity(text: &str) -> String {
    text.parse::<Quantity>().map_or_else(|_| text.to_owned(), |quantity| format!("{}n", quantity.nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(spec: &Value) -> PodTemplateSpec {
        serde_json::from_value(json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})).expect("a template")
    }

    fn container(more: &Value) -> Value {
        let mut container = json!({"name": "c", "image": "i"});
        container.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"containers": [container]})
    }

    #[test]
    fn templates_are_the_same_if_they_make_the_same_pods() {
        let check = |a: &Value, b: &Value, same: bool| {
            let (a, b) = (template(&container(a)), template(&container(b)));
            assert_eq!(same_template(&a, &b), same, "{a:?} {b:?}");
            assert_eq!(template_hash(&a, None) == template_hash(&b, None), same, "{a:?} {b:?}");
        };
        let memory = |quantity: &str| json!({"resources": {"limits": {"memory": quantity}}});
        check(&memory("1Gi"), &memory("1024Mi"), true);
        check(&memory("1Gi"), &memory("1G"), false);
        let said = |text: &str| json!({"env": [{"name": "SIZE", "value": text}]});
        check(&said("1Gi"), &said("1024Mi"), false);
        check(&json!({"env": []}), &json!({}), true);
        check(&json!({"resources": {"limits": {}}}), &json!({"resources": {}}), true);
        check(&json!({"securityContext": {}}), &json!({}), false);
        check(&json!({"ports": [{"containerPort": 80, "hostIP": "", "hostPort": 0}]}), &json!({"ports": [{"containerPort": 80}]}), true);
        check(&json!({"command": ["a", "b"]}), &json!({"command": ["b", "a"]}), false);
        let plain = template(&container(&json!({})));
        let mut held = plain.clone();
        held.metadata.as_mut().expect("it has labels").finalizers = Some(vec!["example.com/held".to_owned()]);
        assert!(!same_template(&plain, &held));
    }

    #[test]
    fn a_collision_changes_the_hash() {
        let template = template(&container(&json!({})));
        let hashes = [None, Some(0), Some(1)].map(|collisions| template_hash(&template, collisions));
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2], "{hashes:?}");
    }
}
