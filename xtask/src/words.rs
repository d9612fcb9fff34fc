//! A deny list of words with replacements: `xtask/words.txt`.
//!
//! Each entry has the number of places that are still left. The numbers only go down, so that places are only removed.

pub(crate) mod text;

use crate::{
    run::{Outcome, output, print, root},
    workspace::texts,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    fs,
};
use text::{Word, markdown, parts, rust};

/// The deny list, from the root.
const LIST: &str = "xtask/words.txt";

/// Generated from messages that are documented elsewhere.
const GENERATED: &[&str] = &["crates/berth-etcd/src/messages.rs"];

/// How many places of one entry are printed if git does not know which ones are new.
const PRINTED_MAX: usize = 20;

/// What to do with the list.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lowers the numbers in xtask/words.txt to the places that are left. Never raises one.
    #[arg(long)]
    lower: bool,
    /// Prints each place of this entry. Changes nothing.
    #[arg(long, value_name = "WORD", conflicts_with = "lower")]
    list: Option<String>,
}

/// Fails if a word of the list has more places than the list allows, or fewer.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut list = List::read()?;
    let found = list.find(&texts());
    if let Some(word) = &options.list {
        return list.places(word, &found).map(|places| places.iter().for_each(|place| print(place)));
    }
    if options.lower {
        list.lower(&found);
        fs::write(root().join(LIST), list.to_string()).map_err(|error| format!("{LIST}: {error}"))?;
    }
    let faults = list.faults(&found, added_lines);
    faults.iter().for_each(|fault| print(fault));
    print(&format!("{} places are left", found.values().map(Vec::len).sum::<usize>()));
    if faults.is_empty() { Ok(()) } else { Err(format!("words: {} faults", faults.len())) }
}

/// What `cargo xtask words` reports about these files, for `cargo xtask tidy`.
pub(crate) fn faults(files: &BTreeMap<String, String>) -> Vec<String> {
    List::read().map_or_else(|error| vec![error], |list| list.faults(&list.find(files), added_lines))
}

/// The scope of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// Identifiers of Rust sources, and names of files and folders.
    Names,
    /// Definitions of structs, enums, unions and traits.
    Types,
    /// Comments and documentation in Rust sources.
    Comments,
    /// Markdown files.
    Documents,
}

impl Scope {
    const ALL: [Self; 4] = [Self::Names, Self::Types, Self::Comments, Self::Documents];

    fn as_str(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Types => "types",
            Self::Comments => "comments",
            Self::Documents => "documents",
        }
    }
}

/// The deny list.
struct List(Vec<Line>);

enum Line {
    Entry(Entry),
    /// An empty line, or one that begins with `#`.
    Note(String),
}

/// A line `WORD, WORD | SCOPE LEFT, SCOPE LEFT | REPLACEMENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// A word with an upper-case letter is a whole identifier, or a word in this spelling. Others match in any case, in names also as parts of an
    /// identifier. A word that ends with `*` matches words that begin so.
    words: Vec<String>,
    /// The number of places that are left, by scope.
    left: BTreeMap<Scope, usize>,
    replacement: String,
}

/// A place where an entry was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Location {
    path: String,
    line: usize,
}

/// Every place of each entry, by the number of its line in the list, from 1, and by scope.
type Found = BTreeMap<(usize, Scope), Vec<Location>>;

