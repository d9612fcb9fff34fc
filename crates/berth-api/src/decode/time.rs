//! The formats of times from clients and in the store.

use k8s_openapi::jiff::Timestamp;

/// Returns the format of an API type's times, or `None` for other types.
///
/// Decoding drops finer fractions, not only encoding. Otherwise an object would differ from its stored form, and each
/// repeated write of a client would be a change.
pub(super) fn form_of(type_name: &str) -> Option<&'static str> {
    match type_name {
        "Time" => Some("%Y-%m-%dT%H:%M:%SZ"),
        "MicroTime" => Some("%Y-%m-%dT%H:%M:%S.%6fZ"),
        _ => None,
    }
}

/// Returns the time in UTC, in `form`. `None` for a text that is not a time of RFC 3339 in the years 0 to 9999, because
/// others could not be decoded again. A form with microseconds requires exactly six digits, as upstream.
pub(super) fn canonical(text: &str, form: &str) -> Option<String> {
    let time: Timestamp = Some(text).filter(|text| is_rfc_3339(text))?.parse().ok()?;
    if form.contains("%6f") && fraction_digits(text) != MICROSECOND_DIGITS {
        return None;
    }
    Some(time.strftime(form).to_string()).filter(|text| is_rfc_3339(text))
}

const MICROSECOND_DIGITS: usize = 6;

fn fraction_digits(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, fraction)| fraction.bytes().take_while(u8::is_ascii_digit).count())
}

/// Whether the text has the form `2026-01-02T03:04:05`, an optional fraction, and `Z` or `+01:00`.
fn is_rfc_3339(text: &str) -> bool {
    const DATE_TIME: &[u8] = b"0000-00-00T00:00:00";
    const OFFSET: &[u8] = b"00:00";
    let fits = |found: &[u8], form: &[u8]| {
        found.len() == form.len()
            && found.iter().zip(form).all(|(c, wanted)| if *wanted == b'0' { c.is_ascii_digit() } else { c == wanted })
    };
    let Some((date_time, rest)) = text.as_bytes().split_at_checked(DATE_TIME.len()) else { return false };
    let rest = match rest.strip_prefix(b".") {
        None => rest,
        Some(fraction) => match fraction.iter().position(|c| !c.is_ascii_digit()) {
            Some(digits @ 1..) => &fraction[digits..],
            _ => return false,
        },
    };
    let is_offset = rest == b"Z" || rest.strip_prefix(b"+").or(rest.strip_prefix(b"-")).is_some_and(|offset| fits(offset, OFFSET));
    fits(date_time, DATE_TIME) && is_offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(type_name: &str, text: &str, wanted: Option<&str>) {
        let form = form_of(type_name).expect("a time");
        assert_eq!(canonical(text, form).as_deref(), wanted, "{text}");
    }

    #[test]
    fn times_are_kept_as_they_will_be_written() {
        check("Time", "2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z"));
        check("Time", "2026-01-02T03:04:05.999Z", Some("2026-01-02T03:04:05Z"));
        check("Time", "2026-01-02T03:04:05+01:30", Some("2026-01-02T01:34:05Z"));
        check("MicroTime", "2026-01-02T03:04:05.123456-00:01", Some("2026-01-02T03:05:05.123456Z"));
        for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123456789Z"] {
            check("MicroTime", text, None);
        }
        assert_eq!(form_of("RawExtension"), None);
    }

    #[test]
    fn other_forms_of_a_time_are_refused() {
        for text in [
            "",
            "now",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02t03:04:05z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05,5Z",
            "2026-01-02T03:04:05+0100",
            "2026-01-02T03:04:05Z[UTC]",
            "-002026-01-02T03:04:05Z",
            "+002026-01-02T03:04:05Z",
            "2026-13-02T03:04:05Z",
            // Before the year 0, in UTC.
            "0000-01-01T00:00:00+23:59",
        ] {
            check("Time", text, None);
        }
    }
}
