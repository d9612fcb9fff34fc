//! Panics: unexpected faults in the program. A panic ends only the work in which it happened, and it is always logged.

use futures::FutureExt;
use std::{any::Any, panic::AssertUnwindSafe};

/// The message of a panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(pub String);

/// Runs `future` until it ends or panics. Its changes until then remain. The caller discards state that may be inconsistent, or ensures
/// that there is none.
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
