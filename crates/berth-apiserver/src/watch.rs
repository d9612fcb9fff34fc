//! Watch streams: one JSON line per event.
//!
//! A line is encoded once, and all watches of the plain form share its bytes. Nothing is buffered here for a slow
//! client: lines are built when the connection can take them. The store ends the stream of a client that falls behind
//! its history. A long line that is not shared waits for memory.

use crate::{
    audit::Watched,
    flow::{Charge, Kept, Memory},
    limits::{CHUNK_BYTES, Share},
    metrics::Inflight,
    status::{Refusal, Status},
};
use berth_registry::{
    ApiError, Resource, WatchEvent,
    log::{Log, News},
    splice,
    table::{MetaVersion, PartialObjectMetadata, Position, Printer},
};
use berth_store::{Entry, Event, Revision};
use bytes::Bytes;
use futures::{Stream as _, future::BoxFuture, stream::BoxStream};
use serde::Serialize;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// The form of objects in a watch.
#[derive(Debug)]
pub(crate) enum WatchForm {
    /// The whole object.
    Object,
    /// A table with one row.
    Table(Printer, Position),
    /// Metadata only.
    Metadata(MetaVersion),
    /// The log of a pod's container instead of objects.
    Log(Box<Log>),
}

/// The body of a watch.
pub(crate) struct WatchBody {
    /// The events.
    pub(crate) events: BoxStream<'static, WatchEvent>,
    /// Resolves when the watch must end: at its timeout, or when the server stops.
    pub(crate) until: BoxFuture<'static, ()>,
    /// The watched resource.
    pub(crate) resource: Arc<Resource>,
    /// The form of objects.
    pub(crate) form: WatchForm,
    /// Counts the watch as open.
    pub(crate) counted: Inflight,
    /// Its slot among its user's watches. `None` for users without a limit.
    pub(crate) share: Option<Share<String>>,
    /// The memory of its selectors. `None` for short ones.
    pub(crate) selectors: Option<Charge>,
    /// The memory of its lines.
    pub(crate) lines: Lines,
    /// Whether the last line was sent.
    pub(crate) ended: bool,
    /// Writes its end to the audit log.
    pub(crate) audited: Option<Watched>,
}

/// The long lines of a watch.
#[derive(Default)]
pub(crate) struct Lines {
    /// The source of their memory, and the user. `None` for users without a limit.
    source: Option<(Memory, Arc<str>)>,
    /// The event whose line waits for memory.
    waiting: Option<(WatchEvent, BoxFuture<'static, Result<Kept, Refusal>>)>,
    /// The rest of a line that is longer than a piece.
    rest: Bytes,
    /// The memory of the last line.
    kept: Kept,
    /// The memory of the initial list, until all its objects are sent.
    list: Kept,
}

impl Lines {
    /// Returns the lines of this user, with a memory limit, after a list that has `list`.
    pub(crate) fn of(memory: &Memory, user: &str, list: Kept) -> Self {
        Self { source: Some((memory.clone(), user.into())), list, ..Self::default() }
    }

    /// Whether the line of an event may be built. Otherwise it waits, and the following events wait too.
    fn admit(&mut self, form: &WatchForm, event: &WatchEvent) -> bool {
        let Some((memory, user)) = &self.source else { return true };
        let bytes = own_bytes(form, event);
        if bytes <= LINE_BYTES_UNCOUNTED {
            return true;
        }
        let (memory, user) = (memory.clone(), Arc::clone(user));
        self.waiting = Some((event.clone(), Box::pin(async move { memory.reserve(&user, bytes).await })));
        false
    }

    /// Returns the first piece of a line.
    fn begin(&mut self, line: Bytes) -> Bytes {
        self.rest = line;
        self.next_piece()
    }

