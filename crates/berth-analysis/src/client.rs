//! One attempt: a separate connection to a checked address, for one answer.

use crate::{
    answer,
    config::{Kind, Provider},
};
use berth_workloads::analysis::{Answer, NoAnswer, Question};
use bytes::Bytes;
use futures::{
    future::{Either, select},
    pin_mut,
};
use http::{
    Request, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    task::spawn_blocking,
};
use tokio_rustls::TlsConnector;

/// The maximum length of an answer in bytes. Its headers may have about as many.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How many addresses of one name are tried.
const ADDRESSES_MAX: usize = 4;

/// Asks once, without a timeout: the caller limits the time.
pub(crate) async fn ask(provider: &Provider, question: &Question) -> Result<Answer, NoAnswer> {
    let request = request(provider, question)?;
    let tls = if provider.is_https { Some(tls(provider).await?) } else { None };
    let stream = connect(provider).await?;
    let body = match tls {
        None => exchange(stream, request).await?,
        Some(tls) => {
            let name = ServerName::try_from(provider.host.clone()).map_err(|_| NoAnswer::BadCertificate)?;
            exchange(tls.connect(name, stream).await.map_err(|error| of_tls(&error))?, request).await?
        }
    };
    answer::read(provider.kind, &body)
}

fn request(provider: &Provider, question: &Question) -> Result<Request<Full<Bytes>>, NoAnswer> {
    let (content_type, body) = match provider.kind {
        Kind::Prometheus => ("application/x-www-form-urlencoded", form(&question.query)),
        Kind::Webhook => ("application/json", document(question)),
    };
    let request = Request::post(provider.path.as_str())
        .header(HOST, provider.authority.as_str())
        .header(USER_AGENT, "berth-analysis")
        .header(ACCEPT, "application/json")
        .header(ACCEPT_ENCODING, "identity")
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, content_type);
    let request = provider.authorization.iter().fold(request, |request, value| request.header(AUTHORIZATION, value));
    request.body(Full::from(body)).map_err(|_| NoAnswer::Unreachable)
}

fn form(query: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("query", query).append_pair("timeout", "4s").finish()
}

fn document(question: &Question) -> String {
    let Question { query, namespace, deployment, revision, template_hash, step, .. } = question;
    serde_json::json!({
        "namespace": namespace, "deployment": deployment, "revision": revision, "templateHash": template_hash, "step": step, "query": query,
    })
    .to_string()
}

async fn tls(provider: &Provider) -> Result<TlsConnector, NoAnswer> {
    let roots = match &provider.roots {
        Some(roots) => Arc::clone(roots),
        // The roots are in more than a hundred files. Reading and parsing them must not block a thread that other tasks need.
        None => spawn_blocking(native_roots).await.map_err(|_| NoAnswer::BadCertificate)?.into(),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| NoAnswer::BadCertificate)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The certificate authorities that this machine trusts, without those that cannot be parsed.
fn native_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Resolves the name and connects to a permitted address: to exactly the checked one, whatever the name resolves to later.
async fn connect(provider: &Provider) -> Result<TcpStream, NoAnswer> {
    let found = lookup_host((provider.host.as_str(), provider.port)).await.map_err(|_| NoAnswer::Unreachable)?;
    let (allowed, refused): (Vec<SocketAddr>, Vec<SocketAddr>) = found.partition(|address| provider.allows(address.ip()));
    if allowed.is_empty() && !refused.is_empty() {
        return Err(NoAnswer::AddressRefused);
    }
    for address in allowed.into_iter().take(ADDRESSES_MAX) {
        if let Ok(stream) = TcpStream::connect(address).await {
            return Ok(stream);
        }
    }
    Err(NoAnswer::Unreachable)
}

/// Sends the request and reads the answer's body. The connection ends with this future, whatever the result.
pub(crate) async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin, request: Request<Full<Bytes>>) -> Result<Bytes, NoAnswer> {
    let mut connecting = http1::Builder::new();
    let (mut sender, connection) =
        connecting.max_buf_size(ANSWER_BYTES_MAX).handshake(TokioIo::new(stream)).await.map_err(|error| of_http(&error))?;
    let asked = async move {
        let response = sender.send_request(request).await.map_err(|error| of_http(&error))?;
        match response.status() {
            status if status.is_redirection() => Err(NoAnswer::Redirected),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(NoAnswer::BadCredentials),
            status if !status.is_success() => Err(NoAnswer::ErrorStatus),
            _ => {
                let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
                Ok(body.map_err(|error| if error.is::<LengthLimitError>() { NoAnswer::TooLong } else { NoAnswer::Unreachable })?.to_bytes())
            }
        }
    };
    pin_mut!(asked, connection);
    match select(asked, connection).await {
        Either::Left((answered, _)) => answered,
        Either::Right((_, asked)) => asked.await,
    }
}

fn of_http(error: &hyper::Error) -> NoAnswer {
    if error.is_parse_too_large() { NoAnswer::TooLong } else { NoAnswer::Unreachable }
}

fn of_tls(error: &io::Error) -> NoAnswer {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    if of_tls.is_some() { NoAnswer::BadCertificate } else { NoAnswer::Unreachable }
}
