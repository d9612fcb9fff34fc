//! Fetches manifests from the web, as kubectl does.

use futures::TryFutureExt;
use http::{Request, Response, StatusCode, Uri, header::LOCATION};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::{Client, Config, client::Body};
use std::{error::Error, time::Duration};

/// The number of attempts and the pause between them, for missing answers and server errors. Source: kubectl's `readHttpWithRetries`.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// The timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a manifest. The largest bundles in use have a few MiB.
const BYTES_MAX: usize = 16 << 20;
/// The maximum number of redirects. Source: Go's `http.Client`.
const REDIRECTS_MAX: usize = 10;

/// Why berth has no manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{url} is not a URL")]
    Url { url: String },
    #[error("unable to read URL \"{url}\", server reported {status}, status code={}", status.as_u16())]
    Status { url: String, status: StatusCode },
    #[error("unable to read URL \"{url}\"")]
    Unreachable { url: String, source: Box<dyn Error + Send + Sync> },
    #[error("unable to read URL \"{url}\": no answer within {} s", TIMEOUT.as_secs())]
    Late { url: String },
    #[error("unable to read URL \"{url}\": more than {REDIRECTS_MAX} redirects")]
    Redirects { url: String },
    #[error("{url} is larger than {} MiB", BYTES_MAX >> 20)]
    Large { url: String },
    #[error("{url} is not UTF-8 text")]
    Text { url: String },
}

impl FetchError {
    /// Whether another attempt can succeed.
    fn passes(&self) -> bool {
        match self {
            Self::Status { status, .. } => status.is_server_error(),
            Self::Unreachable { .. } | Self::Late { .. } => true,
            Self::Url { .. } | Self::Redirects { .. } | Self::Large { .. } | Self::Text { .. } => false,
        }
    }
}

/// Whether the text is a URL to fetch.
pub(crate) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// Fetches a text.
///
/// # Errors
/// [`FetchError`]: the error of the last attempt.
pub(crate) async fn text(url: &str) -> Result<String, FetchError> {
    attempts(url, PAUSE).await
}

async fn attempts(url: &str, pause: Duration) -> Result<String, FetchError> {
    let mut attempt = 1;
    loop {
        let late = |_| Err(FetchError::Late { url: url.to_owned() });
        match tokio::time::timeout(TIMEOUT, get(url)).await.unwrap_or_else(late) {
            Err(error) if error.passes() && attempt < ATTEMPTS => tokio::time::sleep(pause).await,
            ended => return ended,
        }
        attempt += 1;
    }
}

async fn get(url: &str) -> Result<String, FetchError> {
    let mut place: Uri = parse(url)?;
    for _ in 0..=REDIRECTS_MAX {
        let answer = send(&place).map_err(|source| FetchError::Unreachable { url: url.to_owned(), source }).await?;
        match (answer.status(), target(&place, &answer)) {
            (StatusCode::OK, _) => return read(url, answer).await,
            (status, Some(next)) if status.is_redirection() => place = next,
            (status, _) => return Err(FetchError::Status { url: url.to_owned(), status }),
        }
    }
    Err(FetchError::Redirects { url: url.to_owned() })
}

fn parse(url: &str) -> Result<Uri, FetchError> {
    let parsed = url.parse::<Uri>().ok().filter(|uri| uri.authority().is_some());
    parsed.ok_or_else(|| FetchError::Url { url: url.to_owned() })
}

/// Uses kube's client, so that berth has a single TLS library with the system's root certificates.
async fn send(place: &Uri) -> Result<Response<Body>, Box<dyn Error + Send + Sync>> {
    let mut base = place.clone().into_parts();
    let path = base.path_and_query.replace("/".parse()?).map_or_else(|| "/".to_owned(), |path| path.to_string());
    let mut config = Config::new(Uri::from_parts(base)?);
    // kube's retries would exceed the timeout of an attempt, and would report that instead of the server's answer.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    Ok(client.send(Request::get(path).body(Body::empty())?).await?)
}

