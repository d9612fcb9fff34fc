//! The server of a webhook, which answers as a test requires, over TLS with an authority of its own.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// What the webhook answers.
pub(crate) enum Reply {
    /// The `response` of a review of this version, with the uid of the request.
    Response(Value),
    /// A status line without its version, headers, and a body.
    Raw(&'static str, String, Vec<u8>),
    /// Nothing.
    Hang,
}

impl Reply {
    /// Returns a whole answer with this body.
    pub(crate) fn body(body: impl Into<Vec<u8>>) -> Self {
        Self::Raw("200 OK", String::new(), body.into())
    }

    /// Returns a response that allows the request and changes its object.
    pub(crate) fn patch(operations: &Value) -> Self {
        let patch = BASE64_STANDARD.encode(operations.to_string());
        Self::Response(json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"}))
    }
}

/// The names in its certificate.
const NAMES: [&str; 6] =
    ["localhost", "127.0.0.1", "hook.tools.svc", "here.tools.svc", "cert-manager-webhook.default.svc", "webhook-service.system.svc"];

type Answer = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A running webhook. It ends with the test's runtime.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    /// PEM of its authority.
    pub(crate) authority: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<AtomicUsize>,
}

impl WebhookServer {
    /// Starts a webhook. `answer` gets the path without its query, and the review.
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let (authority, config) = certificates();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (seen, connections, answer) = (Arc::default(), Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let webhook = Self { address, authority, seen: Arc::clone(&seen), connections: Arc::clone(&connections) };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen, answer, connections) =
                    (acceptor.clone(), Arc::clone(&seen), Arc::clone(&answer), Arc::clone(&connections));
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the handshake.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    connections.fetch_add(1, Ordering::SeqCst);
                    serve(stream, &seen, &*answer).await;
                });
            }
        });
        webhook
    }

    /// Returns a `clientConfig` with this path.
    pub(crate) fn client(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": BASE64_STANDARD.encode(&self.authority)})
    }

    /// Returns the paths with their queries and the reviews since the last call.
    pub(crate) fn taken(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.seen.lock().expect("no test panics with it"))
    }

    /// Returns how many connections were opened.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn certificates() -> (String, ServerConfig) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(NAMES.map(str::to_owned)).expect("names");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .expect("a pair");
    (authority.pem(), config)
}

async fn serve(mut stream: TlsStream<TcpStream>, seen: &Mutex<Vec<(String, Value)>>, answer: &Answer) {
    while let Some((path, body)) = read(&mut stream).await {
        let review: Value = serde_json::from_slice(&body).unwrap_or_default();
        seen.lock().expect("no test panics with it").push((path.clone(), review.clone()));
        let reply = answer(path.split('?').next().unwrap_or_default(), &review);
        let (status, headers, body) = match reply {
            Reply::Raw(status, headers, body) => (status, headers, body),
            Reply::Response(mut response) => {
                if response.get("uid").is_none() {
                    response["uid"] = review["request"]["uid"].clone();
                }
                let body = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
                ("200 OK", String::new(), body.to_string().into_bytes())
            }
            Reply::Hang => std::future::pending().await,
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(&body).await.is_err() {
            return;
        }
    }
}

/// Reads a request: its path and its body.
async fn read(stream: &mut TlsStream<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        let read = stream.read_buf(&mut bytes).await.ok()?;
        (read > 0).then_some(())?;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        let read = stream.read_buf(&mut bytes).await.ok()?;
        (read > 0).then_some(())?;
    }
    let path = String::from_utf8_lossy(&bytes[..end]).split(' ').nth(1)?.to_owned();
    Some((path, bytes[end..].to_vec()))
}
