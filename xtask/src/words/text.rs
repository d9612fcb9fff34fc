//! Splits Rust sources into names and comments, and Markdown into prose.
//!
//! A small lexer. It recognizes Rust's strings, characters, comments, numbers, names, and the names that keywords define. The compiler
//! checks the rest.

use std::ops::Range;

/// Keywords before a name that they define.
const DEFINE_TYPES: &[&str] = &["struct", "enum", "union", "trait"];
const DEFINE_OTHERS: &[&str] = &["fn", "mod", "type", "const", "static", "macro_rules"];

/// An identifier where a Rust source defines it: a type, a function, a module, a constant, a field or a case of an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'t> {
    pub(crate) text: &'t str,
    pub(crate) line: usize,
    /// Whether it is a struct, an enum, a union or a trait.
    pub(crate) is_type: bool,
}

/// A word of prose, or a part of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'t> {
    pub(crate) text: &'t str,
    pub(crate) line: usize,
    /// Whether only spaces, a line break or a hyphen separate it from the previous word.
    pub(crate) follows: bool,
}

/// The names that a Rust source defines, and its prose. String literals are in neither.
pub(crate) fn rust(source: &str) -> (Vec<Name<'_>>, Vec<Word<'_>>) {
    let mut lexer = Lexer { source, line: 1, ..Lexer::default() };
    while lexer.at < source.len() {
        lexer.step();
    }
    (lexer.names, prose(&lexer.comments))
}

/// Where the string literals of a Rust source are, from the opening quote to the closing one.
pub(crate) fn strings(source: &str) -> Vec<Range<usize>> {
    let mut lexer = Lexer { source, line: 1, ..Lexer::default() };
    while lexer.at < source.len() {
        lexer.step();
    }
    lexer.strings
}

/// The prose of a Markdown document.
pub(crate) fn markdown(text: &str) -> Vec<Word<'_>> {
    let lines: Vec<_> = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
    prose(&lines)
}

/// The words of an identifier: `leaseHolder`, `LeaseHolder`, `lease_holder` and `lease-holder` have two.
pub(crate) fn parts(name: &str, line: usize) -> Vec<Word<'_>> {
    let letters: Vec<(usize, char)> = name.char_indices().collect();
    let mut words = Vec::new();
    let mut from = None;
    for (index, &(at, letter)) in letters.iter().enumerate() {
        let is_letter = letter.is_alphanumeric();
        let previous = index.checked_sub(1).map(|before| letters[before].1);
        let is_followed_by_lower = letters.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
        let begins = letter.is_uppercase() && previous.is_some_and(|previous| !previous.is_uppercase() || is_followed_by_lower);
        if (begins || !is_letter)
            && let Some(from) = from.take()
        {
            words.push(&name[from..at]);
        }
        if is_letter {
            from.get_or_insert(at);
        }
    }
    words.extend(from.map(|from| &name[from..]));
    words.iter().enumerate().map(|(index, text)| Word { text, line, follows: 0 < index }).collect()
}

