//! The stack of recursions. An expression and its data are nested less deep than a bound, but deeper than the stack of a thread.

/// How much stack must be left before a recursion goes deeper, in bytes.
const LEFT: usize = 128 * 1024;
/// How much it gets if there is less, in bytes.
const MORE: usize = 1024 * 1024;

/// Runs one level of a recursion.
pub(crate) fn with_stack<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEFT, MORE, level)
}
