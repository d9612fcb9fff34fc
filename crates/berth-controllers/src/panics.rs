//! Panics: faults in the program that nobody saw coming. One costs what it happened in, and is told; never more than that, and never in silence.

use futures::FutureExt;
use std::{any::Any, panic::AssertUnwindSafe};

/// What a panic said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(pub String);

/// Runs `future` to its end, or to its panic. What it has changed by then stays changed: the caller throws away what may be half done, or knows that
/// nothing is.
///
/// # Errors
/// [`Panicked`].
pub fn caught<F: Future>(future: F) -> impl Future<Output = Result<F::Output, Panicked>> {
    AssertUnwindSafe(future).catch_unwind().map(|ended| ended.map_err(|panic| Panicked(text_of(&*panic))))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why").to_owned()
}
