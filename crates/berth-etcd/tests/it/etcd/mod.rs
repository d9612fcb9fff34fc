//! Real etcds for tests, and the runtime of their clients.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests have other programs, files and the real time")]

pub(crate) mod cluster;
pub(crate) mod front;
pub(crate) mod gateway;
pub(crate) mod network;
pub(crate) mod tls;

use berth_etcd::{Client, OpenError, Options};
use berth_store::{
    Layout,
    env::{Clock, Env, Rng, Spawner, Timestamp},
    etcd::{Etcd as _, EtcdStore},
};
use berth_testing::{Tool, skip, upstream_folder};
use futures::{FutureExt, future::BoxFuture};
use jiff::SignedDuration;
use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

/// The maximum time to wait for an expected event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Accepts a value of berth's largest size with its overhead. etcd's own default is exactly that size for a complete request.
pub(crate) const PATIENT: &str = "max-request-bytes: 1703936\n";

/// A single member, with a runtime for its clients. Dropping it stops both.
pub(crate) struct Etcd {
    program: PathBuf,
    folder: TempDir,
    settings: String,
    child: Child,
    pub(crate) endpoint: String,
    runtime: Tasks,
}

/// A runtime whose tasks end with it, even if the dropping thread may not block.
pub(crate) struct Tasks(Option<Runtime>);

impl Tasks {
    pub(crate) fn new() -> Self {
        Self(Some(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")))
    }
}

impl Deref for Tasks {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.take().expect("it is dropped once").shutdown_background();
    }
}

impl Etcd {
    /// Starts an empty etcd with further configuration lines, if one is available.
    pub(crate) fn start(settings: &str) -> Self {
        Self::of(program().clone().expect("the caller has checked that there is one"), settings)
    }

    /// An empty etcd of Debian, which does not report the progress of a watch (that of Debian 12 does not). Reports if there is none.
    pub(crate) fn old() -> Option<Self> {
        let program = of_debian();
        if !program.exists() {
            skip(Tool::Etcd, "no target/tools/etcd-server/usr/bin/etcd: `cargo xtask test` unpacks Debian's");
            return None;
        }
        Some(Self::of(program, ""))
    }

    fn of(program: PathBuf, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let runtime = Tasks::new();
        let (child, endpoint) = run(&program, &folder, settings, "127.0.0.1:0");
        Self { program, folder, settings: settings.into(), child, endpoint, runtime }
    }

    /// Starts it with its JSON gateway, which does not find a member that chose its port itself.
    pub(crate) fn with_gateway(settings: &str) -> Self {
        let mut etcd = Self::start(settings);
        etcd.kill();
        etcd.start_again();
        etcd
    }

    /// Stops it as if the machine had failed.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Restarts it with the same data and address.
    pub(crate) fn start_again(&mut self) {
        let address = self.endpoint.rsplit('/').next().expect("an address").to_owned();
        (self.child, self.endpoint) = run(&self.program, &self.folder, &self.settings, &address);
    }

    pub(crate) fn options(&self) -> Options {
        Options { endpoints: vec![self.endpoint.clone()], ..Options::default() }
    }

    pub(crate) fn client(&self) -> TestClient {
        self.open(&self.options()).expect("it answers")
    }

    pub(crate) fn open(&self, options: &Options) -> Result<TestClient, OpenError> {
        let runtime = self.runtime.handle().clone();
        runtime.block_on(Client::open(options)).map(|client| TestClient { client, runtime })
    }

    pub(crate) fn store(&self, layout: Arc<impl Layout>, history_bytes: usize) -> EtcdStore {
        self.store_of(&self.client(), layout, history_bytes)
    }

