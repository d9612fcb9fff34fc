//! Whether a schema is structural, in upstream's words.
//!
//! Upstream judges a schema three times: each part by itself, then all of it as a structural schema, then its defaults. This file has the first two.
//! It reads the schema as JSON, because it judges members that a [`Structural`](super::Structural) does not have.
//!
//! Source: upstream `apiextensions/validation/validation.go`, `ValidateCustomResourceDefinitionOpenAPISchema`, and `apiserver/schema/validation.go`.

use super::{DEPTH_MAX, FAULTS_MAX, Pattern};
use berth_api::{FieldError, Path};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, sync::LazyLock};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];
const ONLY_NAMES: &str = "must not specify anything other than name and generateName, but metadata is implicitly specified";
/// The extensions that can be `true`.
const FLAGS: [&str; 4] =
    ["nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"];
/// Members without which upstream makes no structural schema.
const UNSUPPORTED: [&str; 7] = ["id", "$schema", "$ref", "definitions", "dependencies", "patternProperties", "additionalItems"];
/// What a schema of metadata can have.
const OF_METADATA: [&str; 3] = ["type", "properties", "default"];

/// What is wrong with a schema.
#[derive(Debug, Default)]
pub(super) struct SchemaFaults {
    /// Of its structure, sorted.
    pub(super) structure: Vec<FieldError>,
    /// Of its parts.
    pub(super) parts: Vec<FieldError>,
}

/// Judges the schema of an object. It is nested at most [`DEPTH_MAX`] levels deep.
pub(super) fn check(schema: &Value, path: &Path) -> SchemaFaults {
    let mut faults = SchemaFaults::default();
    let root = Part::of(schema);
    Parts { faults: &mut faults.parts, patterns: BTreeSet::new() }.part(root, path, Position { is_root: true, ..Position::default() });
    match unsupported(root) {
        // The parts name the member, except for this one.
        Some("$schema") if faults.parts.is_empty() => {
            faults.parts.push(FieldError::invalid(path, "", "OpenAPIV3Schema 'schema' is not supported"));
        }
        Some(_) => (),
        None => {
            let mut structure = Structure::default();
            structure.part(root, Level::Root, path);
            structure.complete(root, Some(root), (path, path));
            structure.faults.sort_by_cached_key(ToString::to_string);
            faults.structure = structure.faults;
        }
    }
    faults
}

/// Whether a schema is nested deeper than [`DEPTH_MAX`] levels. Without recursion: it is as deep as clients make it.
pub(super) fn is_too_deep(schema: &Value) -> bool {
    let mut open = vec![(Part::of(schema), 0)];
    while let Some((part, depth)) = open.pop() {
        if DEPTH_MAX < depth {
            return true;
        }
        open.extend(part.inside().map(|inside| (inside, depth + 1)));
    }
    false
}

/// The first member that upstream makes no structural schema of.
fn unsupported(part: Part<'_>) -> Option<&'static str> {
    let is_set = |name: &&&str| match part.0.get(**name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty() || **name == "$ref",
        Some(Value::Object(members)) => !members.is_empty() || **name == "dependencies",
        Some(_) => true,
    };
    let own = UNSUPPORTED.iter().find(is_set).copied();
    let items = part.0.get("items").and_then(Value::as_array).filter(|list| !list.is_empty()).map(|_| "items");
    own.or(items).or_else(|| part.inside().find_map(unsupported))
}

/// A schema as JSON. What is no object is an empty schema.
#[derive(Clone, Copy)]
pub(super) struct Part<'v>(&'v Map<String, Value>);

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

impl<'v> Part<'v> {
    pub(super) fn of(schema: &'v Value) -> Self {
        Self(schema.as_object().unwrap_or(&NOTHING))
    }

    fn text(self, name: &str) -> &'v str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    fn has(self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// The schemas under the names of a member.
    fn named(self, name: &str) -> impl Iterator<Item = (&'v String, Self)> + use<'v> {
        self.0.get(name).and_then(Value::as_object).into_iter().flatten().map(|(name, schema)| (name, Self::of(schema)))
    }

    /// The schemas of a list.
    fn listed(self, name: &str) -> impl Iterator<Item = Self> + use<'v> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().map(Self::of)
    }

    fn single(self, name: &str) -> Option<Self> {
        self.0.get(name).and_then(Value::as_object).map(Self)
    }

    fn property(self, name: &str) -> Option<Self> {
        self.0.get("properties").and_then(Value::as_object)?.get(name).map(Self::of)
    }

