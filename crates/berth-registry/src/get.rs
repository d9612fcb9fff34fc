//! Reads one object, and waits for a revision.

use crate::{ApiError, Collection, Current, GetOptions, Registry, Subresource, Target, key, options::parse_revision, scale, stored};
use berth_store::{RangeRequest, Revision, WatchItem};
use bytes::Bytes;
use futures::{
    StreamExt,
    future::{Either, select},
};
use std::{pin::pin, time::Duration};

/// How long a read waits for a future revision.
const FUTURE_REVISION_WAIT: Duration = Duration::from_secs(3);

impl Registry {
    /// Returns the object or its subresource.
    ///
    /// # Errors
    /// [`ApiError::NotFound`], an invalid resource version, or one that does not exist within 3 s.
    pub async fn get(&self, target: &Target, options: &GetOptions) -> Result<Current, ApiError> {
        target.check_subresource()?;
        if let Some(revision) = wanted_revision(&options.resource_version)? {
            self.wait_for(&target.collection(), revision).await?;
        }
        let entry = self.storage.fetch(target).await?;
        match target.subresource {
            None | Some(Subresource::Status | Subresource::Approval | Subresource::Finalize) => {
                stored::shown(&target.resource, entry).map(Current::Stored)
            }
            Some(Subresource::Scale) => scale::view(target, &entry).map(Current::Made),
            Some(Subresource::Binding | Subresource::Eviction | Subresource::Log | Subresource::Token) => Err(ApiError::MethodNotAllowed),
        }
    }

    /// Returns a revision of the collection that includes every write acknowledged before this call.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn newest(&self, at: &Collection) -> Result<Revision, ApiError> {
        Ok(self.storage.store.revision(&key::prefix_of(at)).await?)
    }

    /// Returns a recent value of the target's object, from a local cache if possible. For estimates.
    pub async fn stored(&self, target: &Target) -> Option<Bytes> {
        let key = target.key();
        let entry = match self.storage.store.known(&key) {
            Some(known) => Some(known),
            None => self.storage.store.get(&key).await.ok().flatten(),
        };
        entry.map(|entry| entry.value.clone())
    }

    /// Returns the length of the longest value of a collection in bytes, or 0 on an error.
    pub async fn longest(&self, at: &Collection) -> usize {
        let range = self.storage.store.range(RangeRequest::all(key::prefix_of(at))).await;
        range.map_or(0, |range| range.entries.iter().map(|entry| entry.value.len()).max().unwrap_or(0))
    }

    /// Resolves when `revision` is visible in the store of the collection.
    ///
    /// # Errors
    /// [`ApiError::TooLargeResourceVersion`] after 3 s.
    pub(crate) async fn wait_for(&self, at: &Collection, revision: Revision) -> Result<(), ApiError> {
        let prefix = key::prefix_of(at);
        let current = self.storage.store.revision(&prefix).await?;
        if revision <= current {
            return Ok(());
        }
        let deadline = self.storage.clock.now().saturating_add(FUTURE_REVISION_WAIT).expect("a positive duration can be added");
        let reached = pin!(self.reach(&prefix, revision, current));
        match select(reached, self.storage.clock.sleep_until(deadline)).await {
            Either::Left((reached, _)) => reached,
            Either::Right(_) => {
                let current = self.storage.store.revision(&prefix).await?;
                Err(ApiError::TooLargeResourceVersion { requested: revision.0, current: current.0 })
            }
        }
    }

    async fn reach(&self, prefix: &str, revision: Revision, after: Revision) -> Result<(), ApiError> {
        let mut changes = self.storage.store.watch(prefix, after)?;
        let mut seen = after;
        while seen < revision {
            seen = match changes.next().await {
                Some(Ok(WatchItem::Events(events))) => events[0].entry.mod_revision,
                Some(Ok(WatchItem::Progress(revision))) => revision,
                Some(Err(error)) => return Err(error.into()),
                None => return Err(ApiError::Unavailable { message: "the store ended its watch".to_owned() }),
            }
        }
        Ok(())
    }
}

/// Parses `resourceVersion`. `None` for unset and `0`, which any state satisfies.
pub(crate) fn wanted_revision(text: &str) -> Result<Option<Revision>, ApiError> {
    match (text, parse_revision(text)) {
        ("", _) | (_, Some(Revision(0))) => Ok(None),
        (_, Some(revision)) => Ok(Some(revision)),
        (_, None) => Err(ApiError::bad_request(format!("invalid resource version: strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}
