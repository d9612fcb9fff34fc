//! Durations on the command line.

use std::time::Duration;

/// Parses a duration such as `250ms`, `2s` or `1m30s`.
///
/// # Errors
/// The text is not a duration. The message shows valid ones.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| format!("{text:?} is not a duration, such as 250ms, 2s or 1m30s"))?;
    Duration::try_from(parsed).map_err(|_| format!("{text:?} is negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("-1s").is_err());
        assert!(duration("soon").is_err());
    }
}
