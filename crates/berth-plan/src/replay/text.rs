//! A replay as text for users: columns side by side. Text from a file can contain anything, so a caller that prints it to a terminal
//! escapes it.

use crate::{
    forecast::Peak,
    replay::column::{Autoscaled, Column, Ending, Facts, Replay, Rollout, Scaling, Sum, WorkloadColumn},
    text::{Shown, amount},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write},
    time::Duration,
};

/// How many workloads are listed individually. The rest is only in JSON.
const WORKLOADS_MAX: usize = 50;
/// How many times of changed sizes are listed for a workload. The rest is only in JSON.
const SIZES_MAX: usize = 20;
/// How many gaps, and how many rollouts' times, are listed.
const SHOWN_MAX: usize = 5;

/// The whole replay.
#[must_use]
pub fn text(replay: &Replay) -> String {
    let mut out = String::new();
    write_all(&mut out, replay).expect("a String takes all");
    out
}

/// Kind, namespace, name.
type WorkloadName<'w> = (&'w str, &'w str, &'w str);

/// A title, and a cell for each column.
type Row = (String, Vec<String>);

fn write_all(out: &mut String, replay: &Replay) -> fmt::Result {
    write_facts(out, &replay.recording, replay.recorded.workloads.len(), !replay.autoscaled.is_empty())?;
    let columns: Vec<&Column> = replay.columns().collect();
    let header = columns.iter().map(|column| match column.name.as_str() {
        name @ ("recorded" | "replayed") => name.to_uppercase(),
        name => name.to_owned(),
    });
    let mut rows: Vec<Row> = vec![(String::new(), header.collect())];
    let keys: BTreeSet<_> = columns.iter().flat_map(|column| column.workloads.iter().map(WorkloadColumn::key)).collect();
    let nothing_happened = |key: &WorkloadName<'_>| {
        columns.iter().flat_map(|column| &column.workloads).filter(|workload| workload.key() == *key).all(is_quiet)
    };
    let (quiet, told): (Vec<&WorkloadName<'_>>, Vec<&WorkloadName<'_>>) =
        keys.iter().partition(|key| keys.len() > 1 && nothing_happened(key));
    for key in told.iter().take(WORKLOADS_MAX) {
        let found: Vec<Option<&WorkloadColumn>> =
            columns.iter().map(|column| column.workloads.iter().find(|workload| workload.key() == **key)).collect();
        rows.push((format!("{} {}/{}", key.0, key.1, key.2), Vec::new()));
        rows.extend(of_workload(&found));
    }
    if keys.len() > 1 {
        rows.extend(of_all(&columns));
    }
    replay.autoscaled.iter().for_each(|autoscaled| rows.extend(of_autoscaled(autoscaled, &columns)));
    write_rows(out, &rows)?;
    if WORKLOADS_MAX < told.len() {
        writeln!(out, "{} more workloads; -o json prints all", told.len() - WORKLOADS_MAX)?;
    }
    if !quiet.is_empty() {
        writeln!(out, "Nothing happened to {}; -o json prints them.", counted(quiet.len(), "more workload"))?;
    }
    for column in columns {
        column.notes.iter().try_for_each(|note| writeln!(out, "Not replayed ({}): {note}.", column.name))?;
    }
    Ok(())
}

/// Whether nothing happened to it: no rollout, no change of size, and no deleted pod.
fn is_quiet(workload: &WorkloadColumn) -> bool {
    workload.rollouts.is_empty() && workload.wanted.len() <= 1 && workload.sum.terminating.value == 0
}

