//! Schemas of upstream's own kinds: the types of an OpenAPI document, which refer to each other.

use super::{Additional, DEPTH_MAX, Structural, Type};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

const REFERENCE_PREFIX: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The format of amounts, which are read and written in their shortest form.
pub(crate) const QUANTITY: &str = "quantity";
/// Marks a field that upstream's Go types leave out where it is empty (`omitempty`).
pub(super) const OMIT_EMPTY: &str = "x-berth-omit-empty";
/// Marks a field that upstream's Go types always write (a struct held by value).
pub(super) const ALWAYS: &str = "x-berth-always";
/// Marks a field that upstream's Go types write as null where it is empty (a list or a pointer without `omitempty`).
pub(super) const NULL: &str = "x-berth-null";
/// Marks a field that OpenAPI requires, and that upstream's Go types can lack (a pointer).
pub(super) const POINTER: &str = "x-berth-pointer";
/// Marks a type that contains itself.
pub(super) const RECURSIVE: &str = "x-berth-recursive";
/// How many levels of such a type are read as the type. What is deeper is kept as it is.
const RECURSION_LEVELS: usize = 20;

/// The types that a kind is made of, as OpenAPI publishes them, and the marks that only berth reads.
///
/// It holds texts. They are parsed when the schema of the kind is made and when they are published: a server keeps no tree of what few clients read.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    name: String,
    texts: Vec<&'static str>,
    shared: Option<&'static SharedTypes>,
}

/// Types that several kinds are made of. They are read once, when the first of these kinds is: each program that knows the kinds does so at its start.
#[derive(Debug)]
pub struct SharedTypes {
    texts: &'static [&'static str],
    read: OnceLock<Result<BTreeMap<String, Structural>, ComponentsError>>,
}

impl SharedTypes {
    /// The types in these texts, which refer to no others: each text is a JSON object of types by their names.
    #[must_use]
    pub const fn new(texts: &'static [&'static str]) -> Self {
        Self { texts, read: OnceLock::new() }
    }

    fn structural(&self, name: &str) -> Result<Option<&Structural>, ComponentsError> {
        let read = self.read.get_or_init(|| {
            let schemas = parse(self.texts)?;
            let mut reading = Reading { schemas: &schemas, shared: None, types: BTreeMap::new(), leaves: Vec::new(), at: BTreeMap::new() };
            schemas.keys().map(|name| Ok((name.clone(), reading.type_of(name, 0)?))).collect()
        });
        read.as_ref().map(|types| types.get(name)).map_err(Clone::clone)
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
    /// The types in these texts, each a JSON object of types by their names. The kind is the type `name`. Types that the texts do not have are in
    /// `shared`.
    #[must_use]
    pub fn new(name: &str, texts: &[&'static str], shared: Option<&'static SharedTypes>) -> Self {
        Self { name: name.to_owned(), texts: texts.to_vec(), shared }
    }

    /// The name of the kind's type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The types as they are published.
    ///
    /// # Errors
    /// A text that is not JSON.
    pub fn published(&self) -> Result<Map<String, Value>, ComponentsError> {
        let mut schemas = self.shared.map_or_else(|| Ok(Map::new()), |shared| parse(shared.texts))?;
        schemas.extend(parse(&self.texts)?);
        schemas.values_mut().for_each(remove_marks);
        Ok(schemas)
    }

    /// The schema of the kind. Only what decides how its objects are read and written is in it: upstream's Go types judge no value.
    ///
    /// # Errors
    /// A text that is not JSON. A type that is missing, or that contains itself.
    pub fn structural(&self) -> Result<Structural, ComponentsError> {
        let schemas = parse(&self.texts)?;
        Reading { schemas: &schemas, shared: self.shared, types: BTreeMap::new(), leaves: Vec::new(), at: BTreeMap::new() }
            .type_of(&self.name, 0)
    }
}

fn parse(texts: &[&str]) -> Result<Map<String, Value>, ComponentsError> {
    let mut schemas = Map::new();
    for text in texts {
        schemas.extend(serde_json::from_str::<Map<String, Value>>(text).map_err(|error| ComponentsError::NotJson(error.to_string()))?);
    }
    Ok(schemas)
}

/// Types while they are read. Equal parts share memory.
struct Reading<'a> {
    schemas: &'a Map<String, Value>,
    shared: Option<&'static SharedTypes>,
    /// The types that are read already.
    types: BTreeMap<&'a str, Arc<Structural>>,
    /// The schemas without parts that are read already: there are few, and most parts of a type are one of them.
    leaves: Vec<Arc<Structural>>,
    /// The same by where they are in the texts: a type that contains itself is read many times.
    at: BTreeMap<*const Value, Arc<Structural>>,
}

