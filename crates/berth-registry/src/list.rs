//! Lists: a page of a collection as of one revision.

use crate::{
    Actor, ApiError, Collection, List, ListOptions, Registry, Resource, checks, continuing::Token, filter::Filter, get::wanted_revision,
    key, stored,
};
use berth_rbac::User;
use berth_store::{Entry, Key, RangeRequest, ReadError, Revision, env::yield_now};
use jiff::SignedDuration;
use std::sync::Arc;

/// How long a list that has begun goes on, if the store can afford it: etcd's time between compactions, which clients of Kubernetes know.
const LIST_TIME: SignedDuration = SignedDuration::from_mins(5);

/// How many entries are read at once where a selector may drop most of them.
const SCAN_PAGE: usize = 1000;

/// How many entries are read at once at most, before others have their turn: about a millisecond's work.
const PIECE_ENTRIES: usize = 4096;

/// Text of 410 for a token whose revision is gone; the answer carries a token that goes on at the newest revision.
const TOKEN_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
    without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with \
    the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk \
    was returned and now may show up in the list.";

/// Which entries a page is made of.
#[derive(Clone)]
pub(crate) struct Page {
    prefix: String,
    start_after: Option<Key>,
    at: Option<Revision>,
    limit: Option<usize>,
    /// How many keys stand behind `start_after`, if known.
    behind: Option<usize>,
    /// Whether the store keeps the revision for it already.
    is_kept: bool,
}

impl Page {
    /// All of them, as of now.
    pub(crate) fn all(prefix: String) -> Self {
        Self { prefix, start_after: None, at: None, limit: None, behind: None, is_kept: false }
    }
}

/// What a list shows is kept by the store while it goes on, and [for some time](LIST_TIME) after a page that has a next one; else until this is dropped.
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
    /// A page of a collection, in key order. Selectors are matched on headers: nothing is decoded.
    ///
    /// # Errors
    /// Bad options, selectors or tokens; a revision that is gone, or not there within 3 s.
    pub async fn list(&self, actor: &Actor, at: &Collection, options: &ListOptions) -> Result<List, ApiError> {
        checks::list_options(options)?;
        let filter = Filter::parse(&at.resource, &options.label_selector, &options.field_selector)?;
        let prefix = key::prefix_of(at);
        let limit = usize::try_from(options.limit).ok().filter(|limit| 0 < *limit);
        if !options.continue_token.is_empty() {
            return self.continue_list(actor, at, options, &filter, Page { limit, ..Page::all(prefix) }).await;
        }
        let revision = self.revision_to_list_at(at, options, limit).await?;
        // A cache's answer to `0` ignores the limit, and clients rely on getting everything.
        let limit = limit.filter(|_| options.resource_version != "0" || !options.resource_version_match.is_empty());
        self.page(actor, at, &filter, Page { at: revision, limit, ..Page::all(prefix) }).await
    }

    /// What the rest of a list shows is to be there still when it is read.
    fn keep<'a>(&'a self, actor: &'a Actor, prefix: String, revision: Revision) -> Kept<'a> {
        let owner = owner(actor);
        self.storage.store.pin(&prefix, revision, owner, self.storage.clock.now() + LIST_TIME);
        Kept { registry: self, owner, prefix, revision, has_next_page: false }
    }

    /// About how many objects a resource has, for whoever has to say what a list is worth: 0 where the store does not say.
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
        // One that goes on at another revision than it began with is from here on a list like others.
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

    /// The revision that a first page must show; `None`: the newest. Waits for one that is not there yet.
    async fn revision_to_list_at(
        &self,
        at: &Collection,
        options: &ListOptions,
        limit: Option<usize>,
    ) -> Result<Option<Revision>, ApiError> {
        let Some(revision) = wanted_revision(&options.resource_version)? else { return Ok(None) };
        self.wait_for(at, revision).await?;
        // A limit without a match means exactly, by a rule older than the match.
        let exact = options.resource_version_match == "Exact" || (options.resource_version_match.is_empty() && limit.is_some());
        Ok(exact.then_some(revision))
    }

    /// Reads in pieces, between which others have their turn, and which together are as of one revision.
    pub(crate) async fn page(&self, actor: &Actor, at: &Collection, filter: &Filter, page: Page) -> Result<List, ApiError> {
        let newest = page.at.is_none();
        match self.page_by(actor, at, filter, page.clone(), Some(PIECE_ENTRIES)).await {
            // Others write so much that a revision is gone before it is read: then in one piece, as which the newest is always there.
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
            let (taken, last) = take(at, filter, range.entries, limit, &mut items)?;
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

/// Whose lists count together; all of administrators and the server itself.
fn owner(actor: &Actor) -> &str {
    actor.limited().map_or("", User::share)
}

fn ended(revision: Revision) -> List {
    List { items: Vec::new(), revision, continue_token: String::new(), remaining: None }
}

/// Moves matching entries to `items` until those are `limit`. Returns the number of entries that were read, and the key of the last of them.
///
/// # Errors
/// An object that cannot be shown, as upstream: a list without it would be incomplete.
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
            // The one before was the last that there was room for.
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
