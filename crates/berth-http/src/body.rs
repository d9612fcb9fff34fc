//! The body of an answer on its way.

use crate::{activity::Open, in_hand::Piece};
use bytes::Buf;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// The body of an answer on its way. Its request counts as open until the body is dropped.
pub struct Body {
    what: What,
    _open: Option<Open>,
}

enum What {
    /// In one piece; `None` once sent.
    Whole(Option<Piece>),
    Pieces(Pin<Box<dyn HttpBody<Data = Piece, Error = io::Error> + Send>>),
}

impl Body {
    /// A body in one piece, or without any byte.
    #[must_use]
    pub fn whole(piece: Option<Piece>, open: Option<Open>) -> Self {
        Self { what: What::Whole(piece.filter(Buf::has_remaining)), _open: open }
    }

    /// A body in several pieces, which are made while it is sent.
    #[must_use]
    pub fn pieces(pieces: Pin<Box<dyn HttpBody<Data = Piece, Error = io::Error> + Send>>, open: Open) -> Self {
        Self { what: What::Pieces(pieces), _open: Some(open) }
    }
}

impl HttpBody for Body {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Piece>>>> {
        match &mut self.get_mut().what {
            What::Whole(piece) => Poll::Ready(piece.take().map(|piece| Ok(Frame::data(piece)))),
            What::Pieces(pieces) => pieces.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.what {
            What::Whole(piece) => piece.is_none(),
            What::Pieces(pieces) => pieces.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.what {
            What::Whole(piece) => SizeHint::with_exact(piece.as_ref().map_or(0, |piece| piece.remaining() as u64)),
            What::Pieces(pieces) => pieces.size_hint(),
        }
    }
}
