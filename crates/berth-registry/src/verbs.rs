//! Placeholder signatures; every verb moves to a file of its own.
#![allow(clippy::todo, unused_variables, clippy::unused_async, missing_docs)]
use crate::*;
use futures::stream::BoxStream;

impl Registry {
    /// A registry over `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>, gates: Arc<FeatureGates>) -> Self {
        Self { store, clock, rng, gates }
    }
    pub async fn create(&self, at: &Collection, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        todo!()
    }
    /// POST to a subresource: pods/binding, pods/eviction (the answer is a `Status`), with the name from the URL.
    pub async fn create_subresource(&self, target: &Target, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        todo!()
    }
    pub async fn get(&self, target: &Target, options: &GetOptions) -> Result<Current, ApiError> {
        todo!()
    }
    pub async fn list(&self, at: &Collection, options: &ListOptions) -> Result<List, ApiError> {
        todo!()
    }
    pub async fn watch(&self, at: &Collection, options: &WatchOptions) -> Result<BoxStream<'static, WatchEvent>, ApiError> {
        todo!()
    }
    pub async fn update(&self, target: &Target, body: Body, options: &WriteOptions) -> Result<Written, ApiError> {
        todo!()
    }
    pub async fn patch(&self, target: &Target, patch: Patch, options: &WriteOptions) -> Result<Written, ApiError> {
        todo!()
    }
    pub async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        todo!()
    }
    /// Gives the objects deleted, as they were.
    pub async fn delete_collection(&self, at: &Collection, list: &ListOptions, options: &DeleteOptions) -> Result<List, ApiError> {
        todo!()
    }
    /// Namespaces that every cluster has (default, kube-system, kube-public, kube-node-lease) and other objects made at first start.
    pub async fn bootstrap(&self) -> Result<(), ApiError> {
        todo!()
    }
}
