//! A server under test.

use crate::{
    access,
    client::{Connection, Endpoint},
    etcd_server::Etcd,
    figures::{Runs, System, Table},
};
use serde_json::json;
use std::{
    cell::Cell,
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io::{BufRead, BufReader},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// What is measured.
pub(crate) enum Target {
    /// This `berth`.
    Berth {
        /// The program.
        binary: PathBuf,
    },
    /// The same, its objects in an etcd.
    BerthOnEtcd {
        /// The program.
        binary: PathBuf,
        /// Holds the programs `start` and `stop`, which run an etcd.
        programs: PathBuf,
    },
    /// A Kubernetes: API server, etcd, controller manager; with nodes also its scheduler, the nodes being berth's simulated ones.
    Upstream {
        /// Holds the programs `start` and `stop`.
        folder: PathBuf,
        /// The `berth` that simulates nodes.
        binary: PathBuf,
    },
}

impl Target {
    /// The column of its figures.
    pub(crate) fn system(&self) -> System {
        if let Self::Upstream { .. } = self { System::Upstream } else { System::Berth }
    }
}

/// What runs besides the API server and its store.
#[derive(Clone, Copy)]
pub(crate) enum Parts<'a> {
    /// Neither controllers nor nodes.
    StoreOnly,
    /// The controllers, and for berth these arguments. A Kubernetes gets its scheduler, and nodes as the arguments specify, if there are any.
    Controllers(&'a [&'a str]),
}

/// How fast a Kubernetes' controllers and scheduler may ask: as much as they can. Their own limits would be what is measured.
const UNLIMITED: &str = "--kube-api-qps=5000 --kube-api-burst=10000";
/// Syncs at once, where 5 are the default.
const SYNCS: &str =
    "--concurrent-deployment-syncs=50 --concurrent-replicaset-syncs=50 --concurrent-job-syncs=50 --concurrent-daemonset-syncs=50";

pub(crate) struct Server {
    running: Running,
    folder: TempDir,
    user: Endpoint,
    /// Others on the same etcd.
    beside: Vec<Self>,
    /// Which of them the next connection goes to.
    next: Cell<usize>,
    /// From the start of the process to `/readyz` ok; of berth alone, as a Kubernetes' script makes its certificates meanwhile.
    pub(crate) ready_after: Duration,
}

enum Running {
    Berth {
        child: Child,
        binary: PathBuf,
        etcd: Option<Etcd>,
    },
    /// `more` are those that its script does not start.
    Upstream {
        stop: PathBuf,
        processes: Vec<u32>,
        more: Vec<Child>,
    },
}

/// Costs that another program on the machine changes little or not at all.
pub(crate) struct Spent {
    cpu_seconds: f64,
    /// One for each write.
    revision: f64,
    /// Keys accepted, by work queue.
    reconciles: BTreeMap<String, f64>,
}

impl Spent {
    /// Adds what `what` cost since `before`, for each of `pods`.
    pub(crate) fn add_to(&self, runs: &mut Runs, before: &Self, what: &str, pods: f64) {
        let mut add = |name: &str, unit, value: f64| runs.add(&format!("  {what}: {name} a pod"), unit, Table::Detail, value / pods);
        add("processor time", "ms", (self.cpu_seconds - before.cpu_seconds) * 1000.0);
        add("writes", "", self.revision - before.revision);
        for queue in ["deployment", "replicaset", "statefulset", "daemonset", "job", "node"] {
            let count = |spent: &Self| spent.reconciles.get(queue).copied().unwrap_or_default();
            add(&format!("{queue} looks"), "", count(self) - count(before));
        }
    }
}

impl Server {
    /// Starts the target on an empty folder, waits for `/readyz`, and makes the user who measures.
    pub(crate) async fn start(target: &Target, parts: Parts<'_>) -> Self {
        match target {
            Target::Berth { binary } => Self::start_berth(binary, None, parts).await,
            Target::BerthOnEtcd { binary, programs } => Self::start_berth(binary, Some(Etcd::start(programs)), parts).await,
            Target::Upstream { folder, binary } => Self::start_upstream(folder, binary, parts).await,
        }
    }

    async fn start_berth(binary: &Path, etcd: Option<Etcd>, parts: Parts<'_>) -> Self {
        let mut server = Self::launch(binary, etcd.as_ref(), parts, None).await;
        let group = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": access::NAME});
        access::grant(&server.administrator(), group).await;
        let Running::Berth { etcd: kept, .. } = &mut server.running else { unreachable!("it was launched as one of berth's") };
        *kept = etcd;
        server
    }

