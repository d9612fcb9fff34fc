//! Continue tokens: the position in a list, and its revision.

use crate::ApiError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use berth_store::{Key, Revision};
use serde::{Deserialize, Serialize};

/// The content of a token. Opaque to clients.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// The revision of all pages. Absent: the newest, after the first one expired.
    #[serde(rename = "rv", skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    /// The last key of the previous page, without the collection's prefix.
    #[serde(rename = "after")]
    start_after: String,
    /// The number of keys after that key, so that the next page need not count them. A client that forges it only gets
    /// a wrong count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
}

impl Token {
    /// Returns a token for the keys after `last`. The collection's keys start with `prefix`, and `left` of them follow.
    pub(crate) fn behind(last: &Key, prefix: &str, revision: Revision, left: usize) -> Self {
        let start_after = last.as_str().strip_prefix(prefix).unwrap_or_default().to_owned();
        Self { revision: Some(revision.0), start_after, left: Some(left) }
    }

    /// Returns the key to start after.
    pub(crate) fn start_after(&self, prefix: &str) -> Key {
        Key::new(&format!("{prefix}{}", self.start_after))
    }

    /// Returns the number of keys after it.
    pub(crate) fn left(&self) -> Option<usize> {
        self.left
    }

    /// Returns the revision to read.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.revision.map(Revision)
    }

    /// Returns the same position at the newest revision.
    pub(crate) fn at_newest(self) -> Self {
        Self { revision: None, left: None, ..self }
    }

    /// Encodes the token for clients.
    pub(crate) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("text and a number"))
    }

    /// Decodes the result of [`Token::encode`].
    ///
    /// # Errors
    /// 400 for any other text.
    pub(crate) fn decode(text: &str) -> Result<Self, ApiError> {
        let bad = |why: String| ApiError::bad_request(format!("invalid continue token: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| bad(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
    }
}

/// For fuzz targets: whether the text is no token, or a token that survives encoding and decoding.
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
