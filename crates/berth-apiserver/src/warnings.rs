//! `Warning` headers: problems that do not cause an error.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use std::collections::BTreeSet;

const WARNING: HeaderName = HeaderName::from_static("warning");
/// The total length above which each text is truncated to [`CUT_TEXT_CHARS`].
const TOTAL_CHARS_MAX: usize = 4096;
const CUT_TEXT_CHARS: usize = 256;

/// Adds a header for each text, without duplicates. Truncates the texts if their total is too long.
pub(crate) fn add_to(headers: &mut HeaderMap, texts: &[String]) {
    for text in fit(texts) {
        if let Ok(value) = HeaderValue::from_bytes(quote(text).as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

/// Adds a header for a text, unless there is one: a write has the warnings about its object already.
pub(crate) fn add_unless_there(headers: &mut HeaderMap, text: &str) {
    let quoted = quote(text);
    if !headers.get_all(WARNING).iter().any(|value| value.as_bytes() == quoted.as_bytes()) {
        add_to(headers, &[text.to_owned()]);
    }
}

/// Returns the texts to send. The first ones are kept, and those that do not fit even after truncation are dropped.
fn fit(texts: &[String]) -> Vec<&str> {
    // An object may have as many warnings as it has parts.
    let mut seen = BTreeSet::new();
    let unique: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.is_empty() && seen.insert(*text)).collect();
    if unique.iter().map(|text| text.chars().count()).sum::<usize>() <= TOTAL_CHARS_MAX {
        return unique;
    }
    let mut left = TOTAL_CHARS_MAX;
    unique
        .into_iter()
        .map(|text| text.char_indices().nth(CUT_TEXT_CHARS).map_or(text, |(end, _)| &text[..end]))
        .map_while(|text| {
            left = left.checked_sub(text.chars().count())?;
            Some(text)
        })
        .collect()
}

/// Returns `299 - "text"`. Control characters, which are invalid in headers, become spaces.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 8);
    quoted.push_str("299 - \"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => quoted.push(' '),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(texts: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        add_to(&mut headers, &texts);
        headers.get_all(WARNING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn texts_are_quoted_and_doubles_left_out() {
        assert_eq!(headers(&["unknown field \"a\\b\"", "x\ny", "x\ny"]), [r#"299 - "unknown field \"a\\b\"""#, r#"299 - "x y""#]);
    }

    #[test]
    fn long_texts_are_cut_only_when_all_are_too_long_together() {
        let long = "é".repeat(4000);
        assert_eq!(headers(&[&long])[0].chars().count(), 4000 + 8);
        let found = headers(&[&long, &"b".repeat(300), "short"]);
        assert_eq!(found.iter().map(|text| text.chars().count() - 8).collect::<Vec<_>>(), [256, 256, 5]);
    }

    #[test]
    fn never_more_than_the_total_is_sent() {
        let texts: Vec<String> = (0..40).map(|number| format!("{number:0300}")).collect();
        assert_eq!(fit(&texts).len(), 16);
    }
}
