//! The API over one store: the context of its verbs.

use crate::{
    Actor, ApiError, Converter, Pressure, RequestOptions, RequestVerifier, Resource, ResourceTable, Resources, Reviewer, Subresource,
    WriteOptions,
    admission::plug_in::Chain,
    allocation::ServiceRanges,
    authorization::{Authorizer, OwnWrites},
    definition_progress::DefinitionProgress,
    following::{Content, Following},
    fresh::Fresh,
    ownership::Author,
    shares::Shares,
    stamps::new_uid,
    storage::Storage,
};
use berth_api::{FeatureGates, Object, fencing::FencingToken};
use berth_rbac::{Attributes, Policy, User};
use berth_store::{
    Entry, Health, Store, Usage,
    env::{Clock, Rng, Timestamp},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The API over one store: the definitions of its resources, the chain of every write, and storage. Every verb is a
/// method of it, in a file of its own. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    pub(crate) definitions: Arc<ResourceTable>,
    pub(crate) chain: Chain,
    pub(crate) storage: Storage,
    /// The PEM of the CA that every namespace has in a config map.
    pub(crate) root_ca: Arc<Mutex<Option<Arc<str>>>>,
    /// How far the table follows the stored definitions.
    pub(crate) progress: Arc<DefinitionProgress>,
}

impl Registry {
    /// Returns the API over `store`, whose layout must be the same table.
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
        Self { definitions: table, chain, storage: Storage::new(store, clock), root_ca: Arc::default(), progress: Arc::default() }
    }

    /// Returns the time of the clock that stamps objects, for comparisons with their times.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.storage.clock.now()
    }

    /// Checks that the store responds.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn check_store(&self) -> Result<(), ApiError> {
        self.storage.store.revision("/registry/").await?;
        Ok(())
    }

    /// Whether the store accepts writes.
    #[must_use]
    pub fn store_health(&self) -> Health {
        self.storage.store.health()
    }

    /// Returns the resource table, to which kinds can be added.
    #[must_use]
    pub fn table(&self) -> &Arc<ResourceTable> {
        &self.definitions
    }

    /// Returns the currently served resources. A request calls this once.
    #[must_use]
    pub fn resources(&self) -> Arc<Resources> {
        self.definitions.resources()
    }

    /// Returns the used and the maximum size of the store, or `None` if the store does not report them.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.storage.store.usage()
    }

    /// Returns the object of an entry's value, with defaults, if it was written recently. It need not be decoded then.
    #[must_use]
    pub fn written_lately(&self, entry: &Entry) -> Option<Arc<dyn Object>> {
        self.storage.fresh.get(entry)
    }

    /// Returns a policy with all writes of this server before this call, and those of others up to
    /// [`LAG_MAX`](crate::authorization::LAG_MAX) ago. Costs a poll of four watches, the changes of roles and bindings,
    /// and occasionally a request to the store.
    ///
    /// # Errors
    /// [`ApiError::Unavailable`] if the store does not respond in time, or errors of the store.
    pub async fn policy(&self) -> Result<Arc<Policy>, ApiError> {
        self.chain.authorizer.policy().await
    }

    /// Returns why `user` may do this (empty for users with all rights), or `None` if they may not. It sees every
    /// acknowledged write of this server, and those of others after [`LAG_MAX`](crate::authorization::LAG_MAX).
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Result<Option<String>, ApiError> {
        self.chain.authorizer.decide(user, attributes).await
    }

    /// Does the same as [`Registry::decide`], with an error instead of `None`.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`], or errors of the store.
    pub async fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<String, ApiError> {
        self.chain.authorizer.authorize(user, attributes).await
    }

    /// Returns the labels of a namespace.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], or errors of the store.
    pub async fn namespace_labels(&self, name: &str) -> Result<BTreeMap<String, String>, ApiError> {
        self.chain.namespace_labels(name).await
    }

    /// Sets the converter of kinds with a conversion webhook, for all copies of this API. Only the first call counts.
    pub fn set_converter(&self, converter: Arc<dyn Converter>) {
        // A second converter would be that of another server.
        let _ = self.storage.converter.set(converter);
    }

    /// Returns a new uid, for an object or a review.
    #[must_use]
    pub fn new_uid(&self) -> String {
        new_uid(&*self.chain.rng)
    }

    /// Returns what is kept in memory of these resources. Only those of admission have this server's own writes at once.
    #[must_use]
    pub fn follow<T: Content>(&self, resources: Vec<Arc<Resource>>) -> Following<T> {
        Following::new(Arc::clone(self.chain.authorizer.own_writes()), resources)
    }

    pub(crate) fn author<'a>(&self, actor: &'a Actor, options: &'a WriteOptions, subresource: Option<Subresource>) -> Author<'a> {
        Author { actor, manager: &options.field_manager, subresource, now: self.now(), options: RequestOptions::Write(options) }
    }
}

/// Variants of the same API.
impl Registry {
    /// Returns the same API with a limit on each user's share of this many bytes of history.
    #[must_use]
    pub fn with_history_shares(mut self, history_bytes: u64) -> Self {
        self.chain.shares = Arc::new(Shares::of(history_bytes));
        self
    }

    /// Returns the same API with a cache of recently written objects, up to this many bytes of their stored form.
    #[must_use]
    pub fn remembering(mut self, bytes: usize) -> Self {
        self.storage.fresh = Arc::new(Fresh::up_to(bytes));
        self
    }

    /// Returns the same API with a limit on the memory of the process.
    #[must_use]
    pub fn with_pressure(mut self, pressure: Pressure) -> Self {
        self.chain.pressure = pressure;
        self
    }

    /// Returns the same API with a config map `kube-root-ca.crt` in each namespace, which contains the server's CA
    /// certificate (PEM).
    #[must_use]
    pub fn with_root_ca(self, certificate: &str) -> Self {
        Self { root_ca: Arc::new(Mutex::new(Some(certificate.into()))), ..self }
    }

    /// Returns the same API with these reviewers of writes, which are called in order.
    #[must_use]
    pub fn with_reviewers(mut self, reviewers: Vec<Arc<dyn Reviewer>>) -> Self {
        self.chain.reviewers = reviewers.into();
        self
    }

    /// Returns the same API with one more reviewer of writes, which is called last.
    #[must_use]
    pub fn with_reviewer(self, reviewer: Arc<dyn Reviewer>) -> Self {
        let reviewers = self.chain.reviewers.iter().cloned().chain([reviewer]).collect();
        self.with_reviewers(reviewers)
    }

    /// Returns the API for follow-up writes of a reviewed write.
    pub(crate) fn reviewed(&self) -> Self {
        self.clone().with_reviewers(Vec::new())
    }

    /// Returns it with a check of signatures of requests for certificates. Without it, they are not checked.
    #[must_use]
    pub fn with_request_verifier(mut self, verifier: Arc<dyn RequestVerifier>) -> Self {
        self.chain.verifier = Some(verifier);
        self
    }

    /// Returns the same API with these ranges for addresses and ports.
    #[must_use]
    pub fn with_service_ranges(mut self, ranges: ServiceRanges) -> Self {
        self.chain.allocator.ranges = Arc::new(ranges);
        self
    }

    /// Returns the same API with fencing: it writes objects only during the term of `fencing_token`. Otherwise writes are conflicts.
    #[must_use]
    pub fn with_fencing(&self, fencing_token: Arc<FencingToken>) -> Self {
        let mut fenced = self.clone();
        fenced.storage.fencing_token = Some(fencing_token);
        fenced
    }
}
