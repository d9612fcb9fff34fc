//! Calls that are macros: they bind variables, so their arguments are not values.

use super::{Comprehension, Expr, Kind, OptionalMap, SortBy, Visit, parts::Parts};
use crate::error::Fault;

/// The target and the arguments of a call that is not a macro.
type NotOne = (Expr, Vec<Expr>);

/// The name of the variable that has the list which `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";

/// `has(operand.field)`.
pub(super) fn has(parts: &mut Parts, at: usize, argument: Expr) -> Result<Expr, Fault> {
    let position = parts.position(&argument);
    match argument.kind {
        Kind::Select { operand, field } => Ok(parts.part(at, Kind::Has { operand, field })),
        _ => Err(Fault { at: position, text: "invalid argument to has() macro".to_owned() }),
    }
}

/// The macro that a call is. The inner error: it is none.
pub(super) fn expand(parts: &mut Parts, at: usize, name: &str, target: Expr, arguments: Vec<Expr>) -> Result<Result<Expr, NotOne>, Fault> {
    let Some((visit, variables)) = visit_of(name, arguments.len()) else {
        return bind(parts, at, name, target, arguments);
    };
    let mut arguments = arguments.into_iter();
    let mut names = Vec::with_capacity(variables);
    for argument in arguments.by_ref().take(variables) {
        names.push(simple_name(parts, &argument)?);
        if let [.., one, other] = &names[..]
            && one == other
        {
            return Err(Fault { at: parts.position(&argument), text: format!("duplicate variable name: {one}") });
        }
    }
    let mut names = names.into_iter();
    let variable = names.next().unwrap_or_default();
    let mut rest: Vec<Expr> = arguments.collect();
    let last = rest.pop();
    let (filter, body) = match visit {
        Visit::Filter | Visit::ExistsOne => (last, None),
        _ => (rest.pop(), last),
    };
    let comprehension = Comprehension { visit, range: target, variable, second: names.next(), filter, body };
    Ok(Ok(parts.part(at, Kind::Comprehension(Box::new(comprehension)))))
}

/// What a macro does, and how many variables it has.
fn visit_of(name: &str, arguments: usize) -> Option<(Visit, usize)> {
    Some(match (name, arguments) {
        ("all", 2 | 3) => (Visit::All, arguments - 1),
        ("exists", 2 | 3) => (Visit::Exists, arguments - 1),
        ("exists_one", 2 | 3) | ("existsOne", 3) => (Visit::ExistsOne, arguments - 1),
        ("map", 2 | 3) => (Visit::List, 1),
        ("filter", 2) => (Visit::Filter, 1),
        ("transformList", 3 | 4) => (Visit::List, 2),
        ("transformMap", 3 | 4) => (Visit::Map, 2),
        ("transformMapEntry", 3 | 4) => (Visit::MapEntry, 2),
        _ => return None,
    })
}

/// Macros that bind one value.
fn bind(parts: &mut Parts, at: usize, name: &str, target: Expr, mut arguments: Vec<Expr>) -> Result<Result<Expr, NotOne>, Fault> {
    if arguments.len() != 2 || !matches!(name, "optMap" | "optFlatMap" | "sortBy") {
        return Ok(Err((target, arguments)));
    }
    let body = arguments.remove(1);
    let variable = simple_name(parts, &arguments[0])?;
    if name == "sortBy" {
        let range = parts.part(at, Kind::Identifier(SORTED.into()));
        let keys = Comprehension { visit: Visit::List, range, variable, second: None, filter: None, body: Some(body) };
        let keys = parts.part(at, Kind::Comprehension(Box::new(keys)));
        return Ok(Ok(parts.part(at, Kind::SortBy(Box::new(SortBy { target, keys })))));
    }
    let map = OptionalMap { target, variable, body, is_flat: name == "optFlatMap" };
    Ok(Ok(parts.part(at, Kind::OptionalMap(Box::new(map)))))
}

fn simple_name(parts: &Parts, argument: &Expr) -> Result<Box<str>, Fault> {
    match &argument.kind {
        Kind::Identifier(name) => Ok(name.clone()),
        _ => Err(Fault { at: parts.position(argument), text: "argument must be a simple name".to_owned() }),
    }
}
