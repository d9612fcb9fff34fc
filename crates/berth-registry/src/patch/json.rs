//! JSON patch (RFC 6902), with the extensions that clients of Kubernetes rely on.

use super::{
    DEPTH_MAX,
    misfit::Misfit,
    pointer::{Pointer, get, index, parent_mut},
};
use crate::ApiError;
use serde_json::{Map, Value};

/// The maximum number of operations.
const OPERATIONS_MAX: usize = 10_000;
/// The maximum size of JSON that all `copy` operations of a patch may add, in bytes.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The maximum number of values that all `copy` operations of a patch may add. A decoded value takes many times the
/// memory of its text, and only the text is charged to the user.
const COPIED_VALUES_MAX: usize = 20_000;
/// The maximum number of elements and members that all operations of a patch may move. An insertion or removal in a list
/// moves those after it, and `move` those of its value. That is some milliseconds of work, and a thousand times that of
/// ordinary patches.
const MOVED_MAX: usize = 2_000_000;

/// Applies the operations of `patch`, the JSON text of an array, to `doc`.
///
/// Extensions of the standard: `replace` of an absent member adds it, which `kubectl rollout undo` requires. Negative
/// indices count from the end. `test` for null succeeds for an absent member, and `copy` of an absent member copies
/// null.
///
/// # Errors
/// [`ApiError::BadRequest`] if the patch is not an array of objects. [`ApiError::TooLarge`] if it has too many
/// operations or they move too much. [`ApiError::Unprocessable`] if an operation does not fit the document.
pub fn json(doc: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    applied(doc, patch).map_err(|error| match error {
        Stopped::Refused(error) => error,
        Stopped::At(_) => ApiError::Unprocessable,
    })
}

/// Why a JSON patch cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum JsonPatchError {
    /// It is not an array of objects, has too many operations, or they move too much.
    #[error(transparent)]
    Refused(ApiError),
    /// An operation does not fit the document.
    #[error(transparent)]
    Misfit(Misfit),
}

/// Does the same as [`json`], and returns why an operation does not fit. That costs the operations before it once more.
///
/// # Errors
/// [`JsonPatchError`].
pub fn json_with_reason(doc: &Value, patch: &[u8]) -> Result<Value, JsonPatchError> {
    let place = match applied(doc, patch) {
        Ok(changed) => return Ok(changed),
        Err(Stopped::Refused(error)) => return Err(JsonPatchError::Refused(error)),
        Err(Stopped::At(place)) => place,
    };
    let mut operations = read(patch).map_err(JsonPatchError::Refused)?;
    let misfit = operations.swap_remove(place);
    let (mut before, mut work) = (doc.clone(), Work::default());
    for operation in operations.into_iter().take(place) {
        // It fitted before.
        let _ = apply(&mut before, operation, &mut work);
    }
    Err(JsonPatchError::Misfit(Misfit::of(&before, &misfit)))
}

/// Why not all operations were applied.
enum Stopped {
    Refused(ApiError),
    /// The operation at this place does not fit.
    At(usize),
}

fn applied(doc: &Value, patch: &[u8]) -> Result<Value, Stopped> {
    let (mut doc, mut work) = (doc.clone(), Work::default());
    for (place, operation) in read(patch).map_err(Stopped::Refused)?.into_iter().enumerate() {
        apply(&mut doc, operation, &mut work).ok_or(Stopped::At(place))?;
        if MOVED_MAX < work.moved {
            let message = format!("Request entity too large: a JSON patch may move {MOVED_MAX} elements of lists and members of objects");
            return Err(Stopped::Refused(ApiError::TooLarge { message }));
        }
    }
    Ok(doc)
}

fn read(patch: &[u8]) -> Result<Vec<Map<String, Value>>, ApiError> {
    let operations: Vec<Map<String, Value>> =
        serde_json::from_slice(patch).map_err(|error| ApiError::BadRequest { message: format!("error decoding patch: {error}") })?;
    if operations.len() > OPERATIONS_MAX {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        );
        return Err(ApiError::TooLarge { message });
    }
    Ok(operations)
}

