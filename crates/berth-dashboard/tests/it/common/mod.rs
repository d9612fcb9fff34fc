//! A cluster with the objects of a test, a dashboard over it, and requests of any client.
#![allow(dead_code, reason = "each test binary uses a part")]
#![expect(clippy::unwrap_used, reason = "tests")]

use berth_api::{FeatureGates, Object, Subresource};
use berth_controllers::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind};
use berth_dashboard::{Dashboard, FirstPage, Following, Options};
use berth_env::{Clock, Env, Rng, Spawner, Timestamp};
use berth_identity::{ApiName, GroupResource, ObjectKey, Revision, Uid};
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Handle,
    sync::{broadcast, oneshot},
    task::JoinHandle,
    time::timeout,
};

/// The maximum time to wait for an expected event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

type Stored = BTreeMap<(ApiName, ObjectKey), (Value, u64)>;

/// A cluster in memory.
pub(crate) struct Canned {
    stored: Mutex<Stored>,
    revision: AtomicU64,
    changes: broadcast::Sender<(ApiName, ObjectKey)>,
    /// The received patches, each with its object's name.
    pub(crate) patches: Mutex<Vec<(String, Value)>>,
    /// The number of requests.
    pub(crate) asked: AtomicU64,
    /// Resources that the user may not read.
    pub(crate) forbidden: Vec<&'static str>,
}

fn key(object: &Value) -> ObjectKey {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    ObjectKey::new(text("namespace").as_str(), text("name").as_str())
}

impl Canned {
    pub(crate) fn new(forbidden: &[&'static str]) -> Self {
        Self {
            stored: Mutex::default(),
            revision: AtomicU64::new(1),
            changes: broadcast::channel(65_536).0,
            patches: Mutex::default(),
            asked: AtomicU64::new(0),
            forbidden: forbidden.to_vec(),
        }
    }

    pub(crate) fn put(&self, plural: impl Into<ApiName>, object: Value) {
        let plural = plural.into();
        let revision = self.revision.fetch_add(1, Ordering::SeqCst) + 1;
        let key = key(&object);
        self.stored.lock().unwrap().insert((plural.clone(), key.clone()), (object, revision));
        let _ = self.changes.send((plural, key));
    }

    /// Returns an object by name, in any namespace.
    pub(crate) fn find(&self, plural: &'static str, name: &str) -> Value {
        let stored = self.stored.lock().unwrap();
        let found = stored.iter().find(|((of, key), _)| *of == plural && *key.name == *name);
        found.unwrap().1.0.clone()
    }

    fn raw((object, revision): &(Value, u64)) -> RawObject {
        RawObject::new(object.to_string(), Revision(*revision))
    }

    fn change(&self, plural: ApiName, key: ObjectKey) -> Change {
        match self.stored.lock().unwrap().get(&(plural, key.clone())) {
            Some(held) => Change::Applied { key, object: Self::raw(held) },
            None => Change::Deleted { key, revision: Revision(self.revision.load(Ordering::SeqCst)) },
        }
    }
}

/// A shared [`Canned`].
#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Arc<Canned>);

impl Cluster for Shared {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        stream::pending().boxed()
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        let (all, plural) = (Arc::clone(&self.0), resource.plural);
        all.asked.fetch_add(1, Ordering::SeqCst);
        if all.forbidden.contains(&&*plural) {
            return stream::pending().boxed();
        }
        let changes = all.changes.subscribe();
        let first: Vec<Change> = {
            let stored = all.stored.lock().unwrap();
            let own = stored.iter().filter(|((of, _), _)| *of == plural);
            let applied = own.map(|((_, key), held)| Change::Applied { key: key.clone(), object: Canned::raw(held) });
            let end = Change::Synced(Revision(all.revision.load(Ordering::SeqCst)));
            [Change::Restarted].into_iter().chain(applied).chain([end]).collect()
        };
        let later = stream::unfold((changes, all, plural), |(mut changes, all, plural)| async move {
            loop {
                let (of, key) = changes.recv().await.ok()?;
                if of == plural {
                    let change = all.change(of, key);
                    return Some((change, (changes, all, plural)));
                }
            }
        });
        stream::iter(first).chain(later).chain(stream::pending()).boxed()
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let found = self.0.stored.lock().unwrap().get(&(resource.plural.clone(), key.clone())).map(Canned::raw);
        async move { Ok(found) }.boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let is_forbidden = self.0.forbidden.contains(&&*resource.plural);
        let answer =
            if is_forbidden { Err(ClusterError::Refused(format!("{} is forbidden: <b>no</b>", resource.plural))) } else { Ok(Revision(1)) };
        async move { answer }.boxed()
    }

