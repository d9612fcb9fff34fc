//! Bodies: what is read of a request, and the three kinds of answers: one piece, a list in pieces, a watch.

use crate::{status::Refusal, watch::WatchBody};
use berth_registry::{ApiError, splice};
use berth_store::Entry;
use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use futures::future::poll_fn;
use hyper::{
    body::{Body, Frame, Incoming},
    header::{CONTENT_LENGTH, HeaderMap, HeaderValue},
};
use std::{io::Write as _, pin::Pin, sync::Arc, time::Duration};

/// The largest request body, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 3 << 20;
/// How long a body is read on that nobody needs.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);
/// A list is sent in pieces of about so many bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Longer answers are sent in pieces too.
const FULL_BYTES_MAX: usize = 2 * CHUNK_BYTES;
/// Answers larger than this are compressed for clients that take it.
pub(crate) const GZIP_ABOVE_BYTES: usize = 128 << 10;

/// What an answer says, before it is sent.
pub(crate) enum ResponseBody {
    /// In one piece.
    Full(Bytes),
    /// In several, so that little of it is with the connection at a time.
    Large(LargeBody),
    /// A watch.
    Watch(Box<WatchBody>),
}

/// A long answer.
pub(crate) enum LargeBody {
    /// A list.
    List(Box<ListBody>),
    /// Anything else, made already.
    Bytes(Bytes),
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.len() <= FULL_BYTES_MAX { Self::Full(bytes) } else { Self::Large(LargeBody::Bytes(bytes)) }
    }
}

impl LargeBody {
    /// What comes next; `None` behind the end.
    pub(crate) fn next_piece(&mut self) -> Option<Bytes> {
        match self {
            Self::List(list) => list.next_chunk(),
            Self::Bytes(rest) => Some(rest.split_to(rest.len().min(CHUNK_BYTES))).filter(|piece| !piece.is_empty()),
        }
    }
}

/// A list that is put together from stored bytes while it is sent, so that one of any length takes one piece of memory.
pub(crate) struct ListBody {
    pending: Vec<u8>,
    items: std::vec::IntoIter<Arc<Entry>>,
    separate: bool,
    done: bool,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

/// Bytes around an item besides its stored value: resource version, comma; at most.
const ITEM_OVERHEAD_BYTES: usize = 48;

/// The body for a list that starts with `head`, which ends in `"items":[`. Small ones are in one piece. Also, whether it is compressed.
pub(crate) fn list(head: Vec<u8>, items: Vec<Arc<Entry>>, takes_gzip: bool) -> (ResponseBody, bool) {
    let size: usize = head.len() + items.iter().map(|entry| entry.value.len() + ITEM_OVERHEAD_BYTES).sum::<usize>();
    let gzip = (takes_gzip && GZIP_ABOVE_BYTES < size).then(|| GzEncoder::new(Vec::with_capacity(CHUNK_BYTES), Compression::fast()));
    let compressed = gzip.is_some();
    let mut list = ListBody { pending: head, items: items.into_iter(), separate: false, done: false, gzip };
    let body = if size <= CHUNK_BYTES {
        list.next_chunk().unwrap_or_default().into()
    } else {
        ResponseBody::Large(LargeBody::List(Box::new(list)))
    };
    (body, compressed)
}

impl ListBody {
    fn next_chunk(&mut self) -> Option<Bytes> {
        while !self.done {
            let plain = self.next_plain();
            let Some(gzip) = &mut self.gzip else { return Some(plain.into()) };
            let out = compress_chunk(gzip, &plain, self.done);
            if !out.is_empty() {
                return Some(out.into());
            }
        }
        None
    }

    fn next_plain(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.pending);
        while out.len() < CHUNK_BYTES {
            let Some(entry) = self.items.next() else {
                self.done = true;
                out.extend_from_slice(b"]}\n");
                return out;
            };
            out.reserve(entry.value.len() + ITEM_OVERHEAD_BYTES);
            if std::mem::replace(&mut self.separate, true) {
                out.push(b',');
            }
            splice::write_item(&entry, &mut out);
        }
        self.pending = Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4);
        out
    }
}

fn compress_chunk(gzip: &mut GzEncoder<Vec<u8>>, plain: &[u8], last: bool) -> Vec<u8> {
    let written = gzip.write_all(plain).and_then(|()| if last { gzip.try_finish() } else { Ok(()) });
    written.expect("writing to memory does not fail");
    std::mem::take(gzip.get_mut())
}

/// All of it, compressed.
pub(crate) fn compress(plain: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    compress_chunk(&mut gzip, plain, true)
}

