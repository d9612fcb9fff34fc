use crate::test_cluster::{TestCluster, collection, config_map, labeled, names, now, pod, target, turns};
use berth_registry::{Actor, ApiError, DeleteOptions, GetOptions, List, ListOptions, ResourceTable, WatchEvent, WatchOptions};
use berth_store::{
    Entry, Expected, Key, MemoryStore, Purpose, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError,
    expiry::Expire as _,
};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
};
use serde_json::json;
use std::sync::Arc;

fn by_label(selector: &str) -> ListOptions {
    ListOptions { label_selector: selector.to_owned(), ..ListOptions::default() }
}

fn by_field(selector: &str) -> ListOptions {
    ListOptions { field_selector: selector.to_owned(), ..ListOptions::default() }
}

#[test]
fn lists_are_in_key_order_and_selected_by_labels_and_fields() {
    let cluster = TestCluster::new();
    cluster.made("namespaces", json!({"metadata": {"name": "aa"}}));
    for (name, value) in [("c", "1"), ("a", "2"), ("b", "1")] {
        cluster.made("configmaps", labeled(name, "x", value));
    }
    cluster.made("configmaps@aa", config_map("z"));
    assert_eq!(cluster.names("configmaps", &ListOptions::default()), ["a", "b", "c"]);
    assert_eq!(cluster.names("configmaps@*", &ListOptions::default()), ["z", "a", "b", "c"]);
    assert_eq!(cluster.names("configmaps@nowhere", &ListOptions::default()), Vec::<String>::new());
    assert_eq!(cluster.names("configmaps", &by_label("x=1")), ["b", "c"]);
    assert_eq!(cluster.names("configmaps@*", &by_label("x notin (1)")), ["z", "a"]);
    assert_eq!(cluster.names("configmaps", &by_label("!x")), Vec::<String>::new());
    assert_eq!(cluster.names("configmaps", &by_field("metadata.name=b")), ["b"]);
    assert_eq!(cluster.names("configmaps@*", &by_field("metadata.namespace!=default")), ["z"]);

    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "n1".into();
    cluster.made("pods", bound);
    cluster.made("pods", pod("q"));
    assert_eq!(cluster.names("pods", &by_field("spec.nodeName=n1")), ["p"]);
    assert_eq!(cluster.names("pods", &by_field("spec.nodeName=")), ["q"]);
    cluster.made("nodes", json!({"metadata": {"name": "n1"}}));
    assert_eq!(cluster.names("nodes", &by_field("spec.unschedulable=false")), ["n1"]);
}

#[test]
fn bad_selectors_are_refused_with_upstreams_words() {
    let cluster = TestCluster::new();
    let check = |what: &str, options: ListOptions, wanted: &str| {
        let text = cluster.list(what, &options).expect_err("refused").to_string();
        assert!(text.starts_with(wanted), "{text}");
    };
    check("pods", by_field("spec.foo=1"), "field label not supported: spec.foo");
    let text = "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    check("deployments.apps", by_field("spec.replicas=1"), text);
    check("pods", by_field("foo"), "invalid selector: 'foo'; can't understand 'foo'");
    check("pods", by_label("=x"), "found '=', expected: ");
}

#[test]
fn selectors_of_more_requirements_than_allowed_are_refused() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", labeled("a", "x", "1"));
    let many = |one: fn(usize) -> String, count: usize| (0..count).map(one).collect::<Vec<_>>().join(",");
    let label = |count| by_label(&many(|at| format!("!k{at}"), count));
    let field = |count| by_field(&many(|at| format!("metadata.name!=n{at}"), count));
    for options in [label(1000), field(1000), by_label(&format!("x in ({})", many(|at| at.to_string(), 5000)))] {
        assert_eq!(cluster.names("configmaps", &options), ["a"]);
    }
    let refused = |options: ListOptions| cluster.list("configmaps", &options).expect_err("refused").to_string();
    assert_eq!(refused(label(1001)), "labelSelector: 1001 requirements are more than the 1000 that are allowed");
    assert_eq!(refused(field(2700)), "fieldSelector: 2700 requirements are more than the 1000 that are allowed");
}

