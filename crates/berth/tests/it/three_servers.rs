//! Three API servers over three members of etcd, which require a certificate, two controller managers, a scheduler and nodes, as processes. Each is
//! killed in turn during rollouts, while watchers count pods and a client writes. Limits hold at every moment, nothing acknowledged is lost, and
//! watches continue at another server.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which say how long things took")]

use crate::{
    common::{self, PATIENCE, end_of, part::Part},
    etcd::{
        self,
        cluster::{Cluster, Secured},
        front::Front,
        gateway, tls,
    },
};
use berth_etcd::{Options, Tls};
use futures::StreamExt;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        authentication::v1::{TokenRequest, TokenReview},
        coordination::v1::Lease,
        core::v1::{ConfigMap, Endpoints, Pod, ServiceAccount},
    },
    serde::de::DeserializeOwned,
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

const FAST: [&str; 6] = ["--nodes", "3", "--pod-start-latency", "10ms", "--pod-stop-latency", "10ms"];
/// Shorter than upstream's. A write in progress during the kill of etcd's leader may take 7 s: the renewal of a lease has more time.
const LEASE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);
const TIMING: [&str; 6] =
    ["--leader-elect-lease-duration", "10s", "--leader-elect-renew-deadline", "8s", "--leader-elect-retry-period", "1s"];
/// The additional time for requests.
const SLACK: Duration = Duration::from_secs(1);
/// The replicas of the Deployment. Including terminating pods, there is at most one more.
const REPLICAS: usize = 4;

/// Waits until the condition holds.
async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Shared credentials from `berth pki init`.
struct Pki(TempDir);

impl Pki {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let made = Command::new(env!("CARGO_BIN_EXE_berth")).args(["pki", "init", "--dir"]).arg(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A kubeconfig of the folder with another server address.
    fn kubeconfig(&self, user: &str, port: u16) -> PathBuf {
        let text = fs::read_to_string(self.0.path().join(format!("{user}.kubeconfig"))).unwrap();
        let path = self.0.path().join(format!("{user}-{port}"));
        fs::write(&path, text.replace("https://127.0.0.1:6443", &format!("https://127.0.0.1:{port}"))).unwrap();
        path
    }

    async fn client(&self, port: u16) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig("admin", port)).unwrap();
        Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
    }
}

/// The certificates of etcd's members and of their clients. Their common authority is not that of the API servers and their clients.
struct EtcdFiles(TempDir);

