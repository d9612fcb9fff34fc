//! Structural schemas: what the objects of a kind hold, as OpenAPI v3 with the extensions of custom resource definitions.
//!
//! Start with [`Structural`]. [`Structural::read`] checks a schema, [`Structural::to_value`] writes it. A schema sets defaults, prunes the
//! fields that it does not have, and validates, each in a file of its own. The work of each is bounded by the size of the value times the
//! size of the schema, and recursion by the depth of the schema ([`DEPTH_MAX`]).
//!
//! Source: upstream `apiextensions-apiserver/pkg/apiserver/schema`.

mod components;
mod defaults;
mod format;
mod native;
mod prune;
mod read;
mod validate;
mod write;

pub(crate) use components::QUANTITY;
pub use components::{Components, SharedTypes};
use validate::Validation;

use regex::Regex;
use serde_json::{Map, Number, Value};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// How deep a schema is at most.
pub const DEPTH_MAX: usize = 100;

/// How many faults of an object are returned at most.
pub const FAULTS_MAX: usize = 100;

/// The members of an object that its schema does not describe: of the object itself and of an embedded one.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A schema of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structural {
    /// What people read.
    pub description: String,
    /// `None`: it can be of any type, or of those that [`Structural::int_or_string`] names.
    pub kind: Option<Type>,
    /// Which values of the type are meant: `int32`, `date-time`.
    pub format: String,
    /// Whether it can be null.
    pub nullable: bool,
    /// Its value where there is none.
    pub default: Option<Value>,
    /// The members of an object.
    pub properties: BTreeMap<String, Arc<Structural>>,
    /// The other members of an object.
    pub additional: Additional,
    /// The elements of a list.
    pub items: Option<Arc<Structural>>,
    /// Members that an object must have.
    pub required: Vec<String>,
    /// Whether members stay that the schema does not describe.
    pub preserve_unknown_fields: bool,
    /// Whether it is an integer or a string.
    pub int_or_string: bool,
    /// Whether it is an object of the API, with metadata.
    pub embedded_resource: bool,
    /// How the elements of a list are distinguished.
    pub list_type: Option<ListType>,
    /// Who owns the members of an object.
    pub map_type: Option<MapType>,
    /// What a value must fulfill.
    pub values: Values,
    /// Members of the schema that berth keeps and does not use: `title`, `example`, `x-kubernetes-validations`.
    pub extras: Map<String, Value>,
    /// How a kind of upstream's Go types writes it.
    pub(crate) wire: Wire,
}

/// A type of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A list.
    Array,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// An object.
    Object,
    /// A text.
    String,
}

/// The members of an object that `properties` does not name.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Additional {
    /// The schema does not describe them.
    #[default]
    Unset,
    /// `true`: they can be anything. `false`: there are none.
    Allowed(bool),
    /// They are of this schema.
    Of(Arc<Structural>),
}

/// How the elements of a list are distinguished, for apply and for validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// They are not: the list is one value.
    Atomic,
    /// By their values, which are unique.
    Set,
    /// By these members, which are unique together.
    Map(Vec<String>),
}

/// Who owns the members of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// One owner owns all of them.
    Atomic,
    /// Each member has its owners.
    Granular,
}

/// What a value must fulfill besides its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// The only values.
    pub one_of_values: Option<Vec<Value>>,
    /// The smallest number.
    pub minimum: Option<Number>,
    /// Whether the smallest number is excluded.
    pub exclusive_minimum: bool,
    /// The largest number.
    pub maximum: Option<Number>,
    /// Whether the largest number is excluded.
    pub exclusive_maximum: bool,
    /// A number is a multiple of this one.
    pub multiple_of: Option<Number>,
    /// The shortest text, in characters.
    pub min_length: Option<u64>,
    /// The longest text, in characters.
    pub max_length: Option<u64>,
    /// What a text matches somewhere.
    pub pattern: Option<Pattern>,
    /// The shortest list.
    pub min_items: Option<u64>,
    /// The longest list.
    pub max_items: Option<u64>,
    /// The fewest members.
    pub min_properties: Option<u64>,
    /// The most members.
    pub max_properties: Option<u64>,
    /// All of these hold.
    pub all_of: Vec<Structural>,
    /// At least one of these holds.
    pub any_of: Vec<Structural>,
    /// Exactly one of these holds.
    pub one_of: Vec<Structural>,
    /// This does not hold.
    pub not: Option<Box<Structural>>,
}

/// A regular expression, and its text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles an expression. Its program is bounded, and matching takes time linear in the text.
    ///
    /// # Errors
    /// The text is no expression, or its program is too large.
    pub fn new(text: &str) -> Result<Self, regex::Error> {
        Regex::new(text).map(Self)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// How upstream's Go types write a field. A custom resource's fields are plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wire {
    /// As it is.
    #[default]
    Plain,
    /// Not at all if it is empty (`omitempty`).
    OmitEmpty,
    /// Always, if need be as an empty object (a struct held by value).
    Always,
    /// Always, as null if it is empty (a list without `omitempty`).
    Null,
}

impl Type {
    /// Its name in a schema.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Array, Self::Boolean, Self::Integer, Self::Number, Self::Object, Self::String];
        all.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Structural {
    /// The schema of a member. `None`: the schema does not describe it.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Of(schema)) => Some(schema),
            (None, Additional::Unset | Additional::Allowed(_)) => None,
        }
    }

    /// The schema at the end of a path of members.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |schema, name| schema.member(name))
    }

    /// Whether a value of it can get a default anywhere.
    #[must_use]
    pub fn has_defaults(&self) -> bool {
        let additional = if let Additional::Of(schema) = &self.additional { Some(schema) } else { None };
        let inside = self.properties.values().chain(additional).chain(&self.items);
        inside.into_iter().any(|schema| schema.default.is_some() || schema.has_defaults())
    }
}

#[cfg(test)]
mod tests;
