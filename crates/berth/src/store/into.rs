//! Reads archives for `berth store import` and `berth restore`. An archive is not trusted: berth checks all of it before it writes
//! anything.

use super::{
    At, Outcome, add_kind, authority, counted, counting, foreign, locked,
    options::{Import, Restore, StoreOptions},
    print_note, with_advice,
};
use crate::{data_dir::DataDir, etcd::Clients, memory, progress::chain};
use berth_etcd::Client;
use berth_registry::{
    Archived, ArchivedFault, ResourceTable, Resources,
    archive::{ArchiveError, Header, Item, REVISION_MAX, Reader},
};
use berth_store::{
    Expected, Key, Made, OpenError, Revision,
    etcd::{Etcd, EtcdError, Lease, Outcome as Wrote, Put, Query},
    make_store,
};
use futures::{StreamExt, TryStreamExt, future::ready, stream};
use jiff::Timestamp;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    error::Error,
    fs::{self, File},
    io::{self, BufReader, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::NamedTempFile;

/// The minimum distance of new revisions from those of an archive, and the distance per second since the archive was taken. No store writes
/// as many.
const AHEAD_MIN: u64 = 1_000_000_000;
const AHEAD_A_SECOND: u64 = 1_000_000;
/// The maximum age of an archive in this calculation, for archives with a wrong date.
const AHEAD_SECONDS_MAX: u64 = 100 * 366 * 24 * 3600;
/// The minimum number of revisions that must remain for an embedded store made from an archive: more than it uses in decades.
const REVISIONS_LEFT_MIN: u64 = 1 << 50;
/// The maximum number of objects that are listed with their omitted fields.
const REPORTED_MAX: usize = 10;
/// The number of concurrent writes to an etcd.
const IN_FLIGHT: usize = 64;
/// The maximum number of attempts for a write with an unknown outcome.
const TRIES: usize = 100;
/// The number of keys that share a lease.
const LEASE_KEYS: usize = 1000;
/// The maximum number of files in the folder of keys.
const KEY_FILES_MAX: usize = 64;

pub(super) fn import(options: &Import) -> Outcome<()> {
    let archive = Archive::of(options.file.as_deref(), options.leave_out_unknown)?.with_kinds()?;
    match At::open(&options.into)? {
        At::Embedded(data_dir) => {
            let data_dir = locked(Some(&data_dir))?;
            into_folder(&archive, &data_dir, quota(options.quota_bytes))
        }
        At::Etcd(runtime, clients) => {
            let data_dir = locked(options.into.data_dir.as_ref())?;
            runtime.block_on(into_etcd(&archive, &clients, &options.into, data_dir.path()))
        }
    }
}

pub(super) fn restore(options: &Restore) -> Outcome<()> {
    let archive = Archive::of(Some(&options.file), options.leave_out_unknown)?.with_kinds()?;
    let data_dir = locked(options.data_dir.as_ref())?;
    into_folder(&archive, &data_dir, quota(options.quota_bytes))
}

/// The quota of the store in bytes. `None`: no limit.
fn quota(asked: Option<u64>) -> Option<u64> {
    Some(asked.unwrap_or_else(memory::default_quota)).filter(|bytes| 0 < *bytes)
}

/// Why an import fails.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the archive {name} is not valid")]
    Archive { name: String, source: ArchiveError },
    #[error("the archive contains objects that cannot be stored; nothing was changed")]
    Object(#[from] ArchivedFault),
    #[error(transparent)]
    Store(#[from] OpenError),
}

/// An archive that berth can read several times.
struct Archive {
    path: PathBuf,
    /// The name of the archive in messages.
    name: String,
    /// The temporary copy of an archive that came through a pipe.
    _kept: Option<NamedTempFile>,
    resources: Arc<Resources>,
    leaves_out: bool,
    /// The findings of the last read: the first objects with unknown fields, the number of further ones, and the number of omitted objects.
    reported: RefCell<Vec<(Key, Vec<String>)>>,
    unreported: Cell<u64>,
    left_out: Cell<u64>,
}

impl Archive {
    /// Reads the definitions of kinds, which can be after the objects of these kinds.
    fn with_kinds(mut self) -> Result<Self, Fault> {
        let table = ResourceTable::default();
        for item in self.read()? {
            if let Item::Object { key, value } = item.map_err(self.refused())? {
                add_kind(&table, &key, value.as_bytes());
            }
        }
        self.resources = table.resources();
        Ok(self)
    }

    fn of(path: Option<&Path>, leaves_out: bool) -> Outcome<Self> {
        let resources = foreign().0.resources();
        let (reported, unreported, left_out) = (RefCell::default(), Cell::default(), Cell::default());
        if let Some(path) = path {
            let (path, name) = (path.to_owned(), path.display().to_string());
            return Ok(Self { path, name, _kept: None, resources, leaves_out, reported, unreported, left_out });
        }
        if io::stdin().is_terminal() {
            return Err("add the name of an archive, or pipe one to standard input (|)".into());
        }
        // Only its owner can read the copy, which ends with this process.
        let mut kept = NamedTempFile::new()?;
        io::copy(&mut io::stdin().lock(), &mut kept)?;
        Ok(Self {
            path: kept.path().to_owned(),
            name: "on standard input".into(),
            _kept: Some(kept),
            resources,
            leaves_out,
            reported,
            unreported,
            left_out,
        })
    }

    fn refused(&self) -> impl Fn(ArchiveError) -> Fault {
        let name = self.name.clone();
        move |source| Fault::Archive { name: name.clone(), source }
    }

    fn read(&self) -> Result<Reader<BufReader<File>>, Fault> {
        let file = File::open(&self.path).map_err(|error| self.refused()(error.into()))?;
        Reader::begin(BufReader::new(file)).map_err(self.refused())
    }

    fn header(&self) -> Result<Header, Fault> {
        Ok(self.read()?.header().clone())
    }

    /// The objects in their stored form. Each read checks each object again.
    fn objects(&self, now: Timestamp) -> Result<impl Iterator<Item = Result<Made, Fault>>, Fault> {
        let refused = self.refused();
        self.reported.borrow_mut().clear();
        self.unreported.set(0);
        self.left_out.set(0);
        let object = move |item: Result<Item, ArchiveError>| match item.map_err(&refused) {
            Ok(Item::Object { key, value }) => self.checked(key, &value, now).transpose(),
            Ok(Item::File { .. }) => None,
            Err(error) => Some(Err(error)),
        };
        Ok(self.read()?.filter_map(object))
    }

    fn checked(&self, key: Key, value: &str, now: Timestamp) -> Result<Option<Made>, Fault> {
        match self.resources.check_archived(&key, value.as_bytes(), now) {
            Ok(Archived { value, expires_at, unknown }) => {
                if !unknown.is_empty() {
                    let mut reported = self.reported.borrow_mut();
                    // An archive of a newer version may have unknown fields in every object.
                    if reported.len() < REPORTED_MAX {
                        reported.push((key.clone(), unknown));
                    } else {
                        self.unreported.set(self.unreported.get() + 1);
                    }
                }
                Ok(Some(Made { key, value, expires_at }))
            }
            Err(ArchivedFault::Kind(_)) if self.leaves_out => {
                self.left_out.set(self.left_out.get() + 1);
                Ok(None)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Prints what berth does not store.
    fn print_notes(&self) {
        for (key, fields) in self.reported.borrow().iter() {
            print_note(&format!("{key}: skipped, because this berth does not know them: {}", fields.join(", ")));
        }
        if 0 < self.unreported.get() {
            print_note(&format!("and {}", counted(self.unreported.get(), "more object")));
        }
        if 0 < self.left_out.get() {
            print_note(&format!("skipped {} of kinds that this berth does not serve", counted(self.left_out.get(), "object")));
        }
    }

    /// The files of the folder of keys. Reads the entire archive.
    fn keys(&self) -> Result<BTreeMap<String, String>, Fault> {
        let mut keys = BTreeMap::new();
        for item in self.read()? {
            if let Item::File { name, text } = item.map_err(self.refused())?
                && keys.len() < KEY_FILES_MAX
            {
                keys.insert(name, text);
            }
        }
        Ok(keys)
    }
}

/// The revision after which a store made from an archive continues: greater than all revisions that the source can have used since.
fn ahead(header: &Header, now: Timestamp) -> Revision {
    let seconds = u64::try_from(now.duration_since(header.taken_at).as_secs()).unwrap_or(0).min(AHEAD_SECONDS_MAX);
    header.revision.later(AHEAD_MIN.max(seconds * AHEAD_A_SECOND))
}

/// Reads and checks all objects, and checks that they fit into the store.
fn check_objects(archive: &Archive, now: Timestamp, quota: Option<u64>) -> Outcome<()> {
    let mut bytes = 0_u64;
    for object in archive.objects(now)? {
        let Made { key, value, .. } = object?;
        bytes += (key.as_str().len() + value.len()) as u64;
        if let Some(quota) = quota.filter(|quota| *quota < bytes) {
            return Err(format!(
                "the archive {} contains more than {quota} bytes of objects; nothing was changed. Raise --quota-bytes",
                archive.name
            )
            .into());
        }
    }
    Ok(())
}

/// Like [`ahead`], but also checks that enough greater revisions remain: the new store must be able to make backups too.
fn far_ahead(header: &Header, now: Timestamp) -> Outcome<Revision> {
    let revision = ahead(header, now);
    if REVISION_MAX - REVISIONS_LEFT_MIN < revision.0 {
        let why = "a store that continues from there would reach revisions that clients cannot read; nothing was changed";
        return Err(format!("the archive is at revision {}: {why}", header.revision).into());
    }
    Ok(revision)
}

fn into_folder(archive: &Archive, data_dir: &DataDir, quota: Option<u64>) -> Outcome<()> {
    let (store, now) = (data_dir.path().join("store"), Timestamp::now());
    if store.exists() {
        return Err(format!(
            "{} already contains a store; move it away, or choose another folder with --data-dir",
            data_dir.path().display()
        )
        .into());
    }
    let header = archive.header()?;
    // Reads and checks the whole archive before it creates the first file.
    let keys = archive.keys()?;
    let revision = far_ahead(&header, now)?;
    check_objects(archive, now, quota)?;
    put_keys(&keys, &data_dir.path().join("pki"))?;
    let counting = counting("objects");
    let values = || Ok::<_, Fault>(archive.objects(now)?.inspect(|_| counting.inc(1)));
    let objects = make_store(&store, revision, values)?;
    counting.finish_and_clear();
    archive.print_notes();
    print_note(&format!(
        "{} as of {}: in {}. Resource versions continue far beyond all earlier ones: watches get 410, and clients relist.",
        counted(objects, "object"),
        header.taken_at,
        data_dir.path().display()
    ));
    Ok(())
}

/// Writes the folder of keys, unless it exists. Writes all files or none.
fn put_keys(keys: &BTreeMap<String, String>, folder: &Path) -> Outcome<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let failed = |error: io::Error| format!("cannot write {}: {error}", folder.display());
    if folder.exists() {
        let is_same = keys.iter().all(|(name, text)| fs::read_to_string(folder.join(name)).is_ok_and(|there| there == *text));
        if !is_same {
            print_note(&format!("{} already has keys, which stay; the keys of the backup are skipped", folder.display()));
        }
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(Path::new("."));
    // The folder has a temporary name, and only its owner can read it.
    let made = tempfile::Builder::new().prefix(".pki-").tempdir_in(parent).map_err(failed)?;
    for (name, text) in keys {
        let mut file = tempfile::Builder::new().tempfile_in(made.path()).map_err(failed)?;
        io::copy(&mut text.as_bytes(), &mut file).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(made.path().join(name)).map_err(|error| failed(error.error))?;
    }
    fs::rename(made.keep(), folder).map_err(failed)?;
    Ok(File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?)
}

async fn into_etcd(archive: &Archive, clients: &Clients, options: &StoreOptions, data_dir: &Path) -> Outcome<()> {
    let now = Timestamp::now();
    let header = archive.header()?;
    archive.objects(now)?.try_for_each(|object| object.map(drop))?;
    let authority = authority(options.client_ca_file.as_ref(), data_dir)?;
    for client in clients.all() {
        client.begin_import(&authority).await.map_err(with_advice)?;
    }
    let counting = counting("objects");
    let leases = Leases::default();
    let write = async |made: Result<Made, Fault>| {
        let made = made?;
        let client = clients.of(made.key.as_str());
        let lease = leases.of(client, &made, now).await?;
        put(client, made, lease).await?;
        counting.inc(1);
        Outcome::Ok(())
    };
    let written = stream::iter(archive.objects(now)?).map(&write).buffer_unordered(IN_FLIGHT);
    let written = written.try_fold(0_u64, |count, ()| ready(Ok(count + 1))).await;
    let again =
        |error: Box<dyn Error>| format!("{}: the import was interrupted; run it again, and it starts from scratch", chain(error.as_ref()));
    let count = written.map_err(again)?;
    for client in clients.all() {
        client.end_import(&authority).await.map_err(with_advice)?;
    }
    counting.finish_and_clear();
    archive.print_notes();
    print_note(&format!(
        "{} as of {}: in etcd, for the control plane of {}. Resource versions continue from this etcd's revision: restart every client that watched the previous store.",
        counted(count, "object"),
        header.taken_at,
        data_dir.display()
    ));
    Ok(())
}

/// The lease of expiring objects. Some objects share it: all are events with the same time to live, in the same etcd.
#[derive(Default)]
struct Leases(tokio::sync::Mutex<Option<(Lease, usize)>>);

impl Leases {
    async fn of(&self, client: &Client, made: &Made, now: Timestamp) -> Result<Option<Lease>, EtcdError> {
        let Some(until) = made.expires_at else { return Ok(None) };
        let mut current = self.0.lock().await;
        if let Some((lease, keys)) = current.as_mut().filter(|(_, keys)| *keys < LEASE_KEYS) {
            *keys += 1;
            return Ok(Some(*lease));
        }
        let lease = client.grant(until.duration_since(now).as_secs()).await?;
        *current = Some((lease, 1));
        Ok(Some(lease))
    }
}

/// Writes an absent key. There are no other writers during an import.
async fn put(client: &Client, made: Made, lease: Option<Lease>) -> Outcome<()> {
    let Made { key, value, .. } = made;
    let puts: Arc<[Put]> = Arc::new([Put { key: key.clone(), expected: Some(Expected::Absent), value: Some(value.clone()), lease }]);
    let mut unknown = None;
    for _ in 0..TRIES {
        match client.txn(Arc::clone(&puts)).await {
            Ok(Wrote::Done(_)) => return Ok(()),
            Ok(Wrote::Refused { .. }) => {
                let query = Query { prefix: key.as_str().into(), start_after: None, at: None, limit: Some(1) };
                let found = client.range(query).await?.keys;
                return match found.first() {
                    Some(found) if found.key == key && found.value == value => Ok(()),
                    _ => Err(format!("another client writes {key} at the same time").into()),
                };
            }
            Err(EtcdError::Unknown(cause)) => unknown = Some(cause),
            Err(error) => return Err(error.into()),
        }
    }
    Err::<(), Box<dyn Error>>(format!("it is unknown whether {key} was written: {}", unknown.unwrap_or_default()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_go_on_beyond_all_that_can_have_been_given_out() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let after = |taken: &str, now: &str| ahead(&Header::new("0", Revision(42), at(taken)), at(now)).0;
        assert_eq!(after("2026-11-23T05:00:00Z", "2026-11-23T05:00:01Z"), 42 + AHEAD_MIN);
        assert_eq!(after("2026-11-23T05:00:00Z", "2026-11-24T05:00:00Z"), 42 + 86_400_000_000, "a million for each second of a day");
        assert_eq!(after("2026-11-23T05:00:00Z", "2020-01-01T00:00:00Z"), 42 + AHEAD_MIN, "the clock was set back");
        let most = ahead(&Header::new("0", Revision(1 << 52), at("-009998-01-02T00:00:00Z")), at("9999-01-01T00:00:00Z"));
        assert!(most.0 < 1 << 53, "a number that every client can read");
    }
}
