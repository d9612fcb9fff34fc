//! The one thread that writes: takes what waits, one durable commit, then publishes and answers.

use crate::{
    Entry, EventKind, Health, Key, ReadError, Revision, WriteError,
    backend::{cause, refusal},
    log::{CommitError, DiskRoom},
    mvcc::{Commit, Prepared, evaluate},
    shared::Shared,
};
use futures::channel::oneshot;
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

/// What one commit takes at most: bounds how long the first of its writers waits for the last.
const BATCH_WRITES_MAX: usize = 1024;
/// The same, in bytes of values; one value more may come on top.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long the store must be quiet before watchers of unchanged resources receive the newest revision. Waking all of them for each commit costs more
/// than the commits.
const PROGRESS_AFTER: Duration = Duration::from_millis(2);
/// These watchers receive the newest revision after this many commits at the latest.
const PROGRESS_COMMITS_MAX: usize = 64;

/// The delay after a failure before the committer tries again. A write makes it try at once.
const GO_ON_AFTER: Duration = Duration::from_secs(1);

/// Where changes become durable.
pub(super) trait Durable {
    /// Makes the changes durable, all or none. After [`CommitError::Unknown`] it is unknown which; what comes next succeeds only if nothing is left
    /// of them.
    fn commit(&mut self, commits: &[Commit]) -> Result<(), CommitError>;

    /// Sees to it that changes up to `revision` are forgotten for good; as [`Durable::commit`].
    fn compact(&mut self, revision: Revision) -> Result<(), CommitError>;

    /// What there is space for.
    fn room(&self) -> DiskRoom;

    /// Whether it is unknown what the last commit has left.
    fn is_broken(&self) -> bool;

    /// Makes sure that nothing is left of it.
    fn go_on(&mut self) -> io::Result<()>;
}

type Answer = Result<Vec<Arc<Entry>>, WriteError>;

pub(super) enum Request {
    /// At least one key.
    Commit { writes: Vec<Prepared>, reply: oneshot::Sender<Answer> },
    /// Forget changes up to there.
    Compact { revision: Revision, reply: oneshot::Sender<Result<(), ReadError>> },
    /// Finish what was asked before, then stop.
    Close,
}

/// What came together and is committed together.
#[derive(Default)]
struct Batch {
    commits: Vec<(Vec<Prepared>, oneshot::Sender<Answer>)>,
    /// Behind those.
    compactions: Vec<(Revision, oneshot::Sender<Result<(), ReadError>>)>,
    writes: usize,
    bytes: usize,
    closes: bool,
}

impl Batch {
    fn add(&mut self, request: Request) {
        match request {
            Request::Close => self.closes = true,
            Request::Compact { revision, reply } => self.compactions.push((revision, reply)),
            Request::Commit { writes, reply } => {
                self.writes += writes.len();
                self.bytes += writes.iter().filter_map(|write| write.value.as_ref()).map(|(value, _)| value.len()).sum::<usize>();
                self.commits.push((writes, reply));
            }
        }
    }

    fn is_full(&self) -> bool {
        self.closes || BATCH_WRITES_MAX <= self.writes || BATCH_BYTES_MAX <= self.bytes
    }
}

pub(super) struct Committer<D> {
    engine: D,
    shared: Arc<Shared>,
    waiting: Receiver<Request>,
    /// The health that callers read.
    health: Arc<Mutex<Health>>,
    /// Commits of which not all watchers know.
    unreported: usize,
}

impl<D: Durable> Committer<D> {
    pub(super) fn new(engine: D, shared: Arc<Shared>, waiting: Receiver<Request>, health: Arc<Mutex<Health>>) -> Self {
        Self { engine, shared, waiting, health, unreported: 0 }
    }

    /// Until the store is closed. Gives the engine back.
    pub(super) fn run(mut self) -> D {
        while let Some(batch) = self.next_batch() {
            let closes = batch.closes;
            self.commit(batch.commits);
            for (revision, reply) in batch.compactions {
                let _ = reply.send(self.compact(revision));
            }
            if closes {
                break;
            }
        }
        self.shared.notify_all();
        self.engine
    }

    fn next_batch(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        batch.add(self.first_request()?);
        while !batch.is_full() {
            let Ok(request) = self.waiting.try_recv() else { break };
            batch.add(request);
        }
        Some(batch)
    }

