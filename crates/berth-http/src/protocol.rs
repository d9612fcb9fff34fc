//! HTTP on one connection: the version agreed on, its limits, and an orderly end.

use crate::{
    in_hand::{Stream, Streams},
    limits::Limits,
};
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    rt::{Read, Write},
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::{rt::TokioTimer, server::graceful::GracefulConnection};
use std::{convert::Infallible, pin::pin, time::Duration};

/// Requests at once on one HTTP/2 connection, watches included: as Go's servers have it. Clients that need more open another connection.
const STREAMS_MAX: u32 = 250;
/// Streams that a client may open and reset before its connection is closed ("rapid reset").
const RESET_STREAMS_MAX: usize = 100;
/// Idle HTTP/2 connections are asked for a sign of life this often, and closed if none comes.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// What a request may buffer towards a slow HTTP/2 client, in bytes.
const STREAM_BUFFER_BYTES: usize = 256 << 10;
/// How much of a request body an HTTP/2 client may send ahead: a stream's share, and a connection's.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1, and 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// How large a head may be, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Request line and headers, or their counterpart in HTTP/2.
    bytes: u32,
    /// Of HTTP/1; `None`: as many as hyper takes.
    headers: Option<usize>,
    /// The first head of a connection, and each later one of HTTP/1.
    timeout: Duration,
}

impl Bounds {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self { bytes: limits.head_bytes, headers: limits.headers, timeout: limits.head_timeout }
    }
}

/// Serves a connection to its end; once `unwanted` resolves, takes no new requests, and gives those that are being answered until `over`
/// does, which is asked from then on.
///
/// # Errors
/// The client broke the protocol, or is gone.
pub(crate) async fn serve<I, S, B>(
    io: I,
    (protocol, streams): (Protocol, Streams),
    head: Bounds,
    service: S,
    (unwanted, over): (impl Future<Output = ()>, impl Future<Output = ()>),
) -> hyper::Result<()>
where
    I: Read + Write + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    // In a box, which is freed when there is an answer. The future is large, and would otherwise stay until the client has read the answer.
    S::Future: Send + Unpin + 'static,
    B: Body<Data: Send, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    match protocol {
        Protocol::Http1 => {
            let serving = until(http1(head).serve_connection(io, service), unwanted, over);
            Stream::default().serve(serving).await.unwrap_or(Ok(()))
        }
        Protocol::Http2 => until(http2(streams, head).serve_connection(io, service), unwanted, over).await,
    }
}

async fn until<C: GracefulConnection>(
    serving: C,
    unwanted: impl Future<Output = ()>,
    over: impl Future<Output = ()>,
) -> Result<(), C::Error> {
    let mut serving = pin!(serving);
    tokio::select! {
        ended = serving.as_mut() => return ended,
        () = unwanted => serving.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = serving => ended,
        () = over => Ok(()),
    }
}

/// `max_buf_size` alone bounds a head only while it is incomplete: one that a large read completes would pass.
fn http1(head: Bounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(head.timeout)
        .max_header_size(head.bytes as usize)
        .max_buf_size(head.bytes as usize);
    if let Some(headers) = head.headers {
        builder.max_headers(headers);
    }
    builder
}

