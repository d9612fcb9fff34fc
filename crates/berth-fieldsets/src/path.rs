//! Paths to fields, as `managedFields` and conflicts write them.

use serde_json::{Number, Value};
use std::{
    cmp::Ordering,
    fmt::{self, Write},
    num::ParseIntError,
};

/// One step from a container to what it holds. Ordered as upstream orders them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A member of a map or struct: `f:name`.
    Field(String),
    /// An element of a list by its keys, sorted by name: `k:{"name":"c"}`.
    Key(Vec<(String, Literal)>),
    /// An element of a set: `v:"x"`.
    Value(Literal),
    /// An element by its place: `i:0`. Berth makes none; clients may write them.
    Index(i64),
}

/// A path from the root of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

/// A JSON value in a path, with a total order: numbers by size, then strings, booleans, lists, maps, null.
#[derive(Clone, Debug)]
pub struct Literal(pub Value);

/// Why a text of FieldsV1 is no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It has no room for a type.
    #[error("key must be 2 characters long: {0}")]
    TooShort(String),
    /// The type does not end with a colon.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// What follows the type is not JSON. The parser's words.
    #[error("{0}")]
    Json(String),
    /// What follows `k:` is another value than an object.
    #[error("expected an object of keys, got {0}")]
    NoKeys(Value),
    /// What follows `i:` is not a number.
    #[error("{0}: {1}")]
    NoIndex(String, #[source] ParseIntError),
}

impl PathElement {
    /// A member of a map or struct.
    #[must_use]
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// An element of a list by its keys.
    #[must_use]
    pub fn key(keys: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name, Literal(value))).collect();
        keys.sort();
        Self::Key(keys)
    }

    /// Its form in FieldsV1.
    #[must_use]
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let members: Vec<String> = keys.iter().map(|(name, value)| format!("{}:{}", json(name), value.0)).collect();
                format!("k:{{{}}}", members.join(","))
            }
            Self::Value(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// From FieldsV1. `Ok(None)`: the element has a type that berth does not know. The caller ignores it.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn decode(text: &str) -> Result<Option<Self>, PathError> {
        let Some((kind, rest)) = text.split_at_checked(2) else { return Err(PathError::TooShort(text.to_owned())) };
        if !kind.ends_with(':') {
            return Err(PathError::NoColon(text.to_owned()));
        }
        let element = match kind {
            "f:" => Self::field(rest),
            "v:" => Self::Value(Literal(parse(rest)?)),
            "k:" => match parse(rest)? {
                Value::Object(keys) => Self::key(keys),
                other => return Err(PathError::NoKeys(other)),
            },
            "i:" => Self::Index(rest.parse().map_err(|error| PathError::NoIndex(rest.to_owned(), error))?),
            _ => return Ok(None),
        };
        Ok(Some(element))
    }
}

fn parse(text: &str) -> Result<Value, PathError> {
    serde_json::from_str(text).map_err(|error| PathError::Json(error.to_string()))
}

fn json(text: &str) -> Value {
    Value::String(text.to_owned())
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_char('[')?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    write!(f, "{}{name}={}", if index == 0 { "" } else { "," }, value.0)?;
                }
                f.write_char(']')
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Literal {}

impl PartialOrd for Literal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Literal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            // Keys and set elements are scalars; what a client writes instead needs some order only.
            (a, b) => rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}

fn whole(number: &Number) -> Option<i128> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e18);
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| float().map(|float| float as i128))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_are_written_and_read_as_upstream_does() {
        let check = |element: PathElement, text: &str, shown: &str| {
            assert_eq!(element.encode(), text);
            assert_eq!(element.to_string(), shown);
            assert_eq!(PathElement::decode(text), Ok(Some(element)));
        };
        check(PathElement::field("a/b.c"), "f:a/b.c", ".a/b.c");
        check(PathElement::key([("name".to_owned(), json!("c"))]), r#"k:{"name":"c"}"#, r#"[name="c"]"#);
        let port = [("protocol".to_owned(), json!("TCP")), ("containerPort".to_owned(), json!(80))];
        check(PathElement::key(port), r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#);
        check(PathElement::Value(Literal(json!("x\"y"))), r#"v:"x\"y""#, r#"[="x\"y"]"#);
        check(PathElement::Value(Literal(json!(false))), "v:false", "[=false]");
        check(PathElement::Index(3), "i:3", "[3]");
    }

    #[test]
    fn an_invalid_element_is_distinguished_from_one_of_a_later_version() {
        assert_eq!(PathElement::decode("x:later"), Ok(None));
        for bad in ["", "f", "fx", "ff:", "v:{", "k:1", "i:a", "é"] {
            PathElement::decode(bad).expect_err(bad);
        }
    }

    #[test]
    fn order_is_by_type_then_value_and_numbers_go_by_size() {
        let values =
            [json!(-1), json!(2), json!(2.5), json!(10), json!("a"), json!("b"), json!(false), json!(true), json!([1]), json!(null)];
        let literals: Vec<Literal> = values.into_iter().map(Literal).collect();
        assert!(literals.is_sorted());
        assert_eq!(Literal(json!(80)), Literal(json!(80.0)));
        let key = |port: u64| PathElement::key([("port".to_owned(), json!(port))]);
        let elements = [PathElement::field("z"), key(80), key(443), PathElement::Value(Literal(json!(1))), PathElement::Index(0)];
        assert!(elements.is_sorted());
    }
}
