//! A claim: a key of the store that assigns an address or a node port to a Service.

use super::{Allocator, Good};
use crate::{
    ApiError, Target, resource,
    stamps::{new_uid, whole_seconds},
    stored::ATTEMPTS,
};
use berth_api::{
    ip::family,
    k8s_openapi::{api::networking::v1::IPAddress, apimachinery::pkg::apis::meta::v1::Time},
};
use berth_store::{Entry, Expected, Key, Purpose, RangeRequest, Revision, WriteError};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// The prefix of the keys of claimed node ports.
pub(super) const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";
/// The label of addresses that this code manages.
pub(super) const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// An annotation of a claim that no Service appears to use. A Service that uses the claim removes the annotation, which
/// changes the revision.
pub(super) const UNUSED: &str = "berth.dev/unused";

/// A claim at one revision.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) good: Good,
    key: Key,
    revision: Revision,
    value: Bytes,
    pub(super) was: Held,
}

/// The state of a good before it was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// No Service had it.
    Free,
    /// A Service of the same name had it: a deleted one, or one that a concurrent write stores.
    BySameName,
}

/// The Service that has a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Holder {
    pub(super) fn of(target: &Target) -> Self {
        Self { namespace: target.namespace.clone().unwrap_or_default(), name: target.name.clone() }
    }
}

/// The fields of a claim that are read.
#[derive(Deserialize)]
struct Stored {
    spec: StoredSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredSpec {
    parent_ref: Parent,
}

#[derive(Deserialize)]
struct Parent {
    #[serde(default)]
    group: String,
    resource: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

/// Returns the Service of a claim, or `None` if another object has it.
pub(super) fn holder_of(entry: &Entry) -> Option<Holder> {
    let Parent { group, resource, namespace, name } = serde_json::from_slice::<Stored>(&entry.value).ok()?.spec.parent_ref;
    (group.is_empty() && resource == "services").then_some(Holder { namespace, name })
}

/// Returns the prefix of the keys of IPAddresses.
pub(super) fn addresses_prefix() -> &'static str {
    resource::of::<IPAddress>().prefix()
}

fn key_of(good: Good) -> Key {
    Key::new(&match good {
        Good::Address(address) => format!("{}{address}", addresses_prefix()),
        Good::NodePort(port) => format!("{NODE_PORTS}{port}"),
    })
}

impl Allocator {
    /// Claims a good for a Service. Returns `None` if another Service has it.
    pub(super) async fn claim(&self, holder: &Holder, good: Good) -> Result<Option<Claim>, ApiError> {
        let key = key_of(good);
        for _ in 0..ATTEMPTS {
            let value = self.new_value(holder, good);
            if let Some(entry) = self.put_claim(&key, value, Expected::Absent).await? {
                return Ok(Some(claim(good, &entry, Held::Free)));
            }
            let Some(entry) = self.store.get(&key).await? else { continue };
            if holder_of(&entry).as_ref() != Some(holder) {
                return Ok(None);
            }
            if let Some(entry) = self.put_claim(&key, without_mark(&entry), Expected::At(entry.mod_revision)).await? {
                return Ok(Some(claim(good, &entry, Held::BySameName)));
            }
        }
        Err(contended(good))
    }

    /// Checks that this Service still has the claim. Returns `false` if another one has it.
    pub(super) async fn hold(&self, holder: &Holder, claim: &Claim) -> Result<bool, ApiError> {
        for _ in 0..ATTEMPTS {
            let put = match self.store.get(&claim.key).await? {
                Some(entry) if entry.mod_revision == claim.revision => return Ok(true),
                Some(entry) if holder_of(&entry).as_ref() == Some(holder) => {
                    self.put_claim(&claim.key, without_mark(&entry), Expected::At(entry.mod_revision)).await?
                }
                Some(_) => return Ok(false),
                None => self.put_claim(&claim.key, claim.value.clone(), Expected::Absent).await?,
            };
            if put.is_some() {
                return Ok(true);
            }
        }
        Err(contended(claim.good))
    }

