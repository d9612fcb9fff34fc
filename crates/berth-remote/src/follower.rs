//! An endless list and watch: it is paged, resumes after an interruption, and lists again if it cannot resume.

use crate::{
    answer::{Status, identified},
    backoff::Backoff,
    caller::{At, Caller, PAGE, Trouble, TroubleKind},
    connection::Connection,
};
use berth_api::Scope;
use berth_controllers::{Change, ClusterError, ServedKind};
use berth_env::Env;
use berth_identity::{GroupResource, Namespace, Revision};
use bytes::{Bytes, BytesMut};
use futures::{
    StreamExt,
    future::{BoxFuture, Either, ready, select},
    stream::{self, BoxStream},
};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{mem, sync::Arc};

/// The interval of discovery, as of upstream's garbage collector.
pub(crate) const REFRESH: SignedDuration = SignedDuration::from_secs(30);
/// The minimum duration of a watch. Upstream's clients request a random duration of up to twice as long, so that they
/// do not reconnect at the same time.
const WATCH_SECONDS: u64 = 300;
/// The maximum silence of a watch. Servers send a bookmark every minute.
const QUIET_MAX: SignedDuration = SignedDuration::from_secs(90);

/// The objects of a kind to watch. The default is all of them.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// The namespace, for namespaced kinds.
    pub namespace: Option<Namespace>,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}

/// Why a watch ended. It retries by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The server no longer has the last revision. A new list follows and contains the missed changes.
    #[error("{0}")]
    Expired(String),
    /// The watch could not begin or continue.
    #[error("{0}")]
    Broken(String),
}

/// Returns all objects of a resource, then every change, indefinitely.
pub(crate) fn follow(caller: Arc<Caller>, resource: GroupResource, within: Option<Namespace>) -> BoxStream<'static, Change> {
    let only = Only { namespace: within, ..Only::default() };
    follow_closely(caller, resource, only).filter_map(|seen| ready(seen.ok())).boxed()
}

/// Returns some objects of a kind, then their changes, indefinitely. An error is the reason of a delay. Does not read
/// discovery.
#[must_use]
pub fn follow_some(connection: &Connection, kind: ServedKind, only: Only, env: Env) -> BoxStream<'static, Result<Change, WatchError>> {
    let resource = kind.resource.clone();
    follow_closely(Arc::new(Caller::knowing(connection.clone(), env, vec![kind])), resource, only)
}

fn follow_closely(caller: Arc<Caller>, resource: GroupResource, only: Only) -> BoxStream<'static, Seen> {
    let follower =
        ResourceWatcher { caller, resource, only, place: Position::Begin(Paging::On), backoff: Backoff::default(), pause: Pause::None };
    let step = |mut follower: ResourceWatcher| async move { Some((stream::iter(follower.step().await), follower)) };
    stream::unfold(follower, step).flatten().boxed()
}

type Seen = Result<Change, WatchError>;

struct ResourceWatcher {
    caller: Arc<Caller>,
    resource: GroupResource,
    only: Only,
    place: Position,
    backoff: Backoff,
    pause: Pause,
}

/// The delay before the next request.
#[derive(Clone, Copy, Debug, Default)]
enum Pause {
    #[default]
    None,
    For(SignedDuration),
    /// Until discovery is read again.
    UntilServed,
}

/// The progress of the list and watch.
enum Position {
    /// A new list begins.
    Begin(Paging),
    /// The pages up to this token are delivered.
    Within { token: String },
    /// Everything up to this revision is delivered.
    Delivered(Revision),
    /// The same, and a watch delivers what follows.
    Watching { delivered: Revision, lines: Lines },
}

/// Whether a list is paginated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paging {
    On,
    /// The pages took so long that the server compacted their revision.
    Off,
}

