//! The vectors are answers of a real Kubernetes 1.36.2: definitions with these rules and objects of them were posted to it.

use crate::Structural;
use berth_api::{FieldError, Path};
use serde_json::{Value, json};
use std::fmt::Write;

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).expect("vectors")
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().expect("a list")
}

/// A schema of objects whose `spec` is of the other schema, with one rule.
fn with_rule(spec: &Value, rule: &Value) -> Result<Structural, Vec<FieldError>> {
    let mut spec = spec.clone();
    spec["x-kubernetes-validations"] = json!([{"rule": rule, "message": "false"}]);
    Structural::read(&json!({"type": "object", "properties": {"spec": spec}}), &Path::new("schema"))
}

/// The fault of a definition without the rule that it shows.
fn without_rule(fault: &FieldError) -> String {
    let message = fault.message();
    let shown = message.strip_prefix("Invalid value: {").and_then(|rest| rest.split_once("}: "));
    shown.map(|(_, detail)| detail.to_owned()).unwrap_or(message)
}

/// Texts of upstream's parser generator and of Go's regular expressions are not reproduced.
fn is_worded_otherwise(text: &str) -> bool {
    ["Syntax error", "error parsing regexp"].iter().any(|word| text.contains(word))
}

/// Another version of the server can have accepted it.
#[test]
fn a_stored_rule_that_cannot_be_compiled_is_a_fault_of_each_object() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self >"}]}}});
    let read = Structural::read_valid(&schema, &Path::new("schema")).expect("its rules are not checked");
    let faults: Vec<String> = read.validate(&json!({"a": "x"}), None).iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 1);
    assert!(faults[0].starts_with("a: Invalid value: \"string\": rule compile error: "), "{}", faults[0]);
    assert_eq!(read.validate(&json!({}), None), []);
}

