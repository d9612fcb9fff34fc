//! A YAML body: JSON that does not outgrow the limit of bodies by much, or an error.

use berth_api::decode::parse_json;
use berth_apiserver::{audit::Policy, fuzzing};

/// What aliases may make of a small body, in bytes.
const JSON_BYTES_MAX: usize = crate::objects::BODY_BYTES_MAX;

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    for json in [fuzzing::yaml_to_json(data), fuzzing::apply_to_json(data)].into_iter().flatten() {
        assert!(json.len() <= JSON_BYTES_MAX, "{} bytes became {}", data.len(), json.len());
        let _ = parse_json(&json);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Policy::parse(text);
    }
}
