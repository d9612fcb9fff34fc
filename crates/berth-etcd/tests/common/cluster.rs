//! Three members of one etcd, and what befalls them.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests have other programs, files and the real time")]

use crate::{
    etcd::{Tasks, TestClient, eventually, program, upstream},
    gateway::{post, try_post},
};
use berth_etcd::{Client, Options};
use serde_json::json;
use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

pub(crate) struct Cluster {
    program: PathBuf,
    members: Vec<Member>,
    pub(crate) runtime: Tasks,
}

struct Member {
    folder: TempDir,
    client: String,
    peer: String,
    child: Option<Child>,
}

impl Cluster {
    /// Of etcd 3.6.
    pub(crate) fn start() -> Self {
        Self::of(upstream())
    }

    /// Of whichever etcd there is.
    pub(crate) fn of_any() -> Self {
        Self::of(program())
    }

    fn of(program: &Result<PathBuf, String>) -> Self {
        let program = program.clone().expect("whoever starts one has asked whether there is one");
        let places: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        let places: Vec<_> = places.into_iter().map(|place| format!("http://{}", place.local_addr().expect("it has one"))).collect();
        let member = |place: &[String]| Member {
            folder: tempfile::tempdir().expect("a temporary folder"),
            client: place[0].clone(),
            peer: place[1].clone(),
            child: None,
        };
        let runtime = Tasks::new();
        let mut cluster = Self { program, members: places.chunks(2).map(member).collect(), runtime };
        cluster.start_again(&[0, 1, 2]);
        cluster
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    pub(crate) fn open(&self, endpoints: Vec<String>) -> TestClient {
        let options = Options { endpoints, ..Options::default() };
        let runtime = self.runtime.handle().clone();
        TestClient { client: runtime.block_on(Client::open(&options)).expect("it answers"), runtime }
    }

    /// Ends a member as if its machine had failed.
    pub(crate) fn kill(&mut self, index: usize) {
        let mut child = self.members[index].child.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// Members that were killed come back with what they had. None serves before there is a majority.
    pub(crate) fn start_again(&mut self, indices: &[usize]) {
        indices.iter().for_each(|index| self.run(*index, "new"));
        indices.iter().for_each(|index| self.serves(*index));
    }

    /// Takes a member out that is no more, and another in its place, without anything of what it had.
    pub(crate) fn replace(&mut self, index: usize) {
        self.kill(index);
        let other = self.members[(index + 1) % 3].client.clone();
        let members = post(&other, "/v3/cluster/member/list", &json!({}));
        let is_it = |member: &&serde_json::Value| member["name"] == name(index);
        let gone = members["members"].as_array().expect("a list").iter().find(is_it).expect("it is one of them");
        let peer = &self.members[index].peer;
        for (path, asked) in [("remove", json!({"ID": gone["ID"]})), ("add", json!({"peerURLs": [peer]}))] {
            // Members that came back a moment ago must have met first.
            eventually("etcd changes its members", || try_post(&other, &format!("/v3/cluster/member/{path}"), &asked).is_ok());
        }
        self.members[index].folder = tempfile::tempdir().expect("a temporary folder");
        self.run(index, "existing");
        self.serves(index);
    }

    /// The member that leads.
    pub(crate) fn leader(&self) -> usize {
        let mut leader = None;
        eventually("somebody leads", || {
            leader = (0..self.members.len()).find(|index| {
                let status = post(&self.members[*index].client, "/v3/maintenance/status", &json!({}));
                status["leader"] == status["header"]["member_id"]
            });
            leader.is_some()
        });
        leader.expect("somebody leads")
    }

    /// Sends a member a signal: `STOP`, and it stands still until `CONT`.
    pub(crate) fn signal(&self, index: usize, signal: &str) {
        let id = self.members[index].child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("it runs").success());
    }

    fn run(&mut self, index: usize, state: &str) {
        let cluster: Vec<_> = self.members.iter().enumerate().map(|(index, member)| format!("{}={}", name(index), member.peer)).collect();
        let Member { folder, client, peer, child } = &mut self.members[index];
        // Without fsync, since only a loss of power would tell.
        let text = format!(
            "name: {}\ndata-dir: {}\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\nlisten-peer-urls: {peer}\n\
             initial-advertise-peer-urls: {peer}\ninitial-cluster: {}\ninitial-cluster-state: {state}\nlogger: zap\n\
             heartbeat-interval: 100\nelection-timeout: 1000\nenable-grpc-gateway: true\nunsafe-no-fsync: true\n",
            name(index),
            folder.path().join("data").display(),
            cluster.join(","),
        );
        let (file, log) = (folder.path().join("etcd.yaml"), folder.path().join("log"));
        fs::write(&file, text).expect("the folder is ours");
        let log = fs::OpenOptions::new().append(true).create(true).open(log).expect("the folder is ours");
        let mut command = Command::new(&self.program);
        command.arg("-config-file").arg(&file).stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        *child = Some(command.spawn().expect("etcd runs"));
    }

    /// Waits until a member answers.
    fn serves(&mut self, index: usize) {
        let Member { client, child, folder, .. } = &mut self.members[index];
        let options = Options { endpoints: vec![client.clone()], ..Options::default() };
        eventually("etcd serves", || {
            let ended = child.as_mut().expect("it runs").try_wait().expect("it is ours");
            assert!(ended.is_none(), "etcd ended: {}", fs::read_to_string(folder.path().join("log")).unwrap_or_default());
            self.runtime.block_on(Client::open(&options)).is_ok()
        });
    }
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
