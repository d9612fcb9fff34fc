//! Parses parts of a certificate that the TLS library does not expose: its subject, its validity and its key. Also
//! creates certificates with more than one organization, which rcgen does not support.
//!
//! The input is a certificate with a verified chain, or one of the server's own folder. Functions return `None` for a
//! malformed one.

use jiff::Timestamp;
use std::net::IpAddr;
use x509_parser::{
    asn1_rs::{Any, BitString, Class, DerParser, FromDer, Sequence, SequenceIterator, Set, Tag, ToDer},
    certificate::{X509Certificate, X509CertificateParser},
    certification_request::X509CertificationRequest,
    error::X509Error,
    extensions::GeneralName,
    nom::Parser,
    oid_registry::{
        OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_PKCS1_RSAENCRYPTION, OID_X509_COMMON_NAME,
        OID_X509_ORGANIZATION_NAME, Oid,
    },
    x509::SubjectPublicKeyInfo,
};

/// The subject of a certificate, as Kubernetes interprets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The user: the last CN.
    pub(crate) common_name: String,
    /// The groups: every O.
    pub(crate) organizations: Vec<String>,
}

/// Returns the subject of a certificate.
pub(crate) fn subject(certificate: &[u8]) -> Option<Subject> {
    let mut subject = Subject::default();
    for attribute in parse(certificate)?.subject().iter_attributes() {
        let text = String::from_utf8(attribute.as_slice().to_vec()).ok()?;
        if *attribute.attr_type() == OID_X509_COMMON_NAME {
            subject.common_name = text;
        } else if *attribute.attr_type() == OID_X509_ORGANIZATION_NAME {
            subject.organizations.push(text);
        }
    }
    Some(subject)
}

/// Returns the end of its validity.
pub(crate) fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    Timestamp::from_second(parse(certificate)?.validity().not_after.timestamp()).ok()
}

/// Returns the start and the end of its validity.
pub(crate) fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let parsed = parse(certificate)?;
    let validity = parsed.validity();
    Some((Timestamp::from_second(validity.not_before.timestamp()).ok()?, Timestamp::from_second(validity.not_after.timestamp()).ok()?))
}

/// Checks the signature of a request for a certificate.
///
/// # Errors
/// Upstream's message.
pub(crate) fn check_request(request: &[u8]) -> Result<(), &'static str> {
    let (_, request) = X509CertificationRequest::from_der(request).map_err(|_| "asn1: structure error: not a certificate request")?;
    let key = &request.certification_request_info.subject_pki.algorithm.algorithm;
    request.verify_signature().map_err(|error| match error {
        X509Error::SignatureUnsupportedAlgorithm => "x509: cannot verify signature: algorithm unimplemented",
        _ if *key == OID_KEY_TYPE_EC_PUBLIC_KEY => "x509: ECDSA verification failure",
        _ if *key == OID_PKCS1_RSAENCRYPTION => "crypto/rsa: verification error",
        _ => "x509: Ed25519 verification failure",
    })
}

/// Returns the bytes of its public key.
pub(crate) fn public_key(certificate: &[u8]) -> Option<Vec<u8>> {
    Some(parse(certificate)?.public_key().subject_public_key.as_ref().to_vec())
}

/// Returns the public key with its algorithm, as DER (RFC 5280, `SubjectPublicKeyInfo`).
pub(crate) fn public_key_info(certificate: &[u8]) -> Option<Vec<u8>> {
    Some(parse(certificate)?.public_key().raw.to_vec())
}

/// Returns its names and addresses.
pub(crate) fn server_names(certificate: &[u8]) -> Option<Vec<String>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()?;
    let names = names.iter().flat_map(|found| &found.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    });
    Some(names.collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The kind of a key for signing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    P256,
    P384,
}

/// Parses a `SubjectPublicKeyInfo` into the kind and the key. `None`: it is malformed, or of another kind.
pub(crate) fn key_of_info(info: &[u8]) -> Option<(KeyKind, Vec<u8>)> {
    let (rest, info) = SubjectPublicKeyInfo::from_der(info).ok()?;
    let curve = || info.algorithm.parameters.as_ref()?.as_oid().ok();
    let kind = if info.algorithm.algorithm == OID_PKCS1_RSAENCRYPTION {
        KeyKind::Rsa
    } else if info.algorithm.algorithm != OID_KEY_TYPE_EC_PUBLIC_KEY {
        return None;
    } else if curve()? == OID_EC_P256 {
        KeyKind::P256
    } else if curve()? == OID_NIST_EC_P384 {
        KeyKind::P384
    } else {
        return None;
    };
    rest.is_empty().then(|| (kind, info.subject_public_key.data.to_vec()))
}

/// Returns the two numbers of an RSA key or of an elliptic signature, without leading zeros.
pub(crate) fn two_integers(bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    let (rest, pair) = Any::from_der(bytes).ok()?;
    let [first, second]: [Any<'_>; 2] = parts(pair.data)?.try_into().ok()?;
    let number = |value: &Any<'_>| {
        let is_positive = value.tag() == Tag::Integer && value.data.first().is_some_and(|byte| byte & 0x80 == 0);
        is_positive.then(|| value.data.iter().copied().skip_while(|byte| *byte == 0).collect())
    };
    if rest.is_empty() { Some([number(&first)?, number(&second)?]) } else { None }
}

/// Whether the certificate is signed by its own key, and contains and precedes no unsigned bytes. No other encoding is
/// accepted.
pub(crate) fn is_signed_by_itself(certificate: &[u8]) -> bool {
    parse(certificate).is_some_and(|parsed| parsed.verify_signature(None).is_ok() && is_all_signed(certificate, &parsed).unwrap_or(false))
}

