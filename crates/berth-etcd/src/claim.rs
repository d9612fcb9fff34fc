//! Whose keys are in an etcd: one control plane's, and of a layout that this berth knows.

use crate::Client;
use berth_store::{
    COMMIT_WRITES_MAX, Expected, Key, Revision,
    etcd::{Etcd, EtcdError, KeyValue, Outcome, Put, Query},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Beside the keys of all resources: no group is called so.
const OWNER: &str = "/registry/berth.dev/control-plane";
/// Where that is, with how many keys there are at most: two of the place's own, and one of each server that lives.
const OURS: (&str, usize) = ("/registry/berth.dev/", 3 + SERVERS_MAX);
/// What the keys of servers begin with that live (`living_servers.rs` in berth-registry).
const SERVERS: &str = "/registry/berth.dev/servers/";
/// More are not counted with.
const SERVERS_MAX: usize = 100;
/// How keys are laid out: as upstream does. A berth that lays them out otherwise counts on. 1 is older than the first release.
const LAYOUT: u64 = 2;
/// An import that has not come to its end.
const IMPORTING: &str = "import";
/// Keys that berth alone has: a node port each.
const PORTS: &str = "/registry/ranges/servicenodeports/";
/// How often it is tried: another may begin at the same moment, and etcd may not say what became of a write.
const TRIES: usize = 5;
/// How many keys of others are named.
const NAMED_MAX: usize = 3;

/// Why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Nobody has said whose it is, and it is not empty.
    #[error("etcd contains keys below {prefix} that berth did not create: {}", keys.join(", "))]
    Foreign {
        /// Below which.
        prefix: String,
        /// The first of them, as etcd has them.
        keys: Vec<String>,
    },
    /// Another control plane's.
    #[error("the keys below {prefix} in etcd belong to a control plane with other certificates (see {owner})")]
    Others {
        /// Below which.
        prefix: String,
        /// The key that says whose it is, as etcd has it.
        owner: String,
    },
    /// A kube-apiserver runs over it.
    #[error("a kube-apiserver uses the keys below {prefix} in etcd (see {lease})")]
    Rival {
        /// Below which.
        prefix: String,
        /// The key that it renews, as etcd has it.
        lease: String,
    },
    /// What says whose it is cannot be understood.
    #[error("the keys below {prefix} in etcd have the layout {layout} of another berth version; this one knows {LAYOUT}")]
    Layout {
        /// Below which.
        prefix: String,
        /// What stands there.
        layout: String,
    },
    /// An import was broken off there.
    #[error("the keys below {prefix} in etcd are part of an interrupted import")]
    HalfImported {
        /// Below which.
        prefix: String,
    },
    /// It has objects already.
    #[error("etcd already contains objects of this control plane below {prefix}")]
    Occupied {
        /// Below which.
        prefix: String,
    },
    /// A berth serves it.
    #[error("a berth server uses the keys below {prefix} in etcd (see {server})")]
    Served {
        /// Below which.
        prefix: String,
        /// The key that it renews, as etcd has it.
        server: String,
    },
    /// No berth has it.
    #[error("the keys below {prefix} in etcd do not belong to berth")]
    Nobodys {
        /// Below which.
        prefix: String,
    },
    /// etcd does not say.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

/// Who claims a place in an etcd, and what for.
pub struct Claim<'c> {
    /// The certificate of the control plane's authority, PEM.
    pub authority: &'c str,
    /// Authorities that may have said so before: where one of them does, the place is said to be that of `authority` from now on.
    pub before: &'c [String],
    /// Whether it takes over what a kube-apiserver has stored there.
    pub take_over: bool,
}

/// What a place was before it was claimed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Empty.
    Own,
    /// A kube-apiserver's.
    TakenOver,
}

/// What is written there.
struct Mark<'m> {
    layout: Value,
    authority: &'m str,
    origin: Origin,
    /// Somebody has begun to give it back.
    is_half_given_back: bool,
}

impl Client {
    /// Makes the place that of the control plane with this authority, until it is [given back](Self::give_back), if it is empty or taken over; else looks
    /// whether it is.
    ///
    /// It says who may use it, not who does: the control plane itself is to see to it that it runs once. No kube-apiserver may run over it.
    ///
    /// # Errors
    /// [`ClaimError`]. Unless it is etcd that fails, nothing is written then.
    pub async fn claim(&self, claim: &Claim<'_>) -> Result<Origin, ClaimError> {
        let mut tries = 1..TRIES;
        loop {
            match self.claim_once(claim).await {
                Err(ClaimError::Etcd(EtcdError::Unknown(_))) if tries.next().is_some() => (),
                claimed => return claimed,
            }
        }
    }

