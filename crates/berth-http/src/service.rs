//! What a server serves: the interface between connections and what answers their requests.

use crate::{
    activity::{Activity, Open},
    body::Body,
    connections::{Origin, TooMany},
};
use futures::future::BoxFuture;
use hyper::{Request, Response, body::Incoming};
use rustls::{ServerConfig, ServerConnection};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// An answer that is being made. In a box, which is dropped when there is an answer: what makes it is large, and the connection would keep it until the client has
/// taken the answer.
pub type Answering = BoxFuture<'static, Response<Body>>;

/// What a server serves.
pub trait Service: Send + Sync + 'static {
    /// Begins a connection.
    fn connect(&self, origin: &Origin) -> Box<dyn Connection>;

    /// The server stops. It takes no more connections, and long answers end now.
    fn stop(&self);

    /// A handshake failed, or the client speaks no TLS.
    fn handshake_failed(&self, _from: SocketAddr, _error: &io::Error) {}
}

/// The service's side of one connection.
pub trait Connection: Send + Sync + 'static {
    /// Returns the server's side of TLS; `None`: the connection has no TLS, and speaks HTTP/1.
    fn tls(&self) -> Option<Arc<ServerConfig>>;

    /// The handshake is done.
    ///
    /// # Errors
    ///
    /// The peer's owner has too many connections: this one is closed.
    fn secured(&mut self, _session: &ServerConnection) -> Result<(), TooMany> {
        Ok(())
    }

    /// Answers a request, whatever it is and whatever happens. It counts as open until `open` is dropped, which the answer's body keeps.
    fn answer(&self, request: Request<Incoming>, open: Open) -> Answering;
}

/// The requests of one connection, as hyper calls them.
pub(crate) struct Requests {
    pub(crate) connection: Box<dyn Connection>,
    pub(crate) activity: Arc<Activity>,
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        Answer(self.connection.answer(request, self.activity.begin()))
    }
}

/// An [`Answering`] that never fails.
pub(crate) struct Answer(Answering);

impl Future for Answer {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}