    fn next_piece(&mut self) -> Bytes {
        self.rest.split_to(self.rest.len().min(CHUNK_BYTES))
    }
}

/// Returns the size of the list with which a watch begins. The objects themselves belong to the store.
pub(crate) fn list_bytes(events: &BoxStream<'static, WatchEvent>) -> usize {
    events.size_hint().0 * size_of::<WatchEvent>()
}

/// The size up to which lines are not counted, because the number of watches is limited.
const LINE_BYTES_UNCOUNTED: usize = 16 << 10;
/// The memory of a line while it is built, in multiples of its object: a copy of the stored form, or a conversion.
const COPIED_FACTOR: usize = 1;
const LOOKED_INTO_FACTOR: usize = 16;

/// Returns the memory of an event's line that is not shared.
fn own_bytes(form: &WatchForm, event: &WatchEvent) -> usize {
    let entry = match event {
        WatchEvent::Modified(_) if matches!(form, WatchForm::Object) => return 0,
        WatchEvent::Modified(event) => &event.entry,
        WatchEvent::Added(entry) | WatchEvent::Deleted { last: entry, .. } => entry,
        WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => return 0,
    };
    let factor = match form {
        WatchForm::Object | WatchForm::Log(_) => COPIED_FACTOR,
        WatchForm::Table(..) | WatchForm::Metadata(_) => LOOKED_INTO_FACTOR,
    };
    // A short line takes no more memory than a short object.
    if entry.value.len() <= LINE_BYTES_UNCOUNTED { 0 } else { factor * entry.value.len() }
}

impl WatchBody {
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.lines.rest.is_empty() {
            return Poll::Ready(Some(self.lines.next_piece()));
        }
        // The poll for the next line means that the last one was taken.
        self.lines.kept = None;
        if self.lines.list.is_some() && list_bytes(&self.events) == 0 {
            self.lines.list = None;
        }
        if self.ended {
            return Poll::Ready(None);
        }
        if self.until.as_mut().poll(cx).is_ready() {
            self.ended = true;
            return Poll::Ready(None);
        }
        if let Some((_, memory)) = &mut self.lines.waiting {
            let memory = ready!(memory.as_mut().poll(cx));
            let (event, _) = self.lines.waiting.take().expect("it waits");
            return Poll::Ready(Some(self.line_with(&event, memory)));
        }
        loop {
            let Some(event) = ready!(Pin::new(&mut self.events).poll_next(cx)) else {
                self.ended = true;
                return Poll::Ready(None);
            };
            if !self.lines.admit(&self.form, &event) {
                return self.poll_line(cx);
            }
            let WatchForm::Log(log) = &mut self.form else { return Poll::Ready(Some(self.line(&event))) };
            let News { text, ended } = log.follow(&self.resource, &event);
            self.ended = ended;
            if ended || !text.is_empty() {
                return Poll::Ready(Some(text.into()).filter(|text: &Bytes| !text.is_empty()));
            }
        }
    }

    /// Returns the line of an event with its memory. Without memory, returns the last line, with the error.
    fn line_with(&mut self, event: &WatchEvent, memory: Result<Kept, Refusal>) -> Bytes {
        match memory {
            Ok(kept) => {
                self.lines.kept = kept;
                self.line(event)
            }
            Err(refusal) => {
                self.ended = true;
                json_line("ERROR", &Status::from(&refusal))
            }
        }
    }

    fn line(&mut self, event: &WatchEvent) -> Bytes {
        self.ended = matches!(event, WatchEvent::Error(_));
        let line = encode(&self.resource, &self.form, event).unwrap_or_else(|error| {
            self.ended = true;
            error_line(&error)
        });
        if let WatchForm::Table(_, position) = &mut self.form {
            *position = Position::Later;
        }
        self.lines.begin(line)
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        tracing::debug!(resource = ?self.resource, counted = ?self.counted, share = ?self.share, selectors = ?self.selectors, "watch closed");
    }
}

fn encode(resource: &Resource, form: &WatchForm, event: &WatchEvent) -> Result<Bytes, ApiError> {
    let special = match form {
        WatchForm::Object | WatchForm::Log(_) => None,
        WatchForm::Table(printer, position) => printer.watch_event(event, *position)?.map(|table| json_line(word(event), &table)),
        WatchForm::Metadata(version) => {
            let partial = PartialObjectMetadata::of_watch_event(event)?;
            partial.map(|partial| json_line(word(event), &partial.in_version(*version)))
        }
    };
    Ok(special.unwrap_or_else(|| whole_line(resource, event)))
}

fn word(event: &WatchEvent) -> &'static str {
    match event {
        WatchEvent::Added(_) => "ADDED",
        WatchEvent::Modified(_) => "MODIFIED",
        WatchEvent::Deleted { .. } => "DELETED",
        WatchEvent::Bookmark { .. } => "BOOKMARK",
        WatchEvent::Error(_) => "ERROR",
    }
}

fn whole_line(resource: &Resource, event: &WatchEvent) -> Bytes {
    match event {
        WatchEvent::Added(entry) => entry_line(word(event), entry, entry.mod_revision),
        WatchEvent::Modified(shared) => modified_line(shared),
        WatchEvent::Deleted { last, revision } => entry_line(word(event), last, *revision),
        WatchEvent::Bookmark { revision, initial_events_end } => {
            json_line(word(event), &Bookmark::new(resource, *revision, *initial_events_end))
        }
        WatchEvent::Error(error) => error_line(error),
    }
}

