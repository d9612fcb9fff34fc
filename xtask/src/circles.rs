//! Which modules of a crate import each other in a circle: a line that climbs stands in the wrong room, or two rooms are one.

use std::collections::{BTreeMap, BTreeSet};

/// The imports of a crate's outermost modules among each other. The root is one of them, with what it defines; what it only hands on is its
/// module's. Tests are left out.
#[derive(Default)]
pub(crate) struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    /// Reads the files of one crate: paths below its `src`, and texts.
    pub(crate) fn read(files: &[(&str, &str)]) -> Self {
        let outermost = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let modules: BTreeSet<String> = files.iter().map(|(path, _)| outermost(path)).collect();
        let (root_path, root_text) = files.iter().copied().find(|(path, _)| matches!(*path, "lib.rs" | "main.rs")).unwrap_or_default();
        let (root, root_items) = (outermost(root_path), items(&code(root_text)));
        let handed_on = handed_on(&root_items, &modules);
        let home = |name: &String| match handed_on.get(name) {
            _ if name.is_empty() => None,
            _ if modules.contains(name) => Some(name.clone()),
            Some(module) => module.clone(),
            None => Some(root.clone()),
        };
        let mut imports = Self::default();
        for (path, text) in files.iter().filter(|(path, _)| *path != root_path && !path.contains("tests")) {
            let from = outermost(path);
            let to: Vec<String> = named(&code(text)).iter().filter_map(home).filter(|to| *to != from).collect();
            imports.0.entry(from).or_default().extend(to);
        }
        for item in root_items.iter().filter(|item| !is_use(item)) {
            let paths = modules.iter().filter(|module| stands_in(item, &format!("{module}::")));
            let names = handed_on.iter().filter(|(name, _)| stands_in(item, name)).filter_map(|(_, module)| module.as_ref());
            imports.0.entry(root.clone()).or_default().extend(paths.chain(names).cloned());
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

/// Without comments, and without tests: modules in files of their own, and one at the end.
fn code(text: &str) -> String {
    let mut parts = text.split("#[cfg(test)]\nmod ");
    let mut code = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(|letter| !is_name(letter)).unwrap_or((part, ""));
        if part[name.len()..].starts_with(';') {
            code.push_str(rest);
        } else {
            break;
        }
    }
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

/// What stands in a root, declaration by declaration; without its modules, and without attributes.
fn items(code: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in code.lines().filter(|line| !line.starts_with('#')) {
        match items.last_mut() {
            Some(item) if line.is_empty() || line.starts_with([' ', '}', ')']) => item.extend(["\n", line]),
            _ => items.push(without_visibility(line).to_owned()),
        }
    }
    items.retain(|item| !(item.starts_with("mod ") && item.trim_end().ends_with(';')));
    items
}

fn without_visibility(item: &str) -> &str {
    ["pub(crate) ", "pub "].iter().find_map(|visibility| item.strip_prefix(visibility)).unwrap_or(item)
}

fn is_use(item: &str) -> bool {
    item.starts_with("use ")
}

/// Whether a path in `code` is `word` or begins with it.
fn stands_in(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(|letter| is_name(letter) || matches!(letter, ':' | '.')) && (word.ends_with(':') || !after.starts_with(is_name))
    })
}

/// Names that the root has from elsewhere, with the module; `None`: of another crate.
fn handed_on(root_items: &[String], modules: &BTreeSet<String>) -> BTreeMap<String, Option<String>> {
    let mut handed_on = BTreeMap::new();
    for used in root_items.iter().filter_map(|item| item.strip_prefix("use ")?.split(';').next()) {
        let from = used.split("::").next().unwrap_or_default().trim();
        let leaves = used.split(['{', '}', ',']).filter_map(|path| path.split([':', ' ']).rfind(|name| !name.trim().is_empty()));
        handed_on.extend(leaves.map(|leaf| (leaf.trim().to_owned(), modules.get(from).cloned())));
    }
    handed_on
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
            (
                "lib.rs",
                "#[cfg(test)]\nmod tests;\nmod a;\nmod b;\nmod c;\nmod d;\npub use c::{\n    Late,\n    deep::{self, One as Two},\n};\nuse a::X;",
            ),
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
        assert_eq!(circles(&[("lib.rs", "mod a;\n#[B]\npub use b::B;"), ("a.rs", "use crate::B;"), ("b.rs", "use other::a;")]), [""; 0]);
        assert_eq!(circles(&[("lib.rs", "mod a;\nmod b;\nstruct Root(b::B);"), ("a.rs", "use crate::Root;"), ("b.rs", "")]), [""; 0]);
        assert_eq!(circles(&[("lib.rs", "pub use other::Word;\nstruct Root(a::A);"), ("a.rs", "use crate::{\n    Word,\n};")]), [""; 0]);
        assert_eq!(circles(&[("main.rs", ""), ("a.rs", "use crate::b;"), ("b/mod.rs", ""), ("b/tests.rs", "use crate::a;")]), [""; 0]);
    }

    #[test]
    fn what_the_root_defines_is_of_the_root() {
        let a = ("a.rs", "use crate::Root;");
        for root in ["mod a;\npub struct Root {\n    a: a::A,\n}", "mod a;\npub use a::{A, C};\n\npub struct Root(A);"] {
            assert_eq!(circles(&[("lib.rs", root), a, ("b.rs", "use crate::a;")]), ["a lib"], "{root}");
        }
        assert_eq!(circles(&[("main.rs", "mod a;\nfn main() { a::run() }\nfn said() {}"), ("a.rs", "use crate::said;")]), ["a main"]);
    }

    #[test]
    fn two_circles_are_two() {
        let files = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;"), ("c.rs", "use crate::{a, d};"), ("d.rs", "use crate::c;")];
        assert_eq!(circles(&files), ["a b", "c d"]);
    }
}
