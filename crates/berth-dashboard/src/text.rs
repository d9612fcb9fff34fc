//! Texts of a cluster, as they may be shown.

/// In one line, of a length that fits. What could mislead a reader is shown by its code; markup is escaped where it is put into a page.
pub(crate) fn shown(text: &str) -> String {
    berth_chart::one_line(text, 600)
}
