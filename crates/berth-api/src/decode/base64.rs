//! Base64 as upstream decodes it: with line breaks anywhere, and with any bits after those of the last byte.

use k8s_openapi::ByteString;
use serde_json::Value;

/// Returns the standard form of the text, which the type of bytes accepts.
///
/// # Errors
/// The offset of the invalid character, counted as in Go (`encoding/base64`, `CorruptInputError`).
pub(super) fn canonical(text: String) -> Result<Value, usize> {
    if is_canonical(text.as_bytes()) {
        return Ok(text.into());
    }
    let bytes = decode(text.as_bytes())?;
    Ok(serde_json::to_value(ByteString(bytes)).expect("bytes are a string"))
}

/// Whether these are whole groups of letters without padding. Nearly all values are. Others are decoded and encoded
/// again.
fn is_canonical(text: &[u8]) -> bool {
    text.len().is_multiple_of(LETTERS) && text.iter().all(|letter| sextet(*letter).is_some())
}

/// The number of letters of a group, and of bits per letter.
const LETTERS: usize = 4;
const BITS: u32 = 6;

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / LETTERS * 3);
    let (mut group, mut count) = (0_u32, 0_usize);
    for (at, letter) in text.iter().enumerate() {
        match (sextet(*letter), *letter) {
            (Some(sextet), _) => {
                group = group << BITS | sextet;
                count += 1;
            }
            (None, b'\n' | b'\r') => (),
            (None, b'=') => {
                check_padding(text, at, count)?;
                push(&mut bytes, group, count);
                return Ok(bytes);
            }
            (None, _) => return Err(at),
        }
        if count == LETTERS {
            push(&mut bytes, group, count);
            (group, count) = (0, 0);
        }
    }
    if count == 0 { Ok(bytes) } else { Err(text.len() - count) }
}

/// Checks the padding at `at`, the first `=`, after `count` letters of its group. It must complete the group and end
/// the text.
fn check_padding(text: &[u8], at: usize, count: usize) -> Result<(), usize> {
    let next = |from: usize| text[from..].iter().position(|letter| !matches!(letter, b'\n' | b'\r')).map_or(text.len(), |more| from + more);
    let mut end = next(at + 1);
    match count {
        0 | 1 => return Err(at),
        2 if end == text.len() => return Err(end),
        2 if text[end] != b'=' => return Err(end - 1),
        2 => end = next(end + 1),
        _ => (),
    }
    if end == text.len() { Ok(()) } else { Err(end) }
}

/// Appends the bytes of a group with this number of letters.
fn push(bytes: &mut Vec<u8>, group: u32, count: usize) {
    let missing = u32::try_from(LETTERS - count).expect("a group is small");
    let [_, whole @ ..] = (group << (BITS * missing)).to_be_bytes();
    bytes.extend(&whole[..count - 1]);
}

fn sextet(letter: u8) -> Option<u32> {
    Some(match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn invalid_base64_is_reported_at_the_position_that_upstream_reports() {
        for (text, place) in [
            ("YQ", 0),
            ("YWJ", 0),
            ("YWJjY", 4),
            ("YQ=", 3),
            ("Y Q=", 1),
            ("YQ==x", 4),
            ("!!", 0),
            ("YWI=YWI=", 4),
            ("=", 0),
            ("a===", 1),
            ("YWJj=", 4),
            ("äYQ=", 0),
        ] {
            assert_eq!(canonical(text.to_owned()), Err(place), "{text}");
        }
    }

    #[test]
    fn line_breaks_and_bits_that_no_byte_has_are_dropped() {
        for (text, wanted) in
            [("", ""), ("YWJj", "YWJj"), ("YR==", "YQ=="), ("YQ==\n", "YQ=="), ("Y\r\nQ=\n=", "YQ=="), ("YWJ=", "YWI="), ("+/+/", "+/+/")]
        {
            assert_eq!(canonical(text.to_owned()), Ok(json!(wanted)), "{text:?}");
        }
    }
}
