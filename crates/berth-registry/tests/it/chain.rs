//! Reviewers: when the chain calls them, what they get, and the effects of their responses.

use crate::test_cluster::{Constant, TestCluster, config_map, deployment, json_of, now, pod, target, turns};
use berth_api::{
    Object,
    k8s_openapi::api::{
        autoscaling::v1::{Scale, ScaleSpec},
        core::v1::{Binding, ConfigMap, Container, Pod},
        policy::v1::Eviction,
    },
};
use berth_identity::GroupResource;
use berth_registry::{
    ADMISSION_ORDER, Actor, AdmissionRequest, ApiError, Body, BoxObject, Collection, DeleteOptions, ListOptions, Patch, Registry,
    Reinvocation, Remarks, ResourceTable, Reviewer, WriteOptions, options::Precondition,
};
use berth_store::{
    MemoryStore,
    env::{Clock, Timestamp},
};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use serde_json::{Value, json};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    task::Poll,
};

type Change = Box<dyn Fn(&AdmissionRequest<'_>, &mut dyn Object) -> Result<Remarks, ApiError> + Send + Sync>;
type Validate = Box<dyn Fn(&AdmissionRequest<'_>, Option<&dyn Object>) -> Result<Remarks, ApiError> + Send + Sync>;

/// A reviewer that responds as a test requires, after a delay, and records its calls.
struct Outside {
    asked: Mutex<Vec<String>>,
    change: Change,
    decide: Validate,
}

/// Yields once, as every real reviewer does.
async fn wait() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Outside {
    fn note(&self, method: &str, request: &AdmissionRequest<'_>, object: Option<&dyn Object>) {
        let AdmissionRequest { operation, resource, subresource, namespace, name, is_dry_run, old, .. } = *request;
        let kinds = [old, object].map(|object| object.map_or("-", Object::kind));
        let what = subresource.map_or_else(|| resource.plural().to_string(), |sub| format!("{}/{}", resource.plural(), sub.as_str()));
        let (at, dry) = (namespace.map_or_else(String::new, |at| format!("{at}/")), if is_dry_run { " dry" } else { "" });
        let text = format!("{method} {operation:?} {what} {at}{name} {} {}{dry}", kinds[0], kinds[1]);
        self.asked.lock().expect("no test panics with it").push(text);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("no test panics with it"))
    }
}

impl Reviewer for Outside {
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut BoxObject>,
        _: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        async move {
            wait().await;
            self.note("mutate", request, object.as_deref().map(|object| &**object));
            object.map_or(Ok(Remarks::default()), |object| (self.change)(request, &mut **object))
        }
        .boxed()
    }

    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>> {
        async move {
            wait().await;
            self.note("validate", request, object);
            (self.decide)(request, object)
        }
        .boxed()
    }
}

fn changes_nothing() -> Change {
    Box::new(|_, _| Ok(Remarks::default()))
}

fn accepts() -> Validate {
    Box::new(|_, _| Ok(Remarks::default()))
}

fn no() -> ApiError {
    ApiError::Forbidden {
        resource: GroupResource::default(),
        name: String::new(),
        message: "no".to_owned(),
        causes: Vec::new(),
        refused_by: None,
    }
}

/// Returns the test cluster's API with a reviewer.
fn asking(cluster: &TestCluster, change: Change, decide: Validate) -> (Registry, Arc<Outside>) {
    let outside = Arc::new(Outside { asked: Mutex::default(), change, decide });
    (cluster.registry.clone().with_reviewers(vec![Arc::clone(&outside) as Arc<dyn Reviewer>]), outside)
}

/// Returns the result of a future that waits only for reviewers.
fn done<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Some(output) = future.as_mut().now_or_never() {
            return output;
        }
    }
}

fn collection(what: &str) -> Collection {
    crate::test_cluster::collection(what)
}

fn body(object: &Value) -> Body {
    Body::Json(object.to_string().into_bytes())
}

