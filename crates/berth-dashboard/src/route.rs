//! Routes requests. After [`guard`](crate::guard), a request without a session gets the sign-in page, and others get
//! their pages.

use crate::{
    act::Verb,
    address::{self, below, plain},
    board::Rank,
    cluster_cache::{ClusterCache, lock},
    guard::{self, HEADERS, Refused, ServerAddress},
    pages::{self, Page, Reader},
    session::{BASE_START, Session, Sessions, is_same},
    stream,
};
use berth_http::{Body, Open, Owner, Piece};
use berth_workloads::workload::WorkloadId;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, SET_COOKIE},
};
use jiff::SignedDuration;
use std::{collections::BTreeMap, sync::Mutex, time::Duration};
use tokio::time::timeout;

/// The largest form, in bytes.
const FORM_BYTES_MAX: usize = 16 << 10;
/// How long signing in waits for the first reading of the cluster.
const FIRST_READING_MAX: SignedDuration = SignedDuration::from_secs(2);
/// The owner of the connections of all sessions, which share one limit.
const READER: &str = "reader";
/// The maximum time to receive a form.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// The first page after signing in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPage {
    /// All workloads.
    Workloads,
    /// The workload that needs attention most, or all workloads if each is complete.
    UnderWay,
}

/// The context of all responses.
pub(crate) struct DashboardContext {
    pub(crate) cluster_cache: std::sync::Arc<ClusterCache>,
    pub(crate) address: ServerAddress,
    /// The cluster, and the user that the dashboard is connected as.
    pub(crate) title: String,
    /// `http://127.0.0.1:7777`.
    pub(crate) root: String,
    pub(crate) first: FirstPage,
    pub(crate) print_link: Box<dyn Fn(&str) + Send + Sync>,
    pub(crate) sessions: Mutex<Sessions>,
}

/// The content of a response before it is sent.
pub(crate) enum Content {
    /// A page or another text.
    Text(Bytes),
    /// A stream of changes.
    Events(BoxStream<'static, Bytes>),
}

pub(crate) type Answer = Response<Content>;

impl Content {
    /// Converts the content to a body. The request counts as open until the body is sent.
    pub(crate) fn into_body(self, open: Open) -> Body {
        match self {
            Self::Text(text) => Body::whole(Some(Piece::uncounted(text)), Some(open)),
            Self::Events(events) => {
                let frames = events.map(|event| Ok(Frame::data(Piece::uncounted(event))));
                Body::pieces(Box::pin(StreamBody::new(frames)), open)
            }
        }
    }
}

impl DashboardContext {
    pub(crate) fn link(&self) -> String {
        let env = &self.cluster_cache.env;
        self.address_of(&lock(&self.sessions).link(&*env.rng, env.clock.now()))
    }

    /// Ends all sessions, and with them their open streams.
    pub(crate) fn close(&self) {
        lock(&self.sessions).end_all();
        self.cluster_cache.notify();
    }

    /// Returns the first page after signing in without a requested page.
    async fn first_page(&self) -> String {
        if self.first == FirstPage::UnderWay {
            self.cluster_cache.wait_for_first_reading(FIRST_READING_MAX).await;
            let board = self.cluster_cache.board();
            if let Some((id, _)) = board.by_attention().first().filter(|(_, card)| card.rank != Rank::Complete) {
                return address::path(id);
            }
        }
        "/".to_owned()
    }