    pub(crate) fn store_of(&self, client: &TestClient, layout: Arc<impl Layout>, history_bytes: usize) -> EtcdStore {
        EtcdStore::new(Arc::new(client.client.clone()), layout, history_bytes, &env(self.runtime.handle()))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A client with its runtime.
pub(crate) struct TestClient {
    pub(crate) client: Client,
    pub(crate) runtime: Handle,
}

impl TestClient {
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Waits until `now`, and until keys that expire by then are deleted. Leases end up to a second late, at whole
    /// seconds.
    pub(crate) fn pass(&self, now: Timestamp) {
        let left = now.duration_since(Timestamp::now());
        if let Ok(left) = left.try_into() {
            thread::sleep(left);
        }
        let due_by = now + SignedDuration::from_millis(1200);
        // etcd reports whole seconds, rounded down.
        let is_due = |left: i64| left < 0 || Timestamp::now() + SignedDuration::from_secs(left + 1) <= due_by;
        eventually("the leases end", || !self.wait(self.client.leases()).expect("it answers").iter().any(|(_, left)| is_due(*left)));
    }
}

/// Waits until a condition is true.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts etcd and waits until it serves. Returns its address.
fn run(program: &Path, folder: &TempDir, settings: &str, address: &str) -> (Child, String) {
    let (file, log, data) = (folder.path().join("etcd.yaml"), folder.path().join("log"), folder.path().join("data"));
    // Only this test connects: no peer and no advertised address. Without fsync, because only a power failure would
    // show the difference.
    let text = format!(
        "name: m0\ndata-dir: {}\nlisten-client-urls: http://{address}\nadvertise-client-urls: http://127.0.0.1:1\n\
         listen-peer-urls: http://127.0.0.1:0\ninitial-advertise-peer-urls: http://127.0.0.1:1\ninitial-cluster: m0=http://127.0.0.1:1\n\
         logger: zap\nenable-grpc-gateway: true\nunsafe-no-fsync: true\n{settings}",
        data.display()
    );
    let scheme = if settings.contains("client-transport-security") { "https" } else { "http" };
    let text = text.replace("client-urls: http:", &format!("client-urls: {scheme}:"));
    fs::write(&file, text).expect("the folder is ours");
    let output = fs::File::create(&log).expect("the folder is ours");
    let mut child = Command::new(program)
        .arg("-config-file")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a file"))
        .stderr(output)
        .spawn()
        .expect("etcd runs");
    let mut served = None;
    eventually("etcd serves", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let ended = child.try_wait().expect("it is ours");
        assert!(ended.is_none(), "etcd ended: {log}");
        let line = log.lines().find(|line| line.contains("serving client traffic"));
        let address = line.and_then(|line| line.split("\"address\":\"").nth(1)).and_then(|rest| rest.split('"').next());
        served = address.map(|address| format!("{scheme}://{address}"));
        served.is_some()
    });
    (child, served.expect("it serves"))
}

/// Whether an etcd is available. Reports if not.
pub(crate) fn is_here() -> bool {
    program().as_ref().map_err(|reason| skip(Tool::Etcd, reason)).is_ok()
}

/// Whether it reports progress. Prints a note if not.
pub(crate) fn reports_progress() -> bool {
    static REPORTS_PROGRESS: OnceLock<bool> = OnceLock::new();
    let tells = *REPORTS_PROGRESS.get_or_init(|| Etcd::start("").client().client.reports_progress());
    if !tells {
        skip(Tool::Etcd36, "this one is older than 3.4.31 or 3.5.13, and what it tells of progress is not to be relied on");
    }
    tells
}

/// Returns the etcd in `BERTH_ETCD`. Otherwise returns 3.6 from the folder `BERTH_UPSTREAM` or from
/// `../shared/upstream`, or Debian's, which `cargo xtask test` unpacks.
pub(crate) fn program() -> &'static Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(named) = std::env::var_os("BERTH_ETCD") {
            return Ok(named.into());
        }
        if let Ok(of_upstream) = upstream() {
            return Ok(of_upstream.clone());
        }
        if of_debian().exists() {
            return Ok(of_debian());
        }
        Err("no target/tools/etcd-server/usr/bin/etcd: `cargo xtask test` unpacks Debian's; BERTH_ETCD names another".into())
    })
}

fn of_debian() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/etcd-server/usr/bin/etcd")
}

/// Returns 3.6 from the folder `BERTH_UPSTREAM`, or from `../shared/upstream`.
pub(crate) fn upstream() -> &'static Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let archive = upstream_folder().join("bin.tar.xz");
        if !archive.exists() {
            return Err(format!("no {}: BERTH_UPSTREAM names the folder that has one", archive.display()));
        }
        unpacked(&archive, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"))
    })
}

fn unpacked(archive: &Path, tools: &Path) -> Result<PathBuf, String> {
    let program = tools.join("upstream-etcd");
    if !program.exists() {
        fs::create_dir_all(tools).map_err(|error| error.to_string())?;
        let part = tempfile::tempdir_in(tools).map_err(|error| error.to_string())?;
        let status = Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(part.path()).arg("./etcd").status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("tar does not unpack etcd from {}", archive.display()));
        }
        // Other tests may do the same.
        fs::rename(part.path().join("etcd"), &program).map_err(|error| error.to_string())?;
    }
    Ok(program)
}

/// Whether 3.6 is available. Reports if not.
pub(crate) fn upstream_is_here() -> bool {
    upstream().as_ref().map_err(|reason| skip(Tool::Etcd36, reason)).is_ok()
}

/// The machine's clock, and tasks on a runtime.
pub(crate) fn env(runtime: &Handle) -> Env {
    let machine = Arc::new(Machine(runtime.clone()));
    Env { clock: machine.clone(), rng: machine.clone(), spawner: machine }
}

struct Machine(Handle);

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        async move { tokio::time::sleep(left).await }.boxed()
    }
}

impl Rng for Machine {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

impl Spawner for Machine {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        drop(self.0.spawn(task));
    }
}