fn create(api: &Registry, what: &str, object: &Value) -> Result<Value, ApiError> {
    done(api.create(&Actor::System, &collection(what), body(object), &WriteOptions::default())).map(|written| json_of(&written.object))
}

fn merge(api: &Registry, what: &str, name: &str, patch: &Value) -> Result<Value, ApiError> {
    let patch = Patch::Merge(patch.to_string().into_bytes());
    done(api.patch(&Actor::System, &target(what, name), patch, &WriteOptions::default())).map(|written| json_of(&written.object))
}

fn post(api: &Registry, what: &str, name: &str, object: &Value) -> Result<Value, ApiError> {
    done(api.create_subresource(&Actor::System, &target(what, name), body(object), &WriteOptions::default()))
        .map(|written| json_of(&written.object))
}

fn apply(api: &Registry, what: &str, name: &str, object: &Value) {
    let options = WriteOptions { field_manager: "m".to_owned(), ..WriteOptions::default() };
    done(api.patch(&Actor::System, &target(what, name), Patch::Apply(object.to_string().into_bytes()), &options)).expect("applied");
}

/// Creates an unused quota.
fn quota(cluster: &TestCluster, hard: &Value) {
    cluster.made("resourcequotas", json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}));
    let used: serde_json::Map<String, Value> = hard.as_object().expect("an object").keys().map(|name| (name.clone(), "0".into())).collect();
    cluster.merge("resourcequotas/status", "q", json!({"status": {"hard": hard, "used": used}})).expect("a status");
}

fn used(cluster: &TestCluster) -> Value {
    cluster.get("resourcequotas", "q").expect("there")["status"]["used"].clone()
}

/// Creates a running pod that its budget counts.
fn running(cluster: &TestCluster, name: &str) {
    cluster.made("pods", pod(name));
    let node = json!({"target": {"kind": "Node", "name": "n"}});
    cluster.post("pods/binding", name, node).expect("bound");
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge("pods/status", name, status).expect("a status");
}

fn budget(cluster: &TestCluster) {
    let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1});
    cluster.made("poddisruptionbudgets.policy", json!({"metadata": {"name": "b"}, "spec": spec}));
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
        "expectedPods": 2}});
    cluster.merge("poddisruptionbudgets.policy/status", "b", status).expect("a status");
}

fn allowed(cluster: &TestCluster) -> Value {
    cluster.get("poddisruptionbudgets.policy", "b").expect("there")["status"]["disruptionsAllowed"].clone()
}

