//! Why a webhook could not be called, in upstream's words.

use http::StatusCode;
use serde_json::Value;

/// The maximum length of a text of a webhook in an error.
const SHOWN_BYTES_MAX: usize = 1024;

/// Why a webhook has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallFailure {
    /// Its CA bundle cannot be used.
    #[error("could not get REST client: unable to load root certificates: {0}")]
    CaBundle(&'static str),
    /// No request arrived, or no answer came back.
    #[error("failed to call webhook: Post {url:?}: {why}")]
    Post {
        /// The URL.
        url: String,
        /// What happened.
        why: String,
    },
    /// It answered with an error.
    #[error("failed to call webhook: {message}")]
    Status {
        /// The HTTP code.
        code: u16,
        /// In words.
        message: String,
    },
    /// Its answer is too long.
    #[error("failed to call webhook: the answer is larger than {0} bytes")]
    TooLong(usize),
    /// It answered with a redirection.
    #[error("failed to call webhook: it answered with a redirection ({0}), which is not followed")]
    Redirected(u16),
}

impl CallFailure {
    /// Returns the code for metrics: that of the answer, or 503.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Status { code, .. } | Self::Redirected(code) => *code,
            Self::CaBundle(_) => 500,
            Self::Post { .. } | Self::TooLong(_) => 503,
        }
    }

    /// Returns the failure for an answer with an error code.
    pub(crate) fn of_answer(status: StatusCode, content_type: &str, body: &[u8]) -> Self {
        let code = status.as_u16();
        if status.is_redirection() {
            return Self::Redirected(code);
        }
        let answer = serde_json::from_slice::<Value>(body).ok().filter(|answer| answer["kind"] == "Status");
        let message = answer.and_then(|status| status["message"].as_str().filter(|message| !message.is_empty()).map(cut));
        Self::Status { code, message: message.unwrap_or_else(|| words(status, content_type, body)) }
    }
}

/// Source: upstream `apimachinery/pkg/api/errors`, `NewGenericServerResponse`.
fn words(status: StatusCode, content_type: &str, body: &[u8]) -> String {
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let text = std::str::from_utf8(body).ok().filter(|_| is_text).map(str::trim);
    let shown = cut(text.filter(|text| !text.is_empty()).unwrap_or("unknown"));
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        406 if shown == "unknown" => "the server was unable to respond with a content type that the client supports".to_owned(),
        403 | 406 | 415 => shown,
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => format!("an error on the server ({shown:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Returns the beginning of a text.
fn cut(text: &str) -> String {
    let mut end = text.len().min(SHOWN_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those of a real 1.36.2.
    #[test]
    fn an_answer_with_an_error_code_has_upstreams_words() {
        for (code, content_type, body, wanted) in [
            (500, "application/json", "oops", "an error on the server (\"unknown\") has prevented the request from succeeding"),
            (501, "text/html", "<p>\n", "an error on the server (\"<p>\") has prevented the request from succeeding"),
            (404, "application/json", "{\"kind\": \"Status\", \"message\": \"gone fishing\"}", "gone fishing"),
            (404, "application/json", "", "the server could not find the requested resource"),
            (503, "", "", "the server is currently unable to handle the request"),
            (429, "", "", "the server has received too many requests and has asked us to try again later"),
            (400, "", "xxx", "the server rejected our request for an unknown reason"),
            (403, "text/plain", "text body", "text body"),
            (406, "text/plain", "text body", "text body"),
            (415, "text/plain", "text body", "text body"),
            (410, "text/plain", "text body", "the server responded with the status code 410 but did not return more information"),
        ] {
            let failure = CallFailure::of_answer(StatusCode::from_u16(code).expect("a code"), content_type, body.as_bytes());
            assert_eq!(failure, CallFailure::Status { code, message: wanted.to_owned() });
        }
    }

    #[test]
    fn a_redirection_is_no_answer() {
        let failure = CallFailure::of_answer(StatusCode::FOUND, "", b"");
        assert_eq!(failure.to_string(), "failed to call webhook: it answered with a redirection (302), which is not followed");
        assert_eq!(failure.code(), 302);
    }
}
