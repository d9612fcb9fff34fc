//! Operators, and functions of values of any type.

use super::{Outcome, Plain, no_overload, tenth, times};
use crate::{
    Budget, EvaluationError, Value,
    value::{equal, ordering},
};
use std::{cmp::Ordering, rc::Rc};

/// How many bytes of a text are counted for one unit.
const BYTES_COUNTED: u64 = 1_000;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "!_" => |arguments, budget| {
            budget.spend(1)?;
            if let [Value::Bool(value)] = arguments { Ok(Value::Bool(!value)) } else { Err(no_overload()) }
        },
        "_==_" => |arguments, budget| pair(arguments).and_then(|(one, other)| Ok(Value::Bool(equal(one, other, budget)?))),
        "_!=_" => |arguments, budget| pair(arguments).and_then(|(one, other)| Ok(Value::Bool(!equal(one, other, budget)?))),
        "_<_" => |arguments, budget| compare(arguments, budget, Ordering::is_lt),
        "_<=_" => |arguments, budget| compare(arguments, budget, Ordering::is_le),
        "_>_" => |arguments, budget| compare(arguments, budget, Ordering::is_gt),
        "_>=_" => |arguments, budget| compare(arguments, budget, Ordering::is_ge),
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "_[_]" => |arguments, budget| {
            let (target, key) = pair(arguments)?;
            budget.spend(1)?;
            match target {
                Value::Optional(None) => Ok(Value::Optional(None)),
                Value::Optional(Some(target)) => Ok(optional(index(target, key, budget)?)),
                target => index(target, key, budget)?.ok_or_else(|| missing(target, key)),
            }
        },
        "_[?_]" => |arguments, budget| {
            let (target, key) = pair(arguments)?;
            budget.spend(1)?;
            match target {
                Value::Optional(None) => Ok(Value::Optional(None)),
                Value::Optional(Some(target)) => Ok(optional(index(target, key, budget)?)),
                target => Ok(optional(index(target, key, budget)?)),
            }
        },
        "@in" => contains,
        "size" => size,
        "type" => |arguments, budget| {
            budget.spend(1)?;
            let [value] = arguments else { return Err(no_overload()) };
            Ok(Value::Type(Rc::from(value.type_name())))
        },
        "dyn" => |arguments, budget| {
            budget.spend(1)?;
            arguments.first().cloned().ok_or_else(no_overload)
        },
        _ => return None,
    })
}

fn pair<'b, 'a>(arguments: &'b [Value<'a>]) -> Result<(&'b Value<'a>, &'b Value<'a>), EvaluationError> {
    if let [one, other] = arguments { Ok((one, other)) } else { Err(no_overload()) }
}

fn optional(value: Option<Value<'_>>) -> Value<'_> {
    Value::Optional(value.map(Rc::new))
}

/// The element of a list, or the member of a map. `None`: it is missing.
pub(super) fn index<'a>(target: &Value<'a>, key: &Value<'a>, budget: &mut Budget) -> Result<Option<Value<'a>>, EvaluationError> {
    match target {
        Value::List(list) => {
            let at = match key {
                Value::Int(at) => usize::try_from(*at).ok(),
                Value::Uint(at) => usize::try_from(*at).ok(),
                Value::Double(at) if at.fract() == 0.0 && 0.0 <= *at && *at < 9e15 => Some(*at as usize),
                other => return Err(EvaluationError::failed(format!("unsupported index type '{}' in list", other.type_name()))),
            };
            at.map_or(Ok(None), |at| list.get(at, budget))
        }
        Value::Map(map) => map.get(key, budget),
        Value::Fields(fields) => key.as_str().map_or_else(|| Err(no_overload()), |name| fields.field(name, budget).transpose()),
        // Upstream has no such key either.
        _ => Ok(None),
    }
}

fn missing(target: &Value<'_>, key: &Value<'_>) -> EvaluationError {
    let shown = super::conversions::shown(key).unwrap_or_default();
    EvaluationError::failed(if matches!(target, Value::List(_)) {
        format!("index out of bounds: {shown}")
    } else {
        format!("no such key: {shown}")
    })
}

fn compare<'a>(arguments: &[Value<'a>], budget: &mut Budget, fits: fn(Ordering) -> bool) -> Outcome<'a> {
    let (one, other) = pair(arguments)?;
    budget.spend(tenth(one.size().min(other.size())).max(1))?;
    if let Some(found) = ordering(one, other) {
        return Ok(Value::Bool(fits(found)));
    }
    let is_number = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    Err(if is_number(one) && is_number(other) { EvaluationError::failed("NaN values cannot be ordered") } else { no_overload() })
}

