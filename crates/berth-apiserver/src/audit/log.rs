//! The queue and the writer thread of audit events.

use super::{
    file::{CANNOT_WRITE, LogFile, Rotation},
    policy::Policy,
};
use prometheus::{IntCounter, Registry};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

/// The maximum number of queued events.
const QUEUE_EVENTS_MAX: usize = 8192;
/// The maximum total size of queued events.
const QUEUE_BYTES_MAX: usize = 32 << 20;
/// The approximate maximum size of one write of several events.
const BATCH_BYTES: usize = 64 << 10;

/// Why the audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be opened.
    #[error("could not open the audit log {path}")]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The writer thread cannot be started.
    #[error("could not start the thread that writes the audit log")]
    Thread(#[source] io::Error),
}

/// Writes events in a thread of its own. Dropping it writes all queued events first.
#[derive(Debug)]
pub struct AuditLog {
    policy: Policy,
    queue: Option<SyncSender<Vec<u8>>>,
    waiting_bytes: Arc<AtomicUsize>,
    written: IntCounter,
    dropped: IntCounter,
    writer: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// Appends to the file at `path`, which is readable by its owner only. `-` is standard output, without rotation.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn open(policy: Policy, path: &Path, rotation: Rotation) -> Result<Self, AuditError> {
        let output: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            let opened = LogFile::open(path, rotation);
            Box::new(opened.map_err(|source| AuditError::Open { path: path.to_owned(), source })?)
        };
        Self::to(policy, output).map_err(AuditError::Thread)
    }

    pub(super) fn to(policy: Policy, output: Box<dyn Write + Send>) -> io::Result<Self> {
        let (queue, events) = sync_channel(QUEUE_EVENTS_MAX);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let counter = |name: &str, help: &str| IntCounter::new(name, help).expect("the name of a metric");
        let dropped = counter("apiserver_audit_error_total", "Audit events lost: the log could not keep up or could not be written.");
        let (waiting, lost) = (Arc::clone(&waiting_bytes), dropped.clone());
        let writer = std::thread::Builder::new().name("audit".to_owned()).spawn(move || write_all(&events, output, &waiting, &lost))?;
        Ok(Self {
            policy,
            queue: Some(queue),
            waiting_bytes,
            written: counter("apiserver_audit_event_total", "Audit events handed to the log."),
            dropped,
            writer: Some(writer),
        })
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Adds its counters to the server's.
    ///
    /// # Errors
    /// A metric's name is taken.
    pub(crate) fn register(&self, metrics: &Registry) -> Result<(), prometheus::Error> {
        metrics.register(Box::new(self.written.clone()))?;
        metrics.register(Box::new(self.dropped.clone()))
    }

    /// Queues an event if there is room. Never waits.
    pub(crate) fn write(&self, event: Vec<u8>) {
        let size = event.len();
        let has_room = self.waiting_bytes.fetch_add(size, Ordering::Relaxed) + size <= QUEUE_BYTES_MAX;
        if has_room && self.queue.as_ref().is_some_and(|queue| queue.try_send(event).is_ok()) {
            self.written.inc();
        } else {
            self.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
            self.dropped.inc();
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has written what it could.
            let _ = writer.join();
        }
    }
}

/// Writes events until all senders are dropped. An event that cannot be written is lost and counted, without an effect
/// on its request.
fn write_all(events: &Receiver<Vec<u8>>, mut output: Box<dyn Write + Send>, waiting_bytes: &AtomicUsize, lost: &IntCounter) {
    let mut batch = Vec::new();
    while let Ok(first) = events.recv() {
        let mut count = 0;
        let mut next = Some(first);
        while let Some(event) = next {
            waiting_bytes.fetch_sub(event.len(), Ordering::Relaxed);
            batch.extend_from_slice(&event);
            batch.push(b'\n');
            count += 1;
            next = if batch.len() < BATCH_BYTES { events.try_recv().ok() } else { None };
        }
        if let Err(error) = output.write_all(&batch).and_then(|()| output.flush()) {
            lost.inc_by(count);
            if let Some(left_out) = CANNOT_WRITE.now() {
                tracing::error!(%error, left_out, "the audit log cannot be written: events are lost");
            }
        }
        batch.clear();
        batch.shrink_to(BATCH_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};

    /// An output that blocks until the test releases it.
    struct Slow(Arc<Mutex<Vec<u8>>>, Receiver<()>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.1.recv();
            self.0.lock().expect("no holder panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_writer_that_hangs_delays_no_request_and_lost_events_are_counted() {
        let (written, (go, wait)) = (Arc::new(Mutex::new(Vec::new())), mpsc::channel());
        let log = AuditLog::to(Policy::default(), Box::new(Slow(Arc::clone(&written), wait))).expect("a thread");
        // Dropped before the log in every case, because the log waits for its writer.
        let go = go;
        let (events, event) = (3 * QUEUE_EVENTS_MAX, vec![b' '; 64]);
        for _ in 0..events {
            log.write(event.clone());
        }
        let (kept, lost) = (log.written.get(), log.dropped.get());
        assert_eq!(usize::try_from(kept + lost).expect("not many"), events);
        let most = QUEUE_EVENTS_MAX + BATCH_BYTES / event.len();
        assert!(usize::try_from(kept).expect("not many") <= most, "what waits, and a batch that is being written: {kept}");
        drop(go);
        drop(log);
        let lines = written.lock().expect("no holder panics").iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, usize::try_from(kept).expect("not many"));
    }

    /// An output that rejects everything, as a full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_no_request_and_every_lost_event_is_counted() {
        let log = AuditLog::to(Policy::default(), Box::new(Full)).expect("a thread");
        let lost = log.dropped.clone();
        for _ in 0..1000 {
            log.write(b"{}".to_vec());
        }
        drop(log);
        assert_eq!(lost.get(), 1000);
    }
}
