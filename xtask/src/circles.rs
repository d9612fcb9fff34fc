//! Finds modules of a crate that import each other in a cycle: an upward import is in the wrong file, or two files belong together.
//!
//! Each folder is a separate level: its files, with everything below them, must import each other in one direction. Imports between a
//! folder's own file and the files in it are no cycle: they are one module to the others. The root, with its own items, is one of the
//! outermost modules.

use crate::words::text::strings;
use std::collections::{BTreeMap, BTreeSet};

/// A module by its path. The root's is empty.
type Module = Vec<String>;

/// The imports between a crate's modules, by their common folder. A reexported item belongs to the module that it comes from. Tests are
/// left out.
#[derive(Default)]
pub(crate) struct Imports(BTreeMap<Module, BTreeMap<String, BTreeSet<String>>>);

impl Imports {
    /// Reads the files of one crate: paths below its `src`, and texts.
    pub(crate) fn read(files: &[(&str, &str)]) -> Self {
        let root = files.iter().map(|(path, _)| *path).find(|path| matches!(*path, "lib.rs" | "main.rs")).unwrap_or_default();
        let sources = Sources::of(files);
        let mut imports = Self::default();
        for (from, source) in sources.0.iter().filter(|(module, _)| !module.is_empty()) {
            for to in mentioned(&source.code).iter().filter_map(|path| sources.home(&absolute(from, path)?)) {
                imports.add(from, &to, root.trim_end_matches(".rs"));
            }
        }
        for to in sources.defining_root() {
            imports.add(&[root.trim_end_matches(".rs").to_owned()], &to, "");
        }
        imports
    }

    /// `root` is the root's name among the outermost modules.
    fn add(&mut self, from: &[String], to: &[String], root: &str) {
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let is_own_folder = shared == from.len() || (shared == to.len() && shared > 0);
        if !is_own_folder {
            let to = to.get(shared).cloned().unwrap_or_else(|| root.to_owned());
            self.0.entry(from[..shared].to_vec()).or_default().entry(from[shared].clone()).or_default().insert(to);
        }
    }

    /// Each cycle as the paths of its modules.
    pub(crate) fn circles(&self) -> BTreeSet<String> {
        let of_folder = |(folder, imports): (&Module, &BTreeMap<String, BTreeSet<String>>)| {
            let path = |name: &str| folder.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/");
            circles_of(imports).into_iter().map(|circle| circle.into_iter().map(path).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_folder).collect()
    }
}

/// The names in each cycle, in order.
fn circles_of(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports.keys().map(|from| (from.as_str(), reached_from(imports, from))).collect();
    let circle = |from: &str| {
        let back = reached[from].iter().filter(|to| reached.get(**to).is_some_and(|from_there| from_there.contains(from)));
        back.copied().collect::<Vec<_>>()
    };
    reached.keys().map(|from| circle(from)).filter(|circle| !circle.is_empty()).collect()
}

fn reached_from<'a>(imports: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let next = |from: &str| imports.get(from).into_iter().flatten().map(String::as_str);
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = next(from).collect();
    while let Some(module) = waiting.pop() {
        if reached.insert(module) {
            waiting.extend(next(module));
        }
    }
    reached
}

/// The files of a crate by their modules.
struct Sources(BTreeMap<Module, Source>);

struct Source {
    code: String,
    /// The names that the module imports by `use`, with their paths from the root. `None` for another crate.
    names: BTreeMap<String, Option<Module>>,
}

impl Sources {
    fn of(files: &[(&str, &str)]) -> Self {
        let codes: BTreeMap<Module, String> =
            files.iter().filter(|(path, _)| !path.contains("tests")).map(|(path, text)| (module(path), code(text))).collect();
        let names = |own: &Module, code: &str| {
            let leaves = uses(code).flat_map(leaves);
            let from_root = |path: &[String]| match path.first()?.as_str() {
                "crate" | "self" | "super" => absolute(own, path),
                child => {
                    Some([own.as_slice(), path].concat()).filter(|_| codes.contains_key(&[own.as_slice(), &[child.to_owned()]].concat()))
                }
            };
            leaves.map(|(path, alias)| (alias, from_root(&path))).collect()
        };
        Self(codes.iter().map(|(module, code)| (module.clone(), Source { names: names(module, code), code: code.clone() })).collect())
    }

