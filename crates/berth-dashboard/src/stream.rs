//! The stream of changes of one page: those of its parts that are other than the reader has them.
//!
//! What the reader has is named by the id of an event, a short digest of each part: a stream that breaks is gone on from where it was, by any process, and
//! nothing need be kept for readers who are away. A part is rendered when the connection takes it and not before, so that a slow reader costs nothing.

use crate::{
    address::below,
    cluster_cache::ClusterCache,
    pages::{self, Page, Part},
    session::StreamPlace,
};
use bytes::Bytes;
use futures::{StreamExt, future::select, stream::BoxStream};
use jiff::SignedDuration;
use std::{pin::pin, sync::Arc};
use tokio::sync::watch;

/// Not more often than so is a page rendered again.
const PAUSE: SignedDuration = SignedDuration::from_millis(250);
/// As often it is looked for what the time alone changes, such as ages; a sign of life besides.
const REFRESH: SignedDuration = SignedDuration::from_secs(5);
/// After so many looks a stream ends, and its reader comes again.
const LOOKS_MAX: u32 = 20_000;

struct Streaming {
    cluster_cache: Arc<ClusterCache>,
    page: Page,
    /// Below which path its links lead.
    base: String,
    /// What the reader has: a digest of each part.
    has: Vec<String>,
    changes: watch::Receiver<u64>,
    looks: u32,
    place: StreamPlace,
}

/// All changes of a page, from what the reader has `seen` on.
pub(crate) fn events(
    cluster_cache: Arc<ClusterCache>,
    (page, base): (Page, &str),
    seen: &str,
    place: StreamPlace,
) -> BoxStream<'static, Bytes> {
    let has = seen.split('.').map(str::to_owned).collect();
    let changes = cluster_cache.changes();
    let streaming = Streaming { cluster_cache, page, base: base.to_owned(), has, changes, looks: 0, place };
    futures::stream::unfold(streaming, |mut streaming| async move {
        let text = streaming.next().await?;
        Some((Bytes::from(text), streaming))
    })
    .boxed()
}

impl Streaming {
    /// What comes next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let clock = &self.cluster_cache.env.clock;
        if LOOKS_MAX <= self.looks || !self.place.is_open() {
            return None;
        }
        // The first look is at once, for whoever comes again.
        if 0 < self.looks {
            clock.sleep_until(clock.now() + PAUSE).await;
            select(pin!(self.changes.changed()), clock.sleep_until(clock.now() + REFRESH)).await;
        }
        if !self.place.is_open() {
            return None;
        }
        self.changes.mark_unchanged();
        let text = if self.looks == 0 { "retry: 1000\n\n".to_owned() } else { String::new() };
        self.looks += 1;
        let Some(parts) = pages::parts(&self.cluster_cache, &self.page) else {
            self.looks = LOOKS_MAX;
            return Some("event: gone\ndata: {}\n\n".to_owned());
        };
        Some(text + &told(&parts, &self.base, &mut self.has))
    }
}

/// The parts that are other than the reader has them, as one event; where there are none, a sign of life.
fn told(parts: &[Part], base: &str, has: &mut Vec<String>) -> String {
    let now: Vec<String> = parts.iter().map(Part::digest).collect();
    let is_new = |index: &usize| has.get(*index) != Some(&now[*index]);
    let changed: Vec<_> = (0..parts.len()).filter(is_new).map(|index| (parts[index].name, below(base, &parts[index].html))).collect();
    if changed.is_empty() {
        return ": nothing new\n\n".to_owned();
    }
    let data = serde_json::to_string(&changed).expect("texts are JSON");
    *has = now;
    format!("id: {}\ndata: {data}\n\n", has.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::seen;

    fn parts(texts: [&str; 2]) -> Vec<Part> {
        ["a", "b"].into_iter().zip(texts).map(|(name, html)| Part { name, html: html.to_owned() }).collect()
    }

    #[test]
    fn a_reader_gets_what_it_does_not_have_and_can_come_again_with_what_it_has() {
        let (before, after) = (parts(["one", "two"]), parts(["one", "2\n<b>"]));
        let mut has: Vec<String> = seen(&before).split('.').map(str::to_owned).collect();
        assert_eq!(told(&before, "", &mut has), ": nothing new\n\n");
        let event = told(&after, "", &mut has);
        assert_eq!(event, format!("id: {}\ndata: [[\"b\",\"2\\n<b>\"]]\n\n", seen(&after)), "in one line, whatever it is");
        assert_eq!(told(&after, "", &mut has), ": nothing new\n\n");
        assert!(told(&after, "", &mut vec!["other".to_owned()]).contains("[[\"a\""), "who has nothing gets all");
    }
}
