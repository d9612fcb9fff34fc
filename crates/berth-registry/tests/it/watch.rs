use crate::test_cluster::{TestCluster, collection, config_map, labeled, now};
use berth_registry::{Actor, ApiError, DeleteOptions, WatchEvent, WatchOptions};
use berth_store::{Revision, Store as _};
use futures::{FutureExt, StreamExt, stream::BoxStream};
use serde_json::json;

/// Returns one letter and name per event, `.` for a bookmark, `|` for the end of the initial events, and `!` for the
/// end of the watch.
fn seen(watch: &mut BoxStream<'static, WatchEvent>) -> String {
    let mut seen = Vec::new();
    while let Some(Some(event)) = watch.next().now_or_never() {
        let name = |entry: &berth_store::Entry| entry.key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
        seen.push(match event {
            WatchEvent::Added(entry) => format!("+{}", name(&entry)),
            WatchEvent::Modified(event) => format!("~{}", name(&event.entry)),
            WatchEvent::Deleted { last, .. } => format!("-{}", name(&last)),
            WatchEvent::Bookmark { initial_events_end, .. } => if initial_events_end { "|" } else { "." }.to_owned(),
            WatchEvent::Error(error) => format!("!{error}"),
        });
    }
    seen.join(" ")
}

fn from(version: &str) -> WatchOptions {
    WatchOptions { resource_version: version.to_owned(), ..WatchOptions::default() }
}

fn streaming(version: &str) -> WatchOptions {
    let resource_version_match = "NotOlderThan".to_owned();
    WatchOptions { resource_version_match, send_initial_events: Some(true), allow_bookmarks: true, ..from(version) }
}

fn none() -> DeleteOptions {
    DeleteOptions::default()
}

#[test]
fn a_watch_begins_with_the_state_or_behind_a_version() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("a"));
    let then = cluster.revision().to_string();
    cluster.made("configmaps", config_map("b"));
    for (options, wanted) in [
        (from(""), "+a +b"),
        (from("0"), "+a +b"),
        (from(&then), "+b"),
        (streaming(""), "+a +b |"),
        (streaming(&then), "+a +b |"),
        (WatchOptions { send_initial_events: Some(false), ..streaming("") }, ""),
        (WatchOptions { send_initial_events: Some(false), ..streaming(&then) }, "+b"),
        (WatchOptions { allow_bookmarks: false, ..streaming("") }, "+a +b"),
    ] {
        let mut watch = cluster.watch("configmaps", &options);
        assert_eq!(seen(&mut watch), wanted, "{options:?}");
    }
}

#[test]
fn changes_follow_with_their_revisions() {
    let cluster = TestCluster::new();
    let mut watch = cluster.watch("configmaps", &from(""));
    cluster.made("configmaps", config_map("a"));
    cluster.made("secrets", json!({"metadata": {"name": "other"}}));
    cluster.merge("configmaps", "a", json!({"data": {"k": "v"}})).expect("patched");
    cluster.delete("configmaps", "a", &none()).expect("deleted");
    let deletion = cluster.revision();
    assert_eq!(watch.next().now_or_never().flatten().map(|event| matches!(event, WatchEvent::Added(_))), Some(true));
    assert_eq!(watch.next().now_or_never().flatten().map(|event| matches!(event, WatchEvent::Modified(_))), Some(true));
    let Some(Some(WatchEvent::Deleted { last, revision })) = watch.next().now_or_never() else { panic!("deleted") };
    assert_eq!(revision, Revision(deletion));
    assert!(String::from_utf8_lossy(&last.value).contains("\"k\":\"v\""), "the last state");
}

#[test]
fn removing_the_last_finalizer_is_a_modification_then_a_deletion() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", json!({"metadata": {"name": "a", "finalizers": ["a/b"]}}));
    let mut watch = cluster.watch("configmaps", &from(""));
    cluster.delete("configmaps", "a", &none()).expect("marked");
    cluster.merge("configmaps", "a", json!({"metadata": {"finalizers": null}})).expect("released");
    assert_eq!(seen(&mut watch), "+a ~a -a");
}