#[derive(Default)]
struct Lexer<'t> {
    source: &'t str,
    at: usize,
    /// The line of `at`, from 1.
    line: usize,
    /// The last keyword or name, unless something other than a space or a comment came after it.
    previous: &'t str,
    /// The last punctuation mark.
    mark: u8,
    /// How many brackets of any form are open.
    depth: usize,
    /// The keyword of a type whose body has not begun.
    begun: &'t str,
    /// The keyword of the type whose body this is, and the depth within its brace.
    body: Option<(&'t str, usize)>,
    names: Vec<Name<'t>>,
    /// The lines of all comments, without the slashes. An empty line separates comments that do not continue each other.
    comments: Vec<(usize, &'t str)>,
    strings: Vec<Range<usize>>,
}

impl<'t> Lexer<'t> {
    /// Skips one token, comment or space.
    fn step(&mut self) {
        let rest = &self.source[self.at..];
        match rest.as_bytes()[0] {
            b' ' => self.at += 1,
            b'\n' => self.pass(1),
            b'/' if rest.starts_with("//") => self.line_comment(rest),
            b'/' if rest.starts_with("/*") => self.block_comment(rest),
            b'"' => self.string(0, string_end(rest)),
            b'\'' => self.pass(quote_end(rest)),
            b'0'..=b'9' => self.at += name_end(rest),
            byte => match name_end(rest) {
                0 => self.punctuation(byte, rest.chars().next().map_or(1, char::len_utf8)),
                end => self.name(rest, end),
            },
        }
    }

    fn punctuation(&mut self, byte: u8, length: usize) {
        match byte {
            b'{' | b'(' | b'[' => self.depth += 1,
            b'}' | b')' | b']' => {
                self.body = self.body.filter(|(_, depth)| *depth < self.depth || byte != b'}');
                self.depth = self.depth.saturating_sub(1);
            }
            b';' => self.begun = "",
            _ => (),
        }
        if byte == b'{' && !self.begun.is_empty() {
            self.body = Some((std::mem::take(&mut self.begun), self.depth));
        }
        // `macro_rules!` keeps its keyword.
        if byte != b'!' {
            self.previous = "";
        }
        self.mark = byte;
        self.at += length;
    }

    /// Skips a string literal with its prefix.
    fn string(&mut self, before: usize, length: usize) {
        let from = self.at + before;
        self.strings.push(from..from + length);
        self.pass(before + length);
    }

    /// Skips text that may contain line breaks.
    fn pass(&mut self, length: usize) {
        self.line += self.source[self.at..self.at + length].matches('\n').count();
        self.at += length;
    }

    fn name(&mut self, rest: &'t str, end: usize) {
        let (name, after) = rest.split_at(end);
        let hashes = after.len() - after.trim_start_matches('#').len();
        match name {
            "r" | "br" | "cr" if after[hashes..].starts_with('"') => self.string(end + hashes, raw_string_end(&after[hashes..], hashes)),
            "b" if after.starts_with('\'') => self.pass(end + quote_end(after)),
            // The name of a raw identifier follows.
            "r" if hashes == 1 => self.at += end + 1,
            _ => {
                let is_type = DEFINE_TYPES.contains(&self.previous);
                let is_field = self.body.is_some() && after.trim_start().starts_with(':') && !after.trim_start().starts_with("::");
                let is_case =
                    self.body == Some(("enum", self.depth)) && self.previous.is_empty() && matches!(self.mark, b'{' | b',' | b']');
                if is_type || is_field || is_case || DEFINE_OTHERS.contains(&self.previous) {
                    self.names.push(Name { text: name, line: self.line, is_type });
                }
                if is_type && self.previous != "trait" {
                    self.begun = self.previous;
                }
                self.previous = name;
                self.at += end;
            }
        }
    }

    fn line_comment(&mut self, rest: &'t str) {
        let comment = rest.split('\n').next().unwrap_or_default();
        self.comment(comment.trim_start_matches(['/', '!']), self.line);
        self.at += comment.len();
    }

    fn block_comment(&mut self, rest: &'t str) {
        let mut depth = 0;
        let mut end = 0;
        while end < rest.len() {
            let here = &rest.as_bytes()[end..];
            let is_mark = here.starts_with(b"/*") || here.starts_with(b"*/");
            depth += i32::from(here.starts_with(b"/*")) - i32::from(here.starts_with(b"*/"));
            end += if is_mark { 2 } else { 1 };
            if depth == 0 {
                break;
            }
        }
        for (index, line) in rest[..end].lines().enumerate() {
            self.comment(line, self.line + index);
        }
        self.pass(end);
    }

    fn comment(&mut self, text: &'t str, line: usize) {
        if self.comments.last().is_some_and(|(last, _)| last + 1 < line) {
            self.comments.push((line, ""));
        }
        self.comments.push((line, text));
    }
}

fn is_name(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

/// The length of the name that `text` begins with. A loop over bytes: in a build without optimization, iterators take several times as long.
fn name_end(text: &str) -> usize {
    let mut end = 0;
    while let Some(byte) = text.as_bytes().get(end) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'0'..=b'9' => end += 1,
            0..=0x7F => break,
            _ => match text[end..].chars().next() {
                Some(letter) if is_name(letter) => end += letter.len_utf8(),
                _ => break,
            },
        }
    }
    end
}

