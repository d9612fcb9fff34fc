//! The network between an API server and its etcd is cut in both directions without an error for either side. The server reports that it is not ready
//! and why, loses nothing that it has acknowledged, and recovers by itself.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which say how long things took")]

use crate::{
    common::{PATIENCE, part::Part},
    etcd::{
        self, Etcd,
        front::Front,
        network::{self, ip},
    },
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// The timeout of a request.
const REQUEST: &str = "5s";
/// The addresses of both ends of the virtual cable.
const NEAR: &str = "10.253.0.1";
const FAR: &str = "10.253.0.2";

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap()
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

async fn ask(client: &Client, path: &str) -> Result<String, kube::Error> {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
}

fn note(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// The results of writes, by the names of the objects.
#[derive(Debug, Default)]
struct Writes {
    done: BTreeSet<String>,
    /// The codes and messages of failed writes.
    refused: BTreeMap<String, (u16, String)>,
}

/// Creates objects one after the other, each once, until the test stops it.
async fn write(client: Client, writes: Arc<Mutex<Writes>>, is_over: Arc<AtomicBool>) {
    let api = Api::<ConfigMap>::default_namespaced(client);
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("note-{number:05}");
        let outcome = api.create(&PostParams::default(), &note(&name)).await;
        let mut told = writes.lock().unwrap();
        match outcome {
            Ok(_) => _ = told.done.insert(name),
            Err(kube::Error::Api(status)) => _ = told.refused.insert(name, (status.code, status.message.clone())),
            Err(error) => panic!("{name}: the server itself is not cut off: {error}"),
        }
    }
}

/// Watches all objects created after a version, in their order. Continues where it stopped.
async fn watch(client: Client, mut version: String, seen: Arc<Mutex<Vec<String>>>) {
    let api = Api::<ConfigMap>::default_namespaced(client);
    loop {
        if let Ok(events) = api.watch(&WatchParams::default(), &version).await {
            let mut events = events.boxed();
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(map) => {
                        version = map.resource_version().unwrap();
                        seen.lock().unwrap().push(map.name_any());
                    }
                    WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                    other => panic!("nothing else happens: {other:?}"),
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) -> Duration {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_cut_off_from_etcd_reports_it_loses_nothing_and_recovers() {
    if !etcd::is_here() {
        return;
    }
    // Etcd's helper has its own runtime and blocks on it.
    let etcd = tokio::task::spawn_blocking(|| Etcd::start(etcd::PATIENT)).await.unwrap();
    let way = Front::before(vec![port_of(&etcd.endpoint)]).await;
    is_cut_off(&format!("http://127.0.0.1:{}", way.port), &way, Duration::from_secs(15)).await;
}

/// The same for a network failure. Nothing in between stores the packets. The machine resends them at increasing intervals, so a connection
/// may be silent for as long as the cut before it continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_network_to_etcd_fails_reports_it_loses_nothing_and_recovers() {
    if !etcd::is_here() {
        return;
    }
    if !network::is_inside("cut_off::a_server_whose_network_to_etcd_fails_reports_it_loses_nothing_and_recovers", network::CABLE) {
        return;
    }
    let etcd = FarEtcd::start();
    until("etcd serves", async || TcpStream::connect((FAR, 2379)).await.is_ok()).await;
    is_cut_off(&format!("http://{FAR}:2379"), &etcd, Duration::from_secs(15)).await;
}

/// The connection between a server and its etcd.
trait Way {
    /// Blocks all traffic.
    fn cut(&self);
    fn restore(&self);
}

impl Way for Front {
    fn cut(&self) {
        self.cut();
    }

    fn restore(&self) {
        self.restore();
    }
}

/// An etcd in its own network namespace, with a virtual cable to it.
struct FarEtcd {
    child: Child,
    _folder: TempDir,
}

impl FarEtcd {
    fn start() -> Self {
        let (folder, own) = (TempDir::new().unwrap(), "127.0.0.1:2380");
        let (file, data) = (folder.path().join("etcd.yaml"), folder.path().join("data"));
        let text = format!(
            "name: m0\ndata-dir: {}\nlisten-client-urls: http://{FAR}:2379\nadvertise-client-urls: http://{FAR}:2379\n\
             listen-peer-urls: http://{own}\ninitial-advertise-peer-urls: http://{own}\ninitial-cluster: m0=http://{own}\n\
             logger: zap\nunsafe-no-fsync: true\n{}",
            data.display(),
            etcd::PATIENT
        );
        fs::write(&file, text).unwrap();
        // The script prints a line when it runs, and waits for the cable.
        let script = format!(
            "echo; read cable; ip link set lo up; ip addr add {FAR}/30 dev far; ip link set far up; exec \"$0\" -config-file \"$1\""
        );
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", &script]).arg(etcd::program().as_ref().unwrap()).arg(&file);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut there = BufReader::new(child.stdout.take().unwrap());
        there.read_line(&mut String::new()).unwrap();
        ip(&["link", "set", "lo", "up"]);
        ip(&["link", "add", "near", "type", "veth", "peer", "name", "far", "netns", &child.id().to_string()]);
        ip(&["addr", "add", &format!("{NEAR}/30"), "dev", "near"]);
        ip(&["link", "set", "near", "up"]);
        writeln!(child.stdin.take().unwrap()).unwrap();
        Self { child, _folder: folder }
    }

    fn cable(&self, state: &str) {
        let network = format!("/proc/{}/ns/net", self.child.id());
        let there = Command::new("nsenter").arg(format!("--net={network}")).args(["ip", "link", "set", "far", state]).status();
        assert!(there.unwrap().success());
    }
}

impl Way for FarEtcd {
    fn cut(&self) {
        self.cable("down");
    }

    fn restore(&self) {
        self.cable("up");
    }
}

impl Drop for FarEtcd {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn is_cut_off(endpoint: &str, way: &impl Way, heals_within: Duration) {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let over = ["--store", "etcd", "--etcd-servers", endpoint, "--insecure-etcd", "--request-timeout", REQUEST, "--data-dir", &data_dir];
    let mut server = Part::start(&[&["apiserver", "--secure-port", "0"][..], &over].concat(), None);
    server.line_with("API server ready at");
    let client = client(&folder.path().join("kubeconfig")).await;
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let (outcomes, seen, is_over) = (Arc::<Mutex<Writes>>::default(), Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
    let watcher = tokio::spawn(watch(client.clone(), version, Arc::clone(&seen)));
    let writer = tokio::spawn(write(client.clone(), Arc::clone(&outcomes), Arc::clone(&is_over)));
    let done = || outcomes.lock().unwrap().done.len();
    let is_ready = async || ask(&client, "/readyz").await.is_ok_and(|text| text == "ok");

    // The cuts are shorter than the timeout of a call to etcd, longer than it, and longer than the timeout of a silent connection.
    for cut in [Duration::from_secs(1), Duration::from_secs(13), Duration::from_secs(30)] {
        let before = done();
        until("writes go on", async || before + 20 < done()).await;
        let began = Instant::now();
        way.cut();
        if Duration::from_secs(1) < cut {
            let noticed = until("it is not ready", async || !is_ready().await).await;
            assert!(noticed < Duration::from_secs(5), "{noticed:?}");
            let Err(kube::Error::Api(status)) = ask(&client, "/readyz/etcd").await else { panic!("it fails") };
            assert!(status.message.contains("no answer within 2s") || status.message.contains("has not answered"), "{}", status.message);
            let Err(kube::Error::Api(status)) = ask(&client, "/readyz?verbose").await else { panic!("it fails") };
            assert!(status.message.contains("[-]etcd failed"), "{}", status.message);
            assert_eq!(ask(&client, "/livez").await.unwrap(), "ok", "to start it anew would not help");
        }
        tokio::time::sleep(cut.saturating_sub(began.elapsed())).await;
        let acknowledged = done();
        way.restore();
        let healed = until("it is ready again", is_ready).await;
        let writes = until("writes go on", async || acknowledged < done()).await;
        println!("cut for {:.1?}: ready after {healed:.1?}, the next write acknowledged after {writes:.1?}", began.elapsed());
        assert!(healed.max(writes) < heals_within, "ready after {healed:?}, writes after {writes:?}");
    }

    is_over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let Writes { done, refused } = std::mem::take(&mut *outcomes.lock().unwrap());
    // Another program has created one of them.
    let written = |name: &String| name.starts_with("note-");
    let listed: BTreeSet<_> =
        api.list(&ListParams::default()).await.unwrap().items.iter().map(ResourceExt::name_any).filter(written).collect();
    assert!(done.is_subset(&listed), "lost: {:?}", done.difference(&listed));
    println!("{} acknowledged, {} not: {:?}", done.len(), refused.len(), refused.values().collect::<BTreeSet<_>>());
    // An unacknowledged write has an unknown outcome, or the server rejected it before it began. In the second case etcd must not have it.
    for (name, (code, words)) in &refused {
        let is_known_undone = *code == 503;
        assert!([503, 504].contains(code), "{name}: {code} {words}");
        assert!(!is_known_undone || !listed.contains(name), "{name} was said not to be done: {words}");
    }
    assert!(refused.values().any(|(code, _)| *code == 504), "one at least was under way: {refused:?}");
    until("the watcher has seen all of it, once", async || {
        assert!(!watcher.is_finished(), "it has found something wrong");
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "something came twice");
        seen.into_iter().collect::<BTreeSet<_>>() == listed
    })
    .await;
    watcher.abort();
}
