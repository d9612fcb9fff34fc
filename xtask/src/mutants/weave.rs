//! All mutants of a file in one text: each is code beside what it replaces, behind a question that is answered while the program runs. So one build
//! has them all.
//!
//! What a mutant is stays what cargo-mutants says: text of one place that is replaced. Where that cannot be said beside the original (in a constant, say),
//! the mutant is left out here and tried by itself.

use proc_macro2::{LineColumn, Span};
use std::collections::{BTreeMap, BTreeSet};
use syn::{
    BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, ImplItemFn, ItemFn, Member, Pat, ReturnType, Signature, TraitItemFn,
    Type, TypeParamBound,
    spanned::Spanned,
    visit::{self, Visit},
};

/// What a mutant asks for: whether it is the one that is on.
pub(super) const QUESTION: &str = "crate::mutant";

/// A mutant to weave in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) id: usize,
    /// From 1, in lines and characters.
    pub(super) place: (usize, usize),
    /// `replace > with >= in f`
    pub(super) what: &'a str,
}

/// A text with those mutants that could be woven in.
#[derive(Debug, Default)]
pub(super) struct Woven {
    pub(super) text: String,
    pub(super) ids: BTreeSet<usize>,
    /// Those that are no Rust: `||` beside `let`.
    pub(super) refused: BTreeSet<usize>,
}

/// Weaves in what can be.
///
/// # Errors
/// The text is no Rust.
pub(super) fn weave(text: &str, changes: &[Change<'_>]) -> Result<Woven, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for change in changes {
        places.entry(change.place).or_default().push(*change);
    }
    let mut weaver = Weaver { text, places, insertions: Vec::new(), ids: BTreeSet::new(), refused: BTreeSet::new() };
    weaver.visit_file(&file);
    // What begins at one place was noted from the outermost in, what ends there from the innermost out.
    weaver.insertions.sort_by_key(|(at, _)| *at);
    let (mut woven, mut done) = (String::new(), 0);
    for (at, insertion) in &weaver.insertions {
        woven += &text[done..*at];
        woven += insertion;
        done = *at;
    }
    woven += &text[done..];
    Ok(Woven { text: woven, ids: weaver.ids, refused: weaver.refused })
}

struct Weaver<'a> {
    text: &'a str,
    places: BTreeMap<(usize, usize), Vec<Change<'a>>>,
    insertions: Vec<(usize, String)>,
    ids: BTreeSet<usize>,
    refused: BTreeSet<usize>,
}

/// A mutant, and the text that stands there instead if it is on.
type Instead = (usize, String);

fn is_on(id: usize) -> String {
    format!("{QUESTION}({id})")
}

