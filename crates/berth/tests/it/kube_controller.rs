//! Controllers as kube-rs' own examples write them, against a real `berth up`: reconcile and own, finalizers, events, entries, leases,
//! discovery, dynamic and metadata-only clients, streamed lists, watches that break.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{Berth, PATIENCE, up};
use futures::{FutureExt, StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authentication::v1::TokenRequest,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event as CoreEvent, Node, Pod, Secret, ServiceAccount},
};
use kube::{
    Api, Client, Discovery, Error, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, EvictParams, ListParams, LogParams, PartialObjectMeta, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::{self, verbs},
    runtime::{
        Controller, WatchStreamExt,
        controller::Action,
        events::{Event, EventType, Recorder},
        finalizer, predicates, reflector,
        wait::{Condition, await_condition, conditions},
        watcher,
    },
};
use serde_json::{Value, json};
use std::{
    fmt::Debug,
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

const FAST: &[&str] = &["--store", "memory", "--nodes", "2", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
const QUIET: &[&str] = &["--store", "memory", "--controllers=-*", "--nodes", "0"];

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

/// A typed object from JSON.
fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn config_map(name: &str, data: &Value) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": {"kind": "site"}}, "data": data}))
}

fn deployment(name: &str, replicas: i32) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    })
}

#[track_caller]
fn check_refused<T: Debug>(outcome: Result<T, Error>, code: u16, reason: &str) -> String {
    match outcome.unwrap_err() {
        Error::Api(status) => {
            assert_eq!((status.code, status.reason.as_str()), (code, reason), "{}", status.message);
            status.message.clone()
        }
        other => panic!("{other}"),
    }
}

// A controller: each ConfigMap with the label `kind: site` becomes a Deployment.

struct Context {
    client: Client,
    recorder: Recorder,
}

type Failure = finalizer::Error<Error>;

async fn reconcile(site: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Failure> {
    let sites: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    finalizer(&sites, "example.com/site", site, |event| async {
        match event {
            finalizer::Event::Apply(site) => publish(&site, &context).await,
            finalizer::Event::Cleanup(site) => take_down(&site, &context).await,
        }
    })
    .await
}

async fn publish(site: &ConfigMap, context: &Context) -> Result<Action, Error> {
    let replicas = site.data.as_ref().and_then(|data| data["replicas"].parse().ok()).unwrap_or(1);
    let mut wanted = deployment(&site.name_any(), replicas);
    wanted["metadata"]["ownerReferences"] = json!([site.controller_owner_ref(&()).unwrap()]);
    let deployments: Api<Deployment> = Api::default_namespaced(context.client.clone());
    deployments.patch(&site.name_any(), &PatchParams::apply("site-controller").force(), &Patch::Apply(&wanted)).await?;
    let event = Event {
        type_: EventType::Normal,
        reason: "Published".to_owned(),
        note: Some(format!("{replicas} pods")),
        action: "Publishing".to_owned(),
        secondary: None,
    };
    context.recorder.publish(&event, &site.object_ref(&())).await?;
    Ok(Action::await_change())
}

/// Creates a marker object, so that the test sees that the finalizer ran before the object was deleted.
async fn take_down(site: &ConfigMap, context: &Context) -> Result<Action, Error> {
    let trace: Secret = object(json!({"metadata": {"name": format!("{}-was-taken-down", site.name_any())}}));
    Api::default_namespaced(context.client.clone()).create(&PostParams::default(), &trace).await?;
    Ok(Action::await_change())
}

async fn until<K>(api: &Api<K>, name: &str, holds: impl Condition<K>) -> Option<K>
where
    K: Clone + Debug + Send + serde::de::DeserializeOwned + Resource + 'static,
{
    in_time(await_condition(api.clone(), name, holds)).await.unwrap()
}

#[tokio::test]
async fn a_controller_keeps_what_it_owns_and_cleans_up() {
    let berth = up(FAST);
    let client = berth.kube_client().await;
    let sites: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let recorder = Recorder::new(client.clone(), "site-controller".into());
    let controller = Controller::new(sites.clone(), watcher::Config::default().labels("kind=site"))
        .owns(deployments.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(10)), Arc::new(Context { client: client.clone(), recorder }))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);

    sites.create(&PostParams::default(), &config_map("blog", &json!({"replicas": "2"}))).await.unwrap();
    let made = until(&deployments, "blog", conditions::is_deployment_completed()).await.unwrap();
    assert_eq!(made.owner_references()[0].controller, Some(true));
    assert_eq!(sites.get("blog").await.unwrap().finalizers(), ["example.com/site"]);

    deployments.delete("blog", &DeleteParams::background()).await.unwrap();
    let again = until(&deployments, "blog", |found: Option<&Deployment>| found.is_some_and(|web| web.uid() != made.uid())).await;
    assert_eq!(again.unwrap().spec.unwrap().replicas, Some(2));
    let more = json!({"data": {"replicas": "3"}});
    sites.patch("blog", &PatchParams::default(), &Patch::Merge(&more)).await.unwrap();
    let available =
        |found: Option<&Deployment>| found.and_then(|web| web.status.as_ref()).is_some_and(|status| status.available_replicas == Some(3));
    until(&deployments, "blog", available).await;

    let events: Api<CoreEvent> = Api::default_namespaced(client.clone());
    let seen = events.list(&ListParams::default().fields("involvedObject.name=blog,reason=Published")).await.unwrap().items;
    assert!(seen.iter().any(|event| event.series.as_ref().is_some_and(|series| series.count >= Some(2))), "{seen:?}");

    sites.delete("blog", &DeleteParams::default()).await.unwrap();
    until(&sites, "blog", |found: Option<&ConfigMap>| found.is_none()).await;
    Api::<Secret>::default_namespaced(client.clone()).get("blog-was-taken-down").await.unwrap();
    until(&deployments, "blog", |found: Option<&Deployment>| found.is_none()).await;
    controller.abort();
}

