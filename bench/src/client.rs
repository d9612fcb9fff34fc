//! The cheapest HTTP/1.1 client that is still honest: one TLS connection, one request at a time, bodies read to their end. The machine is
//! shared with the server, so what the client does not do the server can.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) struct Connection {
    stream: BufReader<TlsStream<TcpStream>>,
    /// The body of the last answer.
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(port: u16, tls: &TlsConnector) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let stream = tls.connect("127.0.0.1".try_into().unwrap(), socket).await.unwrap();
        Self { stream: BufReader::with_capacity(64 << 10, stream), body: Vec::new() }
    }

    /// Sends a request and reads the whole answer; gives its status.
    pub(crate) async fn request(&mut self, method: &str, path: &str, body: &str) -> u16 {
        self.request_as(method, path, "application/json", body).await
    }

    pub(crate) async fn request_as(&mut self, method: &str, path: &str, content_type: &str, body: &str) -> u16 {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: berth\r\nAccept: application/json\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
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
