//! Collects the validation errors of an object, with a method for each common rule.

use crate::{FieldError, Path};
use serde_json::Value;
use std::collections::BTreeSet;

/// The message about a negative number.
pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// The errors so far, in the order of the report.
#[derive(Debug, Default)]
pub struct Faults(Vec<FieldError>);

impl Faults {
    /// Returns all errors.
    #[must_use]
    pub fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// Returns the number of errors, with which a caller detects new ones.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds errors.
    pub fn add(&mut self, faults: impl IntoIterator<Item = FieldError>) {
        self.0.extend(faults);
    }

    /// Adds the error for a missing field.
    pub fn required(&mut self, path: &Path, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    /// Adds the error for an invalid value.
    pub fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(path, value, detail));
    }

    /// Adds the error for a forbidden field.
    pub fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(path, detail));
    }

    /// Adds the error for a duplicate value.
    pub fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(path, value));
    }

    /// Requires a text that is not empty. Returns whether it is set.
    pub fn set(&mut self, path: &Path, value: &str) -> bool {
        if value.is_empty() {
            self.required(path, "");
        }
        !value.is_empty()
    }

    /// Requires the form that `check` checks.
    pub fn form(&mut self, path: &Path, value: &str, check: fn(&str) -> Vec<String>) {
        self.0.extend(check(value).into_iter().map(|message| FieldError::invalid(path, value, message)));
    }

    /// Requires a form, unless the text is among the `old` ones of an updated object.
    pub fn new_form(&mut self, path: &Path, value: &str, old: &[String], check: fn(&str) -> Vec<String>) {
        if !old.iter().any(|old| old == value) {
            self.form(path, value, check);
        }
    }

    /// Requires a text that is not empty, with a form.
    pub fn set_form(&mut self, path: &Path, value: &str, check: fn(&str) -> Vec<String>) {
        if self.set(path, value) {
            self.form(path, value, check);
        }
    }

    /// Requires a form if the text is set.
    pub fn optional_form(&mut self, path: &Path, value: &Option<String>, check: fn(&str) -> Vec<String>) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.form(path, value, check);
        }
    }

    /// Requires one of `supported`, even if the text is empty.
    pub fn known(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.0.push(FieldError::not_supported(path, value, supported));
        }
    }

    /// Requires a text that is not empty, and one of `supported`.
    pub fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if self.set(path, value) {
            self.known(path, value, supported);
        }
    }

    /// Requires one of `supported` if the text is set.
    pub fn optional_one_of(&mut self, path: &Path, value: &Option<String>, supported: &[&str]) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.one_of(path, value, supported);
        }
    }

    /// Requires at most `max` elements.
    pub fn at_most(&mut self, path: &Path, count: usize, max: usize) {
        if count > max {
            self.0.push(FieldError::too_many(path, count, max));
        }
    }

    /// Requires a number that is not negative if it is set.
    pub fn not_negative(&mut self, path: &Path, value: Option<impl Into<i64>>) {
        if let Some(value) = value.map(Into::into).filter(|value| *value < 0) {
            self.invalid(path, value, NOT_NEGATIVE);
        }
    }

    /// Requires a number between `low` and `high`.
    pub fn within(&mut self, path: &Path, value: impl Into<i64>, (low, high): (i64, i64)) {
        let value = value.into();
        if !(low..=high).contains(&value) {
            self.invalid(path, value, format!("must be between {low} and {high}, inclusive"));
        }
    }

    /// Requires a valid port number.
    pub fn port(&mut self, path: &Path, value: i32) {
        self.within(path, value, (1, 65535));
    }

    /// Requires a text that is not in `seen`, and adds it.
    pub fn unique<'a>(&mut self, path: &Path, value: &'a str, seen: &mut BTreeSet<&'a str>) {
        if !seen.insert(value) {
            self.duplicate(path, value);
        }
    }
}
