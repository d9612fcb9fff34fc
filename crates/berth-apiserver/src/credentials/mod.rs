//! What a server proves itself with and whom it believes: its own folder's ([`Pki`]), or files that several servers share, which are read again while it
//! runs.

mod files;
mod follow;

pub use files::{CredentialError, CredentialFiles, Flag, Part};
pub use follow::Following;

use crate::{
    auth::{AccountTokens, BadKey, PrivateKey, PublicKey},
    pki::{Pair, Pki},
};
use jiff::Timestamp;

/// Who signs tokens of service accounts, and their audience unless another is asked for.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// All of it, as PEM.
#[derive(Clone)]
pub struct Credentials {
    /// What clients are shown: the server's certificate, those of the authorities between it and the one that clients know, and its key.
    pub serving: Pair,
    /// The authorities of clients' certificates.
    pub client_authorities: String,
    /// The authorities of the server's certificate, which clients are told to trust.
    pub root_ca: String,
    /// A token that stands for the administrator.
    pub admin_token: Option<String>,
    /// Whose tokens of service accounts are taken.
    pub account_keys: AccountKeys,
    /// When certificates end that the server keeps itself, by their names in metrics and logs.
    pub own_ends: Vec<(&'static str, Timestamp)>,
}

/// Keys of service accounts' tokens, and the names of who signs them.
#[derive(Clone)]
pub struct AccountKeys {
    /// The private key that signs.
    pub signing: String,
    /// Keys that check besides it: a text of one or more each.
    pub checking: Vec<String>,
    /// Who signs, and who else has signed.
    pub issuers: Vec<String>,
}

impl AccountKeys {
    /// The key alone, under the name that every cluster has by default.
    #[must_use]
    pub fn of(signing: &str) -> Self {
        Self { signing: signing.to_owned(), checking: Vec::new(), issuers: vec![ISSUER.to_owned()] }
    }

    /// Ready to sign and to check.
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
