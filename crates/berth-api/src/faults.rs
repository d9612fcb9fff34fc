//! Collects the faults of an object, with a method for each rule that many fields share.

use crate::{FieldError, Path};
use serde_json::Value;
use std::collections::BTreeSet;

/// At least zero.
pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// The faults found so far, in the order in which they are reported.
#[derive(Debug, Default)]
pub struct Faults(Vec<FieldError>);

impl Faults {
    /// All of them.
    #[must_use]
    pub fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// How many there are, to see whether a part added some.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds faults.
    pub fn add(&mut self, faults: impl IntoIterator<Item = FieldError>) {
        self.0.extend(faults);
    }

    /// A field that must be set.
    pub fn required(&mut self, path: &Path, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    /// A value that breaks a rule.
    pub fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(path, value, detail));
    }

    /// A field that may not be set here.
    pub fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(path, detail));
    }

    /// A value that is there twice and must be unique.
    pub fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(path, value));
    }

    /// The text must be set. Returns whether it is.
    pub fn set(&mut self, path: &Path, value: &str) -> bool {
        if value.is_empty() {
            self.required(path, "");
        }
        !value.is_empty()
    }

    /// The text must have the form that `check` knows.
    pub fn form(&mut self, path: &Path, value: &str, check: fn(&str) -> Vec<String>) {
        self.0.extend(check(value).into_iter().map(|message| FieldError::invalid(path, value, message)));
    }

    /// The text must have a form, unless it is one of the `old` ones of an object that is updated.
    pub fn new_form(&mut self, path: &Path, value: &str, old: &[String], check: fn(&str) -> Vec<String>) {
        if !old.iter().any(|old| old == value) {
            self.form(path, value, check);
        }
    }

    /// The text must be set and have a form.
    pub fn set_form(&mut self, path: &Path, value: &str, check: fn(&str) -> Vec<String>) {
        if self.set(path, value) {
            self.form(path, value, check);
        }
    }

    /// The text, if set, must have a form.
    pub fn optional_form(&mut self, path: &Path, value: &Option<String>, check: fn(&str) -> Vec<String>) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.form(path, value, check);
        }
    }

    /// The text must be one of `supported`, also if it is empty.
    pub fn known(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.0.push(FieldError::not_supported(path, value, supported));
        }
    }

    /// The text must be set, to one of `supported`.
    pub fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if self.set(path, value) {
            self.known(path, value, supported);
        }
    }

    /// The text, if set, must be one of `supported`.
    pub fn optional_one_of(&mut self, path: &Path, value: &Option<String>, supported: &[&str]) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.one_of(path, value, supported);
        }
    }

    /// The list must not have more than `max` elements.
    pub fn at_most(&mut self, path: &Path, count: usize, max: usize) {
        if count > max {
            self.0.push(FieldError::too_many(path, count, max));
        }
    }

    /// The number, if set, must not be negative.
    pub fn not_negative(&mut self, path: &Path, value: Option<impl Into<i64>>) {
        if let Some(value) = value.map(Into::into).filter(|value| *value < 0) {
            self.invalid(path, value, NOT_NEGATIVE);
        }
    }

    /// The number must lie between `low` and `high`.
    pub fn within(&mut self, path: &Path, value: impl Into<i64>, (low, high): (i64, i64)) {
        let value = value.into();
        if !(low..=high).contains(&value) {
            self.invalid(path, value, format!("must be between {low} and {high}, inclusive"));
        }
    }

    /// The number must be one that a port can have.
    pub fn port(&mut self, path: &Path, value: i32) {
        self.within(path, value, (1, 65535));
    }

    /// The text must not be among those `seen`; then it is.
    pub fn unique<'a>(&mut self, path: &Path, value: &'a str, seen: &mut BTreeSet<&'a str>) {
        if !seen.insert(value) {
            self.duplicate(path, value);
        }
    }
}
