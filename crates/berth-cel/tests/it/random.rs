//! Any text: no panic, and no more than the budget.

use berth_cel::{Bindings, Budget, Declaration, Environment, Program, Value};
use proptest::prelude::*;
use serde_json::json;

/// Parts of expressions, so that many of the random ones compile.
const WORDS: &[&str] = &[
    "self",
    "self.s",
    "self.n",
    "self.l",
    "self.m",
    "x",
    "1",
    "2.5",
    "3u",
    "'a'",
    "b'a'",
    "true",
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
    "&&",
    "||",
    "==",
    "!=",
    "<",
    "<=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    " in ",
    ".all(x, ",
    ".exists(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".size()",
    ".contains(",
    ".matches(",
    ".?a",
    "[?0]",
    ".orValue(",
    "has(",
    "type(",
    "string(",
    "int(",
    "dyn(",
    ".split(",
    ".join(",
    ".sum()",
    "quantity(",
    "ip(",
    "url(",
    "optional.of(",
    ".value()",
    ".transformMap(i, x, ",
    ".sortBy(x, ",
    "sets.contains(",
    ".format(",
    "r'\\d'",
];

fn run(source: &str) {
    let environment = Environment::new().variable("self", Declaration::dynamic());
    let Ok(program) = Program::compile(source, &environment) else { return };
    let data = json!({"s": "text", "n": 3, "l": [1, "a", null, [2]], "m": {"a": 1.5, "b": {"c": true}}});
    let variables = Bindings::new().with("self", Value::from_json(&data, None).unwrap());
    let mut budget = Budget::new(1_000_000);
    if let Ok(value) = program.evaluate(&variables, &mut budget) {
        let _ = value.to_json(&mut budget);
    }
}

proptest! {
    #[test]
    fn no_expression_panics(words in prop::collection::vec(prop::sample::select(WORDS), 0..24)) {
        run(&words.concat());
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        run(&text);
    }
}
