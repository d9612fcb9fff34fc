//! `Warning` headers: what the API noticed and did not refuse.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use std::collections::BTreeSet;

const WARNING: HeaderName = HeaderName::from_static("warning");
/// Longer texts are cut to [`CUT_TEXT_CHARS`] each once all of them together pass this.
const TOTAL_CHARS_MAX: usize = 4096;
const CUT_TEXT_CHARS: usize = 256;

/// Adds a header for each text, doubles left out, cut where they would be too long together.
pub(crate) fn add_to(headers: &mut HeaderMap, texts: &[String]) {
    for text in fit(texts) {
        if let Ok(value) = HeaderValue::from_bytes(quote(text).as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

/// The texts to send. What does not fit even when cut is dropped, the first ones stay.
fn fit(texts: &[String]) -> Vec<&str> {
    // An object may have as many faults that are none as it has parts.
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

/// `299 - "text"`. Control characters, which no header may carry, become spaces.
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
