//! Protobuf bodies of the Kubernetes API (`application/vnd.kubernetes.protobuf`) to the JSON that the same client would have sent.
//!
//! Start with [`to_json`]. Nothing is generated and no message has a Rust type: one walk over the bytes is guided by a table of all
//! messages (`schema.txt`), and writes JSON text. So protobuf has no rules of its own: what comes out takes the way of every JSON body.
//!
//! The table holds, for each field, its number, its JSON name, its type, and when it is shown. Go writes every field that is no
//! pointer, empty or not; JSON has to leave out those that Go's `omitempty` leaves out, and to keep a pointer's zero (`replicas: 0`).
//!
//! The other direction exists for one document only: [`openapi_v2`], which old kubectl reads in no other form.
//!
//! No IO, no clock. Bytes of any kind give JSON or an error, never a panic.

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
