//! Types of expressions.

use crate::{Declaration, declaration::Shape};
use std::fmt;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// A part of the expression has a fault.
    Error,
    /// Any: it is checked during evaluation.
    Dyn,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int,
    /// An integer that is not negative.
    Uint,
    /// A number.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A time.
    Timestamp,
    /// A duration.
    Duration,
    /// A list of such elements.
    List(Box<Type>),
    /// A map from such keys to such values.
    Map(Box<(Type, Type)>),
    /// A value that can be missing.
    Optional(Box<Type>),
    /// A type itself.
    Type(Box<Type>),
    /// An object with the fields of this declaration.
    Object(Declaration),
    /// A type that only functions know.
    Opaque(&'static str),
    /// An object that an expression constructs: `Object.spec`, `JSONPatch`. Its fields are not checked.
    Constructed(String),
    /// A type that is not known yet.
    Variable(u32),
}

impl Type {
    pub(crate) fn list(elements: Self) -> Self {
        Self::List(Box::new(elements))
    }

    pub(crate) fn map(keys: Self, values: Self) -> Self {
        Self::Map(Box::new((keys, values)))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self::Optional(Box::new(value))
    }

    pub(crate) fn of(declaration: &Declaration) -> Self {
        match declaration.shape() {
            Shape::Dyn => Self::Dyn,
            Shape::Bool => Self::Bool,
            Shape::Int => Self::Int,
            Shape::Uint => Self::Uint,
            Shape::Double => Self::Double,
            Shape::String => Self::String,
            Shape::Bytes => Self::Bytes,
            Shape::Date | Shape::Timestamp => Self::Timestamp,
            Shape::Duration => Self::Duration,
            Shape::Opaque(name) => Self::Opaque(name),
            Shape::List(elements, _) => Self::list(Self::of(elements)),
            Shape::Map(values) => Self::map(Self::String, Self::of(values)),
            Shape::Object(_) => Self::Object(declaration.clone()),
        }
    }

    /// The types inside it.
    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => vec![inner],
            Self::Map(inner) => vec![&inner.0, &inner.1],
            _ => Vec::new(),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether a value has the same size always.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Timestamp | Self::Duration => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }
}

/// Two types are equal if they are the same. An object is equal to itself only.
impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(one), Self::Object(other)) => one.is_same(other),
            (Self::Opaque(one), Self::Opaque(other)) => one == other,
            (Self::Constructed(one), Self::Constructed(other)) => one == other,
            (Self::Variable(one), Self::Variable(other)) => one == other,
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other) && one.parameters() == other.parameters(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(elements) => write!(f, "list({elements})"),
            Self::Map(inner) => write!(f, "map({}, {})", inner.0, inner.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Object(_) => f.write_str("object"),
            Self::Opaque(name) => f.write_str(name),
            Self::Constructed(name) => f.write_str(name),
            Self::Variable(number) => write!(f, "_var{number}"),
        }
    }
}
