//! Request bodies of any encoding, as JSON.

use super::Exchange;
use crate::{
    body,
    decoded::decoded_bytes,
    negotiate::{self, BodySyntax},
    status::Refusal,
};
use berth_api::decode::DEPTH_MAX;
use berth_protobuf::DecodeError;
use berth_registry::{ApiError, Target};
use berth_store::env::yield_now;
use hyper::{body::Incoming, header::CONTENT_TYPE};
use serde_json::Value;
use serde_saphyr::MergeKeyPolicy;

/// Returns a body of any encoding as JSON, after reserving memory for its processing.
pub(super) async fn read_json(exchange: &Exchange<'_>, body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
    read_json_for(exchange, None, body).await
}

/// Does the same for a write to a stored object, whose processing counts too.
pub(super) async fn read_json_for(exchange: &Exchange<'_>, target: Option<&Target>, body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
    let syntax = negotiate::body_syntax(exchange.header(CONTENT_TYPE))?;
    let json = converted(to_json(syntax, body::read(exchange.headers, body).await?)?).await;
    exchange.begin_work(&json, stored_work(exchange, target).await).await?;
    exchange.audit(|entry| entry.request_body(&json));
    Ok(json)
}

/// The maximum memory for processing stored objects that were not decoded for an estimate, in multiples of their size.
pub(super) const WORK_OF_STORED_MAX: usize = 100;

/// Returns the memory for processing the stored object, or 0 if there is none.
pub(super) async fn stored_work(exchange: &Exchange<'_>, target: Option<&Target>) -> usize {
    let Some(target) = target.filter(|_| !exchange.user().is_master()) else { return 0 };
    exchange.registry().stored(target).await.map_or(0, |value| decoded_bytes(&value))
}

/// The size of a body whose conversion to JSON takes milliseconds.
const LONG_BODY_BYTES: usize = 64 << 10;

/// Yields to other tasks before a long body is processed further.
pub(super) async fn converted(json: Vec<u8>) -> Vec<u8> {
    if LONG_BODY_BYTES < json.len() {
        yield_now().await;
    }
    json
}

pub(crate) fn to_json(syntax: BodySyntax, bytes: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    match syntax {
        BodySyntax::Json => Ok(bytes),
        BodySyntax::Protobuf => berth_protobuf::to_json(&bytes, body::REQUEST_BYTES_MAX).map_err(refused_protobuf),
        BodySyntax::Yaml => yaml_to_json(&bytes, "error converting YAML to JSON"),
    }
}

/// The JSON form of a protobuf body has the limit of JSON bodies.
fn refused_protobuf(error: DecodeError) -> ApiError {
    match error {
        DecodeError::TooLarge { limit } => ApiError::TooLarge { message: format!("Request entity too large: limit is {limit}") },
        error => ApiError::BadRequest { message: format!("the body of the request could not be decoded: {error}") },
    }
}

/// Converts the body of an apply from YAML. JSON is valid YAML, but the JSON decoder is faster and detects duplicate
/// members.
pub(crate) fn apply_to_json(bytes: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    if bytes.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() {
        return Ok(bytes);
    }
    yaml_to_json(&bytes, "error decoding YAML")
}

/// The YAML parser uses up to 16 KiB of stack per level, and threads have 2 MiB.
const YAML_STACK_BYTES: usize = 8 << 20;

/// The maximum number of nodes that YAML aliases may expand to in total.
const YAML_REPLAYED_EVENTS_MAX: usize = 20_000;
/// The maximum number of expanded merge keys. Longer bodies may not have any: nested ones copy their content at each
/// level.
const YAML_MERGE_KEYS_MAX: usize = 100;
const YAML_MERGE_BYTES_MAX: usize = 64 << 10;

/// Converts YAML with the same nesting limit as JSON, and with limits for the expansion of aliases.
fn yaml_to_json(bytes: &[u8], what_fails: &str) -> Result<Vec<u8>, ApiError> {
    let is_short = bytes.len() <= YAML_MERGE_BYTES_MAX;
    let options = serde_saphyr::options! {
        merge_keys: if is_short { MergeKeyPolicy::Merge } else { MergeKeyPolicy::Error },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: YAML_REPLAYED_EVENTS_MAX },
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_merge_keys: YAML_MERGE_KEYS_MAX,
            max_recorded_anchor_events: 10 * YAML_REPLAYED_EVENTS_MAX,
        },
    };
    let value: Value =
        stacker::maybe_grow(YAML_STACK_BYTES / 2, YAML_STACK_BYTES, || serde_saphyr::from_slice_with_options(bytes, options))
            .map_err(|error| ApiError::BadRequest { message: format!("{what_fails}: {error}") })?;
    Ok(value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_becomes_json_and_bad_yaml_is_refused() {
        let json = to_json(BodySyntax::Yaml, b"metadata: {name: a}\nspec:\n  replicas: 3\n".to_vec()).expect("YAML");
        assert_eq!(json, br#"{"metadata":{"name":"a"},"spec":{"replicas":3}}"#);
        assert!(to_json(BodySyntax::Yaml, b"a: [".to_vec()).is_err());
        assert!(to_json(BodySyntax::Yaml, b"\xff".to_vec()).is_err());
    }
}
