//! The keys of service account tokens, for signing and verification, in the file formats of such keys.
//!
//! The key alone determines the algorithm: RS256 for RSA, ES256 and ES384 for the curves P-256 and P-384.

use crate::x509::{self, KeyKind};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use rustls::{
    SignatureScheme,
    crypto::ring::sign::any_supported_type,
    pki_types::{
        CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer,
        pem::{PemObject as _, SectionKind},
    },
    sign::SigningKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The uncompressed form of a point: this byte, then both coordinates.
const UNCOMPRESSED: u8 = 4;
/// The supported sizes of an RSA modulus, in bytes.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A text contains no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// No key for signing.
    #[error("it has no private key in PEM that tokens can be signed with: RSA of 2048 bits or more, or elliptic on P-256 or P-384")]
    Private,
    /// No key for verification.
    #[error("it has no key in PEM that tokens can be checked with: RSA of 2048 to 8192 bits, or elliptic on P-256 or P-384")]
    Public,
}

/// A signature algorithm (RFC 7518).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }

    fn scheme(self) -> SignatureScheme {
        match self {
            Self::Rs256 => SignatureScheme::RSA_PKCS1_SHA256,
            Self::Es256 => SignatureScheme::ECDSA_NISTP256_SHA256,
            Self::Es384 => SignatureScheme::ECDSA_NISTP384_SHA384,
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Es256 => &ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &ECDSA_P384_SHA384_FIXED,
        }
    }

    /// Returns the size of a coordinate in bytes, or `None` for RSA.
    fn coordinate_bytes(self) -> Option<usize> {
        match self {
            Self::Rs256 => None,
            Self::Es256 => Some(32),
            Self::Es384 => Some(48),
        }
    }
}

/// A key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: Algorithm,
    id: String,
    bits: Vec<u8>,
}

impl PublicKey {
    /// Returns every key of a PEM text, which may contain public keys, private keys, and certificates.
    ///
    /// # Errors
    /// [`BadKey::Public`]: a key is unusable, or there is none.
    pub fn all_of(text: &str) -> Result<Vec<Self>, BadKey> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
            let (kind, der) = section.map_err(|_| BadKey::Public)?;
            let key = match kind {
                SectionKind::PublicKey => Self::of_info(&SubjectPublicKeyInfoDer::from(der)),
                SectionKind::Certificate => {
                    x509::public_key_info(&CertificateDer::from(der)).and_then(|info| Self::of_info(&SubjectPublicKeyInfoDer::from(info)))
                }
                SectionKind::PrivateKey => PrivateKey::of_der(PrivateKeyDer::Pkcs8(der.into())).map(|key| key.public),
                SectionKind::RsaPrivateKey => PrivateKey::of_der(PrivateKeyDer::Pkcs1(der.into())).map(|key| key.public),
                SectionKind::EcPrivateKey => PrivateKey::of_der(PrivateKeyDer::Sec1(der.into())).map(|key| key.public),
                _ => continue,
            };
            keys.push(key.ok_or(BadKey::Public)?);
        }
        if keys.is_empty() { Err(BadKey::Public) } else { Ok(keys) }
    }

    fn of_info(info: &SubjectPublicKeyInfoDer<'_>) -> Option<Self> {
        let (kind, bits) = x509::key_of_info(info)?;
        let algorithm = match kind {
            KeyKind::Rsa => Algorithm::Rs256,
            KeyKind::P256 => Algorithm::Es256,
            KeyKind::P384 => Algorithm::Es384,
        };
        let fits = match algorithm.coordinate_bytes() {
            Some(bytes) => bits.len() == 1 + 2 * bytes && bits[0] == UNCOMPRESSED,
            None => x509::two_integers(&bits).is_some_and(|[modulus, _]| MODULUS_BYTES.contains(&modulus.len())),
        };
        // The key id, computed as upstream.
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(info));
        fits.then_some(Self { algorithm, id, bits })
    }

    /// Returns its id in tokens.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the name of its algorithm in tokens.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Whether its private key has signed this.
    pub(super) fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm.verification(), &self.bits).verify(signed, signature).is_ok()
    }

    /// Returns its JSON web key (RFC 7517).
    pub(super) fn json(&self) -> Value {
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.algorithm.name()});
        let text = |bytes: &[u8]| Value::from(URL_SAFE_NO_PAD.encode(bytes));
        match self.algorithm.coordinate_bytes() {
            Some(bytes) => {
                let (x, y) = self.bits[1..].split_at(bytes);
                key["kty"] = "EC".into();
                key["crv"] = if self.algorithm == Algorithm::Es256 { "P-256" } else { "P-384" }.into();
                (key["x"], key["y"]) = (text(x), text(y));
            }
            None => {
                let [modulus, exponent] = x509::two_integers(&self.bits).unwrap_or_default();
                key["kty"] = "RSA".into();
                (key["n"], key["e"]) = (text(&modulus), text(&exponent));
            }
        }
        key
    }
}

/// A key that signs tokens.
#[derive(Debug)]
pub struct PrivateKey {
    key: Arc<dyn SigningKey>,
    public: PublicKey,
}

impl PrivateKey {
    /// Returns the first private key of a PEM text: PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    /// [`BadKey::Private`].
    pub fn of(text: &str) -> Result<Self, BadKey> {
        PrivateKeyDer::from_pem_slice(text.as_bytes()).ok().and_then(Self::of_der).ok_or(BadKey::Private)
    }

    fn of_der(der: PrivateKeyDer<'static>) -> Option<Self> {
        let key = any_supported_type(&der).ok()?;
        let public = PublicKey::of_info(&key.public_key()?)?;
        Some(Self { key, public })
    }

    /// Returns the key that verifies its signatures.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns a signature in the format of tokens.
    ///
    /// # Panics
    /// The machine has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signer = self.key.choose_scheme(&[self.public.algorithm.scheme()]).expect("a key signs by its own algorithm");
        let signature = signer.sign(message).expect("the machine has randomness");
        let Some(bytes) = self.public.algorithm.coordinate_bytes() else { return signature };
        let numbers = x509::two_integers(&signature).expect("a signature is two numbers");
        // Both have full length (RFC 7518 §3.4). TLS omits leading zeros.
        numbers.iter().flat_map(|number| std::iter::repeat_n(0, bytes - number.len()).chain(number.iter().copied())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::KeyPair;

    #[test]
    fn each_key_of_a_file_counts_private_or_public() {
        let [one, two, three] = std::array::from_fn(|_| KeyPair::generate().expect("the machine has randomness"));
        let file = [one.serialize_pem(), two.serialize_pem(), three.public_key_pem()].concat();
        let ids = PublicKey::all_of(&file).expect("keys").into_iter().map(|key| key.id);
        let wanted = [one, two, three].map(|key| PublicKey::all_of(&key.public_key_pem()).expect("a key").remove(0).id);
        assert_eq!(ids.collect::<Vec<_>>(), wanted);
    }
}