#[test]
fn rules_have_the_results_and_the_faults_of_a_real_server() {
    let vectors = vectors(include_str!("vectors.json"));
    let mut wrong = String::new();
    for case in list(&vectors, "rules") {
        let expected = match (case["error"].as_str(), case["fails"][0].as_str()) {
            (Some(text), _) | (None, Some(text)) => text.to_owned(),
            (None, None) => case["is"].to_string(),
        };
        let found = match with_rule(&vectors["schema"], &case["rule"]) {
            Err(faults) => without_rule(&faults[0]),
            Ok(schema) => match schema.validate(&json!({"spec": vectors["object"]}), None).first().map(FieldError::message) {
                None => "true".to_owned(),
                Some(message) if message == "Invalid value: false" => "false".to_owned(),
                Some(message) => message,
            },
        };
        let kind = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
        let is_equal = found == expected || is_worded_otherwise(&expected) && kind(&found) == kind(&expected);
        if !is_equal {
            let _ = writeln!(wrong, "{}\n  expected {expected}\n  found    {found}", case["rule"]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn estimated_costs_are_those_of_a_real_server() {
    let vectors = vectors(include_str!("costs.json"));
    let mut wrong = String::new();
    for case in list(&vectors, "cases") {
        let is_same = |schema: &&Value| schema["items"] == case["items"] && schema["length"] == case["length"];
        let mut element = list(&vectors, "schemas").iter().find(is_same).expect("known")["schema"].clone();
        element["x-kubernetes-validations"] = json!([{"rule": case["rule"]}]);
        let spec = json!({"type": "array", "maxItems": case["count"], "items": element});
        let read = Structural::read(&json!({"type": "object", "properties": {"spec": spec}}), &Path::new("schema"));
        let faults: Vec<String> = read.err().into_iter().flatten().map(|fault| fault.message()).collect();
        let factor = faults.iter().find_map(|fault| fault.strip_prefix("Forbidden: estimated rule cost exceeds budget by factor of "));
        let factor = factor.and_then(|rest| rest.split(" (try").next()).unwrap_or_default();
        if Some(factor) != case["factor"].as_str() {
            let _ = writeln!(wrong, "{case}: found {factor}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn updates_are_judged_as_by_a_real_server() {
    let vectors = vectors(include_str!("updates.json"));
    let schema = Structural::read(&vectors["schema"], &Path::new("schema")).expect("a schema");
    let object = |spec: &Value| json!({"apiVersion": "e.io/v1", "kind": "A", "metadata": {"name": "thename"}, "spec": spec});
    for case in list(&vectors, "cases") {
        let old = Some(&case["old"]).filter(|old| !old.is_null()).map(object);
        let mut faults: Vec<String> = schema.validate(&object(&case["new"]), old.as_ref()).iter().map(ToString::to_string).collect();
        faults.sort();
        assert_eq!(json!(faults), case["faults"], "{} to {}", case["old"], case["new"]);
    }
}

#[test]
fn faults_of_definitions_name_the_member_of_the_rule() {
    let rules = json!([
        {"rule": "   "},
        {"rule": "true", "message": " "},
        {"rule": "true", "messageExpression": " "},
        {"rule": "true", "reason": "Foo"},
        {"rule": "true", "fieldPath": " "},
        {"rule": "true", "fieldPath": ".b"},
        {"rule": "true", "message": "a\nb"},
        {"rule": "true\n"},
        {"rule": "true||\ntrue"},
        {"rule": "true", "fieldPath": ".a"},
    ]);
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": rules});
    let faults = Structural::read(&json!({"type": "object", "properties": {"spec": spec}}), &Path::new("s")).expect_err("faults");
    let at = "s.properties[spec].x-kubernetes-validations";
    let expected = [
        "[0].rule: Required value: rule is not specified",
        "[1].message: Invalid value: \" \": must be non-empty if specified",
        "[2].messageExpression: Required value: messageExpression must be non-empty if specified",
        "[3].reason: Unsupported value: \"Foo\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        "[4].fieldPath: Invalid value: \" \": must be non-empty if specified",
        "[4].fieldPath: Invalid value: \" \": must be a valid path",
        "[5].fieldPath: Invalid value: \".b\": must be a valid path",
        "[6].message: Invalid value: \"a\\nb\": must not contain line breaks",
        "[8].message: Required value: message must be specified if rule contains line breaks",
    ];
    let expected: Vec<String> = expected.iter().map(|fault| format!("{at}{fault}")).collect();
    assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

#[test]
fn faults_of_definitions_have_the_words_of_a_real_server() {
    let faults = |spec: Value| -> Vec<String> {
        let read = Structural::read(&json!({"type": "object", "properties": {"spec": spec}}), &Path::new("s"));
        read.err().into_iter().flatten().map(|fault| fault.to_string()).collect()
    };
    let unused = json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": true}]});
    let at = "s.properties[spec].x-kubernetes-validations[0]";
    assert_eq!(faults(unused), [format!("{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule")]);

    let rule = json!([{"rule": "self.b == oldSelf.b"}]);
    let items = json!({"type": "object", "properties": {"b": {"type": "integer"}}, "x-kubernetes-validations": rule});
    let found = faults(json!({"type": "object", "properties": {"a": {"type": "array", "maxItems": 3, "items": items}}}));
    let list = "s.properties[spec].properties[a]";
    let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
    assert_eq!(found, [format!("{list}.items.x-kubernetes-validations[0].rule: Invalid value: \"self.b == oldSelf.b\": {why}")]);

    let unknown = json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "self == 1"}]});
    let found = faults(json!({"type": "object", "properties": {"a": unknown}}));
    let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
    assert_eq!(found, [format!("{list}.x-kubernetes-validations: Internal error: {why}")]);

    let in_part =
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]});
    assert_eq!(faults(in_part), ["s.properties[spec].allOf[0].x-kubernetes-validations: Forbidden: must be empty to be structural"]);
}

#[test]
fn a_schema_as_a_whole_is_bounded() {
    let item = json!({"type": "string", "maxLength": 64, "x-kubernetes-validations": [{"rule": "self.matches('^a*$')"}]});
    let list = |count: usize| json!({"type": "array", "maxItems": count, "items": item});
    let read = |spec: Value| Structural::read(&json!({"type": "object", "properties": {"spec": spec}}), &Path::new("s"));
    assert!(read(list(1_000)).is_ok());
    let properties: serde_json::Map<String, Value> = (0..20).map(|number| (format!("p{number}"), list(350_000))).collect();
    let faults = read(json!({"type": "object", "properties": properties})).expect_err("too expensive");
    let named = faults.iter().filter(|fault| fault.detail.starts_with("contributed to estimated rule cost total")).count();
    assert_eq!(named, 4);
    let last = faults.last().expect("one").to_string();
    assert!(
        last.starts_with(
            "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 1."
        ),
        "{last}"
    );
}

#[test]
fn rules_are_not_evaluated_where_a_value_has_the_wrong_type() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let schema = with_rule(&spec, &json!("self.a == 'x'")).expect("a schema");
    let faults: Vec<String> = schema.validate(&json!({"spec": {"a": 1}}), None).iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "spec.a: Invalid value: \"integer\": spec.a in body must be of type string: \"integer\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
}

#[test]
fn the_rules_about_an_object_share_a_budget() {
    let item =
        json!({"type": "integer", "x-kubernetes-validations": [{"rule": "[1, 2, 3, 4, 5].all(x, [1, 2, 3, 4, 5].all(y, x + y > self))"}]});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "array", "maxItems": 30_000, "items": item}}});
    let schema = Structural::read(&schema, &Path::new("s")).expect("a schema");
    let short = json!({"spec": vec![0; 100]});
    assert_eq!(schema.validate(&short, None), []);
    let mut rules = super::evaluate::faults_within(10_000, &schema, &short, None);
    let last = rules.pop().expect("one").to_string();
    assert!(last.ends_with("validation failed due to running out of cost budget, no further validation rules will be run"), "{last}");
    assert_eq!(rules, []);
}