/// Creates this many config maps, the last one with a label.
fn fill(cluster: &TestCluster, count: usize) {
    for at in 1..=count {
        let labels = if at == count { r#"{"last":""}"# } else { "{}" };
        let metadata = format!(r#"{{"name":"c{at:05}","namespace":"default","labels":{labels}}}"#);
        let value = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}"#);
        let key = Key::new(&format!("/registry/configmaps/default/c{at:05}"));
        now(cluster.store.put(key, value.into(), Expected::Absent, Purpose::Growth)).expect("there is none");
    }
}

#[test]
fn a_search_through_many_objects_yields_to_other_requests() {
    let cluster = TestCluster::new();
    fill(&cluster, 20_000);
    let at = collection("configmaps");
    let (list, given) = turns(cluster.registry.list(&Actor::System, &at, &by_label("last")));
    assert_eq!((names(&list.expect("a list")), given), (vec!["c20000".to_owned()], 4));
    let all = WatchOptions { label_selector: "last".to_owned(), ..WatchOptions::default() };
    let (watch, given) = turns(cluster.registry.watch(&Actor::System, &at, &all));
    assert_eq!((watch.is_ok(), given), (true, 4));
    let behind = WatchOptions { resource_version: "1".to_owned(), ..all };
    let mut watch = now(cluster.registry.watch(&Actor::System, &at, &behind)).expect("a watch");
    let (event, given) = turns(watch.next());
    assert!(matches!(event, Some(WatchEvent::Added(_))));
    assert_eq!(given, 19, "on the way through changes that it does not show");
}

/// A store with writers faster than its readers: every revision is compacted before the next read.
struct Outrun(Arc<MemoryStore>);

impl Store for Outrun {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.0.revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.0.get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        match request.at {
            Some(requested) => ready(Err(ReadError::Compacted { requested, oldest: requested })).boxed(),
            None => self.0.range(request),
        }
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        self.0.commit(writes)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.0.watch(prefix, after)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.0.compact(prefix, revision)
    }
}

#[test]
fn a_list_that_writers_outrun_is_read_in_one_piece() {
    let cluster = TestCluster::over(|| {
        let store = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24));
        (Arc::clone(&store), Arc::new(Outrun(store)))
    });
    fill(&cluster, 10_000);
    assert_eq!(cluster.names("configmaps", &ListOptions::default()).len(), 10_000);
    assert_eq!(cluster.names("configmaps", &ListOptions { limit: 1, ..by_label("last") }), ["c10000"]);
    let newest = cluster.revision().to_string();
    let exact = ListOptions { resource_version: newest, resource_version_match: "Exact".to_owned(), ..ListOptions::default() };
    assert!(matches!(cluster.list("configmaps", &exact), Err(ApiError::Expired { .. })), "a revision that is asked for is another matter");
}

#[test]
fn deleting_many_objects_lets_others_have_their_turn() {
    let cluster = TestCluster::new();
    for at in 0..50 {
        cluster.made("configmaps", config_map(&format!("c{at}")));
    }
    let (at, list, options) = (collection("configmaps"), ListOptions::default(), DeleteOptions::default());
    let (deleted, given) = turns(cluster.registry.delete_collection(&Actor::System, &at, &list, &options));
    assert_eq!((names(&deleted.expect("deleted")).len(), given), (50, 3));
}

#[test]
fn pages_show_one_snapshot_and_count_what_remains() {
    let cluster = TestCluster::new();
    for name in ["a", "b", "c", "d", "e"] {
        cluster.made("configmaps", config_map(name));
    }
    let mut options = ListOptions { limit: 2, ..ListOptions::default() };
    let first = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "b".to_owned()], Some(3)));
    cluster.made("configmaps", config_map("bb"));
    options.continue_token.clone_from(&first.continue_token);
    let second = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&second), second.remaining), (vec!["c".to_owned(), "d".to_owned()], Some(1)));
    assert_eq!(second.revision, first.revision);
    options.continue_token = second.continue_token;
    let third = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&third), third.remaining, third.continue_token.as_str()), (vec!["e".to_owned()], None, ""));

    options.resource_version = "7".to_owned();
    let text = cluster.list("configmaps", &options).expect_err("refused").to_string();
    assert_eq!(text, "specifying resource version is not allowed when using continue");
    let garbage = ListOptions { continue_token: "%".to_owned(), ..ListOptions::default() };
    assert!(cluster.list("configmaps", &garbage).expect_err("refused").to_string().starts_with("invalid continue token: "));
}

