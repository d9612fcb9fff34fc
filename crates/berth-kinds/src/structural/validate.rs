//! Whether a value fulfills its schema, in upstream's words.
//!
//! Source: upstream `kube-openapi/pkg/validation/validate` and `apiextensions-apiserver/pkg/apiserver/validation`.

use super::{
    Additional, FAULTS_MAX, ListType, Structural, Type, Values,
    counterparts::{Counterparts, key_of},
    format, rules,
};
use berth_api::{FieldError, FieldErrorReason, Path, go};
use serde_json::{Map, Number, Value};
use std::{cmp::Ordering, collections::BTreeMap};

/// The field of faults that upstream reports without one.
const NO_FIELD: &str = "<nil>";

/// A run of validation.
#[derive(Debug)]
pub(super) struct Validation {
    path: Path,
    faults: Vec<FieldError>,
    /// How many values were judged.
    judged: usize,
    /// Whether the value is a default. Upstream does not judge the type of one that is an integer or a string.
    is_default: bool,
}

impl Structural {
    /// The faults of an object of the API. `old`: what it replaces. Parts that did not change are not judged again, because a schema can become
    /// stricter than it was (ratcheting).
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Validation::at(Path::new("")).run(self, object, old);
        faults.extend(self.embedded_faults(object, false));
        let has_duplicates = |object: &Value| !list_faults(self, object).is_empty();
        if old.is_none_or(|old| !has_duplicates(old)) {
            faults.extend(list_faults(self, object));
        }
        // Rules read values of the right types only.
        if self.inside.rules && faults.iter().any(blocks_rules) {
            let why =
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            faults.push(FieldError::invalid(&Path::new(NO_FIELD), Value::Null, why));
        } else {
            faults.extend(rules::faults(self, object, old));
        }
        faults.truncate(FAULTS_MAX);
        faults
    }
}

/// Whether rules are not evaluated because of a fault.
fn blocks_rules(fault: &FieldError) -> bool {
    matches!(
        fault.reason,
        FieldErrorReason::NotSupported(..)
            | FieldErrorReason::Required
            | FieldErrorReason::TooLong(_)
            | FieldErrorReason::TooMany(..)
            | FieldErrorReason::TypeInvalid(_)
    )
}

fn list_faults(schema: &Structural, object: &Value) -> Vec<FieldError> {
    let mut lists = Validation::at(Path::new(""));
    lists.lists(schema, object, &Path::new(""));
    lists.faults
}

impl Validation {
    pub(super) fn at(path: Path) -> Self {
        Self { path, faults: Vec::new(), judged: 0, is_default: false }
    }

    pub(super) fn of_default() -> Self {
        Self { is_default: true, ..Self::at(Path::new("")) }
    }

