//! What `berth up` keeps its objects in.

use super::{Outcome, Settings};
use crate::{cli::Up, data_dir::StoreKind, etcd, foreign::Untouched, memory};
use berth_registry::ResourceTable;
use berth_store::{EmbeddedStore, MemoryStore, OnDamage, OpenError, Opening, Store, env::Env, expiry};
use std::{error::Error, path::Path, sync::Arc};

/// A store, and how to finish what it has begun.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// Of what was taken over.
    pub(super) untouched: Option<Arc<Untouched>>,
    pub(super) close: Box<dyn FnOnce()>,
}

pub(super) async fn open_store(
    options: &Up,
    settings: &Settings,
    data_dir: &Path,
    authorities: &[String],
    table: &Arc<ResourceTable>,
    env: &Env,
) -> Outcome<Opened> {
    let quota = Some(options.quota_bytes.unwrap_or_else(memory::default_quota)).filter(|bytes| 0 < *bytes);
    match options.store {
        StoreKind::Memory => {
            let store = Arc::new(MemoryStore::new(Arc::clone(table), options.history_bytes).with_quota(quota));
            expiry::start(Arc::<MemoryStore>::clone(&store), env);
            Ok(Opened { store, untouched: None, close: Box::new(|| ()) })
        }
        StoreKind::Etcd => {
            let opening = etcd::Opening {
                authorities,
                take_over: options.etcd.take_over,
                table,
                history_bytes: options.history_bytes,
                compaction_interval: options.etcd.etcd_compaction_interval,
                env,
            };
            let etcd::Opened { store, untouched } = opening.open(settings.etcd.as_ref().expect("the settings say where it is")).await?;
            Ok(Opened { store, untouched, close: Box::new(|| ()) })
        }
        StoreKind::Embedded => {
            let on_damage = if options.accept_loss { OnDamage::AcceptLoss } else { OnDamage::Refuse };
            let opening = Opening { history_bytes: options.history_bytes, on_damage, ..Opening::default() };
            let store = EmbeddedStore::open_with(&data_dir.join("store"), Arc::clone(table), opening).map_err(with_advice)?;
            store.faults().iter().for_each(|fault| tracing::warn!(%fault, "lost, as --accept-loss accepts"));
            let store = Arc::new(store.with_quota(quota));
            expiry::start(Arc::<EmbeddedStore>::clone(&store), env);
            Ok(Opened { store: Arc::<EmbeddedStore>::clone(&store), untouched: None, close: Box::new(move || store.close()) })
        }
    }
}

/// Says what a damaged store's owner can do about it.
fn with_advice(error: OpenError) -> Box<dyn Error> {
    let OpenError::Damaged { source, .. } = &error else { return error.into() };
    let advice = "Restore a copy of the folder, or leave out what cannot be read with --accept-loss; berth check tells all that is wrong";
    format!("{error}: {source}. {advice}").into()
}