impl EtcdFiles {
    fn new() -> Self {
        let (folder, authority) = (TempDir::new().unwrap(), tls::Authority::new());
        let (member, server) = (authority.pair("127.0.0.1"), authority.pair("berth"));
        let texts = [("ca.crt", authority.certificate()), ("member.crt", &member.0), ("member.key", &member.1)];
        for (name, text) in [&texts[..], &[("berth.crt", &server.0), ("berth.key", &server.1)]].concat() {
            tls::file(folder.path(), name, text);
        }
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn of_members(&self) -> Secured {
        Secured { authority: self.file("ca.crt"), certificate: self.file("member.crt"), key: self.file("member.key") }
    }

    /// A client that trusts the members, but has no certificate.
    fn of_a_stranger(&self) -> Tls {
        Tls { authorities: fs::read(self.file("ca.crt")).unwrap(), identity: None }
    }

    /// The options of an API server for these members.
    fn options(&self) -> Vec<String> {
        let files = [("--etcd-cafile", "ca.crt"), ("--etcd-certfile", "berth.crt"), ("--etcd-keyfile", "berth.key")];
        files.into_iter().flat_map(|(option, name)| [option.to_owned(), self.file(name)]).collect()
    }
}

/// An API server.
struct Server {
    part: Part,
    port: u16,
}

/// Starts one. `number` is the last part of its advertised address.
fn server(pki: &Pki, folder: &Path, endpoints: &str, number: usize, more: &[&str]) -> Server {
    let data_dir = folder.join(format!("server-{number}")).display().to_string();
    let [ca, certificate, key, signing] = ["ca.crt", "apiserver.crt", "apiserver.key", "sa.key"].map(|name| pki.file(name));
    let advertised = format!("192.0.2.{number}");
    let arguments = [
        &["apiserver", "--store", "etcd", "--etcd-servers", endpoints, "--secure-port", "0", "--data-dir", &data_dir][..],
        &["--client-ca-file", &ca, "--tls-cert-file", &certificate, "--tls-private-key-file", &key],
        &["--service-account-signing-key-file", &signing, "--advertise-address", &advertised],
        more,
    ];
    let mut part = Part::start(&arguments.concat(), None);
    let line = part.line_with("API server ready at");
    let (_, rest) = line.split_once("https://127.0.0.1:").unwrap();
    let port = rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
    part.line_with("clients need certificates of the authorities");
    Server { part, port }
}

/// A controller manager that waits for the lease, and its identity in the lease.
fn candidate(kubeconfig: &Path) -> (Part, String) {
    let mut part = Part::start(&[&["controller-manager"][..], &TIMING].concat(), Some(kubeconfig));
    let line = part.line_with("waits to acquire the lease");
    (part, line.split(' ').next().unwrap().to_owned())
}

async fn lease_holder(client: &Client) -> Option<String> {
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
    leases.get("berth-controller-manager").await.ok()?.spec?.holder_identity
}

fn deployment() -> Deployment {
    let metadata = json!({"labels": {"app": "web"}, "annotations": {"sim.berth.dev/terminates-after": "300ms"}});
    let template = json!({"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "web:0"}]}});
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let spec = json!({"replicas": REPLICAS, "strategy": strategy, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

/// The state of a watcher.
#[derive(Debug, Default)]
struct Seen {
    /// The version of each object, by name.
    known: BTreeMap<String, u64>,
    /// The maximum number of objects at a time.
    most: usize,
    /// The last seen version.
    version: u64,
    /// How often the watcher continued at another server.
    moved: usize,
}

impl Seen {
    fn take<K: Resource + Debug>(&mut self, event: WatchEvent<K>) {
        let version = |object: &K| object.meta().resource_version.as_deref().unwrap().parse::<u64>().unwrap();
        let name = |object: &K| object.meta().name.clone().unwrap();
        let (is_new, is_gone, object) = match event {
            WatchEvent::Added(object) => (true, false, object),
            WatchEvent::Modified(object) => (false, false, object),
            WatchEvent::Deleted(object) => (false, true, object),
            WatchEvent::Bookmark(mark) => {
                self.version = self.version.max(mark.metadata.resource_version.parse().unwrap());
                return;
            }
            WatchEvent::Error(error) => panic!("the history was lost: {error}"),
        };
        let (version, name) = (version(&object), name(&object));
        assert!(self.version < version, "{name} at {version} comes after {}", self.version);
        self.version = version;
        let before = if is_gone { self.known.remove(&name) } else { self.known.insert(name.clone(), version) };
        assert_eq!(before.is_none(), is_new, "{name} at {version}: before {before:?}");
        self.most = self.most.max(self.known.len());
    }
}

/// Watches all objects of a kind at one server after the other. Continues after the last seen version when it loses a server.
async fn follow<K>(clients: Arc<Mutex<Vec<Client>>>, seen: Arc<Mutex<Seen>>)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut at = 0;
    let client = |at: usize| {
        let clients = clients.lock().unwrap();
        clients[at % clients.len()].clone()
    };
    let list = Api::<K>::default_namespaced(client(at)).list(&ListParams::default()).await.unwrap();
    {
        let mut seen = seen.lock().unwrap();
        seen.version = list.metadata.resource_version.unwrap().parse().unwrap();
        seen.known = list.items.iter().map(|object| (object.name_any(), object.resource_version().unwrap().parse().unwrap())).collect();
        seen.most = seen.known.len();
    }
    loop {
        let from = seen.lock().unwrap().version.to_string();
        let api = Api::<K>::default_namespaced(client(at));
        if let Ok(events) = api.watch(&WatchParams::default(), &from).await {
            let mut events = events.boxed();
            while let Some(Ok(event)) = events.next().await {
                seen.lock().unwrap().take(event);
            }
        }
        at += 1;
        seen.lock().unwrap().moved += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates objects one after the other until the test stops it. Repeats each creation until the object exists.
async fn write(client: Client, acknowledged: Arc<Mutex<BTreeSet<String>>>, is_over: Arc<AtomicBool>) {
    let api = Api::<ConfigMap>::default_namespaced(client);
    for number in 0.. {
        let name = format!("note-{number:05}");
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        loop {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            match api.create(&PostParams::default(), &map).await {
                Ok(_) => break,
                // A request whose response was lost has created the object.
                Err(kube::Error::Api(status)) if status.code == 409 => break,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        acknowledged.lock().unwrap().insert(name);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All running processes.
struct ControlPlane {
    pki: Pki,
    folder: TempDir,
    etcd: Cluster,
    /// The options of servers for access to etcd.
    entrance: Vec<String>,
    servers: Vec<Server>,
    front: Front,
    /// A client that connects through the front.
    client: Client,
}

impl ControlPlane {
    async fn start(etcd: Cluster, entrance: Vec<String>) -> Self {
        let (pki, folder) = (Pki::new(), TempDir::new().unwrap());
        let start = |number| Self::server(&pki, folder.path(), &etcd, number, &entrance);
        let servers: Vec<_> = (1..=3).map(start).collect();
        let front = Front::before(servers.iter().map(|server| server.port).collect()).await;
        let client = pki.client(front.port).await;
        Self { pki, folder, etcd, entrance, servers, front, client }
    }

    fn server(pki: &Pki, folder: &Path, etcd: &Cluster, number: usize, entrance: &[String]) -> Server {
        let entrance: Vec<_> = entrance.iter().map(String::as_str).collect();
        server(pki, folder, &etcd.endpoints().join(","), number, &entrance)
    }

    /// Restarts a killed server.
    fn start_again(&mut self, index: usize) {
        self.servers[index] = Self::server(&self.pki, self.folder.path(), &self.etcd, index + 1, &self.entrance);
        self.front.set(self.servers.iter().map(|server| server.port).collect());
    }

    /// The endpoints of the Service `kubernetes`, according to a running server.
    async fn published(&self, at: usize) -> Vec<String> {
        let client = self.pki.client(self.servers[at].port).await;
        let Ok(endpoints) = Api::<Endpoints>::default_namespaced(client.clone()).get("kubernetes").await else { return Vec::new() };
        let subsets = endpoints.subsets.into_iter().flatten();
        let mut found: Vec<_> = subsets.flat_map(|subset| subset.addresses.unwrap_or_default()).map(|address| address.ip).collect();
        found.sort();
        found
    }

    /// Changes the image, and waits until the rollout has begun.
    async fn begin_rollout(&self, image: &str) -> String {
        let template = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        // The patch has the field that k8s-openapi does not know.
        let patch = Patch::Strategic(json!({"spec": {"podReplacementPolicy": "TerminationComplete", "template": template}}));
        let api = Api::<Deployment>::default_namespaced(self.client.clone());
        until("the image is changed", async || api.patch("web", &PatchParams::default(), &patch).await.is_ok()).await;
        until("the rollout has begun", async || {
            let pods = Api::<Pod>::default_namespaced(self.client.clone()).list(&ListParams::default()).await;
            pods.is_ok_and(|pods| pods.items.iter().any(|pod| self::image(pod) == image))
        })
        .await;
        image.to_owned()
    }

    async fn rolled_out(&self, image: &str) {
        until(&format!("{image} is rolled out"), async || {
            let pods = Api::<Pod>::default_namespaced(self.client.clone()).list(&ListParams::default()).await;
            pods.is_ok_and(|pods| pods.items.len() == REPLICAS && pods.items.iter().all(|pod| self::image(pod) == image && is_ready(pod)))
        })
        .await;
    }
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A token of one server is valid at another one.
async fn a_token_holds_everywhere(plane: &ControlPlane) {
    let [one, other] = [plane.pki.client(plane.servers[0].port).await, plane.pki.client(plane.servers[1].port).await];
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let accounts = Api::<ServiceAccount>::default_namespaced(one);
    let made = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
    let review = json!({"metadata": {}, "spec": {"token": made.status.unwrap().token}});
    let review: TokenReview = serde_json::from_value(review).unwrap();
    let reviewed = Api::<TokenReview>::all(other).create(&PostParams::default(), &review).await.unwrap().status.unwrap();
    assert_eq!(reviewed.authenticated, Some(true), "{reviewed:?}");
    assert_eq!(reviewed.user.unwrap().username.as_deref(), Some("system:serviceaccount:default:default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_is_killed_during_rollouts() {
    if !etcd::is_here() {
        return;
    }
    let began = Instant::now();
    let files = EtcdFiles::new();
    let secured = files.of_members();
    // Etcd's helper has its own runtime and blocks on it.
    let etcd = tokio::task::spawn_blocking(|| Cluster::of_any(secured)).await.unwrap();
    let stranger = Options { endpoints: etcd.endpoints(), tls: Some(files.of_a_stranger()), ..Options::default() };
    assert!(berth_etcd::Client::open(&stranger).await.is_err(), "a client without a certificate is rejected");
    let mut plane = ControlPlane::start(etcd, files.options()).await;
    until("the Service leads to all three", async || plane.published(0).await == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]).await;
    a_token_holds_everywhere(&plane).await;
    let managers = plane.pki.kubeconfig("controller-manager", plane.front.port);
    let [mut first, mut second] = [candidate(&managers), candidate(&managers)];
    let _scheduler = Part::start(&[&["scheduler"][..], &TIMING].concat(), Some(&plane.pki.kubeconfig("scheduler", plane.front.port)));
    let _nodes = Part::start(&[&["node"][..], &FAST, &TIMING].concat(), Some(&plane.pki.kubeconfig("node", plane.front.port)));
    Api::default_namespaced(plane.client.clone()).create(&PostParams::default(), &deployment()).await.unwrap();
    plane.rolled_out("web:0").await;

    let mut direct = Vec::new();
    for server in &plane.servers {
        direct.push(plane.pki.client(server.port).await);
    }
    let direct = Arc::new(Mutex::new(direct));
    let [pods, notes] = [Arc::<Mutex<Seen>>::default(), Arc::default()];
    let watchers = [
        tokio::spawn(follow::<Pod>(Arc::clone(&direct), Arc::clone(&pods))),
        tokio::spawn(follow::<ConfigMap>(Arc::clone(&direct), Arc::clone(&notes))),
    ];
    let (acknowledged, is_over) = (Arc::<Mutex<BTreeSet<String>>>::default(), Arc::<AtomicBool>::default());
    let writer = tokio::spawn(write(plane.client.clone(), Arc::clone(&acknowledged), Arc::clone(&is_over)));

    // The API server of both watchers.
    let image = plane.begin_rollout("web:1").await;
    plane.servers[0].part.kill();
    let killed_server = Instant::now();
    plane.rolled_out(&image).await;
    println!("an API server was killed: rolled out after {:.1?}", killed_server.elapsed());

    // The leader among etcd's members.
    let image = plane.begin_rollout("web:2").await;
    let leading = plane.etcd.leader();
    plane.etcd.kill(leading);
    let killed_member = Instant::now();
    plane.rolled_out(&image).await;
    println!("etcd's leader was killed: rolled out after {:.1?}", killed_member.elapsed());
    plane.etcd = tokio::task::spawn_blocking(move || {
        let mut etcd = plane.etcd;
        etcd.start_again(&[leading]);
        etcd
    })
    .await
    .unwrap();

    // The leader of the controllers.
    let image = plane.begin_rollout("web:3").await;
    let leads = lease_holder(&plane.client).await.unwrap();
    let killed_leader = Instant::now();
    if leads == first.1 {
        first.0.kill();
    } else {
        second.0.kill();
    }
    until("another leads", async || lease_holder(&plane.client).await.is_some_and(|holder| holder != leads)).await;
    let took = killed_leader.elapsed();
    assert!(took <= LEASE + RETRY.mul_f64(1.2) + SLACK, "{took:?}");
    plane.rolled_out(&image).await;
    println!("the controllers' leader was killed: another led after {took:.1?}, rolled out after {:.1?}", killed_leader.elapsed());

    // The server's lease expires by itself, 16 s after its last renewal. But a new leader of etcd restarts all leases. It is the leader by
    // now.
    let leads_by = Instant::now();
    until("the Service leads to the two that live", async || plane.published(1).await == ["192.0.2.2", "192.0.2.3"]).await;
    assert!(leads_by.elapsed() < Duration::from_secs(20), "{:?}", leads_by.elapsed());
    plane.start_again(0);
    until("the Service leads to all three again", async || plane.published(1).await.len() == 3).await;
    let told = Instant::now();
    assert!(plane.servers[2].part.terminate().success());
    until("it has gone", async || plane.published(1).await == ["192.0.2.1", "192.0.2.2"]).await;
    assert!(told.elapsed() < Duration::from_secs(8), "at once, not when its lease ends: {:?}", told.elapsed());

    is_over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let listed: BTreeSet<_> = Api::<ConfigMap>::default_namespaced(plane.client.clone())
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert!(acknowledged.is_subset(&listed), "lost: {:?}", acknowledged.difference(&listed));
    until("the watchers have seen all of it", async || {
        let known: BTreeSet<_> = notes.lock().unwrap().known.keys().cloned().collect();
        assert!(!watchers.iter().any(tokio::task::JoinHandle::is_finished), "a watcher has found something wrong");
        known == listed
    })
    .await;
    let [pods, notes] = [&pods, &notes].map(|seen| seen.lock().unwrap());
    assert_eq!(pods.most, REPLICAS + 1, "with those that go: one more than there are to be");
    assert!(0 < pods.moved && 0 < notes.moved, "both were at the server that was killed");
    println!("{} notes acknowledged, all there and seen once; {} pods at most; in {:.1?}", acknowledged.len(), pods.most, began.elapsed());
    watchers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// etcd's token is a member's record that it has verified a password. The token expires after a while without use, also at members that
/// received no requests.
#[tokio::test(flavor = "multi_thread")]
async fn servers_with_expired_etcd_tokens_authenticate_again_unnoticed() {
    if !etcd::upstream_is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let password = tls::file(folder.path(), "password", "secret");
    fs::set_permissions(&password, Permissions::from_mode(0o600)).unwrap();
    let start = || {
        // Earlier than an idle server checks etcd again.
        let etcd = Cluster::start("auth-token-ttl: 2\n");
        gateway::add_user_of_registry(&etcd.endpoints()[0], "berth");
        gateway::enable_users(&etcd.endpoints()[0]);
        etcd
    };
    let etcd = tokio::task::spawn_blocking(start).await.unwrap();
    let mut plane = ControlPlane::start(etcd, ["--etcd-user", "berth", "--etcd-password-file", &password].map(str::to_owned).into()).await;
    let mut direct = Vec::new();
    for server in &plane.servers {
        direct.push(plane.pki.client(server.port).await);
    }
    let seen = Arc::<Mutex<Seen>>::default();
    let watcher = tokio::spawn(follow::<ConfigMap>(Arc::new(Mutex::new(vec![direct[2].clone()])), Arc::clone(&seen)));
    let create = async |server: usize, round: usize| {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("note-{round}-{server}")}})).unwrap();
        Api::default_namespaced(direct[server].clone()).create(&PostParams::default(), &map).await
    };
    // All of them connect to the first member.
    let first = plane.etcd.endpoints()[0].clone();
    for round in 0..3 {
        let before = gateway::passwords_shown(&first);
        until("tokens have ended", async || before + 3 <= gateway::passwords_shown(&first)).await;
        for server in 0..3 {
            create(server, round).await.unwrap();
        }
    }
    plane.etcd.kill(0);
    for server in 0..3 {
        // A request whose response was lost may have created the object.
        let is_there = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 409);
        until("others let them in", async || create(server, 3).await.map_or_else(is_there, |_| true)).await;
    }
    let wanted: BTreeSet<_> = (0..12).map(|number| format!("note-{}-{}", number / 3, number % 3)).collect();
    until("the watcher has seen all of it", async || wanted.iter().all(|name| seen.lock().unwrap().known.contains_key(name))).await;
    assert!(!watcher.is_finished() && seen.lock().unwrap().moved == 0, "its watch has gone on");
    watcher.abort();
}

/// A user's writes and their results in the servers' audit logs: `POST pods 201`.
fn writes_of(user: &str, logs: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for log in logs {
        for line in fs::read_to_string(log).unwrap_or_default().lines() {
            // The last line may be incomplete.
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let verb = event["verb"].as_str().unwrap_or_default();
            if event["stage"] == "ResponseComplete" && event["user"]["username"] == user && !["get", "list", "watch"].contains(&verb) {
                found.push(format!(
                    "{verb} {} {}",
                    event["objectRef"]["resource"].as_str().unwrap_or_default(),
                    event["responseStatus"]["code"]
                ));
            }
        }
    }
    found
}

/// A former leader whose writes are delayed, and which then continues from the point where it was stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_leader_writes_nothing() {
    const FORMER: &str = "system:kube-controller-manager";
    if !etcd::is_here() {
        return;
    }
    let logs = TempDir::new().unwrap();
    let policy = logs.path().join("policy.yaml");
    fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n").unwrap();
    let log = logs.path().join("audit.log");
    let [policy, log_path] = [&policy, &log].map(|path| path.display().to_string());
    let (pki, folder, etcd) = (Pki::new(), TempDir::new().unwrap(), etcd::Etcd::start(etcd::PATIENT));
    let server = server(&pki, folder.path(), &etcd.endpoint, 1, &["--audit-policy-file", &policy, "--audit-log-path", &log_path]);
    let client = pki.client(server.port).await;
    // Only the former leader connects through a front that can hold its requests.
    let way = Front::before(vec![server.port]).await;
    let (mut former, name) = candidate(&pki.kubeconfig("controller-manager", way.port));
    until("it leads", async || lease_holder(&client).await.as_ref() == Some(&name)).await;
    let _nodes = Part::start(&[&["node"][..], &FAST].concat(), Some(&pki.kubeconfig("node", server.port)));
    let sets = Api::<ReplicaSet>::default_namespaced(client.clone());
    let template = json!({"metadata": {"labels": {"app": "bare"}}, "spec": {"containers": [{"name": "main", "image": "bare:1"}]}});
    let set =
        json!({"metadata": {"name": "bare"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "bare"}}, "template": template}});
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let count = async |wanted: usize| pods.list(&ListParams::default()).await.is_ok_and(|pods| pods.items.len() == wanted);
    until("its controller works", async || count(2).await).await;
    let (seen, clients) = (Arc::<Mutex<Seen>>::default(), Arc::new(Mutex::new(vec![client.clone()])));
    let watcher = tokio::spawn(follow::<Pod>(clients, Arc::clone(&seen)));

    // It reacts to a change that it still receives. The front holds its requests, and it hangs.
    way.hold();
    sets.patch("bare", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 7}}))).await.unwrap();
    until("it has sent a write", async || 0 < way.held_bytes()).await;
    former.signal(Signal::STOP);
    let (_next, next_name) = candidate(&pki.kubeconfig("admin", server.port));
    until("another leads", async || lease_holder(&client).await.as_ref() == Some(&next_name)).await;
    until("the next does the work", async || count(7).await).await;
    let before = writes_of(FORMER, std::slice::from_ref(&log));

    // The held requests arrive.
    way.let_go();
    until("it was refused", async || before.len() < writes_of(FORMER, std::slice::from_ref(&log)).len()).await;
    // The former leader continues.
    former.signal(Signal::CONT);
    assert_eq!(end_of(&mut former.child).code(), Some(1), "who has lost its lease ends");
    let late: Vec<_> = writes_of(FORMER, std::slice::from_ref(&log)).split_off(before.len());
    println!("of the former leader, after the next led: {late:?}");
    // A status or a pod, depending on its last request before the stop.
    assert!(!late.is_empty() && late.iter().all(|write| write.ends_with(" 409")), "{late:?}");
    assert!(!watcher.is_finished(), "the watcher has found something wrong");
    assert_eq!(seen.lock().unwrap().most, 7);
    watcher.abort();
}

/// Nine consecutive ports that no process uses at this moment. Returns the one before them.
fn nine_ports() -> u16 {
    let are_free = |first: u16| (1..=9).all(|number| std::net::TcpListener::bind(("127.0.0.1", first + number)).is_ok());
    let start = 20_000 + u16::try_from(std::process::id() % 900).unwrap() * 10;
    (start..32_000).step_by(10).find(|first| are_free(*first)).unwrap()
}

/// The output that the how-to shows appears in that order: the commands and their results, except for random names.
#[test]
fn the_script_of_the_how_to_does_what_is_shown() {
    if !common::kubectl_is_here() || !etcd::is_here() {
        return;
    }
    let (root, programs) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), TempDir::new().unwrap());
    std::os::unix::fs::symlink(etcd::program().as_ref().unwrap(), programs.path().join("etcd")).unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap();
    let path = format!("{}:{}:{}", own.display(), programs.path().display(), std::env::var("PATH").unwrap());
    let mut script = Command::new(root.join("examples/three-servers.sh"));
    let output = script.env("PATH", path).env("PORTS", nine_ports().to_string()).env_remove("KUBECONFIG").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let how_to = fs::read_to_string(root.join("docs/how-to/three-servers.md")).unwrap();
    let (_, shown) = how_to.split_once("$ examples/three-servers.sh\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let is_fixed = |line: &&str| line.starts_with("# ") || line.contains("successfully rolled out") || line.len() == 1;
    let mut rest = printed.lines();
    for line in shown.lines().filter(is_fixed) {
        assert!(rest.any(|printed| printed == line), "{line:?} does not come, or not in its order, in\n{printed}");
    }
    assert!(shown.trim_end().ends_with("\n5"), "the bound of the rollout");
}
