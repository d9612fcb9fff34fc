//! The behavior of a kind: how to decode, print and describe its objects.

use super::{Printed, PrinterColumn, Resource};
pub use berth_api::decode::DecodeError;
use berth_api::{Object, decode};
use berth_kinds::{ConversionError, ConversionWebhook, Published};
use bytes::Bytes;
use jiff::Timestamp;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use std::{borrow::Cow, marker::PhantomData};

/// An object decoded from a request or from the store.
pub type BoxObject = Box<dyn Object>;

/// The rules of one kind for which no object exists yet, or for which the object is only presented. Defaults,
/// preparation and validation are methods of [`Object`].
pub trait Rules: Send + Sync + 'static {
    /// Decodes the body of a request.
    ///
    /// # Errors
    /// A value of the wrong type, with the path of the field.
    fn decode(&self, value: Value) -> Result<Decoded, DecodeError>;

    /// Decodes the result of an apply, which can have nulls that [`Rules::decode`] removes.
    ///
    /// # Errors
    /// [`Rules::decode`].
    fn decode_applied(&self, value: Value) -> Result<Decoded, DecodeError> {
        self.decode(value)
    }

    /// Decodes stored bytes, or any JSON whose unknown fields are irrelevant. Faster than [`Rules::decode`].
    ///
    /// # Errors
    /// The bytes are not an object of the kind.
    fn decode_stored(&self, bytes: &[u8]) -> Result<BoxObject, DecodeError>;

    /// Does the same as [`Rules::decode_stored`] for a JSON tree.
    ///
    /// # Errors
    /// The tree is not an object of the kind.
    fn decode_tree(&self, tree: &Value) -> Result<BoxObject, DecodeError> {
        self.decode_stored(tree.to_string().as_bytes())
    }

    /// Converts an object that this process created elsewhere to the result of [`Rules::decode_stored`].
    ///
    /// # Errors
    /// As [`Rules::decode_stored`].
    fn adopt(&self, object: BoxObject) -> Result<BoxObject, DecodeError> {
        Ok(object)
    }

    /// Returns the columns of its Table. Exactly one has the format `name`.
    fn columns(&self) -> Cow<'_, [PrinterColumn<'_>]>;

    /// Returns the cells of one row, one per column. `now` is for ages.
    fn cells(&self, object: &dyn Object, now: Timestamp) -> Vec<Value>;

    /// Returns the conditions of one row, from which clients may hide it.
    fn row_conditions(&self, _object: &dyn Object) -> Vec<Value> {
        Vec::new()
    }

    /// Returns the JSON schema of the kind, for OpenAPI and field ownership. Referenced types stay in the generator.
    fn schema(&self, generator: &mut SchemaGenerator) -> KindSchema;

    /// Returns the warning to each client of a deprecated version of a custom resource.
    fn deprecation_warning(&self) -> Option<&str> {
        None
    }

    /// Returns the other served versions of the kind.
    fn other_versions(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// Converts a document to another version of the kind. `None`: it has no counterpart.
    fn convert(&self, _document: &Value, _from: &str, _to: &str) -> Option<Value> {
        None
    }

    /// Returns the fields of every object of the kind before a manager owns a field. `None`: metadata, and the spec and
    /// status of its schema.
    fn empty(&self) -> Option<Value> {
        None
    }
}

/// The JSON schema of a kind.
#[derive(Debug)]
pub enum KindSchema {
    /// A reference to the schema in the generator, in the form of Rust types.
    Generated(Schema),
    /// The schema as OpenAPI publishes it.
    Published(Published),
}

/// The stored form of a resource's objects, if it can differ from the served form.
pub(crate) trait StoredForm: Send + Sync + 'static {
    /// Returns the storage version: `v1`.
    fn api_version(&self) -> &str;

    /// Returns the webhook that converts between the versions, if it is one.
    fn webhook(&self) -> Option<&ConversionWebhook> {
        None
    }

    /// Encodes an object for the store.
    ///
    /// # Errors
    /// [`FormError`].
    fn encode(&self, object: &dyn Object) -> Result<Bytes, FormError>;

    /// Converts stored bytes to the served form. `None`: they are the same.
    ///
    /// # Errors
    /// [`FormError`].
    fn show(&self, stored: &[u8]) -> Result<Option<Bytes>, FormError>;
}

/// Why an object has no stored form, or stored bytes show no object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormError {
    #[error("it is no document")]
    NoDocument,
    #[error("it is no event")]
    NoEvent,
    #[error("it is no autoscaler")]
    NoAutoscaler,
    #[error(transparent)]
    Conversion(#[from] ConversionError),
}

/// A decoded object and the unknown fields of its JSON.
#[derive(Debug)]
pub struct Decoded {
    /// The object, without defaults.
    pub object: BoxObject,
    /// The paths of unknown fields.
    pub unknown: Vec<String>,
}

/// The rules of a kind with a Rust type.
pub(super) struct Typed<K>(PhantomData<fn() -> K>);

impl<K> Typed<K> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<K: Printed> Rules for Typed<K> {
    fn decode(&self, value: Value) -> Result<Decoded, DecodeError> {
        let (object, unknown) = decode::decode::<K>(value)?;
        Ok(Decoded { object: Box::new(object), unknown })
    }

    fn decode_stored(&self, bytes: &[u8]) -> Result<BoxObject, DecodeError> {
        Ok(Box::new(decode::decode_bytes::<K>(bytes)?))
    }

    fn decode_tree(&self, tree: &Value) -> Result<BoxObject, DecodeError> {
        Ok(Box::new(decode::decode_tree::<K>(tree)?))
    }

    fn columns(&self) -> Cow<'_, [PrinterColumn<'_>]> {
        Cow::Borrowed(K::COLUMNS)
    }

    fn cells(&self, object: &dyn Object, now: Timestamp) -> Vec<Value> {
        object.downcast_ref::<K>().map(|object| object.cells(now)).unwrap_or_default()
    }

    fn row_conditions(&self, object: &dyn Object) -> Vec<Value> {
        object.downcast_ref::<K>().map(Printed::row_conditions).unwrap_or_default()
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> KindSchema {
        KindSchema::Generated(generator.subschema_for::<K>())
    }
}
