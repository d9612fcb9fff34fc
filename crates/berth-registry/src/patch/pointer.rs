//! Positions in a document (RFC 6901).

use serde_json::Value;

/// A position in a document: the path to its parent, and the last step. The document itself has no steps.
pub(super) struct Pointer {
    pub(super) steps: Vec<String>,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { steps: Vec::new() });
        }
        let steps = text.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        Some(Self { steps: steps.collect() })
    }
}

/// Returns `None` if the parent or the element does not exist, and `Some(None)` for an absent member of an existing
/// object.
pub(super) fn get<'a>(doc: &'a Value, pointer: &Pointer) -> Option<Option<&'a Value>> {
    let Some((last, way)) = pointer.steps.split_last() else { return Some(Some(doc)) };
    let parent = way.iter().try_fold(doc, |at, step| child(at, step))?;
    if parent.is_object() { Some(parent.get(last.as_str())) } else { child(parent, last).map(Some) }
}

pub(super) fn child<'a>(at: &'a Value, step: &str) -> Option<&'a Value> {
    match at {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(index(step, items.len())?),
        _ => None,
    }
}

pub(super) fn parent_mut<'a>(doc: &'a mut Value, way: &[String]) -> Option<&'a mut Value> {
    way.iter().try_fold(doc, |at, step| match at {
        Value::Object(members) => members.get_mut(step),
        Value::Array(items) => {
            let index = index(step, items.len())?;
            items.get_mut(index)
        }
        _ => None,
    })
}

/// Returns the index for `step`, counted from the end if negative, among `len` positions. Past the end only if that is
/// a position.
pub(super) fn index(step: &str, len: usize) -> Option<usize> {
    let index: i64 = step.parse().ok()?;
    let index = if index < 0 { index.checked_add(i64::try_from(len).ok()?)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}