    fn create(&self, _: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        unreachable!("a dashboard creates nothing")
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        _: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.0.patches.lock().unwrap().push((key.name.to_string(), patch.clone()));
        let held = self.0.stored.lock().unwrap().get(&(resource.plural.clone(), key.clone())).cloned();
        let answer = match held {
            None => Err(ClusterError::NotFound("it is gone".to_owned())),
            Some((_, revision)) if patch["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()) != Some(revision) => {
                Err(ClusterError::Conflict("changed".to_owned()))
            }
            Some((mut object, _)) => {
                for (name, value) in patch["spec"].as_object().into_iter().flatten().filter(|(name, _)| *name != "template") {
                    object["spec"][name] = value.clone();
                }
                object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
                self.0.put(&resource.plural, object.clone());
                Ok(RawObject::new(object.to_string(), Revision(1)))
            }
        };
        async move { answer }.boxed()
    }

    fn update(&self, _: Box<dyn Object>, _: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        unreachable!("a dashboard replaces nothing")
    }

    fn bind(&self, _: &ObjectKey, _: &Uid, _: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        unreachable!("a dashboard binds nothing")
    }

    fn delete(&self, _: GroupResource, _: &ObjectKey, _: DeleteParams) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        unreachable!("a dashboard deletes nothing")
    }
}

/// A clock that the test sets, numbers in sequence, and tasks on the test's runtime. Sleeps are real.
pub(crate) struct Machine {
    runtime: Handle,
    now: AtomicI64,
    count: AtomicU64,
}

impl Machine {
    /// Seconds since 2026-01-01.
    pub(crate) fn set(&self, seconds: i64) {
        self.now.store(seconds * 1000, Ordering::SeqCst);
    }
}

/// 2026-01-01.
pub(crate) const BEGIN: i64 = 1_767_225_600;

/// Returns the time this many seconds after [`BEGIN`].
pub(crate) fn at(seconds: i64) -> String {
    Timestamp::from_second(BEGIN + seconds).unwrap().to_string()
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(BEGIN * 1000 + self.now.load(Ordering::SeqCst)).unwrap()
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(until.duration_since(self.now())).unwrap_or_default();
        Box::pin(tokio::time::sleep(left))
    }
}

impl Rng for Machine {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        bytes.fill(u8::try_from(count % 251).unwrap());
    }
}

impl Spawner for Machine {
    fn spawn(&self, _: &'static str, task: BoxFuture<'static, ()>) {
        self.runtime.spawn(task);
    }
}

/// A running dashboard.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) cluster: Arc<Canned>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) link: String,
    /// Further printed links.
    pub(crate) printed_links: Arc<Mutex<Vec<String>>>,
    /// Stops the dashboard.
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) serving: JoinHandle<()>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns a header's value.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    }

    /// Returns the cookie that the response sets: `name=value`.
    pub(crate) fn cookie(&self) -> Option<String> {
        Some(self.header("set-cookie")?.split(';').next()?.to_owned())
    }
}

pub(crate) async fn start(cluster: Canned) -> Running {
    start_with(cluster, Following::AtOnce, FirstPage::Workloads, 0).await
}

/// Starts a dashboard as `berth up` does: it reads nothing before a user signs in, and opens the rollout under way.
pub(crate) async fn start_own(cluster: Canned) -> Running {
    start_with(cluster, Following::OnDemand, FirstPage::UnderWay, 0).await
}

/// Starts a dashboard for a cluster whose controllers do not support berth's fields.
pub(crate) async fn start_foreign(cluster: Canned) -> Running {
    let unheeded = Some("this cluster's controllers are <b>not</b> berth's".to_owned());
    start_as(cluster, (Following::AtOnce, FirstPage::Workloads), 0, unheeded).await
}

/// `drawn` is the number of random numbers that were drawn before.
pub(crate) async fn start_with(cluster: Canned, following: Following, first: FirstPage, drawn: u64) -> Running {
    start_as(cluster, (following, first), drawn, None).await
}

