//! Any sequence of commits and restarts: the counts are those of a recount, and what is refused is what passes a bound.

use super::*;
use crate::{
    Expected, Header, Revision,
    mvcc::{Commit, Mvcc, Prepared, Recovered, evaluate},
};
use proptest::prelude::*;

const QUOTA: u64 = 16 * 1024;
/// Two resources with namespaces, one without, and a key of none.
const KEYS: [&str; 8] = ["/r/pods/a/x", "/r/pods/a/y", "/r/pods/b/x", "/r/maps/a/x", "/r/maps/b/x", "/r/maps/c/x", "/r/nodes/x", "/odd"];

struct Places;

impl Layout for Places {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        let known = ["/r/pods/", "/r/maps/", "/r/nodes/"].into_iter().find(|prefix| text.starts_with(prefix))?;
        Some(&text[..known.len()])
    }

    /// Pods get longer, up to 2000 bytes.
    fn to_come(&self, entry: &Entry) -> usize {
        if entry.key.as_str().starts_with("/r/pods/") { 2000_usize.saturating_sub(entry.value.len()) } else { 0 }
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Each key by its number, with the size of its new value, or deleted if it is there.
    Commit(Purpose, BTreeMap<usize, Option<usize>>),
    /// The newest versions are read back, and counted.
    Restart,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let purpose = prop_oneof![4 => Just(Purpose::Growth), 2 => Just(Purpose::Upkeep), 1 => Just(Purpose::Removal)];
    let size = prop_oneof![3 => (0..6000_usize).prop_map(Some), 1 => Just(None)];
    let writes = prop::collection::btree_map(0..KEYS.len(), size, 1..3);
    let commit = (purpose, writes).prop_map(|(purpose, writes)| Op::Commit(purpose, writes));
    prop::collection::vec(prop_oneof![20 => commit, 1 => Just(Op::Restart)], 0..60)
}

fn open(revision: Revision, entries: Vec<Arc<Entry>>) -> Mvcc {
    let mut mvcc = Mvcc::recovered(Arc::new(Places), revision, Recovered { entries, ..Recovered::default() }, 0);
    mvcc.set_quota(Some(QUOTA));
    mvcc
}

fn entries(mvcc: &Mvcc) -> Vec<Arc<Entry>> {
    KEYS.iter().filter_map(|key| mvcc.get(&Key::new(key)).cloned()).collect()
}

/// What all takes, and what the keys of each namespace take.
fn recount(entries: &[Arc<Entry>]) -> (u64, BTreeMap<String, u64>) {
    let mut namespaces = BTreeMap::new();
    for entry in entries {
        if let Some(name) = Places.namespace(entry.key.as_str()) {
            *namespaces.entry(name.to_owned()).or_default() += bytes_of(&Places, Some(entry)).unsigned_abs();
        }
    }
    (entries.iter().map(|entry| bytes_of(&Places, Some(entry)).unsigned_abs()).sum(), namespaces)
}

/// The newest versions behind a commit.
fn after(commit: &Commit, before: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    let is_left = |entry: &&Arc<Entry>| commit.events.iter().all(|event| event.entry.key != entry.key);
    let put = commit.events.iter().filter(|event| event.kind == EventKind::Put).map(|event| &event.entry);
    before.iter().filter(is_left).chain(put).cloned().collect()
}

/// What may be written for a purpose: all, and in a namespace.
fn is_within(purpose: Purpose, (bytes, namespaces): &(u64, BTreeMap<String, u64>), written: &[&str]) -> bool {
    let most = match purpose {
        Purpose::Growth => QUOTA / 16 * 15,
        Purpose::Upkeep => QUOTA,
        Purpose::Removal => return true,
    };
    let half = |name: &str| namespaces.get(name).is_none_or(|taken| *taken <= most.saturating_sub(bytes - taken) / 2);
    *bytes <= most && written.iter().filter_map(|key| Places.namespace(key)).all(half)
}

