//! Regular expressions as upstream's: Go's syntax, matched by the crate `regex`.
//!
//! Go and the crate differ in small things: `\d` is ASCII in Go, a brace that is no repetition is itself, `[` in a class too. An expression is
//! translated, so that both accept the same ones and match the same texts.
//!
//! Source: Go `regexp/syntax/parse.go`.

use regex::{Regex, RegexBuilder};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// How large the program of an expression is at most, in bytes.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// How much memory matching uses to be fast, in bytes.
const CACHE_BYTES_MAX: usize = 64 << 10;
/// How often a part is repeated at most, as in Go. Nested repetitions multiply.
const REPEAT_MAX: u32 = 1000;
/// How deep groups are nested at most, as in Go.
const GROUPS_MAX: usize = 1000;

/// A regular expression. Cheap to clone. It is compiled when it is matched first.
#[derive(Clone)]
pub struct Pattern(Arc<Inner>);

struct Inner {
    text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

/// Why a text is no expression, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {why}: `{part}`")]
pub struct PatternError {
    why: &'static str,
    part: String,
}

impl Pattern {
    /// The pattern of an expression that [`Pattern::check`] accepts. Another one matches no text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::new(Inner { text: text.into(), compiled: OnceLock::new() }))
    }

    /// Checks an expression.
    ///
    /// # Errors
    /// The text is no expression, or its program is too large.
    pub fn check(text: &str) -> Result<(), PatternError> {
        compile(text).map(|_| ())
    }

    /// The expression.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether a text has a match. In time linear in the text.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.compiled.get_or_init(|| compile(&self.0.text).ok()).as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.text.fmt(f)
    }
}

fn compile(text: &str) -> Result<Regex, PatternError> {
    let translated = Translation { text, rest: text, out: String::with_capacity(text.len()), open: 0 }.run()?;
    let built = RegexBuilder::new(&translated).size_limit(PROGRAM_BYTES_MAX).dfa_size_limit(CACHE_BYTES_MAX).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError { why: "expression too large", part: text.to_owned() },
        _ => PatternError { why: "invalid character class range", part: text.to_owned() },
    })
}

struct Translation<'t> {
    text: &'t str,
    rest: &'t str,
    out: String,
    /// How many groups are open.
    open: usize,
}

/// What the expression has just had, for a repetition of it.
enum Last {
    /// Nothing that can be repeated.
    Nothing,
    Part,
    /// A repetition, which begins here.
    Repetition(usize),
}

impl<'t> Translation<'t> {
    fn wrong<T>(why: &'static str, part: &str) -> Result<T, PatternError> {
        Err(PatternError { why, part: part.to_owned() })
    }

    fn at(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn literal(&mut self, letter: char) {
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() && !matches!(letter, '<' | '>' | '_' | ' ') && !letter.is_ascii_control() {
            self.out.push('\\');
        }
        self.out.push(letter);
    }

    fn run(mut self) -> Result<String, PatternError> {
        let mut last = Last::Nothing;
        loop {
            let (before, start) = (self.rest, self.at());
            let Some(letter) = self.next() else { break };
            last = match letter {
                '*' | '+' | '?' => {
                    self.out.push(letter);
                    self.repeated(last, start)?
                }
                '{' => match repetition(self.rest) {
                    None => {
                        self.literal('{');
                        Last::Part
                    }
                    Some((length, from, to)) => {
                        self.rest = &self.rest[length..];
                        if REPEAT_MAX < from || to.is_some_and(|to| REPEAT_MAX < to || to < from) {
                            return Self::wrong("invalid repeat count", &before[..=length]);
                        }
                        self.out.push_str(&before[..=length]);
                        self.repeated(last, start)?
                    }
                },
                '(' => {
                    self.group(before)?;
                    Last::Nothing
                }
                ')' if self.open == 0 => return Self::wrong("unexpected )", self.text),
                ')' => {
                    self.open -= 1;
                    self.out.push(')');
                    Last::Part
                }
                '|' => {
                    self.out.push('|');
                    Last::Nothing
                }
                '[' => {
                    self.class(before)?;
                    Last::Part
                }
                '\\' => {
                    self.escape(before)?;
                    Last::Part
                }
                '^' | '$' | '.' => {
                    self.out.push(letter);
                    Last::Part
                }
                other => {
                    self.literal(other);
                    Last::Part
                }
            };
        }
        if self.open == 0 { Ok(self.out) } else { Self::wrong("missing closing )", self.text) }
    }

    /// After a repetition: whether there was something to repeat.
    fn repeated(&mut self, last: Last, start: usize) -> Result<Last, PatternError> {
        if self.take("?") {
            self.out.push('?');
        }
        match last {
            Last::Nothing => Self::wrong("missing argument to repetition operator", &self.text[start..self.at()]),
            Last::Repetition(first) => Self::wrong("invalid nested repetition operator", &self.text[first..self.at()]),
            Last::Part => Ok(Last::Repetition(start)),
        }
    }

    /// A group. Its name and number do not matter here.
    fn group(&mut self, before: &'t str) -> Result<(), PatternError> {
        if self.take("?P<") || self.take("?<") {
            let Some((name, rest)) = self.rest.split_once('>') else { return Self::wrong("invalid named capture", before) };
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                return Self::wrong("invalid named capture", &before[..before.len() - rest.len()]);
            }
            self.rest = rest;
        } else if self.take("?") {
            return self.flags(before);
        }
        self.opened("(?:")
    }

