//! Authentication, and the attributes for authorization. The registry's policy authorizes requests.

mod account_tokens;
mod attributes;
pub mod impersonation;
mod token_file;
mod token_keys;

pub use account_tokens::{AccountTokens, Bound, Claims, Reference, TOKEN_KEYS_MAX};
pub use attributes::{Asked, resource_verb};
pub use berth_rbac::{MASTERS, User};
pub use token_file::{TokenFileError, parse_token_file};
pub use token_keys::{BadKey, PrivateKey, PublicKey};

use crate::current::Current;
use berth_identity::GroupResource;
use berth_registry::{GetOptions, Registry, Target, resource};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HeaderValue},
};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, sync::Arc};

/// The key of the extra field with the id of a user's credential.
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The client certificate of a connection.
#[derive(Clone, Debug)]
pub enum Peer {
    /// The client sent no certificate.
    Anonymous,
    /// The certificate is valid.
    Known {
        /// The user in the certificate.
        user: Arc<User>,
        /// The expiry.
        until: Timestamp,
    },
    /// The certificate is expired, or of an unknown authority.
    Untrusted,
}

/// The credentials of a request are invalid, or it has none and needs some.
#[derive(Debug, PartialEq, Eq)]
pub struct Unauthorized;

/// The handling of requests without credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Their user is `system:anonymous`.
    #[default]
    Allowed,
    /// They are rejected.
    Refused,
}

/// Authenticates requests. [`Authenticator::authenticate`] has one arm per method.
#[derive(Debug)]
pub struct Authenticator {
    /// By digest, so that the time of a lookup reveals nothing about the tokens.
    tokens: BTreeMap<[u8; 32], Arc<User>>,
    account_tokens: Current<AccountTokens>,
    anonymous: Option<Arc<User>>,
}

/// The user of a token, and the requested audiences for which it is valid.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user.
    pub user: Arc<User>,
    /// Never empty.
    pub audiences: Vec<String>,
}

impl Authenticator {
    /// Creates an authenticator for these bearer tokens and for those of service accounts.
    #[must_use]
    pub fn new(tokens: impl IntoIterator<Item = (String, User)>, account_tokens: AccountTokens, anonymous: Anonymous) -> Self {
        Self {
            tokens: tokens.into_iter().map(|(token, user)| (Sha256::digest(token).into(), Arc::new(user))).collect(),
            account_tokens: Current::new(account_tokens),
            anonymous: (anonymous == Anonymous::Allowed).then(|| Arc::new(User::anonymous())),
        }
    }

    /// Returns the signer and verifier of service account tokens.
    #[must_use]
    pub fn account_tokens(&self) -> Arc<AccountTokens> {
        self.account_tokens.get()
    }

    /// Replaces the signer and verifier of service account tokens.
    pub(crate) fn set_account_tokens(&self, account_tokens: AccountTokens) {
        self.account_tokens.set(account_tokens);
    }

    /// Returns the user of a request: by certificate, otherwise by token, otherwise anonymous.
    ///
    /// # Errors
    /// The token or certificate is invalid, and the request has no other credential.
    pub async fn authenticate(&self, registry: &Registry, peer: &Peer, headers: &HeaderMap) -> Result<Arc<User>, Unauthorized> {
        match (peer, bearer_token(headers)) {
            (Peer::Known { user, until }, _) if registry.now() < *until => Ok(user.clone()),
            (_, Some(token)) => {
                let tokens = self.account_tokens();
                self.holder(registry, token, tokens.audiences()).await.map(|holder| holder.user).ok_or(Unauthorized)
            }
            (Peer::Anonymous, None) => self.anonymous.clone().ok_or(Unauthorized),
            (Peer::Known { .. } | Peer::Untrusted, None) => Err(Unauthorized),
        }
    }

    /// Returns the user of this token for one of these audiences. Tokens of a deleted service account are invalid.
    pub async fn holder(&self, registry: &Registry, token: &[u8], audiences: &[String]) -> Option<Holder> {
        let tokens = self.account_tokens();
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(user) = self.tokens.get(&digest) {
            let own: Vec<String> = audiences.iter().filter(|audience| tokens.audiences().contains(audience)).cloned().collect();
            return (!own.is_empty()).then(|| Holder { user: user.clone(), audiences: own });
        }
        let claims = tokens.verify(token, registry.now())?;
        let audiences: Vec<String> = audiences.iter().filter(|audience| claims.aud.contains(audience)).cloned().collect();
        if audiences.is_empty() || !still_holds(registry, &claims.kubernetes).await {
            return None;
        }
        Some(Holder { user: Arc::new(claims.user()), audiences })
    }
}

