//! Compares the model of etcd in the store's tests and the simulation with a real etcd: both execute the same random
//! operations and must return the same.

use crate::etcd::{self, Etcd as RealEtcd, TestClient, env};
use berth_store::{
    Expected, Key, Revision, Unchanged,
    env::{Clock, Rng, Spawner, Timestamp},
    etcd::{Change, Etcd, EtcdError, Lease, Model, Put, Query, Watched},
    virtual_time::{Order, Process, Step, VirtualTime},
};
use futures::{
    FutureExt, StreamExt,
    future::{Either, select},
};
use jiff::SignedDuration;
use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

const KEYS: [&str; 6] =
    ["/registry/pods/a/x", "/registry/pods/a/y", "/registry/pods/b/x", "/registry/nodes/x", "/registry/nodes/y", "other"];
const PREFIXES: [&str; 5] = ["/registry/", "/registry/pods/", "/registry/pods/a/", "/registry/nodes/x", "/registry/none/"];
/// The interval of progress requests.
const ASK_AGAIN: SignedDuration = SignedDuration::from_millis(20);

/// Random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).expect("it fits")]
    }
}

/// No random numbers are used here.
struct NoRng;

impl Rng for NoRng {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// An operation. A lease is identified by the order of grants.
#[derive(Clone, Debug)]
enum Act {
    /// The writes, and the revisions that are only compared.
    Txn(Vec<(&'static str, Expected, Option<String>, Option<usize>)>, Vec<(&'static str, Revision)>),
    Range(Query),
    Watch(&'static str, Revision),
    Compact(Revision),
    Grant,
    Revoke(usize),
    Newest,
}

/// One of the two sides, and its leases.
struct Side {
    etcd: Arc<dyn Etcd>,
    clock: Arc<dyn Clock>,
    leases: Mutex<Vec<Lease>>,
}

impl Side {
    fn new(etcd: Arc<dyn Etcd>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { etcd, clock, leases: Mutex::default() })
    }

    /// Executes an operation and returns the answer as text.
    async fn answer(self: Arc<Self>, step: Act) -> String {
        let leases = self.leases.lock().expect("nothing panics under it").clone();
        match step {
            Act::Txn(writes, compared) => {
                let put = |(key, expected, value, lease): &(&str, Expected, Option<String>, Option<usize>)| Put {
                    key: Key::new(key),
                    expected: Some(*expected),
                    value: value.clone().map(Into::into),
                    lease: lease.map(|lease| leases[lease]),
                };
                let unchanged = |(key, revision): &(&str, Revision)| Unchanged { key: Key::new(key), revision: *revision };
                shown(self.etcd.txn_while(writes.iter().map(put).collect(), compared.iter().map(unchanged).collect()).await)
            }
            Act::Range(query) => {
                let mut page = self.etcd.range(query).await;
                // Each side has its own lease ids.
                page.iter_mut().flat_map(|page| &mut page.keys).for_each(|found| found.lease = None);
                shown(page)
            }
            Act::Watch(prefix, from) => shown(self.watched(prefix, from).await),
            Act::Compact(revision) => shown(self.etcd.compact(revision).await),
            Act::Grant => {
                let granted = self.etcd.grant(3600).await.map(|lease| self.leases.lock().expect("nothing panics under it").push(lease));
                shown(granted)
            }
            Act::Newest => shown(self.etcd.revision().await),
            Act::Revoke(_) => unreachable!("no store asks for that"),
        }
    }

    /// Returns all events of a watch up to the newest revision, in order.
    async fn watched(&self, prefix: &str, from: Revision) -> Result<Vec<Change>, EtcdError> {
        let newest = self.etcd.revision().await?;
        let mut watching = self.etcd.watch(prefix, from);
        let mut seen = Vec::new();
        loop {
            let pause = self.clock.sleep_until(self.clock.now() + ASK_AGAIN);
            match select(watching.items.next(), pause).await {
                Either::Right(_) => (watching.ask_progress)(),
                Either::Left((item, _)) => match item.expect("it ends with an error")? {
                    Watched::Changes(changes) => seen.extend(changes),
                    Watched::Progress(revision) if newest <= revision => return Ok(seen),
                    Watched::Begun | Watched::Progress(_) => (),
                },
            }
        }
    }
}

/// Formats an answer. Errors are without their messages, which are etcd's own.
fn shown<T: Debug>(answer: Result<T, EtcdError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("{error:?}").split('(').next().unwrap_or_default().to_owned(),
    }
}

