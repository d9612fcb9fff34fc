//! A reader of DER, as far as certificates and requests need it.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const IDENTIFIER: u8 = 0x06;
pub(super) const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The bits of a tag that has more bytes.
const LONG_TAG: u8 = 0x1f;
/// Most bytes of a length.
const LENGTH_BYTES_MAX: usize = 4;

/// One element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'b> {
    pub(super) tag: u8,
    pub(super) content: &'b [u8],
    /// With its tag and its length.
    pub(super) whole: &'b [u8],
}

impl<'b> Element<'b> {
    /// The content of an element with this tag.
    pub(super) fn content_of(&self, tag: u8) -> Option<&'b [u8]> {
        (self.tag == tag).then_some(self.content)
    }
}

/// The content of the one element that the bytes are.
pub(super) fn only(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (element, rest) = first(bytes)?;
    element.content_of(tag).filter(|_| rest.is_empty())
}

/// The elements in some content.
pub(super) fn parts(mut content: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut elements = Vec::new();
    while !content.is_empty() {
        let (element, rest) = first(content)?;
        elements.push(element);
        content = rest;
    }
    Some(elements)
}

/// The first element, and the bytes after it. Tags have one byte, and lengths are in their shortest form: another reader must find the same
/// elements, because it decides whom a certificate names.
fn first(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let [tag, length, after @ ..] = bytes else { return None };
    if tag & LONG_TAG == LONG_TAG {
        return None;
    }
    let (length, after) = if *length < 0x80 {
        (usize::from(*length), after)
    } else {
        let count = usize::from(length & 0x7f);
        let (length, after) = after.split_at_checked(count).filter(|_| (1..=LENGTH_BYTES_MAX).contains(&count))?;
        let shortest = Some(length).filter(|length| if count == 1 { 0x80 <= length[0] } else { length[0] != 0 })?;
        (shortest.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), after)
    };
    let (content, rest) = after.split_at_checked(length)?;
    let whole = &bytes[..bytes.len() - rest.len()];
    Some((Element { tag: *tag, content, whole }, rest))
}

/// A time of a certificate. `None`: it is none.
///
/// Source: RFC 5280 §4.1.2.5.
pub(super) fn time(element: &Element<'_>) -> Option<Timestamp> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let number = |from: usize, length: usize| text.get(from..from + length)?.parse::<i16>().ok();
    let (year, rest) = match element.tag {
        UTC_TIME => {
            let year = number(0, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        GENERALIZED_TIME => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |index: usize| i8::try_from(number(rest + 2 * index, 2)?).ok();
    let at = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
    // Certificates without an end have one after the last time that there is.
    Some(at.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |at| at.timestamp()))
}
