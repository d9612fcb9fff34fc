//! Tokens of service accounts: JSON web tokens, signed with the server's own key, and verified with that key and
//! configured ones.
//!
//! Each key has one algorithm. The verification ignores the algorithm in a token.

use super::{
    CREDENTIAL_ID, User,
    token_keys::{BadKey, PrivateKey, PublicKey},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum number of keys for verification. A token of an unknown key is compared with each of them.
pub const TOKEN_KEYS_MAX: usize = 16;

/// The claims of a token (RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The audiences.
    pub aud: Vec<String>,
    /// The expiry, in seconds since 1970.
    pub exp: i64,
    /// The time of issue.
    pub iat: i64,
    /// The issuer.
    pub iss: String,
    /// The token's id.
    pub jti: String,
    /// The account and the bound objects.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Bound,
    /// The start of validity.
    pub nbf: i64,
    /// The user's name.
    pub sub: String,
}

/// The account, and the objects whose deletion invalidates the token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The account's namespace.
    pub namespace: String,
    /// The node, or the node of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    /// The account.
    pub serviceaccount: Reference,
}

/// A reference to an object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Claims {
    /// Returns the token's user.
    #[must_use]
    pub fn user(&self) -> User {
        let Bound { namespace, serviceaccount, pod, node, .. } = &self.kubernetes;
        let mut user = User::service_account(namespace, &serviceaccount.name, &serviceaccount.uid);
        let mut extra = |key: &str, value: String| user.extra.insert(key.to_owned(), vec![value]);
        extra(CREDENTIAL_ID, format!("JTI={}", self.jti));
        if let Some(pod) = pod {
            extra("authentication.kubernetes.io/pod-name", pod.name.clone());
            extra("authentication.kubernetes.io/pod-uid", pod.uid.clone());
        }
        if let Some(node) = node {
            extra("authentication.kubernetes.io/node-name", node.name.clone());
            extra("authentication.kubernetes.io/node-uid", node.uid.clone());
        }
        user
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

/// Signs and verifies tokens.
#[derive(Debug)]
pub struct AccountTokens {
    key: PrivateKey,
    /// The keys for verification, its own first.
    keys: Vec<PublicKey>,
    /// The issuers, its own name first.
    issuers: Vec<String>,
}

impl AccountTokens {
    /// Creates a signer with the PEM of a private key and one issuer.
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn new(key: &str, issuer: &str) -> Result<Self, BadKey> {
        Ok(Self::shared(PrivateKey::of(key)?, [], vec![issuer.to_owned()]))
    }

    /// Signs with `key` under the first of these issuers. Accepts tokens of any of the keys and issuers, with at most
    /// [`TOKEN_KEYS_MAX`] keys.
    ///
    /// # Panics
    /// Without a name.
    #[must_use]
    pub fn shared(key: PrivateKey, others: impl IntoIterator<Item = PublicKey>, issuers: Vec<String>) -> Self {
        assert!(!issuers.is_empty(), "an issuer signs");
        let mut keys = vec![key.public().clone()];
        for other in others {
            if !keys.contains(&other) {
                keys.push(other);
            }
        }
        keys.truncate(TOKEN_KEYS_MAX);
        Self { key, keys, issuers }
    }

    /// Returns the issuer of new tokens.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// Returns the audiences of the API server itself: all issuers.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.issuers
    }

    /// Returns a signed token with these claims (RFC 7515, compact serialization).
    ///
    /// # Panics
    /// The machine has no randomness.
    #[must_use]
    pub fn sign(&self, claims: &Claims) -> String {
        let key = self.key.public();
        let header = Header { alg: key.algorithm().to_owned(), kid: key.id().to_owned() };
        let part = |json: Vec<u8>| URL_SAFE_NO_PAD.encode(json);
        let header = part(serde_json::to_vec(&header).expect("a header is JSON"));
        let signed = format!("{header}.{}", part(serde_json::to_vec(claims).expect("claims are JSON")));
        let signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns a token's claims if one of the keys signed it and it is valid at `now`.
    #[must_use]
    pub fn verify(&self, token: &[u8], now: Timestamp) -> Option<Claims> {
        let token = std::str::from_utf8(token).ok()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let signature = decode(signature)?;
        // Other servers and earlier builds have other ids for the same key.
        let is_known = self.keys.iter().any(|key| key.id() == header.kid);
        let mut may_have = self.keys.iter().filter(|key| key.algorithm() == header.alg && (!is_known || key.id() == header.kid));
        may_have.find(|key| key.has_signed(signed.as_bytes(), &signature))?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).ok()?;
        let now = now.as_second();
        (self.issuers.contains(&claims.iss) && claims.nbf <= now && now < claims.exp).then_some(claims)
    }

    /// Returns the public keys, for other verifiers (RFC 7517).
    #[must_use]
    pub fn json_web_keys(&self) -> Value {
        json!({"keys": self.keys.iter().map(PublicKey::json).collect::<Vec<_>>()})
    }

    /// Returns the discovery document of the keys. `server` is `https://host:port`.
    #[must_use]
    pub fn configuration(&self, server: &str) -> Value {
        let mut algorithms: Vec<_> = self.keys.iter().map(PublicKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": self.issuer(),
            "jwks_uri": format!("{server}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::KeyPair;

    fn tokens() -> AccountTokens {
        AccountTokens::new(&KeyPair::generate().expect("a key").serialize_pem(), "https://issuer").expect("a P-256 key")
    }

    fn claims() -> Claims {
        let reference = |name: &str| Reference { name: name.to_owned(), uid: format!("{name}-uid") };
        let kubernetes = Bound { namespace: "n".to_owned(), serviceaccount: reference("s"), pod: Some(reference("p")), ..Bound::default() };
        let sub = "system:serviceaccount:n:s".to_owned();
        let (aud, iss, jti) = (vec!["a".to_owned()], "https://issuer".to_owned(), "j".to_owned());
        Claims { aud, exp: 2000, iat: 1000, iss, jti, kubernetes, nbf: 1000, sub }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_token_holds_from_its_beginning_to_its_end() {
        let tokens = tokens();
        let token = tokens.sign(&claims());
        assert_eq!(tokens.verify(token.as_bytes(), at(1500)), Some(claims()));
        assert_eq!(tokens.verify(token.as_bytes(), at(999)), None);
        assert_eq!(tokens.verify(token.as_bytes(), at(2000)), None);
    }

    #[test]
    fn no_other_text_is_a_token() {
        let server = tokens();
        let token = server.sign(&claims());
        let (signed, signature) = token.rsplit_once('.').expect("three parts");
        let payload = signed.split_once('.').expect("two parts").1;
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":""}"#);
        for forged in [
            String::new(),
            "a.b.c".to_owned(),
            signed.to_owned(),
            format!("{signed}."),
            format!("{unsigned}.{payload}."),
            format!("{unsigned}.{payload}.{signature}"),
            format!("{signed}x.{signature}"),
            tokens().sign(&claims()),
            server.sign(&Claims { iss: "https://other".to_owned(), ..claims() }),
        ] {
            assert_eq!(server.verify(forged.as_bytes(), at(1500)), None, "{forged}");
        }
        for at_byte in 0..token.len() {
            let mut bent = token.clone().into_bytes();
            bent[at_byte] = if bent[at_byte] == b'A' { b'B' } else { b'A' };
            let found = server.verify(&bent, at(1500));
            // The last characters of a part can contain unused bits, which strict decoding rejects.
            assert_eq!(found, None, "byte {at_byte}");
        }
    }

    #[test]
    fn a_token_authenticates_its_account() {
        let user = claims().user();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:n:s", "s-uid"));
        assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=j"]);
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    }

    #[test]
    fn others_find_the_public_key() {
        let tokens = tokens();
        let key = &tokens.json_web_keys()["keys"][0];
        let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().expect("text")).expect("base64").len();
        assert_eq!((coordinate("x"), coordinate("y")), (32, 32));
        assert_eq!(tokens.configuration("https://h:1")["jwks_uri"], "https://h:1/openid/v1/jwks");
    }

    #[test]
    fn other_keys_are_refused() {
        assert!(AccountTokens::new("rubbish", "i").is_err());
    }
}
