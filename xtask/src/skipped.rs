//! Tests that could not run for want of a tool: a test that is passed over in silence is one that nobody misses when it breaks.
//!
//! A test notes itself as `berth_testing::skip` does.

use crate::run::{Outcome, is_ci, root, say};
use berth_testing::Tool;
use std::{collections::BTreeMap, env::consts::ARCH, fs, path::PathBuf};

/// What CI may lack too: they want more of a machine than tests may ask for.
const NOT_IN_CI: &[Tool] = &[Tool::Upstream, Tool::Etcd36, Tool::Namespaces];
/// What is published for these machines only.
const BUILT_FOR: &[(Tool, &str)] = &[(Tool::Helm3, "x86_64"), (Tool::Helm4, "x86_64")];

/// The file, empty.
pub(crate) fn begin() -> Result<PathBuf, String> {
    let file = root().join("target/skipped");
    fs::write(&file, "").map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// Prints what was skipped. In CI a tool must not be missing.
pub(crate) fn tell() -> Outcome {
    let noted = fs::read_to_string(root().join("target/skipped")).unwrap_or_default();
    summary(&noted).iter().for_each(|line| say(line));
    let lacking = lacking(&noted, ARCH);
    if is_ci() && !lacking.is_empty() {
        return Err(format!("CI is to have {}: tests were skipped", lacking.join(", ")));
    }
    Ok(())
}

/// A line for each tool, after one with the sum.
fn summary(noted: &str) -> Vec<String> {
    let mut tools: BTreeMap<&str, (Vec<&str>, &str)> = BTreeMap::new();
    for [tool, test, reason] in notes(noted) {
        let (tests, why) = tools.entry(tool).or_default();
        if !tests.contains(&test) {
            tests.push(test);
        }
        *why = reason;
    }
    let sum: usize = tools.values().map(|(tests, _)| tests.len()).sum();
    let each = tools.iter().map(|(tool, (tests, why))| format!("  {tool}: {} ({why}): {}", tests.len(), tests.join(", ")));
    [format!("{sum} tests were skipped")].into_iter().chain(each).collect()
}

/// The tools that CI should have had.
fn lacking<'n>(noted: &'n str, architecture: &str) -> Vec<&'n str> {
    let is_excused = |tool: &str| {
        let is = |named: &Tool| named.to_string() == tool;
        NOT_IN_CI.iter().any(is) || BUILT_FOR.iter().any(|(named, built_for)| is(named) && *built_for != architecture)
    };
    let mut tools: Vec<&str> = notes(noted).map(|[tool, ..]| tool).filter(|tool| !is_excused(tool)).collect();
    tools.sort_unstable();
    tools.dedup();
    tools
}

fn notes(noted: &str) -> impl Iterator<Item = [&str; 3]> {
    noted.lines().filter_map(|line| {
        let (tool, rest) = line.split_once('\t')?;
        let (test, reason) = rest.split_once('\t')?;
        Some([tool, test, reason])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTED: &str = "kubectl\ta\tit is not here\nhelm 3\tc\tno npm\nkubectl\tb\tit is not here\nkubectl\ta\tit is not here\n";

    #[test]
    fn each_test_is_counted_once_and_told_with_what_it_lacked() {
        let told = ["3 tests were skipped", "  helm 3: 1 (no npm): c", "  kubectl: 2 (it is not here): a, b"];
        assert_eq!(summary(NOTED), told);
        assert_eq!(summary(""), ["0 tests were skipped"]);
    }

    #[test]
    fn ci_lacks_only_what_it_may_lack_or_what_is_not_built_for_it() {
        assert_eq!(lacking(NOTED, "x86_64"), ["helm 3", "kubectl"]);
        assert_eq!(lacking(NOTED, "aarch64"), ["kubectl"]);
        assert!(lacking("etcd 3.6\ta\tnone\nupstream\tb\tnone\n", "x86_64").is_empty());
    }
}
