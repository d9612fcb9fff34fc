//! Answers that are sent for a while: a client that stops taking one does not keep it for ever.
//!
//! A socket that takes nothing is noticed by [`crate::stall`]. This is for HTTP/2, where a client can take other answers, answer pings,
//! and leave the window of one stream shut.

use crate::{
    activity::Open,
    body::{LargeBody, ResponseBody},
    brief::Rare,
    flow::{Kept, Seat, Turns},
    limits::CHUNK_BYTES,
    watch::WatchBody,
};
use berth_registry::ApiError;
use berth_store::env::yield_now;
use bytes::Bytes;
use futures::future::poll_fn;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

/// The body of an answer on its way. Its request counts as open until it is sent.
pub(crate) struct Sending {
    what: What,
    _open: Option<Open>,
}

enum What {
    /// In one piece; `None` once sent.
    Whole(Option<Bytes>),
    Pieces(Pieces),
}

impl Sending {
    /// Begins to send. An answer in pieces keeps its seat until it is sent, and is given up when the client takes nothing for `stall`. Pieces
    /// that are more work to make than to send are made when it is their `user`'s turn, if there is one, and not by the connection.
    pub(crate) fn begin(body: ResponseBody, seat: Option<Seat>, open: Open, stall: Duration, user: Option<(&Arc<Turns>, &str)>) -> Self {
        let open = if matches!(body, ResponseBody::Watch(_)) { open.into_watch() } else { open };
        let source = match body {
            ResponseBody::Full(bytes) => {
                return Self { what: What::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), _open: Some(open) };
            }
            ResponseBody::Large(large, memory) => Source::Large(large, (seat, memory)),
            ResponseBody::Watch(watch) => Source::Watch(watch),
        };
        let source = match user {
            Some((turns, user)) if !source.is_copied() => source.in_turn(turns, user),
            _ => source,
        };
        Self { what: What::Pieces(Pieces::begin(source, stall)), _open: Some(open) }
    }

    /// An answer in one piece that no request waits for any more.
    pub(crate) fn refusal(body: ResponseBody) -> Self {
        let ResponseBody::Full(bytes) = body else { unreachable!("a refusal is short") };
        Self { what: What::Whole(Some(bytes)), _open: None }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.get_mut().what {
            What::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            What::Pieces(pieces) => pieces.poll_next(cx),
        };
        next.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.what {
            What::Whole(bytes) => bytes.is_none(),
            What::Pieces(pieces) => pieces.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.what {
            What::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            What::Pieces(pieces) => pieces.length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// What is sent in pieces.
enum Source {
    /// A long answer, and the seats and the memory that it keeps.
    Large(LargeBody, #[expect(dead_code, reason = "kept until it is dropped")] (Option<Seat>, Kept)),
    /// A watch.
    Watch(Box<WatchBody>),
    /// What another task makes, which ends with this.
    Task(Made, #[expect(dead_code, reason = "aborted when it is dropped")] JoinSet<()>),
}

/// Pieces that a task makes.
struct Made {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    /// How many bytes are still to come, where that is known.
    length: Option<u64>,
}

impl Made {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        let sent = piece.as_ref().and_then(|piece| piece.as_ref().ok()).map_or(0, |piece| piece.len() as u64);
        self.length = self.length.map(|length| length.saturating_sub(sent));
        Poll::Ready(piece)
    }
}

impl Source {
    /// The same, made in turns of a user: one piece at a time, and not before the one before is taken.
    fn in_turn(mut self, turns: &Arc<Turns>, user: &str) -> Self {
        let length = self.length();
        let (sender, pieces) = mpsc::channel(1);
        let task = turns.begin(user, async move {
            while let Ok(room) = sender.reserve().await {
                let Some(piece) = poll_fn(|cx| self.poll_next(cx)).await else { return };
                room.send(piece);
                yield_now().await;
            }
        });
        Self::Task(Made { pieces, length }, task)
    }

    /// Whether sending its pieces is the longer part of the work.
    fn is_copied(&self) -> bool {
        match self {
            Self::Large(large, _) => large.is_copied(),
            Self::Watch(_) => false,
            Self::Task(..) => true,
        }
    }

    /// How many bytes are still to be sent, where that is known.
    fn length(&self) -> Option<u64> {
        match self {
            Self::Large(large, _) => large.length(),
            Self::Task(made, _) => made.length,
            Self::Watch(_) => None,
        }
    }

    /// What comes next; `None` behind the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Self::Large(large, _) => match large.next_piece() {
                Some(Ok(piece)) if piece.is_empty() => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Some(Ok(piece)) => Poll::Ready(Some(Ok(piece))),
                Some(Err(error)) => Poll::Ready(Some(Err(broken_off(error)))),
                None => Poll::Ready(None),
            },
            Self::Watch(watch) => watch.poll_line(cx).map(|line| line.map(Ok)),
            Self::Task(made, _) => made.poll_next(cx),
        }
    }
}

/// An answer that has begun can only be cut.
fn broken_off(error: ApiError) -> io::Error {
    static BROKEN_OFF: Rare = Rare::new();
    if let Some(left_out) = BROKEN_OFF.now() {
        tracing::error!(%error, left_out, "a list had to be broken off");
    }
    io::Error::other(error)
}

/// What is left to be sent.
struct Rest {
    /// Absent once all is sent, or the client took nothing for too long.
    source: Option<Source>,
    /// Since when a piece is with the connection and nobody has come for the next.
    handed_over: Option<Instant>,
}

/// After so many bytes others have their turn on the thread of the connection: less than a millisecond's work, most of it to encrypt them.
const BYTES_AT_ONCE: usize = 4 * CHUNK_BYTES;

/// An answer in pieces.
struct Pieces {
    state: Arc<Mutex<Rest>>,
    /// How many bytes were handed over since others had their turn.
    at_once: usize,
    at_once_max: usize,
    ended: bool,
    guard: AbortHandle,
}

impl Pieces {
    fn begin(source: Source, stall: Duration) -> Self {
        // What an administrator has made of objects is made here as well, and a piece of it is long enough.
        let at_once_max = if matches!(&source, Source::Large(large, _) if !large.is_copied()) { 1 } else { BYTES_AT_ONCE };
        let state = Arc::new(Mutex::new(Rest { source: Some(source), handed_over: None }));
        let guard = tokio::spawn(guard(state.clone(), stall)).abort_handle();
        Self { state, at_once: 0, at_once_max, ended: false, guard }
    }

    /// How many bytes are still to be sent, where that is known.
    fn length(&self) -> Option<u64> {
        lock(&self.state).source.as_ref().and_then(Source::length)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut state = lock(&self.state);
        state.handed_over = None;
        if self.at_once_max <= self.at_once {
            self.at_once = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = match &mut state.source {
            None => Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading")))),
            Some(source) => source.poll_next(cx),
        };
        match &piece {
            Poll::Pending => self.at_once = 0,
            Poll::Ready(Some(Ok(piece))) => {
                state.handed_over = Some(Instant::now());
                self.at_once += piece.len();
            }
            Poll::Ready(None | Some(Err(_))) => {
                state.source = None;
                self.ended = true;
            }
        }
        piece
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.guard.abort();
    }
}

/// Nothing panics while it is locked but what is sent: then that is broken off.
fn lock(state: &Mutex<Rest>) -> MutexGuard<'_, Rest> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops what is sent once a piece has been with the connection for `stall`.
async fn guard(state: Arc<Mutex<Rest>>, stall: Duration) {
    let mut look_at = Instant::now() + stall;
    loop {
        tokio::time::sleep_until(look_at).await;
        let mut state = lock(&state);
        let due = state.handed_over.map_or(Instant::now(), |since| since) + stall;
        if state.source.is_none() || due <= Instant::now() {
            state.source = None;
            return;
        }
        look_at = due;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{activity::Activity, listing::Compressing};
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;
    use tokio::runtime::Handle;

    const PIECES: usize = 10;

    /// How many pieces are there at once, each time that somebody asks for some.
    async fn bursts(large: LargeBody) -> Vec<usize> {
        let turns = Turns::new(Handle::current());
        let body = ResponseBody::Large(large, None);
        let mut sending = Sending::begin(body, None, Activity::new().begin(), Duration::from_secs(60), Some((&turns, "a")));
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
        assert_eq!(bursts(LargeBody::Bytes(plain.clone())).await, [4, 4, 2]);
        let compressed = bursts(LargeBody::Compressed(Box::new(Compressing::new(plain)))).await;
        assert_eq!(compressed[0], 0, "made when its turn has come");
        assert!(compressed.iter().all(|burst| *burst <= 1), "{compressed:?}");
    }
}
