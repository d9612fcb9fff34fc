//! Whether a value fulfills its schema, in upstream's words.
//!
//! Source: upstream `kube-openapi/pkg/validation/validate` and `apiextensions-apiserver/pkg/apiserver/validation`.

use super::{Additional, FAULTS_MAX, ListType, Structural, Type, Values, format};
use berth_api::{FieldError, FieldErrorReason, Path};
use serde_json::{Map, Number, Value};
use std::collections::BTreeSet;

/// The field of faults that upstream reports without one.
const NO_FIELD: &str = "<nil>";

/// A run of validation.
#[derive(Debug)]
pub(super) struct Validation {
    path: Path,
    faults: Vec<FieldError>,
}

impl Structural {
    /// The faults of an object of the API. `old`: what it replaces. Parts that did not change are not judged again, because a schema can become
    /// stricter than it was (ratcheting).
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Validation::at(Path::new("")).run(self, object, old);
        let has_duplicates = |object: &Value| !list_faults(self, object).is_empty();
        if old.is_none_or(|old| !has_duplicates(old)) {
            faults.extend(list_faults(self, object));
        }
        faults.truncate(FAULTS_MAX);
        faults
    }
}

fn list_faults(schema: &Structural, object: &Value) -> Vec<FieldError> {
    let mut lists = Validation::at(Path::new(""));
    lists.lists(schema, object, &Path::new(""));
    lists.faults
}

impl Validation {
    pub(super) fn at(path: Path) -> Self {
        Self { path, faults: Vec::new() }
    }

    pub(super) fn run(mut self, schema: &Structural, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let path = self.path.clone();
        self.embedded(schema, value, &path);
        self.value(schema, value, old, &path);
        self.faults
    }

    fn fault(&mut self, fault: FieldError) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    fn is_full(&self) -> bool {
        FAULTS_MAX <= self.faults.len()
    }

    fn invalid(&mut self, path: &Path, value: impl Into<Value>, why: &str) {
        self.fault(FieldError::invalid(path, value, format!("{path} in body {why}")));
    }

    /// A value of a wrong type, or of a wrong form for its format.
    fn wrong_type(&mut self, path: &Path, wanted: &str, shown: &str) {
        let detail = format!("{path} in body must be of type {wanted}: {}", Value::from(shown));
        let reason = FieldErrorReason::TypeInvalid(shown.into());
        self.fault(FieldError { field: path.clone(), reason, detail });
    }

    /// A fault that upstream reports without its field.
    fn without_field(&mut self, detail: String) {
        self.fault(FieldError::invalid(&Path::new(NO_FIELD), "", detail));
    }

    fn value(&mut self, schema: &Structural, value: &Value, old: Option<&Value>, path: &Path) {
        if old == Some(value) || self.is_full() {
            return;
        }
        self.kind(schema, value, path);
        if value.is_null() {
            return;
        }
        match value {
            Value::String(text) => self.string(schema, text, path),
            Value::Number(number) => self.number(schema, number, path),
            Value::Array(list) => self.array(schema, list, old, path),
            Value::Object(_) | Value::Bool(_) | Value::Null => (),
        }
        self.common(&schema.values, value, path);
        if let Value::Object(members) = value {
            self.object(schema, members, old, path);
        }
    }

    fn kind(&mut self, schema: &Structural, value: &Value, path: &Path) {
        if value.is_null() && schema.nullable {
            return;
        }
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if is_integer(number) => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if schema.int_or_string {
            if !matches!(found, "integer" | "string") {
                self.wrong_type(path, "integer,string", found);
            }
            return;
        }
        let Some(wanted) = schema.kind else { return };
        let fits = match wanted {
            Type::Number => matches!(found, "number" | "integer"),
            Type::Integer => found == "integer" || value.as_f64().is_some_and(|number| number.fract() == 0.0),
            other => other.as_str() == found,
        };
        if !fits {
            // Of a number with a format, upstream names the formats.
            match (value, schema.format.as_str()) {
                (Value::Number(_), format) if !format.is_empty() => {
                    self.wrong_type(path, format, if found == "integer" { "int64" } else { "float64" });
                }
                (Value::Bool(_) | Value::Object(_), format) if !format.is_empty() => self.wrong_type(path, format, ""),
                _ => self.wrong_type(path, wanted.as_str(), found),
            }
        }
    }

