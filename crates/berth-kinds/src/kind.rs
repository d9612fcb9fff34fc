//! A definition that has been checked, and its versions: what objects have with them.

use crate::{
    Conversion, ConversionError, Definition, Form, Source, Version,
    reading::{self, Wanted},
    structural::describe,
};
use berth_api::FieldError;
use berth_identity::{GroupResource, GroupVersionKind};
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};

/// A kind whose definition does not contradict itself.
pub struct Kind {
    definition: Definition,
    api_versions: Vec<String>,
    gvks: Vec<GroupVersionKind>,
    resource: GroupResource,
    storage: usize,
}

/// A kind in one of its versions. Cheap to clone.
#[derive(Clone)]
pub struct KindVersion {
    kind: Arc<Kind>,
    at: usize,
}

/// What OpenAPI publishes of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The name of its type.
    pub name: String,
    /// The type, and the types that it is made of.
    pub schemas: Map<String, Value>,
}

impl Kind {
    /// The kind of a definition.
    ///
    /// # Errors
    /// [`Definition::check`].
    pub fn new(mut definition: Definition) -> Result<Arc<Self>, Vec<FieldError>> {
        let faults = definition.check();
        if !faults.is_empty() {
            return Err(faults);
        }
        for version in &mut definition.versions {
            // Type and metadata are typed, and always there.
            version.schema.required.retain(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        let group = definition.group.as_str();
        let api_version = |version: &Version| if group.is_empty() { version.name.clone() } else { format!("{group}/{}", version.name) };
        Ok(Arc::new(Self {
            api_versions: definition.versions.iter().map(api_version).collect(),
            gvks: definition.versions.iter().map(|version| GroupVersionKind::new(group, &version.name, &definition.names.kind)).collect(),
            resource: GroupResource::new(group, &definition.names.plural),
            storage: definition.versions.iter().position(|version| version.storage).unwrap_or(0),
            definition,
        }))
    }

    /// What its author wrote.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Its qualified name.
    #[must_use]
    pub fn resource(&self) -> &GroupResource {
        &self.resource
    }

    /// The versions that clients can use, in order of preference.
    pub fn served(self: &Arc<Self>) -> impl Iterator<Item = KindVersion> {
        let is_served = |at: &usize| self.definition.versions[*at].served;
        (0..self.definition.versions.len()).filter(is_served).map(|at| KindVersion { kind: Arc::clone(self), at })
    }

    /// `example.com/v1`: the version in which objects are stored.
    #[must_use]
    pub fn stored_api_version(&self) -> &str {
        &self.api_versions[self.storage]
    }
}

impl KindVersion {
    /// The kind in all its versions.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.kind.definition
    }

    /// What is special to this version.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.kind.definition.versions[self.at]
    }

