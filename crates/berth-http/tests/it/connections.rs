//! What connections may take.

use crate::common::{LIMITS, start};
use berth_http::Limits;
use std::time::Duration;

#[tokio::test]
async fn newcomers_replace_strangers_and_not_known_users() {
    let server = start(LIMITS).await;
    let mut alice = server.connect().await;
    assert_eq!(alice.get("/alice").await.as_deref(), Some("/alice"));
    let mut strangers = Vec::new();
    for _ in 0..LIMITS.strangers + 2 {
        let mut stranger = server.connect().await;
        assert_eq!(stranger.get("/").await.as_deref(), Some("/"));
        strangers.push(stranger);
    }
    let (first, rest) = strangers.split_at_mut(2);
    for stranger in first {
        assert_eq!(stranger.rest().await, "", "the oldest have given way");
    }
    for client in rest.iter_mut().chain([&mut alice]) {
        assert!(client.get("/").await.is_some());
    }
}

#[tokio::test]
async fn a_user_has_so_many_connections() {
    let server = start(LIMITS).await;
    let mut clients = Vec::new();
    for at in 0..=LIMITS.per_owner {
        let mut client = server.connect().await;
        let expected = if at < LIMITS.per_owner { "/alice" } else { "too many" };
        assert_eq!(client.get("/alice").await.as_deref(), Some(expected));
        clients.push(client);
    }
    let mut bob = server.connect().await;
    assert_eq!(bob.get("/bob").await.as_deref(), Some("/bob"));
}

#[tokio::test]
async fn a_head_that_is_too_large_or_does_not_come_ends_the_connection() {
    let server = start(Limits { head_timeout: Duration::from_millis(100), ..LIMITS }).await;
    let large = format!("x: {}\r\n", "x".repeat(9 << 10));
    for (headers, begins) in [("a: b\r\n".repeat(8), "HTTP/1.1 200 "), ("a: b\r\n".repeat(9), "HTTP/1.1 431 "), (large, "HTTP/1.1 431 ")] {
        let mut client = server.connect().await;
        client.send(&format!("GET / HTTP/1.1\r\n{headers}\r\n")).await;
        let rest = client.rest().await;
        assert!(rest.starts_with(begins), "{begins}: {rest}");
    }
    let mut half = server.connect().await;
    half.send("GET / HTTP/1.1\r\n").await;
    assert!(!half.rest().await.contains("200"));
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_after_a_while() {
    let server = start(Limits { idle_timeout: Duration::from_millis(50), ..LIMITS }).await;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/alice").await.as_deref(), Some("/alice"));
    assert_eq!(idle.rest().await, "");
    // One whose request waits has one.
    let mut busy = server.connect().await;
    busy.send("GET /alice/waits HTTP/1.1\r\nhost: here\r\n\r\n").await;
    server.echo.waiting.acquire().await.expect("it is never closed").forget();
    let mut second = server.connect().await;
    assert_eq!(second.get("/").await.as_deref(), Some("/"));
    assert_eq!(second.rest().await, "", "it is idle later than the other's request came");
    server.echo.answers.add_permits(1);
    assert_eq!(busy.answer().await.as_deref(), Some("/alice/waits"), "it had a request");
}