/// The target of a redirect: a complete URL, or a path on the same server.
fn target(from: &Uri, answer: &Response<Body>) -> Option<Uri> {
    let location = answer.headers().get(LOCATION)?.to_str().ok()?;
    if is_url(location) {
        return location.parse().ok();
    }
    let path = location.starts_with('/').then(|| location.parse().ok())??;
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

async fn read(url: &str, answer: Response<Body>) -> Result<String, FetchError> {
    let failed = |source: Box<dyn Error + Send + Sync>| match source.is::<LengthLimitError>() {
        true => FetchError::Large { url: url.to_owned() },
        false => FetchError::Unreachable { url: url.to_owned(), source },
    };
    let bytes = Limited::new(answer.into_body(), BYTES_MAX).collect().await.map_err(failed)?.to_bytes();
    String::from_utf8(bytes.into()).map_err(|_| FetchError::Text { url: url.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        sync::{Arc, Mutex},
        thread,
    };

    type Asked = Arc<Mutex<Vec<String>>>;

    /// A server that gives each answer once, and the last one indefinitely. Also returns the requested paths.
    fn serve(answers: Vec<Vec<u8>>) -> (String, Asked) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (address, asked) = (listener.local_addr().expect("bound"), Asked::default());
        let paths = Arc::clone(&asked);
        thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let mut connection = connection.expect("a connection");
                let head: Vec<String> =
                    BufReader::new(&connection).lines().map(|line| line.expect("a line")).take_while(|line| !line.is_empty()).collect();
                paths.lock().expect("no holder panics").push(head[0].split(' ').nth(1).unwrap_or_default().to_owned());
                // A client that has read enough closes the connection.
                let _ = connection.write_all(answers.get(number).or(answers.last()).expect("an answer"));
            }
        });
        (format!("http://{address}/a.yaml"), asked)
    }

    fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    fn good() -> Vec<u8> {
        answer("200 OK", "", b"kind: A")
    }

    /// Checks the result, and the requested paths. `URL` is a placeholder for the address.
    #[track_caller]
    fn check(answers: Vec<Vec<u8>>, expected: Result<&str, &str>, paths: &[&str]) {
        let (url, asked) = serve(answers);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let got = runtime.block_on(attempts(&url, Duration::ZERO)).map_err(|error| error.to_string().replace(&url, "URL"));
        assert_eq!(got.as_deref().map_err(String::as_str), expected);
        assert_eq!(*asked.lock().expect("no holder panics"), paths);
    }

    #[test]
    fn servers_own_faults_are_tried_again_and_nothing_else() {
        let unavailable = || answer("503 Service Unavailable", "", b"");
        check(vec![unavailable(), Vec::new(), good()], Ok("kind: A"), &["/a.yaml"; 3]);
        let told = "unable to read URL \"URL\", server reported 503 Service Unavailable, status code=503";
        check(vec![unavailable()], Err(told), &["/a.yaml"; 3]);
        check(vec![Vec::new()], Err("unable to read URL \"URL\""), &["/a.yaml"; 3]);
        let told = "unable to read URL \"URL\", server reported 404 Not Found, status code=404";
        check(vec![answer("404 Not Found", "", b""), good()], Err(told), &["/a.yaml"]);
    }

    #[test]
    fn redirects_are_followed_up_to_a_limit() {
        let moved = || answer("302 Found", "Location: /b.yaml\r\n", b"");
        check(vec![moved(), good()], Ok("kind: A"), &["/a.yaml", "/b.yaml"]);
        let paths: Vec<&str> = ["/a.yaml"].into_iter().chain(["/b.yaml"; REDIRECTS_MAX]).collect();
        check(vec![moved()], Err("unable to read URL \"URL\": more than 10 redirects"), &paths);
    }

    #[test]
    fn what_is_too_large_or_no_text_is_refused_at_once() {
        check(vec![answer("200 OK", "", &vec![b'a'; BYTES_MAX])], Ok(&"a".repeat(BYTES_MAX)), &["/a.yaml"]);
        check(vec![answer("200 OK", "", &vec![b'a'; BYTES_MAX + 1])], Err("URL is larger than 16 MiB"), &["/a.yaml"]);
        check(vec![answer("200 OK", "", b"kind: \xff")], Err("URL is not UTF-8 text"), &["/a.yaml"]);
    }
}
