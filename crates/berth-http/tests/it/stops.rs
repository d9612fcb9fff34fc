//! An orderly end.

use crate::common::{Client, LIMITS, PATIENCE, start};
use berth_http::Limits;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::{net::TcpStream, time::timeout};

#[tokio::test]
async fn a_request_that_is_being_answered_is_answered_and_no_other_client_is_waited_for() {
    let server = start(LIMITS).await;
    let silent = server.connect().await;
    let mut half = server.connect().await;
    half.send("GET / HTTP/1.1\r\nhost:").await;
    let mut alice = server.connect().await;
    alice.send("GET /alice/waits HTTP/1.1\r\nhost: here\r\n\r\n").await;
    server.echo.waiting.acquire().await.expect("it is never closed").forget();

    assert!(!server.echo.is_stopped.load(Ordering::SeqCst));
    server.stop.send(()).expect("it serves");
    // Strangers are gone, and so is the listener, while she waits.
    for mut stranger in [silent, half] {
        assert_eq!(stranger.rest().await, "");
    }
    assert!(server.echo.is_stopped.load(Ordering::SeqCst));
    assert!(TcpStream::connect(server.address).await.is_err(), "the server does not listen any more");
    let later = timeout(Duration::from_secs(2), alice.answer()).await;
    assert!(later.is_err(), "she may wait longer than it takes to be rid of strangers: {later:?}");
    server.echo.answers.add_permits(1);
    assert_eq!(alice.answer().await.as_deref(), Some("/alice/waits"));
    assert_eq!(alice.rest().await, "", "no further request is taken");
    timeout(PATIENCE, server.serving).await.expect("an end").expect("no panic");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_cut() {
    let server = start(Limits { drain_timeout: Duration::from_millis(100), ..LIMITS }).await;
    let mut alice = server.connect().await;
    alice.send("GET /alice/waits HTTP/1.1\r\nhost: here\r\n\r\n").await;
    server.echo.waiting.acquire().await.expect("it is never closed").forget();
    let begun = Instant::now();
    server.stop.send(()).expect("it serves");
    timeout(PATIENCE, server.serving).await.expect("an end").expect("no panic");
    assert!(Duration::from_millis(100) <= begun.elapsed());
    assert_eq!(Client::rest(&mut alice).await, "");
}
