//! Converts protobuf bodies of the Kubernetes API (`application/vnd.kubernetes.protobuf`) to the JSON that the same
//! client would have sent.
//!
//! Start with [`to_json`]. The crate has no generated code and no Rust types of messages. One pass over the bytes
//! follows a table of all messages (`schema.txt`), and writes JSON text. Protobuf bodies are therefore handled like
//! JSON bodies from then on.
//!
//! For each field, the table contains its number, its JSON name, its type, and when JSON contains it. Go writes every
//! field that is not a pointer, even if it is empty. The JSON must omit fields that `omitempty` omits, and keep a
//! pointer's zero (`replicas: 0`).
//!
//! The reverse direction exists for one document only: [`openapi_v2`], because old kubectl reads it in no other form.
//!
//! This crate uses no IO and no clock. Any bytes give JSON or an error, and never a panic.

mod envelope;
mod error;
mod gnostic;
mod schema;
mod walk;
mod wire;

#[cfg(test)]
mod encode;
#[cfg(test)]
mod tests;

pub use envelope::{MEDIA_TYPE, to_json};
pub use error::{DecodeError, Problem};
pub use gnostic::{OPENAPI_V2_ACCEPTED, OPENAPI_V2_MEDIA_TYPE, openapi_v2};
