//! Sends long responses, and ends a response whose client stops reading it.
//!
//! `berth-http` detects a stalled socket. This module covers HTTP/2, where a client can read other responses, answer
//! pings, and keep the window of one stream closed.

use crate::{
    body::{LargeBody, ResponseBody},
    flow::{Seat, Turns},
    limits::{CHUNK_BYTES, FULL_BYTES_MAX},
    watch::WatchBody,
};
use berth_http::{Body, InHand, Open, Piece, Rare, Stream};
use berth_registry::ApiError;
use berth_store::env::yield_now;
use bytes::{Buf as _, Bytes};
use futures::future::poll_fn;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    any::Any,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

/// Begins to send a response, whose request counts as open until it is sent. A response in pieces holds its seat and
/// memory until the last one is written. It is canceled if the client reads nothing for `stall`. A watch has started by
/// now and frees its seat. Pieces that cost more to build than to send are built in the `user`'s turns, if there is a
/// user, and not by the connection.
pub(crate) fn begin(body: ResponseBody, seat: Option<Seat>, open: Open, stall: Duration, user: Option<(&Arc<Turns>, &str)>) -> Body {
    let stream = Stream::current();
    let open = if matches!(body, ResponseBody::Watch(_)) { open.into_watch() } else { open };
    let (source, seat, memory) = match body {
        ResponseBody::Full(bytes) => match whole(bytes, stream.as_ref()) {
            Ok(piece) => return Body::whole(piece, Some(open)),
            Err(bytes) => (Source::Large(LargeBody::Bytes(bytes)), seat, None),
        },
        ResponseBody::Large(large, memory) => (Source::Large(large), seat, memory),
        ResponseBody::Watch(watch) => (Source::Watch(watch), None, None),
    };
    let at_once = AtOnce::of(&source, user.is_some());
    let kept = (seat.is_some() || memory.is_some()).then(|| -> Box<dyn Any + Send + Sync> { Box::new((seat, memory)) });
    let in_hand = InHand::of(kept, stream.as_ref().and_then(Stream::unread));
    let source = match user {
        Some((turns, user)) if !source.is_copied() => source.in_turn(turns, user, Arc::clone(&in_hand), at_once),
        _ => source,
    };
    let sent = Arc::new(Sent { source: Mutex::new(Some(source)), in_hand, stream });
    Body::pieces(Box::pin(Pieces::begin(sent, at_once, stall)), open)
}

/// Returns a response in one piece without an open request.
pub(crate) fn refusal(body: ResponseBody) -> Body {
    let ResponseBody::Full(bytes) = body else { unreachable!("a refusal is short") };
    Body::whole(Some(Piece::uncounted(bytes)), None)
}

/// Returns a short response as one piece, or returns the bytes if the connection has no room for them yet.
fn whole(bytes: Bytes, stream: Option<&Stream>) -> Result<Option<Piece>, Bytes> {
    match stream {
        _ if bytes.is_empty() => Ok(None),
        Some(stream) => stream.short(bytes).map(Some),
        None => Ok(Some(Piece::uncounted(bytes))),
    }
}

/// The source of pieces.
enum Source {
    /// A long response.
    Large(LargeBody),
    /// A watch.
    Watch(Box<WatchBody>),
    /// The output of another task, which ends with this source.
    Task(mpsc::Receiver<io::Result<Piece>>, #[expect(dead_code, reason = "aborted when it is dropped")] JoinSet<()>),
}

impl Source {
    /// Returns the same source, with pieces built in turns of a user. Each one is built after the previous one is
    /// taken.
    fn in_turn(mut self, turns: &Arc<Turns>, user: &str, in_hand: Arc<InHand>, at_once: AtOnce) -> Self {
        let (sender, pieces) = mpsc::channel(1);
        let task = turns.begin(user, async move {
            while let Ok(room) = sender.reserve().await {
                let Some(piece) = poll_fn(|cx| self.poll_next(cx, &in_hand, at_once)).await else { return };
                room.send(piece);
                yield_now().await;
            }
        });
        Self::Task(pieces, task)
    }

    /// Whether sending its pieces costs more than building them.
    fn is_copied(&self) -> bool {
        match self {
            Self::Large(large) => large.is_copied(),
            Self::Watch(_) => false,
            Self::Task(..) => true,
        }
    }

    /// Returns the remaining bytes, if known.
    fn length(&self) -> Option<u64> {
        match self {
            Self::Large(large) => large.length(),
            Self::Watch(_) | Self::Task(..) => None,
        }
    }

