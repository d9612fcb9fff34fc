//! Tables with as many columns as the terminal has room for.

use berth_chart::{Ink, Line, Span, one_line, width};

/// A column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// The maximum width.
    pub(crate) most: usize,
    /// The column is omitted in a narrower terminal.
    pub(crate) from: usize,
}

/// The text of a cell, and its ink.
pub(crate) type Cell = (String, Ink);

/// Returns the lines of a table. The last column takes the remaining width.
pub(crate) fn lines(columns: &[Column], rows: &[Vec<Cell>], room: usize, has_titles: bool) -> Vec<Line> {
    let taken: Vec<usize> = (0..columns.len()).filter(|place| columns[*place].from <= room).collect();
    let widest = |place: usize| {
        let cells = rows.iter().map(|row| width(&one_line(&row[place].0, columns[place].most)));
        cells.chain(has_titles.then(|| width(columns[place].title))).max().unwrap_or(0)
    };
    let widths: Vec<usize> = taken.iter().map(|place| widest(*place)).collect();
    let line = |cells: Vec<Cell>| {
        let (mut line, mut left) = (Line::new(), room);
        for (index, ((text, ink), own)) in cells.into_iter().zip(&widths).enumerate() {
            let most = if index + 1 == taken.len() { left } else { (*own).min(left) };
            let text = one_line(&text, most);
            let gap = if index + 1 == taken.len() { 0 } else { (most - width(&text) + 2).min(left - width(&text)) };
            left -= width(&text) + gap;
            line.push(Span { text: text + &" ".repeat(gap), ink });
        }
        line
    };
    let titles = has_titles.then(|| line(taken.iter().map(|place| (columns[*place].title.to_owned(), Ink::Faint)).collect()));
    titles.into_iter().chain(rows.iter().map(|row| line(taken.iter().map(|place| row[*place].clone()).collect()))).collect()
}

/// Wraps a text to this many columns, at blanks if possible.
pub(crate) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(1);
    let mut lines = vec![String::new()];
    for word in one_line(text, 4000).split(' ').filter(|word| !word.is_empty()) {
        let last = lines.last_mut().expect("one at least");
        let gap = usize::from(!last.is_empty());
        if width(last) + gap + width(word) <= room {
            last.push_str(&" "[..gap]);
            last.push_str(word);
            continue;
        }
        if !last.is_empty() {
            lines.push(String::new());
        }
        for char in word.chars() {
            let last = lines.last_mut().expect("one at least");
            let own = width(char.encode_utf8(&mut [0; 4]));
            if room < width(last) + own && !last.is_empty() {
                lines.push(char.to_string());
            } else {
                last.push(char);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|span| span.text.as_str()).collect()).collect()
    }

    #[test]
    fn a_table_has_the_columns_that_there_is_room_for_and_is_never_wider() {
        let columns = [
            Column { title: "Pod", most: 8, from: 0 },
            Column { title: "Node", most: 9, from: 30 },
            Column { title: "Waits for", most: 99, from: 20 },
        ];
        let row = |name: &str| [name, "node-1", "its containers to be ready"].map(|text| (text.to_owned(), Ink::Plain)).to_vec();
        let rows = [row("web-1"), row("web-with-a-long-name")];
        assert_eq!(
            text(&lines(&columns, &rows, 40, true)),
            ["Pod       Node    Waits for", "web-1     node-1  its containers to be …", "web-wit…  node-1  its containers to be …"]
        );
        assert_eq!(text(&lines(&columns, &rows, 22, false)), ["web-1     its contain…", "web-wit…  its contain…"]);
        for room in 0..60 {
            assert!(text(&lines(&columns, &rows, room, true)).iter().all(|line| width(line) <= room), "{room}");
        }
    }

    #[test]
    fn a_text_is_broken_at_blanks_and_within_words_that_are_too_long() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a abcdefgh b", 4), ["a", "abcd", "efgh", "b"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("a\u{1b}b", 80), ["a\\u{1b}b"]);
    }
}