#[test]
fn every_verb_asks_once_by_each_method_about_what_its_door_takes() {
    let cluster = TestCluster::new();
    let (api, outside) = asking(&cluster, changes_nothing(), accepts());
    let check = |wanted: &[&str]| assert_eq!(outside.taken(), wanted);
    let both = |text: &str| [format!("mutate {text}"), format!("validate {text}")];
    let check_both = |text: &str| check(&both(text).each_ref().map(String::as_str));

    create(&api, "configmaps", &config_map("c")).expect("created");
    check_both("Create configmaps default/c - ConfigMap");
    done(api.update(&Actor::System, &target("configmaps", "c"), body(&config_map("c")), &WriteOptions::default())).expect("updated");
    check_both("Update configmaps default/c ConfigMap ConfigMap");
    merge(&api, "configmaps", "c", &json!({"data": {"a": "b"}})).expect("patched");
    check_both("Update configmaps default/c ConfigMap ConfigMap");
    let put = json!({"metadata": {"name": "l"}, "spec": {}});
    done(api.update(&Actor::System, &target("leases.coordination.k8s.io", "l"), body(&put), &WriteOptions::default())).expect("created");
    check_both("Create leases default/l - Lease");
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}});
    apply(&api, "configmaps", "applied", &applied);
    check_both("Create configmaps default/applied - ConfigMap");
    apply(&api, "configmaps", "applied", &applied);
    check_both("Update configmaps default/applied ConfigMap ConfigMap");

    cluster.made("deployments.apps", deployment("d"));
    merge(&api, "deployments.apps/status", "d", &json!({"status": {"replicas": 1}})).expect("patched");
    check_both("Update deployments/status default/d Deployment Deployment");
    merge(&api, "deployments.apps/scale", "d", &json!({"spec": {"replicas": 2}})).expect("scaled");
    check_both("Update deployments/scale default/d Scale Scale");

    running(&cluster, "p");
    running(&cluster, "e");
    budget(&cluster);
    cluster.made("pods", pod("bound"));
    post(&api, "pods/binding", "bound", &json!({"target": {"name": "n"}})).expect("bound");
    check_both("Create pods/binding default/bound - Binding");
    cluster.made("pods", pod("bind"));
    done(api.bind(&Actor::System, &target("pods", "bind"), "n", &Precondition::default())).expect("bound");
    check_both("Create pods/binding default/bind - Binding");
    post(&api, "pods/eviction", "e", &json!({})).expect("evicted");
    check_both("Create pods/eviction default/e - Eviction");
    assert_eq!(allowed(&cluster), 0, "the budget was charged");

    let dry = DeleteOptions { dry_run: vec!["All".to_owned()], ..DeleteOptions::default() };
    done(api.delete(&Actor::System, &target("configmaps", "c"), &dry)).expect("tried");
    check(&["mutate Delete configmaps default/c ConfigMap - dry", "validate Delete configmaps default/c ConfigMap - dry"]);
    done(api.delete(&Actor::System, &target("configmaps", "c"), &DeleteOptions::default())).expect("deleted");
    check_both("Delete configmaps default/c ConfigMap -");
    let some = ListOptions { field_selector: "metadata.name=applied".to_owned(), ..ListOptions::default() };
    done(api.delete_collection(&Actor::System, &collection("configmaps"), &some, &DeleteOptions::default())).expect("deleted");
    check_both("Delete configmaps default/applied ConfigMap -");

    cluster.made("namespaces", json!({"metadata": {"name": "n"}}));
    done(api.delete(&Actor::System, &target("namespaces", "n"), &DeleteOptions::default())).expect("it terminates");
    check_both("Delete namespaces n Namespace -");
    let finalized = json!({"metadata": {"name": "n"}, "spec": {"finalizers": []}});
    done(api.update(&Actor::System, &target("namespaces/finalize", "n"), body(&finalized), &WriteOptions::default())).expect("gone");
    check_both("Update namespaces/finalize n Namespace Namespace");
}

#[test]
fn a_refusal_by_either_method_changes_nothing_whatever_the_verb() {
    let cluster = TestCluster::new();
    cluster.made("configmaps", config_map("c"));
    cluster.made("deployments.apps", deployment("d"));
    running(&cluster, "p");
    cluster.made("pods", pod("unbound"));
    budget(&cluster);
    quota(&cluster, &json!({"pods": "9"}));
    let revision = cluster.revision();
    let refusals: [(Change, Validate); 2] = [(Box::new(|_, _| Err(no())), accepts()), (changes_nothing(), Box::new(|_, _| Err(no())))];
    for (index, (change, decide)) in refusals.into_iter().enumerate() {
        let (api, _) = asking(&cluster, change, decide);
        let replaced = json!({"metadata": {"name": "c"}, "data": {"a": "b"}});
        let mut answers = vec![
            create(&api, "pods", &pod("new")).map(drop),
            done(api.update(&Actor::System, &target("configmaps", "c"), body(&replaced), &WriteOptions::default())).map(drop),
            merge(&api, "configmaps", "c", &json!({"data": {"a": "b"}})).map(drop),
            merge(&api, "deployments.apps/scale", "d", &json!({"spec": {"replicas": 9}})).map(drop),
            post(&api, "pods/binding", "unbound", &json!({"target": {"name": "n"}})).map(drop),
            post(&api, "pods/eviction", "p", &json!({})).map(drop),
        ];
        if index == 1 {
            // A mutating reviewer is called for a deletion too, but has no object to change.
            answers.push(done(api.delete(&Actor::System, &target("configmaps", "c"), &DeleteOptions::default())).map(drop));
        }
        for answer in answers {
            let refusal = answer.expect_err("refused");
            assert!(
                matches!(&refusal, ApiError::Forbidden { message, refused_by: Some("Reviewers"), .. } if message == "no"),
                "{refusal:?}"
            );
        }
        assert_eq!(cluster.revision(), revision, "nothing was written");
    }
}

