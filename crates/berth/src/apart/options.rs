//! Options of the parts that run as processes of their own.

use crate::{cluster_options::kubeconfigs, controllers::ControllerOptions, duration::duration, logging::LogFormat, nodes::NodeOptions};
use berth_controllers::election::{BadTiming, Timing};
use berth_identity::ObjectKey;
use berth_remote::Options;
use clap::{ArgAction, Args};
use std::{net::IpAddr, path::PathBuf, time::Duration};

/// Options of `berth controller-manager`.
#[derive(Args, Debug)]
pub(crate) struct ControllerManager {
    #[command(flatten)]
    pub(crate) control: ControllerOptions,

    /// Features to switch on or off, in the format of all kube components: Name=true,Other=false.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) feature_gates: String,

    #[command(flatten)]
    pub(crate) part: PartOptions,
}

/// Options of `berth scheduler`.
#[derive(Args, Debug)]
pub(crate) struct Scheduler {
    #[command(flatten)]
    pub(crate) part: PartOptions,
}

/// Options of `berth node`.
#[derive(Args, Debug)]
pub(crate) struct Node {
    #[command(flatten)]
    pub(crate) nodes: NodeOptions,

    /// Adds the simulated nodes to a cluster whose API server is not berth's. No container runs there, but the cluster's scheduler cannot
    /// know that. Therefore the nodes have the label berth.dev/simulated-node=true and the taint berth.dev/simulated=true:NoSchedule.
    #[arg(long)]
    pub(crate) join_foreign_cluster: bool,

    /// Omits that taint. Any pod of the cluster can then count as running on a simulated node.
    #[arg(long, requires = "join_foreign_cluster")]
    pub(crate) no_simulated_taint: bool,

    #[command(flatten)]
    pub(crate) part: PartOptions,
}

/// What each of them takes.
#[derive(Args, Debug)]
pub(crate) struct PartOptions {
    /// The kubeconfig with the API server's address and the user's credentials [default: the files of KUBECONFIG; else ~/.kube/config;
    /// else, in a pod, its service account].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The API server's address, instead of the kubeconfig's. Repeatable for the servers of one control plane: if one does not answer,
    /// berth uses the next.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Vec<String>,

    /// The format of the log on standard error.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Logs more: -v the actions, -vv every request. The variable BERTH_LOG sets a filter: warn,berth_remote=debug.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    // These last: otherwise the following options would be under their headings.
    #[command(flatten)]
    pub(crate) health: HealthOptions,

    #[command(flatten)]
    pub(crate) leader: LeaderOptions,
}

impl PartOptions {
    /// The cluster that is meant.
    pub(crate) fn remote(&self) -> Options {
        let mut servers = self.server.iter().cloned();
        let server = servers.next();
        Options {
            kubeconfigs: kubeconfigs(self.kubeconfig.as_ref(), server.is_some()),
            server,
            more_servers: servers.collect(),
            ..Options::default()
        }
    }
}

/// The address of the part's health endpoint, with upstream's names.
#[derive(Args, Debug)]
#[command(next_help_heading = "Health and metrics")]
pub(crate) struct HealthOptions {
    /// The port of /healthz, /livez, /readyz and /metrics, over HTTPS. 0 serves none of them [default: 10257 for controller-manager, 10259
    /// for scheduler, 10250 for node].
    #[arg(long, value_name = "PORT")]
    pub(crate) secure_port: Option<u16>,

    /// The address to listen on for health and metrics.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,

    /// The certificate for health and metrics, as PEM, with its intermediate authorities [default: created at the start, self-signed].
    /// berth reads changes of this file and the next ones while it runs. It ignores files that it cannot use.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The certificate's key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// The authorities of clients' certificates, as PEM [default: none; clients use tokens, which the API server checks].
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Paths that every client may read. A * at the end matches all paths with this prefix. The API server decides about all other paths.
    #[arg(long, value_name = "PATH,...", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub(crate) authorization_always_allow_paths: Vec<String>,
}

/// Whether and how one of several is chosen, named as upstream's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderOptions {
    /// Whether only the leader works. When it ends, a standby takes over. Leader and standbys use the same Lease.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) leader_elect: bool,

    /// How long standbys wait before they take over a Lease that the leader does not renew, in whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) leader_elect_lease_duration: Duration,

    /// How long the leader continues without a renewal of the Lease. Then it exits with an error.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) leader_elect_renew_deadline: Duration,

    /// The interval between two attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) leader_elect_retry_period: Duration,

    /// The name of the Lease [default: berth- and the command's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) leader_elect_resource_name: Option<String>,

    /// The namespace of the Lease.
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub(crate) leader_elect_resource_namespace: String,
}

impl LeaderOptions {
    /// The Lease and its times. `None`: there is no leader election.
    ///
    /// # Errors
    /// [`BadTiming`]
    pub(crate) fn lease(&self, part: &str) -> Result<Option<(ObjectKey, Timing)>, BadTiming> {
        if !self.leader_elect {
            return Ok(None);
        }
        let timing = Timing::new(self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period)?;
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(part);
        Ok(Some((ObjectKey::new(self.leader_elect_resource_namespace.as_str(), name), timing)))
    }
}
