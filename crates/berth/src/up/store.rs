//! The store of `berth up`.

use super::{Outcome, Settings};
use crate::{
    cli::Up,
    data_dir::{self, StoreKind},
    etcd,
    foreign::Untouched,
    memory,
};
use berth_registry::ResourceTable;
use berth_store::{EmbeddedStore, MemoryStore, OnDamage, OpenError, Opening, Store, Usage, env::Env, expiry};
use std::{error::Error, fs, path::Path, sync::Arc};

/// A store, and the function that closes it.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    /// The unchanged objects that berth took over.
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
            check_there(data_dir, on_damage)?;
            let store = EmbeddedStore::open_with(&data_dir.join("store"), Arc::clone(table), opening).map_err(with_advice)?;
            note_there(data_dir);
            store.faults().iter().for_each(|fault| tracing::warn!(%fault, "lost because of --accept-loss"));
            let store = Arc::new(store.with_quota(quota));
            check_fits(store.usage())?;
            expiry::start(Arc::<EmbeddedStore>::clone(&store), env);
            Ok(Opened { store: Arc::<EmbeddedStore>::clone(&store), untouched: None, close: Box::new(move || store.close()) })
        }
    }
}

/// The content of the lock file in a folder that has had a store.
const HAS_STORE: &str = "store\n";

/// Rejects a missing store in a folder that has had one, instead of silently creating an empty one.
fn check_there(data_dir: &Path, on_damage: OnDamage) -> Outcome<()> {
    let lock = data_dir.join(data_dir::LOCK);
    let had_store = fs::read_to_string(&lock).is_ok_and(|text| text == HAS_STORE);
    if !had_store || on_damage == OnDamage::AcceptLoss || data_dir.join("store").exists() {
        return Ok(());
    }
    let (folder, lock) = (data_dir.display(), lock.display());
    Err(format!("the store is missing in {folder}: restore a backup (berth restore), or remove {lock} to start with an empty store").into())
}

/// Records that the folder has had a store. If the write fails, a later start cannot detect a missing store.
fn note_there(data_dir: &Path) {
    let lock = data_dir.join(data_dir::LOCK);
    if fs::read_to_string(&lock).is_ok_and(|text| text != HAS_STORE)
        && let Err(error) = fs::write(&lock, HAS_STORE)
    {
        tracing::debug!(%error, "could not note in the lock that there is a store");
    }
}

/// A store may hold this many times the quota when berth opens it. The quota can be smaller than the contents if these come from another
/// machine or an archive. All objects are in memory, at about four times their bytes.
const QUOTAS_AT_START: u64 = 2;

/// Accepts a store that exceeds its quota moderately, so that users can delete objects. Rejects a store that would take all memory.
fn check_fits(usage: Option<Usage>) -> Outcome<()> {
    let Some(Usage { bytes, quota: Some(quota), .. }) = usage else { return Ok(()) };
    if bytes <= quota.saturating_mul(QUOTAS_AT_START) {
        return Ok(());
    }
    let why = "this machine may have too little memory for them; if it has enough, raise --quota-bytes";
    Err(format!("the store has {bytes} bytes of objects, but the quota is {quota}: {why}").into())
}

/// Adds advice for the owner of a damaged store.
fn with_advice(error: OpenError) -> Box<dyn Error> {
    let OpenError::Damaged { source, .. } = &error else { return error.into() };
    let advice = "Restore a backup of the folder, or skip the damaged parts with --accept-loss. berth check lists all damage";
    format!("{error}: {source}. {advice}").into()
}
