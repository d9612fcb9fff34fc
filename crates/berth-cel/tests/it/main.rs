//! Tests of the expression language through its public interface.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cost;
mod language;
mod random;