    pub(super) fn run(mut self, schema: &Structural, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let path = self.path.clone();
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
        self.judged += 1;
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
        self.common(schema.values(), value, path);
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
        // A number without a fraction is an integer, however it is written.
        let is_whole = || value.as_f64().is_some_and(format::is_whole);
        if schema.int_or_string {
            if !(matches!(found, "integer" | "string") || is_whole() || self.is_default) {
                self.wrong_type(path, "integer,string", found);
            }
            return;
        }
        let Some(wanted) = schema.kind else { return };
        let fits = match wanted {
            Type::Number => matches!(found, "number" | "integer"),
            Type::Integer => found == "integer" || is_whole(),
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
        let values = schema.values();
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = values.max_length.filter(|max| *max < length()) {
            self.fault(FieldError::too_long(path, bound(max)));
        }
        if let Some(min) = values.min_length.filter(|min| length() < *min) {
            self.invalid(path, text, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = values.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.invalid(path, text, &format!("should match '{}'", pattern.as_str()));
        }
        if schema.kind == Some(Type::String) && !format::fits(&schema.format, text) {
            self.wrong_type(path, &schema.format, text);
        }
    }

    fn number(&mut self, schema: &Structural, number: &Number, path: &Path) {
        let values = schema.values();
        self.in_range(schema, "Checked", number, path);
        if let Some(factor) = &values.multiple_of {
            self.multiple(schema, number, factor, path);
        }
        if let Some(min) = &values.minimum {
            let words = if values.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            self.bounded(schema, number, ("Minimum", min, words), path, |order| {
                order.is_gt() || order.is_eq() && !values.exclusive_minimum
            });
        }
        if let Some(max) = &values.maximum {
            let words = if values.exclusive_maximum { "less than" } else { "less than or equal to" };
            self.bounded(schema, number, ("Maximum", max, words), path, |order| {
                order.is_lt() || order.is_eq() && !values.exclusive_maximum
            });
        }
    }

    /// Whether a number of the schema or of the value is in the range of its type and format.
    fn in_range(&mut self, schema: &Structural, what: &str, number: &Number, path: &Path) -> bool {
        let fits = format::fits_number(schema.kind, &schema.format, number);
        if !fits {
            let format = if schema.format.is_empty() { "(default format)".to_owned() } else { format!("with format {}", schema.format) };
            let kind = schema.kind.map_or("", Type::as_str);
            self.without_field(format!("{what} value must be of type {kind} {format} in {path}"));
        }
        fits
    }

    /// Compares a number with a bound. Upstream compares an integer with the integer part of the bound, unless the bound is out of range.
    fn bounded(
        &mut self,
        schema: &Structural,
        number: &Number,
        (name, bound, words): (&str, &Number, &str),
        path: &Path,
        fits: impl Fn(Ordering) -> bool,
    ) {
        let is_native = self.in_range(schema, &format!("{name} boundary"), bound, path);
        let bound = bound.as_f64().unwrap_or(f64::NAN);
        let (is_good, shown, bound) = match number.as_i64().filter(|_| is_native) {
            Some(found) => {
                let bound = format::to_integer(bound);
                (fits(found.cmp(&bound)), number.clone(), bound.to_string())
            }
            None => {
                let found = number.as_f64().unwrap_or(f64::NAN);
                let shown = Number::from_f64(found).unwrap_or_else(|| number.clone());
                (found.partial_cmp(&bound).is_some_and(fits), shown, go::float(bound))
            }
        };
        if !is_good {
            self.invalid(path, shown, &format!("should be {words} {bound}"));
        }
    }

    /// Upstream divides an integer by the integer part of the factor, unless the factor is out of range.
    fn multiple(&mut self, schema: &Structural, number: &Number, factor: &Number, path: &Path) {
        let is_native = self.in_range(schema, "MultipleOf", factor, path);
        let factor = factor.as_f64().unwrap_or(f64::NAN);
        let must = format!("factor MultipleOf declared for {path} must be positive");
        if let Some(found) = number.as_i64().filter(|_| is_native) {
            let factor = format::to_integer(factor);
            if factor <= 0 {
                self.fault(FieldError::invalid(path, factor, format!("{must}: {factor}")));
            } else if found % factor != 0 {
                self.invalid(path, number.clone(), &format!("should be a multiple of {factor}"));
            }
            return;
        }
        let found = number.as_f64().unwrap_or(f64::NAN);
        if factor <= 0.0 {
            return self.fault(FieldError::invalid(path, factor, format!("{must}: {}", go::float(factor))));
        }
        let times = if factor < 1.0 { 1.0 / factor * found } else { found / factor };
        if !is_about_whole(times) {
            let shown = Number::from_f64(found).unwrap_or_else(|| number.clone());
            self.invalid(path, shown, &format!("should be a multiple of {}", go::float(factor)));
        }
    }

    fn array(&mut self, schema: &Structural, list: &[Value], old: Option<&Value>, path: &Path) {
        let count = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.values().min_items.filter(|min| count < *min) {
            self.invalid(path, count, &format!("should have at least {min} items"));
        }
        if let Some(max) = schema.values().max_items.filter(|max| *max < count) {
            self.fault(FieldError::too_many(path, list.len(), bound(max)));
        }
        let Some(items) = &schema.items else { return };
        let known = Counterparts::of(schema, old);
        for (index, element) in list.iter().enumerate() {
            self.value(items, element, known.get(element), &path.index(index));
        }
    }

    fn object(&mut self, schema: &Structural, members: &Map<String, Value>, old: Option<&Value>, path: &Path) {
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.values().min_properties.filter(|min| count < *min) {
            self.invalid(path, count, &format!("should have at least {min} properties"));
        }
        if let Some(max) = schema.values().max_properties.filter(|max| *max < count) {
            self.fault(FieldError::too_many(path, members.len(), bound(max)));
        }
        for name in schema.required.iter().filter(|name| !members.contains_key(*name)) {
            self.fault(FieldError::required(&path.child(name), ""));
        }
        for (name, value) in members {
            if let Some(schema) = schema.member(name) {
                self.value(schema, value, old.and_then(|old| old.get(name)), &path.child(name));
            } else if schema.additional == Additional::Allowed(false) {
                let why = format!("{} in body is a forbidden property", path.child(name));
                self.fault(FieldError::invalid(path, name.as_str(), why));
            }
        }
    }

    fn common(&mut self, values: &Values, value: &Value, path: &Path) {
        if let Some(allowed) = values.one_of_values.as_ref().filter(|allowed| !allowed.iter().any(|allowed| equal(allowed, value))) {
            let shown = |value: &Value| match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => go::number(number),
                other => other.to_string(),
            };
            let supported: Vec<String> = allowed.iter().map(shown).collect();
            let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
            self.fault(FieldError::not_supported(path, value.clone(), &supported));
        }
        // Each alternative is judged once: they can be nested.
        let is_default = self.is_default;
        let judged = |schema: &Structural| {
            let mut part = Self { is_default, ..Self::at(path.clone()) };
            part.value(schema, value, None, path);
            (part.judged, part.faults)
        };
        let quoted = || Value::from(path.to_string());
        let any_of: Vec<_> = values.any_of.iter().map(judged).collect();
        if !any_of.is_empty() && !any_of.iter().any(|(_, faults)| faults.is_empty()) {
            self.without_field(format!("{} must validate at least one schema (anyOf)", quoted()));
            self.nearest(any_of);
        }
        let one_of: Vec<_> = values.one_of.iter().map(judged).collect();
        let must = || format!("{} must validate one and only one schema (oneOf).", quoted());
        match one_of.iter().filter(|(_, faults)| faults.is_empty()).count() {
            0 if !one_of.is_empty() => {
                self.without_field(format!("{} Found none valid", must()));
                self.nearest(one_of);
            }
            0 | 1 => (),
            valid => self.without_field(format!("{} Found {valid} valid alternatives", must())),
        }
        let mut failed = 0;
        for schema in &values.all_of {
            let (_, faults) = judged(schema);
            failed += usize::from(!faults.is_empty());
            faults.into_iter().for_each(|fault| self.fault(fault));
        }
        if 0 < failed {
            let none = if failed == values.all_of.len() { ". None validated" } else { "" };
            self.without_field(format!("{} must validate all the schemas (allOf){none}", quoted()));
        }
        if values.not.as_ref().is_some_and(|schema| judged(schema).1.is_empty()) {
            self.without_field(format!("{} must not validate the schema (not)", quoted()));
        }
    }

    /// The faults of the first alternative that judged most values.
    fn nearest(&mut self, alternatives: Vec<(usize, Vec<FieldError>)>) {
        let nearest = alternatives.into_iter().reduce(|best, next| if best.0 < next.0 { next } else { best });
        nearest.into_iter().flat_map(|(_, faults)| faults).for_each(|fault| self.fault(fault));
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

    /// Keys that occur again, each once.
    fn duplicates(&mut self, keys: impl Iterator<Item = Option<Value>>, path: &Path) {
        let mut seen = BTreeMap::new();
        for (index, key) in keys.enumerate() {
            let Some(key) = key else { continue };
            let count = seen.entry(key.to_string()).or_insert(0_usize);
            *count += 1;
            if *count == 2 {
                self.fault(FieldError::duplicate(&path.index(index), key));
            }
        }
    }

    fn list(&mut self, schema: &Structural, list: &[Value], path: &Path) {
        match &schema.list_type {
            Some(ListType::Set) if schema.kind == Some(Type::Array) => self.duplicates(list.iter().cloned().map(Some), path),
            Some(ListType::Map(keys)) if schema.kind == Some(Type::Array) => {
                // A null is a fault of its type alone.
                let is_wrong = |element: &Value| !element.is_object() && !element.is_null();
                for (index, element) in list.iter().enumerate().filter(|(_, element)| is_wrong(element)) {
                    let why = "must be an object for an array of list-type map";
                    self.fault(FieldError::invalid(&path.index(index), element.clone(), why));
                }
                if !list.iter().any(is_wrong) {
                    self.duplicates(list.iter().map(|element| element.is_object().then(|| key_of(keys, element))), path);
                }
            }
            _ => (),
        }
        let Some(items) = &schema.items else { return };
        list.iter().enumerate().for_each(|(index, element)| self.lists(items, element, &path.index(index)));
    }
}

/// A bound for a message. Nothing fits a negative one.
fn bound(max: i64) -> usize {
    usize::try_from(max).unwrap_or(0)
}

/// Whether it was written without a fraction, and fits into 64 bits.
fn is_integer(number: &Number) -> bool {
    number.is_i64()
}

/// Whether a quotient is whole, but for the error of its computation.
///
/// Source: go-openapi `swag.IsFloat64AJSONInteger`.
fn is_about_whole(number: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    let (whole, size) = (number.trunc(), number.abs());
    if !number.is_finite() || 9_007_199_254_740_991.0 < size {
        return false;
    }
    let difference = (number - whole).abs();
    number == whole || number != 0.0 && whole != 0.0 && difference / (size + whole.abs()).min(f64::MAX) < EPSILON
}

/// As JSON, in which 1 and 1.0 are one number.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}
