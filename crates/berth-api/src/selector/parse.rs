//! The grammar of label selectors in queries. The messages are upstream's; clients show them.

use super::{Requirement, SelectorError, Test};
use std::collections::BTreeSet;

/// One token with its text. `in` and `notin` are words, which are operators only by their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Word(&'a str),
    Symbol(&'static str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Word(text) | Self::Symbol(text) => text,
        }
    }

    /// `found '<token>', expected: <what>`.
    fn unexpected<T>(self, expected: &str) -> Result<T, SelectorError> {
        Err(SelectorError(format!("found '{}', expected: {expected}", self.text())))
    }
}

/// Longest first: `==` is not two `=`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

const NO_REQUIREMENT: &str = "!, identifier, or 'end of string'";
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut rest = Rest(text);
    let mut requirements = Vec::new();
    match rest.peek() {
        Token::End => return Ok(requirements),
        Token::Word(_) | Token::Symbol("!") => {}
        other => return other.unexpected(NO_REQUIREMENT),
    }
    loop {
        let requirement = rest.requirement();
        requirements.push(requirement.map_err(|SelectorError(text)| SelectorError(format!("unable to parse requirement: {text}")))?);
        match rest.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => {}
            other => return other.unexpected("',' or 'end of string'"),
        }
        let next = rest.peek();
        if !matches!(next, Token::Word(_) | Token::Symbol("!")) {
            return next.unexpected("identifier after ','");
        }
    }
}

/// What is still to be read.
struct Rest<'a>(&'a str);

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Token<'a> {
        self.split().0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.split();
        self.0 = rest;
        token
    }

    fn split(&self) -> (Token<'a>, &'a str) {
        let text = self.0.trim_start_matches(is_space);
        if text.is_empty() {
            return (Token::End, text);
        }
        if let Some((symbol, rest)) = SYMBOLS.iter().find_map(|symbol| text.strip_prefix(symbol).map(|rest| (*symbol, rest))) {
            return (Token::Symbol(symbol), rest);
        }
        let end = text.find(|c| is_space(c) || "=!(),><".contains(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        (Token::Word(word), rest)
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return other.unexpected("identifier"),
        };
        // The key is validated before the following text, so that its error is reported first. Upstream reports it
        // without a field.
        super::check("<nil>", key, &super::check_label_key(key))?;
        let test = match (negated, self.peek()) {
            (true, _) => Test::DoesNotExist,
            (false, Token::End | Token::Symbol(",")) => Test::Exists,
            (false, _) => self.comparison()?,
        };
        Requirement::new(key, test)
    }

    fn comparison(&mut self) -> Result<Test, SelectorError> {
        Ok(match self.next() {
            Token::Word("in") => Test::In(self.values()?),
            Token::Word("notin") => Test::NotIn(self.values()?),
            Token::Symbol("=" | "==") => Test::Equals(self.value()?),
            Token::Symbol("!=") => Test::NotEquals(self.value()?),
            Token::Symbol(">") => Test::GreaterThan(self.bound()?),
            Token::Symbol("<") => Test::LessThan(self.bound()?),
            other => return other.unexpected(OPERATORS),
        })
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => other.unexpected("identifier"),
        }
    }

    fn bound(&mut self) -> Result<i64, SelectorError> {
        let text = self.value()?;
        let not_integer = |_| {
            let value = serde_json::Value::from(text.as_str());
            SelectorError(format!("values[0]: Invalid value: {value}: for 'Gt', 'Lt' operators, the value must be an integer"))
        };
        text.parse().map_err(not_integer)
    }

    /// Parses `(a,b)`. An empty position is the empty value, so `()` contains one.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        match self.next() {
            Token::Symbol("(") => {}
            // Upstream has no comma in this one.
            other => return Err(SelectorError(format!("found '{}' expected: '('", other.text()))),
        }
        let mut values = BTreeSet::new();
        let mut expected = "',', ')' or identifier";
        loop {
            match self.next() {
                Token::Symbol(end @ (")" | ",")) => {
                    values.insert(String::new());
                    if end == ")" {
                        return Ok(values);
                    }
                }
                Token::Word(value) => {
                    values.insert(value.to_owned());
                    match self.next() {
                        Token::Symbol(")") => return Ok(values),
                        Token::Symbol(",") => {}
                        other => return other.unexpected("',' or ')'"),
                    }
                }
                other => return other.unexpected(expected),
            }
            expected = "',', or identifier";
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::selector::Selector;

    fn check(text: &str, wanted: &str) {
        assert_eq!(Selector::parse(text).expect("valid").to_string(), wanted, "{text}");
    }

    fn check_refused(text: &str, wanted: &str) {
        assert_eq!(Selector::parse(text).expect_err(text).to_string(), wanted, "{text}");
    }

    #[test]
    fn selectors_are_normalized() {
        check(" b == 1 ,a", "a,b=1");
        check("x in ()", "x in ()");
        check("x in (,a)", "x in (,a)");
        check("x in (a,)", "x in (,a)");
        check("x in (b,a,b)", "x in (a,b)");
        check("x=", "x=");
        check("! x", "!x");
        check("x=in", "x=in");
        check("n>007", "n>7");
    }

    #[test]
    fn refusals_are_upstreams() {
        check_refused("=", "found '=', expected: !, identifier, or 'end of string'");
        check_refused(",a", "found ',', expected: !, identifier, or 'end of string'");
        check_refused("a,", "found '', expected: identifier after ','");
        check_refused("a,=b", "found '=', expected: identifier after ','");
        check_refused("!a=b", "found '=', expected: ',' or 'end of string'");
        check_refused("a===b", "unable to parse requirement: found '=', expected: identifier");
        check_refused("!=a", "found '!=', expected: !, identifier, or 'end of string'");
        check_refused("!,a", "unable to parse requirement: found ',', expected: identifier");
        check_refused("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        check_refused("a in b", "unable to parse requirement: found 'b' expected: '('");
        check_refused("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier");
        check_refused("a in (b", "unable to parse requirement: found '', expected: ',' or ')'");
        check_refused("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier");
        check_refused(
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        );
        check_refused("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty");
    }
}
