//! The cluster and the user: kubectl's options and kubeconfigs.

use http::Uri;
use kube::{
    Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The cluster and the user. These options take precedence over a kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The kubeconfigs to use, each of which must exist. The first that has a value takes precedence. None: the service account of the pod that this
    /// runs in.
    pub kubeconfigs: Vec<PathBuf>,
    /// The context to use; `None`: the current one.
    pub context: Option<String>,
    /// The kubeconfig's cluster to use; `None`: the context's.
    pub cluster: Option<String>,
    /// The kubeconfig's user to use; `None`: the context's.
    pub user: Option<String>,
    /// The server's address; `None`: the cluster's.
    pub server: Option<String>,
    /// Addresses of further servers of the same control plane. If one does not respond, the next one is used.
    pub more_servers: Vec<String>,
    /// A file with the certificate of the server's CA.
    pub certificate_authority: Option<PathBuf>,
    /// Files with a client certificate and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// A bearer token. Used without a client certificate.
    pub token: Option<String>,
    /// Whether to skip the verification of the server's certificate.
    pub insecure_skip_tls_verify: bool,
    /// The name in the server's certificate, if it differs from the address.
    pub tls_server_name: Option<String>,
    /// The user to impersonate.
    pub impersonated: Option<Impersonated>,
}

/// Another user to impersonate.
#[derive(Clone, Debug, Default)]
pub struct Impersonated {
    /// The user's name.
    pub user: String,
    /// The groups. Empty: those that the server assigns.
    pub groups: Vec<String>,
    /// The user's uid.
    pub uid: Option<String>,
}

/// Why the cluster cannot be used. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No source names the cluster.
    #[error("no cluster found: choose a kubeconfig with --kubeconfig or KUBECONFIG (`berth up` prints its own), or create ~/.kube/config")]
    NoCluster,
    /// A kubeconfig does not exist or is invalid.
    #[error("cannot read the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KubeconfigError,
    },
    /// The kubeconfig lacks the requested entry.
    #[error("cannot use the kubeconfig; `kubectl config get-contexts` lists its contexts (--context)")]
    Context(#[source] KubeconfigError),
    /// Its certificates or its credentials are unusable.
    #[error("cannot connect to {server}")]
    Client {
        /// The server's address.
        server: String,
        /// The cause.
        source: kube::Error,
    },
    /// An address is invalid.
    #[error("{server} is not a server address, such as https://127.0.0.1:6443")]
    Server {
        /// The address.
        server: String,
    },
}

impl Options {
    /// Returns the configuration of a client for each server, at least one.
    pub(crate) async fn configs(&self) -> Result<Vec<Config>, OpenError> {
        let first = self.config().await?;
        let further = self.more_servers.iter().map(|server| {
            let mut config = first.clone();
            config.cluster_url = address(server)?;
            Ok(config)
        });
        let further = further.collect::<Result<Vec<_>, OpenError>>()?;
        Ok([first].into_iter().chain(further).collect())
    }

    async fn config(&self) -> Result<Config, OpenError> {
        let merged = self.kubeconfigs.iter().try_fold(None, |merged: Option<Kubeconfig>, path| {
            let unreadable = |source| OpenError::Kubeconfig { path: path.clone(), source };
            let next = Kubeconfig::read_from(path).map_err(unreadable)?;
            Ok::<_, OpenError>(Some(merged.unwrap_or_default().merge(next).map_err(unreadable)?))
        })?;
        let names_cluster = |kubeconfig: &Kubeconfig| {
            let named = [&kubeconfig.current_context, &self.context, &self.cluster];
            named.iter().any(|name| name.as_ref().is_some_and(|name| !name.is_empty()))
        };
        let chosen = KubeConfigOptions { context: self.context.clone(), cluster: self.cluster.clone(), user: self.user.clone() };
        let found = match (merged, &self.server) {
            (Some(kubeconfig), server) if server.is_none() || names_cluster(&kubeconfig) => {
                Config::from_custom_kubeconfig(kubeconfig, &chosen).await.map_err(OpenError::Context)?
            }
            (_, Some(server)) => Config::new(address(server)?),
            (_, None) => Config::incluster().map_err(|_| OpenError::NoCluster)?,
        };
        self.override_in(found)
    }

    fn override_in(&self, mut config: Config) -> Result<Config, OpenError> {
        if let Some(server) = &self.server {
            config.cluster_url = address(server)?;
        }
        if let Some(path) = &self.certificate_authority {
            (config.root_cert, config.root_cert_file, config.accept_invalid_certs) = (None, Some(path.clone()), false);
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        config.tls_server_name = self.tls_server_name.clone().or(config.tls_server_name);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if let Some((certificate, key)) = &self.client_certificate {
            config.auth_info = credentials(json!({"client-certificate": text(certificate), "client-key": text(key)}));
        } else if let Some(token) = &self.token {
            config.auth_info = credentials(json!({"token": token}));
        }
        if let Some(Impersonated { user, groups, uid }) = &self.impersonated {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(groups.clone()).filter(|groups| !groups.is_empty());
            config.auth_info.impersonate_uid = uid.clone();
        }
        Ok(config)
    }
}

fn address(server: &str) -> Result<Uri, OpenError> {
    let parsed = server.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some());
    parsed.ok_or_else(|| OpenError::Server { server: server.to_owned() })
}

/// Converts credentials through a kubeconfig, which is the only way to set a secret.
fn credentials(user: Value) -> AuthInfo {
    serde_json::from_value(user).expect("it has strings under names of a kubeconfig's user")
}
