//! Clients that watch. Each sometimes disconnects and continues after its last revision, or relists if that is compacted.

use super::{
    draw::Draw,
    memory::{Fault, What},
    session::{ConfigMap, Session, version},
};
use crate::client::Connection;
use berth_linear::{Event, Item, Moment, Prefix, Request, ResourceVersion, WatchEvent};
use serde::Deserialize;
use std::io;

/// How many watch at once.
pub(crate) const WATCHERS: usize = 8;
/// The average number of events before a disconnect.
const EVENTS: u64 = 200;

/// One of them, over all lives of a server.
pub(crate) struct Watcher {
    number: usize,
    name: String,
    draw: Draw,
    /// What it was shown without a gap since the record was begun, over as many connections as it took.
    shown: Option<Shown>,
}

struct Shown {
    invoked: Moment,
    from: ResourceVersion,
    /// Where it would go on.
    at: ResourceVersion,
    events: Vec<WatchEvent>,
}

impl Shown {
    fn behind(invoked: Moment, from: ResourceVersion) -> Self {
        Self { invoked, from, at: from, events: Vec::new() }
    }
}

/// How a connection of a watcher ended.
enum End {
    /// It saw the last object.
    Last,
    /// It was cut, or disconnected.
    Cut,
    /// What it needs is no longer kept.
    Gone,
}

/// A line of a watch.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    object: serde_json::Value,
}

impl Watcher {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        Self { number, name: format!("watcher {number}"), draw: Draw::of(seed, 1000 + number as u64), shown: None }
    }

    /// Goes on where it is, in a new record.
    pub(crate) fn restart(&mut self, session: &Session<'_>) {
        if let Some(shown) = &mut self.shown {
            *shown = Shown::behind(session.record.now(), shown.at);
        }
    }

    /// Adds what it was shown to the record.
    pub(crate) fn put_down(&mut self, session: &Session<'_>) {
        let Some(Shown { invoked, from, events, .. }) = &mut self.shown else { return };
        let events = std::mem::take(events);
        session.tally.borrow_mut().events += events.len() as u64;
        session.record.add(&self.name, *invoked, Request::Watch { prefix: Prefix(String::new()), from: *from, events });
    }

    /// Watches until it has seen the last object, or the server is gone.
    pub(crate) async fn run(&mut self, session: &Session<'_>) {
        while let Ok(mut connection) = Connection::try_open(session.endpoint(self.number)).await {
            let ended = match self.shown.as_ref().map(|shown| shown.at) {
                None => self.begin(session, &mut connection).await,
                Some(at) => self.watch(session, &mut connection, at).await,
            };
            match ended {
                Ok(End::Last) => break,
                Ok(End::Gone) => {
                    session.tally.borrow_mut().relisted += 1;
                    self.put_down(session);
                    self.shown = None;
                }
                // Whether the server is gone is seen when it is connected again.
                Ok(End::Cut) | Err(_) => session.tally.borrow_mut().resumed += 1,
            }
        }
        session.end(&session.watching);
    }

    async fn begin(&mut self, session: &Session<'_>, connection: &mut Connection) -> io::Result<End> {
        let listed = session.list(&self.name, connection).await?;
        self.shown = Some(Shown::behind(session.record.now(), listed.resource_version));
        if listed.items.iter().any(|item| session.is_last(&item.key)) {
            return Ok(End::Last);
        }
        self.watch(session, connection, listed.resource_version).await
    }

    async fn watch(&mut self, session: &Session<'_>, connection: &mut Connection, at: ResourceVersion) -> io::Result<End> {
        match session.watch(connection, at).await? {
            200 => (),
            410 => return Ok(End::Gone),
            // Such as 429: it is tried again.
            _ => return Ok(End::Cut),
        }
        while let Some(line) = connection.next_line().await? {
            let Line { r#type, object } = serde_json::from_slice(&line)?;
            if r#type == "ERROR" {
                return Ok(if object["code"] == 410 { End::Gone } else { End::Cut });
            }
            let Some(event) = event(&r#type, object) else {
                session.fault(Fault::new(What::Watch, format!("an event is none: {}", String::from_utf8_lossy(&line))));
                return Ok(End::Cut);
            };
            if self.see(session, event) {
                return Ok(End::Last);
            }
            if self.draw.one_in(EVENTS) {
                return Ok(End::Cut);
            }
        }
        Ok(End::Cut)
    }

    /// Takes note of an event; whether it is the last one.
    fn see(&mut self, session: &Session<'_>, event: Event) -> bool {
        let shown = self.shown.as_mut().expect("it watches from somewhere");
        let (Event::Added(Item { key, object }) | Event::Modified(Item { key, object }) | Event::Deleted(Item { key, object })) = &event
        else {
            if let Event::Bookmark(version) = &event {
                shown.at = *version;
            }
            shown.events.push(WatchEvent { seen: session.record.now(), event });
            return false;
        };
        shown.at = object.resource_version;
        let is_last = session.is_last(key);
        shown.events.push(WatchEvent { seen: session.record.now(), event });
        is_last
    }
}

fn event(kind: &str, object: serde_json::Value) -> Option<Event> {
    if kind == "BOOKMARK" {
        return Some(Event::Bookmark(version(object["metadata"]["resourceVersion"].as_str()?)));
    }
    let item = Item::from(serde_json::from_value::<ConfigMap>(object).ok()?);
    match kind {
        "ADDED" => Some(Event::Added(item)),
        "MODIFIED" => Some(Event::Modified(item)),
        "DELETED" => Some(Event::Deleted(item)),
        _ => None,
    }
}
