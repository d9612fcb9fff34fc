//! The defaults of a schema.

use super::{Additional, Structural};
use serde_json::Value;
use std::sync::Arc;

impl Structural {
    /// Sets what a value lacks and the schema has a default for. A null counts as absent where it is not allowed: it becomes the default, or goes.
    ///
    /// Source: upstream `schema/defaulting`, `Default` and `PruneNonNullableNullsWithoutDefaults`.
    pub fn set_defaults(&self, value: &mut Value) {
        self.add_defaults(value);
        self.remove_nulls(value);
    }

    /// Sets what a value lacks and the schema has a default for.
    pub(crate) fn add_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, property) in &self.properties {
                    let Some(default) = property.default.as_deref() else { continue };
                    if members.get(name).is_none_or(|value| value.is_null() && !property.nullable) {
                        members.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in members {
                    match (self.properties.get(name), &self.additional) {
                        (Some(property), _) => property.add_defaults(value),
                        (None, Additional::Of(schema)) => schema.default_element(value),
                        (None, Additional::Unset | Additional::Allowed(_)) => (),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|element| {
                if let Some(items) = &self.items {
                    items.default_element(element);
                }
            }),
            _ => (),
        }
    }

    fn default_element(&self, value: &mut Value) {
        if let (true, false, Some(default)) = (value.is_null(), self.nullable, self.default.as_deref()) {
            *value = default.clone();
        }
        self.add_defaults(value);
    }

    /// Removes members that are null where that is not allowed and where there is no default.
    pub(crate) fn remove_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                let additional = if let Additional::Of(schema) = &self.additional { Some(schema) } else { None };
                let schema_of = |name: &str| self.properties.get(name).or(additional);
                let is_none = |schema: &Arc<Self>| !schema.nullable && schema.default.is_none();
                members.retain(|name, value| !(value.is_null() && schema_of(name).is_some_and(is_none)));
                for (name, value) in members {
                    if let Some(schema) = schema_of(name) {
                        schema.remove_nulls(value);
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|element| {
                if let Some(items) = &self.items {
                    items.remove_nulls(element);
                }
            }),
            _ => (),
        }
    }
}