    /// Returns the next piece as soon as earlier ones leave enough room. `None` at the end.
    fn poll_next(&mut self, cx: &mut Context<'_>, in_hand: &Arc<InHand>, at_once: AtOnce) -> Poll<Option<io::Result<Piece>>> {
        let piece = match self {
            Self::Task(pieces, _) => return pieces.poll_recv(cx),
            _ if in_hand.poll_less(cx, at_once.in_hand).is_pending() => return Poll::Pending,
            Self::Large(large) => match large.next_piece() {
                Some(Ok(piece)) if piece.is_empty() => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                piece => piece.map(|piece| piece.map_err(end_early)),
            },
            Self::Watch(watch) => ready!(watch.poll_line(cx)).map(Ok),
        };
        Poll::Ready(piece.map(|piece| piece.map(|bytes| in_hand.hand_over(bytes))))
    }
}

/// Logs the error and ends the response early, because its head has already been sent.
fn end_early(error: ApiError) -> io::Error {
    static ENDED_EARLY: Rare = Rare::new();
    if let Some(left_out) = ENDED_EARLY.now() {
        tracing::error!(%error, left_out, "a list had to be broken off");
    }
    io::Error::other(error)
}

/// The limits of pieces.
#[derive(Clone, Copy)]
struct AtOnce {
    /// The number of bytes after which other tasks of the connection's thread run.
    bytes: usize,
    /// The number of unwritten bytes above which no more pieces are built.
    in_hand: usize,
}

impl AtOnce {
    /// About half a millisecond of work, mostly encryption. An administrator may wait for that long for each of sixty
    /// connections that read long lists. With a smaller value, a list takes longer.
    const COPIED: Self = Self { bytes: 2 * CHUNK_BYTES, in_hand: 4 * CHUNK_BYTES };
    /// The connection itself converts items for an administrator, and one piece of that takes long enough.
    const LOOKED_INTO: Self = Self { bytes: 1, in_hand: CHUNK_BYTES };
    /// There may be thousands of watches, and their unwritten lines have no memory limit.
    const WATCHED: Self = Self { in_hand: FULL_BYTES_MAX, ..Self::COPIED };

    fn of(source: &Source, is_in_turn: bool) -> Self {
        match source {
            Source::Watch(_) => Self::WATCHED,
            Source::Large(large) if !is_in_turn && !large.is_copied() => Self::LOOKED_INTO,
            Source::Large(_) | Source::Task(..) => Self::COPIED,
        }
    }
}

/// A response in pieces that is being sent.
struct Sent {
    /// The source of the next pieces. `None` after the last one, or after a stall.
    source: Mutex<Option<Source>>,
    in_hand: Arc<InHand>,
    stream: Option<Stream>,
}

impl Sent {
    /// Locks the source. Only the source itself can panic while it is locked, and the response is then incomplete.
    fn source(&self) -> MutexGuard<'_, Option<Source>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pieces of a response.
struct Pieces {
    sent: Arc<Sent>,
    at_once: AtOnce,
    /// The bytes since other tasks ran.
    handed_over: usize,
    ended: bool,
    guard: AbortHandle,
}

impl Pieces {
    fn begin(sent: Arc<Sent>, at_once: AtOnce, stall: Duration) -> Self {
        let guard = tokio::spawn(guard(Arc::downgrade(&sent), stall)).abort_handle();
        Self { sent, at_once, handed_over: 0, ended: false, guard }
    }

    /// Returns the remaining bytes, if known.
    fn length(&self) -> Option<u64> {
        self.sent.source().as_ref().and_then(Source::length)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Piece>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = self.poll_source(cx);
        match &next {
            Poll::Pending => self.handed_over = 0,
            Poll::Ready(Some(Ok(piece))) => self.handed_over += piece.remaining(),
            Poll::Ready(None | Some(Err(_))) => {
                *self.sent.source() = None;
                self.ended = true;
            }
        }
        next
    }

    fn poll_source(&self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Piece>>> {
        let mut source = self.sent.source();
        let Some(source) = &mut *source else {
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading"))));
        };
        if self.at_once.bytes <= self.handed_over {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match ready!(source.poll_next(cx, &self.sent.in_hand, self.at_once)) {
            Some(piece) => Poll::Ready(Some(piece)),
            // While this continues, the response can be canceled, together with the part in the connection.
            None => self.sent.in_hand.poll_less(cx, 1).map(|()| None),
        }
    }
}

impl HttpBody for Pieces {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Piece>>>> {
        self.get_mut().poll_next(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.guard.abort();
    }
}

/// Cancels a response if the client takes no piece between two checks.
async fn guard(sent: Weak<Sent>, stall: Duration) {
    let mut before = None;
    loop {
        tokio::time::sleep(stall).await;
        let Some(sent) = sent.upgrade() else { return };
        let now = sent.in_hand.progress();
        if now.is_some() && now == before {
            *sent.source() = None;
            sent.in_hand.wake();
            sent.stream.iter().for_each(Stream::give_up);
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Compressing;
    use berth_http::Activity;
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;
    use tokio::runtime::Handle;

    const PIECES: usize = 10;

    /// Returns the number of pieces that are available at each poll.
    async fn bursts(large: LargeBody) -> Vec<usize> {
        let turns = Turns::new(Handle::current());
        let body = ResponseBody::Large(large, None);
        let mut sending = begin(body, None, Activity::new().begin(), Duration::from_secs(60), Some((&turns, "a")));
        let mut bursts = Vec::new();
        for _ in 0..10 * PIECES {
            let mut burst = 0;
            loop {
                match sending.frame().now_or_never() {
                    Some(Some(frame)) => drop(frame.expect("it goes on")),
                    Some(None) => return [bursts, vec![burst]].concat(),
                    None => break,
                }
                burst += 1;
            }
            bursts.push(burst);
            tokio::task::yield_now().await;
        }
        panic!("it does not end: {bursts:?}");
    }

    #[tokio::test]
    async fn what_is_only_copied_needs_no_turn_and_leaves_others_theirs() {
        let plain: Bytes = (0..PIECES * CHUNK_BYTES).map(|at| u8::try_from(at * at % 251).expect("small")).collect();
        assert_eq!(bursts(LargeBody::Bytes(plain.clone())).await, [2, 2, 2, 2, 2, 0]);
        let compressed = bursts(LargeBody::Compressed(Box::new(Compressing::new(plain)))).await;
        assert_eq!(compressed[0], 0, "made when its turn has come");
        assert!(compressed.iter().all(|burst| *burst <= 1), "{compressed:?}");
    }
}