fn commit(mvcc: &mut Mvcc, purpose: Purpose, writes: &BTreeMap<usize, Option<usize>>) {
    let prepare = |(number, size): (&usize, &Option<usize>)| {
        let key = Key::new(KEYS[*number]);
        let expected = mvcc.get(&key).map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
        let value = size.map(|size| (vec![0; size].into(), Header::default()));
        // What is not there is not deleted.
        (value.is_some() || expected != Expected::Absent).then_some(Prepared {
            key,
            expected,
            value,
            expires_at: None,
            purpose,
            only_while: None,
        })
    };
    let writes: Vec<_> = writes.iter().filter_map(prepare).collect();
    if writes.is_empty() {
        return;
    }
    let commit = evaluate(writes, mvcc.revision().later(1), |key| mvcc.get(key)).expect("as expected");
    let stored = entries(mvcc);
    let (before, after) = (recount(&stored), recount(&after(&commit, &stored)));
    let growing: Vec<_> = commit.events.iter().filter(|event| 0 < growth(&Places, event)).map(|event| event.entry.key.as_str()).collect();
    let may = after.0 <= before.0 || is_within(purpose, &after, &growing);
    let taken = mvcc.room().take(&commit.events, commit.purpose);
    assert_eq!(taken.is_ok(), may, "{purpose:?} from {before:?} to {after:?}: {taken:?}");
    if may {
        mvcc.apply(&commit);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_stored_is_counted_and_never_passes_its_bound(ops in ops()) {
        let mut mvcc = open(Revision(0), Vec::new());
        for op in &ops {
            match op {
                Op::Commit(purpose, writes) => commit(&mut mvcc, *purpose, writes),
                Op::Restart => mvcc = open(mvcc.revision(), entries(&mvcc)),
            }
            let usage = mvcc.usage();
            prop_assert_eq!(usage.bytes, recount(&entries(&mvcc)).0);
            let of_resources: u64 = usage.resources.iter().map(|(_, bytes)| bytes).sum();
            let odd = mvcc.get(&Key::new("/odd")).map_or(0, |entry| bytes_of(&Places, Some(entry)).unsigned_abs());
            prop_assert_eq!(of_resources + odd, usage.bytes);
        }
    }
}

/// Commits of one batch, none of them visible yet.
#[test]
fn commits_that_come_together_do_not_pass_a_bound_together() {
    let mvcc = open(Revision(0), Vec::new());
    let put = |key: &str, revision| {
        let value = Some((vec![0; 5000].into(), Header::default()));
        let write = Prepared {
            key: Key::new(key),
            expected: Expected::Absent,
            value,
            expires_at: None,
            purpose: Purpose::Growth,
            only_while: None,
        };
        evaluate(vec![write], Revision(revision), |_| None).expect("as expected")
    };
    let mut room = mvcc.room();
    let mut take = |commit: Commit| room.take(&commit.events, commit.purpose);
    take(put("/r/pods/a/x", 1)).expect("a third of it is free");
    let Err(WriteError::QuotaExceeded { key, bound }) = take(put("/r/pods/a/y", 2)) else { panic!("more than half") };
    assert_eq!(key.as_str(), "/r/pods/a/y");
    assert_eq!(bound, Bound::Namespace { name: "a".into(), quota: QUOTA });
    take(put("/r/nodes/x", 2)).expect("the refused one took nothing");
    assert_eq!(mvcc.usage().refused, 1);
}

/// A layout that announces no growth.
#[test]
fn the_size_of_a_key_includes_its_overhead() {
    let entry = Entry {
        key: Key::new("/odd"),
        value: "12".into(),
        header: Header::default(),
        create_revision: Revision(1),
        mod_revision: Revision(1),
    };
    assert_eq!(Space::of(&(), [Arc::new(entry)].iter()).usage().bytes, KEY_OVERHEAD_BYTES + 4 + 2);
}

#[test]
fn what_takes_all_that_may_be_taken_is_written_and_a_byte_more_is_not() {
    let mvcc = open(Revision(0), Vec::new());
    let is_taken = |key: &str, purpose, bytes: u64| {
        let size = usize::try_from(bytes - KEY_OVERHEAD_BYTES).expect("small") - key.len();
        let value = Some((vec![0; size].into(), Header::default()));
        let write = Prepared { key: Key::new(key), expected: Expected::Absent, value, expires_at: None, purpose, only_while: None };
        let commit = evaluate(vec![write], Revision(1), |_| None).expect("nothing is there");
        mvcc.room().take(&commit.events, commit.purpose).is_ok()
    };
    let growth = QUOTA / 16 * 15;
    for (key, purpose, most) in [
        ("/r/nodes/x", Purpose::Growth, growth),
        ("/r/nodes/x", Purpose::Upkeep, QUOTA),
        ("/r/maps/a/x", Purpose::Growth, growth / 2),
        ("/r/maps/a/x", Purpose::Upkeep, QUOTA / 2),
    ] {
        assert_eq!([most, most + 1].map(|bytes| is_taken(key, purpose, bytes)), [true, false], "{key} {purpose:?}");
    }
}

#[test]
fn what_takes_no_more_than_before_is_written_though_too_much_is_stored() {
    let entry = |revision| {
        let (value, header, revision) = (vec![0; 1000].into(), Header::default(), Revision(revision));
        Arc::new(Entry { key: Key::new("/odd"), value, header, create_revision: Revision(1), mod_revision: revision })
    };
    let mut mvcc = open(Revision(1), vec![entry(1)]);
    mvcc.set_quota(Some(100));
    let is_taken = |size| {
        let value = Some((vec![0; size].into(), Header::default()));
        let (key, expected) = (Key::new("/odd"), Expected::At(Revision(1)));
        let write = Prepared { key, expected, value, expires_at: None, purpose: Purpose::Growth, only_while: None };
        let commit = evaluate(vec![write], Revision(2), |key| mvcc.get(key)).expect("as expected");
        mvcc.room().take(&commit.events, commit.purpose).is_ok()
    };
    assert_eq!([999, 1000, 1001].map(is_taken), [true, true, false]);
}

/// For the largest value, or a sixty-fourth of the quota where that is less.
#[test]
fn the_quota_is_used_up_where_an_object_of_any_size_finds_no_room() {
    let lacks = |quota: u64, left: u64| {
        let stored = quota / 16 * 15 - left - KEY_OVERHEAD_BYTES - 2;
        let value = vec![0; usize::try_from(stored).expect("it fits in memory")].into();
        let (header, revision) = (Header::default(), Revision(1));
        let entry = Entry { key: Key::new("/a"), value, header, create_revision: revision, mod_revision: revision };
        let mut space = Space::of(&(), [Arc::new(entry)].iter());
        space.set_quota(Some(quota));
        space.usage().lacks
    };
    let is_short = Some(OutOfSpace::Quota);
    assert_eq!([0, 256, 257, 10_000].map(|left| lacks(16 << 10, left)), [is_short, is_short, None, None]);
    let largest = MAX_VALUE_BYTES as u64;
    assert_eq!([largest, largest + 1].map(|left| lacks(128 << 20, left)), [is_short, None]);
}

#[test]
fn what_a_key_is_still_to_get_is_paid_for_when_it_is_made() {
    let mut mvcc = open(Revision(0), Vec::new());
    let write = |mvcc: &mut Mvcc, key: &str, size, purpose| {
        let key = Key::new(key);
        let expected = mvcc.get(&key).map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
        let value = Some((vec![0; size].into(), Header::default()));
        let write = Prepared { key, expected, value, expires_at: None, purpose, only_while: None };
        let commit = evaluate(vec![write], mvcc.revision().later(1), |key| mvcc.get(key)).expect("as expected");
        mvcc.room().take(&commit.events, commit.purpose)?;
        mvcc.apply(&commit);
        Ok::<_, WriteError>(mvcc.usage().bytes)
    };
    let before = write(&mut mvcc, "/r/pods/a/x", 100, Purpose::Growth).expect("nothing is there");
    write(&mut mvcc, "/r/maps/a/x", 4000, Purpose::Growth).expect("the rest of half");
    assert!(write(&mut mvcc, "/r/maps/a/x", 5500, Purpose::Upkeep).is_err(), "the namespace is full, with what is kept back");
    let full = mvcc.usage().bytes;
    assert_eq!(write(&mut mvcc, "/r/pods/a/x", 2000, Purpose::Growth).expect("paid for"), full);
    assert!(before < full && write(&mut mvcc, "/r/pods/a/x", 3500, Purpose::Upkeep).is_err(), "no more than that");
}