impl ResourceWatcher {
    /// Executes one request, or reads one part of a watch.
    async fn step(&mut self) -> Vec<Seen> {
        self.rest().await;
        let kind = match self.caller.kind(&self.resource) {
            Ok(kind) => kind,
            Err(error) => return vec![self.unserved(&error)],
        };
        match mem::replace(&mut self.place, Position::Begin(Paging::On)) {
            Position::Begin(paging) => self.list(&kind, paging, None).await,
            Position::Within { token } => self.list(&kind, Paging::On, Some(token)).await,
            Position::Delivered(delivered) => self.open(&kind, delivered).await,
            Position::Watching { delivered, lines } => self.read(delivered, lines).await,
        }
    }

    /// Sleeps for the delay of the last step.
    async fn rest(&mut self) {
        match mem::take(&mut self.pause) {
            Pause::None => (),
            Pause::For(pause) => self.sleep(pause).await,
            Pause::UntilServed => {
                self.sleep(REFRESH).await;
                if let Err(error) = self.caller.refresh().await {
                    tracing::debug!(%error, "discovery failed");
                }
            }
        }
    }

    /// Returns the path of the objects.
    fn at(&self, kind: &ServedKind) -> At {
        let at = At::all(&kind.gvr(), self.namespace(kind).map(|namespace| &**namespace));
        let selectors = [("labelSelector", &self.only.labels), ("fieldSelector", &self.only.fields)];
        selectors.into_iter().fold(at, |at, (name, selector)| match selector {
            Some(selector) => at.with(name, selector),
            None => at,
        })
    }

    fn namespace(&self, kind: &ServedKind) -> Option<&Namespace> {
        self.only.namespace.as_ref().filter(|_| kind.scope == Scope::Namespaced)
    }

    async fn list(&mut self, kind: &ServedKind, paging: Paging, token: Option<String>) -> Vec<Seen> {
        let limit = (paging == Paging::On).then_some(PAGE);
        let page = match self.caller.page(&kind.resource.plural, self.at(kind), limit, token.as_deref()).await {
            Ok(page) => page,
            Err(trouble) => {
                let again = token.map_or(Position::Begin(paging), |token| Position::Within { token });
                let fresh = Position::Begin(if trouble.kind == TroubleKind::Expired { Paging::Off } else { paging });
                return vec![self.after(trouble, again, fresh)];
            }
        };
        self.backoff.reset();
        self.caller.note_lost(&self.resource, None);
        let begin = token.is_none().then_some(Change::Restarted);
        let objects = page.objects.into_iter().map(|(key, object)| Change::Applied { key, object });
        let end = page.continue_token.is_none().then_some(Change::Synced(page.revision));
        let changes = begin.into_iter().chain(objects).chain(end).map(Ok).collect();
        self.place = page.continue_token.map_or(Position::Delivered(page.revision), |token| Position::Within { token });
        changes
    }

    async fn open(&mut self, kind: &ServedKind, delivered: Revision) -> Vec<Seen> {
        let seconds = WATCH_SECONDS + self.caller.env.rng.below(WATCH_SECONDS);
        let at = self.at(kind).with("watch", "true").with("allowWatchBookmarks", "true").with("resourceVersion", &delivered.to_string());
        match self.caller.open_watch(at.with("timeoutSeconds", &seconds.to_string())).await {
            Ok(body) => {
                self.caller.note_lost(&self.resource, None);
                self.place = Position::Watching { delivered, lines: Lines::of(body) };
                Vec::new()
            }
            Err(trouble) => vec![self.after(trouble, Position::Delivered(delivered), Position::Begin(Paging::On))],
        }
    }