/// Adds a container with only a name and an image.
fn sidecar(object: &mut dyn Object) {
    let Some(pod) = object.downcast_mut::<Pod>() else { return };
    let sidecar = Container { name: "sidecar".to_owned(), image: Some("i:1".to_owned()), ..Container::default() };
    pod.spec.get_or_insert_default().containers.push(sidecar);
}

#[test]
fn what_is_added_outside_gets_defaults_and_what_the_server_adds_and_is_validated() {
    let cluster = TestCluster::new();
    let limits = json!([{"type": "Container", "default": {"memory": "64Mi"}, "max": {"memory": "64Mi"}}]);
    cluster.made("limitranges", json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}));
    let add = |_: &AdmissionRequest<'_>, object: &mut dyn Object| {
        let pod: &Pod = object.downcast_ref().expect("a pod");
        assert!(pod.spec.as_ref().is_some_and(|spec| spec.priority == Some(0)), "the server has added what it adds");
        sidecar(object);
        Ok(Remarks::default())
    };
    let decide = |_: &AdmissionRequest<'_>, object: Option<&dyn Object>| {
        let pod: &Pod = object.and_then(|object| object.downcast_ref()).expect("a pod");
        assert_eq!(pod.status.as_ref().and_then(|status| status.qos_class.as_deref()), Some("Burstable"), "it is prepared");
        Ok(Remarks { warnings: vec!["seen".to_owned()], audit: Vec::new() })
    };
    let (api, outside) = asking(&cluster, Box::new(add), Box::new(decide));
    let made = done(api.create(&Actor::System, &collection("pods"), body(&pod("p")), &WriteOptions::default())).expect("created");
    let object = json_of(&made.object);
    let added = &object["spec"]["containers"][1];
    assert_eq!((&added["name"], &added["terminationMessagePath"]), (&json!("sidecar"), &json!("/dev/termination-log")));
    assert_eq!(added["resources"]["limits"], json!({"memory": "64Mi"}));
    assert_eq!(object["spec"]["tolerations"].as_array().map(Vec::len), Some(2), "what is there is not added twice");
    assert_eq!(made.warnings, ["seen"]);
    assert_eq!(outside.taken().len(), 2, "no second request");

    let spoil = |_: &AdmissionRequest<'_>, object: &mut dyn Object| {
        sidecar(object);
        sidecar(object);
        Ok(Remarks::default())
    };
    let (api, outside) = asking(&cluster, Box::new(spoil), accepts());
    let text = create(&api, "pods", &pod("q")).expect_err("the same name twice").to_string();
    assert!(text.contains("spec.containers[2].name: Duplicate value: \"sidecar\""), "{text}");
    assert_eq!(outside.taken().len(), 1, "what is invalid is not shown to those who validate");
}

#[test]
fn what_names_an_object_stays_as_it_is() {
    let cluster = TestCluster::new();
    let rename = |_: &AdmissionRequest<'_>, object: &mut dyn Object| {
        let meta = object.meta_mut();
        let other = || Some("other".to_owned());
        (meta.name, meta.namespace, meta.uid, meta.resource_version) = (other(), other(), other(), other());
        meta.managed_fields = Some(Vec::new());
        meta.labels.get_or_insert_default().insert("seen".to_owned(), "true".to_owned());
        Ok(Remarks::default())
    };
    let (api, _) = asking(&cluster, Box::new(rename), accepts());
    let mut object = config_map("c");
    object["data"] = json!({"k": "v"});
    let made = create(&api, "configmaps", &object).expect("created");
    let changed = merge(&api, "configmaps", "c", &json!({"metadata": {"labels": null}, "data": {"a": "b"}})).expect("patched");
    for meta in [&made["metadata"], &changed["metadata"]] {
        assert_eq!((&meta["name"], &meta["namespace"], &meta["labels"]["seen"]), (&json!("c"), &json!("default"), &json!("true")));
        assert!(meta["managedFields"].is_array(), "owners are recorded");
    }
    assert_eq!(made["metadata"]["uid"], changed["metadata"]["uid"]);
}

