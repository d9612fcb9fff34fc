//! The cluster that a kubeconfig names: reading, patching and watching objects as JSON, so that fields of a newer server are not lost.

use super::{error::Error, options::ClusterOptions};
use futures::{Stream, StreamExt};
use http::Uri;
use kube::{
    Api, Client, Config,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersion, Request, gvk::GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{path::PathBuf, time::Duration};

/// What writes are recorded under.
const FIELD_MANAGER: &str = "berth-rollout";

/// A namespace of a cluster.
#[derive(Clone)]
pub(super) struct Connection {
    client: Client,
    namespace: String,
    server: String,
    /// Of a request that is no watch.
    timeout: Option<Duration>,
}

/// An object of a list.
pub(super) struct Item {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The whole object.
    pub(super) json: String,
}

/// Whether a write is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Yes,
    /// The server only says what it would do.
    DryRun,
}

impl Connection {
    /// Finds the cluster as kubectl does. Sends nothing yet.
    ///
    /// # Errors
    /// No cluster is named anywhere, or what is written about it cannot be used.
    pub(super) async fn open(options: &ClusterOptions) -> Result<Self, Error> {
        let config = config(options).await?;
        let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|source| Error::Client { server: server.clone(), source })?;
        let timeout = Some(options.request_timeout).filter(|limit| !limit.is_zero());
        Ok(Self { client, namespace, server, timeout })
    }

    /// Another namespace of the same cluster.
    pub(super) fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The namespace that is looked in.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// One object.
    pub(super) async fn get(&self, api_version: &str, plural: &str, name: &str) -> Result<String, Error> {
        let request = self.request(api_version, plural).get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        self.answer(self.client.request_text(request)).await
    }

    /// What the server answers at a path that is no object's, such as `/metrics`.
    pub(super) async fn text(&self, path: &str) -> Result<String, Error> {
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let request = Request::new(folder).get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        self.answer(self.client.request_text(request)).await
    }

    /// All objects of the namespace, or those with the labels.
    pub(super) async fn list(&self, api_version: &str, plural: &str, selector: Option<&str>) -> Result<Vec<Item>, Error> {
        self.list_at(self.request(api_version, plural), plural, selector).await
    }

    /// The same in all namespaces.
    pub(super) async fn list_everywhere(&self, api_version: &str, plural: &str, selector: Option<&str>) -> Result<Vec<Item>, Error> {
        self.list_at(Request::new(format!("{}/{plural}", root(api_version))), plural, selector).await
    }

    async fn list_at(&self, at: Request, plural: &str, selector: Option<&str>) -> Result<Vec<Item>, Error> {
        let params = ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default() };
        let request = at.list(&params).map_err(|error| Error::Usage(error.to_string()))?;
        let list: List = self.answer(self.client.request(request)).await?;
        list.items
            .into_iter()
            .map(|item| named(&item))
            .collect::<Result<_, _>>()
            .map_err(|source| Error::Decode { what: plural.to_owned(), source })
    }

    /// Changes an object by a JSON merge patch; gives what it is then.
    pub(super) async fn merge_patch(&self, api_version: &str, plural: &str, name: &str, patch: Value) -> Result<Value, Error> {
        self.patch(api_version, plural, name, &Patch::Merge(patch), Keep::Yes).await
    }

    /// Changes an object by a JSON patch; gives what it is then.
    pub(super) async fn json_patch(&self, api_version: &str, plural: &str, name: &str, patch: Value, keep: Keep) -> Result<Value, Error> {
        let patch = serde_json::from_value(patch).map_err(|source| Error::Decode { what: "the patch".to_owned(), source })?;
        self.patch(api_version, plural, name, &Patch::Json::<()>(patch), keep).await
    }

    async fn patch<P>(&self, api_version: &str, plural: &str, name: &str, patch: &Patch<P>, keep: Keep) -> Result<Value, Error>
    where
        P: serde::Serialize + std::fmt::Debug,
    {
        let manager = Some(FIELD_MANAGER.to_owned());
        let params = PatchParams { field_manager: manager, dry_run: keep == Keep::DryRun, ..PatchParams::default() };
        let request = self.request(api_version, plural).patch(name, &params, patch).map_err(|error| Error::Usage(error.to_string()))?;
        self.answer(self.client.request(request)).await
    }

    async fn answer<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        let answer = match self.timeout {
            Some(limit) => {
                let late = |_| Error::Late { server: self.server.clone(), limit };
                tokio::time::timeout(limit, answer).await.map_err(late)?
            }
            None => answer.await,
        };
        answer.map_err(|error| self.refused(error))
    }

    /// The objects of a kind as they are, then as they change. An error is followed by another attempt, the later the more there were.
    pub(super) fn watch(
        &self,
        kind: &GroupVersionKind,
        plural: &str,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Send + use<> {
        let resource = ApiResource::from_gvk_with_plural(kind, plural);
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, &resource);
        watcher(api, config).default_backoff().boxed()
    }

    fn request(&self, api_version: &str, plural: &str) -> Request {
        Request::new(format!("{}/namespaces/{}/{plural}", root(api_version), self.namespace))
    }

    fn refused(&self, error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status) => Error::Refused { hint: hint(status.code), message: status.message },
            source => Error::Unreachable { server: self.server.clone(), source },
        }
    }
}

