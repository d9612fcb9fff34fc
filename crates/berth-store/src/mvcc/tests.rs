//! Any sequence of writes and compactions, against a model that keeps a copy of everything for each revision.

use super::*;
use crate::{Expected, Header, Purpose};
use proptest::prelude::*;

/// Two resources with a common beginning, two namespaces, and a key outside the usual form.
const KEYS: [&str; 6] =
    ["/r/core/pods/a/x", "/r/core/pods/a/y", "/r/core/pods/b/x", "/r/core/podtemplates/a/x", "/r/apps/pods/a/x", "/odd"];
const PREFIXES: [&str; 8] = ["", "/r/core/pods/", "/r/core/pods/a/", "/r/core/pods", "/r/core/", "/r/apps/pods/", "/o", "/r/none/here/"];

/// What may be kept apart: as far as none begins as another does.
const APART: [&str; 6] = ["/r/core/", "/r/core/pods/", "/r/core/pods/a/", "/r/apps/pods/", "/r/none/here/", "/o"];

#[derive(Clone, Debug)]
enum Op {
    /// So many revisions behind the newest, to the keys of these numbers, as they should be or not: the size of the new value, or a deletion.
    Commit(u64, BTreeMap<usize, (Option<usize>, Guess)>),
    /// To so many revisions before the newest.
    Compact(u64),
    /// From now on, what is of that number in [`APART`].
    KeepApart(usize),
    /// A list of what is of that number in [`APART`] begins, of the owner of that letter, for so many seconds.
    Pin(usize, char, i64),
    /// The oldest list that goes on comes to its end.
    Unpin,
    /// So many seconds pass.
    Pass(i64),
}

#[derive(Clone, Copy, Debug)]
enum Guess {
    Right,
    Absent,
    At(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let guess = || prop_oneof![18 => Just(Guess::Right), 1 => Just(Guess::Absent), 1 => (0..20u64).prop_map(Guess::At)];
    let size = || prop_oneof![2 => (0..2000usize).prop_map(Some), 1 => Just(None)];
    let keys = prop_oneof![3 => Just(1..2), 1 => Just(1..KEYS.len())];
    let writes = keys.prop_flat_map(move |count| prop::collection::btree_map(0..KEYS.len(), (size(), guess()), count));
    let op = prop_oneof![
        9 => (1..4u64, writes).prop_map(|(gap, writes)| Op::Commit(gap, writes)),
        1 => (0..20u64).prop_map(Op::Compact),
        1 => (0..APART.len()).prop_map(Op::KeepApart),
        2 => (0..APART.len(), prop_oneof![Just('a'), Just('b')], 1..5_i64).prop_map(|(number, owner, time)| Op::Pin(number, owner, time)),
        1 => Just(Op::Unpin),
        1 => (1..3_i64).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 0..60)
}

/// Create revision, mod revision, size of the value.
type Version = (u64, u64, usize);

/// What a commit made.
struct Made {
    revision: u64,
    /// What was live then.
    state: BTreeMap<&'static str, Version>,
    /// In their order; none of the beginning.
    changes: Vec<(&'static str, EventKind)>,
}

/// All that ever was, the beginning first.
struct Model {
    made: Vec<Made>,
    /// What was compacted on demand.
    compacted: u64,
    /// Lists that go on, with their end: they may be read, unless they took too much.
    lists: Vec<(&'static str, u64, char, i64)>,
    now: i64,
}

impl Model {
    fn new() -> Self {
        let made = vec![Made { revision: 0, state: BTreeMap::new(), changes: Vec::new() }];
        Self { made, compacted: 0, lists: Vec::new(), now: 0 }
    }

    fn last(&self) -> &Made {
        self.made.last().expect("the beginning at least")
    }

    fn newest(&self) -> u64 {
        self.last().revision
    }

    /// What was live at a revision that may lie between two commits.
    fn state(&self, revision: u64) -> &BTreeMap<&'static str, Version> {
        &self.made[self.made.partition_point(|made| made.revision <= revision) - 1].state
    }

    /// Revision, key and kind of the changes behind a revision.
    fn changes(&self, after: u64) -> impl Iterator<Item = (u64, &'static str, EventKind)> {
        let made = self.made.iter().filter(move |made| after < made.revision);
        made.flat_map(|made| made.changes.iter().map(|(key, kind)| (made.revision, *key, *kind)))
    }

