//! An etcd of three members, and its failures.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests have other programs, files and the real time")]

use super::{
    Tasks, TestClient, eventually,
    gateway::{post, try_post},
    program, upstream,
};
use berth_etcd::{Client, Options, Tls};
use serde_json::json;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

pub(crate) struct Cluster {
    program: PathBuf,
    /// `None`: all members are on this machine.
    machines: Option<Box<dyn Machines>>,
    members: Vec<Member>,
    settings: &'static str,
    secured: Option<Secured>,
    pub(crate) runtime: Tasks,
}

/// A machine for each member.
pub(crate) trait Machines: Send + Sync {
    /// Returns the address of a member, for the other members and the test.
    fn address(&self, member: usize) -> String;
    /// Returns a command that runs a program on the machine.
    fn run(&self, member: usize, program: &Path) -> Command;
}

/// Files for TLS between members, and with clients: a CA certificate, a certificate for 127.0.0.1 signed by it, and its
/// key.
pub(crate) struct Secured {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Secured {
    /// Only peers with a certificate of the authority are admitted.
    fn settings(&self) -> String {
        let Self { authority, certificate, key } = self;
        let files = format!("  cert-file: {certificate}\n  key-file: {key}\n  trusted-ca-file: {authority}\n  client-cert-auth: true\n");
        format!("client-transport-security:\n{files}peer-transport-security:\n{files}")
    }

    fn tls(&self) -> Tls {
        let read = |path: &str| fs::read(path).expect("it is ours");
        Tls { authorities: read(&self.authority), identity: Some((read(&self.certificate), read(&self.key))) }
    }
}

struct Member {
    folder: TempDir,
    client: String,
    peer: String,
    /// The address of its metrics, which every user of this machine can read.
    metrics: String,
    child: Option<Child>,
}

impl Cluster {
    /// Starts etcd 3.6 with further configuration lines.
    pub(crate) fn start(settings: &'static str) -> Self {
        Self::of(upstream(), settings, None, None)
    }

    /// Starts it with a machine per member.
    pub(crate) fn on(machines: impl Machines + 'static) -> Self {
        Self::of(upstream(), "", None, Some(Box::new(machines)))
    }

    /// Starts any available etcd with TLS.
    pub(crate) fn of_any(secured: Secured) -> Self {
        Self::of(program(), "", Some(secured), None)
    }

    fn of(
        program: &Result<PathBuf, String>,
        settings: &'static str,
        secured: Option<Secured>,
        machines: Option<Box<dyn Machines>>,
    ) -> Self {
        let program = program.clone().expect("the caller has checked that there is one");
        let scheme = if secured.is_some() { "https" } else { "http" };
        let places: Vec<_> = (0..9).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        // A port that is free here is also free on a separate machine.
        let address = |member: usize| machines.as_ref().map_or_else(|| "127.0.0.1".to_owned(), |machines| machines.address(member));
        let place = |(number, free): (usize, TcpListener)| {
            let port = free.local_addr().expect("it has one").port();
            format!("{}:{port}", address(number / 3))
        };
        let places: Vec<_> = places.into_iter().enumerate().map(place).collect();
        let member = |place: &[String]| Member {
            folder: tempfile::tempdir().expect("a temporary folder"),
            client: format!("{scheme}://{}", place[0]),
            peer: format!("{scheme}://{}", place[1]),
            metrics: place[2].clone(),
            child: None,
        };
        let runtime = Tasks::new();
        let mut cluster = Self { program, members: places.chunks(3).map(member).collect(), machines, settings, secured, runtime };
        cluster.start_again(&[0, 1, 2]);
        cluster
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    fn options(&self, endpoints: Vec<String>) -> Options {
        Options { endpoints, tls: self.secured.as_ref().map(Secured::tls), insecure: self.machines.is_some(), ..Options::default() }
    }

    pub(crate) fn open(&self, endpoints: Vec<String>) -> TestClient {
        let options = self.options(endpoints);
        let runtime = self.runtime.handle().clone();
        TestClient { client: runtime.block_on(Client::open(&options)).expect("it answers"), runtime }
    }

    /// Stops a member as if its machine had failed.
    pub(crate) fn kill(&mut self, index: usize) {
        let mut child = self.members[index].child.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// Restarts killed members with their data. None serves before there is a majority.
    pub(crate) fn start_again(&mut self, indices: &[usize]) {
        indices.iter().for_each(|index| self.run(*index, "new"));
        indices.iter().for_each(|index| self.serves(*index));
    }

    /// Replaces a dead member by another one without data.
    pub(crate) fn replace(&mut self, index: usize) {
        self.kill(index);
        let other = self.members[(index + 1) % 3].client.clone();
        let members = post(&other, "/v3/cluster/member/list", &json!({}));
        let is_it = |member: &&serde_json::Value| member["name"] == name(index);
        let gone = members["members"].as_array().expect("a list").iter().find(is_it).expect("it is one of them");
        let peer = &self.members[index].peer;
        for (path, asked) in [("remove", json!({"ID": gone["ID"]})), ("add", json!({"peerURLs": [peer]}))] {
            // Restarted members must first connect to each other.
            eventually("etcd changes its members", || try_post(&other, &format!("/v3/cluster/member/{path}"), &asked).is_ok());
        }
        self.members[index].folder = tempfile::tempdir().expect("a temporary folder");
        self.run(index, "existing");
        self.serves(index);
    }

    /// Returns the leader.
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a member leads", || {
            leader = self.members.iter().position(|member| is_leader(&member.metrics));
            leader.is_some()
        });
        leader.expect("a member leads")
    }

