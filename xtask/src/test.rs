//! Every test, and what they need.
use crate::run::Outcome;
pub(crate) fn run() -> Outcome { Ok(()) }
