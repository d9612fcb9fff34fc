//! Faults of an object, each at a field path.

use serde_json::Value;
use std::fmt;

const DIGITS: &str = "0123456789";

/// Path of a field in an object, as upstream prints it: `spec.containers[1].name`, `metadata.annotations[key]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// A path that starts at `root`.
    #[must_use]
    pub fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// The member `name` of this field.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { self.followed_by([".", name, ""]) }
    }

    /// Element `index` of this list.
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

    /// The value under `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.followed_by(["[", key, "]"])
    }

    /// Each write makes dozens of paths, and hardly ever shows one: formatting them was a thirtieth of a pod's life.
    fn followed_by(&self, parts: [&str; 3]) -> Self {
        let mut path = String::with_capacity(self.0.len() + parts.iter().map(|part| part.len()).sum::<usize>());
        path.push_str(&self.0);
        parts.into_iter().for_each(|part| path.push_str(part));
        Self(path)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field; becomes `details.causes[].reason` and the text after the field.
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

/// One fault of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where.
    pub field: Path,
    /// What kind of fault.
    pub reason: FieldErrorReason,
    /// What a person should know besides; may be empty.
    pub detail: String,
}

impl FieldError {
    /// A field that must be set.
    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Required, detail: detail.into() }
    }

    /// A value that breaks a rule.
    pub fn invalid(field: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Invalid(value.into()), detail: detail.into() }
    }

    /// Fields that break a rule together. Their value is not printed.
    pub fn invalid_part(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::InvalidPart, detail: detail.into() }
    }

    /// A value outside an enumeration. Upstream sorts most of them, and not all: `supported` is printed as it is given.
    pub fn not_supported(field: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|s| (*s).to_owned()).collect();
        Self { field: field.clone(), reason: FieldErrorReason::NotSupported(value.into(), supported), detail: String::new() }
    }

    /// A field that may not be set here.
    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Forbidden, detail: detail.into() }
    }

    /// A value that stands twice where it must be unique.
    pub fn duplicate(field: &Path, value: impl Into<Value>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Duplicate(value.into()), detail: String::new() }
    }

    /// A reference to something that is not in the object.
    pub fn not_found(field: &Path, value: impl Into<Value>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::NotFound(value.into()), detail: String::new() }
    }

    /// A fault that upstream reports as one of the server.
    pub fn internal(field: &Path, detail: impl Into<String>) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::Internal, detail: detail.into() }
    }

    /// A value longer than `max` bytes.
    pub fn too_long(field: &Path, max: usize) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::TooLong(max), detail: String::new() }
    }

    /// A list of `count` elements where `max` may be.
    pub fn too_many(field: &Path, count: usize, max: usize) -> Self {
        Self { field: field.clone(), reason: FieldErrorReason::TooMany(count, max), detail: String::new() }
    }

    /// The wire's name of the reason, for `details.causes[].reason`.
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

    /// The text without the field, for `details.causes[].message`.
    #[must_use]
    pub fn message(&self) -> String {
        let head = match &self.reason {
            FieldErrorReason::Required => "Required value".to_owned(),
            FieldErrorReason::Invalid(value) | FieldErrorReason::TypeInvalid(value) => format!("Invalid value: {value}"),
            FieldErrorReason::InvalidPart => "Invalid value".to_owned(),
            FieldErrorReason::NotSupported(value, supported) => {
                let quoted: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
                format!("Unsupported value: {value}: supported values: {}", quoted.join(", "))
            }
            FieldErrorReason::Forbidden => "Forbidden".to_owned(),
            FieldErrorReason::Duplicate(value) => format!("Duplicate value: {value}"),
            FieldErrorReason::NotFound(value) => format!("Not found: {value}"),
            FieldErrorReason::TooLong(max) => format!("Too long: may not be more than {max} bytes"),
            FieldErrorReason::TooMany(count, max) => format!("Too many: {count}: must have at most {max} items"),
            FieldErrorReason::Internal => "Internal error".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}
