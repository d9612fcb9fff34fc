//! Validation errors, each with a field path.

use crate::go;
use serde_json::Value;
use std::fmt;

const DIGITS: &str = "0123456789";
/// How long the text of a path is at most, in bytes. Clients choose keys, and each value below a key has it in its path.
const BYTES_MAX: usize = 4 << 10;
/// Ends a path that was longer.
const CUT: &str = "…";

/// Path of a field in an object, as upstream prints it: `spec.containers[1].name`, `metadata.annotations[key]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// Returns a path that starts at `root`.
    #[must_use]
    pub fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// Returns the path of the member `name`.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        self.followed_by([if self.0.is_empty() { "" } else { "." }, name, ""])
    }

    /// Returns the path of element `index` of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let digits;
        // Most lists are short.
        let index = match DIGITS.get(index..=index) {
            Some(digit) => digit,
            None => {
                digits = index.to_string();
                &digits
            }
        };
        self.followed_by(["[", index, "]"])
    }

    /// Returns the path of the value under `key` of a map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.followed_by(["[", key, "]"])
    }

    /// Each write builds dozens of paths and rarely prints one. Formatting them took a thirtieth of the time of a pod's
    /// life.
    fn followed_by(&self, parts: [&str; 3]) -> Self {
        let length = self.0.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if BYTES_MAX < length {
            return self.cut(parts);
        }
        let mut path = String::with_capacity(length);
        path.push_str(&self.0);
        parts.into_iter().for_each(|part| path.push_str(part));
        Self(path)
    }

    /// Returns a path that ends within the first name that does not fit.
    fn cut(&self, [before, name, _]: [&str; 3]) -> Self {
        let room = BYTES_MAX.saturating_sub(self.0.len());
        if room == 0 {
            return self.clone();
        }
        Self([&self.0, before, &name[..name.floor_char_boundary(room)], CUT].concat())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason of an error. Determines `details.causes[].reason` and the text after the field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldErrorReason {
    /// `FieldValueRequired`.
    Required,
    /// `FieldValueInvalid`.
    Invalid(Value),
    /// `FieldValueInvalid`, without the value.
    InvalidPart,
    /// `FieldValueNotSupported`; the supported values are printed in the order given.
    NotSupported(Value, Vec<String>),
    /// `FieldValueForbidden`.
    Forbidden,
    /// `FieldValueDuplicate`.
    Duplicate(Value),
    /// `FieldValueNotFound`.
    NotFound(Value),
    /// `FieldValueTooLong`, with the longest length allowed in bytes.
    TooLong(usize),
    /// `FieldValueTooMany`: how many there are and how many may be.
    TooMany(usize, usize),
    /// `FieldValueTypeInvalid`.
    TypeInvalid(Value),
    /// `InternalError`.
    Internal,
}

/// One error of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The field.
    pub field: Path,
    /// The reason.
    pub reason: FieldErrorReason,
    /// Further details for the user. May be empty.
    pub detail: String,
}

impl FieldError {
    /// Returns the error for a missing field.
    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Required, detail: detail.into() }
    }

    /// Returns the error for an invalid value.
    pub fn invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Invalid(value.into()), detail: detail.into() }
    }

    /// Returns the error for fields that are invalid together. Their value is not printed.
    pub fn invalid_part(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::InvalidPart, detail: detail.into() }
    }

    /// Returns the error for a value outside an enumeration. Upstream sorts most enumerations, so `supported` is
    /// printed in the given order.
    pub fn not_supported(field: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|s| (*s).to_owned()).collect();
        Self { field: field.clone(), reason: FieldErrorReason::NotSupported(value.into(), supported), detail: String::new() }
    }

    /// Returns the error for a forbidden field.
    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Forbidden, detail: detail.into() }
    }

    /// Returns the error for a duplicate value.
    pub fn duplicate(field: &Path, value: impl Into<Value>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Duplicate(value.into()), detail: String::new() }
    }

    /// Returns the error for a reference to something that the object does not contain.
    pub fn not_found(field: &Path, value: impl Into<Value>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::NotFound(value.into()), detail: String::new() }
    }

    /// Returns an error that upstream reports as a server error.
    pub fn internal(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Internal, detail: detail.into() }
    }

    /// Returns the error for a value longer than `max` bytes.
    pub fn too_long(field: &Path, max: usize) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::TooLong(max), detail: String::new() }
    }

    /// Returns the error for a list of `count` elements with a maximum of `max`.
    pub fn too_many(field: &Path, count: usize, max: usize) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::TooMany(count, max), detail: String::new() }
    }

    /// Returns the reason for `details.causes[].reason`.
    #[must_use]
    pub fn wire_reason(&self) -> &'static str {
        match self.reason {
            FieldErrorReason::Required => "FieldValueRequired",
            FieldErrorReason::Invalid(_) | FieldErrorReason::InvalidPart => "FieldValueInvalid",
            FieldErrorReason::NotSupported(..) => "FieldValueNotSupported",
            FieldErrorReason::Forbidden => "FieldValueForbidden",
            FieldErrorReason::Duplicate(_) => "FieldValueDuplicate",
            FieldErrorReason::NotFound(_) => "FieldValueNotFound",
            FieldErrorReason::TooLong(_) => "FieldValueTooLong",
            FieldErrorReason::TooMany(..) => "FieldValueTooMany",
            FieldErrorReason::TypeInvalid(_) => "FieldValueTypeInvalid",
            FieldErrorReason::Internal => "InternalError",
        }
    }

    /// Returns the text without the field, for `details.causes[].message`.
    #[must_use]
    pub fn message(&self) -> String {
        let head = match &self.reason {
            FieldErrorReason::Required => "Required value".to_owned(),
            FieldErrorReason::Invalid(value) | FieldErrorReason::TypeInvalid(value) => format!("Invalid value: {}", shown(value)),
            FieldErrorReason::InvalidPart => "Invalid value".to_owned(),
            FieldErrorReason::NotSupported(value, supported) => {
                let quoted: Vec<String> = supported.iter().map(|s| Value::from(s.as_str()).to_string()).collect();
                format!("Unsupported value: {}: supported values: {}", shown(value), quoted.join(", "))
            }
            FieldErrorReason::Forbidden => "Forbidden".to_owned(),
            FieldErrorReason::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            FieldErrorReason::NotFound(value) => format!("Not found: {}", shown(value)),
            FieldErrorReason::TooLong(max) => format!("Too long: may not be more than {max} bytes"),
            FieldErrorReason::TooMany(count, max) => format!("Too many: {count}: must have at most {max} items"),
            FieldErrorReason::Internal => "Internal error".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

/// A value as Go prints it in messages.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => go::number(number),
        Value::Object(_) | Value::Array(_) => go::json(value),
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_does_not_grow_with_the_keys_of_clients() {
        let long = Path::new("spec").key(&"é".repeat(BYTES_MAX));
        let text = long.to_string();
        assert!(text.starts_with("spec[éé") && text.ends_with(CUT) && text.len() <= BYTES_MAX + 8, "{} bytes", text.len());
        assert_eq!(long.child("name").index(3).key("key"), long);
        assert_eq!(Path::new("").child("spec").child("list").index(12).key("a.b").to_string(), "spec.list[12][a.b]");
    }
}
