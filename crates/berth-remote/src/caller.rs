//! Requests and responses: paths, timeouts, pages of lists.

use crate::{
    answer::{Answer, Status, identified, retry_after, revision},
    connection::{Connection, Server},
    contact::Contact,
    discovery::{self, Document},
};
use berth_api::{Scope, Subresource};
use berth_controllers::{ClusterError, RawObject, ServedKind};
use berth_env::Env;
use berth_identity::{GroupResource, GroupVersionResource, ObjectKey, Revision};
use bytes::Bytes;
use futures::future::{Either, select};
use http::{
    Method, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName},
};
use jiff::SignedDuration;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    collections::BTreeMap,
    error::Error,
    io,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The timeout of a request other than a watch, and of the start of a watch. Longer than a server's own timeout (60 s).
const REQUEST_MAX: SignedDuration = SignedDuration::from_secs(90);
/// The time after which another server is tried, if there is one. Shorter than the time that a lease lasts without a
/// renewal.
const LATE: SignedDuration = SignedDuration::from_secs(5);
/// The number of objects per page.
pub(crate) const PAGE: u32 = 500;
/// The characters that need no escape in a path or a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Sends requests to a server.
pub(crate) struct Caller {
    connection: Connection,
    pub(crate) env: Env,
    pub(crate) contact: Arc<Contact>,
    served: Mutex<Arc<Vec<ServedKind>>>,
    /// The resources without a working watch, and the reason.
    lost: Mutex<BTreeMap<GroupResource, String>>,
}

/// The path and query of a request: `/apis/apps/v1/namespaces/default/deployments/web/status?fieldManager=…`.
pub(crate) struct At(String);

/// A page of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<(ObjectKey, RawObject)>,
    /// The revision of the whole list.
    pub(crate) revision: Revision,
    /// The token for the next page.
    pub(crate) continue_token: Option<String>,
}

/// Why a list or a watch failed, by what the caller can do.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: TroubleKind,
    pub(crate) error: ClusterError,
}

/// See [`Trouble`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// The server no longer has the requested revision.
    Expired,
    /// The server does not serve the resource.
    NotServed,
    /// Another attempt would have the same result.
    Refused,
    /// The server did not respond, or is overloaded.
    Lost,
}

/// How long to wait for a response if there are several servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// Another server can respond as well.
    UntilLate,
    /// The server may already execute the request, so only this server knows the outcome.
    ToTheEnd,
}

/// Why a server did not respond.
struct Silence {
    error: ClusterError,
    /// The request did not reach the server, so nothing was executed.
    is_unsent: bool,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: String,
}

impl At {
    /// Returns the path of all objects of a resource, in all namespaces or in one.
    pub(crate) fn all(resource: &GroupVersionResource, namespace: Option<&str>) -> Self {
        let root = if resource.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map(|namespace| format!("/namespaces/{}", plain(namespace))).unwrap_or_default();
        Self(format!("{root}/{}{namespace}/{}", resource.group_version(), resource.plural))
    }

    /// Returns the path of an object, or of its subresource.
    pub(crate) fn one(kind: &ServedKind, key: &ObjectKey, subresource: Option<Subresource>) -> Self {
        let namespace = (kind.scope == Scope::Namespaced).then(|| &*key.namespace);
        let Self(all) = Self::all(&kind.gvr(), namespace);
        let subresource = subresource.map(|subresource| format!("/{}", subresource.as_str())).unwrap_or_default();
        Self(format!("{all}/{}{subresource}", plain(&key.name)))
    }

    /// Returns the path of the server's version.
    pub(crate) fn version() -> Self {
        Self("/version".to_owned())
    }

    /// Adds a parameter.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        let before = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{before}{name}={}", self.0, plain(value)))
    }
}

fn plain(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, PLAIN)
}

impl Caller {
    /// Creates a caller and reads discovery.
    pub(crate) async fn new(connection: Connection, env: Env) -> Result<Self, ClusterError> {
        let caller = Self::knowing(connection, env, Vec::new());
        caller.refresh().await?;
        Ok(caller)
    }

    /// Creates a caller with these kinds, without discovery.
    pub(crate) fn knowing(connection: Connection, env: Env, served: Vec<ServedKind>) -> Self {
        let contact = Arc::new(Contact::new(Arc::clone(&env.clock)));
        Self { connection, env, contact, served: Mutex::new(Arc::new(served)), lost: Mutex::default() }
    }

    /// Returns the server's address.
    pub(crate) fn server(&self) -> &str {
        self.connection.server()
    }

    /// Returns the known served kinds.
    pub(crate) fn served(&self) -> Arc<Vec<ServedKind>> {
        Arc::clone(&self.lock())
    }

    /// Returns the namespace in the kubeconfig.
    pub(crate) fn namespace(&self) -> &str {
        self.connection.namespace()
    }

