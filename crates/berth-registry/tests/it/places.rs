//! Kinds whose key prefix does not follow from their group and plural: deeper, next to each other, or with another
//! word.

use crate::test_cluster::{registry_over, showing};
use berth_api::Scope;
use berth_kinds::{Definition, Kind};
use berth_registry::{
    Actor, ApiError, Body, Collection, DeleteOptions, GetOptions, List, ListOptions, Patch, Registry, Resource, ResourceTable, Target,
    WatchEvent, WatchOptions, WriteOptions,
};
use berth_store::{DEFAULT_HISTORY_BYTES, EmbeddedStore, MemoryStore, RangeRequest, Store};
use futures::{FutureExt, StreamExt, stream::BoxStream};
use futures_executor::block_on;
use serde_json::json;
use std::{path::Path, sync::Arc};
use widget::widgets;

#[path = "../../../berth-apiserver/tests/it/common/widget.rs"]
mod widget;

/// A registry with three kinds.
struct Server {
    store: Arc<dyn Store>,
    registry: Registry,
    specs: Arc<Resource>,
    endpoints: Arc<Resource>,
    /// Cluster-scoped.
    minions: Arc<Resource>,
}

impl Server {
    fn open(open: impl FnOnce(Arc<ResourceTable>) -> Arc<dyn Store>) -> Self {
        let table = Arc::new(ResourceTable::default());
        let add = |definition: Definition, path: &str| {
            let kind = Kind::new(definition).expect("it does not contradict itself");
            let resource = Resource::of_kind(&kind).remove(0);
            table.add(resource.stored_at(path)).expect("nothing is called or stored so")
        };
        let specs = add(widgets("specs.example.com/v1", &["spec.color"]), "gadgets/specs");
        let endpoints = add(widgets("endpoints.example.com/v1", &[]), "gadgets/endpoints");
        let mut minions = widgets("minions.example.com/v1", &[]);
        minions.scope = Scope::Cluster;
        let minions = add(minions, "sprockets");
        let store = open(Arc::clone(&table));
        let registry = registry_over(&store, table);
        block_on(registry.bootstrap()).expect("the first objects are fine");
        Self { store, registry, specs, endpoints, minions }
    }

    fn in_memory() -> Self {
        Self::open(|table| Arc::new(MemoryStore::new(table, DEFAULT_HISTORY_BYTES)))
    }

    fn in_folder(dir: &Path) -> Self {
        Self::open(|table| Arc::new(EmbeddedStore::open(dir, table, DEFAULT_HISTORY_BYTES).expect("opens")))
    }

    fn create(&self, resource: &Arc<Resource>, place: &str, color: &str) {
        let Target { resource, namespace, name, .. } = target(resource, place);
        let body = json!({"metadata": {"name": name}, "spec": {"color": color}}).to_string().into_bytes();
        block_on(self.registry.create(&Actor::System, &Collection { resource, namespace }, Body::Json(body), &WriteOptions::default()))
            .expect("created");
    }

    fn paint(&self, resource: &Arc<Resource>, place: &str, color: &str) {
        let patch = Patch::Merge(json!({"spec": {"color": color}}).to_string().into_bytes());
        block_on(self.registry.patch(&Actor::System, &target(resource, place), patch, &WriteOptions::default())).expect("patched");
    }

    fn list(&self, at: &Collection, options: &ListOptions) -> Result<List, ApiError> {
        block_on(self.registry.list(&Actor::System, at, options))
    }

    fn selected(&self, resource: &Arc<Resource>, field_selector: &str) -> String {
        let options = ListOptions { field_selector: field_selector.to_owned(), ..ListOptions::default() };
        places(&self.list(&all(resource), &options).expect("listed"))
    }

    /// Watches from now on.
    fn watch(&self, at: &Collection, field_selector: &str) -> BoxStream<'static, WatchEvent> {
        let now = self.list(at, &ListOptions::default()).expect("listed").revision;
        let field_selector = field_selector.to_owned();
        let options = WatchOptions { field_selector, resource_version: now.to_string(), ..WatchOptions::default() };
        block_on(self.registry.watch(&Actor::System, at, &options)).expect("watching")
    }
}

/// Returns the target of `NAMESPACE/NAME`, or of `NAME` without a namespace.
fn target(resource: &Arc<Resource>, place: &str) -> Target {
    let (namespace, name) = place.split_once('/').map_or((None, place), |(namespace, name)| (Some(namespace.to_owned()), name));
    Target { resource: Arc::clone(resource), namespace, name: name.to_owned(), subresource: None }
}

fn all(resource: &Arc<Resource>) -> Collection {
    Collection { resource: Arc::clone(resource), namespace: None }
}

fn within(resource: &Arc<Resource>, namespace: &str) -> Collection {
    Collection { namespace: Some(namespace.to_owned()), ..all(resource) }
}

/// Returns the names, from the objects' metadata.
fn places(list: &List) -> String {
    list.items.iter().map(|entry| place(entry)).collect::<Vec<_>>().join(" ")
}

fn place(entry: &berth_store::Entry) -> String {
    let meta = &showing(entry)["metadata"];
    match meta["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", meta["name"].as_str().expect("a name")),
        None => meta["name"].as_str().expect("a name").to_owned(),
    }
}

fn seen(watch: &mut BoxStream<'static, WatchEvent>) -> String {
    let mut seen = Vec::new();
    while let Some(Some(event)) = watch.next().now_or_never() {
        seen.push(match event {
            WatchEvent::Added(entry) => format!("+{}", place(&entry)),
            WatchEvent::Modified(event) => format!("~{}", place(&event.entry)),
            WatchEvent::Deleted { last, .. } => format!("-{}", place(&last)),
            WatchEvent::Bookmark { .. } => ".".to_owned(),
            WatchEvent::Error(error) => format!("!{error}"),
        });
    }
    seen.join(" ")
}

