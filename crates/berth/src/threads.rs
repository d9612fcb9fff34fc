//! Threads for one kind of work, so that other work cannot occupy them.

use std::{io, num::NonZero, thread::available_parallelism, time::Duration};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::spawn_blocking,
};

/// How long the shutdown waits for the threads: no task takes longer between two awaits.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

/// A thread that always has work checks connections and timers after this many polls. A request that arrives while sixty other clients receive long
/// lists waits for that check first, and each of their polls takes half a millisecond. A check costs a system call.
const EVENT_INTERVAL: u32 = 16;

/// A runtime of several threads.
pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().event_interval(EVENT_INTERVAL);
    builder
}

/// Dedicated threads. They end at the latest on drop, as soon as their current tasks wait.
pub(crate) struct Threads(Option<Runtime>);

impl Threads {
    /// Starts one thread per processor, plus `more` threads.
    ///
    /// # Errors
    /// The machine has no more threads.
    pub(crate) fn start(name: &str, more: usize) -> io::Result<Self> {
        let processors = available_parallelism().map_or(1, NonZero::get);
        builder().worker_threads(processors + more).thread_name(name).build().map(Some).map(Self)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.0.as_ref().expect("taken only at the end").handle().clone()
    }

    /// Resolves when the threads run no task any more.
    pub(crate) async fn end(mut self) {
        let runtime = self.0.take().expect("taken only at the end");
        // It panics only if the caller's runtime ends too, and then there is no caller.
        _ = spawn_blocking(move || runtime.shutdown_timeout(ENDED_WITHIN)).await;
    }
}

impl Drop for Threads {
    /// The default drop of a runtime waits for its threads, which tasks must not do.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::env::yield_now;
    use std::{
        os::unix::net::UnixStream,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };
    use tokio::io::AsyncReadExt as _;

    #[test]
    fn what_comes_is_seen_also_by_a_thread_that_always_has_something_to_do() {
        const BYTES: usize = 200;
        let runtime = builder().worker_threads(1).build().expect("a thread");
        let (mut ours, theirs) = UnixStream::pair().expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        let (polls, written_at) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, begun) = (Arc::clone(&polls), Arc::clone(&written_at));
        // It never waits. At regular intervals it writes a byte, each time at another point between two event checks.
        let busy = runtime.spawn(async move {
            loop {
                let poll = counted.fetch_add(1, Ordering::SeqCst);
                if poll % 201 == 200 {
                    begun.store(poll, Ordering::SeqCst);
                    io::Write::write_all(&mut ours, b"x").expect("there is room");
                }
                yield_now().await;
            }
        });
        let reader = runtime.spawn(async move {
            let mut theirs = tokio::net::UnixStream::from_std(theirs).expect("a socket");
            let mut longest = 0;
            for _ in 0..BYTES {
                theirs.read_u8().await.expect("a byte");
                longest = longest.max(polls.load(Ordering::SeqCst) - written_at.load(Ordering::SeqCst));
            }
            longest
        });
        let longest = runtime.block_on(reader).expect("all were read");
        busy.abort();
        assert!(longest <= 2 * EVENT_INTERVAL as usize, "seen after up to {longest} polls");
    }
}
