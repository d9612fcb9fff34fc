//! The cluster of a kubeconfig: reads, patches and watches objects as JSON, so that fields of a newer server are not lost.

use super::error::Error;
use crate::cluster_options::ClusterOptions;
use berth_api::Scope;
use berth_controllers::{Change, ServedKind};
use berth_identity::{ApiName, GroupResource, GroupVersionKind, GroupVersionResource};
use berth_plan::{Write, WriteBody};
use berth_remote::{Only, WatchError, follow_some};
use berth_store::env::Env;
use berth_workloads::resources::{EVENTS, v1};
use futures::{FutureExt, stream::BoxStream};
use http::header::{CONTENT_TYPE, HeaderValue};
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::Request,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::time::Duration;

/// How many other namespaces an error lists.
const ELSEWHERE_MAX: u32 = 3;
/// The field manager of writes.
const FIELD_MANAGER: &str = "berth-rollout";

const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// A namespace of a cluster.
#[derive(Clone)]
pub(super) struct Connection {
    remote: berth_remote::Connection,
    namespace: String,
    /// The timeout of a request other than a watch.
    timeout: Option<Duration>,
}

/// An object of a list.
pub(super) struct Item {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The whole object as JSON.
    pub(super) json: String,
}

/// Whether the server stores a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Yes,
    /// The server only returns the result.
    DryRun,
}

/// The status code for a missing object.
pub(super) const NOT_FOUND: u16 = 404;

/// The part of an object to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole object.
    Whole,
    /// Its metadata. Nothing else of a Secret leaves the server.
    Metadata,
}

impl Connection {
    /// Finds the cluster as kubectl does. Sends no request yet.
    ///
    /// # Errors
    /// No cluster is configured, or its configuration is invalid.
    pub(super) async fn open(options: &ClusterOptions) -> Result<Self, Error> {
        let connection = Self::of(&options.remote()).await?;
        let namespace = options.namespace.clone().unwrap_or_else(|| connection.namespace.clone());
        let timeout = Some(options.request_timeout).filter(|limit| !limit.is_zero());
        Ok(Self { namespace, timeout, ..connection })
    }

    /// The cluster of these options, in the namespace of its context, without a timeout. Sends no request yet.
    ///
    /// # Errors
    /// Those of [`Connection::open`].
    pub(super) async fn of(remote: &berth_remote::Options) -> Result<Self, Error> {
        let connection = berth_remote::Connection::open(remote).await?;
        let namespace = connection.namespace().to_owned();
        Ok(Self { remote: connection, namespace, timeout: None })
    }

    /// Another namespace of the same cluster.
    pub(super) fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    fn client(&self) -> &Client {
        self.remote.client()
    }

    /// The namespace of requests.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads one object.
    pub(super) async fn get(&self, resource: &GroupVersionResource, name: &str) -> Result<String, Error> {
        let request = self.request(resource).get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        self.answer(self.client().request_text(request)).await
    }

    /// Reads one object or only its metadata. `None` if it does not exist.
    pub(super) async fn find(&self, resource: &GroupVersionResource, name: &str, part: Part) -> Result<Option<String>, Error> {
        let (request, params) = (self.request(resource), kube::api::GetParams::default());
        let request = match part {
            Part::Whole => request.get(name, &params),
            Part::Metadata => request.get_metadata(name, &params),
        };
        self.found(request).await
    }

    /// Reads one cluster-scoped object. `None` if it does not exist.
    pub(super) async fn find_everywhere(&self, resource: &GroupVersionResource, name: &str) -> Result<Option<String>, Error> {
        self.found(everywhere(resource).get(name, &kube::api::GetParams::default())).await
    }

    async fn found(&self, request: Result<http::Request<Vec<u8>>, kube::core::request::Error>) -> Result<Option<String>, Error> {
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        let found = self.client().request_text(request).map(|answer| match answer {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
            other => other.map(Some),
        });
        self.answer(found).await
    }