/// Whether the account and the bound objects still exist with the same uids.
async fn still_holds(registry: &Registry, bound: &Bound) -> bool {
    let namespace = Some(bound.namespace.as_str());
    let mut all = vec![("serviceaccounts", namespace, Some(&bound.serviceaccount))];
    all.push(("pods", namespace, bound.pod.as_ref()));
    all.push(("secrets", namespace, bound.secret.as_ref()));
    if bound.pod.is_none() {
        all.push(("nodes", None, bound.node.as_ref()));
    }
    for (plural, namespace, reference) in all {
        let Some(reference) = reference else { continue };
        if !is_there(registry, plural, namespace, reference).await {
            return false;
        }
    }
    true
}

async fn is_there(registry: &Registry, plural: &str, namespace: Option<&str>, reference: &Reference) -> bool {
    let Some(resource) = resource::built_in().by_name(&GroupResource::new("", plural)) else { return false };
    let target = Target {
        resource: Arc::clone(resource),
        namespace: namespace.map(ToOwned::to_owned),
        name: reference.name.clone(),
        subresource: None,
    };
    let Ok(found) = registry.get(&target, &GetOptions::default()).await else { return false };
    match found {
        berth_registry::Current::Stored(entry) => *entry.header.uid == *reference.uid,
        berth_registry::Current::Made(object) => object["metadata"]["uid"].as_str() == Some(&reference.uid),
    }
}

/// Returns the request's bearer token.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)?;
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.trim_ascii().is_empty()).then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::FeatureGates;
    use berth_registry::ResourceTable;
    use berth_store::{
        MemoryStore,
        env::{Clock, Rng},
    };
    use futures::{FutureExt, future::BoxFuture};

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
            futures::future::pending().boxed()
        }
    }

    impl Rng for Still {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn certificate(name: &str, until: Timestamp) -> Peer {
        Peer::Known { user: Arc::new(User::authenticated(name, &[])), until }
    }

    #[track_caller]
    fn check(anonymous: Anonymous, peer: &Peer, authorization: Option<&str>, expected: Result<&str, Unauthorized>) {
        let table = Arc::new(ResourceTable::default());
        let store = Arc::new(MemoryStore::new(Arc::clone(&table), 1 << 20));
        let registry = Registry::new(store, table, Arc::new(Still), Arc::new(Still), Arc::new(FeatureGates::default()));
        let key = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let account_tokens = AccountTokens::new(&key, "issuer").expect("a key on P-256");
        let known = [("secret".to_owned(), User::authenticated("bob", &[]))];
        let authenticator = Authenticator::new(known, account_tokens, anonymous);
        let headers: HeaderMap =
            authorization.map(|value| (AUTHORIZATION, HeaderValue::from_str(value).expect("a header"))).into_iter().collect();
        let found = authenticator.authenticate(&registry, peer, &headers).now_or_never().expect("nothing here waits");
        assert_eq!(found.map(|user| user.name.clone()), expected.map(str::to_owned), "{peer:?} {authorization:?}");
    }

    #[test]
    fn a_good_certificate_counts_whatever_the_token() {
        for token in [None, Some("Bearer wrong"), Some("Bearer secret")] {
            check(Anonymous::Allowed, &certificate("alice", Timestamp::MAX), token, Ok("alice"));
        }
    }

    #[test]
    fn a_token_counts_where_no_certificate_does() {
        for peer in [Peer::Anonymous, Peer::Untrusted, certificate("alice", Timestamp::UNIX_EPOCH)] {
            check(Anonymous::Allowed, &peer, Some("Bearer secret"), Ok("bob"));
            check(Anonymous::Allowed, &peer, Some("bearer  secret "), Ok("bob"));
            check(Anonymous::Allowed, &peer, Some("Bearer wrong"), Err(Unauthorized));
        }
    }

    #[test]
    fn only_who_pretends_nothing_is_anonymous() {
        check(Anonymous::Allowed, &Peer::Anonymous, None, Ok("system:anonymous"));
        check(Anonymous::Allowed, &Peer::Anonymous, Some("Basic eDp5"), Ok("system:anonymous"));
        check(Anonymous::Refused, &Peer::Anonymous, None, Err(Unauthorized));
        check(Anonymous::Allowed, &Peer::Untrusted, None, Err(Unauthorized));
        check(Anonymous::Allowed, &certificate("alice", Timestamp::UNIX_EPOCH), None, Err(Unauthorized));
    }
}
