//! Any sequence of writes, expiries, compactions, kills and power losses, next to a store that never stops. Watchers of the one, and readers at any
//! revision, see what the other shows.

use crate::util::{DEPLOYMENTS, NODES, PODS, all, block_on, get, layout, newest, range};
use berth_store::{
    Entry, Event, EventKind, Expected, Key, Limits, MemoryStore, Purpose, RangeRequest, Revision, Store, Watch, WatchItem, Write,
    env::Timestamp, expiry::Expire, files::disk::Disk,
};
use futures::{FutureExt, StreamExt};
use proptest::prelude::*;
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

/// So small that checkpoints are made all the time.
const SMALL: Limits = Limits { log_step_bytes: 1024, checkpoint_bytes_min: 3000, free_bytes_min: 0 };

/// Of three resources and of none.
const KEYS: [&str; 8] = [
    "/registry/core/pods/a/x",
    "/registry/core/pods/a/y",
    "/registry/core/pods/b/x",
    "/registry/apps/deployments/a/x",
    "/registry/apps/deployments/b/y",
    "/registry/minions/x",
    "/registry/of/none/x",
    "/registry/of/none/y",
];

#[derive(Clone, Debug)]
enum Op {
    /// The keys of these numbers get values of so many bytes, some to go after so many seconds; or are deleted if they are there.
    Commit(BTreeMap<usize, (Option<usize>, Option<i64>)>),
    /// To so many revisions before the newest.
    Compact(u64),
    /// So many seconds.
    Pass(i64),
    Kill,
    /// What was not synced survives as the seed draws.
    PowerLoss(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let size = prop_oneof![3 => (0..1500_usize).prop_map(Some), 1 => Just(None)];
    let until = prop_oneof![4 => Just(None), 1 => (1..20_i64).prop_map(Some)];
    let writes = prop_oneof![3 => Just(1..2), 1 => Just(1..KEYS.len())]
        .prop_flat_map(move |count| prop::collection::btree_map(0..KEYS.len(), (size.clone(), until.clone()), count));
    let op = prop_oneof![
        16 => writes.prop_map(Op::Commit),
        1 => (0..20_u64).prop_map(Op::Compact),
        1 => (1..5_i64).prop_map(Op::Pass),
        1 => Just(Op::Kill),
        2 => (0..5_u64).prop_map(Op::PowerLoss),
    ];
    prop::collection::vec(op, 0..80)
}

/// The store that stops and the one that does not.
struct Pair {
    disk: Disk,
    history_bytes: usize,
    stopping: MemoryStore,
    steady: MemoryStore,
    now: Timestamp,
}

impl Pair {
    /// Both with something of every resource, so that they are kept apart from the beginning.
    fn new(history_bytes: usize) -> Self {
        let (disk, steady, now) = (Disk::default(), MemoryStore::new(layout(), history_bytes), Timestamp::UNIX_EPOCH);
        let mut pair = Self { stopping: open(&disk, history_bytes), disk, history_bytes, steady, now };
        [0, 3, 5, 6].into_iter().for_each(|number| pair.apply(&Op::Commit([(number, (Some(0), None))].into())));
        pair
    }

    fn both(&self) -> [&MemoryStore; 2] {
        [&self.stopping, &self.steady]
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Commit(writes) => {
                let writes: Vec<_> = writes.iter().filter_map(|(number, (size, time))| self.write(*number, *size, *time)).collect();
                self.both().into_iter().for_each(|store| drop(block_on(store.commit(writes.clone())).expect("as expected")));
            }
            Op::Compact(back) => {
                let revision = Revision(newest(&self.steady).0.saturating_sub(*back));
                self.both().into_iter().for_each(|store| block_on(store.compact("", revision)).expect("there"));
            }
            Op::Pass(seconds) => {
                self.now += jiff::SignedDuration::from_secs(*seconds);
                self.both().into_iter().for_each(|store| while 0 < block_on(store.expire(self.now)).expect("it takes writes") {});
            }
            Op::Kill => self.open(self.disk.after_kill()),
            Op::PowerLoss(seed) => self.open(self.disk.after_power_loss(*seed)),
        }
    }

    fn open(&mut self, disk: Disk) {
        self.stopping = open(&disk, self.history_bytes);
        self.disk = disk;
    }

    /// What becomes of a key; nothing of one that is not there and would be deleted.
    fn write(&self, number: usize, size: Option<usize>, time: Option<i64>) -> Option<Write> {
        let key = Key::new(KEYS[number]);
        let found = get(&self.steady, &key).map(|entry| entry.mod_revision);
        let Some(size) = size else { return found.map(|revision| Write::delete(key, revision)) };
        let expires_at = time.map(|seconds| self.now + jiff::SignedDuration::from_secs(seconds));
        let put = Write::put(key, "x".repeat(size).into(), found.map_or(Expected::Absent, Expected::At), Purpose::Growth);
        Some(Write { expires_at, ..put })
    }
}

fn open(disk: &Disk, history_bytes: usize) -> MemoryStore {
    MemoryStore::open(Arc::new(disk.clone()), SMALL, layout(), history_bytes).expect("it opens")
}

fn show(entry: &Entry) -> String {
    assert_eq!(entry.header.uid.len(), entry.value.len(), "headers belong to values");
    format!("{}={}@{}>{}", entry.key, entry.value.len(), entry.mod_revision, entry.create_revision)
}

fn show_event(event: &Event) -> String {
    let sign = if event.kind == EventKind::Put { '+' } else { '-' };
    format!("{sign}{} from {:?}", show(&event.entry), event.previous.as_deref().map(show))
}

/// What comes next; nothing at the end of what there is.
fn next(watch: &mut Watch) -> Option<String> {
    Some(match watch.next().now_or_never()??.expect("it keeps up") {
        WatchItem::Events(events) => events.iter().map(|event| show_event(event)).collect::<Vec<_>>().join(" & "),
        WatchItem::Progress(revision) => format!("!{revision}"),
    })
}

/// All that clients can read and watch: at every revision a page, and what follows it; from the first kept revision on, all of that.
fn shown(store: &dyn Store) -> String {
    let mut shown = String::new();
    for prefix in [PODS, DEPLOYMENTS, NODES, "/registry/core/pods/a/", "/registry/of/none/", "/registry/core/", ""] {
        let mut is_first = true;
        for at in (0..=newest(store).0).map(Revision) {
            let page = match range(store, RangeRequest { at: Some(at), limit: Some(4), ..all(prefix) }) {
                Ok(page) => format!("{:?} and {}", page.entries.iter().map(|entry| show(entry)).collect::<Vec<_>>(), page.remaining),
                Err(error) => error.to_string(),
            };
            let followed = match store.watch(prefix, at) {
                Ok(mut watch) if std::mem::take(&mut is_first) => std::iter::from_fn(|| next(&mut watch)).collect::<Vec<_>>().join("\n"),
                Ok(mut watch) => next(&mut watch).unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            writeln!(shown, "{prefix} at {at}: {page}; {followed}").expect("memory");
        }
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_follows_or_reads_does_not_notice_that_a_store_was_opened_again(
        ops in ops(),
        history_bytes in prop_oneof![Just(usize::MAX), 0..20_000_usize],
    ) {
        let mut pair = Pair::new(history_bytes);
        ops.iter().for_each(|op| pair.apply(op));
        pair.apply(&Op::PowerLoss(0));
        prop_assert_eq!(shown(&pair.stopping), shown(&pair.steady));
        // What is to go some time still is.
        pair.apply(&Op::Pass(100));
        prop_assert_eq!(shown(&pair.stopping), shown(&pair.steady));
    }
}
