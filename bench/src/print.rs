//! Lines for people.

use std::io::Write;

/// Prints a line of the results, also where nothing reads on.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[expect(clippy::print_stderr, reason = "progress, apart from the results")]
pub(crate) fn eprint(line: &str) {
    eprintln!("{line}");
}
