//! What a check ends with, and what it may cost.

use crate::Key;

/// What was checked in a history that can be put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Operations.
    pub operations: usize,
    /// Objects' keys.
    pub keys: usize,
    /// Writes whose outcome is unknown.
    pub unknown: usize,
}

/// How much work a check may be.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Tries of one operation at one place, for each key, besides those that are the only ones. Memory is bounded by it as well: some 200 bytes each.
    pub tries_per_key: usize,
}

impl Default for Effort {
    /// Some seconds and 100 MB for a key at the worst.
    fn default() -> Self {
        Self { tries_per_key: 500_000 }
    }
}

/// Why a history is not known to be linearizable. Its text names the operations that prove it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The recorder broke a rule of [`crate::Operation`]: the history cannot be checked.
    #[error("the history is not recorded as it must be: {0}")]
    Malformed(String),
    /// No order explains what was seen: the store is wrong. The text holds the shortest part of the history that shows it.
    #[error("{0}")]
    Anomaly(String),
    /// It took more work than was allowed: the store may be right or wrong.
    #[error("{key}: too hard to say within {tries} tries: record a watch over it, or use more keys and fewer requests at once")]
    TooHard {
        /// Where.
        key: Key,
        /// What was allowed.
        tries: usize,
    },
}
