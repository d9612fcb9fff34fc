//! The API rules: what a request does to the store, and what it answers. No sockets, no encodings of HTTP.
//!
//! Start with [`Registry`]; every verb is a method of it in a file of its own. The kinds are lines of one table ([`resource`]).
//! IO happens only through [`berth_store::Store`]; time and randomness come in through [`berth_store::env`].

mod admission;
pub mod allocation;
mod applying;
pub mod authorization;
mod binding;
mod bootstrap;
mod checks;
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
mod get;
mod header;
mod key;
mod kubernetes_service;
mod list;
pub mod log;
mod modify;
pub mod openapi;
pub mod options;
mod ownership;
pub mod patch;
mod patching;
mod pressure;
mod replicas;
pub mod resource;
mod scale;
mod shares;
pub mod splice;
mod stamps;
mod stored;
pub mod table;
mod update;
mod watch;

pub use admission::{
    Operation, Remarks,
    chain::ORDER as ADMISSION_ORDER,
    resource_quota::NAME as RESOURCE_QUOTA,
    reviewers::{AdmissionRequest, Reviewer},
};
#[cfg(fuzzing)]
pub use continuing::round_trips as continue_token_round_trips;
pub use delete_collection::TOLD_BYTES_MAX;
pub use document::{Discovery, Document, OpenApi};
pub use error::ApiError;
pub use kubernetes_service::ServerAddress;
pub use options::{Body, DeleteOptions, GetOptions, ListOptions, Patch, PropagationPolicy, WatchOptions, WriteOptions};
pub use pressure::Pressure;
pub use resource::{Resource, ResourceTable, Resources, Subresource};

use berth_api::{FeatureGates, Object};
use berth_rbac::User;
use berth_store::{
    Entry, Health, Revision, Store, Usage,
    env::{Clock, Rng, Timestamp},
};
use std::sync::Arc;

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
    /// On whose behalf; none for the process itself.
    pub(crate) caller: Option<Arc<User>>,
    /// Who is asked about writes, in this order.
    pub(crate) reviewers: Arc<[Arc<dyn Reviewer>]>,
    /// PEM of the authority that every namespace has in a config map.
    pub(crate) root_ca: Option<Arc<str>>,
    /// What Services are given.
    pub(crate) ranges: Arc<allocation::ServiceRanges>,
    pub(crate) pressure: Pressure,
    pub(crate) shares: Arc<shares::Shares>,
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
            caller: None,
            reviewers: Arc::default(),
            root_ca: None,
            ranges: Arc::default(),
            pressure: Pressure::default(),
            shares: Arc::default(),
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

    /// The same API, which stores no more while the process has too little memory.
    #[must_use]
    pub fn with_pressure(self, pressure: Pressure) -> Self {
        Self { pressure, ..self }
    }

    /// The same API, where each namespace has a config map `kube-root-ca.crt` with the certificate (PEM) by which clients know the server.
    #[must_use]
    pub fn with_root_ca(self, certificate: &str) -> Self {
        Self { root_ca: Some(certificate.into()), ..self }
    }
}

/// All objects of a resource, in one namespace or (namespaced resources only) in all.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Which resource.
    pub resource: Arc<Resource>,
    /// `None`: cluster-scoped resource, or all namespaces.
    pub namespace: Option<String>,
}

/// One object, or a subresource of it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Which resource.
    pub resource: Arc<Resource>,
    /// `None` for cluster-scoped resources.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// `None`: the object itself.
    pub subresource: Option<Subresource>,
}

/// What a write gives back.
#[derive(Debug)]
pub struct Written {
    /// The object as it is now.
    pub object: Current,
    /// Whether it was created (201) rather than changed (200).
    pub created: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations for the audit log: names and values.
    pub audit: Vec<(&'static str, String)>,
}

/// An object to answer with.
#[derive(Clone, Debug)]
pub enum Current {
    /// As it stands in the store.
    Stored(Arc<Entry>),
    /// Of a dry run (no resource version), or a view such as `Scale` or an eviction's `Status`: complete JSON, nothing to splice in.
    Made(serde_json::Value),
}

impl Current {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Stored(entry) => entry.name(),
            Self::Made(value) => value["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }
}

/// What a delete gives back.
#[derive(Debug)]
pub enum Deleted {
    /// It lingers (grace period, finalizers), or its kind always answers with the object (pods, namespaces).
    Object(Current),
    /// It is gone; its uid.
    Gone {
        /// `metadata.uid`.
        uid: String,
        /// The revision of the deletion, absent for a dry run.
        revision: Option<Revision>,
    },
}

/// A page of a list.
#[derive(Debug)]
pub struct List {
    /// In key order.
    pub items: Vec<Arc<Entry>>,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.continue`, empty on the last page.
    pub continue_token: String,
    /// `metadata.remainingItemCount`: only with a limit, without selectors, and when not 0.
    pub remaining: Option<usize>,
}

/// One line of a watch, after selectors have been applied.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// New, or it started to match.
    Added(Arc<Entry>),
    /// Changed; also carries the shared event, whose `encoded` may hold the line.
    Modified(Arc<berth_store::Event>),
    /// Gone, or it stopped to match (then: the previous state, with the new revision).
    Deleted {
        /// The last state that matched.
        last: Arc<Entry>,
        /// The revision to show.
        revision: Revision,
    },
    /// Everything up to this revision has been sent. `initial_events_end` marks the end of a streaming list.
    Bookmark {
        /// The revision to show.
        revision: Revision,
        /// Whether to carry `k8s.io/initial-events-end`.
        initial_events_end: bool,
    },
    /// The reader fell behind: 410, then the end.
    Expired(ApiErrorBox),
}

/// A shared error inside a stream.
pub type ApiErrorBox = Arc<ApiError>;

/// An object decoded from a request or from the store.
pub type BoxObject = Box<dyn Object>;
