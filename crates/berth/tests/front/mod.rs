//! What stands before API servers: passes connections on to one that takes them, byte for byte, and can hold back what clients say.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
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
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    servers: Mutex<Vec<u16>>,
    taken: AtomicUsize,
    is_held: watch::Sender<bool>,
    held_bytes: AtomicUsize,
}

impl Front {
    /// Before servers at these ports.
    pub(crate) async fn before(servers: Vec<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it has one").port();
        let state = Arc::new(State {
            servers: Mutex::new(servers),
            taken: AtomicUsize::new(0),
            is_held: watch::Sender::new(false),
            held_bytes: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&shared)));
            }
        });
        Self { port, state, accepting }
    }

    /// From now on before these.
    pub(crate) fn set(&self, servers: Vec<u16>) {
        *self.state.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Passes nothing of what clients say on.
    pub(crate) fn hold(&self) {
        self.state.is_held.send_replace(true);
    }

    /// How much was said since then that is held back.
    pub(crate) fn held_bytes(&self) -> usize {
        self.state.held_bytes.load(Ordering::Relaxed)
    }

    /// Passes it on after all.
    pub(crate) fn let_go(&self) {
        self.state.is_held.send_replace(false);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// To the next server in turn that takes it.
async fn serve(client: TcpStream, state: Arc<State>) {
    let servers = state.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let first = state.taken.fetch_add(1, Ordering::Relaxed);
    for index in 0..servers.len() {
        let Ok(server) = TcpStream::connect(("127.0.0.1", servers[(first + index) % servers.len()])).await else { continue };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::select! {
            () = pass(from_client, to_server, Some(&state)) => (),
            () = pass(from_server, to_client, None) => (),
        }
        return;
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, held: Option<&State>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some(state) = held
            && *state.is_held.borrow()
        {
            state.held_bytes.fetch_add(length, Ordering::Relaxed);
            let _ = state.is_held.subscribe().wait_for(|is_held| !is_held).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
