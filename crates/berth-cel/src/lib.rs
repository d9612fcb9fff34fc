//! The Common Expression Language (CEL), with the functions, types and costs that Kubernetes 1.36 gives it.
//!
//! Start with [`Program::compile`]: it parses an expression, checks its types against an [`Environment`] and estimates its cost.
//! [`Program::evaluate`] evaluates it within a [`Budget`]. A [`Declaration`] describes the data of a variable; a caller builds it from a schema.
//!
//! An expression and the data that it reads are untrusted. The length and the nesting of an expression are bounded before it is parsed. Evaluation
//! counts its work in upstream's units of cost, also the work that upstream does not count (copies, comparisons of whole trees, patterns that are
//! compiled during evaluation), and ends when the budget is spent.
//!
//! No clock, no randomness, no IO, no async: the same expression has the same value for the same variables.
//!
//! Source: cel-spec `doc/langdef.md`; kubernetes `apiserver/pkg/cel`, version 1.36.

mod budget;
mod check;
mod declaration;
mod environment;
mod error;
mod estimate;
mod evaluate;
mod functions;
mod names;
mod program;
mod signatures;
mod stack;
mod syntax;
mod types;
mod value;

pub use budget::{Budget, CALL_COST_MAX, CONDITIONS_COST_MAX, OBJECT_COST_MAX};
pub use declaration::{Declaration, Field, ListKind, REQUEST_BYTES_MAX};
pub use environment::Environment;
pub use error::{CompileError, EvaluationError};
pub use functions::Evaluate;
pub use names::{escape, unescape};
pub use program::Program;
pub use types::Type;
pub use value::{Access, Authorize, Bindings, Fields, Key, List, Map, Opaque, Text, Time, Value, Variables, Verdict};
