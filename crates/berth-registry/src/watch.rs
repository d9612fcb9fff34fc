//! Watches: the changes of a collection after a revision, filtered by selectors, with bookmarks.

use crate::{
    Actor, ApiError, Collection, List, Registry, Resource, WatchEvent, WatchOptions, checks, filter::Filter, get::wanted_revision, key,
    list::Page, shares, storage::Storage, stored,
};
use berth_store::{Entry, Event, EventKind, Events, ReadError, Revision, Watch, WatchItem, env::Clock};
use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The interval of bookmarks on a quiet watch.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The number of filtered changes that are checked before other tasks run: about a millisecond of work.
const PIECE_CHANGES: usize = 1024;

/// The start of a watch.
enum Start {
    /// With all objects at or after the revision.
    State(Option<Revision>),
    /// After a revision, without objects.
    Behind(Revision),
}

impl Registry {
    /// Watches a collection. If the resource version is unset or `0`, and for a streaming list, all objects come first.
    /// Otherwise the changes after the version come. The watch ends only after [`WatchEvent::Error`], and when the kind
    /// is no longer served.
    ///
    /// # Errors
    /// Invalid options or selectors, a compacted version (410), or for a streaming list one that does not exist within
    /// 3 s.
    pub async fn watch(&self, actor: &Actor, at: &Collection, options: &WatchOptions) -> Result<BoxStream<'static, WatchEvent>, ApiError> {
        checks::watch_options(options)?;
        let filter = Filter::parse(&at.resource, &options.label_selector, &options.field_selector)?;
        if let Some(user) = actor.limited() {
            self.chain.shares.watched(shares::name(&at.resource), user.share(), self.storage.clock.now());
        }
        let prefix = key::prefix_of(at);
        let (first, after) = match self.start_of(&prefix, options).await? {
            Start::State(not_before) => self.state(actor, at, &filter, &prefix, options, not_before).await?,
            Start::Behind(revision) => (Vec::new(), revision),
        };
        // In another version, the fields of the stored form may differ.
        let changes = match filter.mark().filter(|_| at.resource.stored_form.is_none()) {
            Some(mark) => self.storage.store.watch_filtered(&prefix, after, mark),
            None => self.storage.store.watch(&prefix, after),
        };
        let changes = changes.map_err(too_old)?;
        let bookmarks = options.allow_bookmarks.then(|| Bookmarks::new(Arc::clone(&self.storage.clock)));
        let live = Live {
            resource: Arc::clone(&at.resource),
            filter: filter.compacted(),
            changes: Some(changes),
            rest: Events::new().into_iter(),
            converter: at.resource.conversion_webhook().is_some().then(|| self.storage.clone()),
            converting: None,
            bookmarks,
            progress: options.progress,
            seen: after,
        };
        let events = stream::iter(first).chain(live);
        Ok(match at.resource.ended() {
            None => events.boxed(),
            Some(ended) => events.take_until(ended).boxed(),
        })
    }

    async fn start_of(&self, prefix: &str, options: &WatchOptions) -> Result<Start, ApiError> {
        let revision = wanted_revision(&options.resource_version)?;
        Ok(match (options.send_initial_events, revision) {
            (Some(true), revision) => Start::State(revision),
            (None, None) => Start::State(None),
            (Some(false), None) => Start::Behind(self.storage.store.revision(prefix).await?),
            (None | Some(false), Some(revision)) => Start::Behind(revision),
        })
    }

    /// Returns the current objects as events, and their revision.
    async fn state(
        &self,
        actor: &Actor,
        at: &Collection,
        filter: &Filter,
        prefix: &str,
        options: &WatchOptions,
        not_before: Option<Revision>,
    ) -> Result<(Vec<WatchEvent>, Revision), ApiError> {
        if let Some(revision) = not_before {
            self.wait_for(at, revision).await?;
        }
        let List { items, revision, .. } = self.page(actor, at, filter, Page::all(prefix.to_owned())).await?;
        let mut events: Vec<WatchEvent> = items.into_iter().map(WatchEvent::Added).collect();
        if options.send_initial_events == Some(true) && options.allow_bookmarks {
            events.push(WatchEvent::Bookmark { revision, initial_events_end: true });
        }
        Ok((events, revision))
    }
}

fn too_old(error: ReadError) -> ApiError {
    match error {
        ReadError::Compacted { .. } => {
            let message = "The resourceVersion for the provided watch is too old.".to_owned();
            ApiError::Expired { message, continue_token: None }
        }
        other => other.into(),
    }
}

