//! Equality and order of values.

use super::{Opaque, Value};
use crate::{Budget, EvaluationError, stack::with_stack};
use std::cmp::Ordering;

/// Whether two values are equal. Data with a declaration cannot be compared with a value of another type, but with null, as upstream. Numbers of different types are compared by value. It spends a tenth of a unit per value and per byte that it compares.
pub(crate) fn equal<'a>(one: &Value<'a>, other: &Value<'a>, budget: &mut Budget) -> Result<bool, EvaluationError> {
    with_stack(|| compare(one, other, budget))
}

fn compare<'a>(one: &Value<'a>, other: &Value<'a>, budget: &mut Budget) -> Result<bool, EvaluationError> {
    budget.spend(work(one.size().min(other.size())))?;
    Ok(match (one, other) {
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::String(one), Value::String(other)) => one.as_str() == other.as_str(),
        (Value::Bytes(one), Value::Bytes(other)) => one == other,
        (Value::Timestamp(one), Value::Timestamp(other)) => one.at == other.at,
        (Value::Duration(one), Value::Duration(other)) => one == other,
        (Value::Type(one), Value::Type(other)) => one == other,
        (Value::Optional(Some(one)), Value::Optional(Some(other))) => equal(one, other, budget)?,
        (Value::Opaque(one), Value::Opaque(other)) => {
            let (Opaque(one), Opaque(other)) = (&**one, &**other);
            one.equals(other)
        }
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::List(one), Value::List(other)) => one.equals(other, budget)?,
        (Value::Map(one), Value::Map(other)) => one.equals(other, budget)?,
        (Value::List(list), _) if list.is_declared() => return Err(no_overload(one, other)),
        (Value::Map(map), _) if map.is_declared() => return Err(no_overload(one, other)),
        _ => numbers(one, other) == Some(Some(Ordering::Equal)),
    })
}

/// What the comparison of so many bytes or elements costs. The comparison of the elements costs more.
fn work(size: u64) -> u64 {
    size.div_ceil(10)
}

fn no_overload(one: &Value<'_>, other: &Value<'_>) -> EvaluationError {
    EvaluationError::NoOverload(format!(": {} == {}", one.type_name(), other.type_name()))
}

/// The order of two values. `None`: they have none.
pub(crate) fn ordering(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::String(one), Value::String(other)) => Some(one.as_str().cmp(other.as_str())),
        (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
        (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.at.cmp(&other.at)),
        (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
        _ => numbers(one, other)?,
    }
}

/// The order of two numbers. The outer `None`: they are none. The inner: one is not a number (NaN).
fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Option<Ordering>> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    Some(match (whole(one), one, whole(other), other) {
        (Some(one), _, Some(other), _) => Some(one.cmp(&other)),
        (None, Value::Double(one), None, Value::Double(other)) => one.partial_cmp(other),
        (Some(one), _, None, Value::Double(other)) => order_with_double(one, *other),
        (None, Value::Double(one), Some(other), _) => order_with_double(other, *one).map(Ordering::reverse),
        _ => return None,
    })
}

/// The order of an integer and a number, without loss of precision.
fn order_with_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // All integers are within this bound, in which the conversion is exact.
    if double.abs() >= 1e30 {
        return Some(if double < 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let part = double.trunc() as i128;
    Some(whole.cmp(&part).then_with(|| {
        if double.fract() > 0.0 {
            Ordering::Less
        } else if double.fract() < 0.0 {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }))
}
