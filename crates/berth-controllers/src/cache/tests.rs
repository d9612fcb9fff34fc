use super::*;
use crate::cluster::RawObject;
use berth_env::testing::TestEnv;
use berth_workloads::view::Identity;
use futures::channel::mpsc;
use jiff::SignedDuration;

#[derive(Clone, Debug, PartialEq)]
struct Thing(ObjectKey, Uid);

impl View for Thing {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let (name, uid): (String, String) = serde_json::from_slice(json)?;
        Ok(Self(ObjectKey::new("ns", name), uid.into()))
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.0.namespace), name: &self.0.name, uid: &self.1, is_being_deleted: false }
    }
}

fn applied(name: &'static str, uid: &'static str, revision: u64) -> Decoded<Thing> {
    Decoded::Applied(Held { view: Arc::new(Thing(ObjectKey::new("ns", name), uid.into())), revision: Revision(revision) })
}

fn deleted(name: &'static str, revision: u64) -> Decoded<Thing> {
    Decoded::Deleted { key: ObjectKey::new("ns", name), revision: Revision(revision) }
}

/// Feeds changes to a new cache, and compares what its handler received and the cache's revision.
fn check(changes: Vec<Vec<Decoded<Thing>>>, wanted: &[(&str, &str)], wanted_revision: u64) {
    let cache = Cache::<Thing>::new(GroupResource::from_static("", "things"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    cache.on_change(move |delta| {
        let side = |side: &Option<Arc<Thing>>| side.as_ref().map_or(String::new(), |thing| format!("{}:{}", thing.0.name, thing.1));
        lock(&sink).push((side(&delta.old), side(&delta.new)));
    });
    changes.into_iter().for_each(|batch| cache.take_in(batch));
    let seen: Vec<_> = lock(&seen).clone();
    let wanted: Vec<_> = wanted.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    assert_eq!((seen, cache.revision()), (wanted, Revision(wanted_revision)));
}

#[test]
fn caches_that_notify_each_other_are_freed_with_their_process() {
    let test_env = TestEnv::default();
    let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("an empty registry"));
    for is_polled in [false, true] {
        let (_, process) = test_env.another();
        let pair = ["a", "b"].map(|plural| Arc::new(Cache::<Thing>::new(GroupResource::from_static("", plural))));
        for (cache, other) in pair.iter().zip(pair.iter().rev()) {
            let held = Arc::clone(other);
            cache.on_change(move |_| _ = held.revision());
            cache.start_of(stream::pending().boxed(), &process, &metrics);
        }
        let left = pair.map(|cache| Arc::downgrade(&cache));
        if is_polled {
            test_env.run_for(SignedDuration::ZERO);
        }
        assert!(left.iter().all(|cache| cache.upgrade().is_some()));
        process.kill();
        assert!(left.iter().all(|cache| cache.upgrade().is_none()), "polled: {is_polled}");
    }
}

#[test]
fn a_list_shows_only_when_it_is_complete() {
    check(vec![vec![Decoded::Restarted, applied("a", "1", 5)]], &[], 0);
    check(vec![vec![Decoded::Restarted, applied("a", "1", 5)], vec![Decoded::Synced(Revision(7))]], &[("", "a:1")], 7);
}

#[test]
fn a_later_list_replaces_the_cache_and_reports_only_differences() {
    check(
        vec![
            vec![Decoded::Restarted, applied("a", "1", 5), applied("b", "2", 6), applied("c", "3", 6), Decoded::Synced(Revision(7))],
            vec![
                Decoded::Restarted,
                applied("b", "2", 6),
                applied("c", "3", 9),
                Decoded::Progress(Revision(100)),
                Decoded::Synced(Revision(9)),
            ],
        ],
        &[("", "a:1"), ("", "b:2"), ("", "c:3"), ("a:1", ""), ("c:3", "c:3")],
        9,
    );
}

#[test]
fn another_uid_under_the_same_name_is_a_deletion_and_a_creation() {
    check(
        vec![vec![Decoded::Restarted, Decoded::Synced(Revision(1))], vec![applied("a", "1", 2), applied("a", "2", 4)]],
        &[("", "a:1"), ("a:1", ""), ("", "a:2")],
        4,
    );
}

#[test]
fn deletions_and_progress_move_the_revision() {
    let synced = || vec![Decoded::Restarted, applied("a", "1", 1), Decoded::Synced(Revision(1))];
    check(vec![synced(), vec![deleted("a", 3), deleted("a", 3)]], &[("", "a:1"), ("a:1", "")], 3);
    check(vec![synced(), vec![Decoded::Progress(Revision(8))]], &[("", "a:1")], 8);
}

#[test]
fn a_cache_reports_its_revision_while_changes_can_still_come() {
    let registry = prometheus::Registry::new();
    let metrics = Arc::new(Metrics::new(&registry).expect("an empty registry"));
    let cache = Arc::new(Cache::<Thing>::new(GroupResource::from_static("", "things")));
    let (changes, told) = mpsc::unbounded();
    let mut following = Box::pin(follow(Following(Arc::clone(&cache)), told.boxed(), metrics));
    let mut check = |change: Option<Change>, expected: Filled| {
        match change {
            Some(change) => changes.unbounded_send(change).expect("it follows"),
            None => changes.close_channel(),
        }
        let _ = (&mut following).now_or_never();
        assert_eq!(cache.filled(), expected);
    };
    check(Some(Change::Restarted), Filled::NotYet);
    check(Some(Change::Synced(Revision(3))), Filled::To(Revision(3)));
    check(Some(Change::Progress(Revision(5))), Filled::To(Revision(5)));
    check(Some(Change::Restarted), Filled::To(Revision(5)));
    check(None, Filled::ForGood);
}

#[test]
fn no_reader_observes_that_an_object_is_gone_before_the_handler_has_recorded_it() {
    let cache = Arc::new(Cache::<Thing>::new(GroupResource::from_static("", "things")));
    let (removed, reader) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&cache));
    let recorded = Arc::clone(&removed);
    cache.on_removed(move |thing, revision| {
        let cache = reader.upgrade().expect("it calls");
        assert!(cache.known.try_lock().is_err(), "a reader waits");
        lock(&recorded).push((thing.1.to_string(), revision));
    });
    cache.take_in(vec![applied("a", "1", 1), applied("b", "2", 2)]);
    cache.take_in(vec![deleted("a", 3)]);
    cache.take_in(vec![applied("b", "3", 4)]);
    cache.take_in(vec![Decoded::Restarted, Decoded::Synced(Revision(5))]);
    let of = |uid: &str, revision| (uid.to_owned(), Revision(revision));
    assert_eq!(*lock(&removed), [of("1", 3), of("2", 4), of("3", 5)], "deleted, replaced, and absent from a list");
}