/// The cost of a patch so far.
#[derive(Default)]
struct Work {
    copied_bytes: usize,
    copied_values: usize,
    moved: usize,
}

/// Returns `None` if the operation does not fit.
fn apply(doc: &mut Value, mut operation: Map<String, Value>, work: &mut Work) -> Option<()> {
    let value = operation.remove("value").unwrap_or(Value::Null);
    let path = Pointer::parse(operation.get("path")?.as_str()?)?;
    let from = || Pointer::parse(operation.get("from")?.as_str()?);
    match operation.get("op")?.as_str()? {
        "add" => add(doc, &path, value, work),
        "remove" => remove(doc, &path, work).map(drop),
        "replace" => replace(doc, &path, value),
        "test" => (get(doc, &path)?.unwrap_or(&Value::Null) == &value).then_some(()),
        "move" => {
            let value = remove(doc, &from()?, work)?;
            work.moved += size(&value);
            add(doc, &path, value, work)
        }
        "copy" => {
            let value = get(doc, &from()?)?.cloned().unwrap_or(Value::Null);
            work.copied_bytes = work.copied_bytes.saturating_add(value.to_string().len());
            work.copied_values = work.copied_values.saturating_add(size(&value));
            (work.copied_bytes <= COPIED_BYTES_MAX && work.copied_values <= COPIED_VALUES_MAX).then_some(())?;
            add(doc, &path, value, work)
        }
        _ => None,
    }
}

