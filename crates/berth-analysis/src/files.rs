//! The files of a provider: credentials and certificate authorities.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The maximum length of a file of credentials or authorities in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The credentials for a provider.
#[derive(Debug)]
pub(crate) enum Credentials {
    None,
    Bearer(PathBuf),
    Basic { username: String, password_file: PathBuf },
}

/// A fault of a provider's file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("could not read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("{} has no {what}", path.display())]
    Nothing { path: PathBuf, what: &'static str },
    #[error("{} was not read", path.display())]
    NotRead { path: PathBuf },
}

/// A file's bytes and path.
pub(crate) struct Contents {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Contents {
    /// The content of a file, if it is not too long.
    pub(crate) fn new(path: &Path, read: io::Result<Vec<u8>>) -> Result<Self, FileError> {
        let path = path.to_owned();
        match read {
            Err(source) => Err(FileError::Read { path, source }),
            Ok(bytes) if FILE_BYTES_MAX < bytes.len() as u64 => Err(FileError::TooLong { path }),
            Ok(bytes) => Ok(Self { path, bytes }),
        }
    }

    /// The only line of the file.
    fn line(&self, what: &'static str) -> Result<&str, FileError> {
        let text = std::str::from_utf8(&self.bytes).map(|text| text.trim_end_matches(['\r', '\n'])).unwrap_or_default();
        let is_line = !text.is_empty() && !text.chars().any(char::is_control);
        if is_line { Ok(text) } else { Err(FileError::Nothing { path: self.path.clone(), what }) }
    }
}

/// Reads a file of this machine.
pub(crate) fn read(path: &Path) -> Result<Contents, FileError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    Contents::new(path, read.map(|_| bytes))
}

/// Files as they were read. Each is read once, whatever the number of references.
pub(crate) struct Named(BTreeMap<PathBuf, Result<Contents, Arc<FileError>>>);

impl Named {
    pub(crate) fn read(paths: impl Iterator<Item = PathBuf>, read: impl Fn(&Path) -> Result<Contents, FileError>) -> Self {
        let mut named = BTreeMap::new();
        for path in paths {
            if let Entry::Vacant(place) = named.entry(path) {
                let contents = read(place.key()).map_err(Arc::new);
                place.insert(contents);
            }
        }
        Self(named)
    }

    /// The content of one file.
    fn contents(&self, path: &Path) -> Result<&Contents, Arc<FileError>> {
        let found = self.0.get(path).ok_or_else(|| FileError::NotRead { path: path.to_owned() })?;
        found.as_ref().map_err(Arc::clone)
    }

    /// The value of the header `Authorization`.
    pub(crate) fn header(&self, credentials: &Credentials) -> Result<Option<HeaderValue>, Arc<FileError>> {
        let Some(file) = credentials.file() else { return Ok(None) };
        Ok(Some(header(credentials, self.contents(file)?)?))
    }

    /// The certificate authorities in a file.
    pub(crate) fn roots(&self, path: &Path) -> Result<RootCertStore, Arc<FileError>> {
        Ok(roots(self.contents(path)?)?)
    }

    /// Adds the content of all files to a digest.
    pub(crate) fn digest(&self, digest: &mut Sha256) {
        for (path, found) in &self.0 {
            digest.update(Sha256::digest(path.as_os_str().as_encoded_bytes()));
            match found {
                Ok(contents) => digest.update(Sha256::digest(&contents.bytes)),
                Err(error) => digest.update(Sha256::digest(error.to_string())),
            }
        }
    }
}

fn header(credentials: &Credentials, contents: &Contents) -> Result<HeaderValue, FileError> {
    let text = match credentials {
        Credentials::None | Credentials::Bearer(_) => format!("Bearer {}", contents.line("token")?),
        Credentials::Basic { username, .. } => format!("Basic {}", STANDARD.encode(format!("{username}:{}", contents.line("password")?))),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| FileError::Nothing { path: contents.path.clone(), what: "token" })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Credentials {
    /// The field of the administrator's file that contains it.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "basicAuth.passwordFile",
            Self::None | Self::Bearer(_) => "bearerTokenFile",
        }
    }

    /// The file with the secret.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Bearer(file) | Self::Basic { password_file: file, .. } => Some(file),
        }
    }
}

fn roots(pem: &Contents) -> Result<RootCertStore, FileError> {
    let nothing = || FileError::Nothing { path: pem.path.clone(), what: "certificate" };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem.bytes) {
        roots.add(certificate.map_err(|_| nothing())?).map_err(|_| nothing())?;
    }
    if roots.is_empty() { Err(nothing()) } else { Ok(roots) }
}