#[test]
fn an_object_that_starts_or_stops_to_match_is_added_or_deleted() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", labeled("a", "x", "1"));
    cluster.made("configmaps", labeled("b", "x", "2"));
    let options = WatchOptions { label_selector: "x=1".to_owned(), ..from("") };
    let mut watch = cluster.watch("configmaps", &options);
    assert_eq!(seen(&mut watch), "+a");
    let set = |name: &str, value: &str| cluster.merge("configmaps", name, json!({"metadata": {"labels": {"x": value}}})).expect("patched");
    set("a", "2");
    let Some(Some(WatchEvent::Deleted { last, revision })) = watch.next().now_or_never() else { panic!("it stopped to match") };
    assert_eq!(revision, Revision(cluster.revision()));
    assert_eq!(&*last.header.labels[0].1, "1", "the previous state");
    set("b", "1");
    cluster.merge("configmaps", "b", json!({"data": {"k": "v"}})).expect("patched");
    cluster.merge("configmaps", "a", json!({"data": {"k": "v"}})).expect("patched");
    cluster.delete("configmaps", "a", &none()).expect("deleted");
    cluster.delete("configmaps", "b", &none()).expect("deleted");
    assert_eq!(seen(&mut watch), "+b ~b -b");
}

#[test]
fn bookmarks_come_once_a_minute_to_those_who_want_them() {
    let cluster = TestCluster::new();
    let wanting = WatchOptions { allow_bookmarks: true, ..from("") };
    let (mut wanted, mut silent) = (cluster.watch("configmaps", &wanting), cluster.watch("configmaps", &from("")));
    assert_eq!(seen(&mut wanted), "");
    cluster.made("secrets", json!({"metadata": {"name": "other"}}));
    cluster.clock.advance(59);
    assert_eq!(seen(&mut wanted), "");
    cluster.clock.advance(1);
    let Some(Some(WatchEvent::Bookmark { revision, .. })) = wanted.next().now_or_never() else { panic!("a bookmark is due") };
    assert_eq!(revision, Revision(cluster.revision()), "a quiet prefix moves on too");
    assert_eq!(seen(&mut wanted), "");
    cluster.clock.advance(60);
    assert_eq!(seen(&mut wanted), ".");
    assert_eq!(seen(&mut silent), "");
}

#[test]
fn a_version_that_is_gone_is_expired() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("a"));
    let mut slow = cluster.watch("configmaps", &from(&cluster.revision().to_string()));
    cluster.made("configmaps", config_map("b"));
    cluster.made("configmaps", config_map("c"));
    now(cluster.store.compact("/registry/", Revision(cluster.revision() - 1))).expect("compacted");
    let error = now(cluster.registry.watch(&Actor::System, &collection("configmaps"), &from("1"))).err().expect("refused");
    assert!(matches!(&error, ApiError::Expired { .. }));
    assert_eq!(error.to_string(), "The resourceVersion for the provided watch is too old.");
    let text = seen(&mut slow);
    assert!(text == "+b +c" || text.starts_with('!'), "all or an error, nothing left out: {text}");
}

#[test]
fn a_version_of_the_future_stays_silent_but_a_streaming_list_waits_for_it() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("a"));
    let future = (cluster.revision() + 1).to_string();
    let mut watch = cluster.watch("configmaps", &from(&future));
    assert_eq!(seen(&mut watch), "");
    let (at, options) = (collection("configmaps"), streaming(&future));
    let mut list = Box::pin(cluster.registry.watch(&Actor::System, &at, &options));
    assert!(list.as_mut().now_or_never().is_none(), "it waits");
    cluster.made("configmaps", config_map("b"));
    cluster.made("configmaps", config_map("c"));
    assert_eq!(seen(&mut watch), "+c");
    let mut list = list.now_or_never().expect("the version is there").expect("watching");
    assert_eq!(seen(&mut list), "+a +b +c |");
}

#[test]
fn a_reader_in_the_process_gets_a_bookmark_each_time_it_has_caught_up() {
    let cluster = TestCluster::new();
    let mut watch = cluster.watch("configmaps", &WatchOptions { progress: true, ..from("") });
    seen(&mut watch);
    cluster.made("secrets", json!({"metadata": {"name": "other"}}));
    assert_eq!(seen(&mut watch), ".");
}