fn add(doc: &mut Value, pointer: &Pointer, value: Value, work: &mut Work) -> Option<()> {
    check_depth(pointer, &value)?;
    let Some((last, way)) = pointer.steps.split_last() else {
        *doc = value;
        return Some(());
    };
    match parent_mut(doc, way)? {
        Value::Object(members) => drop(members.insert(last.clone(), value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(last, items.len() + 1)?;
            work.moved += items.len() - index;
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(doc: &mut Value, pointer: &Pointer, value: Value) -> Option<()> {
    check_depth(pointer, &value)?;
    let Some((last, way)) = pointer.steps.split_last() else {
        *doc = value;
        return Some(());
    };
    match parent_mut(doc, way)? {
        Value::Object(members) => drop(members.insert(last.clone(), value)),
        Value::Array(items) => {
            let index = index(last, items.len())?;
            items[index] = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(doc: &mut Value, pointer: &Pointer, work: &mut Work) -> Option<Value> {
    let (last, way) = pointer.steps.split_last()?;
    match parent_mut(doc, way)? {
        Value::Object(members) => members.remove(last),
        Value::Array(items) => {
            let index = index(last, items.len())?;
            work.moved += items.len() - index;
            Some(items.remove(index))
        }
        _ => None,
    }
}

/// Returns the number of values in a value, including itself.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Rejects excessive nesting. Repeated copies could otherwise exceed the stack of a recursive reader.
fn check_depth(pointer: &Pointer, value: &Value) -> Option<()> {
    (pointer.steps.len() + depth(value) <= DEPTH_MAX).then_some(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json as value;

    #[track_caller]
    fn check(doc: &Value, patch: &Value, expected: &Value) {
        match json(doc, patch.to_string().as_bytes()) {
            Ok(found) => assert_eq!(&found, expected),
            Err(error) => panic!("{patch} on {doc}: {error}"),
        }
    }

    #[track_caller]
    fn check_refused(doc: &Value, operation: &Value) {
        let result = json(doc, value!([operation]).to_string().as_bytes());
        assert!(matches!(result, Err(ApiError::Unprocessable)), "{operation} on {doc}: {result:?}");
    }

    #[test]
    fn operations_of_the_standard() {
        for (doc, operation, expected) in [
            (value!({"a": 1}), value!({"op": "add", "path": "/b", "value": 2}), value!({"a": 1, "b": 2})),
            (value!({"a": 1}), value!({"op": "add", "path": "/a", "value": 2}), value!({"a": 2})),
            (value!([1, 3]), value!({"op": "add", "path": "/1", "value": 2}), value!([1, 2, 3])),
            (value!([1]), value!({"op": "add", "path": "/1", "value": 2}), value!([1, 2])),
            (value!([1]), value!({"op": "add", "path": "/-", "value": 2}), value!([1, 2])),
            (value!({"a": 1, "b": 2}), value!({"op": "remove", "path": "/a"}), value!({"b": 2})),
            (value!([1, 2]), value!({"op": "remove", "path": "/0"}), value!([2])),
            (value!({"a": {"b": 1}}), value!({"op": "replace", "path": "/a/b", "value": [2]}), value!({"a": {"b": [2]}})),
            (value!({"a": 1}), value!({"op": "move", "from": "/a", "path": "/b"}), value!({"b": 1})),
            (value!({"a": [1]}), value!({"op": "copy", "from": "/a/0", "path": "/b"}), value!({"a": [1], "b": 1})),
            (value!({"a": [1]}), value!({"op": "test", "path": "/a", "value": [1]}), value!({"a": [1]})),
            (value!({"a/b": {"~": 1}}), value!({"op": "remove", "path": "/a~1b/~0"}), value!({"a/b": {}})),
            (value!({"a": 1}), value!({"op": "replace", "path": "", "value": {"b": 2}}), value!({"b": 2})),
            (value!({"": 1}), value!({"op": "remove", "path": "/"}), value!({})),
        ] {
            check(&doc, &value!([operation]), &expected);
        }
    }

    #[test]
    fn liberties_that_clients_rely_on() {
        for (doc, operation, expected) in [
            (value!({}), value!({"op": "replace", "path": "/a", "value": 1}), value!({"a": 1})),
            (value!({}), value!({"op": "test", "path": "/a", "value": null}), value!({})),
            (value!({}), value!({"op": "test", "path": "/a"}), value!({})),
            (value!({}), value!({"op": "copy", "from": "/a", "path": "/b"}), value!({"b": null})),
            (value!([1, 2]), value!({"op": "remove", "path": "/-1"}), value!([1])),
            (value!([1, 2]), value!({"op": "replace", "path": "/-2", "value": 0}), value!([0, 2])),
            (value!([1, 2]), value!({"op": "add", "path": "/-1", "value": 3}), value!([1, 2, 3])),
        ] {
            check(&doc, &value!([operation]), &expected);
        }
    }

    #[test]
    fn operations_that_do_not_fit_are_refused() {
        let doc = value!({"a": [1], "s": "text"});
        for operation in [
            value!({"op": "test", "path": "/a", "value": [2]}),
            value!({"op": "test", "path": "/x/y", "value": null}),
            value!({"op": "remove", "path": "/x"}),
            value!({"op": "remove", "path": ""}),
            value!({"op": "remove", "path": "/a/-"}),
            value!({"op": "move", "from": "/x", "path": "/y"}),
            value!({"op": "add", "path": "/a/2", "value": 1}),
            value!({"op": "add", "path": "/a/-3", "value": 1}),
            value!({"op": "replace", "path": "/a/1", "value": 1}),
            value!({"op": "add", "path": "/a/x", "value": 1}),
            value!({"op": "add", "path": "/x/y", "value": 1}),
            value!({"op": "add", "path": "/s/y", "value": 1}),
            value!({"op": "add", "path": "x", "value": 1}),
            value!({"op": "spin", "path": "/a"}),
            value!({"op": "remove"}),
            value!({"path": "/a"}),
            value!({"op": "copy", "path": "/a"}),
        ] {
            check_refused(&doc, &operation);
        }
    }

    #[test]
    fn a_failed_operation_fails_the_patch() {
        let patch = value!([{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/b", "value": 2}]);
        assert!(matches!(json(&value!({}), patch.to_string().as_bytes()), Err(ApiError::Unprocessable)));
    }

    #[test]
    fn what_is_no_patch_is_a_bad_request() {
        for patch in ["", "{", "{}", "[1]", "null"] {
            assert!(matches!(json(&value!({}), patch.as_bytes()), Err(ApiError::BadRequest { .. })), "{patch}");
        }
    }

    #[test]
    fn too_many_operations_are_refused() {
        let patch = |count| Value::Array(vec![value!({"op": "test", "path": "/a"}); count]).to_string();
        assert!(json(&value!({}), patch(10_000).as_bytes()).is_ok());
        let error = json(&value!({}), patch(10_001).as_bytes()).expect_err("one too many");
        assert_eq!(error.to_string(), "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001");
    }

    #[test]
    fn operations_that_move_too_much_are_refused() {
        let refused = |doc: Value, operation: Value| {
            let error = json(&doc, Value::Array(vec![operation; 10_000]).to_string().as_bytes()).expect_err("too much");
            assert!(matches!(error, ApiError::TooLarge { .. }), "{error:?}");
            assert!(error.to_string().contains("may move 2000000 elements"), "{error}");
        };
        refused(value!([]), value!({"op": "add", "path": "/0", "value": 1}));
        refused(Value::Array(vec![value!(1); 20_000]), value!({"op": "remove", "path": "/0"}));
        refused(value!({"a": vec![1; 1000]}), value!({"op": "move", "from": "/a", "path": "/a"}));
        let gentle = |operation: Value| json(&value!({"a": []}), Value::Array(vec![operation; 10_000]).to_string().as_bytes());
        assert_eq!(gentle(value!({"op": "add", "path": "/a/-", "value": 1})).expect("fits")["a"].as_array().map(Vec::len), Some(10_000));
        assert!(gentle(value!({"op": "move", "from": "/a", "path": "/a"})).is_ok());
    }

    #[test]
    fn copies_may_not_blow_the_document_up() {
        let doc = value!({"a": "x".repeat(1_000_000)});
        let copies = |count: usize| -> String {
            let operations: Vec<Value> = (0..count).map(|i| value!({"op": "copy", "from": "/a", "path": format!("/b{i}")})).collect();
            Value::Array(operations).to_string()
        };
        assert!(json(&doc, copies(3).as_bytes()).is_ok());
        assert!(matches!(json(&doc, copies(4).as_bytes()), Err(ApiError::Unprocessable)));
    }

    #[test]
    fn copies_may_not_unfold_the_document() {
        let doc = value!({"a": vec![value!({}); 1_000]});
        let copies = |count: usize| -> String {
            let operations: Vec<Value> = (0..count).map(|i| value!({"op": "copy", "from": "/a", "path": format!("/b{i}")})).collect();
            Value::Array(operations).to_string()
        };
        assert!(json(&doc, copies(19).as_bytes()).is_ok());
        assert!(matches!(json(&doc, copies(20).as_bytes()), Err(ApiError::Unprocessable)));
    }

    #[test]
    fn copies_may_not_nest_the_document_without_bound() {
        let operations = vec![value!({"op": "copy", "from": "/a", "path": "/a/a"}); 200];
        let result = json(&value!({"a": {}}), Value::Array(operations).to_string().as_bytes());
        assert!(matches!(result, Err(ApiError::Unprocessable)));
    }

    fn pointer() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "0", "1", "-1", "-", "~0", ""]), 0..4)
            .prop_map(|steps| steps.iter().map(|step| format!("/{step}")).collect())
    }

    fn operation() -> impl Strategy<Value = Value> {
        let op = prop::sample::select(vec!["add", "remove", "replace", "test", "move", "copy"]);
        (op, pointer(), pointer(), super::super::merge::tests::document())
            .prop_map(|(op, path, from, value)| value!({"op": op, "path": path, "from": from, "value": value}))
    }

    proptest! {
        #[test]
        fn any_patch_gives_a_document_or_is_refused(
            doc in super::super::merge::tests::document(),
            operations in prop::collection::vec(operation(), 0..6),
        ) {
            let result = json(&doc, Value::Array(operations).to_string().as_bytes());
            prop_assert!(matches!(result, Ok(_) | Err(ApiError::Unprocessable)));
        }

        #[test]
        fn what_was_added_can_be_tested_and_removed(doc in super::super::merge::tests::document(), value in super::super::merge::tests::document()) {
            let doc = value!({"doc": doc});
            let patch = value!([{"op": "add", "path": "/new", "value": value}, {"op": "test", "path": "/new", "value": value}, {"op": "remove", "path": "/new"}]);
            prop_assert_eq!(json(&doc, patch.to_string().as_bytes()).expect("fits"), doc);
        }
    }
}
