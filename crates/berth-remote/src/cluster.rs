//! The [`Cluster`] over HTTPS.

use crate::{
    answer::{Answer, identified},
    caller::{At, Caller, PAGE, TroubleKind, of_type},
    connection::{Connection, Retries},
    contact::Contact,
    denials::Attempt,
    follower::{REFRESH, follow},
    options::{OpenError, Options},
    vendor::Vendor,
};
use berth_api::{Object, Scope, Subresource, fencing};
use berth_controllers::{
    Change, Cluster, ClusterError, DeleteParams, Propagation, RawObject, ServedKind,
    cluster::{FIELD_MANAGER, field_manager},
    election::{Gate, Pass},
};
use berth_env::Env;
use berth_identity::{GroupResource, Namespace, ObjectKey, Revision, Uid};
use berth_workloads::{resources::PODS, view::read_metadata};
use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use http::{HeaderName, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A cluster whose API server is reached over HTTPS. Cheap to clone.
#[derive(Clone)]
pub struct RemoteCluster {
    caller: Arc<Caller>,
    /// The field manager: the controllers, unless [`RemoteCluster::named`] sets another one.
    manager: &'static str,
    /// Permits writes. `None`: always.
    gate: Option<Gate>,
    /// The only namespace that is watched. `None`: all.
    within: Option<Namespace>,
}

/// Why the cluster is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address or the credentials are unknown.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server did not return its discovery.
    #[error("cannot read which resources the cluster serves")]
    Discover(#[source] ClusterError),
}

impl RemoteCluster {
    /// Finds the cluster as kubectl does, and reads its discovery.
    ///
    /// # Errors
    /// [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(options: &Options, env: Env) -> Result<Self, ConnectError> {
        let connection = Connection::open_with(options, Retries::None).await?;
        let caller = Caller::new(connection, env).await.map_err(ConnectError::Discover)?;
        Ok(Self { caller: Arc::new(caller), manager: FIELD_MANAGER, gate: None, within: None })
    }

    /// Returns the same cluster with another field manager.
    #[must_use]
    pub fn named(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    /// Returns the same cluster with watches of only this namespace, for a user without rights in others.
    /// Cluster-scoped kinds are watched as before.
    #[must_use]
    pub fn in_namespace(self, namespace: Namespace) -> Self {
        Self { within: Some(namespace), ..self }
    }

    /// Returns the same cluster, which writes only while the holder of the gate is the leader.
    #[must_use]
    pub fn fenced_by(self, gate: Gate) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Returns the server's address for messages.
    #[must_use]
    pub fn server(&self) -> &str {
        self.caller.server()
    }

    /// Returns the vendor of the API server, from `/version`.
    ///
    /// # Errors
    /// There is no response, or it cannot be decoded.
    pub async fn vendor(&self) -> Result<Vendor, ClusterError> {
        let body = self.caller.ask(Method::GET, At::version(), &[], Bytes::new()).await?.accepted()?;
        serde_json::from_slice(&body).map(Vendor::of).map_err(|error| self.caller.unreadable("/version", &error))
    }

    /// Returns the record of responses to this cluster and its copies.
    #[must_use]
    pub fn contact(&self) -> Arc<Contact> {
        Arc::clone(&self.caller.contact)
    }

    /// Returns the namespace in the kubeconfig.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.caller.namespace()
    }

    /// Returns why the watch of some resource fails at present, with the error of the watch. `None`: no watch is known
    /// to fail. Watches retry indefinitely.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.caller.lost()
    }

    /// Returns all objects of a resource, in all namespaces or in one, at one revision, with that revision.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn list(
        &self,
        resource: GroupResource,
        namespace: Option<&Namespace>,
    ) -> Result<(Vec<(ObjectKey, RawObject)>, Revision), ClusterError> {
        let kind = self.caller.kind(&resource)?;
        let (mut objects, mut token, mut limit) = (Vec::new(), None::<String>, Some(PAGE));
        loop {
            let at = At::all(&kind.gvr(), namespace.map(|namespace| &**namespace));
            match self.caller.page(&resource.plural, at, limit, token.as_deref()).await {
                Ok(page) => {
                    objects.extend(page.objects);
                    token = page.continue_token;
                    if token.is_none() {
                        return Ok((objects, page.revision));
                    }
                }
                // The server compacted the revision before all pages were read.
                Err(trouble) if trouble.kind == TroubleKind::Expired && token.is_some() => {
                    (objects, token, limit) = (Vec::new(), None, None);
                }
                Err(trouble) => return Err(trouble.error),
            }
        }
    }

    /// Sends a change of `what`. It is guarded only by the preconditions in `body`, and by the leadership of this
    /// process.
    async fn write(&self, method: Method, what: What, at: At, content_type: &str, body: Bytes) -> Result<Answer, ClusterError> {
        let pass = self.may_write()?;
        let fencing_token = pass.as_ref().map(|pass| pass.fencing_token().to_string());
        let fenced = fencing_token.iter().map(|fencing_token| (HeaderName::from_static(fencing::HEADER), fencing_token.as_str()));
        let headers: Vec<_> = [of_type(content_type)].into_iter().chain(fenced).collect();
        let attempt = what.attempt(&method);
        let answer = self.caller.ask(method, at, &headers, body).await?;
        let denied = answer.denial();
        if denied.is_some() || answer.code.is_success() {
            self.caller.contact.denials.record(attempt, denied);
        }
        Ok(answer)
    }

    /// Adds the field manager.
    fn named_in(&self, at: At) -> At {
        at.with("fieldManager", self.manager)
    }

    /// Permits a write to begin. The write ends when the result is dropped.
    fn may_write(&self) -> Result<Option<Pass>, ClusterError> {
        self.gate.as_ref().map(Gate::enter).transpose()
    }

    /// Returns the new version after a write.
    fn written(&self, answer: Answer) -> Result<RawObject, ClusterError> {
        let object = identified(answer.accepted()?).map_err(|error| self.caller.unreadable("what was written", &error))?;
        Ok(object.1)
    }
}

