//! The files that credentials are in, each named by an option of the server's, as upstream names them.

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

/// How large such a file may be: a bundle of all authorities of the world is a fifth of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// An option that names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Authorities of clients' certificates.
    ClientCa,
    /// The server's certificate.
    TlsCert,
    /// Its key.
    TlsKey,
    /// Authorities of the server's certificate.
    RootCa,
    /// What signs tokens of service accounts.
    SigningKey,
    /// What checks them.
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

/// Why files are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// It cannot be read.
    #[error("cannot read {} ({flag})", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Who named it.
        flag: Flag,
        /// Why.
        source: io::Error,
    },
    /// Nobody has credentials of that size.
    #[error("{} is larger than {FILE_BYTES_MAX} bytes ({flag})", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Who named it.
        flag: Flag,
    },
    /// What should be in it is not.
    #[error("{}: {why} ({flag})", path.display())]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// Who named it.
        flag: Flag,
        /// In words.
        why: String,
    },
    /// Each is good, but not with the other: one of two may have been replaced.
    #[error("the key in {} is not that of the first certificate in {} ({}, {})", key.display(), certificate.display(), Flag::TlsKey, Flag::TlsCert)]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// More keys than are looked at for each token.
    #[error("{keys} keys for service accounts' tokens are more than {TOKEN_KEYS_MAX} ({})", Flag::CheckingKey)]
    TooManyKeys {
        /// How many.
        keys: usize,
    },
}

/// What stands in one file, or in several that go together: replaced as one, whatever becomes of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The server's certificate and its key.
    Serving,
    /// Authorities of clients' certificates.
    Clients,
    /// Authorities of the server's certificate, which clients are told to trust.
    Root,
    /// Keys of service accounts' tokens.
    Accounts,
}

impl Part {
    /// All.
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

/// Where credentials are. What no file is named for is the server's own.
#[derive(Clone, Debug, Default)]
pub struct CredentialFiles {
    /// Authorities of clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// The server's certificate, with those of the authorities between, and its key.
    pub serving: Option<(PathBuf, PathBuf)>,
    /// Authorities of the server's certificate.
    pub root_ca: Option<PathBuf>,
    /// What signs tokens of service accounts.
    pub signing_key: Option<PathBuf>,
    /// What checks tokens besides it.
    pub checking_keys: Vec<PathBuf>,
}

/// The contents of the files of a part, in their order.
#[derive(Debug)]
pub(super) struct Contents(Vec<Result<String, CredentialError>>);

impl Contents {
    /// The same one for the same contents.
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
    /// Whether a file is named for it.
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

    /// What they say now.
    pub(super) fn contents(&self, part: Part) -> Contents {
        Contents(self.named(part).into_iter().map(|(path, flag)| read(path, flag)).collect())
    }

    /// Puts it in the place of what is there. What cannot be used changes nothing.
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
                // And nothing else that may stand there.
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
    // The one that signs may be among them.
    if TOKEN_KEYS_MAX < count - 1 { Err(CredentialError::TooManyKeys { keys: count - 1 }) } else { Ok(()) }
}

/// When the first of the certificates in a text ends that matters: of a server its own, of authorities the one that ends first.
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
