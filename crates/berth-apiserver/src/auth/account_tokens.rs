//! Tokens of service accounts: JSON web tokens, signed by the server's own key, and checked with that and others' that it is told of.
//!
//! Each key has one algorithm: nothing that a token says about itself decides how it is checked.

use super::{
    CREDENTIAL_ID, User,
    token_keys::{BadKey, PrivateKey, PublicKey},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many keys a server checks tokens with, at most: a token of an unknown key costs a look at each of them.
pub const TOKEN_KEYS_MAX: usize = 16;

/// What a token says (RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom it is meant for.
    pub aud: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub exp: i64,
    /// When it was made.
    pub iat: i64,
    /// Who made it.
    pub iss: String,
    /// Its own id.
    pub jti: String,
    /// Whose it is.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Bound,
    /// When it begins.
    pub nbf: i64,
    /// The user's name.
    pub sub: String,
}

/// The account, and what the token ends with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The account's namespace.
    pub namespace: String,
    /// The node, or that of the pod.
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

/// One certain object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Claims {
    /// The user that the token stands for.
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

/// Signs and checks tokens.
#[derive(Debug)]
pub struct AccountTokens {
    key: PrivateKey,
    /// What checks, its own first.
    keys: Vec<PublicKey>,
    /// Who signs, its own name first.
    issuers: Vec<String>,
}

impl AccountTokens {
    /// With the PEM of a private key, under one name.
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn new(key: &str, issuer: &str) -> Result<Self, BadKey> {
        Ok(Self::shared(PrivateKey::of(key)?, [], vec![issuer.to_owned()]))
    }

    /// Signs with `key` under the first of these names, and takes what any of the keys has signed under any of the names. No more than
    /// [`TOKEN_KEYS_MAX`] keys are looked at.
    ///
    /// # Panics
    /// Without a name.
    #[must_use]
    pub fn shared(key: PrivateKey, others: impl IntoIterator<Item = PublicKey>, issuers: Vec<String>) -> Self {
        assert!(!issuers.is_empty(), "somebody signs");
        let mut keys = vec![key.public().clone()];
        for other in others {
            if !keys.contains(&other) {
                keys.push(other);
            }
        }
        keys.truncate(TOKEN_KEYS_MAX);
        Self { key, keys, issuers }
    }

    /// Who signs.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// The audiences of the API server itself: all who sign.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        &self.issuers
    }

    /// A token that says this (RFC 7515, compact serialisation).
    ///
    /// # Panics
    /// Where the machine has no randomness.
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

    /// What a token says, if one of the keys signed it and it holds at `now`.
    #[must_use]
    pub fn verify(&self, token: &[u8], now: Timestamp) -> Option<Claims> {
        let token = std::str::from_utf8(token).ok()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let signature = decode(signature)?;
        // Others, and earlier builds, call the same key otherwise.
        let is_known = self.keys.iter().any(|key| key.id() == header.kid);
        let mut may_have = self.keys.iter().filter(|key| key.algorithm() == header.alg && (!is_known || key.id() == header.kid));
        may_have.find(|key| key.has_signed(signed.as_bytes(), &signature))?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).ok()?;
        let now = now.as_second();
        (self.issuers.contains(&claims.iss) && claims.nbf <= now && now < claims.exp).then_some(claims)
    }

    /// The public keys, for others who check tokens (RFC 7517).
    #[must_use]
    pub fn json_web_keys(&self) -> Value {
        json!({"keys": self.keys.iter().map(PublicKey::json).collect::<Vec<_>>()})
    }

    /// Where others find the keys; `server` is `https://host:port`.
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
            // The last characters of a part can hold bits that mean nothing; strict decoding refuses those.
            assert_eq!(found, None, "byte {at_byte}");
        }
    }

    #[test]
    fn a_token_stands_for_its_account() {
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
