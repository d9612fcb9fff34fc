//! The API group `metrics.k8s.io`: the usage of pods and nodes, computed from the stored pods at each request.
//!
//! Each server of several computes the same result, because nothing else is read. A pod without running containers, and a node that is not
//! ready, have no usage, as with metrics-server.

use crate::{
    Actor, ApiError, Collection, Current, GetOptions, List, ListOptions, Registry, Resource, Target, filter::Filter, key, resource::of,
};
use berth_api::{
    decode::Codec,
    k8s_openapi::{
        api::core::v1::{Node, Pod},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
    quantity::Quantity,
    simulation::{self, ContainerUsage},
};
use berth_identity::GroupResource;
use berth_store::{Entry, Header, env::yield_now};
use jiff::Timestamp;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// The API group.
pub const GROUP: &str = "metrics.k8s.io";
/// The number of pods that are decoded before other tasks run: about a millisecond of work.
const PIECE_PODS: usize = 64;
/// The time of a measurement. Simulated usage is exact at any moment, but clients compute with the window of metrics-server.
const WINDOW: &str = "15s";
const RUNNING: &str = "status.phase=Running";

/// The memory that the usage of one pod or node needs while a response is built, besides its names, labels and containers. In bytes.
const USAGE_BYTES: usize = 1 << 10;

/// Returns the memory that the usage of these pods or nodes needs while a response is built, in bytes. All that the usage repeats of an
/// object is shorter than the object.
#[must_use]
pub fn cost(measured: &List) -> usize {
    measured.items.iter().map(|entry| USAGE_BYTES + entry.value.len()).sum()
}

/// The usage of one pod or node. The members are in the order of the stored form of objects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    timestamp: String,
    window: &'static str,
    #[serde(flatten)]
    used: Used,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    creation_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a BTreeMap<String, String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Used {
    Containers(Vec<OfContainer>),
    Usage(Amounts),
}

#[derive(Serialize)]
struct OfContainer {
    name: String,
    usage: Amounts,
}

#[derive(Clone, Copy)]
struct Amounts {
    cpu: Quantity,
    memory: Quantity,
}

impl Serialize for Amounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("cpu", self.cpu.to_string()), ("memory", self.memory.to_string())])
    }
}

impl Amounts {
    const NONE: Self = Self { cpu: Quantity::ZERO, memory: Quantity::ZERO };

    fn plus(self, used: &ContainerUsage) -> Self {
        Self { cpu: self.cpu.plus(used.cpu), memory: self.memory.plus(used.memory) }
    }
}

impl Registry {
    /// Returns the number of objects that a request for usage reads at most, besides nodes.
    pub async fn count_for_usage(&self) -> usize {
        self.count(of::<Pod>()).await
    }

    /// Returns a page of the pods or nodes that have usage. `at` is of a resource whose objects are [computed](Resource::is_computed).
    ///
    /// # Errors
    /// Those of [`Registry::list`].
    pub async fn list_measured(&self, actor: &Actor, at: &Collection, options: &ListOptions) -> Result<List, ApiError> {
        Filter::parse(&at.resource, &options.label_selector, &options.field_selector)?;
        let mut options = options.clone();
        let source = if is_of_pods(&at.resource) {
            and(&mut options.field_selector, RUNNING);
            Collection { resource: Arc::clone(of::<Pod>()), namespace: at.namespace.clone() }
        } else {
            Collection { resource: Arc::clone(of::<Node>()), namespace: None }
        };
        self.list(actor, &source, &options).await
    }

    /// Returns the usage of these pods or nodes, which [`Registry::list_measured`] returned.
    ///
    /// # Errors
    /// Those of [`Registry::list`].
    pub async fn list_usage(&self, actor: &Actor, resource: &Resource, measured: List) -> Result<List, ApiError> {
        let items = if is_of_pods(resource) {
            self.usage_of_pods(resource, &measured.items).await?
        } else {
            self.usage_of_nodes(actor, resource, &measured.items).await?
        };
        Ok(List { items, ..measured })
    }

