//! The indexes of an indexed Job as text: `1,3-5,7`.

/// Why a text is no list of indexes, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IndexesError {
    #[error("the fragment \"{0}\" violates the requirement that an index interval can have at most two parts separated by '-'")]
    Parts(String),
    #[error("cannot convert string to integer for index: \"{0}\"")]
    NoNumber(String),
    #[error("too large index: \"{0}\"")]
    TooLarge(String),
    #[error("non-increasing order, previous: {previous}, current: {current}")]
    Order { previous: i32, current: i32 },
}

/// Intervals of a text, both ends included, in increasing order.
///
/// # Errors
/// [`IndexesError`].
///
/// Source: upstream `validateIndexesFormat`.
pub(super) fn parse(text: &str, completions: i32) -> Result<Vec<(i32, i32)>, IndexesError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut last: Option<i32> = None;
    text.split(',').map(|fragment| interval(fragment, completions, &mut last)).collect()
}

/// How many indexes intervals have.
pub(super) fn count(intervals: &[(i32, i32)]) -> i32 {
    intervals.iter().map(|(first, last)| last - first + 1).sum()
}

/// The first index that both lists have.
pub(super) fn overlap(left: &[(i32, i32)], right: &[(i32, i32)]) -> Option<i32> {
    let (mut left, mut right) = (left, right);
    while let ([(a, b), left_rest @ ..], [(c, d), right_rest @ ..]) = (left, right) {
        if a.max(c) <= b.min(d) {
            return Some(*a.max(c));
        }
        if b < d { left = left_rest } else { right = right_rest }
    }
    None
}

fn interval(fragment: &str, completions: i32, last: &mut Option<i32>) -> Result<(i32, i32), IndexesError> {
    let limits: Vec<&str> = fragment.split('-').collect();
    let mut next = |limit: &str| index(limit, completions, last);
    match limits[..] {
        [one] => next(one).map(|index| (index, index)),
        [first, second] => Ok((next(first)?, next(second)?)),
        _ => Err(IndexesError::Parts(fragment.to_owned())),
    }
}

fn index(text: &str, completions: i32, last: &mut Option<i32>) -> Result<i32, IndexesError> {
    let index: i32 = text.parse().map_err(|_| IndexesError::NoNumber(text.to_owned()))?;
    if completions <= index {
        return Err(IndexesError::TooLarge(text.to_owned()));
    }
    if let Some(previous) = last.filter(|last| index <= *last) {
        return Err(IndexesError::Order { previous, current: index });
    }
    *last = Some(index);
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::{IndexesError, count, overlap, parse};

    #[test]
    fn indexes_are_intervals_in_increasing_order() {
        assert_eq!(parse("0,2-4,01", 9), Err(IndexesError::Order { previous: 4, current: 1 }));
        let parsed = parse("0,2-4,+7", 9).expect("indexes");
        assert_eq!((parsed.as_slice(), count(&parsed)), (&[(0, 0), (2, 4), (7, 7)][..], 5));
        assert_eq!(parse("", 0), Ok(Vec::new()));
        for (text, why) in [
            ("1-2-3", "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'"),
            ("x", "cannot convert string to integer for index: \"x\""),
            ("1,", "cannot convert string to integer for index: \"\""),
            ("-1", "cannot convert string to integer for index: \"\""),
            ("5", "too large index: \"5\""),
            ("1-9", "too large index: \"9\""),
            ("1,1", "non-increasing order, previous: 1, current: 1"),
            ("3-1", "non-increasing order, previous: 3, current: 1"),
        ] {
            assert_eq!(parse(text, 5).expect_err(text).to_string(), why);
        }
    }

    #[test]
    fn the_first_common_index_is_found() {
        let first = |left: &str, right: &str| overlap(&parse(left, 99).expect("indexes"), &parse(right, 99).expect("indexes"));
        assert_eq!(first("0-2", "2-3"), Some(2));
        assert_eq!(first("0,2", "1,3"), None);
        assert_eq!(first("0-9", "3-4"), Some(3));
        assert_eq!(first("", "3-4"), None);
    }
}
