//! Lists: a page of a collection at one revision.

use crate::{
    Actor, ApiError, Collection, List, ListOptions, Registry, Resource, checks, continuing::Token, filter::Filter, get::wanted_revision,
    key, stored,
};
use berth_rbac::User;
use berth_store::{Entry, Key, RangeRequest, ReadError, Revision, env::yield_now};
use jiff::SignedDuration;
use std::sync::Arc;

/// How long the revision of a paginated list is kept, if the store can afford it: etcd's compaction interval in
/// Kubernetes.
const LIST_TIME: SignedDuration = SignedDuration::from_mins(5);

/// The number of entries per read if a selector may skip most of them.
const SCAN_PAGE: usize = 1000;

/// The maximum number of entries per read before other tasks run: about a millisecond of work.
const PIECE_ENTRIES: usize = 4096;

/// The text of 410 for a token whose revision is compacted. The response has a token that continues at the newest
/// revision.
const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
    without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with \
    the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk \
    was returned and now may show up in the list.";

/// The entries of a page.
#[derive(Clone)]
pub(crate) struct Page {
    prefix: String,
    start_after: Option<Key>,
    at: Option<Revision>,
    limit: Option<usize>,
    /// The number of keys after `start_after`, if known.
    behind: Option<usize>,
    /// Whether the store already keeps the revision for it.
    is_kept: bool,
}

impl Page {
    /// Returns a page with all entries, at the newest revision.
    pub(crate) fn all(prefix: String) -> Self {
        Self { prefix, start_after: None, at: None, limit: None, behind: None, is_kept: false }
    }
}

/// The store keeps the revision of a list until this is dropped, or [for some time](LIST_TIME) after a page that has a
/// next one.
struct Kept<'a> {
    registry: &'a Registry,
    owner: &'a str,
    prefix: String,
    revision: Revision,
    has_next_page: bool,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if !self.has_next_page {
            self.registry.storage.store.unpin(&self.prefix, self.revision, self.owner);
        }
    }
}

impl Registry {
    /// Returns a page of a collection, sorted by key. Selectors use headers, without decoding.
    ///
    /// # Errors
    /// Invalid options, selectors or tokens, or a revision that is compacted or does not exist within 3 s.
    pub async fn list(&self, actor: &Actor, at: &Collection, options: &ListOptions) -> Result<List, ApiError> {
        checks::list_options(options)?;
        let filter = Filter::parse(&at.resource, &options.label_selector, &options.field_selector)?;
        let prefix = key::prefix_of(at);
        let limit = usize::try_from(options.limit).ok().filter(|limit| 0 < *limit);
        if !options.continue_token.is_empty() {
            return self.continue_list(actor, at, options, &filter, Page { limit, ..Page::all(prefix) }).await;
        }
        let revision = self.revision_to_list_at(at, options, limit).await?;
        // An upstream response from the cache for `0` ignores the limit, and clients rely on a complete list.
        let limit = limit.filter(|_| options.resource_version != "0" || !options.resource_version_match.is_empty());
        self.page(actor, at, &filter, Page { at: revision, limit, ..Page::all(prefix) }).await
    }

    /// Keeps the revision of a list for its next pages.
    fn keep<'a>(&'a self, actor: &'a Actor, prefix: String, revision: Revision) -> Kept<'a> {
        let owner = owner(actor);
        self.storage.store.pin(&prefix, revision, owner, self.storage.clock.now() + LIST_TIME);
        Kept { registry: self, owner, prefix, revision, has_next_page: false }
    }

    /// Estimates the number of objects of a resource, for the cost of a list. 0 on an error.
    pub async fn count(&self, resource: &Resource) -> usize {
        let request = RangeRequest { limit: Some(0), ..RangeRequest::all(resource.prefix()) };
        self.storage.store.range(request).await.map_or(0, |range| range.remaining)
    }

    async fn continue_list(
        &self,
        actor: &Actor,
        at: &Collection,
        options: &ListOptions,
        filter: &Filter,
        page: Page,
    ) -> Result<List, ApiError> {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        let token = Token::decode(&options.continue_token)?;
        let start_after = Some(token.start_after(&page.prefix));
        let begun_at = token.revision();
        // A list that continues at another revision is treated as a new list.
        let is_kept = begun_at.is_some();
        match self.page(actor, at, filter, Page { start_after, at: begun_at, behind: token.left(), is_kept, ..page }).await {
            Err(ApiError::Expired { .. }) => {
                let continue_token = Some(token.at_newest().encode());
                Err(ApiError::Expired { message: TOKEN_EXPIRED.to_owned(), continue_token })
            }
            Ok(list) => {
                if let Some(revision) = begun_at.filter(|_| list.continue_token.is_empty()) {
                    self.storage.store.unpin(&key::prefix_of(at), revision, owner(actor));
                }
                Ok(list)
            }
            other => other,
        }
    }

