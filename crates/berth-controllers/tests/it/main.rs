//! The controllers over a real registry and the memory store, on one thread. The time advances only when no task can run.

mod cron_jobs;
mod faulty;
mod jobs;
mod kinds;
mod lags;
mod leads;
mod nodes;
mod quotas;
mod remote;
mod room;
mod second_writer;
mod services;
mod stateful_sets;
mod volumes;

use berth_api::FeatureGates;
use berth_controllers::{
    analysis::NoProviders,
    cluster::{Cluster, DeleteParams},
    guard::SecondWriters,
    manager::{ControllerManager, Enabled},
    metrics::Metrics,
};
use berth_env::{Env, testing::TestEnv, virtual_time::Process};
use berth_identity::{GroupResource, GroupVersionKind, ObjectKey};
use berth_local::LocalCluster;
use berth_registry::{Actor, Body, Collection, ListOptions, Registry, ResourceTable, WriteOptions};
use berth_store::MemoryStore;
use berth_workloads::{
    plan::Propagation,
    resources::{EVENTS, NAMESPACES, PODS, QUOTAS},
};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

const SETS: GroupResource = GroupResource::from_static("apps", "replicasets");
const DEPLOYMENTS: GroupResource = GroupResource::from_static("apps", "deployments");

/// How long the controllers get to converge: longer than every backoff.
const SETTLE: SignedDuration = SignedDuration::from_secs(20);

/// How long provisioning takes.
const PROVISION_LATENCY: Duration = Duration::from_secs(30);

struct Running {
    test_env: TestEnv,
    registry: Registry,
    cluster: Arc<LocalCluster>,
    metrics: Mutex<Vec<Arc<Metrics>>>,
}

impl Running {
    fn start(controllers: &str) -> Self {
        Self::start_with(controllers, "", "")
    }

    /// Starts with separate feature gates for the API server and the controllers.
    fn start_with(controllers: &str, api_gates: &str, controller_gates: &str) -> Self {
        Self::start_within(None, controllers, api_gates, controller_gates)
    }