#[tokio::test]
async fn an_entry_is_committed_only_as_it_was_read() {
    let berth = up(QUIET);
    let maps: Api<ConfigMap> = Api::default_namespaced(berth.kube_client().await);
    let set = |value: &str| {
        let value = value.to_owned();
        move |map: &mut ConfigMap| drop(map.data.get_or_insert_default().insert("a".to_owned(), value))
    };
    let mut made = maps.entry("settings").await.unwrap().or_insert(ConfigMap::default).and_modify(set("1"));
    made.commit(&PostParams::default()).await.unwrap();
    let mut early = maps.entry("settings").await.unwrap().and_modify(set("2")).or_insert(|| unreachable!("it is there"));
    let mut late = maps.entry("settings").await.unwrap().and_modify(set("3")).or_insert(|| unreachable!("it is there"));
    early.commit(&PostParams::default()).await.unwrap();
    let kube::api::entry::CommitError::Save(error) = late.commit(&PostParams::default()).await.unwrap_err() else { panic!("not saved") };
    check_refused::<()>(Err(error), 409, "Conflict");
    assert_eq!(maps.get("settings").await.unwrap().data.unwrap()["a"], "2");
}

#[tokio::test]
async fn a_lease_has_one_holder() {
    let berth = up(QUIET);
    let leases: Api<Lease> = Api::default_namespaced(berth.kube_client().await);
    let held_by = |holder: &str| -> Lease {
        object(json!({
            "metadata": {"name": "leader"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z"}
        }))
    };
    let params = PostParams::default();
    let (one, two) = (held_by("one"), held_by("two"));
    let (first, second) = futures::join!(leases.create(&params, &one), leases.create(&params, &two));
    assert!(first.is_ok() != second.is_ok());
    check_refused(first.and(second), 409, "AlreadyExists");

    let seen = leases.get("leader").await.unwrap();
    let taken = |holder: &str| Lease { metadata: seen.metadata.clone(), ..held_by(holder) };
    let (three, four) = (taken("three"), taken("four"));
    let (first, second) = futures::join!(leases.replace("leader", &params, &three), leases.replace("leader", &params, &four));
    assert!(first.is_ok() != second.is_ok());
    check_refused(first.and(second), 409, "Conflict");
}

#[tokio::test]
async fn every_kind_is_discovered_and_listed() {
    let berth = up(QUIET);
    let client = berth.kube_client().await;
    for found in [Discovery::new(client.clone()).run().await.unwrap(), Discovery::new(client.clone()).run_aggregated().await.unwrap()] {
        let mut kinds = 0;
        for (resource, capabilities) in found.groups().flat_map(discovery::ApiGroup::recommended_resources) {
            if capabilities.supports_operation(verbs::LIST) {
                Api::<DynamicObject>::all_with(client.clone(), &resource).list(&ListParams::default()).await.unwrap();
                kinds += 1;
            }
        }
        assert!(kinds >= 27, "{kinds}");
        let (_, capabilities) = found.resolve_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment")).unwrap();
        let below: Vec<&str> = capabilities.subresources.iter().map(|(resource, _)| resource.plural.as_str()).collect();
        assert_eq!(below, ["scale", "status"]);
    }
    let (resource, _) = discovery::pinned_kind(&client, &GroupVersionKind::gvk("apps", "v1", "StatefulSet")).await.unwrap();
    assert_eq!(resource.plural, "statefulsets");
}

#[tokio::test]
async fn an_object_of_any_kind_is_applied_by_its_yaml() {
    let berth = up(QUIET);
    let client = berth.kube_client().await;
    let found = Discovery::new(client.clone()).run().await.unwrap();
    let web: DynamicObject = object(deployment("web", 2));
    let (resource, _) = found.resolve_object(&web).unwrap();
    let api: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let made = api.patch("web", &PatchParams::apply("dynamic"), &Patch::Apply(&web)).await.unwrap();
    assert_eq!(made.data["spec"]["progressDeadlineSeconds"], 600);
    let two = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 4}});
    let text = check_refused(api.patch("web", &PatchParams::apply("other"), &Patch::Apply(&two)).await, 409, "Conflict");
    assert_eq!(text, "Apply failed with 1 conflict: conflict with \"dynamic\": .spec.replicas");
    let typed: Deployment = made.try_parse().unwrap();
    assert_eq!(typed.spec.unwrap().replicas, Some(2));
}