#[test]
fn a_scale_a_binding_and_an_eviction_are_executed_as_they_were_changed() {
    let cluster = TestCluster::new();
    cluster.made("deployments.apps", deployment("d"));
    cluster.made("pods", pod("p"));
    running(&cluster, "e");
    let change = |_: &AdmissionRequest<'_>, object: &mut dyn Object| {
        if let Some(scale) = object.downcast_mut::<Scale>() {
            scale.spec = Some(ScaleSpec { replicas: Some(7) });
        } else if let Some(binding) = object.downcast_mut::<Binding>() {
            binding.target.name = Some("other".to_owned());
        } else if let Some(eviction) = object.downcast_mut::<Eviction>() {
            eviction.delete_options.get_or_insert_default().grace_period_seconds = Some(5);
        }
        Ok(Remarks::default())
    };
    let (api, _) = asking(&cluster, Box::new(change), accepts());
    let scaled = merge(&api, "deployments.apps/scale", "d", &json!({"spec": {"replicas": 2}})).expect("scaled");
    assert_eq!(scaled["spec"]["replicas"], 7);
    let object = cluster.get("deployments.apps", "d").expect("there");
    assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(7), &json!(2)));
    post(&api, "pods/binding", "p", &json!({"target": {"name": "n"}})).expect("bound");
    assert_eq!(cluster.get("pods", "p").expect("there")["spec"]["nodeName"], "other");
    post(&api, "pods/eviction", "e", &json!({})).expect("evicted");
    assert_eq!(cluster.get("pods", "e").expect("it lingers")["metadata"]["deletionGracePeriodSeconds"], 5);
}

/// Returns the charges and claims.
fn held(cluster: &TestCluster) -> (Value, usize) {
    let all = ListOptions::default();
    (used(cluster), cluster.names("ipaddresses.networking.k8s.io", &all).len())
}

#[test]
fn nothing_is_charged_and_no_lock_is_held_while_a_plug_in_decides() {
    let cluster = Arc::new(TestCluster::new());
    quota(&cluster, &json!({"services": "9", "pods": "9"}));
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let before = held(&cluster);
    let inside = Arc::clone(&cluster);
    let decide = move |_: &AdmissionRequest<'_>, _: Option<&dyn Object>| {
        assert_eq!(held(&inside), before);
        // This write needs the lock of the same quota, and would wait indefinitely.
        inside.made("services", json!({"metadata": {"name": "inner"}, "spec": {"type": "ExternalName", "externalName": "x.y"}}));
        Err(no())
    };
    let (api, _) = asking(&cluster, changes_nothing(), Box::new(decide));
    assert_eq!(create(&api, "services", &service("s")).expect_err("refused").to_string(), "no");
    assert_eq!(used(&cluster)["services"], "1", "only the other's");
}

#[test]
fn a_charge_goes_back_when_a_later_one_finds_no_room() {
    let cluster = TestCluster::new();
    quota(&cluster, &json!({"services": "9"}));
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}});
    cluster.made("services", service("first"));
    let before = held(&cluster);
    let text = cluster.create("services", service("second")).expect_err("the address is taken").to_string();
    assert!(text.contains("provided IP is already allocated"), "{text}");
    assert_eq!(held(&cluster), before);
}