async fn start_as(cluster: Canned, (following, first): (Following, FirstPage), drawn: u64, unheeded: Option<String>) -> Running {
    let machine = Arc::new(Machine { runtime: Handle::current(), now: AtomicI64::new(600_000), count: AtomicU64::new(drawn) });
    let env = Env { clock: machine.clone(), rng: machine.clone(), spawner: machine.clone() };
    let cluster = Arc::new(cluster);
    let printed_links = Arc::<Mutex<Vec<String>>>::default();
    let links = Arc::clone(&printed_links);
    let options = Options {
        bind: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        names: Vec::new(),
        title: "https://127.0.0.1:6443 <as> nobody".to_owned(),
        gates: FeatureGates::default(),
        unheeded,
        forecaster: None,
        following,
        first,
        print_link: Box::new(move |link| links.lock().unwrap().push(link.to_owned())),
    };
    let dashboard = Dashboard::bind(options, Arc::new(Shared(Arc::clone(&cluster))), env).await.unwrap();
    let (address, link) = (dashboard.local_addr(), dashboard.link());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(dashboard.serve(async {
        // Dropping `stop` does not stop the dashboard.
        if stopped.await.is_err() {
            futures::future::pending::<()>().await;
        }
    }));
    Running { address, cluster, machine, link, printed_links, stop, serving }
}

