//! Tables: what `kubectl get` prints, computed by the server.
//!
//! Start with [`Printer`], one per request. It converts the result of a verb to a serializable [`Table`]. The columns
//! and cells of a kind are its [`Printed`](crate::resource::Printed). For requests for metadata only, see
//! [`PartialObjectMetadata`].

mod partial;

pub use crate::age;
pub use partial::{PartialObjectMetadata, PartialObjectMetadataList};

use crate::{
    ApiError, BoxObject, Current, List, WatchEvent,
    resource::{Column, PrinterColumn, Resource, kinds::text},
};
use berth_api::{
    Object,
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta},
};
use berth_store::{Entry, Revision};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The part of the object that a row contains besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Its metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`. `None`: unknown. Empty means `Metadata`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            "None" => Some(Self::None),
            _ => None,
        }
    }
}

/// A version of the API group `meta.k8s.io`. Both have the same fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`, for older clients.
    V1Beta1,
}

impl MetaVersion {
    /// `meta.k8s.io/v1`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// A table of the API group `meta.k8s.io`, ready for serialization.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta,
    /// Only in the first event of a watch.
    column_definitions: Option<Cow<'a, [PrinterColumn<'a>]>>,
    rows: Vec<Row>,
}

/// A row of a [`Table`]: one printed object.
#[derive(Debug, Serialize)]
pub struct Row {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Value>,
    object: RowObject,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RowObject {
    Metadata(Box<PartialObjectMetadata>),
    Object(Value),
    None,
}

/// The position of an event in a watch. Only the first contains the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The first event.
    First,
    /// Any later one.
    Later,
}

/// Builds the tables of one request.
#[derive(Clone, Debug)]
pub struct Printer {
    /// The resource to print.
    pub resource: Arc<Resource>,
    /// The contents of rows.
    pub include: IncludeObject,
    /// The version of the table.
    pub version: MetaVersion,
    /// The time for ages.
    pub now: Timestamp,
}

impl Printer {
    /// Returns a table of one object (get, create, update, patch, delete), except of a `Scale`.
    ///
    /// # Errors
    /// [`ApiError::Internal`] if the stored value is not an object of the kind.
    pub fn object(&self, current: &Current) -> Result<Table<'_>, ApiError> {
        self.single(&*decode_current(&self.resource, current)?)
    }

    /// Returns the table of a page of a list without its rows. The rows may be as large as the objects, so
    /// [`Printer::row`] builds them one by one.
    #[must_use]
    pub fn head(&self, list: &List) -> Table<'_> {
        Table { api_version: self.version.api_version(), ..table(list_meta(list), Some(self.resource.rules.columns())) }
    }

    /// Returns the row of one item of a list.
    ///
    /// # Errors
    /// As [`Printer::object`].
    pub fn row(&self, entry: &Entry) -> Result<Row, ApiError> {
        Ok(self.row_of(&*decode_entry(&self.resource, entry, entry.mod_revision)?))
    }

    /// Returns a table of one row for an event of a watch, or `None` for an error, which is sent unchanged.
    ///
    /// # Errors
    /// As [`Printer::object`].
    pub fn watch_event(&self, event: &WatchEvent, position: Position) -> Result<Option<Table<'_>>, ApiError> {
        let object = match event {
            WatchEvent::Added(entry) => decode_entry(&self.resource, entry, entry.mod_revision)?,
            WatchEvent::Modified(event) => decode_entry(&self.resource, &event.entry, event.entry.mod_revision)?,
            WatchEvent::Deleted { last, revision } => decode_entry(&self.resource, last, *revision)?,
            WatchEvent::Bookmark { revision, initial_events_end } => {
                let mut object = decode(&self.resource, &empty_object(&self.resource))?;
                *object.meta_mut() = bookmark_meta(*revision, *initial_events_end);
                object
            }
            WatchEvent::Error(_) => return Ok(None),
        };
        let mut table = self.single(&*object)?;
        if position == Position::Later {
            table.column_definitions = None;
        }
        Ok(Some(table))
    }

    fn single(&self, object: &dyn Object) -> Result<Table<'_>, ApiError> {
        let metadata = ListMeta { resource_version: object.meta().resource_version.clone(), ..ListMeta::default() };
        Ok(Table {
            api_version: self.version.api_version(),
            rows: vec![self.row_of(object)],
            ..table(metadata, Some(self.resource.rules.columns()))
        })
    }

    fn row_of(&self, object: &dyn Object) -> Row {
        Row {
            cells: self.resource.rules.cells(object, self.now),
            conditions: self.resource.rules.row_conditions(object),
            object: match self.include {
                IncludeObject::Metadata => {
                    let partial = PartialObjectMetadata::new(object.meta().clone()).in_version(self.version);
                    RowObject::Metadata(Box::new(partial))
                }
                IncludeObject::Object => RowObject::Object(object.to_value()),
                IncludeObject::None => RowObject::None,
            },
        }
    }
}

