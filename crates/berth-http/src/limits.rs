//! How much a server's connections may take.

use std::time::Duration;

/// The bounds of a server's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of peers that the server does not know (yet).
    pub strangers: usize,
    /// Connections of known owners. Those of [`Owner::Unlimited`](crate::Owner) are not counted.
    pub known: usize,
    /// Connections of one known owner.
    pub per_owner: usize,
    /// Answers that strangers do not take, on all connections together. Beyond that, a stranger with more than a few loses its connection.
    pub strangers_unread: usize,
    /// The largest head of a request, in bytes: request line and headers, or their counterpart in HTTP/2.
    pub head_bytes: u32,
    /// Headers of a request of HTTP/1; `None`: hyper's own bound, 100.
    pub headers: Option<usize>,
    /// How long a client may take for the TLS handshake.
    pub handshake_timeout: Duration,
    /// How long a client may take to send the head of a request of HTTP/1, or to begin one.
    pub head_timeout: Duration,
    /// How long a connection may be open without a request.
    pub idle_timeout: Duration,
    /// How long a client may take nothing while something is to be sent.
    pub stall_timeout: Duration,
    /// How long requests may go on once the server stops.
    pub drain_timeout: Duration,
}

impl Limits {
    /// All connections, with those that are being closed. Others wait in the kernel's queue.
    pub(crate) fn open_max(&self) -> usize {
        2 * (self.strangers + self.known)
    }
}
