//! The normal form of upstream's Go types: what their encoder leaves out, and what it always writes.

use super::{Additional, Structural, Type, Wire, components::QUANTITY};
use serde_json::Value;

impl Structural {
    /// The empty value of its Go type.
    pub(crate) fn empty(&self) -> Value {
        if self.wire == Wire::Null {
            return Value::Null;
        }
        if self.int_or_string {
            return 0.into();
        }
        match self.kind {
            Some(Type::Array) => Value::Array(Vec::new()),
            Some(Type::Boolean) => false.into(),
            Some(Type::Integer | Type::Number) => 0.into(),
            Some(Type::String) if self.format == QUANTITY => "0".into(),
            Some(Type::String) => "".into(),
            Some(Type::Object) => {
                let required = self.required.iter().filter_map(|name| Some((name, self.properties.get(name)?)));
                let written = required.filter(|(_, property)| property.wire != Wire::OmitEmpty);
                Value::Object(written.map(|(name, property)| (name.clone(), property.empty())).collect())
            }
            None => Value::Null,
        }
    }

    /// Drops what upstream's encoder leaves out and adds what it always writes, at all depths. Idempotent.
    pub(crate) fn normalize(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, property) in &self.properties {
                    if property.wire == Wire::Always {
                        members.entry(name.as_str()).or_insert_with(|| property.empty());
                    }
                    if property.wire == Wire::Null {
                        members.entry(name.as_str()).or_insert(Value::Null);
                    }
                    let Some(value) = members.get_mut(name) else { continue };
                    property.normalize(value);
                    match property.wire {
                        Wire::OmitEmpty if is_empty(value) => drop(members.remove(name)),
                        Wire::Null if is_empty(value) => *value = Value::Null,
                        _ => (),
                    }
                }
                if let Additional::Of(schema) = &self.additional {
                    members.values_mut().for_each(|value| schema.normalize(value));
                }
            }
            Value::Array(list) => {
                let Some(items) = &self.items else { return };
                list.iter_mut().for_each(|element| items.normalize(element));
            }
            _ => (),
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
