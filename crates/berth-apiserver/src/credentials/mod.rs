//! The server's credentials and trusted authorities: from its own folder ([`Pki`]), or from files that several servers
//! share, which are reloaded at run time.

mod files;
mod follow;

pub use files::{CredentialError, CredentialFiles, Flag, Part};
pub use follow::Following;

use crate::{
    auth::{AccountTokens, BadKey, PrivateKey, PublicKey},
    pki::{Pair, Pki},
};
use jiff::Timestamp;

/// The issuer of service account tokens, and their default audience.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// All credentials, in PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The server's certificate chain without the root, and its key.
    pub serving: Pair,
    /// The authorities of client certificates.
    pub client_authorities: String,
    /// The authorities of the server's certificate, which the server publishes to clients.
    pub root_ca: String,
    /// The bearer token of the administrator.
    pub admin_token: Option<String>,
    /// The keys of service account tokens.
    pub account_keys: AccountKeys,
    /// The expiry of certificates that the server manages itself, by their names in metrics and logs.
    pub own_ends: Vec<(&'static str, Timestamp)>,
}

/// The keys and issuers of service account tokens.
#[derive(Clone)]
pub struct AccountKeys {
    /// The private key that signs.
    pub signing: String,
    /// Further keys for verification, each a text with one or more.
    pub checking: Vec<String>,
    /// The issuer of new tokens, and further accepted ones.
    pub issuers: Vec<String>,
}

impl AccountKeys {
    /// Returns this key alone, with the default issuer of every cluster.
    #[must_use]
    pub fn of(signing: &str) -> Self {
        Self { signing: signing.to_owned(), checking: Vec::new(), issuers: vec![ISSUER.to_owned()] }
    }

    /// Returns the signer and verifier of tokens.
    ///
    /// # Errors
    /// [`BadKey`].
    pub(crate) fn tokens(&self) -> Result<AccountTokens, BadKey> {
        let mut checking = Vec::new();
        for text in &self.checking {
            checking.extend(PublicKey::all_of(text)?);
        }
        Ok(AccountTokens::shared(PrivateKey::of(&self.signing)?, checking, self.issuers.clone()))
    }
}

impl From<&Pki> for Credentials {
    fn from(pki: &Pki) -> Self {
        Self {
            serving: pki.server.clone(),
            client_authorities: pki.ca_certificate.clone(),
            root_ca: pki.ca_certificate.clone(),
            admin_token: Some(pki.admin_token.clone()),
            account_keys: AccountKeys::of(&pki.service_account_key),
            own_ends: pki.ends(),
        }
    }
}
