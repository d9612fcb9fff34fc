//! Which API servers live of those that share a store: each renews a key of its own, which goes by itself some seconds after it was renewed last.
//!
//! The keys are not where kube-apiservers have theirs (`/registry/masterleases/`): one of those says that a kube-apiserver runs, before which berth stands
//! back (decision 34).

use crate::{ApiError, Registry};
use berth_store::{Expected, Key, Purpose, RangeRequest, Revision, Watch, Write, WriteError};
use jiff::SignedDuration;
use std::net::SocketAddr;

/// What the keys begin with; behind it stand address and port.
pub(crate) const SERVERS: &str = "/registry/berth.dev/servers/";
/// How long a server counts as alive that does not renew its key: upstream's.
const LIVES: SignedDuration = SignedDuration::from_secs(15);
/// How often it is tried to write a key that another writes at the same moment.
const ATTEMPTS: usize = 3;

/// Which servers lived as of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Living {
    /// Where others reach them, in order.
    pub servers: Vec<SocketAddr>,
    /// Changes behind it are still to be seen.
    pub revision: Revision,
}

fn key_of(server: SocketAddr) -> Key {
    Key::new(&format!("{SERVERS}{server}"))
}

impl Registry {
    /// Says that this server lives, for the next seconds. To be said again before they are over.
    ///
    /// # Errors
    /// The store's.
    pub async fn say_alive(&self, server: SocketAddr) -> Result<(), ApiError> {
        let key = key_of(server);
        let mut tries = 1..ATTEMPTS;
        loop {
            let expected = self.storage.store.get(&key).await?.map_or(Expected::Absent, |entry| Expected::At(entry.mod_revision));
            let put = Write::put(key.clone(), "{}".into(), expected, Purpose::Upkeep);
            let until = self.storage.clock.now().checked_add(LIVES).ok();
            match self.storage.store.write(Write { expires_at: until, ..put }).await {
                Ok(_) => return Ok(()),
                // It went a moment ago, or another goes by the same address.
                Err(WriteError::Conflict { .. }) if tries.next().is_some() => (),
                Err(error) => return Err(ApiError::write_failed(&error)),
            }
        }
    }

    /// Says that this server lives no more.
    ///
    /// # Errors
    /// The store's.
    pub async fn say_gone(&self, server: SocketAddr) -> Result<(), ApiError> {
        let key = key_of(server);
        let mut tries = 1..ATTEMPTS;
        loop {
            let Some(entry) = self.storage.store.get(&key).await? else { return Ok(()) };
            match self.storage.store.delete(key.clone(), entry.mod_revision).await {
                Ok(_) => return Ok(()),
                // What it said last was on its way.
                Err(WriteError::Conflict { .. }) if tries.next().is_some() => (),
                Err(error) => return Err(ApiError::write_failed(&error)),
            }
        }
    }

    /// The servers that live.
    ///
    /// # Errors
    /// The store's.
    pub async fn living_servers(&self) -> Result<Living, ApiError> {
        let range = self.storage.store.range(RangeRequest::all(SERVERS)).await?;
        let address = |key: &Key| key.as_str().strip_prefix(SERVERS)?.parse().ok();
        let mut servers: Vec<SocketAddr> = range.entries.iter().filter_map(|entry| address(&entry.key)).collect();
        servers.sort();
        Ok(Living { servers, revision: range.revision })
    }

    /// What servers say behind a revision.
    ///
    /// # Errors
    /// The revision is too old: to be asked anew.
    pub fn watch_servers(&self, after: Revision) -> Result<Watch, ApiError> {
        Ok(self.storage.store.watch(SERVERS, after)?)
    }
}
