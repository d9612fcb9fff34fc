//! The API rules: what a request does to the store, and what it answers. No sockets, no encodings of HTTP.
//!
//! Start with [`Registry`]; every verb is a method of it in a file of its own. The kinds are lines of one table ([`resource`]).
//! IO happens only through [`berth_store::Store`]; time and randomness come in through [`berth_store::env`].

mod actor;
mod admission;
pub mod allocation;
mod answer;
mod applying;
pub mod archive;
pub mod authorization;
mod binding;
mod bootstrap;
mod checks;
mod configure;
mod continuing;
mod create;
mod decoding;
mod delete;
mod delete_collection;
pub mod discovery;
mod document;
pub mod error;
mod events;
mod eviction;
mod filter;
mod fresh;
mod get;
mod header;
mod key;
mod kubernetes_service;
mod led;
mod list;
mod living_servers;
pub mod log;
mod modify;
pub mod openapi;
pub mod options;
mod ownership;
pub mod patch;
mod patching;
mod pieces;
mod pressure;
mod replicas;
pub mod resource;
mod restore;
mod scale;
mod shares;
pub mod splice;
mod stamps;
mod stored;
pub mod table;
mod target;
mod update;
mod watch;

pub use actor::Actor;
pub use admission::{
    Operation, Remarks,
    chain::ORDER as ADMISSION_ORDER,
    resource_quota::NAME as RESOURCE_QUOTA,
    reviewers::{AdmissionRequest, Reviewer},
};
pub use answer::{ApiErrorBox, Current, Deleted, List, WatchEvent, Written};
pub use berth_rbac::bootstrap::DASHBOARD as DASHBOARD_USER;
pub use configure::{Configuration, Configured, ManifestFields};
#[cfg(feature = "fuzzing")]
pub use continuing::round_trips as continue_token_round_trips;
pub use delete_collection::TOLD_BYTES_MAX;
pub use document::{Discovery, Document, OpenApi};
pub use error::ApiError;
pub use kubernetes_service::ServerAddress;
pub use living_servers::Living;
pub use options::{Body, DeleteOptions, GetOptions, ListOptions, Patch, PropagationPolicy, WatchOptions, WriteOptions};
pub use pressure::Pressure;
pub use resource::{BoxObject, Resource, ResourceTable, Resources, Subresource};
pub use restore::{Archived, ArchivedFault};
pub use target::{Collection, Target};

use berth_api::{FeatureGates, Object, tenure::Tenure};
use berth_store::{
    Entry, Health, Store, Usage,
    env::{Clock, Rng, Timestamp},
};
use std::sync::{Arc, Mutex};

/// The API over one store. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) table: Arc<ResourceTable>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) gates: Arc<FeatureGates>,
    pub(crate) turns: Arc<admission::Turns>,
    pub(crate) policy: Arc<authorization::PolicyCache>,
    /// During which objects are written; none: always.
    pub(crate) tenure: Option<Arc<Tenure>>,
    pub(crate) leases: Arc<led::KnownLeases>,
    /// Who is asked about writes, in this order.
    pub(crate) reviewers: Arc<[Arc<dyn Reviewer>]>,
    /// PEM of the authority that every namespace has in a config map.
    pub(crate) root_ca: Arc<Mutex<Option<Arc<str>>>>,
    /// What Services are given.
    pub(crate) ranges: Arc<allocation::ServiceRanges>,
    pub(crate) pressure: Pressure,
    pub(crate) shares: Arc<shares::Shares>,
    pub(crate) fresh: Arc<fresh::Fresh>,
}

impl Registry {
    /// The API over `store`, whose layout is the same table.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        table: Arc<ResourceTable>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        gates: Arc<FeatureGates>,
    ) -> Self {
        let store = Arc::new(authorization::OwnWrites::of(store));
        Self {
            policy: Arc::new(authorization::PolicyCache::new(Arc::clone(&store))),
            store,
            table,
            clock,
            rng,
            gates,
            turns: Arc::default(),
            tenure: None,
            leases: Arc::default(),
            reviewers: Arc::default(),
            root_ca: Arc::default(),
            ranges: Arc::default(),
            pressure: Pressure::default(),
            shares: Arc::default(),
            fresh: Arc::default(),
        }
    }

    /// What time it is, by the clock that stamps objects: what is compared with their times is read here.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether the store answers.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check_store(&self) -> Result<(), ApiError> {
        self.store.revision("/registry/").await?;
        Ok(())
    }

    /// Whether the store takes writes.
    #[must_use]
    pub fn store_health(&self) -> Health {
        self.store.health()
    }

    /// The kinds that it serves, to be added to.
    #[must_use]
    pub fn table(&self) -> &Arc<ResourceTable> {
        &self.table
    }

    /// What it serves now. A request asks once.
    #[must_use]
    pub fn resources(&self) -> Arc<Resources> {
        self.table.resources()
    }

    /// How much is stored, and how much may be; `None`: the store does not say.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.store.usage()
    }

    /// The same API, which slows users who write more than their share of so many bytes of history.
    #[must_use]
    pub fn with_history_shares(self, history_bytes: u64) -> Self {
        Self { shares: Arc::new(shares::Shares::of(history_bytes)), ..self }
    }

    /// The same API, which remembers what was written lately up to so many bytes of its stored form.
    #[must_use]
    pub fn remembering(self, bytes: usize) -> Self {
        Self { fresh: Arc::new(fresh::Fresh::up_to(bytes)), ..self }
    }

    /// The object that an entry's value is, with its defaults, if it was written lately: it need not be read then.
    #[must_use]
    pub fn written_lately(&self, entry: &Entry) -> Option<Arc<dyn Object>> {
        self.fresh.get(entry)
    }

    /// The same API, which stores no more while the process has too little memory.
    #[must_use]
    pub fn with_pressure(self, pressure: Pressure) -> Self {
        Self { pressure, ..self }
    }

    /// The same API, where each namespace has a config map `kube-root-ca.crt` with the certificate (PEM) by which clients know the server.
    #[must_use]
    pub fn with_root_ca(self, certificate: &str) -> Self {
        Self { root_ca: Arc::new(Mutex::new(Some(certificate.into()))), ..self }
    }
}
