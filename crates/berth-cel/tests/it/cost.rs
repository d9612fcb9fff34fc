//! The cost of an evaluation is bounded, whatever the expression and the data are.

use berth_cel::{Bindings, Budget, Declaration, Environment, EvaluationError, ListKind, Program, Value};
use serde_json::{Value as Json, json};

fn environment() -> Environment {
    Environment::new().variable("self", Declaration::dynamic()).variable("bytes", Declaration::bytes(4_000_000))
}

/// Evaluates an expression over large data.
fn result(source: &str) -> Result<bool, EvaluationError> {
    let numbers: Vec<i64> = (0..5_000).collect();
    let texts: Vec<String> = (0..2_000).map(|number| format!("text{number}")).collect();
    let deep = (0..500).fold(Json::from(1), |inner, _| Json::Array(vec![inner]));
    let text = "ab".repeat(500_000);
    let data = json!({"n": numbers, "t": texts, "s": text, "deep": deep, "deep2": deep});
    let bytes = Json::from("YWJj".repeat(500_000));
    let declaration = Declaration::bytes(4_000_000);
    let program = Program::compile(source, &environment()).unwrap_or_else(|error| panic!("{error}"));
    let variables = Bindings::new().with("self", Value::from_json(&data, None).unwrap());
    let decoded = Value::from_json(&bytes, Some(&declaration)).unwrap();
    let variables = variables.with("bytes", decoded);
    program.evaluate(&variables, &mut Budget::new(u64::MAX)).map(|value| matches!(value, Value::Bool(true)))
}

#[test]
fn expensive_expressions_end_within_their_budget() {
    let expressions = [
        "self.n.all(x, self.n.all(y, self.n.all(z, x + y + z >= 0)))",
        "self.n.map(x, self.n).size() > 0 && self.n.map(x, self.n.map(y, y)).size() > 0",
        "self.n.map(x, self.n + self.n).size() > 0",
        "self.n.all(x, self.n == self.n)",
        "self.n.all(x, self.deep == self.deep2)",
        "self.n.all(x, self == self)",
        "self.n.all(x, self.s.size() > 0)",
        "self.n.all(x, self.s.contains('zz'))",
        "self.n.all(x, self.s.matches('(a|b|ab)*c'))",
        "self.n.all(x, self.s.replace('', self.s).size() > 0)",
        "self.n.all(x, self.s.split('').size() > 0)",
        "self.n.all(x, self.s.split('a').size() > 0)",
        "self.n.all(x, (self.s + self.s).size() > 0)",
        "self.n.map(x, self.s + self.s).size() > 0",
        "self.n.all(x, self.t.join(self.s).size() > 0)",
        "self.n.all(x, '%s%s%s'.format([self.n, self.t, self.s]).size() > 0)",
        "self.n.all(x, '%s'.format([self.deep]).size() > 0)",
        "self.n.all(x, 'a'.matches('(a{100}){' + string(x % 100) + '}'))",
        "self.t.all(x, 'a'.matches(x))",
        "self.n.all(x, lists.range(100000).size() > 0)",
        "lists.range(9223372036854775807).size() > 0",
        "self.n.all(x, self.n.sort().size() > 0)",
        "self.n.distinct().size() > 0",
        "self.n.all(x, self.n.reverse().slice(0, 5000).size() > 0)",
        "self.n.all(x, sets.equivalent(self.n, self.n))",
        "self.n.all(x, x in self.n)",
        "self.n.all(x, self.n.indexOf(-1) == -1)",
        "self.n.all(x, self.n.transformMap(i, v, v).size() > 0)",
        "self.n.all(x, [self.deep].flatten().size() > 0)",
        "self.n.all(x, dyn(self.deep).flatten(9223372036854775807).size() > 0)",
        "self.n.all(x, bytes.size() > 0 && string(bytes).size() > 0)",
        "self.n.all(x, self.s.lowerAscii().upperAscii().trim().substring(1).size() > 0)",
        "self.n.all(x, self.s.indexOf('c') == -1 && self.s.lastIndexOf('c') == -1 && self.s.charAt(900000) != '')",
        "self.n.all(x, self.s.find('c') == '' && self.s.findAll('a').size() > 0)",
        "self.n.all(x, isQuantity(self.s) || isURL(self.s) || isIP(self.s) || isSemver(self.s) || !self.s.startsWith('b'))",
        "self.n.all(x, timestamp('2026-01-02T03:04:05Z').getHours('Europe/Berlin') > 0)",
        "self.n.all(x, strings.quote(self.s).size() > 0)",
        "self.n.all(x, self.n.sum() > 0 && self.n.max() > 0 && self.n.isSorted())",
        "self.n.all(x, self.n.sortBy(y, -y).size() > 0)",
    ];
    for source in expressions {
        // Each ends: what it costs before the limit takes less than a second.
        let result = result(source);
        // Most of them cannot finish.
        if source.contains("self.n.all(x, self.") && source.contains("size() > 0)") {
            assert!(matches!(result, Err(EvaluationError::CallCost | EvaluationError::Failed(_))), "{source}: {result:?}");
        }
    }
}