/// The sizes of a workload over time, and how they fit its load.
fn of_autoscaled(autoscaled: &Autoscaled, columns: &[&Column]) -> Vec<Row> {
    let Autoscaled { kind, namespace, name, autoscaler, instead_of, samples, load, columns: found } = autoscaled;
    let found: Vec<Option<&Scaling>> = columns.iter().map(|column| found.iter().find(|scaling| scaling.column == column.name)).collect();
    let instead = instead_of.as_ref().map(|other| format!(" instead of {other}")).unwrap_or_default();
    let peaks = load.iter().map(|(resource, peak)| format!("; {resource} at most {} at {}", amount(resource, peak.value), Shown(peak.at)));
    let title = format!("autoscaler {autoscaler}{instead}, of {kind} {namespace}/{name}: {}", counted(*samples, "sample"));
    let mut rows = vec![(title + &peaks.collect::<String>(), Vec::new())];
    let times: BTreeSet<Duration> = found.iter().flatten().flat_map(|scaling| scaling.sizes.iter().map(|size| size.at)).collect();
    for at in times.iter().take(SIZES_MAX) {
        let size = |scaling: &Scaling| {
            let last = scaling.sizes.iter().rev().find(|size| size.at <= *at);
            last.map_or_else(|| "-".to_owned(), |size| size.replicas.to_string())
        };
        rows.push((format!("  size at {}", Shown(*at)), cells(&found, size)));
    }
    if SIZES_MAX < times.len() {
        rows.push((format!("  {} more changes; -o json prints all", times.len() - SIZES_MAX), Vec::new()));
    }
    rows.push(("  changes of the size".to_owned(), cells(&found, |scaling| scaling.changes.to_string())));
    rows.push(("  pod-seconds".to_owned(), cells(&found, |scaling| format!("{:.0}", scaling.pod_seconds))));
    rows.push(("  time over target".to_owned(), cells(&found, |scaling| Shown(scaling.over_target).to_string())));
    rows
}

/// The total of all workloads.
fn of_all(columns: &[&Column]) -> Vec<Row> {
    let all: Vec<Option<&Sum>> = columns.iter().map(|column| Some(&column.sum)).collect();
    let done = |column: &&Column| {
        let rollouts = || column.workloads.iter().flat_map(|workload| &workload.rollouts);
        format!("{} of {}", rollouts().filter(|rollout| rollout.complete.is_some()).count(), rollouts().count())
    };
    let mut rows = vec![("all workloads together".to_owned(), Vec::new())];
    rows.extend(of_sums(&all));
    rows.push(("  rollouts complete".to_owned(), columns.iter().map(done).collect()));
    rows
}

fn write_facts(out: &mut String, facts: &Facts, workloads: usize, is_autoscaled: bool) -> fmt::Result {
    let Facts { at, lasts, controllers, because, changes, starts, stops, gaps, missing, torn, .. } = facts;
    let whose = if *controllers == "berth" { "berth's controllers" } else { "Kubernetes' own controllers" };
    writeln!(
        out,
        "Recorded from {at:.0} for {}, under {whose} ({because}): {}, {}.",
        Shown(*lasts),
        counted(workloads, "workload"),
        counted(*changes, "change")
    )?;
    writeln!(out, "Pods take as long as they did: {} and {} are known.", counted(*starts, "start"), counted(*stops, "stop"))?;
    if is_autoscaled {
        writeln!(
            out,
            "Assumes that the load of a workload does not depend on the number of its pods: ready pods share its recorded usage equally."
        )?;
    }
    for missed in gaps.iter().take(SHOWN_MAX) {
        writeln!(out, "GAP: {} were missed or late, for {} up to {}.", missed.plural, Shown(missed.lasted), Shown(missed.until))?;
    }
    if SHOWN_MAX < gaps.len() {
        writeln!(out, "GAP: {} more.", gaps.len() - SHOWN_MAX)?;
    }
    missing.iter().try_for_each(|plural| writeln!(out, "PARTIAL: {plural} could not be recorded."))?;
    torn.iter().try_for_each(|torn| writeln!(out, "TORN: {torn}. berth replayed the complete part."))?;
    writeln!(out)
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn write_rows(out: &mut String, rows: &[Row]) -> fmt::Result {
    let width = |cells: &dyn Fn(&Row) -> usize| rows.iter().map(cells).max().unwrap_or(0);
    let title = width(&|(title, cells)| if cells.is_empty() { 0 } else { title.chars().count() });
    let columns = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|column| width(&|(_, cells)| cells.get(column).map_or(0, |cell| cell.chars().count()))).collect();
    for (name, cells) in rows {
        let cells: String = cells.iter().zip(&widths).map(|(cell, width)| format!("   {cell:>width$}")).collect();
        writeln!(out, "{}", format!("{name:title$}{cells}").trim_end())?;
    }
    Ok(())
}

