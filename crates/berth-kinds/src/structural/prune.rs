//! Fields that a schema does not have.

use super::{Additional, META_FIELDS, Structural};
use serde_json::Value;
use std::fmt::Write as _;

/// How many unknown fields are reported at most, as upstream.
const REPORTED_FIELDS_MAX: usize = 100;
/// How much of the path of such a field is reported, in bytes.
const REPORTED_BYTES_MAX: usize = 1024;

/// The path of a value. Linked upwards, so that only an unknown field costs an allocation.
#[derive(Clone, Copy)]
enum At<'a> {
    Root,
    Member(&'a At<'a>, &'a str),
    Element(&'a At<'a>, usize),
}

impl At<'_> {
    fn write(self, to: &mut String) {
        match self {
            Self::Root => (),
            Self::Member(parent, name) => {
                parent.write(to);
                to.extend([if to.is_empty() { "" } else { "." }, name]);
            }
            Self::Element(parent, index) => {
                parent.write(to);
                _ = write!(to, "[{index}]");
            }
        }
    }

    fn text(self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        let end = (0..=text.len().min(REPORTED_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text
    }
}

impl Structural {
    /// Removes the fields that the schema does not have from an object of the API. Type and metadata stay. Returns the paths of at most 100 of them,
    /// sorted: `spec.list[0].name`.
    ///
    /// Source: upstream `schema/pruning`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.prune_at(object, true, At::Root, &mut unknown);
        unknown.sort_unstable();
        unknown
    }

    /// The same of a value that can be an object of the API.
    pub(super) fn prune_value(&self, value: &mut Value, is_resource: bool) {
        self.prune_at(value, is_resource, At::Root, &mut Vec::new());
    }

    fn prune_at(&self, value: &mut Value, is_resource: bool, at: At<'_>, unknown: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                let is_meta = |name: &str| is_resource && META_FIELDS.contains(&name);
                members.retain(|name, value| {
                    if is_meta(name) {
                        return true;
                    }
                    let at = At::Member(&at, name);
                    match (self.properties.get(name), &self.additional) {
                        (Some(schema), _) | (None, Additional::Of(schema)) => {
                            schema.prune_at(value, schema.embedded_resource, at, unknown);
                            return true;
                        }
                        // The member itself stays, and, as upstream, nothing in it does.
                        (None, Additional::Allowed(_)) => {
                            empty(value, at, unknown);
                            return true;
                        }
                        (None, Additional::Unset) => (),
                    }
                    if !self.preserve_unknown_fields && unknown.len() < REPORTED_FIELDS_MAX {
                        unknown.push(at.text());
                    }
                    self.preserve_unknown_fields
                });
            }
            Value::Array(list) => {
                let Some(items) = &self.items else { return };
                for (index, element) in list.iter_mut().enumerate() {
                    items.prune_at(element, items.embedded_resource, At::Element(&at, index), unknown);
                }
            }
            _ => (),
        }
    }
}

/// Removes the members of all objects in a value.
fn empty(value: &mut Value, at: At<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let names = members.keys().take(REPORTED_FIELDS_MAX.saturating_sub(unknown.len()));
            unknown.extend(names.map(|name| At::Member(&at, name).text()));
            members.clear();
        }
        Value::Array(list) => {
            list.iter_mut().enumerate().for_each(|(index, element)| empty(element, At::Element(&at, index), unknown));
        }
        _ => (),
    }
}