    /// Starts another API server on the same etcd, with the same keys. From now on every connection goes to another one than the last.
    pub(crate) async fn add_one(&mut self) {
        let Running::Berth { binary, etcd, .. } = &self.running else { panic!("only berth's servers are multiplied") };
        self.beside.push(Self::launch(binary, etcd.as_ref(), Parts::StoreOnly, Some(&self.folder().join("pki"))).await);
    }

    async fn launch(binary: &Path, etcd: Option<&Etcd>, parts: Parts<'_>, keys: Option<&Path>) -> Self {
        let folder = TempDir::new().unwrap();
        if let Some(keys) = keys {
            let own = folder.path().join("pki");
            DirBuilder::new().mode(0o700).create(&own).unwrap();
            for key in fs::read_dir(keys).unwrap().map(Result::unwrap) {
                fs::copy(key.path(), own.join(key.file_name())).unwrap();
            }
        }
        let (child, ready_after) = run(binary, folder.path(), etcd, parts).await;
        let user = access::endpoint(&issue(binary, folder.path(), access::NAME, access::NAME));
        let running = Running::Berth { child, binary: binary.to_owned(), etcd: None };
        Self { running, folder, user, beside: Vec::new(), next: Cell::new(0), ready_after }
    }

    /// Ends berth without a warning, and starts it again on the same folder.
    pub(crate) async fn restart(&mut self, parts: Parts<'_>) {
        let Running::Berth { child, binary, etcd } = &mut self.running else { panic!("only berth is restarted") };
        child.kill().unwrap();
        child.wait().unwrap();
        (*child, self.ready_after) = run(binary, self.folder.path(), etcd.as_ref(), parts).await;
        self.user = access::endpoint(&issue(binary, self.folder.path(), access::NAME, access::NAME));
    }

    async fn start_upstream(programs: &Path, binary: &Path, parts: Parts<'_>) -> Self {
        let folder = TempDir::new().unwrap();
        let started = Instant::now();
        let mut start = Command::new(programs.join("start"));
        start.arg(folder.path()).args(matches!(parts, Parts::StoreOnly).then_some("--no-controllers")).stdout(Stdio::null());
        start.env("KCM_EXTRA", format!("{UNLIMITED} {SYNCS}"));
        assert!(start.status().unwrap().success(), "{start:?}");
        let ready_after = started.elapsed();
        let asked = Command::new("sh")
            .args(["-c", ". \"$0\"/env && echo \"$KUBECONFIG\" && echo \"$UPSTREAM_BIN\" && echo $PIDS"])
            .arg(folder.path())
            .output()
            .unwrap();
        let asked = String::from_utf8(asked.stdout).unwrap();
        let [kubeconfig, programs_of, processes] = asked.trim_end().splitn(3, '\n').collect::<Vec<_>>().try_into().unwrap();
        let processes = processes.split(' ').map(|process| process.parse().unwrap()).collect();
        let user = access::service_account(Path::new(kubeconfig)).await;
        let more = match parts {
            Parts::Controllers(nodes) if !nodes.is_empty() => {
                let scheduler = folder.path().join("scheduler.kubeconfig");
                let mut schedules = Command::new(Path::new(programs_of).join("kube-scheduler"));
                for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
                    schedules.arg(flag).arg(&scheduler);
                }
                schedules.args(["--leader-elect=false", "--secure-port=0"]).args(UNLIMITED.split(' '));
                let mut simulates = Command::new(binary);
                simulates
                    .args([
                        "node",
                        "--join-foreign-cluster",
                        "--no-simulated-taint",
                        "--secure-port",
                        "0",
                        "--leader-elect=false",
                        "--kubeconfig",
                        kubeconfig,
                    ])
                    .args(nodes);
                let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                vec![quiet(&mut schedules), quiet(&mut simulates)]
            }
            _ => Vec::new(),
        };
        let running = Running::Upstream { stop: programs.join("stop"), processes, more };
        Self { running, folder, user, beside: Vec::new(), next: Cell::new(0), ready_after }
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// As whom everything may be done, of berth.
    pub(crate) fn administrator(&self) -> Endpoint {
        access::endpoint(&fs::read_to_string(self.folder().join("kubeconfig")).unwrap())
    }