    /// Returns the revision of a first page. `None`: the newest. Waits for a future revision.
    async fn revision_to_list_at(
        &self,
        at: &Collection,
        options: &ListOptions,
        limit: Option<usize>,
    ) -> Result<Option<Revision>, ApiError> {
        let Some(revision) = wanted_revision(&options.resource_version)? else { return Ok(None) };
        self.wait_for(at, revision).await?;
        // A limit without `resourceVersionMatch` means `Exact`, by a rule older than that option.
        let exact = options.resource_version_match == "Exact" || (options.resource_version_match.is_empty() && limit.is_some());
        Ok(exact.then_some(revision))
    }

    /// Reads a page in pieces at one revision. Between pieces, other tasks run.
    pub(crate) async fn page(&self, actor: &Actor, at: &Collection, filter: &Filter, page: Page) -> Result<List, ApiError> {
        let newest = page.at.is_none();
        match self.page_by(actor, at, filter, page.clone(), Some(PIECE_ENTRIES)).await {
            // The revision was compacted during the read, because others write so much. One read of the newest revision
            // cannot expire.
            Err(ApiError::Expired { .. }) if newest => self.page_by(actor, at, filter, page, None).await,
            done => done,
        }
    }

    async fn page_by(&self, actor: &Actor, at: &Collection, filter: &Filter, page: Page, piece: Option<usize>) -> Result<List, ApiError> {
        let Page { prefix, start_after, at: revision, limit, behind, is_kept } = page;
        let wanted = limit.map(|limit| if filter.is_everything() { limit } else { limit.max(SCAN_PAGE) });
        let mut request =
            RangeRequest { prefix, start_after, at: revision, limit: piece.map(|piece| wanted.unwrap_or(piece).min(piece)), behind };
        let mut items = Vec::new();
        let mut kept = None;
        loop {
            let range = self.storage.store.range(request.clone()).await.map_err(expired)?;
            request.at = Some(range.revision);
            let read = range.entries.len();
            let entries = self.storage.converted(&at.resource, range.entries).await?;
            let (taken, last) = take(at, filter, entries, limit, &mut items)?;
            let more = range.remaining.saturating_add(read - taken);
            let full = limit.is_some_and(|limit| items.len() == limit);
            let (Some(last), false) = (last, more == 0) else { return Ok(List { items, ..ended(range.revision) }) };
            if kept.is_none() && !is_kept {
                kept = Some(self.keep(actor, request.prefix.clone(), range.revision));
            }
            if full {
                kept.iter_mut().for_each(|kept| kept.has_next_page = true);
                let continue_token = Token::behind(&last, &request.prefix, range.revision, more).encode();
                let remaining = filter.is_everything().then_some(more);
                return Ok(List { items, revision: range.revision, continue_token, remaining });
            }
            request.start_after = Some(last);
            request.behind = Some(range.remaining);
            yield_now().await;
        }
    }
}

/// Returns the owner of kept revisions. Administrators and the server itself share one.
fn owner(actor: &Actor) -> &str {
    actor.limited().map_or("", User::share)
}

fn ended(revision: Revision) -> List {
    List { items: Vec::new(), revision, continue_token: String::new(), remaining: None }
}

/// Moves matching entries to `items` until the limit. Returns the number of entries that were read, and the key of the
/// last one.
///
/// # Errors
/// An object that cannot be converted. As upstream, the list fails, because it would be incomplete.
fn take(
    at: &Collection,
    filter: &Filter,
    entries: Vec<Arc<Entry>>,
    limit: Option<usize>,
    items: &mut Vec<Arc<Entry>>,
) -> Result<(usize, Option<Key>), ApiError> {
    let key = |entry: &Arc<Entry>| entry.key.clone();
    let all = (entries.len(), entries.last().map(key));
    for (index, entry) in entries.into_iter().enumerate() {
        if limit.is_some_and(|limit| items.len() == limit) {
            // The entry before was the last within the limit.
            return Ok((index, items.last().map(key)));
        }
        let shown = stored::shown(&at.resource, entry)?;
        if filter.matches(&shown) {
            items.push(shown);
        }
    }
    Ok(all)
}

fn expired(error: ReadError) -> ApiError {
    match error {
        ReadError::Compacted { .. } => {
            ApiError::Expired { message: "The provided resource version is too old to be listed.".to_owned(), continue_token: None }
        }
        other => other.into(),
    }
}
