//! A server without TLS, and what its clients see.

use berth_http::{Answering, Body, Connection, Limits, Listener, Open, Origin, Owner, Piece, Service};
use bytes::Bytes;
use futures::FutureExt;
use hyper::{Request, Response, body::Incoming};
use rustls::ServerConfig;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::timeout,
};

/// Longer than anything here takes, so that a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const LIMITS: Limits = Limits {
    strangers: 4,
    known: 4,
    per_owner: 2,
    strangers_unread: 100,
    head_bytes: 8 << 10,
    headers: Some(8),
    handshake_timeout: PATIENCE,
    head_timeout: PATIENCE,
    idle_timeout: PATIENCE,
    stall_timeout: PATIENCE,
    drain_timeout: PATIENCE,
};

/// Answers `/NAME` of the user NAME, `/` of a stranger; `/NAME/waits` is answered once the test lets it.
pub(crate) struct Echo {
    pub(crate) is_stopped: AtomicBool,
    /// One permit lets one request be answered.
    pub(crate) answers: Semaphore,
    /// How many requests wait for that.
    pub(crate) waiting: Semaphore,
}

struct Connected(Arc<Echo>, Origin);

struct Served(Arc<Echo>);

impl Service for Served {
    fn connect(&self, origin: &Origin) -> Box<dyn Connection> {
        Box::new(Connected(Arc::clone(&self.0), origin.clone()))
    }

    fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::SeqCst);
    }
}

impl Connection for Connected {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }

    fn answer(&self, request: Request<Incoming>, open: Open) -> Answering {
        let (echo, place) = (Arc::clone(&self.0), Arc::clone(&self.1.slot));
        let path = request.uri().path().to_owned();
        Box::pin(async move {
            let (user, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
            let text = match user {
                "" => Ok(()),
                user => place.belongs_to(Owner::Known(user)),
            };
            if rest == "waits" {
                echo.waiting.add_permits(1);
                echo.answers.acquire().await.expect("it is never closed").forget();
            }
            let text = if text.is_ok() { path } else { "too many".to_owned() };
            Response::new(Body::whole(Some(Piece::uncounted(Bytes::from(text))), Some(open)))
        })
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) echo: Arc<Echo>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) serving: JoinHandle<()>,
}

pub(crate) async fn start(limits: Limits) -> Server {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.expect("a free port");
    let address = listener.local_addr();
    let echo = Arc::new(Echo { is_stopped: AtomicBool::new(false), answers: Semaphore::new(0), waiting: Semaphore::new(0) });
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(listener.serve(Arc::new(Served(Arc::clone(&echo))), limits, stopped.map(drop).boxed()));
    Server { address, echo, stop, serving }
}

impl Server {
    pub(crate) async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.expect("it listens"))
    }
}

pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("it is read");
    }

    /// Sends a request for a path, and returns the body of the answer; `None`: the connection is closed.
    pub(crate) async fn get(&mut self, path: &str) -> Option<String> {
        // One that is closed may take it or not.
        let _ = self.0.write_all(format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").as_bytes()).await;
        self.answer().await
    }

    /// The body of the next answer; `None`: the connection is closed.
    pub(crate) async fn answer(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, self.0.read_u8()).await.expect("an answer, or an end").ok()?);
        }
        let head = String::from_utf8(head).expect("ASCII");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        self.0.read_exact(&mut body).await.expect("the body");
        Some(String::from_utf8(body).expect("ASCII"))
    }

    /// All that comes until the connection is closed.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, self.0.read_to_end(&mut rest)).await.expect("it is closed");
        String::from_utf8(rest).expect("ASCII")
    }
}
