//! Handles a request.

mod admission;
mod bodies;
mod components;
mod documents;
mod logs;
mod objects;
mod reviews;
mod tokens;
mod usage;
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
use berth_api::fencing::{self, BadFencingToken, FencingToken};
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

/// The shared state of all requests.
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
    /// The memory for processing writes.
    pub(crate) work: Memory,
    pub(crate) heads: Arc<Budget>,
    /// The memory for the selectors of open watches.
    pub(crate) selectors: Arc<Budget>,
    pub(crate) turns: Arc<Turns>,
    /// Held during a scrape, because a response has the size of all workloads' series.
    pub(crate) scrape: tokio::sync::Mutex<()>,
    /// The label of the store in metrics.
    pub(crate) storage: &'static str,
    /// The number of watches by [share](User::share).
    pub(crate) watches: Arc<Quota<String>>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// The maximum length of a returned audit id, in bytes. The connection keeps it until the client reads it. Upstream
/// returns all of it.
const AUDIT_ID_BYTES_MAX: usize = 256;
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
pub(crate) const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// One request, after its head is read.
pub(crate) struct Exchange<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    /// The served resources, constant during the request.
    pub(crate) resources: Arc<Resources>,
    origin: &'a Origin,
    audit_id: HeaderValue,
    /// The audit event of the request, if the policy logs it.
    audited: Mutex<Option<audit::Entry>>,
    /// Set before any response except an error.
    caller: OnceLock<Caller>,
    /// Set after authentication.
    level: OnceLock<Level>,
    /// Held until the response. Long responses hold it until they are sent.
    seat: Mutex<Option<Seat>>,
    /// The memory of its head, held until the response.
    head: Result<Option<Charge>, Refusal>,
    /// The memory for processing it.
    work: Mutex<Kept>,
}

/// The authenticated user, and the API for the request.
struct Caller {
    user: Arc<User>,
    actor: Actor,
    /// For a fenced write: the API that writes only while a Lease is held. `None`: the ordinary API.
    fenced: Option<Box<Registry>>,
}

impl Exchange<'_> {
    /// Returns the user, after impersonation.
    pub(crate) fn user(&self) -> &User {
        &self.caller().user
    }

    /// Returns the actor for the API.
    pub(crate) fn actor(&self) -> &Actor {
        &self.caller().actor
    }

    /// Returns the API for the request.
    pub(crate) fn registry(&self) -> &Registry {
        self.caller().fenced.as_deref().unwrap_or(&self.shared.registry)
    }

    /// Adds to the audit event.
    pub(crate) fn audit(&self, add: impl FnOnce(&mut audit::Entry)) {
        // No code panics while it holds the lock. At worst, the event is incomplete.
        if let Some(entry) = self.audited.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            add(entry);
        }
    }

    /// Reserves memory for a response of this size while it is built and sent.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`].
    pub(crate) async fn memory(&self, bytes: usize) -> Result<Kept, Refusal> {
        match self.level.get() {
            Some(Level::Mutating | Level::ReadOnly) => self.shared.memory.reserve(self.user().share(), bytes).await,
            Some(Level::Exempt) | None => Ok(None),
        }
    }

    /// Reserves memory for processing a JSON body and stored objects, until the response.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`], or 413 for a body that alone exceeds a share.
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

    /// Returns the error for an unknown version or resource of a group, or for an unknown group.
    pub(crate) fn not_served_in(&self, group: &str) -> Refusal {
        // The groups of custom resources have no such error upstream.
        let is_known = self.resources.all().iter().any(|resource| resource.is_built_in() && resource.group() == group);
        if is_known { ApiError::UnknownResource.into() } else { Refusal::PageNotFound }
    }

    /// Whether the client gets indented JSON.
    pub(crate) fn is_indented(&self) -> bool {
        negotiate::is_indented(self.query.first("pretty"), self.header(USER_AGENT))
    }

    /// Returns the requested response format.
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

/// Handles a request in every case. The request counts as `open` until the response is sent.
///
/// The work of users' requests runs on threads of its own, where only users wait for it. Requests of administrators,
/// health checks, unauthenticated requests and [short](admission::is_short) ones run here.
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
        // Boxed, because the future is large and its owner is moved before it runs.
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
        // `bounded` catches panics of handlers. This is a panic around it.
        Some(Err(_)) | None => answer::internal_error().map(sending::refusal),
    }
}

/// The size up to which a head is not counted, because the number of requests is limited.
const HEAD_BYTES_UNCOUNTED: usize = 4 << 10;
/// The memory of a header besides its texts.
const HEADER_BYTES: usize = 64;