    fn texts(self, name: &str) -> Vec<&'v str> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// All schemas in this one.
    fn inside(self) -> impl Iterator<Item = Self> + use<'v> {
        let named =
            ["properties", "patternProperties", "definitions"].into_iter().flat_map(move |name| self.named(name).map(|(_, part)| part));
        let listed = ["allOf", "anyOf", "oneOf", "items"].into_iter().flat_map(move |name| self.listed(name));
        let single = ["items", "not", "additionalProperties", "additionalItems"].into_iter().filter_map(move |name| self.single(name));
        named.chain(listed).chain(single)
    }
}

/// Where a part is. That decides what it can have.
#[derive(Clone, Copy, Default)]
struct Position {
    is_root: bool,
    in_metadata: bool,
    /// Why it can have no default.
    without_default: Option<&'static str>,
}

/// Judges each part by itself.
struct Parts<'f, 'v> {
    faults: &'f mut Vec<FieldError>,
    /// The patterns that are expressions. Many fields have the same one.
    patterns: BTreeSet<&'v str>,
}

impl<'v> Parts<'_, 'v> {
    fn fault(&mut self, fault: FieldError) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    fn forbidden(&mut self, path: &Path, name: &str, why: &str) {
        self.fault(FieldError::forbidden(&path.child(name), why));
    }

    fn part(&mut self, part: Part<'v>, path: &Path, place: Position) {
        self.members(part, path, place);
        if part.flag("uniqueItems") {
            self.forbidden(path, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
        }
        self.additional(part, path, place);
        let inside = Position { is_root: false, ..place };
        for (name, property) in part.named("properties") {
            let is_meta = (place.is_root || part.flag("x-kubernetes-embedded-resource")) && METADATA.contains(&name.as_str());
            let without_default = if is_meta && place.is_root { top_level(name) } else { inside.without_default };
            let inside = Position { in_metadata: inside.in_metadata || is_meta, without_default, ..inside };
            self.part(property, &path.child("properties").key(name), inside);
        }
        part.single("not").into_iter().for_each(|not| self.part(not, &path.child("not"), inside));
        for junctor in ["allOf", "anyOf", "oneOf"] {
            part.listed(junctor).enumerate().for_each(|(index, part)| self.part(part, &path.child(junctor).index(index), inside));
        }
        part.named("definitions").for_each(|(name, part)| self.part(part, &path.child("definitions").key(name), inside));
        part.single("items").into_iter().for_each(|items| self.part(items, &path.child("items"), inside));
        part.listed("items").enumerate().for_each(|(index, part)| self.part(part, &path.child("items").index(index), inside));
        self.extensions(part, path);
    }

    /// Members that upstream's schemas do not have, or not here.
    fn members(&mut self, part: Part<'v>, path: &Path, place: Position) {
        if let Some(why) = place.without_default.filter(|_| part.has("default")) {
            self.forbidden(path, "default", &format!("must not be set{why}"));
        }
        let kind = part.text("type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.fault(FieldError::not_supported(&path.child("type"), kind, &TYPES));
        }
        let not_empty = |name: &str| match part.0.get(name) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(members)) => !members.is_empty(),
            _ => false,
        };
        for (name, is_set) in [
            ("id", not_empty("id")),
            ("additionalItems", part.has("additionalItems")),
            ("patternProperties", not_empty("patternProperties")),
            ("definitions", not_empty("definitions")),
            ("dependencies", part.has("dependencies")),
            ("$ref", part.has("$ref")),
        ] {
            if is_set {
                self.forbidden(path, name, &format!("{name} is not supported"));
            }
        }
        if kind == "null" {
            self.forbidden(path, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if part.listed("items").next().is_some() {
            self.forbidden(path, "items", "items must be a schema object and not an array");
        }
        if place.in_metadata && part.flag("x-kubernetes-embedded-resource") {
            self.forbidden(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
        let pattern = part.text("pattern");
        if pattern.is_empty() || self.patterns.contains(pattern) {
            return;
        }
        match Pattern::check(pattern) {
            Ok(()) => _ = self.patterns.insert(pattern),
            Err(why) => {
                let why = format!("must be a valid regular expression, but isn't: {why}");
                self.fault(FieldError::invalid(&path.child("pattern"), pattern, why));
            }
        }
    }

    fn additional(&mut self, part: Part<'v>, path: &Path, place: Position) {
        let at = path.child("additionalProperties");
        let Some(additional) = part.0.get("additionalProperties").filter(|value| !value.is_null()) else { return };
        if additional != &Value::Bool(true) && part.named("properties").next().is_some() {
            self.fault(FieldError::forbidden(&at, "additionalProperties and properties are mutual exclusive"));
        }
        let why = place.in_metadata.then_some(" inside additionalProperties applying to object metadata");
        let inside = Position { is_root: false, without_default: why.or(place.without_default), ..place };
        part.single("additionalProperties").into_iter().for_each(|part| self.part(part, &at, inside));
    }

    fn extensions(&mut self, part: Part<'v>, path: &Path) {
        if part.0.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            self.fault(FieldError::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined"));
        }
        self.extension(part, path, "x-kubernetes-map-type", "object", &["atomic", "granular"]);
        self.extension(part, path, "x-kubernetes-list-type", "array", &["atomic", "set", "map"]);
        let list_type = part.0.get("x-kubernetes-list-type").and_then(Value::as_str);
        if !part.texts("x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
            let (at, why) = (path.child("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
            self.fault(list_type.map_or_else(|| FieldError::required(&at, why), |found| FieldError::invalid(&at, found, why)));
        }
        if list_type == Some("map") {
            self.list_map(part, path);
        }
        let Some((items, list_type)) = part.single("items").zip(list_type.filter(|found| ["set", "map"].contains(found))) else { return };
        if items.flag("nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbidden(&path.child("items"), "nullable", &why);
        }
        if list_type == "map" {
            self.map_keys(part, items, path);
        } else {
            self.set_items(items, path);
        }
    }

    fn extension(&mut self, part: Part<'v>, path: &Path, name: &str, of: &str, words: &[&str]) {
        let Some(word) = part.0.get(name).and_then(Value::as_str) else { return };
        let (at, kind, why) = (path.child("type"), part.text("type"), format!("must be {of} if {name} is specified"));
        if kind.is_empty() {
            self.fault(FieldError::required(&at, why));
        } else if kind != of {
            self.fault(FieldError::invalid(&at, kind, why));
        }
        if !words.contains(&word) {
            self.fault(FieldError::not_supported(&path.child(name), word, words));
        }
    }

    fn list_map(&mut self, part: Part<'v>, path: &Path) {
        let (keys, at) = (part.texts("x-kubernetes-list-map-keys"), path.child("x-kubernetes-list-map-keys"));
        let of_items = path.child("items");
        if keys.is_empty() {
            self.fault(FieldError::required(&at, "must not be empty if x-kubernetes-list-type is map"));
        }
        let Some(items) = part.single("items") else {
            return match part.0.get("items").filter(|items| items.as_array().is_some_and(|list| !list.is_empty())) {
                None => self.fault(FieldError::required(&of_items, "must have a schema if x-kubernetes-list-type is map")),
                Some(list) => {
                    let why = "must only have a single schema if x-kubernetes-list-type is map";
                    self.fault(FieldError::invalid(&of_items, list.clone(), why));
                }
            };
        };
        if items.text("type") != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.fault(FieldError::invalid(&of_items.child("type"), items.text("type"), why));
            return;
        }
        let mut seen = BTreeSet::new();
        for key in &keys {
            if FAULTS_MAX <= self.faults.len() {
                return;
            }
            match items.property(key) {
                // Upstream shows the type of the items.
                Some(property) if ["array", "object"].contains(&property.text("type")) => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.fault(FieldError::invalid(&of_items.child("properties").key(key).child("type"), items.text("type"), why));
                }
                Some(_) => (),
                None => self.fault(FieldError::invalid(&at, keys.clone(), "entries must all be names of item properties")),
            }
            if !seen.insert(key) {
                self.fault(FieldError::invalid(&at, keys.clone(), "must not contain duplicate entries"));
            }
        }
    }

    /// What distinguishes elements is always there.
    fn map_keys(&mut self, part: Part<'v>, items: Part<'v>, path: &Path) {
        let required = BTreeSet::from_iter(items.texts("required"));
        for key in part.texts("x-kubernetes-list-map-keys") {
            let Some(property) = items.property(key) else { continue };
            let at = path.child("items").child("properties").key(key);
            if !property.has("default") && !required.contains(&key) {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.fault(FieldError::required(&at.child("default"), why));
            }
            if property.flag("nullable") {
                self.forbidden(&at, "nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
            }
        }
    }

    fn set_items(&mut self, items: Part<'v>, path: &Path) {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let word = |name: &str| items.0.get(name).and_then(Value::as_str);
        match items.text("type") {
            "object" if word("x-kubernetes-map-type") != Some("atomic") => {
                self.fault(FieldError::invalid(&path.child("items").child("x-kubernetes-map-type"), Value::Null, why));
            }
            "array" => {
                if let Some(found) = word("x-kubernetes-list-type").filter(|found| *found != "atomic") {
                    self.fault(FieldError::invalid(&path.child("items").child("x-kubernetes-list-type"), found, why));
                }
            }
            _ => (),
        }
    }
}

fn top_level(name: &str) -> Option<&'static str> {
    let reasons = [" in top-level apiVersion", " in top-level kind", " in top-level metadata"];
    METADATA.into_iter().zip(reasons).find(|(known, _)| *known == name).map(|(_, reason)| reason)
}

/// What a part describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// The object itself.
    Root,
    /// A member of an object.
    Field,
    /// An element of a list.
    Item,
}

/// Which parts of `x-kubernetes-int-or-string` can name types: `anyOf: [{type: integer}, {type: string}]`, alone or first in `allOf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Exceptions {
    any_of: bool,
    first_all_of: bool,
}

