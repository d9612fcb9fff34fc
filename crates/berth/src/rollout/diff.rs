//! `berth rollout diff`: in what two revisions' pod templates differ.

use super::{
    cluster::Connection,
    error::Error,
    history::{self, Kept, unknown_revision},
    options::{Diff, DiffOutput},
    report,
    target::Found,
};
use crate::progress::line;
use berth_chart::one_line;
use berth_workloads::plan::difference;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

/// What tells the items of a list apart, as Kubernetes merges them; the first that all have.
const KEYS: [&str; 6] = ["name", "mountPath", "devicePath", "containerPort", "ip", "topologyKey"];
/// How much of a value a line shows, in columns of a terminal.
const VALUE_COLUMNS_MAX: usize = 2000;

/// One difference. The form is stable: fields are only ever added.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Difference {
    /// `spec.containers[web].image`.
    path: String,
    /// Missing: it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Value>,
    /// Missing: it is there no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    from_revision: i64,
    to_revision: i64,
    changes: Vec<Difference>,
}

/// Prints the differences.
pub(super) async fn run(options: &Diff, connection: &Connection, workload: &Found) -> Result<(), Error> {
    let kept = history::kept(connection, workload).await?;
    let (from, to) = choose(workload, &kept, options.from, options.to)?;
    match options.output {
        Some(DiffOutput::Patch) => line(&report::json(&patch(&from.template, &to.template))),
        Some(DiffOutput::Json) => line(&report::json(&Report {
            kind: workload.kind.name(),
            namespace: connection.namespace(),
            name: &workload.name,
            from_revision: from.revision,
            to_revision: to.revision,
            changes: differences(&from.template, &to.template),
        })),
        None => {
            let title = format!("{}: revision {} to {}", workload.title(), from.revision, to.revision);
            line(&format!("{title}{}", shown(&differences(&from.template, &to.template))));
        }
    }
    Ok(())
}

/// The two revisions; `kept` are sorted by their numbers.
fn choose<'a>(workload: &Found, kept: &'a [Kept], from: i64, to: i64) -> Result<(&'a Kept, &'a Kept), Error> {
    let named = |revision: i64| kept.iter().find(|kept| kept.revision == revision).ok_or_else(|| unknown_revision(workload, revision));
    let to = if to == 0 { kept.last().ok_or_else(|| history::no_history(workload))? } else { named(to)? };
    let before = || kept.iter().rfind(|kept| kept.revision < to.revision);
    let none_before = || Error::Rollout(format!("no revision before {} is kept; name two of them by --from and --to", to.revision));
    let from = if from == 0 { before().ok_or_else(none_before)? } else { named(from)? };
    Ok((from, to))
}

/// What `kubectl patch --type merge` takes.
fn patch(from: &Value, to: &Value) -> Value {
    difference(from.clone(), to.clone()).map_or_else(|| json!({}), |template| json!({"spec": {"template": template}}))
}

fn shown(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "\n  no difference".to_owned();
    }
    differences.iter().fold(String::new(), |mut text, difference| {
        write!(text, "\n{difference}").expect("a String takes whatever is written");
        text
    })
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

/// All differences, in the order of the fields.
fn differences(from: &Value, to: &Value) -> Vec<Difference> {
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
    // Whatever is no map and no list of named items, and a list of which only the order is another.
    if all.len() == found {
        all.push(Difference { path: path.to_owned(), from: from.cloned(), to: to.cloned() });
    }
}

/// The items of a list with what each is called, and by which field; `None` where nothing tells them apart.
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

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"example.com/a": "1"}},
            "spec": {"containers": [
                {"name": "web", "image": "web:1", "args": ["-v"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"image": "log:1", "name": "log"},
            ]},
        })
    }

    /// What is shown of a change of the template.
    fn check(change: impl FnOnce(&mut Value), wanted: &[&str]) {
        let (from, mut to) = (template(), template());
        change(&mut to);
        let lines = shown(&differences(&from, &to));
        assert_eq!(lines.lines().skip(1).collect::<Vec<_>>(), wanted);
        let patched = merged(json!({"spec": {"template": from}}), &patch(&from, &to));
        assert_eq!(patched["spec"]["template"], to, "the patch makes the one of the other");
    }

    fn merged(mut value: Value, patch: &Value) -> Value {
        let Some(members) = patch.as_object() else { return patch.clone() };
        if !value.is_object() {
            value = json!({});
        }
        for (key, change) in members {
            let map = value.as_object_mut().expect("it is one");
            match change {
                Value::Null => drop(map.remove(key)),
                change => {
                    let old = map.remove(key).unwrap_or_default();
                    map.insert(key.clone(), merged(old, change));
                }
            }
        }
        value
    }

    #[test]
    fn differences_are_told_by_the_names_of_what_they_are_in() {
        check(|_| (), &["  no difference"]);
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
    fn texts_of_strangers_do_not_steer_a_terminal_nor_look_like_lines() {
        let change = Difference { path: "a\u{1b}[2J".to_owned(), from: Some(json!("x\n- spec: y")), to: Some(json!("\u{202e}z")) };
        assert_eq!(change.to_string(), "  a\\u{1b}[2J: \"x\\n- spec: y\" -> \\u{202e}z");
    }
}