    fn expected(&self, key: &str, guess: Guess) -> Expected {
        match (guess, self.last().state.get(key)) {
            (Guess::Right, Some((_, modified, _))) => Expected::At(Revision(*modified)),
            (Guess::Right | Guess::Absent, _) => Expected::Absent,
            (Guess::At(revision), _) => Expected::At(Revision(revision)),
        }
    }

    /// Whether the commit happened.
    fn commit(&mut self, revision: u64, writes: &[(&'static str, Option<usize>, Expected)]) -> bool {
        let mut state = self.last().state.clone();
        let mut changes = Vec::new();
        for (key, size, expected) in writes {
            let current = state.remove(key);
            let is_expected = match expected {
                Expected::Absent => current.is_none() && size.is_some(),
                Expected::At(revision) => current.is_some_and(|(_, modified, _)| modified == revision.0),
            };
            if !is_expected {
                return false;
            }
            if let Some(size) = size {
                state.insert(key, (current.map_or(revision, |(created, ..)| created), revision, *size));
            }
            changes.push((*key, if size.is_some() { EventKind::Put } else { EventKind::Deleted }));
        }
        self.made.push(Made { revision, state, changes });
        true
    }
}

fn apply(mvcc: &mut Mvcc, model: &mut Model, op: &Op) {
    let (gap, writes) = match op {
        Op::Compact(back) => {
            let revision = mvcc.revision().0.saturating_sub(*back);
            mvcc.compact(Revision(revision));
            model.compacted = model.compacted.max(revision);
            model.lists.retain(|(_, at, ..)| model.compacted <= *at);
            return;
        }
        Op::KeepApart(number) => return mvcc.partition_by_prefix(APART[*number]),
        Op::Pin(number, owner, time) => {
            let (prefix, until) = (APART[*number], model.now + time);
            mvcc.pin(prefix, mvcc.revision(), &owner.to_string(), Timestamp::from_second(until).expect("a time"));
            let resource = APART.into_iter().find(|apart| mvcc.resource_prefix(prefix) == Some(*apart));
            let begun = resource.map(|resource| (resource, mvcc.revision().0, *owner, until));
            model.lists.extend(begun);
            // Lists of one owner at one revision end together, with the last of them.
            let is_same = |list: &&mut (&str, u64, char, i64)| begun.is_some_and(|new| (list.0, list.1, list.2) == (new.0, new.1, new.2));
            let last = model.lists.iter_mut().filter(is_same).map(|list| list.3).max();
            model.lists.iter_mut().filter(is_same).for_each(|list| list.3 = list.3.max(last.unwrap_or_default()));
            return;
        }
        Op::Unpin => {
            if !model.lists.is_empty() {
                let (prefix, revision, owner, _) = model.lists.remove(0);
                mvcc.unpin(prefix, Revision(revision), &owner.to_string());
            }
            return;
        }
        Op::Pass(seconds) => {
            model.now += seconds;
            mvcc.end_due_lists(Timestamp::from_second(model.now).expect("a time"));
            let now = model.now;
            model.lists.retain(|list| now < list.3);
            return;
        }
        Op::Commit(gap, writes) => (gap, writes),
    };
    let expected = |(key, (size, guess)): (&usize, &(Option<usize>, Guess))| (KEYS[*key], *size, model.expected(KEYS[*key], *guess));
    let writes: Vec<_> = writes.iter().map(expected).collect();
    let prepare = |&(key, size, expected): &(&str, Option<usize>, Expected)| Prepared {
        key: Key::new(key),
        expected,
        value: size.map(|size| (vec![0; size].into(), Header::default())),
        expires_at: None,
        purpose: Purpose::Growth,
        only_while: None,
    };
    let next = Revision(mvcc.revision().0 + gap);
    let commit = evaluate(writes.iter().map(prepare).collect(), next, |key| mvcc.get(key));
    assert_eq!(commit.is_ok(), model.commit(next.0, &writes), "{op:?}");
    if let Ok(commit) = commit {
        mvcc.apply(&commit);
    }
}

/// What the budget dropped is the structure's choice; that it had to, and of what takes most, is checked here.
fn check_history(mvcc: &Mvcc, model: &Model) {
    let all = || mvcc.resources.values().chain([&mvcc.rest]);
    for kept in all() {
        assert_eq!(kept.log.iter().map(|event| cost_bytes(event)).sum::<usize>(), kept.history_bytes);
        assert!(Revision(model.compacted) <= kept.oldest && kept.dropped <= kept.oldest && kept.oldest <= mvcc.revision);
    }
    assert_eq!(all().map(|kept| kept.history_bytes).sum::<usize>(), mvcc.history_bytes);
    assert!(mvcc.history_bytes <= mvcc.history_bytes_max);
    let kept_for_lists = mvcc.pins.check_counts();
    assert_eq!(mvcc.keys.values().map(|versions| versions.pinned).sum::<usize>(), kept_for_lists);
    for prefix in APART.iter().filter(|prefix| mvcc.resource_prefix(prefix) == Some(**prefix)) {
        let found = &mvcc.resources[*prefix];
        assert_eq!(found.log.len(), model.changes(found.oldest.0).filter(|(_, key, _)| key.starts_with(prefix)).count());
    }
}

/// Nothing is left of keys that cannot be read any more.
fn check_no_remains(mvcc: &Mvcc, model: &Model) {
    for key in KEYS {
        let oldest = mvcc.oldest(key).0;
        let later = model.made.iter().filter(|made| oldest < made.revision).map(|made| &made.state);
        let is_readable = later.chain([model.state(oldest)]).any(|state| state.contains_key(key));
        let has_changed = model.changes(oldest).any(|(_, changed, _)| changed == key);
        let kept = mvcc.keys.get(&Key::new(key));
        let is_pinned = kept.is_some_and(|versions| 0 < versions.pinned);
        assert_eq!(kept.is_some(), is_readable || has_changed || is_pinned, "{key}");
    }
}

fn check_range(mvcc: &Mvcc, model: &Model, at: u64, request: &RangeRequest) {
    let all: Vec<_> = model.state(at).iter().filter(|(key, _)| key.starts_with(&request.prefix)).collect();
    let behind = request.start_after.as_ref().map_or("", Key::as_str);
    let all: Vec<_> = all.into_iter().filter(|(key, _)| behind.is_empty() || behind < **key).collect();
    let page = all.len().min(request.limit.unwrap_or(usize::MAX));
    let range = mvcc.range(request).expect("kept");
    let found = |entry: &Arc<Entry>| (entry.key.as_str().to_owned(), (entry.create_revision.0, entry.mod_revision.0, entry.value.len()));
    let wanted = all[..page].iter().map(|(key, version)| ((**key).to_owned(), **version)).collect::<Vec<_>>();
    assert_eq!(range.entries.iter().map(found).collect::<Vec<_>>(), wanted, "{request:?}");
    assert_eq!((range.remaining, range.revision), (all.len() - page, Revision(at)), "{request:?}");
    let told = mvcc.range(&RangeRequest { behind: Some(all.len()), ..request.clone() }).expect("kept");
    assert_eq!(told.remaining, range.remaining, "{request:?}");
}

fn check_ranges(mvcc: &Mvcc, model: &Model) {
    for prefix in PREFIXES {
        for limit in [None, Some(0), Some(2)] {
            for start_after in [None, Some(Key::new(KEYS[0])), Some(Key::new("/r/core/pods/b/"))] {
                let request = |at| RangeRequest { prefix: prefix.into(), start_after: start_after.clone(), at, limit, behind: None };
                check_range(mvcc, model, model.newest(), &request(None));
                let oldest = mvcc.oldest(prefix).0;
                (oldest..=model.newest()).for_each(|at| check_range(mvcc, model, at, &request(Some(Revision(at)))));
                let is_list = |at: &u64| mvcc.resource_prefix(prefix).is_some_and(|resource| mvcc.pins.is_pinned(resource, Revision(*at)));
                for at in 0..oldest {
                    if is_list(&at) {
                        check_range(mvcc, model, at, &request(Some(Revision(at))));
                    } else {
                        assert!(matches!(mvcc.range(&request(Some(Revision(at)))), Err(ReadError::Compacted { .. })), "{prefix} at {at}");
                    }
                }
                assert!(matches!(mvcc.range(&request(Some(Revision(model.newest() + 1)))), Err(ReadError::Future { .. })));
            }
        }
    }
}

/// Lists that take little are not ended, and those that are over are.
fn check_lists(mvcc: &Mvcc, model: &Model) {
    if mvcc.history_bytes_max == usize::MAX {
        assert!(model.lists.iter().all(|(prefix, at, ..)| mvcc.pins.is_pinned(prefix, Revision(*at))));
    }
    let known = |prefix: &str, at: Revision| model.lists.iter().any(|list| list.0 == prefix && list.1 == at.0);
    assert!(mvcc.pins.due(Timestamp::MAX).iter().all(|(resource, at, _)| known(resource, *at)));
}

fn check_watch(mvcc: &Mvcc, model: &Model, prefix: &str, from: u64) {
    let wanted: Vec<_> = model.changes(from).filter(|(_, key, _)| key.starts_with(prefix)).collect();
    let mut after = Revision(from);
    for whole in wanted.chunk_by(|one, next| one.0 == next.0) {
        let revision = whole[0].0;
        let Ok(Next::Events(events)) = mvcc.next(prefix, after, None) else { panic!("{prefix} has {revision} behind {after}") };
        let seen = |event: &Arc<Event>| (event.entry.mod_revision.0, event.entry.key.as_str().to_owned(), event.kind);
        let wanted = |(revision, key, kind): &(u64, &str, EventKind)| (*revision, (*key).to_owned(), *kind);
        assert_eq!(events.iter().map(seen).collect::<Vec<_>>(), whole.iter().map(wanted).collect::<Vec<_>>());
        for event in &events {
            let before = model.state(revision - 1).get(event.entry.key.as_str()).copied();
            let version = |entry: &Arc<Entry>| (entry.create_revision.0, entry.mod_revision.0, entry.value.len());
            assert_eq!(event.previous.as_ref().map(version), before);
            if event.kind == EventKind::Deleted {
                assert_eq!(before.map(|(created, _, size)| (created, revision, size)), Some(version(&event.entry)), "the last value");
            }
        }
        after = Revision(revision);
    }
    assert!(matches!(mvcc.next(prefix, after, None), Ok(Next::CaughtUp(revision)) if revision == mvcc.revision()), "{prefix} from {after}");
}

fn check_watches(mvcc: &Mvcc, model: &Model) {
    for prefix in PREFIXES {
        let oldest = mvcc.oldest(prefix);
        (oldest.0..=model.newest()).for_each(|from| check_watch(mvcc, model, prefix, from));
        assert!(matches!(mvcc.next(prefix, mvcc.revision().later(1), None), Ok(Next::Future)));
        assert!((0..oldest.0).all(|from| mvcc.check_watchable(prefix, Revision(from)).is_err()));
        assert!(mvcc.check_watchable(prefix, oldest).is_ok());
    }
}

/// A reader that has seen all up to `from` may only be let go on if nothing of its prefix is missing.
fn check_late_readers(mvcc: &Mvcc, model: &Model) {
    for prefix in PREFIXES {
        let oldest = mvcc.oldest(prefix).0;
        for from in 0..oldest {
            let lost = model.changes(from).any(|(revision, key, _)| revision <= oldest && key.starts_with(prefix));
            match mvcc.next(prefix, Revision(from), None) {
                Ok(_) => assert!(!lost, "{prefix} from {from}"),
                Err(error) => assert!(matches!(error, ReadError::Compacted { .. })),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_model_that_keeps_everything(ops in ops(), history_bytes in prop_oneof![Just(usize::MAX), 0..20_000usize]) {
        let (mut mvcc, mut model) = (Mvcc::new(Arc::new(()), history_bytes), Model::new());
        for op in &ops {
            apply(&mut mvcc, &mut model, op);
            check_history(&mvcc, &model);
            check_no_remains(&mvcc, &model);
            check_lists(&mvcc, &model);
        }
        check_ranges(&mvcc, &model);
        check_watches(&mvcc, &model);
        check_late_readers(&mvcc, &model);
    }
}

#[test]
fn a_resource_is_kept_apart_unless_it_is_another_s_part() {
    let mut mvcc = Mvcc::new(Arc::new(()), 0);
    ["/r/services/specs/", "/r/services/", "/r/services/specs/a/", "/r/services/endpoints/", "/r/"]
        .iter()
        .for_each(|prefix| mvcc.partition_by_prefix(prefix));
    let check = |text: &str, wanted: Option<&str>| assert_eq!(mvcc.resource_prefix(text), wanted, "{text}");
    check("/r/services/specs/a/b", Some("/r/services/specs/"));
    check("/r/services/specs/", Some("/r/services/specs/"));
    check("/r/services/endpoints/a/b", Some("/r/services/endpoints/"));
    check("/r/services/specs", None);
    check("/r/services/others/a", None);
    check("", None);
}

#[test]
fn a_revision_stays_whole_when_one_resource_forgets_its_part() {
    let mut mvcc = Mvcc::new(Arc::new(()), 2500);
    ["/o", "/r/core/pods/"].iter().for_each(|prefix| mvcc.partition_by_prefix(prefix));
    let prepare = |key: &str, bytes: usize| Prepared {
        key: Key::new(key),
        expected: Expected::Absent,
        value: Some((vec![0; bytes].into(), Header::default())),
        expires_at: None,
        purpose: Purpose::Growth,
        only_while: None,
    };
    let keys = [("/odd", 1500), ("/r/core/pods/a/x", 1), ("/r/core/podtemplates/a/x", 1)];
    let writes = keys.map(|(key, bytes)| prepare(key, bytes)).into();
    mvcc.apply(&evaluate(writes, Revision(1), |_| None).expect("new keys"));
    mvcc.apply(&evaluate(vec![prepare("/other", 1000)], Revision(2), |_| None).expect("a new key"));
    assert!(Revision(0) < mvcc.oldest("/o"), "the resource with the largest history forgets first");
    let Ok(Next::Events(events)) = mvcc.next("/r/core/", Revision(0), None) else { panic!("both are kept") };
    assert_eq!(events.len(), 2);
}

/// A store of one resource, with a kilobyte in each of ten keys.
fn ten_keys(history_bytes: usize) -> Mvcc {
    let mut mvcc = Mvcc::new(Arc::new(()), history_bytes);
    mvcc.partition_by_prefix("/r/core/pods/");
    (0..10).for_each(|number| write(&mut mvcc, number));
    mvcc
}

fn write(mvcc: &mut Mvcc, number: usize) {
    write_key(mvcc, Key::new(&format!("/r/core/pods/a/{number}")));
}

fn write_key(mvcc: &mut Mvcc, key: Key) {
    let expected = mvcc.get(&key).map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
    let value = Some((vec![0; 1000].into(), Header::default()));
    let write = Prepared { key, expected, value, expires_at: None, purpose: Purpose::Growth, only_while: None };
    let commit = evaluate(vec![write], mvcc.revision().later(1), |key| mvcc.get(key)).expect("as expected");
    mvcc.apply(&commit);
}

/// A first page has the number of keys that follow, without a scan.
#[test]
fn the_keys_of_a_resource_and_of_each_namespace_are_counted_as_they_come_and_go() {
    let mut mvcc = ten_keys(1 << 20);
    let count = |mvcc: &Mvcc, prefix: &str| mvcc.live_of(&RangeRequest::all(prefix), mvcc.revision());
    let counts = |mvcc: &Mvcc| ["/r/core/pods/", "/r/core/pods/a/", "/r/core/pods/b/"].map(|prefix| count(mvcc, prefix));
    assert_eq!(counts(&mvcc), [Some(10), Some(10), None]);
    let gone = |mvcc: &Mvcc, number: usize| {
        let key = Key::new(&format!("/r/core/pods/a/{number}"));
        let expected = Expected::At(mvcc.get(&key).expect("it is there").mod_revision);
        let write = Prepared { key, expected, value: None, expires_at: None, purpose: Purpose::Removal, only_while: None };
        evaluate(vec![write], mvcc.revision().later(1), |key| mvcc.get(key)).expect("as expected")
    };
    for number in 0..9 {
        let commit = gone(&mvcc, number);
        mvcc.apply(&commit);
    }
    assert_eq!(counts(&mvcc), [Some(1), Some(1), None]);
    let commit = gone(&mvcc, 9);
    mvcc.apply(&commit);
    assert_eq!(counts(&mvcc), [Some(0), None, None]);
}

/// A token to go on with may be of another list.
#[test]
fn who_goes_on_behind_a_key_before_the_first_begins_with_the_first() {
    let mut mvcc = ten_keys(1 << 20);
    // Between keys that have others after them, and the first.
    write_key(&mut mvcc, Key::new("/odd"));
    for (after, found) in [("/r/core/pods/a/8", 1), ("/r/core/pods/a/9", 0), ("/a", 10), ("/r/core/nodes/x", 10), ("/z", 0)] {
        let request = RangeRequest { start_after: Some(Key::new(after)), ..RangeRequest::all("/r/core/pods/") };
        assert_eq!(mvcc.range(&request).expect("the newest").entries.len(), found, "behind {after}");
    }
}

/// A client may have deleted many keys since the page before counted them.
#[test]
fn the_count_of_keys_after_a_page_is_trusted_unless_the_page_ends_early() {
    let mvcc = ten_keys(1 << 20);
    let remaining = |limit, behind| {
        let request = RangeRequest { limit: Some(limit), behind, ..RangeRequest::all("/r/core/pods/") };
        mvcc.range(&request).expect("the newest").remaining
    };
    assert_eq!([remaining(3, Some(99)), remaining(10, Some(99)), remaining(11, Some(99)), remaining(3, None)], [96, 89, 0, 7]);
}

#[test]
fn the_oldest_lists_of_who_makes_most_be_kept_end_first() {
    // Room for 25 versions that are kept for lists, and for as much history.
    let mut mvcc = ten_keys(40_000);
    let mut lists = Vec::new();
    let mut begin = |mvcc: &mut Mvcc, owner: &str| {
        mvcc.pin("/r/core/pods/", mvcc.revision(), owner, Timestamp::MAX);
        lists.push(mvcc.revision());
    };
    begin(&mut mvcc, "modest");
    write(&mut mvcc, 0);
    for _ in 0..3 {
        begin(&mut mvcc, "heavy");
        (0..10).for_each(|number| write(&mut mvcc, number));
    }
    for number in (0..10).cycle().take(60) {
        write(&mut mvcc, number);
    }
    let goes_on = lists.iter().map(|at| mvcc.range(&RangeRequest { at: Some(*at), ..RangeRequest::all("/r/core/pods/") }).is_ok());
    assert_eq!(goes_on.collect::<Vec<_>>(), [true, false, false, true]);
}

/// As the contents of files are forgotten.
#[test]
fn of_what_takes_as_much_that_of_no_resource_is_forgotten_first() {
    let mut mvcc = Mvcc::new(Arc::new(()), change_bytes(1000, 0));
    mvcc.partition_by_prefix("/r/core/pods/");
    write_key(&mut mvcc, Key::new("/odd"));
    write(&mut mvcc, 0);
    assert_eq!(["/odd", "/r/core/pods/"].map(|prefix| mvcc.oldest(prefix).0), [1, 0]);
}

#[test]
fn a_list_that_just_fits_goes_on_and_one_that_does_not_ends() {
    let lists = |room| {
        let mut mvcc = ten_keys(room);
        mvcc.pin("/r/core/pods/", mvcc.revision(), "one", Timestamp::MAX);
        mvcc.pins.due(Timestamp::MAX).len()
    };
    assert_eq!([256, 255].map(lists), [1, 0]);
}

#[test]
fn one_owner_has_so_many_lists_at_once() {
    let mut mvcc = ten_keys(1 << 20);
    let first = mvcc.revision();
    let goes_on = |mvcc: &Mvcc, owner: &str, at| mvcc.pins.due(Timestamp::MAX).iter().any(|list| *list.2 == *owner && list.1 == at);
    mvcc.pin("/r/core/pods/", first, "other", Timestamp::MAX);
    for number in 0..300 {
        mvcc.pin("/r/core/pods/", mvcc.revision(), "many", Timestamp::MAX);
        write(&mut mvcc, number % 10);
    }
    assert_eq!(mvcc.pins.due(Timestamp::MAX).len(), 1 + 256);
    assert!(!goes_on(&mvcc, "many", first) && goes_on(&mvcc, "other", first));
}

#[test]
fn a_list_at_a_revision_that_is_kept_for_another_goes_on_behind_its_end() {
    let mut mvcc = ten_keys(20_000);
    let at = mvcc.revision();
    let is_kept = |mvcc: &Mvcc| mvcc.range(&RangeRequest { at: Some(at), ..RangeRequest::all("/r/core/pods/") }).is_ok();
    for owner in ["one", "other"] {
        mvcc.pin("/r/core/pods/", at, "one", Timestamp::MAX);
        (0..20).for_each(|_| write(&mut mvcc, 0));
        mvcc.pin("/r/core/pods/", at, owner, Timestamp::MAX);
        mvcc.unpin("/r/core/pods/", at, "one");
        assert!(is_kept(&mvcc), "{owner}");
        mvcc.pin("/r/core/pods/", at, "one", Timestamp::MAX);
    }
    (0..3).for_each(|_| mvcc.unpin("/r/core/pods/", at, "one"));
    assert!(is_kept(&mvcc));
    mvcc.unpin("/r/core/pods/", at, "other");
    assert!(!is_kept(&mvcc));
}
