//! Formats texts.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Returns a text of the cluster in one line of limited length. Misleading characters are shown by their code. The page
/// escapes markup itself.
#[must_use]
pub fn shown(text: &str) -> String {
    berth_chart::one_line(text, 600)
}

/// Returns the elapsed time, rounded so that the text changes rarely.
#[must_use]
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    match now.duration_since(then).as_secs().max(0) {
        seconds @ 0..10 => format!("{seconds}s"),
        seconds @ 10..120 => format!("{}s", seconds / 5 * 5),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `1 pod`, `3 pods`.
#[must_use]
pub fn counted(count: usize, one: &str, many: &str) -> String {
    let text = count.to_string();
    let grouped: String = text.chars().enumerate().fold(String::new(), |mut grouped, (index, digit)| {
        if 0 < index && (text.len() - index).is_multiple_of(3) && 4 < text.len() {
            grouped.push(',');
        }
        grouped.push(digit);
        grouped
    });
    format!("{grouped} {}", if count == 1 { one } else { many })
}

/// Formats the value: `1`, `25%`. A missing value is 0.
#[must_use]
pub fn number(value: Option<&IntOrString>) -> String {
    match value {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) => text.clone(),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_in_words() {
        let texts = [0, 1, 9999, 10_000, 1_234_567].map(|count| counted(count, "pod", "pods"));
        assert_eq!(texts, ["0 pods", "1 pod", "9999 pods", "10,000 pods", "1,234,567 pods"]);
    }
}