    async fn claim_once(&self, claim: &Claim<'_>) -> Result<Origin, ClaimError> {
        let prefix = self.as_in_etcd("/registry");
        if let Some(lease) = self.rival().await? {
            return Err(ClaimError::Rival { prefix, lease });
        }
        let authority = claim.authority;
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
            let mut keys = self.first_keys("/registry/", NAMED_MAX + OURS.1).await?;
            let is_owned = keys.iter().any(|found| found.key.as_str() == OWNER);
            keys.retain(|found| !found.key.as_str().starts_with(OURS.0));
            keys.truncate(NAMED_MAX);
            let origin = match &keys[..] {
                [] => Origin::Own,
                [..] if claim.take_over => Origin::TakenOver,
                // Somebody was quicker: the next look sees whose it is.
                [..] if is_owned => Origin::Own,
                [..] => {
                    let keys = keys.into_iter().map(|found| self.as_in_etcd(found.key.as_str())).collect();
                    return Err(ClaimError::Foreign { prefix, keys });
                }
            };
            self.mark(&Mark { layout: LAYOUT.into(), authority, origin, is_half_given_back: false }, Expected::Absent).await?;
            return Ok(origin);
        };
        let (mark, is_renamed) = match self.read_mark(&found, authority) {
            Err(ClaimError::Others { prefix, owner }) => {
                let earlier = claim.before.iter().find_map(|before| self.read_mark(&found, before).ok());
                (earlier.map(|mark| Mark { authority, ..mark }).ok_or(ClaimError::Others { prefix, owner })?, true)
            }
            mark => (mark?, false),
        };
        if mark.layout == IMPORTING {
            return Err(ClaimError::HalfImported { prefix });
        }
        if is_renamed {
            self.mark(&mark, Expected::At(found.mod_revision)).await?;
        }
        Ok(mark.origin)
    }

    /// Whether the place is that of the control plane with this authority, and no kube-apiserver runs over it.
    ///
    /// # Errors
    /// [`ClaimError`]; [`ClaimError::Nobodys`]: nobody has it.
    pub async fn check_own(&self, authority: &str) -> Result<(), ClaimError> {
        let prefix = self.as_in_etcd("/registry");
        if let Some(lease) = self.rival().await? {
            return Err(ClaimError::Rival { prefix, lease });
        }
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else { return Err(ClaimError::Nobodys { prefix }) };
        match self.read_mark(&found, authority)?.layout {
            layout if layout == IMPORTING => Err(ClaimError::HalfImported { prefix }),
            _ => Ok(()),
        }
    }

    /// Whether somebody has begun to give back the place of the control plane with this authority, and has not come to the end.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub async fn is_half_given_back(&self, authority: &str) -> Result<bool, ClaimError> {
        let found = self.first_keys(OWNER, 1).await?.into_iter().next();
        Ok(found.map(|found| self.read_mark(&found, authority)).transpose()?.is_some_and(|mark| mark.is_half_given_back))
    }

    /// Says that it is being given back, or that it is kept after all: whoever starts there next must know what the objects say.
    ///
    /// # Errors
    /// [`ClaimError`]; [`ClaimError::Nobodys`]: nobody has it.
    pub async fn set_half_given_back(&self, authority: &str, is_half_given_back: bool) -> Result<(), ClaimError> {
        self.set_mark(authority, |mark| (mark.is_half_given_back != is_half_given_back).then_some(Mark { is_half_given_back, ..mark }))
            .await
    }

    /// Gives up the place of the control plane with this authority, with what only berth has keys for: whoever starts there next may take it. Broken off, it goes on with the next call.
    ///
    /// # Errors
    /// [`ClaimError`]: it is another's, or etcd does not answer.
    pub async fn give_back(&self, authority: &str) -> Result<(), ClaimError> {
        while let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() {
            self.read_mark(&found, authority)?;
            if let Some(served) = self.first_keys(SERVERS, 1).await?.first() {
                return Err(ClaimError::Served { prefix: self.as_in_etcd("/registry"), server: self.as_in_etcd(served.key.as_str()) });
            }
            let ports = self.first_keys(PORTS, COMMIT_WRITES_MAX).await?;
            let ours = self.first_keys(OURS.0, OURS.1).await?;
            self.delete(if ports.is_empty() { ours } else { ports }).await?;
        }
        Ok(())
    }

    /// Makes an empty place that of the control plane with this authority, and keeps every server from it until [`Client::end_import`]. What an import that was
    /// broken off has left there is deleted.
    ///
    /// # Errors
    /// [`ClaimError`]. Unless it is etcd that fails, nothing is written then.
    pub async fn begin_import(&self, authority: &str) -> Result<(), ClaimError> {
        let prefix = self.as_in_etcd("/registry");
        if let Some(lease) = self.rival().await? {
            return Err(ClaimError::Rival { prefix, lease });
        }
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
            let keys = self.first_keys("/registry/", NAMED_MAX).await?;
            if !keys.is_empty() {
                let keys = keys.into_iter().map(|found| self.as_in_etcd(found.key.as_str())).collect();
                return Err(ClaimError::Foreign { prefix, keys });
            }
            let mark = Mark { layout: IMPORTING.into(), authority, origin: Origin::Own, is_half_given_back: false };
            self.mark(&mark, Expected::Absent).await?;
            return Ok(());
        };
        if self.read_mark(&found, authority)?.layout != IMPORTING {
            return Err(ClaimError::Occupied { prefix });
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

    /// Says that all of an import is there: from now on the control plane may start over it.
    ///
    /// # Errors
    /// [`ClaimError`].
    pub async fn end_import(&self, authority: &str) -> Result<(), ClaimError> {
        self.set_mark(authority, |mark| (mark.layout != LAYOUT).then_some(Mark { layout: LAYOUT.into(), ..mark })).await
    }

    /// Changes what is written there, until it needs no change.
    async fn set_mark<'m>(&self, authority: &'m str, change: impl Fn(Mark<'m>) -> Option<Mark<'m>>) -> Result<(), ClaimError> {
        loop {
            let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
                return Err(ClaimError::Nobodys { prefix: self.as_in_etcd("/registry") });
            };
            let Some(mark) = change(self.read_mark(&found, authority)?) else { return Ok(()) };
            match self.mark(&mark, Expected::At(found.mod_revision)).await {
                // The next look tells.
                Ok(_) | Err(EtcdError::Unknown(_)) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes keys that have not changed since they were read. Whether it did, the next look tells.
    async fn delete(&self, keys: Vec<KeyValue>) -> Result<(), EtcdError> {
        let delete = |found: KeyValue| Put { key: found.key, expected: Some(Expected::At(found.mod_revision)), value: None, lease: None };
        match self.txn(keys.into_iter().map(delete).collect()).await {
            Ok(_) | Err(EtcdError::Unknown(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What stands there, if it is of this control plane and this build can read it.
    fn read_mark<'m>(&self, found: &KeyValue, authority: &'m str) -> Result<Mark<'m>, ClaimError> {
        let prefix = self.as_in_etcd("/registry");
        let said: Value = serde_json::from_slice(&found.value).unwrap_or_default();
        let layout = said["layout"].clone();
        if layout != LAYOUT && layout != IMPORTING {
            return Err(ClaimError::Layout { prefix, layout: layout.to_string() });
        }
        if said["certificateAuthority"] != authority {
            return Err(ClaimError::Others { prefix, owner: self.as_in_etcd(OWNER) });
        }
        let origin = if said["takenOver"] == true { Origin::TakenOver } else { Origin::Own };
        Ok(Mark { layout, authority, origin, is_half_given_back: said["givingBack"] == true })
    }

    /// Writes whose it is, and its layout.
    async fn mark(&self, mark: &Mark<'_>, expected: Expected) -> Result<Revision, EtcdError> {
        let mut value = json!({"layout": mark.layout, "certificateAuthority": mark.authority});
        if mark.origin == Origin::TakenOver {
            value["takenOver"] = true.into();
        }
        if mark.is_half_given_back {
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

    /// The first keys that begin so.
    pub(crate) async fn first_keys(&self, prefix: &str, limit: usize) -> Result<Vec<KeyValue>, EtcdError> {
        Ok(self.range(Query { prefix: prefix.into(), start_after: None, at: None, limit: Some(limit) }).await?.keys)
    }

    pub(crate) fn as_in_etcd(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.members.place.there(text)).into_owned()
    }
}