/// Judges the whole as a structural schema.
#[derive(Default)]
struct Structure {
    faults: Vec<FieldError>,
}

impl Structure {
    fn fault(&mut self, fault: FieldError) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    fn forbidden(&mut self, path: &Path, name: &str, why: &str) {
        self.fault(FieldError::forbidden(&path.child(name), why));
    }

    fn part(&mut self, part: Part<'_>, level: Level, path: &Path) {
        let kind = part.text("type");
        if kind == "array" && part.single("items").is_none() {
            self.fault(FieldError::required(&path.child("items"), "must be specified"));
        }
        part.single("items").into_iter().for_each(|items| self.part(items, Level::Item, &path.child("items")));
        part.named("properties").for_each(|(name, part)| self.part(part, Level::Field, &path.child("properties").key(name)));
        let additional = path.child("additionalProperties");
        part.single("additionalProperties").into_iter().for_each(|part| self.part(part, Level::Field, &additional));
        if level == Level::Root && part.has("additionalProperties") {
            self.fault(FieldError::forbidden(&additional, "must not be used at the root"));
        }
        self.flags(part, path);
        self.kind(part, level, path);
        self.metadata(part, level, path);
        self.junctors(part, path, exceptions(part));
    }

    fn flags(&mut self, part: Part<'_>, path: &Path) {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if part.flag("x-kubernetes-int-or-string") && part.flag(name) {
                self.fault(FieldError::invalid(&path.child(name), true, "must be false if x-kubernetes-int-or-string is true"));
            }
        }
    }

    fn kind(&mut self, part: Part<'_>, level: Level, path: &Path) {
        let (kind, at) = (part.text("type"), path.child("type"));
        let is_embedded = part.flag("x-kubernetes-embedded-resource");
        let is_open = part.flag("x-kubernetes-int-or-string") || part.flag("x-kubernetes-preserve-unknown-fields");
        if is_embedded && kind != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.fault(if kind.is_empty() { FieldError::required(&at, why) } else { FieldError::invalid(&at, kind, why) });
        } else if kind.is_empty() && !is_open {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.fault(FieldError::required(&at, why));
        }
        if is_embedded && part.has("additionalProperties") {
            self.forbidden(path, "additionalProperties", "must not be used if x-kubernetes-embedded-resource is set");
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.fault(FieldError::invalid(&at, kind, "must be object at the root"));
        }
        let is_empty = part.named("properties").next().is_none();
        if is_embedded && !part.flag("x-kubernetes-preserve-unknown-fields") && is_empty {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.fault(FieldError::required(&path.child("properties"), why));
        }
    }

    /// Of the metadata of an object, a schema restricts only the names.
    fn metadata(&mut self, part: Part<'_>, level: Level, path: &Path) {
        let is_embedded = part.flag("x-kubernetes-embedded-resource");
        if level != Level::Root && !is_embedded {
            return;
        }
        let properties = path.child("properties");
        for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            if let Some(kind) = part.property(name).map(|property| property.text("type")).filter(|kind| *kind != wanted) {
                self.fault(FieldError::invalid(&properties.key(name).child("type"), kind, format!("must be {wanted}")));
            }
        }
        let Some(metadata) = part.property("metadata").filter(|_| level == Level::Root) else { return };
        let is_name = |name: &str| matches!(name, "name" | "generateName");
        let is_other = |name: &str, value: &Value| match name {
            "additionalProperties" => !value.is_null(),
            name => !OF_METADATA.contains(&name) && is_set(value),
        };
        let has_others = metadata.0.iter().any(|(name, value)| is_other(name, value));
        if has_others || !metadata.named("properties").all(|(name, _)| is_name(name)) {
            self.fault(FieldError::forbidden(&properties.key("metadata"), ONLY_NAMES));
        }
    }

    /// `allOf`, `anyOf`, `oneOf` and `not` restrict values. They describe no fields.
    fn junctors(&mut self, part: Part<'_>, path: &Path, exceptions: Exceptions) {
        for (index, nested) in part.listed("anyOf").enumerate() {
            self.nested(nested, &path.child("anyOf").index(index), exceptions.any_of, Exceptions::default());
        }
        for (index, nested) in part.listed("allOf").enumerate() {
            let any_of = exceptions.first_all_of && index == 0;
            self.nested(nested, &path.child("allOf").index(index), false, Exceptions { any_of, first_all_of: false });
        }
        for (index, nested) in part.listed("oneOf").enumerate() {
            self.nested(nested, &path.child("oneOf").index(index), false, Exceptions::default());
        }
        part.single("not").into_iter().for_each(|nested| self.nested(nested, &path.child("not"), false, Exceptions::default()));
    }

    fn nested(&mut self, part: Part<'_>, path: &Path, can_have_type: bool, exceptions: Exceptions) {
        self.junctors(part, path, exceptions);
        part.single("items").into_iter().for_each(|items| self.nested(items, &path.child("items"), false, Exceptions::default()));
        for (name, property) in part.named("properties") {
            self.nested(property, &path.child("properties").key(name), false, Exceptions::default());
        }
        for name in ["type", "title", "description"] {
            if !(part.text(name).is_empty() || name == "type" && can_have_type) {
                self.forbidden(path, name, "must be empty to be structural");
            }
        }
        for name in ["default", "additionalProperties", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
            // That there are no others restricts a value too.
            let is_closed = name == "additionalProperties" && part.0.get(name) == Some(&Value::Bool(false));
            if part.has(name) && !is_closed {
                self.forbidden(path, name, "must be undefined to be structural");
            }
        }
        if !part.texts("x-kubernetes-list-map-keys").is_empty() {
            self.forbidden(path, "x-kubernetes-list-map-keys", "must be empty to be structural");
        }
        FLAGS.into_iter().filter(|name| part.flag(name)).for_each(|name| self.forbidden(path, name, "must be false to be structural"));
        if part.property("metadata").is_some() {
            self.fault(FieldError::forbidden(&path.child("properties").key("metadata"), "must not be specified in a nested context"));
        }
    }

    /// What a junctor of the root restricts is described by the root too. Upstream does not ask that of deeper ones.
    fn complete(&mut self, junctors: Part<'_>, described: Option<Part<'_>>, (path, at): (&Path, &Path)) {
        for name in ["allOf", "anyOf", "oneOf"] {
            for (index, nested) in junctors.listed(name).enumerate() {
                self.complete_nested(nested, described, (path, &at.child(name).index(index)));
            }
        }
        junctors.single("not").into_iter().for_each(|nested| self.complete_nested(nested, described, (path, &at.child("not"))));
    }

    fn complete_nested(&mut self, nested: Part<'_>, described: Option<Part<'_>>, (path, at): (&Path, &Path)) {
        let Some(described) = described else {
            return self.fault(FieldError::required(path, format!("because it is defined in {at}")));
        };
        self.complete(nested, Some(described), (path, at));
        if let Some(items) = nested.single("items") {
            self.complete_nested(items, described.single("items"), (&path.child("items"), &at.child("items")));
        }
        for (name, property) in nested.named("properties") {
            let of = |path: &Path| path.child("properties").key(name);
            self.complete_nested(property, described.property(name), (&of(path), &of(at)));
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(_) => true,
    }
}

fn exceptions(part: Part<'_>) -> Exceptions {
    let names_both = |part: Part<'_>| {
        let types: Vec<&str> = part
            .listed("anyOf")
            .map(|part| if part.0.values().filter(|value| is_set(value)).count() == 1 { part.text("type") } else { "" })
            .collect();
        types == ["integer", "string"]
    };
    Exceptions { any_of: names_both(part), first_all_of: part.listed("allOf").next().is_some_and(names_both) }
}