    /// The kubeconfig of another user, of berth.
    pub(crate) fn issue(&self, user: &str, group: &str) -> String {
        let Running::Berth { binary, .. } = &self.running else { panic!("only berth makes its users") };
        issue(binary, self.folder(), user, group)
    }

    /// A connection of the user who measures.
    pub(crate) async fn connect(&self) -> Connection {
        let turn = self.next.replace(self.next.get() + 1) % (1 + self.beside.len());
        let server = turn.checked_sub(1).map_or(self, |beside| &self.beside[beside]);
        Connection::open(&server.user).await
    }

    /// What the server has done so far.
    pub(crate) async fn spent(&self, connection: &mut Connection) -> Spent {
        assert_eq!(connection.request("GET", "/metrics", "").await, 200);
        let metrics = String::from_utf8_lossy(&connection.body);
        let adds = metrics.lines().filter_map(|line| line.strip_prefix("workqueue_adds_total{name=\""));
        let reconciles =
            adds.filter_map(|line| line.split_once("\"} ")).map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect();
        let list = connection.get("/api/v1/namespaces?limit=1").await;
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        Spent { cpu_seconds: self.cpu_seconds(), revision, reconciles }
    }

    /// What its objects are in, if that is an etcd of berth's.
    pub(crate) fn etcd(&self) -> Option<&Etcd> {
        if let Running::Berth { etcd, .. } = &self.running { etcd.as_ref() } else { None }
    }

    /// Resident memory of all its processes, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        let resident = |process: u32| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
        };
        self.processes().into_iter().map(resident).sum()
    }

    /// Processor time that its processes used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.cpu_seconds_of_each().into_iter().map(|(_, spent)| spent).sum()
    }

    /// The same of each of them: name and seconds.
    pub(crate) fn cpu_seconds_of_each(&self) -> Vec<(String, f64)> {
        let spent = |process: u32| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
            (name.trim_end().to_owned(), ticks / 100.0)
        };
        self.processes().into_iter().map(spent).collect()
    }

    fn processes(&self) -> Vec<u32> {
        let mut own: Vec<u32> = match &self.running {
            Running::Berth { child, etcd, .. } => [child.id()].into_iter().chain(etcd.as_ref().map(|etcd| etcd.process)).collect(),
            Running::Upstream { processes, more, .. } => processes.iter().copied().chain(more.iter().map(Child::id)).collect(),
        };
        own.extend(self.beside.iter().flat_map(Self::processes));
        own
    }
}

/// Starts berth on a folder. Returns the process, and how long it took until `/readyz` was ok.
async fn run(binary: &Path, folder: &Path, etcd: Option<&Etcd>, parts: Parts<'_>) -> (Child, Duration) {
    let arguments = match parts {
        Parts::StoreOnly => &["--controllers=-*", "--nodes", "0"],
        Parts::Controllers(arguments) => arguments,
    };
    let store = etcd.map(|etcd| ["--store", "etcd", "--etcd-servers", &etcd.endpoint]);
    let started = Instant::now();
    let mut child = Command::new(binary)
        .args(["up", "--secure-port", "0", "--data-dir"])
        .arg(folder)
        .args(store.into_iter().flatten())
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The kubeconfig is written before this line.
    while !lines.next().unwrap().unwrap().starts_with("API server ready at ") {}
    // The output must be read, or the server blocks on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let administrator = access::endpoint(&fs::read_to_string(folder.join("kubeconfig")).unwrap());
    assert_eq!(Connection::open(&administrator).await.request("GET", "/readyz", "").await, 200);
    (child, started.elapsed())
}

/// The kubeconfig of a user of the berth in this folder.
pub(crate) fn issue(binary: &Path, data_dir: &Path, user: &str, group: &str) -> String {
    let issue = Command::new(binary).args(["kubeconfig", "--user", user, "--group", group, "--data-dir"]).arg(data_dir).output().unwrap();
    assert!(issue.status.success(), "{}", String::from_utf8_lossy(&issue.stderr));
    String::from_utf8(issue.stdout).unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.running {
            Running::Berth { child, .. } => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Running::Upstream { stop, more, .. } => {
                for child in more {
                    let _ = child.kill();
                    let _ = child.wait();
                }
                let _ = Command::new(stop).arg(self.folder.path()).stdout(Stdio::null()).status();
            }
        }
    }
}