fn root(api_version: &str) -> String {
    let root = if api_version == "v1" { "/api" } else { "/apis" };
    format!("{root}/{api_version}")
}

/// What to do about an answer of the server.
fn hint(code: u16) -> &'static str {
    match code {
        401 => "; the credentials of this context are not, or no longer, valid",
        403 => "; ask for a role that allows it, or choose another context (--context)",
        404 => "; is the namespace right (--namespace, --context)?",
        409 => "; somebody else changed it at the same moment: try again",
        _ => "",
    }
}

/// A group, version and kind.
pub(super) fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let version: GroupVersion = api_version.parse().expect("all that are passed are constants with one slash at most");
    version.with_kind(kind)
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

async fn config(options: &ClusterOptions) -> Result<Config, Error> {
    let merged = files(options).iter().try_fold(None, |merged: Option<Kubeconfig>, path| {
        let unreadable = |source| Error::Kubeconfig { path: path.clone(), source };
        let next = Kubeconfig::read_from(path).map_err(unreadable)?;
        Ok::<_, Error>(Some(merged.unwrap_or_default().merge(next).map_err(unreadable)?))
    })?;
    let names_cluster = |kubeconfig: &Kubeconfig| {
        let named = [&kubeconfig.current_context, &options.context, &options.cluster];
        named.iter().any(|name| name.as_ref().is_some_and(|name| !name.is_empty()))
    };
    let chosen = KubeConfigOptions { context: options.context.clone(), cluster: options.cluster.clone(), user: options.user.clone() };
    let found = match (merged, &options.server) {
        (Some(kubeconfig), server) if server.is_none() || names_cluster(&kubeconfig) => {
            Config::from_custom_kubeconfig(kubeconfig, &chosen).await.map_err(Error::Context)?
        }
        (_, Some(server)) => Config::new(address(server)?),
        (_, None) => Config::incluster().map_err(|_| Error::NoCluster)?,
    };
    overridden(found, options)
}

fn address(server: &str) -> Result<Uri, Error> {
    let parsed = server.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some());
    parsed.ok_or_else(|| Error::Server { server: server.to_owned() })
}

/// What the command line says counts more than what the kubeconfig says.
fn overridden(mut config: Config, options: &ClusterOptions) -> Result<Config, Error> {
    if let Some(server) = &options.server {
        config.cluster_url = address(server)?;
    }
    if let Some(path) = &options.certificate_authority {
        (config.root_cert, config.root_cert_file, config.accept_invalid_certs) = (None, Some(path.clone()), false);
    }
    config.accept_invalid_certs |= options.insecure_skip_tls_verify;
    config.tls_server_name = options.tls_server_name.clone().or(config.tls_server_name);
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    if let (Some(certificate), Some(key)) = (&options.client_certificate, &options.client_key) {
        config.auth_info = credentials(json!({"client-certificate": text(certificate), "client-key": text(key)}));
    } else if let Some(token) = &options.token {
        config.auth_info = credentials(json!({"token": token}));
    }
    if options.as_user.is_some() {
        config.auth_info.impersonate = options.as_user.clone();
        config.auth_info.impersonate_groups = Some(options.as_groups.clone()).filter(|groups| !groups.is_empty());
        config.auth_info.impersonate_uid = options.as_uid.clone();
    }
    Ok(config)
}

/// In the words of a kubeconfig, which know no other way to a secret.
fn credentials(user: Value) -> AuthInfo {
    serde_json::from_value(user).expect("it has strings under names of a kubeconfig's user")
}

/// The kubeconfig files that count. One that was asked for must be there, others need not.
fn files(options: &ClusterOptions) -> Vec<PathBuf> {
    if let Some(path) = &options.kubeconfig {
        return vec![path.clone()];
    }
    let listed = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty());
    let paths = match listed {
        Some(list) => std::env::split_paths(&list).collect(),
        None => etcetera::home_dir().map(|home| home.join(".kube/config")).into_iter().collect::<Vec<_>>(),
    };
    paths.into_iter().filter(|path| path.exists()).collect()
}