#[test]
fn costs_are_those_of_upstream() {
    let cases = [
        ("1 + 2 == 3", 2),
        ("self.x == 1", 3),
        ("has(self.x)", 1),
        ("[1, 2].all(x, x > 0)", 10 + 2 * (3 + 2) + 1),
        ("[1, 2].exists(x, x > 1)", 10 + 2 * (4 + 2) + 1),
        ("[1, 2].map(x, x).size() == 2", 10 + 10 + 2 * (12 + 1) + 1 + 1 + 1),
        ("'abcdefghijkl'.startsWith('a')", 2),
        ("'abc'.matches('a+')", 1),
        ("{'a': 1}.size() == 1", 30 + 1 + 1),
    ];
    let data = json!({"x": 1});
    for (source, cost) in cases {
        let program = Program::compile(source, &environment()).unwrap();
        let mut budget = Budget::new(1_000);
        let variables = Bindings::new().with("self", Value::from_json(&data, None).unwrap());
        program.evaluate(&variables, &mut budget).unwrap();
        assert_eq!(1_000 - budget.left(), cost, "{source}");
    }
}

#[test]
fn a_budget_is_shared_by_evaluations() {
    let program = Program::compile("[1, 2].all(x, x > 0)", &environment()).unwrap();
    let mut budget = Budget::new(50);
    assert!(program.evaluate(&Bindings::new(), &mut budget).is_ok());
    assert!(program.evaluate(&Bindings::new(), &mut budget).is_ok());
    assert_eq!(program.evaluate(&Bindings::new(), &mut budget).unwrap_err(), EvaluationError::OutOfBudget);
    assert_eq!(budget.left(), 0);
    assert_eq!(program.evaluate(&Bindings::new(), &mut budget).unwrap_err(), EvaluationError::OutOfBudget);
}

#[test]
fn deep_and_long_expressions_are_rejected() {
    let environment = environment();
    let nested = |open: &str, inner: &str, close: &str, count: usize| format!("{}{inner}{}", open.repeat(count), close.repeat(count));
    for (source, is) in [
        (nested("(", "true", ")", 200), true),
        (nested("(", "true", ")", 300), false),
        (nested("(", "true", ")", 40_000), false),
        (nested("[", "1", "]", 300), false),
        (nested("!", "true", "", 50_000), true),
        (vec!["true"; 10_000].join(" && "), true),
        (vec!["1"; 300].join(" + ") + " == 300", false),
        (format!("self{} == 1", ".a".repeat(300)), false),
        (nested("[1].all(x, ", "true", ")", 300), false),
        (nested("true ? true : ", "true", "", 300), false),
        (format!("'{}' == ''", "a".repeat(100_000)), false),
    ] {
        let shown: String = source.chars().take(40).collect();
        assert_eq!(Program::compile(&source, &environment).is_ok(), is, "{shown}");
    }
    // The type doubles with each step.
    let source = format!("optional.of(1){}.hasValue()", ".optMap(x, {x: x})".repeat(30));
    let error = Program::compile(&source.replace("{x: x}", "{'a': [x], 'b': [x]}"), &environment).map(|_| ());
    assert!(error.is_ok(), "{error:?}");
}

#[test]
fn the_estimate_uses_the_bounds_of_the_data() {
    let estimate = |elements: Option<u64>| {
        let list = Declaration::list(Declaration::string(40), ListKind::Atomic, elements);
        let environment = Environment::new().variable("self", list);
        Program::compile("self.all(x, x == 'abcdefghijkl')", &environment).unwrap().estimated_cost()
    };
    // Each round: the variable, the comparison of twelve characters, and the loop itself.
    assert_eq!(estimate(Some(10)), 1 + 10 * (3 + 1 + 2) + 1);
    assert!(1_000_000 < estimate(None));
}
