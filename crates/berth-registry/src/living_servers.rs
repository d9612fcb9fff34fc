//! The live API servers of a store. Each one renews a key of its own, which expires some seconds after the last
//! renewal.
//!
//! The keys are not those of kube-apiservers (`/registry/masterleases/`). Such a key means that a kube-apiserver runs,
//! and berth does not write beside one (decisions 28 and 34).

use crate::{ApiError, Registry};
use berth_store::{Expected, Key, Purpose, RangeRequest, Revision, Watch, Write, WriteError};
use jiff::SignedDuration;
use std::net::SocketAddr;

/// The key prefix. Address and port follow.
pub(crate) const SERVERS: &str = "/registry/berth.dev/servers/";
/// How long a server counts as alive without a renewal, as upstream.
const LIVES: SignedDuration = SignedDuration::from_secs(15);
/// The maximum number of attempts after conflicts on a key.
const ATTEMPTS: usize = 3;

/// The live servers at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Living {
    /// Their addresses, in order.
    pub servers: Vec<SocketAddr>,
    /// The revision. A watch continues after it.
    pub revision: Revision,
}

fn key_of(server: SocketAddr) -> Key {
    Key::new(&format!("{SERVERS}{server}"))
}

impl Registry {
    /// Renews this server's key. Call it again before the key expires.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn renew_server_key(&self, server: SocketAddr) -> Result<(), ApiError> {
        let key = key_of(server);
        let mut tries = 1..ATTEMPTS;
        loop {
            let expected = self.storage.store.get(&key).await?.map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
            let put = Write::put(key.clone(), "{}".into(), expected, Purpose::Upkeep);
            let until = self.storage.clock.now().checked_add(LIVES).ok();
            match self.storage.store.write(Write { expires_at: until, ..put }).await {
                Ok(_) => return Ok(()),
                // The key has just expired, or another server uses the same address.
                Err(WriteError::Conflict { .. }) if tries.next().is_some() => (),
                Err(error) => return Err(ApiError::write_failed(&error)),
            }
        }
    }

    /// Deletes this server's key.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn delete_server_key(&self, server: SocketAddr) -> Result<(), ApiError> {
        let key = key_of(server);
        let mut tries = 1..ATTEMPTS;
        loop {
            let Some(entry) = self.storage.store.get(&key).await? else { return Ok(()) };
            match self.storage.store.delete(key.clone(), entry.mod_revision).await {
                Ok(_) => return Ok(()),
                // A last renewal was in progress.
                Err(WriteError::Conflict { .. }) if tries.next().is_some() => (),
                Err(error) => return Err(ApiError::write_failed(&error)),
            }
        }
    }

    /// Returns the live servers.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn living_servers(&self) -> Result<Living, ApiError> {
        let range = self.storage.store.range(RangeRequest::all(SERVERS)).await?;
        let address = |key: &Key| key.as_str().strip_prefix(SERVERS)?.parse().ok();
        let mut servers: Vec<SocketAddr> = range.entries.iter().filter_map(|entry| address(&entry.key)).collect();
        servers.sort();
        Ok(Living { servers, revision: range.revision })
    }

    /// Watches the keys of servers after a revision.
    ///
    /// # Errors
    /// The revision is compacted. The caller must list again.
    pub fn watch_servers(&self, after: Revision) -> Result<Watch, ApiError> {
        Ok(self.storage.store.watch(SERVERS, after)?)
    }
}
