//! Why a command of `berth rollout` did not do what it was asked for.

use crate::manifests::ManifestError;
use std::{path::PathBuf, time::Duration};

/// The text says what to do next, where there is something.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is nothing that says where the cluster is.
    #[error(
        "no cluster to talk to: name a kubeconfig with --kubeconfig or KUBECONFIG (`berth up` prints its own), or write ~/.kube/config"
    )]
    NoCluster,
    #[error("cannot read the kubeconfig {}", path.display())]
    Kubeconfig { path: PathBuf, source: kube::config::KubeconfigError },
    #[error("cannot use the kubeconfig; `kubectl config get-contexts` shows the contexts there are (--context)")]
    Context(#[source] kube::config::KubeconfigError),
    #[error("cannot connect to {server}")]
    Client { server: String, source: kube::Error },
    #[error("cannot reach {server}: is it running, and is the context right (--kubeconfig, --context)?")]
    Unreachable { server: String, source: kube::Error },
    #[error("{server} gave no answer within {} s (--request-timeout)", limit.as_secs_f64())]
    Late { server: String, limit: Duration },
    #[error("{server} is no address of a server; write, for example, https://127.0.0.1:6443")]
    Server { server: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The API server's own words.
    #[error("{message}{hint}")]
    Refused { message: String, hint: &'static str },
    #[error("{what} is not as expected")]
    Decode { what: String, source: serde_json::Error },
    #[error("{0}")]
    Usage(String),
    /// About one workload, `deployments.apps "web"`.
    #[error("{resource} \"{name}\" {message}")]
    Workload { resource: &'static str, name: String, message: String },
    /// What the rollout itself came to.
    #[error("{0}")]
    Rollout(String),
    #[error("cannot write the result")]
    Print(#[source] std::io::Error),
    /// Each with its causes.
    #[error("{}", .0.join("\nberth: "))]
    Several(Vec<String>),
}
