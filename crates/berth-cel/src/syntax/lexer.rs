//! Tokens.

use super::{Literal, literals};
use crate::error::Fault;

/// A token, and the byte at which it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) at: usize,
    pub(crate) kind: TokenKind<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind<'a> {
    End,
    Identifier(&'a str),
    /// A number without a sign, as written, without its suffix.
    Int(&'a str),
    Uint(&'a str),
    Double(&'a str),
    /// A text, bytes, a boolean or null.
    Literal(Literal),
    /// `in` is one, too.
    Operator(&'static str),
}

/// Longer operators first.
const OPERATORS: &[&str] =
    &["==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "!", "-", "+", "*", "/", "%"];

/// Divides a text into tokens. The last is [`TokenKind::End`].
pub(crate) fn tokens(source: &str) -> Result<Vec<Token<'_>>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += blank(&source[at..]);
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { at, kind: TokenKind::End });
            return Ok(tokens);
        };
        let (length, kind) = if let Some((length, literal)) = literals::text(rest, at)? {
            (length, TokenKind::Literal(literal))
        } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit())) {
            number(rest)
        } else if first.is_ascii_alphabetic() || first == '_' {
            word(rest)
        } else if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
            (operator.len(), TokenKind::Operator(operator))
        } else {
            return Err(Fault { at, text: format!("Syntax error: token recognition error at: '{first}'") });
        };
        tokens.push(Token { at, kind });
        at += length;
    }
}

/// The length of spaces and comments.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let Some(comment) = rest.strip_prefix("//") else { return text.len() - rest.len() };
        rest = comment.find('\n').map_or("", |end| &comment[end..]);
    }
}

fn word(text: &str) -> (usize, TokenKind<'_>) {
    let end = text.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(text.len());
    let kind = match &text[..end] {
        "true" => TokenKind::Literal(Literal::Bool(true)),
        "false" => TokenKind::Literal(Literal::Bool(false)),
        "null" => TokenKind::Literal(Literal::Null),
        "in" => TokenKind::Operator("in"),
        name => TokenKind::Identifier(name),
    };
    (end, kind)
}

fn digits(text: &str) -> usize {
    text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len())
}

fn number(text: &str) -> (usize, TokenKind<'_>) {
    let hexadecimal = text.strip_prefix("0x").map(|rest| rest.find(|next: char| !next.is_ascii_hexdigit()).unwrap_or(rest.len()));
    let whole = match hexadecimal {
        Some(length) if 0 < length => length + 2,
        _ => digits(text),
    };
    let mut end = whole;
    if hexadecimal.is_none_or(|length| length == 0) {
        let fraction = text[end..].strip_prefix('.').map_or(0, digits);
        if 0 < fraction {
            end += 1 + fraction;
        }
        end += exponent(&text[end..]);
    }
    let written = &text[..end];
    if end != whole {
        return (end, TokenKind::Double(written));
    }
    match text[end..].chars().next() {
        Some('u' | 'U') => (end + 1, TokenKind::Uint(written)),
        _ => (end, TokenKind::Int(written)),
    }
}

fn exponent(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else { return 0 };
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    match digits(unsigned) {
        0 => 0,
        length => text.len() - unsigned.len() + length,
    }
}
