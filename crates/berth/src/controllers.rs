//! Options of the controllers.

use crate::{duration::duration, services::cluster_ips};
use berth_analysis::{FileProviders, OpenError};
use berth_api::ip::Cidr;
use berth_controllers::analysis::{NoProviders, Providers};
use berth_store::env::Env;
use clap::Args;
use futures::FutureExt;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Which controllers run, and the settings of those that simulate something external.
#[derive(Args, Debug)]
pub(crate) struct ControllerOptions {
    /// The controllers to run: * for all, NAME for one, -NAME to exclude one, -* for none. The names of scheduler and simulated nodes are
    /// `scheduler` and `node` [default: *; none on data of --take-over; deployment,replicaset,statefulset on an API server other than
    /// berth's].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub(crate) controllers: Option<String>,

    /// How long the creation of a persistent volume for a claim takes.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub(crate) volume_provision_latency: Duration,

    /// The address range of Services of type LoadBalancer. No machine answers on these addresses: the default range is reserved for
    /// documentation.
    #[arg(long, value_name = "CIDR", default_value = "198.51.100.0/24", value_parser = cluster_ips)]
    pub(crate) load_balancer_range: Cidr,

    /// A YAML file of the providers for analyses of progressive rollouts: names, addresses, credentials, and the namespaces that may use
    /// each. See docs/how-to/progressive-rollouts.md [default: no providers]. berth reads changes of this file, and of files in it, while
    /// it runs.
    #[arg(long, value_name = "FILE")]
    pub(crate) analysis_providers: Option<PathBuf>,
}

impl ControllerOptions {
    /// The providers for analyses.
    ///
    /// # Errors
    /// The file is invalid.
    pub(crate) fn providers(&self) -> Result<Analyses, OpenError> {
        let file = self.analysis_providers.as_deref().map(FileProviders::open).transpose()?;
        Ok(Analyses(file.map(Arc::new)))
    }
}

/// The providers for analyses, from the administrator's file if there is one. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Analyses(Option<Arc<FileProviders>>);

impl Analyses {
    /// Follows changes of the file from now on.
    pub(crate) fn follow(&self, env: &Env) {
        if let Some(file) = &self.0 {
            env.spawner.spawn("providers of analyses", Arc::clone(file).follow(Arc::clone(&env.clock)).boxed());
        }
    }

    /// The providers.
    pub(crate) fn providers(&self) -> Arc<dyn Providers> {
        match &self.0 {
            Some(file) => Arc::<FileProviders>::clone(file),
            None => Arc::new(NoProviders),
        }
    }
}
