//! Requests for certificates (PKCS #10) and certificates, as far as their texts are judged. Nothing here signs, or checks a signature.

mod der;

use der::{Element, parts};
use std::net::IpAddr;

/// Whom a request wants a certificate for, and with which names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The last common name of the subject.
    pub common_name: String,
    /// Every organization of the subject.
    pub organizations: Vec<String>,
    /// Alternative names: domains.
    pub dns_names: Vec<String>,
    /// Alternative names: addresses.
    pub addresses: Vec<IpAddr>,
    /// Alternative names: e-mail addresses.
    pub emails: Vec<String>,
    /// Alternative names: URIs.
    pub uris: Vec<String>,
    /// The subject, as DER.
    pub subject: Vec<u8>,
    /// The public key with its algorithm, as DER.
    pub public_key: Vec<u8>,
    /// The whole request, as DER.
    pub whole: Vec<u8>,
}

/// Why a text is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The first block is missing, or of another type.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Block,
    /// The block is no request.
    #[error("asn1: structure error: not a certificate request")]
    Structure,
}

/// Why a text is no chain of certificates. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// There is no block.
    #[error("must contain at least one CERTIFICATE PEM block")]
    None,
    /// A block of another type.
    #[error("only CERTIFICATE PEM blocks are allowed, found {0:?}")]
    Block(String),
    /// A block has headers.
    #[error("no PEM block headers are permitted")]
    Headers,
    /// A block is no certificate.
    #[error("x509: malformed certificate")]
    Malformed,
}

const TYPE: &str = "CERTIFICATE REQUEST";
/// Object identifiers: the common name, the organization, the request for extensions, the alternative names of a subject.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];

impl CertificateRequest {
    /// Reads the first block of a PEM text.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn parse(text: &[u8]) -> Result<Self, RequestError> {
        let block = blocks(text).next().filter(|block| block.label == TYPE).ok_or(RequestError::Block)?;
        Self::read(&block.bytes).ok_or(RequestError::Structure)
    }

    /// Source: RFC 2986, `CertificationRequest`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let [info, _algorithm, _signature]: [Element<'_>; 3] = parts(der::only(bytes, der::SEQUENCE)?)?.try_into().ok()?;
        let info = parts(info.content_of(der::SEQUENCE)?)?;
        let [_version, subject, key, attributes @ ..] = &info[..] else { return None };
        let mut request =
            Self { subject: subject.whole.to_vec(), public_key: key.whole.to_vec(), whole: bytes.to_vec(), ..Self::default() };
        for name in parts(subject.content_of(der::SEQUENCE)?)? {
            for attribute in parts(name.content_of(der::SET)?)? {
                let [kind, value]: [Element<'_>; 2] = parts(attribute.content_of(der::SEQUENCE)?)?.try_into().ok()?;
                let text = String::from_utf8_lossy(value.content).into_owned();
                match kind.content_of(der::IDENTIFIER)? {
                    COMMON_NAME => request.common_name = text,
                    ORGANIZATION => request.organizations.push(text),
                    _ => (),
                }
            }
        }
        for attribute in attributes.first().map_or_else(|| Some(Vec::new()), |attributes| parts(attributes.content))? {
            let [kind, values]: [Element<'_>; 2] = parts(attribute.content_of(der::SEQUENCE)?)?.try_into().ok()?;
            if kind.content_of(der::IDENTIFIER)? == EXTENSION_REQUEST {
                request.add_extensions(parts(values.content_of(der::SET)?)?.first()?)?;
            }
        }
        key.content_of(der::SEQUENCE)?;
        Some(request)
    }

    fn add_extensions(&mut self, extensions: &Element<'_>) -> Option<()> {
        for extension in parts(extensions.content_of(der::SEQUENCE)?)? {
            let fields = parts(extension.content_of(der::SEQUENCE)?)?;
            let (kind, value) = (fields.first()?.content_of(der::IDENTIFIER)?, fields.last()?.content_of(der::OCTETS)?);
            if kind == ALTERNATIVE_NAMES {
                parts(der::only(value, der::SEQUENCE)?)?.iter().for_each(|name| self.add(name));
            }
        }
        Some(())
    }

    /// Source: RFC 5280, `GeneralName`.
    fn add(&mut self, name: &Element<'_>) {
        let text = || String::from_utf8_lossy(name.content).into_owned();
        match name.tag {
            0x81 => self.emails.push(text()),
            0x82 => self.dns_names.push(text()),
            0x86 => self.uris.push(text()),
            0x87 => {
                let four = <[u8; 4]>::try_from(name.content).map(IpAddr::from);
                self.addresses.extend(four.or_else(|_| <[u8; 16]>::try_from(name.content).map(IpAddr::from)));
            }
            _ => (),
        }
    }
}

