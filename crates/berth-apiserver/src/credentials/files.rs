//! The files with credentials. The options that name them are those of upstream.

use super::{AccountKeys, Credentials};
use crate::{
    auth::{BadKey, PrivateKey, PublicKey, TOKEN_KEYS_MAX},
    pki::{Pair, certificates},
    tls::{self, TlsError},
    x509,
};
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// The maximum size of a file. A bundle of all public authorities is a fifth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// An option that names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The authorities of client certificates.
    ClientCa,
    /// The server's certificate.
    TlsCert,
    /// Its key.
    TlsKey,
    /// The authorities of the server's certificate.
    RootCa,
    /// The key that signs service account tokens.
    SigningKey,
    /// The keys that verify them.
    CheckingKey,
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientCa => "--client-ca-file",
            Self::TlsCert => "--tls-cert-file",
            Self::TlsKey => "--tls-private-key-file",
            Self::RootCa => "--root-ca-file",
            Self::SigningKey => "--service-account-signing-key-file",
            Self::CheckingKey => "--service-account-key-file",
        })
    }
}

/// Why files contain no usable credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("cannot read {} ({flag})", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The option that names it.
        flag: Flag,
        /// The cause.
        source: io::Error,
    },
    /// The file exceeds the maximum size.
    #[error("{} is larger than {FILE_BYTES_MAX} bytes ({flag})", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The option that names it.
        flag: Flag,
    },
    /// The file lacks the expected content.
    #[error("{}: {why} ({flag})", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The option that names it.
        flag: Flag,
        /// The reason in words.
        why: String,
    },
    /// The certificate and the key do not match. Perhaps only one of them has been replaced.
    #[error("the key in {} is not that of the first certificate in {} ({}, {})", key.display(), certificate.display(), Flag::TlsKey, Flag::TlsCert)]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// The number of keys exceeds the maximum for verification.
    #[error("{keys} keys for service accounts' tokens are more than {TOKEN_KEYS_MAX} ({})", Flag::CheckingKey)]
    TooManyKeys {
        /// Their number.
        keys: usize,
    },
}

/// Credentials in one file, or in files that belong together. A part is replaced as a whole, independent of other
/// parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The server's certificate and its key.
    Serving,
    /// The authorities of client certificates.
    Clients,
    /// The authorities of the server's certificate, which the server publishes to clients.
    Root,
    /// The keys of service account tokens.
    Accounts,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Serving, Self::Clients, Self::Root, Self::Accounts];

    /// Its name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Clients => "client-ca",
            Self::Root => "root-ca",
            Self::Accounts => "service-account-keys",
        }
    }
}

/// The files of credentials. Without a file, the server uses its own credentials.
#[derive(Clone, Debug, Default)]
pub struct CredentialFiles {
    /// The authorities of client certificates.
    pub client_ca: Option<PathBuf>,
    /// The server's certificate chain, and its key.
    pub serving: Option<(PathBuf, PathBuf)>,
    /// The authorities of the server's certificate.
    pub root_ca: Option<PathBuf>,
    /// The key that signs service account tokens.
    pub signing_key: Option<PathBuf>,
    /// Further keys that verify tokens.
    pub checking_keys: Vec<PathBuf>,
}

/// The contents of the files of a part, in their order.
#[derive(Debug)]
pub(super) struct Contents(Vec<Result<String, CredentialError>>);

impl Contents {
    /// Returns a digest of the contents.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for content in &self.0 {
            match content {
                Ok(text) => digest.update(Sha256::digest(text)),
                Err(error) => {
                    let cause = std::error::Error::source(error).map(ToString::to_string);
                    digest.update(Sha256::digest(format!("{error}: {cause:?}")));
                }
            }
        }
        digest.finalize().into()
    }
}