    /// `example.com/v1`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.kind.api_versions[self.at]
    }

    /// `example.com/v1`: the version in which objects are stored.
    #[must_use]
    pub fn stored_api_version(&self) -> &str {
        self.kind.stored_api_version()
    }

    /// Its qualified name.
    #[must_use]
    pub fn resource(&self) -> &GroupResource {
        &self.kind.resource
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> &GroupVersionKind {
        &self.kind.gvks[self.at]
    }

    /// Whether it is the version in which objects are stored.
    #[must_use]
    pub fn is_storage(&self) -> bool {
        self.at == self.kind.storage
    }

    /// What objects of it must be.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        let native = matches!(self.definition().form, Form::Native { .. }).then_some(&self.version().schema);
        Wanted { api_version: self.api_version(), kind: &self.definition().names.kind, native }
    }

    /// Whether objects of it can have embedded ones.
    pub(crate) fn has_embedded(&self) -> bool {
        self.version().schema.has_embedded()
    }

    /// Whether both are the same version of the same definition.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.at == other.at && Arc::ptr_eq(&self.kind, &other.kind)
    }

    /// The JSON of an object of this version in the version in which it is stored.
    ///
    /// # Errors
    /// The conversion's.
    pub(crate) fn converted_to_stored(&self, mut value: Value) -> Result<Vec<u8>, ConversionError> {
        let to = &self.kind.definition.versions[self.kind.storage].name;
        self.definition().conversion.convert(&mut value, &self.definition().group, &self.version().name, to)?;
        if matches!(self.definition().form, Form::Custom) {
            self.kind.definition.versions[self.kind.storage].schema.prune(&mut value);
        }
        Ok(reading::encode(&value))
    }

    /// Returns an object that is stored in any version, as this version shows it: with the defaults of the version in which it is stored, converted, without
    /// fields that a schema does not have. `None`: it is shown as it is stored.
    ///
    /// # Errors
    /// Bytes that are no object of a version of the kind, and the conversion's.
    pub fn from_stored(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, ConversionError> {
        let is_own = reading::begins_with_type(bytes, self.api_version());
        if is_own && !matches!(self.definition().form, Form::Custom) {
            return Ok(None);
        }
        let unreadable = |why: String| ConversionError { from: "a stored object".to_owned(), to: self.api_version().to_owned(), why };
        let mut value: Value = berth_api::decode::from_json(bytes).map_err(|error| unreadable(error.to_string()))?;
        let api_version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let stored = self.kind.api_versions.iter().position(|known| known == api_version);
        let stored = stored.ok_or_else(|| unreadable(format!("{api_version} is no version of it")))?;
        let is_other = stored != self.at;
        let (mut is_changed, is_custom, from) =
            (is_other, matches!(self.definition().form, Form::Custom), &self.kind.definition.versions[stored]);
        if is_custom {
            is_changed |= !from.schema.prune(&mut value).is_empty();
            if from.schema.has_defaults() {
                let before = (!is_changed).then(|| value.clone());
                from.schema.set_defaults(&mut value);
                is_changed = before.is_none_or(|before| before != value);
            }
        }
        if is_other {
            self.definition().conversion.convert(&mut value, &self.definition().group, &from.name, &self.version().name)?;
            if is_custom {
                self.version().schema.prune(&mut value);
            }
        }
        Ok(is_changed.then(|| reading::encode(&value)))
    }

    /// The other versions that clients can use.
    pub fn others(&self) -> impl Iterator<Item = Self> {
        self.kind.served().filter(|other| other.at != self.at)
    }

    /// A document in another version of the kind. Parts of it can be missing. `None`: it has no counterpart there.
    #[must_use]
    pub fn convert(&self, document: &Value, from: &str, to: &str) -> Option<Value> {
        let known = |api_version: &str| self.kind.api_versions.iter().position(|known| known == api_version);
        let version = |api_version: &str| Some(self.kind.definition.versions[known(api_version)?].name.as_str());
        let mut converted = document.clone();
        if matches!(self.definition().conversion, Conversion::Webhook(_)) {
            // A webhook is not called for parts of objects: their fields count as equal in all versions.
            known(to)?;
            converted["apiVersion"] = to.into();
            return Some(converted);
        }
        self.definition().conversion.convert(&mut converted, &self.definition().group, version(from)?, version(to)?).ok()?;
        Some(converted)
    }

    /// The type of its objects, as OpenAPI publishes it. `metadata` refers to the type of metadata.
    #[must_use]
    pub fn published(&self, metadata: &Value) -> Published {
        match &self.definition().form {
            Form::Native { types, .. } => {
                Published { name: types.name().to_owned(), schemas: types.published().expect("the schema was made of these texts") }
            }
            Form::Custom => {
                let Definition { group, names, .. } = self.definition();
                let group: Vec<&str> = group.rsplit('.').collect();
                let name = format!("{}.{}.{}", group.join("."), self.version().name, names.kind);
                let version = self.version();
                let mut schema = version.source.as_ref().map_or_else(|| version.schema.to_value(), Source::schema);
                describe(&mut schema, metadata);
                schema["properties"]["metadata"] = metadata.clone();
                Published { schemas: Map::from_iter([(name.clone(), schema)]), name }
            }
        }
    }
}

impl fmt::Debug for KindVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.definition().names.plural)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.definition.fmt(f)
    }
}
