//! From a request to its answer.

mod admission;
mod bodies;
mod documents;
mod logs;
mod objects;
mod reviews;
mod tokens;
mod watches;

#[cfg(feature = "fuzzing")]
pub(crate) use bodies::{apply_to_json, to_json};
pub(crate) use documents::Documents;
#[cfg(feature = "fuzzing")]
pub(crate) use objects::parse_delete_options;

use crate::{
    answer::{self, Answer, Wishes},
    audit::{self, AuditLog, Stage, Watched},
    auth::{Asked, Authenticator, Peer, Unauthorized, User, impersonation::impersonated, resource_verb},
    body::{self, LargeBody, ResponseBody},
    brief::Address,
    decoded::decoded_bytes,
    flow::{Budget, Charge, Flow, Kept, Level, Memory, Seat, Turns},
    health::{self, Readiness},
    limits::{Limits, Quota},
    listening::belongs_to,
    metrics::{Labels, Metrics},
    negotiate,
    path::{self, HealthEndpoint, Route},
    query::Query,
    sending, state_metrics,
    status::Refusal,
    storage_metrics, warnings,
};
use berth_api::tenure::{self, BadTenure, Tenure};
use berth_http::{Body, Open, Origin, Rare};
use berth_rbac::Attributes;
use berth_registry::{Actor, ApiError, Registry, Resources, authorization::forbidden, table::IncludeObject};
use berth_store::env::Rng;
use futures::FutureExt as _;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, HeaderName, HeaderValue, USER_AGENT},
    http::request::Parts,
};
use jiff::Timestamp;
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) authenticator: Authenticator,
    pub(crate) documents: Documents,
    pub(crate) metrics: Metrics,
    pub(crate) prometheus: prometheus::Registry,
    pub(crate) readiness: Readiness,
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) limits: Limits,
    pub(crate) flow: Flow,
    pub(crate) memory: Memory,
    /// What writes take while they are worked on.
    pub(crate) work: Memory,
    pub(crate) heads: Arc<Budget>,
    /// Of open watches.
    pub(crate) selectors: Arc<Budget>,
    pub(crate) turns: Arc<Turns>,
    /// Held by who asks for the metrics: each answer takes as much as all workloads' series.
    pub(crate) scrape: tokio::sync::Mutex<()>,
    /// What the store is called there.
    pub(crate) storage: &'static str,
    /// By [share](User::share).
    pub(crate) watches: Arc<Quota<String>>,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// So much of it is given back, in bytes: it is in the hands of a connection until it is read. Upstream gives all of it.
const AUDIT_ID_BYTES_MAX: usize = 256;
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
pub(crate) const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// One request, read as far as its head.
pub(crate) struct Exchange<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    /// What is served, for all of this request.
    pub(crate) resources: Arc<Resources>,
    origin: &'a Origin,
    audit_id: HeaderValue,
    /// What the audit log will say of it, if it is to say something.
    audited: Mutex<Option<audit::Entry>>,
    /// Known before anything is answered but refusals.
    caller: OnceLock<Caller>,
    /// Known as soon as it is known who asks.
    level: OnceLock<Level>,
    /// Held until it is answered; long answers keep it until they are sent.
    seat: Mutex<Option<Seat>>,
    /// What its head takes, which is kept until it is answered.
    head: Result<Option<Charge>, Refusal>,
    /// What it takes while it is worked on.
    work: Mutex<Kept>,
}

/// Who asks, and the API that answers.
struct Caller {
    user: Arc<User>,
    actor: Actor,
    /// Of a request that writes only while a Lease is held: the API that sees to it. `None`: the API as it is.
    led: Option<Box<Registry>>,
}

