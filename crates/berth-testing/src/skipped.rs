//! Tests that cannot run here.

use std::{env, fmt, fs::OpenOptions, io::Write, thread};

/// The variable that names the file in which tests note that they were skipped: a line of the tool, the test and the reason, with tabs between them.
pub const SKIPPED: &str = "BERTH_SKIPPED";

/// What a test may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Debian's Chromium, and what drives it.
    Browser,
    /// Any etcd that the store takes.
    Etcd,
    /// A current one: it reports its progress, and its members can be replaced.
    Etcd36,
    /// The program, with which a build finds its commit.
    Git,
    /// Of npm.
    Helm3,
    /// Of `PyPI`.
    Helm4,
    /// The official client, and a Node to run it.
    JavaScriptClient,
    /// The framework for operators in Python.
    Kopf,
    /// Of 1.28 or later.
    Kubectl,
    /// Real manifests: [`crate::real_manifests`].
    Manifests,
    /// Networks within the machine, as one who is not its root may make them.
    Namespaces,
    /// The system's file with the memory of a process.
    Procfs,
    /// Prometheus' own check of metrics.
    Promtool,
    /// The official client, and a Python to run it.
    PythonClient,
    /// Requests made of an `OpenAPI` document.
    Schemathesis,
    /// A real Kubernetes: [`crate::Upstream`].
    Upstream,
}

impl fmt::Display for Tool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Browser => "a browser",
            Self::Etcd => "etcd",
            Self::Etcd36 => "etcd 3.6",
            Self::Git => "git",
            Self::Helm3 => "helm 3",
            Self::Helm4 => "helm 4",
            Self::JavaScriptClient => "the JavaScript client",
            Self::Kopf => "kopf",
            Self::Kubectl => "kubectl",
            Self::Manifests => "real manifests",
            Self::Namespaces => "network namespaces",
            Self::Procfs => "procfs",
            Self::Promtool => "promtool",
            Self::PythonClient => "the Python client",
            Self::Schemathesis => "schemathesis",
            Self::Upstream => "upstream",
        })
    }
}

/// Notes that the running test cannot run for lack of a tool. `cargo xtask test` prints these tests at its end.
///
/// # Panics
/// The note cannot be written.
pub fn skip(tool: Tool, reason: &str) {
    println!("skipped: {tool}: {reason}");
    let Some(file) = env::var_os(SKIPPED) else { return };
    let line = format!("{tool}\t{}\t{reason}\n", thread::current().name().unwrap_or_default());
    // In one write: other tests append too.
    let file = OpenOptions::new().append(true).create(true).open(file);
    file.expect("the file of notes").write_all(line.as_bytes()).expect("the file of notes");
}
