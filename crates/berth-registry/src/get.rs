//! Reading one object, and waiting for a revision.

use crate::{ApiError, Collection, Current, GetOptions, Registry, Subresource, Target, key, options::parse_revision, scale, stored};
use berth_store::{RangeRequest, Revision, WatchItem};
use bytes::Bytes;
use futures::{
    StreamExt,
    future::{Either, select},
};
use std::{pin::pin, time::Duration};

/// How long a read waits for a revision that is not there yet.
const FUTURE_REVISION_WAIT: Duration = Duration::from_secs(3);

impl Registry {
    /// The object, or the view of it that a subresource is.
    ///
    /// # Errors
    /// [`ApiError::NotFound`]; a resource version that is no number, or that does not come within 3 s.
    pub async fn get(&self, target: &Target, options: &GetOptions) -> Result<Current, ApiError> {
        target.check_subresource()?;
        if let Some(revision) = wanted_revision(&options.resource_version)? {
            self.wait_for(&target.collection(), revision).await?;
        }
        let entry = self.storage.fetch(target).await?;
        match target.subresource {
            None | Some(Subresource::Status | Subresource::Finalize) => stored::shown(&target.resource, entry).map(Current::Stored),
            Some(Subresource::Scale) => scale::view(target, &entry).map(Current::Made),
            Some(Subresource::Binding | Subresource::Eviction | Subresource::Log | Subresource::Token) => Err(ApiError::MethodNotAllowed),
        }
    }

    /// A revision of the collection that no write which was answered before this call is behind.
    ///
    /// # Errors
    /// The store's.
    pub async fn newest(&self, at: &Collection) -> Result<Revision, ApiError> {
        Ok(self.storage.store.revision(&key::prefix_of(at)).await?)
    }

    /// The value of the target's object as it was a moment ago, without asking a store that is far away where that is possible. For estimates.
    pub async fn stored(&self, target: &Target) -> Option<Bytes> {
        let key = target.key();
        let entry = match self.storage.store.known(&key) {
            Some(known) => Some(known),
            None => self.storage.store.get(&key).await.ok().flatten(),
        };
        entry.map(|entry| entry.value.clone())
    }

    /// How many bytes the longest value of a collection has; 0 where the store does not say.
    pub async fn longest(&self, at: &Collection) -> usize {
        let range = self.storage.store.range(RangeRequest::all(key::prefix_of(at))).await;
        range.map_or(0, |range| range.entries.iter().map(|entry| entry.value.len()).max().unwrap_or(0))
    }

    /// Resolves when `revision` is visible where the collection is kept.
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

/// The revision that `resourceVersion` names; `None` for unset and `0`, which any state satisfies.
pub(crate) fn wanted_revision(text: &str) -> Result<Option<Revision>, ApiError> {
    match (text, parse_revision(text)) {
        ("", _) | (_, Some(Revision(0))) => Ok(None),
        (_, Some(revision)) => Ok(Some(revision)),
        (_, None) => Err(ApiError::bad_request(format!("invalid resource version: strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}