    /// Returns the usage of one pod or node.
    ///
    /// # Errors
    /// [`ApiError::NotFound`]: there is no such object, or it has no usage.
    pub async fn get_usage(&self, actor: &Actor, target: &Target, options: &GetOptions) -> Result<Current, ApiError> {
        let (source, shown) = match &target.namespace {
            Some(namespace) => (of::<Pod>(), format!("{namespace}/{}", target.name)),
            None => (of::<Node>(), target.name.clone()),
        };
        let stored = self.get(&Target { resource: Arc::clone(source), ..target.clone() }, options).await;
        let found = match stored {
            Ok(Current::Stored(entry)) if target.namespace.is_some() => self.usage_of_pods(&target.resource, &[entry]).await?,
            Ok(Current::Stored(entry)) => self.usage_of_nodes(actor, &target.resource, &[entry]).await?,
            Ok(Current::Made(_)) | Err(ApiError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let entry = found.into_iter().next().ok_or_else(|| {
            // metrics-server has these names.
            let resource = GroupResource::new(target.resource.group(), target.resource.kind().to_lowercase());
            ApiError::NotFound { resource, name: shown }
        })?;
        Ok(Current::Stored(entry))
    }

    async fn usage_of_pods(&self, resource: &Resource, pods: &[Arc<Entry>]) -> Result<Vec<Arc<Entry>>, ApiError> {
        let now = self.now();
        let mut measured = Vec::new();
        for piece in pods.chunks(PIECE_PODS) {
            for entry in piece {
                let pod = decoded::<Pod>(entry)?;
                let containers: Vec<OfContainer> = simulation::usage(&pod, now).into_iter().map(of_container).collect();
                if !containers.is_empty() {
                    measured.push(entry_of(resource, &pod.metadata, Used::Containers(containers), now, entry));
                }
            }
            yield_now().await;
        }
        Ok(measured)
    }

    async fn usage_of_nodes(&self, actor: &Actor, resource: &Resource, nodes: &[Arc<Entry>]) -> Result<Vec<Arc<Entry>>, ApiError> {
        let now = self.now();
        let source = Collection { resource: Arc::clone(of::<Pod>()), namespace: None };
        let mut options = ListOptions { field_selector: RUNNING.to_owned(), ..ListOptions::default() };
        if let [node] = nodes {
            and(&mut options.field_selector, &format!("spec.nodeName={}", node.name()));
        }
        let pods = self.list(actor, &source, &options).await?.items;
        let mut used: BTreeMap<String, Amounts> = BTreeMap::new();
        for piece in pods.chunks(PIECE_PODS) {
            for entry in piece {
                let pod = decoded::<Pod>(entry)?;
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
                let amounts = used.entry(node).or_insert(Amounts::NONE);
                *amounts = simulation::usage(&pod, now).iter().fold(*amounts, Amounts::plus);
            }
            yield_now().await;
        }
        let mut measured = Vec::new();
        for entry in nodes {
            let node = decoded::<Node>(entry)?;
            if is_ready(&node) {
                let amounts = used.get(entry.name()).copied().unwrap_or(Amounts::NONE);
                measured.push(entry_of(resource, &node.metadata, Used::Usage(amounts), now, entry));
            }
        }
        Ok(measured)
    }
}

fn is_of_pods(resource: &Resource) -> bool {
    resource.group_resource().plural == "pods"
}

fn and(selector: &mut String, requirement: &str) {
    if !selector.is_empty() {
        selector.push(',');
    }
    selector.push_str(requirement);
}

fn decoded<T: Codec>(entry: &Entry) -> Result<T, ApiError> {
    T::decode_json(&entry.value).map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })
}

fn of_container(used: ContainerUsage) -> OfContainer {
    let amounts = Amounts::NONE.plus(&used);
    OfContainer { name: used.name, usage: amounts }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the usage as an entry of a list. It has no resource version of its own, so none is shown.
fn entry_of(resource: &Resource, metadata: &ObjectMeta, used: Used, now: Timestamp, source: &Entry) -> Arc<Entry> {
    let (name, namespace) = (metadata.name.as_deref().unwrap_or_default(), metadata.namespace.as_deref());
    let timestamp = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let metadata = Metadata { name, namespace, creation_timestamp: timestamp.clone(), labels: metadata.labels.as_ref() };
    let measured = Measured { api_version: resource.api_version(), kind: resource.kind(), metadata, timestamp, window: WINDOW, used };
    let value = serde_json::to_vec(&measured).expect("its keys are strings");
    Arc::new(Entry {
        key: key::key_of(resource, namespace, name),
        value: value.into(),
        header: Header::default(),
        create_revision: source.create_revision,
        mod_revision: source.mod_revision,
    })
}