fn fill(server: &Server) {
    for (place, color) in [("default/x", "red"), ("default/y", "blue"), ("kube-system/x", "red")] {
        server.create(&server.specs, place, color);
    }
    server.create(&server.endpoints, "default/x", "red");
    server.create(&server.minions, "x", "red");
}

/// Lists with pages of one item. Returns each page with the count of remaining items.
fn pages(server: &Server, at: &Collection) -> Vec<(String, Option<usize>)> {
    let mut options = ListOptions { limit: 1, ..ListOptions::default() };
    let mut pages = Vec::new();
    loop {
        let page = server.list(at, &options).expect("listed");
        pages.push((places(&page), page.remaining));
        if page.continue_token.is_empty() {
            return pages;
        }
        options.continue_token = page.continue_token;
    }
}

/// Runs the verbs on the objects of [`fill`].
fn check_verbs(server: &Server) {
    let Server { store, registry, specs, endpoints, minions } = server;
    let keys = |prefix: &str| {
        let entries = block_on(store.range(RangeRequest::all(prefix))).expect("read").entries;
        entries.iter().map(|entry| entry.key.to_string()).collect::<Vec<_>>()
    };
    let gadgets = ["endpoints/default/x", "specs/default/x", "specs/default/y", "specs/kube-system/x"];
    assert_eq!(keys("/registry/gadgets/"), gadgets.map(|rest| format!("/registry/gadgets/{rest}")));
    assert_eq!(keys("/registry/sprockets/"), ["/registry/sprockets/x"]);

    assert_eq!(server.selected(specs, ""), "default/x default/y kube-system/x");
    assert_eq!(server.selected(endpoints, ""), "default/x");
    assert_eq!(server.selected(minions, ""), "x");
    assert_eq!(server.selected(specs, "metadata.namespace=default"), "default/x default/y");
    assert_eq!(server.selected(specs, "metadata.name=x"), "default/x kube-system/x");
    assert_eq!(server.selected(specs, "spec.color=blue"), "default/y");
    assert_eq!(server.selected(minions, "metadata.name=x"), "x");
    let page = |place: &str, remaining| (place.to_owned(), remaining);
    let of_specs = [page("default/x", Some(2)), page("default/y", Some(1)), page("kube-system/x", None)];
    assert_eq!(pages(server, &all(specs)), of_specs);
    assert_eq!(pages(server, &within(specs, "default")), [page("default/x", Some(1)), page("default/y", None)]);
    assert_eq!(pages(server, &all(minions)), [page("x", None)]);

    let first = ListOptions { limit: 1, ..ListOptions::default() };
    let token = server.list(&all(specs), &first).expect("listed").continue_token;
    let watched = [(all(specs), ""), (within(specs, "default"), "metadata.name=x"), (all(specs), "spec.color=green")];
    let mut busy = watched.map(|(at, fields)| server.watch(&at, fields));
    let mut quiet = [endpoints, minions].map(|resource| server.watch(&all(resource), ""));
    server.paint(specs, "default/x", "green");
    let deleted = block_on(registry.delete(&Actor::System, &target(specs, "default/y"), &DeleteOptions::default()));
    deleted.expect("it was there");
    server.create(specs, "kube-system/z", "red");
    assert_eq!(busy.each_mut().map(seen), ["~default/x -default/y +kube-system/z", "~default/x", "+default/x"]);

    let newest = block_on(store.revision(specs.prefix())).expect("the store answers");
    block_on(store.compact(specs.prefix(), newest)).expect("there");
    let expired = server.list(&all(specs), &ListOptions { continue_token: token, ..first });
    assert!(matches!(expired, Err(ApiError::Expired { .. })), "{expired:?}");
    server.paint(endpoints, "default/x", "green");
    server.paint(minions, "x", "green");
    assert_eq!(quiet.each_mut().map(seen), ["~default/x", "~x"], "who had nothing to see has lost nothing");

    let gone = block_on(registry.delete_collection(
        &Actor::System,
        &within(specs, "kube-system"),
        &ListOptions::default(),
        &DeleteOptions::default(),
    ));
    assert_eq!(places(&gone.expect("deleted")), "kube-system/x kube-system/z");
    assert_eq!(seen(&mut busy[0]), "-kube-system/x -kube-system/z");
    let missing = block_on(registry.get(&target(specs, "kube-system/z"), &GetOptions::default()));
    assert!(matches!(missing, Err(ApiError::NotFound { .. })), "{missing:?}");
    assert_eq!([specs, endpoints, minions].map(|resource| server.selected(resource, "")), ["default/x", "default/x", "x"]);
}

#[test]
fn verbs_do_the_same_wherever_a_kind_is_stored() {
    let server = Server::in_memory();
    fill(&server);
    check_verbs(&server);
}

#[test]
fn what_is_stored_elsewhere_is_found_after_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fill(&Server::in_folder(dir.path()));
    check_verbs(&Server::in_folder(dir.path()));
    let server = Server::in_folder(dir.path());
    let resources = [&server.specs, &server.endpoints, &server.minions];
    assert_eq!(resources.map(|resource| server.selected(resource, "")), ["default/x", "default/x", "x"]);
    assert_eq!(resources.map(|resource| server.selected(resource, "metadata.name=x")), ["default/x", "default/x", "x"]);
    assert_eq!(server.selected(&server.specs, "spec.color=green"), "default/x");
    let mut watch = server.watch(&all(&server.specs), "");
    server.paint(&server.specs, "default/x", "red");
    assert_eq!(seen(&mut watch), "~default/x");
}