#[test]
fn a_selected_page_does_not_count_what_remains() {
    let cluster = TestCluster::new();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1"), ("d", "2"), ("e", "1")] {
        cluster.made("configmaps", labeled(name, "x", value));
    }
    let mut options = ListOptions { limit: 2, ..by_label("x=1") };
    let first = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "c".to_owned()], None));
    options.continue_token = first.continue_token;
    let second = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&second), second.continue_token.as_str()), (vec!["e".to_owned()], ""));
}

#[test]
fn versions_are_shown_as_asked() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("a"));
    let then = cluster.revision();
    cluster.made("configmaps", config_map("b"));
    let list = |version: &str, matching: &str, limit: i64| {
        let (resource_version, resource_version_match) = (version.to_owned(), matching.to_owned());
        cluster.names("configmaps", &ListOptions { resource_version, resource_version_match, limit, ..ListOptions::default() })
    };
    let (then, all, old) = (then.to_string(), vec!["a", "b"], vec!["a"]);
    assert_eq!(list("", "", 0), all);
    assert_eq!(list("0", "", 0), all);
    assert_eq!(list("0", "", 1), all, "the limit is ignored");
    assert_eq!(list(&then, "", 0), all);
    assert_eq!(list(&then, "", 5), old);
    assert_eq!(list(&then, "Exact", 0), old);
    assert_eq!(list(&then, "Exact", 5), old);
    assert_eq!(list(&then, "NotOlderThan", 0), all);
    assert_eq!(list(&then, "NotOlderThan", 1), old, "the first page of the newest");
}

#[test]
fn a_read_waits_three_seconds_for_a_version_that_is_not_there_yet() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("a"));
    let future = cluster.revision() + 1;
    let options = GetOptions { resource_version: future.to_string() };
    let at = target("configmaps", "a");
    let mut get = Box::pin(cluster.registry.get(&at, &options));
    assert!(get.as_mut().now_or_never().is_none(), "it waits");
    cluster.made("configmaps", config_map("b"));
    get.now_or_never().expect("the version is there").expect("read");

    let options = GetOptions { resource_version: (future + 1).to_string() };
    let mut get = Box::pin(cluster.registry.get(&at, &options));
    assert!(get.as_mut().now_or_never().is_none(), "it waits");
    cluster.clock.advance(3);
    let error = get.now_or_never().expect("time is up").expect_err("not there");
    assert_eq!(error.to_string(), format!("Too large resource version: {}, current: {future}", future + 1));

    let text = now(cluster.registry.get(&at, &GetOptions { resource_version: "x".to_owned() })).expect_err("refused").to_string();
    assert!(text.starts_with("invalid resource version: "), "{text}");
}

#[test]
fn an_expired_token_comes_with_a_fresh_one() {
    let cluster = TestCluster::new();
    for name in ["a", "b", "c"] {
        cluster.made("configmaps", config_map(name));
    }
    let mut options = ListOptions { limit: 1, ..ListOptions::default() };
    let first = cluster.list("configmaps", &options).expect("a page");
    cluster.made("configmaps", config_map("bb"));
    now(cluster.store.compact("/registry/", Revision(cluster.revision()))).expect("compacted");
    options.continue_token = first.continue_token;
    let error = cluster.list("configmaps", &options).expect_err("expired");
    let ApiError::Expired { message, continue_token } = error else { panic!("{error}") };
    assert!(message.starts_with("The provided continue parameter is too old to display a consistent list result."), "{message}");
    options.continue_token = continue_token.expect("a fresh token");
    options.limit = 0;
    assert_eq!(cluster.names("configmaps", &options), ["b", "bb", "c"]);

    let exact = ListOptions { resource_version: "1".to_owned(), resource_version_match: "Exact".to_owned(), ..ListOptions::default() };
    assert!(matches!(cluster.list("configmaps", &exact), Err(ApiError::Expired { .. })));
}

/// Returns a test cluster whose store keeps fewer than a hundred changes.
fn of_little_history() -> TestCluster {
    TestCluster::over(|| {
        let store = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 50_000));
        (Arc::clone(&store), store)
    })
}

