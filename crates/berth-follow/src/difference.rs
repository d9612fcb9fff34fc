//! The differences between two templates, with names instead of list indexes in their paths. Commands, pages and
//! terminals show them.

use berth_chart::one_line;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// The fields that identify the items of a list, as in Kubernetes' merge keys. The first one that all items have
/// applies.
const KEYS: [&str; 6] = ["name", "mountPath", "devicePath", "containerPort", "ip", "topologyKey"];
/// The maximum length of a value in a line, in terminal columns.
const VALUE_COLUMNS_MAX: usize = 2000;

/// One difference. The JSON format is stable: new versions only add fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// `spec.containers[web].image`.
    pub path: String,
    /// The old value. Missing if the field was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The new value. Missing if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Value| match value {
            Value::String(text) if !text.is_empty() && !text.contains(char::is_control) => one_line(text, VALUE_COLUMNS_MAX),
            other => one_line(&other.to_string(), VALUE_COLUMNS_MAX),
        };
        let path = one_line(&self.path, VALUE_COLUMNS_MAX);
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "  {path}: {} -> {}", value(from), value(to)),
            (Some(from), None) => write!(f, "- {path}: {}", value(from)),
            (None, Some(to)) => write!(f, "+ {path}: {}", value(to)),
            (None, None) => f.write_str(&path),
        }
    }
}

/// Returns all differences, in the order of the fields.
#[must_use]
pub fn differences(from: &Value, to: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    compare("", Some(from), Some(to), &mut all);
    all
}

fn compare(path: &str, from: Option<&Value>, to: Option<&Value>, all: &mut Vec<Difference>) {
    let found = all.len();
    match (from, to) {
        _ if from == to => return,
        (Some(Value::Object(from)), Some(Value::Object(to))) => {
            let gone = from.keys().filter(|key| !to.contains_key(*key));
            let mut keys: Vec<&String> = to.keys().chain(gone).collect();
            keys.sort();
            keys.into_iter().for_each(|key| compare(&member(path, key), from.get(key), to.get(key), all));
        }
        (Some(Value::Array(from)), Some(Value::Array(to))) => {
            if let (Some(from), Some(to)) = (keyed(from), keyed(to))
                && from.0 == to.0
            {
                let item =
                    |items: &[(String, &'_ Value)], key: &str| items.iter().find(|(name, _)| name == key).map(|(_, item)| *item).cloned();
                let gone = from.1.iter().filter(|(key, _)| !to.1.iter().any(|(other, _)| other == key));
                for (key, _) in to.1.iter().chain(gone) {
                    compare(&format!("{path}[{key}]"), item(&from.1, key).as_ref(), item(&to.1, key).as_ref(), all);
                }
            }
        }
        _ => (),
    }
    // Values other than maps and lists of named items, and lists that differ only in their order.
    if all.len() == found {
        all.push(Difference { path: path.to_owned(), from: from.cloned(), to: to.cloned() });
    }
}

/// Returns the items of a list with their names, and the field with the name. `None` if no field identifies the items.
fn keyed(items: &[Value]) -> Option<(&'static str, Vec<(String, &Value)>)> {
    let name = |item: &Value, key: &str| match &item[key] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    KEYS.into_iter().find_map(|key| {
        let named: Vec<(String, &Value)> = items.iter().map(|item| Some((name(item, key)?, item))).collect::<Option<_>>()?;
        let mut names: Vec<&String> = named.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        (names.len() == named.len()).then_some((key, named))
    })
}

/// `spec.containers`, `metadata.annotations["example.com/a"]`.
fn member(path: &str, key: &str) -> String {
    let is_plain = key.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-') && !key.is_empty();
    match (path.is_empty(), is_plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", Value::String(key.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"example.com/a": "1"}},
            "spec": {"containers": [
                {"name": "web", "image": "web:1", "args": ["-v"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"image": "log:1", "name": "log"},
            ]},
        })
    }

    /// Checks the lines that a change of the template produces.
    fn check(change: impl FnOnce(&mut Value), wanted: &[&str]) {
        let (from, mut to) = (template(), template());
        change(&mut to);
        let lines: Vec<String> = differences(&from, &to).iter().map(ToString::to_string).collect();
        assert_eq!(lines, wanted);
    }

    #[test]
    fn differences_are_named_by_the_items_that_contain_them() {
        check(|_| (), &[]);
        check(|to| to["spec"]["containers"][0]["image"] = json!("web:2"), &["  spec.containers[web].image: web:1 -> web:2"]);
        check(
            |to| to["metadata"]["annotations"] = json!({"example.com/b": "x"}),
            &[r#"- metadata.annotations["example.com/a"]: 1"#, r#"+ metadata.annotations["example.com/b"]: x"#],
        );
        check(
            |to| to["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "9"}, {"name": "C", "value": ""}]),
            &[
                "  spec.containers[web].env[A].value: 1 -> 9",
                r#"+ spec.containers[web].env[C]: {"name":"C","value":""}"#,
                r#"- spec.containers[web].env[B]: {"name":"B","value":"2"}"#,
            ],
        );
        check(|to| to["spec"]["containers"][0]["args"] = json!(["-v", "-q"]), &[r#"  spec.containers[web].args: ["-v"] -> ["-v","-q"]"#]);
        check(
            |to| drop(to["spec"]["containers"].as_array_mut().expect("a list").remove(1)),
            &[r#"- spec.containers[log]: {"image":"log:1","name":"log"}"#],
        );
    }

    #[test]
    fn another_order_is_a_difference() {
        let (from, mut to) = (template(), template());
        to["spec"]["containers"].as_array_mut().expect("a list").reverse();
        let found = differences(&from, &to);
        assert_eq!((found.len(), found[0].path.as_str()), (1, "spec.containers"));
    }

    #[test]
    fn untrusted_texts_do_not_steer_a_terminal_nor_imitate_lines() {
        let change = Difference { path: "a\u{1b}[2J".to_owned(), from: Some(json!("x\n- spec: y")), to: Some(json!("\u{202e}z")) };
        assert_eq!(change.to_string(), "  a\\u{1b}[2J: \"x\\n- spec: y\" -> \\u{202e}z");
    }
}
