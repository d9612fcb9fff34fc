//! Rules in the Common Expression Language for a generated schema. They suit its types, except for a few.

use super::Care;
use crate::draw::Draw;
use serde_json::{Value, json};

/// Rules that do not suit, or that are none.
const WRONG: [&str; 10] =
    ["", " ", "self >", "1", "self.nothing", "self + 'a' == 1", "unknown(self)", "oldself == self", "'a'.matches('(')", "self == null"];
/// Formats of texts that are not strings in expressions.
const TYPED_FORMATS: [&str; 4] = ["byte", "duration", "date", "date-time"];

/// Adds rules to some parts of a schema.
pub(super) fn add(draw: &mut Draw, schema: &mut Value, care: Care) {
    let in_list = schema["items"].is_object();
    for name in ["items", "additionalProperties"] {
        if schema[name].is_object() {
            add(draw, &mut schema[name], care);
        }
    }
    for part in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|parts| parts.values_mut()) {
        add(draw, part, care);
    }
    if draw.percent(if in_list { 30 } else { 20 }) {
        let rules: Vec<Value> = (0..=draw.below(2)).map(|_| rule(draw, schema, care)).collect();
        schema["x-kubernetes-validations"] = rules.into();
    }
}

fn rule(draw: &mut Draw, schema: &Value, care: Care) -> Value {
    let is_wrong = care != Care::Valid && draw.percent(8);
    let mut rule = json!({"rule": if is_wrong { (*draw.pick(&WRONG)).to_owned() } else { condition(draw, schema, "self", 2) }});
    if draw.percent(40) {
        rule["message"] = json!(draw.pick(&["must hold", " trimmed ", "a", "two\nlines"][..if care == Care::Valid { 3 } else { 4 }]));
    }
    if draw.percent(15) {
        let expressions = ["'must be ' + string(1 + 1)", "'' + ''", "self == self ? 'one' : 'other'", "1", "'a' +", "self.nothing"];
        rule["messageExpression"] = json!(draw.pick(&expressions[..if care == Care::Valid { 3 } else { 6 }]));
    }
    if draw.percent(15) {
        rule["reason"] = json!(draw.pick(&["FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "FieldValueInvalid"]));
    }
    if draw.percent(10) {
        rule["fieldPath"] = json!(draw.pick(&[".a", ".b.c", "['x-y']", "a", ".spec.a", ".a[0]", " "]));
    }
    if draw.percent(10) {
        rule["optionalOldSelf"] = json!(draw.percent(70));
        rule["rule"] = json!("oldSelf.hasValue() ? self == oldSelf.value() : true");
    }
    rule
}

/// A condition about the value of `schema` that the expression `at` reads.
fn condition(draw: &mut Draw, schema: &Value, at: &str, depth: usize) -> String {
    if depth > 0 && draw.percent(25) {
        let [one, other] = [0; 2].map(|_| condition(draw, schema, at, depth - 1));
        return match draw.below(4) {
            0 => format!("({one}) && ({other})"),
            1 => format!("({one}) || ({other})"),
            2 => format!("!({one})"),
            _ => format!("({one}) ? ({other}) : true"),
        };
    }
    if at == "self" && draw.percent(12) {
        return (*draw.pick(&["self == oldSelf", "oldSelf != self", "self == oldSelf || true"])).to_owned();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return format!("type({at}) == int ? {at} < 3 : size(string({at})) < 3");
    }
    let choices: Vec<String> = match schema["type"].as_str().unwrap_or_default() {
        "string" if schema["format"].as_str().is_some_and(|format| TYPED_FORMATS.contains(&format)) => vec![format!("{at} == {at}")],
        "string" => [".size() < 3", " == 'a'", ".startsWith('a')", ".matches('^[a-z]*$')", ".contains('1')", " in ['a', 'b']", ".isIP()"]
            .map(|test| format!("{at}{test}"))
            .to_vec(),
        "integer" => [" < 3", " % 2 == 0", " + 1 > 0", " in [1, 2, 3]", " / 2 != 1"].map(|test| format!("{at}{test}")).to_vec(),
        "number" => [" < 1.5", " * 2.0 >= 1.0", " <= 1", " == 2.0"].map(|test| format!("{at}{test}")).to_vec(),
        "boolean" => vec![at.to_owned(), format!("!{at}"), format!("{at} == true")],
        "array" => list(draw, schema, at, depth),
        "object" => object(draw, schema, at, depth),
        _ => vec!["true".to_owned()],
    };
    draw.pick(&choices).clone()
}

fn list(draw: &mut Draw, schema: &Value, at: &str, depth: usize) -> Vec<String> {
    let mut choices = vec![format!("{at}.size() < 3"), format!("size({at}) != 1"), format!("{at} == {at}")];
    if depth > 0 && is_readable(&schema["items"]) {
        let element = format!("x{depth}");
        let of_element = condition(draw, &schema["items"], &element, depth - 1);
        for word in ["all", "exists", "exists_one"] {
            choices.push(format!("{at}.{word}({element}, {of_element})"));
        }
        choices.push(format!("{at}.filter({element}, {of_element}).size() < 2"));
        choices.push(format!("{at}.map({element}, {of_element}).size() == {at}.size()"));
    }
    choices
}

fn object(draw: &mut Draw, schema: &Value, at: &str, depth: usize) -> Vec<String> {
    let values = &schema["additionalProperties"];
    if values.is_object() {
        let mut choices = vec![format!("'a' in {at}"), format!("{at}.size() < 2")];
        if depth > 0 && is_readable(values) {
            let key = format!("k{depth}");
            let of_value = condition(draw, values, &format!("{at}[{key}]"), depth - 1);
            choices.push(format!("{at}.all({key}, {of_value})"));
            choices.push(format!("{at}.exists({key}, {key} == 'a' && ({of_value}))"));
        }
        return choices;
    }
    let properties: Vec<(&String, &Value)> =
        schema["properties"].as_object().into_iter().flatten().filter(|(_, part)| is_readable(part)).collect();
    if properties.is_empty() {
        return vec!["true".to_owned(), format!("{at} == {at}")];
    }
    let (name, part) = *draw.pick(&properties);
    let field = format!("{at}.{}", name.replace('-', "__dash__"));
    if depth == 0 {
        return vec![format!("has({field})"), format!("!has({field})")];
    }
    let of_part = condition(draw, part, &field, depth - 1);
    vec![format!("has({field})"), format!("!has({field}) || ({of_part})"), format!("has({field}) && ({of_part})"), of_part]
}

/// Whether expressions can read a value of the schema.
fn is_readable(schema: &Value) -> bool {
    schema["x-kubernetes-int-or-string"] == true
        || match schema["type"].as_str().unwrap_or_default() {
            "array" => is_readable(&schema["items"]),
            "object" => !schema["additionalProperties"].is_object() || is_readable(&schema["additionalProperties"]),
            "string" | "integer" | "number" | "boolean" => true,
            _ => false,
        }
}
