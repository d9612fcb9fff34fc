//! The resource table: every kind that is served is one line of it.

use berth_api::{Object, Scope};

/// A part of an object with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    /// `status`.
    Status,
    /// `scale`.
    Scale,
    /// `binding` (pods).
    Binding,
    /// `eviction` (pods).
    Eviction,
    /// `finalize` (namespaces).
    Finalize,
}

/// A column of a Table.
#[derive(Debug)]
pub struct Column {
    /// As kubectl prints it.
    pub name: &'static str,
    /// `string`, `integer`, `date`, …
    pub kind: &'static str,
    /// `name` for the Name column, else empty.
    pub format: &'static str,
    /// 0 always shown, 1 only in wide output.
    pub priority: i32,
    /// One sentence of our own.
    pub description: &'static str,
}

/// One line of the table.
#[derive(Debug)]
pub struct Resource {
    /// Empty for core.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// `Deployment`.
    pub kind: &'static str,
    /// `deployments`.
    pub plural: &'static str,
    /// `deployment`.
    pub singular: &'static str,
    /// `deploy`.
    pub short_names: &'static [&'static str],
    /// `all`.
    pub categories: &'static [&'static str],
    /// Namespaced or not.
    pub scope: Scope,
    /// Its subresources.
    pub subresources: &'static [Subresource],
    /// Whether PUT may create (Lease, Event, Service, …).
    pub create_on_update: bool,
    /// Fields that a field selector may name, besides name and namespace, each with the JSON pointer of its value.
    pub selectable_fields: &'static [(&'static str, &'static str)],
    /// Columns of its Table.
    pub columns: &'static [Column],
    /// The cells of one row, one per column; `now` is for ages.
    pub cells: fn(&dyn Object, jiff::Timestamp) -> Vec<serde_json::Value>,
    /// Decodes JSON into an object of this kind.
    pub decode: fn(serde_json::Value) -> Result<Decoded, DecodeError>,
    /// The JSON schema of the kind, for OpenAPI.
    pub schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

/// An object and what its JSON held besides.
#[derive(Debug)]
pub struct Decoded {
    /// The object, without defaults.
    pub object: Box<dyn Object>,
    /// Paths of fields that the kind does not have.
    pub unknown: Vec<String>,
}

/// JSON that is no object of the kind.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// Where and why.
    pub message: String,
}