impl Exchange<'_> {
    /// Who asks, impersonation included.
    pub(crate) fn user(&self) -> &User {
        &self.caller().user
    }

    /// As whom the API is asked.
    pub(crate) fn actor(&self) -> &Actor {
        &self.caller().actor
    }

    /// The API that answers.
    pub(crate) fn registry(&self) -> &Registry {
        self.caller().led.as_deref().unwrap_or(&self.shared.registry)
    }

    /// Adds to what the audit log will say.
    pub(crate) fn audit(&self, add: impl FnOnce(&mut audit::Entry)) {
        // Nothing panics while it is added to; if it did, the log would say less.
        if let Some(entry) = self.audited.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            add(entry);
        }
    }

    /// Waits for room for an answer that takes up to so many bytes while it is made and sent.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`].
    pub(crate) async fn memory(&self, bytes: usize) -> Result<Kept, Refusal> {
        match self.level.get() {
            Some(Level::Mutating | Level::ReadOnly) => self.shared.memory.reserve(self.user().share(), bytes).await,
            Some(Level::Exempt) | None => Ok(None),
        }
    }

    /// Waits for room for the work on a body (JSON), and on what is stored, whose work takes so many bytes. It is held until the request is answered.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`]; 413 for a body whose work alone takes more than one share may have.
    pub(crate) async fn begin_work(&self, body: &[u8], stored_bytes: usize) -> Result<(), Refusal> {
        if !matches!(self.level.get(), Some(Level::Mutating | Level::ReadOnly)) {
            return Ok(());
        }
        let bytes = decoded_bytes(body);
        if self.shared.limits.work_bytes / 4 * 3 < bytes {
            let message = format!("Request entity too large: its {} bytes take more memory than a request may", body.len());
            return Err(ApiError::TooLarge { message }.into());
        }
        let kept = self.shared.work.reserve(self.user().share(), bytes.saturating_add(stored_bytes)).await?;
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(())
    }

    fn caller(&self) -> &Caller {
        self.caller.get().expect("requests are answered after their user is known")
    }

    pub(crate) fn new_uuid(&self) -> String {
        let mut bytes = [0; 16];
        self.shared.rng.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().to_string()
    }

    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Why there is no such version or resource of a group. Nothing at all is served under an unknown group.
    pub(crate) fn not_served_in(&self, group: &str) -> Refusal {
        let is_known = self.resources.all().iter().any(|resource| resource.group() == group);
        if is_known { ApiError::UnknownResource.into() } else { Refusal::PageNotFound }
    }

    /// Whether the client gets its JSON indented.
    pub(crate) fn is_indented(&self) -> bool {
        negotiate::is_indented(self.query.first("pretty"), self.header(USER_AGENT))
    }

    /// How the client wants objects.
    pub(crate) fn wishes(&self) -> Result<Wishes, Refusal> {
        let accepted = negotiate::accept(self.header(ACCEPT)).ok_or_else(|| {
            Refusal::NotAcceptable("only the following media types are accepted: application/json, application/yaml".to_owned())
        })?;
        let include = self.query.first("includeObject").unwrap_or_default();
        let include = IncludeObject::parse(include)
            .ok_or_else(|| ApiError::BadRequest { message: format!("unrecognized includeObject value: {include:?}") })?;
        let gzip = negotiate::accepts_gzip(self.header(ACCEPT_ENCODING));
        let pretty = self.is_indented();
        Ok(Wishes { accepted, include, gzip, pretty, now: self.shared.registry.now() })
    }
}

/// Answers a request, whatever it is and whatever happens. It counts as `open` until the answer is sent.
///
/// What the requests of users cost is done where only users wait for it. Those of administrators, questions for the server's health, refusals of who
/// is nobody, and what is [short](admission::is_short) are answered here.
pub(crate) async fn serve(shared: Arc<Shared>, peer: &Peer, origin: &Origin, request: Request<Incoming>, open: Open) -> Response<Body> {
    let started = Instant::now();
    let (head, body) = request.into_parts();
    let asker = shared.authenticator.authenticate(&shared.registry, peer, &head.headers).await;
    let route = path::parse(head.uri.path());
    let room = room_for_head(&shared, asker.as_deref().ok(), &head);
    let in_turn = match route {
        Route::Health { .. } => None,
        _ => asker.as_deref().ok().filter(|user| room.is_ok() && !user.is_master() && !admission::is_short(&head, &route)),
    };
    let stall = shared.limits.stall_timeout;
    let Some(user) = in_turn.map(|user| user.share().to_owned()) else {
        // In a box: it is large, and what holds it is moved about before anything is done.
        let (answer, seat) = Box::pin(respond(&shared, asker, origin, (&head, &route, room), body, started)).await;
        return answer.map(|body| sending::begin(body, seat, open, stall, None));
    };
    let answering = {
        let (shared, origin) = (Arc::clone(&shared), origin.clone());
        async move {
            let route = path::parse(head.uri.path());
            Box::pin(respond(&shared, asker, &origin, (&head, &route, room), body, started)).await
        }
    };
    match shared.turns.begin(&user, answering).join_next().await {
        Some(Ok((answer, seat))) => answer.map(|body| sending::begin(body, seat, open, stall, Some((&shared.turns, &user)))),
        // Handlers' panics end in `bounded`; this is one around it.
        Some(Err(_)) | None => answer::internal_error().map(sending::refusal),
    }
}

