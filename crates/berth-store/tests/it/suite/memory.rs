//! What a store in memory does beyond what every store does.
use super::making;
use crate::util::{self, PODS, block_on, layout, pod};
use berth_store::{
    DEFAULT_HISTORY_BYTES, Entry, Expected, Header, Key, MemoryStore, RangeRequest, Revision, Store, Unchanged, Watch, WatchFilter,
    WatchItem, Write, env::Timestamp, expiry::Expire,
};
use bytes::Bytes;
use futures::StreamExt;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Whether the waker was called.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A watch whose reader looks when it is woken.
struct Sleeper {
    watch: Watch,
    woken: Arc<Woken>,
}

impl Sleeper {
    fn of(store: &MemoryStore, filter: WatchFilter) -> Self {
        let newest = util::newest(store);
        let mut sleeper = Self { watch: store.watch_filtered(PODS, newest, filter).expect("kept"), woken: Arc::default() };
        sleeper.woken.0.store(true, Ordering::SeqCst);
        sleeper.poll_text();
        sleeper
    }

    /// What it sees. `None`: it was not woken.
    fn poll_text(&mut self) -> Option<String> {
        if !self.woken.0.swap(false, Ordering::SeqCst) {
            return None;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut seen = Vec::new();
        while let Poll::Ready(Some(item)) = self.watch.poll_next_unpin(&mut Context::from_waker(&waker)) {
            match item.expect("it has not fallen behind") {
                WatchItem::Events(events) => seen.extend(events.iter().map(|event| event.entry.name().to_owned())),
                WatchItem::Progress(_) => (),
            }
        }
        Some(seen.join(" "))
    }
}

#[test]
fn a_mark_is_on_what_has_it_or_may_have_it() {
    let header = Header {
        labels: [("app".into(), "web".into())].into(),
        fields: ["spec.nodeName".into(), "status.phase".into()].into(),
        values: ["n1".into(), "".into()].into(),
        ..Header::default()
    };
    let entry = Entry { key: pod("a"), value: Bytes::new(), header, create_revision: Revision(1), mod_revision: Revision(1) };
    let label = |key: &str, value: &str| WatchFilter::Label { key: key.into(), value: value.into() };
    let field = |field: &str, value: &str| WatchFilter::Field { field: field.into(), value: value.into() };
    let on = [
        WatchFilter::Name("a".into()),
        label("app", "web"),
        field("spec.nodeName", "n1"),
        field("status.phase", ""),
        field("not.known.then", "x"),
    ];
    let off = [
        WatchFilter::Name("default".into()),
        label("app", "db"),
        label("web", "app"),
        field("spec.nodeName", "n2"),
        field("status.phase", "Running"),
    ];
    assert!(on.iter().all(|filter| filter.matches(&entry)) && !off.iter().any(|filter| filter.matches(&entry)));
}

#[test]
fn a_marked_watch_is_woken_for_its_mark() {
    let store = MemoryStore::new_quiet(layout(), DEFAULT_HISTORY_BYTES);
    let (mut a, mut b) = (Sleeper::of(&store, WatchFilter::Name("a".into())), Sleeper::of(&store, WatchFilter::Name("b".into())));
    // The first changes sometimes wake all watchers, as long as there are few.
    (0..100).for_each(|number| _ = util::create(&store, &pod(&format!("other-{number}")), ""));
    a.poll_text();
    b.poll_text();
    util::create(&store, &pod("other"), "");
    assert_eq!((a.poll_text(), b.poll_text()), (None, None));
    util::create(&store, &pod("a"), "");
    assert_eq!((a.poll_text().as_deref(), b.poll_text()), (Some("a"), None));
    util::delete(&store, &pod("a"));
    assert_eq!((a.poll_text().as_deref(), b.poll_text()), (Some("a"), None));
}

#[test]
fn a_marked_watch_does_not_fall_behind_while_nothing_is_for_it() {
    let store = MemoryStore::new_quiet(layout(), 20_000);
    let mut sleeper = Sleeper::of(&store, WatchFilter::Name("a".into()));
    util::create(&store, &pod("busy"), "");
    let mut looks = 0;
    for number in 0..1000 {
        util::update(&store, &pod("busy"), &number.to_string());
        looks += usize::from(sleeper.poll_text().is_some());
    }
    util::create(&store, &pod("a"), "");
    assert_eq!(sleeper.poll_text().as_deref(), Some("a"));
    assert!((10..200).contains(&looks), "{looks} looks for nothing");
}

#[test]
fn who_watches_a_resource_is_woken_by_its_changes_and_by_no_others() {
    let store = MemoryStore::new_quiet(layout(), DEFAULT_HISTORY_BYTES);
    let mut sleeper = Sleeper { watch: store.watch(PODS, Revision(0)).expect("kept"), woken: Arc::default() };
    sleeper.woken.0.store(true, Ordering::SeqCst);
    sleeper.poll_text();
    util::create(&store, &Key::new("/registry/apps/deployments/default/web"), "");
    assert_eq!(sleeper.poll_text(), None);
    util::create(&store, &pod("a"), "");
    assert_eq!(sleeper.poll_text().as_deref(), Some("a"));
}

#[test]
fn a_key_that_is_to_be_unchanged_is_expected_as_it_is() {
    let expected = |revision| Unchanged { key: pod("a"), revision: Revision(revision) }.expected();
    assert_eq!([0, 3].map(expected), [Expected::Absent, Expected::At(Revision(3))]);
}

#[test]
fn a_watcher_of_unchanged_keys_is_woken_when_progress_is_reported() {
    let store = MemoryStore::new_quiet(layout(), DEFAULT_HISTORY_BYTES);
    let mut sleeper = Sleeper::of(&store, WatchFilter::Name("a".into()));
    util::create(&store, &Key::new("/registry/apps/deployments/default/web"), "");
    assert_eq!(sleeper.poll_text(), None);
    store.report_progress();
    assert_eq!(sleeper.poll_text().as_deref(), Some(""));
}

#[test]
fn much_that_is_due_goes_in_parts_so_that_others_may_write_between_them() {
    let store = MemoryStore::new(layout(), 1 << 24);
    let at = Timestamp::UNIX_EPOCH;
    let due = |number| Write { expires_at: Some(at), ..making(pod(&format!("p{number:04}")), "1") };
    (0..2500).for_each(|number| _ = block_on(store.commit(vec![due(number)])).expect("a new key"));
    let gone = || block_on(store.expire(at)).expect("the store takes writes");
    assert_eq!([gone(), gone(), gone(), gone()], [1000, 1000, 500, 0]);
}

/// Events come faster than an hour ends them.
#[test]
fn values_that_go_some_time_are_bounded_and_the_oldest_go_first() {
    let store = MemoryStore::new(layout(), 1 << 20);
    let write = |number: i64| {
        let at = Timestamp::from_second(3600 + number).expect("in range");
        Write { expires_at: Some(at), ..making(pod(&format!("p{number:05}")), "1") }
    };
    (0..20_003).for_each(|number| _ = block_on(store.commit(vec![write(number)])).expect("a new key"));
    let gone = || block_on(store.expire(Timestamp::UNIX_EPOCH)).expect("the store takes writes");
    assert_eq!([gone(), gone()], [3, 0]);
    let left = block_on(store.range(RangeRequest::all(""))).expect("readable").entries;
    assert_eq!((left.len(), left[0].key.clone()), (20_000, pod("p00003")));
}

/// A user who may create events in one namespace does not push out those of another.
#[test]
fn a_full_namespace_loses_its_own_values_and_not_those_of_others() {
    let store = MemoryStore::new(layout(), 1 << 20);
    let key = |namespace: &str, number: i64| Key::new(&format!("/registry/events/{namespace}/e{number:05}"));
    let write = |namespace: &str, number: i64| {
        let at = Timestamp::from_second(3600 + number).expect("in range");
        block_on(store.commit(vec![Write { expires_at: Some(at), ..making(key(namespace, number), "1") }])).expect("a new key");
    };
    (0..10).for_each(|number| write("quiet", number));
    (10..20_002).for_each(|number| write("full", number));
    let gone = || block_on(store.expire(Timestamp::UNIX_EPOCH)).expect("the store takes writes");
    assert_eq!([gone(), gone()], [2, 0]);
    let left = block_on(store.range(RangeRequest::all(""))).expect("readable").entries;
    let keys: Vec<_> = left.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!((keys.len(), keys.contains(&key("full", 11)), keys.contains(&key("full", 12))), (20_000, false, true));
    (0..10).for_each(|number| assert!(keys.contains(&key("quiet", number)), "{number}"));
}