    async fn read(&mut self, mut delivered: Revision, mut lines: Lines) -> Vec<Seen> {
        let clock = Arc::clone(&self.caller.env.clock);
        let block = match select(Box::pin(lines.next()), clock.sleep_until(clock.now() + QUIET_MAX)).await {
            Either::Left((block, _)) => block,
            Either::Right(_) => Err(Interrupted::Silent),
        };
        let block = match block {
            Ok(Some(block)) => block,
            ended => {
                self.place = Position::Delivered(delivered);
                self.pause_unless_fresh();
                // Without an error, the server ended the watch, at the latest at its timeout.
                let broken = |why: Interrupted| {
                    tracing::info!(resource = %self.resource.plural, %why, "a watch was interrupted and resumes");
                    Err(WatchError::Broken(why.to_string()))
                };
                return ended.err().map(broken).into_iter().collect();
            }
        };
        let mut changes = Vec::new();
        for line in block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match change(line) {
                Ok(change) => {
                    delivered = delivered.max(revision_of(&change));
                    changes.push(Ok(change));
                }
                Err(trouble) => {
                    changes.push(self.after(trouble, Position::Delivered(delivered), Position::Begin(Paging::On)));
                    return changes;
                }
            }
        }
        self.backoff.reset();
        self.place = Position::Watching { delivered, lines };
        changes
    }

    /// Continues at `again` if the same request may be repeated, otherwise at `fresh`. Delays the request, unless the
    /// revision has only expired.
    fn after(&mut self, trouble: Trouble, again: Position, fresh: Position) -> Seen {
        let Trouble { kind, error } = trouble;
        self.caller.note_lost(&self.resource, (kind == TroubleKind::Lost).then(|| error.to_string()));
        self.place = if kind == TroubleKind::Lost { again } else { fresh };
        match kind {
            TroubleKind::NotServed => return self.unserved(&error),
            TroubleKind::Expired if self.backoff.is_fresh() => {
                tracing::info!(resource = %self.resource.plural, %error, "a watch fell behind and restarts");
                self.backoff.next(&*self.caller.env.rng);
            }
            TroubleKind::Expired | TroubleKind::Refused | TroubleKind::Lost => {
                if self.backoff.is_fresh() {
                    tracing::warn!(resource = %self.resource.plural, %error, "a watch could not start or continue; retrying");
                }
                self.pause(error.retry_after());
            }
        }
        let text = error.to_string();
        Err(if kind == TroubleKind::Expired { WatchError::Expired(text) } else { WatchError::Broken(text) })
    }

    /// Delays the next watch after one that ended without any item.
    fn pause_unless_fresh(&mut self) {
        if self.backoff.is_fresh() {
            self.backoff.next(&*self.caller.env.rng);
        } else {
            self.pause(None);
        }
    }

    fn pause(&mut self, retry_after: Option<std::time::Duration>) {
        let asked = retry_after.and_then(|after| SignedDuration::try_from(after).ok()).unwrap_or_default();
        self.pause = Pause::For(self.backoff.next(&*self.caller.env.rng).max(asked));
    }

    fn sleep(&self, duration: SignedDuration) -> BoxFuture<'static, ()> {
        let clock = &self.caller.env.clock;
        clock.sleep_until(clock.now() + duration)
    }

    /// The server may serve the resource later.
    fn unserved(&mut self, error: &ClusterError) -> Seen {
        if self.backoff.is_fresh() {
            tracing::info!(resource = %self.resource.plural, %error, "not served yet; the watch starts as soon as it is");
        }
        self.backoff.next(&*self.caller.env.rng);
        self.place = Position::Begin(Paging::On);
        self.pause = Pause::UntilServed;
        Err(WatchError::Broken(error.to_string()))
    }
}

/// Why a watch ends before its server ends it.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error(transparent)]
    Failed(#[from] kube::Error),
    #[error("it sent nothing for too long")]
    Silent,
}

/// The lines of a watch.
struct Lines {
    body: BoxStream<'static, kube::Result<Bytes>>,
    /// An incomplete line.
    rest: BytesMut,
}

impl Lines {
    fn of(body: Body) -> Self {
        Self { body: body.into_data_stream().boxed(), rest: BytesMut::new() }
    }

