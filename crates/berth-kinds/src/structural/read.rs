//! A schema from its JSON, with all that contradicts itself in it.

use super::{Additional, DEPTH_MAX, ListType, MapType, Pattern, Structural, Type, Validation, Values, Wire};
use berth_api::{FieldError, Path};
use serde_json::{Map, Number, Value};
use std::{collections::BTreeSet, sync::Arc};

/// Members that are kept as they are.
const EXTRAS: [&str; 6] = ["title", "example", "externalDocs", "id", "$schema", "x-kubernetes-validations"];
/// How many faults of a schema are collected.
const FAULTS_MAX: usize = 100;

/// What a part of a schema describes. That decides which members it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The object itself.
    Root,
    /// A member of an object.
    Property,
    /// An element of a list.
    Item,
    /// In `allOf`, `anyOf`, `oneOf` or `not`: it can only restrict values.
    Junctor,
    /// The same beside `x-kubernetes-int-or-string`: there it can name both types.
    IntOrString,
}

impl Part {
    fn is_junctor(self) -> bool {
        matches!(self, Self::Junctor | Self::IntOrString)
    }
}

impl Structural {
    /// Reads the schema of an object, and checks that it is structural. `path` is that of the schema, for the faults.
    ///
    /// # Errors
    /// All faults, in upstream's words.
    pub fn read(schema: &Value, path: &Path) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader::default();
        let read = reader.schema(schema, path, Part::Root, 0);
        reader.check_meta(&read, path);
        if reader.faults.is_empty() {
            reader.check_defaults(&read, path, 0);
        }
        if reader.faults.is_empty() { Ok(read) } else { Err(reader.faults) }
    }
}

/// Collects the faults of a schema.
#[derive(Default)]
struct Reader {
    faults: Vec<FieldError>,
}

impl Reader {
    fn fault(&mut self, fault: FieldError) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    fn schema(&mut self, schema: &Value, path: &Path, place: Part, depth: usize) -> Structural {
        if DEPTH_MAX < depth {
            self.fault(FieldError::forbidden(path, format!("must not be nested more than {DEPTH_MAX} levels deep")));
            return Structural::default();
        }
        let Value::Object(members) = schema else {
            self.fault(FieldError::invalid(path, schema.clone(), "must be an object"));
            return Structural::default();
        };
        let mut read = Structural::default();
        let is_int_or_string = place == Part::IntOrString || members.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
        let inside = if is_int_or_string { Part::IntOrString } else { Part::Junctor };
        for (name, value) in members {
            self.member(&mut read, name, value, path, (place, inside), depth);
        }
        if let Some(keys) = members.get("x-kubernetes-list-map-keys") {
            let keys = self.texts(keys, &path.child("x-kubernetes-list-map-keys"));
            match &mut read.list_type {
                Some(ListType::Map(known)) => *known = keys,
                _ => self.fault(FieldError::forbidden(
                    &path.child("x-kubernetes-list-map-keys"),
                    "must not be specified unless x-kubernetes-list-type is map",
                )),
            }
        }
        if place.is_junctor() {
            self.check_junctor(&read, path, place);
        } else {
            self.check(&read, path, place);
        }
        read
    }

    fn member(&mut self, read: &mut Structural, name: &str, value: &Value, path: &Path, (place, junctor): (Part, Part), depth: usize) {
        let at = path.child(name);
        match name {
            "description" => read.description = self.text(value, &at),
            "type" => read.kind = self.kind(value, &at),
            "format" => read.format = self.text(value, &at),
            "nullable" => read.nullable = self.flag(value, &at),
            "default" => read.default = Some(value.clone()).filter(|default| !default.is_null()),
            "properties" => {
                for (name, property) in self.members(value, &at) {
                    let inside = if place.is_junctor() { Part::Junctor } else { Part::Property };
                    let property = self.schema(property, &at.key(name), inside, depth + 1);
                    read.properties.insert(name.clone(), Arc::new(property));
                }
            }
            "additionalProperties" => {
                read.additional = match value {
                    Value::Bool(allowed) => Additional::Allowed(*allowed),
                    schema => {
                        let inside = if place.is_junctor() { Part::Junctor } else { Part::Property };
                        Additional::Of(Arc::new(self.schema(schema, &at, inside, depth + 1)))
                    }
                }
            }
            "items" => {
                let inside = if place.is_junctor() { Part::Junctor } else { Part::Item };
                read.items = Some(Arc::new(self.schema(value, &at, inside, depth + 1)));
            }
            "required" => read.required = self.texts(value, &at),
            "x-kubernetes-preserve-unknown-fields" => read.preserve_unknown_fields = self.only_true(value, &at),
            "x-kubernetes-int-or-string" => read.int_or_string = self.flag(value, &at),
            "x-kubernetes-embedded-resource" => read.embedded_resource = self.flag(value, &at),
            "x-kubernetes-list-type" => read.list_type = self.list_type(value, &at),
            "x-kubernetes-map-type" => read.map_type = self.map_type(value, &at),
            "uniqueItems" if value == &Value::Bool(true) => {
                self.fault(FieldError::forbidden(&at, "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"));
            }
            // The keys are read with the type of the list.
            "x-kubernetes-list-map-keys" | "uniqueItems" => (),
            "$ref" => self.fault(FieldError::forbidden(&at, "$ref is not supported")),
            extra if EXTRAS.contains(&extra) => _ = read.extras.insert(extra.to_owned(), value.clone()),
            _ => self.value_member(&mut read.values, name, value, &at, (junctor, depth)),
        }
    }

