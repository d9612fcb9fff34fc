//! Whose keys are in an etcd: one control plane's, and of a layout that this berth knows.

use crate::Client;
use berth_store::{
    Expected, Key,
    etcd::{Etcd, EtcdError, Outcome, Put, Query},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Beside the keys of all resources: no group is called so.
const OWNER: &str = "/registry/berth.dev/control-plane";
/// How keys and values are laid out. A berth that lays them out otherwise counts on.
const LAYOUT: u64 = 1;
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
    /// Makes the place that of the control plane with this authority (its certificate, PEM), for good, if it is empty; else looks whether it is.
    ///
    /// It says who may use it, not who does: the control plane itself is to see to it that it runs once.
    ///
    /// # Errors
    /// [`ClaimError`]. Nothing is written then.
    pub async fn claim(&self, authority: &str) -> Result<(), ClaimError> {
        let mut failure = EtcdError::Unknown("others write there at the same moment".into());
        for _ in 0..TRIES {
            if let Some(found) = self.first_keys(OWNER, 1).await?.into_iter().next() {
                return self.check(&found.1, authority);
            }
            let keys = self.first_keys("/registry/", NAMED_MAX).await?;
            if !keys.is_empty() && !keys.iter().any(|(key, _)| key == OWNER) {
                let keys = keys.into_iter().map(|(key, _)| self.as_in_etcd(&key)).collect();
                return Err(ClaimError::Foreign { prefix: self.as_in_etcd("/registry"), keys });
            }
            let value = json!({"layout": LAYOUT, "certificateAuthority": authority}).to_string();
            let put = Put { key: Key::new(OWNER), expected: Expected::Absent, value: Some(value.into()), lease: None };
            match self.txn(Arc::new([put])).await {
                Ok(Outcome::Done(_)) => return Ok(()),
                Ok(Outcome::Refused { .. }) => (),
                Err(EtcdError::Unknown(cause)) => failure = EtcdError::Unknown(cause),
                Err(error) => return Err(error.into()),
            }
        }
        Err(failure.into())
    }

    fn check(&self, found: &[u8], authority: &str) -> Result<(), ClaimError> {
        let prefix = self.as_in_etcd("/registry");
        let found: Value = serde_json::from_slice(found).unwrap_or_default();
        if found["layout"] != LAYOUT {
            return Err(ClaimError::Layout { prefix, layout: found["layout"].to_string() });
        }
        if found["certificateAuthority"] != authority {
            return Err(ClaimError::Others { prefix, owner: self.as_in_etcd(OWNER) });
        }
        Ok(())
    }

    /// The first keys that begin so, with their values.
    async fn first_keys(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, EtcdError> {
        let page = self.range(Query { prefix: prefix.into(), start_after: None, at: None, limit: Some(limit) }).await?;
        Ok(page.keys.into_iter().map(|found| (found.key.as_str().to_owned(), found.value.to_vec())).collect())
    }

    fn as_in_etcd(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.members.place.there(text)).into_owned()
    }
}
