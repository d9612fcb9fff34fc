//! A client of the servers that [`Options`] name.

use crate::options::{OpenError, Options};
use kube::Client;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A client of each server of a control plane, and the other settings of the kubeconfig. One of the servers is asked at a time. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    servers: Arc<[Server]>,
    /// The one that is asked.
    current: Arc<AtomicUsize>,
    namespace: String,
}

/// One API server.
pub(crate) struct Server {
    index: usize,
    pub(crate) client: Client,
    /// Its address, as people write it.
    pub(crate) url: String,
}

/// Whether a request that a server was too busy for is sent again by the client itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// For people, who would do the same.
    Some,
    /// For callers that wait as the server requests, and that know the effect of a repeated write.
    None,
}

impl Connection {
    /// Finds the cluster as kubectl does. Sends nothing yet.
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

    /// The client of the server that is asked at present.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.current().client
    }

    /// The address of the server that is asked at present, as people write it.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.current().url
    }

    /// The context's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The next server is asked from now on: the one that was asked does not answer.
    pub fn next_server(&self) {
        self.leave(self.current());
    }

    /// The server that is asked at present.
    pub(crate) fn current(&self) -> &Server {
        &self.servers[self.current.load(Ordering::Acquire) % self.servers.len()]
    }

    /// How many servers there are.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The next server is asked from now on, unless another caller has left this one already.
    pub(crate) fn leave(&self, left: &Server) {
        let next = (left.index + 1) % self.servers.len();
        let changed = self.current.compare_exchange(left.index, next, Ordering::AcqRel, Ordering::Acquire);
        if changed.is_ok() && next != left.index {
            tracing::warn!(server = left.url, next = self.servers[next].url, "the API server does not answer; trying the next one");
        }
    }
}
