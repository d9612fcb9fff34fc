//! The two facts that are needed of a certificate and that the TLS library keeps to itself: who it names, and until when it holds. And
//! certificates that name more than one organization, which the library that makes them cannot.
//!
//! Only certificates whose chain has been verified, or that were read from the server's own folder, come here; malformed ones give `None`.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// The subject of a certificate, as Kubernetes reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The user: the last CN.
    pub(crate) common_name: String,
    /// The groups: every O.
    pub(crate) organizations: Vec<String>,
}

const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const EXPLICIT_VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const OID_COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const OID_ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// Whom the certificate names.
pub(crate) fn subject(certificate: &[u8]) -> Option<Subject> {
    let mut subject = Subject::default();
    let mut names = fields(certificate)?.subject;
    while let Some((_, set)) = next(&mut names) {
        let mut set = set;
        while let Some((_, mut pair)) = next(&mut set) {
            let (_, oid) = next(&mut pair)?;
            let text = String::from_utf8(next(&mut pair)?.1.to_vec()).ok()?;
            match oid {
                OID_COMMON_NAME => subject.common_name = text,
                OID_ORGANIZATION => subject.organizations.push(text),
                _ => {}
            }
        }
    }
    Some(subject)
}

/// The end of its validity.
pub(crate) fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let mut validity = fields(certificate)?.validity;
    next(&mut validity)?;
    let (tag, text) = next(&mut validity)?;
    let text = std::str::from_utf8(text).ok()?;
    // RFC 5280: two-digit years below 50 are of this century.
    let century = match (tag, text.get(..2)?.parse::<u8>().ok()?) {
        (UTC_TIME, 50..) => "19",
        (UTC_TIME, _) => "20",
        _ => "",
    };
    let at = DateTime::strptime("%Y%m%d%H%M%SZ", format!("{century}{text}")).ok()?;
    at.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
}

/// The certificate, with another subject and signed anew. `None`: it is malformed.
///
/// # Errors
/// What `sign` says.
pub(crate) fn with_subject<E>(
    certificate: &[u8],
    subject: &Subject,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
) -> Option<Result<Vec<u8>, E>> {
    let mut rest = certificate;
    let (_, mut whole) = next(&mut rest)?;
    let (_, mut body) = next(&mut whole)?;
    let algorithm = next_whole(&mut whole)?;
    let mut parts = Vec::new();
    while let Some(part) = next_whole(&mut body) {
        parts.push(part.to_vec());
    }
    // RFC 5280 §4.1: version?, serial, signature algorithm, issuer, validity, subject, …
    let at = if parts.first()?.first() == Some(&EXPLICIT_VERSION) { 5 } else { 4 };
    *parts.get_mut(at)? = encode_subject(subject);
    let body = der(SEQUENCE, &parts.concat());
    Some(sign(&body).map(|signature| {
        // No bit of the last byte is unused.
        let signature = der(BIT_STRING, &[&[0], signature.as_slice()].concat());
        der(SEQUENCE, &[body.as_slice(), algorithm, &signature].concat())
    }))
}

fn encode_subject(subject: &Subject) -> Vec<u8> {
    let pair = |oid: &[u8], text: &str| {
        let pair = [der(OBJECT_IDENTIFIER, oid), der(UTF8_STRING, text.as_bytes())].concat();
        der(SET, &der(SEQUENCE, &pair))
    };
    let organizations = subject.organizations.iter().map(|organization| pair(OID_ORGANIZATION, organization));
    let names: Vec<Vec<u8>> = organizations.chain([pair(OID_COMMON_NAME, &subject.common_name)]).collect();
    der(SEQUENCE, &names.concat())
}

/// One DER value.
fn der(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len();
    let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|digit| *digit == 0).collect();
    let mut value = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => value.push(short),
        _ => {
            value.push(0x80 | u8::try_from(digits.len()).expect("a length has eight bytes at most"));
            value.extend(digits);
        }
    }
    value.extend_from_slice(contents);
    value
}

/// Takes one DER value off the front, tag and length included.
fn next_whole<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let before = *rest;
    next(rest)?;
    Some(&before[..before.len() - rest.len()])
}

struct Fields<'a> {
    validity: &'a [u8],
    subject: &'a [u8],
}

/// RFC 5280 §4.1: version?, serial, signature algorithm, issuer, validity, subject, …
fn fields(certificate: &[u8]) -> Option<Fields<'_>> {
    let mut rest = certificate;
    let mut whole = next(&mut rest).filter(|(tag, _)| *tag == SEQUENCE)?.1;
    let mut body = next(&mut whole).filter(|(tag, _)| *tag == SEQUENCE)?.1;
    if body.first() == Some(&EXPLICIT_VERSION) {
        next(&mut body)?;
    }
    for _serial_algorithm_issuer in 0..3 {
        next(&mut body)?;
    }
    let (_, validity) = next(&mut body)?;
    let (_, subject) = next(&mut body)?;
    Some(Fields { validity, subject })
}

/// Takes one DER value off the front: its tag and its contents.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, after) = rest.split_first()?;
    let (&first, after) = after.split_first()?;
    let (length, after) = match first {
        0..=0x7f => (usize::from(first), after),
        0x81..=0x84 => {
            let (digits, after) = after.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0_usize, |length, digit| length << 8 | usize::from(*digit)), after)
        }
        _ => return None,
    };
    let (contents, after) = after.split_at_checked(length)?;
    *rest = after;
    Some((tag, contents))
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
