//! Kinds that appear and disappear while the controllers run.

#[path = "../../../berth-apiserver/tests/it/common/widget.rs"]
mod widget;

use super::*;
use berth_controllers::metadata::MetaCaches;
use berth_kinds::Definition;
use futures::FutureExt;
use std::sync::{Mutex, Weak};

const WIDGETS: GroupResource = GroupResource::from_static("example.com", "widgets");
const CONFIG_MAPS: GroupResource = GroupResource::from_static("", "configmaps");

fn widgets() -> Definition {
    widget::widgets("example.com/v1", &[])
}

fn object(api_version: &str, kind: &str, name: &str, owner: Option<&Value>) -> Value {
    let owners = owner.map(|owner| {
        let (api_version, kind, meta) = (&owner["apiVersion"], &owner["kind"], &owner["metadata"]);
        json!([{"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "blockOwnerDeletion": true}])
    });
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "ownerReferences": owners}})
}

fn a_widget(name: &str, owner: Option<&Value>) -> Value {
    object("example.com/v1", "Widget", name, owner)
}

fn a_config_map(name: &str, owner: Option<&Value>) -> Value {
    object("v1", "ConfigMap", name, owner)
}

impl Running {
    /// Serves widgets.
    fn add_widgets(&self) {
        self.registry.table().define(widgets()).expect("nothing is called so");
    }

    /// Stops serving widgets. Existing ones remain in the store.
    fn remove_widgets(&self) {
        self.registry.table().undefine(&WIDGETS);
    }