    /// Starts over a store with this quota in bytes.
    fn start_within(quota: Option<u64>, controllers: &str, api_gates: &str, controller_gates: &str) -> Self {
        let gates = |text: &str| Arc::new(FeatureGates::parse(text).expect("known gates"));
        let test_env = TestEnv::default();
        test_env.run_for(SignedDuration::from_secs(1_800_000_000));
        let env: Env = test_env.env();
        let table = Arc::new(ResourceTable::default());
        let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 26).with_quota(quota));
        let registry = Registry::new(store, table, Arc::clone(&env.clock), Arc::clone(&env.rng), gates(api_gates));
        let cluster = Arc::new(LocalCluster::new(registry.clone(), env.clone()));
        let bootstrap = registry.clone();
        test_env.block_on(async move { bootstrap.bootstrap().await }).expect("an empty store");
        let running = Self { test_env, registry, cluster, metrics: Mutex::default() };
        running.run_controllers(controllers, gates(controller_gates));
        running
    }

    /// Starts controllers, and gives them time to reconcile the existing objects.
    fn run_controllers(&self, controllers: &str, gates: Arc<FeatureGates>) {
        self.run_controllers_over(Arc::<LocalCluster>::clone(&self.cluster), controllers, gates);
    }

    /// The same, over another cluster.
    fn run_controllers_over(&self, cluster: Arc<dyn Cluster>, controllers: &str, gates: Arc<FeatureGates>) {
        self.run_controllers_as(cluster, controllers, gates, SecondWriters::Stop);
    }

    /// The same, with controllers that stop where another controller acts, or do not check for it.
    fn run_controllers_as(&self, cluster: Arc<dyn Cluster>, controllers: &str, gates: Arc<FeatureGates>, second_writers: SecondWriters) {
        self.run_controllers_with(self.test_env.env(), cluster, controllers, gates, second_writers);
        self.settle();
    }

    /// Runs them in a separate process, which can be killed.
    fn run_controllers_in_a_process(&self, cluster: Arc<dyn Cluster>, controllers: &str) -> Process {
        let (env, process) = self.test_env.another();
        self.run_controllers_with(env, cluster, controllers, Arc::default(), SecondWriters::Ignore);
        self.settle();
        process
    }

    fn run_controllers_with(
        &self,
        env: Env,
        cluster: Arc<dyn Cluster>,
        controllers: &str,
        gates: Arc<FeatureGates>,
        second_writers: SecondWriters,
    ) {
        let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("an empty registry"));
        lock(&self.metrics).push(Arc::clone(&metrics));
        let enabled = Enabled::parse(controllers).expect("known names");
        let load_balancer_range = "198.51.100.0/24".parse().expect("a range");
        ControllerManager {
            cluster,
            env,
            gates,
            metrics,
            enabled,
            provision_latency: PROVISION_LATENCY,
            load_balancer_range,
            providers: Arc::new(NoProviders),
            signer: None,
            follower: None,
            usage: None,
            second_writers,
        }
        .start();
    }

    fn settle(&self) {
        self.test_env.run_for(SETTLE);
        assert!(!lock(&self.metrics).iter().any(|metrics| metrics.has_panics()), "a look panicked");
    }

    fn create(&self, namespace: Option<&str>, object: &Value) {
        let registry = self.registry.clone();
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        let resource =
            registry.resources().by_kind(&GroupVersionKind::as_written(text("apiVersion"), text("kind"))).cloned().expect("served");
        let at = Collection { resource, namespace: namespace.map(str::to_owned) };
        let body = Body::Json(object.to_string().into_bytes());
        self.test_env
            .block_on(async move { registry.create(&Actor::System, &at, body, &WriteOptions::default()).await })
            .expect("a valid object");
    }

    fn list(&self, resource: GroupResource) -> Vec<Value> {
        let registry = self.registry.clone();
        let resource = registry.resources().by_name(&resource).cloned().expect("served");
        let at = Collection { resource, namespace: None };
        let list = self.test_env.block_on(async move { registry.list(&Actor::System, &at, &ListOptions::default()).await });
        let items = list.expect("a list").items;
        items.iter().map(|entry| serde_json::from_slice(&entry.value).expect("stored JSON")).collect()
    }

    fn count(&self, resource: GroupResource) -> usize {
        self.list(resource).len()
    }

    fn patch(&self, resource: GroupResource, name: &str, patch: Value) {
        let (cluster, key) = (Arc::clone(&self.cluster), key(resource.clone(), name));
        self.test_env.block_on(async move { cluster.patch(resource, &key, None, patch).await }).expect("a valid patch");
    }

    fn delete(&self, resource: GroupResource, name: &str, propagation: Option<Propagation>) {
        let (cluster, key) = (Arc::clone(&self.cluster), key(resource.clone(), name));
        let params = DeleteParams { propagation, ..DeleteParams::default() };
        self.test_env.block_on(async move { cluster.delete(resource, &key, params).await }).expect("it is there");
    }

    fn events(&self) -> Vec<(String, String)> {
        let events = self.list(EVENTS);
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key(resource: GroupResource, name: &str) -> ObjectKey {
    ObjectKey::new(if resource == NAMESPACES { "" } else { "default" }, name)
}

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "main"}]},
            },
        },
    })
}

#[test]
fn a_deployment_becomes_a_set_and_pods() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    let (sets, pods) = (running.list(SETS), running.list(PODS));
    assert_eq!((sets.len(), pods.len()), (1, 3));
    let set = &sets[0];
    assert_eq!((&set["status"]["replicas"], &set["status"]["observedGeneration"]), (&json!(3), &json!(1)));
    for pod in &pods {
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
        assert_eq!(pod["metadata"]["generateName"], json!(format!("{}-", set["metadata"]["name"].as_str().unwrap_or_default())));
    }
    let deployment = &running.list(DEPLOYMENTS)[0];
    assert_eq!((&deployment["status"]["replicas"], &deployment["status"]["unavailableReplicas"]), (&json!(3), &json!(3)));
    let created = running.events().into_iter().filter(|(reason, _)| reason == "SuccessfulCreate").count();
    assert_eq!(created, 3);
}

#[test]
fn scaling_creates_and_deletes_just_what_is_asked() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 10));
    running.settle();
    for replicas in [700, 4, 0, 1] {
        running.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": replicas}}));
        running.settle();
        assert_eq!(running.count(PODS), replicas);
    }
}

#[test]
fn a_pod_that_is_deleted_is_replaced_and_one_that_is_relabelled_released() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 2));
    running.settle();
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let first = name(&running.list(PODS)[0]);
    running.delete(PODS, &first, None);
    running.settle();
    let pods = running.list(PODS);
    assert!(pods.len() == 2 && pods.iter().all(|pod| name(pod) != first));
    running.patch(PODS, &name(&pods[0]), json!({"metadata": {"labels": {"app": "other"}}}));
    running.settle();
    let pods = running.list(PODS);
    let orphans = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"].is_null()).count();
    assert_eq!((pods.len(), orphans), (3, 1));
}

