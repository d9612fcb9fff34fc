//! What a kind can do that its name does not say: reading its objects, printing them, describing them.

use super::{Printed, PrinterColumn, Resource};
pub use berth_api::decode::DecodeError;
use berth_api::{Object, decode};
use berth_kinds::{ConversionError, Published};
use bytes::Bytes;
use jiff::Timestamp;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use std::{borrow::Cow, marker::PhantomData};

/// An object decoded from a request or from the store.
pub type BoxObject = Box<dyn Object>;

/// The rules of one kind, as far as there is no object yet or the object is only shown. From then on an object has its rules with it:
/// defaults, preparation, validation are [`Object`]'s.
pub trait Rules: Send + Sync + 'static {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// A value of the wrong type, with the path of the field.
    fn decode(&self, value: Value) -> Result<Decoded, DecodeError>;

    /// Reads what the store holds, or any JSON whose unknown fields do not matter: quicker than [`Rules::decode`].
    ///
    /// # Errors
    /// Bytes that are no object of the kind.
    fn decode_stored(&self, bytes: &[u8]) -> Result<BoxObject, DecodeError>;

    /// As [`Rules::decode_stored`], of JSON as a tree.
    ///
    /// # Errors
    /// A tree that is no object of the kind.
    fn decode_tree(&self, tree: &Value) -> Result<BoxObject, DecodeError> {
        self.decode_stored(tree.to_string().as_bytes())
    }

    /// An object of the kind that was made elsewhere in this process, as [`Rules::decode_stored`] would give it.
    ///
    /// # Errors
    /// As [`Rules::decode_stored`].
    fn adopt(&self, object: BoxObject) -> Result<BoxObject, DecodeError> {
        Ok(object)
    }

    /// Columns of its Table; exactly one has the format `name`.
    fn columns(&self) -> Cow<'_, [PrinterColumn<'_>]>;

    /// The cells of one row, one per column; `now` is for ages.
    fn cells(&self, object: &dyn Object, now: Timestamp) -> Vec<Value>;

    /// Conditions of one row, by which clients may hide it.
    fn row_conditions(&self, _object: &dyn Object) -> Vec<Value> {
        Vec::new()
    }

    /// The JSON schema of the kind, for OpenAPI and for who owns which field. The types that it refers to are left in the generator.
    fn schema(&self, generator: &mut SchemaGenerator) -> KindSchema;

    /// The other versions of the kind that are served.
    fn other_versions(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// A document in another version of the kind. `None`: it has no counterpart.
    fn convert(&self, _document: &Value, _from: &str, _to: &str) -> Option<Value> {
        None
    }

    /// What every object of the kind has before a manager owns a field. `None`: metadata, and the spec and the status that its schema has.
    fn empty(&self) -> Option<Value> {
        None
    }
}

/// The JSON schema of a kind.
#[derive(Debug)]
pub enum KindSchema {
    /// A reference to the schema in the generator, in the words of Rust's types.
    Generated(Schema),
    /// As OpenAPI publishes it.
    Published(Published),
}

/// How the objects of a resource are stored, if that can be another form than the one that it serves.
pub(crate) trait StoredForm: Send + Sync + 'static {
    /// `v1`: the version in which objects are stored.
    fn api_version(&self) -> &str;

    /// The bytes to store of an object.
    ///
    /// # Errors
    /// [`FormError`].
    fn encode(&self, object: &dyn Object) -> Result<Bytes, FormError>;

    /// What is shown of stored bytes. `None`: they are shown as they are.
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
    #[error(transparent)]
    Conversion(#[from] ConversionError),
}

/// An object and what its JSON held besides.
#[derive(Debug)]
pub struct Decoded {
    /// The object, without defaults.
    pub object: BoxObject,
    /// Paths of fields that the kind does not have.
    pub unknown: Vec<String>,
}

/// The rules of a kind that is a type of Rust.
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
