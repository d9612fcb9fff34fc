//! The API over one store: what its verbs work with.

use crate::{
    Actor, ApiError, Pressure, ResourceTable, Resources, Reviewer, Subresource, WriteOptions,
    admission::plug_in::Chain,
    allocation::ServiceRanges,
    authorization::{Authorizer, OwnWrites},
    fresh::Fresh,
    ownership::Author,
    shares::Shares,
    storage::Storage,
};
use berth_api::{FeatureGates, Object, tenure::Tenure};
use berth_rbac::{Attributes, Policy, User};
use berth_store::{
    Entry, Health, Store, Usage,
    env::{Clock, Rng, Timestamp},
};
use std::sync::{Arc, Mutex};

/// The API over one store: the definitions of what it serves, the chain that every write goes through, and storage. Every verb is a method of it, in a
/// file of its own. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    pub(crate) definitions: Arc<ResourceTable>,
    pub(crate) chain: Chain,
    pub(crate) storage: Storage,
    /// PEM of the authority that every namespace has in a config map.
    pub(crate) root_ca: Arc<Mutex<Option<Arc<str>>>>,
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
        let store = Arc::new(OwnWrites::of(store));
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&store), Arc::clone(&clock)));
        let chain = Chain::new(Arc::<OwnWrites>::clone(&store), Arc::clone(&clock), rng, gates, authorizer);
        Self { definitions: table, chain, storage: Storage::new(store, clock), root_ca: Arc::default() }
    }

    /// What time it is, by the clock that stamps objects: what is compared with their times is read here.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.storage.clock.now()
    }

    /// Whether the store answers.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check_store(&self) -> Result<(), ApiError> {
        self.storage.store.revision("/registry/").await?;
        Ok(())
    }

    /// Whether the store takes writes.
    #[must_use]
    pub fn store_health(&self) -> Health {
        self.storage.store.health()
    }

    /// The kinds that it serves, to be added to.
    #[must_use]
    pub fn table(&self) -> &Arc<ResourceTable> {
        &self.definitions
    }

    /// What it serves now. A request asks once.
    #[must_use]
    pub fn resources(&self) -> Arc<Resources> {
        self.definitions.resources()
    }

    /// How much is stored, and how much may be; `None`: the store does not say.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.storage.store.usage()
    }

    /// The object that an entry's value is, with its defaults, if it was written lately: it need not be read then.
    #[must_use]
    pub fn written_lately(&self, entry: &Entry) -> Option<Arc<dyn Object>> {
        self.storage.fresh.get(entry)
    }

    /// The policy, with all that this server has written before this call and what others have up to
    /// [`LAG_MAX`](crate::authorization::LAG_MAX) ago. Costs a look at four watches, what changed in roles and bindings, and now and then
    /// a question to the store.
    ///
    /// # Errors
    /// [`ApiError::Unavailable`] where the store does not say what there is; the store's.
    pub async fn policy(&self) -> Result<Arc<Policy>, ApiError> {
        self.chain.authorizer.policy().await
    }

    /// Why `user` may do this (empty for those who may do everything); `None`: they may not. Sees every write that this server
    /// answered before, and others' after [`LAG_MAX`](crate::authorization::LAG_MAX).
    ///
    /// # Errors
    /// The store's.
    pub async fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Result<Option<String>, ApiError> {
        self.chain.authorizer.decide(user, attributes).await
    }

    /// As [`Registry::decide`], and refuses.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`]; the store's.
    pub async fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<String, ApiError> {
        self.chain.authorizer.authorize(user, attributes).await
    }

    pub(crate) fn author<'a>(&self, actor: &'a Actor, options: &'a WriteOptions, subresource: Option<Subresource>) -> Author<'a> {
        Author { actor, manager: &options.field_manager, subresource, now: self.now() }
    }
}

/// The same API in other surroundings.
impl Registry {
    /// The same API, which slows users who write more than their share of so many bytes of history.
    #[must_use]
    pub fn with_history_shares(mut self, history_bytes: u64) -> Self {
        self.chain.shares = Arc::new(Shares::of(history_bytes));
        self
    }

    /// The same API, which remembers what was written lately up to so many bytes of its stored form.
    #[must_use]
    pub fn remembering(mut self, bytes: usize) -> Self {
        self.storage.fresh = Arc::new(Fresh::up_to(bytes));
        self
    }

    /// The same API, which stores no more while the process has too little memory.
    #[must_use]
    pub fn with_pressure(mut self, pressure: Pressure) -> Self {
        self.chain.pressure = pressure;
        self
    }

    /// The same API, where each namespace has a config map `kube-root-ca.crt` with the certificate (PEM) by which clients know the server.
    #[must_use]
    pub fn with_root_ca(self, certificate: &str) -> Self {
        Self { root_ca: Arc::new(Mutex::new(Some(certificate.into()))), ..self }
    }

    /// The same API, asking these about each write, one after the other.
    #[must_use]
    pub fn with_reviewers(mut self, reviewers: Vec<Arc<dyn Reviewer>>) -> Self {
        self.chain.reviewers = reviewers.into();
        self
    }

    /// The API for what belongs to a write that everybody was asked about.
    pub(crate) fn reviewed(&self) -> Self {
        self.clone().with_reviewers(Vec::new())
    }

    /// The same API, giving out addresses and ports of these ranges.
    #[must_use]
    pub fn with_service_ranges(mut self, ranges: ServiceRanges) -> Self {
        self.chain.allocator.ranges = Arc::new(ranges);
        self
    }

    /// The same API, whose writes of objects only happen during `tenure`; else they are conflicts.
    #[must_use]
    pub fn led_by(&self, tenure: Arc<Tenure>) -> Self {
        let mut led = self.clone();
        led.storage.tenure = Some(tenure);
        led
    }
}