    fn names(&self, resource: GroupResource) -> Vec<String> {
        let all = self.list(resource);
        let own = all.iter().map(|object| &object["metadata"]).filter(|meta| meta["name"] != "kube-root-ca.crt");
        own.map(|meta| meta["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn create_namespace(&self, name: &str) {
        self.create(None, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
}

#[test]
fn a_namespace_goes_with_the_objects_of_an_added_kind() {
    let running = Running::start("*");
    running.add_widgets();
    running.create_namespace("shop");
    running.create(Some("shop"), &a_widget("w", None));
    running.create(Some("default"), &a_widget("other", None));
    running.settle();
    running.delete(NAMESPACES, "shop", None);
    running.settle();
    assert!(!running.names(NAMESPACES).contains(&"shop".to_owned()));
    assert_eq!(running.names(WIDGETS), ["other"]);
}

/// This holds whatever the controllers have observed by then, and also if the namespace was reconciled before, without the kind.
#[test]
fn a_namespace_goes_with_objects_whose_kind_comes_back_while_it_goes() {
    for was_looked_at in [false, true] {
        let moments = (0..).take_while(|polls| goes_with_objects_whose_kind_comes_back_after(*polls, was_looked_at)).count();
        assert!(moments > 10, "{moments}: the namespace was gone before anything could happen");
    }
}

/// Returns `false` if the namespace is deleted after so many polls.
fn goes_with_objects_whose_kind_comes_back_after(polls: usize, was_looked_at: bool) -> bool {
    let running = Running::start("namespace");
    running.add_widgets();
    running.create_namespace("shop");
    running.create(Some("shop"), &a_widget("w", None));
    running.create(Some("shop"), &a_config_map("m", None));
    running.settle();
    running.remove_widgets();
    running.settle();
    let hold = |finalizers: Value| {
        let (cluster, key) = (Arc::clone(&running.cluster), ObjectKey::new("shop", "m"));
        let patch = json!({"metadata": {"finalizers": finalizers}});
        running.test_env.block_on(async move { cluster.patch(CONFIG_MAPS, &key, None, patch).await }).expect("a valid patch");
    };
    if was_looked_at {
        hold(json!(["example.com/hold"]));
    }
    running.delete(NAMESPACES, "shop", None);
    if was_looked_at {
        running.settle();
        hold(Value::Null);
    }
    running.test_env.poll(polls);
    let namespace = running.cluster.get(NAMESPACES, &key(NAMESPACES, "shop")).now_or_never().expect("memory answers at once");
    let is_there = namespace.expect("an answer").is_some();
    running.add_widgets();
    running.settle();
    assert!(!running.names(NAMESPACES).contains(&"shop".to_owned()), "{polls} {was_looked_at}");
    assert_eq!(running.names(WIDGETS).is_empty(), is_there, "{polls} {was_looked_at}");
    is_there
}

#[test]
fn a_namespace_goes_whose_last_objects_are_of_a_kind_that_is_served_no_more() {
    let running = Running::start("*");
    running.add_widgets();
    running.create_namespace("shop");
    running.create(Some("shop"), &a_widget("w", None));
    let finalizers = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let (cluster, key) = (Arc::clone(&running.cluster), ObjectKey::new("shop", "w"));
    running.test_env.block_on(async move { cluster.patch(WIDGETS, &key, None, finalizers).await }).expect("a valid patch");
    running.delete(NAMESPACES, "shop", None);
    running.settle();
    assert!(running.names(NAMESPACES).contains(&"shop".to_owned()), "the widget is held");
    running.remove_widgets();
    running.settle();
    assert!(!running.names(NAMESPACES).contains(&"shop".to_owned()));
}

#[test]
fn objects_go_with_owners_of_an_added_kind_in_the_way_that_was_asked_for() {
    for (propagation, left) in
        [(Propagation::Background, vec![]), (Propagation::Foreground, vec![]), (Propagation::Orphan, vec!["m".to_owned()])]
    {
        let running = Running::start("*");
        running.add_widgets();
        running.create(Some("default"), &a_widget("w", None));
        running.create(Some("default"), &a_config_map("m", Some(&running.list(WIDGETS)[0])));
        running.settle();
        assert_eq!(running.names(CONFIG_MAPS), ["m"], "its owner is there");
        running.patch(CONFIG_MAPS, "m", json!({"metadata": {"finalizers": ["example.com/hold"]}}));
        running.delete(WIDGETS, "w", Some(propagation));
        running.settle();
        assert_eq!(running.count(WIDGETS), usize::from(propagation == Propagation::Foreground), "{propagation:?}");
        running.patch(CONFIG_MAPS, "m", json!({"metadata": {"finalizers": null}}));
        running.settle();
        assert_eq!((running.names(CONFIG_MAPS), running.count(WIDGETS)), (left, 0), "{propagation:?}");
        assert!(running.list(CONFIG_MAPS).iter().all(|map| map["metadata"].get("ownerReferences").is_none()), "{propagation:?}");
    }
}

#[test]
fn objects_of_an_added_kind_go_with_their_owners() {
    let running = Running::start("*");
    running.add_widgets();
    running.create(Some("default"), &a_config_map("m", None));
    let owner = running.list(CONFIG_MAPS).into_iter().find(|map| map["metadata"]["name"] == "m").expect("it is there");
    running.create(Some("default"), &a_widget("w", Some(&owner)));
    running.settle();
    assert_eq!(running.names(WIDGETS), ["w"]);
    running.delete(CONFIG_MAPS, "m", None);
    running.settle();
    assert_eq!(running.names(WIDGETS), Vec::<String>::new());
}

#[test]
fn nothing_goes_because_its_owners_kind_is_served_no_more() {
    let running = Running::start("*");
    running.add_widgets();
    running.create(Some("default"), &a_widget("w", None));
    running.create(Some("default"), &a_config_map("m", Some(&running.list(WIDGETS)[0])));
    running.settle();
    running.remove_widgets();
    running.settle();
    assert_eq!(running.names(CONFIG_MAPS), ["m"]);
    running.add_widgets();
    running.settle();
    assert_eq!(running.names(CONFIG_MAPS), ["m"]);
    running.delete(WIDGETS, "w", None);
    running.settle();
    assert_eq!(running.names(CONFIG_MAPS), Vec::<String>::new());
}

#[test]
fn a_quota_counts_what_there_is_of_an_added_kind() {
    let running = Running::start("*");
    running.add_widgets();
    running.create(Some("default"), &a_widget("w", None));
    let hard = json!({"count/widgets.example.com": "5"});
    running
        .create(Some("default"), &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}));
    running.settle();
    let used = |count: &str| assert_eq!(running.list(QUOTAS)[0]["status"]["used"], json!({"count/widgets.example.com": count}));
    used("1");
    running.delete(WIDGETS, "w", None);
    running.settle();
    used("0");
}

#[test]
fn the_cache_of_a_kind_is_there_for_as_long_as_that_is_served() {
    let running = Running::start("-*");
    let (env, metrics) = (running.test_env.env(), Arc::new(Metrics::new(&prometheus::Registry::new()).expect("an empty registry")));
    let (caches, told) = (Arc::new(MetaCaches::default()), Arc::<Mutex<Vec<String>>>::default());
    let seen = Arc::clone(&told);
    caches.on_kind(move |kind, cache| {
        let (seen, is_widgets) = (Arc::clone(&seen), kind.resource == WIDGETS);
        cache.on_change(move |delta| {
            let sides = [&delta.old, &delta.new].map(|side| side.as_ref().map_or("-", |object| &*object.name).to_owned());
            if is_widgets {
                lock(&seen).push(sides.join(" "));
            }
        });
    });
    let cluster: Arc<dyn Cluster> = Arc::<LocalCluster>::clone(&running.cluster);
    caches.start(&cluster, &env.spawner, &metrics);
    running.settle();
    assert!(caches.of(&PODS).is_some() && caches.of(&WIDGETS).is_none());
    running.add_widgets();
    running.create(Some("default"), &a_widget("w", None));
    running.settle();
    let cache: Weak<_> = Arc::downgrade(&caches.of(&WIDGETS).expect("it is served"));
    assert_eq!(cache.upgrade().map(|cache| cache.read().len()), Some(1));
    running.remove_widgets();
    running.settle();
    assert!(caches.of(&WIDGETS).is_none() && cache.upgrade().is_none());
    assert_eq!(*lock(&told), ["- w", "w -"], "who follows is told that nothing is there any more");
    running.add_widgets();
    running.settle();
    assert_eq!(caches.of(&WIDGETS).map(|cache| cache.read().len()), Some(1), "objects outlive their kind");
}
