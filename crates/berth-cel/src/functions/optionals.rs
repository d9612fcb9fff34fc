//! Values that can be missing.

use super::{Plain, no_overload};
use crate::{Budget, EvaluationError, List, Value};
use std::rc::Rc;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "optional.of" => |arguments, budget| one(arguments, budget).map(|value| Value::some(value.clone())),
        "optional.ofNonZeroValue" => |arguments, budget| {
            let value = one(arguments, budget)?;
            Ok(if value.is_zero() { Value::Optional(None) } else { Value::some(value.clone()) })
        },
        "optional.none" => |_, budget| {
            budget.spend(1)?;
            Ok(Value::Optional(None))
        },
        "value" => |arguments, budget| match one(arguments, budget)? {
            Value::Optional(Some(value)) => Ok((**value).clone()),
            Value::Optional(None) => Err(EvaluationError::failed("optional.none() dereference")),
            _ => Err(no_overload()),
        },
        "hasValue" => |arguments, budget| match one(arguments, budget)? {
            Value::Optional(value) => Ok(value.is_some().into()),
            _ => Err(no_overload()),
        },
        "first" => |arguments, budget| {
            let list = list(arguments, budget)?;
            Ok(Value::Optional(list.get(0, budget)?.map(Rc::new)))
        },
        "last" => |arguments, budget| {
            let list = list(arguments, budget)?;
            Ok(Value::Optional(list.get(list.len().wrapping_sub(1), budget)?.map(Rc::new)))
        },
        "optional.unwrap" | "unwrapOpt" => |arguments, budget| {
            let list = list(arguments, budget)?;
            budget.spend(list.len() as u64)?;
            let mut values = Vec::new();
            for value in list.values(budget)? {
                match value {
                    Value::Optional(Some(value)) => values.push((*value).clone()),
                    Value::Optional(None) => (),
                    _ => return Err(no_overload()),
                }
            }
            Ok(Value::list(values))
        },
        _ => return None,
    })
}

fn one<'b, 'a>(arguments: &'b [Value<'a>], budget: &mut Budget) -> Result<&'b Value<'a>, EvaluationError> {
    budget.spend(1)?;
    if let [value] = arguments { Ok(value) } else { Err(no_overload()) }
}

fn list<'b, 'a>(arguments: &'b [Value<'a>], budget: &mut Budget) -> Result<&'b List<'a>, EvaluationError> {
    match one(arguments, budget)? {
        Value::List(list) => Ok(list),
        _ => Err(no_overload()),
    }
}
