//! The folder in which a control plane keeps its objects, certificates and kubeconfig.

use crate::cli::StoreKind;
use etcetera::BaseStrategy;
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A data folder; a throw-away one is removed with the value.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _throw_away: Option<TempDir>,
}

/// Why there is no data folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    #[error("there is no home folder to keep data in; name a folder with --data-dir")]
    NoHome,
    #[error("cannot make the data folder {} (--data-dir)", path.display())]
    Create { path: PathBuf, source: io::Error },
}

impl DataDir {
    /// The folder that was asked for, or the default: under the XDG data folder for what is to be kept, a temporary one for what is not.
    /// Made if it is missing, for its owner alone.
    pub(crate) fn open(asked: Option<PathBuf>, store: StoreKind) -> Result<Self, DataDirError> {
        let path = match (asked, store) {
            (Some(path), _) => path,
            (None, StoreKind::Embedded) => {
                let base = etcetera::choose_base_strategy().map_err(|_| DataDirError::NoHome)?;
                base.data_dir().join("berth")
            }
            (None, StoreKind::Memory) => return Self::throw_away(),
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| DataDirError::Create { path: path.clone(), source })?;
        Ok(Self { path: fs::canonicalize(&path).unwrap_or(path), _throw_away: None })
    }

    /// A fresh folder of its owner's, under a name that nobody can guess.
    pub(crate) fn throw_away() -> Result<Self, DataDirError> {
        let made = tempfile::Builder::new().prefix("berth-").tempdir();
        let folder = made.map_err(|source| DataDirError::Create { path: std::env::temp_dir(), source })?;
        Ok(Self { path: folder.path().to_path_buf(), _throw_away: Some(folder) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