/// All names until the first list is complete, and the objects seen during it.
async fn first_list<K>(api: Api<K>, config: watcher::Config) -> Vec<String>
where
    K: Clone + Debug + Send + serde::de::DeserializeOwned + Resource + 'static,
{
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut names = Vec::new();
    let filled = async {
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                watcher::Event::InitApply(object) => names.push(object.name_any()),
                watcher::Event::InitDone => break,
                _ => (),
            }
        }
    };
    in_time(filled).await;
    names.sort();
    names
}

#[tokio::test]
async fn lists_are_streamed_paged_and_narrowed_to_metadata() {
    let berth = up(QUIET);
    let client = berth.kube_client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let names: Vec<String> = (0..7).map(|number| format!("map-{number}")).collect();
    for name in &names {
        maps.create(&PostParams::default(), &config_map(name, &json!({}))).await.unwrap();
    }
    let config = || watcher::Config::default().labels("kind=site");
    for way in [config(), config().any_semantic(), config().page_size(2), config().streaming_lists(), config().disable_bookmarks()] {
        assert_eq!(first_list(maps.clone(), way.clone()).await, names, "{way:?}");
        let narrow: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client.clone());
        assert_eq!(first_list(narrow, way.clone()).await, names, "{way:?}");
    }
    let narrow = maps.get_metadata("map-3").await.unwrap();
    assert_eq!(narrow.labels()["kind"], "site");
}

/// A proxy to the server that the test can cut: all connections break, but new ones work.
struct Line {
    address: SocketAddr,
    cut: watch::Sender<()>,
    connections: Arc<AtomicUsize>,
}

impl Line {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (cut, broken) = watch::channel(());
        let line = Self { address: listener.local_addr().unwrap(), cut, connections: Arc::default() };
        let connections = line.connections.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let mut broken = broken.clone();
                broken.mark_unchanged();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    let both = tokio::io::copy_bidirectional(&mut near, &mut far);
                    futures::future::select(Box::pin(both), broken.changed().boxed()).await;
                });
            }
        });
        line
    }
}

async fn over_a_line(berth: &Berth) -> (Line, Client) {
    let mut config = berth.kube_config().await;
    let server = config.cluster_url.authority().unwrap().as_str().parse().unwrap();
    let line = Line::to(server).await;
    config.cluster_url = format!("https://{}", line.address).parse().unwrap();
    (line, Client::try_from(config).unwrap())
}

#[tokio::test]
async fn a_reflector_goes_on_after_its_connection_broke() {
    let berth = up(QUIET);
    let direct: Api<ConfigMap> = Api::default_namespaced(berth.kube_client().await);
    let (line, client) = over_a_line(&berth).await;
    let (reader, writer) = reflector::store();
    let mut lists = 0;
    let mut events = watcher(Api::<ConfigMap>::default_namespaced(client), watcher::Config::default().labels("kind=site"))
        .default_backoff()
        .reflect(writer)
        .boxed();
    for (number, name) in ["before", "while", "after"].into_iter().enumerate() {
        direct.create(&PostParams::default(), &config_map(name, &json!({}))).await.unwrap();
        let seen = async {
            while reader.len() < number + 1 {
                // The error is the broken connection. The watcher continues by itself.
                if let Some(Ok(watcher::Event::Init)) = events.next().await {
                    lists += 1;
                }
            }
        };
        in_time(seen).await;
        line.cut.send_replace(());
    }
    assert!(line.connections.load(Ordering::Relaxed) >= 3, "each cut needs a new one");
    assert_eq!(lists, 1, "it went on from where it was");
}

