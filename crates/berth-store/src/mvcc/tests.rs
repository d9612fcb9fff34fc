//! Any sequence of writes and compactions, against a model that keeps a copy of everything for each revision.

use super::*;
use proptest::prelude::*;
use std::ops::Range as Numbers;

/// Two resources with a common beginning, two namespaces, and a key outside the usual form.
const KEYS: [&str; 6] =
    ["/r/core/pods/a/x", "/r/core/pods/a/y", "/r/core/pods/b/x", "/r/core/podtemplates/a/x", "/r/apps/pods/a/x", "/odd"];
const PREFIXES: [&str; 8] = ["", "/r/core/pods/", "/r/core/pods/a/", "/r/core/pods", "/r/core/", "/r/apps/pods/", "/o", "/r/none/here/"];

#[derive(Clone, Debug)]
enum Op {
    /// To the key of this number, as it should be or not.
    Put(usize, usize, Guess),
    Delete(usize, Guess),
    /// To so many revisions before the newest.
    Compact(u64),
}

#[derive(Clone, Copy, Debug)]
enum Guess {
    Right,
    Absent,
    At(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let guess = || prop_oneof![8 => Just(Guess::Right), 1 => Just(Guess::Absent), 1 => (0..20u64).prop_map(Guess::At)];
    let op = prop_oneof![
        6 => (0..KEYS.len(), 0..2000usize, guess()).prop_map(|(key, size, guess)| Op::Put(key, size, guess)),
        3 => (0..KEYS.len(), guess()).prop_map(|(key, guess)| Op::Delete(key, guess)),
        1 => (0..20u64).prop_map(Op::Compact),
    ];
    prop::collection::vec(op, 0..40)
}

/// Create revision, mod revision, size of the value.
type Version = (u64, u64, usize);

/// All that ever was.
struct Model {
    /// By revision, what was live then.
    states: Vec<BTreeMap<&'static str, Version>>,
    /// What each revision but 0 did: the key, and whether it is a deletion.
    changes: Vec<(&'static str, EventKind)>,
    oldest: u64,
}

impl Model {
    fn new() -> Self {
        Self { states: vec![BTreeMap::new()], changes: Vec::new(), oldest: 0 }
    }

    fn newest(&self) -> u64 {
        self.changes.len() as u64
    }

    fn expected(&self, key: &str, guess: Guess) -> Expected {
        let current = self.states[self.changes.len()].get(key);
        match (guess, current) {
            (Guess::Right, Some((_, modified, _))) => Expected::At(Revision(*modified)),
            (Guess::Right | Guess::Absent, _) => Expected::Absent,
            (Guess::At(revision), _) => Expected::At(Revision(revision)),
        }
    }

    /// Whether the write happened.
    fn write(&mut self, key: &'static str, kind: EventKind, size: usize, expected: Expected) -> bool {
        let mut state = self.states[self.changes.len()].clone();
        let current = state.get(key).copied();
        let is_expected = match expected {
            Expected::Absent => current.is_none() && kind == EventKind::Put,
            Expected::At(revision) => current.is_some_and(|(_, modified, _)| modified == revision.0),
        };
        if is_expected {
            let revision = self.newest() + 1;
            state.remove(key);
            if kind == EventKind::Put {
                state.insert(key, (current.map_or(revision, |(created, ..)| created), revision, size));
            }
            self.states.push(state);
            self.changes.push((key, kind));
        }
        is_expected
    }
}

fn apply(mvcc: &mut Mvcc, model: &mut Model, op: &Op) {
    let (key, kind, size, guess) = match *op {
        Op::Compact(back) => {
            let revision = mvcc.revision().0.saturating_sub(back);
            mvcc.compact(Revision(revision)).expect("not in the future");
            model.oldest = model.oldest.max(revision);
            return;
        }
        Op::Put(key, size, guess) => (KEYS[key], EventKind::Put, size, guess),
        Op::Delete(key, guess) => (KEYS[key], EventKind::Deleted, 0, guess),
    };
    let expected = model.expected(key, guess);
    let write = Write { kind, key: Key::new(key), value: vec![0; size].into(), header: Header::default(), expected };
    let current = mvcc.get(&write.key).cloned();
    let event = evaluate(write, current.as_ref(), mvcc.revision().next());
    assert_eq!(event.is_ok(), model.write(key, kind, size, expected), "{op:?}");
    if let Ok(event) = event {
        mvcc.apply(Arc::new(event));
    }
}

/// What the budget dropped is the structure's choice; that it had to is checked here.
fn check_history(mvcc: &Mvcc, model: &mut Model) {
    assert_eq!(mvcc.log.iter().map(|event| cost_bytes(event)).sum::<usize>(), mvcc.history_bytes);
    assert!(mvcc.history_bytes <= mvcc.history_bytes_max);
    assert!(Revision(model.oldest) <= mvcc.oldest && mvcc.oldest <= mvcc.revision);
    model.oldest = mvcc.oldest.0;
    assert_eq!(mvcc.log.len() as u64, model.newest() - model.oldest);
}

/// Nothing is left of keys that cannot be read any more.
fn check_no_remains(mvcc: &Mvcc, model: &Model) {
    let readable = |key: &str| model.states[model.oldest as usize..].iter().any(|state| state.contains_key(key));
    let newest_change = |key: &str| model.changes.iter().rposition(|(changed, _)| *changed == key).map_or(0, |index| index as u64 + 1);
    for key in KEYS {
        let is_kept = mvcc.keys.contains_key(&Key::new(key));
        assert_eq!(is_kept, readable(key) || model.oldest < newest_change(key), "{key}");
    }
}

fn check_range(mvcc: &Mvcc, model: &Model, at: u64, request: &RangeRequest) {
    let all: Vec<_> = model.states[at as usize].iter().filter(|(key, _)| key.starts_with(&request.prefix)).collect();
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
                (model.oldest..=model.newest()).for_each(|at| check_range(mvcc, model, at, &request(Some(Revision(at)))));
            }
        }
    }
    let at =
        |at: u64| mvcc.range(&RangeRequest { prefix: String::new(), start_after: None, at: Some(Revision(at)), limit: None, behind: None });
    assert!((0..model.oldest).all(|revision| matches!(at(revision), Err(ReadError::Compacted { .. }))));
    assert!(matches!(at(model.newest() + 1), Err(ReadError::Future { .. })));
}

