//! The files that a provider is asked with: secrets and authorities.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};
use tokio::io::AsyncReadExt;

/// The longest file of credentials or authorities, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// As whom it is asked. Files are read at each attempt: who changes a secret need not start anything again.
#[derive(Debug)]
pub(crate) enum Credentials {
    None,
    Bearer(PathBuf),
    Basic { username: String, password_file: PathBuf },
}

/// What is wrong with a file that a provider is asked with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("could not read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    #[error("{} has no {what}", path.display())]
    Nothing { path: PathBuf, what: &'static str },
}

/// A file's bytes, and which it is.
pub(crate) struct Contents {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Contents {
    fn new(path: &Path, read: io::Result<Vec<u8>>) -> Result<Self, FileError> {
        let path = path.to_owned();
        match read {
            Err(source) => Err(FileError::Read { path, source }),
            Ok(bytes) if FILE_BYTES_MAX < bytes.len() as u64 => Err(FileError::TooLong { path }),
            Ok(bytes) => Ok(Self { path, bytes }),
        }
    }

    /// The one line that it has.
    fn line(&self, what: &'static str) -> Result<&str, FileError> {
        let text = std::str::from_utf8(&self.bytes).map(|text| text.trim_end_matches(['\r', '\n'])).unwrap_or_default();
        let is_line = !text.is_empty() && !text.chars().any(char::is_control);
        if is_line { Ok(text) } else { Err(FileError::Nothing { path: self.path.clone(), what }) }
    }
}

/// At the start, when nobody waits for anything else.
pub(crate) fn read_now(path: &Path) -> Result<Contents, FileError> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    Contents::new(path, read.map(|_| bytes))
}

/// As [`read_now`], beside others.
pub(crate) async fn read(path: &Path) -> Result<Contents, FileError> {
    let read = async {
        let mut bytes = Vec::new();
        tokio::fs::File::open(path).await?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).await?;
        Ok(bytes)
    };
    Contents::new(path, read.await)
}

/// What stands in the header `Authorization`.
pub(crate) fn header(
    credentials: &Credentials,
    read: impl FnOnce(&Path) -> Result<Contents, FileError>,
) -> Result<Option<HeaderValue>, FileError> {
    let Some(file) = credentials.file() else { return Ok(None) };
    let contents = read(file)?;
    let text = match credentials {
        Credentials::None | Credentials::Bearer(_) => format!("Bearer {}", contents.line("token")?),
        Credentials::Basic { username, .. } => format!("Basic {}", STANDARD.encode(format!("{username}:{}", contents.line("password")?))),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| FileError::Nothing { path: file.to_owned(), what: "token" })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

impl Credentials {
    /// Where the administrator's file names it.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "basicAuth.passwordFile",
            Self::None | Self::Bearer(_) => "bearerTokenFile",
        }
    }

    /// The file that the secret is in.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Bearer(file) | Self::Basic { password_file: file, .. } => Some(file),
        }
    }
}

/// The authorities of a file.
pub(crate) fn roots(pem: &Contents) -> Result<RootCertStore, FileError> {
    let nothing = || FileError::Nothing { path: pem.path.clone(), what: "certificate" };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem.bytes) {
        roots.add(certificate.map_err(|_| nothing())?).map_err(|_| nothing())?;
    }
    if roots.is_empty() { Err(nothing()) } else { Ok(roots) }
}