impl List {
    fn read() -> Result<Self, String> {
        Self::parse(&fs::read_to_string(root().join(LIST)).map_err(|error| format!("{LIST}: {error}"))?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let parse = |(index, line): (usize, &str)| match Entry::parse(line) {
            _ if line.is_empty() || line.starts_with('#') => Ok(Line::Note(line.to_owned())),
            Some(entry) => Ok(Line::Entry(entry)),
            None => Err(format!("{LIST}:{}: not WORD, … | SCOPE NUMBER, … | REPLACEMENT: {line}", index + 1)),
        };
        text.lines().enumerate().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// The entries by the numbers of their lines.
    fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.0.iter().enumerate().filter_map(|(index, line)| match line {
            Line::Entry(entry) => Some((index + 1, entry)),
            Line::Note(_) => None,
        })
    }

    /// Finds every place of each entry in the files, by path and text.
    fn find(&self, files: &BTreeMap<String, String>) -> Found {
        let index = |scope| Index::new(self.entries().filter(|(_, entry)| entry.left.contains_key(&scope)));
        let [names, types, comments, documents] = Scope::ALL.map(index);
        let mut found = Found::new();
        let mut add = |scope, path: &str, line, entries: &[usize]| {
            for entry in entries {
                found.entry((*entry, scope)).or_default().push(Location { path: path.to_owned(), line });
            }
        };
        for (path, text) in files.iter().filter(|(path, _)| !GENERATED.contains(&path.as_str())) {
            if path.ends_with(".rs") {
                let (identifiers, prose) = rust(text);
                for name in identifiers {
                    add(Scope::Names, path, name.line, &names.of_name(name.text));
                    if name.is_type {
                        add(Scope::Types, path, name.line, &types.whole(name.text));
                    }
                }
                comments.of_prose(&prose).for_each(|(entry, line)| add(Scope::Comments, path, line, &[entry]));
            } else if path.ends_with(".md") {
                documents.of_prose(&markdown(text)).for_each(|(entry, line)| add(Scope::Documents, path, line, &[entry]));
            }
        }
        for (path, name) in file_names(files) {
            add(Scope::Names, path, 1, &names.of_name(name));
        }
        found
    }

    /// The faults: a message for each place above what an entry allows, and one for each number that is too high.
    fn faults(&self, found: &Found, added: impl FnOnce() -> Added) -> Vec<String> {
        let counts =
            || self.entries().flat_map(|(number, entry)| entry.left.iter().map(move |(scope, left)| (number, entry, *scope, *left)));
        let of = |number, scope| found.get(&(number, scope)).map_or(&[][..], Vec::as_slice);
        let is_above = counts().any(|(number, _, scope, left)| left < of(number, scope).len());
        let added = if is_above { added() } else { Added::default() };
        let fault = |(number, entry, scope, left): (usize, &Entry, Scope, usize)| {
            let (places, words, scope) = (of(number, scope), entry.words.join(", "), scope.as_str());
            if places.len() < left {
                let now = places.len();
                return vec![format!("{LIST}:{number}: {now} {scope} are left, not {left}, of: {words}. Run `cargo xtask words --lower`")];
            }
            let sum = format!("{scope} with: {words}: {}; {LIST}:{number} allows {left}", places.len());
            let message = |place: &Location| format!("{}:{}: write: {} ({sum})", place.path, place.line, entry.replacement);
            if places.len() == left { Vec::new() } else { added.first(places).into_iter().map(message).collect() }
        };
        counts().flat_map(fault).collect()
    }

    fn lower(&mut self, found: &Found) {
        for (index, line) in self.0.iter_mut().enumerate() {
            let Line::Entry(entry) = line else { continue };
            for (scope, left) in &mut entry.left {
                *left = found.get(&(index + 1, *scope)).map_or(0, Vec::len).min(*left);
            }
        }
    }

    /// Each place of the entries with a word.
    fn places(&self, word: &str, found: &Found) -> Result<Vec<String>, String> {
        let has_word = |entry: &Entry| entry.words.iter().any(|of| of.trim_end_matches('*') == word.trim_end_matches('*'));
        let numbers: Vec<usize> = self.entries().filter(|(_, entry)| has_word(entry)).map(|(number, _)| number).collect();
        if numbers.is_empty() {
            return Err(format!("{LIST} has no entry {word:?}"));
        }
        let of = found.iter().filter(|((number, _), _)| numbers.contains(number));
        let line = |scope: Scope, place: &Location| format!("{}:{}: {}", place.path, place.line, scope.as_str());
        Ok(of.flat_map(|((_, scope), places)| places.iter().map(move |place| line(*scope, place))).collect())
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| match line {
            Line::Entry(entry) => writeln!(f, "{entry}"),
            Line::Note(note) => writeln!(f, "{note}"),
        })
    }
}

