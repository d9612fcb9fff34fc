//! What is in the hands of a connection: handed over for its client, and not written yet.
//!
//! On HTTP/2 a client decides for each stream how much of its answer is written. hyper takes a piece over for the first byte of room, and what
//! it has taken over stays for as long as the client likes. So an answer counts until its last byte is written, and one of which nothing is
//! taken for a while loses its stream (on HTTP/1 its connection), which frees what is left of it.

use crate::connections::{ConnectionSlot, Unread};
use bytes::{Buf, Bytes};
use futures::task::AtomicWaker;
use hyper::rt::Executor;
use std::{
    any::Any,
    io::IoSlice,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};
use tokio::{sync::Notify, task_local};

/// A connection may have this many bytes of short answers in progress before its requests wait. That is no more than a connection takes anyway, and
/// more than a client needs that reads its answers.
const SHORT_BYTES_MAX: usize = 64 << 10;

task_local! {
    /// The stream that a task serves.
    static STREAM: Stream;
}

/// Serves the streams of one connection, each by a task of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<OfConnection>);

impl Streams {
    /// The limits of the connection with this slot.
    pub(crate) fn of(slot: Arc<ConnectionSlot>) -> Self {
        Self(Arc::new(OfConnection { slot: Some(slot), ..OfConnection::default() }))
    }
}

/// What the streams of one connection share.
#[derive(Debug, Default)]
struct OfConnection {
    short_bytes: AtomicUsize,
    slot: Option<Arc<ConnectionSlot>>,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, serving: F) {
        let stream = Stream { connection: Arc::clone(&self.0), given_up: Arc::default() };
        tokio::spawn(stream.serve(serving));
    }
}

/// A stream of HTTP/2, or a connection of HTTP/1.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    connection: Arc<OfConnection>,
    given_up: Arc<Notify>,
}

impl Stream {
    /// Serves it to its end, or until it is given up. Then what serves it is dropped: that resets it.
    pub(crate) async fn serve<T>(self, serving: impl Future<Output = T>) -> Option<T> {
        let given_up = Arc::clone(&self.given_up);
        let served = async move {
            tokio::select! {
                output = serving => Some(output),
                () = given_up.notified() => None,
            }
        };
        STREAM.scope(self, served).await
    }

    /// Returns the stream that the current task serves.
    #[must_use]
    pub fn current() -> Option<Self> {
        STREAM.try_with(Self::clone).ok()
    }

    /// Returns a short answer as a piece that needs no wait.
    ///
    /// # Errors
    ///
    /// The bytes, if the connection has enough of such in hand: the answer must wait until some are taken.
    pub fn short(&self, bytes: Bytes) -> Result<Piece, Bytes> {
        let counted = Counted { bytes: bytes.len(), of: Of::Connection(Arc::clone(&self.connection)) };
        if SHORT_BYTES_MAX < self.connection.short_bytes.fetch_add(bytes.len(), Ordering::AcqRel) + bytes.len() {
            return Err(bytes);
        }
        Ok(Piece { bytes, _counted: Some(counted), _unread: self.unread() })
    }

    /// Counts one more answer that its client does not take yet; `None`: the server knows whose connection it is. A stranger with too many loses its connection.
    #[must_use]
    pub fn unread(&self) -> Option<Unread> {
        self.connection.slot.as_ref().and_then(ConnectionSlot::unread)
    }

    /// Ends the stream. What its connection has in hand of its answer is dropped.
    pub fn give_up(&self) {
        self.given_up.notify_one();
    }
}

/// How much of one answer is in the hands of its connection, and what the answer keeps until nothing is.
#[derive(Debug, Default)]
pub struct InHand {
    bytes: AtomicUsize,
    /// How many pieces were taken.
    taken: AtomicUsize,
    /// Of who waits until some are.
    waiting: AtomicWaker,
    _kept: (Option<Box<dyn Any + Send + Sync>>, Option<Unread>),
}

impl InHand {
    /// Counts an answer that keeps `kept` until all of it is written.
    #[must_use]
    pub fn of(kept: Option<Box<dyn Any + Send + Sync>>, unread: Option<Unread>) -> Arc<Self> {
        Arc::new(Self { _kept: (kept, unread), ..Self::default() })
    }

    /// Hands a piece over.
    #[must_use]
    pub fn hand_over(self: &Arc<Self>, bytes: Bytes) -> Piece {
        self.bytes.fetch_add(bytes.len(), Ordering::AcqRel);
        Piece { _counted: Some(Counted { bytes: bytes.len(), of: Of::Answer(Arc::clone(self)) }), _unread: None, bytes }
    }

    /// Is ready when less than `bytes` are in hand.
    pub fn poll_less(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let is_less = || self.bytes.load(Ordering::Acquire) < bytes;
        if is_less() {
            return Poll::Ready(());
        }
        self.waiting.register(cx.waker());
        if is_less() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns how many pieces were taken, if something is in hand.
    #[must_use]
    pub fn progress(&self) -> Option<usize> {
        (self.bytes.load(Ordering::Acquire) != 0).then(|| self.taken.load(Ordering::Acquire))
    }

    /// Wakes the task that waits in [`InHand::poll_less`].
    pub fn wake(&self) {
        self.waiting.wake();
    }
}

/// A piece of an answer. In the hands of the connection until it is dropped.
#[derive(Debug)]
pub struct Piece {
    bytes: Bytes,
    _counted: Option<Counted>,
    _unread: Option<Unread>,
}

impl Piece {
    /// Returns a piece that is not counted.
    #[must_use]
    pub fn uncounted(bytes: Bytes) -> Self {
        Self { bytes, _counted: None, _unread: None }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    fn chunks_vectored<'a>(&'a self, parts: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(parts)
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.bytes.copy_to_bytes(count)
    }
}

#[derive(Debug)]
struct Counted {
    bytes: usize,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Connection(Arc<OfConnection>),
    Answer(Arc<InHand>),
}

impl Drop for Counted {
    fn drop(&mut self) {
        match &self.of {
            Of::Connection(connection) => {
                connection.short_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
            }
            Of::Answer(answer) => {
                answer.taken.fetch_add(1, Ordering::AcqRel);
                answer.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
                answer.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_answers_are_handed_over_at_once_until_too_many_are_in_hand() {
        let stream = Stream::default();
        let half = || Bytes::from(vec![0; SHORT_BYTES_MAX / 2]);
        let first = stream.short(half()).expect("nothing is in hand");
        let second = stream.short(half()).expect("as much as may be");
        assert_eq!(stream.short("x".into()).expect_err("enough"), "x");
        let in_hand = || stream.connection.short_bytes.load(Ordering::SeqCst);
        assert_eq!(in_hand(), SHORT_BYTES_MAX, "what was given back does not count");
        drop(first);
        drop((second, stream.short(half()).expect("taken")));
        assert_eq!(in_hand(), 0);
    }

    #[test]
    fn a_piece_is_in_hand_until_it_is_dropped() {
        let answer = InHand::of(None, None);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut piece = answer.hand_over("abc".into());
        assert!(answer.poll_less(&mut cx, 4).is_ready() && answer.poll_less(&mut cx, 3).is_pending());
        piece.advance(3);
        assert_eq!((piece.remaining(), answer.progress()), (0, Some(0)));
        drop(piece);
        assert!(answer.poll_less(&mut cx, 1).is_ready());
        assert_eq!(answer.progress(), None);
    }
}