#[test]
fn an_object_that_can_no_longer_be_read_is_left_out_and_reported_once() {
    let registry = prometheus::Registry::new();
    let metrics = Arc::new(Metrics::new(&registry).expect("an empty registry"));
    let resource = GroupResource::from_static("", "things");
    let cache = Cache::<Thing>::new(resource.clone());
    let mut decoder = Decoder { resource, decode: RawObject::view, unreadable: BTreeSet::new(), metrics: Arc::clone(&metrics) };
    let json = |json: &'static str, revision| RawObject::new(json, Revision(revision));
    let applied = |text, revision| Change::Applied { key: ObjectKey::new("ns", "a"), object: json(text, revision) };
    let deleted = |revision| Change::Deleted { key: ObjectKey::new("ns", "a"), revision: Revision(revision) };
    let mut check = |change: Change, shown: Option<&str>, told: u64, revision: u64| {
        let text = format!("{change:?}");
        cache.take_in(vec![decoder.decode(change)]);
        let uid = cache.get(&ObjectKey::new("ns", "a")).map(|thing| thing.1.to_string());
        let found = (uid.as_deref(), metrics.resources_sync_errors.get(), cache.revision());
        assert_eq!(found, (shown, told, Revision(revision)), "{text}");
    };
    check(Change::Restarted, None, 0, 0);
    check(applied("{", 1), None, 1, 0);
    check(Change::Synced(Revision(2)), None, 1, 2);
    check(applied(r#"["a", "1"]"#, 3), Some("1"), 1, 3);
    check(applied("{", 4), None, 2, 4);
    check(applied("{", 5), None, 2, 5);
    check(applied(r#"["a", "1"]"#, 6), Some("1"), 2, 6);
    check(applied("{", 7), None, 3, 7);
    check(deleted(8), None, 3, 8);
    check(applied("{", 9), None, 4, 9);
    check(applied(r#"["a", "1"]"#, 10), Some("1"), 4, 10);
    // Another object's.
    check(applied(r#"["b", "1"]"#, 11), None, 5, 11);
}
