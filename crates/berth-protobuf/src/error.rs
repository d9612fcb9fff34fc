//! Why a protobuf body cannot be converted to JSON.

/// Why a protobuf body is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first four bytes are not the prefix of protobuf bodies.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The body has no kind.
    #[error("Object 'Kind' is missing in the protobuf body")]
    NoKind,
    /// The body's API version and kind have no message in the table.
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf")]
    UnknownKind {
        /// The API version in the body.
        api_version: String,
        /// The kind in the body.
        kind: String,
    },
    /// The object inside has a content encoding or a content type of its own.
    #[error("the object in the protobuf body is encoded as {0:?}, which is not supported")]
    Encoding(String),
    /// The bytes break a rule of the format or of a field's type.
    #[error("{}", located(.path, .problem))]
    Malformed {
        /// JSON path of the field, empty for the body itself.
        path: String,
        /// Which rule.
        problem: Problem,
    },
    /// Its JSON would exceed the limit.
    #[error("the object is larger than {limit} bytes as JSON")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
}

/// A rule that the bytes violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The bytes end inside a field.
    #[error("unexpected end of data")]
    Truncated,
    /// An integer of more than 64 bits.
    #[error("an integer overflows 64 bits")]
    Overflow,
    /// A field number of 0 or beyond 2^29 - 1.
    #[error("an illegal field number")]
    FieldNumber,
    /// A wire type that does not exist, or that of groups, which Kubernetes never writes.
    #[error("an illegal wire type")]
    IllegalWireType,
    /// The wire type does not fit the field's type.
    #[error("a wire type that does not fit the field's type")]
    WireType,
    /// A string that is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A number outside the range of the field's type.
    #[error("a number out of the range of int32")]
    Int32,
    /// A time that does not exist.
    #[error("a time out of range")]
    Time,
    /// Neither a number nor a string.
    #[error("impossible type of an int-or-string")]
    IntOrString,
    /// A field for arbitrary JSON does not contain JSON.
    #[error("invalid JSON")]
    Json,
    /// Messages are nested deeper than any type requires.
    #[error("exceeded max depth")]
    Depth,
}

fn located(path: &str, problem: &Problem) -> String {
    if path.is_empty() { problem.to_string() } else { format!("{path}: {problem}") }
}

impl From<Problem> for DecodeError {
    fn from(problem: Problem) -> Self {
        Self::Malformed { path: String::new(), problem }
    }
}

impl DecodeError {
    /// Returns the same error with `field` in front of its path.
    pub(crate) fn within(self, field: &str) -> Self {
        match self {
            Self::Malformed { path, problem } => {
                let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
                Self::Malformed { path: format!("{field}{dot}{path}"), problem }
            }
            other => other,
        }
    }
}
