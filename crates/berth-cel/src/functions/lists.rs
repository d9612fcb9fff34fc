//! Lists and sets.

use super::{Outcome, Plain, no_overload, tenth};
use crate::{
    Budget, EvaluationError, List, Value,
    value::{equal, ordering},
};
use std::cmp::Ordering;

/// What a call that makes a list costs besides its elements.
const ALLOCATION: u64 = 11;

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "isSorted" => |arguments, budget| {
            let values = traversed(arguments, budget)?;
            for pair in values.windows(2) {
                if ordering(&pair[0], &pair[1]).ok_or_else(no_overload)? == Ordering::Greater {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        },
        "sum" => sum,
        "max" => |arguments, budget| extreme(arguments, budget, "max", Ordering::Less),
        "min" => |arguments, budget| extreme(arguments, budget, "min", Ordering::Greater),
        "slice" => slice,
        "flatten" => flatten,
        "sort" => |arguments, budget| {
            let list = list(arguments)?;
            sorted_by(list, list, budget)
        },
        "reverse" => |arguments, budget| {
            let list = list(arguments)?;
            budget.spend(ALLOCATION + list.len() as u64)?;
            let mut values = list.values(budget)?;
            values.reverse();
            Ok(Value::list(values))
        },
        "distinct" => distinct,
        "lists.range" => |arguments, budget| {
            let [Value::Int(count)] = arguments else { return Err(no_overload()) };
            budget.spend(ALLOCATION.saturating_add(u64::try_from(*count).unwrap_or(0)))?;
            Ok(Value::list((0..*count).map(Value::Int).collect()))
        },
        "sets.contains" => |arguments, budget| {
            let (one, other) = two_lists(arguments)?;
            spend_product(one, other, 1, budget)?;
            Ok(Value::Bool(has_all(one, other, budget)?))
        },
        "sets.equivalent" => |arguments, budget| {
            let (one, other) = two_lists(arguments)?;
            spend_product(one, other, 2, budget)?;
            Ok(Value::Bool(has_all(one, other, budget)? && has_all(other, one, budget)?))
        },
        "sets.intersects" => |arguments, budget| {
            let (one, other) = two_lists(arguments)?;
            spend_product(one, other, 1, budget)?;
            for value in one.values(budget)? {
                if other.has(&value, budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        },
        _ => return None,
    })
}

fn list<'b, 'a>(arguments: &'b [Value<'a>]) -> Result<&'b List<'a>, EvaluationError> {
    if let [Value::List(list), ..] = arguments { Ok(list) } else { Err(no_overload()) }
}

fn two_lists<'b, 'a>(arguments: &'b [Value<'a>]) -> Result<(&'b List<'a>, &'b List<'a>), EvaluationError> {
    if let [Value::List(one), Value::List(other)] = arguments { Ok((one, other)) } else { Err(no_overload()) }
}

/// The elements of a list, and what it costs to read all of them.
fn traversed<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Result<Vec<Value<'a>>, EvaluationError> {
    let list = list(arguments)?;
    budget.spend(list.len() as u64)?;
    let values = list.values(budget)?;
    let texts = values.iter().filter(|value| matches!(value, Value::String(_) | Value::Bytes(_)));
    budget.spend(texts.map(|text| text.size() / 10).sum())?;
    Ok(values)
}

fn sum<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let values = traversed(arguments, budget)?;
    let add = super::operators::function("_+_").ok_or_else(no_overload)?;
    let mut values = values.into_iter();
    let Some(mut total) = values.next() else { return Ok(Value::Int(0)) };
    for value in values {
        total = add(&[total, value], budget)?;
    }
    if matches!(total, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_)) { Ok(total) } else { Err(no_overload()) }
}

/// The largest or the smallest element.
fn extreme<'a>(arguments: &[Value<'a>], budget: &mut Budget, name: &str, replaced: Ordering) -> Outcome<'a> {
    let mut values = traversed(arguments, budget)?.into_iter();
    let mut found = values.next().ok_or_else(|| EvaluationError::failed(format!("{name} called on empty list")))?;
    for value in values {
        if ordering(&found, &value).ok_or_else(no_overload)? == replaced {
            found = value;
        }
    }
    Ok(found)
}

pub(super) fn index_of<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    position(arguments, budget, |count| Box::new(0..count))
}

