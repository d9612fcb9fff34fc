//! Continue tokens: where a list goes on, and at which revision.

use crate::ApiError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_store::{Key, Revision};
use serde::{Deserialize, Serialize};

/// What a token says. Opaque to clients.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// The revision that all pages show; absent: the newest, after the first one expired.
    #[serde(rename = "rv", skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The last key of the page before, without the collection's prefix.
    #[serde(rename = "after")]
    start_after: String,
    /// How many keys stood behind that key, so that the next page need not count them again. Whoever forges it is told a wrong number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

impl Token {
    /// A token behind `last`, whose collection's keys start with `prefix`; `left` of them stand behind it.
    pub(crate) fn behind(last: &Key, prefix: &str, revision: Revision, left: usize) -> Self {
        let start_after = last.as_str().strip_prefix(prefix).unwrap_or_default().to_owned();
        Self { revision: Some(revision.0), start_after, left: Some(left) }
    }

    /// The key to start after.
    pub(crate) fn start_after(&self, prefix: &str) -> Key {
        Key::new(&format!("{prefix}{}", self.start_after))
    }

    /// How many keys stand behind that.
    pub(crate) fn left(&self) -> Option<usize> {
        self.left
    }

    /// The revision to read at.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.revision.map(Revision)
    }

    /// The same place at the newest revision.
    pub(crate) fn at_newest(self) -> Self {
        Self { revision: None, left: None, ..self }
    }

    /// As clients carry it.
    pub(crate) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("text and a number"))
    }

    /// Reads what [`Token::encode`] wrote.
    ///
    /// # Errors
    /// 400 for anything else.
    pub(crate) fn decode(text: &str) -> Result<Self, ApiError> {
        let bad = |why: String| ApiError::bad_request(format!("invalid continue token: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| bad(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
    }
}

/// What fuzz targets call: whether the text is no token, or one that is the same after it was written again.
#[cfg(feature = "fuzzing")]
#[must_use]
pub fn round_trips(text: &str) -> bool {
    Token::decode(text).map_or(true, |token| Token::decode(&token.encode()).is_ok_and(|again| again == token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_garbage_is_refused() {
        let token = Token::behind(&Key::new("/registry/pods/a/b"), "/registry/pods/", Revision(7), 3);
        assert_eq!(Token::decode(&token.encode()).expect("our own"), token);
        assert_eq!(token.start_after("/registry/pods/").as_str(), "/registry/pods/a/b");
        assert_eq!((token.revision(), token.left()), (Some(Revision(7)), Some(3)));
        let newest = token.at_newest();
        assert_eq!((newest.revision(), newest.left()), (None, None));
        for garbage in ["%", "abc", "e30"] {
            let text = Token::decode(garbage).expect_err("refused").to_string();
            assert!(text.starts_with("invalid continue token: "), "{text}");
        }
    }
}
