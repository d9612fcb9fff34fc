//! `berth up --store etcd`: its options, and how the store is opened.

use crate::{duration::duration, foreign::Foreign, progress::chain};
use berth_apiserver::{Failure, Storage};
use berth_etcd::{ClaimError, Client, Fault, Options, Tls};
use berth_registry::ResourceTable;
use berth_store::{
    Store,
    env::Env,
    etcd::{Etcd, EtcdStore},
};
use clap::Args;
use futures::FutureExt;
use std::{
    error::Error,
    fs, mem,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What `berth up` is told about etcd.
#[derive(Args, Debug)]
pub(crate) struct EtcdOptions {
    /// The members of the etcd of --store etcd: http://127.0.0.1:2379. Repeatable, or several with commas between them.
    #[arg(long, value_name = "URL,...", value_delimiter = ',', required_if_eq("store", "etcd"))]
    pub(crate) etcd_servers: Vec<String>,

    /// What all keys in etcd begin with. What stands there belongs to the control plane with this --data-dir.
    #[arg(long, value_name = "PREFIX", default_value = "/registry", value_parser = prefix)]
    pub(crate) etcd_prefix: String,

    /// The authorities of etcd's certificates, as PEM: which etcd is the right one.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_cafile: Option<PathBuf>,

    /// The certificate that etcd is shown, as PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub(crate) etcd_certfile: Option<PathBuf>,

    /// Its key, as PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub(crate) etcd_keyfile: Option<PathBuf>,

    /// How long etcd may take to answer until /readyz says that it does not.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) etcd_healthcheck_timeout: Duration,

    /// How often etcd is told to forget what was replaced before the last time; 0s: never, somebody else does.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(crate) etcd_compaction_interval: Duration,

    /// Lets plain http leave this machine: whoever is on the way can read and change all that is stored, every Secret too.
    #[arg(long)]
    pub(crate) insecure_etcd: bool,
}

fn prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.len() < 2 || !trimmed.starts_with('/') { Err("a prefix is like /registry".into()) } else { Ok(trimmed.into()) }
}

impl EtcdOptions {
    /// For objects that are kept elsewhere.
    ///
    /// # Errors
    /// An etcd is named all the same: whoever does that wants them there.
    pub(crate) fn check_unused(&self) -> Outcome<()> {
        let is_said = !self.etcd_servers.is_empty() || self.etcd_cafile.is_some() || self.etcd_certfile.is_some() || self.insecure_etcd;
        if is_said { Err("options of etcd are for --store etcd".into()) } else { Ok(()) }
    }

    /// Where etcd is, and who asks.
    pub(crate) fn read(&self) -> Outcome<Options> {
        let read = |path: &Path| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let tls = match &self.etcd_cafile {
            Some(path) => Some(Tls { authorities: read(path)?, identity }),
            None if identity.is_some() => return Err("--etcd-certfile wants --etcd-cafile too, which says which etcd is shown it".into()),
            None => None,
        };
        let endpoints = self.etcd_servers.clone();
        let options = Options { endpoints, tls, user: None, insecure: self.insecure_etcd, prefix: self.etcd_prefix.clone() };
        options.check().map_err(|fault| with_option(&fault))?;
        Ok(options)
    }

    /// What health and metrics say of it.
    pub(crate) fn storage(&self) -> Storage {
        Storage { name: "etcd", failure: Failure::Unready, within: self.etcd_healthcheck_timeout }
    }

    /// In words.
    pub(crate) fn place(&self) -> String {
        format!("etcd at {}, below {}", self.etcd_servers.join(","), self.etcd_prefix)
    }
}

/// Says which option puts it right.
fn with_option(fault: &Fault) -> String {
    let option = match fault {
        Fault::NoEndpoint | Fault::Endpoint(_) => "--etcd-servers",
        Fault::Plain(_) => "--insecure-etcd allows it",
        Fault::NoAuthority(_) => "--etcd-cafile",
        Fault::Tls(_) => "--etcd-cafile, --etcd-certfile, --etcd-keyfile",
    };
    format!("{fault} ({option})")
}

/// The store of the control plane with this authority.
pub(crate) async fn open(
    options: &Options,
    authority: &str,
    table: &Arc<ResourceTable>,
    history_bytes: usize,
    env: &Env,
) -> Outcome<Arc<EtcdStore>> {
    let client = Client::open(options).await.map_err(|error| format!("{} (--etcd-servers)", chain(&error)))?;
    let layout = Arc::new(Foreign(Arc::clone(table)));
    client.claim(authority, &*layout).await.map_err(with_advice)?;
    let etcd: Arc<dyn Etcd> = Arc::new(client);
    Ok(Arc::new(EtcdStore::new(etcd, layout, history_bytes, env)))
}

fn with_advice(error: ClaimError) -> String {
    let advice = match &error {
        ClaimError::Etcd(_) => return error.to_string(),
        ClaimError::Foreign { .. } | ClaimError::Layout { .. } => "take another place with --etcd-prefix".to_owned(),
        ClaimError::Others { owner, .. } => {
            format!(
                "start it with its own --data-dir, or take another place with --etcd-prefix. If that folder is lost: etcdctl del {owner}"
            )
        }
    };
    format!("{error}: {advice}")
}

/// Lets etcd forget, again and again, what was replaced before the last time.
pub(crate) fn keep_compacting(store: &Arc<EtcdStore>, every: Duration, env: &Env) {
    let Ok(every) = jiff::SignedDuration::try_from(every) else { return };
    if every.is_zero() {
        return;
    }
    let (store, clock) = (Arc::clone(store), Arc::clone(&env.clock));
    let compact = async move {
        let mut before = None;
        loop {
            clock.sleep_until(clock.now() + every).await;
            let Some(revision) = mem::replace(&mut before, store.revision("/registry/").await.ok()) else { continue };
            if let Err(error) = store.compact("/registry/", revision).await {
                tracing::warn!(%error, %revision, "etcd was not compacted");
            }
        }
    };
    env.spawner.spawn("etcd-compaction", compact.boxed());
}
