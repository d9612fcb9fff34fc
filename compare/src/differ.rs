//! How two answers differ.

use crate::served::Answer;
use berth_api::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeSet;

/// One difference of two answers.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// What is alike of all differences of this sort: no numbers, names or places in lists.
    pub(crate) class: String,
    pub(crate) theirs: String,
    pub(crate) ours: String,
}

/// Compares normal bodies, status and warnings.
pub(crate) fn compare(theirs: &Answer, ours: &Answer) -> Vec<Difference> {
    if let Some(difference) = cut_number(theirs, ours) {
        return vec![difference];
    }
    if theirs.status != ours.status {
        return vec![status(theirs, ours)];
    }
    let mut differences = warnings(theirs, ours);
    if theirs.is_good() {
        bodies(&theirs.body, &ours.body, &mut String::new(), &mut differences);
    } else {
        differences.extend(refusals(&theirs.body, &ours.body));
    }
    differences
}

/// Where ours refuses a number that its field has no room for, and theirs continues with the bits that fit: their answer concerns another number.
fn cut_number(theirs: &Answer, ours: &Answer) -> Option<Difference> {
    let message = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
    let has_no_room = !ours.is_good() && ["invalid value: integer `", "`, expected i32"].iter().all(|part| message(ours).contains(part));
    let is_cut = has_no_room && !message(theirs).contains("cannot unmarshal number");
    let class = format!("number without room: {} → {}", theirs.status, ours.status);
    is_cut.then(|| Difference { class, theirs: summary(theirs), ours: summary(ours) })
}

fn status(theirs: &Answer, ours: &Answer) -> Difference {
    let refusal = if theirs.is_good() { ours } else { theirs };
    let why = first_fault(&refusal.body);
    let class = format!("status {} → {}: {}", theirs.status, ours.status, general(&why));
    Difference { class, theirs: summary(theirs), ours: summary(ours) }
}

fn summary(answer: &Answer) -> String {
    let text = if answer.is_good() { "accepted" } else { answer.body["message"].as_str().unwrap_or_default() };
    format!("{} {text}", answer.status)
}

/// Field, reason and text of the first cause; else the message.
fn first_fault(status: &Value) -> String {
    match status.pointer("/details/causes/0") {
        Some(cause) => cause_text(cause),
        None => status["message"].as_str().unwrap_or_default().to_owned(),
    }
}

fn cause_text(cause: &Value) -> String {
    let text = |field: &str| cause[field].as_str().unwrap_or_default();
    let message = without_objects(text("message"));
    let message = if text("field") == "patch" { without_patched(&message) } else { message };
    format!("{} {}: {message}", text("field"), text("reason"))
}

/// The message about a JSON or merge patch without the JSON that it shows: docs/deviations.md lists that upstream shows the object as patched. Strategic
/// patches are shown in another form, and compared.
fn without_patched(message: &str) -> String {
    const HEAD: &str = "Invalid value: \"";
    let shown = message.strip_prefix(HEAD).filter(|shown| shown.starts_with(['{', '[']));
    let Some(shown) = shown else { return message.to_owned() };
    let mut is_escaped = false;
    let end = shown.find(|letter| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    });
    end.map_or_else(|| message.to_owned(), |end| format!("{HEAD}…{}", &shown[end..]))
}

/// The causes in their order. docs/deviations.md lists that upstream finds some of an update several times.
fn causes(status: &Value) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten().map(cause_text);
    all.filter(|text| seen.insert(text.clone())).collect()
}

/// A message without the objects that it shows, which upstream prints with the names of Go, and without the difference of two objects below it.
fn without_objects(message: &str) -> String {
    let first_line =
        message.split('\n').next().unwrap_or_default().replace(" value: null:", " value: {}:").replace(" value: []:", " value: {}:");
    let (mut shown, mut depth, mut is_quoted, mut is_escaped) = (String::new(), 0_usize, false, false);
    for letter in first_line.chars() {
        match letter {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '{' if !is_quoted => depth += 1,
            _ => (),
        }
        is_escaped = letter == '\\' && !is_escaped;
        if depth == 0 {
            shown.push(letter);
        }
        if letter == '}' && !is_quoted && depth > 0 {
            depth -= 1;
            shown.push_str(if depth == 0 { "{…}" } else { "" });
        }
    }
    shown
}

fn warnings(theirs: &Answer, ours: &Answer) -> Vec<Difference> {
    if theirs.warnings == ours.warnings {
        return Vec::new();
    }
    lists(if theirs.is_good() { "warning" } else { "warning of a refusal" }, &theirs.warnings, &ours.warnings)
}

