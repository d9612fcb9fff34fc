//! Connections to webhooks.
//!
//! Each webhook has an endpoint of its own: one HTTP/2 connection, or a few kept HTTP/1 connections. It answers a
//! bounded number of calls at the same time. Further calls wait, within their own timeout.

use crate::{
    failure::CallFailure,
    services::{Address, Services},
    tls,
};
use berth_admission::{Client, Target};
use bytes::Bytes;
use http::{
    Request, Response, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The maximum length of an answer in bytes. A patch can replace the largest object, in base64.
pub const ANSWER_BYTES_MAX: usize = 5 << 20;
/// The maximum length of the headers of an answer in bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// How many calls of one webhook are made at the same time, and so its maximum number of connections.
pub const CALLS_MAX: usize = 128;
/// How many HTTP/1 connections of one webhook are kept for later calls.
const IDLE_MAX: usize = 8;
/// How long an unused HTTP/1 connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// How many webhooks have kept connections.
const ENDPOINTS_MAX: usize = 256;
/// How many addresses of one name are tried.
const ADDRESSES_MAX: usize = 4;
/// How many lookups of the name of one webhook run at the same time. Each one occupies a thread, also after its call has
/// timed out.
const LOOKUPS_MAX: usize = 2;
/// The size of an answer in bytes from which it is large.
const LARGE_BYTES: usize = 256 << 10;
/// How many large answers of one webhook are in memory at the same time.
const LARGE_MAX: usize = 8;
/// How long an HTTP/2 connection is quiet before it is checked, as upstream.
const QUIET: Duration = Duration::from_secs(30);
/// How long this check can take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

type Body = Full<Bytes>;

/// Calls webhooks.
pub(crate) struct Caller {
    services: Services,
    endpoints: Mutex<BTreeMap<Client, Arc<Endpoint>>>,
}

/// A webhook, with its kept connections.
struct Endpoint {
    calls: Semaphore,
    lookups: Arc<Semaphore>,
    large: Arc<Semaphore>,
    kept: Mutex<Kept>,
}

/// The answer of a webhook.
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    /// Held while a large answer is in memory.
    _large: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct Kept {
    tls: Option<Arc<ClientConfig>>,
    http1: Vec<(Instant, http1::SendRequest<Body>)>,
    http2: Option<http2::SendRequest<Body>>,
}

impl Endpoint {
    fn new() -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits));
        Self { calls: Semaphore::new(CALLS_MAX), lookups: semaphore(LOOKUPS_MAX), large: semaphore(LARGE_MAX), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic leaves complete connections only.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a kept connection, if one is usable.
    fn take(&self) -> Option<Sender> {
        let mut kept = self.kept();
        if let Some(sender) = kept.http2.clone().filter(|sender| !sender.is_closed()) {
            return Some(Sender::Http2(sender));
        }
        kept.http2 = None;
        while let Some((since, sender)) = kept.http1.pop() {
            // Its task may have yet to record the end of the last answer: `Sender::send` waits for that.
            if since.elapsed() < IDLE_TIME && !sender.is_closed() {
                return Some(Sender::Http1(sender));
            }
        }
        None
    }

    /// Forgets a connection on which a call timed out, because its other end may be gone.
    fn forget(&self) {
        self.kept().http2 = None;
    }

    /// Keeps a connection whose answer was read to its end.
    fn keep(&self, sender: Sender) {
        let mut kept = self.kept();
        match sender {
            Sender::Http2(sender) => kept.http2 = Some(sender),
            Sender::Http1(sender) if kept.http1.len() < IDLE_MAX => kept.http1.push((Instant::now(), sender)),
            Sender::Http1(_) => (),
        }
    }
}

/// A connection.
enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Sender {
    async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    /// Whether it is an HTTP/1 connection, whose requests have a path and a host.
    fn is_http1(&self) -> bool {
        matches!(self, Self::Http1(_))
    }
}

/// The URL of a webhook in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    /// As a certificate names it.
    host: String,
    port: u16,
    /// With the query.
    path: String,
    /// As errors show it.
    shown: String,
}