/// Encodes the unsigned part again for a comparison, because parsers accept variants of it.
fn is_all_signed(certificate: &[u8], parsed: &X509Certificate<'_>) -> Option<bool> {
    let body: &[u8] = parsed.tbs_certificate.as_ref();
    let fields = parts(Any::from_der(body).ok()?.1.data)?;
    let algorithm = fields.get(algorithm_at(&fields)?)?;
    let signature = BitString::new(0, &parsed.signature_value.data);
    Some(certificate == sequence(&[body.to_vec(), der(algorithm), der(&signature)]))
}

/// Parses a certificate. The TLS library checks its extensions.
fn parse(certificate: &[u8]) -> Option<X509Certificate<'_>> {
    X509CertificateParser::new().with_deep_parse_extensions(false).parse(certificate).ok().map(|(_, parsed)| parsed)
}

/// Returns the certificate with another subject and a new signature. `None`: it is malformed.
///
/// # Errors
/// An error of `sign`.
pub(crate) fn with_subject<E>(
    certificate: &[u8],
    subject: &Subject,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Option<Result<Vec<u8>, E>> {
    with_names(certificate, &names(subject), sign)
}

/// Does the same with a subject as DER.
pub(crate) fn with_name<E>(
    certificate: &[u8],
    subject: &[u8],
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Option<Result<Vec<u8>, E>> {
    let (_, name) = Any::from_der(subject).ok()?;
    with_names(certificate, name.data, sign)
}

/// Does the same with the contents of a subject.
fn with_names<E>(certificate: &[u8], names: &[u8], sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>) -> Option<Result<Vec<u8>, E>> {
    let (_, whole) = Any::from_der(certificate).ok()?;
    let [body, algorithm, _signature] = parts(whole.data)?.try_into().ok()?;
    let mut fields = parts(body.data)?;
    let at = algorithm_at(&fields)? + 3;
    *fields.get_mut(at)? = Any::from_tag_and_data(Tag::Sequence, names);
    let body = sequence(&fields.iter().map(der).collect::<Vec<_>>());
    Some(sign(&body).map(|signature| sequence(&[body, der(&algorithm), der(&BitString::new(0, &signature))])))
}

/// Returns the index of the signature algorithm in the signed part. RFC 5280 §4.1: version?, serial, signature
/// algorithm, issuer, validity, subject, …
fn algorithm_at(fields: &[Any<'_>]) -> Option<usize> {
    Some(if fields.first()?.class() == Class::ContextSpecific { 2 } else { 1 })
}

/// Returns the contents of a subject: a set with one attribute for each organization, and one for the user.
fn names(subject: &Subject) -> Vec<u8> {
    let name = |oid: &Oid<'_>, text: &str| der(&Set::new(sequence(&[der(oid), der(&text)]).into()));
    let organizations = subject.organizations.iter().map(|organization| name(&OID_X509_ORGANIZATION_NAME, organization));
    organizations.chain([name(&OID_X509_COMMON_NAME, &subject.common_name)]).flatten().collect()
}

/// Returns the values in a sequence's contents.
fn parts(contents: &[u8]) -> Option<Vec<Any<'_>>> {
    SequenceIterator::<Any<'_>, DerParser>::new(contents).collect::<Result<_, _>>().ok()
}

fn sequence(values: &[Vec<u8>]) -> Vec<u8> {
    der(&Sequence::new(values.concat().into()))
}

fn der(value: &impl ToDer) -> Vec<u8> {
    value.to_der_vec().expect("memory takes what is written to it, and no tag is longer than those that were read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    fn certificate(until_year: i32, organizations: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "jörg");
        for organization in organizations {
            params.distinguished_name.push(DnType::OrganizationName, *organization);
        }
        params.not_after = date_time_ymd(until_year, 3, 4);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn user_and_groups_are_common_name_and_organizations() {
        let found = subject(&certificate(2030, &["system:masters"])).expect("well formed");
        assert_eq!(found, Subject { common_name: "jörg".into(), organizations: vec!["system:masters".into()] });
    }

    #[test]
    fn validity_is_read_in_both_of_its_forms() {
        for year in [2030, 2060] {
            let end = not_after(&certificate(year, &[])).expect("well formed");
            assert_eq!(end.to_string(), format!("{year}-03-04T00:00:00Z"));
        }
    }

    #[test]
    fn another_subject_names_all_of_its_organizations_and_nothing_else_changes() {
        let many: Vec<String> = (0..20).map(|index| format!("group-{index}")).collect();
        let wanted = Subject { common_name: "alice".into(), organizations: many };
        let before = certificate(2030, &["a"]);
        let after = with_subject(&before, &wanted, |_| Ok::<_, ()>(vec![1, 2, 3])).expect("well formed").expect("signed");
        assert_eq!(subject(&after), Some(wanted.clone()));
        assert_eq!(not_after(&after), not_after(&before));
        assert!(after.ends_with(&[3, 4, 0, 1, 2, 3]));
        assert!(with_subject(&[], &wanted, |_| Ok::<_, ()>(Vec::new())).is_none());
    }

    #[test]
    fn no_prefix_of_a_certificate_panics() {
        let whole = certificate(2030, &["a"]);
        for length in 0..whole.len() {
            let (_, _) = (subject(&whole[..length]), not_after(&whole[..length]));
        }
        assert_eq!(subject(&[]), None);
    }
}
