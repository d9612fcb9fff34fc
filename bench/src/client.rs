//! The cheapest HTTP/1.1 client that is still honest: one TLS connection, one request at a time, bodies read to their end. The machine is
//! shared with the server, so what the client does not do the server can.

use serde_json::Value;
use std::{io, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
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
        Self::try_open(endpoint).await.unwrap()
    }

    /// The same where the server may be gone.
    pub(crate) async fn try_open(endpoint: &Endpoint) -> io::Result<Self> {
        let socket = TcpStream::connect(&endpoint.address).await?;
        socket.set_nodelay(true)?;
        let stream = endpoint.tls.connect("127.0.0.1".try_into().unwrap(), socket).await?;
        let token = endpoint.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!("Host: {}\r\nAccept: application/json\r\n{token}", endpoint.address);
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream), head, body: Vec::new() })
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
        self.try_request_as(method, path, content_type, body).await.unwrap()
    }

    /// The same where the server may be gone: then the outcome of the request is unknown.
    pub(crate) async fn try_request_as(&mut self, method: &str, path: &str, content_type: &str, body: &str) -> io::Result<u16> {
        self.send(method, path, content_type, body).await?;
        self.answer().await
    }

    /// Sends a request, whose answer is to be read next.
    pub(crate) async fn send(&mut self, method: &str, path: &str, content_type: &str, body: &str) -> io::Result<()> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.flush().await
    }

    /// Reads the whole answer to what was sent; gives its status.
    pub(crate) async fn answer(&mut self) -> io::Result<u16> {
        let (status, length) = self.begin_answer().await?;
        self.read_body(length).await?;
        Ok(status)
    }

    /// Begins to read a collection's changes; gives the status. Where it is 200, they follow, a line each.
    pub(crate) async fn watch(&mut self, path: &str) -> io::Result<u16> {
        self.send("GET", path, "application/json", "").await?;
        let (status, length) = self.begin_answer().await?;
        if status != 200 {
            self.read_body(length).await?;
        }
        Ok(status)
    }

    /// The next line of what [`Connection::watch`] has begun; `None` at its end.
    pub(crate) async fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.body.iter().position(|byte| *byte == b'\n') {
                let rest = self.body.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.body, rest)));
            }
            if !self.read_chunk().await? {
                return Ok(None);
            }
        }
    }

    async fn read_body(&mut self, length: Length) -> io::Result<()> {
        match length {
            Length::Known(length) => {
                self.body.resize(length, 0);
                self.stream.read_exact(&mut self.body).await?;
            }
            Length::Chunked => while self.read_chunk().await? {},
        }
        Ok(())
    }

    /// Reads the head of an answer.
    async fn begin_answer(&mut self) -> io::Result<(u16, Length)> {
        self.body.clear();
        let status = self.line().await?.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        let mut length = Length::Known(0);
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { return Ok((status, length)) };
            if name.eq_ignore_ascii_case("content-length") {
                length = Length::Known(value.trim().parse().map_err(io::Error::other)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = Length::Chunked;
            }
        }
    }

    /// Adds the next piece to the body; false at its end.
    async fn read_chunk(&mut self) -> io::Result<bool> {
        let size = usize::from_str_radix(&self.line().await?, 16).map_err(io::Error::other)?;
        let start = self.body.len();
        self.body.resize(start + size, 0);
        self.stream.read_exact(&mut self.body[start..]).await?;
        let end = self.line().await?;
        if end.is_empty() { Ok(0 < size) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// How an answer marks its end.
enum Length {
    /// In bytes.
    Known(usize),
    Chunked,
}
