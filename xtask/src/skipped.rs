//! Tests that could not run because a tool is missing: without a report, no developer would notice when a skipped test breaks.
//!
//! Tests record themselves by `berth_testing::skip`.

use crate::run::{Outcome, print, root};
use berth_testing::Tool;
use std::{collections::BTreeMap, env::consts::ARCH, fs, path::PathBuf};

/// Tools that are published only for these machines.
const BUILT_FOR: &[(Tool, &str)] = &[(Tool::Helm3, "x86_64"), (Tool::Helm4, "x86_64")];

/// Creates the empty file.
pub(crate) fn begin() -> Result<PathBuf, String> {
    let file = root().join("target/skipped");
    fs::write(&file, "").map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// Prints the skipped tests. Fails only for a tool that was installed for the tests: a tool that is not available for this machine is no
/// fault.
pub(crate) fn report(installed: &[Tool]) -> Outcome {
    let noted = fs::read_to_string(root().join("target/skipped")).unwrap_or_default();
    summary(&noted).iter().for_each(|line| print(line));
    let unnoticed = unnoticed(&noted, installed, ARCH);
    if unnoticed.is_empty() { Ok(()) } else { Err(format!("tests did not find what was installed for them: {}", unnoticed.join(", "))) }
}

/// A line for each tool, after one with the total.
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

/// The installed tools that tests did not use.
fn unnoticed<'n>(noted: &'n str, installed: &[Tool], architecture: &str) -> Vec<&'n str> {
    let is = |named: &Tool, tool: &str| named.to_string() == tool;
    let is_elsewhere = |tool: &str| BUILT_FOR.iter().any(|(named, built_for)| is(named, tool) && *built_for != architecture);
    let is_installed = |tool: &str| installed.iter().any(|named| is(named, tool)) && !is_elsewhere(tool);
    let mut tools: Vec<&str> = notes(noted).map(|[tool, ..]| tool).filter(|tool| is_installed(tool)).collect();
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
    fn each_test_is_counted_once_and_reported_with_its_missing_tool() {
        let told = ["3 tests were skipped", "  helm 3: 1 (no npm): c", "  kubectl: 2 (it is not here): a, b"];
        assert_eq!(summary(NOTED), told);
        assert_eq!(summary(""), ["0 tests were skipped"]);
    }

    #[test]
    fn only_what_was_installed_for_this_machine_must_not_be_skipped() {
        let installed = [Tool::Helm3, Tool::Kubectl];
        assert_eq!(unnoticed(NOTED, &installed, "x86_64"), ["helm 3", "kubectl"]);
        assert_eq!(unnoticed(NOTED, &installed, "aarch64"), ["kubectl"]);
        assert!(unnoticed(NOTED, &[Tool::Etcd], "x86_64").is_empty());
    }
}
