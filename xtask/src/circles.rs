//! Which modules of a crate import each other in a circle: a line that climbs stands in the wrong room, or two rooms are one.

use std::collections::{BTreeMap, BTreeSet};

/// The imports of a crate's outermost modules among each other. What stands in the root itself belongs to all of them and is left out, and so
/// are tests.
#[derive(Default)]
pub(crate) struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    /// Reads the files of one crate: paths below its `src`, and texts.
    pub(crate) fn read(files: &[(&str, &str)]) -> Self {
        let root = files.iter().find(|(path, _)| matches!(*path, "lib.rs" | "main.rs")).map_or("", |(_, text)| *text);
        let outermost = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let modules: BTreeSet<String> = files.iter().map(|(path, _)| outermost(path)).collect();
        let exported = exported(root, &modules);
        let mut imports = Self::default();
        for (path, text) in files.iter().filter(|(path, _)| !matches!(*path, "lib.rs" | "main.rs") && !path.contains("tests")) {
            let from = outermost(path);
            let named = named(&code(text));
            let to = named.iter().filter_map(|name| modules.get(name).or_else(|| exported.get(name)));
            let to = to.filter(|to| **to != from).cloned().collect::<Vec<_>>();
            imports.0.entry(from).or_default().extend(to);
        }
        imports
    }

    /// Each circle by the names of its modules.
    pub(crate) fn circles(&self) -> BTreeSet<String> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self.0.keys().map(|from| (from.as_str(), self.reached_from(from))).collect();
        let circle = |from: &str| {
            let back = reached[from].iter().filter(|to| reached.get(**to).is_some_and(|from_there| from_there.contains(from)));
            back.copied().collect::<Vec<_>>().join(" ")
        };
        reached.keys().map(|from| circle(from)).filter(|circle| !circle.is_empty()).collect()
    }

    fn reached_from<'a>(&'a self, from: &str) -> BTreeSet<&'a str> {
        let next = |from: &str| self.0.get(from).into_iter().flatten().map(String::as_str);
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<&str> = next(from).collect();
        while let Some(module) = waiting.pop() {
            if reached.insert(module) {
                waiting.extend(next(module));
            }
        }
        reached
    }
}

/// Without comments, and without tests at the end.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The first names of all paths that begin at the crate.
fn named(code: &str) -> BTreeSet<String> {
    let begins = |at: &usize| !code[..*at].ends_with(|letter: char| is_name(letter) || letter == '$');
    let paths = code.match_indices("crate::").map(|(at, _)| at).filter(begins).map(|at| &code[at + "crate::".len()..]);
    let first = |path: &str| path.trim_start().split(|letter| !is_name(letter)).next().unwrap_or_default().to_owned();
    paths.flat_map(|path| path.strip_prefix('{').map_or_else(|| vec![first(path)], |group| members(group).map(first).collect())).collect()
}

/// What stands between the commas of a group, whose opening brace is gone.
fn members(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let end = group.find(|letter| {
        depth += match letter {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth < 0
    });
    let mut depth = 0;
    group[..end.unwrap_or(group.len())].split(move |letter| {
        depth += match letter {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0 && letter == ','
    })
}

/// Names that the root has from its modules, with the module.
fn exported(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let code = code(root);
    let mut exported = BTreeMap::new();
    for used in code.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let from = used.split("::").next().unwrap_or_default().trim();
        if let Some(module) = modules.get(from) {
            let leaves = used.split(['{', '}', ',']).filter_map(|path| path.split([':', ' ']).rfind(|name| !name.trim().is_empty()));
            exported.extend(leaves.map(|leaf| (leaf.trim().to_owned(), module.clone())));
        }
    }
    exported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        Imports::read(files).circles().into_iter().collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found_however_far_around() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use c::{Late, deep::{self, One as Two}};\nuse a::X;"),
            ("a/mod.rs", "use crate::{\n    Error,\n    b::{Y, Z},\n};"),
            ("a/deep.rs", "// crate::d::Spoken\nuse super::X;"),
            ("b.rs", "fn f() -> crate::Two {}"),
            ("c.rs", "fn f() { crate::a::g() }\n#[cfg(test)]\nmod tests {\n    use crate::d::T;\n}"),
            ("d.rs", "use crate::{a, b, c};"),
        ];
        assert_eq!(circles(&files), ["a b c"]);
    }

    #[test]
    fn what_only_points_down_is_no_circle() {
        assert_eq!(
            circles(&[("lib.rs", "pub use b::B;\nstruct Root(a::A);"), ("a.rs", "use crate::{B, Root};"), ("b.rs", "use crate::Root;")]),
            [""; 0]
        );
        assert_eq!(circles(&[("main.rs", ""), ("a.rs", "use crate::b;"), ("b/mod.rs", ""), ("b/tests.rs", "use crate::a;")]), [""; 0]);
    }

    #[test]
    fn two_circles_are_two() {
        let files = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;"), ("c.rs", "use crate::{a, d};"), ("d.rs", "use crate::c;")];
        assert_eq!(circles(&files), ["a b", "c d"]);
    }
}
