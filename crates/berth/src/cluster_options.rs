//! Options that choose the cluster, with kubectl's names.

use crate::duration::duration;
use berth_remote::{Impersonated, Options};
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Which cluster, as whom, and where in it.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterOptions {
    /// The kubeconfig to use [default: the files of KUBECONFIG; else ~/.kube/config; else, in a pod, its service account].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use [default: its current one].
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,

    /// The namespace to read [default: the context's].
    #[arg(short, long, value_name = "NAME", global = true)]
    pub(crate) namespace: Option<String>,

    /// Reads all namespaces. Requires a TYPE without names.
    #[arg(short = 'A', long, global = true)]
    pub(crate) all_namespaces: bool,

    /// The cluster of the kubeconfig to use [default: the context's].
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,

    /// The user of the kubeconfig to use [default: the context's].
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,

    /// The server's address, instead of the cluster's.
    #[arg(short, long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// A bearer token, instead of the user's credentials.
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) token: Option<String>,

    /// A file with the certificate of the server's authority, instead of the cluster's.
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "insecure_skip_tls_verify")]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// A file with a client certificate, instead of the user's.
    #[arg(long, value_name = "FILE", global = true, requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,

    /// A file with the key of the client certificate.
    #[arg(long, value_name = "FILE", global = true, requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,

    /// Does not verify the server's certificate. An attacker on the network can then read and change everything.
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// The name in the server's certificate, if it differs from the server's address.
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) tls_server_name: Option<String>,

    /// How long a single request other than a watch may take: 30s, or seconds. 0 waits indefinitely.
    #[arg(long, value_name = "DURATION", default_value = "0", global = true, value_parser = seconds_or_duration)]
    pub(crate) request_timeout: Duration,

    /// Acts as this user. Requires permission to impersonate.
    #[arg(long = "as", value_name = "USER", global = true)]
    pub(crate) as_user: Option<String>,

    /// Acts as a member of this group. Requires --as. Repeatable.
    #[arg(long = "as-group", value_name = "GROUP", global = true, requires = "as_user")]
    pub(crate) as_groups: Vec<String>,

    /// Acts as the user with this uid. Requires --as.
    #[arg(long, value_name = "UID", global = true, requires = "as_user")]
    pub(crate) as_uid: Option<String>,
}

impl ClusterOptions {
    /// The same without what is not about the cluster.
    pub(crate) fn remote(&self) -> Options {
        let impersonated = |user: &String| Impersonated { user: user.clone(), groups: self.as_groups.clone(), uid: self.as_uid.clone() };
        Options {
            kubeconfigs: kubeconfigs(self.kubeconfig.as_ref(), self.server.is_some()),
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            server: self.server.clone(),
            more_servers: Vec::new(),
            certificate_authority: self.certificate_authority.clone(),
            client_certificate: self.client_certificate.clone().zip(self.client_key.clone()),
            token: self.token.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            tls_server_name: self.tls_server_name.clone(),
            impersonated: self.as_user.as_ref().map(impersonated),
        }
    }
}

/// The kubeconfig files that count. One that was asked for must exist, others need not. Of those in KUBECONFIG one must, unless a server is named.
pub(crate) fn kubeconfigs(named: Option<&PathBuf>, names_server: bool) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![path.clone()];
    }
    let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    let (paths, must_exist): (Vec<PathBuf>, _) = match listed {
        Some(list) => (std::env::split_paths(&list).collect(), !names_server),
        None => (etcetera::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(), false),
    };
    let found: Vec<PathBuf> = paths.iter().filter(|path| path.exists()).cloned().collect();
    // The read then reports that it is missing.
    if found.is_empty() && must_exist { paths.into_iter().take(1).collect() } else { found }
}

/// Durations as kubectl takes them here: a bare number is of seconds.
fn seconds_or_duration(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| duration(text))
}
