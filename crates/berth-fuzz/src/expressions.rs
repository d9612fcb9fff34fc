//! Expressions of rules and policies, which users write, over data that users send: no panic, no more than the budget, and the same result twice.

use crate::objects::any_scalar;
use arbitrary::{Result, Unstructured};
use berth_cel::{Bindings, Budget, CALL_COST_MAX, Declaration, Environment, Field, ListKind, Program, Value};
use serde_json::{Map, Value as Json};

/// Parts of expressions, so that many inputs compile.
const WORDS: &[&str] = &[
    "self",
    "self.a",
    "self.b",
    "self.list",
    "self.map",
    "x",
    "y",
    "0",
    "1",
    "-1",
    "2.5",
    "3u",
    "'a'",
    "''",
    "b'a'",
    "true",
    "false",
    "null",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    "?",
    " && ",
    " || ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    "!",
    " in ",
    ".all(x, ",
    ".exists(y, ",
    ".exists_one(x, ",
    ".map(x, ",
    ".filter(y, ",
    ".transformMap(i, x, ",
    ".transformList(i, x, ",
    ".sortBy(x, ",
    ".size()",
    ".contains(",
    ".matches(",
    ".find(",
    ".findAll(",
    ".split(",
    ".join(",
    ".replace(",
    ".substring(",
    ".format(",
    ".sum()",
    ".max()",
    ".?a",
    "[?0]",
    "[0]",
    ".orValue(",
    ".value()",
    ".optMap(x, ",
    "optional.of(",
    "optional.none()",
    "has(",
    "type(",
    "string(",
    "int(",
    "dyn(",
    "duration(",
    "timestamp(",
    "quantity(",
    "ip(",
    "cidr(",
    "url(",
    "semver(",
    "sets.contains(",
    "lists.range(",
    ".flatten(",
    ".distinct()",
    ".sort()",
    "format.dns1123Label()",
    ".validate(",
    "strings.quote(",
    "Object{a: ",
    "'%s %d'",
    "'(a|b)*'",
    "'2026-01-02T03:04:05Z'",
    "'1h'",
];
/// How many words an expression has at most.
const WORDS_MAX: usize = 40;

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let count = u.int_in_range(1..=WORDS_MAX)?;
    let mut source = String::new();
    for _ in 0..count {
        source.push_str(u.choose(WORDS)?);
    }
    if u.ratio(1, 8)? {
        source.push_str(u.arbitrary()?);
    }
    let declaration = if u.arbitrary()? { Declaration::dynamic() } else { typed() };
    let environment = Environment::new().variable("self", declaration.clone()).constructed("Object");
    let Ok(program) = Program::compile(&source, &environment) else { return Ok(()) };
    let data = object(u)?;
    let Ok(value) = Value::from_json(&data, Some(&declaration)) else { return Ok(()) };
    let variables = Bindings::new().with("self", value);
    let evaluate = || {
        let mut budget = Budget::new(CALL_COST_MAX);
        let result = program.evaluate(&variables, &mut budget).and_then(|value| value.to_json(&mut budget));
        (result, budget)
    };
    assert_eq!(evaluate(), evaluate(), "{source} of {data}");
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}

fn typed() -> Declaration {
    let text = || Declaration::string(20);
    let list = |kind| Declaration::list(text(), kind, Some(5));
    Declaration::object([
        Field::new("a", text(), true),
        Field::new("b", Declaration::int().nullable(), false),
        Field::new("list", list(ListKind::Set), false),
        Field::new("map", Declaration::map(Declaration::int_or_string(20), Some(5)), false),
    ])
}

fn object(u: &mut Unstructured<'_>) -> Result<Json> {
    let mut members = Map::new();
    for name in ["a", "b"] {
        members.insert(name.to_owned(), any_scalar(u)?);
    }
    let list: Result<Vec<Json>> = (0..u.int_in_range(0..=4)?).map(|_| any_scalar(u)).collect();
    members.insert("list".to_owned(), list?.into());
    let mut map = Map::new();
    for name in ["a", "x-y"] {
        map.insert(name.to_owned(), any_scalar(u)?);
    }
    members.insert("map".to_owned(), map.into());
    Ok(members.into())
}