/// Texts that only one of them has; else their order.
fn lists(what: &str, theirs: &[String], ours: &[String]) -> Vec<Difference> {
    let lacks = |these: &[String], those: &[String]| those.iter().filter(|text| !these.contains(text)).cloned().collect::<BTreeSet<_>>();
    let (missing, added) = (lacks(ours, theirs), lacks(theirs, ours));
    let both = |sign: &str, text: &String| Difference {
        class: format!("{what} {sign}: {}", general(text)),
        theirs: theirs.join("; "),
        ours: ours.join("; "),
    };
    let mut differences: Vec<_> =
        missing.iter().map(|text| both("missing", text)).chain(added.iter().map(|text| both("added", text))).collect();
    if differences.is_empty() && theirs != ours {
        let first = theirs.iter().zip(ours).find(|(theirs, ours)| theirs != ours).map_or(&theirs[0], |(first, _)| first);
        differences.push(both("order", first));
    }
    differences
}

fn refusals(theirs: &Value, ours: &Value) -> Vec<Difference> {
    let (their_causes, our_causes) = (causes(theirs), causes(ours));
    if their_causes != our_causes {
        return lists("cause", &their_causes, &our_causes);
    }
    let mut differences = Vec::new();
    for field in ["reason", "message"] {
        let text = |status: &Value| without_objects(status[field].as_str().unwrap_or_default());
        // With causes the message repeats them, in upstream's own way of printing.
        if text(theirs) != text(ours) && (field == "reason" || their_causes.is_empty() || is_named_otherwise(theirs, ours)) {
            let class = format!("{field}: {}", general(&text(theirs)));
            differences.push(Difference { class, theirs: text(theirs), ours: text(ours) });
        }
    }
    let details = |status: &Value| {
        let mut details = status["details"].clone();
        details.as_object_mut().map(|details| details.remove("causes"));
        details
    };
    if differences.is_empty() {
        bodies(&details(theirs), &details(ours), &mut "details".to_owned(), &mut differences);
    }
    differences
}

/// Whether two messages about the same causes begin with different names of the object.
fn is_named_otherwise(theirs: &Value, ours: &Value) -> bool {
    let name = |status: &Value| status["message"].as_str().unwrap_or_default().split(" is invalid").next().unwrap_or_default().to_owned();
    name(theirs) != name(ours)
}

/// Every field in which they differ.
fn bodies(theirs: &Value, ours: &Value, path: &mut String, differences: &mut Vec<Difference>) {
    if theirs == ours {
        return;
    }
    let length = path.len();
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                path.push('.');
                path.push_str(step(name));
                field(a.get(name), b.get(name), path, differences);
                path.truncate(length);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            path.push_str("[]");
            a.iter().zip(b).for_each(|(a, b)| bodies(a, b, path, differences));
            path.truncate(length);
        }
        _ => field(Some(theirs), Some(ours), path, differences),
    }
}

fn field(theirs: Option<&Value>, ours: Option<&Value>, path: &mut String, differences: &mut Vec<Difference>) {
    let are_alike = |a: &Value, b: &Value| {
        a.is_object() && b.is_object() || a.is_array() && b.is_array() && a.as_array().map(Vec::len) == b.as_array().map(Vec::len)
    };
    match (theirs, ours) {
        (Some(a), Some(b)) if a == b => (),
        (Some(a), Some(b)) if are_alike(a, b) => bodies(a, b, path, differences),
        _ => {
            let equal = if are_equal_amounts(path, theirs, ours) { " of equal value" } else { "" };
            let class = format!("field {}: {} → {}{equal}", path.trim_start_matches('.'), shape(theirs), shape(ours));
            differences.push(Difference { class, theirs: shown(theirs), ours: shown(ours) });
        }
    }
}

/// Where LimitRanges, ResourceQuotas and PersistentVolumes have quantities.
const AMOUNTS: &[&str] = &[".spec.capacity.", ".spec.limits[].", ".spec.hard.", ".status.hard.", ".status.used."];
/// Where autoscalers have the usage that they measured.
const MEASURED: &str = ".status.currentMetrics[].";
/// Where pods have one that is not brought to thousandths.
const SIZE_LIMIT: &str = ".emptyDir.sizeLimit";

/// Whether two texts in such a place are the same quantity.
fn are_equal_amounts(path: &str, theirs: Option<&Value>, ours: Option<&Value>) -> bool {
    let amount = |value: Option<&Value>| value?.as_str()?.parse::<Quantity>().ok();
    let is_place = path.ends_with(SIZE_LIMIT) || path.contains(MEASURED) || AMOUNTS.iter().any(|place| path.starts_with(place));
    is_place && amount(theirs).is_some_and(|theirs| amount(ours) == Some(theirs))
}

/// Keys of owned list items are less specific than their field.
fn step(name: &str) -> &str {
    match name.split_once(':') {
        Some(("k", _)) => "k:{}",
        Some(("v", _)) => "v:",
        _ => name,
    }
}

