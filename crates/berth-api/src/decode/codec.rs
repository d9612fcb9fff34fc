//! What can be read and written.

use super::DecodeError;
use serde_json::Value;

/// What is read and written without that being compiled where it happens. Every [`crate::Kind`] is such a type.
pub trait Codec: Sized {
    /// As [`super::from_json`].
    ///
    /// # Errors
    /// Bytes that are no JSON of it.
    fn decode_json(json: &[u8]) -> Result<Self, serde_json::Error>;

    /// As `serde_json::from_value`.
    ///
    /// # Errors
    /// A tree that is none of it.
    fn decode_tree(tree: &Value) -> Result<Self, serde_json::Error>;

    /// What a client sent, with the paths of the fields that the type does not have: as [`super::decode`], of the JSON alone.
    ///
    /// # Errors
    /// A value of the wrong type or out of range, with the path of the field.
    fn decode_sent(tree: Value) -> Result<(Self, Vec<String>), DecodeError>;

    /// Its JSON, after what is there.
    fn encode_json(&self, to: &mut Vec<u8>);

    /// Its JSON as a tree.
    fn encode_tree(&self) -> Value;
}
