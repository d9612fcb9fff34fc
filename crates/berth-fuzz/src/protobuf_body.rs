//! A protobuf body: JSON within the limit or an error, for whole bodies and for objects of each kind.

use crate::objects::{BODY_BYTES_MAX, resource_of};
use berth_api::decode::parse_json;
use berth_identity::GroupVersionKind;
use berth_registry::resource;

/// Small, so that the limit is reached.
const SMALL_BYTES_MAX: usize = 300;

fn check(body: &[u8], limit: usize) {
    let Ok(json) = berth_protobuf::to_json(body, limit) else { return };
    serde_json::from_slice::<&serde_json::value::RawValue>(&json).expect("what is written is JSON");
    // The limit is checked after each field, and no field is more than thrice as long as its bytes, quoted and escaped six times.
    assert!(json.len() <= limit + 6 * body.len() + 1000, "{} bytes became {}", body.len(), json.len());
    let Ok(parsed) = parse_json(&json) else { return };
    let text = |name: &str| parsed.value[name].as_str().unwrap_or_default().to_owned();
    if let Some(resource) = resource::built_in().by_kind(&GroupVersionKind::as_written(&text("apiVersion"), &text("kind"))) {
        let _ = resource.rules.decode(parsed.value);
    }
}

/// A field of bytes.
fn put(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

// Bytes that begin as a body are one; else the first byte chooses the resource and the others are the object.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    if data.starts_with(b"k8s\0") {
        return check(data, BODY_BYTES_MAX);
    }
    let Some((&choice, object)) = data.split_first() else { return };
    let resource = resource_of(choice);
    let mut kind = Vec::new();
    put(&mut kind, 1, resource.api_version().as_bytes());
    put(&mut kind, 2, resource.kind().as_bytes());
    let mut body = b"k8s\0".to_vec();
    put(&mut body, 1, &kind);
    put(&mut body, 2, object);
    check(&body, BODY_BYTES_MAX);
    check(&body, SMALL_BYTES_MAX);
}
