//! Structural schemas: what the objects of a kind hold, as OpenAPI v3 with the extensions of custom resource definitions.
//!
//! Start with [`Structural`]. [`Structural::read`] checks a schema, [`Structural::to_value`] writes it. It has no descriptions. A schema sets defaults, prunes the
//! fields that it does not have, and validates, each in a file of its own. The work of each is bounded by the size of the value times the
//! size of the schema, and recursion by the depth of the schema ([`DEPTH_MAX`]).
//!
//! Source: upstream `apiextensions-apiserver/pkg/apiserver/schema`.

mod check;
mod components;
mod counterparts;
mod defaults;
mod embedded;
mod format;
mod native;
mod pattern;
mod prune;
mod read;
mod rules;
mod validate;
mod write;

pub(crate) use components::QUANTITY;
pub use components::{Components, SharedTypes};
pub use pattern::{Pattern, PatternError};
pub(crate) use read::unrecognized_formats;
use validate::Validation;
pub(crate) use write::describe;

use serde_json::{Map, Number, Value};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
};

/// How deep a schema is at most.
pub const DEPTH_MAX: usize = 100;

/// How many faults of an object are returned at most.
pub const FAULTS_MAX: usize = 100;

/// The members of an object that its schema does not describe: of the object itself and of an embedded one.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A schema of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structural {
    /// `None`: it can be of any type, or of those that [`Structural::int_or_string`] names.
    pub kind: Option<Type>,
    /// Which values of the type are meant: `int32`, `date-time`.
    pub format: String,
    /// Whether it can be null.
    pub nullable: bool,
    /// Its value where there is none.
    pub default: Option<Box<Value>>,
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
    /// What a value must fulfill. `None`: nothing. See [`Structural::values`].
    pub values: Option<Arc<Values>>,
    /// Members of the schema that are kept as they are: `x-kubernetes-validations`.
    pub extras: Map<String, Value>,
    /// Its rules, compiled when they are used first.
    pub(crate) rules: rules::Rules,
    /// What it or a part of it has.
    inside: Inside,
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
    pub min_length: Option<i64>,
    /// The longest text, in characters.
    pub max_length: Option<i64>,
    /// What a text matches somewhere.
    pub pattern: Option<Pattern>,
    /// The shortest list.
    pub min_items: Option<i64>,
    /// The longest list.
    pub max_items: Option<i64>,
    /// The fewest members.
    pub min_properties: Option<i64>,
    /// The most members.
    pub max_properties: Option<i64>,
    /// All of these hold.
    pub all_of: Vec<Structural>,
    /// At least one of these holds.
    pub any_of: Vec<Structural>,
    /// Exactly one of these holds.
    pub one_of: Vec<Structural>,
    /// This does not hold.
    pub not: Option<Box<Structural>>,
}

/// What a schema or a part of it has anywhere. It is known when the schema is read: equal parts share memory, and a schema that repeats itself at each
/// depth has more paths to its parts than a computer can follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inside {
    /// A part has a default.
    defaults: bool,
    /// It or a part is an object of the API.
    embedded: bool,
    /// It or a part has rules, also in what only restricts values.
    rules: bool,
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
    /// Always, as null if it is empty (a list or a pointer without `omitempty`).
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

/// A value must fulfill nothing.
static NO_VALUES: LazyLock<Values> = LazyLock::new(Values::default);

impl Structural {
    /// What a value must fulfill besides its type.
    #[must_use]
    pub fn values(&self) -> &Values {
        self.values.as_deref().unwrap_or(&NO_VALUES)
    }

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

    /// Whether it has rules about the object itself, which can read its kind and its name.
    pub(crate) fn has_rules_about_the_object(&self) -> bool {
        rules::has_own(self)
    }

    /// Whether a value of it can get a default anywhere.
    #[must_use]
    pub fn has_defaults(&self) -> bool {
        self.inside.defaults
    }

    /// Whether a value of it can have an embedded object anywhere.
    #[must_use]
    pub fn has_embedded(&self) -> bool {
        self.inside.embedded
    }

    /// The parts that describe the parts of a value.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        let additional = if let Additional::Of(schema) = &self.additional { Some(schema) } else { None };
        self.properties.values().chain(additional).chain(&self.items).map(|part| &**part)
    }

    /// The parts that only restrict a value, with their names and positions.
    fn junctors(&self) -> impl Iterator<Item = (&'static str, Option<usize>, &Self)> {
        let values = self.values();
        let lists = [("allOf", &values.all_of), ("anyOf", &values.any_of), ("oneOf", &values.one_of)];
        let listed = lists.into_iter().flat_map(|(name, list)| list.iter().enumerate().map(move |(index, part)| (name, Some(index), part)));
        listed.chain(values.not.iter().map(|part| ("not", None, &**part)))
    }

    /// Notes what its parts have. They are complete.
    fn note_parts(&mut self) {
        let own = Inside { defaults: false, embedded: self.embedded_resource, rules: rules::has_own(self) };
        let described = self.parts().fold(own, |inside, part| Inside {
            defaults: inside.defaults || part.default.is_some() || part.inside.defaults,
            embedded: inside.embedded || part.inside.embedded,
            rules: inside.rules || part.inside.rules,
        });
        let restricted = self.junctors().any(|(_, _, part)| part.inside.rules);
        self.inside = Inside { rules: described.rules || restricted, ..described };
    }
}

#[cfg(test)]
mod tests;
