//! Which pods of a surplus go first.

/// Reads a deletion cost. `None` if the text is no decimal 32-bit number in its canonical form (`-0` and `-08` are let through, as upstream does).
#[must_use]
pub fn deletion_cost(text: &str) -> Option<i32> {
    let canonical = text == "0" || text.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    if canonical { text.parse().ok() } else { None }
}
