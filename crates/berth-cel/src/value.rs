//! Values. Data in JSON is not copied: a part of it becomes a value where an expression reads it.

mod compare;
mod json;
mod lists;
mod maps;
pub(crate) mod opaque;
pub(crate) mod times;

pub(crate) use compare::{equal, ordering};
pub use lists::List;
pub use maps::{Key, Map};
pub use opaque::authorizer::{Access, Authorize, Verdict};

use crate::{Budget, EvaluationError};
use jiff::{SignedDuration, Timestamp, tz::Offset};
use std::{fmt, rc::Rc};

/// A value. `'a` is the life of the data, the declarations and the programs that it comes from.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that is not negative.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A time.
    Timestamp(Time),
    /// A duration.
    Duration(SignedDuration),
    /// A list.
    List(List<'a>),
    /// A map or an object.
    Map(Map<'a>),
    /// A value that can be missing.
    Optional(Option<Rc<Value<'a>>>),
    /// A type.
    Type(Rc<str>),
    /// A value of a type that only functions know: an address, a quantity, an authorizer.
    Opaque(Rc<Opaque>),
    /// An object whose fields are made when they are read.
    Fields(Rc<dyn Fields<'a> + 'a>),
}

/// A time. It is shown with the distance from UTC with which it was written.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub(crate) at: Timestamp,
    pub(crate) offset: Offset,
}

impl From<Timestamp> for Time {
    fn from(at: Timestamp) -> Self {
        Self { at, offset: Offset::UTC }
    }
}

/// A text: borrowed from the data, or made by an expression.
#[derive(Clone)]
pub enum Text<'a> {
    /// From the data or the program.
    Borrowed(&'a str),
    /// From an expression.
    Shared(Rc<str>),
}

/// A value of a type that only functions know.
#[derive(Debug)]
pub struct Opaque(pub(crate) opaque::Opaque);

/// An object whose fields are made when they are read, such as `variables` of a policy.
pub trait Fields<'a>: fmt::Debug {
    /// The value of a field. `None`: there is no such field.
    fn field(&self, name: &str, budget: &mut Budget) -> Option<Result<Value<'a>, EvaluationError>>;
}

/// The variables of an evaluation.
pub trait Variables<'a> {
    /// The value of a variable. `None`: it has none.
    fn variable(&self, name: &str, budget: &mut Budget) -> Option<Result<Value<'a>, EvaluationError>>;
}

/// Variables that have their values already.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'a>(Vec<(&'static str, Value<'a>)>);

impl<'a> Bindings<'a> {
    /// No variable.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value<'a>) -> Self {
        self.0.push((name, value));
        self
    }
}

impl<'a> Variables<'a> for Bindings<'a> {
    fn variable(&self, name: &str, _: &mut Budget) -> Option<Result<Value<'a>, EvaluationError>> {
        self.0.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| Ok(value.clone()))
    }
}

impl Text<'_> {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(Text::Shared(text.into()))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> Value<'a> {
    /// A list of these values.
    #[must_use]
    pub fn list(values: Vec<Self>) -> Self {
        Self::List(List::built(values))
    }

    /// An optional with a value.
    #[must_use]
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(crate) fn opaque(value: opaque::Opaque) -> Self {
        Self::Opaque(Rc::new(Opaque(value)))
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The name of its type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(map) => map.constructed_as().unwrap_or("map"),
            Self::Fields(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(value) => value.0.type_name(),
        }
    }

    /// How large it is, as costs count it: bytes of a text, elements, members. Everything else has size 1.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(value)) => return value.size(),
            _ => 1,
        };
        size as u64
    }

    /// Whether it is the empty value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) => self.size() == 0,
            Self::Duration(value) => value.is_zero(),
            Self::Optional(value) => value.is_none(),
            Self::Timestamp(_) | Self::Type(_) | Self::Opaque(_) | Self::Fields(_) => false,
        }
    }

    /// A field of an object, or a member of a map with a text as its key. `None`: it is missing. Other values, such as `null`, have no members.
    pub(crate) fn member(&self, name: &str, budget: &mut Budget) -> Result<Option<Self>, EvaluationError> {
        match self {
            Self::Map(map) => map.field(name, budget),
            Self::Fields(fields) => fields.field(name, budget).transpose(),
            _ => Ok(None),
        }
    }
}
