//! What callers can do besides rules: dynamic data, values that are made late, functions of their own, constructed objects, an authorizer.

use berth_cel::{
    Access, Authorize, Bindings, Budget, Declaration, Environment, EvaluationError, Field, Fields, OBJECT_COST_MAX, Program, Type, Value,
    Verdict,
};
use serde_json::{Value as Json, json};
use std::{cell::Cell, rc::Rc, sync::Arc};

const TEXT_MAX: u64 = 100;

/// The value of an expression as JSON, or its error.
fn value(source: &str, environment: &Environment, variables: &Bindings<'_>) -> Result<Json, String> {
    let program = Program::compile(source, environment).map_err(|error| error.to_string())?;
    let budget = &mut Budget::new(OBJECT_COST_MAX);
    // The program lives as long as the variables.
    let program: &'static Program = Box::leak(Box::new(program));
    let found = program.evaluate(variables, budget).map_err(|error| error.to_string())?;
    found.to_json(budget).map_err(|error| error.to_string())
}

#[test]
fn dynamic_data_is_checked_during_evaluation() {
    let environment = Environment::new().variable("object", Declaration::dynamic());
    let data = json!({"spec": {"replicas": 3, "name": "a", "list": [1, 2.5, "x"], "namespace": "n", "nil": null}});
    let data: &'static Json = Box::leak(Box::new(data));
    let variables = Bindings::new().with("object", Value::from_json(data, None).unwrap());
    let cases = [
        ("object.spec.replicas + 1", Ok(json!(4))),
        ("object.spec.name + object.spec.namespace", Ok(json!("an"))),
        ("object.spec.list.map(x, type(x) == int)", Ok(json!([true, false, false]))),
        ("has(object.spec.missing) ? 1 : 2", Ok(json!(2))),
        ("has(object.spec.nil)", Ok(json!(true))),
        ("object.spec.nil == null", Ok(json!(true))),
        ("object.?spec.?missing.orValue('none')", Ok(json!("none"))),
        ("object.spec.missing", Err("no such key: missing")),
        ("object.spec.name + 1", Err("no such overload")),
        ("object.spec", Ok(data["spec"].clone())),
        ("object.spec.all(k, k != 'z')", Ok(json!(true))),
    ];
    for (source, expected) in cases {
        assert_eq!(value(source, &environment, &variables), expected.map_err(str::to_owned), "{source}");
    }
}

/// Counts how often a field is made.
#[derive(Debug)]
struct Counted(Cell<u32>);

impl<'a> Fields<'a> for Counted {
    fn field(&self, name: &str, budget: &mut Budget) -> Option<Result<Value<'a>, EvaluationError>> {
        self.0.set(self.0.get() + 1);
        match name {
            "count" => Some(budget.spend(10).map(|()| Value::Int(i64::from(self.0.get())))),
            "wrong" => Some(Err(EvaluationError::failed("it has no value"))),
            _ => None,
        }
    }
}

#[test]
fn values_are_made_only_when_they_are_read() {
    let fields = [Field::new("count", Declaration::int(), false), Field::new("wrong", Declaration::dynamic(), false)];
    let environment = Environment::new().variable("variables", Declaration::object(fields)).variable("on", Declaration::bool());
    let counted = Rc::new(Counted(Cell::new(0)));
    let variables = |on: bool| Bindings::new().with("variables", Value::Fields(counted.clone())).with("on", Value::Bool(on));
    assert_eq!(value("on ? variables.wrong : 5", &environment, &variables(false)), Ok(json!(5)));
    assert_eq!(counted.0.get(), 0);
    assert_eq!(value("variables.count > 0 || variables.wrong", &environment, &variables(true)), Ok(json!(true)));
    assert_eq!(counted.0.get(), 1);
    assert_eq!(value("variables.wrong", &environment, &variables(true)), Err("it has no value".to_owned()));
    let error = Program::compile("variables.other", &environment).unwrap_err().to_string();
    assert_eq!(error, "compilation failed: ERROR: <input>:1:10: undefined field 'other'\n | variables.other\n | .........^");
}