/// A shorter head is not counted: how many requests there are bounds them.
const HEAD_BYTES_UNCOUNTED: usize = 4 << 10;
/// What a header takes beside its texts.
const HEADER_BYTES: usize = 64;

/// Room for a request's head, as long as it may have to wait. All of those whom the server does not know have one share.
///
/// # Errors
/// [`Refusal::Overloaded`]: its share has all that it may.
fn room_for_head(shared: &Shared, asker: Option<&User>, head: &Parts) -> Result<Option<Charge>, Refusal> {
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    let bytes = headers.sum::<usize>() + head.uri.path().len() + head.uri.query().map_or(0, str::len);
    if bytes <= HEAD_BYTES_UNCOUNTED || asker.is_some_and(User::is_master) {
        return Ok(None);
    }
    shared.heads.take(asker.map_or("", User::share), bytes).map(Some).ok_or(Refusal::Overloaded)
}

/// The answer to a request, and the seats that it keeps until it is sent.
async fn respond(
    shared: &Shared,
    asker: Result<Arc<User>, Unauthorized>,
    origin: &Origin,
    (head, route, room): (&Parts, &Route<'_>, Result<Option<Charge>, Refusal>),
    mut body: Incoming,
    started: Instant,
) -> (Answer, Option<Seat>) {
    let exchange = Exchange {
        shared,
        method: &head.method,
        headers: &head.headers,
        query: Query::parse(head.uri.query()),
        resources: shared.registry.resources(),
        origin,
        audit_id: audit_id(shared, &head.headers),
        audited: Mutex::new(None),
        caller: OnceLock::new(),
        level: OnceLock::new(),
        seat: Mutex::new(None),
        head: room,
        work: Mutex::new(None),
    };
    let labels = labels(&exchange, route);
    let _inflight = shared.metrics.begin(labels.verb);
    let mut answer = bounded(head, shared.limits.request_timeout, answer(&exchange, asker, head, route, &mut body)).await;
    // A head for which there is no room must not wait for the rest of a body either.
    if exchange.head.is_ok() {
        body::discard(&mut body).await;
    }
    add_common_headers(&exchange, &mut answer);
    write_audit(&exchange, &mut answer);
    shared.metrics.answered(&labels, answer.status().as_str(), started.elapsed());
    tracing::debug!(method = %head.method, uri = %Address(&head.uri), code = answer.status().as_u16(), took = ?started.elapsed(), "answered");
    (answer, exchange.seat.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Makes an answer of whatever becomes of a handler: refusals, a panic and the deadline included.
pub(crate) async fn bounded(head: &Parts, deadline: Duration, handler: impl Future<Output = Result<Answer, Refusal>>) -> Answer {
    match tokio::time::timeout(deadline, AssertUnwindSafe(handler).catch_unwind()).await {
        Ok(Ok(Ok(answer))) => answer,
        Ok(Ok(Err(refusal))) => refused(head, &refusal),
        Ok(Err(_panic)) => {
            static PANICKED: Rare = Rare::new();
            if let Some(left_out) = PANICKED.now() {
                tracing::error!(method = %head.method, uri = %Address(&head.uri), left_out, "a handler panicked");
            }
            answer::internal_error()
        }
        Err(_elapsed) => refused(head, &Refusal::Timeout(deadline)),
    }
}

/// The server's own faults are logged here, where they end; what a client did wrong is not.
fn refused(head: &Parts, refusal: &Refusal) -> Answer {
    use ApiError::{Internal, NoSpace, OutcomeUnknown, Unavailable};
    static FAILED: Rare = Rare::new();
    if let Refusal::Api(error @ (Internal { .. } | Unavailable { .. } | OutcomeUnknown { .. } | NoSpace { .. })) = refusal
        && let Some(left_out) = FAILED.now()
    {
        tracing::error!(method = %head.method, uri = %Address(&head.uri), %error, left_out, "could not serve a request");
    }
    let agent = head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    answer::refusal(refusal, negotiate::is_indented(Query::parse(head.uri.query()).first("pretty"), agent))
}

/// Labels of what exists; clients cannot make up series.
fn labels<'a>(exchange: &Exchange<'_>, route: &'a Route<'a>) -> Labels<'a> {
    let Route::Resource(at) = route else { return Labels::of(metric_verb(exchange.method, ""), &Route::Unknown) };
    let verb = resource_verb(exchange.method, at.name.is_some(), at.legacy_watch || exchange.query.watch());
    let verb = metric_verb(exchange.method, verb);
    let known = exchange
        .resources
        .find(&at.resource)
        .is_some_and(|resource| at.subresource.is_none_or(|name| resource.subresources.iter().any(|known| known.as_str() == name)));
    Labels::of(verb, if known { route } else { &Route::Unknown })
}

fn metric_verb(method: &Method, verb: &'static str) -> &'static str {
    match (verb, method.as_str()) {
        ("watch", _) => "WATCH",
        ("list", _) => "LIST",
        ("deletecollection", _) => "DELETECOLLECTION",
        (_, "GET") => "GET",
        (_, "POST") => "POST",
        (_, "PUT") => "PUT",
        (_, "PATCH") => "PATCH",
        (_, "DELETE") => "DELETE",
        _ => "other",
    }
}

fn add_common_headers(exchange: &Exchange<'_>, answer: &mut Answer) {
    let code = answer.status();
    let headers = answer.headers_mut();
    headers.insert(AUDIT_ID, exchange.audit_id.clone());
    headers.entry(CACHE_CONTROL).or_insert(NO_CACHE);
    if let Some(level) = exchange.level.get() {
        level.add_to(headers);
    }
    if code == StatusCode::FORBIDDEN {
        headers.insert(CONTENT_TYPE_OPTIONS, NOSNIFF);
    }
}

/// The client's own, as far as it is one, or a new one.
fn audit_id(shared: &Shared, headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(AUDIT_ID).map(|id| {
        let begin = id.as_bytes().get(..AUDIT_ID_BYTES_MAX);
        begin.and_then(|begin| HeaderValue::from_bytes(begin).ok()).unwrap_or_else(|| id.clone())
    });
    given.unwrap_or_else(|| {
        let mut bytes = [0; 16];
        shared.rng.fill(&mut bytes);
        let mut buffer = uuid::Uuid::encode_buffer();
        let text = uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().encode_lower(&mut buffer);
        HeaderValue::from_str(text).expect("a UUID is ASCII")
    })
}

async fn answer(
    exchange: &Exchange<'_>,
    asker: Result<Arc<User>, Unauthorized>,
    head: &Parts,
    route: &Route<'_>,
    body: &mut Incoming,
) -> Result<Answer, Refusal> {
    let shared = exchange.shared;
    identify(exchange, asker, head, route).await?;
    if let Route::Resource(at) = route {
        return objects::answer(exchange, at, body).await;
    }
    if exchange.method != Method::GET && *route != Route::Unknown {
        return Err(ApiError::MethodNotAllowed.into());
    }
    match route {
        Route::Health { endpoint, check } => health((*endpoint, *check), &exchange.query, &shared.readiness).await,
        Route::Metrics => metrics(shared).await,
        _ => shared.documents.answer(exchange, route).await,
    }
}

/// How it is, and what is looked at there.
///
/// # Errors
/// There is no such check.
pub(crate) async fn health(
    (endpoint, check): (HealthEndpoint, Option<&str>),
    query: &Query<'_>,
    readiness: &Readiness,
) -> Result<Answer, Refusal> {
    let (code, text) = health::answer(endpoint, check, query, readiness).await.ok_or(Refusal::PageNotFound)?;
    let mut answer = answer::text(code, text);
    if check.is_none() || !code.is_success() {
        answer.headers_mut().insert(CONTENT_TYPE_OPTIONS, NOSNIFF);
    }
    Ok(answer)
}

/// Finds out on whose behalf is asked, and whether they may.
async fn identify(exchange: &Exchange<'_>, asker: Result<Arc<User>, Unauthorized>, head: &Parts, route: &Route<'_>) -> Result<(), Refusal> {
    let registry = &exchange.shared.registry;
    let asked = Asked::of(exchange.method, head.uri.path(), route, &exchange.query);
    let attributes = asked.attributes();
    begin_audit(exchange, head, route, asker.as_deref().ok(), &attributes);
    let mut user = asker.map_err(|Unauthorized| Refusal::Unauthorized)?;
    if exchange.head.is_err() {
        return Err(Refusal::Overloaded);
    }
    // Who has too many connections with a token keeps this one for as long as no stranger needs its place.
    let _ = belongs_to(&exchange.origin.slot, &user);
    if let Some(other) = impersonated(registry, &user, exchange.headers, &attributes).await? {
        exchange.audit(|entry| entry.impersonates(&other));
        user = Arc::new(other);
    }
    admission::admit(exchange, &user, route).await?;
    let decision = match is_always_allowed(route) {
        true => Some(String::new()),
        false => registry.decide(&user, &attributes).await?,
    };
    exchange.audit(|entry| entry.decided(decision.as_deref()));
    if decision.is_none() {
        return Err(forbidden(&user, &attributes).into());
    }
    let led = tenure(exchange)?.map(|tenure| Box::new(registry.led_by(Arc::new(tenure))));
    // Set once: a request is identified once.
    let _ = exchange.caller.set(Caller { actor: Actor::User(Arc::clone(&user)), user, led });
    Ok(())
}

/// Whether any caller may read it, without a question to the stored roles: `/livez`, `/healthz` and `/readyz` as a whole, the default of upstream's
/// `--authorization-always-allow-paths`. Else a probe without credentials fails while the store is away, and restarts a server that is alive.
fn is_always_allowed(route: &Route<'_>) -> bool {
    matches!(route, Route::Health { check: None, .. })
}

/// During which a write is to happen, if it says so.
fn tenure(exchange: &Exchange<'_>) -> Result<Option<Tenure>, ApiError> {
    let mut said = exchange.headers.get_all(tenure::HEADER).iter();
    let Some(value) = said.next().filter(|_| !matches!(*exchange.method, Method::GET | Method::HEAD)) else { return Ok(None) };
    let refused = |why: String| ApiError::BadRequest { message: format!("the header {}: {why}", tenure::HEADER) };
    if said.next().is_some() {
        return Err(refused("it stands twice".to_owned()));
    }
    let text = value.to_str().map_err(|error| refused(error.to_string()))?;
    text.parse().map(Some).map_err(|error: BadTenure| refused(error.to_string()))
}

fn begin_audit(exchange: &Exchange<'_>, head: &Parts, route: &Route<'_>, user: Option<&User>, asked: &Attributes<'_>) {
    let Some(log) = &exchange.shared.audit else { return };
    let received = Timestamp::now();
    let uri = Address(&head.uri).to_string();
    let head = audit::Head {
        audit_id: exchange.audit_id.to_str().unwrap_or_default(),
        uri: &uri,
        user_agent: exchange.header(USER_AGENT).unwrap_or_default(),
        from: exchange.origin.from.ip(),
        received,
        version: if let Route::Resource(at) = route { &at.resource.version } else { "" },
    };
    let nobody = User::default();
    let entry = audit::Entry::begin(log, &head, user.unwrap_or(&nobody), asked);
    *exchange.audited.lock().unwrap_or_else(PoisonError::into_inner) = entry;
    exchange.audit(|entry| entry.write(Stage::RequestReceived, received));
}

/// Writes how a request was answered; of a watch that it has begun, and later its end.
fn write_audit(exchange: &Exchange<'_>, answer: &mut Answer) {
    let Some(mut entry) = exchange.audited.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let (code, is_compressed) = (answer.status(), answer.headers().contains_key(CONTENT_ENCODING));
    match answer.body_mut() {
        ResponseBody::Watch(watch) => {
            entry.answered(code, None);
            entry.write(Stage::ResponseStarted, Timestamp::now());
            watch.audited = Some(Watched(entry));
        }
        body => {
            let bytes = match body {
                ResponseBody::Full(bytes) | ResponseBody::Large(LargeBody::Bytes(bytes), _) => Some(&bytes[..]),
                ResponseBody::Large(LargeBody::List(_) | LargeBody::Compressed(_), _) | ResponseBody::Watch(_) => None,
            };
            entry.answered(code, bytes.filter(|_| !is_compressed));
            entry.write(Stage::ResponseComplete, Timestamp::now());
        }
    }
}

/// What these metrics say, as Prometheus reads it.
pub(crate) fn exposed(metrics: &prometheus::Registry) -> Result<String, ApiError> {
    let text = prometheus::TextEncoder::new().encode_to_string(&metrics.gather());
    text.map_err(|error| ApiError::Internal { message: format!("could not encode the metrics: {error}") })
}

async fn metrics(shared: &Shared) -> Result<Answer, Refusal> {
    let _scrape = shared.scrape.lock().await;
    let mut text = exposed(&shared.prometheus)?;
    text.push_str(&storage_metrics::text(&shared.registry, shared.storage)?);
    match state_metrics::text(&shared.registry).await {
        Ok(objects) => text.push_str(&objects),
        // What the store does not give is missing; that it does not is what the others tell.
        Err(ApiError::Unavailable { .. }) => (),
        Err(error) => return Err(error.into()),
    }
    Ok(answer::text(StatusCode::OK, text))
}

/// Adds the warnings of a write to its answer.
pub(crate) fn with_warnings(mut answer: Answer, texts: &[String]) -> Answer {
    warnings::add_to(answer.headers_mut(), texts);
    answer
}
