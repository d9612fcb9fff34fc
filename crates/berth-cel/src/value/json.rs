//! Values from JSON, and back.

use super::{Key, List, Map, Value, times};
use crate::{Budget, Declaration, EvaluationError, declaration::Shape, stack::with_stack};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map as JsonMap, Value as Json};

impl<'a> Value<'a> {
    /// A value from JSON. Without a declaration, JSON itself decides what it is.
    ///
    /// # Errors
    /// The data does not fit its declaration.
    pub fn from_json(json: &'a Json, declaration: Option<&'a Declaration>) -> Result<Self, EvaluationError> {
        Self::read(json, declaration, &mut Budget::new(0))
    }

    pub(crate) fn read(json: &'a Json, declaration: Option<&'a Declaration>, budget: &mut Budget) -> Result<Self, EvaluationError> {
        let Some(of) = declaration.filter(|of| !matches!(of.shape(), Shape::Dyn)) else { return Ok(Self::untyped(json)) };
        if json.is_null() {
            return if of.is_nullable() { Ok(Self::Null) } else { Err(invalid("got null for schema with nullable=false")) };
        }
        Ok(match (of.shape(), json) {
            (Shape::Bool, Json::Bool(value)) => Self::Bool(*value),
            (Shape::Int, Json::Number(number)) => Self::Int(number.as_i64().ok_or_else(|| invalid("expected int, got float64"))?),
            (Shape::Uint, Json::Number(number)) => Self::Uint(number.as_u64().ok_or_else(|| invalid("expected uint, got float64"))?),
            (Shape::Double, Json::Number(number)) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            (Shape::String, Json::String(text)) => text.as_str().into(),
            (Shape::Bytes, Json::String(text)) => {
                budget.spend(text.len() as u64 / 10)?;
                let bytes = STANDARD
                    .decode(text)
                    .map_err(|error| EvaluationError::failed(format!("Invalid byte formatted string {text}: {error}")))?;
                Self::Bytes(bytes.into())
            }
            (Shape::Date, Json::String(text)) => {
                let date = times::date(text).ok_or_else(|| EvaluationError::failed(format!("Invalid date formatted string {text}")))?;
                Self::Timestamp(date)
            }
            (Shape::Timestamp, Json::String(text)) => {
                let time =
                    times::timestamp(text).ok_or_else(|| EvaluationError::failed(format!("Invalid date-time formatted string {text}")))?;
                Self::Timestamp(time)
            }
            (Shape::Duration, Json::String(text)) => {
                budget.spend(text.len() as u64 / 10)?;
                let duration = times::openapi_duration(text).ok_or_else(|| EvaluationError::failed(format!("Invalid duration {text}")))?;
                Self::Duration(duration)
            }
            (Shape::List(..), Json::Array(elements)) => Self::List(List::json(elements, Some(of))),
            (Shape::Map(_) | Shape::Object(_), Json::Object(members)) => Self::Map(Map::json(members, Some(of))),
            (Shape::List(..), _) => return Err(invalid("expected an array for the provided schema with type=array")),
            (Shape::Map(_) | Shape::Object(_), _) => return Err(invalid("expected a map for the provided schema with type=object")),
            (shape, _) => return Err(invalid(&format!("expected {}", name_of(shape)))),
        })
    }

    fn untyped(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Int(number),
                (None, Some(number)) => Self::Uint(number),
                (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => text.as_str().into(),
            Json::Array(elements) => Self::List(List::json(elements, None)),
            Json::Object(members) => Self::Map(Map::json(members, None)),
        }
    }

    /// The value as JSON. Keys of maps become texts, and a missing optional becomes null.
    ///
    /// # Errors
    /// The value has no form in JSON, or the evaluation costs too much.
    pub fn to_json(&self, budget: &mut Budget) -> Result<Json, EvaluationError> {
        budget.run(|budget| self.written(budget))
    }

    fn written(&self, budget: &mut Budget) -> Result<Json, EvaluationError> {
        budget.spend(1 + self.as_str().map_or(0, |text| text.len() as u64 / 10))?;
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Double(value) => (*value).into(),
            Self::String(text) => text.as_str().into(),
            Self::Bytes(bytes) => {
                budget.spend(bytes.len() as u64 / 10)?;
                STANDARD.encode(bytes).into()
            }
            Self::Timestamp(time) => times::show_timestamp(*time).into(),
            Self::Duration(duration) => times::show_duration(*duration).into(),
            Self::List(list) => {
                let mut elements = Vec::with_capacity(list.len());
                for value in list.values(budget)? {
                    elements.push(with_stack(|| value.written(budget))?);
                }
                elements.into()
            }
            Self::Map(map) => {
                let mut members = JsonMap::new();
                for (key, value) in map.entries(budget)? {
                    let name = match Key::of(&key) {
                        Some(Key::String(text)) => text.to_string(),
                        Some(Key::Int(key)) => key.to_string(),
                        Some(Key::Uint(key)) => key.to_string(),
                        Some(Key::Bool(key)) => key.to_string(),
                        Some(Key::Double(key)) => key.to_string(),
                        None => continue,
                    };
                    let name = if map.is_data() || map.constructed_as().is_some() { crate::unescape(&name).unwrap_or(name) } else { name };
                    members.insert(name, with_stack(|| value.written(budget))?);
                }
                members.into()
            }
            Self::Optional(Some(value)) => with_stack(|| value.written(budget))?,
            Self::Type(name) => Json::from(&**name),
            Self::Opaque(value) => value.0.to_json().ok_or_else(|| no_json(self))?,
            Self::Fields(_) => return Err(no_json(self)),
        })
    }
}

fn no_json(value: &Value<'_>) -> EvaluationError {
    EvaluationError::failed(format!("type conversion error from '{}' to JSON", value.type_name()))
}

fn invalid(why: &str) -> EvaluationError {
    EvaluationError::failed(format!("invalid data, {why}"))
}

fn name_of(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "bool",
        Shape::Int => "int",
        Shape::Uint => "uint",
        Shape::Double => "float",
        _ => "string",
    }
}
