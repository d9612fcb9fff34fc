//! Decoding and encoding of types.

use super::DecodeError;
use serde_json::Value;

/// A type whose decoding and encoding are compiled once. Every [`crate::Kind`] implements it.
pub trait Codec: Sized {
    /// Decodes as [`super::from_json`].
    ///
    /// # Errors
    /// The bytes are not JSON of this type.
    fn decode_json(json: &[u8]) -> Result<Self, serde_json::Error>;

    /// Decodes as `serde_json::from_value`.
    ///
    /// # Errors
    /// The tree is not of this type.
    fn decode_tree(tree: &Value) -> Result<Self, serde_json::Error>;

    /// Decodes a client's value. Also returns the paths of unknown fields, as [`super::decode`].
    ///
    /// # Errors
    /// A value of the wrong type or out of range, with the path of the field.
    fn decode_sent(tree: Value) -> Result<(Self, Vec<String>), DecodeError>;

    /// Appends its JSON.
    fn encode_json(&self, to: &mut Vec<u8>);

    /// Returns its JSON as a tree.
    fn encode_tree(&self) -> Value;
}
