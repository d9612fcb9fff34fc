//! A `berth up` under test.

use crate::{Figure, client::Connection};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    port: u16,
    tls: TlsConnector,
    /// From the start of the process to `/readyz` ok.
    pub(crate) ready_after: Duration,
}

/// Costs that another program on the machine changes little or not at all.
pub(crate) struct Spent {
    cpu_seconds: f64,
    /// One for each write.
    revision: f64,
    /// Keys accepted, by work queue.
    looks: BTreeMap<String, f64>,
}

impl Spent {
    /// What `what` cost since `before`, for each of `pods`.
    pub(crate) fn figures(&self, before: &Self, what: &str, pods: f64) -> Vec<Figure> {
        let figure = |name: &str, unit, value: f64| Figure::new(&format!("{what}: {name} a pod"), unit, vec![value / pods]);
        let mut figures = vec![
            figure("processor time", "ms", (self.cpu_seconds - before.cpu_seconds) * 1000.0),
            figure("writes", "", self.revision - before.revision),
        ];
        for queue in ["deployment", "replicaset", "statefulset", "node"] {
            let count = |spent: &Self| spent.looks.get(queue).copied().unwrap_or_default();
            let looks = count(self) - count(before);
            figures.extend((looks > 0.0).then(|| figure(&format!("{queue} looks"), "", looks)));
        }
        figures
    }
}

impl Server {
    /// Starts the release binary on an empty folder and waits for `/readyz`.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let started = Instant::now();
        let binary = std::env::var("BERTH_BINARY").expect("cargo xtask bench names the binary");
        let mut child = Command::new(binary)
            .args(["up", "--secure-port", "0", "--data-dir"])
            .arg(folder.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(rest) = line.strip_prefix("API server ready at https://127.0.0.1:") {
                break rest.split(' ').next().unwrap().parse().unwrap();
            }
        };
        // Somebody has to read on, or the server blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let tls = tls(&folder.path().join("pki"));
        let mut server = Self { child, folder, port, tls, ready_after: Duration::ZERO };
        let mut connection = server.connect().await;
        assert_eq!(connection.request("GET", "/readyz", "").await, 200);
        server.ready_after = started.elapsed();
        server
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.port, &self.tls).await
    }

    /// What the server has done so far.
    pub(crate) async fn spent(&self, connection: &mut Connection) -> Spent {
        assert_eq!(connection.request("GET", "/metrics", "").await, 200);
        let metrics = String::from_utf8_lossy(&connection.body);
        let adds = metrics.lines().filter_map(|line| line.strip_prefix("workqueue_adds_total{name=\""));
        let looks =
            adds.filter_map(|line| line.split_once("\"} ")).map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect();
        assert_eq!(connection.request("GET", "/api/v1/namespaces?limit=1", "").await, 200);
        let list: Value = serde_json::from_slice(&connection.body).unwrap();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        Spent { cpu_seconds: self.cpu_seconds(), revision, looks }
    }

    /// Resident memory, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    /// Processor time used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.folder.path();
    }
}

fn tls(pki: &Path) -> TlsConnector {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.join("ca.pem")).unwrap()).unwrap();
    let chain = CertificateDer::pem_file_iter(pki.join("admin.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pki.join("admin.pem")).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
    TlsConnector::from(Arc::new(config))
}