impl Url {
    fn of(client: &Client, within: Duration) -> Option<Self> {
        let query = format!("timeout={}s", within.as_secs());
        match &client.target {
            Target::Url(text) => {
                let uri: Uri = text.parse().ok()?;
                let authority = uri.authority()?;
                let path = if uri.path().is_empty() { "/" } else { uri.path() };
                let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
                let shown = format!("https://{authority}{}?{query}", if text.ends_with(authority.as_str()) { "" } else { path });
                Some(Self { host, port: authority.port_u16().unwrap_or(443), path: format!("{path}?{query}"), shown })
            }
            Target::Service(service) => {
                let host = format!("{}.{}.svc", service.name, service.namespace);
                let path = if service.path.starts_with('/') { service.path.clone() } else { format!("/{}", service.path) };
                let shown = format!("https://{host}:{}{path}?{query}", service.port);
                Some(Self { host, port: service.port, path: format!("{path}?{query}"), shown })
            }
        }
    }

    fn failed(&self, why: impl ToString) -> CallFailure {
        CallFailure::Post { url: self.shown.clone(), why: why.to_string() }
    }

    /// Returns the request. HTTP/2 requires the whole URL, HTTP/1 the path.
    fn request(&self, body: Bytes, is_http1: bool) -> Result<Request<Body>, CallFailure> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let authority = if self.port == 443 { host } else { format!("{host}:{}", self.port) };
        let uri = if is_http1 { self.path.clone() } else { format!("https://{authority}{}", self.path) };
        let request = Request::post(uri)
            .header(USER_AGENT, "kube-apiserver-admission")
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json");
        let request = if is_http1 { request.header(HOST, authority) } else { request };
        request.body(Full::from(body)).map_err(|error| self.failed(error))
    }
}

impl Caller {
    pub(crate) fn new(services: Services) -> Self {
        Self { services, endpoints: Mutex::default() }
    }

    /// Returns whether a server can be behind this client: the endpoints of its Service are not only simulated pods.
    pub(crate) async fn is_simulated(&self, client: &Client) -> bool {
        let Target::Service(service) = &client.target else { return false };
        matches!(self.services.resolve(service).await, Err(crate::services::NoAddress::Simulated { .. }))
    }

    /// Sends `body` to a webhook, and returns its answer.
    pub(crate) async fn call(&self, client: &Client, body: Vec<u8>, within: Duration) -> Result<Answer, CallFailure> {
        let url = Url::of(client, within).ok_or_else(|| CallFailure::Post { url: String::new(), why: "no URL".to_owned() })?;
        let endpoint = self.endpoint(client);
        match timeout(within, self.exchange(client, &endpoint, &url, body.into())).await {
            Ok(answered) => answered,
            Err(_) => {
                endpoint.forget();
                Err(url.failed("context deadline exceeded"))
            }
        }
    }

    fn endpoint(&self, client: &Client) -> Arc<Endpoint> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = endpoints.get(client) {
            return Arc::clone(endpoint);
        }
        if ENDPOINTS_MAX <= endpoints.len() {
            endpoints.retain(|_, endpoint| 1 < Arc::strong_count(endpoint));
        }
        let endpoint = Arc::new(Endpoint::new());
        endpoints.insert(client.clone(), Arc::clone(&endpoint));
        endpoint
    }

    async fn exchange(&self, client: &Client, endpoint: &Endpoint, url: &Url, body: Bytes) -> Result<Answer, CallFailure> {
        // The semaphore is never closed.
        let _call = endpoint.calls.acquire().await.map_err(|error| url.failed(error))?;
        if let Some(mut kept) = endpoint.take() {
            let request = url.request(body.clone(), kept.is_http1())?;
            // The webhook may have closed a kept connection in the meantime. Webhooks must expect a repeated review.
            if let Ok(response) = kept.send(request).await {
                return finish(endpoint, url, kept, response).await;
            }
        }
        let mut sender = self.connect(client, endpoint, url).await?;
        let response = sender.send(url.request(body, sender.is_http1())?).await.map_err(|error| url.failed(error))?;
        finish(endpoint, url, sender, response).await
    }

    async fn connect(&self, client: &Client, endpoint: &Endpoint, url: &Url) -> Result<Sender, CallFailure> {
        let kept = endpoint.kept().tls.clone();
        let tls = match kept {
            Some(tls) => tls,
            None => {
                let tls = tls::config(&client.ca_bundle).await?;
                endpoint.kept().tls = Some(Arc::clone(&tls));
                tls
            }
        };
        let stream = self.open(client, endpoint, url).await?;
        // So that a small request is not held back.
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(url.host.clone()).map_err(|error| url.failed(error))?;
        let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| url.failed(tls::words(&error)))?;
        handshake(stream).await.map_err(|error| url.failed(error))
    }

    async fn open(&self, client: &Client, endpoint: &Endpoint, url: &Url) -> Result<TcpStream, CallFailure> {
        let Address { host, port } = match &client.target {
            Target::Url(_) => Address { host: url.host.clone(), port: url.port },
            Target::Service(service) => self.services.resolve(service).await.map_err(|error| url.failed(error))?,
        };
        let mut failure = format!("dial tcp: lookup {host}: no such host");
        for address in endpoint.addresses(host, port).await {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = format!("dial tcp {address}: {}", of_connect(&error)),
            }
        }
        Err(url.failed(failure))
    }
}

