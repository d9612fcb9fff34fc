//! The cheapest HTTP/1.1 client that is still honest: one TLS connection, one request at a time, bodies read to their end. The machine is
//! shared with the server, so what the client does not do the server can.

use serde_json::Value;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Between two looks of who waits: often enough to cost nothing beside what is measured.
pub(crate) const POLL: Duration = Duration::from_millis(4);

/// Where a server is, and as whom it is asked.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// `127.0.0.1:6443`.
    pub(crate) address: String,
    /// Trusts the server's authority; holds the client's certificate, if there is one.
    pub(crate) tls: TlsConnector,
    /// A bearer token.
    pub(crate) token: Option<String>,
}

pub(crate) struct Connection {
    stream: BufReader<TlsStream<TcpStream>>,
    /// Lines that every request has.
    head: String,
    /// The body of the last answer.
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Self {
        let socket = TcpStream::connect(&endpoint.address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let stream = endpoint.tls.connect("127.0.0.1".try_into().unwrap(), socket).await.unwrap();
        let token = endpoint.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!("Host: {}\r\nAccept: application/json\r\n{token}", endpoint.address);
        Self { stream: BufReader::with_capacity(64 << 10, stream), head, body: Vec::new() }
    }

    /// Creates an object; gives it as it is stored.
    pub(crate) async fn create(&mut self, collection: &str, object: &Value) -> Value {
        let status = self.request("POST", collection, &object.to_string()).await;
        assert_eq!(status, 201, "POST {collection}: {}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Changes an object by a strategic merge patch.
    pub(crate) async fn patch(&mut self, path: &str, patch: &str) {
        let status = self.request_as("PATCH", path, "application/strategic-merge-patch+json", patch).await;
        assert_eq!(status, 200, "PATCH {path}: {}", String::from_utf8_lossy(&self.body));
    }

    /// Reads an object or a list.
    pub(crate) async fn get(&mut self, path: &str) -> Value {
        let status = self.request("GET", path, "").await;
        assert_eq!(status, 200, "GET {path}: {}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asks again and again until there is an answer.
    pub(crate) async fn until_found(&mut self, path: &str) {
        while self.request("GET", path, "").await != 200 {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends a request and reads the whole answer; gives its status.
    pub(crate) async fn request(&mut self, method: &str, path: &str, body: &str) -> u16 {
        self.request_as(method, path, "application/json", body).await
    }

    pub(crate) async fn request_as(&mut self, method: &str, path: &str, content_type: &str, body: &str) -> u16 {
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
        self.answer().await
    }

    async fn answer(&mut self) -> u16 {
        let status_line = self.line().await;
        let status = status_line.split(' ').nth(1).unwrap().parse().unwrap();
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line().await;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
            chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        self.body.clear();
        if chunked {
            self.read_chunks().await;
        } else {
            self.body.resize(length, 0);
            self.stream.read_exact(&mut self.body).await.unwrap();
        }
        status
    }

    async fn read_chunks(&mut self) {
        loop {
            let size = usize::from_str_radix(&self.line().await, 16).unwrap();
            let start = self.body.len();
            self.body.resize(start + size, 0);
            self.stream.read_exact(&mut self.body[start..]).await.unwrap();
            assert_eq!(self.line().await, "");
            if size == 0 {
                return;
            }
        }
    }

    async fn line(&mut self) -> String {
        use tokio::io::AsyncBufReadExt;
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }
}
