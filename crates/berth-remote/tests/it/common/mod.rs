//! The clusters of the suite: the registry in the test's process, berth's API server over HTTPS, and a real Kubernetes
//! if one is available.

#![expect(clippy::disallowed_methods, reason = "tests meet the machine")]

use berth_api::FeatureGates;
use berth_apiserver::{Access, Config, Credentials, Kubeconfig, Limits, Pki, PkiOptions, Readiness, Server, Storage};
use berth_controllers::{Change, Cluster};
use berth_env::{Clock, Env, Rng, Spawner, Timestamp};
use berth_local::LocalCluster;
use berth_registry::{Registry, ResourceTable};
use berth_remote::{Options, RemoteCluster};
use berth_store::{DEFAULT_HISTORY_BYTES, MemoryStore};
use berth_testing::Upstream;
use futures::{
    StreamExt,
    future::{BoxFuture, pending, select},
    stream::BoxStream,
};
use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::watch,
    time::timeout,
};

/// The maximum time to wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

struct Machine(Handle);

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        Box::pin(tokio::time::sleep(left))
    }
}

impl Rng for Machine {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the machine has randomness");
    }
}

impl Spawner for Machine {
    fn spawn(&self, _: &'static str, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
}

/// The machine's clock and randomness, and tasks on the test's runtime.
pub(crate) fn env() -> Env {
    let machine = Arc::new(Machine(Handle::current()));
    Env { clock: machine.clone(), rng: machine.clone(), spawner: machine }
}

/// A server in the test's process with a memory store, which runs until the test ends.
struct Running {
    address: SocketAddr,
    pki: Pki,
    registry: Registry,
    folder: TempDir,
}

impl Running {
    async fn start(history_bytes: usize) -> Self {
        let (folder, Env { clock, rng, .. }) = (tempfile::tempdir().expect("a folder"), env());
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = PkiOptions { folder: folder.path(), bind: bind.ip(), extra_names: &[], now: clock.now() };
        let pki = Pki::load_or_create(&options, &*rng).expect("certificates");
        let (table, gates) = (Arc::new(ResourceTable::default()), Arc::new(FeatureGates::default()));
        let store = Arc::new(MemoryStore::new(Arc::clone(&table), history_bytes));
        let registry = Registry::new(store, table, clock, Arc::clone(&rng), Arc::clone(&gates));
        registry.bootstrap().await.expect("an empty store takes the first objects");
        registry.bootstrap_policy().await.expect("an empty store takes the first roles");
        let config = Config {
            bind,
            registry: registry.clone(),
            credentials: Credentials::from(&pki),
            storage: Storage::default(),
            access: Access::default(),
            limits: Limits::default(),
            gates: Arc::clone(&gates),
            controller_gates: gates,
            metrics: prometheus::Registry::new(),
            readiness: Readiness::default(),
            rng,
            users: Handle::current(),
        };
        let server = Server::bind(config).await.expect("a free port");
        let address = server.local_addr();
        tokio::spawn(server.serve(pending()));
        Self { address, pki, registry, folder }
    }

    /// Connects with a kubeconfig for `address`.
    async fn connect(&self, address: SocketAddr) -> RemoteCluster {
        self.connect_to(address, Vec::new()).await
    }

    /// Does the same for a control plane with several servers.
    async fn connect_to(&self, address: SocketAddr, more: Vec<SocketAddr>) -> RemoteCluster {
        let path = self.folder.path().join("kubeconfig");
        let kubeconfig = Kubeconfig {
            name: "berth",
            server: &format!("https://{address}"),
            ca_certificate: &self.pki.ca_certificate,
            client_certificate: &self.pki.admin.certificate,
            client_key: &self.pki.admin.key,
        };
        kubeconfig.write(&path).expect("a folder of ours");
        let more_servers = more.iter().map(|address| format!("https://{address}")).collect();
        let options = Options { kubeconfigs: vec![path], more_servers, ..Options::default() };
        RemoteCluster::connect(&options, env()).await.expect("one runs")
    }