impl Entry {
    /// Returns `None` if the line is not an entry.
    fn parse(line: &str) -> Option<Self> {
        let [words, left, replacement] = line.split(" | ").collect::<Vec<_>>().try_into().ok()?;
        let scope = |name: &str| Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
        let count = |text: &str| text.split_once(' ').and_then(|(name, number)| Some((scope(name)?, number.parse().ok()?)));
        Some(Self {
            words: words.split(", ").map(str::to_owned).collect(),
            left: left.split(", ").map(count).collect::<Option<_>>()?,
            replacement: replacement.to_owned(),
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = String::new();
        for (scope, number) in &self.left {
            let comma = if left.is_empty() { "" } else { ", " };
            write!(left, "{comma}{} {number}", scope.as_str())?;
        }
        write!(f, "{} | {left} | {}", self.words.join(", "), self.replacement)
    }
}

/// The patterns of one scope, by the first byte in lower case, so that each word of the repository is compared with few.
struct Index<'l>(Vec<Vec<Pattern<'l>>>);

struct Pattern<'l> {
    entry: usize,
    /// The words that follow each other.
    words: Vec<&'l str>,
    /// Whether the last word is the beginning of one.
    is_prefix: bool,
    is_exact: bool,
}

impl<'l> Index<'l> {
    fn new(entries: impl Iterator<Item = (usize, &'l Entry)>) -> Self {
        let mut index = Self((0..=u8::MAX).map(|_| Vec::new()).collect());
        for (entry, text) in entries.flat_map(|(number, entry)| entry.words.iter().map(move |word| (number, word))) {
            let words = text.trim_end_matches('*').split(' ').collect();
            let is_exact = text.contains(char::is_uppercase);
            index.0[bucket(text)].push(Pattern { entry, words, is_prefix: text.ends_with('*'), is_exact });
        }
        index
    }

    /// The entries that have an identifier, or its parts.
    fn of_name(&self, name: &str) -> Vec<usize> {
        let parts = parts(name, 1);
        let of_parts = (0..parts.len()).flat_map(|at| self.beginning(&parts[at..]).filter(|pattern| !pattern.is_exact));
        of_parts.map(|pattern| pattern.entry).chain(self.whole(name)).collect()
    }

    /// The entries that have an identifier as a whole.
    fn whole(&self, name: &str) -> Vec<usize> {
        let patterns = self.0[bucket(name)].iter().filter(|pattern| pattern.is_exact && pattern.words == [name]);
        patterns.map(|pattern| pattern.entry).collect()
    }

    /// Each entry that the words have, with its line.
    fn of_prose(&self, words: &[Word<'_>]) -> impl Iterator<Item = (usize, usize)> {
        (0..words.len()).flat_map(move |at| self.beginning(&words[at..]).map(move |pattern| (pattern.entry, words[at].line)))
    }

    /// The patterns at the beginning of these words.
    fn beginning(&self, words: &[Word<'_>]) -> impl Iterator<Item = &Pattern<'l>> {
        let first = words.first().map_or("", |word| word.text);
        self.0[bucket(first)].iter().filter(|pattern| pattern.begins(words))
    }
}

impl Pattern<'_> {
    fn begins(&self, words: &[Word<'_>]) -> bool {
        let last = self.words.len() - 1;
        let same = |at: usize, text: &str| {
            let expected = self.words[at];
            let text = if self.is_prefix && at == last { text.get(..expected.len()).unwrap_or(text) } else { text };
            if self.is_exact { text == expected } else { text.eq_ignore_ascii_case(expected) }
        };
        last < words.len() && (0..=last).all(|at| same(at, words[at].text) && (at == 0 || words[at].follows))
    }
}

fn bucket(text: &str) -> usize {
    text.bytes().next().unwrap_or_default().to_ascii_lowercase().into()
}

/// The name of each source, each document and each of their folders, without the extension, and a path for it.
fn file_names(files: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    let mut names = BTreeMap::new();
    for path in files.keys().filter(|path| path.ends_with(".rs") || path.ends_with(".md")) {
        let stem = &path[..path.len() - ".rs".len()];
        for (at, _) in stem.match_indices('/').chain([(stem.len(), "")]) {
            names.entry(&stem[..at]).or_insert(path.as_str());
        }
    }
    names.into_iter().map(|(stem, path)| (path, stem.rsplit('/').next().unwrap_or_default())).collect()
}

/// Lines that are new since the last change of the list, by path. The numbers were right then, so a surplus place is in one of them.
#[derive(Default)]
struct Added {
    lines: BTreeMap<String, BTreeSet<usize>>,
    /// Files that git does not track.
    files: BTreeSet<String>,
}

impl Added {
    /// The new ones among these places, otherwise the first ones.
    fn first<'p>(&self, places: &'p [Location]) -> Vec<&'p Location> {
        let is_new = |Location { path, line }: &&Location| {
            self.files.contains(path) || self.lines.get(path).is_some_and(|lines| lines.contains(line))
        };
        let new: Vec<_> = places.iter().filter(is_new).collect();
        if new.is_empty() { places.iter().take(PRINTED_MAX).collect() } else { new }
    }

    /// Parses the output of `git diff --unified=0`.
    fn parse(diff: &str) -> Self {
        let mut added = Self::default();
        let mut path = "";
        for line in diff.lines() {
            if let Some(to) = line.strip_prefix("+++ b/") {
                path = to;
            } else if let Some(lines) = line.strip_prefix("@@ ").and_then(|hunk| hunk.split(' ').find_map(|part| part.strip_prefix('+'))) {
                let (from, length) = lines.split_once(',').unwrap_or((lines, "1"));
                let (from, length): (usize, usize) = (from.parse().unwrap_or(0), length.parse().unwrap_or(0));
                added.lines.entry(path.to_owned()).or_default().extend(from..from + length);
            }
        }
        added
    }
}

/// Queries git. Without it, no line counts as new.
fn added_lines() -> Added {
    let read = || -> Result<Added, String> {
        let commit = output("git", &["log", "-1", "--format=%H", "--", LIST])?;
        let diff = output("git", &["diff", "--unified=0", "--no-color", "--no-ext-diff", commit.trim()])?;
        let untracked = output("git", &["ls-files", "--others", "--exclude-standard"])?;
        Ok(Added { files: untracked.lines().map(str::to_owned).collect(), ..Added::parse(&diff) })
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    const ALL: &str = "look again, Looked | names 0, types 0, comments 0, documents 0 | requeue";

    fn list(text: &str) -> List {
        List::parse(text).expect("the list is well-formed")
    }

    /// The places of a list with one line, as `SCOPE LINE`.
    fn places(line: &str, path: &str, text: &str) -> Vec<String> {
        let found = list(line).find(&BTreeMap::from([(path.to_owned(), text.to_owned())]));
        let line = |scope: Scope, place: &Location| format!("{} {}", scope.as_str(), place.line);
        found.iter().flat_map(|((_, scope), places)| places.iter().map(move |place| line(*scope, place))).collect()
    }

    /// The faults of a list in one source: `added` are the lines that git would call new.
    fn faults(list: &List, text: &str, added: Range<usize>) -> Vec<String> {
        let found = list.find(&BTreeMap::from([("a.rs".to_owned(), text.to_owned())]));
        list.faults(&found, || Added { lines: BTreeMap::from([("a.rs".to_owned(), added.collect())]), ..Added::default() })
    }

    #[test]
    fn names_are_found_in_each_spelling_and_whole_ones_only_in_theirs() {
        let source = "fn look_again() {}\nstruct LookAgain;\nconst LOOK_AGAIN: u8 = 0;\nstruct Looked;\nfn looked() {}\nstruct LookedAt;";
        assert_eq!(places(ALL, "a.rs", source), ["names 1", "names 2", "names 3", "names 4", "types 4"]);
        assert_eq!(places(ALL, "b/look_again.rs", ""), ["names 1"]);
        assert_eq!(places(ALL, "look-again/b.md", ""), ["names 1"]);
    }

    #[test]
    fn comments_and_documents_are_found_by_words_that_follow_each_other() {
        assert_eq!(places(ALL, "a.rs", "/// Looks. Look\n/// again, Looked looked\nfn a() {}"), ["comments 1", "comments 2"]);
        assert_eq!(places(ALL, "a.md", "look, again\n\nLook again: look-again"), ["documents 3", "documents 3"]);
        assert_eq!(
            places("authoris* | comments 0 | authorize", "a.rs", "// Authorised, authorisation, author, unauthorised"),
            ["comments 1"; 2]
        );
    }

    #[test]
    fn strings_and_code_are_not_searched() {
        assert_eq!(places(ALL, "a.rs", "const A: &str = \"look again // look again\";"), [""; 0]);
        assert_eq!(places(ALL, "a.rs", "// `look again`\n// ```text\n// look again\n// ```"), [""; 0]);
        assert_eq!(places(ALL, "a.md", "`look again` [a](look-again.md)\n```\nlook again\n```"), [""; 0]);
        assert_eq!(places(ALL, GENERATED[0], "// look again"), [""; 0]);
    }

    #[test]
    fn a_scope_that_an_entry_does_not_have_is_not_searched() {
        assert_eq!(places("look | documents 0 | requeue", "look.rs", "fn look() {} // look"), [""; 0]);
    }

    #[test]
    fn a_number_that_is_exceeded_names_the_new_places_and_the_replacement() {
        let (list, text) = (list("# A note\nlook | comments 1 | requeue"), "// look\n// look\n// look");
        let sum = "(comments with: look: 3; xtask/words.txt:2 allows 1)";
        assert_eq!(faults(&list, text, 3..4), [format!("a.rs:3: write: requeue {sum}")]);
        assert_eq!(faults(&list, text, 8..9), [1, 2, 3].map(|line| format!("a.rs:{line}: write: requeue {sum}")));
    }

    #[test]
    fn a_number_that_is_too_high_is_a_fault_until_it_is_lowered() {
        let text = "# A note\n\nlook | names 0, comments 3 | requeue\n";
        let mut list = list(text);
        assert_eq!(faults(&list, "// look\nfn look() {}", 2..3).len(), 2);
        let advice = "xtask/words.txt:3: 1 comments are left, not 3, of: look. Run `cargo xtask words --lower`";
        assert_eq!(faults(&list, "// look", 1..1), [advice]);

        list.lower(&list.find(&BTreeMap::from([("a.rs".to_owned(), "// look\nfn look() {}".to_owned())])));
        assert_eq!(list.to_string(), text.replace('3', "1"), "names are not raised");
        assert_eq!(faults(&list, "// look", 1..1), [""; 0]);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_with_its_line() {
        for line in ["look", "look | names | requeue", "look | nouns 1 | requeue", "look | names -1 | requeue"] {
            let error = List::parse(&format!("# A note\n{line}")).err();
            assert_eq!(error, Some(format!("xtask/words.txt:2: not WORD, … | SCOPE NUMBER, … | REPLACEMENT: {line}")));
        }
    }

    #[test]
    fn the_list_of_the_repository_is_read_and_written_unchanged() {
        let text = fs::read_to_string(root().join(LIST)).expect("it is there");
        assert_eq!(list(&text).to_string(), text);
    }

    #[test]
    fn the_places_of_a_word_are_listed_by_any_word_of_its_entry() {
        let list = list("look, looks | comments 0 | requeue\nauthoris* | comments 0 | authorize");
        let found = list.find(&BTreeMap::from([("a.rs".to_owned(), "// looks\n// authorised".to_owned())]));
        assert_eq!(list.places("look", &found), Ok(vec!["a.rs:1: comments".to_owned()]));
        assert_eq!(list.places("authoris", &found), Ok(vec!["a.rs:2: comments".to_owned()]));
        assert_eq!(list.places("lo", &found), Err("xtask/words.txt has no entry \"lo\"".to_owned()));
    }

    #[test]
    fn added_lines_are_read_from_a_diff() {
        let diff = "--- a/a.rs\n+++ b/a.rs\n@@ -1,2 +3,2 @@ fn a()\n+b\n+c\n@@ -9 +12 @@\n+d\n--- a/e.md\n+++ b/e.md\n@@ -1 +0,0 @@\n";
        let Added { lines, .. } = Added::parse(diff);
        assert_eq!(lines["a.rs"], BTreeSet::from([3, 4, 12]));
        assert!(lines["e.md"].is_empty());
    }
}