const SCALE_COLUMNS: &[Column] =
    &[text::NAME, text::integer("Desired", "How many pods are wanted."), text::integer("Available", "How many pods there are."), text::AGE];

/// Returns a table of one `Scale` (autoscaling/v1), for the scale subresource.
#[must_use]
pub fn scale(scale: &Value, include: IncludeObject, now: Timestamp) -> Table<'static> {
    let meta: ObjectMeta = serde_json::from_value(scale["metadata"].clone()).unwrap_or_default();
    let count = |pointer: &str| scale.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let cells =
        vec![json!(text::name(&meta)), json!(count("/spec/replicas")), json!(count("/status/replicas")), json!(text::age_of(&meta, now))];
    let metadata = ListMeta { resource_version: meta.resource_version.clone(), ..ListMeta::default() };
    let object = match include {
        IncludeObject::Metadata => RowObject::Metadata(Box::new(PartialObjectMetadata::new(meta))),
        IncludeObject::Object => RowObject::Object(scale.clone()),
        IncludeObject::None => RowObject::None,
    };
    Table { rows: vec![Row { cells, conditions: Vec::new(), object }], ..table(metadata, Some(Cow::Borrowed(SCALE_COLUMNS))) }
}

fn table<'a>(metadata: ListMeta, column_definitions: Option<Cow<'a, [PrinterColumn<'a>]>>) -> Table<'a> {
    Table { kind: "Table", api_version: "meta.k8s.io/v1", metadata, column_definitions, rows: Vec::new() }
}

fn list_meta(list: &List) -> ListMeta {
    ListMeta {
        continue_: (!list.continue_token.is_empty()).then(|| list.continue_token.clone()),
        remaining_item_count: list.remaining.and_then(|count| i64::try_from(count).ok()),
        resource_version: Some(list.revision.to_string()),
        ..ListMeta::default()
    }
}

fn bookmark_meta(revision: Revision, initial_events_end: bool) -> ObjectMeta {
    let end = BTreeMap::from([("k8s.io/initial-events-end".to_owned(), "true".to_owned())]);
    ObjectMeta { annotations: initial_events_end.then_some(end), resource_version: Some(revision.to_string()), ..ObjectMeta::default() }
}

fn empty_object(resource: &Resource) -> Vec<u8> {
    json!({"apiVersion": resource.api_version(), "kind": resource.kind(), "metadata": {}}).to_string().into_bytes()
}

fn decode_current(resource: &Resource, current: &Current) -> Result<BoxObject, ApiError> {
    match current {
        Current::Stored(entry) => decode_entry(resource, entry, entry.mod_revision),
        Current::Made(value) => decode(resource, value.to_string().as_bytes()),
    }
}

fn decode_entry(resource: &Resource, entry: &Entry, revision: Revision) -> Result<BoxObject, ApiError> {
    let mut object = decode(resource, &entry.value)?;
    object.meta_mut().resource_version = Some(revision.to_string());
    Ok(object)
}

fn decode(resource: &Resource, bytes: &[u8]) -> Result<BoxObject, ApiError> {
    resource
        .rules
        .decode_stored(bytes)
        .map_err(|error| ApiError::Internal { message: format!("cannot read a stored {}: {error}", resource.kind()) })
}

#[cfg(test)]
mod tests;
