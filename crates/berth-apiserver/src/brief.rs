//! What anybody can make long or frequent is kept short where it is written down: texts are cut, lines are said once a second.

use serde_json::Value;
use std::{
    borrow::Cow,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Bytes that are kept of a text; as many as upstream keeps of a user agent in its audit log.
const TEXT_BYTES_MAX: usize = 1024;
/// Upstream's mark of a text that was cut.
const CUT: &str = "...TRUNCATED";
/// A line is not said again before so long.
const INTERVAL: Duration = Duration::from_secs(1);

/// A text that somebody sent, as it is written down.
///
/// Source: kubernetes `apiserver/pkg/audit/request.go`, `maybeTruncateUserAgent`.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}

/// Cuts every text in it.
pub(crate) fn cut_all(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if TEXT_BYTES_MAX < text.len() => *text = cut(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| *item = cut_all(item.take())),
        Value::Object(members) => members.values_mut().for_each(|member| *member = cut_all(member.take())),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
    value
}

/// A line of the log that anybody can cause as often as they like.
#[derive(Debug)]
pub(crate) struct Rare(Mutex<Said>);

#[derive(Debug)]
struct Said {
    last: Option<Instant>,
    left_out: u64,
}

impl Rare {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Said { last: None, left_out: 0 }))
    }

    /// Whether to say it now, and how often it was left out since it was said last. `None`: it was said just now.
    pub(crate) fn now(&self) -> Option<u64> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now < last + INTERVAL) {
            said.left_out += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.left_out))
    }
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
    fn a_line_is_said_once_a_second_with_the_count_of_what_was_left_out() {
        let (line, start) = (Rare::new(), Instant::now());
        let said: Vec<_> = (0..30).map(|tenth| line.at(start + tenth * INTERVAL / 10)).collect();
        let expected: Vec<_> = (0..30).map(|tenth| (tenth % 10 == 0).then_some(if tenth == 0 { 0 } else { 9 })).collect();
        assert_eq!(said, expected);
    }
}
