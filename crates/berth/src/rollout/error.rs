//! The errors of `berth rollout`.

use crate::{manifests::ManifestError, progress::chain};
use berth_identity::GroupResource;
use std::{borrow::Cow, path::PathBuf, time::Duration};

/// The text includes the next step, if there is one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The cluster or its credentials are unknown.
    #[error(transparent)]
    Open(#[from] berth_remote::OpenError),
    #[error("cannot reach {server}: check that it is running, and that the context is correct (--kubeconfig, --context)")]
    Unreachable { server: String, source: kube::Error },
    #[error("{server} did not answer within {} s (--request-timeout)", limit.as_secs_f64())]
    Late { server: String, limit: Duration },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The API server's own message.
    #[error("{message}{hint}")]
    Refused { code: u16, message: String, hint: Cow<'static, str> },
    #[error("unexpected response: {what}")]
    Decode { what: String, source: serde_json::Error },
    /// A file with a planner's input.
    #[error("cannot {action} the file {}", path.display())]
    StateFile { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is not a file that berth explain --state writes", path.display())]
    NoState { path: PathBuf, source: serde_json::Error },
    #[error("{0}")]
    Usage(String),
    /// About one workload, `deployments.apps "web"`.
    #[error("{resource} \"{name}\" {message}")]
    Workload { resource: GroupResource, name: String, message: String },
    /// The failure of the rollout itself.
    #[error("{0}")]
    Rollout(String),
    #[error("cannot write the result")]
    Print(#[source] std::io::Error),
    /// Several errors, each with its causes.
    #[error("{}", .0.join("\nberth: "))]
    Several(Vec<String>),
}

impl Error {
    /// Combines all errors into one.
    ///
    /// # Errors
    /// There was at least one.
    pub(super) fn of_all(mut faults: Vec<Self>) -> Result<(), Self> {
        match faults.pop() {
            None => Ok(()),
            Some(only) if faults.is_empty() => Err(only),
            Some(last) => Err(Self::Several(faults.iter().chain([&last]).map(|fault| chain(fault)).collect())),
        }
    }
}
