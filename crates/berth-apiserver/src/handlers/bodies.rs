//! Bodies of requests, in whatever syntax, as JSON.

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

/// The JSON of a body, whatever its syntax. There is room for the work on it.
pub(super) async fn read_json(exchange: &Exchange<'_>, body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
    read_json_for(exchange, None, body).await
}

/// The same of a write to what is stored there, the work on which counts as well.
pub(super) async fn read_json_for(exchange: &Exchange<'_>, target: Option<&Target>, body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
    let syntax = negotiate::body_syntax(exchange.header(CONTENT_TYPE))?;
    let json = converted(to_json(syntax, body::read(exchange.headers, body).await?)?).await;
    exchange.begin_work(&json, stored_work(exchange, target).await).await?;
    exchange.audit(|entry| entry.request_body(&json));
    Ok(json)
}

/// What the work on stored objects takes at most, in times of their bytes: of those that were not read to be estimated.
pub(super) const WORK_OF_STORED_MAX: usize = 100;

/// How many bytes the work on what is stored there takes; 0: nothing is.
pub(super) async fn stored_work(exchange: &Exchange<'_>, target: Option<&Target>) -> usize {
    let Some(target) = target.filter(|_| !exchange.user().is_master()) else { return 0 };
    exchange.registry().stored(target).await.map_or(0, |value| decoded_bytes(&value))
}

/// A body of so many bytes takes milliseconds to be made JSON.
const LONG_BODY_BYTES: usize = 64 << 10;

/// Lets others have their turn before more is made of a long body.
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

/// As JSON, an object is held to the limit of JSON bodies.
fn refused_protobuf(error: DecodeError) -> ApiError {
    match error {
        DecodeError::TooLarge { limit } => ApiError::TooLarge { message: format!("Request entity too large: limit is {limit}") },
        error => ApiError::BadRequest { message: format!("the body of the request could not be decoded: {error}") },
    }
}

/// The body of an apply is YAML. JSON is that too, but is read as JSON, which is quicker and sees members that stand twice.
pub(crate) fn apply_to_json(bytes: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    if bytes.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() {
        return Ok(bytes);
    }
    yaml_to_json(&bytes, "error decoding YAML")
}

/// Its reader takes up to 16 KiB of stack for each level of YAML, and threads have 2 MiB.
const YAML_STACK_BYTES: usize = 8 << 20;

/// What stands for something else in YAML may unfold to so many nodes in all.
const YAML_REPLAYED_EVENTS_MAX: usize = 20_000;
/// So many merge keys are unfolded, and none in longer bodies: those that stand in each other copy what is in them at each level.
const YAML_MERGE_KEYS_MAX: usize = 100;
const YAML_MERGE_BYTES_MAX: usize = 64 << 10;

/// YAML nests as deep as JSON, and its aliases unfold within bounds.
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
