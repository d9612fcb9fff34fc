//! Collects the faults of an object, with a method for each rule that many fields share.

use crate::{FieldError, Path};
use serde_json::Value;
use std::collections::BTreeSet;

/// At least zero.
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// The faults found so far, in the order in which they are reported.
#[derive(Default)]
pub(crate) struct Faults(Vec<FieldError>);

impl Faults {
    /// All of them.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    /// How many there are, to see whether a part added some.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn add(&mut self, faults: impl IntoIterator<Item = FieldError>) {
        self.0.extend(faults);
    }

    pub(crate) fn required(&mut self, path: &Path, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    pub(crate) fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(path, value, detail));
    }

    pub(crate) fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(path, detail));
    }

    pub(crate) fn duplicate(&mut self, path: &Path, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(path, value));
    }

    /// The text must be set.
    pub(crate) fn set(&mut self, path: &Path, value: &str) -> bool {
        if value.is_empty() {
            self.required(path, "");
        }
        !value.is_empty()
    }

    /// The text must have the form that `check` knows.
    pub(crate) fn form(&mut self, path: &Path, value: &str, check: fn(&str) -> Vec<String>) {
        self.0.extend(check(value).into_iter().map(|message| FieldError::invalid(path, value, message)));
    }

    /// The text must have a form, unless it is one of the `old` ones of an object that is updated.
    pub(crate) fn new_form(&mut self, path: &Path, value: &str, old: &[String], check: fn(&str) -> Vec<String>) {
        if !old.iter().any(|old| old == value) {
            self.form(path, value, check);
        }
    }

    /// The text must be set and have a form.
    pub(crate) fn set_form(&mut self, path: &Path, value: &str, check: fn(&str) -> Vec<String>) {
        if self.set(path, value) {
            self.form(path, value, check);
        }
    }

    /// The text, if set, must have a form.
    pub(crate) fn optional_form(&mut self, path: &Path, value: &Option<String>, check: fn(&str) -> Vec<String>) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.form(path, value, check);
        }
    }

    /// The text must be one of `supported`, also if it is empty.
    pub(crate) fn known(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.0.push(FieldError::not_supported(path, value, supported));
        }
    }

    /// The text must be set, to one of `supported`.
    pub(crate) fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if self.set(path, value) {
            self.known(path, value, supported);
        }
    }

    /// The text, if set, must be one of `supported`.
    pub(crate) fn optional_one_of(&mut self, path: &Path, value: &Option<String>, supported: &[&str]) {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            self.one_of(path, value, supported);
        }
    }

    /// The list must not have more than `max` elements.
    pub(crate) fn at_most(&mut self, path: &Path, count: usize, max: usize) {
        if count > max {
            self.0.push(FieldError::too_many(path, count, max));
        }
    }

    /// The number, if set, must not be negative.
    pub(crate) fn not_negative(&mut self, path: &Path, value: Option<impl Into<i64>>) {
        if let Some(value) = value.map(Into::into).filter(|value| *value < 0) {
            self.invalid(path, value, NOT_NEGATIVE);
        }
    }

    /// The number must lie between `low` and `high`.
    pub(crate) fn within(&mut self, path: &Path, value: impl Into<i64>, (low, high): (i64, i64)) {
        let value = value.into();
        if !(low..=high).contains(&value) {
            self.invalid(path, value, format!("must be between {low} and {high}, inclusive"));
        }
    }

    /// The number must be one that a port can have.
    pub(crate) fn port(&mut self, path: &Path, value: i32) {
        self.within(path, value, (1, 65535));
    }

    /// The text must not be among those `seen`; then it is.
    pub(crate) fn unique<'a>(&mut self, path: &Path, value: &'a str, seen: &mut BTreeSet<&'a str>) {
        if !seen.insert(value) {
            self.duplicate(path, value);
        }
    }
}
