//! The two servers, what both serve, and how they are asked.

use crate::schema::Schemas;
use berth_testing::Upstream;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The namespace of nearly all cases.
pub(crate) const NAMESPACE: &str = "compare";
/// That of bounds.
const LIMITS: &str = "limits";
/// How many simulated nodes a cluster has whose controllers work.
const NODES: &str = "4";
/// How long a server has to create an object that follows from another.
const FOUND_WITHIN: Duration = Duration::from_secs(60);
/// Between two reads of an object that is awaited.
const POLL: Duration = Duration::from_millis(20);

/// A request that both servers get, each with its own values in place of `$uid` and `$version`.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Value,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Texts of the Warning headers.
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        self.status < 300
    }
}

/// A kind that both servers take.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    pub(crate) has_status: bool,
}

impl Kind {
    /// The kind, with its group where another group has one of this name.
    pub(crate) fn shown(&self) -> String {
        if self.api_version == "events.k8s.io/v1" { format!("{}.events.k8s.io", self.kind) } else { self.kind.clone() }
    }

    /// What bounds others has a namespace of its own.
    pub(crate) fn namespace(&self) -> &'static str {
        if ["LimitRange", "ResourceQuota"].contains(&self.kind.as_str()) { LIMITS } else { NAMESPACE }
    }

    /// `/apis/apps/v1/namespaces/compare/deployments`.
    pub(crate) fn collection(&self) -> String {
        self.collection_in(self.namespace())
    }

    /// The same in another namespace, if the kind is namespaced.
    pub(crate) fn collection_in(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = if self.is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        format!("{root}/{}{namespace}/{}", self.api_version, self.plural)
    }
}

/// A server, as its administrator.
#[derive(Clone)]
pub(crate) struct Server(Client);

impl Server {
    pub(crate) async fn open(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self(Client::try_from(config).unwrap())
    }

    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        let body = if ask.method == "GET" { Vec::new() } else { serde_json::to_vec(&ask.body).unwrap() };
        let request = Request::builder().method(ask.method).uri(&ask.path).header(CONTENT_TYPE, ask.content_type);
        // A server that panics ends the connection, and goes on.
        let response = match self.0.send(request.body(Body::from(body)).unwrap()).await {
            Ok(response) => response,
            Err(error) => return Answer { status: 599, warnings: Vec::new(), body: json!({"message": format!("no answer: {error}")}) },
        };
        let status = response.status().as_u16();
        let warnings =
            response.headers().get_all("warning").iter().map(|value| warning(&String::from_utf8_lossy(value.as_bytes()))).collect();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body)));
        Answer { status, warnings, body }
    }

    pub(crate) async fn read(&self, path: &str) -> Answer {
        self.ask(&Ask { method: "GET", path: path.to_owned(), content_type: "application/json", body: Value::Null }).await
    }

    /// Waits for an object.
    ///
    /// # Panics
    /// There is none in time.
    pub(crate) async fn until_found(&self, path: &str) {
        let started = Instant::now();
        loop {
            let answer = self.read(path).await;
            if answer.is_good() {
                return;
            }
            assert!(started.elapsed() < FOUND_WITHIN, "GET {path}: {} {}", answer.status, answer.body);
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.read(path).await;
        assert!(answer.is_good(), "GET {path}: {} {}", answer.status, answer.body);
        answer.body
    }

    /// The kinds that it stores and lets change.
    async fn kinds(&self) -> Vec<Kind> {
        let mut versions = vec!["v1".to_owned()];
        let groups = self.get("/apis").await;
        let all = groups["groups"].as_array().unwrap().iter().flat_map(|group| group["versions"].as_array().unwrap());
        versions.extend(all.map(|version| version["groupVersion"].as_str().unwrap().to_owned()));
        let mut kinds = Vec::new();
        for version in versions {
            let root = if version.contains('/') { "/apis" } else { "/api" };
            let list = self.get(&format!("{root}/{version}")).await;
            let resources = list["resources"].as_array().unwrap();
            let has = |name: &str| resources.iter().any(|resource| resource["name"] == name);
            let is_stored = |resource: &&Value| {
                let verbs = resource["verbs"].as_array().unwrap();
                !resource["name"].as_str().unwrap().contains('/')
                    && ["create", "patch"].iter().all(|verb| verbs.iter().any(|is| is == verb))
            };
            kinds.extend(resources.iter().filter(is_stored).map(|resource| Kind {
                api_version: version.clone(),
                kind: resource["kind"].as_str().unwrap().to_owned(),
                plural: resource["name"].as_str().unwrap().to_owned(),
                is_namespaced: resource["namespaced"] == true,
                has_status: has(&format!("{}/status", resource["name"].as_str().unwrap())),
            }));
        }
        kinds
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> Answer {
        self.ask(&Ask { method: "POST", path: path.to_owned(), content_type: "application/json", body }).await
    }
}

/// The text of `299 - "text"`.
fn warning(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, text)| text.strip_suffix('"').unwrap_or(text));
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// A berth that only serves.
pub(crate) struct Berth {
    _process: Process,
    folder: TempDir,
}

