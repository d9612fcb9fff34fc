//! HTTP clients for the servers of [`Options`].

use crate::options::{OpenError, Options};
use kube::Client;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// One client for each server of a control plane, and the other settings of the kubeconfig. One server is used at a
/// time. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    servers: Arc<[Server]>,
    /// The index of the current server.
    current: Arc<AtomicUsize>,
    namespace: String,
}

/// One API server.
pub(crate) struct Server {
    index: usize,
    pub(crate) client: Client,
    /// Its address for messages.
    pub(crate) url: String,
}

/// Whether the client itself retries requests that an overloaded server rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// For interactive commands, whose user would retry too.
    Some,
    /// For callers that respect the server's retry interval, and that know the effect of a repeated write.
    None,
}

impl Connection {
    /// Finds the cluster as kubectl does. Sends no request.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        Self::open_with(options, Retries::Some).await
    }

    pub(crate) async fn open_with(options: &Options, retries: Retries) -> Result<Self, OpenError> {
        let configs = options.configs().await?;
        let namespace = configs[0].default_namespace.clone();
        let servers = configs.into_iter().enumerate().map(|(index, mut config)| {
            config.default_retry &= retries == Retries::Some;
            let url = config.cluster_url.to_string();
            let client = Client::try_from(config).map_err(|source| OpenError::Client { server: url.clone(), source })?;
            Ok(Server { index, client, url })
        });
        Ok(Self { servers: servers.collect::<Result<_, OpenError>>()?, current: Arc::default(), namespace })
    }

    /// Returns the client of the current server.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.current().client
    }

    /// Returns the address of the current server for messages.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.current().url
    }

    /// Returns the context's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Switches to the next server, because the current one does not respond.
    pub fn next_server(&self) {
        self.leave(self.current());
    }

    /// Returns the current server.
    pub(crate) fn current(&self) -> &Server {
        &self.servers[self.current.load(Ordering::Acquire) % self.servers.len()]
    }

    /// Returns the number of servers.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Switches to the next server, unless another caller has already switched.
    pub(crate) fn leave(&self, left: &Server) {
        let next = (left.index + 1) % self.servers.len();
        let changed = self.current.compare_exchange(left.index, next, Ordering::AcqRel, Ordering::Acquire);
        if changed.is_ok() && next != left.index {
            tracing::warn!(server = left.url, next = self.servers[next].url, "the API server does not answer; trying the next one");
        }
    }
}