fn draw(dice: &mut Dice, newest: u64, leases: usize, seen: &[Expected; KEYS.len()]) -> Act {
    let revision = Revision(1 + dice.below(newest + 2));
    match dice.below(20) {
        0..9 => {
            let (first, count) = (dice.below(6), 1 + dice.below(3));
            let writes = (first..first + count).map(|number| {
                let at = usize::try_from(number % 6).expect("it fits");
                let expected = match dice.below(8) {
                    0 => Expected::Absent,
                    1 => Expected::At(revision),
                    _ => seen[at],
                };
                let is_deletion = dice.below(4) == 0;
                let lease = (!is_deletion && 0 < leases && dice.below(3) == 0).then(|| dice.below(leases as u64));
                let value = (!is_deletion).then(|| format!("{newest}-{number}"));
                (KEYS[at], expected, value, lease.map(|lease| usize::try_from(lease).expect("it fits")))
            });
            let writes: Vec<_> = writes.collect();
            // Another key, which is not written.
            let other = usize::try_from((first + count) % 6).expect("it fits");
            let compared = (dice.below(3) == 0).then(|| match seen[other] {
                Expected::At(seen) if 0 < dice.below(4) => (KEYS[other], seen),
                _ => (KEYS[other], Revision(dice.below(newest + 2))),
            });
            Act::Txn(writes, compared.into_iter().collect())
        }
        9..13 => Act::Range(Query {
            prefix: dice.of(&PREFIXES).into(),
            start_after: (dice.below(3) == 0).then(|| Key::new(dice.of(&KEYS[..5]))),
            at: (dice.below(2) == 0).then_some(revision),
            limit: (dice.below(2) == 0).then(|| usize::try_from(1 + dice.below(3)).expect("it fits")),
        }),
        // etcd reports no progress for a watch that begins at a later revision.
        13..16 => Act::Watch(dice.of(&PREFIXES), Revision(revision.0.min(newest))),
        16 => Act::Compact(Revision(revision.0 / 2)),
        17 => Act::Grant,
        18 if 0 < leases => Act::Revoke(usize::try_from(dice.below(leases as u64)).expect("it fits")),
        _ => Act::Newest,
    }
}

/// The model and its virtual time.
struct Modeled {
    time: VirtualTime,
    process: Process,
    model: Arc<Model>,
}

impl Modeled {
    fn new() -> Self {
        let time = VirtualTime::new(Order::Fifo, Arc::new(NoRng), Timestamp::UNIX_EPOCH);
        let process = time.process();
        let model = Arc::new(Model::new(&time, &process));
        Self { time, process, model }
    }

    fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let slot = Arc::new(Mutex::new(None));
        let result = Arc::clone(&slot);
        self.process.spawn("test", future.map(move |done| *result.lock().expect("nothing panics under it") = Some(done)).boxed());
        loop {
            if let Some(done) = slot.lock().expect("nothing panics under it").take() {
                return done;
            }
            let end = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(50);
            assert_ne!(self.time.step(end), Step::Quiet, "it takes too long");
        }
    }
}

#[test]
fn the_model_answers_as_a_real_etcd_does() {
    if !etcd::is_here() || !etcd::reports_progress() {
        return;
    }
    for seed in 1..=4 {
        let real = RealEtcd::start("");
        let client: TestClient = real.client();
        let clock = env(&client.runtime).clock;
        let modelled = Modeled::new();
        let sides = (
            Side::new(Arc::new(client.client.clone()), clock),
            Side::new(Arc::clone(&modelled.model) as Arc<dyn Etcd>, Arc::new(modelled.time.clone())),
        );
        let mut dice = Dice(seed);
        let mut done = Vec::new();
        for _ in 0..150 {
            let query = Query { prefix: String::new(), start_after: None, at: None, limit: None };
            let now = modelled.wait({
                let model = Arc::clone(&modelled.model);
                async move { model.range(query).await }
            });
            let now = now.expect("it answers");
            let expected = KEYS.map(|key| {
                let found = now.keys.iter().find(|found| found.key.as_str() == key);
                found.map_or(Expected::Absent, |found| Expected::At(found.mod_revision))
            });
            let leases = sides.0.leases.lock().expect("nothing panics under it").len();
            let step = draw(&mut dice, now.revision.0, leases, &expected);
            done.push(format!("{step:?}"));
            let answers = if let Act::Revoke(number) = step {
                let lease = |side: &Side| side.leases.lock().expect("nothing panics under it")[number];
                // A lease that has already ended is no error here.
                _ = client.wait(client.client.revoke(lease(&sides.0)));
                modelled.model.revoke(lease(&sides.1));
                (String::new(), String::new())
            } else {
                (client.wait(Arc::clone(&sides.0).answer(step.clone())), modelled.wait(Arc::clone(&sides.1).answer(step)))
            };
            assert_eq!(answers.0, answers.1, "seed {seed}: the real one, and the model, after\n{}", done.join("\n"));
        }
    }
}
