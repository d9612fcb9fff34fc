//! The grammar.
//!
//! Source: cel-spec `doc/langdef.md`, "Syntax".

use super::{
    Call, Element, Entry, Expr, Kind, Literal, StructField,
    lexer::{Token, TokenKind, tokens},
    literals, macros,
    parts::Parts,
};
use crate::{error::Fault, names::is_reserved, stack::with_stack};

/// How many characters an expression has at most.
const CHARACTERS_MAX: usize = 100_000;
/// How deep an expression is nested at most.
const DEPTH_MAX: usize = 250;
/// What can begin an operand.
const OPERANDS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// An expression from its text.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// The byte in the source of each part, by its number.
    pub(crate) positions: Vec<usize>,
}

/// Parses an expression.
pub(crate) fn parse(source: &str) -> Result<Parsed, Fault> {
    let characters = source.chars().count();
    if CHARACTERS_MAX < characters {
        let text = format!("expression code point size exceeds limit: size: {characters}, limit {CHARACTERS_MAX}");
        return Err(Fault { at: 0, text });
    }
    let mut parser = Parser { tokens: tokens(source)?, next: 0, parts: Parts::default(), depth: 0 };
    let (root, _) = parser.expression()?;
    match &parser.token().kind {
        TokenKind::End => Ok(Parsed { root, positions: parser.parts.into_positions() }),
        _ => {
            let fault = parser.unexpected("<EOF>");
            Err(Fault { text: fault.text.replacen("mismatched", "extraneous", 1), ..fault })
        }
    }
}