    fn opened(&mut self, as_text: &str) -> Result<(), PatternError> {
        self.open += 1;
        self.out.push_str(as_text);
        if GROUPS_MAX < self.open { Self::wrong("expression nests too deeply", self.text) } else { Ok(()) }
    }

    /// `(?i)`, `(?i:`, `(?s-m:`, `(?:`.
    fn flags(&mut self, before: &'t str) -> Result<(), PatternError> {
        let (mut has_minus, mut has_flag) = (false, false);
        loop {
            let Some(letter) = self.next() else { return Self::wrong("invalid or unsupported Perl syntax", before) };
            match letter {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !has_minus => (has_minus, has_flag) = (true, false),
                ':' | ')' if !has_minus || has_flag => {
                    let flags = &before[..before.len() - self.rest.len()];
                    if letter == ':' {
                        return self.opened(flags);
                    }
                    // Without a flag it is nothing.
                    self.out.push_str(if flags == "(?)" { "(?:)" } else { flags });
                    return Ok(());
                }
                _ => return Self::wrong("invalid or unsupported Perl syntax", &before[..before.len() - self.rest.len()]),
            }
        }
    }

    fn escape(&mut self, before: &'t str) -> Result<(), PatternError> {
        let Some(letter) = self.next() else { return Self::wrong("trailing backslash at end of expression", "") };
        match letter {
            'A' | 'B' | 'z' => self.out.extend(['\\', letter]),
            'b' => self.out.push_str("(?-u:\\b)"),
            'Q' => {
                let (literal, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                literal.chars().for_each(|letter| self.literal(letter));
            }
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                let class = ascii_class(letter);
                self.out.push_str(class);
            }
            'p' | 'P' => {
                let name = self.property(before)?;
                self.out.push_str(name);
            }
            _ => {
                let letter = self.escaped(letter, before)?;
                self.literal(letter);
            }
        }
        Ok(())
    }

    /// `\pL` or `\p{Greek}`, as it is.
    fn property(&mut self, before: &'t str) -> Result<&'t str, PatternError> {
        if self.take("{") {
            let Some((_, rest)) = self.rest.split_once('}') else { return Self::wrong("invalid character class range", before) };
            self.rest = rest;
        } else if self.next().is_none() {
            return Self::wrong("invalid character class range", before);
        }
        Ok(&before[..before.len() - self.rest.len()])
    }

    /// A character behind a backslash, as in and outside classes.
    fn escaped(&mut self, letter: char, before: &'t str) -> Result<char, PatternError> {
        let wrong = |this: &Self| Self::wrong("invalid escape sequence", &before[..before.len() - this.rest.len()]);
        match letter {
            'a' => Ok('\u{7}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\u{b}'),
            'x' => {
                let digits = if self.take("{") {
                    let Some((digits, rest)) = self.rest.split_once('}') else { return Self::wrong("invalid escape sequence", before) };
                    self.rest = rest;
                    digits
                } else {
                    let digits = self.rest.get(..2).unwrap_or_default();
                    self.rest = &self.rest[digits.len()..];
                    digits
                };
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).and_then(char::from_u32);
                code.map_or_else(|| wrong(self), Ok)
            }
            '0'..='7' => {
                let is_octal = letter == '0' || self.rest.starts_with(|next: char| next.is_digit(8));
                if !is_octal {
                    return wrong(self);
                }
                let more = self.rest.bytes().take(2).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let (digits, rest) = self.rest.split_at(more);
                self.rest = rest;
                u32::from_str_radix(&format!("{letter}{digits}"), 8).ok().and_then(char::from_u32).map_or_else(|| wrong(self), Ok)
            }
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => Ok(other),
            _ => wrong(self),
        }
    }