/// The target of a write: a resource's objects, or a subresource.
struct What(GroupResource, Option<Subresource>);

impl What {
    fn attempt(&self, method: &Method) -> Attempt {
        let Self(resource, subresource) = self;
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            _ => "delete",
        };
        let subresource = subresource.map(|subresource| format!("/{}", subresource.as_str())).unwrap_or_default();
        Attempt { verb, resource: format!("{resource}{subresource}") }
    }
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Cluster for RemoteCluster {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        let next = |(caller, told): (Arc<Caller>, Option<Arc<Vec<ServedKind>>>)| async move {
            let mut served = caller.served();
            while told.as_ref() == Some(&served) {
                let clock = &caller.env.clock;
                clock.sleep_until(clock.now() + REFRESH).await;
                if let Err(error) = caller.refresh().await {
                    tracing::info!(%error, "discovery failed; using the previous result");
                }
                served = caller.served();
            }
            Some((served.to_vec(), (caller, Some(served))))
        };
        stream::unfold((Arc::clone(&self.caller), None), next).boxed()
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        follow(Arc::clone(&self.caller), resource, self.within.clone())
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let at = self.at(&resource, key, None);
        async move {
            let answer = self.caller.ask(Method::GET, at?, &[], Bytes::new()).await?;
            match self.written(answer) {
                Ok(object) => Ok(Some(object)),
                Err(ClusterError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    /// A missing object and a kind without a scale are both 404. Then the object itself decides.
    fn get_scale(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let (at, key) = (self.at(&resource, key, Some(Subresource::Scale)), key.clone());
        async move {
            match self.written(self.caller.ask(Method::GET, at?, &[], Bytes::new()).await?) {
                Ok(scale) => Ok(Some(scale)),
                Err(without @ ClusterError::NotFound(_)) => match self.get(resource, &key).await? {
                    Some(_) => Err(without),
                    None => Ok(None),
                },
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        async move {
            let kind = self.caller.kind(&resource)?;
            let within = self.within.as_ref().filter(|_| kind.scope == Scope::Namespaced);
            let at = At::all(&kind.gvr(), within.map(|namespace| &**namespace));
            let page = self.caller.page(&resource.plural, at, Some(1), None).await;
            page.map(|page| page.revision).map_err(|trouble| trouble.error)
        }
        .boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let at = At::all(&object.gvk().group_version().with_resource(object.resource().plural), object.meta().namespace.as_deref());
        let (body, what) = (object.encode().into(), What(object.resource(), None));
        async move { self.written(self.write(Method::POST, what, self.named_in(at), JSON, body).await?) }.boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let at = self.at(&resource, key, subresource).map(|at| at.with("fieldManager", field_manager(self.manager, subresource)));
        let what = What(resource, subresource);
        async move { self.written(self.write(Method::PATCH, what, at?, MERGE_PATCH, patch.to_string().into()).await?) }.boxed()
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let meta = object.meta();
        let key = ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() };
        let at = self.at(&object.resource(), &key, subresource);
        let (body, what) = (object.encode().into(), What(object.resource(), subresource));
        async move { self.written(self.write(Method::PUT, what, self.named_in(at?), JSON, body).await?) }.boxed()
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        let at = self.at(&PODS, pod, Some(Subresource::Binding));
        let metadata = json!({"name": pod.name, "namespace": pod.namespace, "uid": uid});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}});
        async move {
            self.write(Method::POST, What(PODS, Some(Subresource::Binding)), self.named_in(at?), JSON, binding.to_string().into())
                .await?
                .accepted()
                .map(drop)
        }
        .boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let at = self.at(&resource, key, None);
        async move {
            let answer = self.write(Method::DELETE, What(resource, None), at?, JSON, options(&params).to_string().into()).await?;
            let body = answer.accepted()?;
            let left: Left = serde_json::from_slice(&body).map_err(|error| self.caller.unreadable("what was deleted", &error))?;
            if left.kind == "Status" || !lingers(&body, &params).map_err(|error| self.caller.unreadable("what was deleted", &error))? {
                return Ok(None);
            }
            self.written(Answer { code: StatusCode::OK, retry_after: None, body }).map(Some)
        }
        .boxed()
    }
}

impl RemoteCluster {
    fn at(&self, resource: &GroupResource, key: &ObjectKey, subresource: Option<Subresource>) -> Result<At, ClusterError> {
        Ok(At::one(&self.caller.kind(resource)?, key, subresource))
    }
}

/// `DeleteOptions`.
fn options(params: &DeleteParams) -> Value {
    let DeleteParams { uid, resource_version, propagation, grace_period_seconds } = params;
    let policy = propagation.map(|propagation| match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    });
    let resource_version = resource_version.map(|version| version.to_string());
    json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid, "resourceVersion": resource_version},
        "propagationPolicy": policy,
        "gracePeriodSeconds": grace_period_seconds,
    })
}

