//! The indexes of an indexed Job as text: `1,3-5,7`.

/// Intervals of a text, both ends included, in increasing order.
///
/// # Errors
/// Why the text has none, in upstream's words.
///
/// Source: upstream `validateIndexesFormat`.
pub(super) fn parse(text: &str, completions: i32) -> Result<Vec<(i32, i32)>, String> {
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

fn interval(fragment: &str, completions: i32, last: &mut Option<i32>) -> Result<(i32, i32), String> {
    let limits: Vec<&str> = fragment.split('-').collect();
    let mut next = |limit: &str| index(limit, completions, last);
    match limits[..] {
        [one] => next(one).map(|index| (index, index)),
        [first, second] => Ok((next(first)?, next(second)?)),
        _ => Err(format!(
            "the fragment \"{fragment}\" violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

fn index(text: &str, completions: i32, last: &mut Option<i32>) -> Result<i32, String> {
    let index: i32 = text.parse().map_err(|_| format!("cannot convert string to integer for index: \"{text}\""))?;
    if completions <= index {
        return Err(format!("too large index: \"{text}\""));
    }
    if let Some(previous) = last.filter(|last| index <= *last) {
        return Err(format!("non-increasing order, previous: {previous}, current: {index}"));
    }
    *last = Some(index);
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::{count, overlap, parse};

    #[test]
    fn indexes_are_intervals_in_increasing_order() {
        assert_eq!(parse("0,2-4,01", 9).map_err(|why| why.contains("previous: 4, current: 1")), Err(true));
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
            assert_eq!(parse(text, 5), Err(why.to_owned()), "{text}");
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