    fn class(&mut self, before: &'t str) -> Result<(), PatternError> {
        self.out.push('[');
        if self.take("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if self.rest.is_empty() {
                return Self::wrong("missing closing ]", before);
            }
            let element = self.rest;
            if self.rest.starts_with("[:") && self.rest.contains(":]") {
                let end = self.rest.find(":]").unwrap_or_default() + 2;
                self.out.push_str(&self.rest[..end]);
                self.rest = &self.rest[end..];
                continue;
            }
            if let Some(kind) = self.rest.strip_prefix('\\').and_then(|rest| rest.chars().next()).filter(|kind| "dDsSwWpP".contains(*kind))
            {
                self.rest = &self.rest[2..];
                let class = if matches!(kind, 'p' | 'P') { self.property(element)? } else { ascii_class(kind) };
                self.out.push_str(class);
                continue;
            }
            let low = self.class_letter(before)?;
            self.literal(low);
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.take("-");
                let high = self.class_letter(before)?;
                if high < low {
                    return Self::wrong("invalid character class range", &element[..element.len() - self.rest.len()]);
                }
                self.out.push('-');
                self.literal(high);
            }
        }
        self.take("]");
        self.out.push(']');
        Ok(())
    }

    fn class_letter(&mut self, class: &'t str) -> Result<char, PatternError> {
        let before = self.rest;
        match self.next() {
            None => Self::wrong("missing closing ]", class),
            Some('\\') => match self.next() {
                None => Self::wrong("trailing backslash at end of expression", ""),
                Some(letter) => self.escaped(letter, before),
            },
            Some(letter) => Ok(letter),
        }
    }
}

/// The length of a repetition behind its brace, and its bounds.
fn repetition(rest: &str) -> Option<(usize, u32, Option<u32>)> {
    let end = rest.find('}')?;
    let inside = &rest[..end];
    let number = |text: &str| -> Option<u32> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
        is_number.then(|| text.parse().unwrap_or(u32::MAX))
    };
    let (from, to) = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((from, "")) => (number(from)?, None),
        Some((from, to)) => (number(from)?, Some(number(to)?)),
    };
    Some((end + 1, from, to))
}

fn ascii_class(letter: char) -> &'static str {
    match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\f\\r ]",
        'S' => "[^\\t\\n\\f\\r ]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_as_those_of_go() {
        for (pattern, text, wanted) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\d\s]$", "5", false),
            (r"^[[a]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]+$", "]a", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^{a}$", "{a}", true),
            (r"^a{2}$", "aa", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^(?P<x>a)(?<y>b)$", "ab", true),
            (r"^(?i)abc$", "ABC", true),
            (r"^(?i:a)b$", "AB", false),
            (r"^\x41\x{42}\103$", "ABC", true),
            (r"^[\x41-\x43]$", "B", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^[[:alpha:]_]+$", "a_b", true),
            (r"^a|b$", "xb", true),
            (r"^\/\_\<\-$", "/_<-", true),
            (r"^.$", "é", true),
            (r"^.$", "\n", false),
            (r"^[a-b-c]$", "-", true),
            ("", "x", true),
        ] {
            Pattern::check(pattern).unwrap_or_else(|error| panic!("{pattern} {error}"));
            assert_eq!(Pattern::new(pattern).is_match(text), wanted, "{pattern} {text}");
        }
    }

    /// The messages are those of Kubernetes 1.36.2.
    #[test]
    fn what_go_rejects_is_rejected_in_its_words() {
        for (pattern, wanted) in [
            ("a(", "missing closing ): `a(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("x[b-a]", "invalid character class range: `b-a`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("(?!a)b", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            (r"a\", "trailing backslash at end of expression: ``"),
        ] {
            let error = Pattern::check(pattern).expect_err(pattern).to_string();
            assert_eq!(error, format!("error parsing regexp: {wanted}"), "{pattern}");
        }
    }
}