    fn first_request(&mut self) -> Option<Request> {
        while self.engine.is_broken() {
            match self.waiting.recv_timeout(GO_ON_AFTER) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let gone_on = self.engine.go_on();
                    self.record(gone_on.as_ref().err());
                }
            }
        }
        if self.unreported == 0 {
            return self.waiting.recv().ok();
        }
        if self.unreported < PROGRESS_COMMITS_MAX {
            match self.waiting.recv_timeout(PROGRESS_AFTER) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.unreported = 0;
        self.shared.notify_all();
        self.waiting.recv().ok()
    }

    fn commit(&mut self, commits: Vec<(Vec<Prepared>, oneshot::Sender<Answer>)>) {
        let keys: Vec<_> = commits.iter().map(|(writes, _)| writes[0].key.clone()).collect();
        let (commits, replies): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
        let (commits, answers) = self.evaluate_all(commits);
        let answers = match self.make_durable(&commits) {
            Ok(()) => answers,
            // Conflicts are not answered either: a conflict can refer to a write that was not made, or whose outcome is unknown.
            Err(error) => keys.into_iter().map(|key| Err(refusal(key, &error))).collect(),
        };
        for (reply, answer) in replies.into_iter().zip(answers) {
            // A caller that no longer waits has chosen not to know.
            let _ = reply.send(answer);
        }
    }

    fn compact(&mut self, revision: Revision) -> Result<(), ReadError> {
        let Self { shared, engine, .. } = self;
        shared.compact(revision, || engine.compact(revision))
    }

    /// Records the result of the last attempt to write.
    fn record(&self, error: Option<&io::Error>) {
        let health = error.map_or(Health::Ready, |error| Health::Refusing { cause: cause(error) });
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }

    /// The changes of the commits that find what they expect, and the answer for each commit.
    fn evaluate_all(&self, commits: Vec<Vec<Prepared>>) -> (Vec<Commit>, Vec<Answer>) {
        let visible = self.shared.read();
        let mut revision = visible.revision();
        let mut changed: BTreeMap<Key, Option<Arc<Entry>>> = BTreeMap::new();
        let mut made = Vec::with_capacity(commits.len());
        let (mut disk, mut room) = (self.engine.room(), visible.room());
        let mut evaluate_next = |writes: Vec<Prepared>| {
            let current = |key: &Key| changed.get(key).map_or_else(|| visible.get(key), Option::as_ref);
            let commit = evaluate(writes, revision.later(1), current)?;
            let left = disk.with(&commit).ok_or_else(|| visible.no_space(&commit))?;
            room.take(&commit.events, commit.purpose)?;
            disk = left;
            revision = revision.later(1);
            for event in &commit.events {
                changed.insert(event.entry.key.clone(), (event.kind == EventKind::Put).then(|| Arc::clone(&event.entry)));
            }
            let entries = commit.entries();
            made.push(commit);
            Ok(entries)
        };
        let answers = commits.into_iter().map(&mut evaluate_next).collect();
        (made, answers)
    }

    /// Durable first, then visible.
    fn make_durable(&mut self, commits: &[Commit]) -> Result<(), CommitError> {
        if commits.is_empty() {
            return Ok(());
        }
        let committed = self.engine.commit(commits);
        self.record(committed.as_ref().err().map(CommitError::source));
        committed?;
        self.shared.publish(commits);
        self.unreported += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expected, Header, Limits, Purpose, mvcc::Mvcc};
    use futures::FutureExt;
    use std::{
        io::ErrorKind,
        sync::mpsc::{Sender, channel},
    };

    /// Checks what is visible during a commit, and fails at one commit.
    struct Disk {
        shared: Arc<Shared>,
        /// By commit, what was visible before it and what it wrote.
        seen: Vec<(Revision, Vec<u64>)>,
        fails_at: usize,
        is_broken: bool,
        /// How often going on fails before it succeeds.
        stays_broken: usize,
        free: Option<u64>,
    }

    impl Durable for Disk {
        fn room(&self) -> DiskRoom {
            DiskRoom::of(Limits { log_step_bytes: 1000, checkpoint_bytes_min: 0, free_bytes_min: 16_000 }, self.free)
        }

        fn commit(&mut self, commits: &[Commit]) -> Result<(), CommitError> {
            let events = commits.iter().flat_map(|commit| &commit.events);
            if self.is_broken {
                self.go_on().map_err(CommitError::Refused)?;
            }
            self.seen.push((self.shared.revision(), events.map(|event| event.entry.mod_revision.0).collect()));
            self.is_broken = self.seen.len() == self.fails_at;
            if self.is_broken { Err(CommitError::Unknown(io::Error::other("it is gone"))) } else { Ok(()) }
        }

        fn compact(&mut self, _: Revision) -> Result<(), CommitError> {
            Ok(())
        }

        fn is_broken(&self) -> bool {
            self.is_broken
        }

        fn go_on(&mut self) -> io::Result<()> {
            self.is_broken = 0 < self.stays_broken;
            self.stays_broken = self.stays_broken.saturating_sub(1);
            if self.is_broken { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    type Pending = oneshot::Receiver<Answer>;

    /// Asks for one commit of these keys.
    fn ask(requests: &Sender<Request>, keys: &str, expected: Expected) -> Pending {
        let (reply, answer) = oneshot::channel();
        let value = || Some(("".into(), Header::default()));
        let purpose = Purpose::Growth;
        let writes = keys
            .split(' ')
            .map(|key| Prepared { key: Key::new(key), expected, value: value(), expires_at: None, purpose, only_while: None })
            .collect();
        requests.send(Request::Commit { writes, reply }).expect("the receiver is in this test");
        answer
    }

    /// The revision, `conflict <found>` or `unknown`.
    fn outcome_text(answer: Pending) -> String {
        match answer.now_or_never().expect("answered").expect("not dropped") {
            Ok(entries) => entries[0].mod_revision.to_string(),
            Err(WriteError::Conflict { found, .. }) => format!("conflict {found}"),
            Err(WriteError::Unknown { cause, .. }) => format!("unknown: {cause}"),
            Err(error) => error.to_string(),
        }
    }

    fn committer(fails_at: usize) -> (Sender<Request>, Committer<Disk>) {
        let shared = Shared::new(Mvcc::new(Arc::new(()), 1 << 20));
        let (requests, waiting) = channel();
        let disk = Disk { shared: Arc::clone(&shared), seen: Vec::new(), fails_at, is_broken: false, stays_broken: 0, free: None };
        (requests, Committer::new(disk, shared, waiting, Arc::new(Mutex::new(Health::Ready))))
    }

    fn health(committer: &Committer<Disk>) -> Health {
        committer.health.lock().expect("nothing panics under it").clone()
    }

    #[test]
    fn what_waits_is_one_commit_and_visible_behind_it() {
        let (requests, committer) = committer(usize::MAX);
        let asked = [("/a", Expected::Absent), ("/a", Expected::At(Revision(1))), ("/a", Expected::Absent), ("/b", Expected::Absent)];
        let answers = asked.map(|(key, expected)| ask(&requests, key, expected));
        drop(requests);
        let disk = committer.run();
        assert_eq!(answers.map(outcome_text), ["1", "2", "conflict 2", "3"]);
        assert_eq!(disk.seen, [(Revision(0), vec![1, 2, 3])]);
        assert_eq!(disk.shared.revision(), Revision(3));
    }

    #[test]
    fn a_commit_that_meets_a_conflict_leaves_nothing_to_those_behind_it() {
        let (requests, committer) = committer(usize::MAX);
        let answers = ["/a", "/b /a", "/b /c", "/c"].map(|keys| ask(&requests, keys, Expected::Absent));
        drop(requests);
        let disk = committer.run();
        assert_eq!(answers.map(outcome_text), ["1", "conflict 1", "2", "conflict 2"]);
        assert_eq!(disk.seen, [(Revision(0), vec![1, 2, 2])]);
    }

    #[test]
    fn after_a_failed_commit_nothing_of_it_is_answered_and_later_writes_are_refused_until_it_is_void() {
        let (requests, mut committer) = committer(2);
        let first = ask(&requests, "/a", Expected::Absent);
        let next = |committer: &mut Committer<Disk>| {
            let batch = committer.next_batch().expect("some wait");
            committer.commit(batch.commits);
        };
        next(&mut committer);
        committer.engine.stays_broken = 1;
        let answers = ["/b", "/b", "/a"].map(|key| ask(&requests, key, Expected::Absent));
        next(&mut committer);
        assert_eq!(health(&committer), Health::Refusing { cause: "its disk: it is gone".into() });
        let refused = ask(&requests, "/c", Expected::Absent);
        next(&mut committer);
        assert!(matches!(health(&committer), Health::Refusing { .. }));
        let later = ask(&requests, "/c", Expected::Absent);
        next(&mut committer);
        assert_eq!(health(&committer), Health::Ready);
        assert_eq!(outcome_text(first), "1");
        assert_eq!(answers.map(outcome_text), ["unknown: its disk: it is gone"; 3]);
        assert_eq!((outcome_text(refused), outcome_text(later)), ("no space is left for /c".into(), "2".into()));
        assert!(committer.shared.get(&Key::new("/b")).is_none());
    }

    #[test]
    fn it_continues_by_itself_without_a_write() {
        let (requests, mut committer) = committer(1);
        let first = ask(&requests, "/a", Expected::Absent);
        let batch = committer.next_batch().expect("one waits");
        committer.commit(batch.commits);
        assert!(matches!(health(&committer), Health::Refusing { .. }));
        let told_healthy = Arc::clone(&committer.health);
        let thread = std::thread::spawn(|| committer.run());
        while *told_healthy.lock().expect("nothing panics under it") != Health::Ready {
            std::thread::yield_now();
        }
        drop(requests);
        let disk = thread.join().expect("it ends");
        assert_eq!((outcome_text(first), disk.seen.len()), ("unknown: its disk: it is gone".into(), 1));
    }

    #[test]
    fn with_little_space_upkeep_is_written_with_less_what_makes_room_and_then_nothing() {
        let (requests, mut committer) = committer(usize::MAX);
        let first = ask(&requests, "/a /b", Expected::Absent);
        let batch = committer.next_batch().expect("one waits");
        committer.commit(batch.commits);
        assert_eq!(outcome_text(first), "1");
        let prepared = |key: &str, revision: u64, value: Option<(_, _)>, purpose| {
            vec![Prepared {
                key: Key::new(key),
                expected: Expected::At(Revision(revision)),
                value,
                expires_at: None,
                purpose,
                only_while: None,
            }]
        };
        // The change of one, for each purpose, then the deletion of the other.
        let mut round = |free, a: u64, b: u64| {
            committer.engine.free = Some(free);
            let value = || Some(("".into(), Header::default()));
            let put = |purpose| prepared("/a", a, value(), purpose);
            let deletion = prepared("/b", b, None, Purpose::Removal);
            [put(Purpose::Growth), put(Purpose::Upkeep), put(Purpose::Removal), deletion].map(|writes| {
                let (reply, answer) = oneshot::channel();
                requests.send(Request::Commit { writes, reply }).expect("the receiver is in this test");
                let batch = committer.next_batch().expect("one waits");
                committer.commit(batch.commits);
                outcome_text(answer)
            })
        };
        let no_space = "no space is left for /a";
        assert_eq!(round(1999, 1, 1), [no_space, no_space, no_space, "no space is left for /b"]);
        assert_eq!(round(8999, 1, 0), [no_space, no_space, "2", "conflict 1"]);
        assert_eq!(round(16_999, 2, 1), [no_space, "3", "conflict 3", "4"]);
        assert_eq!(round(17_000, 3, 0)[0], "5");
        assert_eq!(committer.shared.read().usage().refused, 7);
    }

    #[test]
    fn closing_finishes_what_was_asked_before() {
        let (requests, committer) = committer(usize::MAX);
        let before = ask(&requests, "/a", Expected::Absent);
        requests.send(Request::Close).expect("the receiver is in this test");
        let behind = ask(&requests, "/b", Expected::Absent);
        let disk = committer.run();
        assert_eq!(outcome_text(before), "1");
        assert!(behind.now_or_never().expect("the request is dropped").is_err());
        assert_eq!(disk.seen, [(Revision(0), vec![1])]);
    }

    /// So that the first of those who wait is not held up by all of them.
    #[test]
    fn what_comes_together_is_committed_in_batches_of_bounded_number_and_size() {
        let (requests, mut committer) = committer(usize::MAX);
        let mut batches = |writes: &mut dyn Iterator<Item = Vec<(String, usize)>>| {
            let prepared = |(key, size): (String, usize)| Prepared {
                key: Key::new(&key),
                expected: Expected::Absent,
                value: Some((vec![0; size].into(), Header::default())),
                expires_at: None,
                purpose: Purpose::Growth,
                only_while: None,
            };
            let mut left = 0;
            for commit in writes {
                let (reply, _) = oneshot::channel();
                let writes = commit.into_iter().map(prepared).collect();
                requests.send(Request::Commit { writes, reply }).expect("the receiver is in this test");
                left += 1;
            }
            let mut sizes = Vec::new();
            while 0 < left {
                sizes.push(committer.next_batch().expect("some wait").commits.len());
                left -= sizes.last().expect("just put there");
            }
            sizes
        };
        let small = |number: usize| (format!("/{number}"), 0);
        assert_eq!(batches(&mut (0..1500).map(|number| vec![small(number)])), [1024, 476]);
        assert_eq!(batches(&mut (0..1000).map(|number| vec![small(2 * number), small(2 * number + 1)])), [512, 488], "keys count");
        assert_eq!(batches(&mut (0..10).map(|number| vec![(format!("/{number}"), 1 << 20)])), [4, 4, 2]);
    }

    /// To wake them all for each commit would cost more than the commits.
    #[test]
    fn under_load_watchers_of_unchanged_resources_receive_progress_every_64_commits() {
        let (requests, mut committer) = committer(usize::MAX);
        let unreported: Vec<_> = (0..130)
            .map(|number| {
                drop(ask(&requests, &format!("/{number}"), Expected::Absent));
                let batch = committer.next_batch().expect("one waits");
                let unreported = committer.unreported;
                committer.commit(batch.commits);
                unreported
            })
            .collect();
        assert_eq!(unreported, (0..130).map(|number| number % 64).collect::<Vec<_>>());
    }
}
