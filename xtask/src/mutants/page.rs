//! docs/mutants.md, made of the results and the explanations.

use super::{
    Outcome, PARTS, Part,
    results::{CAUGHT, File, MISSED, NOT_TRIED, Results, TIMEOUT, UNVIABLE},
    root,
};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

const BEGINNING: &str = "\
# Mutants: what no test notices

A mutant is the source with one thing changed: `>` for `>=`, a function that answers `true` at once. A test should notice. `cargo xtask mutants` tries those
that [cargo-mutants](https://mutants.rs) makes with the crate's own tests (not the simulation's, nor the journeys'), keeps what came of each in
`testdata/mutants/`, and writes this page:

```text
cargo xtask mutants                                           # all that has not been tried
cargo xtask mutants --shard 0/16 --package berth-workloads    # every 16th of the planners' mutants: a fair sample
```

How they are tried, and for how long it counts, is in [decision 21](decisions/0021-mutants-in-one-build.md). What is missed is given a test; or an
explanation in `testdata/mutants/explained.toml`, where nothing that anybody can observe is different (`cargo xtask mutants --page` puts it here).

*Noticed* is the share of the viable mutants tried that a test caught, or that ran until they were stopped; *with explained* adds those of which no test
can notice anything.
";

/// Why no test notices a mutant.
#[derive(Deserialize)]
struct Explanation {
    /// The path and what is changed, without the place: `crates/berth-workloads/src/lru.rs: replace > with >= in Lru::insert`.
    mutant: String,
    /// The line of the source where it begins.
    line: String,
    why: String,
}

#[derive(Default, Deserialize)]
struct Explanations {
    #[serde(default)]
    explained: Vec<Explanation>,
}

impl Explanations {
    fn of(&self, path: &str, place: &str, line: &str) -> Option<&Explanation> {
        let mutant = format!("{path}: {}", change(place));
        self.explained.iter().find(|explanation| explanation.mutant == mutant && explanation.line == line)
    }
}

/// `replace > with >= in f` of `2:9: replace > with >= in f`.
fn change(place: &str) -> &str {
    place.split_once(": ").map_or(place, |(_, change)| change)
}

/// How many came out how.
#[derive(Default)]
struct Count {
    all: usize,
    not_tried: usize,
    caught: usize,
    missed: usize,
    timeouts: usize,
    unviable: usize,
    explained: usize,
}

impl Count {
    fn add(&mut self, path: &str, file: &File, explanations: &Explanations) {
        let letters = |letter: char| file.outcomes.matches(letter).count();
        self.all += file.outcomes.len();
        self.not_tried += letters(NOT_TRIED);
        self.caught += letters(CAUGHT);
        self.missed += letters(MISSED);
        self.timeouts += letters(TIMEOUT);
        self.unviable += letters(UNVIABLE);
        self.explained += file.missed.iter().filter(|(place, line)| explanations.of(path, place, line).is_some()).count();
    }

    fn row(&self, name: &str) -> String {
        let Self { all, not_tried, caught, missed, timeouts, unviable, explained } = self;
        let viable = caught + missed + timeouts;
        let share = |of: usize| if viable == 0 { String::new() } else { format!("{:.1} %", 100.0 * of as f64 / viable as f64) };
        let (noticed, or_explained) = (share(caught + timeouts), share(caught + timeouts + explained));
        let tried = all - not_tried;
        format!("| {name} | {all} | {tried} | {caught} | {timeouts} | {missed} | {explained} | {unviable} | {noticed} | {or_explained} |\n")
    }
}

const COLUMNS: &str = "| mutants | tried | caught | ran too long | missed | of them explained | do not compile | noticed | with explained |
|---|---|---|---|---|---|---|---|---|---|
";

/// Writes the page.
pub(super) fn write() -> Outcome {
    let page = page()?;
    fs::write(file(), page).map_err(|error| format!("{}: {error}", file().display()))
}

fn page() -> Result<String, String> {
    let source = root().join("testdata/mutants/explained.toml");
    let text = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let explanations: Explanations = toml::from_str(&text).map_err(|error| format!("{}: {error}", source.display()))?;
    let parts: Vec<(&Part, Results)> = PARTS.iter().map(|part| Ok((part, Results::read(part)?))).collect::<Result<_, String>>()?;
    Ok(page_of(&parts, &explanations))
}

fn page_of(parts: &[(&Part, Results)], explanations: &Explanations) -> String {
    let mut page = format!("{BEGINNING}\n| crate {COLUMNS}");
    for (part, results) in parts {
        page += &count(&results.files, explanations).row(&format!("`{}`", part.package));
    }
    for (part, results) in parts.iter().filter(|(_, results)| !results.date.is_empty()) {
        let _ =
            write!(page, "\n## {}\n\nNewest outcome: {}, commit {:.12}.\n\n| module {COLUMNS}", part.package, results.date, results.commit);
        for (module, files) in modules(part, &results.files) {
            page += &count(files, explanations).row(&module);
        }
        page += &missed(&results.files, explanations);
    }
    page
}

fn count<'a>(files: impl IntoIterator<Item = (&'a String, &'a File)>, explanations: &Explanations) -> Count {
    let mut count = Count::default();
    files.into_iter().for_each(|(path, file)| count.add(path, file, explanations));
    count
}