    fn address_of(&self, token: &str) -> String {
        format!("{}/sign-in?token={token}", self.root)
    }
}

/// Responds to a request.
pub(crate) async fn answer(context: &DashboardContext, slot: &berth_http::ConnectionSlot, request: Request<Incoming>) -> Answer {
    let mut answer = match context.address.check(request.method(), request.headers()) {
        Ok(()) => served(context, slot, request).await,
        Err(refused) => text(refused.code(), refused.text()),
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

/// Splits a path into the path of a session, if any, and the rest: `/~…` and `/nodes`.
fn split_base(path: &str) -> (&str, &str) {
    if !path.starts_with(BASE_START) {
        return ("", path);
    }
    let end = path[1..].find('/').map_or(path.len(), |end| end + 1);
    let (base, rest) = path.split_at(end);
    (base, if rest.is_empty() { "/" } else { rest })
}

/// A session that sent a request.
struct SignedIn {
    session: Session,
    cookie: String,
    /// The path prefix for the links of the response.
    base: String,
}

/// Returns the session of the request, if any. Below the path of a session, only that session is valid.
fn signed_in(context: &DashboardContext, request: &Request<Incoming>) -> Option<SignedIn> {
    let now = context.cluster_cache.env.clock.now();
    let (base, _) = split_base(request.uri().path());
    let mut sessions = lock(&context.sessions);
    context.address.session_cookies(request.headers()).into_iter().find_map(|cookie| {
        let session = sessions.find(cookie, now).filter(|session| base.is_empty() || is_same(base, &session.base))?;
        Some(SignedIn { session, cookie: cookie.to_owned(), base: base.to_owned() })
    })
}

async fn served(context: &DashboardContext, slot: &berth_http::ConnectionSlot, request: Request<Incoming>) -> Answer {
    let path = split_base(request.uri().path()).1.to_owned();
    match path.as_str() {
        "/style.css" => return file("text/css; charset=utf-8", pages::style()),
        "/live.js" => return file("text/javascript; charset=utf-8", pages::SCRIPT.to_owned()),
        "/sign-in" => return sign_in(context, request).await,
        _ => (),
    }
    let Some(reader) = signed_in(context, &request) else { return stranger(&request, &path) };
    // A reader above the limit keeps the slot of an anonymous client.
    let _ = slot.belongs_to(Owner::Known(READER));
    if *request.method() == Method::POST {
        return changed(context, request, &path, &reader).await;
    }
    let query = request.uri().query().unwrap_or_default();
    if path == "/stream" {
        return opened(context, &request, &reader);
    }
    let (by, base) = (Reader { title: &context.title, form_token: &reader.session.form_token }, reader.base.as_str());
    let said = pairs(query.as_bytes());
    if let Some((id, verb)) = action(&path) {
        let prepared = context.cluster_cache.prepare(&id, verb, &said).await;
        let code = if prepared.is_ok() { StatusCode::OK } else { StatusCode::CONFLICT };
        return html(code, &below(base, &pages::question::page(by, &id, verb, &said, &prepared)));
    }
    let Some(page) = Page::parse(&path, query) else { return missing(context, &reader, None) };
    let done = said.get("done").and_then(|word| Verb::parse(word));
    match pages::whole(&context.cluster_cache, &page, by, done) {
        Some(page) => html(StatusCode::OK, &below(base, &page)),
        None => missing(context, &reader, Some(&page)),
    }
}

fn missing(context: &DashboardContext, reader: &SignedIn, page: Option<&Page>) -> Answer {
    let by = Reader { title: &context.title, form_token: &reader.session.form_token };
    html(StatusCode::NOT_FOUND, &below(&reader.base, &pages::missing(by, page)))
}

/// Responds to a request without a session: a page redirects to the sign-in page, other requests fail.
fn stranger(request: &Request<Incoming>, path: &str) -> Answer {
    let wants_page = *request.method() != Method::POST && path != "/stream";
    if !wants_page {
        return text(StatusCode::UNAUTHORIZED, "sign in first\n");
    }
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    to(&format!("/sign-in?next={}", plain(&format!("{path}{query}"))))
}

/// Signs in with the token of a link, or with a token that the user typed.
async fn sign_in(context: &DashboardContext, request: Request<Incoming>) -> Answer {
    let is_from_elsewhere = guard::comes_from_elsewhere(request.headers());
    let query = pairs(request.uri().query().unwrap_or_default().as_bytes());
    let env = &context.cluster_cache.env;
    let now = env.clock.now();
    if *request.method() == Method::POST {
        let Some(form) = form(request).await else { return text(StatusCode::BAD_REQUEST, "this form is not valid\n") };
        let next = own_path(form.get("next"));
        if form.contains_key("ask") {
            let token = lock(&context.sessions).another_link(&*env.rng, now);
            token.iter().for_each(|token| (context.print_link)(&context.address_of(token)));
            return html(StatusCode::OK, &pages::sign_in(&next, pages::SignIn::LinkPrinted));
        }
        let token = form.get("token").map(|token| token.trim()).unwrap_or_default();
        // The user may paste the whole link.
        let token = token.rsplit_once("token=").map_or(token, |(_, token)| token);
        return enter(context, token, &next).await;
    }
    let next = own_path(query.get("next"));
    if let Some(token) = query.get("token") {
        return enter(context, token, &next).await;
    }
    if let Some(reader) = signed_in(context, &request) {
        return to(&format!("{}{next}", reader.base));
    }
    // A browser omits the cookie if the user followed a link of another site. It sends the cookie when this page
    // repeats the request.
    let state = if is_from_elsewhere && !query.contains_key("again") { pages::SignIn::Again } else { pages::SignIn::Asked };
    html(StatusCode::OK, &pages::sign_in(&next, state))
}

async fn enter(context: &DashboardContext, token: &str, next: &str) -> Answer {
    let env = &context.cluster_cache.env;
    let opened = lock(&context.sessions).open(token, &*env.rng, env.clock.now());
    match opened {
        Some((cookie, base)) => {
            context.cluster_cache.begin();
            let next = if next == "/" { context.first_page().await } else { next.to_owned() };
            let mut answer = to(&format!("{base}{next}"));
            answer.headers_mut().insert(SET_COOKIE, context.address.set_cookie(&cookie, &base));
            answer
        }
        None => html(StatusCode::FORBIDDEN, &pages::sign_in(next, pages::SignIn::Refused)),
    }
}

/// Returns the page to open after signing in: a local path that no browser interprets as another host.
fn own_path(next: Option<&String>) -> String {
    let is_own = |next: &&String| {
        next.starts_with('/')
            && !next.starts_with("//")
            && !next.starts_with("/sign-in")
            && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    next.filter(is_own).map_or_else(|| "/".to_owned(), String::clone)
}

/// Handles requests with a side effect.
async fn changed(context: &DashboardContext, request: Request<Incoming>, path: &str, reader: &SignedIn) -> Answer {
    let SignedIn { session, cookie, base } = reader;
    let Some(form) = form(request).await else { return text(StatusCode::BAD_REQUEST, "this form is not valid\n") };
    if let Err(refused) = guard::check_form(session, form.get("form-token").map(String::as_str)) {
        return text(refused.code(), Refused::text(refused));
    }
    if path == "/sign-out" {
        lock(&context.sessions).end(cookie);
        // The session's streams end when they wake up.
        context.cluster_cache.notify();
        let mut answer = to("/sign-in");
        answer.headers_mut().insert(SET_COOKIE, context.address.set_cookie("", &session.base));
        return answer;
    }
    let Some((id, verb)) = action(path) else { return missing(context, reader, None) };
    match context.cluster_cache.execute(&id, verb, &form).await {
        Ok(()) => {
            tracing::info!(workload = %id.title(), namespace = %id.namespace, verb = verb.word(), "done from the page");
            to(&format!("{base}{}?done={}", address::path(&id), verb.word()))
        }
        Err(refusal) => {
            let by = Reader { title: &context.title, form_token: &session.form_token };
            html(StatusCode::CONFLICT, &below(base, &pages::question::page(by, &id, verb, &form, &Err(refusal))))
        }
    }
}

/// Parses an action and its workload: `/ns/shop/deployments/web/undo`.
fn action(path: &str) -> Option<(WorkloadId, Verb)> {
    let (workload, verb) = path.rsplit_once('/')?;
    match Page::parse(workload, "")? {
        Page::Workload { id, .. } => Some((id, Verb::parse(verb)?)),
        _ => None,
    }
}

/// Opens the stream of changes of a page.
fn opened(context: &DashboardContext, request: &Request<Incoming>, reader: &SignedIn) -> Answer {
    let query = pairs(request.uri().query().unwrap_or_default().as_bytes());
    let (path, rest) = query.get("page").map(|page| page.split_once('?').unwrap_or((page, ""))).unwrap_or_default();
    let Some(page) = Page::parse(path, rest) else { return text(StatusCode::NOT_FOUND, "there is no such page\n") };
    let Some(place) = reader.session.stream() else { return text(StatusCode::TOO_MANY_REQUESTS, "too many streams are open\n") };
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    let seen = last.or(query.get("seen").map(String::as_str)).unwrap_or_default();
    let events = stream::events(std::sync::Arc::clone(&context.cluster_cache), (page, &reader.base), seen, place);
    let mut answer = Response::new(Content::Events(events));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

async fn form(request: Request<Incoming>) -> Option<BTreeMap<String, String>> {
    let is_form = request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if !is_form {
        return None;
    }
    let body = timeout(FORM_TIMEOUT, Limited::new(request.into_body(), FORM_BYTES_MAX).collect()).await.ok()?.ok()?;
    Some(pairs(&body.to_bytes()))
}

/// Parses a form. The first value of a duplicate key wins.
fn pairs(text: &[u8]) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    for (key, value) in form_urlencoded::parse(text) {
        pairs.entry(key.into_owned()).or_insert_with(|| value.into_owned());
    }
    pairs
}

fn file(kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Content::Text(text.into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn html(code: StatusCode, page: &str) -> Answer {
    let mut answer = file("text/html; charset=utf-8", page.to_owned());
    *answer.status_mut() = code;
    answer
}

fn text(code: StatusCode, text: &'static str) -> Answer {
    let mut answer = file("text/plain; charset=utf-8", text.to_owned());
    *answer.status_mut() = code;
    answer
}

/// Redirects the browser with a GET. `path` must be ASCII without blanks.
fn to(path: &str) -> Answer {
    let mut answer = text(StatusCode::SEE_OTHER, "");
    answer.headers_mut().insert(LOCATION, HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/")));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_session_is_split_off() {
        for (path, split) in [
            ("/nodes", ("", "/nodes")),
            ("/~a/nodes", ("/~a", "/nodes")),
            ("/~a/", ("/~a", "/")),
            ("/~a", ("/~a", "/")),
            ("/~a//evil.example", ("/~a", "//evil.example")),
        ] {
            assert_eq!(split_base(path), split, "{path}");
        }
    }

    #[test]
    fn one_goes_on_only_to_a_page_of_ours() {
        for path in ["/", "/ns/shop/deployments/web?pods=2"] {
            assert_eq!(own_path(Some(&path.to_owned())), path);
        }
        for path in ["//evil.example", "https://evil.example", "/\\evil.example", "", "evil", "/a\r\nset-cookie: b", "/sign-in?next=/"] {
            assert_eq!(own_path(Some(&path.to_owned())), "/", "{path:?}");
        }
        assert_eq!(own_path(None), "/");
    }
}
