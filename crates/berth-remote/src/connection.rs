//! A client of the server that [`Options`] name.

use crate::options::{OpenError, Options};
use kube::Client;

/// A client, and what the kubeconfig says besides. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    server: String,
    namespace: String,
}

/// Whether a request that a server was too busy for is sent again by the client itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// For people, who would do the same.
    Some,
    /// For those who wait as the server says, and know what a repeated write may come to.
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
        let mut config = options.config().await?;
        config.default_retry &= retries == Retries::Some;
        let (server, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|source| OpenError::Client { server: server.clone(), source })?;
        Ok(Self { client, server, namespace })
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The server's address, as people write it.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The context's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}
