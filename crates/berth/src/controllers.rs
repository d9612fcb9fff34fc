//! Options of the controllers.

use crate::{duration::duration, services::cluster_ips};
use berth_analysis::{FileProviders, OpenError};
use berth_api::ip::Cidr;
use berth_controllers::analysis::{NoProviders, Providers};
use berth_store::env::Env;
use clap::Args;
use futures::FutureExt;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Which controllers run, and what those need to know that stand for something outside.
#[derive(Args, Debug)]
pub(crate) struct ControllerOptions {
    /// Which controllers run: * for all, NAME for one, -NAME for all but one, -* for none. Scheduler and simulated nodes are `scheduler` and `node`
    /// [default: *; none over what was taken over with --take-over; on an API server that is not berth's, deployment,replicaset,statefulset].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub(crate) controllers: Option<String>,

    /// How long it takes to make a persistent volume for a claim.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub(crate) volume_provision_latency: Duration,

    /// Where the addresses of Services of type LoadBalancer come from. Nothing answers there: the default is reserved for documentation.
    #[arg(long, value_name = "CIDR", default_value = "198.51.100.0/24", value_parser = cluster_ips)]
    pub(crate) load_balancer_range: Cidr,

    /// Who can be asked by analyses of progressive rollouts, as YAML: names, addresses, credentials, and which namespaces may ask; see
    /// docs/how-to/progressive-rollouts.md [default: nobody]. The file and those that it names are read again when they change.
    #[arg(long, value_name = "FILE")]
    pub(crate) analysis_providers: Option<PathBuf>,
}

impl ControllerOptions {
    /// Whom analyses ask.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn providers(&self) -> Result<Analyses, OpenError> {
        let file = self.analysis_providers.as_deref().map(FileProviders::open).transpose()?;
        Ok(Analyses(file.map(Arc::new)))
    }
}

/// Whom analyses ask: those of the administrator's file, if there is one. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Analyses(Option<Arc<FileProviders>>);

impl Analyses {
    /// The file is followed from now on.
    pub(crate) fn follow(&self, env: &Env) {
        if let Some(file) = &self.0 {
            env.spawner.spawn("providers of analyses", Arc::clone(file).follow(Arc::clone(&env.clock)).boxed());
        }
    }

    /// Who is asked.
    pub(crate) fn providers(&self) -> Arc<dyn Providers> {
        match &self.0 {
            Some(file) => Arc::<FileProviders>::clone(file),
            None => Arc::new(NoProviders),
        }
    }
}
