//! The ownership of the keys in an etcd: one control plane, with a layout that this build supports.

use crate::Client;
use berth_store::{
    COMMIT_WRITES_MAX, Expected, Key, Revision,
    etcd::{Etcd, EtcdError, KeyValue, Outcome, Put, Query},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Next to the keys of resources. No API group has this name.
const OWNER: &str = "/registry/berth.dev/control-plane";
/// The prefix of this key, and the maximum number of keys below it: two of the control plane, and one of each live server.
const OURS: (&str, usize) = ("/registry/berth.dev/", 3 + SERVERS_MAX);
/// The key prefix of live servers (`living_servers.rs` in berth-registry).
const SERVERS: &str = "/registry/berth.dev/servers/";
/// The maximum number of live servers.
const SERVERS_MAX: usize = 100;
/// The layout of keys, which is upstream's. A build with another layout increments it. Layout 1 precedes the first
/// release.
const LAYOUT: u64 = 2;
/// The marker of an incomplete import.
const IMPORTING: &str = "import";
/// The prefix of keys that only berth writes: one per node port.
const PORTS: &str = "/registry/ranges/servicenodeports/";
/// The number of attempts: another server may begin at the same moment, and etcd may not report the outcome of a write.
const TRIES: usize = 5;
/// The maximum number of foreign keys in an error.
const NAMED_MAX: usize = 3;

/// Why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// The keys are not empty, and have no ownership record.
    #[error("etcd contains keys below {prefix} that berth did not create: {}", keys.join(", "))]
    Foreign {
        /// The prefix.
        prefix: String,
        /// The first of the keys, as in etcd.
        keys: Vec<String>,
    },
    /// Another control plane owns the keys.
    #[error("the keys below {prefix} in etcd belong to a control plane with other certificates (see {owner})")]
    Others {
        /// The prefix.
        prefix: String,
        /// The ownership record, as in etcd.
        owner: String,
    },
    /// A kube-apiserver uses the keys.
    #[error("a kube-apiserver uses the keys below {prefix} in etcd (see {lease})")]
    Rival {
        /// The prefix.
        prefix: String,
        /// The key that the kube-apiserver renews, as in etcd.
        lease: String,
    },
    /// The ownership record has an unknown layout.
    #[error("the keys below {prefix} in etcd have the layout {layout} of another berth version; this one knows {LAYOUT}")]
    Layout {
        /// The prefix.
        prefix: String,
        /// The layout in the record.
        layout: String,
    },
    /// An import was interrupted.
    #[error("the keys below {prefix} in etcd are part of an interrupted import")]
    HalfImported {
        /// The prefix.
        prefix: String,
    },
    /// The control plane already has objects.
    #[error("etcd already contains objects of this control plane below {prefix}")]
    Occupied {
        /// The prefix.
        prefix: String,
    },
    /// A berth server uses the keys.
    #[error("a berth server uses the keys below {prefix} in etcd (see {server})")]
    Served {
        /// The prefix.
        prefix: String,
        /// The key that the server renews, as in etcd.
        server: String,
    },
    /// berth does not own the keys.
    #[error("the keys below {prefix} in etcd do not belong to berth")]
    NoOwner {
        /// The prefix.
        prefix: String,
    },
    /// etcd did not respond.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

/// A request to acquire the keys in an etcd.
pub struct OwnershipRequest<'c> {
    /// The CA certificate of the control plane, PEM.
    pub authority: &'c str,
    /// Earlier authorities of the control plane: if one of them owns the keys, `authority` becomes the owner.
    pub before: &'c [String],
    /// Whether to take over the objects of a kube-apiserver.
    pub take_over: bool,
}

/// The state of the keys before the first acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The keys were empty.
    Own,
    /// A kube-apiserver's keys were taken over.
    TakenOver,
}

/// The value of the key [`OWNER`].
struct OwnershipRecord<'m> {
    layout: Value,
    authority: &'m str,
    origin: Origin,
    /// A server has begun to give the keys back.
    is_half_given_back: bool,
}

impl Client {
    /// Makes the control plane with this CA the owner of the keys, until it [gives them back](Self::give_back), if they
    /// are empty or taken over. Otherwise checks that it is the owner.
    ///
    /// The record states the owner, not the user: the control plane itself must ensure that it runs once. No
    /// kube-apiserver may use the keys.
    ///
    /// # Errors
    /// [`OwnershipError`]. Nothing is written then, unless etcd fails.
    pub async fn acquire(&self, request: &OwnershipRequest<'_>) -> Result<Origin, OwnershipError> {
        let mut tries = 1..TRIES;
        loop {
            match self.claim_once(request).await {
                Err(OwnershipError::Etcd(EtcdError::Unknown(_))) if tries.next().is_some() => (),
                claimed => return claimed,
            }
        }
    }

