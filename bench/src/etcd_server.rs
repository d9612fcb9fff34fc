//! An etcd under test.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A single member on loopback, on an empty folder.
pub(crate) struct Etcd {
    /// `http://127.0.0.1:2379`.
    pub(crate) endpoint: String,
    pub(crate) process: u32,
    folder: TempDir,
    stop: PathBuf,
}

impl Etcd {
    /// Starts the etcd of these programs.
    pub(crate) fn start(programs: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let mut start = Command::new(programs.join("start"));
        start.arg(folder.path()).arg("--etcd-only").stdout(Stdio::null());
        assert!(start.status().unwrap().success(), "{start:?}");
        let env = fs::read_to_string(folder.path().join("env")).unwrap();
        let endpoint = env.lines().find_map(|line| line.strip_prefix("export ETCD_ENDPOINT=")).unwrap().to_owned();
        let process = fs::read_to_string(folder.path().join("etcd.pid")).unwrap().trim().parse().unwrap();
        Self { endpoint, process, folder, stop: programs.join("stop") }
    }

    /// How many reads it has answered so far.
    pub(crate) fn ranges(&self) -> f64 {
        let mut connection = TcpStream::connect(self.endpoint.trim_start_matches("http://")).unwrap();
        connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut metrics = String::new();
        connection.read_to_string(&mut metrics).unwrap();
        let is_range = |line: &&str| line.starts_with("grpc_server_handled_total{") && line.contains("grpc_method=\"Range\"");
        metrics.lines().filter(is_range).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = Command::new(&self.stop).arg(self.folder.path()).stdout(Stdio::null()).status();
    }
}
