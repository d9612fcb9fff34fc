//! Charts on the terminal and in files. `berth-chart` draws them.

use super::options::PictureFile;
use crate::progress;
use berth_chart::Chart;
use std::{env, fs, io, io::IsTerminal, path::PathBuf};

/// The width if the terminal's is unknown.
const COLUMNS: usize = 80;

/// A chart that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {} (--output-file)", path.display())]
pub(super) struct PictureError {
    path: PathBuf,
    source: io::Error,
}

/// Prints charts: as wide as the terminal, and in color unless `NO_COLOR` is set. Without a terminal, prints 80 columns without color.
pub(super) fn show(charts: &[Chart]) {
    let stdout = io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal());
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| 0 < *columns).unwrap_or(COLUMNS);
    let has_colours = size.is_some()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|term| term != "dumb");
    let lines = berth_chart::lines(charts, columns);
    let drawn = if has_colours { berth_chart::ansi(&lines) } else { berth_chart::plain(&lines) };
    progress::drawing(&format!("\n{drawn}"));
}

/// Writes a file, or overwrites it.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(file: &PictureFile, title: &str, charts: &[Chart], text: &str) -> Result<(), PictureError> {
    let (path, drawn) = match file {
        PictureFile::Svg(path) => (path, berth_chart::svg(charts)),
        PictureFile::Html(path) => (path, berth_chart::html(title, charts, text)),
    };
    fs::write(path, drawn).map_err(|source| PictureError { path: path.clone(), source })
}