fn modified_line(event: &Arc<Event>) -> Bytes {
    event.encoded.get_or_init(|| entry_line("MODIFIED", &event.entry, event.entry.mod_revision)).clone()
}

/// The maximum size of a line besides the stored value.
const LINE_OVERHEAD_BYTES: usize = 80;

fn entry_line(word: &str, entry: &Entry, revision: Revision) -> Bytes {
    let mut line = Vec::with_capacity(entry.value.len() + LINE_OVERHEAD_BYTES);
    begin(&mut line, word);
    splice::write_entry(entry, revision, &mut line);
    line.extend_from_slice(b"}\n");
    line.into()
}

fn json_line<T: Serialize>(word: &str, object: &T) -> Bytes {
    let mut line = Vec::with_capacity(1024);
    begin(&mut line, word);
    serde_json::to_writer(&mut line, object).expect("what is shown has string keys only");
    line.extend_from_slice(b"}\n");
    line.into()
}

fn begin(line: &mut Vec<u8>, word: &str) {
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(word.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
}

fn error_line(error: &ApiError) -> Bytes {
    json_line("ERROR", &Status::from(error))
}

/// An object with only a revision.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bookmark<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: BookmarkMetadata,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    /// Always present upstream. Typed clients of some languages require it.
    creation_timestamp: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<InitialEventsEnd>,
}

#[derive(Serialize)]
struct InitialEventsEnd {
    #[serde(rename = "k8s.io/initial-events-end")]
    end: &'static str,
}

impl<'a> Bookmark<'a> {
    fn new(resource: &'a Resource, revision: Revision, initial_events_end: bool) -> Self {
        let annotations = initial_events_end.then_some(InitialEventsEnd { end: "true" });
        let metadata = BookmarkMetadata { resource_version: revision.to_string(), creation_timestamp: None, annotations };
        Self { kind: resource.kind(), api_version: resource.api_version(), metadata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowCollectors;
    use berth_identity::GroupVersionResource;
    use berth_registry::resource;
    use berth_store::{EventKind, Header, Key};
    use futures::{FutureExt as _, StreamExt as _, future::poll_fn, stream};
    use serde_json::{Value, json};
    use std::sync::OnceLock;

    const LEAD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#;

    fn entry(revision: u64) -> Arc<Entry> {
        let header = Header { metadata_at: u32::try_from(LEAD.len()).expect("short"), ..Header::default() };
        let value = format!(r#"{LEAD}"name":"c"}}}}"#).into();
        let key = Key::new("/registry/configmaps/a/c");
        Arc::new(Entry { key, value, header, create_revision: Revision(1), mod_revision: Revision(revision) })
    }

    #[track_caller]
    fn check(form: WatchForm, event: &WatchEvent, expected: &Value) {
        let line =
            encode(resource::built_in().find(&GroupVersionResource::from_static("", "v1", "configmaps")).expect("served"), &form, event)
                .expect("encodes");
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(line.last(), Some(&b'\n'));
        assert_eq!(serde_json::from_slice::<Value>(&line).expect("JSON"), *expected);
    }

    fn config_map(version: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "resourceVersion": version}})
    }

    #[test]
    fn lines_name_the_change_and_carry_the_object() {
        check(WatchForm::Object, &WatchEvent::Added(entry(7)), &json!({"type": "ADDED", "object": config_map("7")}));
        let deleted = WatchEvent::Deleted { last: entry(7), revision: Revision(9) };
        check(WatchForm::Object, &deleted, &json!({"type": "DELETED", "object": config_map("9")}));
    }

    #[test]
    fn a_change_is_encoded_once_for_all_watchers() {
        let event = Arc::new(Event { kind: EventKind::Put, entry: entry(8), previous: None, encoded: OnceLock::new() });
        let first = modified_line(&event);
        check(WatchForm::Object, &WatchEvent::Modified(event.clone()), &json!({"type": "MODIFIED", "object": config_map("8")}));
        assert_eq!(first.as_ptr(), modified_line(&event).as_ptr());
    }

