use crate::world::{World, config_map, labelled, names, now, pod, target};
use berth_registry::{ApiError, GetOptions, ListOptions};
use berth_store::{Revision, Store as _};
use futures::FutureExt;
use serde_json::json;

fn by_label(selector: &str) -> ListOptions {
    ListOptions { label_selector: selector.to_owned(), ..ListOptions::default() }
}

fn by_field(selector: &str) -> ListOptions {
    ListOptions { field_selector: selector.to_owned(), ..ListOptions::default() }
}

#[test]
fn lists_are_in_key_order_and_selected_by_labels_and_fields() {
    let world = World::new();
    world.made("namespaces", json!({"metadata": {"name": "aa"}}));
    for (name, value) in [("c", "1"), ("a", "2"), ("b", "1")] {
        world.made("configmaps", labelled(name, "x", value));
    }
    world.made("configmaps@aa", config_map("z"));
    assert_eq!(world.names("configmaps", &ListOptions::default()), ["a", "b", "c"]);
    assert_eq!(world.names("configmaps@*", &ListOptions::default()), ["z", "a", "b", "c"]);
    assert_eq!(world.names("configmaps@nowhere", &ListOptions::default()), Vec::<String>::new());
    assert_eq!(world.names("configmaps", &by_label("x=1")), ["b", "c"]);
    assert_eq!(world.names("configmaps@*", &by_label("x notin (1)")), ["z", "a"]);
    assert_eq!(world.names("configmaps", &by_label("!x")), Vec::<String>::new());
    assert_eq!(world.names("configmaps", &by_field("metadata.name=b")), ["b"]);
    assert_eq!(world.names("configmaps@*", &by_field("metadata.namespace!=default")), ["z"]);

    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "n1".into();
    world.made("pods", bound);
    world.made("pods", pod("q"));
    assert_eq!(world.names("pods", &by_field("spec.nodeName=n1")), ["p"]);
    assert_eq!(world.names("pods", &by_field("spec.nodeName=")), ["q"]);
    world.made("nodes", json!({"metadata": {"name": "n1"}}));
    assert_eq!(world.names("nodes", &by_field("spec.unschedulable=false")), ["n1"]);
}

#[test]
fn bad_selectors_are_refused_with_upstreams_words() {
    let world = World::new();
    let check = |what: &str, options: ListOptions, wanted: &str| {
        let text = world.list(what, &options).expect_err("refused").to_string();
        assert!(text.starts_with(wanted), "{text}");
    };
    check("pods", by_field("spec.foo=1"), "field label not supported: spec.foo");
    let text = "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    check("deployments.apps", by_field("spec.replicas=1"), text);
    check("pods", by_field("foo"), "invalid selector: 'foo'; can't understand 'foo'");
    check("pods", by_label("=x"), "found '=', expected: ");
}

#[test]
fn pages_show_one_snapshot_and_count_what_remains() {
    let world = World::new();
    for name in ["a", "b", "c", "d", "e"] {
        world.made("configmaps", config_map(name));
    }
    let mut options = ListOptions { limit: 2, ..ListOptions::default() };
    let first = world.list("configmaps", &options).expect("a page");
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "b".to_owned()], Some(3)));
    world.made("configmaps", config_map("bb"));
    options.continue_token.clone_from(&first.continue_token);
    let second = world.list("configmaps", &options).expect("a page");
    assert_eq!((names(&second), second.remaining), (vec!["c".to_owned(), "d".to_owned()], Some(1)));
    assert_eq!(second.revision, first.revision);
    options.continue_token = second.continue_token;
    let third = world.list("configmaps", &options).expect("a page");
    assert_eq!((names(&third), third.remaining, third.continue_token.as_str()), (vec!["e".to_owned()], None, ""));

    options.resource_version = "7".to_owned();
    let text = world.list("configmaps", &options).expect_err("refused").to_string();
    assert_eq!(text, "specifying resource version is not allowed when using continue");
    let garbage = ListOptions { continue_token: "%".to_owned(), ..ListOptions::default() };
    assert!(world.list("configmaps", &garbage).expect_err("refused").to_string().starts_with("invalid continue token: "));
}

#[test]
fn a_selected_page_says_nothing_of_what_remains() {
    let world = World::new();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "1"), ("d", "2"), ("e", "1")] {
        world.made("configmaps", labelled(name, "x", value));
    }
    let mut options = ListOptions { limit: 2, ..by_label("x=1") };
    let first = world.list("configmaps", &options).expect("a page");
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "c".to_owned()], None));
    options.continue_token = first.continue_token;
    let second = world.list("configmaps", &options).expect("a page");
    assert_eq!((names(&second), second.continue_token.as_str()), (vec!["e".to_owned()], ""));
}

#[test]
fn versions_are_shown_as_asked() {
    let world = World::new();
    world.made("configmaps", config_map("a"));
    let then = world.revision();
    world.made("configmaps", config_map("b"));
    let list = |version: &str, matching: &str, limit: i64| {
        let (resource_version, resource_version_match) = (version.to_owned(), matching.to_owned());
        world.names("configmaps", &ListOptions { resource_version, resource_version_match, limit, ..ListOptions::default() })
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
    let world = World::new();
    world.made("configmaps", config_map("a"));
    let future = world.revision() + 1;
    let options = GetOptions { resource_version: future.to_string() };
    let at = target("configmaps", "a");
    let mut get = Box::pin(world.registry.get(&at, &options));
    assert!(get.as_mut().now_or_never().is_none(), "it waits");
    world.made("configmaps", config_map("b"));
    get.now_or_never().expect("the version is there").expect("read");

    let options = GetOptions { resource_version: (future + 1).to_string() };
    let mut get = Box::pin(world.registry.get(&at, &options));
    assert!(get.as_mut().now_or_never().is_none(), "it waits");
    world.clock.advance(3);
    let error = get.now_or_never().expect("time is up").expect_err("not there");
    assert_eq!(error.to_string(), format!("Too large resource version: {}, current: {future}", future + 1));

    let text = now(world.registry.get(&at, &GetOptions { resource_version: "x".to_owned() })).expect_err("refused").to_string();
    assert!(text.starts_with("invalid resource version: "), "{text}");
}

#[test]
fn an_expired_token_comes_with_a_fresh_one() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.made("configmaps", config_map(name));
    }
    let mut options = ListOptions { limit: 1, ..ListOptions::default() };
    let first = world.list("configmaps", &options).expect("a page");
    world.made("configmaps", config_map("bb"));
    now(world.store.compact("/registry/", Revision(world.revision()))).expect("compacted");
    options.continue_token = first.continue_token;
    let error = world.list("configmaps", &options).expect_err("expired");
    let ApiError::Expired { message, continue_token } = error else { panic!("{error}") };
    assert!(message.starts_with("The provided continue parameter is too old to display a consistent list result."), "{message}");
    options.continue_token = continue_token.expect("a fresh token");
    options.limit = 0;
    assert_eq!(world.names("configmaps", &options), ["b", "bb", "c"]);

    let exact = ListOptions { resource_version: "1".to_owned(), resource_version_match: "Exact".to_owned(), ..ListOptions::default() };
    assert!(matches!(world.list("configmaps", &exact), Err(ApiError::Expired { .. })));
}
