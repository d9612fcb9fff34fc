//! Conversions between types.

use super::{Outcome, Plain, no_overload, tenth, times::at_second};
use crate::{Budget, EvaluationError, Value, value::times};
use berth_api::go;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "bool" => |arguments, budget| {
            convert(arguments, budget, "bool", |value| match value {
                Value::Bool(_) => Some(value.clone()),
                Value::String(text) => match text.as_str() {
                    "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Value::Bool(true)),
                    "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Value::Bool(false)),
                    _ => None,
                },
                _ => None,
            })
        },
        "bytes" => |arguments, budget| {
            let [value] = arguments else { return Err(no_overload()) };
            budget.spend(tenth(value.size()).max(1))?;
            match value {
                Value::Bytes(_) => Ok(value.clone()),
                Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
                _ => Err(no_overload()),
            }
        },
        "int" => int,
        "uint" => uint,
        "double" => |arguments, budget| {
            convert(arguments, budget, "double", |value| match value {
                Value::Double(_) => Some(value.clone()),
                Value::Int(value) => Some(Value::Double(*value as f64)),
                Value::Uint(value) => Some(Value::Double(*value as f64)),
                Value::String(text) => text.parse().ok().filter(|_| !text.is_empty()).map(Value::Double),
                _ => None,
            })
        },
        "string" => string,
        "duration" => |arguments, budget| {
            convert(arguments, budget, "google.protobuf.Duration", |value| match value {
                Value::Duration(_) => Some(value.clone()),
                Value::String(text) => times::duration(text).map(Value::Duration),
                _ => None,
            })
        },
        "timestamp" => |arguments, budget| {
            if let [Value::Int(seconds)] = arguments {
                budget.spend(1)?;
                return at_second(*seconds);
            }
            convert(arguments, budget, "google.protobuf.Timestamp", |value| match value {
                Value::Timestamp(_) => Some(value.clone()),
                Value::String(text) => times::timestamp(text).map(Value::Timestamp),
                _ => None,
            })
        },
        _ => return None,
    })
}

/// Converts a value. A text that has no value of the type is an error of its own.
fn convert<'a>(
    arguments: &[Value<'a>],
    budget: &mut Budget,
    to: &str,
    converted: impl FnOnce(&Value<'a>) -> Option<Value<'a>>,
) -> Outcome<'a> {
    let [value] = arguments else { return Err(no_overload()) };
    // Upstream counts one unit. A long text takes longer.
    budget.spend(1 + if matches!(value, Value::String(_)) { value.size() / 100 } else { 0 })?;
    converted(value).ok_or_else(|| match value {
        Value::String(_) => EvaluationError::failed(format!("type conversion error from 'string' to '{to}'")),
        _ => no_overload(),
    })
}

fn int<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let overflow = || EvaluationError::failed("integer overflow");
    match arguments {
        [Value::Uint(value)] => {
            budget.spend(1)?;
            i64::try_from(*value).map(Value::Int).map_err(|_| overflow())
        }
        [Value::Double(value)] => {
            budget.spend(1)?;
            // Upstream excludes both ends, which have no exact number.
            if (-9.223_372_036_854_775e18..9.223_372_036_854_775e18).contains(value) {
                Ok(Value::Int(*value as i64))
            } else {
                Err(overflow())
            }
        }
        _ => convert(arguments, budget, "int", |value| match value {
            Value::Int(_) => Some(value.clone()),
            Value::Duration(duration) => i64::try_from(duration.as_nanos()).ok().map(Value::Int),
            Value::Timestamp(time) => Some(Value::Int(time.at.as_nanosecond().div_euclid(1_000_000_000) as i64)),
            Value::String(text) => text.parse().ok().map(Value::Int),
            _ => None,
        }),
    }
}

fn uint<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let overflow = || EvaluationError::failed("unsigned integer overflow");
    match arguments {
        [Value::Int(value)] => {
            budget.spend(1)?;
            u64::try_from(*value).map(Value::Uint).map_err(|_| overflow())
        }
        [Value::Double(value)] => {
            budget.spend(1)?;
            if (0.0..1.844_674_407_370_955e19).contains(value) { Ok(Value::Uint(*value as u64)) } else { Err(overflow()) }
        }
        _ => convert(arguments, budget, "uint", |value| match value {
            Value::Uint(_) => Some(value.clone()),
            Value::String(text) if !text.starts_with('+') => text.parse().ok().map(Value::Uint),
            _ => None,
        }),
    }
}

fn string<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [value] = arguments else { return Err(no_overload()) };
    budget.spend(if matches!(value, Value::Bytes(_)) { tenth(value.size()) } else { 1 })?;
    match value {
        Value::String(_) => Ok(value.clone()),
        Value::Bytes(bytes) => {
            let text = str::from_utf8(bytes).map_err(|_| EvaluationError::failed("invalid UTF-8 in bytes, cannot convert to string"))?;
            Ok(text.to_owned().into())
        }
        other => shown(other).map(Value::from).ok_or_else(no_overload),
    }
}

/// A value as a text. `None`: it has none.
pub(super) fn shown(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => go::float(*value),
        Value::Timestamp(time) => times::show_timestamp(*time),
        Value::Duration(duration) => times::show_duration(*duration),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Type(name) => name.to_string(),
        Value::Opaque(value) => value.0.shown()?,
        _ => return None,
    })
}