#[test]
fn background_deletion_removes_all_and_waits_for_nothing() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    running.delete(DEPLOYMENTS, "web", Some(Propagation::Background));
    assert_eq!(running.count(DEPLOYMENTS), 0);
    running.settle();
    assert_eq!((running.count(SETS), running.count(PODS)), (0, 0));
}

#[test]
fn foreground_deletion_ends_with_the_owner() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    let pod = running.list(PODS)[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    running.patch(PODS, &pod, json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    running.delete(DEPLOYMENTS, "web", Some(Propagation::Foreground));
    running.settle();
    assert_eq!((running.count(DEPLOYMENTS), running.count(SETS), running.count(PODS)), (1, 1, 1), "the pod that is held holds its owners");
    running.patch(PODS, &pod, json!({"metadata": {"finalizers": null}}));
    running.settle();
    assert_eq!((running.count(DEPLOYMENTS), running.count(SETS), running.count(PODS)), (0, 0, 0));
}

#[test]
fn orphaned_sets_stay_and_are_adopted_by_a_successor() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    let uid = |sets: Vec<Value>| sets.iter().map(|set| set["metadata"]["uid"].to_string()).collect::<Vec<_>>();
    let (before, pods) = (uid(running.list(SETS)), uid(running.list(PODS)));
    running.delete(DEPLOYMENTS, "web", Some(Propagation::Orphan));
    running.settle();
    let sets = running.list(SETS);
    assert_eq!((running.count(DEPLOYMENTS), &sets[0]["metadata"]["ownerReferences"]), (0, &Value::Null));
    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    assert_eq!((uid(running.list(SETS)), uid(running.list(PODS))), (before, pods));
    assert!(running.list(SETS)[0]["metadata"]["ownerReferences"].is_array());
}

#[test]
fn an_object_whose_owner_never_was_is_collected() {
    let running = Running::start("garbagecollector");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "1-2-3"});
    let metadata = json!({"name": "lost", "ownerReferences": [owner]});
    running.create(Some("default"), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    running.settle();
    assert_eq!(running.count(GroupResource::from_static("", "configmaps")), 0);
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    let running = Running::start("*");
    running.create(None, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
    running.settle();
    let accounts = GroupResource::from_static("", "serviceaccounts");
    let has_account = |namespace: &str| running.list(accounts.clone()).iter().any(|account| account["metadata"]["namespace"] == namespace);
    assert!(has_account("team") && has_account("default"));
    running.create(Some("team"), &deployment("web", 5));
    running.settle();
    assert_eq!(running.count(PODS), 5);
    running.delete(NAMESPACES, "team", None);
    running.settle();
    let namespaces = running.list(NAMESPACES);
    assert!(namespaces.iter().all(|namespace| namespace["metadata"]["name"] != "team"), "{namespaces:#?}");
    assert_eq!((running.count(PODS), running.count(SETS), running.count(DEPLOYMENTS), has_account("team")), (0, 0, 0, false));
}

#[test]
fn a_namespace_keeps_the_rest_until_its_last_pod_is_gone() {
    let running = Running::start("*");
    running.create(None, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
    let held = |kind: &str, name: &str, finalizers: &[&str]| {
        let spec = if kind == "Pod" { json!({"containers": [{"name": "c", "image": "i"}]}) } else { json!(null) };
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "finalizers": finalizers}, "spec": spec})
    };
    running.create(Some("team"), &held("Pod", "held", &["e.com/a"]));
    running.create(Some("team"), &held("Pod", "free", &[]));
    running.create(Some("team"), &held("ConfigMap", "settings", &["e.com/b"]));
    running.create(
        Some("team"),
        &json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "wall"}, "spec": {"podSelector": {}}}),
    );
    running.create(Some("team"), &deployment("web", 1));
    running.settle();
    let of_team = |group: &'static str, plural: &'static str| -> Vec<(String, bool)> {
        let all = running.list(GroupResource::new(group, plural));
        let all = all.iter().map(|object| &object["metadata"]).filter(|meta| meta["namespace"] == "team");
        all.map(|meta| (meta["name"].as_str().unwrap_or_default().to_owned(), meta.get("deletionTimestamp").is_some())).collect()
    };
    let condition = |type_: &str| {
        let namespaces = running.list(NAMESPACES);
        let team = namespaces.iter().find(|namespace| namespace["metadata"]["name"] == "team").expect("it is left");
        let conditions = team["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
        format!("{} {}", found["reason"].as_str().unwrap_or_default(), found["message"].as_str().unwrap_or_default())
    };
    let release = |resource: GroupResource, name: &str| {
        let (cluster, key) = (Arc::clone(&running.cluster), ObjectKey::new("team", name));
        running
            .test_env
            .block_on(async move { cluster.patch(resource, &key, None, json!({"metadata": {"finalizers": null}})).await })
            .expect("valid");
        running.settle();
    };
    let config_maps = GroupResource::from_static("", "configmaps");
    let there = |name: &str, is_leaving: bool| (name.to_owned(), is_leaving);

    running.delete(NAMESPACES, "team", None);
    running.settle();
    assert_eq!(of_team("", "pods"), [there("held", true)]);
    assert!(of_team("", "configmaps").contains(&there("settings", false)));
    assert_eq!(of_team("networking.k8s.io", "networkpolicies"), [there("wall", false)]);
    assert_eq!(of_team("apps", "deployments"), [there("web", false)]);
    let left = condition("NamespaceContentRemaining");
    assert!(left.starts_with("SomeResourcesRemain Some resources are remaining: "), "{left}");
    for part in ["pods. has 1 resource instances", "deployments.apps has 1 resource instances", "networkpolicies.networking.k8s.io has 1"] {
        assert!(left.contains(part), "{left}");
    }
    let finalizers = condition("NamespaceFinalizersRemaining");
    assert!(finalizers.contains("e.com/a in 1 resource instances"), "{finalizers}");

    release(PODS, "held");
    assert_eq!(
        (of_team("", "pods"), of_team("networking.k8s.io", "networkpolicies"), of_team("apps", "deployments")),
        (vec![], vec![], vec![])
    );
    assert_eq!(of_team("", "configmaps"), [there("settings", true)]);
    assert_eq!(
        condition("NamespaceContentRemaining"),
        "SomeResourcesRemain Some resources are remaining: configmaps. has 1 resource instances"
    );

    release(config_maps, "settings");
    assert!(running.list(NAMESPACES).iter().all(|namespace| namespace["metadata"]["name"] != "team"));
}