fn http2(streams: Streams, head: Bounds) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(RESET_STREAMS_MAX)
        .max_header_list_size(head.bytes)
        .max_send_buf_size(STREAM_BUFFER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty, Full};
    use hyper::{StatusCode, client::conn::http2 as client, service::service_fn};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::{
        collections::VecDeque,
        future::{pending, ready},
        io,
        pin::Pin,
        sync::{Arc, Mutex},
        task::{Context, Poll},
    };
    use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

    const LIMIT: usize = 256 << 10;
    const HEAD: Bounds = Bounds { bytes: 256 << 10, headers: None, timeout: Duration::from_secs(60) };
    const SHORT: &[u8] = b"GET /first HTTP/1.1\r\nhost: h\r\n\r\n";
    const BODY: &[u8] = b"12345";

    /// A connection on which each read gives one of `reads`, or as much of it as fits, and which is then quiet.
    struct Script {
        reads: VecDeque<Vec<u8>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl AsyncRead for Script {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let Some(mut read) = self.reads.pop_front() else { return Poll::Pending };
            let left = read.split_off(read.len().min(buffer.remaining()));
            buffer.put_slice(&read);
            if !left.is_empty() {
                self.reads.push_front(left);
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Script {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.written.lock().expect("one thread").extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A connection on which a read gives so many bytes at most.
    struct Sips {
        stream: DuplexStream,
        bytes: usize,
    }

    impl AsyncRead for Sips {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let mut sip = vec![0; self.bytes.min(buffer.remaining())];
            let mut sip = ReadBuf::new(&mut sip);
            let outcome = Pin::new(&mut self.stream).poll_read(cx, &mut sip);
            buffer.put_slice(sip.filled());
            outcome
        }
    }

    impl AsyncWrite for Sips {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(cx, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }

    /// Serves `reads`, answering 200 with the path to every request whose body it could read; gives the codes of the answers.
    async fn answers(reads: Vec<Vec<u8>>) -> Vec<u16> {
        let written = Arc::new(Mutex::new(Vec::new()));
        let io = TokioIo::new(Script { reads: reads.into(), written: Arc::clone(&written) });
        let service = service_fn(|request: Request<Incoming>| {
            Box::pin(async move {
                let code = if request.into_body().collect().await.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
                Ok::<_, Infallible>(Response::builder().status(code).body(Empty::<Bytes>::new()).expect("an answer"))
            })
        });
        // What a refused head does to the connection is not what this is about.
        let _ = serve(io, (Protocol::Http1, Streams::default()), HEAD, service, (pending(), pending())).await;
        let written = String::from_utf8(written.lock().expect("one thread").clone()).expect("heads are ASCII");
        written.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().expect("a code")).collect()
    }

    /// A head of so many bytes, of a request with `BODY`; the ends of its lines are `end`.
    fn head(bytes: usize, end: &str, connection: &str) -> Vec<u8> {
        let start = format!("PUT /long HTTP/1.1{end}host: h{end}connection: {connection}{end}content-length: 5{end}");
        let head = |fill: &str| format!("{start}x-long: {fill}{end}{end}");
        let fill = "x".repeat(bytes - head("").len());
        head(&fill).into_bytes()
    }

    /// Ways in which `bytes` may arrive, besides at once.
    fn ways(bytes: &[u8], end_of_head: usize) -> Vec<Vec<Vec<u8>>> {
        let in_chunks = |of: usize| bytes.chunks(of).map(<[u8]>::to_vec).collect();
        let split = |at: &[usize]| {
            let mut from = 0;
            let mut parts: Vec<Vec<u8>> = Vec::new();
            for &at in at.iter().filter(|at| **at < bytes.len()) {
                parts.push(bytes[from..at].to_vec());
                from = at;
            }
            parts.push(bytes[from..].to_vec());
            parts.into_iter().filter(|part| !part.is_empty()).collect()
        };
        let mut ways: Vec<Vec<Vec<u8>>> = vec![vec![bytes.to_vec()]];
        ways.extend([1, 7, 1 << 10, 4_095, 16 << 10, 100_000, LIMIT - 1, LIMIT, LIMIT + 1].map(in_chunks));
        ways.extend([1, 8_192, LIMIT - 1, LIMIT, LIMIT + 1].map(|at| split(&[at])));
        ways.extend((0..=5).map(|before| split(&[end_of_head - before])));
        ways.push(split(&[end_of_head + 1]));
        ways.push(split(&[10, LIMIT - 20, end_of_head - 2, end_of_head - 1, end_of_head]));
        ways
    }

    async fn check(before: &[u8], head_bytes: usize, end: &str, expected: &[u16]) {
        let bytes = [before, &head(head_bytes, end, "close"), BODY].concat();
        for (at, reads) in ways(&bytes, before.len() + head_bytes).into_iter().enumerate() {
            let sizes: Vec<usize> = reads.iter().map(Vec::len).take(8).collect();
            assert_eq!(answers(reads).await, expected, "way {at}: a head of {head_bytes} after {} in reads of {sizes:?}", before.len());
        }
    }

    #[tokio::test]
    async fn a_head_of_http1_is_measured_however_it_arrives() {
        for end in ["\r\n", "\n"] {
            for (bytes, code) in [(1_000, 200), (LIMIT, 200), (LIMIT + 1, 431), (300 << 10, 431), (3 << 20, 431)] {
                check(b"", bytes, end, &[code]).await;
            }
        }
    }

    #[tokio::test]
    async fn a_head_of_http1_is_measured_by_itself_behind_another_request() {
        let with_body = [&head(LIMIT, "\r\n", "keep-alive"), BODY].concat();
        let chunked = b"PUT / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n";
        for before in [SHORT, &with_body, chunked] {
            for (bytes, code) in [(LIMIT, 200), (LIMIT + 1, 431), (300 << 10, 431)] {
                check(before, bytes, "\r\n", &[200, code]).await;
            }
        }
    }

    #[tokio::test]
    async fn a_head_of_http2_is_measured_however_it_arrives() {
        for read_bytes in [1, 100, 16 << 10, 1 << 20] {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            let theirs = Sips { stream: theirs, bytes: read_bytes };
            let service = service_fn(|_| ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
            let server =
                tokio::spawn(serve(TokioIo::new(theirs), (Protocol::Http2, Streams::default()), HEAD, service, (pending(), pending())));
            let connected = client::handshake(TokioExecutor::new(), TokioIo::new(ours)).await;
            let (mut sender, connection) = connected.expect("a connection");
            let connection = tokio::spawn(connection);
            // HTTP/2 counts 32 bytes more for every header. One connection: a refused head does not spoil the next.
            for (bytes, code) in [(200 << 10, 200), (LIMIT + 1, 431), (100, 200), (300 << 10, 431), (200 << 10, 200)] {
                let request = Request::get("https://h/").header("x-long", "x".repeat(bytes)).body(Full::<Bytes>::default());
                let answer = sender.send_request(request.expect("a request")).await.expect("an answer");
                assert_eq!(answer.status(), code, "{bytes} bytes in reads of {read_bytes}");
            }
            drop(sender);
            connection.await.expect("no panic").expect("an end");
            server.await.expect("no panic").expect("an end");
        }
    }
}
