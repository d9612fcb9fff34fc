//! Tokens of service accounts: JSON web tokens of one algorithm, ES256, signed by the server's own key.
//!
//! One algorithm and one key: nothing that a token says about itself decides how it is checked.

use super::{CREDENTIAL_ID, User};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "ES256";
/// The uncompressed form of a point: this byte, then both coordinates.
const UNCOMPRESSED: u8 = 4;
const COORDINATE_BYTES: usize = 32;

/// The key for tokens is not one.
#[derive(Debug, thiserror::Error)]
#[error("the key for service account tokens is no PKCS #8 key on the curve P-256")]
pub struct BadKey;

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
    kid: String,
}

/// Signs and checks tokens.
#[derive(Debug)]
pub struct AccountTokens {
    key: EcdsaKeyPair,
    key_id: String,
    issuer: String,
    random: SystemRandom,
}

impl AccountTokens {
    /// With the PEM of a PKCS #8 key on P-256.
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn new(key: &str, issuer: &str) -> Result<Self, BadKey> {
        let random = SystemRandom::new();
        let der = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).map_err(|_| BadKey)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &random).map_err(|_| BadKey)?;
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(key.public_key()));
        Ok(Self { key, key_id, issuer: issuer.to_owned(), random })
    }

    /// Who signs: also the audience of the API server itself.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// A token that says this (RFC 7515, compact serialisation).
    ///
    /// # Panics
    /// Where the machine has no randomness.
    #[must_use]
    pub fn sign(&self, claims: &Claims) -> String {
        let header = Header { alg: ALGORITHM.to_owned(), kid: self.key_id.clone() };
        let part = |json: Vec<u8>| URL_SAFE_NO_PAD.encode(json);
        let header = part(serde_json::to_vec(&header).expect("a header is JSON"));
        let signed = format!("{header}.{}", part(serde_json::to_vec(claims).expect("claims are JSON")));
        let signature = self.key.sign(&self.random, signed.as_bytes()).expect("the machine has randomness");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// What a token says, if this server signed it and it holds at `now`.
    #[must_use]
    pub fn verify(&self, token: &[u8], now: Timestamp) -> Option<Claims> {
        let token = std::str::from_utf8(token).ok()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        if header.alg != ALGORITHM || header.kid != self.key_id {
            return None;
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key());
        public.verify(signed.as_bytes(), &decode(signature)?).ok()?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).ok()?;
        let now = now.as_second();
        (claims.iss == self.issuer && claims.nbf <= now && now < claims.exp).then_some(claims)
    }

    /// The public key, for others who check tokens (RFC 7517).
    #[must_use]
    pub fn json_web_keys(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let coordinates = point.strip_prefix(&[UNCOMPRESSED]).unwrap_or_default();
        let (x, y) = coordinates.split_at_checked(COORDINATE_BYTES).unwrap_or_default();
        let [x, y] = [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y}]})
    }

    /// Where others find the key; `server` is `https://host:port`.
    #[must_use]
    pub fn configuration(&self, server: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{server}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
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