/// The files by the folder or the file that they are of, below the part's.
fn modules<'a>(part: &Part, files: &'a BTreeMap<String, File>) -> BTreeMap<String, Vec<(&'a String, &'a File)>> {
    let mut modules: BTreeMap<String, Vec<(&String, &File)>> = BTreeMap::new();
    for (path, file) in files {
        let below = path.strip_prefix(part.folder).unwrap_or(path).trim_start_matches('/');
        let module = below.split('/').next().unwrap_or(below).trim_end_matches(".rs");
        modules.entry(module.to_owned()).or_default().push((path, file));
    }
    modules
}

fn missed(files: &BTreeMap<String, File>, explanations: &Explanations) -> String {
    let mut text = String::new();
    for (path, file) in files {
        for (place, line) in &file.missed {
            let number = place.split(':').next().unwrap_or_default();
            let why = explanations.of(path, place, line).map_or("**open**", |explanation| &explanation.why);
            let _ = writeln!(text, "- `{path}:{number}` {}, in `{line}`: {why}", code(change(place)));
        }
    }
    if text.is_empty() { "\nNone that was tried was missed.\n".to_owned() } else { format!("\nMissed:\n\n{text}") }
}

fn code(text: &str) -> String {
    // A double fence, since a change may have a backtick of its own.
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

fn file() -> PathBuf {
    root().join("docs/mutants.md")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_is_what_the_results_say() {
        let page = page().expect("results and explanations can be read");
        assert!(fs::read_to_string(file()).expect("it is there") == page, "run: cargo xtask mutants --page");
    }

    #[test]
    fn every_explanation_is_of_a_mutant_that_is_missed() {
        let text = fs::read_to_string(root().join("testdata/mutants/explained.toml")).expect("it is there");
        let explanations: Explanations = toml::from_str(&text).expect("explanations");
        let results: Vec<Results> = PARTS.iter().map(|part| Results::read(part).expect("results")).collect();
        for Explanation { mutant, line, .. } in &explanations.explained {
            let (path, change_of) = mutant.split_once(": ").expect("a path and a change");
            let file = results.iter().find_map(|results| results.files.get(path)).expect("results of its file");
            let is_missed = file.missed.iter().any(|(place, missed)| change(place) == change_of && missed == line);
            assert!(is_missed || file.outcomes.contains(NOT_TRIED), "nothing to explain: {mutant}, in {line}");
        }
    }

    #[test]
    fn an_explanation_counts_for_its_line_only() {
        let text = "[[explained]]\nmutant = 'c/src/x.rs: replace > with >= in f'\nline = 'a > b'\nwhy = 'they are never the same'\n";
        let explanations: Explanations = toml::from_str(text).expect("an explanation");
        let missed = json!({"2:9: replace > with >= in f": "a > b", "7:9: replace > with >= in f": "c > d"});
        let files = json!({"c/src/x.rs": {"source": "s", "outcomes": "cmmtu..", "missed": missed}});
        let results = json!({"tool": "t", "date": "2026-01-02", "commit": "0123456789abcdef", "tree": "t", "files": files});
        let results: Results = serde_json::from_value(results).expect("results");
        let part = Part { package: "c", folder: "c/src", without: &[], features: &[] };
        let page = page_of(&[(&part, results)], &explanations);
        assert!(page.contains("\n| `c` | 7 | 5 | 1 | 1 | 2 | 1 | 1 | 50.0 % | 75.0 % |\n"), "{page}");
        assert!(page.contains("Newest outcome: 2026-01-02, commit 0123456789ab."), "{page}");
        assert!(page.contains("- `c/src/x.rs:2` `replace > with >= in f`, in `a > b`: they are never the same\n"), "{page}");
        assert!(page.contains("- `c/src/x.rs:7` `replace > with >= in f`, in `c > d`: **open**\n"), "{page}");
    }
}