    /// Reads one object that a user has named. If it is missing, the error contains its namespace, or another problem with the namespace.
    pub(super) async fn named(&self, resource: &GroupVersionResource, name: &str) -> Result<String, Error> {
        let request = self.request(resource).get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        match self.in_time(self.client().request_text(request)).await? {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => {
                let hint = self.elsewhere(resource, name).await.into();
                Err(Error::Refused { code: status.code, message: status.message, hint })
            }
            answer => answer.map_err(|error| self.refused(error)),
        }
    }

    /// The hint for an object that is missing in this namespace.
    async fn elsewhere(&self, resource: &GroupVersionResource, name: &str) -> String {
        let here = &self.namespace;
        let namespace = self.text(&format!("/api/v1/namespaces/{here}")).await;
        if let Err(Error::Refused { code: NOT_FOUND, .. }) = namespace {
            return format!("; namespace {here} does not exist (--namespace, --context)");
        }
        let field = format!("metadata.name={name}");
        let which = ListParams::default().fields(&field).limit(ELSEWHERE_MAX);
        let found = self.list_at(everywhere(resource), &resource.plural, which).await.unwrap_or_default();
        match &found.iter().map(|item| item.namespace.as_str()).collect::<Vec<_>>()[..] {
            [] => format!("; searched in namespace {here} (--namespace, --context)"),
            others => format!("; searched in namespace {here}, but it exists in {} (--namespace)", others.join(", ")),
        }
    }

    /// Reads a path that is not an object's, such as `/metrics`.
    pub(super) async fn text(&self, path: &str) -> Result<String, Error> {
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let request = Request::new(folder).get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        self.answer(self.client().request_text(request)).await
    }

    /// Lists all objects of the namespace, or those with the labels.
    pub(super) async fn list(&self, resource: &GroupVersionResource, selector: Option<&str>) -> Result<Vec<Item>, Error> {
        self.list_at(self.request(resource), &resource.plural, with_labels(selector)).await
    }

    /// Lists all warnings of the namespace.
    pub(super) async fn warnings(&self) -> Result<Vec<Item>, Error> {
        self.list_at(self.request(&v1(EVENTS)), "events", ListParams::default().fields("type=Warning")).await
    }

    /// Lists the objects of all namespaces, or those with the labels.
    pub(super) async fn list_everywhere(&self, resource: &GroupVersionResource, selector: Option<&str>) -> Result<Vec<Item>, Error> {
        self.list_at(everywhere(resource), &resource.plural, with_labels(selector)).await
    }

    /// Lists at most `most` objects of a namespace, or of all.
    pub(super) async fn some(&self, resource: &GroupVersionResource, namespace: Option<&str>, most: u32) -> Result<Vec<Item>, Error> {
        let at = match namespace {
            Some(namespace) => self.in_namespace(namespace).request(resource),
            None => everywhere(resource),
        };
        self.list_at(at, &resource.plural, ListParams::default().limit(most)).await
    }

    async fn list_at(&self, at: Request, plural: &str, which: ListParams) -> Result<Vec<Item>, Error> {
        let request = at.list(&which).map_err(|error| Error::Usage(error.to_string()))?;
        let list: List = self.answer(self.client().request(request)).await?;
        list.items
            .into_iter()
            .map(|item| named(&item))
            .collect::<Result<_, _>>()
            .map_err(|source| Error::Decode { what: plural.to_owned(), source })
    }

    /// Applies a JSON merge patch to an object, and returns the result.
    pub(super) async fn merge_patch(&self, resource: &GroupVersionResource, name: &str, patch: Value) -> Result<Value, Error> {
        self.patch(self.request(resource), name, &patch, (MERGE_PATCH, Keep::Yes)).await
    }