impl Berth {
    /// Starts `berth` with these arguments and waits until it serves.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new(binary());
        command.args(arguments).args(["--store", "memory", "--secure-port", "0", "--data-dir"]).arg(folder.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().expect("berth ended").unwrap().starts_with("API server ready at ") {}
        std::thread::spawn(move || lines.for_each(drop));
        Self { _process: Process(child), folder }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// The program that `BERTH_BINARY` names, else the one beside this one.
pub(crate) fn binary() -> PathBuf {
    let beside = || std::env::current_exe().unwrap().with_file_name("berth");
    std::env::var_os("BERTH_BINARY").map_or_else(beside, PathBuf::from)
}

/// A process that ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What ends with a pair.
#[expect(dead_code, reason = "they end when they are dropped")]
enum Running {
    Process(Process),
    Berth(Berth),
    Upstream(Upstream),
}

/// Both servers.
pub(crate) struct Pair {
    /// The real one.
    pub(crate) theirs: Server,
    pub(crate) ours: Server,
    /// In the order in which they end.
    _running: Vec<Running>,
}

impl Pair {
    /// Starts both without controllers. `None` where there is no real one: then it prints a note.
    pub(crate) async fn start() -> Option<Self> {
        // berth taints new nodes by a controller. What follows from their taints would hide all else of nodes.
        let upstream = Upstream::start(&["--no-controllers", "API_EXTRA=--disable-admission-plugins=TaintNodesByCondition"])?;
        let berth = Berth::start(&["apiserver", "--service-cluster-ip-range", "10.0.0.0/24"]);
        let pair = Self::open(upstream, berth, None).await;
        pair.prepare().await;
        Some(pair)
    }

    /// Starts both with their controllers, and with simulated nodes.
    pub(crate) async fn start_working() -> Option<Self> {
        let upstream = Upstream::start(&["--scheduler"])?;
        let berth = Berth::start(&["up", "--nodes", NODES]);
        let mut nodes = Command::new(binary());
        nodes.args([
            "node",
            "--join-foreign-cluster",
            "--no-simulated-taint",
            "--leader-elect=false",
            "--secure-port",
            "0",
            "--nodes",
            NODES,
        ]);
        let nodes = nodes.arg("--kubeconfig").arg(upstream.kubeconfig()).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Some(Self::open(upstream, berth, Some(Process(nodes))).await)
    }

    /// Starts two berths. The first one's autoscalers are those of a real controller manager, which has no nodes with usage itself.
    pub(crate) async fn start_autoscaling() -> Option<Self> {
        let upstream = Upstream::start(&["--no-controllers"])?;
        let theirs = Berth::start(&["up", "--nodes", NODES, "--controllers=*,-horizontalpodautoscaling"]);
        let ours = Berth::start(&["up", "--nodes", NODES]);
        let mut manager = Command::new(Path::new(&upstream.variable("UPSTREAM_BIN")).join("kube-controller-manager"));
        manager.args(["--controllers=horizontal-pod-autoscaler-controller", "--leader-elect=false", "--secure-port=0", "--kubeconfig"]);
        let manager = manager.arg(theirs.kubeconfig()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (clients, manager) = ((Server::open(&theirs.kubeconfig()).await, Server::open(&ours.kubeconfig()).await), Process(manager));
        Some(Self {
            theirs: clients.0,
            ours: clients.1,
            _running: vec![Running::Process(manager), Running::Berth(theirs), Running::Berth(ours), Running::Upstream(upstream)],
        })
    }

    /// Starts both with their controllers. Only berth's cluster has nodes.
    pub(crate) async fn start_for_manifests() -> Option<Self> {
        let upstream = Upstream::start(&["API_EXTRA=--allow-privileged=true"])?;
        let berth = Berth::start(&["up", "--nodes", NODES]);
        Some(Self::open(upstream, berth, None).await)
    }

    async fn open(upstream: Upstream, berth: Berth, nodes: Option<Process>) -> Self {
        let (theirs, ours) = (Server::open(&upstream.kubeconfig()).await, Server::open(&berth.kubeconfig()).await);
        let nodes = nodes.map(Running::Process);
        Self { theirs, ours, _running: nodes.into_iter().chain([Running::Berth(berth), Running::Upstream(upstream)]).collect() }
    }

    /// The objects that cases need: a namespace, its service account, classes.
    async fn prepare(&self) {
        // berth has a class of its own, which claims would get.
        let class = "/apis/storage.k8s.io/v1/storageclasses/standard".to_owned();
        self.ours.ask(&Ask { method: "DELETE", path: class, content_type: "application/json", body: json!({}) }).await;
        for server in [&self.theirs, &self.ours] {
            for name in [NAMESPACE, LIMITS] {
                server.create("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
            }
            for name in ["default", "web"] {
                let account = json!({"metadata": {"name": name}, "automountServiceAccountToken": false});
                let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
                let made = server.create(&path, account.clone()).await;
                if !made.is_good() {
                    let put = Ask { method: "PUT", path: format!("{path}/{name}"), content_type: "application/json", body: account };
                    assert!(server.ask(&put).await.is_good(), "the account {name} can be changed");
                }
            }
            server.create("/apis/scheduling.k8s.io/v1/priorityclasses", json!({"metadata": {"name": "high"}, "value": 1000})).await;
        }
    }

    /// The kinds that berth stores and lets change.
    pub(crate) async fn kinds(&self) -> Vec<Kind> {
        self.ours.kinds().await
    }

    /// The kinds that the real server stores and lets change.
    pub(crate) async fn kinds_of_theirs(&self) -> Vec<Kind> {
        self.theirs.kinds().await
    }

    /// The schemas of these kinds, as the real server publishes them.
    pub(crate) async fn schemas(&self, kinds: &[Kind]) -> Schemas {
        let mut schemas = Schemas::default();
        let mut versions: Vec<&str> = kinds.iter().map(|kind| kind.api_version.as_str()).collect();
        versions.dedup();
        for version in versions {
            let root = if version.contains('/') { "apis" } else { "api" };
            schemas.add(self.theirs.get(&format!("/openapi/v3/{root}/{version}")).await);
        }
        schemas
    }

    /// Asks both at once: theirs, ours.
    pub(crate) async fn ask(&self, theirs: &Ask, ours: &Ask) -> [Answer; 2] {
        let (theirs, ours) = futures::join!(self.theirs.ask(theirs), self.ours.ask(ours));
        [theirs, ours]
    }
}
