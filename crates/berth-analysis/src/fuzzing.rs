//! For the fuzz target: the code of this crate that parses untrusted bytes.

use crate::{
    answer, client,
    config::{Found, Kind},
    files::Contents,
};
use berth_workloads::analysis::{Answer, NoAnswer};
use http::Request;
use http_body_util::Full;
use std::{
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fn kind(is_webhook: bool) -> Kind {
    if is_webhook { Kind::Webhook } else { Kind::Prometheus }
}

/// Parses a body.
///
/// # Errors
/// The reason as a word.
pub fn body(is_webhook: bool, body: &[u8]) -> Result<Answer, NoAnswer> {
    answer::read(kind(is_webhook), body)
}

/// Parses everything from a connection, head and body.
///
/// # Errors
/// The reason as a word.
pub async fn connection(is_webhook: bool, brought: impl AsyncRead + Unpin) -> Result<Answer, NoAnswer> {
    let request = Request::post("/").body(Full::default()).map_err(|_| NoAnswer::Unreachable)?;
    let body = client::exchange(Answering { brought, is_asked: false, reader: None }, request).await?;
    answer::read(kind(is_webhook), &body)
}

/// A server that answers after the request. Earlier bytes belong to no request, and are no answer.
struct Answering<R> {
    brought: R,
    is_asked: bool,
    reader: Option<Waker>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Answering<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_asked {
            return Pin::new(&mut self.brought).poll_read(context, buffer);
        }
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<R: Unpin> AsyncWrite for Answering<R> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The number of providers in an administrator's file, if each file in it has these contents.
///
/// # Errors
/// As [`OpenError`](crate::OpenError) describes.
pub fn providers(text: &str, named: &[u8]) -> Result<usize, crate::OpenError> {
    let path = Path::new("/providers.yaml");
    let found = Found::new(path, Ok(text.to_owned()), |path| Contents::new(path, Ok(named.to_vec())));
    found.providers().map(|known| known.len())
}
