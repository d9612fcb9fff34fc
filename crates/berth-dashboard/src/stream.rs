//! The stream of changes of one page: it sends the parts that differ from what the browser has.
//!
//! The id of an event contains a short digest of each part, so it identifies what the browser has. Any process can
//! therefore resume an interrupted stream, without state for disconnected browsers. A part is rendered only when the
//! connection can take it, so a slow browser costs nothing.

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

/// The minimum time between two renderings.
const PAUSE: SignedDuration = SignedDuration::from_millis(250);
/// How often the page is rendered for changes by time alone, such as ages. It also keeps the connection alive.
const REFRESH: SignedDuration = SignedDuration::from_secs(5);
/// The number of renderings after which a stream ends and the browser reconnects.
const RENDERINGS_MAX: u32 = 20_000;

struct Streaming {
    cluster_cache: Arc<ClusterCache>,
    page: Page,
    /// The path prefix of its links.
    base: String,
    /// A digest of each part that the browser has.
    has: Vec<String>,
    changes: watch::Receiver<u64>,
    renderings: u32,
    place: StreamPlace,
}

/// Returns the stream of changes of a page, for a browser that has `seen`.
pub(crate) fn events(
    cluster_cache: Arc<ClusterCache>,
    (page, base): (Page, &str),
    seen: &str,
    place: StreamPlace,
) -> BoxStream<'static, Bytes> {
    let has = seen.split('.').map(str::to_owned).collect();
    let changes = cluster_cache.changes();
    let streaming = Streaming { cluster_cache, page, base: base.to_owned(), has, changes, renderings: 0, place };
    futures::stream::unfold(streaming, |mut streaming| async move {
        let text = streaming.next().await?;
        Some((Bytes::from(text), streaming))
    })
    .boxed()
}

impl Streaming {
    /// Returns the next event, or `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let clock = &self.cluster_cache.env.clock;
        if RENDERINGS_MAX <= self.renderings || !self.place.is_open() {
            return None;
        }
        // The first rendering is immediate, for browsers that reconnect.
        if 0 < self.renderings {
            clock.sleep_until(clock.now() + PAUSE).await;
            select(pin!(self.changes.changed()), clock.sleep_until(clock.now() + REFRESH)).await;
        }
        if !self.place.is_open() {
            return None;
        }
        self.changes.mark_unchanged();
        let text = if self.renderings == 0 { "retry: 1000\n\n".to_owned() } else { String::new() };
        self.renderings += 1;
        let Some(parts) = pages::parts(&self.cluster_cache, &self.page) else {
            self.renderings = RENDERINGS_MAX;
            return Some("event: gone\ndata: {}\n\n".to_owned());
        };
        Some(text + &change_event(&parts, &self.base, &mut self.has))
    }
}

/// Returns one event with the parts that differ from what the browser has, or a comment that keeps the connection
/// alive.
fn change_event(parts: &[Part], base: &str, has: &mut Vec<String>) -> String {
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
        assert_eq!(change_event(&before, "", &mut has), ": nothing new\n\n");
        let event = change_event(&after, "", &mut has);
        assert_eq!(event, format!("id: {}\ndata: [[\"b\",\"2\\n<b>\"]]\n\n", seen(&after)), "in one line, whatever it is");
        assert_eq!(change_event(&after, "", &mut has), ": nothing new\n\n");
        assert!(change_event(&after, "", &mut vec!["other".to_owned()]).contains("[[\"a\""), "who has nothing gets all");
    }
}
