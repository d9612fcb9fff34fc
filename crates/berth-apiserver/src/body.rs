//! Bodies: reads those of requests, and sends the three types of responses: one piece, several pieces, or a watch.

use crate::{
    flow::Kept,
    limits::{CHUNK_BYTES, FULL_BYTES_MAX},
    listing::{Compressing, ListBody},
    status::Refusal,
    watch::WatchBody,
};
use berth_registry::ApiError;
use bytes::{Bytes, BytesMut};
use futures::future::poll_fn;
use hyper::{
    body::{Body, Frame, Incoming},
    header::{CONTENT_LENGTH, HeaderMap, HeaderValue},
};
use std::{pin::Pin, time::Duration};

/// The largest request body, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 3 << 20;
/// How long the rest of an unused body is read.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);

/// The body of a response before it is sent.
pub(crate) enum ResponseBody {
    /// In one piece.
    Full(Bytes),
    /// Several pieces, so that a connection has little of it in memory at a time.
    Large(LargeBody, Kept),
    /// A watch.
    Watch(Box<WatchBody>),
}

/// A long body.
pub(crate) enum LargeBody {
    /// A list.
    List(Box<ListBody>),
    /// Other content, complete.
    Bytes(Bytes),
    /// The same, compressed while it is sent.
    Compressed(Box<Compressing>),
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.len() <= FULL_BYTES_MAX { Self::Full(bytes) } else { Self::Large(LargeBody::Bytes(bytes), None) }
    }
}

impl ResponseBody {
    /// Makes a long body hold this memory until it is sent. A short one drops it.
    pub(crate) fn keep(&mut self, memory: Kept) {
        if let Self::Large(_, kept) = self {
            *kept = memory;
        }
    }
}

impl LargeBody {
    /// Returns the next piece. An empty one means that the next follows soon. `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Result<Bytes, ApiError>> {
        match self {
            Self::List(list) => list.next_piece(),
            Self::Bytes(rest) => (!rest.is_empty()).then(|| Ok(rest.split_to(rest.len().min(CHUNK_BYTES)))),
            Self::Compressed(rest) => rest.next_piece().map(Ok),
        }
    }

    /// Whether its pieces are only copied from existing bytes, which costs less than encrypting them.
    pub(crate) fn is_copied(&self) -> bool {
        match self {
            Self::List(list) => list.is_copied(),
            Self::Bytes(_) => true,
            Self::Compressed(_) => false,
        }
    }

    /// Returns the remaining bytes, if known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::List(_) | Self::Compressed(_) => None,
            Self::Bytes(rest) => Some(rest.len() as u64),
        }
    }
}

fn too_large() -> Refusal {
    ApiError::TooLarge { message: format!("Request entity too large: limit is {REQUEST_BYTES_MAX}") }.into()
}

/// Reads a request's body.
///
/// # Errors
/// It exceeds [`REQUEST_BYTES_MAX`], or the client disconnected.
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
            // Most bodies are one frame, which needs one copy of the right size.
            whole.reserve(announced.max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

async fn next_frame(body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Reads the rest of a body after an error, within limits. A client that is still sending would otherwise see a broken
/// connection instead of the response.
pub(crate) async fn discard(body: &mut Incoming) {
    if !body.is_end_stream() {
        // A client that sends more, or more slowly, is disconnected.
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

    #[test]
    fn long_answers_are_sent_in_pieces_and_whole() {
        for (length, pieces) in [(FULL_BYTES_MAX, None), (FULL_BYTES_MAX + 1, Some(1)), (4 * CHUNK_BYTES, Some(4))] {
            let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).expect("small")).collect();
            match bytes.clone().into() {
                ResponseBody::Large(mut large, _) => {
                    assert_eq!(large.length(), Some(length as u64));
                    let sent: Vec<Bytes> = std::iter::from_fn(|| large.next_piece()).map(|piece| piece.expect("made")).collect();
                    assert_eq!((Some(sent.len()), sent.concat()), (pieces, bytes));
                }
                ResponseBody::Full(_) => assert_eq!(pieces, None),
                ResponseBody::Watch(_) => unreachable!("bytes are no watch"),
            }
        }
    }
}
