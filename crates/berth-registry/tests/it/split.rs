//! Resources in separate backing stores, whose revisions are independent.

use crate::test_cluster::{TestCluster, config_map, now};
use berth_rbac::{Attributes, ResourceAttributes, User};
use berth_registry::{ApiError, DeleteOptions, ListOptions, ResourceTable, WatchEvent, WatchOptions};
use berth_store::{Entry, Key, MemoryStore, Range, RangeRequest, ReadError, Revision, Store, Watch, Write, WriteError};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use serde_json::{Value, json};
use std::sync::Arc;

/// Two stores in the form of one.
struct Split {
    rest: Arc<MemoryStore>,
    /// The key prefix of the other store.
    prefix: &'static str,
    /// Its revisions are far ahead of the first store's.
    apart: MemoryStore,
}

impl Split {
    fn of(&self, text: &str) -> &MemoryStore {
        if text.starts_with(self.prefix) { &self.apart } else { &self.rest }
    }
}

impl Store for Split {
    fn revision(&self, prefix: &str) -> BoxFuture<'_, Result<Revision, ReadError>> {
        self.of(prefix).revision(prefix)
    }

    fn get(&self, key: &Key) -> BoxFuture<'_, Result<Option<Arc<Entry>>, ReadError>> {
        self.of(key.as_str()).get(key)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Range, ReadError>> {
        self.of(&request.prefix).range(request)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, WriteError>> {
        self.of(writes[0].key.as_str()).commit(writes)
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, ReadError> {
        self.of(prefix).watch(prefix, after)
    }

    fn compact(&self, prefix: &str, revision: Revision) -> BoxFuture<'_, Result<(), ReadError>> {
        self.of(prefix).compact(prefix, revision)
    }
}

fn cluster(prefix: &'static str) -> TestCluster {
    TestCluster::over(|| {
        let rest = Arc::new(MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24));
        let apart = MemoryStore::new(Arc::<ResourceTable>::default(), 1 << 24).with_revision_step(1000);
        (Arc::clone(&rest), Arc::new(Split { rest, prefix, apart }))
    })
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
}

#[test]
fn what_is_kept_apart_has_versions_of_its_own() {
    let cluster = cluster("/registry/configmaps/");
    let before = cluster.revision();
    let made: Vec<Value> = ["a", "b", "c"].map(|name| cluster.made("configmaps", config_map(name))).into();
    assert_eq!(made.iter().map(version).collect::<Vec<_>>(), [1000, 2000, 3000]);
    assert_eq!(cluster.revision(), before, "the rest has seen no write");
    cluster.made("secrets", json!({"metadata": {"name": "s"}}));

    let first = cluster.list("configmaps", &ListOptions { limit: 2, ..ListOptions::default() }).expect("listed");
    assert_eq!(first.revision, Revision(3000));
    cluster.delete("configmaps", "c", &DeleteOptions::default()).expect("deleted");
    let rest = ListOptions { limit: 2, continue_token: first.continue_token, ..ListOptions::default() };
    assert_eq!(cluster.names("configmaps", &rest), ["c"], "as of the first page");

    let behind = |version: u64| WatchOptions { resource_version: version.to_string(), ..WatchOptions::default() };
    let mut watch = cluster.watch("configmaps", &behind(2000));
    let Some(Some(WatchEvent::Added(added))) = watch.next().now_or_never() else { panic!("added behind the version") };
    assert_eq!(added.mod_revision, Revision(3000));
    let Some(Some(WatchEvent::Deleted { revision, .. })) = watch.next().now_or_never() else { panic!("deleted behind it") };
    assert_eq!(revision, Revision(4000));

    let exactly = ListOptions { resource_version: "3000".to_owned(), resource_version_match: "Exact".to_owned(), ..ListOptions::default() };
    assert_eq!(cluster.names("configmaps", &exactly), ["a", "b", "c"]);
    let stale = json!({"metadata": {"resourceVersion": "1000"}, "data": {"k": "v"}});
    cluster.merge("configmaps", "a", stale.clone()).expect("as it is");
    assert!(matches!(cluster.merge("configmaps", "a", stale), Err(ApiError::Conflict { .. })));
}

#[test]
fn rights_are_known_whichever_backing_store_keeps_their_parts() {
    for apart in ["rolebindings", "roles", "clusterroles"] {
        let cluster = cluster(match apart {
            "rolebindings" => "/registry/rolebindings/",
            "roles" => "/registry/roles/",
            _ => "/registry/clusterroles/",
        });
        let user = User::authenticated("alice", &[]);
        let may = || {
            let attributes = ResourceAttributes { verb: "get", resource: "pods", namespace: "default", ..ResourceAttributes::default() };
            now(cluster.registry.decide(&user, &Attributes::from(attributes))).expect("the store answers").is_some()
        };
        assert!(!may());
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        cluster.made("roles.rbac.authorization.k8s.io", json!({"metadata": {"name": "r"}, "rules": rules}));
        let subjects = json!([{"kind": "User", "name": "alice"}]);
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects});
        cluster.made("rolebindings.rbac.authorization.k8s.io", binding);
        assert!(may(), "{apart}");
        cluster.delete("roles.rbac.authorization.k8s.io", "r", &DeleteOptions::default()).expect("deleted");
        assert!(!may(), "{apart}");
    }
}