    /// Applies a JSON patch to an object, and returns the result.
    pub(super) async fn json_patch(&self, resource: &GroupVersionResource, name: &str, patch: Value, keep: Keep) -> Result<Value, Error> {
        self.patch(self.request(resource), name, &patch, (JSON_PATCH, keep)).await
    }

    /// Returns the result of a write without storing it.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(super) async fn dry_run(&self, write: &Write) -> Result<Value, Error> {
        let at = match &write.namespace {
            Some(namespace) => self.in_namespace(namespace).request(&write.resource),
            None => everywhere(&write.resource),
        };
        match &write.what {
            WriteBody::Create(object) => {
                let params = PostParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()) };
                let request = at.create(&params, object.to_string().into_bytes()).map_err(|error| Error::Usage(error.to_string()))?;
                self.answer(self.client().request(request)).await
            }
            WriteBody::Patch(patch) => self.patch(at, &write.name, patch, (MERGE_PATCH, Keep::DryRun)).await,
        }
    }

    async fn patch(&self, at: Request, name: &str, patch: &Value, (form, keep): (&'static str, Keep)) -> Result<Value, Error> {
        let manager = Some(FIELD_MANAGER.to_owned());
        let params = PatchParams { field_manager: manager, dry_run: keep == Keep::DryRun, ..PatchParams::default() };
        let mut request = at.patch(name, &params, &Patch::Merge(patch)).map_err(|error| Error::Usage(error.to_string()))?;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        self.answer(self.client().request(request)).await
    }

    async fn answer<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        self.in_time(answer).await?.map_err(|error| self.refused(error))
    }

    async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Result<T, Error> {
        match self.timeout {
            Some(limit) => {
                let late = |_| Error::Late { server: self.remote.server().to_owned(), limit };
                tokio::time::timeout(limit, answer).await.map_err(late)
            }
            None => Ok(answer.await),
        }
    }

    /// The objects of a kind, then their changes. After an error the watch restarts, with a growing delay.
    pub(super) fn watch(&self, kind: ServedKind, only: Only, env: &Env) -> BoxStream<'static, Result<Change, WatchError>> {
        follow_some(&self.remote, kind, only, env.clone())
    }

    fn request(&self, resource: &GroupVersionResource) -> Request {
        Request::new(format!("{}/namespaces/{}/{}", root(resource), self.namespace, resource.plural))
    }

    fn refused(&self, error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status) => Error::Refused { code: status.code, hint: hint(status.code).into(), message: status.message },
            source => Error::Unreachable { server: self.remote.server().to_owned(), source },
        }
    }
}

/// The list parameters for the labels, or for all objects.
fn with_labels(selector: Option<&str>) -> ListParams {
    ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default() }
}

fn root(resource: &GroupVersionResource) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    format!("{root}/{}", resource.group_version())
}

/// The objects of all namespaces.
fn everywhere(resource: &GroupVersionResource) -> Request {
    Request::new(format!("{}/{}", root(resource), resource.plural))
}

/// The hint for an error of the server.
fn hint(code: u16) -> &'static str {
    match code {
        401 => "; the credentials of this context are invalid or have expired",
        403 => "; request a role that allows it, or choose another context (--context)",
        404 => "; is the namespace right (--namespace, --context)?",
        409 => "; another client changed it at the same time: try again",
        _ => "",
    }
}

/// A kind that every cluster serves.
pub(super) fn served(kind: GroupVersionKind, plural: &'static str, scope: Scope) -> ServedKind {
    ServedKind { resource: GroupResource::new(&kind.group, ApiName::from_static(plural)), kind, scope }
}

#[derive(Deserialize)]
struct List {
    items: Vec<Box<RawValue>>,
}

fn named(item: &RawValue) -> serde_json::Result<Item> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        namespace: String,
        name: String,
    }
    let object: Object = serde_json::from_str(item.get())?;
    Ok(Item { namespace: object.metadata.namespace, name: object.metadata.name, json: item.get().to_owned() })
}
