//! Threads that one kind of work has for itself, so that no other can take them from it.

use std::{io, num::NonZero, thread::available_parallelism};
use tokio::runtime::{Builder, Handle, Runtime};

/// Some threads, which end with this at the latest when what they are at waits for something.
pub(crate) struct Threads(Option<Runtime>);

impl Threads {
    /// As many as there are processors, and some.
    ///
    /// # Errors
    /// The machine gives no more.
    pub(crate) fn start(name: &str, more: usize) -> io::Result<Self> {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Builder::new_multi_thread().worker_threads(processors + more).thread_name(name).enable_all().build().map(Some).map(Self)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.as_ref().expect("taken only when dropped").handle().clone()
    }
}

impl Drop for Threads {
    /// A runtime that is simply dropped waits for its threads, which tasks may not.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
