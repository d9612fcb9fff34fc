//! An expression from its text. Length and nesting are bounded, so no text takes much time or stack.

mod lexer;
mod literals;
mod macros;
mod parser;
mod parts;

pub(crate) use parser::{Parsed, parse, qualified_name};

use crate::functions::Function;

/// A part of an expression.
#[derive(Debug)]
pub(crate) struct Expr {
    /// Its number in the expression.
    pub(crate) id: u32,
    pub(crate) kind: Kind,
}

/// What a part of an expression is.
#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    /// A name that is not resolved yet.
    Identifier(Box<str>),
    /// A variable of the environment.
    Variable(Box<str>),
    /// A variable of a macro, by its place among those that are in scope.
    Local(usize),
    /// A type, as a value.
    TypeName(&'static str),
    /// `operand.field`.
    Select {
        operand: Box<Expr>,
        field: Box<str>,
    },
    /// `has(operand.field)`.
    Has {
        operand: Box<Expr>,
        field: Box<str>,
    },
    /// `operand.?field`.
    OptionalSelect {
        operand: Box<Expr>,
        field: Box<str>,
    },
    Call(Box<Call>),
    And(Box<(Expr, Expr)>),
    Or(Box<(Expr, Expr)>),
    /// Condition, value if it is true, value if it is false.
    Conditional(Box<(Expr, Expr, Expr)>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// `Object.spec{field: value}`.
    Struct {
        name: Box<str>,
        fields: Vec<StructField>,
    },
    Comprehension(Box<Comprehension>),
    /// `target.optMap(variable, body)`, or `optFlatMap`.
    OptionalMap(Box<OptionalMap>),
    /// `target.sortBy(variable, key)`. The keys are a comprehension over the variable that has the target.
    SortBy(Box<SortBy>),
}

impl Expr {
    /// The parts of which it consists.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Literal(_) | Kind::Identifier(_) | Kind::Variable(_) | Kind::Local(_) | Kind::TypeName(_) => Vec::new(),
            Kind::Select { operand, .. } | Kind::Has { operand, .. } | Kind::OptionalSelect { operand, .. } => vec![operand],
            Kind::Call(call) => call.target.iter().chain(&call.arguments).collect(),
            Kind::And(both) | Kind::Or(both) => vec![&both.0, &both.1],
            Kind::Conditional(parts) => vec![&parts.0, &parts.1, &parts.2],
            Kind::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Kind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Kind::Comprehension(inner) => [&inner.range].into_iter().chain(&inner.filter).chain(&inner.body).collect(),
            Kind::OptionalMap(map) => vec![&map.target, &map.body],
            Kind::SortBy(sort) => vec![&sort.target, &sort.keys],
        }
    }
}

/// A value that is written in the expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
}

/// A call of a function or an operator.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Box<str>,
    pub(crate) target: Option<Expr>,
    pub(crate) arguments: Vec<Expr>,
    /// What it calls. The check of types finds it.
    pub(crate) function: Option<Function>,
    /// The pattern of a call whose pattern is written in the expression.
    pub(crate) pattern: Option<Box<regex::Regex>>,
}

/// An element of a list.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    /// Whether it is left out where it has no value.
    pub(crate) is_optional: bool,
}

/// A member of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// A field of an object that the expression constructs.
#[derive(Debug)]
pub(crate) struct StructField {
    /// The byte of its colon in the source.
    pub(crate) at: usize,
    pub(crate) name: Box<str>,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// A macro that visits each element of a list or each member of a map.
#[derive(Debug)]
pub(crate) struct Comprehension {
    pub(crate) visit: Visit,
    pub(crate) range: Expr,
    pub(crate) variable: Box<str>,
    /// With two variables, the first is the index or key and the second is the value.
    pub(crate) second: Option<Box<str>>,
    /// The elements that count. `None`: all.
    pub(crate) filter: Option<Expr>,
    /// The condition, or what becomes of an element. For [`Visit::Filter`] and [`Visit::ExistsOne`], `filter` is the condition.
    pub(crate) body: Option<Expr>,
}

/// What a macro does with the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    All,
    Exists,
    ExistsOne,
    /// A list of what `body` makes of each element.
    List,
    /// A list of the elements for which `filter` holds.
    Filter,
    /// A map with the same keys and other values.
    Map,
    /// A map of the entries that `body` returns.
    MapEntry,
}

#[derive(Debug)]
pub(crate) struct OptionalMap {
    pub(crate) target: Expr,
    pub(crate) variable: Box<str>,
    pub(crate) body: Expr,
    /// Whether the body itself returns an optional.
    pub(crate) is_flat: bool,
}

#[derive(Debug)]
pub(crate) struct SortBy {
    pub(crate) target: Expr,
    pub(crate) keys: Expr,
}