    /// Returns the next lines, at least one, or `None` at the end.
    ///
    /// # Errors
    /// [`Interrupted::Failed`].
    async fn next(&mut self) -> Result<Option<Bytes>, Interrupted> {
        while let Some(chunk) = self.body.next().await {
            let lines = whole_lines(&mut self.rest, &chunk?);
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
        Ok(None)
    }
}

/// Adds a chunk. Returns the lines that are complete now.
fn whole_lines(rest: &mut BytesMut, chunk: &[u8]) -> Bytes {
    let end = chunk.iter().rposition(|byte| *byte == b'\n').map(|at| rest.len() + at + 1);
    rest.extend_from_slice(chunk);
    end.map_or_else(Bytes::new, |end| rest.split_to(end).freeze())
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Decodes a line of a watch.
fn change(line: &[u8]) -> Result<Change, Trouble> {
    let unreadable = |error: serde_json::Error| Trouble {
        kind: TroubleKind::Refused,
        error: ClusterError::Unknown(format!("cannot read an event of a watch: {error}")),
    };
    let Event { type_, object } = serde_json::from_slice(line).map_err(unreadable)?;
    let text = object.get().as_bytes();
    if type_ == "ERROR" {
        return Err(Trouble::of_status(serde_json::from_slice::<Status>(text).map_err(unreadable)?));
    }
    // Copies the object, so that a kept one does not keep the others of its chunk in memory.
    let (key, object) = identified(Bytes::copy_from_slice(text)).map_err(unreadable)?;
    Ok(match type_ {
        "BOOKMARK" => Change::Progress(object.revision),
        "DELETED" => Change::Deleted { key, revision: object.revision },
        _ => Change::Applied { key, object },
    })
}

fn revision_of(change: &Change) -> Revision {
    match change {
        Change::Applied { object, .. } => object.revision,
        Change::Deleted { revision, .. } | Change::Progress(revision) | Change::Synced(revision) => *revision,
        Change::Restarted => Revision::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::ObjectKey;

    #[test]
    fn lines_are_whole_however_they_come() {
        let text = b"one\ntwo\n\nthree and four\nfive";
        for size in 1..=text.len() {
            let (mut rest, mut delivered) = (BytesMut::new(), Vec::new());
            for chunk in text.chunks(size) {
                let lines = whole_lines(&mut rest, chunk);
                assert!(lines.is_empty() || lines.ends_with(b"\n"));
                delivered.extend_from_slice(&lines);
            }
            assert_eq!((delivered.as_slice(), &rest[..]), (&text[..24], &b"five"[..]), "chunks of {size}");
        }
    }

    #[test]
    fn each_event_is_a_change() {
        let line = |type_: &str| {
            format!(r#"{{"type":"{type_}","object":{{"kind":"Pod","metadata":{{"name":"a","namespace":"b","resourceVersion":"7"}}}}}}"#)
        };
        let decoded = |type_: &str| change(line(type_).as_bytes()).expect("a change");
        let key = ObjectKey::new("b", "a");
        assert!(matches!(decoded("ADDED"), Change::Applied { key: of, object } if of == key && object.revision == Revision(7)));
        assert!(matches!(decoded("MODIFIED"), Change::Applied { key: of, .. } if of == key));
        assert!(matches!(decoded("DELETED"), Change::Deleted { key: of, revision: Revision(7) } if of == key));
        assert!(matches!(decoded("BOOKMARK"), Change::Progress(Revision(7))));
        assert_eq!(revision_of(&decoded("DELETED")), Revision(7));
    }

    #[test]
    fn a_watch_that_fell_behind_is_known_from_one_that_is_broken() {
        let kind = |line: &str| change(line.as_bytes()).map(|_| ()).map_err(|trouble| trouble.kind);
        let status = |code: u16| format!(r#"{{"type":"ERROR","object":{{"kind":"Status","code":{code},"message":"too old"}}}}"#);
        assert_eq!(kind(&status(410)), Err(TroubleKind::Expired));
        assert_eq!(kind(&status(500)), Err(TroubleKind::Refused));
        assert_eq!(kind("{"), Err(TroubleKind::Refused));
        assert_eq!(kind(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#), Err(TroubleKind::Refused));
    }
}
