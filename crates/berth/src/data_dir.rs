//! The folder in which a control plane keeps its objects, certificates and kubeconfig.

use crate::cli::StoreKind;
use etcetera::BaseStrategy;
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A data folder; a throw-away one is removed with the value.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    throw_away: bool,
}

/// Why there is no data folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    #[error("there is no home folder to keep data in; name a folder with --data-dir")]
    NoHome,
    #[error("cannot make the data folder {}", path.display())]
    Create { path: PathBuf, source: io::Error },
}

impl DataDir {
    /// The folder that was asked for, or the default: under the XDG data folder for what is to be kept, a temporary one for what is not.
    /// Made if it is missing, for its owner alone.
    pub(crate) fn open(asked: Option<PathBuf>, store: StoreKind) -> Result<Self, DataDirError> {
        let (path, throw_away) = match (asked, store) {
            (Some(path), _) => (path, false),
            (None, StoreKind::Embedded) => {
                let base = etcetera::choose_base_strategy().map_err(|_| DataDirError::NoHome)?;
                (base.data_dir().join("berth"), false)
            }
            (None, StoreKind::Memory) => (std::env::temp_dir().join(format!("berth-{}", std::process::id())), true),
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| DataDirError::Create { path: path.clone(), source })?;
        let path = fs::canonicalize(&path).unwrap_or(path);
        Ok(Self { path, throw_away })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.throw_away {
            // Left behind at worst: a certificate that nobody trusts any more.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