/// The timer of bookmarks.
struct Bookmarks {
    clock: Arc<dyn Clock>,
    due: BoxFuture<'static, ()>,
}

impl Bookmarks {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let due = Self::next(&*clock);
        Self { clock, due }
    }

    fn next(clock: &dyn Clock) -> BoxFuture<'static, ()> {
        clock.sleep_until(clock.now().saturating_add(BOOKMARK_INTERVAL).expect("a positive duration can be added"))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.due.as_mut().poll(context);
        if due.is_ready() {
            self.due = Self::next(&*self.clock);
            // The new timer must be polled once to register the waker. The caller polls again after the bookmark.
            context.waker().wake_by_ref();
        }
        due
    }
}

/// The part of a watch that follows changes.
struct Live {
    resource: Arc<Resource>,
    filter: Filter,
    /// `None` once the watch has ended.
    changes: Option<Watch>,
    /// The remaining events of the last revision. No bookmark precedes them, because a client resumes after a revision.
    rest: <Events as IntoIterator>::IntoIter,
    /// Converts the events of a kind with a conversion webhook.
    converter: Option<Storage>,
    /// The conversion of the last revision's events. The watch waits for it.
    converting: Option<BoxFuture<'static, Result<Vec<Arc<Event>>, ApiError>>>,
    bookmarks: Option<Bookmarks>,
    /// Whether to send a bookmark each time the watch has caught up.
    progress: bool,
    /// The revision up to which all changes were checked.
    seen: Revision,
}

impl Live {
    /// Converts a change to an event of this watch, if any. A failed conversion ends the watch.
    fn event(&mut self, change: Arc<Event>) -> Option<WatchEvent> {
        let change = match stored::shown_event(&self.resource, change) {
            Ok(change) => change,
            Err(error) => return Some(self.end(error)),
        };
        let was = change.previous.as_ref().filter(|previous| self.filter.matches(previous));
        let revision = change.entry.mod_revision;
        if change.kind == EventKind::Deleted {
            // The last value may no longer have the selected label. Clients must still get the deletion.
            return was.map(|_| WatchEvent::Deleted { last: Arc::clone(&change.entry), revision });
        }
        match (was, self.filter.matches(&change.entry)) {
            (Some(_), true) => Some(WatchEvent::Modified(change)),
            (None, true) => Some(WatchEvent::Added(Arc::clone(&change.entry))),
            (Some(last), false) => Some(deleted(last, revision)),
            (None, false) => None,
        }
    }

    fn end(&mut self, error: ApiError) -> WatchEvent {
        self.changes = None;
        self.rest = Events::new().into_iter();
        WatchEvent::Error(Arc::new(error))
    }
}

fn deleted(last: &Arc<Entry>, revision: Revision) -> WatchEvent {
    WatchEvent::Deleted { last: Arc::clone(last), revision }
}

impl Stream for Live {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let this = self.get_mut();
        let mut left = PIECE_CHANGES;
        loop {
            while let Some(change) = this.rest.next() {
                if let Some(event) = this.event(change) {
                    return Poll::Ready(Some(event));
                }
                left = left.saturating_sub(1);
            }
            if left == 0 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(converting) = &mut this.converting {
                let Poll::Ready(converted) = converting.as_mut().poll(context) else { return Poll::Pending };
                this.converting = None;
                match converted {
                    Ok(events) => this.rest = events.into_iter().collect::<Events>().into_iter(),
                    Err(error) => return Poll::Ready(Some(this.end(error))),
                }
                continue;
            }
            let Some(changes) = &mut this.changes else { return Poll::Ready(None) };
            match changes.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(WatchItem::Events(events)))) => {
                    this.seen = this.seen.max(events[0].entry.mod_revision);
                    match &this.converter {
                        None => this.rest = events.into_iter(),
                        Some(storage) => {
                            let (storage, resource) = (storage.clone(), Arc::clone(&this.resource));
                            let events = events.into_iter().collect();
                            this.converting = Some(async move { storage.converted_events(&resource, events).await }.boxed());
                        }
                    }
                }
                Poll::Ready(Some(Ok(WatchItem::Progress(revision)))) => {
                    this.seen = this.seen.max(revision);
                    if this.progress {
                        return Poll::Ready(Some(WatchEvent::Bookmark { revision: this.seen, initial_events_end: false }));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(this.end(too_old(error)))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        match this.bookmarks.as_mut().map(|bookmarks| bookmarks.poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(Some(WatchEvent::Bookmark { revision: this.seen, initial_events_end: false })),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}