impl<'a> Reading<'a> {
    fn type_of(&mut self, name: &str, depth: usize) -> Result<Structural, ComponentsError> {
        if let Some(found) = self.types.get(name) {
            return Ok(Structural::clone(found));
        }
        if let Some((name, schema)) = self.schemas.get_key_value(name) {
            let levels = if schema.get(RECURSIVE).is_some() { RECURSION_LEVELS } else { 0 };
            if 0 < levels {
                self.types.insert(name, Arc::default());
            }
            for _ in 0..levels {
                let level = self.schema(schema, depth + 1)?;
                self.types.insert(name, Arc::new(level));
            }
            let found = self.schema(schema, depth + 1)?;
            self.types.insert(name, Arc::new(found.clone()));
            return Ok(found);
        }
        let shared = self.shared.map_or(Ok(None), |shared| shared.structural(name))?;
        shared.cloned().ok_or_else(|| ComponentsError::Missing(name.to_owned()))
    }

    /// Whether the types have this one themselves: metadata of the kind's own objects are typed, those of a template are described.
    fn describes(&self, name: &str) -> Result<bool, ComponentsError> {
        Ok(self.schemas.contains_key(name) || self.shared.map_or(Ok(None), |shared| shared.structural(name))?.is_some())
    }

    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Structural, ComponentsError> {
        let unreadable = || ComponentsError::Unreadable(schema.to_string());
        let members = schema.as_object().ok_or_else(unreadable)?;
        let name = referred(members);
        if DEPTH_MAX < depth {
            return Err(ComponentsError::TooDeep(name.unwrap_or_default().to_owned()));
        }
        let mut found = match name {
            Some(OBJECT_META) if !self.describes(OBJECT_META)? => Structural::default(),
            Some(name) if name.ends_with(".IntOrString") => Structural { int_or_string: true, ..Structural::default() },
            Some(name) if name.ends_with(".Quantity") => {
                Structural { kind: Some(Type::String), format: QUANTITY.to_owned(), ..Structural::default() }
            }
            // Any JSON: the kind judges it.
            Some(name) if name.ends_with(".RawExtension") => Structural::default(),
            Some(name) if name.ends_with(".Time") => {
                Structural { kind: Some(Type::String), format: "date-time".to_owned(), ..Structural::default() }
            }
            Some(name) => self.type_of(name, depth)?,
            None => self.plain(members, depth)?,
        };
        found.set_wire(members);
        Ok(found)
    }

    fn plain(&mut self, members: &'a Map<String, Value>, depth: usize) -> Result<Structural, ComponentsError> {
        let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut found = Structural { kind: Type::parse(text("type")), format: text("format").to_owned(), ..Structural::default() };
        found.items = members.get("items").map(|schema| self.part(schema, depth)).transpose()?;
        let additional = members.get("additionalProperties").map(|schema| self.part(schema, depth)).transpose()?;
        found.additional = additional.map_or(Additional::Unset, Additional::Of);
        let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
        let properties = properties.map(|(name, schema)| Ok((name.clone(), self.part(schema, depth)?)));
        found.properties = properties.collect::<Result<BTreeMap<_, _>, ComponentsError>>()?;
        let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
        let is_pointer = |name: &&str| members.get("properties").is_some_and(|properties| properties[name].get(POINTER).is_some());
        found.required = required.filter_map(Value::as_str).filter(|name| !is_pointer(name)).map(str::to_owned).collect();
        Ok(found)
    }

    fn part(&mut self, schema: &'a Value, depth: usize) -> Result<Arc<Structural>, ComponentsError> {
        // A level of a type that contains itself is shared by all that refer to it.
        if let Some(known) =
            schema.as_object().filter(|members| members.len() == 1).and_then(referred).and_then(|name| self.types.get(name))
        {
            return Ok(Arc::clone(known));
        }
        if let Some(known) = self.at.get(&std::ptr::from_ref(schema)) {
            return Ok(Arc::clone(known));
        }
        let found = self.schema(schema, depth + 1)?;
        let is_leaf = found.properties.is_empty() && found.items.is_none() && found.additional == Additional::Unset;
        if !is_leaf {
            return Ok(Arc::new(found));
        }
        let known = self.leaves.iter().find(|leaf| ***leaf == found).cloned();
        let leaf = known.unwrap_or_else(|| {
            let leaf = Arc::new(found);
            self.leaves.push(Arc::clone(&leaf));
            leaf
        });
        // What refers to a type depends on the level.
        if schema.as_object().and_then(referred).is_none() {
            self.at.insert(schema, Arc::clone(&leaf));
        }
        Ok(leaf)
    }
}

fn referred(members: &Map<String, Value>) -> Option<&str> {
    let reference = members.get("$ref").or_else(|| members.get("allOf")?.get(0)?.get("$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE_PREFIX)
}

fn remove_marks(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, _| ![OMIT_EMPTY, ALWAYS, NULL, POINTER, RECURSIVE].contains(&name.as_str()));
            members.values_mut().for_each(remove_marks);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_marks),
        _ => (),
    }
}
