//! Why bytes do not become JSON.

/// Why a protobuf body is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first four bytes are not those that every body starts with.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The body does not say what it holds.
    #[error("Object 'Kind' is missing in the protobuf body")]
    NoKind,
    /// There is no message for what the body says it holds.
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf")]
    UnknownKind {
        /// As the body says.
        api_version: String,
        /// As the body says.
        kind: String,
    },
    /// The object inside is encoded or compressed in a way of its own.
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
    /// As JSON, it would be larger than allowed.
    #[error("the object is larger than {limit} bytes as JSON")]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
}

/// A rule that the bytes break.
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
    /// The wire type of another type than the field's.
    #[error("a wire type that does not fit the field's type")]
    WireType,
    /// A string that is no UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// A number that the field's type does not hold.
    #[error("a number out of the range of int32")]
    Int32,
    /// A point in time that does not exist.
    #[error("a time out of range")]
    Time,
    /// Neither a number nor a string.
    #[error("impossible type of an int-or-string")]
    IntOrString,
    /// What stands for any JSON is no JSON.
    #[error("invalid JSON")]
    Json,
    /// Messages in messages beyond what any type needs.
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
    /// The same fault, seen from the message that has it in `field`.
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
