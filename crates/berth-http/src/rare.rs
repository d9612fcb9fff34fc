//! A line of the log that a client can cause as often as it likes is written once a second.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A line is not written again before so long.
const INTERVAL: Duration = Duration::from_secs(1);

/// A line of the log that a client can cause as often as it likes.
#[derive(Debug, Default)]
pub struct Rare(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    last: Option<Instant>,
    left_out: u64,
}

impl Rare {
    /// A line that was never written.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Written { last: None, left_out: 0 }))
    }

    /// Returns how often the line was left out since it was written last, if it is to be written now.
    pub fn now(&self) -> Option<u64> {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Option<u64> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.last.is_some_and(|last| now < last + INTERVAL) {
            written.left_out += 1;
            return None;
        }
        written.last = Some(now);
        Some(std::mem::take(&mut written.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_a_second_with_the_count_of_what_was_left_out() {
        let (line, start) = (Rare::new(), Instant::now());
        let written: Vec<_> = (0..30).map(|tenth| line.at(start + tenth * INTERVAL / 10)).collect();
        let expected: Vec<_> = (0..30).map(|tenth| (tenth % 10 == 0).then_some(if tenth == 0 { 0 } else { 9 })).collect();
        assert_eq!(written, expected);
    }
}