impl<'a> Weaver<'a> {
    /// The mutants whose place begins where this does.
    fn at(&self, span: Span) -> Vec<Change<'a>> {
        let LineColumn { line, column } = span.start();
        self.places.get(&(line, column + 1)).cloned().unwrap_or_default()
    }

    fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.insertions.push((at, text.into()));
    }

    fn source(&self, span: Span) -> &'a str {
        &self.text[span.byte_range()]
    }

    /// Puts texts beside the expression of this span, then goes on inside.
    fn beside(&mut self, span: Span, instead: Vec<Instead>, inside: impl FnOnce(&mut Self)) {
        if instead.is_empty() {
            return inside(self);
        }
        let range = span.byte_range();
        let choices: String = instead.iter().map(|(id, text)| format!("if {} {{ {text} }} else ", is_on(*id))).collect();
        self.ids.extend(instead.iter().map(|(id, _)| *id));
        self.insert(range.start, format!("({choices}{{ "));
        inside(self);
        self.insert(range.end, " })");
    }

    /// The operators of expressions that are not parted by parentheses: to replace one may change how they belong together, so the whole is the place.
    fn operators(&self, binary: &ExprBinary, whole: Span, instead: &mut Vec<Instead>) {
        let (range, operator) = (whole.byte_range(), binary.op.span().byte_range());
        let (before, after) = (&self.text[range.start..operator.start], &self.text[operator.end..range.end]);
        let replaced = format!("replace {} with ", &self.text[operator]);
        for Change { id, what, .. } in self.at(binary.op.span()) {
            let by = what.strip_prefix(&replaced).and_then(|rest| rest.split(' ').next());
            instead.extend(by.map(|by| (id, format!("{before}{by}{after}"))));
        }
        for side in [&*binary.left, &*binary.right] {
            if let Expr::Binary(side) = side {
                self.operators(side, whole, instead);
            }
        }
    }

    /// The parts of such expressions.
    fn parts(&mut self, binary: &ExprBinary) {
        for side in [&*binary.left, &*binary.right] {
            match side {
                Expr::Binary(side) => self.parts(side),
                side => self.visit_expr(side),
            }
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        // A constant function can ask nothing, and nothing in it.
        if signature.constness.is_some() {
            return;
        }
        let returns = self.source(signature.output.span());
        let is_hidden = returns.contains("impl ");
        let instead = block.stmts.first().map_or(Vec::new(), |first| self.values(signature, first.span()));
        let inside = block.brace_token.span.open().byte_range().end..block.brace_token.span.close().byte_range().start;
        if !is_hidden {
            for (id, value) in instead {
                self.insert(inside.start, format!(" if {} {{ return {value}; }}", is_on(id)));
                self.ids.insert(id);
            }
        } else if let Some(iterator) = iterator(&signature.output).filter(|_| !instead.is_empty())
            && !self.text[inside.clone()].contains("return")
        {
            // What is hidden is one type, whichever is on.
            let boxed = |value: &str| format!("{{ ::std::boxed::Box::new({value}) }} else ");
            let choices: String = instead.iter().map(|(id, value)| format!("if {} {}", is_on(*id), boxed(value))).collect();
            self.ids.extend(instead.iter().map(|(id, _)| *id));
            let dynamic = format!("::std::boxed::Box<dyn {} + '_>", self.source(iterator));
            self.insert(inside.start, format!(" let iterator: {dynamic} = {choices}{{ ::std::boxed::Box::new({{"));
            self.visit_block(block);
            return self.insert(inside.end, "}) }; iterator ");
        }
        self.visit_block(block);
    }

    /// The values that a function may answer at once: those of the mutants whose place is its first statement.
    fn values(&self, signature: &Signature, first: Span) -> Vec<Instead> {
        let name = signature.ident.to_string();
        let value = |Change { id, what, .. }: Change<'_>| {
            let (function, value) = what.strip_prefix("replace ")?.split_once(" with ")?;
            function.split(" -> ").next()?.ends_with(&name).then(|| (id, value.to_owned()))
        };
        self.at(first).into_iter().filter_map(value).collect()
    }
}

