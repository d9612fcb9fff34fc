//! The three kinds of patches, on an object of any kind: a result of bounded size or an error, and the rules see the result.

use crate::objects::{any_resource, any_scalar, any_word, object, pointers};
use arbitrary::{Result, Unstructured};
use berth_api::FeatureGates;
use berth_registry::{Resource, patch};
use serde_json::{Map, Value, json};

/// What `copy` operations may add to a document, in bytes.
const COPIED_BYTES_MAX: usize = 3 << 20;

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Rules must take whatever patches leave.
fn judge(resource: &Resource, document: Value) {
    if let Ok(mut decoded) = resource.rules.decode(document) {
        decoded.object.set_defaults();
        let _ = decoded.object.validate(&FeatureGates::default());
    }
}

fn operations(u: &mut Unstructured<'_>, document: &Value) -> Result<Value> {
    let known = pointers(document);
    let pointer = |u: &mut Unstructured<'_>| -> Result<String> {
        let known = u.choose(&known)?;
        Ok(match u.int_in_range(0..=4)? {
            0 => format!("{known}/-"),
            1 => format!("{known}/{}", u.arbitrary::<i8>()?),
            2 => format!("{known}/{}", any_word(u)?),
            _ => known.clone(),
        })
    };
    let mut operations = Vec::new();
    for _ in 0..u.int_in_range(0..=12)? {
        let op = u.choose(&["add", "remove", "replace", "move", "copy", "test", "x"])?;
        let value = if u.arbitrary()? { any_scalar(u)? } else { json!({"a": [1, {"b": null}]}) };
        operations.push(json!({"op": op, "path": pointer(u)?, "from": pointer(u)?, "value": value}));
    }
    Ok(Value::Array(operations))
}

/// A strategic or merge patch from a document of the kind: some of it nulled, with directives here and there.
fn with_directives(u: &mut Unstructured<'_>, patch: Value) -> Result<Value> {
    Ok(match patch {
        Value::Object(members) => {
            let mut out = Map::new();
            for (name, value) in members {
                match u.int_in_range(0..=15)? {
                    0 => drop(out.insert(name, Value::Null)),
                    1 => drop(out.insert("$patch".to_owned(), (*u.choose(&["replace", "delete", "merge", "x"])?).into())),
                    2 => drop(out.insert("$retainKeys".to_owned(), json!([name, any_word(u)?]))),
                    3 => drop(out.insert(format!("$deleteFromPrimitiveList/{name}"), json!([any_word(u)?]))),
                    4 => {
                        out.insert(format!("$setElementOrder/{name}"), value.clone());
                        out.insert(name, with_directives(u, value)?);
                    }
                    _ => drop(out.insert(name, with_directives(u, value)?)),
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => items.into_iter().map(|item| with_directives(u, item)).collect::<Result<Vec<_>>>()?.into(),
        other => other,
    })
}

fn check(u: &mut Unstructured<'_>) -> Result<()> {
    let resource = any_resource(u)?;
    let choice = u.int_in_range(0..=5)?;
    let document = object(u, resource)?;
    assert_eq!(patch::json(&document, b"[]").expect("nothing to do"), document);
    assert_eq!(patch::merge(document.clone(), &json!({})), document);
    assert_eq!(patch::strategic(&document, &json!({}), resource).expect("nothing to do"), document);
    match choice {
        0 => {
            let text = u.bytes(u.len())?;
            if let Ok(result) = patch::json(&document, text) {
                assert!(size(&result) <= size(&document) + text.len() + COPIED_BYTES_MAX);
                judge(resource, result);
            }
        }
        1 | 2 => {
            let operations = operations(u, &document)?;
            if let Ok(result) = patch::json(&document, operations.to_string().as_bytes()) {
                assert!(size(&result) <= size(&document) + size(&operations) + COPIED_BYTES_MAX);
                judge(resource, result);
            }
        }
        3 => {
            let patch = object(u, resource)?;
            let patch = with_directives(u, patch)?;
            let result = patch::merge(document.clone(), &patch);
            assert!(size(&result) <= size(&document) + size(&patch));
            assert_eq!(patch::merge(result.clone(), &patch), result);
            judge(resource, result);
        }
        _ => {
            let patch = object(u, resource)?;
            let patch = with_directives(u, patch)?;
            if let Ok(result) = patch::strategic(&document, &patch, resource) {
                assert!(size(&result) <= size(&document) + size(&patch));
                judge(resource, result);
            }
        }
    }
    Ok(())
}

/// Runs the target with one input.
///
/// # Panics
/// Where a rule above is broken.
pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}
