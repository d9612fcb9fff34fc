//! The steps of a progressive rollout, as the annotation [`crate::annotations::BERTH_STEPS`] has them: `10%, 5m, 50%, pause, 100%`.
//!
//! ```text
//! steps    = item *( "," item )            spaces around items do not count
//! item     = percent / duration / "pause" / "analysis"
//! percent  = 1*3DIGIT "%"                  1 to 100, each more than the one before; the first item is one, the last is 100%
//! duration = [ 1*DIGIT "h" ] [ 1*DIGIT "m" ] [ 1*DIGIT "s" ]   at least one of them, 1 s to 30 days together
//! ```

use std::fmt;

/// The maximum number of items.
const ITEMS_MAX: usize = 64;
/// The longest wait, in seconds.
const SECONDS_MAX: u32 = 30 * 24 * 3600;

/// One item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This percentage of pods must have the new template.
    Percent(u8),
    /// This state must last for so many seconds.
    Seconds(u32),
    /// This state lasts until a user promotes the rollout.
    Pause,
    /// This state lasts until an analysis has passed. See [`super::analysis`].
    Analysis,
}

/// A syntax error in steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepsError {
    /// The position of the first wrong character, from 1.
    pub position: usize,
    /// The error.
    pub fault: String,
}

impl fmt::Display for StepsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.position, self.fault)
    }
}

impl std::error::Error for StepsError {}

/// Parses steps: at least one, from a percentage to `100%`.
///
/// # Errors
/// The first syntax error.
pub fn parse(text: &str) -> Result<Vec<Step>, StepsError> {
    let mut steps = Vec::new();
    let mut highest = 0;
    let mut begins = 1;
    for item in text.split(',') {
        let position = begins + item.chars().take_while(|char| char.is_whitespace()).count();
        begins += item.chars().count() + 1;
        let item = item.trim();
        let fault = |fault: String| Err(StepsError { position, fault });
        let Some(step) = step(item) else {
            return fault(format!(
                "{item:?} is neither a percentage from 1% to 100%, nor a time up to 30 days (30s, 5m, 1h30m), nor pause, nor analysis"
            ));
        };
        match step {
            Step::Percent(percent) if percent <= highest => return fault(format!("{percent}% is not more than {highest}%")),
            Step::Percent(percent) => highest = percent,
            Step::Seconds(_) | Step::Pause | Step::Analysis if highest == 0 => {
                return fault("the first step must be a percentage".to_owned());
            }
            Step::Seconds(_) | Step::Pause | Step::Analysis if highest == 100 => return fault("nothing follows 100%".to_owned()),
            Step::Seconds(_) | Step::Pause | Step::Analysis => (),
        }
        if steps.len() == ITEMS_MAX {
            return fault(format!("there are more than {ITEMS_MAX} steps"));
        }
        steps.push(step);
    }
    if highest == 100 { Ok(steps) } else { Err(StepsError { position: begins - 1, fault: "the last step must be 100%".to_owned() }) }
}

fn step(item: &str) -> Option<Step> {
    match item {
        "pause" => return Some(Step::Pause),
        "analysis" => return Some(Step::Analysis),
        _ => (),
    }
    match item.strip_suffix('%') {
        Some(percent) => {
            number(percent).and_then(|percent| u8::try_from(percent).ok()).filter(|percent| (1..=100).contains(percent)).map(Step::Percent)
        }
        None => seconds(item).filter(|seconds| (1..=SECONDS_MAX).contains(seconds)).map(Step::Seconds),
    }
}

fn seconds(item: &str) -> Option<u32> {
    let (mut rest, mut total) = (item, 0_u32);
    for (unit, seconds) in [('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((amount, after)) = rest.split_once(unit) {
            total = total.checked_add(number(amount)?.checked_mul(seconds)?)?;
            rest = after;
        }
    }
    rest.is_empty().then_some(total)
}

fn number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the number of pods for a percentage, rounded up, so that it is at least one.
#[must_use]
pub fn pods(percent: u8, replicas: i64) -> i64 {
    (replicas * i64::from(percent) + 99) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        use Step::{Analysis, Pause, Percent, Seconds};
        let check = |text: &str, wanted: &[Step]| assert_eq!(parse(text).as_deref(), Ok(wanted), "{text}");
        check("10%, 5m, 50%, pause, 100%", &[Percent(10), Seconds(300), Percent(50), Pause, Percent(100)]);
        check(" 1% ,1h2m3s,90s,pause,2%,100%", &[Percent(1), Seconds(3723), Seconds(90), Pause, Percent(2), Percent(100)]);
        check("100%", &[Percent(100)]);
        check("5%,analysis, 1m,analysis,100%", &[Percent(5), Analysis, Seconds(60), Analysis, Percent(100)]);
    }

    #[test]
    fn faults_are_returned_with_their_position() {
        let check = |text: &str, position: usize, part: &str| {
            let error = parse(text).expect_err(text);
            assert!(error.position == position && error.fault.contains(part), "{text}: {error}");
        };
        check("", 1, "\"\" is neither");
        check("10%, , 100%", 6, "\"\" is neither");
        check("10%, 5 m, 100%", 6, "\"5 m\" is neither");
        for bad in ["0%", "101%", "+5%", "1.5%", "%", "10 %", "5", "5ms", "m", "1s1m", "0s", "31d", "721h", "Pause", "99999999999h"] {
            check(&format!("1%, {bad}, 100%"), 5, "is neither");
        }
        check("50%, 10%, 100%", 6, "10% is not more than 50%");
        check("50%, 50%", 6, "50% is not more than 50%");
        check("5m, 100%", 1, "the first step must be a percentage");
        check("100%, pause", 7, "nothing follows 100%");
        check("é, 100%", 1, "is neither");
        check("10%, é, 5%", 6, "is neither");
        check("10%, 5m", 8, "the last step must be 100%");
        check(&format!("1%, {} 100%", "1s, ".repeat(64)), 5 + 4 * 63, "more than 64 steps");
    }

    #[test]
    fn shares_are_rounded_up() {
        assert_eq!([pods(10, 10), pods(10, 11), pods(1, 3), pods(100, 7), pods(50, 0)], [1, 2, 1, 7, 0]);
    }
}