impl Running {
    /// Sends a request and returns everything until the connection ends.
    pub(crate) async fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut text)).await.unwrap().unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Answer { code, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str, cookie: &str) -> Answer {
        let host = self.address;
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n")).await
    }

    pub(crate) async fn post(&self, path: &str, cookie: &str, form: &str) -> Answer {
        let origin = format!("origin: http://{}\r\n", self.address);
        self.post_with(path, cookie, form, &origin).await
    }

    pub(crate) async fn post_with(&self, path: &str, cookie: &str, form: &str, headers: &str) -> Answer {
        let (host, length) = (self.address, form.len());
        let kind = "content-type: application/x-www-form-urlencoded\r\n";
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n{kind}{headers}content-length: {length}\r\nconnection: close"
        );
        self.send(&format!("{head}\r\n\r\n{form}")).await
    }

    /// Returns the path of a link.
    pub(crate) fn path_of(&self, link: &str) -> String {
        link.strip_prefix(&format!("http://{}", self.address)).unwrap().to_owned()
    }

    /// Signs in and returns the cookie.
    pub(crate) async fn sign_in(&self) -> String {
        let answer = self.get(&self.path_of(&self.link), "").await;
        assert_eq!(answer.code, 303, "{answer:?}");
        answer.cookie().unwrap()
    }

    /// Returns a page as soon as it contains this text.
    pub(crate) async fn page_with(&self, path: &str, cookie: &str, text: &str) -> String {
        let looking = async {
            loop {
                let answer = self.get(path, cookie).await;
                if answer.code == 200 && answer.body.contains(text) {
                    return answer.body;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{path} does not come to say {text:?}"))
    }

    /// Returns the events of a page's stream until one contains this text.
    pub(crate) async fn stream_until(&self, page: &str, seen: &str, cookie: &str, text: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let host = self.address;
        let head = format!("GET /stream?page={page} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\nlast-event-id: {seen}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut said = String::new();
        let reading = async {
            let mut buffer = vec![0; 1 << 16];
            while !said.contains(text) {
                let count = stream.read(&mut buffer).await.unwrap();
                assert!(0 < count, "the stream ended: {said}");
                said.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        };
        timeout(PATIENCE, reading).await.unwrap();
        said
    }
}

/// Returns the token in every form of a page.
pub(crate) fn form_token(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"form-token\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A name that contains HTML.
pub(crate) const EVIL: &str = "<img src=x onerror=alert(1)>";

/// Returns a shop: a Deployment that is stuck, a StatefulSet that is complete, a node, a quota. Many of their texts
/// contain HTML.
pub(crate) fn shop() -> Canned {
    shop_of(&[])
}

pub(crate) fn shop_of(forbidden: &[&'static str]) -> Canned {
    let all = Canned::new(forbidden);
    let template =
        |app: &str, image: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": image}]}});
    let owner =
        |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
    all.put("deployments", json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "d", "generation": 2, "creationTimestamp": at(0),
            "annotations": {"deployment.kubernetes.io/revision": "2"},
        },
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", &format!("web:2{EVIL}")),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, "progressDeadlineSeconds": 600,
        },
        "status": {
            "observedGeneration": 2, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 3, "unavailableReplicas": 1,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.", "lastTransitionTime": at(60)},
                {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": EVIL, "lastUpdateTime": at(500), "lastTransitionTime": at(500)},
            ],
        },
    }));
    for (set, revision, image, replicas) in [("web-1", "1", "web:1", 3), ("web-2", "2", &*format!("web:2{EVIL}"), 1)] {
        all.put("replicasets", json!({
            "metadata": {
                "name": set, "namespace": "shop", "uid": set, "labels": {"app": "web"}, "ownerReferences": owner("Deployment", "web", "d"),
                "annotations": {"deployment.kubernetes.io/revision": revision, "kubernetes.io/change-cause": format!("because {EVIL}")},
                "creationTimestamp": at(if revision == "1" { 0 } else { 500 }),
            },
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", image)},
            "status": {"replicas": replicas, "observedGeneration": 1},
        }));
    }
    for pod in ["a", "b", "c"] {
        all.put(
            "pods",
            json!({
                "metadata": {
                    "name": format!("web-1-{pod}"), "namespace": "shop", "uid": pod, "labels": {"app": "web"},
                    "ownerReferences": owner("ReplicaSet", "web-1", "web-1"), "creationTimestamp": at(0),
                },
                "spec": {"nodeName": "node-1"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(30)}]},
            }),
        );
    }
    let waits = json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image \"web:2{EVIL}\"")}});
    all.put(
        "pods",
        json!({
            "metadata": {
                "name": "web-2-d", "namespace": "shop", "uid": "p", "labels": {"app": "web"},
                "ownerReferences": owner("ReplicaSet", "web-2", "web-2"), "creationTimestamp": at(500),
            },
            "spec": {"nodeName": "node-1"},
            "status": {
                "phase": "Pending", "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(500)}],
                "containerStatuses": [{"name": "main", "restartCount": 0, "ready": false, "state": waits}],
            },
        }),
    );
    all.put("events", json!({
        "metadata": {"name": "e", "namespace": "shop", "uid": "e"}, "type": "Warning", "reason": "Failed", "message": format!("cannot pull {EVIL}"),
        "involvedObject": {"kind": "Pod", "name": "web-2-d", "namespace": "shop", "uid": "p"}, "lastTimestamp": at(550), "count": 4,
    }));
    all.put(
        "statefulsets",
        json!({
            "metadata": {"name": EVIL, "namespace": "shop", "uid": "s", "generation": 1, "creationTimestamp": at(0)},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "template": template("db", "db:1"),
                "updateStrategy": {"type": "RollingUpdate"}, "podManagementPolicy": "OrderedReady",
            },
            "status": {"observedGeneration": 1, "replicas": 0, "currentRevision": "db-1", "updateRevision": "db-1"},
        }),
    );
    all.put(
        "nodes",
        json!({
            "metadata": {"name": "node-1", "uid": "n", "creationTimestamp": at(0), "labels": {"topology.kubernetes.io/zone": EVIL}},
            "status": {
                "allocatable": {"pods": "110"},
                "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": EVIL}],
            },
        }),
    );
    all.put(
        "resourcequotas",
        json!({
            "metadata": {"name": "few", "namespace": "shop", "uid": "q"},
            "status": {"hard": {"pods": "4", EVIL: "1"}, "used": {"pods": "4", EVIL: "0"}},
        }),
    );
    all
}

/// The number of pods in the large cluster.
pub(crate) const PODS: usize = 10_000;

/// Returns one of the ten thousand pods.
pub(crate) fn pod(number: usize, is_ready: bool) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": true}]);
    let status = if is_ready { "True" } else { "False" };
    json!({
        "metadata": {
            "name": format!("many-{number:05}"), "namespace": "shop", "uid": format!("many-{number}"), "labels": {"app": "web"},
            "ownerReferences": owner, "creationTimestamp": at(0),
        },
        "spec": {"nodeName": format!("node-{}", number % 100)},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": at(30)}]},
    })
}

/// Returns the shop with ten thousand additional pods.
pub(crate) fn many() -> Canned {
    let all = shop();
    (0..PODS).for_each(|number| all.put("pods", pod(number, true)));
    all
}