#[test]
fn pods_of_a_node_that_is_gone_are_removed_and_replaced() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 2));
    running.settle();
    let pod = running.list(PODS)[0]["metadata"].clone();
    let (cluster, key) = (Arc::clone(&running.cluster), key(PODS, pod["name"].as_str().unwrap_or_default()));
    let uid = pod["uid"].as_str().unwrap_or_default().into();
    running.test_env.block_on(async move { cluster.bind(&key, &uid, "no-such-node").await }).expect("an unbound pod");
    running.test_env.run_for(SignedDuration::from_secs(90));
    let pods = running.list(PODS);
    assert!(pods.len() == 2 && pods.iter().all(|other| other["metadata"]["uid"] != pod["uid"]));
}

fn quota(pods: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": pods}}})
}

/// A Deployment of four pods under a quota of two, after the backoff has reached its maximum.
fn waiting_for_quota() -> Running {
    let running = Running::start("*");
    running.create(Some("default"), &quota("2"));
    running.settle();
    running.create(Some("default"), &deployment("web", 4));
    running.settle();
    running.settle();
    let status = &running.list(QUOTAS)[0]["status"];
    assert_eq!((running.count(PODS), status), (2, &json!({"hard": {"pods": "2"}, "used": {"pods": "2"}})));
    running
}

/// At most a second passes.
fn a_second_later(running: &Running) -> usize {
    running.test_env.run_for(SignedDuration::from_millis(900));
    running.count(PODS)
}

#[test]
fn a_set_that_a_quota_refused_goes_on_within_a_second_of_more_room() {
    let running = waiting_for_quota();
    let failure = &running.list(SETS)[0]["status"]["conditions"][0];
    assert_eq!(failure["reason"], "FailedCreate", "{failure}");
    assert!(failure["message"].as_str().is_some_and(|text| text.contains("exceeded quota: q, requested: pods=1")), "{failure}");
    running.patch(QUOTAS, "q", json!({"spec": {"hard": {"pods": "3"}}}));
    assert_eq!(a_second_later(&running), 3);
    running.settle();
    assert_eq!(running.count(PODS), 3);
    running.delete(QUOTAS, "q", None);
    assert_eq!(a_second_later(&running), 4);
}