    /// The module that defines the item at a path from the root. `None` if it is in another crate.
    fn home(&self, path: &[String]) -> Option<Module> {
        let mut module = Module::new();
        let mut rest = path.to_vec();
        // No chain of reexports has so many steps.
        for _ in 0..64 {
            let Some(name) = rest.first().cloned() else { break };
            let below = [module.as_slice(), std::slice::from_ref(&name)].concat();
            if self.0.contains_key(&below) {
                module = below;
                rest.remove(0);
                continue;
            }
            match self.0.get(&module).and_then(|source| source.names.get(&name)) {
                Some(None) => return None,
                Some(Some(elsewhere)) if *elsewhere != [module.as_slice(), &[name]].concat() => {
                    rest = [elsewhere.as_slice(), &rest[1..]].concat();
                    module.clear();
                }
                _ => break,
            }
        }
        Some(module)
    }

    /// The modules that the root's own items refer to.
    fn defining_root(&self) -> BTreeSet<Module> {
        let Some(root) = self.0.get(&Module::new()) else { return BTreeSet::new() };
        let items = items(&root.code);
        let own = || items.iter().filter(|item| !is_use(item));
        let outermost = self.0.keys().filter(|module| module.len() == 1);
        let by_path = outermost.filter(|module| own().any(|item| names_path(item, &format!("{}::", module[0])))).cloned();
        let by_name = root.names.iter().filter(|(name, _)| own().any(|item| names_path(item, name)));
        by_path.chain(by_name.filter_map(|(_, path)| self.home(path.as_ref()?))).filter(|module| !module.is_empty()).collect()
    }
}

/// `a/mod.rs` is the module `a`.
fn module(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| last == "mod" || (names.len() == 1 && matches!(last.as_str(), "lib" | "main"))) {
        names.pop();
    }
    names
}

/// The path from the root, for a path that begins with `crate`, `self` or `super` in a module. `None` if it leaves the crate.
fn absolute(own: &[String], path: &[String]) -> Option<Module> {
    let climbs = path.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&own[..0], &path[1..]),
        "self" => (own, &path[1..]),
        _ => (&own[..own.len().checked_sub(climbs)?], &path[climbs..]),
    };
    Some([base, rest].concat())
}

/// The code without comments, without the content of string literals, and without tests: separate test modules and the one at the end.
pub(crate) fn code(text: &str) -> String {
    with_strings(&without_strings(text))
}