/// `text` begins with the opening quote.
fn string_end(text: &str) -> usize {
    let mut end = 1;
    while let Some(byte) = text.as_bytes().get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    text.len()
}

/// `text` begins with the opening quote.
fn raw_string_end(text: &str, hashes: usize) -> usize {
    let close = format!("\"{}", "#".repeat(hashes));
    text[1..].find(&close).map_or(text.len(), |end| 1 + end + close.len())
}

/// The end of a character literal, or of a lifetime. `text` begins with the quote.
fn quote_end(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        // The escaped character may be a quote.
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            text[after..].find('\'').map_or(text.len(), |end| after + end + 1)
        }
        (Some(_), Some((close, '\''))) => close + 1,
        _ => 1 + name_end(&text[1..]),
    }
}

/// The words of lines of prose, without fenced code, inline code and addresses.
fn prose<'t>(lines: &[(usize, &'t str)]) -> Vec<Word<'t>> {
    let mut words = Vec::new();
    let mut fence = None;
    // The backticks that opened the inline code: it may continue on the next line of the paragraph.
    let mut open = 0;
    let mut follows = false;
    for &(number, line) in lines {
        let trimmed = line.trim_start();
        let marks = ["```", "~~~"].into_iter().find(|marks| trimmed.starts_with(marks));
        if marks.is_some() && (fence.is_none() || fence == marks) {
            fence = if fence.is_some() { None } else { marks };
            continue;
        }
        if fence.is_some() || trimmed.is_empty() {
            (open, follows) = (0, false);
            continue;
        }
        for range in text_ranges(line, &mut open) {
            // Code between two words separates them.
            follows &= range.start == 0;
            push_words(line, range, number, &mut follows, &mut words);
        }
    }
    words
}

/// The parts of a line that are neither inline code nor the destination of a link.
fn text_ranges(line: &str, open: &mut usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(byte) = line.as_bytes().get(at) {
        let rest = || &line[at..];
        let length = match byte {
            b'`' => rest().len() - rest().trim_start_matches('`').len(),
            b']' if *open == 0 && rest().starts_with("](") => rest().find(')').unwrap_or(rest().len()),
            b'h' if *open == 0 && (rest().starts_with("http://") || rest().starts_with("https://")) => {
                rest().find([' ', ')', '>']).unwrap_or(rest().len())
            }
            _ => {
                at += 1;
                continue;
            }
        };
        if *open == 0 {
            ranges.push(from..at);
        }
        if *byte == b'`' {
            *open = match *open {
                0 => length,
                open if open == length => 0,
                open => open,
            };
        }
        at += length;
        from = at;
    }
    if *open == 0 {
        ranges.push(from..line.len());
    }
    ranges
}

