//! The folder in which a control plane keeps its objects, certificates and kubeconfig.

use clap::ValueEnum;
use etcetera::BaseStrategy;
use rustix::{
    fs::{Access, access},
    process::geteuid,
};
use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Where objects are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// On disk, in the data folder. Every acknowledged write survives a crash.
    Embedded,
    /// In memory. The objects are lost when the process ends.
    Memory,
    /// In etcd (3.4 or later), at --etcd-servers.
    Etcd,
}

/// The entries of the folder that berth creates. The store restricts the permissions of its own folder.
const OWN: [&str; 5] = ["store", "store.making", "pki", "kubeconfig", LOCK];

/// The lock file, which excludes other control planes. It also records whether the folder has had a store.
pub(crate) const LOCK: &str = "lock";

/// A data folder. A temporary one is removed on drop.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Locked as long as a control plane uses the folder.
    _lock: Option<File>,
    _throw_away: Option<TempDir>,
}

/// Why berth cannot use a data folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    #[error("there is no home folder for data; choose a folder with --data-dir")]
    NoHome,
    #[error("cannot create the data folder {} (--data-dir)", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot restrict {} to its owner; other users could read secrets and keys in it (--data-dir)", path.display())]
    Shut { path: PathBuf, source: io::Error },
    #[error(
        "cannot use the data folder {} (--data-dir): its owner is the user {owner}, but berth runs as {user}",
        path.display()
    )]
    Foreign { path: PathBuf, owner: u32, user: u32 },
    #[error("the data folder {} is in use by another berth; stop it, or choose another folder with --data-dir", path.display())]
    InUse { path: PathBuf },
    #[error("cannot lock the data folder {} (--data-dir)", path.display())]
    Lock { path: PathBuf, source: io::Error },
}

impl DataDir {
    /// The requested folder, or the default: under the XDG data folder for a persistent store, a temporary one otherwise. Creates it if it is missing.
    /// From then on, only its owner can read berth's files in it, even if another user created it.
    pub(crate) fn open(asked: Option<PathBuf>, store: StoreKind) -> Result<Self, DataDirError> {
        if asked.is_none() && store == StoreKind::Memory {
            return Self::throw_away();
        }
        let path = kept(asked)?;
        make(&path).map_err(|source| DataDirError::Create { path: path.clone(), source })?;
        check_owner(&path)?;
        shut(&path)?;
        Ok(Self { path: fs::canonicalize(&path).unwrap_or(path), _lock: None, _throw_away: None })
    }

    /// Locks the folder against other control planes, for every kind of store: it also contains certificates and the kubeconfig.
    ///
    /// # Errors
    /// Another process holds the lock.
    pub(crate) fn locked(self) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Lock { path: self.path.clone(), source };
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(self.path.join(LOCK)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _lock: Some(file), ..self }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse { path: self.path }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// A new folder with an unguessable name, accessible only to its owner.
    pub(crate) fn throw_away() -> Result<Self, DataDirError> {
        let made = tempfile::Builder::new().prefix("berth-").tempdir();
        let folder = made.map_err(|source| DataDirError::Create { path: std::env::temp_dir(), source })?;
        Ok(Self { path: folder.path().to_path_buf(), _lock: None, _throw_away: Some(folder) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The path of persistent data: the requested folder, or the default. It need not exist.
pub(crate) fn kept(asked: Option<PathBuf>) -> Result<PathBuf, DataDirError> {
    if let Some(path) = asked {
        return Ok(path);
    }
    let base = etcetera::choose_base_strategy().map_err(|_| DataDirError::NoHome)?;
    Ok(base.data_dir().join("berth"))
}

/// Creates the folder, and syncs its parent.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match fs::canonicalize(path)?.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Checks the owner of a folder without access. The operations in the folder report all other faults.
fn check_owner(path: &Path) -> Result<(), DataDirError> {
    let user = geteuid().as_raw();
    match fs::metadata(path).map(|folder| folder.uid()) {
        Ok(owner) if owner != user && access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() => {
            Err(DataDirError::Foreign { path: path.to_path_buf(), owner, user })
        }
        _ => Ok(()),
    }
}

/// Removes the permissions of keys and the kubeconfig from all users except the owner. Also those of the folder itself, unless it contains other files.
fn shut(path: &Path) -> Result<(), DataDirError> {
    let entries = |path: &Path| {
        let listed = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        listed.map_err(|source| DataDirError::Shut { path: path.into(), source })
    };
    let all = entries(path)?;
    if all.iter().all(|entry| OWN.iter().any(|own| entry.file_name() == *own)) {
        set_mode(path, 0o700)?;
    }
    let pki = path.join("pki");
    if pki.is_dir() {
        set_mode(&pki, 0o700)?;
        entries(&pki)?.iter().filter(|entry| entry.path().is_file()).try_for_each(|entry| set_mode(&entry.path(), 0o600))?;
    }
    let kubeconfig = path.join("kubeconfig");
    if kubeconfig.is_file() { set_mode(&kubeconfig, 0o600) } else { Ok(()) }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), DataDirError> {
    let is_so = fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o777 == mode);
    let set = if is_so { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(mode)) };
    set.map_err(|source| DataDirError::Shut { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    /// A folder that every user can read, with its contents.
    fn open_to_all(others: bool) -> TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        fs::create_dir(path.join("pki")).expect("new");
        fs::write(path.join("pki/ca.pem"), "key").expect("writable");
        fs::write(path.join("kubeconfig"), "key").expect("writable");
        if others {
            fs::write(path.join("notes"), "").expect("writable");
        }
        for (name, mode) in [("", 0o755), ("pki", 0o755), ("pki/ca.pem", 0o644), ("kubeconfig", 0o644)] {
            fs::set_permissions(path.join(name), Permissions::from_mode(mode)).expect("ours");
        }
        folder
    }

    #[test]
    fn keys_are_their_owners_alone_in_a_folder_that_was_made_for_all() {
        for others in [false, true] {
            let folder = open_to_all(others);
            let opened = DataDir::open(Some(folder.path().into()), StoreKind::Embedded).expect("ours");
            let modes = ["pki", "pki/ca.pem", "kubeconfig"].map(|name| mode(&opened.path().join(name)));
            assert_eq!(modes, [0o700, 0o600, 0o600]);
            assert_eq!(mode(opened.path()), if others { 0o755 } else { 0o700 }, "what others keep in it stays in their reach");
        }
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let opened = DataDir::open(Some(folder.path().join("a/b")), StoreKind::Embedded).expect("ours");
        assert_eq!(mode(opened.path()), 0o700);
    }
}