/// Reserves memory for a request's head while it may have to wait. All unauthenticated clients have one share.
///
/// # Errors
/// [`Refusal::Overloaded`]: the share is used up.
fn room_for_head(shared: &Shared, asker: Option<&User>, head: &Parts) -> Result<Option<Charge>, Refusal> {
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
    let bytes = headers.sum::<usize>() + head.uri.path().len() + head.uri.query().map_or(0, str::len);
    if bytes <= HEAD_BYTES_UNCOUNTED || asker.is_some_and(User::is_master) {
        return Ok(None);
    }
    shared.heads.take(asker.map_or("", User::share), bytes).map(Some).ok_or(Refusal::Overloaded)
}

/// Returns the response to a request, and the seats that it holds until it is sent.
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
    // Without memory for the head, the request must not wait for the rest of a body either.
    if exchange.head.is_ok() {
        body::discard(&mut body).await;
    }
    add_common_headers(&exchange, &mut answer);
    if let Some(warning) = deprecation_warning(&exchange, route) {
        warnings::add_unless_there(answer.headers_mut(), warning);
    }
    write_audit(&exchange, &mut answer);
    shared.metrics.answered(&labels, answer.status().as_str(), started.elapsed());
    tracing::debug!(method = %head.method, uri = %Address(&head.uri), code = answer.status().as_u16(), took = ?started.elapsed(), "answered");
    (answer, exchange.seat.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Converts the outcome of a handler to a response: errors, panics and the deadline included.
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

/// Logs the server's own errors. Errors of clients are not logged.
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

/// Returns the metric labels. They contain existing resources only, so that clients cannot create series.
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

/// Returns the warning about the version in the path, once the user may use it.
fn deprecation_warning<'a>(exchange: &'a Exchange<'_>, route: &Route<'_>) -> Option<&'a str> {
    let Route::Resource(at) = route else { return None };
    exchange.caller.get()?;
    exchange.resources.find(&at.resource)?.rules.deprecation_warning()
}

/// Returns the client's audit id if it is valid, otherwise a new one.
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

/// Returns the health of an endpoint, or of one of its checks.
///
/// # Errors
/// The check does not exist.
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

/// Determines the user of the request and authorizes it.
async fn identify(exchange: &Exchange<'_>, asker: Result<Arc<User>, Unauthorized>, head: &Parts, route: &Route<'_>) -> Result<(), Refusal> {
    let registry = &exchange.shared.registry;
    let asked = Asked::of(exchange.method, head.uri.path(), route, &exchange.query);
    let attributes = asked.attributes();
    begin_audit(exchange, head, route, asker.as_deref().ok(), &attributes);
    let mut user = asker.map_err(|Unauthorized| Refusal::Unauthorized)?;
    if exchange.head.is_err() {
        return Err(Refusal::Overloaded);
    }
    // If the user has too many connections with a token, this one stays until an anonymous client needs its slot.
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
    let fenced = fencing_token(exchange)?.map(|fencing_token| Box::new(registry.with_fencing(Arc::new(fencing_token))));
    // A request is identified only once.
    let _ = exchange.caller.set(Caller { actor: Actor::User(Arc::clone(&user)), user, fenced });
    Ok(())
}

/// Whether every caller may read the path, without the stored roles: `/livez`, `/healthz` and `/readyz` as a whole, the
/// default of upstream's `--authorization-always-allow-paths`. Otherwise a probe without credentials would fail while
/// the store is unavailable, and restart a live server.
fn is_always_allowed(route: &Route<'_>) -> bool {
    matches!(route, Route::Health { check: None, .. })
}

/// Returns the fencing token of a write, if its header contains one.
fn fencing_token(exchange: &Exchange<'_>) -> Result<Option<FencingToken>, ApiError> {
    let mut said = exchange.headers.get_all(fencing::HEADER).iter();
    let Some(value) = said.next().filter(|_| !matches!(*exchange.method, Method::GET | Method::HEAD)) else { return Ok(None) };
    let refused = |why: String| ApiError::BadRequest { message: format!("the header {}: {why}", fencing::HEADER) };
    if said.next().is_some() {
        return Err(refused("it stands twice".to_owned()));
    }
    let text = value.to_str().map_err(|error| refused(error.to_string()))?;
    text.parse().map(Some).map_err(|error: BadFencingToken| refused(error.to_string()))
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
    let anonymous = User::default();
    let entry = audit::Entry::begin(log, &head, user.unwrap_or(&anonymous), asked);
    *exchange.audited.lock().unwrap_or_else(PoisonError::into_inner) = entry;
    exchange.audit(|entry| entry.write(Stage::RequestReceived, received));
}

/// Writes the audit event of a response. For a watch, writes its start, and later its end.
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

/// Encodes these metrics for Prometheus.
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
        // Metrics that need the store are omitted if it is unavailable. Other metrics report that.
        Err(ApiError::Unavailable { .. }) => (),
        Err(error) => return Err(error.into()),
    }
    Ok(answer::text(StatusCode::OK, text))
}

/// Adds the warnings of a write to its response.
pub(crate) fn with_warnings(mut answer: Answer, texts: &[String]) -> Answer {
    warnings::add_to(answer.headers_mut(), texts);
    answer
}