    /// Releases a claim, unless it was changed since.
    pub(super) async fn release(&self, claim: &Claim) {
        // The repair finds a claim that remains.
        let _ = self.store.delete(claim.key.clone(), claim.revision).await;
    }

    /// Annotates a claim as unused, unless it was changed since.
    pub(super) async fn mark_unused(&self, entry: &Entry) -> Result<(), ApiError> {
        let Ok(mut value) = serde_json::from_slice::<Value>(&entry.value) else { return Ok(()) };
        value["metadata"]["annotations"][UNUSED] = json!("true");
        self.put_claim(&entry.key, value.to_string().into(), Expected::At(entry.mod_revision)).await.map(drop)
    }

    /// Returns the claim on a good if this Service has it.
    pub(super) async fn claim_of(&self, holder: &Holder, good: Good) -> Result<Option<Claim>, ApiError> {
        let entry = self.store.get(&key_of(good)).await?;
        Ok(entry.filter(|entry| holder_of(entry).as_ref() == Some(holder)).map(|entry| claim(good, &entry, Held::BySameName)))
    }

    /// Whether a Service could claim the good.
    pub(super) async fn is_free_for(&self, holder: &Holder, good: Good) -> Result<bool, ApiError> {
        Ok(self.store.get(&key_of(good)).await?.is_none_or(|entry| holder_of(&entry).as_ref() == Some(holder)))
    }

    /// Returns the names of all claims below a prefix.
    pub(super) async fn used(&self, prefix: &str) -> Result<BTreeSet<String>, ApiError> {
        let entries = self.store.range(RangeRequest::all(prefix)).await?.entries;
        Ok(entries.iter().filter_map(|entry| entry.key.as_str().strip_prefix(prefix)).map(str::to_owned).collect())
    }

    /// Writes a claim. Returns `None` if the key is not as expected.
    async fn put_claim(&self, key: &Key, value: Bytes, expected: Expected) -> Result<Option<Arc<Entry>>, ApiError> {
        match self.store.put(key.clone(), value, expected, Purpose::Upkeep).await {
            Ok(entry) => Ok(Some(entry)),
            Err(WriteError::Conflict { .. }) => Ok(None),
            Err(error) => Err(ApiError::write_failed(&error)),
        }
    }

    /// Returns the value of a new claim. The claim of an address is a served object, and the claim of a port has the
    /// same form.
    fn new_value(&self, holder: &Holder, good: Good) -> Bytes {
        let created = Time(whole_seconds(self.clock.now()));
        let mut metadata = json!({"name": good.to_string(), "uid": new_uid(&*self.rng), "creationTimestamp": created});
        let parent = json!({"resource": "services", "namespace": holder.namespace, "name": holder.name});
        let (api_version, kind) = match good {
            Good::Address(address) => {
                metadata["labels"] = json!({"ipaddress.kubernetes.io/ip-family": family(address), MANAGED_BY.0: MANAGED_BY.1});
                ("networking.k8s.io/v1", "IPAddress")
            }
            Good::NodePort(_) => ("v1", "NodePortAllocation"),
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"parentRef": parent}}).to_string().into()
    }
}

fn claim(good: Good, entry: &Entry, was: Held) -> Claim {
    Claim { good, key: entry.key.clone(), revision: entry.mod_revision, value: entry.value.clone(), was }
}

/// Returns a claim's value without the annotation.
fn without_mark(entry: &Entry) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(&entry.value) else { return entry.value.clone() };
    if let Some(annotations) = value["metadata"]["annotations"].as_object_mut() {
        annotations.remove(UNUSED);
    } else if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    value.to_string().into()
}

fn contended(good: Good) -> ApiError {
    ApiError::Unavailable { message: format!("too many writers wanted {good} at once; try again") }
}