    fn value_member(&mut self, values: &mut Values, name: &str, value: &Value, at: &Path, (inside, depth): (Part, usize)) {
        match name {
            "enum" => values.one_of_values = value.as_array().cloned().filter(|allowed| !allowed.is_empty()),
            "minimum" => values.minimum = self.number(value, at),
            "exclusiveMinimum" => values.exclusive_minimum = self.flag(value, at),
            "maximum" => values.maximum = self.number(value, at),
            "exclusiveMaximum" => values.exclusive_maximum = self.flag(value, at),
            "multipleOf" => values.multiple_of = self.number(value, at),
            "minLength" => values.min_length = self.count(value, at),
            "maxLength" => values.max_length = self.count(value, at),
            "pattern" => values.pattern = self.pattern(value, at),
            "minItems" => values.min_items = self.count(value, at),
            "maxItems" => values.max_items = self.count(value, at),
            "minProperties" => values.min_properties = self.count(value, at),
            "maxProperties" => values.max_properties = self.count(value, at),
            "allOf" => values.all_of = self.junctors(value, at, inside, depth),
            "anyOf" => values.any_of = self.junctors(value, at, inside, depth),
            "oneOf" => values.one_of = self.junctors(value, at, inside, depth),
            "not" => values.not = Some(Box::new(self.schema(value, at, inside, depth + 1))),
            other => self.fault(FieldError::invalid(at, other, "is not a member of a structural schema")),
        }
    }

