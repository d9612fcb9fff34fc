//! The client, and the store over it, against a real etcd.
#![expect(clippy::disallowed_methods, reason = "writers, watchers and etcds that fail at the same time")]

use crate::etcd::{
    self, Etcd, PATIENCE, Tasks, eventually,
    front::Front,
    gateway,
    tls::{self, Authority, Pair},
};
use berth_etcd::{Client, OpenError, Options, Origin, OwnershipError, OwnershipRequest, Tls, User};
use berth_store::{
    Bound, Expected, Header, Health, Key, Layout, OutOfSpace, Purpose, RangeRequest, Revision, Store, WatchItem, Write, WriteError,
    env::Timestamp,
    etcd::{Etcd as _, EtcdError, EtcdStore, Outcome, Put, Query, Watched},
};
use futures::StreamExt;
use futures_executor::block_on;
use jiff::SignedDuration;
use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};
use tempfile::tempdir;
use tokio::time::timeout;

const PODS: &str = "/registry/pods/";
const HISTORY: usize = 64 << 20;

struct Pods;

impl Layout for Pods {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.starts_with(PODS).then(|| &text[..PODS.len()])
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

fn pod(name: impl std::fmt::Display) -> Key {
    Key::new(&format!("{PODS}default/{name}"))
}

fn create(store: &EtcdStore, name: impl std::fmt::Display, value: &str) -> Result<Revision, WriteError> {
    block_on(store.put(pod(name), value.to_owned().into(), Expected::Absent, Purpose::Growth)).map(|entry| entry.mod_revision)
}

fn names(store: &EtcdStore) -> Vec<String> {
    let range = block_on(store.range(RangeRequest::all(PODS))).expect("it answers");
    range.entries.iter().map(|entry| entry.name().to_owned()).collect()
}

macro_rules! etcd {
    ($settings:expr) => {
        etcd!(start $settings)
    };
    ($start:ident $settings:expr) => {{
        if !etcd::is_here() {
            return;
        }
        Etcd::$start($settings)
    }};
}

#[test]
fn servers_that_share_an_etcd_see_each_others_writes_at_once() {
    let etcd = etcd!("");
    let stores = [etcd.store(Arc::new(Pods), HISTORY), etcd.store(Arc::new(Pods), HISTORY)];
    for number in 0..100 {
        create(&stores[number % 2], number, "1").expect("a new key");
        let seen = block_on(stores[(number + 1) % 2].get(&pod(number))).expect("it answers");
        assert!(seen.is_some(), "{number}");
        assert!(matches!(create(&stores[(number + 1) % 2], number, "1"), Err(WriteError::Conflict { .. })));
    }
    assert_eq!(names(&stores[0]), names(&stores[1]));
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_etcd_dies_and_comes_back() {
    let mut etcd = etcd!("");
    let client = etcd.client();
    let store = Arc::new(etcd.store_of(&client, Arc::new(Pods), HISTORY));
    let mut watch = store.watch(PODS, Revision(1)).expect("kept");
    let writer = {
        let store = Arc::clone(&store);
        thread::spawn(move || {
            (0..)
                .map_while(|number| match create(&store, format!("{number:05}"), "1") {
                    // Until a write ends the loop.
                    _ if block_on(store.get(&pod("stop"))).is_ok_and(|stop| stop.is_some()) => None,
                    written => Some((format!("{number:05}"), written)),
                })
                .collect::<Vec<_>>()
        })
    };
    for round in 0..2 {
        eventually("writes go on", || names(&store).len() > 20 * (round + 1));
        etcd.kill();
        eventually("it says so", || matches!(store.health(), Health::Refusing { .. }));
        etcd.start_again();
        eventually("it heals", || block_on(store.revision(PODS)).is_ok() && store.health() == Health::Ready);
    }
    eventually("writes go on", || create(&store, "stop", "1").is_ok());
    let written = writer.join().expect("it does not panic");
    let there = names(&store);
    let mut acknowledged = BTreeMap::new();
    for (name, outcome) in &written {
        match outcome {
            Ok(revision) => {
                assert!(there.contains(name), "{name} was acknowledged");
                acknowledged.insert(*revision, name.as_str());
            }
            Err(WriteError::Unknown { .. }) => (),
            Err(WriteError::Unavailable { .. }) => assert!(!there.contains(name), "{name} was refused"),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let mut seen = Vec::new();
    while seen.len() < there.len() {
        if let Some(Ok(WatchItem::Events(events))) = block_on(watch.next()) {
            seen.extend(events.iter().map(|event| (event.entry.mod_revision, event.entry.name().to_owned())));
        }
    }
    assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "each revision once, in order");
    assert!(acknowledged.iter().all(|(revision, name)| seen.contains(&(*revision, (*name).to_owned()))));
    assert!(20 < acknowledged.len());
}

#[test]
fn a_member_that_does_not_answer_is_left_for_another_and_reads_go_to_etcd_meanwhile() {
    let etcd = etcd!("");
    // No server runs there.
    let gone = "http://127.0.0.1:1".to_owned();
    let client = etcd.open(&Options { endpoints: vec![gone.clone(), etcd.endpoint.clone()], ..Options::default() }).expect("one answers");
    assert!(!client.client.reports_progress(), "the kind of the other one is unknown");
    let store = etcd.store_of(&client, Arc::new(Pods), HISTORY);
    create(&store, "a", "1").expect("a new key");
    assert_eq!(names(&store), ["a"]);
    let none = etcd.open(&Options { endpoints: vec![gone.clone()], ..Options::default() });
    let told = none.err().expect("no member answers").to_string();
    assert!(told.starts_with(&format!("no etcd answers: etcd at {gone}: ")) && told.contains("onnection refused"), "{told}");
}

/// A write that a member has forwarded to a leader that is then killed is lost. The member reports that after seven
/// seconds, or 27. The client asks another member sooner.
#[test]
fn a_write_that_is_not_answered_is_given_up_sooner_where_another_member_can_be_asked() {
    let etcd = etcd!("");
    let tasks = Tasks::new();
    let (_, port) = etcd.endpoint.rsplit_once(':').expect("an address has a port");
    let way = tasks.block_on(Front::before(vec![port.parse().expect("a number")]));
    let by_way = format!("http://127.0.0.1:{}", way.port);
    let open = |endpoints: Vec<String>| etcd.open(&Options { endpoints, ..Options::default() }).expect("it answers");
    let clients = [open(vec![by_way.clone()]), open(vec![by_way, etcd.endpoint.clone()])];
    let put = |name: &str| [Put { key: pod(name), expected: Some(Expected::Absent), value: Some("1".into()), lease: None }].into();
    way.hold();
    let told = thread::scope(|scope| {
        let begun = clients.each_ref().map(|client| scope.spawn(|| client.wait(client.client.txn(put("a")))));
        let reading = scope.spawn(|| clients[1].wait(async { timeout(Duration::from_secs(9), clients[1].client.revision()).await }));
        assert!(reading.join().expect("it does not panic").is_ok_and(|read| read.is_ok()), "nor are readers kept up for longer");
        begun.map(|writing| writing.join().expect("it does not panic"))
    });
    let within =
        |seconds: u64| Err(EtcdError::Unknown(format!("etcd at http://127.0.0.1:{} has not answered within {seconds} s", way.port)));
    assert_eq!(told, [within(10), within(3)]);
    let [_, other] = &clients;
    let done = other.wait(other.client.txn(put("a"))).expect("the other one answers");
    // The held-back request arrives late, and changes nothing.
    way.let_go();
    let again = open(vec![format!("http://127.0.0.1:{}", way.port)]);
    let Outcome::Done(revision) = done else { panic!("no other writer: {done:?}") };
    let refused = again.wait(again.client.txn(put("a"))).expect("it answers");
    assert_eq!(refused, Outcome::Refused { found: vec![revision], revision });
}

/// The first attempt is executed, and its answer is held up. The second, by the other way, finds the key changed. Only the answer shows whose change
/// that was.
#[test]
fn a_change_whose_answer_comes_after_its_repetition_is_reported_as_done() {
    let etcd = etcd!("");
    let tasks = Tasks::new();
    let (_, port) = etcd.endpoint.rsplit_once(':').expect("an address has a port");
    let ways = [0, 1].map(|_| tasks.block_on(Front::before(vec![port.parse().expect("a number")])));
    let endpoints = ways.each_ref().map(|way| format!("http://127.0.0.1:{}", way.port)).to_vec();
    let client = etcd.open(&Options { endpoints, ..Options::default() }).expect("it answers");
    let store = etcd.store_of(&client, Arc::new(Pods), HISTORY);
    let made = create(&store, "a", "1").expect("a new key");
    let [first, second] = &ways;
    let before = second.sent_bytes();
    first.hold_answers();
    let written = thread::scope(|scope| {
        let writing = scope.spawn(|| block_on(store.put(pod("a"), "2".into(), Expected::At(made), Purpose::Growth)));
        let another = etcd.client();
        eventually("the first is done", || another.wait(another.client.revision()).expect("it answers") == made.later(1));
        eventually("it is asked for by the other way", || before < second.sent_bytes());
        first.let_go();
        writing.join().expect("it does not panic")
    });
    assert_eq!(written.expect("it is done").mod_revision, made.later(1));
    let found = block_on(store.get(&pod("a"))).expect("it answers").expect("it is there");
    assert_eq!((&*found.value, found.mod_revision), (&b"2"[..], made.later(1)), "once");
}

#[test]
fn a_watch_that_has_much_to_catch_up_with_gets_all_of_it() {
    let etcd = etcd!("");
    let store = etcd.store(Arc::new(Pods), HISTORY);
    let before = block_on(store.revision(PODS)).expect("it answers");
    // More than the size of a message, so it comes in fragments.
    (0..90).for_each(|number| _ = create(&store, number, &"x".repeat(400_000)).expect("a new key"));
    let client = etcd.client();
    let all = Query { prefix: PODS.into(), start_after: None, at: None, limit: None };
    let page = client.wait(client.client.range(all)).expect("it answers");
    assert!((1..=40).contains(&page.keys.len()) && page.count == 90, "{} of {}: a page is bounded", page.keys.len(), page.count);
    let late = etcd.store(Arc::new(Pods), HISTORY);
    let mut watch = late.watch(PODS, before).expect("etcd has it all");
    let mut seen = 0;
    while seen < 90 {
        if let WatchItem::Events(events) = block_on(watch.next()).expect("it goes on").expect("nothing is lost") {
            assert!(events.iter().all(|event| event.entry.value.len() == 400_000));
            seen += events.len();
        }
    }
    assert_eq!(names(&late).len(), 90);
}

/// A watch without events still learns the current revision, so that it does not fall behind the compaction.
#[test]
fn etcd_reports_progress_without_a_request() {
    // In nanoseconds. 3.6 takes only the new name, others only the old one.
    let name = if etcd::upstream().is_ok() { "watch-progress-notify-interval" } else { "experimental-watch-progress-notify-interval" };
    let etcd = etcd!(&format!("{name}: 100000000\n"));
    let client = etcd.client();
    let elsewhere: Arc<[Put]> =
        Arc::new([Put { key: Key::new("/registry/other"), expected: Some(Expected::Absent), value: Some("1".into()), lease: None }]);
    let from = match client.wait(client.client.txn(elsewhere)).expect("it answers") {
        Outcome::Done(revision) => revision,
        refused => panic!("{refused:?}"),
    };
    let mut watching = client.client.watch(PODS, from);
    let progress = async {
        loop {
            match watching.items.next().await.expect("it goes on").expect("nothing is lost") {
                Watched::Progress(revision) => return revision,
                Watched::Begun => (),
                Watched::Changes(changes) => panic!("{changes:?}"),
            }
        }
    };
    let told = client.wait(async { timeout(PATIENCE, progress).await }).expect("a tenth of a second is often over by now");
    assert!(from <= told, "{told} of {from}");
}

#[test]
fn what_is_expected_at_no_revision_is_not_what_is_absent() {
    let etcd = etcd!("");
    let client = etcd.client();
    let put =
        |expected| -> Arc<[Put]> { Arc::new([Put { key: pod("a"), expected: Some(expected), value: Some("1".into()), lease: None }]) };
    let written = |expected| client.wait(client.client.txn(put(expected))).expect("it answers");
    assert!(matches!(written(Expected::At(Revision(0))), Outcome::Refused { .. }), "it was not read, so it cannot be changed");
    assert!(matches!(written(Expected::Absent), Outcome::Done(_)));
    assert!(matches!(written(Expected::At(Revision(0))), Outcome::Refused { .. }));
}

#[test]
fn keys_that_go_at_about_the_same_time_share_a_lease() {
    let etcd = etcd!("");
    let (client, store) = (etcd.client(), etcd.store(Arc::new(Pods), HISTORY));
    let mut watch = store.watch(PODS, Revision(1)).expect("kept");
    let expires_at = Some(Timestamp::now() + SignedDuration::from_hours(1));
    for number in 0..20 {
        let write = Write { expires_at, ..Write::put(pod(number), "1".into(), Expected::Absent, Purpose::Growth) };
        block_on(store.commit(vec![write])).expect("a new key");
    }
    let leases = client.wait(client.client.leases()).expect("it answers");
    assert!(matches!(&leases[..], [(_, left)] if (3600..=3661).contains(left)), "{leases:?}");
    client.wait(client.client.revoke(leases[0].0)).expect("it answers");
    // All deletions are in one revision, which is delivered as a whole.
    let gone = loop {
        if let WatchItem::Events(events) = block_on(watch.next()).expect("it goes on").expect("nothing is lost")
            && events.len() != 1
        {
            break events.len();
        }
    };
    assert_eq!((gone, names(&store).len()), (20, 0));
    let write = Write { expires_at, ..Write::put(pod("late"), "1".into(), Expected::Absent, Purpose::Growth) };
    block_on(store.commit(vec![write])).expect("a lease that is over is replaced");
}

#[test]
fn without_space_only_deletions_are_written_until_a_user_makes_room() {
    let etcd = etcd!(with_gateway "quota-backend-bytes: 2000000\n");
    let store = etcd.store(Arc::new(Pods), HISTORY);
    let lacks = || store.usage().and_then(|usage| usage.lacks);
    let first = create(&store, "first", "1").expect("there is space");
    let refused = (0..200).find_map(|number| create(&store, number, &"x".repeat(100_000)).err()).expect("the quota is two megabytes");
    assert!(matches!(refused, WriteError::QuotaExceeded { bound: Bound::Etcd, .. }), "{refused:?}");
    assert_eq!(lacks(), Some(OutOfSpace::Etcd));
    let lately = etcd.store(Arc::new(Pods), HISTORY);
    eventually("who has not written knows it too", || lately.usage().and_then(|usage| usage.lacks) == Some(OutOfSpace::Etcd));
    block_on(store.delete(pod("first"), first)).expect("deletions make room");
    for entry in block_on(store.range(RangeRequest::all(PODS))).expect("reads go on").entries {
        block_on(store.delete(entry.key.clone(), entry.mod_revision)).expect("deletions make room");
    }
    assert!(create(&store, "late", "1").is_err(), "an administrator has to report the new room");
    gateway::make_room(&etcd.endpoint, block_on(store.revision(PODS)).expect("it answers"));
    eventually("it heals", || lacks().is_none());
    create(&store, "late", "1").expect("there is space again");
}

/// Ten turns in less than eight intervals would be those of two servers that do not know of each other.
#[test]
fn of_two_servers_one_compacts_at_a_time() {
    const EVERY: SignedDuration = SignedDuration::from_millis(400);
    let etcd = etcd!("");
    let (client, stores) = (etcd.client(), [etcd.store(Arc::new(Pods), HISTORY), etcd.store(Arc::new(Pods), HISTORY)]);
    let first = create(&stores[0], "first", "1").expect("a new key");
    create(&stores[1], "second", "1").expect("a new key");
    let mut turns = client.client.watch("compact_rev_key", Revision(1));
    let began = Timestamp::now();
    stores.iter().for_each(|store| store.keep_compacting(EVERY));
    let mut seen = 0;
    while seen < 10 {
        if let Watched::Changes(changes) = block_on(turns.items.next()).expect("it goes on").expect("it does not break") {
            seen += changes.len();
        }
    }
    let took = Timestamp::now().duration_since(began);
    assert!(EVERY * 8 <= took, "{seen} turns within {took}");
    let old = Query { prefix: PODS.into(), start_after: None, at: Some(first), limit: None };
    assert_eq!(client.wait(client.client.range(old)).map(|page| page.count), Err(EtcdError::Compacted));
}

#[test]
fn prefixes_keep_stores_apart_that_share_an_etcd() {
    let etcd = etcd!("");
    let below = |prefix: &str| etcd.open(&Options { prefix: prefix.into(), ..etcd.options() }).expect("it answers");
    let (plain, ours) = (etcd.client(), below("/ours"));
    let stores = [&plain, &ours].map(|client| etcd.store_of(client, Arc::new(Pods), HISTORY));
    let mut watch = stores[1].watch(PODS, block_on(stores[1].revision(PODS)).expect("it answers")).expect("kept");
    create(&stores[0], "plain", "1").expect("a new key");
    create(&stores[1], "ours", "1").expect("a new key");
    create(&stores[1], "plain", "2").expect("a new key there");
    assert_eq!([names(&stores[0]), names(&stores[1])], [vec!["plain"], vec!["ours", "plain"]]);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        if let WatchItem::Events(events) = block_on(watch.next()).expect("it goes on").expect("nothing is lost") {
            seen.extend(events.iter().map(|event| event.entry.key.clone()));
        }
    }
    assert_eq!(seen, [pod("ours"), pod("plain")]);
    let there =
        plain.wait(plain.client.range(Query { prefix: "/ours/".into(), start_after: None, at: None, limit: None })).expect("it answers");
    let keys: Vec<_> = there.keys.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["/ours/berth.dev/turn", "/ours/pods/default/ours", "/ours/pods/default/plain"]);
}

#[test]
fn an_etcd_with_keys_of_others_is_not_taken() {
    let etcd = etcd!("");
    let below = |prefix: &str| etcd.open(&Options { prefix: prefix.into(), ..etcd.options() }).expect("it answers");
    let (plain, ours) = (etcd.client(), below("/ours"));
    let acquire = |client: &etcd::TestClient, authority: &str| {
        client
            .wait(client.client.acquire(&OwnershipRequest { authority, before: &[], take_over: false }))
            .map_err(|error| error.to_string())
    };
    assert_eq!(acquire(&plain, "one"), Ok(Origin::Own));
    create(&etcd.store_of(&plain, Arc::new(Pods), HISTORY), "a", "1").expect("a new key");
    assert_eq!(acquire(&plain, "one"), Ok(Origin::Own), "it is still the same");
    let others =
        "the keys below /registry in etcd belong to a control plane with other certificates (see /registry/berth.dev/control-plane)";
    assert_eq!(acquire(&plain, "other"), Err(others.into()));

    for name in ["a", "b", "c", "d"] {
        create(&etcd.store_of(&ours, Arc::new(Pods), HISTORY), name, "1").expect("a new key");
    }
    let foreign =
        "etcd contains keys below /ours that berth did not create: /ours/pods/default/a, /ours/pods/default/b, /ours/pods/default/c";
    assert_eq!(acquire(&ours, "one"), Err(foreign.into()));
    let all =
        ours.wait(ours.client.range(Query { prefix: "/registry/".into(), start_after: None, at: None, limit: None })).expect("it answers");
    assert_eq!(all.keys.len(), 5, "with the turn of creations; nothing is written there");

    for layout in ["1", "\"1 to 2\"", "3"] {
        let theirs = below(&format!("/theirs/{}", layout.replace(['"', ' '], "")));
        let mark = Put {
            key: Key::new("/registry/berth.dev/control-plane"),
            expected: Some(Expected::Absent),
            value: Some(format!(r#"{{"layout": {layout}, "certificateAuthority": "one"}}"#).into()),
            lease: None,
        };
        theirs.wait(theirs.client.txn(Arc::new([mark]))).expect("it answers");
        let told = acquire(&theirs, "one").expect_err("it is of another layout");
        assert!(told.ends_with(&format!("have the layout {layout} of another berth version; this one knows 2")), "{told}");
    }
}

#[test]
fn keys_of_a_stopped_server_are_taken_over_and_written_while_no_other_server_runs() {
    let etcd = etcd!("");
    let client = etcd.client();
    let put = |key: &str, lease| {
        let put = Put { key: Key::new(key), expected: Some(Expected::Absent), value: Some("x".into()), lease };
        client.wait(client.client.txn(Arc::new([put]))).expect("it answers");
    };
    let acquire = |take_over: bool| client.wait(client.client.acquire(&OwnershipRequest { authority: "one", before: &[], take_over }));
    put("/registry/pods/default/theirs", None);
    let lease = client.wait(client.client.grant(3600)).expect("it answers");
    put("/registry/masterleases/10.0.0.1", Some(lease));
    for take_over in [false, true] {
        let told = acquire(take_over).expect_err("it runs").to_string();
        assert_eq!(told, "a kube-apiserver uses the keys below /registry in etcd (see /registry/masterleases/10.0.0.1)");
    }
    client.wait(client.client.revoke(lease)).expect("it answers");
    assert!(matches!(acquire(false), Err(OwnershipError::Foreign { .. })));
    assert_eq!(acquire(true).expect("it is free"), Origin::TakenOver);
    assert_eq!(acquire(false).expect("it is ours"), Origin::TakenOver, "also the next time");

    let store = etcd.store_of(&client, Arc::new(Pods), HISTORY);
    create(&store, "ours", "1").expect("the first one");
    let other = etcd.open(&Options { prefix: "/events".into(), ..etcd.options() }).expect("it answers");
    Client::yield_to_rivals(&[client.client.clone(), other.client.clone()]);
    let lease = client.wait(client.client.grant(3600)).expect("it answers");
    put("/registry/masterleases/10.0.0.2", Some(lease));
    eventually(
        "it stands back",
        || matches!(store.health(), Health::Refusing { cause } if cause.contains("/registry/masterleases/10.0.0.2")),
    );
    let refused = create(&store, "more", "1").expect_err("both at once are not to be");
    assert!(matches!(&refused, WriteError::Unavailable { cause } if cause.contains("a kube-apiserver uses the same keys")), "{refused:?}");
    assert!(other.client.barred().is_some_and(|cause| cause.contains("/registry/masterleases/10.0.0.2")), "they are one store");
    assert_eq!(names(&store), ["ours", "theirs"], "reads go on");
    client.wait(client.client.revoke(lease)).expect("it answers");
    eventually("it goes on", || block_on(store.revision(PODS)).is_ok() && store.health() == Health::Ready);
    create(&store, "more", "1").expect("it is alone again");

    put("/registry/ranges/servicenodeports/30000", None);
    let give_back = |authority: &str| client.wait(client.client.give_back(authority)).map_err(|error| error.to_string());
    assert!(give_back("other").is_err_and(|error| error.contains("a control plane with other certificates")));
    assert!(client.wait(client.client.check_own("one")).is_ok());
    assert_eq!(give_back("one"), Ok(()));
    assert_eq!(keys(&client), ["/registry/pods/default/more", "/registry/pods/default/ours", "/registry/pods/default/theirs"]);
    assert!(matches!(client.wait(client.client.check_own("one")), Err(OwnershipError::NoOwner { .. })));
}

#[test]
fn an_authority_takes_the_place_of_one_that_is_named_beside_it() {
    let etcd = etcd!("");
    let client = etcd.client();
    let acquire = |authority: &str, before: &[&str]| {
        let before: Vec<_> = before.iter().map(|before| (*before).to_owned()).collect();
        client
            .wait(client.client.acquire(&OwnershipRequest { authority, before: &before, take_over: false }))
            .map_err(|error| error.to_string())
    };
    let is_refused =
        |claimed: Result<Origin, String>| claimed.is_err_and(|error| error.contains("a control plane with other certificates"));
    assert_eq!(acquire("old", &[]), Ok(Origin::Own));
    assert!(is_refused(acquire("new", &["another"])));
    assert_eq!(acquire("new", &["another", "old"]), Ok(Origin::Own));
    assert_eq!(acquire("new", &[]), Ok(Origin::Own), "it is the new one's from now on");
    assert!(is_refused(acquire("old", &[])));
}

#[test]
fn a_place_that_a_server_is_alive_over_is_not_given_back() {
    let etcd = etcd!("");
    let client = etcd.client();
    assert!(client.wait(client.client.acquire(&OwnershipRequest { authority: "one", before: &[], take_over: false })).is_ok());
    let lease = client.wait(client.client.grant(3600)).expect("it answers");
    let key = Key::new("/registry/berth.dev/servers/192.0.2.1:6443");
    let put = Put { key, expected: Some(Expected::Absent), value: Some("{}".into()), lease: Some(lease) };
    client.wait(client.client.txn(Arc::new([put]))).expect("it answers");
    let give_back = || client.wait(client.client.give_back("one")).map_err(|error| error.to_string());
    let served = "a berth server uses the keys below /registry in etcd (see /registry/berth.dev/servers/192.0.2.1:6443)";
    assert_eq!(give_back(), Err(served.into()));
    client.wait(client.client.revoke(lease)).expect("it answers");
    assert_eq!((give_back(), keys(&client)), (Ok(()), Vec::new()));
}

/// Returns all keys below the prefix.
fn keys(client: &etcd::TestClient) -> Vec<String> {
    let query = Query { prefix: "/registry/".into(), start_after: None, at: None, limit: None };
    let found = client.wait(client.client.range(query)).expect("it answers").keys;
    found.into_iter().map(|found| found.key.as_str().to_owned()).collect()
}

#[test]
fn no_server_starts_over_an_incomplete_import_and_the_next_import_restarts() {
    let etcd = etcd!("");
    let client = etcd.client();
    let begin = |authority: &str| client.wait(client.client.begin_import(authority)).map_err(|error| error.to_string());
    let acquire = || client.wait(client.client.acquire(&OwnershipRequest { authority: "one", before: &[], take_over: true }));
    let put = |name: &str| {
        let put = Put { key: pod(name), expected: Some(Expected::Absent), value: Some("x".into()), lease: None };
        client.wait(client.client.txn(Arc::new([put]))).expect("it answers");
    };
    put("theirs");
    assert!(begin("one").is_err_and(|error| error.contains("keys below /registry that berth did not create")));
    let mine = Put { key: pod("theirs"), expected: Some(Expected::At(Revision(2))), value: None, lease: None };
    client.wait(client.client.txn(Arc::new([mine]))).expect("it answers");

    assert_eq!(begin("one"), Ok(()));
    (0..150).for_each(|number| put(&format!("{number:03}")));
    assert!(matches!(acquire(), Err(OwnershipError::HalfImported { .. })), "also by force");
    assert!(begin("other").is_err_and(|error| error.contains("a control plane with other certificates")));
    assert_eq!(begin("one"), Ok(()));
    assert_eq!(keys(&client), ["/registry/berth.dev/control-plane"], "what was broken off is gone");
    put("a");
    client.wait(client.client.end_import("one")).expect("it is ours");
    client.wait(client.client.end_import("one")).expect("it is ours still");
    assert_eq!(acquire().expect("it is whole"), Origin::Own);
    assert_eq!(begin("one"), Err("etcd already contains objects of this control plane below /registry".into()));
    assert_eq!(names(&etcd.store_of(&client, Arc::new(Pods), HISTORY)), ["a"]);
}

#[test]
fn a_user_is_let_in_and_again_when_etcd_has_forgotten_the_token() {
    let mut etcd = etcd!(with_gateway "");
    gateway::enable_users(&etcd.endpoint);
    let user = |password: &str| Some(User { name: "root".into(), password: password.into() });
    let client = etcd.open(&Options { user: user("secret"), ..etcd.options() }).expect("it is let in");
    let store = etcd.store_of(&client, Arc::new(Pods), HISTORY);
    create(&store, "a", "1").expect("a new key");
    gateway::forget_tokens(&etcd.endpoint);
    create(&store, "b", "1").expect("it is let in again");
    assert_eq!(names(&store), ["a", "b"]);
    // A watch detects it by itself, also in a client without other requests.
    let watching = etcd.open(&Options { user: user("secret"), ..etcd.options() }).expect("it is let in");
    gateway::forget_tokens(&etcd.endpoint);
    let first = || block_on(watching.client.watch(PODS, Revision(1)).items.next()).expect("it says something");
    assert!(first().is_err(), "its token is not known any more");
    assert!(matches!(first(), Ok(Watched::Begun)));
    etcd.kill();
    etcd.start_again();
    eventually("it is let in again", || create(&store, "c", "1").is_ok());

    let told = |client: Result<_, OpenError>| match client {
        Err(error) => error.to_string(),
        Ok(client) => {
            let client: etcd::TestClient = client;
            client.wait(client.client.revision()).expect_err("it is not let in").to_string()
        }
    };
    let wrong = told(etcd.open(&Options { user: user("wrong"), ..etcd.options() }));
    assert!(wrong.contains("authentication failed, invalid user ID or password"), "{wrong}");
    let refused = told(etcd.open(&etcd.options()));
    assert!(refused.contains("user name is empty"), "{refused}");
}

#[test]
fn only_the_right_etcd_is_spoken_to_and_only_with_the_right_certificate() {
    if !etcd::is_here() {
        return;
    }
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, ours) = (authority.pair("127.0.0.1"), authority.pair("berth"));
    let folder = tempdir().expect("a temporary folder");
    let etcd = Etcd::start(&tls::settings(folder.path(), &authority, &server));
    let open = |authority: &Authority, identity: Option<&Pair>| {
        let identity = identity.map(|Pair(certificate, key)| (certificate.clone().into_bytes(), key.clone().into_bytes()));
        let tls = Some(Tls { authorities: authority.certificate().as_bytes().to_vec(), identity });
        etcd.open(&Options { tls, ..etcd.options() })
    };
    let client = open(&authority, Some(&ours)).unwrap_or_else(|error| panic!("{error}"));
    let store = etcd.store_of(&client, Arc::new(Pods), HISTORY);
    create(&store, "a", "1").expect("a new key");
    assert_eq!(names(&store), ["a"]);
    let told = |opened: Result<_, OpenError>| opened.map(|_: etcd::TestClient| ()).expect_err("that is not to be").to_string();
    let wrong = told(open(&other, Some(&ours)));
    assert!(wrong.contains("nvalid peer certificate"), "{wrong}");
    let refused = told(open(&authority, None));
    assert!(refused.starts_with("no etcd answers: etcd at https://127.0.0.1:"), "{refused}");
}
