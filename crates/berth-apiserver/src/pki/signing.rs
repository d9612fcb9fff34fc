//! Signs certificates for the keys of others with the cluster's CA.

use super::{CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, Pair, params, pem};
use crate::x509::{self, KeyKind};
use berth_api::certificates::CertificateRequest;
use berth_registry::RequestVerifier;
use jiff::Timestamp;
use rcgen::{
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
    SigningKey as _, date_time_ymd,
};

/// The length of serial numbers, in bytes.
pub const SERIAL_BYTES: usize = 16;

/// The cluster's CA with its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ends: Timestamp,
}

/// A certificate to sign.
pub struct Wanted<'a> {
    /// Subject, names and key.
    pub request: &'a CertificateRequest,
    /// What the key is used for, in the words of the API.
    pub usages: &'a [String],
    /// The begin and the end of its validity. The end of the CA can be earlier.
    pub validity: (Timestamp, Timestamp),
    /// Random bytes.
    pub serial: [u8; SERIAL_BYTES],
}

/// Why a certificate cannot be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// Keys of other kinds than RSA and the curves P-256 and P-384.
    #[error("keys of this kind are not supported: use RSA, or the curve P-256 or P-384")]
    Key,
    /// The API server would read another user or other groups in the certificate than the request was judged by.
    #[error("the subject is malformed")]
    Subject,
    /// A name or the CA is unusable.
    #[error("could not sign the certificate")]
    Make(#[from] rcgen::Error),
}

impl Authority {
    /// The CA of a folder of credentials. `None`: its key is unusable.
    pub(super) fn of(ca: &Pair, now: Timestamp) -> Option<Self> {
        Some(Self { issuer: super::issuer_of(ca, now)?, ends: x509::not_after(&ca.der()?)? })
    }

    /// Signs a certificate, and returns it as PEM.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn sign(&self, wanted: &Wanted<'_>) -> Result<String, SignError> {
        let key = PublicKey::of(&wanted.request.public_key).ok_or(SignError::Key)?;
        let unnamed = self.params(wanted)?.signed_by(&key, &self.issuer)?;
        let signed = x509::with_name(unnamed.der(), &wanted.request.subject, |body| self.issuer.key().sign(body));
        let signed = signed.ok_or(SignError::Subject)??;
        let subject = x509::subject(&signed).ok_or(SignError::Subject)?;
        let CertificateRequest { common_name, organizations, .. } = wanted.request;
        if subject.common_name != *common_name || subject.organizations != *organizations {
            return Err(SignError::Subject);
        }
        Ok(pem(&signed))
    }

    fn params(&self, wanted: &Wanted<'_>) -> Result<CertificateParams, rcgen::Error> {
        let (from, until) = wanted.validity;
        let request = wanted.request;
        let mut made = params("", from, jiff::SignedDuration::ZERO);
        made.distinguished_name = DistinguishedName::new();
        let time = |at: Timestamp| date_time_ymd(1970, 1, 1) + super::unix_seconds(at);
        (made.not_before, made.not_after) = (time(from), time(until.min(self.ends)));
        made.serial_number = Some(SerialNumber::from_slice(&positive(wanted.serial)));
        made.is_ca = IsCa::ExplicitNoCa;
        made.use_authority_key_identifier_extension = true;
        made.key_usages = wanted.usages.iter().filter_map(|usage| key_usage(usage)).collect();
        made.extended_key_usages = wanted.usages.iter().filter_map(|usage| purpose(usage)).collect();
        let texts = |texts: &[String], kind: fn(rcgen::string::Ia5String) -> SanType| -> Result<Vec<SanType>, rcgen::Error> {
            texts.iter().map(|text| Ok(kind(text.as_str().try_into()?))).collect()
        };
        made.subject_alt_names = texts(&request.dns_names, SanType::DnsName)?;
        made.subject_alt_names.extend(texts(&request.emails, SanType::Rfc822Name)?);
        made.subject_alt_names.extend(request.addresses.iter().map(|address| SanType::IpAddress(*address)));
        made.subject_alt_names.extend(texts(&request.uris, SanType::URI)?);
        Ok(made)
    }
}

/// Checks signatures with the TLS library's cryptography.
pub struct Verifier;

impl RequestVerifier for Verifier {
    fn verify(&self, request: &CertificateRequest) -> Result<(), &'static str> {
        x509::check_request(&request.whole)
    }
}