    /// Records why the watch of a resource fails. `None`: it works.
    pub(crate) fn note_lost(&self, resource: &GroupResource, why: Option<String>) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => drop(lost.insert(resource.clone(), why)),
            None => drop(lost.remove(resource)),
        }
    }

    /// Returns why the watch of some resource fails.
    pub(crate) fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Vec<ServedKind>>> {
        // The content is one pointer, which is always valid.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kind of a resource's objects, in the version that the server prefers.
    ///
    /// # Errors
    /// It is not served.
    pub(crate) fn kind(&self, resource: &GroupResource) -> Result<ServedKind, ClusterError> {
        let found = self.served().iter().find(|kind| kind.resource == *resource).cloned();
        found.ok_or_else(|| ClusterError::Refused(format!("{} does not serve {resource}", self.connection.server())))
    }

    /// Reads discovery again.
    pub(crate) async fn refresh(&self) -> Result<(), ClusterError> {
        let mut documents = Vec::new();
        for path in discovery::PATHS {
            let body = self.ask(Method::GET, At(path.to_owned()), &[(ACCEPT, discovery::ACCEPT)], Bytes::new()).await?.accepted()?;
            let document: Document = serde_json::from_slice(&body).map_err(|error| self.unreadable(path, &error))?;
            if !document.is_aggregated() {
                let text = "does not serve aggregated discovery, as Kubernetes 1.26 and later do";
                return Err(ClusterError::Refused(format!("{} {text}", self.connection.server())));
            }
            documents.push(document);
        }
        let mut served = self.lock();
        let kinds = discovery::kinds(&documents, &served);
        if **served != kinds {
            *served = Arc::new(kinds);
        }
        Ok(())
    }

    /// Sends a request with this body and content type. Returns the complete response. If a server does not respond,
    /// the next one is tried, unless the request may have been executed.
    ///
    /// # Errors
    /// There is no response. The request may have been executed.
    pub(crate) async fn ask(&self, method: Method, at: At, headers: &[(HeaderName, &str)], body: Bytes) -> Result<Answer, ClusterError> {
        let mut tried = 0;
        loop {
            let server = self.connection.current();
            let begun = self.contact.begin(&server.url, &method);
            let call = async {
                let (head, body) = server.client.send(request(method.clone(), &at, headers, body.clone())).await?.into_parts();
                Ok(Answer { code: head.status, retry_after: retry_after(&head.headers), body: body.collect_bytes().await? })
            };
            match self.in_time(server, call, if method == Method::GET { Patience::UntilLate } else { Patience::ToTheEnd }).await {
                Ok(answer) => {
                    begun.answered(answer.code);
                    return Ok(answer);
                }
                Err(failure) => {
                    tried += 1;
                    if tried == self.connection.count() || !(method == Method::GET || failure.is_unsent) {
                        return Err(failure.error);
                    }
                }
            }
        }
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(crate) async fn open_watch(&self, at: At) -> Result<Body, Trouble> {
        let server = self.connection.current();
        let begun = self.contact.begin(&server.url, &Method::GET);
        let call = async {
            let (head, body) = server.client.send(request(Method::GET, &at, &[], Bytes::new())).await?.into_parts();
            if head.status.is_success() {
                return Ok(Ok(body));
            }
            Ok(Err(Answer { code: head.status, retry_after: retry_after(&head.headers), body: body.collect_bytes().await? }))
        };
        match self.in_time(server, call, Patience::UntilLate).await {
            Ok(Ok(body)) => {
                begun.answered(StatusCode::OK);
                Ok(body)
            }
            Ok(Err(answer)) => {
                begun.answered(answer.code);
                Err(Trouble::of(&answer))
            }
            Err(failure) => Err(Trouble { kind: TroubleKind::Lost, error: failure.error }),
        }
    }

    /// Waits for a response. If a server does not respond in time, the next one becomes the current server.
    async fn in_time<T>(&self, server: &Server, call: impl Future<Output = kube::Result<T>>, patience: Patience) -> Result<T, Silence> {
        let clock = &self.env.clock;
        let begun = clock.now();
        let none_within = |longest: SignedDuration| Silence {
            error: ClusterError::Unknown(format!("{} did not answer within {} s", server.url, longest.as_secs())),
            is_unsent: false,
        };
        let mut call = pin!(call);
        let mut outcome = match select(&mut call, clock.sleep_until(begun + LATE)).await {
            Either::Left((outcome, _)) => Some(outcome),
            Either::Right(_) => None,
        };
        if outcome.is_none() && 1 < self.connection.count() {
            self.connection.leave(server);
            if patience == Patience::UntilLate {
                return Err(none_within(LATE));
            }
        }
        if outcome.is_none()
            && let Either::Left((late, _)) = select(call, clock.sleep_until(begun + REQUEST_MAX)).await
        {
            outcome = Some(late);
        }
        match outcome {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => {
                self.connection.leave(server);
                let unknown = ClusterError::Unknown(format!("{}: {}", server.url, chain(&error)));
                Err(Silence { error: unknown, is_unsent: is_unsent(&error) })
            }
            None => Err(none_within(REQUEST_MAX)),
        }
    }

    /// Returns a page of a consistent list: the first one, or the one for a token. `limit` is the maximum number of
    /// objects.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(crate) async fn page(&self, plural: &str, mut at: At, limit: Option<u32>, continue_token: Option<&str>) -> Result<Page, Trouble> {
        if let Some(limit) = limit {
            at = at.with("limit", &limit.to_string());
        }
        if let Some(token) = continue_token {
            at = at.with("continue", token);
        }
        let lost = |error| Trouble { kind: TroubleKind::Lost, error };
        let answer = self.ask(Method::GET, at, &[], Bytes::new()).await.map_err(lost)?;
        if answer.code != StatusCode::OK {
            return Err(Trouble::of(&answer));
        }
        page(&answer.body).map_err(|error| lost(self.unreadable(plural, &error)))
    }

    /// Returns the error for an undecodable response.
    pub(crate) fn unreadable(&self, what: &str, error: &serde_json::Error) -> ClusterError {
        ClusterError::Unknown(format!("{}: cannot read {what}: {error}", self.connection.server()))
    }
}