/// As [`code`], with string literals.
pub(crate) fn with_strings(text: &str) -> String {
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

/// The code with empty string literals.
fn without_strings(code: &str) -> String {
    let mut left = String::with_capacity(code.len());
    let mut from = 0;
    for string in strings(code) {
        left.push_str(&code[from..string.start]);
        left.push_str("\"\"");
        from = string.end;
    }
    left + &code[from..]
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// What each `use` declares.
pub(crate) fn uses(code: &str) -> impl Iterator<Item = &str> {
    let begins = |at: &usize| {
        let before = code[..*at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before.starts_with("pub")
    };
    let starts = code.match_indices("use ").map(|(at, start)| (at, at + start.len())).filter(move |(at, _)| begins(at));
    starts.filter_map(|(_, end)| code[end..].split(';').next())
}

/// All paths that begin in this crate.
fn mentioned(code: &str) -> Vec<Module> {
    let begins = |at: &usize| !code[..*at].ends_with(|letter: char| is_name(letter) || matches!(letter, '$' | ':'));
    // In a module within a file, `super` is the file.
    let is_whole = !code.lines().any(|line| line.trim_start().trim_start_matches("pub ").starts_with("mod ") && line.ends_with('{'));
    let starts = ["crate::", "self::", "super::"].into_iter().filter(|start| is_whole || *start == "crate::");
    let places = starts.flat_map(|start| code.match_indices(start).map(|(at, _)| at)).filter(begins);
    places.flat_map(|at| leaves(&code[at..])).map(|(path, _)| path).filter(|path| path.len() > 1).collect()
}

/// The paths of an import tree, each with its local name: `a::{b, c as d}` is `a::b` as `b`, and `a::c` as `d`.
pub(crate) fn leaves(tree: &str) -> Vec<(Module, String)> {
    if let Some(group) = tree.strip_prefix('{') {
        return members(group).flat_map(|member| leaves(member.trim())).collect();
    }
    let end = tree.find(|letter| !is_name(letter)).unwrap_or(tree.len());
    let (name, rest) = (&tree[..end], tree[end..].trim_start());
    if name.is_empty() {
        return Vec::new();
    }
    match rest.strip_prefix("::") {
        Some(below) => {
            let mut all = leaves(below.trim_start());
            // `a::{self}` is `a`. A path may end with a token that is not a name, as `::<T>` and `::*`.
            if all.is_empty() {
                all.push((Module::new(), name.to_owned()));
            }
            let of_self = |(path, alias): (Module, String)| match path.as_slice() {
                [only] if only == "self" => (Module::new(), if alias == "self" { name.to_owned() } else { alias }),
                _ => (path, alias),
            };
            all.into_iter().map(of_self).map(|(path, alias)| ([vec![name.to_owned()], path].concat(), alias)).collect()
        }
        None => {
            let alias = rest.strip_prefix("as ").and_then(|alias| alias.split(|letter| !is_name(letter)).next());
            vec![(vec![name.to_owned()], alias.unwrap_or(name).to_owned())]
        }
    }
}

/// The members of a group, whose opening brace is already removed.
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

/// The declarations of a root, without its modules and without attributes.
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
fn names_path(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(|letter| is_name(letter) || matches!(letter, ':' | '.')) && (word.ends_with(':') || !after.starts_with(is_name))
    })
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
        assert_eq!(circles(&[("a.rs", "const A: &str = \"\nuse crate::b;\n\";"), ("b.rs", "use crate::a;")]), [""; 0], "a text");
        assert_eq!(circles(&[("a.rs", "const A: &str = r#\"crate::b::B\"#;"), ("b.rs", "use crate::a;")]), [""; 0], "a raw text");
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
    fn circles_in_a_folder_are_found_however_their_files_name_each_other() {
        let folder = [
            ("a/mod.rs", "mod b;\nmod c;\nmod d;\npub use c::{Handed, deep};\nuse d::X;"),
            ("a/b.rs", "use super::{Handed, d};"),
            ("a/c/mod.rs", ""),
            ("a/c/deep.rs", "fn f() { super::super::d::g() }"),
            ("a/d.rs", "use crate::{a::b::{self, Z}, o::O};"),
        ];
        assert_eq!(circles(&folder), ["a/b a/c a/d"]);
        assert_eq!(circles(&folder[..4]), [""; 0], "without the last arrow");
    }

    #[test]
    fn a_folder_and_its_files_are_no_circle() {
        let files = [
            ("a.rs", "mod b;\nuse b::B;\npub struct A;"),
            ("a/b.rs", "use super::A;\nuse std::fmt::{self, Write as _};\nuse crate::a::A as Same;"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }

    #[test]
    fn files_of_two_folders_that_import_each_other_are_a_circle_of_the_folders() {
        let files = [
            ("a/mod.rs", "mod x;"),
            ("a/x.rs", "use crate::b::y::Y;"),
            ("b/mod.rs", "mod y;\nmod z;"),
            ("b/y.rs", ""),
            ("b/z.rs", "use crate::a::x;"),
        ];
        assert_eq!(circles(&files), ["a b"]);
    }

    #[test]
    fn two_circles_are_two() {
        let files = [("a.rs", "use crate::b;"), ("b.rs", "use crate::a;"), ("c.rs", "use crate::{a, d};"), ("d.rs", "use crate::c;")];
        assert_eq!(circles(&files), ["a b", "c d"]);
    }
}