impl Endpoint {
    /// Returns addresses of a host. None: it has none.
    async fn addresses(&self, host: String, port: u16) -> Vec<SocketAddr> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return vec![SocketAddr::new(ip, port)];
        }
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&self.lookups).acquire_owned().await else { return Vec::new() };
        let lookup = spawn_blocking(move || {
            let _permit = permit;
            (host, port).to_socket_addrs().map(|found| found.take(ADDRESSES_MAX).collect())
        });
        lookup.await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Reads an answer to its end.
    async fn read(&self, mut body: Incoming, url: &Url) -> Result<Answer, CallFailure> {
        let (mut bytes, mut large) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| url.failed(error))?.into_data() else { continue };
            if ANSWER_BYTES_MAX < bytes.len() + data.len() {
                return Err(CallFailure::TooLong(ANSWER_BYTES_MAX));
            }
            if large.is_none() && LARGE_BYTES < bytes.len() + data.len() {
                large = Arc::clone(&self.large).acquire_owned().await.ok();
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Answer { body: bytes, _large: large })
    }
}

fn of_connect(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => format!("connect: {error}"),
    }
}

/// Speaks the protocol that the webhook has chosen. The connection lives in a task until it is closed or not kept.
async fn handshake(stream: TlsStream<TcpStream>) -> Result<Sender, hyper::Error> {
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(HEADER_BYTES_MAX as u32);
        builder.timer(TokioTimer::new()).keep_alive_interval(QUIET).keep_alive_timeout(CHECK_TIMEOUT);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        return Ok(Sender::Http2(sender));
    }
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEADER_BYTES_MAX);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Sender::Http1(sender))
}

/// Reads the answer to its end, and keeps the connection.
async fn finish(endpoint: &Endpoint, url: &Url, sender: Sender, response: Response<Incoming>) -> Result<Answer, CallFailure> {
    let (head, body) = response.into_parts();
    let answer = endpoint.read(body, url).await?;
    endpoint.keep(sender);
    let body = &answer.body;
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !head.status.is_success() {
        return Err(CallFailure::of_answer(head.status, content_type, body));
    }
    if body.is_empty() {
        let message = format!("0-length response with status code: {} and content type: {content_type}", head.status.as_u16());
        return Err(CallFailure::Status { code: head.status.as_u16(), message });
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_admission::ServiceReference;

    #[test]
    fn a_url_has_the_timeout_of_the_call() {
        let url = |target: Target| Url::of(&Client { target, ca_bundle: Vec::new() }, Duration::from_secs(2)).expect("a URL");
        let found = url(Target::Url("https://example.com:8443/a/b".to_owned()));
        assert_eq!((found.host.as_str(), found.port, found.path.as_str()), ("example.com", 8443, "/a/b?timeout=2s"));
        assert_eq!(found.shown, "https://example.com:8443/a/b?timeout=2s");
        let found = url(Target::Url("https://[::1]".to_owned()));
        assert_eq!((found.host.as_str(), found.port, found.path.as_str()), ("::1", 443, "/?timeout=2s"));
        assert_eq!(found.shown, "https://[::1]?timeout=2s");
        let service = |path: &str| ServiceReference { namespace: "n".to_owned(), name: "s".to_owned(), path: path.to_owned(), port: 444 };
        assert_eq!(url(Target::Service(service("/x"))).shown, "https://s.n.svc:444/x?timeout=2s");
        assert_eq!(url(Target::Service(service(""))).shown, "https://s.n.svc:444/?timeout=2s");
        assert_eq!(url(Target::Service(service(""))).host, "s.n.svc");
    }
}