/// An expression, and how deep it is.
type Deep = (Expr, usize);

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    parts: Parts,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn token(&self) -> &Token<'a> {
        &self.tokens[self.next]
    }

    fn at(&self) -> usize {
        self.token().at
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn sees(&self, operator: &str) -> bool {
        matches!(self.token().kind, TokenKind::Operator(found) if found == operator)
    }

    fn take(&mut self, operator: &str) -> bool {
        let is_there = self.sees(operator);
        if is_there {
            self.advance();
        }
        is_there
    }

    fn require(&mut self, operator: &'static str) -> Result<(), Fault> {
        if self.take(operator) {
            return Ok(());
        }
        if matches!(self.token().kind, TokenKind::End) {
            return Err(Fault { at: self.at(), text: format!("Syntax error: missing '{operator}' at '<EOF>'") });
        }
        Err(self.unexpected(&format!("'{operator}'")))
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match &self.token().kind {
            TokenKind::End => "<EOF>".to_owned(),
            TokenKind::Identifier(name) | TokenKind::Int(name) | TokenKind::Uint(name) | TokenKind::Double(name) => (*name).to_owned(),
            TokenKind::Literal(Literal::String(text)) => format!("\"{text}\""),
            TokenKind::Literal(literal) => format!("{literal:?}").to_lowercase(),
            TokenKind::Operator(operator) => (*operator).to_owned(),
        };
        Fault { at: self.at(), text: format!("Syntax error: mismatched input '{found}' expecting {expected}") }
    }

    fn part(&mut self, at: usize, kind: Kind) -> Expr {
        self.parts.part(at, kind)
    }

    /// Bounds the nesting of what is inside a part.
    fn deeper(&self, at: usize, depth: usize) -> Result<usize, Fault> {
        if DEPTH_MAX <= depth {
            return Err(Fault { at, text: format!("expression recursion limit exceeded: {DEPTH_MAX}") });
        }
        Ok(depth + 1)
    }

    fn expression(&mut self) -> Result<Deep, Fault> {
        self.depth = self.deeper(self.at(), self.depth)?;
        let result = with_stack(|| self.conditional());
        self.depth -= 1;
        result
    }

    fn conditional(&mut self) -> Result<Deep, Fault> {
        let (condition, depth) = self.logical("||")?;
        let at = self.at();
        if !self.take("?") {
            return Ok((condition, depth));
        }
        let (yes, depth_yes) = self.logical("||")?;
        self.require(":")?;
        let (no, depth_no) = self.expression()?;
        let depth = self.deeper(at, depth.max(depth_yes).max(depth_no))?;
        Ok((self.part(at, Kind::Conditional(Box::new((condition, yes, no)))), depth))
    }

    /// `||` of `&&` of comparisons. A long chain becomes a balanced tree.
    fn logical(&mut self, operator: &str) -> Result<Deep, Fault> {
        let (mut terms, mut places) = (Vec::new(), Vec::new());
        loop {
            terms.push(if operator == "||" { self.logical("&&")? } else { self.relation()? });
            let at = self.at();
            if !self.take(operator) {
                break;
            }
            places.push(at);
        }
        self.balanced(&mut terms.into_iter(), &places, operator == "||")
    }

    fn balanced(&mut self, terms: &mut impl Iterator<Item = Deep>, places: &[usize], is_or: bool) -> Result<Deep, Fault> {
        let middle = places.len() / 2;
        let Some(at) = places.get(middle).copied() else {
            return terms.next().ok_or_else(|| self.unexpected(OPERANDS));
        };
        let (left, depth) = self.balanced(terms, &places[..middle], is_or)?;
        let (right, depth_right) = self.balanced(terms, &places[middle + 1..], is_or)?;
        let depth = self.deeper(at, depth.max(depth_right))?;
        let both = Box::new((left, right));
        Ok((self.part(at, if is_or { Kind::Or(both) } else { Kind::And(both) }), depth))
    }

    fn relation(&mut self) -> Result<Deep, Fault> {
        let operators = [("<=", "_<=_"), ("<", "_<_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_"), ("in", "@in")];
        self.chain(&operators, Self::sum)
    }

    fn sum(&mut self) -> Result<Deep, Fault> {
        self.chain(&[("+", "_+_"), ("-", "_-_")], Self::product)
    }

    fn product(&mut self) -> Result<Deep, Fault> {
        self.chain(&[("*", "_*_"), ("/", "_/_"), ("%", "_%_")], Self::unary)
    }

    /// Operators that are left-associative.
    fn chain(&mut self, operators: &[(&str, &str)], operand: impl Fn(&mut Self) -> Result<Deep, Fault>) -> Result<Deep, Fault> {
        let (mut left, mut depth) = operand(self)?;
        loop {
            let at = self.at();
            let Some((_, name)) = operators.iter().find(|(operator, _)| self.sees(operator)) else { return Ok((left, depth)) };
            self.advance();
            let (right, depth_right) = operand(self)?;
            depth = self.deeper(at, depth.max(depth_right))?;
            left = self.call(at, name, None, vec![left, right]);
        }
    }

    fn call(&mut self, at: usize, name: &str, target: Option<Expr>, arguments: Vec<Expr>) -> Expr {
        let call = Call { name: name.into(), target, arguments, function: None, pattern: None };
        self.part(at, Kind::Call(Box::new(call)))
    }

    fn unary(&mut self) -> Result<Deep, Fault> {
        let at = self.at();
        for (operator, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0_usize;
            while self.sees(operator) {
                let before_number = matches!(self.tokens[self.next + 1].kind, TokenKind::Int(_) | TokenKind::Double(_));
                if operator == "-" && before_number {
                    break;
                }
                self.advance();
                count += 1;
            }
            if 0 < count {
                // An even number has no effect.
                let (operand, depth) = self.member()?;
                if count.is_multiple_of(2) {
                    return Ok((operand, depth));
                }
                let depth = self.deeper(at, depth)?;
                return Ok((self.call(at, name, None, vec![operand]), depth));
            }
        }
        self.member()
    }

    fn member(&mut self) -> Result<Deep, Fault> {
        let (mut expr, mut depth) = self.primary()?;
        loop {
            let at = self.at();
            if self.take(".") {
                let is_optional = self.take("?");
                let field = self.field()?;
                let open = self.at();
                if !is_optional && self.take("(") {
                    let (arguments, inside) = self.arguments(")")?;
                    depth = depth.max(inside);
                    expr = match macros::expand(&mut self.parts, open, field, expr, arguments)? {
                        Ok(expanded) => expanded,
                        Err((target, arguments)) => self.call(open, field, Some(target), arguments),
                    };
                } else {
                    let operand = Box::new(expr);
                    let field = field.into();
                    let kind = if is_optional { Kind::OptionalSelect { operand, field } } else { Kind::Select { operand, field } };
                    expr = self.part(at, kind);
                }
            } else if self.take("[") {
                let name = if self.take("?") { "_[?_]" } else { "_[_]" };
                let (index, inside) = self.expression()?;
                self.require("]")?;
                depth = depth.max(inside);
                expr = self.call(at, name, None, vec![expr, index]);
            } else if self.sees("{")
                && let Some(name) = qualified_name(&expr)
            {
                self.advance();
                let (fields, inside) = self.struct_fields()?;
                depth = depth.max(inside);
                expr = self.part(at, Kind::Struct { name: name.into(), fields });
            } else {
                return Ok((expr, depth));
            }
            depth = self.deeper(at, depth)?;
        }
    }

    fn field(&mut self) -> Result<&'a str, Fault> {
        let TokenKind::Identifier(name) = self.token().kind else {
            return Err(Fault {
                at: self.at(),
                text: self.unexpected("IDENTIFIER").text.replace("mismatched input", "no viable alternative at input"),
            });
        };
        self.advance();
        Ok(name)
    }

    /// Expressions up to a closing mark.
    fn arguments(&mut self, close: &'static str) -> Result<(Vec<Expr>, usize), Fault> {
        let (mut arguments, mut depth) = (Vec::new(), 0);
        if self.take(close) {
            return Ok((arguments, depth));
        }
        loop {
            let (argument, inside) = self.expression()?;
            arguments.push(argument);
            depth = depth.max(inside);
            if !self.take(",") {
                self.require(close)?;
                return Ok((arguments, depth));
            }
        }
    }

    fn primary(&mut self) -> Result<Deep, Fault> {
        let at = self.at();
        match self.token().kind.clone() {
            TokenKind::Operator("(") => {
                self.advance();
                let inner = self.expression()?;
                self.require(")")?;
                Ok(inner)
            }
            TokenKind::Operator("[") => {
                self.advance();
                let (elements, depth) = self.elements()?;
                Ok((self.part(at, Kind::List(elements)), depth + 1))
            }
            TokenKind::Operator("{") => {
                self.advance();
                let (entries, depth) = self.entries()?;
                Ok((self.part(at, Kind::Map(entries)), depth + 1))
            }
            TokenKind::Operator(".") => {
                self.advance();
                self.named(at)
            }
            TokenKind::Identifier(_) => self.named(at),
            _ => {
                let literal = self.literal()?;
                Ok((self.part(at, Kind::Literal(literal)), 1))
            }
        }
    }

    /// A variable, or a call of a function without a target.
    fn named(&mut self, at: usize) -> Result<Deep, Fault> {
        let TokenKind::Identifier(name) = self.token().kind else { return Err(self.unexpected("IDENTIFIER")) };
        if is_reserved(name) {
            return Err(Fault { at, text: format!("reserved identifier: {name}") });
        }
        self.advance();
        let open = self.at();
        if !self.take("(") {
            return Ok((self.part(at, Kind::Identifier(name.into())), 1));
        }
        let (mut arguments, depth) = self.arguments(")")?;
        let depth = self.deeper(at, depth)?;
        let expr = match arguments.pop() {
            Some(argument) if name == "has" && arguments.is_empty() => macros::has(&mut self.parts, open, argument)?,
            last => {
                arguments.extend(last);
                self.call(open, name, None, arguments)
            }
        };
        Ok((expr, depth))
    }

    fn literal(&mut self) -> Result<Literal, Fault> {
        let at = self.at();
        let is_negative = self.take("-");
        let wrong = |text: &str| Fault { at, text: text.to_owned() };
        let literal = match self.token().kind.clone() {
            TokenKind::Int(written) => Literal::Int(literals::int(written, is_negative).ok_or_else(|| wrong("invalid int literal"))?),
            TokenKind::Uint(written) if !is_negative => {
                Literal::Uint(literals::uint(written).ok_or_else(|| wrong("invalid uint literal"))?)
            }
            TokenKind::Double(written) => {
                let size: f64 = written.parse().map_err(|_| wrong("invalid double literal"))?;
                if size.is_infinite() {
                    return Err(wrong("invalid double literal"));
                }
                Literal::Double(if is_negative { -size } else { size })
            }
            TokenKind::Literal(literal) if !is_negative => literal,
            _ => return Err(self.unexpected(OPERANDS)),
        };
        self.advance();
        Ok(literal)
    }

    fn elements(&mut self) -> Result<(Vec<Element>, usize), Fault> {
        let (mut elements, mut depth) = (Vec::new(), 0);
        while !self.take("]") {
            let is_optional = self.take("?");
            let (value, inside) = self.expression()?;
            elements.push(Element { value, is_optional });
            depth = depth.max(inside);
            if !self.take(",") {
                self.require("]")?;
                break;
            }
        }
        Ok((elements, depth))
    }

    fn entries(&mut self) -> Result<(Vec<Entry>, usize), Fault> {
        let (mut entries, mut depth) = (Vec::new(), 0);
        while !self.take("}") {
            let is_optional = self.take("?");
            let (key, inside_key) = self.expression()?;
            self.require(":")?;
            let (value, inside) = self.expression()?;
            entries.push(Entry { key, value, is_optional });
            depth = depth.max(inside).max(inside_key);
            if !self.take(",") {
                self.require("}")?;
                break;
            }
        }
        Ok((entries, depth))
    }

    fn struct_fields(&mut self) -> Result<(Vec<StructField>, usize), Fault> {
        let (mut fields, mut depth) = (Vec::new(), 0);
        while !self.take("}") {
            let is_optional = self.take("?");
            let name = self.field()?;
            let at = self.at();
            self.require(":")?;
            let (value, inside) = self.expression()?;
            fields.push(StructField { at, name: name.into(), value, is_optional });
            depth = depth.max(inside);
            if !self.take(",") {
                self.require("}")?;
                break;
            }
        }
        Ok((fields, depth))
    }
}

/// The dotted name that an expression is. `None`: it is something else.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Identifier(name) => Some(name.to_string()),
        Kind::Select { operand, field } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}