#[tokio::test]
async fn a_predicate_lets_new_generations_through_only() {
    let berth = up(QUIET);
    let api: Api<Deployment> = Api::default_namespaced(berth.kube_client().await);
    api.create(&PostParams::default(), &object(deployment("web", 1))).await.unwrap();
    let mut events = watcher(api.clone(), watcher::Config::default())
        .applied_objects()
        .predicate_filter(predicates::generation, kube::runtime::PredicateConfig::default())
        .boxed();
    let first = in_time(events.try_next()).await.unwrap().unwrap();
    assert_eq!(first.metadata.generation, Some(1));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    let spec = json!({"spec": {"replicas": 2}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(&spec)).await.unwrap();
    let next = in_time(events.try_next()).await.unwrap().unwrap();
    assert_eq!((next.metadata.generation, next.spec.unwrap().replicas), (Some(2), Some(2)));
}

#[tokio::test]
async fn status_and_scale_have_owners_of_their_own() {
    let berth = up(QUIET);
    let api: Api<Deployment> = Api::default_namespaced(berth.kube_client().await);
    api.create(&PostParams::default(), &object(deployment("web", 1))).await.unwrap();
    let status = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ours", "status": "True", "reason": "Tried", "message": ""}]}
    });
    let written = api.patch_status("web", &PatchParams::apply("ours"), &Patch::Apply(&status)).await.unwrap();
    assert_eq!(written.spec.unwrap().replicas, Some(1), "a status write leaves the spec alone");
    assert_eq!(written.status.unwrap().conditions.unwrap()[0].type_, "Ours");
    let entry = written.metadata.managed_fields.unwrap().into_iter().find(|entry| entry.manager.as_deref() == Some("ours")).unwrap();
    assert_eq!(entry.subresource.as_deref(), Some("status"));

    let mut scale = api.get_scale("web").await.unwrap();
    scale.spec.as_mut().unwrap().replicas = Some(3);
    api.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    check_refused(api.replace_scale("web", &PostParams::default(), &scale).await, 409, "Conflict");
    assert_eq!(api.get_scale("web").await.unwrap().spec.unwrap().replicas, Some(3));
}

#[tokio::test]
async fn the_helpers_of_the_client_work() {
    let berth = up(FAST);
    let client = berth.kube_client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &object(deployment("web", 1))).await.unwrap();
    until(&deployments, "web", conditions::is_deployment_completed()).await;
    let restarted = deployments.restart("web").await.unwrap();
    assert_eq!(restarted.metadata.generation, Some(2));
    let observed = |found: Option<&Deployment>| {
        found
            .and_then(|web| web.status.as_ref())
            .is_some_and(|status| status.observed_generation == Some(2) && status.updated_replicas == Some(1) && status.replicas == Some(1))
    };
    until(&deployments, "web", observed).await;

    let nodes: Api<Node> = Api::all(client.clone());
    assert_eq!(nodes.cordon("node-0").await.unwrap().spec.unwrap().unschedulable, Some(true));
    nodes.uncordon("node-0").await.unwrap();
    let mut found = pods.list(&ListParams::default()).await.unwrap().items.into_iter();
    let pod = found.find(|pod| pod.metadata.deletion_timestamp.is_none()).unwrap();
    let text = pods.logs(&pod.name_any(), &LogParams::default()).await.unwrap();
    assert!(text.starts_with("simulated container ") && text.lines().any(|line| line.ends_with(" started")), "{text}");
    pods.evict(&pod.name_any(), &EvictParams::default()).await.unwrap();
    in_time(await_condition(pods.clone(), &pod.name_any(), conditions::is_deleted(&pod.uid().unwrap()))).await.unwrap();

    let accounts: Api<ServiceAccount> = Api::default_namespaced(client);
    let request: TokenRequest = object(json!({"metadata": {}, "spec": {"audiences": [], "expirationSeconds": 600}}));
    let token = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
    assert!(token.status.unwrap().token.unwrap().starts_with("ey"));
}
