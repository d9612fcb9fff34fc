//! A self-contained page: charts with a text below them.

use crate::{
    Chart,
    svg::{STYLE, svg},
    text::{escaped, one_line, printable},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use sha2::{Digest, Sha256};

const PAGE_STYLE: &str = "\
body{margin:2em auto;max-width:62em;padding:0 1em;font:15px system-ui,sans-serif;background:#fff;color:#1f2328}
h1{font-size:1.3em}.picture{overflow-x:auto}svg{min-width:640px;max-width:100%;height:auto}pre{overflow-x:auto;font-size:13px;line-height:1.45}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}
";
const TITLE_COLUMNS: usize = 200;

/// Returns the charts as a self-contained page, with a text below them.
///
/// Its policy permits no script, no other content, and only its two styles.
#[must_use]
pub fn html(title: &str, charts: &[Chart], text: &str) -> String {
    let hash = |style: &str| BASE64_STANDARD.encode(Sha256::digest(style));
    let (page, picture) = (hash(PAGE_STYLE), hash(STYLE));
    let title = escaped(&one_line(title, TITLE_COLUMNS));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
        <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{page}' 'sha256-{picture}'\">\n\
        <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
        <title>{title}</title>\n<style>{PAGE_STYLE}</style>\n<h1>{title}</h1>\n<div class=\"picture\">\n{}</div>\n<pre>{}</pre>\n</html>\n",
        svg(charts),
        escaped(&printable(text))
    )
}
