//! How results are printed: tables for users, JSON and YAML for programs.

use super::{error::Error, options::ObjectOutput, target::Found};
use crate::progress::{line, printable};
use serde::Serialize;
use serde_json::Value;
use std::{borrow::Cow, fmt::Write};

/// Formats columns as wide as their widest cell, with three spaces between them.
pub(super) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let lines: Vec<_> = std::iter::once(&header).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let text = |cells: &[String; N]| {
        let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("   ").trim_end().to_owned()
    };
    lines.into_iter().map(text).collect::<Vec<_>>().join("\n")
}

/// Prints what was done to a workload, or the changed workload.
///
/// # Errors
/// The workload cannot be written as YAML.
pub(super) fn changed(output: Option<ObjectOutput>, workload: &Found, mut object: Value, done: &str) -> Result<(), Error> {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    match output {
        None => line(&format!("{} {done}", workload.title())),
        Some(ObjectOutput::Name) => line(&workload.title()),
        Some(ObjectOutput::Json) => line(&serde_json::to_string_pretty(&object).expect("JSON has string keys only")),
        Some(ObjectOutput::Yaml) => line(&yaml(&object)?),
    }
    Ok(())
}

/// One line of JSON. Characters that a terminal must not receive are escaped, so that a program reads the unchanged text.
pub(super) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("what is printed has string keys only");
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match printable(char.encode_utf8(&mut [0; 4])) {
            Cow::Borrowed(_) => line.push(char),
            // All of them have four digits.
            Cow::Owned(_) => write!(line, "\\u{:04x}", u32::from(char)).expect("a String takes whatever is written"),
        }
    }
    line
}

/// YAML without a newline at its end.
///
/// # Errors
/// The value cannot be written as YAML.
pub(super) fn yaml(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_saphyr::to_string(value).map_err(|error| Error::Print(std::io::Error::other(error)))?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_objects_are_neither_harmful_nor_lost_in_json() {
        let said = "a\u{1b}[2J\u{9b}\u{202e}\u{7f}é\n";
        let line = json(&said);
        assert!(matches!(printable(&line), Cow::Borrowed(_)) && !line.contains('\n'), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).expect("JSON"), said);
    }
}