#[test]
fn a_write_that_finds_another_first_goes_through_the_chain_again_with_the_new_object() {
    let cluster = Arc::new(TestCluster::new());
    cluster.made("configmaps", config_map("c"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inside, notes) = (Arc::clone(&cluster), Arc::clone(&seen));
    let decide = move |request: &AdmissionRequest<'_>, object: Option<&dyn Object>| {
        let data = |object: Option<&dyn Object>| object.and_then(|object| object.downcast_ref::<ConfigMap>()?.data.clone());
        let mut notes = notes.lock().expect("no test panics with it");
        notes.push(json!([data(request.old), data(object)]));
        if notes.len() == 1 {
            inside.merge("configmaps", "c", json!({"data": {"theirs": "1"}})).expect("first");
        }
        Ok(Remarks { warnings: vec!["once".to_owned()], audit: Vec::new() })
    };
    let (api, outside) = asking(&cluster, changes_nothing(), Box::new(decide));
    let patch = Patch::Merge(json!({"data": {"mine": "1"}}).to_string().into_bytes());
    let written = done(api.patch(&Actor::System, &target("configmaps", "c"), patch, &WriteOptions::default())).expect("the second try");
    let both = json!({"mine": "1", "theirs": "1"});
    assert_eq!(json_of(&written.object)["data"], both);
    assert_eq!(*seen.lock().expect("no test panics with it"), [json!([null, {"mine": "1"}]), json!([{"theirs": "1"}, both])]);
    assert_eq!((outside.taken().len(), written.warnings), (4, vec!["once".to_owned()]));
}

#[test]
fn another_generated_name_is_asked_about_while_nothing_is_charged_for_the_one_that_was_taken() {
    let cluster = Arc::new(TestCluster::with(Arc::new(Constant)));
    quota(&cluster, &json!({"configmaps": "9"}));
    let unnamed = json!({"metadata": {"generateName": "c-"}});
    cluster.made("configmaps", unnamed.clone());
    let inside = Arc::clone(&cluster);
    let decide = move |_: &AdmissionRequest<'_>, _: Option<&dyn Object>| {
        assert_eq!(used(&inside)["configmaps"], "1");
        Ok(Remarks::default())
    };
    let (api, outside) = asking(&cluster, changes_nothing(), Box::new(decide));
    assert!(matches!(create(&api, "configmaps", &unnamed), Err(ApiError::AlreadyExists { .. })));
    let asked = outside.taken();
    assert_eq!(asked.iter().filter(|line| line.starts_with("validate")).count(), 8, "once a name");
    assert_eq!(asked.len(), 9, "the object was changed before it was named, once");
    assert_eq!(used(&cluster)["configmaps"], "1");
}

#[test]
fn a_namespace_that_terminates_while_a_plug_in_decides_gets_nothing_new() {
    let cluster = Arc::new(TestCluster::new());
    cluster.made("namespaces", json!({"metadata": {"name": "n"}}));
    let inside = Arc::clone(&cluster);
    let decide = move |_: &AdmissionRequest<'_>, _: Option<&dyn Object>| {
        inside.delete("namespaces", "n", &DeleteOptions::default()).expect("it terminates");
        Ok(Remarks::default())
    };
    let (api, _) = asking(&cluster, changes_nothing(), Box::new(decide));
    let text = create(&api, "configmaps@n", &config_map("c")).expect_err("too late").to_string();
    assert!(text.contains("because it is being terminated"), "{text}");
    assert!(cluster.get("configmaps@n", "c").is_err());
}

#[test]
fn several_are_asked_in_their_order_and_the_first_refusal_counts() {
    let cluster = TestCluster::new();
    let label = |_: &AdmissionRequest<'_>, object: &mut dyn Object| {
        let labels = object.meta_mut().labels.get_or_insert_default();
        let next = labels.len().to_string();
        labels.insert(next.clone(), next);
        Ok(Remarks::default())
    };
    let reviewer = |decide: Validate| Arc::new(Outside { asked: Mutex::default(), change: Box::new(label), decide });
    let all = [reviewer(accepts()), reviewer(Box::new(|_, _| Err(no()))), reviewer(accepts())];
    let api = cluster.registry.clone().with_reviewers(all.iter().map(|one| Arc::clone(one) as Arc<dyn Reviewer>).collect());
    assert_eq!(create(&api, "configmaps", &config_map("c")).expect_err("refused").to_string(), "no");
    assert_eq!(all.each_ref().map(|one| one.taken().len()), [2, 2, 1]);
    let api =
        cluster.registry.clone().with_reviewers(vec![Arc::clone(&all[0]) as Arc<dyn Reviewer>, Arc::clone(&all[2]) as Arc<dyn Reviewer>]);
    assert_eq!(create(&api, "configmaps", &config_map("c")).expect("created")["metadata"]["labels"], json!({"0": "0", "1": "1"}));
}