fn shape(value: Option<&Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(Value::Array(items)) => format!("list of {}", items.len()),
        Some(Value::Object(fields)) if fields.is_empty() => "{}".to_owned(),
        Some(Value::Object(_)) => "object".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
        Some(Value::String(_)) => "text".to_owned(),
        Some(Value::Number(_)) => "number".to_owned(),
        Some(other) => other.to_string(),
    }
}

fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "absent".to_owned(), Value::to_string);
    text.chars().take(400).collect()
}

/// A text without what is of one case only: quoted words, numbers, places in lists.
pub(crate) fn general(text: &str) -> String {
    let mut general = String::new();
    let mut rest = text.chars().peekable();
    let mut quoted = None;
    while let Some(letter) = rest.next() {
        match (quoted, letter) {
            (Some('"'), '\\') => drop(rest.next()),
            (Some(quote), letter) if letter == quote => {
                quoted = None;
                general.push('…');
                general.push(letter);
            }
            (Some(_), _) => (),
            (None, '"' | '`') => {
                quoted = Some(letter);
                general.push(letter);
            }
            (None, '0'..='9') => {
                while rest.peek().is_some_and(char::is_ascii_digit) {
                    rest.next();
                }
                general.push('0');
            }
            (None, _) => general.push(letter),
        }
    }
    general.chars().take(260).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(status: u16, body: Value) -> Answer {
        Answer { status, warnings: Vec::new(), body }
    }

    fn classes(theirs: &Answer, ours: &Answer) -> Vec<String> {
        compare(theirs, ours).into_iter().map(|difference| difference.class).collect()
    }

    #[test]
    fn texts_of_one_sort_are_of_one_class() {
        let text = r#"spec.ports[12].name: Invalid value: "a \" b": must be 1-63 characters"#;
        assert_eq!(general(text), r#"spec.ports[0].name: Invalid value: "…": must be 0-0 characters"#);
    }

    #[test]
    fn of_messages_objects_and_what_differs_between_them_are_left_out() {
        assert_eq!(without_objects(r#"Invalid value: {"a":{"b":"}"}}: field is immutable"#), "Invalid value: {…}: field is immutable");
        assert_eq!(without_objects("Forbidden: no\n@@ -1 +1 @@\n-a"), "Forbidden: no");
    }

    #[test]
    fn a_number_without_room_is_one_difference_unless_both_refuse_it() {
        let refused = |message: &str| answer(400, json!({ "message": message }));
        let ours = refused("spec.a: invalid value: integer `2147483648`, expected i32");
        assert_eq!(classes(&answer(200, json!({})), &ours), ["number without room: 200 → 400"]);
        assert_eq!(classes(&refused("json: cannot unmarshal number"), &ours), ["message: json: cannot unmarshal number"]);
    }

    #[test]
    fn the_result_of_a_patch_is_left_out_and_a_strategic_patch_is_not() {
        let cause = |value: &str| cause_text(&json!({"field": "patch", "reason": "R", "message": format!("Invalid value: {value}: no")}));
        assert_eq!(cause(r#""{\"a\":\"b\"}""#), cause(r#""[{\"op\":\"add\"}]""#));
        assert_eq!(cause(r#""{}""#), "patch R: Invalid value: \"…\": no");
        assert_eq!(cause(r#""map[a:b]""#), "patch R: Invalid value: \"map[a:b]\": no");
    }

    #[test]
    fn a_field_that_one_lacks_is_named_with_its_place() {
        let (theirs, ours) = (answer(200, json!({"a": [{"b": 1}, {"b": 2}]})), answer(200, json!({"a": [{"b": 1}, {}]})));
        assert_eq!(classes(&theirs, &ours), ["field a[].b: number → absent"]);
        assert!(compare(&theirs, &theirs).is_empty());
    }

    #[test]
    fn amounts_in_another_form_are_of_a_class_of_their_own() {
        let quota = |cpu: &str| answer(200, json!({"spec": {"hard": {"cpu": cpu}}}));
        assert_eq!(classes(&quota("+1"), &quota("1")), ["field spec.hard.cpu: text → text of equal value"]);
        assert_eq!(classes(&quota("2"), &quota("1")), ["field spec.hard.cpu: text → text"]);
    }

    #[test]
    fn of_two_refusals_the_causes_differ_and_of_two_decisions_the_status() {
        let refusal =
            |field: &str| answer(422, json!({"message": "m", "details": {"causes": [{"field": field, "reason": "R", "message": "t"}]}}));
        assert_eq!(classes(&refusal("a"), &refusal("b")), ["cause missing: a R: t", "cause added: b R: t"]);
        assert_eq!(classes(&refusal("a"), &answer(201, json!({}))), ["status 422 → 201: a R: t"]);
    }
}
