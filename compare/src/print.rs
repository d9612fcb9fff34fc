//! Lines for people.

use std::io::Write;

/// Prints a line, also where nothing reads on.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
