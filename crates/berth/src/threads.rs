//! Threads that one kind of work has for itself, so that no other can take them from it.

use std::{io, num::NonZero, thread::available_parallelism, time::Duration};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::spawn_blocking,
};

/// How long their end is waited for: what a task does between two waits takes no longer.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

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
        self.0.as_ref().expect("taken only at the end").handle().clone()
    }

    /// Resolves when nothing runs on them any more.
    pub(crate) async fn end(mut self) {
        let runtime = self.0.take().expect("taken only at the end");
        // It panics only if the runtime that this is asked on ends too, and then nobody waits.
        _ = spawn_blocking(move || runtime.shutdown_timeout(ENDED_WITHIN)).await;
    }
}

impl Drop for Threads {
    /// A runtime that is simply dropped waits for its threads, which tasks may not.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