    fn junctors(&mut self, value: &Value, at: &Path, inside: Part, depth: usize) -> Vec<Structural> {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().enumerate().map(|(index, schema)| self.schema(schema, &at.index(index), inside, depth + 1)).collect()
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

    fn only_true(&mut self, value: &Value, at: &Path) -> bool {
        if value != &Value::Bool(true) {
            self.fault(FieldError::invalid(at, value.clone(), "must be true or undefined"));
        }
        true
    }

    fn number(&mut self, value: &Value, at: &Path) -> Option<Number> {
        if !value.is_number() {
            self.fault(FieldError::invalid(at, value.clone(), "must be a number"));
        }
        value.as_number().cloned()
    }

    /// Upstream takes a negative bound, which bounds nothing or everything. Here it is a fault.
    fn count(&mut self, value: &Value, at: &Path) -> Option<u64> {
        let count = value.as_u64();
        if count.is_none() {
            self.fault(FieldError::invalid(at, value.clone(), "must be a non-negative integer"));
        }
        count
    }

    fn kind(&mut self, value: &Value, at: &Path) -> Option<Type> {
        let name = self.text(value, at);
        let kind = Type::parse(&name);
        if kind.is_none() && !name.is_empty() {
            self.fault(FieldError::not_supported(at, name, &["array", "boolean", "integer", "number", "object", "string"]));
        }
        kind
    }

    fn pattern(&mut self, value: &Value, at: &Path) -> Option<Pattern> {
        let text = self.text(value, at);
        let compiled = Pattern::new(&text);
        if let Err(why) = &compiled {
            self.fault(FieldError::invalid(at, text, format!("must be a valid regular expression, but isn't: {why}")));
        }
        compiled.ok()
    }

    fn list_type(&mut self, value: &Value, at: &Path) -> Option<ListType> {
        match value.as_str() {
            Some("atomic") => Some(ListType::Atomic),
            Some("set") => Some(ListType::Set),
            Some("map") => Some(ListType::Map(Vec::new())),
            _ => {
                self.fault(FieldError::not_supported(at, value.clone(), &["atomic", "set", "map"]));
                None
            }
        }
    }

    fn map_type(&mut self, value: &Value, at: &Path) -> Option<MapType> {
        match value.as_str() {
            Some("atomic") => Some(MapType::Atomic),
            Some("granular") => Some(MapType::Granular),
            _ => {
                self.fault(FieldError::not_supported(at, value.clone(), &["atomic", "granular"]));
                None
            }
        }
    }

    /// What contradicts itself in one part.
    fn check(&mut self, read: &Structural, path: &Path, place: Part) {
        let kind = path.child("type");
        match (read.kind, place) {
            (None, Part::Root) => self.fault(FieldError::required(&kind, "must not be empty at the root")),
            (Some(other), Part::Root) if other != Type::Object => {
                self.fault(FieldError::invalid(&kind, other.as_str(), "must be object at the root"));
            }
            (None, Part::Property) if !read.int_or_string && !read.preserve_unknown_fields => {
                self.fault(FieldError::required(&kind, "must not be empty for specified object fields"));
            }
            (None, Part::Item) if !read.int_or_string && !read.preserve_unknown_fields => {
                self.fault(FieldError::required(&kind, "must not be empty for specified array items"));
            }
            _ => (),
        }
        if read.kind == Some(Type::Array) && read.items.is_none() {
            self.fault(FieldError::required(&path.child("items"), "must be specified"));
        }
        if !read.properties.is_empty() && read.additional != Additional::Unset {
            let at = path.child("additionalProperties");
            self.fault(FieldError::forbidden(&at, "additionalProperties and properties are mutual exclusive"));
        }
        if read.embedded_resource {
            if read.properties.is_empty() && !read.preserve_unknown_fields {
                let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
                self.fault(FieldError::required(&path.child("properties"), why));
            }
            self.needs(read, Type::Object, "must be object if x-kubernetes-embedded-resource is true", path);
        }
        if read.map_type.is_some() {
            self.needs(read, Type::Object, "must be object if x-kubernetes-map-type is specified", path);
        }
        self.check_list(read, path);
    }

    fn needs(&mut self, read: &Structural, wanted: Type, why: &str, path: &Path) {
        if read.kind != Some(wanted) {
            self.fault(FieldError::invalid(&path.child("type"), read.kind.map_or("", Type::as_str), why));
        }
    }

    fn check_list(&mut self, read: &Structural, path: &Path) {
        let Some(list_type) = &read.list_type else { return };
        self.needs(read, Type::Array, "must be array if x-kubernetes-list-type is specified", path);
        let Some(items) = &read.items else { return };
        let of_items = path.child("items");
        match list_type {
            ListType::Atomic => (),
            ListType::Set => {
                let is_atomic = match items.kind {
                    Some(Type::Object) => items.map_type == Some(MapType::Atomic),
                    Some(Type::Array) => matches!(items.list_type, None | Some(ListType::Atomic)),
                    _ => true,
                };
                if !is_atomic {
                    let word = if items.kind == Some(Type::Object) { "x-kubernetes-map-type" } else { "x-kubernetes-list-type" };
                    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                    self.fault(FieldError::invalid(&of_items.child(word), Value::Null, why));
                }
                if items.nullable {
                    self.fault(FieldError::forbidden(&of_items.child("nullable"), "cannot be nullable when x-kubernetes-list-type is set"));
                }
            }
            ListType::Map(keys) => self.check_keys(keys, items, path),
        }
    }

    fn check_keys(&mut self, keys: &[String], items: &Structural, path: &Path) {
        let (at, of_items) = (path.child("x-kubernetes-list-map-keys"), path.child("items"));
        if items.kind != Some(Type::Object) {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.fault(FieldError::invalid(&of_items.child("type"), items.kind.map_or("", Type::as_str), why));
        }
        if keys.is_empty() {
            self.fault(FieldError::required(&at, "must not be empty if x-kubernetes-list-type is map"));
        }
        if keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
            self.fault(FieldError::invalid(&at, keys.to_vec(), "must not contain duplicate entries"));
        }
        if keys.iter().any(|key| !items.properties.contains_key(key)) {
            self.fault(FieldError::invalid(&at, keys.to_vec(), "entries must all be names of item properties"));
        }
        for (key, property) in keys.iter().filter_map(|key| Some((key, items.properties.get(key)?))) {
            let property_at = of_items.child("properties").key(key);
            if matches!(property.kind, Some(Type::Array | Type::Object)) {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                self.fault(FieldError::invalid(&property_at.child("type"), property.kind.map_or("", Type::as_str), why));
            }
            if property.default.is_none() && !items.required.contains(key) {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.fault(FieldError::required(&property_at.child("default"), why));
            }
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not` restrict values. They do not describe fields.
    fn check_junctor(&mut self, read: &Structural, path: &Path, place: Part) {
        let empty = |this: &mut Self, name: &str, is_empty: bool| {
            if !is_empty {
                this.fault(FieldError::forbidden(&path.child(name), "must be empty to be structural"));
            }
        };
        let undefined = |this: &mut Self, name: &str, is_undefined: bool| {
            if !is_undefined {
                this.fault(FieldError::forbidden(&path.child(name), "must be undefined to be structural"));
            }
        };
        empty(self, "description", read.description.is_empty());
        empty(self, "type", read.kind.is_none() || place == Part::IntOrString && read.is_part_of_int_or_string());
        undefined(self, "default", read.default.is_none());
        let false_only = |this: &mut Self, name: &str, is_false: bool| {
            if !is_false {
                this.fault(FieldError::forbidden(&path.child(name), "must be false to be structural"));
            }
        };
        false_only(self, "nullable", !read.nullable);
        false_only(self, "x-kubernetes-preserve-unknown-fields", !read.preserve_unknown_fields);
        false_only(self, "x-kubernetes-embedded-resource", !read.embedded_resource);
        false_only(self, "x-kubernetes-int-or-string", !read.int_or_string);
        undefined(self, "x-kubernetes-list-type", read.list_type.is_none());
        undefined(self, "x-kubernetes-map-type", read.map_type.is_none());
        undefined(self, "additionalProperties", read.additional == Additional::Unset);
    }

    /// Of its metadata, a schema can restrict the name. All else is every object's.
    fn check_meta(&mut self, read: &Structural, path: &Path) {
        let properties = path.child("properties");
        for name in ["apiVersion", "kind"] {
            if let Some(other) = read.properties.get(name).and_then(|property| property.kind).filter(|kind| *kind != Type::String) {
                self.fault(FieldError::invalid(&properties.key(name).child("type"), other.as_str(), "must be string"));
            }
        }
        let Some(metadata) = read.properties.get("metadata") else { return };
        if metadata.kind.is_some_and(|kind| kind != Type::Object) {
            let kind = metadata.kind.map_or("", Type::as_str);
            self.fault(FieldError::invalid(&properties.key("metadata").child("type"), kind, "must be object"));
        }
        let is_name = |name: &String| matches!(name.as_str(), "name" | "generateName");
        if !metadata.properties.keys().all(is_name) || !metadata.required.iter().all(is_name) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.fault(FieldError::forbidden(&properties.key("metadata"), why));
        }
    }

    /// A default must be a value of its schema, without fields that would be pruned.
    fn check_defaults(&mut self, read: &Structural, path: &Path, depth: usize) {
        if let Some(default) = &read.default {
            let at = path.child("default");
            let mut pruned = default.clone();
            read.prune_value(&mut pruned);
            if &pruned != default {
                self.fault(FieldError::invalid(&at, default.clone(), "must not have unknown fields"));
            } else {
                let mut complete = default.clone();
                read.set_defaults(&mut complete);
                let faults = Validation::at(Path::new("")).run(read, &complete, None);
                faults.into_iter().for_each(|fault| self.fault(FieldError { field: at.clone(), ..fault }));
            }
        }
        if depth == 0 && read.default.is_some() {
            self.fault(FieldError::forbidden(&path.child("default"), "must be undefined at the root"));
        }
        for (name, property) in &read.properties {
            self.check_defaults(property, &path.child("properties").key(name), depth + 1);
        }
        if let Additional::Of(schema) = &read.additional {
            self.check_defaults(schema, &path.child("additionalProperties"), depth + 1);
        }
        if let Some(items) = &read.items {
            self.check_defaults(items, &path.child("items"), depth + 1);
        }
    }
}

impl Structural {
    /// `anyOf: [{type: integer}, {type: string}]` may be beside `x-kubernetes-int-or-string`.
    fn is_part_of_int_or_string(&self) -> bool {
        let bare = Self { kind: self.kind, ..Self::default() };
        matches!(self.kind, Some(Type::Integer | Type::String)) && *self == bare
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