/// The response to a deletion: a `Status`, or the object.
#[derive(Deserialize)]
struct Left {
    #[serde(default)]
    kind: String,
}

/// The fields that determine whether an object is terminating or deleted.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Leaving {
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

/// Whether the object in the response to a deletion still exists. Some kinds return the last state, others the
/// terminating object.
fn lingers(object: &[u8], params: &DeleteParams) -> Result<bool, serde_json::Error> {
    let leaving: Leaving = read_metadata(object)?;
    let is_held = leaving.finalizers.is_some_and(|finalizers| !finalizers.is_empty());
    let has_time = match leaving.deletion_grace_period_seconds {
        // A kind without a grace period that something else keeps: a namespace.
        None => true,
        Some(0) => false,
        Some(_) => params.grace_period_seconds != Some(0),
    };
    Ok(leaving.deletion_timestamp.is_some() && (is_held || has_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_deleted_object_is_known_from_what_it_was_last() {
        let check = |metadata: Value, grace: Option<i64>, wanted| {
            let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
            let object = json!({"kind": "Pod", "metadata": metadata}).to_string();
            assert_eq!(lingers(object.as_bytes(), &params).expect("an object"), wanted, "{object} {grace:?}");
        };
        let marked = |grace: i64, finalizers: Value| json!({"deletionTimestamp": "2026-11-23T00:00:00Z", "deletionGracePeriodSeconds": grace, "finalizers": finalizers});
        check(json!({"name": "web"}), None, false);
        check(marked(30, Value::Null), None, true);
        check(marked(30, Value::Null), Some(0), false);
        check(marked(0, json!([])), None, false);
        check(marked(0, json!(["example.com/held"])), Some(0), true);
        check(json!({"finalizers": ["example.com/held"]}), None, false);
        check(json!({"deletionTimestamp": "2026-11-23T00:00:00Z"}), None, true);
    }

    #[test]
    fn a_deletion_names_its_target() {
        let params = DeleteParams {
            uid: Some("u-1".into()),
            resource_version: Some(Revision(7)),
            propagation: Some(Propagation::Orphan),
            grace_period_seconds: Some(0),
        };
        let wanted = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u-1", "resourceVersion": "7"},
            "propagationPolicy": "Orphan", "gracePeriodSeconds": 0});
        assert_eq!(options(&params), wanted);
    }
}
