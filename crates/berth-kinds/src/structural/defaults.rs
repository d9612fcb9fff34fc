//! The defaults of a schema.

use super::{Additional, Structural};
use serde_json::Value;

impl Structural {
    /// Sets what a value lacks and the schema has a default for. A null counts as absent where it is not allowed: it becomes the default, or goes.
    ///
    /// Source: upstream `schema/defaulting`, `Default` and `PruneNonNullableNullsWithoutDefaults`.
    pub fn set_defaults(&self, value: &mut Value) {
        self.add_defaults(value);
        self.remove_nulls(value);
    }

    fn add_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, property) in &self.properties {
                    let Some(default) = &property.default else { continue };
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
        if let (true, false, Some(default)) = (value.is_null(), self.nullable, &self.default) {
            *value = default.clone();
        }
        self.add_defaults(value);
    }

    fn remove_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                let additional = if let Additional::Of(schema) = &self.additional { Some(schema) } else { None };
                let schema_of = |name: &str| self.properties.get(name).or(additional);
                members.retain(|name, value| !(value.is_null() && schema_of(name).is_some_and(|schema| !schema.nullable)));
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
