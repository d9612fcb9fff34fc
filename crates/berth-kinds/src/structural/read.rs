//! A schema from its JSON.

use super::{
    Additional, ListType, MapType, Pattern, Structural, Type, Validation, Values, Wire,
    check::{self, SchemaFaults},
    rules,
};
use berth_api::{FieldError, Path};
use serde_json::{Map, Number, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Members that are kept as they are, for the rules of `berth-cel`.
const EXTRAS: [&str; 1] = ["x-kubernetes-validations"];
/// How many faults of a schema are collected.
const FAULTS_MAX: usize = 100;

impl Structural {
    /// Reads the schema of an object, and checks that it is structural. `path` is that of the schema, for the faults. Members that a schema does not have
    /// are ignored.
    ///
    /// # Errors
    /// All faults, in upstream's words.
    pub fn read(schema: &Value, path: &Path) -> Result<Self, Vec<FieldError>> {
        let read = Self::read_valid(schema, path)?;
        let mut faults = rules::check(&read, path);
        faults.truncate(FAULTS_MAX);
        if faults.is_empty() { Ok(read) } else { Err(faults) }
    }

    /// The same of a schema that was checked when it was written. Its rules are not checked again: that takes much longer than all else.
    ///
    /// # Errors
    /// [`Structural::read`].
    pub(crate) fn read_valid(schema: &Value, path: &Path) -> Result<Self, Vec<FieldError>> {
        if check::is_too_deep(schema) {
            let why = format!("must not be nested more than {} levels deep", super::DEPTH_MAX);
            return Err(vec![FieldError::forbidden(path, why)]);
        }
        let SchemaFaults { structure, parts } = check::check(schema, path);
        let mut reader = Reader::default();
        let read = reader.schema(schema, path);
        let mut faults = reader.faults;
        if structure.is_empty() && faults.is_empty() {
            faults.extend(defaults(&read, path));
        }
        let mut all = structure;
        all.extend(faults);
        all.extend(parts);
        all.truncate(FAULTS_MAX);
        if all.is_empty() { Ok(read) } else { Err(all) }
    }
}

/// The faults of the defaults of a schema.
///
/// Source: upstream `apiserver/schema/defaulting/validation.go`, which does not judge defaults in `additionalProperties`.
fn defaults(read: &Structural, path: &Path) -> Vec<FieldError> {
    let mut faults = Vec::new();
    // The object itself is one of the API, whatever its schema states.
    default_of(read, true, path, &mut faults);
    defaults_inside(read, path, &mut faults);
    faults
}

fn defaults_inside(read: &Structural, path: &Path, faults: &mut Vec<FieldError>) {
    let items = read.items.iter().map(|items| (path.child("items"), items));
    let properties = read.properties.iter().map(|(name, property)| (path.child("properties").key(name), property));
    for (at, schema) in items.chain(properties).filter(|(_, schema)| schema.default.is_some() || schema.has_defaults()) {
        if faults.len() < FAULTS_MAX {
            default_of(schema, schema.embedded_resource, &at, faults);
            defaults_inside(schema, &at, faults);
        }
    }
}

fn default_of(read: &Structural, is_resource: bool, path: &Path, faults: &mut Vec<FieldError>) {
    let Some(default) = read.default.as_deref() else { return };
    let at = path.child("default");
    let mut pruned = default.clone();
    read.prune_value(&mut pruned, is_resource);
    if pruned != *default {
        faults.push(FieldError::invalid(&at, default.clone(), "must not have unknown fields"));
    }
    let mut found = read.embedded_faults(default, is_resource);
    if found.is_empty() {
        found = Validation::of_default().run(read, default, None);
    }
    let inside = |fault: FieldError| {
        let field = fault.field.to_string();
        let field = match field.as_str() {
            "" | "<nil>" => at.clone(),
            list if list.starts_with('[') => Path::new(&format!("{at}{list}")),
            field => at.child(field),
        };
        FieldError { field, ..fault }
    };
    faults.extend(found.into_iter().map(inside));
}

/// Reads a schema. Equal parts of it share memory.
#[derive(Default)]
struct Reader {
    faults: Vec<FieldError>,
    schemas: Known<Structural>,
    values: Known<Values>,
    patterns: BTreeMap<String, Pattern>,
}

/// Parts that have been read, by their hashes.
struct Known<T>(BTreeMap<u64, Vec<Arc<T>>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Known<T> {
    fn shared(&mut self, hash: u64, value: T, same: impl Fn(&T, &T) -> bool) -> Arc<T> {
        let known = self.0.entry(hash).or_default();
        if let Some(found) = known.iter().find(|found| same(found, &value)) {
            return Arc::clone(found);
        }
        let value = Arc::new(value);
        known.push(Arc::clone(&value));
        value
    }
}

impl Reader {
    fn fault(&mut self, fault: FieldError) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// A part, shared with an equal one.
    fn part(&mut self, schema: &Value, path: &Path) -> Arc<Structural> {
        let read = self.schema(schema, path);
        self.schemas.shared(read.shallow_hash(), read, Structural::is_same)
    }

    fn schema(&mut self, schema: &Value, path: &Path) -> Structural {
        let mut read = Structural::default();
        let mut values = Values::default();
        for (name, value) in schema.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.member(&mut read, &mut values, name, value, path);
        }
        if let (Some(ListType::Map(known)), Some(keys)) = (&mut read.list_type, schema.get("x-kubernetes-list-map-keys")) {
            *known = self.texts(keys, &path.child("x-kubernetes-list-map-keys"));
        }
        // Upstream ignores a format that it does not know for the type.
        if !super::format::is_known(read.kind, &read.format) {
            read.format.clear();
        }
        if values != Values::default() {
            read.values = Some(self.values.shared(values.shallow_hash(), values, PartialEq::eq));
        }
        read.note_parts();
        read
    }

    fn member(&mut self, read: &mut Structural, values: &mut Values, name: &str, value: &Value, path: &Path) {
        let at = path.child(name);
        match name {
            "type" => read.kind = Type::parse(&self.text(value, &at)),
            "format" => read.format = self.text(value, &at),
            "nullable" => read.nullable = self.flag(value, &at),
            "default" => read.default = Some(Box::new(value.clone())),
            "properties" => {
                for (name, property) in self.members(value, &at) {
                    let property = self.part(property, &at.key(name));
                    read.properties.insert(name.clone(), property);
                }
            }
            "additionalProperties" => {
                read.additional = match value {
                    Value::Bool(allowed) => Additional::Allowed(*allowed),
                    schema if schema.is_object() => Additional::Of(self.part(schema, &at)),
                    other => {
                        self.fault(FieldError::invalid(&at, other.clone(), "boolean or JSON schema expected"));
                        Additional::Unset
                    }
                }
            }
            // As in upstream's Go types, what is no schema is none.
            "items" => read.items = value.is_object().then(|| self.part(value, &at)),
            "required" => read.required = self.texts(value, &at),
            "x-kubernetes-preserve-unknown-fields" => read.preserve_unknown_fields = self.flag(value, &at),
            "x-kubernetes-int-or-string" => read.int_or_string = self.flag(value, &at),
            "x-kubernetes-embedded-resource" => read.embedded_resource = self.flag(value, &at),
            "x-kubernetes-list-type" => {
                read.list_type = match value.as_str() {
                    Some("atomic") => Some(ListType::Atomic),
                    Some("set") => Some(ListType::Set),
                    Some("map") => Some(ListType::Map(Vec::new())),
                    _ => None,
                }
            }
            "x-kubernetes-map-type" => {
                read.map_type = match value.as_str() {
                    Some("atomic") => Some(MapType::Atomic),
                    Some("granular") => Some(MapType::Granular),
                    _ => None,
                }
            }
            extra if EXTRAS.contains(&extra) => _ = read.extras.insert(extra.to_owned(), value.clone()),
            _ => self.value_member(values, name, value, &at),
        }
    }

    fn value_member(&mut self, values: &mut Values, name: &str, value: &Value, at: &Path) {
        match name {
            "enum" => values.one_of_values = value.as_array().cloned().filter(|allowed| !allowed.is_empty()),
            "minimum" => values.minimum = self.number(value, at),
            "exclusiveMinimum" => values.exclusive_minimum = self.flag(value, at),
            "maximum" => values.maximum = self.number(value, at),
            "exclusiveMaximum" => values.exclusive_maximum = self.flag(value, at),
            "multipleOf" => values.multiple_of = self.number(value, at),
            "minLength" => values.min_length = self.bound(value, at),
            "maxLength" => values.max_length = self.bound(value, at),
            "pattern" => values.pattern = self.pattern(value, at),
            "minItems" => values.min_items = self.bound(value, at),
            "maxItems" => values.max_items = self.bound(value, at),
            "minProperties" => values.min_properties = self.bound(value, at),
            "maxProperties" => values.max_properties = self.bound(value, at),
            "allOf" => values.all_of = self.junctors(value, at),
            "anyOf" => values.any_of = self.junctors(value, at),
            "oneOf" => values.one_of = self.junctors(value, at),
            "not" => values.not = Some(Box::new(self.schema(value, at))),
            // Descriptions, and members that there are not: the kind of definitions reports them.
            _ => (),
        }
    }

    fn junctors(&mut self, value: &Value, at: &Path) -> Vec<Structural> {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().enumerate().map(|(index, schema)| self.schema(schema, &at.index(index))).collect()
    }

    fn members<'v>(&mut self, value: &'v Value, at: &Path) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
        if !value.is_object() {
            self.fault(FieldError::invalid(at, value.clone(), "must be an object"));
        }
        value.as_object().into_iter().flatten()
    }

    fn text(&mut self, value: &Value, at: &Path) -> String {
        value.as_str().map(str::to_owned).unwrap_or_else(|| {
            self.fault(FieldError::invalid(at, value.clone(), "must be a string"));
            String::new()
        })
    }

    fn texts(&mut self, value: &Value, at: &Path) -> Vec<String> {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().enumerate().map(|(index, text)| self.text(text, &at.index(index))).collect()
    }

    fn flag(&mut self, value: &Value, at: &Path) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.fault(FieldError::invalid(at, value.clone(), "must be a boolean"));
            false
        })
    }

    fn number(&mut self, value: &Value, at: &Path) -> Option<Number> {
        if !value.is_number() {
            self.fault(FieldError::invalid(at, value.clone(), "must be a number"));
        }
        value.as_number().cloned()
    }

    /// A negative bound bounds nothing or everything, as upstream's.
    fn bound(&mut self, value: &Value, at: &Path) -> Option<i64> {
        let bound = value.as_i64().or_else(|| value.as_f64().filter(|bound| bound.fract() == 0.0).map(|bound| bound as i64));
        if bound.is_none() {
            self.fault(FieldError::invalid(at, value.clone(), "must be an integer"));
        }
        bound
    }

    fn pattern(&mut self, value: &Value, at: &Path) -> Option<Pattern> {
        let text = Some(self.text(value, at)).filter(|text| !text.is_empty())?;
        Some(self.patterns.entry(text).or_insert_with_key(|text| Pattern::new(text)).clone())
    }
}

