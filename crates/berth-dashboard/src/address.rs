//! The URL of a workload's page.

use berth_workloads::workload::WorkloadId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// The characters that need no escape in a path or in the value of a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the path of a workload's page.
pub(crate) fn path(id: &WorkloadId) -> String {
    format!("/ns/{}/{}/{}", plain(&id.namespace), id.kind.resource().plural, plain(&id.name))
}

/// Escapes a text for a path or for the value of a query.
pub(crate) fn plain(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Prefixes the links of a page, or of a part, with `base`. Texts of the cluster have escaped quotation marks, so each
/// match is markup of the dashboard.
pub(crate) fn below<'a>(base: &str, html: &'a str) -> Cow<'a, str> {
    if base.is_empty() {
        return Cow::Borrowed(html);
    }
    let links = ["href", "src", "action"];
    let led = links.iter().fold(html.to_owned(), |html, link| html.replace(&format!(" {link}=\"/"), &format!(" {link}=\"{base}/")));
    Cow::Owned(led)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_below_the_path_of_a_session() {
        let html =
            r##"<a href="/nodes">a</a><form action="/"><script src="/live.js"></script><a href="#main">href=&quot;/</a><i title="/x">"##;
        let led = r##"<a href="/~b/nodes">a</a><form action="/~b/"><script src="/~b/live.js"></script><a href="#main">href=&quot;/</a><i title="/x">"##;
        assert_eq!(below("/~b", html), led);
        assert_eq!(below("", html), html);
    }
}
