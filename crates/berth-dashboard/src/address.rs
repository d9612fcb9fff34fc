//! Where a workload has its page.

use crate::id::Id;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a path, or the value of a query, may have as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A workload's page.
pub(crate) fn path(id: &Id) -> String {
    format!("/ns/{}/{}/{}", plain(&id.namespace), id.kind.resource().plural, plain(&id.name))
}

/// A text as it may stand in a path or in the value of a query.
pub(crate) fn plain(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}