#[test]
fn callers_add_functions() {
    let double: berth_cel::Evaluate = Arc::new(|arguments, budget| {
        budget.spend(3)?;
        match arguments {
            [Value::Int(number)] => Ok(Value::Int(number * 2)),
            _ => Err(EvaluationError::failed("no number")),
        }
    });
    let environment = Environment::new().function("twice", "int_twice", true, vec![Type::Int], Type::Int, double);
    assert_eq!(value("(4).twice() + 1", &environment, &Bindings::new()), Ok(json!(9)));
    let error = value("'a'.twice()", &environment, &Bindings::new()).unwrap_err();
    assert!(error.contains("found no matching overload for 'twice' applied to 'string.()'"), "{error}");
}

#[test]
fn objects_and_patches_are_constructed() {
    let environment = Environment::new().constructed("Object").patches().variable("name", Declaration::string(TEXT_MAX));
    let variables = Bindings::new().with("name", Value::from("a/b"));
    let cases = [
        (
            "Object{spec: Object.spec{replicas: 3, template: Object.spec.template{name: name}}}",
            json!({"spec": {"replicas": 3, "template": {"name": "a/b"}}}),
        ),
        (
            "[JSONPatch{op: 'add', path: '/labels/' + jsonpatch.escapeKey(name), value: Object{a: 1}}]",
            json!([{"op": "add", "path": "/labels/a~1b", "value": {"a": 1}}]),
        ),
        ("Object{?a: optional.none(), b__dash__c: 1}", json!({"b-c": 1})),
    ];
    for (source, expected) in cases {
        assert_eq!(value(source, &environment, &variables), Ok(expected), "{source}");
    }
    let program = Program::compile("Object.spec{}", &environment).unwrap();
    assert_eq!(program.output().to_string(), "Object.spec");
    assert!(Program::compile("Other{}", &environment).is_err());
    assert!(Program::compile("jsonpatch.escapeKey('a')", &Environment::new()).is_err());
}

/// Allows one question.
#[derive(Debug)]
struct OnlyGet;

impl Authorize for OnlyGet {
    fn authorize(&self, access: &Access) -> Verdict {
        let is_allowed = access.verb == "get" && access.resource == "pods" && access.namespace == "a" && access.service_account.is_none();
        let is_allowed = is_allowed || access.path.as_deref() == Some("/healthz");
        Verdict { is_allowed, reason: format!("{:?}", access.group), error: None }
    }
}

#[test]
fn expressions_ask_an_authorizer() {
    let environment = Environment::new().variable("authorizer", Declaration::authorizer());
    let variables = Bindings::new().with("authorizer", Value::authorizer(Rc::new(OnlyGet)));
    let cases = [
        ("authorizer.group('').resource('pods').namespace('a').check('get').allowed()", Ok(json!(true))),
        ("authorizer.group('').resource('pods').namespace('b').check('get').allowed()", Ok(json!(false))),
        ("authorizer.serviceAccount('a', 'b').group('').resource('pods').namespace('a').check('get').allowed()", Ok(json!(false))),
        ("authorizer.path('/healthz').check('get').allowed()", Ok(json!(true))),
        ("authorizer.group('apps').resource('deployments').check('get').reason()", Ok(json!("\"apps\""))),
        ("authorizer.group('').resource('pods').check('get').errored()", Ok(json!(false))),
        ("[1, 2, 3].all(x, authorizer.path('/healthz').check('get').allowed())", Err("operation cancelled: actual cost limit exceeded")),
    ];
    for (source, expected) in cases {
        assert_eq!(value(source, &environment, &variables), expected.map_err(str::to_owned), "{source}");
    }
}

#[test]
fn a_program_names_the_variables_that_it_reads() {
    let environment = Environment::new().variable("self", Declaration::dynamic()).variable("oldSelf", Declaration::dynamic());
    let program = Program::compile("self.a == 1 || [1].all(oldSelf, oldSelf == 1)", &environment).unwrap();
    assert!(program.reads("self") && !program.reads("oldSelf"));
    assert!(Program::compile("oldSelf == self", &environment).unwrap().reads("oldSelf"));
}