#[test]
fn a_scale_has_no_pod_template_and_is_not_checked_against_pod_security_levels() {
    let cluster = TestCluster::new();
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}});
    cluster.merge("namespaces", "default", labels).expect("labelled");
    cluster.made("deployments.apps", deployment("d"));
    let patch = |what: &str, patch: Value| {
        let patch = Patch::Merge(patch.to_string().into_bytes());
        done(cluster.registry.patch(&Actor::System, &target(what, "d"), patch, &WriteOptions::default())).expect("patched").warnings
    };
    assert_eq!(patch("deployments.apps/scale", json!({"spec": {"replicas": 5}})), Vec::<String>::new());
    assert_eq!(patch("deployments.apps", json!({"spec": {"replicas": 6}})).len(), 1);
}

/// The documented order must be this one.
#[test]
fn the_order_of_plug_ins_is_as_the_architecture_documents_it() {
    let text = include_str!("../../../../ARCHITECTURE.md");
    let table = text.split_once("| plug-in |").expect("the table").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let told: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(told, ADMISSION_ORDER);
}

/// A clock that advances at every call, so that each operation takes long.
struct Slow(AtomicI64);

impl Clock for Slow {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.fetch_add(2, Ordering::SeqCst)).expect("a test's time")
    }

    fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

#[test]
fn a_write_whose_stages_take_long_lets_others_have_their_turn_between_them() {
    let table = Arc::new(ResourceTable::default());
    let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 24));
    let clock = Arc::new(Slow(AtomicI64::new(1_767_225_600_000)));
    let slow = Registry::new(store, table, clock, Arc::new(Constant), Arc::default());
    now(slow.bootstrap()).expect("the first objects are fine");
    let body = || Body::Json(config_map("c").to_string().into_bytes());
    let written = |registry: &Registry| {
        let (created, at_create) = turns(registry.create(&Actor::System, &collection("configmaps"), body(), &WriteOptions::default()));
        let (updated, at_update) = turns(registry.update(&Actor::System, &target("configmaps", "c"), body(), &WriteOptions::default()));
        (created.is_ok(), at_create, updated.is_ok(), at_update)
    };
    // After parsing, decoding, mutating, preparing, validating and recording owners. A change is also read before.
    assert_eq!(written(&slow), (true, 6, true, 8));
    assert_eq!(written(&TestCluster::new().registry), (true, 0, true, 0), "what is quick goes through at once");
}

#[test]
fn a_conflict_of_an_aggregated_role_with_a_plug_in_is_not_retried_indefinitely() {
    const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
    let cluster = TestCluster::new();
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"part-of": "g"}}]});
    cluster.made(ROLES, json!({"metadata": {"name": "g"}, "aggregationRule": selector}));
    let conflict = || ApiError::Conflict { resource: GroupResource::default(), name: String::new(), message: "no".to_owned() };
    let asked = AtomicI64::new(0);
    let decide: Validate = Box::new(move |request, _| {
        if request.name != "g" {
            return Ok(Remarks::default());
        }
        assert!(asked.fetch_add(1, Ordering::SeqCst) < 20, "again and again");
        Err(conflict())
    });
    let (api, _) = asking(&cluster, changes_nothing(), decide);
    let part = json!({"metadata": {"name": "part", "labels": {"part-of": "g"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let refused = create(&api, ROLES, &part).expect_err("it is told");
    assert!(matches!(&refused, ApiError::Conflict { message, .. } if message == "no"), "{refused}");
    assert_eq!(cluster.get(ROLES, "g").expect("there")["rules"], Value::Null);
    cluster.get(ROLES, "part").expect("the write itself stands");
}