/// Checks that a PEM text has certificates, and no other blocks.
///
/// # Errors
/// [`CertificateError`].
pub fn check_certificates(text: &[u8]) -> Result<(), CertificateError> {
    let mut is_empty = true;
    for block in blocks(text) {
        is_empty = false;
        if block.label != "CERTIFICATE" {
            return Err(CertificateError::Block(block.label));
        }
        if block.has_headers {
            return Err(CertificateError::Headers);
        }
        end_of(&block.bytes).ok_or(CertificateError::Malformed)?;
    }
    if is_empty { Err(CertificateError::None) } else { Ok(()) }
}

/// When the first certificate of a PEM text ends. `None`: there is none.
#[must_use]
pub fn expiry(text: &[u8]) -> Option<jiff::Timestamp> {
    let block = blocks(text).find(|block| block.label == "CERTIFICATE")?;
    end_of(&block.bytes)
}

/// When a certificate ends. `None`: it is none.
///
/// Source: RFC 5280, `Certificate`.
fn end_of(certificate: &[u8]) -> Option<jiff::Timestamp> {
    let [body, _algorithm, _signature]: [Element<'_>; 3] = parts(der::only(certificate, der::SEQUENCE)?)?.try_into().ok()?;
    let fields = parts(body.content_of(der::SEQUENCE)?)?;
    // The first version of certificates has no number.
    let from = usize::from(fields.first()?.tag == 0xa0);
    let [_serial, _algorithm, _issuer, validity, ..] = fields.get(from..)? else { return None };
    let [_begin, end]: [Element<'_>; 2] = parts(validity.content_of(der::SEQUENCE)?)?.try_into().ok()?;
    der::time(&end)
}

/// A block of a PEM text.
struct Block {
    label: String,
    has_headers: bool,
    bytes: Vec<u8>,
}

/// The blocks of a text. What is before, between and after them is skipped, and so are blocks that cannot be read. An end belongs to the last
/// begin before it, so each line is read once.
///
/// Source: Go `encoding/pem`.
fn blocks(text: &[u8]) -> impl Iterator<Item = Block> + '_ {
    let mut lines = text.split(|byte| *byte == b'\n').scan(0, |end, line| {
        let start = *end;
        *end += line.len() + 1;
        Some((start, line.trim_ascii_end()))
    });
    let mut begun: Option<(usize, &[u8])> = None;
    std::iter::from_fn(move || {
        for (start, line) in lines.by_ref() {
            if let Some(label) = label(line, b"-----BEGIN ") {
                begun = Some((start + line.len(), label));
            } else if let Some(end) = label(line, b"-----END ") {
                let Some((from, label)) = begun.take().filter(|(_, label)| *label == end) else { continue };
                if let Some(block) = Block::read(label, &text[from..start]) {
                    return Some(block);
                }
            }
        }
        None
    })
}

fn label<'t>(line: &'t [u8], prefix: &[u8]) -> Option<&'t [u8]> {
    line.strip_prefix(prefix)?.strip_suffix(b"-----")
}

impl Block {
    /// Headers precede the encoded bytes.
    fn read(label: &[u8], content: &[u8]) -> Option<Self> {
        let lines = || content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let headers = lines().take_while(|line| line.contains(&b':')).count();
        let encoded: Vec<u8> = lines().skip(headers).flatten().copied().collect();
        let bytes = decode_base64(std::str::from_utf8(&encoded).ok()?)?;
        Some(Self { label: String::from_utf8_lossy(label).into_owned(), has_headers: 0 < headers, bytes })
    }
}

