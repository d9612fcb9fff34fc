//! Texts. Positions are counted in characters.

use super::{Outcome, Plain, formatting, no_overload, tenth};
use crate::{Budget, EvaluationError, Value, value::Text};

pub(super) fn function(name: &str) -> Option<Plain> {
    Some(match name {
        "contains" => |arguments, budget| {
            let (text, part) = texts(arguments)?;
            budget.spend(tenth(text.len() as u64).saturating_mul(tenth(part.len() as u64)))?;
            Ok(text.contains(part).into())
        },
        "startsWith" => |arguments, budget| affix(arguments, budget, |text, part| text.starts_with(part)),
        "endsWith" => |arguments, budget| affix(arguments, budget, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "indexOf" => |arguments, budget| {
            if matches!(arguments, [Value::List(_), _]) { super::lists::index_of(arguments, budget) } else { index_of(arguments, budget) }
        },
        "lastIndexOf" => |arguments, budget| {
            if matches!(arguments, [Value::List(_), _]) {
                super::lists::last_index_of(arguments, budget)
            } else {
                last_index_of(arguments, budget)
            }
        },
        "lowerAscii" => |arguments, budget| changed(arguments, budget, str::to_ascii_lowercase),
        "upperAscii" => |arguments, budget| changed(arguments, budget, str::to_ascii_uppercase),
        "trim" => |arguments, budget| changed(arguments, budget, |text| text.trim().to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "strings.quote" => |arguments, budget| changed(arguments, budget, formatting::quoted),
        "join" => join,
        "format" => formatting::format,
        "jsonpatch.escapeKey" => |arguments, budget| changed(arguments, budget, |text| text.replace('~', "~0").replace('/', "~1")),
        _ => return None,
    })
}

fn texts<'b>(arguments: &'b [Value<'_>]) -> Result<(&'b str, &'b str), EvaluationError> {
    match arguments {
        [Value::String(one), Value::String(other), ..] => Ok((one, other)),
        _ => Err(no_overload()),
    }
}

fn affix<'a>(arguments: &[Value<'a>], budget: &mut Budget, is: fn(&str, &str) -> bool) -> Outcome<'a> {
    let (text, part) = texts(arguments)?;
    // Upstream counts the whole text, and reads a part of it.
    budget.spend(tenth(text.len() as u64))?;
    Ok(is(text, part).into())
}

fn changed<'a>(arguments: &[Value<'a>], budget: &mut Budget, change: impl FnOnce(&str) -> String) -> Outcome<'a> {
    let [Value::String(text)] = arguments else { return Err(no_overload()) };
    budget.spend(tenth(text.len() as u64))?;
    Ok(change(text).into())
}

/// The byte of a character, if the text has as many or one fewer.
fn byte_of(text: &str, character: i64) -> Result<usize, EvaluationError> {
    let out_of_range = || EvaluationError::failed(format!("index out of range: {character}"));
    let wanted = usize::try_from(character).map_err(|_| out_of_range())?;
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.into_iter().nth(wanted).ok_or_else(out_of_range)
}

fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn char_at<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [Value::String(text), Value::Int(at)] = arguments else { return Err(no_overload()) };
    budget.spend(1 + text.len() as u64 / 100)?;
    let rest = &text[byte_of(text, *at)?..];
    Ok(rest.chars().next().map(String::from).unwrap_or_default().into())
}

fn index_of<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (text, part) = texts(arguments)?;
    budget.spend(text.len() as u64 / 10)?;
    let from = match arguments {
        [_, _] => 0,
        [_, _, Value::Int(from)] => *from,
        _ => return Err(no_overload()),
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return Err(EvaluationError::failed(format!("index out of range: {from}")));
    }
    let Ok(start) = byte_of(text, from) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(text[start..].find(part).map_or(-1, |at| characters(&text[..start + at]))))
}

fn last_index_of<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (text, part) = texts(arguments)?;
    budget.spend(text.len() as u64 / 10)?;
    let up_to = match arguments {
        [_, _] if part.is_empty() => return Ok(Value::Int(characters(text))),
        [_, _] => i64::MAX,
        [_, _, Value::Int(up_to)] if part.is_empty() => return Ok(Value::Int(*up_to)),
        [_, _, Value::Int(up_to)] if *up_to < 0 => return Err(EvaluationError::failed(format!("index out of range: {up_to}"))),
        [_, _, Value::Int(up_to)] if characters(text) <= *up_to => return Ok(Value::Int(-1)),
        [_, _, Value::Int(up_to)] => *up_to,
        _ => return Err(no_overload()),
    };
    // A part that begins at the last allowed character ends after it.
    let start = byte_of(text, up_to).unwrap_or(text.len());
    let mut end = (start + part.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Ok(Value::Int(text[..end].rfind(part).map_or(-1, |at| characters(&text[..at]))))
}

fn substring<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_overload()),
    };
    budget.spend(tenth(text.len() as u64))?;
    if let Some(end) = end.filter(|end| *end < start) {
        return Err(EvaluationError::failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_of(text, start)?;
    let to = end.map_or(Ok(text.len()), |end| byte_of(text, end))?;
    Ok(slice(text, from, to))
}

/// A part of a text. A text of the data is not copied.
fn slice<'a>(text: &Text<'a>, from: usize, to: usize) -> Value<'a> {
    match text {
        Text::Borrowed(text) => text[from..to].into(),
        Text::Shared(text) => text[from..to].to_owned().into(),
    }
}

/// How often something is done. Upstream does it always if the number is negative.
fn limit(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn replace<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (text, old, new, count) = match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, usize::MAX),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)] => (text, old, new, limit(*count)),
        _ => return Err(no_overload()),
    };
    budget.spend(tenth(2 * text.len() as u64))?;
    // Upstream does not count that the result can be longer.
    let found = text.matches(old.as_str()).take(count).count() as u64;
    budget.spend(tenth(found.saturating_mul(new.len() as u64)).saturating_sub(tenth(text.len() as u64)))?;
    Ok(text.replacen(old.as_str(), new, count).into())
}

fn split<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (text, separator, count) = match arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, usize::MAX),
        [Value::String(text), Value::String(separator), Value::Int(count)] => (text, separator, limit(*count)),
        _ => return Err(no_overload()),
    };
    budget.spend(tenth(2 * text.len() as u64))?;
    if count == 0 {
        return Ok(Value::list(Vec::new()));
    }
    // The bytes at which a part ends, and at which the next begins.
    let cuts: Vec<(usize, usize)> = if separator.is_empty() {
        text.char_indices().skip(1).map(|(at, _)| (at, at)).take(count - 1).collect()
    } else {
        text.match_indices(separator.as_str()).map(|(at, found)| (at, at + found.len())).take(count - 1).collect()
    };
    budget.spend(cuts.len() as u64)?;
    if separator.is_empty() && text.is_empty() {
        return Ok(Value::list(Vec::new()));
    }
    let starts = [0].into_iter().chain(cuts.iter().map(|(_, start)| *start));
    let ends = cuts.iter().map(|(end, _)| *end).chain([text.len()]);
    Ok(Value::list(starts.zip(ends).map(|(start, end)| slice(text, start, end)).collect()))
}

fn join<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return Err(no_overload()),
    };
    budget.spend(1)?;
    let mut joined = String::new();
    for index in 0..list.len() {
        let Some(Value::String(element)) = list.get(index, budget)? else { return Err(EvaluationError::failed("join: invalid input")) };
        budget.spend(tenth(2 * (element.len() + separator.len()) as u64))?;
        if 0 < index {
            joined.push_str(separator);
        }
        joined.push_str(&element);
    }
    Ok(joined.into())
}