#[test]
fn a_list_that_has_begun_goes_on_for_five_minutes_whatever_others_write() {
    let cluster = of_little_history();
    for name in ["a", "b", "c", "d"] {
        cluster.made("configmaps", config_map(name));
    }
    let mut options = ListOptions { limit: 1, ..ListOptions::default() };
    let first = cluster.list("configmaps", &options).expect("a page");
    let busy = |from: usize| {
        for number in from..from + 200 {
            cluster.merge("configmaps", "d", json!({"data": {"number": number.to_string()}})).expect("changed");
        }
    };
    busy(0);
    now(cluster.registry.delete(&Actor::System, &target("configmaps", "c"), &DeleteOptions::default())).expect("deleted");
    busy(200);
    let exact = ListOptions {
        resource_version: (first.revision.0 + 1).to_string(),
        resource_version_match: "Exact".to_owned(),
        ..ListOptions::default()
    };
    assert!(matches!(cluster.list("configmaps", &exact), Err(ApiError::Expired { .. })), "no reader there");
    options.continue_token.clone_from(&first.continue_token);
    let second = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&second), second.revision), (vec!["b".to_owned()], first.revision));

    cluster.clock.advance(299);
    now(cluster.store.expire(cluster.clock.time())).expect("nothing to delete");
    options.continue_token = second.continue_token;
    let third = cluster.list("configmaps", &options).expect("a page");
    assert_eq!((names(&third), third.remaining), (vec!["c".to_owned()], Some(1)));
    cluster.clock.advance(1);
    now(cluster.store.expire(cluster.clock.time())).expect("nothing to delete");
    let error = cluster.list("configmaps", &options).expect_err("its time is over");
    let ApiError::Expired { continue_token: Some(continue_token), .. } = error else { panic!("{error}") };
    assert_eq!(cluster.names("configmaps", &ListOptions { continue_token, ..ListOptions::default() }), ["d"], "as things are now");
}

#[test]
fn a_list_at_its_end_keeps_nothing() {
    let cluster = of_little_history();
    ["a", "b"].into_iter().for_each(|name| drop(cluster.made("configmaps", config_map(name))));
    let mut options = ListOptions { limit: 1, ..ListOptions::default() };
    let first = cluster.list("configmaps", &options).expect("a page");
    options.continue_token.clone_from(&first.continue_token);
    assert_eq!(cluster.names("configmaps", &options), ["b"]);
    for number in 0..200 {
        cluster.merge("configmaps", "a", json!({"data": {"number": number.to_string()}})).expect("changed");
    }
    assert!(matches!(cluster.list("configmaps", &options), Err(ApiError::Expired { .. })));
}

/// Begins a list that takes several reads, and replaces all objects in history meanwhile. Returns the list and its
/// revision.
fn a_long_list_among_writers(cluster: &TestCluster) -> (impl Future<Output = Result<List, ApiError>>, Revision) {
    fill(cluster, 10_000);
    let begun_at = Revision(cluster.revision());
    let mut list = Box::pin({
        let registry = cluster.registry.clone();
        async move { registry.list(&Actor::System, &collection("configmaps"), &ListOptions::default()).await }
    });
    assert!(list.as_mut().now_or_never().is_none(), "it is read in pieces");
    for number in 0..200 {
        cluster.merge("configmaps", "c09999", json!({"data": {"number": number.to_string()}})).expect("changed");
    }
    now(cluster.registry.delete(&Actor::System, &target("configmaps", "c10000"), &DeleteOptions::default())).expect("deleted");
    for number in 200..400 {
        cluster.merge("configmaps", "c09999", json!({"data": {"number": number.to_string()}})).expect("changed");
    }
    (list, begun_at)
}

#[test]
fn a_long_list_shows_one_revision_whatever_others_write_while_it_is_read() {
    let cluster = of_little_history();
    let (list, begun_at) = a_long_list_among_writers(&cluster);
    let (list, _) = turns(list);
    let list = list.expect("a list");
    assert_eq!((list.revision, names(&list).last().map(String::as_str), list.items.len()), (begun_at, Some("c10000"), 10_000));
    let again = RangeRequest { at: Some(begun_at), limit: Some(1), ..RangeRequest::all("/registry/configmaps/") };
    assert!(matches!(now(cluster.store.range(again)), Err(ReadError::Compacted { .. })), "behind it nothing is kept for it");
}

#[test]
fn a_long_list_that_is_given_up_keeps_nothing() {
    let cluster = of_little_history();
    let (list, begun_at) = a_long_list_among_writers(&cluster);
    let read = || now(cluster.store.range(RangeRequest { at: Some(begun_at), ..RangeRequest::all("/registry/configmaps/") }));
    assert!(read().is_ok());
    drop(list);
    assert!(matches!(read(), Err(ReadError::Compacted { .. })));
}