    /// Sends a member a signal: after `STOP` it hangs until `CONT`.
    pub(crate) fn signal(&self, index: usize, signal: &str) {
        let id = self.members[index].child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("it runs").success());
    }

    fn run(&mut self, index: usize, state: &str) {
        let cluster: Vec<_> = self.members.iter().enumerate().map(|(index, member)| format!("{}={}", name(index), member.peer)).collect();
        let secured = self.secured.as_ref().map(Secured::settings).unwrap_or_default();
        let Member { folder, client, peer, metrics, child } = &mut self.members[index];
        let listens = match &self.machines {
            None => client.clone(),
            // Reachable through every network of the clients.
            Some(machines) => client.replace(&machines.address(index), "0.0.0.0"),
        };
        // Without fsync, since only a power loss would show the difference.
        let text = format!(
            "name: {}\ndata-dir: {}\nlisten-client-urls: {listens}\nadvertise-client-urls: {client}\nlisten-peer-urls: {peer}\n\
             initial-advertise-peer-urls: {peer}\ninitial-cluster: {}\ninitial-cluster-state: {state}\nlogger: zap\n\
             listen-metrics-urls: http://{metrics}\n\
             heartbeat-interval: 100\nelection-timeout: 1000\nenable-grpc-gateway: true\nunsafe-no-fsync: true\n{secured}{}",
            name(index),
            folder.path().join("data").display(),
            cluster.join(","),
            self.settings,
        );
        let (file, log) = (folder.path().join("etcd.yaml"), folder.path().join("log"));
        fs::write(&file, text).expect("the folder is ours");
        let log = fs::OpenOptions::new().append(true).create(true).open(log).expect("the folder is ours");
        let mut command = match &self.machines {
            None => Command::new(&self.program),
            Some(machines) => machines.run(index, &self.program),
        };
        command.arg("-config-file").arg(&file).stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        *child = Some(command.spawn().expect("etcd runs"));
    }

    /// Waits until a member responds.
    fn serves(&mut self, index: usize) {
        let options = self.options(vec![self.members[index].client.clone()]);
        let Member { child, folder, .. } = &mut self.members[index];
        eventually("etcd serves", || {
            let ended = child.as_mut().expect("it runs").try_wait().expect("it is ours");
            assert!(ended.is_none(), "etcd ended: {}", fs::read_to_string(folder.path().join("log")).unwrap_or_default());
            self.runtime.block_on(Client::open(&options)).is_ok()
        });
    }
}

/// The metrics may be slightly old, and a killed member has none.
fn is_leader(metrics: &str) -> bool {
    const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
    let address = metrics.parse().expect("an address");
    let Ok(mut stream) = TcpStream::connect_timeout(&address, ANSWERS_WITHIN) else { return false };
    // A hanging member accepts connections too.
    stream.set_read_timeout(Some(ANSWERS_WITHIN)).expect("that is some time");
    let mut answer = String::new();
    let asked = write!(stream, "GET /metrics HTTP/1.0\r\nHost: {metrics}\r\n\r\n").and_then(|()| stream.read_to_string(&mut answer));
    asked.is_ok() && answer.lines().any(|line| line == "etcd_server_is_leader 1")
}

fn name(index: usize) -> String {
    format!("m{index}")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            // It may have ended already.
            _ = child.kill();
            _ = child.wait();
        }
    }
}