pub(super) fn last_index_of<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    position(arguments, budget, |count| Box::new((0..count).rev()))
}

fn position<'a>(arguments: &[Value<'a>], budget: &mut Budget, order: fn(usize) -> Box<dyn Iterator<Item = usize>>) -> Outcome<'a> {
    let [Value::List(list), value] = arguments else { return Err(no_overload()) };
    for at in order(list.len()) {
        if let Some(element) = list.get(at, budget)?
            && equal(&element, value, budget)?
        {
            return Ok(Value::Int(i64::try_from(at).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn slice<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else { return Err(no_overload()) };
    let wrong = |why: String| EvaluationError::failed(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(wrong("negative indexes not supported".to_owned()));
    };
    if to < from {
        return Err(wrong("start index must be less than or equal to end index".to_owned()));
    }
    if list.len() < to {
        return Err(wrong(format!("list is length {}", list.len())));
    }
    budget.spend(ALLOCATION + (to - from) as u64)?;
    let mut values = Vec::with_capacity(to - from);
    for at in from..to {
        values.extend(list.get(at, budget)?);
    }
    Ok(Value::list(values))
}

fn flatten<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let depth = match arguments {
        [_] => 1,
        [_, Value::Int(depth)] if 0 <= *depth => *depth,
        _ => return Err(EvaluationError::failed("level must be non-negative")),
    };
    budget.spend(ALLOCATION)?;
    let mut left: Vec<(Value<'a>, i64)> = vec![(Value::List(list(arguments)?.clone()), depth.saturating_add(1))];
    let mut flat = Vec::new();
    while let Some((value, depth)) = left.pop() {
        budget.spend(1)?;
        match value {
            Value::List(list) if 0 < depth => {
                budget.spend(list.len() as u64)?;
                left.extend(list.values(budget)?.into_iter().rev().map(|value| (value, depth - 1)));
            }
            value => flat.push(value),
        }
    }
    Ok(Value::list(flat))
}

/// The elements of a list in the order of their keys.
pub(crate) fn sorted_by<'a>(list: &List<'a>, keys: &List<'a>, budget: &mut Budget) -> Outcome<'a> {
    spend_square(keys, budget)?;
    let mut pairs: Vec<_> = keys.values(budget)?.into_iter().zip(list.values(budget)?).collect();
    if let Some((first, _)) = pairs.first() {
        if ordering(first, first).is_none() && !matches!(first, Value::Double(_)) {
            return Err(EvaluationError::failed("list elements must be comparable"));
        }
        if pairs.iter().any(|(key, _)| key.type_name() != first.type_name()) {
            return Err(EvaluationError::failed("list elements must have the same type"));
        }
    }
    pairs.sort_by(|(one, _), (other, _)| match (one, other) {
        (Value::Double(one), Value::Double(other)) => one.total_cmp(other),
        _ => ordering(one, other).unwrap_or(Ordering::Equal),
    });
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}

/// What upstream counts for comparing all elements with each other.
fn spend_square(list: &List<'_>, budget: &mut Budget) -> Result<(), EvaluationError> {
    let size = list.len() as u64;
    let pairs = size.saturating_mul(size);
    let is_text = matches!(list.get(0, budget)?, Some(Value::String(_) | Value::Bytes(_)));
    budget.spend(ALLOCATION.saturating_add(pairs.saturating_mul(2)).saturating_add(if is_text { tenth(pairs) } else { 0 }))
}

fn distinct<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let list = list(arguments)?;
    spend_square(list, budget)?;
    let mut found: Vec<Value<'a>> = Vec::new();
    for value in list.values(budget)? {
        let mut is_new = true;
        for known in &found {
            if equal(known, &value, budget)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            found.push(value);
        }
    }
    Ok(Value::list(found))
}

fn spend_product(one: &List<'_>, other: &List<'_>, factor: u64, budget: &mut Budget) -> Result<(), EvaluationError> {
    // Upstream counts all pairs. The comparisons spend at least one unit each, up to the first that is equal.
    let pairs = (one.len() as u64).saturating_mul(other.len() as u64).saturating_mul(factor);
    budget.spend(pairs.saturating_add(1))?;
    budget.give_back(pairs);
    Ok(())
}

fn has_all<'a>(list: &List<'a>, part: &List<'a>, budget: &mut Budget) -> Result<bool, EvaluationError> {
    for value in part.values(budget)? {
        if !list.has(&value, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
