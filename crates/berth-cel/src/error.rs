//! Why an expression does not compile, and why an evaluation has no value. The texts are upstream's.

use std::fmt;

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// What is wrong with it, and where.
    #[error("compilation failed: {0}")]
    Source(String),
    /// A part of it has no value, whatever the variables are.
    #[error("program instantiation failed: {0}")]
    Program(EvaluationError),
    /// It has another type than it must have.
    #[error("{0}")]
    Type(String),
}

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The expression costs more than one evaluation is allowed to.
    #[error("operation cancelled: actual cost limit exceeded")]
    CallCost,
    /// The budget of the caller is spent.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
    /// A function has no form for these arguments.
    #[error("no such overload{0}")]
    NoOverload(String),
    /// Anything else that an expression can do wrong: a missing key, an index out of bounds, an overflow.
    #[error("{0}")]
    Failed(String),
}

impl EvaluationError {
    /// A failure with this text.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// Whether the evaluation must end, so that no operator may ignore the error.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::CallCost | Self::OutOfBudget)
    }
}

/// One thing that is wrong with an expression.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The byte in the source.
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// How many faults of an expression are reported.
const FAULTS_MAX: usize = 100;
/// Longer lines are not shown.
const LINE_CHARACTERS_MAX: usize = 16_384;

impl CompileError {
    pub(crate) fn new(source: &str, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| fault.at);
        faults.truncate(FAULTS_MAX);
        let shown: Vec<String> = faults.iter().map(|fault| Shown { source, fault }.to_string()).collect();
        Self::Source(shown.join("\n"))
    }
}

/// A fault with the line of the source that has it.
struct Shown<'a> {
    source: &'a str,
    fault: &'a Fault,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.source.get(..self.fault.at).unwrap_or(self.source);
        let number = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = self.source[start..].split('\n').next().unwrap_or_default();
        let column = before[start..].chars().count();
        write!(f, "ERROR: <input>:{number}:{}: {}", column + 1, self.fault.text)?;
        if LINE_CHARACTERS_MAX < line.chars().count() {
            return Ok(());
        }
        write!(f, "\n | {}\n | ", line.replace('\t', " "))?;
        // A character of several bytes is shown twice as wide.
        for character in line.chars().take(column) {
            f.write_str(if character.len_utf8() == 1 { "." } else { "\u{ff0e}" })?;
        }
        let here = line.chars().nth(column).map_or(1, char::len_utf8);
        f.write_str(if here == 1 { "^" } else { "\u{ff3e}" })
    }
}
