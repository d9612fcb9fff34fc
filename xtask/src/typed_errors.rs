//! Libraries have error types, so that no caller decides by a text. Binaries print what they get.

use std::collections::BTreeMap;

/// The places in libraries where a `Result` has a `String` as its error: paths from the root, and texts.
pub(crate) fn faults(files: &BTreeMap<String, String>) -> Vec<String> {
    let is_library = |path: &str| {
        let is_test = path.contains("/tests") || path.starts_with("crates/berth/");
        path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs") && !is_test
    };
    let places = files.iter().filter(|(path, _)| is_library(path)).flat_map(|(path, text)| {
        let tests = text.find("mod tests {").unwrap_or(text.len());
        let text = &text[..tests];
        text_errors(text).map(move |at| format!("{path}:{}: the error is a String; give it a type", text[..at].lines().count().max(1)))
    });
    places.collect()
}

/// Where in a text a `Result` has a `String` as its error.
fn text_errors(text: &str) -> impl Iterator<Item = usize> {
    let ends_with_text = |begin: usize| {
        let mut depth = 0_usize;
        let mut last = None;
        for (at, letter) in text[begin..].char_indices() {
            match letter {
                '<' | '(' | '[' => depth += 1,
                ',' if depth == 0 => last = Some(begin + at + 1),
                '>' if text[begin..begin + at].ends_with('-') => (),
                '>' | ')' | ']' if depth == 0 => return last.is_some_and(|last| text[last..begin + at].trim() == "String"),
                '>' | ')' | ']' => depth -= 1,
                _ => (),
            }
        }
        false
    };
    text.match_indices("Result<").filter(move |(at, name)| ends_with_text(at + name.len())).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        faults(&BTreeMap::from([(path.to_owned(), text.to_owned())]))
    }

    #[test]
    fn an_error_of_a_library_has_a_type() {
        let fault = |line: usize| vec![format!("crates/berth-api/src/a.rs:{line}: the error is a String; give it a type")];
        let path = "crates/berth-api/src/a.rs";
        assert_eq!(found(path, "fn a() {}\nfn b() -> Result<(), String> {\n"), fault(2));
        assert_eq!(found(path, "fn a(of: impl Fn(&str) -> u8) -> Result<Map<A, B>, String>;"), fault(1));
        for fine in
            ["Result<String, Error>", "Result<Map<A, String>>", "Result<(), Box<Map<A, String>>>", "mod tests {\nResult<(), String>"]
        {
            assert_eq!(found(path, fine), Vec::<String>::new(), "{fine}");
        }
        for elsewhere in ["crates/berth/src/a.rs", "xtask/src/a.rs", "crates/berth-api/tests/it/a.rs", "crates/berth-api/src/a.md"] {
            assert_eq!(found(elsewhere, "Result<(), String>"), Vec::<String>::new(), "{elsewhere}");
        }
    }
}