impl Structural {
    /// A hash of what [`Structural::is_same`] compares. Different parts have different hashes: those of a large schema are compared with few others.
    fn shallow_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.kind.map(Type::as_str), &self.format, self.nullable, &self.default, &self.required).hash(&mut hasher);
        (self.preserve_unknown_fields, self.int_or_string, self.embedded_resource, &self.extras).hash(&mut hasher);
        if let Some(ListType::Map(keys)) = &self.list_type {
            keys.hash(&mut hasher);
        }
        for (name, property) in &self.properties {
            (name, Arc::as_ptr(property)).hash(&mut hasher);
        }
        self.items.as_ref().map(Arc::as_ptr).hash(&mut hasher);
        if let Additional::Of(schema) = &self.additional {
            Arc::as_ptr(schema).hash(&mut hasher);
        }
        self.values.as_ref().map(Arc::as_ptr).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether two parts of one schema are equal. The parts in them are shared, so that none is visited.
    fn is_same(&self, other: &Self) -> bool {
        type Property<'s> = (&'s String, &'s Arc<Structural>);
        let same_properties = |(one, other): (Property<'_>, Property<'_>)| one.0 == other.0 && Arc::ptr_eq(one.1, other.1);
        let same = |one: &Option<Arc<Self>>, other: &Option<Arc<Self>>| one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr);
        let additional = match (&self.additional, &other.additional) {
            (Additional::Of(one), Additional::Of(other)) => Arc::ptr_eq(one, other),
            (Additional::Allowed(one), Additional::Allowed(other)) => one == other,
            (Additional::Unset, Additional::Unset) => true,
            _ => false,
        };
        let flags = |schema: &Self| (schema.nullable, schema.preserve_unknown_fields, schema.int_or_string, schema.embedded_resource);
        additional
            && flags(self) == flags(other)
            && (self.kind, &self.format, &self.default, &self.required) == (other.kind, &other.format, &other.default, &other.required)
            && (&self.list_type, self.map_type, &self.extras) == (&other.list_type, other.map_type, &other.extras)
            && self.values.as_ref().map(Arc::as_ptr) == other.values.as_ref().map(Arc::as_ptr)
            && same(&self.items, &other.items)
            && self.properties.len() == other.properties.len()
            && self.properties.iter().zip(&other.properties).all(same_properties)
    }

    /// As upstream's Go types write the fields of the kind: members of the schema that are not published.
    pub(super) fn set_wire(&mut self, members: &Map<String, Value>) {
        let has = |name: &str| members.get(name) == Some(&Value::Bool(true));
        let marks = [
            (super::components::OMIT_EMPTY, Wire::OmitEmpty),
            (super::components::ALWAYS, Wire::Always),
            (super::components::NULL, Wire::Null),
        ];
        self.wire = marks.into_iter().find(|(mark, _)| has(mark)).map_or(Wire::Plain, |(_, wire)| wire);
    }
}

