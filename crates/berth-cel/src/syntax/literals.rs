//! Texts and bytes in quotes, and numbers.

use super::Literal;
use crate::error::Fault;

/// Reads a text or bytes in quotes, with its length in the source. `None`: there is none.
pub(crate) fn text(source: &str, at: usize) -> Result<Option<(usize, Literal)>, Fault> {
    let (is_bytes, rest) = source.strip_prefix(['b', 'B']).map_or((false, source), |rest| (true, rest));
    let (is_raw, rest) = rest.strip_prefix(['r', 'R']).map_or((false, rest), |rest| (true, rest));
    let Some(quote) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote)) else { return Ok(None) };
    let start = source.len() - rest.len() + quote.len();
    let wrong = |text: String| Fault { at, text };
    let Some(length) = end(&source[start..], quote, is_raw) else {
        let shown: String = source.chars().take(20).collect();
        return Err(wrong(format!("Syntax error: token recognition error at: '{shown}'")));
    };
    let written = &source[start..start + length];
    let value = if is_raw { written.as_bytes().to_vec() } else { unescaped(written, is_bytes).map_err(|text| wrong(text.to_owned()))? };
    let literal = if is_bytes {
        Literal::Bytes(value.into())
    } else {
        Literal::String(String::from_utf8(value).map_err(|_| wrong("invalid unicode code point".to_owned()))?.into())
    };
    Ok(Some((start + length + quote.len(), literal)))
}

/// The length of a text up to its closing quote.
fn end(text: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if text[at..].starts_with(quote) {
            return Some(at);
        }
        match character {
            '\\' if !is_raw => _ = characters.next(),
            '\n' | '\r' if quote.len() == 1 => return None,
            _ => (),
        }
    }
    None
}

fn unescaped(written: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let mut value = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        value.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escape(&rest[at + 1..], is_bytes, &mut value).ok_or("unable to unescape string")?;
    }
    value.extend_from_slice(rest.as_bytes());
    Ok(value)
}

/// Reads what follows a backslash, and returns the text after it.
fn escape<'a>(text: &'a str, is_bytes: bool, value: &mut Vec<u8>) -> Option<&'a str> {
    let first = text.chars().next()?;
    let (length, radix, digits) = match first {
        'x' | 'X' => (3, 16, 1..3),
        'u' if !is_bytes => (5, 16, 1..5),
        'U' if !is_bytes => (9, 16, 1..9),
        '0'..='3' => (3, 8, 0..3),
        _ => {
            value.push(match first {
                'a' => 7,
                'b' => 8,
                'f' => 12,
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                'v' => 11,
                '\\' | '?' | '"' | '\'' | '`' => u8::try_from(first).ok()?,
                _ => return None,
            });
            return text.get(1..);
        }
    };
    let code = text.get(digits).filter(|digits| digits.chars().all(|digit| digit.is_digit(radix)))?;
    let code = u32::from_str_radix(code, radix).ok()?;
    match (is_bytes, u8::try_from(code)) {
        (true, Ok(byte)) => value.push(byte),
        (true, Err(_)) => return None,
        (false, _) => value.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    text.get(length..)
}

/// An integer with its sign.
pub(crate) fn int(written: &str, is_negative: bool) -> Option<i64> {
    let size = uint(written)?;
    if is_negative { 0_i64.checked_sub_unsigned(size) } else { i64::try_from(size).ok() }
}

/// An integer without a sign.
pub(crate) fn uint(written: &str) -> Option<u64> {
    match written.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => written.parse().ok(),
    }
}
