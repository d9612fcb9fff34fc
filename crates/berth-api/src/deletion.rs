//! The grace period of a deletion.

/// The effect of a deletion request on an object's grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// Objects of its kind are removed at once.
    None,
    /// The period is over, or was 0. The last state of the object contains that.
    Over,
    /// The period starts now, in seconds.
    Start(i64),
    /// The current period continues.
    Running,
    /// The period becomes shorter.
    Shorten {
        /// The new length in seconds, from its start.
        seconds: i64,
        /// The old length.
        back_by: i64,
    },
}
