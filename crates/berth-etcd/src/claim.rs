//! Whose keys are in an etcd: one control plane's, and of a layout that this berth knows.

use crate::Client;
use berth_store::{
    Expected, Key, Layout, Revision,
    etcd::{Etcd, EtcdError, KeyValue, Outcome, Put, Query, move_keys},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Beside the keys of all resources: no group is called so.
const OWNER: &str = "/registry/berth.dev/control-plane";
/// How keys are laid out: as upstream does. A berth that lays them out otherwise counts on.
const LAYOUT: u64 = 2;
/// Before upstream's: by group and plural.
const EARLIER: u64 = 1;
/// On the way from there: what neither of them takes.
const MOVING: &str = "1 to 2";
/// How often it is tried: another may begin at the same moment, and etcd may not say what became of a write.
const TRIES: usize = 5;
/// How many keys of others are named.
const NAMED_MAX: usize = 3;

/// Why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Nobody has said whose it is, and it is not empty.
    #[error("etcd has keys below {prefix} that berth did not make: {}", keys.join(", "))]
    Foreign {
        /// Below which.
        prefix: String,
        /// The first of them, as etcd has them.
        keys: Vec<String>,
    },
    /// Another control plane's.
    #[error("what etcd has below {prefix} is of a control plane with other certificates; {owner} there says so")]
    Others {
        /// Below which.
        prefix: String,
        /// The key that says whose it is, as etcd has it.
        owner: String,
    },
    /// What says whose it is cannot be understood.
    #[error("what etcd has below {prefix} was made by a berth that lays it out otherwise (layout {layout}; this one knows {LAYOUT})")]
    Layout {
        /// Below which.
        prefix: String,
        /// What stands there.
        layout: String,
    },
    /// etcd does not say.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

impl Client {
    /// Makes the place that of the control plane with this authority (its certificate, PEM), for good, if it is empty; else looks whether it is. What
    /// an earlier build keeps there is then moved to where `layout` has it, which takes a while; broken off, it goes on with the next claim.
    ///
    /// It says who may use it, not who does: the control plane itself is to see to it that it runs once.
    ///
    /// # Errors
    /// [`ClaimError`]. Unless it is etcd that fails, nothing is written then.
    pub async fn claim(&self, authority: &str, layout: &dyn Layout) -> Result<(), ClaimError> {
        let mut tries = 1..TRIES;
        loop {
            match self.claim_once(authority, layout).await {
                Err(ClaimError::Etcd(EtcdError::Unknown(_))) if tries.next().is_some() => (),
                claimed => return claimed,
            }
        }
    }

    async fn claim_once(&self, authority: &str, layout: &dyn Layout) -> Result<(), ClaimError> {
        let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() else {
            let keys = self.first_keys("/registry/", NAMED_MAX).await?;
            if !keys.is_empty() && !keys.iter().any(|found| found.key.as_str() == OWNER) {
                let keys = keys.into_iter().map(|found| self.as_in_etcd(found.key.as_str())).collect();
                return Err(ClaimError::Foreign { prefix: self.as_in_etcd("/registry"), keys });
            }
            self.mark(&LAYOUT.into(), authority, Expected::Absent).await?;
            return Ok(());
        };
        let prefix = self.as_in_etcd("/registry");
        let said: Value = serde_json::from_slice(&found.value).unwrap_or_default();
        let of = said["layout"].clone();
        if ![LAYOUT.into(), EARLIER.into(), Value::from(MOVING)].contains(&of) {
            return Err(ClaimError::Layout { prefix, layout: of.to_string() });
        }
        if said["certificateAuthority"] != authority {
            return Err(ClaimError::Others { prefix, owner: self.as_in_etcd(OWNER) });
        }
        if of == LAYOUT {
            return Ok(());
        }
        let mut marked = found.mod_revision;
        if of == EARLIER {
            // From here on no earlier build starts there: half of the objects would be missing, and its controllers would make them anew.
            marked = self.mark(&MOVING.into(), authority, Expected::At(marked)).await?;
        }
        move_keys(self, layout, "/registry/").await?;
        self.mark(&LAYOUT.into(), authority, Expected::At(marked)).await?;
        Ok(())
    }

    /// Writes whose it is, and its layout.
    async fn mark(&self, layout: &Value, authority: &str, expected: Expected) -> Result<Revision, EtcdError> {
        let value = json!({"layout": layout, "certificateAuthority": authority}).to_string();
        match self.txn(Arc::new([Put { key: Key::new(OWNER), expected, value: Some(value.into()), lease: None }])).await? {
            Outcome::Done(revision) => Ok(revision),
            Outcome::Refused { .. } => Err(EtcdError::Unknown("others write there at the same moment".into())),
        }
    }

    /// The first keys that begin so.
    async fn first_keys(&self, prefix: &str, limit: usize) -> Result<Vec<KeyValue>, EtcdError> {
        Ok(self.range(Query { prefix: prefix.into(), start_after: None, at: None, limit: Some(limit) }).await?.keys)
    }

    fn as_in_etcd(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.members.place.there(text)).into_owned()
    }
}