fn check_watch(mvcc: &Mvcc, model: &Model, prefix: &str, from: u64) {
    let numbers: Numbers<u64> = from..model.newest();
    let wanted = numbers.map(|index| (index + 1, model.changes[index as usize])).filter(|(_, (key, _))| key.starts_with(prefix));
    let mut after = Revision(from);
    for (revision, (key, kind)) in wanted {
        let Ok(Next::Event(event)) = mvcc.next(prefix, after) else { panic!("{prefix} has {revision} behind {after}") };
        assert_eq!((event.entry.mod_revision.0, event.entry.key.as_str(), event.kind), (revision, key, kind));
        let before = model.states[revision as usize - 1].get(key).copied();
        let found = event.previous.as_ref().map(|entry| (entry.create_revision.0, entry.mod_revision.0, entry.value.len()));
        assert_eq!(found, before);
        after = event.entry.mod_revision;
    }
    assert!(matches!(mvcc.next(prefix, after), Ok(Next::CaughtUp(revision)) if revision == mvcc.revision()), "{prefix} from {after}");
}

fn check_watches(mvcc: &Mvcc, model: &Model) {
    for prefix in PREFIXES {
        (model.oldest..=model.newest()).for_each(|from| check_watch(mvcc, model, prefix, from));
        assert!(matches!(mvcc.next(prefix, mvcc.revision().next()), Ok(Next::Future)));
    }
    assert!((0..model.oldest).all(|from| mvcc.check_watchable(Revision(from)).is_err()));
    assert!(mvcc.check_watchable(mvcc.oldest).is_ok());
}

/// A reader that has seen all up to `from` may only be let go on if nothing of its prefix is missing.
fn check_late_readers(mvcc: &Mvcc, model: &Model) {
    for prefix in PREFIXES {
        for from in 0..model.oldest {
            let lost = (from..model.oldest).any(|index| model.changes[index as usize].0.starts_with(prefix));
            match mvcc.next(prefix, Revision(from)) {
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
        let (mut mvcc, mut model) = (Mvcc::new(history_bytes), Model::new());
        for op in &ops {
            apply(&mut mvcc, &mut model, op);
            check_history(&mvcc, &mut model);
            check_no_remains(&mvcc, &model);
        }
        check_ranges(&mvcc, &model);
        check_watches(&mvcc, &model);
        check_late_readers(&mvcc, &model);
    }
}

#[test]
fn a_resource_is_named_by_the_first_three_parts() {
    assert_eq!(resource_of("/registry/core/pods/default/a"), Some("/registry/core/pods/"));
    assert_eq!(resource_of("/registry/core/pods/"), Some("/registry/core/pods/"));
    assert_eq!(resource_of("/registry/core/pods"), None);
    assert_eq!(resource_of(""), None);
}