/// Standard base64 with its padding.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    serde_json::from_value::<k8s_openapi::ByteString>(text.into()).ok().map(|bytes| bytes.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl req -new -subj /CN=jane/O=dev/O=ops -addext subjectAltName=DNS:a.b,IP:1.2.3.4,email:a@b.c,URI:spiffe://x/y`, with a key on P-256.
    const REQUEST: &str = include_str!("certificates/request.pem");
    /// `openssl req -x509 -subj /CN=x -days 3650`, and its end.
    const CERTIFICATE: &str = include_str!("certificates/certificate.pem");
    const END: &str = "2036-11-26T18:32:55Z";

    #[test]
    fn a_request_names_its_subject() {
        let request = CertificateRequest::parse(format!("before\n{REQUEST}after").as_bytes()).expect("a request");
        assert_eq!((request.common_name.as_str(), &request.organizations[..]), ("jane", &["dev".to_owned(), "ops".to_owned()][..]));
        assert_eq!((&request.dns_names[..], &request.emails[..]), (&["a.b".to_owned()][..], &["a@b.c".to_owned()][..]));
        assert_eq!((&request.uris[..], &request.addresses[..]), (&["spiffe://x/y".to_owned()][..], &[IpAddr::from([1, 2, 3, 4])][..]));
    }

    #[test]
    fn a_text_that_is_no_request_is_rejected() {
        let why = |text: &str| CertificateRequest::parse(text.as_bytes()).expect_err("no request").to_string();
        let garbled = "-----BEGIN CERTIFICATE REQUEST-----\nhi\n-----END CERTIFICATE REQUEST-----\n";
        for text in ["", "hi", "-----BEGIN FOO-----\naGk=\n-----END FOO-----\n", garbled] {
            assert_eq!(why(text), "PEM block type must be CERTIFICATE REQUEST", "{text}");
        }
        assert!(why("-----BEGIN CERTIFICATE REQUEST-----\naGk=\n-----END CERTIFICATE REQUEST-----\n").starts_with("asn1: structure error"));
        let whole = CertificateRequest::parse(REQUEST.as_bytes()).expect("a request").whole;
        for length in 0..whole.len() {
            assert_eq!(CertificateRequest::read(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            let _ = CertificateRequest::read(&changed);
        }
    }

    fn element(tag: &[u8], content: &[u8]) -> Vec<u8> {
        [tag, &[u8::try_from(content.len()).expect("short")], content].concat()
    }

    /// A request of a subject with one organization. Nothing else in it is right.
    fn of_organization(value: &[u8]) -> Option<Vec<String>> {
        let attribute = element(&[der::SEQUENCE], &[element(&[der::IDENTIFIER], ORGANIZATION), value.to_vec()].concat());
        let subject = element(&[der::SEQUENCE], &element(&[der::SET], &attribute));
        let info = element(&[der::SEQUENCE], &[element(&[2], &[0]), subject, element(&[der::SEQUENCE], &[])].concat());
        let whole = element(&[der::SEQUENCE], &[info, element(&[der::SEQUENCE], &[]), element(&[3], &[0])].concat());
        CertificateRequest::read(&whole).map(|request| request.organizations)
    }

    /// Another reader would find the name `system:masters` in each of them.
    #[test]
    fn a_name_that_another_reader_could_read_differently_is_rejected() {
        let name = b"system:masters";
        assert_eq!(of_organization(&element(&[0x0c], name)), Some(vec!["system:masters".to_owned()]));
        for tag in [&[0x1f, 0x0f][..], &[0x1f, 0x81, 0x0f], &[0xdf, 0x0f], &[0x0c, 0x81], &[0x0c, 0x82, 0]] {
            assert_eq!(of_organization(&element(tag, name)), None, "{tag:?}");
        }
    }

    #[test]
    fn an_end_belongs_to_the_last_begin_before_it() {
        let begin = "-----BEGIN CERTIFICATE REQUEST-----\n";
        let request = CertificateRequest::parse(REQUEST.as_bytes()).expect("a request");
        // Minutes of work, if each begin was compared with each line after it.
        for before in [begin.repeat(200_000), "-----BEGIN A-----\n-----END B-----\n".repeat(100_000)] {
            assert_eq!(CertificateRequest::parse(format!("{before}{REQUEST}").as_bytes()), Ok(request.clone()));
        }
        let windows = REQUEST.replace('\n', "\r\n");
        assert_eq!(CertificateRequest::parse(windows.as_bytes()), Ok(request));
        assert_eq!(
            CertificateRequest::parse(format!("{begin}{}", REQUEST.replace("END CERTIFICATE REQUEST", "END X")).as_bytes()),
            Err(RequestError::Block)
        );
    }

    #[test]
    fn certificates_are_blocks_of_their_own_type() {
        let why = |text: &str| check_certificates(text.as_bytes()).expect_err("no certificates").to_string();
        assert_eq!(why("hi"), "must contain at least one CERTIFICATE PEM block");
        assert_eq!(why("-----BEGIN FOO-----\naGk=\n-----END FOO-----\n"), "only CERTIFICATE PEM blocks are allowed, found \"FOO\"");
        assert_eq!(why("-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n"), "x509: malformed certificate");
        assert_eq!(why("-----BEGIN CERTIFICATE-----\nA: b\n\naGk=\n-----END CERTIFICATE-----\n"), "no PEM block headers are permitted");
        assert_eq!(check_certificates(format!("text\n{CERTIFICATE}{CERTIFICATE}").as_bytes()), Ok(()));
        assert_eq!(expiry(CERTIFICATE.as_bytes()).map(|end| end.to_string()).as_deref(), Some(END));
    }
}
