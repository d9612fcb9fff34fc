//! Options of the controllers.

use crate::{duration::duration, services::cluster_ips};
use berth_api::ip::Cidr;
use clap::Args;
use std::time::Duration;

/// Which controllers run, and what those need to know that stand for something outside.
#[derive(Args, Debug)]
pub(crate) struct ControllerOptions {
    /// Which controllers run: * for all, NAME for one, -NAME for all but one, -* for none. Scheduler and simulated nodes are `scheduler` and `node`
    /// [default: *; none over what was taken over with --take-over].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub(crate) controllers: Option<String>,

    /// How long it takes to make a persistent volume for a claim.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub(crate) volume_provision_latency: Duration,

    /// Where the addresses of Services of type LoadBalancer come from. Nothing answers there: the default is reserved for documentation.
    #[arg(long, value_name = "CIDR", default_value = "198.51.100.0/24", value_parser = cluster_ips)]
    pub(crate) load_balancer_range: Cidr,
}