    fn local(&self) -> LocalCluster {
        LocalCluster::new(self.registry.clone(), env())
    }
}

/// A cluster, and what keeps it running.
pub(crate) struct Subject {
    pub(crate) cluster: Arc<dyn Cluster>,
    _holds: Box<dyn Send>,
}

/// berth's registry, called directly.
pub(crate) async fn local() -> Option<Subject> {
    let server = Running::start(DEFAULT_HISTORY_BYTES).await;
    Some(Subject { cluster: Arc::new(server.local()), _holds: Box::new(server) })
}

/// berth's API server, over HTTPS.
pub(crate) async fn remote() -> Option<Subject> {
    let server = Running::start(DEFAULT_HISTORY_BYTES).await;
    Some(Subject { cluster: Arc::new(server.connect(server.address).await), _holds: Box::new(server) })
}

/// The same with its concrete type, and what keeps it running.
pub(crate) async fn remote_itself() -> (RemoteCluster, impl Send) {
    let server = Running::start(DEFAULT_HISTORY_BYTES).await;
    (server.connect(server.address).await, server)
}

/// A real Kubernetes, without controllers.
pub(crate) async fn upstream() -> Option<Subject> {
    let upstream = Upstream::start(&["--no-controllers"])?;
    let options = Options { kubeconfigs: vec![upstream.kubeconfig()], ..Options::default() };
    let cluster = Arc::new(RemoteCluster::connect(&options, env()).await.expect("it runs"));
    Some(Subject { cluster, _holds: Box::new(upstream) })
}

/// A server behind a connection that can be cut.
pub(crate) struct CutOff {
    pub(crate) cluster: RemoteCluster,
    pub(crate) local: LocalCluster,
    address: SocketAddr,
    is_whole: watch::Sender<bool>,
    _holds: Running,
}

impl CutOff {
    /// The same control plane, with its uncut address as the second one.
    pub(crate) async fn of_two(&self) -> RemoteCluster {
        self._holds.connect_to(self.address, vec![self._holds.address]).await
    }

    /// `history_bytes` is the size of its history.
    pub(crate) async fn start(history_bytes: usize) -> Self {
        let server = Running::start(history_bytes).await;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let is_whole = watch::Sender::new(true);
        tokio::spawn(pass_on(listener, server.address, is_whole.clone()));
        Self { cluster: server.connect(address).await, local: server.local(), address, is_whole, _holds: server }
    }

    /// Ends all connections and rejects new ones.
    pub(crate) fn cut(&self) {
        self.is_whole.send_replace(false);
    }

    /// Accepts connections again.
    pub(crate) fn restore(&self) {
        self.is_whole.send_replace(true);
    }
}

async fn pass_on(listener: TcpListener, to: SocketAddr, is_whole: watch::Sender<bool>) {
    loop {
        let Ok((mut near, _)) = listener.accept().await else { return };
        let mut whole = is_whole.subscribe();
        if !*whole.borrow() {
            continue;
        }
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(to).await else { return };
            let is_cut = whole.wait_for(|whole| !whole);
            select(pin!(copy_bidirectional(&mut near, &mut far)), pin!(is_cut)).await;
        });
    }
}

/// The items of a watch, as text: `restarted`, `synced`, `config map a=1`, …
pub(crate) struct Changes(BoxStream<'static, Change>);

impl Changes {
    pub(crate) fn new(changes: BoxStream<'static, Change>) -> Self {
        Self(changes)
    }

    /// Returns the next change.
    pub(crate) async fn next(&mut self) -> Change {
        timeout(PATIENCE, self.0.next()).await.expect("it comes in time").expect("a watch has no end")
    }

    /// Returns the next change other than a bookmark.
    pub(crate) async fn next_change(&mut self) -> Change {
        loop {
            match self.next().await {
                Change::Progress(_) => (),
                change => return change,
            }
        }
    }

    /// Returns the changes of objects whose names have this prefix, up to the first that `is_last`.
    pub(crate) async fn about(&mut self, prefix: &str, is_last: impl Fn(&Change) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        loop {
            let change = self.next_change().await;
            let is_over = is_last(&change);
            let is_about = match &change {
                Change::Applied { key, .. } | Change::Deleted { key, .. } => key.name.starts_with(prefix),
                Change::Restarted | Change::Synced(_) | Change::Progress(_) => true,
            };
            if is_about {
                changes.push(change);
            }
            if is_over {
                return changes;
            }
        }
    }
}