fn contains<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (value, container) = pair(arguments)?;
    Ok(Value::Bool(match container {
        Value::List(list) => {
            // Upstream counts one unit per element. The comparisons spend at least that.
            let before = list.len() as u64;
            budget.spend(before)?;
            budget.give_back(before);
            list.has(value, budget)?
        }
        Value::Map(map) => {
            budget.spend(1)?;
            match map.get(value, budget) {
                Ok(found) => found.is_some(),
                Err(error) if error.is_final() => return Err(error),
                Err(_) => false,
            }
        }
        Value::Fields(_) => {
            budget.spend(1)?;
            index(container, value, budget)?.is_some()
        }
        _ => return Err(no_overload()),
    }))
}

fn size<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [value] = arguments else { return Err(no_overload()) };
    budget.spend(1)?;
    let size = match value {
        Value::String(text) => {
            budget.spend(value.size() / BYTES_COUNTED)?;
            text.chars().count() as u64
        }
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size(),
        _ => return Err(no_overload()),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn overflow() -> EvaluationError {
    EvaluationError::failed("integer overflow")
}

fn unsigned_overflow() -> EvaluationError {
    EvaluationError::failed("unsigned integer overflow")
}

/// The result of an operation of integers, unsigned integers or numbers.
fn arithmetic<'a>(
    arguments: &[Value<'a>],
    ints: fn(i64, i64) -> Option<i64>,
    uints: fn(u64, u64) -> Option<u64>,
    doubles: fn(f64, f64) -> f64,
) -> Outcome<'a> {
    match pair(arguments)? {
        (Value::Int(one), Value::Int(other)) => ints(*one, *other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => uints(*one, *other).map(Value::Uint).ok_or_else(unsigned_overflow),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(doubles(*one, *other))),
        _ => Err(no_overload()),
    }
}

fn add<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    match pair(arguments)? {
        (Value::String(one), Value::String(other)) => {
            budget.spend(tenth((one.len() + other.len()) as u64))?;
            Ok([one.as_str(), other.as_str()].concat().into())
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            budget.spend(tenth((one.len() + other.len()) as u64))?;
            Ok(Value::Bytes([&**one, &**other].concat().into()))
        }
        (Value::List(one), Value::List(other)) => {
            budget.spend(1)?;
            one.plus(other, budget).map(Value::List)
        }
        (Value::Duration(one), Value::Duration(other)) => {
            budget.spend(1)?;
            times::checked(one.checked_add(*other))
        }
        (Value::Timestamp(time), Value::Duration(duration)) | (Value::Duration(duration), Value::Timestamp(time)) => {
            budget.spend(1)?;
            times::moved(*time, *duration)
        }
        _ => {
            budget.spend(1)?;
            arithmetic(arguments, i64::checked_add, u64::checked_add, |one, other| one + other)
        }
    }
}

fn subtract<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    budget.spend(1)?;
    match pair(arguments)? {
        (Value::Duration(one), Value::Duration(other)) => times::checked(one.checked_sub(*other)),
        (Value::Timestamp(time), Value::Duration(duration)) => times::moved(*time, -*duration),
        (Value::Timestamp(one), Value::Timestamp(other)) => times::checked(Some(one.at.duration_since(other.at))),
        _ => arithmetic(arguments, i64::checked_sub, u64::checked_sub, |one, other| one - other),
    }
}

fn multiply<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    budget.spend(1)?;
    arithmetic(arguments, i64::checked_mul, u64::checked_mul, |one, other| one * other)
}

fn divide<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    budget.spend(1)?;
    if let [_, Value::Int(0) | Value::Uint(0)] = arguments {
        return Err(EvaluationError::failed("division by zero"));
    }
    arithmetic(arguments, i64::checked_div, u64::checked_div, |one, other| one / other)
}

fn modulo<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    budget.spend(1)?;
    match pair(arguments)? {
        (_, Value::Int(0) | Value::Uint(0)) => Err(EvaluationError::failed("modulus by zero")),
        (Value::Int(one), Value::Int(other)) => one.checked_rem(*other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => Ok(Value::Uint(one % other)),
        _ => Err(no_overload()),
    }
}

fn negate<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    budget.spend(1)?;
    match arguments {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => Err(no_overload()),
    }
}
