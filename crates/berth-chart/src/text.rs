//! Makes untrusted texts safe to show.

use std::borrow::Cow;
use unicode_width::UnicodeWidthChar;

/// Whether a character could control a terminal, change the direction of adjacent text, or is invalid in XML.
fn is_harmful(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns the text made safe for a terminal or a reader. A text from an object must not move the cursor, change colors
/// or hide adjacent text.
///
/// Line ends and tabs remain. Other control characters, and those that change the direction of writing, are shown by
/// their code.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_shown_by_code = |char: char| is_harmful(char) && !matches!(char, '\n' | '\t');
    if !text.contains(is_shown_by_code) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_shown_by_code(char) { shown.extend(char.escape_unicode()) } else { shown.push(char) }
    }
    Cow::Owned(shown)
}

/// Returns the text in one line of at most this many terminal columns, truncated with `…`. Line ends and tabs become
/// blanks. Characters that [printable] shows by their code, and characters without a width, are shown by their code.
/// The cost depends on the columns, not on the length of the text.
#[must_use]
pub fn one_line(text: &str, columns: usize) -> String {
    let (mut shown, mut width, mut fits) = (String::new(), 0, 0);
    for char in text.chars() {
        let char = if matches!(char, '\n' | '\t') { ' ' } else { char };
        match char.width().filter(|width| 0 < *width && !is_harmful(char)) {
            Some(columns) => {
                shown.push(char);
                width += columns;
            }
            None => {
                let code = char.escape_unicode();
                width += code.len();
                shown.extend(code);
            }
        }
        if columns < width {
            shown.truncate(fits);
            shown.extend((0 < columns).then_some('…'));
            return shown;
        }
        if width < columns {
            fits = shown.len();
        }
    }
    shown
}

/// Returns the number of terminal columns of a text that [`one_line`] returned.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Escapes the text for XML and HTML, for use in an element or in quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_of_at_most_so_many_columns() {
        for (text, columns, shown) in [
            ("web", 3, "web"),
            ("web-1", 4, "web…"),
            ("web", 0, ""),
            ("", 5, ""),
            ("a\n\tb", 9, "a  b"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("\u{1b}[31m", 20, "\\u{1b}[31m"),
            ("\u{1b}[31m", 5, "…"),
            ("a\u{202e}b\u{2066}", 30, "a\\u{202e}b\\u{2066}"),
            ("e\u{301}\u{200b}", 30, "e\\u{301}\\u{200b}"),
            ("\u{ffff}\u{feff}\u{85}", 40, "\\u{ffff}\\u{feff}\\u{85}"),
        ] {
            assert_eq!(one_line(text, columns), shown, "{text:?} in {columns}");
        }
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("<script a='b' c=\"d\">&amp;"), "&lt;script a=&#39;b&#39; c=&quot;d&quot;&gt;&amp;amp;");
    }
}
