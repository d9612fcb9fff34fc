//! `berth rollout diff`: the differences between the pod templates of two revisions.

use super::{
    cluster::Connection,
    error::Error,
    history::{self, Kept, unknown_revision},
    options::{Diff, DiffOutput},
    report,
    target::Found,
};
use crate::progress::line;
use berth_follow::difference::{Difference, differences};
use berth_identity::RolloutRevision;
use berth_workloads::plan::difference;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    from_revision: RolloutRevision,
    to_revision: RolloutRevision,
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

/// The two revisions. `kept` are sorted by their numbers.
fn choose<'a>(workload: &Found, kept: &'a [Kept], from: RolloutRevision, to: RolloutRevision) -> Result<(&'a Kept, &'a Kept), Error> {
    let named =
        |revision: RolloutRevision| kept.iter().find(|kept| kept.revision == revision).ok_or_else(|| unknown_revision(workload, revision));
    let to = if to == RolloutRevision::UNSET { kept.last().ok_or_else(|| history::no_history(workload))? } else { named(to)? };
    let before = || kept.iter().rfind(|kept| kept.revision < to.revision);
    let none_before = || Error::Rollout(format!("no revision before {} exists; choose two revisions with --from and --to", to.revision));
    let from = if from == RolloutRevision::UNSET { before().ok_or_else(none_before)? } else { named(from)? };
    Ok((from, to))
}

/// A patch for `kubectl patch --type merge`.
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

    fn check(change: impl FnOnce(&mut Value)) {
        let (from, mut to) = (template(), template());
        change(&mut to);
        let patched = merged(json!({"spec": {"template": from}}), &patch(&from, &to));
        assert_eq!(patched["spec"]["template"], to);
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
    fn a_patch_makes_the_one_of_the_other() {
        check(|_| ());
        check(|to| to["spec"]["containers"][0]["image"] = json!("web:2"));
        check(|to| to["metadata"]["annotations"] = json!({"example.com/b": "x"}));
        check(|to| drop(to["spec"]["containers"].as_array_mut().expect("a list").remove(1)));
    }

    #[test]
    fn each_difference_has_a_line() {
        assert_eq!(shown(&differences(&json!({"a": 1}), &json!({"a": 2, "b": 3}))), "\n  a: 1 -> 2\n+ b: 3");
        assert_eq!(shown(&[]), "\n  no difference");
    }
}
