//! Users of etcd: when a password is sent, and which rights a user needs.
#![expect(clippy::disallowed_methods, reason = "callers at the same time")]

use crate::etcd::{self, Etcd, TestClient, eventually, gateway};
use berth_etcd::{Options, User};
use berth_store::{
    Expected, Header, Health, Key, Layout, Purpose, RangeRequest, Revision, Store, WatchItem,
    etcd::{Etcd as _, EtcdError},
};
use futures::StreamExt;
use futures_executor::block_on;
use std::{sync::Arc, thread};

struct Pods;

impl Layout for Pods {
    fn resource_prefix<'t>(&self, text: &'t str) -> Option<&'t str> {
        text.starts_with("/registry/pods/").then(|| &text[.."/registry/pods/".len()])
    }

    fn header(&self, _: &Key, _: &[u8]) -> Header {
        Header::default()
    }
}

fn open(etcd: &Etcd, name: &str) -> TestClient {
    let user = Some(User { name: name.into(), password: "secret".into() });
    etcd.open(&Options { user, ..etcd.options() }).expect("it is let in")
}

/// etcd hashes a password deliberately slowly. A tenth of a second per call would dominate the cost of every call.
#[test]
fn a_password_is_shown_once_for_as_long_as_etcd_knows_its_token_however_many_call() {
    if !etcd::is_here() {
        return;
    }
    let etcd = Etcd::with_gateway("");
    gateway::enable_users(&etcd.endpoint);
    let before = gateway::passwords_shown(&etcd.endpoint);
    let client = open(&etcd, "root");
    let shown = |before: u64| gateway::passwords_shown(&etcd.endpoint) - before;
    let call_together = || {
        thread::scope(|scope| {
            let call = || (0..5).for_each(|_| _ = client.wait(client.client.revision()).expect("it is let in"));
            let callers: Vec<_> = (0..16).map(|_| scope.spawn(call)).collect();
            callers.into_iter().for_each(|caller| caller.join().expect("it does not panic"));
        });
    };
    call_together();
    assert_eq!(shown(before), 1);
    for _ in 0..5 {
        gateway::forget_tokens(&etcd.endpoint);
        let before = gateway::passwords_shown(&etcd.endpoint);
        call_together();
        assert_eq!(shown(before), 1, "a client whose token is unknown takes the other token, if there is one");
    }
}

/// Requests for the health and the newest revision must not require an administrator's rights.
#[test]
fn a_user_who_may_read_and_write_the_keys_needs_nothing_else() {
    if !etcd::is_here() {
        return;
    }
    let etcd = Etcd::with_gateway("");
    gateway::add_user_of_registry(&etcd.endpoint, "berth");
    gateway::enable_users(&etcd.endpoint);
    let client = open(&etcd, "berth");
    let store = etcd.store_of(&client, Arc::new(Pods), 1 << 20);
    let mut watch = store.watch("/registry/pods/", Revision(1)).expect("kept");
    let key = |name: &str| Key::new(&format!("/registry/pods/default/{name}"));
    let made = block_on(store.put(key("a"), "1".into(), Expected::Absent, Purpose::Growth)).expect("a new key").mod_revision;
    block_on(store.delete(key("a"), made)).expect("it is there");
    block_on(store.put(key("b"), "1".into(), Expected::Absent, Purpose::Growth)).expect("a new key");
    assert_eq!(block_on(store.range(RangeRequest::all("/registry/pods/"))).expect("it answers").entries.len(), 1);
    let mut seen = 0;
    while seen < 3 {
        if let WatchItem::Events(events) = block_on(watch.next()).expect("it goes on").expect("nothing is lost") {
            seen += events.len();
        }
    }
    let lease = client.wait(client.client.grant(60)).expect("values may have an end");
    client.wait(client.client.revoke(lease)).expect("ours");
    eventually("it says how it is", || store.usage().is_some_and(|usage| 0 < usage.bytes));
    assert_eq!(store.health(), Health::Ready);
    let other = Key::new("/elsewhere/a");
    let told = client.wait(client.client.range(berth_store::etcd::Query {
        prefix: other.as_str().to_owned(),
        start_after: None,
        at: None,
        limit: None,
    }));
    assert!(matches!(&told, Err(EtcdError::Refused(words)) if words.contains("permission denied")), "{:?}", told.map(|page| page.count));
}