fn too_large() -> Refusal {
    ApiError::TooLarge { message: format!("Request entity too large: limit is {REQUEST_BYTES_MAX}") }.into()
}

/// Reads a request's body.
///
/// # Errors
/// It is larger than [`REQUEST_BYTES_MAX`], or the client went away.
pub(crate) async fn read(headers: &HeaderMap, body: &mut Incoming) -> Result<Vec<u8>, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| HeaderValue::to_str(length).ok()?.parse::<usize>().ok()).unwrap_or(0);
    if REQUEST_BYTES_MAX < announced {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = next_frame(body).await {
        let frame = frame.map_err(|error| ApiError::BadRequest { message: format!("the body could not be read: {error}") })?;
        let Ok(data) = frame.into_data() else { continue };
        if REQUEST_BYTES_MAX < whole.len() + data.len() {
            return Err(too_large());
        }
        if whole.is_empty() {
            // The whole of most bodies: one copy, of the right size.
            whole.reserve(announced.max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

async fn next_frame(body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Reads on what is left after a refusal, within limits: a client that is still sending would not see the answer, only that the connection
/// is cut.
pub(crate) async fn discard(body: &mut Incoming) {
    if !body.is_end_stream() {
        // Whoever sends more slowly, or more, is cut off.
        let _ = tokio::time::timeout(DISCARD_TIME_MAX, drain(body)).await;
    }
}

async fn drain(body: &mut Incoming) {
    let mut left = REQUEST_BYTES_MAX;
    while let Some(Ok(frame)) = next_frame(body).await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_store::{Header, Key, Revision};
    use flate2::read::GzDecoder;
    use serde_json::Value;
    use std::io::Read as _;

    const HEAD: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":["#;

    fn entries(count: usize) -> Vec<Arc<Entry>> {
        let entry = |number: usize| {
            let lead = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#;
            let value = format!(r#"{lead}"name":"c{number}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(1024));
            let header = Header { metadata_at: u32::try_from(lead.len()).expect("short"), ..Header::default() };
            Arc::new(Entry {
                key: Key::new("/registry/core/configmaps/a/c"),
                value: value.into(),
                header,
                create_revision: Revision(1),
                mod_revision: Revision(number as u64),
            })
        };
        (0..count).map(entry).collect()
    }

    fn collect(count: usize, takes_gzip: bool) -> (usize, bool, Vec<u8>) {
        let (body, compressed) = list(HEAD.into(), entries(count), takes_gzip);
        let mut chunks = Vec::new();
        match body {
            ResponseBody::Full(bytes) => chunks.push(bytes),
            ResponseBody::Large(mut large) => chunks.extend(std::iter::from_fn(|| large.next_piece())),
            ResponseBody::Watch(_) => unreachable!("a list is no watch"),
        }
        (chunks.len(), compressed, chunks.concat())
    }

    #[track_caller]
    fn check_items(json: &[u8], count: usize) {
        let list: Value = serde_json::from_slice(json).expect("JSON");
        let items = list["items"].as_array().expect("items");
        assert_eq!(items.len(), count);
        for (number, item) in items.iter().enumerate() {
            assert_eq!(item["metadata"]["name"], format!("c{number}"));
            assert_eq!(item["metadata"]["resourceVersion"], number.to_string());
            assert_eq!(item.get("kind"), None);
        }
    }

    #[test]
    fn small_lists_are_one_piece_and_large_ones_several() {
        for (count, several) in [(0, false), (1, false), (20, false), (1000, true)] {
            let (chunks, compressed, json) = collect(count, false);
            assert_eq!((1 < chunks, compressed), (several, false), "{count}");
            check_items(&json, count);
        }
    }

    #[test]
    fn long_answers_are_sent_in_pieces_and_whole() {
        for (length, pieces) in [(FULL_BYTES_MAX, None), (FULL_BYTES_MAX + 1, Some(3)), (4 * CHUNK_BYTES, Some(4))] {
            let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).expect("small")).collect();
            match bytes.clone().into() {
                ResponseBody::Large(mut large) => {
                    let sent: Vec<Bytes> = std::iter::from_fn(|| large.next_piece()).collect();
                    assert_eq!((Some(sent.len()), sent.concat()), (pieces, bytes));
                }
                ResponseBody::Full(_) => assert_eq!(pieces, None),
                ResponseBody::Watch(_) => unreachable!("bytes are no watch"),
            }
        }
    }

    #[test]
    fn only_large_lists_are_compressed() {
        assert!(!collect(20, true).1);
        let (_, compressed, bytes) = collect(1000, true);
        assert!(compressed);
        let mut json = Vec::new();
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut json).expect("gzip");
        check_items(&json, 1000);
    }
}
