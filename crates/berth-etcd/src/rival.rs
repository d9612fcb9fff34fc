//! A kube-apiserver over the same keys: both at once would each undo what the other does.

use crate::{Client, members::Rivals};
use berth_store::{
    Revision,
    etcd::{Etcd, EtcdError, Query, Watched, Watching},
};
use futures::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// Where each kube-apiserver that runs renews a key, which a lease ends some seconds after it has stopped.
const LEASES: &str = "/registry/masterleases/";
/// The delay after a failure before the next check.
const PAUSE: Duration = Duration::from_secs(1);

impl Client {
    /// The key of a kube-apiserver that runs over the same keys, as etcd has it.
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

    /// None of these, which are one store, is written from now on while a kube-apiserver runs over the keys of any of them
    /// ([`Etcd::barred`]). For as long as the runtime lives. Once for each client.
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

    /// Until something changes there, or etcd fails.
    async fn follow_rivals(&self, tell: impl FnOnce(Option<String>)) -> Result<(), EtcdError> {
        let (lease, revision) = self.find_rival().await?;
        tell(lease);
        // As long as questions may come, etcd does not take their end for that of the watch.
        let Watching { mut items, ask_progress: _asking } = self.watch(LEASES, revision.later(1));
        while let Some(item) = items.next().await {
            if let Watched::Changes(_) = item? {
                return Ok(());
            }
        }
        Ok(())
    }
}
