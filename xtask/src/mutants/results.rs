//! What came of each mutant.

use super::{Outcome, Part, VERSION, root, weave::Change};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Letters of [`File::outcomes`].
pub(super) const CAUGHT: char = 'c';
pub(super) const MISSED: char = 'm';
/// The tests ran for too long, which somebody would notice.
pub(super) const TIMEOUT: char = 't';
/// It does not compile.
pub(super) const UNVIABLE: char = 'u';
pub(super) const NOT_TRIED: char = '.';

/// The files of cargo-mutants that name what came out so.
const LISTS: &[(&str, char)] = &[("caught.txt", CAUGHT), ("missed.txt", MISSED), ("timeout.txt", TIMEOUT), ("unviable.txt", UNVIABLE)];

/// One of `n` equal parts of all mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    k: usize,
    n: usize,
}

impl Shard {
    /// Whether the mutant of this number is of the shard. Neighbours are not of one shard, so that each shard is a sample of the whole.
    pub(super) fn contains(self, index: usize) -> bool {
        index % self.n == self.k
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        let parts = text.split_once('/').and_then(|(k, n)| Some((number(k)?, number(n)?)));
        let (k, n) = parts.filter(|(k, n)| k < n).ok_or("write K/N, with K from 0 to N - 1")?;
        Ok(Self { k, n })
    }
}

impl Display for Shard {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.k, self.n)
    }
}

/// One change of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// As the tool lists it: `crates/berth-workloads/src/lru.rs:12:9: replace > with >= in Lru::insert`.
    pub(super) name: String,
    /// How many characters of the name are the path.
    path_length: usize,
    /// Which of its file's it is.
    index: usize,
    /// The line of the source where it begins.
    line: String,
}

impl Mutant {
    /// Those of a list, one a line, of the files below `tree`.
    pub(super) fn all(list: &str, tree: &Path) -> Result<Vec<Self>, String> {
        let mut files: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        let mut mutants = Vec::new();
        for name in list.lines() {
            let no_mutant = || format!("not a mutant: {name}");
            let (path, place) = name.split_once(':').ok_or_else(no_mutant)?;
            let number: usize = place.split(':').next().and_then(|number| number.parse().ok()).ok_or_else(no_mutant)?;
            if !files.contains_key(path) {
                let text = fs::read_to_string(tree.join(path)).map_err(|error| format!("{path}: {error}"))?;
                files.insert(path, (0, text));
            }
            let (count, text) = files.get_mut(path).expect("it is there now");
            let line = text.lines().nth(number.saturating_sub(1)).unwrap_or_default().trim().to_owned();
            mutants.push(Self { name: name.to_owned(), path_length: path.len(), index: *count, line });
            *count += 1;
        }
        Ok(mutants)
    }

    /// Where it begins, and what is changed there; the number is the caller's to give.
    pub(super) fn change(&self) -> Option<Change<'_>> {
        let (place, what) = self.place().split_once(": ")?;
        let (line, column) = place.split_once(':')?;
        Some(Change { id: 0, place: (line.parse().ok()?, column.parse().ok()?), what })
    }

    pub(super) fn path(&self) -> &str {
        &self.name[..self.path_length]
    }

    /// `12:9: replace > with >= in Lru::insert`
    fn place(&self) -> &str {
        &self.name[self.path_length + 1..]
    }
}

/// What came of the mutants of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Results {
    tool: String,
    /// Of the newest outcome.
    pub(super) commit: String,
    pub(super) date: String,
    /// What git calls the crate that the mutants were missed by.
    tree: String,
    /// By path from the root.
    pub(super) files: BTreeMap<String, File>,
}

/// Of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct File {
    /// What stands for its source without tests: see [`digest`].
    source: String,
    /// A letter for each of its mutants, in their order.
    pub(super) outcomes: String,
    /// The places of those that were missed, each with the line of the source where it begins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) missed: BTreeMap<String, String>,
}

