//! Detects a kube-apiserver that uses the same keys. Two control planes would undo each other's changes.

use crate::{Client, members::Rivals};
use berth_store::{
    Revision,
    etcd::{Etcd, EtcdError, Query, Watched, Watching},
};
use futures::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The prefix of the keys that running kube-apiservers renew. A lease deletes a key some seconds after its server has
/// stopped.
const LEASES: &str = "/registry/masterleases/";
/// The delay after a failure before the next check.
const PAUSE: Duration = Duration::from_secs(1);

impl Client {
    /// Returns the key of a running kube-apiserver that uses the same keys, as in etcd.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn rival(&self) -> Result<Option<String>, EtcdError> {
        Ok(self.find_rival().await?.0)
    }

    async fn find_rival(&self) -> Result<(Option<String>, Revision), EtcdError> {
        let page = self.range(Query { prefix: LEASES.into(), start_after: None, at: None, limit: Some(1) }).await?;
        let lease = page.keys.first().map(|found| self.as_in_etcd(found.key.as_str()));
        Ok((lease, page.revision))
    }

    /// Blocks writes to all these clients of one store while a kube-apiserver uses the keys of any of them
    /// ([`Etcd::barred`]). Runs as long as the runtime. Call it once per client.
    pub fn yield_to_rivals(clients: &[Self]) {
        let rivals = Arc::new(Rivals::new(clients.len()));
        for (index, client) in clients.iter().cloned().enumerate() {
            let rivals = Arc::clone(client.members.rivals.get_or_init(|| Arc::clone(&rivals)));
            client.members.runtime.clone().spawn(async move {
                loop {
                    if client.follow_rivals(|lease| rivals.set(index, lease)).await.is_err() {
                        sleep(PAUSE).await;
                    }
                }
            });
        }
    }

    /// Returns when the keys change, or when etcd fails.
    async fn follow_rivals(&self, report: impl FnOnce(Option<String>)) -> Result<(), EtcdError> {
        let (lease, revision) = self.find_rival().await?;
        report(lease);
        // The sender must stay open, because its end would end the watch.
        let Watching { mut items, ask_progress: _asking } = self.watch(LEASES, revision.later(1));
        while let Some(item) = items.next().await {
            if let Watched::Changes(_) = item? {
                return Ok(());
            }
        }
        Ok(())
    }
}