fn cells<T>(of: &[Option<&T>], cell: impl Fn(&T) -> String) -> Vec<String> {
    of.iter().map(|one| one.map_or_else(|| "-".to_owned(), &cell)).collect()
}

fn of_sums(sums: &[Option<&Sum>]) -> Vec<Row> {
    let at_most = |peak: &Peak<u32>| format!("{} at {}", peak.value, Shown(peak.at));
    let mut rows = vec![
        ("  pods at most".to_owned(), cells(sums, |sum| at_most(&sum.pods))),
        ("  terminating at most".to_owned(), cells(sums, |sum| at_most(&sum.terminating))),
    ];
    let resources: BTreeSet<&String> = sums.iter().flatten().flat_map(|sum| sum.resources.keys()).collect();
    for resource in resources {
        let cell = |sum: &Sum| {
            let peak = sum.resources.get(resource).copied().unwrap_or_default();
            format!("{} at {}", amount(resource, peak.value), Shown(peak.at))
        };
        rows.push((format!("  {resource} at most"), cells(sums, cell)));
    }
    rows.push(("  pod-minutes".to_owned(), cells(sums, |sum| format!("{:.1}", sum.pod_minutes))));
    rows
}

fn of_workload(found: &[Option<&WorkloadColumn>]) -> Vec<Row> {
    let mut rows = vec![("  policy".to_owned(), cells(found, |workload| workload.policy.clone()))];
    rows.retain(|(_, cells)| cells.iter().any(|cell| !cell.is_empty() && cell != "-"));
    let sums: Vec<Option<&Sum>> = found.iter().map(|workload| workload.map(|workload| &workload.sum)).collect();
    rows.extend(of_sums(&sums));
    if found.iter().flatten().any(|workload| workload.available.is_some()) {
        let least = |workload: &WorkloadColumn| {
            workload.available.map_or_else(|| "-".to_owned(), |least| format!("{} at {}", least.value, Shown(least.at)))
        };
        rows.push(("  available at least".to_owned(), cells(found, least)));
    }
    if found.iter().flatten().any(|workload| !workload.rollouts.is_empty()) {
        rows.push(("  time per rollout".to_owned(), cells(found, |workload| times(&workload.rollouts))));
        let gone = |workload: &WorkloadColumn| {
            let took = |rollout: &Rollout| Some(rollout.settled?.saturating_sub(rollout.at));
            workload.rollouts.iter().filter_map(took).max().map_or_else(|| "-".to_owned(), |longest| Shown(longest).to_string())
        };
        rows.push(("  until old pods deleted".to_owned(), cells(found, gone)));
    }
    rows
}

/// `12s, 14s`. For many rollouts, only the median and the maximum.
fn times(rollouts: &[Rollout]) -> String {
    let mut took: Vec<Duration> = rollouts.iter().filter_map(Rollout::took).collect();
    let mut ended: BTreeMap<&str, usize> = BTreeMap::new();
    for rollout in rollouts.iter().filter(|rollout| rollout.complete.is_none()) {
        let how = match rollout.is {
            Ending::Superseded => "superseded",
            Ending::Deleted => "deleted",
            Ending::First | Ending::Replacing | Ending::UnderWay => "not complete",
        };
        *ended.entry(how).or_default() += 1;
    }
    let mut parts: Vec<String> = match took.len() {
        0 => Vec::new(),
        1..=3 => took.iter().map(|took| Shown(*took).to_string()).collect(),
        count => {
            took.sort();
            vec![format!("{} (longest {}, of {count})", Shown(took[(count - 1) / 2]), Shown(took[count - 1]))]
        }
    };
    parts.extend(ended.into_iter().map(|(how, count)| format!("{count} {how}")));
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

impl WorkloadColumn {
    fn key(&self) -> (&str, &str, &str) {
        (self.kind, &self.namespace, &self.name)
    }
}