/// The formats of a schema that upstream does not know for their types. It ignores them, with a warning for each.
pub(crate) fn unrecognized_formats(schema: &Value) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![schema]);
    while let Some(schema) = open.pop() {
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        let format = text("format");
        if !format.is_empty() && !super::format::is_known(Type::parse(text("type")), format) {
            found.insert(format.to_owned());
        }
        open.extend(["items", "additionalProperties"].into_iter().filter_map(|name| schema.get(name)));
        open.extend(schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(_, schema)| schema));
    }
    found
}

impl Values {
    fn shallow_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.min_length, self.max_length, self.min_items, self.max_items, self.min_properties, self.max_properties).hash(&mut hasher);
        (&self.minimum, self.exclusive_minimum, &self.maximum, self.exclusive_maximum, &self.multiple_of).hash(&mut hasher);
        (self.pattern.as_ref().map(Pattern::as_str), &self.one_of_values).hash(&mut hasher);
        (self.all_of.len(), self.any_of.len(), self.one_of.len()).hash(&mut hasher);
        let junctors = self.all_of.iter().chain(&self.any_of).chain(&self.one_of).chain(self.not.as_deref());
        junctors.for_each(|schema| schema.shallow_hash().hash(&mut hasher));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Equal hashes make the reader compare parts, and a schema can have many.
    #[test]
    fn parts_that_differ_have_different_hashes() {
        let parts = [
            json!({"type": "string"}),
            json!({"type": "string", "default": "a"}),
            json!({"type": "string", "default": "b"}),
            json!({"type": "string", "enum": ["a"]}),
            json!({"type": "string", "enum": ["b"]}),
            json!({"type": "string", "pattern": "a"}),
            json!({"type": "string", "allOf": [{"pattern": "a"}]}),
            json!({"type": "string", "allOf": [{"pattern": "b"}]}),
            json!({"type": "string", "not": {"pattern": "b"}}),
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'a'"}]}),
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'b'"}]}),
            json!({"type": "number", "minimum": 1}),
            json!({"type": "number", "minimum": 2}),
            json!({"type": "number", "maximum": 1}),
            json!({"type": "number", "multipleOf": 1}),
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]}),
        ];
        let mut reader = Reader::default();
        let hashes: BTreeSet<u64> = parts.iter().map(|part| reader.part(part, &Path::new("")).shallow_hash()).collect();
        assert_eq!(hashes.len(), parts.len());
        let again = reader.part(&parts[2], &Path::new(""));
        assert!(Arc::ptr_eq(&again, &reader.part(&parts[2], &Path::new(""))));
    }
}