fn request(method: Method, At(at): &At, headers: &[(HeaderName, &str)], body: Bytes) -> Request<Body> {
    let request = headers.iter().fold(Request::builder().method(method).uri(at), |request, (name, value)| request.header(name, *value));
    request.body(body.into()).expect("what stands in a path is encoded, and headers are text")
}

/// Returns the header with the content type of a body.
pub(crate) fn of_type(type_: &str) -> (HeaderName, &str) {
    (CONTENT_TYPE, type_)
}

fn page(body: &Bytes) -> Result<Page, serde_json::Error> {
    let List { metadata, items } = serde_json::from_slice(body)?;
    // Copies each item, so that one kept object does not keep its whole page in memory.
    let copied = |item: &RawValue| identified(Bytes::copy_from_slice(item.get().as_bytes()));
    let objects = items.unwrap_or_default().into_iter().map(copied).collect::<Result<_, _>>()?;
    let continue_token = Some(metadata.continue_token).filter(|token| !token.is_empty());
    Ok(Page { objects, revision: revision(&metadata.resource_version)?, continue_token })
}

impl Trouble {
    fn of(answer: &Answer) -> Self {
        let kind = match answer.code.as_u16() {
            410 => TroubleKind::Expired,
            404 => TroubleKind::NotServed,
            408 | 429 | 500.. => TroubleKind::Lost,
            _ => TroubleKind::Refused,
        };
        Self { kind, error: answer.refusal() }
    }

    /// Returns the error at the end of a watch.
    pub(crate) fn of_status(status: Status) -> Self {
        let kind = if status.code == 410 { TroubleKind::Expired } else { TroubleKind::Refused };
        Self { kind, error: ClusterError::Busy { message: status.message, retry_after: None } }
    }
}

/// Whether no connection was made.
fn is_unsent(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Formats an error with its causes.
fn chain(error: &dyn Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors contain their cause in their own text.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::GroupVersionKind;

    const WIDGETS: ServedKind = ServedKind {
        resource: GroupResource::from_static("example.com", "widgets"),
        kind: GroupVersionKind::from_static("example.com", "v1", "Widget"),
        scope: Scope::Namespaced,
    };

    #[test]
    fn paths_are_those_of_the_kubernetes_api() {
        let key = ObjectKey::new("team", "a:b/c");
        assert_eq!(At::all(&GroupVersionResource::from_static("", "v1", "pods"), None).0, "/api/v1/pods");
        assert_eq!(
            At::all(&GroupVersionResource::from_static("apps", "v1", "deployments"), Some("team")).0,
            "/apis/apps/v1/namespaces/team/deployments"
        );
        assert_eq!(At::one(&WIDGETS, &key, None).0, "/apis/example.com/v1/namespaces/team/widgets/a%3Ab%2Fc");
        let cluster = ServedKind { scope: Scope::Cluster, ..WIDGETS };
        let status = At::one(&cluster, &key, Some(Subresource::Status)).with("fieldManager", "a b").with("dryRun", "All");
        assert_eq!(status.0, "/apis/example.com/v1/widgets/a%3Ab%2Fc/status?fieldManager=a%20b&dryRun=All");
    }

    #[test]
    fn a_page_states_whether_there_is_more() {
        let body = r#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"next"},"items":[{"metadata":{"name":"a","resourceVersion":"3"}}]}"#;
        let first = page(&body.into()).expect("a page");
        assert_eq!((first.revision, first.continue_token.as_deref(), first.objects.len()), (Revision(9), Some("next"), 1));
        assert_eq!((&first.objects[0].0, first.objects[0].1.revision), (&ObjectKey::new("", "a"), Revision(3)));
        let last = page(&r#"{"metadata":{"resourceVersion":"9"},"items":null}"#.into()).expect("a page");
        assert!(last.continue_token.is_none() && last.objects.is_empty());
        assert!(page(&r#"{"metadata":{},"items":[]}"#.into()).is_err(), "of no revision");
    }
}
