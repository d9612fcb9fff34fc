//! Truncates untrusted texts before they are logged.

use hyper::{Uri, http::uri::PathAndQuery};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// The maximum length of a text, as upstream's limit for user agents in the audit log.
const TEXT_BYTES_MAX: usize = 1024;
/// Upstream's suffix of a truncated text.
const CUT: &str = "...TRUNCATED";

/// Truncates a client's text.
///
/// Source: kubernetes `apiserver/pkg/audit/request.go`, `maybeTruncateUserAgent`.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}

/// The path and query of a request for logs: truncated, and without the values of parameters that look like
/// credentials.
///
/// Some clients send a token in the query, although the server never reads one from there.
pub(crate) struct Address<'a>(pub(crate) &'a Uri);

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.path_and_query().map_or("", PathAndQuery::as_str);
        let Some((path, query)) = whole.split_once('?') else { return f.write_str(&cut(whole)) };
        let parts: Vec<Cow<'_, str>> = query.split('&').map(without_credential).collect();
        f.write_str(&cut(&format!("{path}?{}", parts.join("&"))))
    }
}

/// Substrings of parameter names whose values are not logged.
const CREDENTIALS: &[&str] = &["authorization", "credential", "password", "secret", "token"];

fn without_credential(parameter: &str) -> Cow<'_, str> {
    let Some((name, _)) = parameter.split_once('=') else { return parameter.into() };
    let plain = percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
    if CREDENTIALS.iter().any(|word| plain.contains(word)) { format!("{name}=<hidden>").into() } else { parameter.into() }
}

/// Truncates every text in a JSON value.
pub(crate) fn cut_all(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if TEXT_BYTES_MAX < text.len() => *text = cut(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| *item = cut_all(item.take())),
        Value::Object(members) => members.values_mut().for_each(|member| *member = cut_all(member.take())),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_texts_are_cut_between_characters_and_marked() {
        let long = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(cut(&long), long);
        assert_eq!(cut(&format!("{long}x")), format!("{long}{CUT}"));
        assert_eq!(cut(&"é".repeat(TEXT_BYTES_MAX)), format!("{}{CUT}", "é".repeat(TEXT_BYTES_MAX / 2)));
        let all = cut_all(json!({"a": [format!("{long}x"), 1], "b": {"c": "short"}}));
        assert_eq!(all, json!({"a": [format!("{long}{CUT}"), 1], "b": {"c": "short"}}));
    }

    #[test]
    fn no_log_shows_the_value_of_a_parameter_that_is_named_as_a_credential() {
        let shown = |uri: &str| Address(&uri.parse::<Uri>().expect("a URI")).to_string();
        assert_eq!(shown("/api/v1/pods?access_token=abc&limit=5"), "/api/v1/pods?access_token=<hidden>&limit=5");
        assert_eq!(shown("/x?limit=5&access%5FTOKEN=abc&clientSecret=d=e"), "/x?limit=5&access%5FTOKEN=<hidden>&clientSecret=<hidden>");
        for plain in
            ["/api/v1/pods", "/api/v1/pods?", "/api/v1/pods?continue=abc&watch", "/api/v1/namespaces/n/serviceaccounts/s/token?x=1"]
        {
            assert_eq!(shown(plain), plain);
        }
        let long = shown(&format!("/x?token=abc&y={}", "z".repeat(2 * TEXT_BYTES_MAX)));
        assert!(long.starts_with("/x?token=<hidden>&y=z") && long.ends_with(CUT) && long.len() < 2 * TEXT_BYTES_MAX, "{long}");
    }
}