impl CredentialFiles {
    /// Whether the part has a file.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        match part {
            Part::Serving => self.serving.is_some(),
            Part::Clients => self.client_ca.is_some(),
            Part::Root => self.root_ca.is_some(),
            Part::Accounts => self.signing_key.is_some() || !self.checking_keys.is_empty(),
        }
    }

    fn named(&self, part: Part) -> Vec<(&Path, Flag)> {
        match part {
            Part::Serving => {
                self.serving.iter().flat_map(|(certificate, key)| [(&**certificate, Flag::TlsCert), (&**key, Flag::TlsKey)]).collect()
            }
            Part::Clients => self.client_ca.iter().map(|path| (&**path, Flag::ClientCa)).collect(),
            Part::Root => self.root_ca.iter().map(|path| (&**path, Flag::RootCa)).collect(),
            Part::Accounts => {
                let signing = self.signing_key.iter().map(|path| (&**path, Flag::SigningKey));
                signing.chain(self.checking_keys.iter().map(|path| (&**path, Flag::CheckingKey))).collect()
            }
        }
    }

    /// Reads the current contents.
    pub(super) fn contents(&self, part: Part) -> Contents {
        Contents(self.named(part).into_iter().map(|(path, flag)| read(path, flag)).collect())
    }

    /// Replaces a part of `credentials`. Unusable contents change nothing.
    pub(super) fn put(&self, part: Part, contents: Contents, credentials: &mut Credentials) -> Result<(), CredentialError> {
        let texts = contents.0.into_iter().collect::<Result<Vec<_>, _>>()?;
        let named = self.named(part);
        match part {
            Part::Serving => {
                let Ok::<[String; 2], _>([certificate, key]) = texts.try_into() else { return Ok(()) };
                let pair = Pair { certificate, key };
                check_pair(&pair, (named[0].0, named[1].0))?;
                credentials.serving = pair;
            }
            Part::Clients => {
                let Some(text) = texts.into_iter().next() else { return Ok(()) };
                tls::check_authorities(&text).map_err(|why| unusable(named[0], why.to_string()))?;
                credentials.client_authorities = text;
            }
            Part::Root => {
                let Some(text) = texts.into_iter().next() else { return Ok(()) };
                // Only the certificates, and nothing else in the file.
                let found = certificates(&text);
                if found.is_empty() {
                    return Err(unusable(named[0], "it contains no certificate in PEM format".to_owned()));
                }
                credentials.root_ca = found.concat();
            }
            Part::Accounts => {
                let keys = self.account_keys(&credentials.account_keys, texts);
                check_keys(&keys, &named)?;
                credentials.account_keys = keys;
            }
        }
        Ok(())
    }

    fn account_keys(&self, before: &AccountKeys, texts: Vec<String>) -> AccountKeys {
        let mut texts = texts.into_iter();
        let signing = self.signing_key.as_ref().and_then(|_| texts.next()).unwrap_or_else(|| before.signing.clone());
        AccountKeys { signing, checking: texts.collect(), issuers: before.issuers.clone() }
    }
}

fn read(path: &Path, flag: Flag) -> Result<String, CredentialError> {
    let failed = |source| CredentialError::Read { path: path.to_owned(), flag, source };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(CredentialError::TooLarge { path: path.to_owned(), flag });
    }
    String::from_utf8(bytes).map_err(|_| unusable((path, flag), "it is not a text file, as PEM requires".to_owned()))
}

fn unusable((path, flag): (&Path, Flag), why: String) -> CredentialError {
    CredentialError::Unusable { path: path.to_owned(), flag, why }
}

fn check_pair(pair: &Pair, (certificate, key): (&Path, &Path)) -> Result<(), CredentialError> {
    match tls::check_pair(pair) {
        Ok(()) => Ok(()),
        Err(TlsError::NoKey) => Err(unusable((key, Flag::TlsKey), TlsError::NoKey.to_string())),
        Err(TlsError::Mismatch) => Err(CredentialError::Pair { certificate: certificate.to_owned(), key: key.to_owned() }),
        Err(error) => Err(unusable((certificate, Flag::TlsCert), error.to_string())),
    }
}

fn check_keys(keys: &AccountKeys, named: &[(&Path, Flag)]) -> Result<(), CredentialError> {
    let named_for = |wanted: Flag| named.iter().filter(move |(_, flag)| *flag == wanted);
    if let Some(at) = named_for(Flag::SigningKey).next() {
        PrivateKey::of(&keys.signing).map_err(|why: BadKey| unusable(*at, why.to_string()))?;
    }
    let mut count = 1;
    for (text, at) in keys.checking.iter().zip(named_for(Flag::CheckingKey)) {
        count += PublicKey::all_of(text).map_err(|why| unusable(*at, why.to_string()))?.len();
    }
    // The signing key may be among them.
    if TOKEN_KEYS_MAX < count - 1 { Err(CredentialError::TooManyKeys { keys: count - 1 }) } else { Ok(()) }
}

/// Returns the first expiry of a part: of the server's own certificate, or of any authority.
pub(super) fn ends(part: Part, credentials: &Credentials) -> Option<Timestamp> {
    let ends = |text: &str| -> Vec<Timestamp> {
        let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(Result::ok);
        certificates.filter_map(|der| x509::not_after(&der)).collect()
    };
    match part {
        Part::Serving => ends(&credentials.serving.certificate).first().copied(),
        Part::Clients => ends(&credentials.client_authorities).into_iter().min(),
        Part::Root => ends(&credentials.root_ca).into_iter().min(),
        Part::Accounts => None,
    }
}
