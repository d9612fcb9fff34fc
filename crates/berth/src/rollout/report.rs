//! How results are printed: tables for people, JSON and YAML for programs.

use super::error::Error;
use serde::Serialize;

/// Columns as wide as their widest cell, three blanks between them.
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

/// One line.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is printed has string keys only")
}

/// YAML without a newline at its end.
///
/// # Errors
/// The value cannot be written as YAML.
pub(super) fn yaml(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_saphyr::to_string(value).map_err(|error| Error::Print(std::io::Error::other(error)))?;
    Ok(text.trim_end().to_owned())
}
