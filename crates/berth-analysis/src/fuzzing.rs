//! For the fuzz target: what of this crate reads bytes of others.

use crate::{
    answer, client,
    config::{Found, Kind},
    files::Contents,
};
use berth_workloads::analysis::{Answer, NoAnswer};
use http::Request;
use http_body_util::Full;
use std::path::Path;
use tokio::io::{AsyncRead, join, sink};

fn kind(is_webhook: bool) -> Kind {
    if is_webhook { Kind::Webhook } else { Kind::Prometheus }
}

/// What becomes of a body.
///
/// # Errors
/// A word.
pub fn body(is_webhook: bool, body: &[u8]) -> Result<Answer, NoAnswer> {
    answer::read(kind(is_webhook), body)
}

/// What becomes of all that a connection brings, head and body.
///
/// # Errors
/// A word.
pub async fn connection(is_webhook: bool, brought: impl AsyncRead + Unpin) -> Result<Answer, NoAnswer> {
    let request = Request::post("/").body(Full::default()).map_err(|_| NoAnswer::Unreachable)?;
    let body = client::exchange(join(brought, sink()), request).await?;
    answer::read(kind(is_webhook), &body)
}

/// How many providers an administrator's file has where each file that it names has these contents.
///
/// # Errors
/// What is wrong with it, as it is told.
pub fn providers(text: &str, named: &[u8]) -> Result<usize, String> {
    let path = Path::new("/providers.yaml");
    let found = Found::new(path, Ok(text.to_owned()), |path| Contents::new(path, Ok(named.to_vec())));
    found.providers().map(|known| known.len()).map_err(|error| error.to_string())
}