#[test]
fn a_set_that_a_quota_refused_takes_the_place_of_a_pod_that_went() {
    let running = waiting_for_quota();
    let name = running.list(PODS)[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    running.delete(PODS, &name, None);
    assert_eq!(a_second_later(&running), 2);
    assert!(running.list(PODS).iter().all(|pod| pod["metadata"]["name"] != name.as_str()));
    running.settle();
    assert_eq!((running.count(PODS), &running.list(QUOTAS)[0]["status"]["used"]), (2, &json!({"pods": "2"})));
}

#[test]
fn pods_that_went_one_after_another_have_their_places_taken_together() {
    let running = Running::start("*");
    running.create(Some("default"), &quota("4"));
    running.settle();
    running.create(Some("default"), &deployment("web", 8));
    running.settle();
    let names = || -> Vec<String> {
        running.list(PODS).iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let old = names();
    for name in &old[..3] {
        running.delete(PODS, name, None);
        running.test_env.run_for(SignedDuration::from_millis(5));
    }
    // The room of the first pod was available 15 ms ago.
    assert_eq!(running.count(PODS), 1);
    running.test_env.run_for(SignedDuration::from_millis(30));
    assert_eq!((running.count(PODS), names().iter().filter(|name| old.contains(name)).count()), (4, 1));
}

/// A Deployment whose pods admission rejects, and its set's message about it.
fn refused(prepare: impl FnOnce(&Running), patch: Value) -> (Running, String) {
    let running = Running::start("*");
    prepare(&running);
    let mut refused = deployment("web", 2);
    refused["spec"]["template"]["spec"]["containers"][0]
        .as_object_mut()
        .expect("a container")
        .extend(patch.as_object().expect("an object").clone());
    running.create(Some("default"), &refused);
    running.settle();
    let failure = running.list(SETS)[0]["status"]["conditions"][0].clone();
    assert_eq!((running.count(PODS), &failure["type"], &failure["reason"]), (0, &json!("ReplicaFailure"), &json!("FailedCreate")));
    let message = failure["message"].as_str().unwrap_or_default().to_owned();
    let events = running.events();
    let told = events.iter().any(|(reason, text)| reason == "FailedCreate" && text == &format!("Error creating: {message}"));
    assert!(told, "{message}: {events:?}");
    (running, message)
}

#[test]
fn a_set_reports_which_security_level_its_pods_violate_and_continues_when_it_is_relaxed() {
    let level = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let enforce = |running: &Running| running.patch(NAMESPACES, "default", level("baseline"));
    let (running, message) = refused(enforce, json!({"securityContext": {"privileged": true}}));
    assert!(message.contains("is forbidden: violates PodSecurity \"baseline:latest\": privileged (container "), "{message}");
    running.patch(NAMESPACES, "default", level("privileged"));
    running.settle();
    assert_eq!(running.count(PODS), 2);
}

#[test]
fn a_set_reports_which_limit_its_pods_exceed() {
    let limits = json!([{"type": "Container", "max": {"memory": "1Gi"}}]);
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}});
    let bound = |running: &Running| running.create(Some("default"), &range);
    let (_, message) = refused(bound, json!({"resources": {"limits": {"memory": "2Gi"}}}));
    assert!(message.ends_with("is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi"), "{message}");
}

#[test]
fn a_quota_counts_objects_and_amounts_that_were_there_before() {
    let running = Running::start("*");
    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    let hard = json!({"pods": "9", "count/deployments.apps": "9", "configmaps": "9", "requests.cpu": "1", "services": "5"});
    running
        .create(Some("default"), &json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}));
    running.settle();
    let used = json!({"pods": "3", "count/deployments.apps": "1", "configmaps": "0", "requests.cpu": "0", "services": "0"});
    assert_eq!(running.list(QUOTAS)[0]["status"], json!({"hard": hard, "used": used}));
    running.delete(DEPLOYMENTS, "web", None);
    running.settle();
    let used = &running.list(QUOTAS)[0]["status"]["used"];
    assert_eq!((&used["pods"], &used["count/deployments.apps"]), (&json!("0"), &json!("0")));
}

#[test]
fn sets_that_compete_for_a_quota_never_pass_it() {
    let running = Running::start("*");
    running.create(Some("default"), &quota("5"));
    running.settle();
    for name in ["a", "b", "c"] {
        running.create(Some("default"), &deployment(name, 4));
    }
    for _ in 0..100 {
        running.test_env.run_for(SignedDuration::from_millis(20));
        assert!(running.count(PODS) <= 5);
    }
    assert_eq!(running.count(PODS), 5);
}
