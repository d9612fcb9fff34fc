//! Quantities, and the functions that semantic versions share with them.

use super::{Outcome, Plain, no_overload, tenth};
use crate::{
    Budget, EvaluationError, Value,
    value::{
        Opaque as Boxed,
        opaque::{Opaque, Semver, SemverError},
    },
};
use berth_api::quantity::Quantity;
use std::cmp::Ordering;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "quantity" => |arguments, budget| {
            let found = text(arguments, budget)?.parse::<Quantity>();
            found.map(|found| Value::opaque(Opaque::Quantity(found))).map_err(|error| EvaluationError::failed(error.to_string()))
        },
        "isQuantity" => |arguments, budget| Ok(text(arguments, budget)?.parse::<Quantity>().is_ok().into()),
        "semver" => |arguments, budget| {
            let found = semver(arguments, budget)?;
            found.map(|found| Value::opaque(Opaque::Semver(found))).map_err(|error| EvaluationError::failed(error.to_string()))
        },
        "isSemver" => |arguments, budget| Ok(semver(arguments, budget)?.is_ok().into()),
        "sign" => |arguments, budget| of_quantity(arguments, budget, |quantity| Value::Int(signum(quantity.nanos()))),
        "isGreaterThan" => |arguments, budget| Ok(order(arguments, budget)?.is_gt().into()),
        "isLessThan" => |arguments, budget| Ok(order(arguments, budget)?.is_lt().into()),
        "compareTo" => |arguments, budget| Ok(Value::Int(order(arguments, budget)? as i64)),
        "asApproximateFloat" => |arguments, budget| of_quantity(arguments, budget, |quantity| Value::Double(quantity.nanos() as f64 / 1e9)),
        "asInteger" => {
            |arguments, budget| match of_quantity(arguments, budget, |quantity| whole(quantity).map_or(Value::Null, Value::Int))? {
                Value::Null => Err(EvaluationError::failed("cannot convert value to integer")),
                value => Ok(value),
            }
        }
        "isInteger" => |arguments, budget| of_quantity(arguments, budget, |quantity| whole(quantity).is_some().into()),
        "add" => |arguments, budget| combine(arguments, budget, Quantity::plus),
        "sub" => |arguments, budget| combine(arguments, budget, Quantity::minus),
        "major" => |arguments, budget| of_semver(arguments, budget, 0),
        "minor" => |arguments, budget| of_semver(arguments, budget, 1),
        "patch" => |arguments, budget| of_semver(arguments, budget, 2),
        _ => return None,
    })
}

fn signum(nanos: i128) -> i64 {
    nanos.cmp(&0) as i64
}

fn whole(quantity: Quantity) -> Option<i64> {
    let nanos = quantity.nanos();
    (nanos % 1_000_000_000 == 0).then(|| i64::try_from(nanos / 1_000_000_000).ok()).flatten()
}

fn text<'b>(arguments: &'b [Value<'_>], budget: &mut Budget) -> Result<&'b str, EvaluationError> {
    let [Value::String(text), ..] = arguments else { return Err(no_overload()) };
    budget.spend(tenth(text.len() as u64))?;
    Ok(text)
}

fn semver(arguments: &[Value<'_>], budget: &mut Budget) -> Result<Result<Semver, SemverError>, EvaluationError> {
    let is_lenient = match arguments {
        [_] => false,
        [_, Value::Bool(is_lenient)] => *is_lenient,
        _ => return Err(no_overload()),
    };
    Ok(Semver::parse(text(arguments, budget)?, is_lenient))
}

fn quantity_of(value: &Value<'_>) -> Option<Quantity> {
    match value {
        Value::Opaque(value) => match &**value {
            Boxed(Opaque::Quantity(quantity)) => Some(*quantity),
            _ => None,
        },
        _ => None,
    }
}

fn of_quantity<'a>(arguments: &[Value<'a>], budget: &mut Budget, of: fn(Quantity) -> Value<'a>) -> Outcome<'a> {
    budget.spend(1)?;
    arguments.first().and_then(quantity_of).map(of).ok_or_else(no_overload)
}

fn combine<'a>(arguments: &[Value<'a>], budget: &mut Budget, with: fn(Quantity, Quantity) -> Quantity) -> Outcome<'a> {
    budget.spend(1)?;
    let [one, other] = arguments else { return Err(no_overload()) };
    let other = if let Value::Int(number) = other { Some(Quantity::from_integer(*number)) } else { quantity_of(other) };
    let (Some(one), Some(other)) = (quantity_of(one), other) else { return Err(no_overload()) };
    Ok(Value::opaque(Opaque::Quantity(with(one, other))))
}

/// The order of two quantities or of two versions.
fn order(arguments: &[Value<'_>], budget: &mut Budget) -> Result<Ordering, EvaluationError> {
    budget.spend(1)?;
    let [Value::Opaque(one), Value::Opaque(other)] = arguments else { return Err(no_overload()) };
    match (&**one, &**other) {
        (Boxed(Opaque::Quantity(one)), Boxed(Opaque::Quantity(other))) => Ok(one.nanos().cmp(&other.nanos())),
        (Boxed(Opaque::Semver(one)), Boxed(Opaque::Semver(other))) => Ok(one.compare(other)),
        _ => Err(no_overload()),
    }
}

fn of_semver<'a>(arguments: &[Value<'a>], budget: &mut Budget, number: usize) -> Outcome<'a> {
    budget.spend(1)?;
    let [Value::Opaque(value)] = arguments else { return Err(no_overload()) };
    match &**value {
        Boxed(Opaque::Semver(version)) => Ok(Value::Int(i64::try_from(version.numbers[number]).unwrap_or(i64::MAX))),
        _ => Err(no_overload()),
    }
}
