//! A JSON body of any kind: read as serde_json reads it, decoded or refused, and the same after a round through the store's form.

use berth_api::decode::parse_json;
use serde_json::Value;

/// As many unknown or duplicate fields are reported at most.
const REPORTED_MAX: usize = 100;

// The first byte chooses the resource, the others are the body.

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else { return };
    let parsed = parse_json(body);
    let plain = serde_json::from_slice::<Value>(body);
    assert_eq!(parsed.as_ref().ok().map(|parsed| &parsed.value), plain.as_ref().ok());
    let _ = berth_apiserver::fuzzing::delete_options(body);
    let Ok(parsed) = parsed else { return };
    assert!(parsed.duplicates.len() <= REPORTED_MAX);

    let rules = &crate::objects::resource_of(choice).rules;
    let _ = rules.decode_stored(body);
    let is_exact = !crate::objects::has_floats(&parsed.value);
    let Ok(decoded) = rules.decode(parsed.value) else { return };
    assert!(decoded.unknown.len() <= REPORTED_MAX);
    let stored = decoded.object.encode();
    let again = rules.decode_stored(&stored).expect("what berth encodes it decodes");
    assert!(!is_exact || again.same_as(&*decoded.object), "{}", String::from_utf8_lossy(&stored));
}