    #[test]
    fn bookmarks_have_the_revision_and_mark_the_end_of_a_streaming_list() {
        let bookmark = |initial_events_end| WatchEvent::Bookmark { revision: Revision(5), initial_events_end };
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "5", "creationTimestamp": null}});
        check(WatchForm::Object, &bookmark(false), &json!({"type": "BOOKMARK", "object": object}));
        let mut end = object;
        end["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        check(WatchForm::Object, &bookmark(true), &json!({"type": "BOOKMARK", "object": end}));
    }

    #[test]
    fn falling_behind_is_sent_as_a_status() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old",
            "reason": "Expired", "code": 410});
        for form in [WatchForm::Object, WatchForm::Metadata(MetaVersion::V1)] {
            check(
                form,
                &WatchEvent::Error(Arc::new(ApiError::Expired { message: "too old".into(), continue_token: None })),
                &json!({"type": "ERROR", "object": status}),
            );
        }
    }

    /// Returns a watch with one object of this value, with limited memory for lines.
    fn watch_of(value: &str, form: WatchForm, memory: &Memory) -> WatchBody {
        let Entry { key, header, create_revision, mod_revision, .. } = Arc::into_inner(entry(7)).expect("one owner");
        let long = Arc::new(Entry { key, value: value.to_owned().into(), header, create_revision, mod_revision });
        let gates = berth_api::FeatureGates::default();
        let metrics = crate::metrics::Metrics::register(&prometheus::Registry::new(), &gates, &gates).expect("registered");
        WatchBody {
            events: stream::iter([WatchEvent::Added(long)]).boxed(),
            until: Box::pin(std::future::pending()),
            resource: Arc::clone(resource::built_in().find(&GroupVersionResource::from_static("", "v1", "configmaps")).expect("served")),
            form,
            counted: metrics.begin("GET"),
            share: None,
            selectors: None,
            lines: Lines::of(memory, "alice", None),
            ended: false,
            audited: None,
        }
    }

    #[tokio::test]
    async fn long_lines_wait_for_memory_and_come_in_pieces() {
        let value = format!(r#"{LEAD}"name":"c","annotations":{{"a":"{}"}}}}}}"#, "x".repeat(200_000));
        let new_memory = |wait| Memory::new("answers", 8 << 20, wait, &FlowCollectors::new().expect("valid names"));
        for form in [|| WatchForm::Object, || WatchForm::Metadata(MetaVersion::V1)] {
            let memory = new_memory(std::time::Duration::from_secs(3600));
            // Another watch holds as much as one user may have.
            let taken = memory.reserve("alice", 100 << 20).await.expect("free");
            let mut watch = watch_of(&value, form(), &memory);
            assert!(poll_fn(|cx| watch.poll_line(cx)).now_or_never().is_none(), "it waits");
            drop(taken);
            let mut line = Vec::new();
            while let Some(piece) = poll_fn(|cx| watch.poll_line(cx)).await {
                assert!(piece.len() <= CHUNK_BYTES && watch.lines.kept.is_some());
                line.extend_from_slice(&piece);
            }
            assert!(watch.lines.kept.is_none() && line.ends_with(b"}\n"));
            let shown: Value = serde_json::from_slice(&line).expect("JSON");
            assert_eq!(
                (&shown["type"], shown["object"]["metadata"]["annotations"]["a"].as_str().map(str::len)),
                (&json!("ADDED"), Some(200_000))
            );

            let memory = new_memory(std::time::Duration::from_millis(1));
            let _taken = memory.reserve("alice", 100 << 20).await.expect("free");
            let mut watch = watch_of(&value, form(), &memory);
            let line = poll_fn(|cx| watch.poll_line(cx)).await.expect("a line");
            let told: Value = serde_json::from_slice(&line).expect("JSON");
            assert_eq!((&told["type"], &told["object"]["code"]), (&json!("ERROR"), &json!(429)));
            assert_eq!(poll_fn(|cx| watch.poll_line(cx)).await, None);
        }
    }

    #[tokio::test]
    async fn the_list_with_which_a_watch_begins_has_its_memory_until_it_is_shown() {
        let memory = Memory::new("answers", 8 << 20, std::time::Duration::ZERO, &FlowCollectors::new().expect("valid names"));
        let mut watch = watch_of("{}", WatchForm::Object, &memory);
        watch.events = stream::iter(vec![WatchEvent::Added(entry(7)); 1000]).chain(stream::pending()).boxed();
        assert_eq!(list_bytes(&watch.events), 1000 * size_of::<WatchEvent>());
        watch.lines.list = memory.reserve("alice", list_bytes(&watch.events)).await.expect("free");
        for _ in 0..1000 {
            assert!(watch.lines.list.is_some());
            poll_fn(|cx| watch.poll_line(cx)).await.expect("a line");
        }
        assert!(poll_fn(|cx| watch.poll_line(cx)).now_or_never().is_none() && watch.lines.list.is_none());
    }

    #[test]
    fn metadata_watches_leave_the_rest_out() {
        let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": "c", "resourceVersion": "7"}});
        check(WatchForm::Metadata(MetaVersion::V1), &WatchEvent::Added(entry(7)), &json!({"type": "ADDED", "object": object}));
    }
}
