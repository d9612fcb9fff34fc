//! Named formats of texts.

/// A format, and what is wrong with a text that does not have it.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    /// How long upstream takes its expression to be, for the cost.
    pub(crate) pattern_bytes: u64,
    pub(crate) faults: fn(&str) -> Vec<String>,
}
