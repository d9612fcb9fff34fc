//! Checks the releases of the members at the start and periodically.

use crate::{calls, members::Members, messages, options::Fault, version::Version};
use berth_store::etcd::EtcdError;
use futures::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The interval of checks, because members may be upgraded one by one at run time.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Why etcd was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] Fault),
    /// No member responds.
    #[error("no etcd answers: {0}")]
    Unreachable(String),
    /// A member has a release that can lose data, or that is too old.
    #[error("{endpoint} is etcd {version}: {reason}")]
    Version {
        /// The member.
        endpoint: String,
        /// The release that it reports.
        version: Version,
        /// The reason to reject it.
        reason: &'static str,
    },
}

impl Members {
    /// Reads the releases of all members.
    pub(crate) async fn check(&self) -> Result<(), OpenError> {
        let answers = join_all((0..self.len()).map(|index| self.version_of(index))).await;
        let mut silent = Vec::new();
        for (index, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(version) => {
                    if let Some(reason) = version.fault() {
                        return Err(OpenError::Version { endpoint: self.endpoint(index).into(), version, reason });
                    }
                    self.is_known(index, version);
                }
                Err(error) => silent.push(error.to_string()),
            }
        }
        if silent.len() == self.len() { Err(OpenError::Unreachable(silent.join("; "))) } else { Ok(()) }
    }

    async fn version_of(&self, index: usize) -> Result<Version, EtcdError> {
        let answer = self.call_at(index, calls::STATUS, messages::Status {}).await;
        answer.map(|answer: messages::StatusAnswer| Version::parse(&answer.version)).map_err(|failure| failure.error)
    }

    /// Repeats the check for as long as the members are used.
    pub(crate) fn keep_checking(self: &Arc<Self>) {
        let members = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                sleep(CHECK_EVERY).await;
                let Some(members) = members.upgrade() else { return };
                // Callers receive the errors.
                _ = members.check().await;
            }
        });
    }
}