fn push_words<'t>(line: &'t str, range: Range<usize>, number: usize, follows: &mut bool, words: &mut Vec<Word<'t>>) {
    let mut rest = &line[range];
    while !rest.is_empty() {
        let end = name_end(rest);
        if 0 < end {
            words.push(Word { text: &rest[..end], line: number, follows: *follows });
            *follows = true;
            rest = &rest[end..];
        } else {
            let mut letters = rest.chars();
            *follows &= matches!(letters.next(), Some(' ' | '-'));
            rest = letters.as_str();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<&str> {
        rust(source).0.iter().map(|name| name.text).collect()
    }

    fn comments(source: &str) -> Vec<(usize, &str)> {
        rust(source).1.iter().map(|word| (word.line, word.text)).collect()
    }

    #[test]
    fn what_a_source_defines_is_a_name_and_what_it_uses_is_not() {
        let source =
            "use a::B;\nstruct C<D: E>(F);\nstruct G { h: I, pub(crate) j: k::L }\nfn m(n: O) -> P { let q: R = S { t: u }; v::<W>(q) }";
        assert_eq!(names(source), ["C", "G", "h", "j", "m"]);
        let source = "pub enum A { #[b] C, D(E), F { g: H }, I = 1 }\ntrait J { type K; const L: M; }\nmod n;\nmacro_rules! o { () => {} }";
        assert_eq!(names(source), ["A", "C", "D", "F", "g", "I", "J", "K", "L", "n", "o"]);
        assert_eq!(names("struct A { b: fn(C) -> [D; 2] }\nimpl A { fn e(f: G) { H { i: j } } }"), ["A", "b", "e"]);
        assert_eq!(names("struct r#type { r#struct: é, é: u8 }"), ["type", "struct", "é"]);
    }

    #[test]
    fn strings_characters_and_numbers_hold_no_names() {
        assert_eq!(names(r#"("fn a \" fn b", 'c', '\'', '\u{61}', b'"', b"fn d", 1usize) fn e"#), ["e"]);
        assert_eq!(names("r\"fn a\\\", r#\"fn b \" fn c\"#, br##\"fn d\"# fn e\"##, cr\"fn f\"; fn g"), ["g"]);
        assert_eq!(names("&'static str; fn f<'a>"), ["f"]);
    }

    #[test]
    fn string_literals_are_found_in_each_form() {
        let source = "f(\"a\\\" b\", 'c', r#\"d \" e\"#, b\"f\") // \"g\"";
        let found: Vec<&str> = strings(source).into_iter().map(|range| &source[range]).collect();
        assert_eq!(found, ["\"a\\\" b\"", "\"d \" e\"#", "\"f\""]);
    }

    #[test]
    fn names_have_their_lines_and_whether_they_are_types() {
        let (names, _) = rust("\"\n\" /*\n*/ enum State {}\ntype State = ();");
        let states: Vec<_> = names.iter().map(|name| (name.text, name.line, name.is_type)).collect();
        assert_eq!(states, [("State", 3, true), ("State", 4, false)]);
    }

    #[test]
    fn comments_of_every_form_are_prose_with_their_lines() {
        let source = "//! One\n/// two `code` \"three\"\nfn f() { g(\"// four\") } // five\n/* six /* seven */\n * eight */ fn h() {}";
        let expected = [(1, "One"), (2, "two"), (2, "three"), (3, "five"), (4, "six"), (4, "seven"), (5, "eight")];
        assert_eq!(comments(source), expected);
        assert_eq!(comments("/// a\n/// ```text\n/// b\n/// ```\n/// c"), [(1, "a"), (5, "c")]);
    }

    #[test]
    fn words_follow_each_other_across_lines_of_one_comment_only() {
        let follows = |source| rust(source).1.iter().map(|word| word.follows).collect::<Vec<_>>();
        assert_eq!(follows("// look\n    // again"), [false, true]);
        assert_eq!(follows("// look\nfn f() {}\n// again"), [false, false]);
        assert_eq!(follows("// look\n//\n// again"), [false, false]);
        assert_eq!(follows("// look. again look `a` again look-again"), [false, false, true, false, true, true]);
    }

    #[test]
    fn documents_are_prose_without_code_and_addresses() {
        let text = "a `b` [c](d.md) ``e ` f`` g\n\n```sh\nh\n```\n~~~\n```\ni\n~~~\nj `k\nl` m https://n.example/o p";
        let words: Vec<_> = markdown(text).iter().map(|word| word.text).collect();
        assert_eq!(words, ["a", "c", "g", "j", "m", "p"]);
    }

    #[test]
    fn an_unclosed_backtick_hides_no_more_than_its_paragraph() {
        let words: Vec<_> = markdown("a ` b\nc\n\nd").iter().map(|word| word.text).collect();
        assert_eq!(words, ["a", "d"]);
    }

    #[test]
    fn identifiers_split_into_words_however_they_are_spelled() {
        let split = |name| parts(name, 1).iter().map(|word| word.text).collect::<Vec<_>>();
        for name in ["look_again", "lookAgain", "LookAgain", "look-again", "__look__again"] {
            assert_eq!(split(name).iter().map(|part| part.to_lowercase()).collect::<Vec<_>>(), ["look", "again"], "{name}");
        }
        assert_eq!(split("HTTPServer"), ["HTTP", "Server"]);
        assert_eq!(split("LOOK_AGAIN"), ["LOOK", "AGAIN"]);
        assert_eq!(split("v1beta2Told"), ["v1beta2", "Told"]);
    }
}
