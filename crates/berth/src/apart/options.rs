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

    /// Features to switch on or off, as every kube component takes them: Name=true,Other=false.
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

    /// Adds the simulated nodes to a cluster whose API server is not berth's. No container runs there, and the cluster's scheduler knows no difference: the
    /// nodes have the label berth.dev/simulated-node=true and the taint berth.dev/simulated=true:NoSchedule.
    #[arg(long)]
    pub(crate) join_foreign_cluster: bool,

    /// Leaves that taint out: any pod of the cluster may then count as running on a simulated node.
    #[arg(long, requires = "join_foreign_cluster")]
    pub(crate) no_simulated_taint: bool,

    #[command(flatten)]
    pub(crate) part: PartOptions,
}

/// What each of them takes.
#[derive(Args, Debug)]
pub(crate) struct PartOptions {
    /// The kubeconfig that says where the API server is, and as whom to ask it [default: the files of KUBECONFIG; else ~/.kube/config; else, in a
    /// pod, its service account].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The API server's address, instead of the kubeconfig's. Repeatable: the servers of one control plane, of which the next is asked when one does not
    /// answer.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Vec<String>,

    /// How the log on standard error is written.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Logs more: -v what is done, -vv every request. The variable BERTH_LOG takes a filter instead: warn,berth_remote=debug.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    // These last: what follows would stand under their headings.
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

/// Where it is told how the part is, named as upstream's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Health and metrics")]
pub(crate) struct HealthOptions {
    /// Where /healthz, /livez, /readyz and /metrics are, over HTTPS; 0: nowhere [default: 10257 of controller-manager, 10259 of scheduler, 10250 of node].
    #[arg(long, value_name = "PORT")]
    pub(crate) secure_port: Option<u16>,

    /// The address to listen on there.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: IpAddr,

    /// The certificate to show there, as PEM, with those of the authorities between it and the one that clients know [default: made at the start, by no
    /// authority]. This file and the next ones are read again while the part runs; what cannot be used changes nothing.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// Its key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// The authorities of clients' certificates, as PEM [default: none; tokens count, of which the API server is asked whose they are].
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Paths that anybody may read; with * at its end, all that begin so. For others the API server is asked who may.
    #[arg(long, value_name = "PATH,...", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub(crate) authorization_always_allow_paths: Vec<String>,
}

/// Whether and how one of several is chosen, named as upstream's.
#[derive(Args, Debug)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderOptions {
    /// Whether only one of those that stand for the same Lease works; the next takes over when it ends.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) leader_elect: bool,

    /// How long a lease that is not renewed keeps others from taking over; whole seconds.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) leader_elect_lease_duration: Duration,

    /// How long who leads works without having renewed its lease; then it ends with an error.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) leader_elect_renew_deadline: Duration,

    /// How long it is between two tries to take or renew the lease.
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
    /// The Lease and its times; `None`: whoever runs works.
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