/// `Iterator<Item = T>` of a function that gives `impl Iterator<Item = T>` and no other trait.
fn iterator(returns: &ReturnType) -> Option<Span> {
    let ReturnType::Type(_, hidden) = returns else { return None };
    let Type::ImplTrait(hidden) = &**hidden else { return None };
    let mut traits = hidden.bounds.iter().filter_map(|bound| if let TypeParamBound::Trait(of) = bound { Some(of) } else { None });
    let (first, second) = (traits.next()?, traits.next());
    let is_iterator = first.path.segments.last().is_some_and(|last| last.ident == "Iterator");
    (is_iterator && second.is_none()).then(|| first.span())
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Weaver<'_> {
    // What is computed while the program is built can ask nothing.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_type_array(&mut self, _: &'ast syn::TypeArray) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        // `let` cannot stand in parentheses, nor can a chain with it be anything but `&&`.
        if has_let(&binary.left) || has_let(&binary.right) {
            let or = self.at(binary.op.span()).into_iter().filter(|change| change.what.starts_with("replace && with ||"));
            self.refused.extend(or.map(|change| change.id));
            return visit::visit_expr_binary(self, binary);
        }
        let mut instead = Vec::new();
        self.operators(binary, binary.span(), &mut instead);
        self.beside(binary.span(), instead, |weaver| weaver.parts(binary));
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let deleted = format!("delete {}", self.source(unary.op.span()));
        let changes = self.at(unary.op.span()).into_iter().filter(|change| change.what.starts_with(&deleted));
        let operand = self.source(unary.expr.span());
        let instead = changes.map(|change| (change.id, operand.to_owned())).collect();
        self.beside(unary.span(), instead, |weaver| weaver.visit_expr(&unary.expr));
    }

    fn visit_expr_match(&mut self, expression: &'ast ExprMatch) {
        self.visit_expr(&expression.expr);
        let has_rest = expression.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
        for arm in &expression.arms {
            let Some((_, guard)) = &arm.guard else {
                let is_deleted = |change: &Change<'_>| has_rest && change.what.starts_with("delete match arm ");
                for Change { id, .. } in self.at(arm.span()).into_iter().filter(is_deleted) {
                    self.insert(arm.pat.span().byte_range().end, format!(" if !{}", is_on(id)));
                    self.ids.insert(id);
                }
                self.visit_expr(&arm.body);
                continue;
            };
            let changes = self.at(guard.span()).into_iter().filter(|change| change.what.starts_with("replace match guard "));
            let value = |change: Change<'_>| {
                let (_, value) = change.what.rsplit_once(" with ")?;
                Some((change.id, value.split(' ').next().unwrap_or(value).to_owned()))
            };
            let instead = if has_let(guard) { Vec::new() } else { changes.filter_map(value).collect() };
            self.beside(guard.span(), instead, |weaver| weaver.visit_expr(guard));
            self.visit_expr(&arm.body);
        }
    }

    fn visit_expr_struct(&mut self, expression: &'ast ExprStruct) {
        let Some(rest) = &expression.rest else { return visit::visit_expr_struct(self, expression) };
        // What is made has its type from here; of what is there already only the field may be moved.
        let is_made = matches!(**rest, Expr::Call(_));
        let (path, rest_text) = (self.source(expression.path.span()), self.source(rest.span()));
        let whole = if is_made { format!("{path} {{ ..{rest_text} }}") } else { rest_text.to_owned() };
        for field in &expression.fields {
            let Member::Named(name) = &field.member else { continue };
            let deleted = format!("delete field {name} from struct ");
            let changes = self.at(field.span()).into_iter().filter(|change| change.what.starts_with(&deleted));
            let instead: Vec<_> = changes.map(|change| (change.id, format!("({whole}).{name}"))).collect();
            if field.colon_token.is_none() && !instead.is_empty() {
                self.insert(field.span().byte_range().start, format!("{name}: "));
            }
            self.beside(field.expr.span(), instead, |weaver| weaver.visit_expr(&field.expr));
        }
        self.visit_expr(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weaves in mutants of one line of a function `f`: column and what is changed.
    fn check(line: &str, changes: &[(usize, &str)], wanted: &str) {
        let text = format!("fn f() -> T {{\n{line}\n}}\n");
        let changes: Vec<_> = changes.iter().enumerate().map(|(id, (column, what))| Change { id, place: (2, *column), what }).collect();
        let woven = weave(&text, &changes).expect("Rust");
        assert_eq!(woven.text.replace(QUESTION, "on"), format!("fn f() -> T {{\n{wanted}\n}}\n"));
        syn::parse_file(&woven.text).expect("still Rust");
        assert_eq!(woven.ids.len(), changes.len());
    }

    #[test]
    fn operators_are_replaced_in_the_whole_that_they_are_part_of() {
        check(
            "a < b",
            &[(3, "replace < with == in f"), (3, "replace < with <= in f")],
            "(if on(0) { a == b } else if on(1) { a <= b } else { a < b })",
        );
        check(
            "a && b == c && (d || e)",
            &[(3, "replace && with || in f"), (8, "replace == with != in f"), (19, "replace || with && in f")],
            "(if on(0) { a || b == c && (d || e) } else if on(1) { a && b != c && (d || e) } else { a && b == c && ((if on(2) { d && e } else { d || e })) })",
        );
        check("é += 1;", &[(3, "replace += with -= in f")], "(if on(0) { é -= 1 } else { é += 1 });");
        check("!a.b()", &[(1, "delete ! in f")], "(if on(0) { a.b() } else { !a.b() })");
    }

    #[test]
    fn conditions_with_let_are_left_whole() {
        check(
            "if let Some(a) = b && a > c { d }",
            &[(25, "replace > with < in f")],
            "if let Some(a) = b && (if on(0) { a < c } else { a > c }) { d }",
        );
    }

    #[test]
    fn what_is_no_rust_beside_let_is_told() {
        let text = "fn f() { if a && let Some(b) = c && d && e {} }";
        let change = |id, column| Change { id, place: (1, column), what: "replace && with || in f" };
        let woven = weave(text, &[change(0, 15), change(1, 34), change(2, 39)]).expect("Rust");
        assert_eq!((woven.text.as_str(), woven.ids, woven.refused), (text, [].into(), [0, 1, 2].into()));
    }

    #[test]
    fn hidden_iterators_are_boxed() {
        let text = "fn f(&self) -> impl Iterator<Item = &T> + use<'_> { self.a.iter() }";
        let change = Change { id: 0, place: (1, 53), what: "replace f -> impl Iterator<Item =&T>+use<'_> with ::std::iter::empty()" };
        let woven = weave(text, &[change]).expect("Rust").text.replace(QUESTION, "on").replace("::std::boxed::", "");
        let body = "let iterator: Box<dyn Iterator<Item = &T> + '_> = if on(0) { Box::new(::std::iter::empty()) } else { Box::new({ self.a.iter() }) }; iterator";
        assert_eq!(woven, format!("fn f(&self) -> impl Iterator<Item = &T> + use<'_> {{ {body} }}"));
        for other in ["impl Iterator<Item = &T> + Clone", "impl Stream<Item = &T>", "Option<impl Iterator<Item = &T>>"] {
            let text = text.replace("impl Iterator<Item = &T> + use<'_>", other);
            let column = text.find("self.a").expect("it is there") + 1;
            let woven = weave(&text, &[Change { place: (1, column), ..change }]).expect("Rust");
            assert_eq!((woven.text, woven.ids), (text, [].into()));
        }
    }

    #[test]
    fn functions_return_at_once() {
        let text = "impl A { fn f(&self) -> bool { self.a } const fn g() -> u32 { 1 } }";
        let change = |id, column, what| Change { id, place: (1, column), what };
        let changes = [change(0, 32, "replace A::f -> bool with true"), change(1, 63, "replace A::g -> u32 with 0")];
        let woven = weave(text, &changes).expect("Rust");
        assert_eq!(woven.text.replace(QUESTION, "on"), text.replace("{ self.a", "{ if on(0) { return true; } self.a"));
        assert_eq!(woven.ids, [0].into(), "a constant function is tried by itself");
    }

    #[test]
    fn arms_guards_and_fields_are_left_out() {
        check("match a { B => c, _ => d }", &[(11, "delete match arm B in f")], "match a { B if !on(0) => c, _ => d }");
        check(
            "match a { B if c => d, _ => e }",
            &[(16, "replace match guard c with true in f"), (16, "replace match guard c with false in f")],
            "match a { B if (if on(0) { true } else if on(1) { false } else { c }) => d, _ => e }",
        );
        check(
            "S { a: b, c, ..S::default() }",
            &[(5, "delete field a from struct S expression in f"), (11, "delete field c from struct S expression in f")],
            "S { a: (if on(0) { (S { ..S::default() }).a } else { b }), c: (if on(1) { (S { ..S::default() }).c } else { c }), ..S::default() }",
        );
        check(
            "S { a: b, ..*c }",
            &[(5, "delete field a from struct S expression in f")],
            "S { a: (if on(0) { (*c).a } else { b }), ..*c }",
        );
    }
}
