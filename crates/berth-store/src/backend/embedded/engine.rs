//! The log, and the thread that writes checkpoints of it.

use super::committer::Durable;
use crate::{
    Key, Revision,
    log::{CommitError, DiskRoom, Log, NotWritten},
    mvcc::Commit,
    shared::Shared,
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

pub(super) struct Engine {
    log: Log,
    shared: Arc<Shared>,
    checkpoint: Option<Running>,
}

/// A checkpoint that is being written.
struct Running {
    thread: JoinHandle<Result<(), NotWritten>>,
    stop: Arc<AtomicBool>,
}

impl Engine {
    /// `shared` shows what is in the log.
    pub(super) fn new(log: Log, shared: Arc<Shared>) -> Self {
        Self { log, shared, checkpoint: None }
    }

    /// Begins a checkpoint if one is due. If it cannot begin, the log is closed, so that the next commit reports the reason.
    fn tend(&mut self) {
        if let Some(running) = self.checkpoint.take_if(|running| running.thread.is_finished()) {
            self.end(running);
        }
        // Between commits: what is durable is visible.
        if self.checkpoint.is_none() && !self.log.is_broken() && self.log.is_checkpoint_due() {
            self.checkpoint = self.begin_checkpoint().ok();
        }
    }

    fn begin_checkpoint(&mut self) -> io::Result<Running> {
        let past = self.shared.read().past();
        let checkpoint = self.log.begin_checkpoint(past)?;
        let (shared, stop) = (Arc::clone(&self.shared), Arc::new(AtomicBool::new(false)));
        let stops = Arc::clone(&stop);
        let as_of = move |revision, after: Option<&Key>, limit| shared.read().as_of(revision, after, limit);
        let write = move || checkpoint.write(as_of, || stops.load(Ordering::Relaxed));
        let thread = thread::Builder::new().name("store-checkpoint".into()).spawn(write)?;
        Ok(Running { thread, stop })
    }

    fn end(&mut self, running: Running) {
        // A thread that panicked has reported it. The logs are complete.
        if let Ok(ended) = running.thread.join() {
            self.log.end_checkpoint(ended);
        }
    }

    /// Leaves a checkpoint that is being written for another time.
    pub(super) fn close(mut self) -> io::Result<()> {
        if let Some(running) = self.checkpoint.take() {
            running.stop.store(true, Ordering::Relaxed);
            self.end(running);
        }
        self.log.close()
    }
}

impl Durable for Engine {
    fn commit(&mut self, commits: &[Commit]) -> Result<(), CommitError> {
        self.tend();
        self.log.commit(commits)
    }

    fn compact(&mut self, revision: Revision) -> Result<(), CommitError> {
        self.log.compact(revision)
    }

    fn room(&self) -> DiskRoom {
        self.log.room()
    }

    fn is_broken(&self) -> bool {
        self.log.is_broken()
    }

    fn go_on(&mut self) -> io::Result<()> {
        self.log.begin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Expected, Header, Purpose,
        files::disk::{Disk, Trouble},
        log::{self, History, Limits, OnDamage},
        mvcc::{Mvcc, Prepared, evaluate},
    };

    #[test]
    fn it_is_known_whether_the_last_commit_is_in_doubt_until_nothing_can_be_left_of_it() {
        let disk = Disk::default();
        let log = Log::open(Arc::new(disk.clone()), Limits::default(), OnDamage::Refuse, History::new(Arc::new(()), 0));
        let mut engine = Engine::new(log.expect("an empty disk").0, Shared::new(Mvcc::new(Arc::new(()), 0)));
        let write = Prepared {
            key: Key::new("/a"),
            expected: Expected::Absent,
            value: Some(("1".into(), Header::default())),
            expires_at: None,
            purpose: Purpose::Growth,
            only_while: None,
        };
        let commits = [evaluate(vec![write], Revision(1), |_| None).expect("nothing is there")];
        assert!(!engine.is_broken());
        // Its sync.
        disk.fail_at(disk.operations() + 1, Trouble::Failure);
        let failed = engine.commit(&commits);
        assert!(matches!(failed, Err(CommitError::Unknown(_))), "{failed:?}");
        assert!(engine.is_broken());
        engine.go_on().expect("it fails once");
        assert!(!engine.is_broken());
        engine.commit(&commits).expect("nothing is left of the first");

        let noted = || log::read(&disk.after_power_loss(0), Arc::new(())).expect("memory").acknowledged;
        assert_eq!(noted(), Some(Revision(0)));
        engine.close().expect("no trouble");
        assert_eq!(noted(), Some(Revision(1)), "as it was closed");
    }
}
