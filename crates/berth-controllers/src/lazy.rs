//! What controllers share, if one of them needs it.

use std::sync::OnceLock;

/// Made when the first controller asks for it.
pub(crate) struct Lazy<T> {
    made: OnceLock<T>,
    make: fn() -> T,
}

impl<T> Lazy<T> {
    pub(crate) fn new(make: fn() -> T) -> Self {
        Self { made: OnceLock::new(), make }
    }

    /// Makes it if it is not made yet.
    pub(crate) fn get(&self) -> &T {
        self.made.get_or_init(self.make)
    }

    /// `None`: no controller has asked for it.
    pub(crate) fn made(&self) -> Option<&T> {
        self.made.get()
    }
}