impl Results {
    pub(super) fn read(part: &Part) -> Result<Self, String> {
        let file = file(part);
        match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    pub(super) fn write(&self, part: &Part) -> Outcome {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(file(part), text + "\n").map_err(|error| format!("{}: {error}", file(part).display()))
    }

    /// What of this still counts for the mutants that there are now.
    pub(super) fn brought_up(mut self, mutants: &[Mutant], sources: &BTreeMap<String, String>, tree: &str) -> Self {
        let tool = format!("cargo-mutants {VERSION}");
        let is_same_crate = self.tool == tool && self.tree == tree;
        let mut files: BTreeMap<String, File> = BTreeMap::new();
        for mutant in mutants {
            files.entry(mutant.path().to_owned()).or_default().outcomes.push(NOT_TRIED);
        }
        for (path, file) in &mut files {
            file.source = sources.get(path).cloned().unwrap_or_default();
            let Some(old) = self.files.remove(path).filter(|old| self.tool == tool && old.source == file.source) else { continue };
            if is_same_crate {
                *file = old;
            } else {
                file.outcomes = old.outcomes.replace([MISSED, TIMEOUT], &NOT_TRIED.to_string());
            }
        }
        Self { tool, tree: tree.to_owned(), files, ..self }
    }

    /// Whether it is known what comes of the mutant.
    pub(super) fn is_known(&self, mutant: &Mutant) -> bool {
        self.files[mutant.path()].outcomes.chars().nth(mutant.index) != Some(NOT_TRIED)
    }

    /// Takes in what a run of the tool has found up to now, from its folder.
    pub(super) fn take_in(&mut self, mutants: &[&Mutant], found: &Path) {
        let by_name: BTreeMap<&str, &Mutant> = mutants.iter().map(|mutant| (mutant.name.as_str(), *mutant)).collect();
        for (list, outcome) in LISTS {
            // Before the first it is not there.
            let names = fs::read_to_string(found.join(list)).unwrap_or_default();
            names.lines().filter_map(|name| by_name.get(name)).for_each(|mutant| self.set(mutant, *outcome));
        }
    }

    /// Takes in what came of one mutant.
    pub(super) fn set(&mut self, mutant: &Mutant, outcome: char) {
        let file = self.files.get_mut(mutant.path()).expect("it was brought up for these mutants");
        file.outcomes.replace_range(mutant.index..=mutant.index, &outcome.to_string());
        if outcome == MISSED {
            file.missed.insert(mutant.place().to_owned(), mutant.line.clone());
        }
    }
}

/// Stands for the source of a file, without the module of tests at its end (64-bit FNV-1a).
pub(super) fn digest(text: &str) -> String {
    let source = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let hash = source.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

fn file(part: &Part) -> PathBuf {
    root().join("testdata/mutants").join(format!("{}.json", part.package))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "a/x.rs:1:5: replace f with ()\na/x.rs:2:9: replace > with >= in f\na/y.rs:7:1: replace g -> bool with true\n";

    /// With the files that the list is of.
    fn folder(of: &str) -> PathBuf {
        let folder = root().join("target/mutants-of-a-test").join(of);
        fs::create_dir_all(folder.join("a")).expect("a folder");
        fs::write(folder.join("a/x.rs"), "fn f() {\n    1 > 2\n}\n").expect("written");
        fs::write(folder.join("a/y.rs"), "").expect("written");
        folder
    }

    fn mutants(of: &str) -> Vec<Mutant> {
        Mutant::all(LIST, &folder(of)).expect("a list")
    }

    fn results(tree: &str, sources: [&str; 2], outcomes: [&str; 2]) -> Results {
        let file = |index: usize| File { source: sources[index].to_owned(), outcomes: outcomes[index].to_owned(), missed: BTreeMap::new() };
        Results {
            tool: format!("cargo-mutants {VERSION}"),
            tree: tree.to_owned(),
            files: BTreeMap::from([("a/x.rs".to_owned(), file(0)), ("a/y.rs".to_owned(), file(1))]),
            ..Results::default()
        }
    }

    fn sources(sources: [&str; 2]) -> BTreeMap<String, String> {
        ["a/x.rs", "a/y.rs"].into_iter().zip(sources).map(|(path, source)| (path.to_owned(), source.to_owned())).collect()
    }

    #[test]
    fn every_mutant_is_of_one_shard_and_neighbours_are_of_two() {
        let shards: Vec<Shard> = ["0/3", "1/3", "2/3"].map(|shard| shard.parse().expect("a shard")).to_vec();
        for index in 0..10 {
            let of: Vec<usize> = (0..3).filter(|shard| shards[*shard].contains(index)).collect();
            assert_eq!(of, [index % 3]);
        }
        for wrong in ["3/3", "1", "a/b", "0/0", "1/2/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_is_tried_again_of_the_same_crate() {
        let mutants = mutants("same");
        let kept = results("t", ["b1", "b2"], ["cm", "t"]);
        let now = kept.clone().brought_up(&mutants, &sources(["b1", "b2"]), "t");
        assert_eq!(now, kept);
        assert!(mutants.iter().all(|mutant| now.is_known(mutant)));
    }

    #[test]
    fn what_was_caught_counts_while_its_file_is_the_same_and_the_rest_while_the_crate_is() {
        let mutants = mutants("changed");
        let kept = results("t", ["b1", "b2"], ["cm", "c"]);
        assert_eq!(kept.clone().brought_up(&mutants, &sources(["b1", "new"]), "t2"), results("t2", ["b1", "new"], ["c.", "."]));
        let other_tool = Results { tool: "cargo-mutants 1.0.0".to_owned(), ..kept };
        assert_eq!(other_tool.brought_up(&mutants, &sources(["b1", "b2"]), "t"), results("t", ["b1", "b2"], ["..", "."]));
    }

    #[test]
    fn tests_at_the_end_of_a_file_are_not_its_source() {
        assert_eq!(digest("fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn a() {}\n}\n"), digest("fn f() {}\n\n#[cfg(test)]\nmod tests;\n"));
        assert_ne!(digest("fn f() {}\n"), digest("fn g() {}\n"));
    }

    #[test]
    fn outcomes_are_taken_from_the_lists_of_the_tool() {
        let mutants = mutants("lists");
        let found = folder("lists");
        fs::write(found.join("caught.txt"), "a/x.rs:1:5: replace f with ()\n").expect("written");
        fs::write(found.join("missed.txt"), "a/x.rs:2:9: replace > with >= in f\n").expect("written");
        let mut now = results("t", ["b1", "b2"], ["..", "."]);
        now.take_in(&mutants.iter().collect::<Vec<_>>(), &found);
        let mut expected = results("t", ["b1", "b2"], ["cm", "."]);
        let missed = BTreeMap::from([("2:9: replace > with >= in f".to_owned(), "1 > 2".to_owned())]);
        expected.files.get_mut("a/x.rs").expect("it is there").missed = missed;
        assert_eq!(now, expected);
    }
}