    fn string(&mut self, schema: &Structural, text: &str, path: &Path) {
        let values = &schema.values;
        let length = || u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if let Some(max) = values.max_length.filter(|max| *max < length()) {
            self.fault(FieldError::too_long(path, usize::try_from(max).unwrap_or(usize::MAX)));
        }
        if let Some(min) = values.min_length.filter(|min| length() < *min) {
            self.invalid(path, text, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = values.pattern.as_ref().filter(|pattern| !pattern.0.is_match(text)) {
            self.invalid(path, text, &format!("should match '{}'", pattern.0.as_str()));
        }
        if schema.kind == Some(Type::String) && !format::fits(&schema.format, text) {
            self.wrong_type(path, &schema.format, text);
        }
    }

    fn number(&mut self, schema: &Structural, number: &Number, path: &Path) {
        let (values, found) = (&schema.values, number.as_f64().unwrap_or(f64::NAN));
        if let Some(kind) = schema.kind.filter(|kind| !format::fits_number(*kind, &schema.format, number)) {
            self.without_field(format!("Checked value must be of type {kind} with format {} in {path}", schema.format));
        }
        if let Some(factor) = values.multiple_of.as_ref().and_then(Number::as_f64) {
            self.multiple(number, factor, path);
        }
        if let Some(max) = &values.maximum {
            let bound = max.as_f64().unwrap_or(f64::INFINITY);
            if values.exclusive_maximum && bound <= found {
                self.invalid(path, number.clone(), &format!("should be less than {max}"));
            } else if !values.exclusive_maximum && bound < found {
                self.invalid(path, number.clone(), &format!("should be less than or equal to {max}"));
            }
        }
        if let Some(min) = &values.minimum {
            let bound = min.as_f64().unwrap_or(f64::NEG_INFINITY);
            if values.exclusive_minimum && found <= bound {
                self.invalid(path, number.clone(), &format!("should be greater than {min}"));
            } else if !values.exclusive_minimum && found < bound {
                self.invalid(path, number.clone(), &format!("should be greater than or equal to {min}"));
            }
        }
    }

    /// Upstream divides an integer by the integer part of the factor, and rejects every integer if that is 0.
    fn multiple(&mut self, number: &Number, factor: f64, path: &Path) {
        let (found, factor) = match number.as_f64() {
            Some(found) if is_integer(number) => (found, factor.trunc()),
            found => (found.unwrap_or(f64::NAN), factor),
        };
        if factor <= 0.0 {
            self.fault(FieldError::invalid(path, 0, format!("factor MultipleOf declared for {path} must be positive: {factor}")));
        } else if (found / factor).fract() != 0.0 {
            self.invalid(path, number.clone(), &format!("should be a multiple of {factor}"));
        }
    }

    fn array(&mut self, schema: &Structural, list: &[Value], old: Option<&Value>, path: &Path) {
        let count = u64::try_from(list.len()).unwrap_or(u64::MAX);
        if let Some(min) = schema.values.min_items.filter(|min| count < *min) {
            self.invalid(path, count, &format!("should have at least {min} items"));
        }
        if let Some(max) = schema.values.max_items.filter(|max| *max < count) {
            self.fault(FieldError::too_many(path, list.len(), usize::try_from(max).unwrap_or(usize::MAX)));
        }
        let Some(items) = &schema.items else { return };
        let known = Counterparts::of(schema, old);
        for (index, element) in list.iter().enumerate() {
            self.value(items, element, known.get(element), &path.index(index));
        }
    }

    fn object(&mut self, schema: &Structural, members: &Map<String, Value>, old: Option<&Value>, path: &Path) {
        let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
        if let Some(min) = schema.values.min_properties.filter(|min| count < *min) {
            self.invalid(path, count, &format!("should have at least {min} properties"));
        }
        if let Some(max) = schema.values.max_properties.filter(|max| *max < count) {
            self.fault(FieldError::too_many(path, members.len(), usize::try_from(max).unwrap_or(usize::MAX)));
        }
        for name in schema.required.iter().filter(|name| !members.contains_key(*name)) {
            self.fault(FieldError::required(&path.child(name), ""));
        }
        for (name, value) in members {
            if let Some(schema) = schema.member(name) {
                self.value(schema, value, old.and_then(|old| old.get(name)), &path.child(name));
            }
        }
    }

    fn common(&mut self, values: &Values, value: &Value, path: &Path) {
        if let Some(allowed) = values.one_of_values.as_ref().filter(|allowed| !allowed.iter().any(|allowed| equal(allowed, value))) {
            let supported: Vec<String> =
                allowed.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
            let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
            self.fault(FieldError::not_supported(path, value.clone(), &supported));
        }
        let faults_of = |schema: &Structural| {
            let mut part = Self::at(path.clone());
            part.value(schema, value, None, path);
            part.faults
        };
        let quoted = Value::from(path.to_string());
        if !values.any_of.is_empty() && !values.any_of.iter().any(|schema| faults_of(schema).is_empty()) {
            self.without_field(format!("{quoted} must validate at least one schema (anyOf)"));
            self.nearest(&values.any_of, faults_of);
        }
        if !values.one_of.is_empty() {
            let valid = values.one_of.iter().filter(|schema| faults_of(schema).is_empty()).count();
            let must = format!("{quoted} must validate one and only one schema (oneOf).");
            match valid {
                1 => (),
                0 => {
                    self.without_field(format!("{must} Found none valid"));
                    self.nearest(&values.one_of, faults_of);
                }
                valid => self.without_field(format!("{must} Found {valid} valid alternatives")),
            }
        }
        let mut failed = 0;
        for schema in &values.all_of {
            let faults = faults_of(schema);
            failed += usize::from(!faults.is_empty());
            faults.into_iter().for_each(|fault| self.fault(fault));
        }
        if 0 < failed {
            let none = if failed == values.all_of.len() { ". None validated" } else { "" };
            self.without_field(format!("{quoted} must validate all the schemas (allOf){none}"));
        }
        if values.not.as_ref().is_some_and(|schema| faults_of(schema).is_empty()) {
            self.without_field(format!("{quoted} must not validate the schema (not)"));
        }
    }

    /// The faults of the alternative that has the fewest.
    fn nearest(&mut self, schemas: &[Structural], faults_of: impl Fn(&Structural) -> Vec<FieldError>) {
        let nearest = schemas.iter().map(faults_of).min_by_key(Vec::len);
        nearest.into_iter().flatten().for_each(|fault| self.fault(fault));
    }

    /// An object of the API in the object names its version and kind.
    fn embedded(&mut self, schema: &Structural, value: &Value, path: &Path) {
        match value {
            Value::Object(members) => {
                if schema.embedded_resource {
                    for name in ["apiVersion", "kind"]
                        .into_iter()
                        .filter(|name| members.get(*name).and_then(Value::as_str).is_none_or(str::is_empty))
                    {
                        self.fault(FieldError::required(&path.child(name), ""));
                    }
                }
                for (name, value) in members {
                    match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => self.embedded(property, value, &path.child(name)),
                        (None, Additional::Of(schema)) => self.embedded(schema, value, &path.key(name)),
                        (None, Additional::Unset | Additional::Allowed(_)) => (),
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                list.iter().enumerate().for_each(|(index, element)| self.embedded(items, element, &path.index(index)));
            }
            _ => (),
        }
    }

    /// Elements of sets and maps are unique.
    fn lists(&mut self, schema: &Structural, value: &Value, path: &Path) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => self.lists(property, value, &path.child(name)),
                        (None, Additional::Of(schema)) => self.lists(schema, value, &path.key(name)),
                        (None, Additional::Unset | Additional::Allowed(_)) => (),
                    }
                }
            }
            Value::Array(list) => self.list(schema, list, path),
            _ => (),
        }
    }

    fn list(&mut self, schema: &Structural, list: &[Value], path: &Path) {
        let mut seen = BTreeSet::new();
        for (index, element) in list.iter().enumerate().filter(|_| schema.kind == Some(Type::Array)) {
            let key = match &schema.list_type {
                None | Some(ListType::Atomic) => break,
                Some(ListType::Set) => element.clone(),
                Some(ListType::Map(_)) if !element.is_object() => {
                    // A null is a fault of its type alone.
                    if !element.is_null() {
                        let why = "must be an object for an array of list-type map";
                        self.fault(FieldError::invalid(&path.index(index), element.clone(), why));
                    }
                    continue;
                }
                Some(ListType::Map(keys)) => key_of(keys, element),
            };
            if !seen.insert(key.to_string()) {
                self.fault(FieldError::duplicate(&path.index(index), key));
            }
        }
        let Some(items) = &schema.items else { return };
        list.iter().enumerate().for_each(|(index, element)| self.lists(items, element, &path.index(index)));
    }
}

/// The members that distinguish an element from others.
fn key_of(keys: &[String], element: &Value) -> Value {
    keys.iter().filter_map(|key| Some((key.clone(), element.get(key)?.clone()))).collect::<Map<_, _>>().into()
}

/// The elements of the old list by their keys, if the list has such.
struct Counterparts<'a> {
    keys: &'a [String],
    known: Vec<(String, &'a Value)>,
}

impl<'a> Counterparts<'a> {
    fn of(schema: &'a Structural, old: Option<&'a Value>) -> Self {
        let Some(ListType::Map(keys)) = &schema.list_type else { return Self { keys: &[], known: Vec::new() } };
        let list = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut known: Vec<(String, &Value)> = list.iter().map(|element| (key_of(keys, element).to_string(), element)).collect();
        known.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self { keys, known }
    }

    fn get(&self, element: &Value) -> Option<&'a Value> {
        if self.known.is_empty() {
            return None;
        }
        let key = key_of(self.keys, element).to_string();
        let at = self.known.binary_search_by(|(known, _)| known.cmp(&key)).ok()?;
        Some(self.known[at].1)
    }
}

/// Whether it was written without a fraction.
fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64()
}

/// As JSON, in which 1 and 1.0 are one number.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}
