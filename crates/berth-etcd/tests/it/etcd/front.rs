//! A TCP proxy in front of servers, which forwards connections to one that accepts them. It can hold back requests,
//! delay them, and be cut like a network.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests have sockets and the real time")]

use futures::future::select;
use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

pub(crate) struct Front {
    pub(crate) port: u16,
    state: Arc<FrontState>,
    accepting: JoinHandle<()>,
}

struct FrontState {
    servers: Mutex<Vec<u16>>,
    taken: AtomicUsize,
    is_held: watch::Sender<bool>,
    held_bytes: AtomicUsize,
    sent_bytes: AtomicUsize,
    are_answers_held: watch::Sender<bool>,
    is_cut: watch::Sender<bool>,
    /// The delay of what clients send.
    latency: Mutex<Duration>,
}

impl Front {
    /// Starts a proxy in front of servers at these ports.
    pub(crate) async fn before(servers: Vec<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it has one").port();
        let state = Arc::new(FrontState {
            servers: Mutex::new(servers),
            taken: AtomicUsize::new(0),
            is_held: watch::Sender::new(false),
            held_bytes: AtomicUsize::new(0),
            sent_bytes: AtomicUsize::new(0),
            are_answers_held: watch::Sender::new(false),
            is_cut: watch::Sender::new(false),
            latency: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&shared)));
            }
        });
        Self { port, state, accepting }
    }

    /// Replaces the servers.
    pub(crate) fn set(&self, servers: Vec<u16>) {
        *self.state.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Holds back all that clients send.
    pub(crate) fn hold(&self) {
        self.state.is_held.send_replace(true);
    }

    /// The number of bytes held back since then.
    pub(crate) fn held_bytes(&self) -> usize {
        self.state.held_bytes.load(Ordering::Relaxed)
    }

    /// Holds back all that servers send. They execute the requests.
    pub(crate) fn hold_answers(&self) {
        self.state.are_answers_held.send_replace(true);
    }

    /// Forwards everything that was held back.
    pub(crate) fn let_go(&self) {
        self.state.is_held.send_replace(false);
        self.state.are_answers_held.send_replace(false);
    }

    /// The number of bytes that clients have sent.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.state.sent_bytes.load(Ordering::Relaxed)
    }

    /// Stops all traffic in both directions. Neither side learns of new or ended connections.
    pub(crate) fn cut(&self) {
        self.state.is_cut.send_replace(true);
    }

    /// Forwards everything that was sent since the cut, as TCP retransmits it.
    pub(crate) fn restore(&self) {
        self.state.is_cut.send_replace(false);
    }

    /// Delays what clients send by this much.
    pub(crate) fn slow_down(&self, latency: Duration) {
        *self.state.latency.lock().unwrap_or_else(PoisonError::into_inner) = latency;
    }
}

impl FrontState {
    async fn is_whole(&self) {
        // Ends before the sender of the cut does.
        let _ = self.is_cut.subscribe().wait_for(|is_cut| !is_cut).await;
    }

    async fn hold_answer(&self) {
        let _ = self.are_answers_held.subscribe().wait_for(|are_held| !are_held).await;
    }

    async fn hold(&self, length: usize) {
        self.sent_bytes.fetch_add(length, Ordering::Relaxed);
        if *self.is_held.borrow() {
            self.held_bytes.fetch_add(length, Ordering::Relaxed);
            let _ = self.is_held.subscribe().wait_for(|is_held| !is_held).await;
        }
        let latency = *self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }
}

/// The sending side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards to the next server that accepts the connection.
async fn serve(client: TcpStream, state: Arc<FrontState>) {
    state.is_whole().await;
    let servers = state.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let first = state.taken.fetch_add(1, Ordering::Relaxed);
    for index in 0..servers.len() {
        let Ok(server) = TcpStream::connect(("127.0.0.1", servers[(first + index) % servers.len()])).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        select(pin!(pass(from_client, to_server, Side::Client, &state)), pin!(pass(from_server, to_client, Side::Server, &state))).await;
        return;
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, side: Side, state: &FrontState) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        state.is_whole().await;
        match side {
            Side::Client => state.hold(length).await,
            Side::Server => state.hold_answer().await,
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
    state.is_whole().await;
}
