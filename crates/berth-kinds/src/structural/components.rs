//! Schemas of upstream's own kinds: the types of an OpenAPI document, which refer to each other.

use super::{Additional, DEPTH_MAX, Structural, Type};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

const REFERENCE_PREFIX: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The format of amounts, which are read and written in their shortest form.
pub(crate) const QUANTITY: &str = "quantity";
/// Marks a field that upstream's Go types leave out where it is empty (`omitempty`).
pub(super) const OMIT_EMPTY: &str = "x-berth-omit-empty";
/// Marks a field that upstream's Go types always write (a struct held by value).
pub(super) const ALWAYS: &str = "x-berth-always";
/// Marks a field that OpenAPI requires, and that upstream's Go types can lack (a pointer).
pub(super) const POINTER: &str = "x-berth-pointer";

/// The types that a kind is made of, as OpenAPI publishes them, and the marks that only berth reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    name: String,
    schemas: Map<String, Value>,
    shared: Option<&'static SharedTypes>,
}

/// Types that several kinds are made of. They are read once, when the first of these kinds is: each program that knows the kinds does so at its start.
#[derive(Debug)]
pub struct SharedTypes {
    components: LazyLock<Components>,
    read: Mutex<BTreeMap<&'static str, Structural>>,
}

impl SharedTypes {
    /// Types that refer to no others. `components` has no name and shares nothing.
    #[must_use]
    pub const fn new(components: fn() -> Components) -> Self {
        Self { components: LazyLock::new(components), read: Mutex::new(BTreeMap::new()) }
    }

    fn structural(&'static self, schema: &'static Value, depth: usize) -> Result<Structural, ComponentsError> {
        self.components.schema(schema, depth, &mut self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// There is one of each.
impl PartialEq for SharedTypes {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// Why types are no schema of a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComponentsError {
    /// The text is not JSON.
    #[error("{0}")]
    NotJson(String),
    /// A type that is referred to is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A type contains itself, or it is too deep.
    #[error("{0} is nested more than {DEPTH_MAX} levels deep")]
    TooDeep(String),
    /// A part of a type cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

impl Components {
    /// The types in these texts, each a JSON object of types by their names. The kind is the type `name`.
    ///
    /// # Errors
    /// A text that is not JSON.
    pub fn read(name: &str, texts: &[&str]) -> Result<Self, ComponentsError> {
        let mut schemas = Map::new();
        for text in texts {
            schemas.extend(serde_json::from_str::<Map<String, Value>>(text).map_err(|error| ComponentsError::NotJson(error.to_string()))?);
        }
        Ok(Self { name: name.to_owned(), schemas, shared: None })
    }

    /// The same, where types that are not in it are in `shared`.
    #[must_use]
    pub fn sharing(self, shared: &'static SharedTypes) -> Self {
        Self { shared: Some(shared), ..self }
    }

    /// The name of the kind's type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The types as they are published.
    #[must_use]
    pub fn published(&self) -> Map<String, Value> {
        let shared = self.shared.into_iter().flat_map(|shared| shared.components.schemas.clone());
        let mut schemas: Map<String, Value> = shared.chain(self.schemas.clone()).collect();
        schemas.values_mut().for_each(remove_marks);
        schemas
    }

    /// The schema of the kind. Only what decides how its objects are read and written is in it: upstream's Go types judge no value.
    ///
    /// # Errors
    /// A type that is missing, or that contains itself.
    pub fn structural(&self) -> Result<Structural, ComponentsError> {
        let schema = self.schemas.get(&self.name).ok_or_else(|| ComponentsError::Missing(self.name.clone()))?;
        self.schema(schema, 0, &mut BTreeMap::new())
    }

    fn shared(&self, name: &str) -> Option<(&'static SharedTypes, &'static Value)> {
        self.shared.and_then(|shared| Some((shared, shared.components.schemas.get(name)?)))
    }

    /// `read` has the types that are read already: they share their members.
    fn schema<'a>(
        &'a self,
        schema: &'a Value,
        depth: usize,
        read: &mut BTreeMap<&'a str, Structural>,
    ) -> Result<Structural, ComponentsError> {
        if DEPTH_MAX < depth {
            return Err(ComponentsError::TooDeep(self.name.clone()));
        }
        let unreadable = || ComponentsError::Unreadable(schema.to_string());
        let members = schema.as_object().ok_or_else(unreadable)?;
        let mut found = match referred(members) {
            // Metadata of the kind's own objects are typed. Those of a template are described.
            Some(OBJECT_META) if !self.schemas.contains_key(OBJECT_META) && self.shared(OBJECT_META).is_none() => Structural::default(),
            Some(name) if name.ends_with(".IntOrString") => Structural { int_or_string: true, ..Structural::default() },
            Some(name) if name.ends_with(".Quantity") => {
                Structural { kind: Some(Type::String), format: QUANTITY.to_owned(), ..Structural::default() }
            }
            Some(name) if name.ends_with(".RawExtension") => Structural { kind: Some(Type::Object), ..Structural::default() },
            Some(name) if name.ends_with(".Time") => {
                Structural { kind: Some(Type::String), format: "date-time".to_owned(), ..Structural::default() }
            }
            Some(name) if read.contains_key(name) => read[name].clone(),
            Some(name) if !self.schemas.contains_key(name) => {
                let (shared, schema) = self.shared(name).ok_or_else(|| ComponentsError::Missing(name.to_owned()))?;
                shared.structural(schema, depth + 1)?
            }
            Some(name) => {
                let schema = &self.schemas[name];
                let found = self.schema(schema, depth + 1, read)?;
                read.insert(name, found.clone());
                found
            }
            None => self.plain(members, depth, read)?,
        };
        found.set_wire(members);
        Ok(found)
    }

    fn plain<'a>(
        &'a self,
        members: &'a Map<String, Value>,
        depth: usize,
        read: &mut BTreeMap<&'a str, Structural>,
    ) -> Result<Structural, ComponentsError> {
        let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut found = Structural { kind: Type::parse(text("type")), format: text("format").to_owned(), ..Structural::default() };
        let mut part = |name: &str| members.get(name).map(|schema| self.schema(schema, depth + 1, read).map(Arc::new)).transpose();
        found.items = part("items")?;
        found.additional = part("additionalProperties")?.map_or(Additional::Unset, Additional::Of);
        let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
        let properties = properties.map(|(name, schema)| Ok((name.clone(), Arc::new(self.schema(schema, depth + 1, read)?))));
        found.properties = properties.collect::<Result<BTreeMap<_, _>, ComponentsError>>()?;
        let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
        let is_pointer = |name: &&str| members.get("properties").is_some_and(|properties| properties[name].get(POINTER).is_some());
        found.required = required.filter_map(Value::as_str).filter(|name| !is_pointer(name)).map(str::to_owned).collect();
        Ok(found)
    }
}

fn referred(members: &Map<String, Value>) -> Option<&str> {
    let reference = members.get("$ref").or_else(|| members.get("allOf")?.get(0)?.get("$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE_PREFIX)
}

fn remove_marks(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, _| ![OMIT_EMPTY, ALWAYS, POINTER].contains(&name.as_str()));
            members.values_mut().for_each(remove_marks);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_marks),
        _ => (),
    }
}