    async fn claim_once(&self, request: &OwnershipRequest<'_>) -> Result<Origin, OwnershipError> {
        let prefix = self.as_in_etcd("/registry");
        if let Some(lease) = self.rival().await? {
            return Err(OwnershipError::Rival { prefix, lease });
        }
        let authority = request.authority;
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
            let mut keys = self.first_keys("/registry/", NAMED_MAX + OURS.1).await?;
            let is_owned = keys.iter().any(|found| found.key.as_str() == OWNER);
            keys.retain(|found| !found.key.as_str().starts_with(OURS.0));
            keys.truncate(NAMED_MAX);
            let origin = match &keys[..] {
                [] => Origin::Own,
                [..] if request.take_over => Origin::TakenOver,
                // Another server was first. The next read shows the owner.
                [..] if is_owned => Origin::Own,
                [..] => {
                    let keys = keys.into_iter().map(|found| self.as_in_etcd(found.key.as_str())).collect();
                    return Err(OwnershipError::Foreign { prefix, keys });
                }
            };
            self.record(&OwnershipRecord { layout: LAYOUT.into(), authority, origin, is_half_given_back: false }, Expected::Absent).await?;
            return Ok(origin);
        };
        let (record, is_renamed) = match self.read_record(&found, authority) {
            Err(OwnershipError::Others { prefix, owner }) => {
                let earlier = request.before.iter().find_map(|before| self.read_record(&found, before).ok());
                (earlier.map(|record| OwnershipRecord { authority, ..record }).ok_or(OwnershipError::Others { prefix, owner })?, true)
            }
            record => (record?, false),
        };
        if record.layout == IMPORTING {
            return Err(OwnershipError::HalfImported { prefix });
        }
        if is_renamed {
            self.record(&record, Expected::At(found.mod_revision)).await?;
        }
        Ok(record.origin)
    }

    /// Checks that the control plane with this CA owns the keys, and that no kube-apiserver uses them.
    ///
    /// # Errors
    /// [`OwnershipError`]. [`OwnershipError::NoOwner`]: there is no owner.
    pub async fn check_own(&self, authority: &str) -> Result<(), OwnershipError> {
        let prefix = self.as_in_etcd("/registry");
        if let Some(lease) = self.rival().await? {
            return Err(OwnershipError::Rival { prefix, lease });
        }
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else { return Err(OwnershipError::NoOwner { prefix }) };
        match self.read_record(&found, authority)?.layout {
            layout if layout == IMPORTING => Err(OwnershipError::HalfImported { prefix }),
            _ => Ok(()),
        }
    }

    /// Whether a server has begun to give back the keys of the control plane with this CA, and has not finished.
    ///
    /// # Errors
    /// [`OwnershipError`].
    pub async fn is_half_given_back(&self, authority: &str) -> Result<bool, OwnershipError> {
        let found = self.first_keys(OWNER, 1).await?.into_iter().next();
        Ok(found.map(|found| self.read_record(&found, authority)).transpose()?.is_some_and(|record| record.is_half_given_back))
    }

    /// Records that the keys are being given back, or that they are kept after all. The next server that starts needs
    /// to know the form of the objects.
    ///
    /// # Errors
    /// [`OwnershipError`]; [`OwnershipError::NoOwner`]: there is no owner.
    pub async fn set_half_given_back(&self, authority: &str, is_half_given_back: bool) -> Result<(), OwnershipError> {
        self.set_record(authority, |record| {
            (record.is_half_given_back != is_half_given_back).then_some(OwnershipRecord { is_half_given_back, ..record })
        })
        .await
    }

    /// Gives up the keys of the control plane with this CA, and deletes the keys that only berth uses. The next server
    /// that starts may own them. After an interruption, another call continues.
    ///
    /// # Errors
    /// [`OwnershipError`]: another control plane owns them, or etcd does not respond.
    pub async fn give_back(&self, authority: &str) -> Result<(), OwnershipError> {
        while let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() {
            self.read_record(&found, authority)?;
            if let Some(served) = self.first_keys(SERVERS, 1).await?.first() {
                return Err(OwnershipError::Served { prefix: self.as_in_etcd("/registry"), server: self.as_in_etcd(served.key.as_str()) });
            }
            let ports = self.first_keys(PORTS, COMMIT_WRITES_MAX).await?;
            let ours = self.first_keys(OURS.0, OURS.1).await?;
            self.delete(if ports.is_empty() { ours } else { ports }).await?;
        }
        Ok(())
    }

    /// Makes the control plane with this CA the owner of empty keys, and blocks every server until
    /// [`Client::end_import`]. Deletes the keys of an interrupted import.
    ///
    /// # Errors
    /// [`OwnershipError`]. Nothing is written then, unless etcd fails.
    pub async fn begin_import(&self, authority: &str) -> Result<(), OwnershipError> {
        let prefix = self.as_in_etcd("/registry");
        if let Some(lease) = self.rival().await? {
            return Err(OwnershipError::Rival { prefix, lease });
        }
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
            let keys = self.first_keys("/registry/", NAMED_MAX).await?;
            if !keys.is_empty() {
                let keys = keys.into_iter().map(|found| self.as_in_etcd(found.key.as_str())).collect();
                return Err(OwnershipError::Foreign { prefix, keys });
            }
            let record = OwnershipRecord { layout: IMPORTING.into(), authority, origin: Origin::Own, is_half_given_back: false };
            self.record(&record, Expected::Absent).await?;
            return Ok(());
        };
        if self.read_record(&found, authority)?.layout != IMPORTING {
            return Err(OwnershipError::Occupied { prefix });
        }
        loop {
            let mut left = self.first_keys("/registry/", COMMIT_WRITES_MAX).await?;
            left.retain(|found| found.key.as_str() != OWNER);
            if left.is_empty() {
                return Ok(());
            }
            self.delete(left).await?;
        }
    }

    /// Records that an import is complete. The control plane may start from now on.
    ///
    /// # Errors
    /// [`OwnershipError`].
    pub async fn end_import(&self, authority: &str) -> Result<(), OwnershipError> {
        self.set_record(authority, |record| (record.layout != LAYOUT).then_some(OwnershipRecord { layout: LAYOUT.into(), ..record })).await
    }

    /// Changes the record, until it needs no change.
    async fn set_record<'m>(
        &self,
        authority: &'m str,
        change: impl Fn(OwnershipRecord<'m>) -> Option<OwnershipRecord<'m>>,
    ) -> Result<(), OwnershipError> {
        loop {
            let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
                return Err(OwnershipError::NoOwner { prefix: self.as_in_etcd("/registry") });
            };
            let Some(record) = change(self.read_record(&found, authority)?) else { return Ok(()) };
            match self.record(&record, Expected::At(found.mod_revision)).await {
                // The next read shows the outcome.
                Ok(_) | Err(EtcdError::Unknown(_)) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes keys that have not changed since they were read. The next read shows the outcome.
    async fn delete(&self, keys: Vec<KeyValue>) -> Result<(), EtcdError> {
        let delete = |found: KeyValue| Put { key: found.key, expected: Some(Expected::At(found.mod_revision)), value: None, lease: None };
        match self.txn(keys.into_iter().map(delete).collect()).await {
            Ok(_) | Err(EtcdError::Unknown(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the ownership record if it belongs to this control plane and this build supports it.
    fn read_record<'m>(&self, found: &KeyValue, authority: &'m str) -> Result<OwnershipRecord<'m>, OwnershipError> {
        let prefix = self.as_in_etcd("/registry");
        let said: Value = serde_json::from_slice(&found.value).unwrap_or_default();
        let layout = said["layout"].clone();
        if layout != LAYOUT && layout != IMPORTING {
            return Err(OwnershipError::Layout { prefix, layout: layout.to_string() });
        }
        if said["certificateAuthority"] != authority {
            return Err(OwnershipError::Others { prefix, owner: self.as_in_etcd(OWNER) });
        }
        let origin = if said["takenOver"] == true { Origin::TakenOver } else { Origin::Own };
        Ok(OwnershipRecord { layout, authority, origin, is_half_given_back: said["givingBack"] == true })
    }

    /// Writes the owner and the layout.
    async fn record(&self, record: &OwnershipRecord<'_>, expected: Expected) -> Result<Revision, EtcdError> {
        let mut value = json!({"layout": record.layout, "certificateAuthority": record.authority});
        if record.origin == Origin::TakenOver {
            value["takenOver"] = true.into();
        }
        if record.is_half_given_back {
            value["givingBack"] = true.into();
        }
        match self
            .txn(Arc::new([Put { key: Key::new(OWNER), expected: Some(expected), value: Some(value.to_string().into()), lease: None }]))
            .await?
        {
            Outcome::Done(revision) => Ok(revision),
            Outcome::Refused { .. } => Err(EtcdError::Unknown("other clients write there at the same time".into())),
        }
    }

    /// Returns the first keys with this prefix.
    pub(crate) async fn first_keys(&self, prefix: &str, limit: usize) -> Result<Vec<KeyValue>, EtcdError> {
        Ok(self.range(Query { prefix: prefix.into(), start_after: None, at: None, limit: Some(limit) }).await?.keys)
    }

    pub(crate) fn as_in_etcd(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.members.key_prefix.there(text)).into_owned()
    }
}