/// A serial number is positive.
fn positive(mut serial: [u8; SERIAL_BYTES]) -> [u8; SERIAL_BYTES] {
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

fn key_usage(usage: &str) -> Option<KeyUsagePurpose> {
    match usage {
        "digital signature" => Some(KeyUsagePurpose::DigitalSignature),
        "key encipherment" => Some(KeyUsagePurpose::KeyEncipherment),
        _ => None,
    }
}

fn purpose(usage: &str) -> Option<ExtendedKeyUsagePurpose> {
    match usage {
        "client auth" => Some(ExtendedKeyUsagePurpose::ClientAuth),
        "server auth" => Some(ExtendedKeyUsagePurpose::ServerAuth),
        _ => None,
    }
}

/// The key of another party.
struct PublicKey {
    bytes: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKey {
    /// `info`: the key with its algorithm, as DER.
    fn of(info: &[u8]) -> Option<Self> {
        let (kind, bytes) = x509::key_of_info(info)?;
        let algorithm = match kind {
            KeyKind::Rsa => &PKCS_RSA_SHA256,
            KeyKind::P256 => &PKCS_ECDSA_P256_SHA256,
            KeyKind::P384 => &PKCS_ECDSA_P384_SHA384,
        };
        Some(Self { bytes, algorithm })
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{client_verifier, make_authority, unix_time};
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};

    const REQUEST: &str = include_str!("../../../berth-api/src/certificates/request.pem");

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_signed_certificate_has_the_subject_and_names_of_its_request() {
        let now = at("2026-06-01T00:00:00Z");
        let ca = make_authority(now).expect("an authority");
        let authority = Authority::of(&ca, now).expect("usable");
        let request = CertificateRequest::parse(REQUEST.as_bytes()).expect("a request");
        let usages = ["client auth".to_owned(), "digital signature".to_owned()];
        let wanted =
            Wanted { request: &request, usages: &usages, validity: (now, at("2099-01-01T00:00:00Z")), serial: [0xff; SERIAL_BYTES] };
        let signed = authority.sign(&wanted).expect("signed");
        let der = CertificateDer::from_pem_slice(signed.as_bytes()).expect("a certificate");
        let subject = x509::subject(&der).expect("well formed");
        assert_eq!((subject.common_name.as_str(), &subject.organizations[..]), ("jane", &["dev".to_owned(), "ops".to_owned()][..]));
        assert_eq!(x509::server_names(&der).expect("well formed"), ["a.b", "1.2.3.4"]);
        assert_eq!(x509::not_after(&der), x509::not_after(&ca.der().expect("a certificate")), "it ends with its authority");
        assert_eq!(x509::public_key_info(&der), Some(request.public_key));
        let trusts = client_verifier(&ca.certificate).expect("an authority");
        trusts.verify_client_cert(&der, &[], unix_time(at("2026-06-02T00:00:00Z"))).expect("it signs in");
    }

    #[test]
    fn no_certificate_names_another_user_or_group_than_its_request() {
        let now = at("2026-06-01T00:00:00Z");
        let authority = Authority::of(&make_authority(now).expect("an authority"), now).expect("usable");
        let request = CertificateRequest::parse(REQUEST.as_bytes()).expect("a request");
        let other_user = CertificateRequest { common_name: "john".to_owned(), ..request.clone() };
        let other_groups = CertificateRequest { organizations: vec!["dev".to_owned()], ..request.clone() };
        let no_name = CertificateRequest { subject: vec![1, 2, 3], ..request };
        for request in [other_user, other_groups, no_name] {
            let wanted = Wanted { request: &request, usages: &[], validity: (now, at("2027-01-01T00:00:00Z")), serial: [1; SERIAL_BYTES] };
            assert!(matches!(authority.sign(&wanted), Err(SignError::Subject)), "{request:?}");
        }
    }

    #[test]
    fn a_request_is_signed_by_its_own_key() {
        let request = CertificateRequest::parse(REQUEST.as_bytes()).expect("a request");
        assert_eq!(Verifier.verify(&request), Ok(()));
        let mut forged = request;
        *forged.whole.last_mut().expect("a signature") ^= 1;
        assert_eq!(Verifier.verify(&forged), Err("x509: ECDSA verification failure"));
    }
}
